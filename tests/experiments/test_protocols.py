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
    OnItself,
    OwnFolds,
    Resampling,
    queries_of_trial,
)
from tautrank.experiments.trial import run_trial
from tautrank.papers.plan import make_plan
from tests.study_examples import SMALL, TINY, pool


def test_resampling_divides_every_trial_anew():
    data = pool()
    first, second = (Resampling().divide(data, Draw(t, 0, seed)) for t, seed in ((0, 5), (1, 6)))
    for splits in (first, second):
        ids = np.concatenate([part.qids for part in splits])
        assert sorted(ids.tolist()) == sorted(data.qids.tolist())
    assert set(first.test.qids) != set(second.test.qids)


@settings(max_examples=20, deadline=None)
@given(st.integers(5, 30), st.integers(0, 99))
def test_folds_of_undivided_data_test_every_query_once(n, seed):
    data = tr.RankingData.from_arrays([[0.0]] * n, [1] * n, group=[1] * n)
    splits = [OwnFolds().divide(data, Draw(trial, seed, trial)) for trial in range(5)]
    assert sorted(q for s in splits for q in s.test.qids.tolist()) == list(range(n))
    for s in splits:
        assert sorted(np.concatenate([part.qids for part in s]).tolist()) == list(range(n))


def test_fixed_parts_keep_the_test_queries():
    data = pool()
    fixed = [FixedParts().divide(data, Draw(t, 0, 100 + t)) for t in range(2)]
    redivided = [FixedParts(redivide=True).divide(data, Draw(t, 0, 100 + t)) for t in range(3)]
    for splits in (*fixed, *redivided):
        np.testing.assert_array_equal(splits.test.qids, fixed[0].test.qids)
    np.testing.assert_array_equal(fixed[0].train.qids, fixed[1].train.qids)
    assert set(redivided[1].train.qids) != set(redivided[2].train.qids)
    without = FixedParts().divide(Splits(fixed[0].train, None, fixed[0].test), Draw())
    assert without.valid.n_queries == round(0.2 * fixed[0].train.n_queries)
    itself = OnItself().divide(data, Draw())
    assert itself.train is itself.test is data


def test_folds_of_a_folder_are_the_trials(tmp_path):
    parts = pool().split([0.2] * 5, seed=0)
    for i, part in enumerate(parts, 1):
        tr.data.write_letor(part, tmp_path / f"S{i}.txt")
    plan = make_plan(
        replace(TINY, protocol=OwnFolds()), str(tmp_path), budget=Budget(repeats=6, trees=1)
    )
    assert [fold for fold, _ in plan.fingerprints] == [1, 2, 3, 4, 5]
    assert [t.spec["data"]["fold"] for t in plan.trials()[::4]] == [1, 2, 3, 4, 5, 1]
    one = make_plan(replace(TINY, protocol=OwnFolds()), str(tmp_path), budget=SMALL, fold=4)
    assert {t.spec["data"]["fold"] for t in one.trials()} == {4}
    assert run_trial(one.trials()[0].spec)["queries"] == {"train": 24, "valid": 8, "test": 8}
    pooled = make_plan(TINY, str(tmp_path), budget=SMALL)
    assert run_trial(pooled.trials()[0].spec)["queries"] == {"train": 24, "valid": 8, "test": 8}
    assert FixedParts(fold=3).folds_of(7, [1, 2, 3, 4, 5]) == [3]


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
