"""Searching for parameters: what is found, kept, continued and refused."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
import types
from dataclasses import replace

import numpy as np
import optuna
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tautrank.experiments.proposer import Proposer
from tautrank.experiments.space import parameters_of
from tautrank.experiments.store import DONE, FAILED
from tautrank.experiments.trial import PRUNED
from tautrank.experiments.tune import SearchInterrupted
from tautrank.experiments.tuning import TriedConfiguration, Tuning
from tests import dying_workers
from tests.recorded_progress import RecordedProgress

SPACE = {
    "num_leaves": ("int", 2, 15, "log"),
    "learning_rate": ("float", 0.001, 0.3, "log"),
    "loss.k": ("choice", 5, None),
}
SEARCH = {
    "space": SPACE,
    "n_trials": 9,
    "n_estimators": 20,
    "early_stopping_rounds": None,
    "n_jobs": 1,
    "seed": 3,
}


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=1).split(
        [0.6, 0.4]
    )


@pytest.fixture(scope="module")
def found(parts) -> Tuning:
    return tr.tune(*parts, **SEARCH)


def timeless(tuning: Tuning) -> list[TriedConfiguration]:
    """The trials without what depends on the clock."""
    return [replace(trial, seconds=0.0) for trial in tuning.trials]


# What is found


def test_the_best_trial_has_the_best_score_and_its_model_is_trained(parts, found):
    assert len(found.trials) == 9
    assert found.best_score == max(t.score for t in found.trials if t.state == DONE)
    assert found.ranker.score(parts[1]) == found.best_score
    assert found.ranker.n_trees_ == found.best.trees
    again = tr.Ranker(**found.best_params).fit(parts[0])
    assert np.array_equal(again.predict(parts[1]), found.ranker.predict(parts[1]))


def test_every_trial_is_what_a_ranker_of_its_configuration_gives(parts, found):
    for trial in found.trials[:3]:
        given = {"n_estimators": 20, "random_state": 3, "n_jobs": 1, "verbose": 0}
        ranker = tr.Ranker(metric="ndcg@10", **parameters_of(trial.configuration, given)).fit(
            *parts
        )
        assert trial.score == max(ranker.evals_result_["valid"]["ndcg@10"])
        assert trial.trees == ranker.best_iteration_


def test_a_cost_is_minimised_and_another_seed_searches_elsewhere(parts, found):
    search = tr.tune(
        *parts, metric="arp", **{**SEARCH, "n_trials": 6, "seed": 4, "final_fit": None}
    )
    assert len({str(t.configuration) for t in (*found.trials, *search.trials)}) == 15
    scores = [t.score for t in search.ranked() if t.state == DONE]
    assert search.best_score == min(scores)
    assert scores == sorted(scores)


def test_the_final_fit_on_all_data_learns_from_the_validation_data_too(parts):
    search = tr.tune(*parts, final_fit="train+valid", **{**SEARCH, "n_trials": 2})
    both = tr.RankingData.concat(parts, repeated="separate")
    assert search.ranker.n_trees_ == search.best.trees
    assert np.array_equal(
        search.ranker.predict(both), tr.Ranker(**search.best_params).fit(both).predict(both)
    )


def test_parameters_of_the_loss_and_of_langevin_reach_the_training(parts):
    space = {
        "loss.mu": ("choice", 7.5),
        "langevin.temperature": ("choice", 1e3),
        "langevin.shrink_rate": ("choice", 0.5),
        "min_child_samples": ("choice", 7),
    }
    search = tr.tune(
        *parts, loss="ndcg-loss2++(k=4)", space=space, n_trials=1, n_estimators=8, n_jobs=1
    )
    expected = tr.Ranker(
        loss=tr.loss("ndcg-loss2++", k=4, mu=7.5),
        langevin=tr.Langevin(1e3, 0.5),
        min_data_in_leaf=7,
        n_estimators=search.best.trees,
    ).fit(parts[0])
    assert np.array_equal(search.ranker.predict(parts[1]), expected.predict(parts[1]))
    assert search.ranker.langevin == tr.Langevin(1e3, 0.5)


def test_a_loss_can_be_chosen_and_takes_only_its_own_parameters(parts):
    losses = ["xendcg", "ndcg-loss2++", "lightgbm:lambdarank"]
    search = tr.tune(*parts, loss=losses, n_trials=12, n_estimators=3, n_jobs=1, prune=False)
    seen = {t.configuration["loss"]: set(t.configuration) for t in search.trials}
    assert set(seen) == set(losses)
    assert seen["xendcg"] - seen["lightgbm:lambdarank"] == {"loss.gamma", "loss.hessian"}
    assert seen["ndcg-loss2++"] - seen["lightgbm:lambdarank"] == {"loss.k", "loss.mu"}
    assert all(t.state == DONE for t in search.trials)


def test_a_configuration_that_cannot_be_trained_fails_alone(parts):
    # The second value is too large for the learning rate.
    search = {
        "space": {"langevin.shrink_rate": ("choice", 1e-4, 40.0)},
        "n_estimators": 3,
        "n_jobs": 1,
    }
    result = tr.tune(*parts, n_trials=8, **search)
    failed = [t for t in result.trials if t.state == FAILED]
    assert failed
    assert all(t.configuration["langevin.shrink_rate"] == 40.0 for t in failed)
    assert "expected less than 1" in failed[0].error
    assert result.ranked()[-1].state == FAILED
    with pytest.raises(
        DataError, match="found no trial that can be trained, trial 0 failed: langevin: shrink_rate"
    ):
        tr.tune(
            *parts, n_trials=2, **{**search, "space": {"langevin.shrink_rate": ("choice", 40.0)}}
        )


def test_pruning_stops_hopeless_trials_and_not_the_best(parts):
    # Trees of one column that says nothing cannot win.
    space = {"feature_fraction": ("choice", 1.0, 0.02), "num_leaves": ("int", 3, 7)}
    search = {**SEARCH, "space": space, "n_trials": 16, "final_fit": None}
    pruned, complete = tr.tune(*parts, **search), tr.tune(*parts, **{**search, "prune": False})
    stopped = [t for t in pruned.trials if t.state == PRUNED]
    assert stopped
    assert all(5 <= t.grown < 20 for t in stopped)
    assert (pruned.best_configuration, pruned.best_score) == (
        complete.best_configuration,
        complete.best_score,
    )
    assert not any(t.state == PRUNED for t in complete.trials)


# Stopping and continuing


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_an_interrupted_search_continues_as_if_it_had_not_been(
    parts, tmp_path, monkeypatch, sampler
):
    search = {**SEARCH, "sampler": sampler, "n_trials": 13, "final_fit": None}
    whole = tr.tune(*parts, **search)
    judged = Proposer.falls_behind
    for number, at in ((2, 3), (11, 4)):

        def press_ctrl_c(self, trial, told, when=(number, at)):
            if (trial.number, told[0]) == when:
                raise KeyboardInterrupt
            return judged(self, trial, told)

        monkeypatch.setattr(Proposer, "falls_behind", press_ctrl_c)
        with pytest.raises(SearchInterrupted) as stopped:
            tr.tune(*parts, store=tmp_path / "tune.db", **search)
        assert [t.number for t in stopped.value.result.trials] == list(range(number))
        monkeypatch.undo()
    assert timeless(tr.tune(*parts, store=tmp_path / "tune.db", **search)) == timeless(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["tune.db"]
    assert whole.ranker is None


KILLED = """
import os, signal, sys
import tautrank as tr
from tautrank.experiments.proposer import Proposer

