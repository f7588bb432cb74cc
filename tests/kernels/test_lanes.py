"""Generated loops do what their plain functions say."""

from __future__ import annotations

import numpy as np
from numba import njit

from tautrank.kernels.ranking import LANES, count_before


@njit
def compiled(
    scores: np.ndarray, n: int, lane: int, begin: int, end: int, counts: np.ndarray
) -> None:
    count_before(scores, n, lane, begin, end, counts)


def test_counts_of_documents_before_others_are_those_of_the_plain_function():
    rng = np.random.default_rng(0)
    for n in (1, 5, LANES, 40):
        size = -(-n // LANES) * LANES
        scores = np.full(size, -np.inf, np.float32)
        scores[:n] = rng.integers(0, 4, n)  # many ties
        for lane in range(0, size, LANES):
            for begin, end in ((0, 0), (lane, n)):
                found, plain = np.zeros((2, size), np.int32)
                compiled(scores, n, lane, begin, end, found)
                count_before(scores, n, lane, begin, end, plain)
                last = min(n, lane + LANES)
                assert found[lane:last].tolist() == plain[lane:last].tolist()
