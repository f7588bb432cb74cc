"""What a trial computes: the same as by hand, the same everywhere."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Splits
from tautrank.experiments.changes import Change, apply_changes
from tautrank.experiments.plan import Budget, Measurement, System
from tautrank.experiments.space import Choice, Search, Uniform
from tautrank.experiments.trial import run_trial
from tautrank.json_values import canonical
from tautrank.papers.plan import make_plan
from tautrank.papers.run import run_study
from tautrank.papers.study import Study
from tests.study_examples import DATA, SMALL, TINY, pool, trial_of


def test_a_trial_is_the_training_one_would_do_by_hand():
    trial = trial_of(TINY, 3)  # the first repetition, noisy, listnet
    spec = trial.spec
    assert (spec["trial"], spec["condition"], spec["system"]) == (0, "noisy", "listnet")
    found = run_trial(spec)
    splits = Splits(*pool().split([0.6, 0.2, 0.2], seed=spec["seed"]))
    noisy = apply_changes(splits, (Change("perturb-labels", {"probability": 0.4}),), spec["seed"])
    assert noisy.test is splits.test
    ranker = tr.Ranker("listnet", "ndcg@5", n_estimators=2, num_leaves=3, min_data_in_leaf=5, n_jobs=1,
                       early_stopping_rounds=2, random_state=spec["seed"])  # fmt: skip
    scores = ranker.fit(noisy.train, noisy.valid).predict(noisy.test)
    for name in ("ndcg@5", "arp"):
        expected = tr.metric(name).per_query(scores, splits.test.labels, splits.test.offsets)
        np.testing.assert_array_equal(np.array(found["test"][name], float), expected)
        assert found["means"]["test"][name] == pytest.approx(np.nanmean(expected), rel=1e-15)
    assert found["queries"] == {"train": 24, "valid": 8, "test": 8}
    assert found["trees"] == ranker.n_trees_
    assert found == json.loads(canonical(found))


def test_a_trial_gives_the_same_bits_for_any_number_of_threads():
    one, two = (trial_of(TINY, n_jobs=n) for n in (1, 2))
    assert one.key != two.key
    assert canonical(run_trial(one.spec)) == canonical(run_trial(two.spec))


def test_search_takes_the_best_by_validation():
    search = Search(
        {"num_leaves": Choice((2, 3, 5)), "learning_rate": Uniform(0.01, 0.5, log=True)},
        {
            "listnet": {
                "langevin.temperature": Uniform(1e5, 1e6),
                "loss.target": Choice(("softmax",)),
            }
        },
    )
    study = replace(
        TINY,
        search=search,
        parameters={"min_data_in_leaf": 5},
        systems=(System("mse"), System("listnet")),
    )
    budget = Budget(repeats=1, configurations=4, trees=4)
    for number, name in ((0, "mse"), (1, "listnet")):
        spec = trial_of(study, number, budget=budget).spec
        found = run_trial(spec)
        tried = found["tried"]
        assert [attempt["configuration"] for attempt in tried] == search.draw(name, 4, (0, 0))
        best = max(tried, key=lambda attempt: attempt["valid"])
        assert (found["configuration"], found["valid"]) == (best["configuration"], best["valid"])
        assert found["means"]["test"] == best["test"]
    splits = Splits(*pool().split([0.6, 0.2, 0.2], seed=spec["seed"]))
    chosen = found["configuration"]
    ranker = tr.Ranker("listnet(target=softmax)", "ndcg@5", n_estimators=4, min_data_in_leaf=5, n_jobs=1,
                       num_leaves=chosen["num_leaves"], learning_rate=chosen["learning_rate"],
                       langevin=tr.Langevin(chosen["langevin.temperature"]), random_state=spec["seed"])  # fmt: skip
    ranker.fit(splits.train, splits.valid)
    assert ranker.score(splits.test) == pytest.approx(found["means"]["test"]["ndcg@5"], rel=1e-12)


def test_other_parts_and_curves_are_recorded():
    study = replace(
        TINY,
        judged=("test", "train", "valid"),
        curves=("valid", "train"),
        parameters={"min_data_in_leaf": 5},
    )
    found = run_trial(trial_of(study, budget=Budget(repeats=1, trees=7)).spec)
    assert set(found["means"]) == {"test", "train", "valid"}
    assert len(found["curves"]["valid"]) == len(found["curves"]["train"]) == found["trees"] == 7
    assert found["curves"]["valid"][-1] == pytest.approx(found["valid"])
    assert found["curves"]["train"][-1] == pytest.approx(found["means"]["train"]["ndcg@5"])


def test_a_model_that_ranks_nothing_is_counted():
    result = run_study(replace(TINY, parameters={"min_data_in_leaf": 10_000}), DATA, budget=SMALL)
    assert result.n_constant == 8
    assert "8 models found no split and rank nothing" in result.to_markdown()


def test_a_measurement_needs_no_data():
    measured = Measurement("jensen-clouds", "m", {"examples": 4, "draws": 5})
    metrics = ("smallest-gap", "mean-gap")
    study = Study(
        name="clouds",
        title="Clouds",
        paper="p",
        claim="c",
        systems=(measured,),
        metrics=metrics,
        repeats=2,
    )
    result = run_study(study)
    from tautrank.theory.gamma import jensen_clouds

    seed = make_plan(study).trials()[1].spec["seed"]
    expected = jensen_clouds(4, draws=5, seed=seed).gaps.mean()
    assert result.cell("plain", "m", "mean-gap").means[1] == pytest.approx(expected)
    assert np.shape(result.points["plain", "m"]["gaps"]) == (4, 5)
    wrong = replace(study, metrics=("smallest",))
    assert (
        run_study(wrong)
        .failures[0]
        .error.startswith("metrics: found 'smallest'; expected what is measured")
    )
