"""Searching for parameters: what is drawn, what is kept, what is pruned, what is said."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tautrank as tr
from tautrank.commands.main import main
from tautrank.errors import DataError, MissingDependencyError, OptionError, TautrankError
from tautrank.experiments.configuration import Configuration, parameters_of
from tautrank.experiments.run_lock import RunLock
from tautrank.experiments.space import (
    SPACES,
    Choice,
    Uniform,
    WholeNumber,
    read_range,
    read_space,
    read_space_file,
    spaces_of,
)
from tautrank.experiments.tuning_plan import make_tuning_plan
from tautrank.experiments.tuning_search import Budget, SearchInterrupted
from tautrank.experiments.tuning_store import TuningStore
from tautrank.experiments.tuning_trial import DONE, FAILED, PRUNED, Outcome
from tautrank.report.tuning import Tuning
from tests import dying_workers

SPACE = {
    "num_leaves": ("int", 2, 15, "log"),
    "learning_rate": ("float", 0.001, 0.3, "log"),
    "loss.k": ("choice", 5, None),
}
SEARCH = {"space": SPACE, "n_trials": 9, "n_estimators": 20, "early_stopping_rounds": None, "n_jobs": 1, "seed": 3}


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=1).split([0.6, 0.4])


@pytest.fixture(scope="module")
def found(parts) -> Tuning:
    return tr.tune(*parts, **SEARCH)


def told(tuning: Tuning) -> list[tuple]:
    """All of a search that does not depend on the clock."""
    return [
        (t.number, t.configuration, t.outcome.state, t.outcome.score, t.outcome.trees, t.outcome.grown, t.outcome.error)
        for t in tuning.trials
    ]


# What is found


def test_the_best_trial_has_the_best_score_and_its_model_is_trained(parts, found):
    done = [t.outcome.score for t in found.trials if t.outcome.state == DONE]
    assert len(found.trials) == 9
    assert found.best_score == max(done)
    assert found.ranker.score(parts[1]) == found.best_score
    assert found.ranker.n_trees_ == found.best.outcome.trees
    again = tr.Ranker(**found.best_params).fit(parts[0])
    assert np.array_equal(again.predict(parts[1]), found.ranker.predict(parts[1]))


def test_every_trial_is_what_a_ranker_of_its_configuration_gives(parts, found):
    for trial in found.trials[:3]:
        given = {"n_estimators": 20, "random_state": 3, "n_jobs": 1, "verbose": 0}
        ranker = tr.Ranker(metric="ndcg@10", **parameters_of(trial.configuration, given)).fit(*parts)
        assert trial.outcome.score == max(ranker.evals_result_["valid"]["ndcg@10"])
        assert trial.outcome.trees == ranker.best_iteration_


def test_a_cost_is_minimised(parts):
    search = tr.tune(*parts, metric="arp", **{**SEARCH, "n_trials": 6})
    assert search.best_score == min(t.outcome.score for t in search.trials if t.outcome.state == DONE)
    scores = [t.outcome.score for t in search.ranked() if t.outcome.state == DONE]
    assert scores == sorted(scores)


def test_the_same_seed_searches_the_same_and_another_does_not(parts, found):
    assert told(tr.tune(*parts, **SEARCH)) == told(found)
    other = tr.tune(*parts, **{**SEARCH, "seed": 4})
    assert other.trials[0].configuration != found.trials[0].configuration
    assert len({str(t.configuration) for t in found.trials}) == len(found.trials)


def test_refit_on_all_data_learns_from_the_validation_data_too(parts):
    search = tr.tune(*parts, refit="train+valid", **{**SEARCH, "n_trials": 2})
    both = tr.RankingData.concat(parts, repeated="separate")
    assert search.ranker.n_trees_ == search.best.outcome.trees
    assert np.array_equal(search.ranker.predict(both), tr.Ranker(**search.best_params).fit(both).predict(both))
    assert tr.tune(*parts, refit=None, **{**SEARCH, "n_trials": 2}).ranker is None


def test_parameters_of_the_loss_and_of_langevin_reach_the_training(parts):
    space = {
        "loss.mu": ("choice", 7.5),
        "langevin.temperature": ("choice", 1e3),
        "langevin.shrink_rate": ("choice", 0.5),
        "min_child_samples": ("choice", 7),
    }
    search = tr.tune(*parts, loss="ndcg-loss2++(k=4)", space=space, n_trials=1, n_estimators=8, n_jobs=1)
    expected = tr.Ranker(
        loss=tr.loss("ndcg-loss2++", k=4, mu=7.5),
        langevin=tr.Langevin(1e3, 0.5),
        min_data_in_leaf=7,
        n_estimators=search.best.outcome.trees,
    ).fit(parts[0])
    assert np.array_equal(search.ranker.predict(parts[1]), expected.predict(parts[1]))
    assert search.ranker.langevin == tr.Langevin(1e3, 0.5)


def test_a_loss_can_be_chosen_and_takes_only_its_own_parameters(parts):
    losses = ["xendcg", "ndcg-loss2++", "lightgbm:lambdarank"]
    search = tr.tune(*parts, loss=losses, n_trials=12, n_estimators=3, n_jobs=1, prune=False)
    seen = {t.configuration.loss: set(t.configuration.values) for t in search.trials}
    assert set(seen) == set(losses)
    assert seen["xendcg"] - seen["lightgbm:lambdarank"] == {"loss.gamma", "loss.hessian"}
    assert seen["ndcg-loss2++"] - seen["lightgbm:lambdarank"] == {"loss.k", "loss.mu"}
    assert all(t.outcome.state == DONE for t in search.trials)


def test_ranges_of_one_name_may_differ_by_loss():
    plan = make_tuning_plan(["lambdarank", "listnet", "xendcg"], "ndcg@5", None, {})
    assert plan.key("lambdarank", "num_leaves") == "num_leaves"
    assert plan.key("lambdarank", "loss.k") == "loss.k"
    assert plan.key("xendcg", "loss.hessian") == "loss.hessian of xendcg"
    assert plan.key("listnet", "loss.hessian") == "loss.hessian of listnet"


def test_a_configuration_that_cannot_be_trained_fails_alone(parts):
    space = {"langevin.shrink_rate": ("choice", 1e-4, 20.0)}  # the second is too much for the learning rate
    search = tr.tune(*parts, space=space, n_trials=8, n_estimators=3, n_jobs=1)
    failed = [t for t in search.trials if t.outcome.state == FAILED]
    assert failed
    assert all(t.configuration.values["langevin.shrink_rate"] == 20.0 for t in failed)
    assert "expected less than 1" in failed[0].outcome.error
    assert search.ranked()[-1].outcome.state == FAILED
    with pytest.raises(DataError, match="found no trial that can be trained, trial 0 for one: langevin: shrink_rate"):
        tr.tune(*parts, space={"langevin.shrink_rate": ("choice", 20.0)}, n_trials=2, n_estimators=3)


def test_results_as_csv_and_plain_values(found, tmp_path):
    lines = found.to_csv(tmp_path / "trials.csv").splitlines()
    assert (tmp_path / "trials.csv").read_text().splitlines() == lines
    assert lines[0] == "trial,state,ndcg@10,trees,grown,seconds,learning_rate,num_leaves,loss.k,error"
    assert len(lines) == 10
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["best_score"] == found.best_score
    assert [t["score"] for t in plain["trials"]] == [t.outcome.score for t in found.trials]
    assert plain["best_configuration"].keys() == {"loss", *SPACE}
    assert f"best validation ndcg@10 {found.best_score:.4f}" in repr(found)


# Stopping and going on


def interrupt(monkeypatch, number: int, trees: int) -> None:
    """Press Ctrl-C in the midst of a trial."""
    judged = TuningStore.is_hopeless

    def pressed(self, trial, grown, best):
        if (trial, grown) == (number, trees):
            raise KeyboardInterrupt
        return judged(self, trial, grown, best)

    monkeypatch.setattr(TuningStore, "is_hopeless", pressed)


@pytest.mark.parametrize(("sampler", "file"), [("random", "tune.log"), ("tpe", "tune.db")])
def test_an_interrupted_search_goes_on_as_if_it_had_not_been(parts, tmp_path, monkeypatch, sampler, file):
    search = {**SEARCH, "sampler": sampler, "n_trials": 13, "refit": None}
    whole = tr.tune(*parts, **search)
    for number, trees in ((2, 3), (11, 4)):
        interrupt(monkeypatch, number, trees)
        with pytest.raises(SearchInterrupted) as stopped:
            tr.tune(*parts, storage=tmp_path / file, **search)
        assert [t.number for t in stopped.value.trials] == list(range(number))
        monkeypatch.undo()
    assert told(tr.tune(*parts, storage=tmp_path / file, **search)) == told(whole)
    assert [path.name for path in tmp_path.iterdir()] == [file]


KILLED = """
import os, signal, sys
import tautrank as tr
from tautrank.experiments.tuning_store import TuningStore

