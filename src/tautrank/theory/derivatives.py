"""Derivatives by finite differences: to check gradients against, and to descend where no gradient is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tautrank.metrics.ordering import F64, I64

# Half the distance over which a score is moved: near the cube root of float64's precision.
WIDTH = 6e-6
# A jump of the slope at a kink is the same for every width; one that curvature makes grows with the width.
_WIDER = 8.0


def differences(
    function: Callable[[F64], F64],
    scores: F64,
    offsets: I64,
    between: tuple[float, float] = (-WIDTH, WIDTH),
    places: Iterable[int] | None = None,
) -> F64:
    """Return the derivative of each query's value by each of its scores, by finite differences.

    Queries are independent, so the documents at the same place of all queries are moved at once: two calls for each
    place of the longest list.

    Args:
        function: from scores to one value per query.
        scores: where to differentiate, one number per document.
        offsets: start of each query, and the number of documents at the end.
        between: the two distances from a score between which the slope is taken; central by default.
        places: places of the documents within their query, counted from 0; None for all. The others get NaN.

    >>> cuts = np.array([0, 2, 3])
    >>> differences(lambda s: np.add.reduceat(s**2, cuts[:-1]), np.array([1.0, 2.0, 3.0]), cuts).round(6)
    array([2., 4., 6.])
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    slopes = np.full_like(scores, np.nan)
    for place in range(int(sizes.max(initial=0))) if places is None else places:
        queries = np.flatnonzero(sizes > place)
        documents = starts[queries] + place
        down, up = scores.copy(), scores.copy()
        down[documents] += between[0]
        up[documents] += between[1]
        # The true distance: next to a large score the width itself is rounded.
        moved = up[documents] - down[documents]
        with np.errstate(invalid="ignore"):  # two values may be infinite
            slopes[documents] = (function(up)[queries] - function(down)[queries]) / moved
    return slopes


def slopes_at_kinks(
    function: Callable[[F64], F64], scores: F64, offsets: I64, places: list[int] | None = None
) -> tuple[F64, F64]:
    """Return the smaller and the larger one-sided slope where the value has a kink, and NaN where it is smooth.

    At a kink every number between the two is a subgradient, and a central difference is only one of them. The arguments
    are those of `differences`.

    >>> low, high = slopes_at_kinks(lambda s: np.abs(s) + s**2, np.array([0.0, 1.0]), np.array([0, 1, 2]))
    >>> low.round(4), high.round(4)
    (array([-1., nan]), array([ 1., nan]))
    """
    left, right, far_left, far_right = (
        differences(function, scores, offsets, between, places)
        for width in (WIDTH, _WIDER * WIDTH)
        for between in ((-width, 0.0), (0.0, width))
    )
    smooth = ~(np.abs(right - left) > 0.5 * np.abs(far_right - far_left))
    return np.where(smooth, np.nan, np.minimum(left, right)), np.where(smooth, np.nan, np.maximum(left, right))
