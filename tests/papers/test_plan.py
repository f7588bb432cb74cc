"""The plan of a study on given data: its parameters, its recipe, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import tautrank as tr
from tautrank.errors import OptionError
from tautrank.experiments.plan import Budget, Condition, System
from tautrank.json_values import canonical
from tautrank.papers.plan import StudyPlan, make_plan, recognise
from tautrank.papers.study import Recipe
from tests.study_examples import DATA, SMALL, TINY, trial_of


def test_a_plan_survives_being_written_down():
    study = replace(
        TINY, systems=(System("mse", parameters={"langevin": tr.Langevin(1e3)}), System("listnet"))
    )
    plan = make_plan(study, DATA, budget=Budget(repeats=1), recipe="web30k")
    again = StudyPlan.from_plain(json.loads(canonical(plan.to_plain())))
    assert again == plan
    assert [t.key for t in again.trials()] == [t.key for t in plan.trials()]


def test_parameters_come_in_layers():
    study = replace(
        TINY,
        parameters={"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0},
        systems=(System("mse", parameters={"d": 3, "e": 3, "f": 3}), System("listnet")),
        conditions=(
            Condition(
                "clean", parameters={"c": 2, "d": 2, "e": 2, "f": 2}, systems={"mse": {"f": 5}}
            ),
        ),
        recipes=(
            Recipe(
                "web30k",
                "W",
                {"b": 1, "c": 1, "d": 1, "e": 1, "f": 1},
                systems={"mse": {"e": 4, "f": 4}},
            ),
        ),
        claims=(),
    )
    given = trial_of(study).spec["parameters"]
    assert given == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "n_estimators": 2}


def test_recipes_are_found_by_what_the_data_looks_like():
    assert [recognise(136, n)[0] for n in (200, 9000, 31000)] == ["web30k", "web10k", "web30k"]
    assert recognise(700, 6000) == ("yahoo2", False)
    study = replace(
        TINY, recipes=(Recipe("web30k", "W"), Recipe("yahoo1", "Y", {"num_leaves": 9})), claims=()
    )
    assert make_plan(study, "simulated:yahoo:10", budget=SMALL).recipe == "yahoo1"
    assert make_plan(study, DATA, budget=SMALL).recipe == "web30k"  # like none of them: the first
    assert (
        make_plan(study, DATA, budget=SMALL, recipe="yahoo1")
        .trials()[0]
        .spec["parameters"]["num_leaves"]
        == 9
    )
    with pytest.raises(OptionError, match="unknown recipe 'yahoo'; did you mean 'yahoo1'"):
        make_plan(study, DATA, budget=SMALL, recipe="yahoo")


def test_training_needs_data():
    with pytest.raises(OptionError, match="--data: found none; expected a folder"):
        make_plan(TINY)
    with pytest.raises(
        OptionError, match=r"--data: found none; expected a folder, .*, since tiny trains models"
    ):
        make_plan(TINY, "none")
