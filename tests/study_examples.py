"""Small studies for the tests: trainings of a few milliseconds, or none at all."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from tautrank.experiments.perturb import Change
from tautrank.experiments.plan import Budget, Condition
from tautrank.experiments.system import System
from tautrank.papers.claims import Better, GapGrows
from tautrank.papers.study import PaperTest, Printed, Recipe, Study

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
    trials=3,
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

SMALL = Budget(trials=2, trees=2)


def content(path: Path) -> list[tuple[object, ...]]:
    """What a store holds, apart from how long and where."""
    with sqlite3.connect(path) as connection:
        return connection.execute(
            "SELECT key, number, spec, status, result, error FROM trials ORDER BY number"
        ).fetchall()
