"""How trials divide the queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tautrank as tr
from tautrank.data import Splits
from tautrank.experiments.plan import Budget
from tautrank.experiments.protocols import (
    Draw,
    FixedParts,
    GivenSplits,
    OnItself,
    OwnFolds,
    Protocol,
    Resampling,
    queries_of_trial,
)
from tautrank.experiments.trial import run_trial
from tautrank.papers.plan import make_plan
from tests.study_examples import SMALL, TINY, pool


def queries_of(splits: Splits) -> list[int]:
    """The queries of all parts, in order."""
    return sorted(np.concatenate([part.qids for part in splits]).tolist())


def test_resampling_divides_every_trial_anew():
    data = pool()
    first = Resampling().divide(data, Draw(trial=0, trial_seed=5))
    second = Resampling().divide(data, Draw(trial=1, trial_seed=6))

    assert queries_of(first) == queries_of(second) == sorted(data.qids.tolist())
    assert set(first.test.qids) != set(second.test.qids)


@settings(max_examples=20, deadline=None)
@given(st.integers(5, 30), st.integers(0, 99))
def test_folds_of_undivided_data_test_every_query_once(n, seed):
    data = tr.RankingData.from_arrays([[0.0]] * n, [1] * n, group=[1] * n)
    folds = [OwnFolds().divide(data, Draw(trial, seed, trial)) for trial in range(5)]

    tested = sorted(query for fold in folds for query in fold.test.qids.tolist())
    assert tested == list(range(n))
    for fold in folds:
        assert queries_of(fold) == list(range(n))


def test_fixed_parts_are_the_same_in_all_trials():
    first, second = (FixedParts().divide(pool(), Draw(trial, 0, 100 + trial)) for trial in range(2))

    for name in ("train", "valid", "test"):
        np.testing.assert_array_equal(getattr(first, name).qids, getattr(second, name).qids)


def test_redivided_parts_keep_only_the_test_queries():
    protocol = FixedParts(redivide=True)
    fixed = FixedParts().divide(pool(), Draw())
    first, second, third = (
        protocol.divide(pool(), Draw(trial, 0, 100 + trial)) for trial in range(3)
    )

    for splits in (first, second, third):
        np.testing.assert_array_equal(splits.test.qids, fixed.test.qids)
    np.testing.assert_array_equal(first.train.qids, fixed.train.qids)
    assert set(second.train.qids) != set(third.train.qids)


@pytest.mark.parametrize("protocol", [FixedParts(), GivenSplits(), OwnFolds()], ids=repr)
def test_a_fifth_of_the_training_queries_validates_if_no_part_does(protocol):
    train, _, test = FixedParts().divide(pool(), Draw())

    splits = protocol.divide(Splits(train, None, test), Draw())

    assert splits.valid.n_queries == round(0.2 * train.n_queries)
    assert splits.train.n_queries == train.n_queries - splits.valid.n_queries
    assert splits.test is test


def test_on_itself_all_parts_are_all_queries():
    data = pool()
    splits = OnItself().divide(data, Draw())
    assert splits.train is splits.valid is splits.test is data


@pytest.mark.parametrize(
    ("protocol", "trial", "expected"),
    [
        (Resampling(), 7, [1]),
        (OwnFolds(), 7, [3]),
        (FixedParts(fold=3), 7, [3]),
        (GivenSplits(), 7, [1, 2, 3, 4, 5]),
    ],
    ids=repr,
)
def test_a_trial_reads_the_folds_of_its_protocol(protocol, trial, expected):
    assert protocol.folds_of(trial, [1, 2, 3, 4, 5]) == expected


SIZES = {"train": 60, "valid": 20, "test": 20}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (Resampling(), 20 / (60 + 20)),
        (OwnFolds(), 20 / (60 + 20)),
        (FixedParts(), 0),
        (FixedParts(redivide=True), 20 / 60),
        (GivenSplits("splits"), 20 / 60),
        (GivenSplits("seeds"), 0),
        (OnItself(), 0),
    ],
    ids=repr,
)
def test_the_overlap_is_what_is_held_out_over_what_is_not(protocol: Protocol, expected: float):
    assert protocol.overlap(SIZES) == expected


def test_folds_of_a_folder_are_the_trials(tmp_path):
    for number, part in enumerate(pool().split([0.2] * 5, seed=0), 1):
        tr.data.write_letor(part, tmp_path / f"S{number}.txt")
    study = replace(TINY, protocol=OwnFolds())

    plan = make_plan(study, str(tmp_path), budget=Budget(repeats=6, trees=1))

    assert [fold for fold, _ in plan.fingerprints] == [1, 2, 3, 4, 5]
    n_places = 4  # two losses under two conditions
    folds = [trial.spec["data"]["fold"] for trial in plan.trials()[::n_places]]
    assert folds == [1, 2, 3, 4, 5, 1]


@pytest.mark.parametrize("protocol", [OwnFolds(), Resampling()], ids=repr)
def test_trials_of_a_folder_have_its_sizes(protocol, tmp_path):
    for number, part in enumerate(pool().split([0.2] * 5, seed=0), 1):
        tr.data.write_letor(part, tmp_path / f"S{number}.txt")
    fold = 4 if isinstance(protocol, OwnFolds) else None

    plan = make_plan(replace(TINY, protocol=protocol), str(tmp_path), budget=SMALL, fold=fold)

    if fold is not None:
        assert {trial.spec["data"]["fold"] for trial in plan.trials()} == {fold}
    assert run_trial(plan.trials()[0].spec)["queries"] == {"train": 24, "valid": 8, "test": 8}


@pytest.mark.parametrize("trial", range(6))
@pytest.mark.parametrize("protocol", [Resampling(), OwnFolds()], ids=repr)
def test_queries_of_a_trial_are_those_that_it_is_tested_on(protocol, trial):
    data = tr.RankingData.from_arrays(np.zeros((23, 1)), np.zeros(23), group=[1] * 23)
    draw = Draw(trial, seed=3, trial_seed=100 + trial)
    tested = protocol.divide(data, draw).test.qids
    np.testing.assert_array_equal(queries_of_trial(protocol, draw, tested.size, 23), tested)


def test_folds_of_the_data_have_queries_of_their_own():
    folds = [
        set(queries_of_trial(OwnFolds(), Draw(trial, 3, 100 + trial), 7, 23, 2).tolist())
        for trial in range(4)
    ]
    assert folds[0] == folds[2]
    assert folds[1] == folds[3]
    assert not folds[0] & folds[1]


@pytest.mark.parametrize("protocol", [FixedParts(), OnItself()], ids=repr)
def test_the_same_queries_have_the_same_numbers_in_every_trial(protocol):
    assert queries_of_trial(protocol, Draw(4, 3, 104), 5, 23).tolist() == [0, 1, 2, 3, 4]
