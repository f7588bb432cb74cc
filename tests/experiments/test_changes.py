"""What a condition changes in the queries of a trial."""

from __future__ import annotations

import numpy as np

from tautrank.data import Splits
from tautrank.experiments.changes import Change, apply_changes
from tests.study_examples import pool


def test_more_noise_keeps_what_less_noise_changed():
    splits = Splits(pool(), pool(), pool())
    levels = [
        apply_changes(splits, (Change("perturb-labels", {"probability": p}),), 7).train.labels
        for p in (0.2, 0.6)
    ]
    moved = [labels != splits.train.labels for labels in levels]
    assert moved[0].sum() < moved[1].sum()
    np.testing.assert_array_equal(levels[1][moved[0]], levels[0][moved[0]])


def test_parts_have_noise_of_their_own():
    splits = Splits(pool(), pool(), pool())
    both = apply_changes(
        splits, (Change("perturb-labels", {"probability": 0.5}, ("train", "valid")),), 7
    )
    assert not np.array_equal(both.train.labels, both.valid.labels)
    assert both.test is splits.test
