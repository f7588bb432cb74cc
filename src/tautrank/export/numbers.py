"""Thresholds and leaves as the numbers of another system, such that every document goes the same way."""

from __future__ import annotations

import math

import numpy as np

from tautrank.arrays import F32, F64
from tautrank.errors import DataError

# What Solr adds to every threshold, in float32.
SOLR_SLACK = np.float32(1e-6)


def greatest_float32(thresholds: F64) -> F32:
    """Return the greatest float32 not above each threshold: for float32 values ``<=`` means the same with either.

    Rounding to the nearest could send a value left that lies between the two.

    Args:
        thresholds: doubles.

    >>> low = greatest_float32(np.array([0.1, 0.5, 1e300]))
    >>> low[0] < np.float32(0.1), low[1], low[2] == np.finfo(np.float32).max
    (np.True_, np.float32(0.5), np.True_)
    """
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-math.inf)), nearest)


def solr_thresholds(thresholds: F64) -> tuple[F32, F32]:
    """Return what to write for Solr, and the thresholds it compares with: the former plus `SOLR_SLACK`, in float32.

    They are those of `greatest_float32`, except near 0 and below powers of two, where no float32 plus the slack gives
    that number; there it is the next one below that can be reached. 0 can be reached, so it stays on its side of every
    threshold.

    Args:
        thresholds: doubles.

    >>> written, compared = solr_thresholds(np.array([0.5, 0.0]))
    >>> written, compared
    (array([ 4.99999e-01, -1.00000e-06], dtype=float32), array([0.5, 0. ], dtype=float32))
    """
    wanted = greatest_float32(thresholds)
    # The subtraction is rounded: the number looked for may be next to it.
    near = wanted - SOLR_SLACK
    best, reached = np.full_like(wanted, -math.inf), np.full_like(wanted, -math.inf)
    with np.errstate(over="ignore"):
        for end in (math.inf, -math.inf):
            written = near
            for _ in range(3):
                sums = written + SOLR_SLACK
                better = (sums <= wanted) & (sums > reached)
                best, reached = np.where(better, written, best), np.where(better, sums, reached)
                written = np.nextafter(written, np.float32(end))
    return best, reached


def float32_leaves(leaves: F64) -> F32:
    """Return leaves as the nearest float32.

    Args:
        leaves: doubles.

    >>> float32_leaves(np.array([1e39]))
    Traceback (most recent call last):
    tautrank.errors.DataError: model: a leaf adds 1e+39 to the score; expected at most 3.4e+38, the largest float32
    """
    with np.errstate(over="ignore"):
        single = leaves.astype(np.float32)
    wrong = ~np.isfinite(single)
    if wrong.any():
        raise DataError(
            f"model: a leaf adds {leaves[wrong][0]:g} to the score; expected at most 3.4e+38, the largest float32"
        )
    return single


def float32_text(number: np.float32) -> str:
    """Return the shortest text that Java's ``Float.parseFloat`` reads as the same float32.

    Args:
        number: any float32 but NaN.

    >>> float32_text(np.float32(0.1)), float32_text(np.float32("-inf"))
    ('0.1', '-Infinity')
    """
    return str(number) if np.isfinite(number) else ("Infinity" if number > 0 else "-Infinity")
