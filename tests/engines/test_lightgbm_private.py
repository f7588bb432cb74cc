"""The private names of LightGBM that this library uses are there, and do what it expects."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import lightgbm
import numpy as np
import pytest

from tautrank.engines import lightgbm_private

TESTED_VERSIONS = ("4.6", "5")

PARAMS = {"verbosity": -1, "num_threads": 1, "objective": "regression", "max_bin": 15}
X = np.random.default_rng(0).standard_normal((400, 3)).astype(np.float32)
LABELS = X[:, 0] > 0


def dataset(data=None, **options):
    return lightgbm.Dataset(data, params=PARAMS, **options)


def number_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())


def test_the_installed_version_is_in_the_range_that_is_tested():
    first, end = map(number_of, TESTED_VERSIONS)
    assert first <= number_of(importlib.metadata.version("lightgbm")) < end


@pytest.mark.parametrize(
    ("name", "main_name"),
    [("eta", "learning_rate"), ("subsample", "bagging_fraction"), ("num_leaves", "num_leaves")],
)
def test_other_names_lead_to_the_main_one(name, main_name):
    assert lightgbm_private.main_names()[name] == main_name


def test_current_scores_are_those_that_the_booster_predicts():
    valid = X[:50]
    train_set = dataset(X, label=LABELS)
    booster = lightgbm.Booster(PARAMS, train_set)
    booster.add_valid(dataset(valid, label=LABELS[:50], reference=train_set), "valid")
    booster.update()

    for number, rows in enumerate([X, valid]):
        expected = booster.predict(rows, raw_score=True)
        np.testing.assert_allclose(lightgbm_private.current_scores(booster, number), expected)


def test_sampled_rows_are_ascending_and_as_many_as_asked_for():
    params = {**PARAMS, "bin_construct_sample_cnt": 30}
    rows = lightgbm_private.sampled_rows(lightgbm.Dataset(None, params=params), 100)

    assert rows.size == 30
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] < rows[-1] < 100


def test_bins_of_a_whole_sample_are_those_that_lightgbm_finds_itself():
    pushed = dataset()
    lightgbm_private.find_bins(pushed, X, len(X), len(X), PARAMS)
    lightgbm_private.push_rows(pushed, X[:150])
    lightgbm_private.push_rows(pushed, X[150:])
    pushed.set_label(LABELS)

    trees = [
        lightgbm.train(PARAMS, train_set, 3).trees_to_dataframe()
        for train_set in (pushed, dataset(X, label=LABELS))
    ]
    np.testing.assert_array_equal(trees[0]["threshold"], trees[1]["threshold"])


def test_a_data_set_takes_the_bins_of_another():
    reference = dataset(X, label=LABELS).construct()
    copied = dataset(reference=reference)
    lightgbm_private.make_room_as_in(copied, reference, len(X))
    lightgbm_private.push_rows(copied, X)
    lightgbm_private.mark_finished(copied)

    assert copied.num_data() == len(X)
    assert copied.num_feature() == reference.num_feature()


def test_a_limit_of_one_thread_holds():
    """In a process of its own, since the limit cannot be taken back."""
    code = (
        "from tautrank.engines import lightgbm_private, packages; packages.package('lightgbm');"
        "lightgbm_private.limit_to_one_thread()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
