"""Derivatives by finite differences: what a gradient is checked against, and descended where none is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from tautrank.metrics.ordering import F64


def differences(
    function: Callable[[F64], F64],
    scores: F64,
    offsets: NDArray[np.int64],
    width: float = 6e-6,
    places: Iterable[int] | None = None,
) -> F64:
    """The derivative of each query's value by each of its scores, by central differences.

    Queries are independent, so the documents at the same place of all queries are moved at once: two calls for each
    place of the longest list.

    Args:
        function: from scores to one value a query.
        scores: one a document: where to differentiate.
        offsets: where each query starts, and the number of documents at the end.
        width: how far to move a score, either way; the default is near the cube root of float64's precision.
        places: which documents of each query, counted from 0; None for all. The others get NaN.

    >>> cuts = np.array([0, 2, 3])
    >>> differences(lambda s: np.add.reduceat(s**2, cuts[:-1]), np.array([1.0, 2.0, 3.0]), cuts).round(6)
    array([2., 4., 6.])
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    slopes = np.full_like(scores, np.nan)
    for place in range(int(sizes.max(initial=0))) if places is None else places:
        queries = np.flatnonzero(sizes > place)
        documents = starts[queries] + place
        up, down = scores.copy(), scores.copy()
        up[documents] += width
        down[documents] -= width
        # What was really moved: next to a large score the width itself is rounded.
        moved = up[documents] - down[documents]
        slopes[documents] = (function(up)[queries] - function(down)[queries]) / moved
    return slopes