judged = Proposer.falls_behind

def killed(self, trial, told):
    if (trial.number, told[0]) == (4, 7):
        os.kill(os.getpid(), signal.SIGKILL)
    return judged(self, trial, told)

Proposer.falls_behind = killed
parts = tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=1).split([0.6, 0.4])
tr.tune(*parts, store=sys.argv[1], **eval(sys.argv[2]))
"""


def test_a_killed_search_continues_as_if_it_had_not_been(parts, found, tmp_path):
    store = tmp_path / "a search?.db"
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(store), repr(SEARCH)], capture_output=True
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    progress = RecordedProgress()
    again = tr.tune(*parts, store=store, progress=progress, **SEARCH)
    assert progress.updates[0] == (4, 9, "continuing after 4 trials")
    assert timeless(again) == timeless(found)
    fewer = tr.tune(*parts, store=store, **{**SEARCH, "n_trials": 6})
    assert timeless(fewer) == timeless(found)[:6]


def test_several_processes_find_the_same_and_one_that_dies_loses_only_its_trial(
    parts, tmp_path, monkeypatch
):
    search = {**SEARCH, "n_trials": 5, "final_fit": None}  # the first five are never pruned
    store = tmp_path / "tune.db"
    with monkeypatch.context() as patch:
        patch.setattr(
            "tautrank.experiments.tune.run_trial",
            dying_workers.dies_of_the_second_tuning_trial,
        )
        two = tr.tune(*parts, store=store, workers=2, **{**search, "n_jobs": 2})
    whole = timeless(tr.tune(*parts, **search))
    assert timeless(two) == [trial for trial in whole if trial.number != 1]
    assert timeless(tr.tune(*parts, store=store, **search)) == whole


FEW = {**SEARCH, "n_trials": 1, "n_estimators": 1, "final_fit": None}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"loss": "xendcg", "space": "trees"},
            "holds another search, with loss lambdarank; found xendcg, expected the",
        ),
        ({"metric": "map"}, "with metric ndcg@10; found map"),
        ({"sampler": "tpe"}, "with sampler random; found tpe"),
        (
            {"space": {**SPACE, "num_leaves": ("int", 2, 9)}},
            "with space num_leaves int, 2, 15, log; found int, 2, 9",
        ),
        ({"lambda_l1": 0.5}, "with parameter lambda_l1 none; found 0.5"),
        ({"prune": False}, "with pruning True; found False"),
    ],
)
def test_the_store_of_another_search_is_refused(parts, tmp_path, changed, said):
    store = tmp_path / "tune.db"
    tr.tune(*parts, store=store, **FEW)
    with pytest.raises(DataError) as refused:
        tr.tune(*parts, store=store, **{**FEW, **changed})
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{store}: ")
    with pytest.raises(
        DataError, match="holds another search, on other data; expected the same data"
    ):
        tr.tune(parts[1], parts[0], store=store, **FEW)


def test_files_that_hold_something_else_are_refused_and_left_as_they_are(parts, tmp_path):
    again = r"a search that version 0\.1\.0 stored has to start again in another file"
    optuna.create_study(storage=f"sqlite:///{tmp_path / 'optuna.db'}")
    (tmp_path / "optuna.log").write_text(
        '{"op_code": 0, "worker_id": "1", "study_name": "tautrank"}\n'
    )
    for file, said in (
        ("optuna.db", f"is not a store of trials; expected one that tautrank made .{again}"),
        ("optuna.log", f"is not a whole SQLite file .*; expected a store of trials .{again}"),
    ):
        before = (tmp_path / file).read_bytes()
        with pytest.raises(DataError, match=said):
            tr.tune(*parts, store=tmp_path / file, **FEW)
        assert (tmp_path / file).read_bytes() == before


def test_a_time_limit_ends_a_search(parts, found, tmp_path, monkeypatch):
    """By a clock that advances by a second whenever it is read: once per trial, and once per
    tree.
    """
    seconds = itertools.count()
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds), perf_counter=time.perf_counter)
    for module in ("tune", "proposer", "trial"):
        monkeypatch.setattr(f"tautrank.experiments.{module}.time", clock)
    search = {**SEARCH, "store": tmp_path / "tune.db"}
    with pytest.raises(
        OptionError, match=r"timeout: found no trial that ended in 20 seconds; expected more time"
    ):
        tr.tune(*parts, timeout=20, **search)
    progress = RecordedProgress()
    two = tr.tune(*parts, timeout=55, progress=progress, **search)
    assert timeless(two) == timeless(found)[:2]
    assert progress.done == [0, 1, 2]
    monkeypatch.undo()
    assert timeless(tr.tune(*parts, **search)) == timeless(found)
