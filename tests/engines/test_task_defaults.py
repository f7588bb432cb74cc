"""One set of training defaults serves the estimator, the commands, comparisons and searches."""

from __future__ import annotations

import inspect

import pytest

import tautrank as tr
from tautrank.commands.comparing import compare
from tautrank.commands.options import takes_groups
from tautrank.commands.training import train
from tautrank.commands.tuning import tune
from tautrank.engines import DEFAULTS
from tautrank.experiments.compare import comparison
from tests.ranker_examples import TRAIN, VALID


def test_the_defaults():
    expected = {
        "n_estimators": 500,
        "learning_rate": 0.05,
        "num_leaves": 31,
        "early_stopping_rounds": 50,
    }
    assert dict(DEFAULTS) == expected
    assert {name: tr.Ranker().get_params()[name] for name in expected} == expected
    assert dict(comparison(["mse"], ["ndcg@5"]).parameters) == expected


@pytest.mark.parametrize("command", [train, compare, tune])
def test_commands_have_them_too(command):
    options = {"trees": 500, "learning_rate": 0.05, "leaves": 31, "early_stopping": 50}
    parameters = inspect.signature(takes_groups(command)).parameters
    assert {name: parameters[name].default.default for name in options if name in parameters} == {
        name: value for name, value in options.items() if name in parameters
    }


def test_early_stopping_needs_validation_data_to_act():
    quick = {"n_estimators": 8, "learning_rate": 0.9, "n_jobs": 1}
    stopped = tr.Ranker("mse", early_stopping_rounds=1, **quick).fit(TRAIN, VALID)
    assert stopped.n_trees_ < 8
    assert tr.Ranker("mse", early_stopping_rounds=1, **quick).fit(TRAIN).n_trees_ == 8
