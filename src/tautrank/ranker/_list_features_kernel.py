"""The compiled loop of list features: one pass over the columns of each list."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import I32, I64, Array
from tautrank.kernels.ranking import COUNT_UP_TO, LANES, count_before, longest_list, rank_documents

_LARGEST = 3.4028234663852886e38


@njit(nogil=True, cache=True, error_model="numpy")
def describe_lists(
    X: Array, columns: I64, offsets: I64, first: int, last: int, kinds: tuple[bool, bool, bool], out: Array
) -> None:
    """Write the list features of the queries ``first`` to ``last`` to the last columns of ``out``.

    Args:
        X: features, documents by columns, float32 or float64; what is added is rounded to float32 in either.
        columns: the columns to describe.
        offsets: start of each query.
        first, last: the first query, and one past the last.
        kinds: whether z-scores, ranks and differences are wanted; each kind takes one block of columns.
        out: documents by columns; what is left of the blocks receives a copy of ``X``, if there is room for it.
    """
    n_columns = columns.size
    blocks = np.int64(kinds[0]) + np.int64(kinds[1]) + np.int64(kinds[2])
    start = out.shape[1] - blocks * n_columns
    longest = longest_list(offsets, first, last)
    values = np.empty(longest + 2 * LANES, X.dtype)
    above = np.empty(longest + 2 * LANES, np.int32)
    rows = np.empty(longest, np.int64)
    ties = np.empty(longest + 1, np.int32)
    levels = np.empty(longest + 1, np.float64)
    for query in range(first, last):
        for row in range(offsets[query], offsets[query + 1]):
            for column in range(start):
                out[row, column] = X[row, column]
        for at in range(n_columns):
            column = columns[at]
            n = 0
            for row in range(offsets[query], offsets[query + 1]):
                value = X[row, column]
                if math.isnan(value):
                    for block in range(blocks):
                        out[row, start + block * n_columns + at] = np.nan
                else:
                    values[n] = value
                    rows[n] = row
                    n += 1
            _count_above_with_ties(values, n, above)
            # The values in order, each once: sums then do not depend on the order of the documents.
            for i in range(n):
                ties[i] = 0
            for i in range(n):
                ties[above[i]] += np.int32(1)
                levels[above[i]] = values[i]
            total = 0.0
            i = 0
            while i < n:
                total += ties[i] * levels[i]
                i += ties[i]
            mean = total / n
            total = 0.0
            i = 0
            while i < n:
                total += ties[i] * (levels[i] - mean) ** 2
                i += ties[i]
            varies = n > 0 and ties[0] < n
            to_z = 1.0 / math.sqrt(total / n) if varies else 0.0
            to_rank = 1.0 / (n - 1) if varies else 0.0
            place = start + at
            if kinds[0]:
                for i in range(n):
                    out[rows[i], place] = np.float32((values[i] - mean) * to_z if varies else 0.0)
                place += n_columns
            if kinds[1]:
                for i in range(n):
                    below = n - ties[above[i]] - above[i]
                    out[rows[i], place] = np.float32((below - above[i]) * to_rank)
                place += n_columns
            if kinds[2]:
                for i in range(n):
                    out[rows[i], place] = np.float32(max(np.float64(values[i]) - levels[0], -_LARGEST))


@njit(error_model="numpy", inline="always")
def _count_above_with_ties(values: Array, n: int, above: I32) -> None:
    """Count for each value those that are greater; equal values have equal counts.

    Args:
        values: at least ``n + LANES`` long.
        n: how many values.
        above: at least ``n + LANES`` long.
    """
    if n <= COUNT_UP_TO:
        for lane in range(0, n, LANES):
            count_before(values, n, lane, 0, 0, above)
        return
    rank_documents(values, n, above)
    ordered = np.empty(n, values.dtype)
    for i in range(n):
        ordered[above[i]] = values[i]
    first = np.empty(n, np.int32)
    for p in range(n):
        first[p] = first[p - 1] if p > 0 and ordered[p] == ordered[p - 1] else p
    for i in range(n):
        above[i] = first[above[i]]
