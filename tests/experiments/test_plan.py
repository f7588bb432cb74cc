"""The trials of a plan: their specifications, seeds and order."""

from __future__ import annotations

from dataclasses import replace

from tautrank.experiments.plan import Budget, Condition, System
from tautrank.papers.plan import make_plan
from tests.study_examples import DATA, TINY, trial_of


def test_a_condition_sets_parameters_of_the_losses_that_have_them():
    study = replace(
        TINY,
        systems=(System("ndcg-loss2++(k=5)", "a"), System("lightgbm:lambdarank", "b")),
        conditions=(Condition("10", 10, loss={"mu": 10.0}, metrics=("ndcg@3",)),),
        claims=(),
        recipes=(),
        baseline="a",
    )
    a, b = (trial_of(study, number).spec for number in (0, 1))
    assert (a["loss"], b["loss"], a["metrics"]) == (
        "ndcg-loss2++(k=5,mu=10)",
        "lightgbm:lambdarank",
        ["ndcg@3"],
    )


def test_all_systems_and_conditions_of_a_trial_share_seed_and_queries():
    plan = make_plan(TINY, DATA, budget=Budget(repeats=3))
    seeds = {}
    for trial in plan.trials():
        seeds.setdefault(trial.spec["trial"], set()).add(trial.spec["seed"])
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 3
    other = make_plan(TINY, DATA, budget=Budget(repeats=3), seed=1)
    assert not {t.key for t in plan.trials()} & {t.key for t in other.trials()}


def test_more_trials_begin_with_the_fewer():
    few, many = (make_plan(TINY, DATA, budget=Budget(repeats=n)).trials() for n in (2, 4))
    assert [t.key for t in few] == [t.key for t in many[: len(few)]]