judged = TuningStore.is_hopeless

def killed(self, trial, grown, best):
    if (trial, grown) == (4, 7):
        os.kill(os.getpid(), signal.SIGKILL)
    return judged(self, trial, grown, best)

TuningStore.is_hopeless = killed
parts = tr.simulate.simulate_web_search(60, n_features=16, mean_length=10, seed=1).split([0.6, 0.4])
tr.tune(*parts, storage=sys.argv[1], **eval(sys.argv[2]))
"""


def test_a_killed_search_goes_on_as_if_it_had_not_been(parts, found, tmp_path):
    storage = tmp_path / "a search?.db"
    process = subprocess.run([sys.executable, "-c", KILLED, str(storage), repr(SEARCH)], capture_output=True)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    heard = []
    again = tr.tune(*parts, storage=storage, progress=lambda *what: heard.append(what), **SEARCH)
    assert heard[0] == (4, 9, "going on from 4 trials")
    assert told(again) == told(found)


def test_more_trials_begin_with_the_fewer(parts, found, tmp_path):
    storage = tmp_path / "tune.jsonl"
    tr.tune(*parts, storage=storage, **{**SEARCH, "n_trials": 4, "refit": None})
    with storage.open("ab") as file:
        file.write(b'{"op_code": 4, "torn')  # as the power went
    assert told(tr.tune(*parts, storage=storage, **SEARCH)) == told(found)
    fewer = tr.tune(*parts, storage=storage, **{**SEARCH, "n_trials": 6})
    assert told(fewer) == told(found)[:6]


def test_several_processes_find_the_same_and_one_that_dies_takes_its_trial_along_and_no_other(
    parts, tmp_path, monkeypatch
):
    search = {**SEARCH, "n_trials": 5, "refit": None}  # the first five are never pruned
    monkeypatch.setattr(
        "tautrank.experiments.tuning_search.run_tuning_trial", dying_workers.dies_of_the_second_tuning_trial
    )
    two = tr.tune(*parts, storage=tmp_path / "tune.db", workers=2, **{**search, "n_jobs": 2})
    monkeypatch.undo()
    whole = tr.tune(*parts, **search)
    assert told(two) == [trial for trial in told(whole) if trial[0] != 1]
    assert told(tr.tune(*parts, storage=tmp_path / "tune.db", **search)) == told(whole)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 4}, "holds another search, with seed 3; found 4, expected the same, or another file"),
        ({"loss": "xendcg", "space": "trees"}, "with loss lambdarank; found xendcg"),
        ({"metric": "map"}, "with metric ndcg@10; found map"),
        ({"sampler": "tpe"}, "with sampler random; found tpe"),
        ({"space": {**SPACE, "num_leaves": ("int", 2, 9)}}, "with space num_leaves int, 2, 15, log; found int, 2, 9"),
        ({"lambda_l1": 0.5}, "with parameter lambda_l1 none; found 0.5"),
        ({"prune": False}, "with pruning True; found False"),
    ],
)
def test_the_storage_of_another_search_is_refused(parts, tmp_path, changed, said):
    few = {**SEARCH, "n_trials": 1, "n_estimators": 1, "refit": None}
    tr.tune(*parts, storage=tmp_path / "tune.log", **few)
    with pytest.raises(DataError) as refused:
        tr.tune(*parts, storage=tmp_path / "tune.log", **{**few, **changed})
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'tune.log'}: ")


def test_the_storage_of_other_data_is_refused(parts, tmp_path):
    few = {**SEARCH, "n_trials": 1, "n_estimators": 1, "refit": None, "storage": tmp_path / "tune.log"}
    tr.tune(*parts, **few)
    with pytest.raises(DataError, match="holds another search, of other data; expected the same data"):
        tr.tune(parts[1], parts[0], **few)


def test_files_that_hold_something_else_are_refused_and_left_as_they_are(parts, tmp_path):
    few = {**SEARCH, "n_trials": 1, "n_estimators": 1}
    for name, said in (("text.db", "is no storage of Optuna's"), ("text.log", "is no journal of Optuna's")):
        (tmp_path / name).write_text("not a database\n" * 100)
        with pytest.raises(DataError, match=said):
            tr.tune(*parts, storage=tmp_path / name, **few)
        assert (tmp_path / name).read_text() == "not a database\n" * 100
    optuna.create_study(storage=f"sqlite:///{tmp_path / 'own.db'}", study_name="mine")
    with pytest.raises(DataError, match="holds the Optuna study 'mine'; expected a search of tautrank tune"):
        tr.tune(*parts, storage=tmp_path / "own.db", **few)


def test_one_run_at_a_time(parts, tmp_path):
    with RunLock(tmp_path / "tune.db"), pytest.raises(DataError, match=r"found another run of it .*; expected one at"):
        tr.tune(*parts, storage=tmp_path / "tune.db", **SEARCH)


def test_time_that_is_up_ends_a_search(parts, found, tmp_path, monkeypatch):
    """By a clock that goes on by a second whenever it is looked at: once a trial, and once a tree."""
    seconds = itertools.count()
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds), perf_counter=time.perf_counter)
    monkeypatch.setattr("tautrank.experiments.tuning_search.time", clock)
    monkeypatch.setattr("tautrank.experiments.tuning_trial.time", clock)
    search = {**SEARCH, "storage": tmp_path / "tune.log"}
    with pytest.raises(OptionError, match=r"timeout: found no trial that ended in 20 seconds; expected more time"):
        tr.tune(*parts, timeout=20, **search)
    heard = []
    two = tr.tune(*parts, timeout=55, progress=lambda *what: heard.append(what), **search)
    assert told(two) == told(found)[:2]
    assert [ended for ended, *_ in heard] == [0, 1, 2]
    monkeypatch.undo()
    assert told(tr.tune(*parts, **search)) == told(found)


def test_optuna_is_silent_and_left_as_it_was(parts, capfd):
    before = optuna.logging.get_verbosity()
    tr.tune(*parts, **{**SEARCH, "n_trials": 2})
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""
    assert optuna.logging.get_verbosity() == before


# Pruning


def synthetic(store, number: int, curve: list[float], every: int = 1) -> tuple[str, int]:
    """Run a trial that has this curve of best values, one a tree."""
    store.draw(number)
    for trees, best in enumerate(curve, 1):
        if trees % every == 0 and store.is_hopeless(number, trees, best):
            store.end(number, Outcome(PRUNED, best, trees, trees))
            return PRUNED, trees
    store.end(number, Outcome(DONE, curve[-1], len(curve), len(curve)))
    return DONE, len(curve)


def test_a_trial_is_pruned_when_it_is_below_the_median_and_not_before_a_quarter_of_the_trees():
    plan = make_tuning_plan("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 20})
    assert list(plan.checkpoints()) == list(range(1, 21))
    with TuningStore(None, plan, {}) as store:
        for number, level in enumerate((0.1, 0.2, 0.3, 0.4, 0.5)):  # the first five are all trained to the end
            assert synthetic(store, number, [level] * 20) == (DONE, 20)
        assert synthetic(store, 5, [0.29] * 20) == (PRUNED, 5)
        assert synthetic(store, 6, [0.31] * 20) == (DONE, 20)  # median of five: 0.3
        # Slow to start, and best in the end: the median of six is 0.305.
        assert synthetic(store, 7, [0.0] * 4 + [0.306] * 10 + [0.9] * 6) == (DONE, 20)
        assert [t.outcome.state for t in store.finished()] == [DONE] * 5 + [PRUNED, DONE, DONE]


def test_a_training_that_stopped_early_counts_with_its_best_at_later_trees():
    plan = make_tuning_plan("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 40})
    assert (plan.every, plan.warm_up) == (2, 10)
    with TuningStore(None, plan, {}) as store:
        for number in range(5):  # the last tree, after the last checkpoint, is the best
            assert synthetic(store, number, [0.3] * 10 + [0.5], plan.every) == (DONE, 11)
        assert synthetic(store, 5, [0.4] * 40, plan.every) == (PRUNED, 12)
        assert synthetic(store, 6, [0.6] * 10 + [0.4] * 30, plan.every) == (DONE, 40)  # its best so far is what counts


def test_a_trial_counts_when_all_of_it_is_written(tmp_path, monkeypatch):
    plan = make_tuning_plan("mse", "ndcg@5", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 4})
    tell, times = optuna.Study.tell, []

    def torn(self, *arguments, **more):
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return tell(self, *arguments, **more)

    monkeypatch.setattr(optuna.Study, "tell", torn)
    with pytest.raises(KeyboardInterrupt), TuningStore(tmp_path / "tune.log", plan, {}) as store:
        synthetic(store, 0, [0.5] * 4)
    with TuningStore(tmp_path / "tune.log", plan, {}) as store:
        assert store.finished() == []
        synthetic(store, 0, [0.5] * 4)
        assert [t.number for t in store.finished()] == [0]


def test_a_cost_is_pruned_above_the_median():
    plan = make_tuning_plan("mse", "arp", {"num_leaves": ("int", 2, 9)}, {"n_estimators": 20})
    with TuningStore(None, plan, {}) as store:
        for number in range(5):
            synthetic(store, number, [5.0] * 20)
        assert synthetic(store, 5, [5.1] * 20) == (PRUNED, 5)
        assert synthetic(store, 6, [4.9] * 20) == (DONE, 20)


def test_pruning_stops_the_hopeless_and_not_the_best(parts):
    # Trees of one column that says nothing cannot win.
    space = {"feature_fraction": ("choice", 1.0, 0.02), "num_leaves": ("int", 3, 7)}
    search = {**SEARCH, "space": space, "n_trials": 16, "refit": None}
    pruned, all_trained = tr.tune(*parts, **search), tr.tune(*parts, **{**search, "prune": False})
    stopped = [t for t in pruned.trials if t.outcome.state == PRUNED]
    assert stopped
    assert all(5 <= t.outcome.grown < 20 for t in stopped)
    assert pruned.best.configuration == all_trained.best.configuration
    assert pruned.best_score == all_trained.best_score
    assert not any(t.outcome.state == PRUNED for t in all_trained.trials)


# Spaces

plain_numbers = st.floats(-1e9, 1e9, allow_nan=False)
ranges = st.one_of(
    st.tuples(plain_numbers, plain_numbers).filter(lambda e: e[0] != e[1]).map(lambda e: Uniform(min(e), max(e))),
    st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
    .filter(lambda e: e[0] != e[1])
    .map(lambda e: Uniform(min(e), max(e), log=True)),
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.booleans())
    .filter(lambda e: e[0] != e[1])
    .map(lambda e: WholeNumber(min(e[:2]), max(e[:2]), e[2])),
    st.lists(st.one_of(st.none(), st.integers(2, 99), st.text(max_size=5)), min_size=1, max_size=4, unique=True).map(
        lambda values: Choice(tuple(values))
    ),
)


@given(ranges)
@settings(max_examples=50)
def test_ranges_survive_json(one):
    assert read_range("x", json.loads(json.dumps(one.to_plain()))) == one
    assert read_range("x", one) == one
    assert read_range("x", tuple(one.to_plain())) == one


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["float", "int", "choice", "log"])),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=8,
)


@given(st.one_of(anything, st.tuples(st.sampled_from(["float", "int", "choice"]), anything, anything, anything)))
@settings(max_examples=150)
def test_whatever_is_written_is_a_range_or_a_sentence(written):
    one, said = None, ""
    try:
        one = read_range("num_leaves", written)
    except OptionError as error:
        said = str(error)
    if one is None:
        assert "num_leaves" in said
        assert "expected" in said or "known" in said
        assert "\n" not in said
    else:
        assert read_range("num_leaves", one.to_plain()) == one
        assert isinstance(one, Choice) or one.low < one.high


@given(ranges, st.integers(0, 2**31 - 1), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_what_is_drawn_lies_in_its_range_and_depends_on_seed_and_number_alone(one, seed, number):
    plan = make_tuning_plan("mse", "ndcg", {"num_leaves": ("int", 2, 9)}, {}, seed=seed)
    object.__setattr__(plan, "spaces", ({"x": one},))
    drawn = []
    for before in ([], [number + 1]):
        with TuningStore(None, plan, {}) as store:
            for other in before:
                store.draw(other)
            drawn.append(store.draw(number).values["x"])
    assert drawn[0] == drawn[1]
    if isinstance(one, Choice):
        assert drawn[0] in one.values
    else:
        assert one.low <= drawn[0] <= one.high
        assert isinstance(drawn[0], int) == isinstance(one, WholeNumber)


def test_named_spaces_hold_for_every_loss():
    for name in SPACES:
        for loss in tr.losses.REGISTRY:
            (space,) = spaces_of([loss], name, {})
            assert {"learning_rate", "num_leaves"} <= set(space)
            Configuration(loss, {})
            for key, one in space.items():
                assert read_space({key: one.to_plain()}) == {key: one}


def test_the_space_of_the_stochasticrank_paper_is_its_appendix():
    space = SPACES["stochasticrank"](tr.loss("stochasticrank"))
    assert space == {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice((64, 128, 256, 512, 1024)),
        "reg_lambda": Choice((0.0,)),
        "langevin.shrink_rate": Uniform(1e-5, 1e-2, log=True),
        "langevin.temperature": Uniform(1e8, 1e11, log=True),
        "loss.mu": Uniform(1e-2, 10.0, log=True),
    }
    noisy = SPACES["stochasticrank"](tr.loss("lambdarank", noise="gumbel"))
    assert noisy["loss.strength"] == Uniform(0.0, 1.0)
    assert noisy["reg_lambda"] == Uniform(0.1, 10.0, log=True)
    assert "langevin.temperature" not in noisy


def test_a_space_with_a_name_leaves_out_what_is_given():
    (space,) = spaces_of(["ndcg-loss2++(k=5)"], None, {"learning_rate": 0.1})
    assert "learning_rate" not in space
    assert "loss.k" not in space
    assert "loss.mu" in space
    (without_ties,) = spaces_of(["stochasticrank(metric=dcg-rr)"], None, {})
    assert "loss.mu" not in without_ties


def test_how_often_rows_are_sampled_is_said_unless_the_user_says_it():
    tried = Configuration("mse", {"subsample": 0.5})
    assert parameters_of(tried, {})["subsample_freq"] == 1
    assert "subsample_freq" not in parameters_of(tried, {"bagging_freq": 3})
    searched = Configuration("mse", {"subsample": 0.5, "subsample_freq": 4})
    assert parameters_of(searched, {})["subsample_freq"] == 4


BAD = [
    ({"space": {"min_dat_in_leaf": ("int", 1, 9)}}, "unknown parameter of lightgbm 'min_dat_in_leaf'; did you mean 'min_data_in_leaf'?"),
    ({"space": {"loss.kk": ("int", 1, 9)}}, "unknown parameter of lambdarank: 'kk'; did you mean 'k'?"),
    ({"space": {"los.k": ("int", 1, 9)}}, "unknown parameter 'los.k'; did you mean 'loss.k'?"),
    ({"space": {"langevin.temprature": ("float", 1, 9)}}, "unknown parameter of langevin: 'temprature'; did you mean 'temperature'?"),
    ({"space": {"num_leaves": ("int", 9, 2)}}, "num_leaves: found a range from 9 to 2; expected the lower end first"),
    ({"space": {"num_leaves": ("int", 9, 9)}}, "num_leaves: found a range from 9 to itself"),
    ({"space": {"num_leaves": ("int", 1, 9)}}, "num_leaves: found 1; expected a whole number of at least 2"),
    ({"space": {"num_leaves": ("float", 2, 9)}}, "num_leaves: found 4.57"),
    ({"space": {"learning_rate": ("float", 0, 1, "log")}}, "learning_rate: found a logarithmic range from 0; expected it to start above 0"),
    ({"space": {"learning_rate": ("flaot", 0, 1)}}, "unknown kind of range for learning_rate, 'flaot'; did you mean 'float'?"),
    ({"space": {"learning_rate": 0.1}}, "learning_rate: found 0.1; expected ('float', low, high)"),
    ({"space": {"learning_rate": ("choice",)}}, "learning_rate: found a choice of nothing"),
    ({"space": {"learning_rate": ("choice", 1, 1.0)}}, "learning_rate: found 1.0 twice to choose from"),
    ({"space": {"loss.k": ("float", 1, 9)}}, "loss.k: found 3.94"),
    ({"space": {"loss.sigma": ("float", 0, 9)}}, "loss.sigma: found 0; expected a number above 0"),
    ({"space": {"loss": ("choice", "mse")}}, "loss: found in the space; expected a list of losses as loss"),
    ({"space": {"n_jobs": ("int", 1, 2)}}, "n_jobs: found in the space"),
    ({"space": {"num_leaves": ("int", 2, 9)}, "num_leaves": 5}, "num_leaves: found in the space and as a fixed parameter"),
    ({"loss": "lambdarank(k=5)", "space": {"loss.k": ("int", 1, 9)}}, "loss.k: found in the space and in lambdarank(k=5); expected it once"),
    ({"loss": "lightgbm:lambdarank", "space": {"loss.k": ("int", 1, 9)}}, "loss.k: found for lightgbm:lambdarank, which has no parameters here"),
    ({"loss": "lightgbm:lambdarank", "space": {"langevin.temperature": ("float", 1, 9)}}, "langevin.temperature: found for lightgbm:lambdarank; expected a loss of this library"),
    ({"space": {}}, "space: found nothing in it"),
    ({"space": "treees"}, "unknown space 'treees'; did you mean 'trees'?"),
    ({"space": 3}, "space: found 3; expected a name, or ranges by name"),
    ({"loss": []}, "loss: found none"),
    ({"loss": ["mse", "mse"]}, "loss: found mse twice"),
    ({"loss": "lamdarank"}, "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
    ({"metric": "ndgc"}, "unknown metric 'ndgc'"),
    ({"sampler": "grid"}, "unknown sampler 'grid' (known: random, tpe)"),
    ({"prune": "median"}, "prune: found 'median'; expected True or False"),
    ({"refit": "all"}, "unknown refit 'all' (known: train, train+valid)"),
    ({"n_trials": 0}, "n_trials: found 0; expected a whole number of at least 1"),
    ({"workers": 0}, "workers: found 0; expected a whole number of at least 1"),
    ({"timeout": 0}, "timeout: found 0; expected a number above 0"),
    ({"seed": -1}, "seed: found -1; expected a whole number of at least 0"),
    ({"min_dat_in_leaf": 3}, "unknown parameter of lightgbm 'min_dat_in_leaf'"),
    ({"n_estimators": 0}, "n_estimators: found 0; expected a whole number of at least 1"),
    ({"storage": "sqlite:///x.db"}, "storage: found the address 'sqlite:///x.db'; expected a file"),
    ({"storage": "/no/such/folder/x.db"}, "is in a folder that is not there; expected a file"),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "said"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_what_is_wrong_is_said_in_a_sentence(parts, given_, said):
    with pytest.raises(TautrankError) as error:
        tr.tune(*parts, **{"n_trials": 1, "n_estimators": 1, **given_})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_data_that_does_not_fit_is_refused_before_the_first_trial(parts):
    train, valid = parts
    wider = valid.with_n_features(20)
    nothing = tr.RankingData.from_arrays(np.zeros((4, 16)), np.zeros(4), group=[4])
    with pytest.raises(DataError, match="valid: found 20 features; expected 16, as in train"):
        tr.tune(train, wider, n_trials=1)
    with pytest.raises(DataError, match=r"valid: ndcg@10 skips every one of its 1 queries"):
        tr.tune(train, nothing, n_trials=1)
    with pytest.raises(DataError, match="valid: found ndarray; expected RankingData"):
        tr.tune(train, np.zeros(3), n_trials=1)


def test_without_optuna_it_says_what_to_install(parts, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(
        MissingDependencyError, match=r"tune needs Optuna; install it with: pip install 'tautrank\[tune"
    ):
        tr.tune(*parts)


def test_threads_are_shared_among_processes():
    assert Budget(workers=2, n_jobs=4).threads == 2
    assert Budget(workers=4, n_jobs=2).threads == 1


def test_space_files(tmp_path):
    file = tmp_path / "space.json"
    for text, said in (
        ("{", "is not JSON"),
        ("[1]", "found something else; expected an object such as"),
        ('{"a": ["int", 1, 2], "a": ["int", 1, 3]}', "found 'a' twice; expected every name once"),
        ('{"a": ["int", 3, 2]}', "a: found a range from 3 to 2"),
        ("{}", "found nothing in it"),
    ):
        file.write_text(text)
        with pytest.raises(TautrankError) as error:
            read_space_file(file)
        assert said in str(error.value)
        assert str(error.value).startswith(str(file))
    file.write_text('{"loss.k": ["choice", 5, null], "num_leaves": ["int", 2, 9, "log"]}')
    assert read_space_file(file) == {"loss.k": Choice((5, None)), "num_leaves": WholeNumber(2, 9, log=True)}
    with pytest.raises(DataError, match="cannot be read"):
        read_space_file(tmp_path / "none.json")


# The command line


@pytest.fixture
def folder(parts, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, part in zip(("train.txt", "vali.txt"), parts, strict=True):
        tr.write_letor(part, name)
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


COMMAND = ("tune", "train.txt", "--valid", "vali.txt", "--trees", "12", "--seed", "2", "-j", "1")


def test_the_command_finds_saves_shows_and_says_how_to_train_the_same(folder, parts, capsys):
    Path("space.json").write_text(
        json.dumps(
            {
                "num_leaves": ["int", 3, 12],
                "loss.mu": ["float", 1, 20, "log"],
                "subsample": ["float", 0.5, 0.9],
                "langevin.temperature": ["float", 1e3, 1e9, "log"],
            }
        )
    )
    words = (*COMMAND, "--loss", "ndcg-loss2++", "--space", "space.json", "--trials", "7", "--storage", "tune.db")
    words = (*words, "--zero-based")  # the command that trains the same must read the same
    assert run(*words, "--model", "best.taut") == 0
    printed = capsys.readouterr()
    assert "7/7 trial 6" in printed.err
    assert "7 trials: " in printed.out
    assert "best: loss=ndcg-loss2++ num_leaves=" in printed.out
    valid = tr.read_letor("vali.txt", zero_based=True)
    model = tr.Ranker.load("best.taut")
    assert f"best validation ndcg@10 {model.score(valid):.4f} in trial" in printed.out
    command = next(line for line in printed.out.splitlines() if line.startswith("The same model: "))
    words_to_train = shlex.split(command.removeprefix("The same model: "))
    assert words_to_train[:2] == ["tautrank", "train"]
    assert run(*(word if word != "best.taut" else "again.taut" for word in words_to_train[1:])) == 0
    again = tr.Ranker.load("again.taut")
    assert np.array_equal(again.predict(valid), model.predict(valid))
    capsys.readouterr()
    assert run(*words, "--json") == 0
    printed = capsys.readouterr()
    assert "7/7 going on from 7 trials" in printed.err
    assert json.loads(printed.out)["best_score"] == model.score(valid)
    assert run(*words, "--csv") == 0
    assert capsys.readouterr().out.startswith("trial,state,ndcg@10,")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--space", "spce.json"], "error: spce.json: cannot be read"),
        (["--space", "tree"], "unknown space 'tree'; did you mean 'trees'? (known: default, stochasticrank, trees; or a"),
        (["--timeout", "-1"], "timeout: found -1.0; expected a number above 0"),
        (["--trials", "0"], "n_trials: found 0"),
        (["--loss", "lamdarank"], "unknown loss 'lamdarank'"),
        (["--param", "num_leafs=3"], "unknown parameter of lightgbm 'num_leafs'"),
        (["--model", "no/best.taut"], "error: no/best.taut: cannot be written (No such file or directory)"),
        (["--storage", "vali.txt"], "vali.txt: is no storage of Optuna's"),
    ],
)  # fmt: skip
def test_bad_words_are_one_sentence_and_exit_code_2(folder, capsys, words, said):
    assert run(*COMMAND, *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(os.listdir()) == ["train.txt", "vali.txt"]


def test_ctrl_c_shows_the_best_so_far_and_how_to_go_on(folder):
    command = [sys.executable, "-m", "tautrank.commands.main", *COMMAND, "--trials", "5000", "--storage", "tune.log"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("2/5000") and not any(earlier.startswith("2/5000") for earlier in lines[:-1]):
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    said = "".join(lines)
    assert "best so far: loss=lambdarank" in said
    assert "of 5000 trials; the same command goes on from tune.log" in " ".join(said.split())
    assert "Traceback" not in said
    assert not Path("tune.log.lock").exists()
