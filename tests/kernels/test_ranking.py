"""Ranks by counting and by radix sort, against NumPy's stable sort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tautrank.kernels.ranking import COUNT_UP_TO, rank_queries

pytestmark = pytest.mark.uncompiled


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distinct", [3, 10**6])
def test_ranks_are_those_of_a_stable_sort(dtype, distinct):
    rng = np.random.default_rng(0)
    sizes = [0, 1, 5, 16, 33, COUNT_UP_TO + 40]
    offsets = np.cumsum([0, *sizes])
    scores = (rng.integers(-distinct, distinct, offsets[-1]) / 7).astype(dtype)
    scores[-4:] = 0.0, -0.0, -np.inf, 1e300 if dtype is np.float64 else 1e30
    arrangement = np.concatenate(
        [start + rng.permutation(n) for start, n in zip(offsets[:-1], sizes, strict=True)]
    )
    ranks = np.full(scores.size, -1, np.int32)
    rank_queries(scores, arrangement, offsets, 0, offsets.size - 1, ranks)
    for start, end in itertools.pairwise(offsets):
        order = np.argsort(-scores[arrangement[start:end]], kind="stable")
        assert np.array_equal(ranks[start:end][order], np.arange(end - start))
