"""The compiled loop of list features: one pass over the columns of each list."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import I64, Array
from tautrank.kernels.ranking import COUNT_UP_TO, LANES, count_before, longest_list

_LARGEST = 3.4028234663852886e38


@njit(nogil=True, cache=True, error_model="numpy")
def describe_lists(
    X: Array,
    columns: I64,
    offsets: I64,
    first: int,
    last: int,
    kinds: tuple[bool, bool, bool],
    start: int,
    out: Array,
) -> None:
    """Write the list features of the queries ``first`` to ``last``; where a value is missing,
    nothing is written.

    With the ``n`` values ``x`` of a column in one list: z score ``(x_i - mean) / sd``, rank
    ``(number below - number above) / (n - 1)``, difference ``x_i - max``.

    Args:
        X: features, documents by columns, float32 or float64; what is added is rounded to float32
            in either.
        columns: the columns to describe.
        offsets: start of each query.
        first, last: the first query, and one past the last.
        kinds: whether z-scores, ranks and differences are wanted; each kind takes one block of
            columns.
        start: the first column of the first block.
        out: documents by columns.
    """
    longest = longest_list(offsets, first, last)
    values = np.empty(longest + 2 * LANES, X.dtype)
    above = np.empty(longest + 2 * LANES, np.int32)
    rows = np.empty(longest, np.int64)
    ties = np.empty(longest, np.int32)
    levels = np.empty(longest, np.float64)

    for query in range(first, last):
        for index in range(columns.size):
            # The values that are not missing, and their rows.
            n = 0
            for row in range(offsets[query], offsets[query + 1]):
                value = X[row, columns[index]]
                if not math.isnan(value):
                    values[n] = value
                    rows[n] = row
                    n += 1
            if n == 0:
                continue

            # How many values are greater; equal values have equal counts.
            if n <= COUNT_UP_TO:
                for lane in range(0, n, LANES):
                    count_before(values, n, lane, 0, 0, above)
            else:
                above[:n] = n - np.searchsorted(np.sort(values[:n]), values[:n], side="right")

            # The values in order, each once: sums then do not depend on the order of the documents.
            ties[:n] = 0
            levels[:n] = 0.0
            for i in range(n):
                ties[above[i]] += np.int32(1)
                levels[above[i]] = values[i]

            sum_of_values = 0.0
            for i in range(n):
                sum_of_values += ties[i] * levels[i]
            mean = sum_of_values / n
            sum_of_squares = 0.0
            for i in range(n):
                sum_of_squares += ties[i] * (levels[i] - mean) ** 2

            # All are 0 where the values are equal.
            varies = ties[0] < n
            to_z = 1.0 / math.sqrt(sum_of_squares / n) if varies else 0.0
            to_rank = 1.0 / (n - 1) if varies else 0.0
            for i in range(n):
                z_score = (values[i] - mean) * to_z if varies else 0.0
                below = n - ties[above[i]] - above[i]
                rank = (below - above[i]) * to_rank
                difference = max(np.float64(values[i]) - levels[0], -_LARGEST)

                described = (z_score, rank, difference)
                column = start + index
                for kind in range(3):
                    if kinds[kind]:
                        out[rows[i], column] = np.float32(described[kind])
                        column += columns.size
