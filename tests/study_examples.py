"""Small studies for the tests: trainings of a few milliseconds, or none at all."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np

import tautrank as tr
from tautrank.experiments.changes import Change
from tautrank.experiments.compare import comparison
from tautrank.experiments.data_source import DataSource
from tautrank.experiments.plan import Budget, Condition, Plan, System
from tautrank.experiments.result import TrainedComparison
from tautrank.experiments.store import TrialOutcome
from tautrank.papers.claims import Better, GapGrows
from tautrank.papers.plan import make_plan
from tautrank.papers.results import collect
from tautrank.papers.store import StudyStore
from tautrank.papers.study import PaperTest, Printed, Recipe, Study

QUERIES = "simulated:mslr:60,mean_length=6"
DATA = "simulated:simple:40,n_features=16,mean_length=8,seed=3"

TINY = Study(
    name="tiny",
    title="Two losses, with and without noise",
    paper="None",
    claim="ListNet stands noise better than the squared error",
    systems=(System("mse"), System("listnet", parameters={"num_leaves": 3})),
    metrics=("ndcg@5", "arp"),
    claims=(
        Better(better="listnet", worse="mse", metric="ndcg@5"),
        GapGrows(better="listnet", worse="mse", first="clean", last="noisy", metric="ndcg@5"),
    ),
    conditions=(
        Condition("clean", 0.0),
        Condition("noisy", 0.4, (Change("perturb-labels", {"probability": 0.4}),)),
    ),
    axis="share of wrong labels",
    repeats=3,
    trees=3,
    parameters={"num_leaves": 4, "min_data_in_leaf": 5, "early_stopping_rounds": 2},
    recipes=(Recipe("web30k", "Web30K", printed=(Printed("mse", "ndcg@5", 0.4, "clean"),)),),
    test=PaperTest(level=0.05),
)

WITH_A_FAILURE = replace(
    TINY,
    name="with-a-failure",
    systems=(System("mse"), System("listnet", parameters={"num_leaves": 1})),
)

SMALL = Budget(repeats=2, trees=2)


def comparison_of(values, metrics=("ndcg@5",), systems=None, held=(), **found):
    """A comparison with given values: one ``[repeats, queries]`` array per system, or one per
    system and metric.
    """
    by_system = [v if isinstance(v, dict) else {metrics[0]: v} for v in values]
    chosen = systems or [System("mse", name) for name in "abcdef"[: len(values)]]
    repeats = len(next(iter(by_system[0].values())))
    declared = comparison(chosen, metrics, repeats=repeats)
    data = DataSource(("memory",), held=tuple(held))
    budget = declared.planned(Budget())
    plan = Plan(study=declared, data=data, budget=budget)
    arrays, places = {}, [("plain", name) for name in declared.system_names]
    for place, by_metric in zip(places, by_system, strict=True):
        arrays |= {
            (*place, name): [np.asarray(row, float) for row in v] for name, v in by_metric.items()
        }
    spent = {
        name: {place: [1] * repeats for place in places} for name in ("trees", "seconds", "valid")
    }
    return TrainedComparison(plan=plan, values=arrays, **{**spent, "n_done": plan.size, **found})


def content(path: Path) -> list[tuple[object, ...]]:
    """What a store holds, apart from how long and where."""
    with sqlite3.connect(path) as connection:
        return connection.execute(
            "SELECT key, number, spec, status, result, error FROM trials ORDER BY number"
        ).fetchall()


def filled(study, values, trials=4, data=DATA, failing=(), error="went wrong", n_test=None):
    """The result of a store with given numbers: ``values(condition, system, metric, trial)``, one
    per query.
    """
    store = StudyStore(
        None, make_plan(study, data, budget=Budget(repeats=trials)), "typed <b>by</b> hand"
    )
    for trial in store.plan.trials():
        place = tuple(trial.spec[name] for name in ("condition", "system", "trial"))
        if place in failing:
            store.record(trial, TrialOutcome("failed", error=error, host="here"))
            continue
        test = {m: np.asarray(values(*place[:2], m, place[2])) for m in trial.spec["metrics"]}
        of_all = {m: None if np.isnan(v).all() else float(np.nanmean(v)) for m, v in test.items()}
        plain = {m: [None if math.isnan(x) else x for x in v.tolist()] for m, v in test.items()}
        sizes = {"train": 60, "valid": 20, "test": n_test or len(next(iter(plain.values())))}
        result = {
            "test": plain,
            "means": dict.fromkeys(study.judged, of_all),
            "trees": 3,
            "queries": sizes,
        }
        store.record(trial, TrialOutcome("done", json.dumps(result), seconds=0.5, host="here"))
    return collect(store)


def finished(path: Path) -> int:
    """How many trials a store holds that another process may be making just now."""
    try:
        return len(content(path)) if path.exists() else 0
    except sqlite3.Error:
        return 0


def trial_of(study, number=0, **options):
    return make_plan(
        study, options.pop("data", DATA), budget=options.pop("budget", SMALL), **options
    ).trials()[number]


def pool():
    return tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=3)
