"""Kernels of StochasticRank for the metrics of a reader: DCG, NDCG, ERR and MRR.

All scores are in units of sigma. Document ``j`` stands at ``x_j = s_j / sigma - mu y_j``, the mean
of its noisy score, and one draw puts it at ``t_j = x_j + e_j`` with ``e`` standard normal. Sliding
``j`` over another document ``s``, which is at rank ``p`` once ``j`` is taken out, swaps neighbours,
and that changes the metric by

    (g_j - g_s) (w_p - w_{p+1}) prod (1 - stop_i)    over the documents i above s other than j

(without the product for a reader who never stops). The derivative adds up these jumps times the
normal density of ``t_s - x_j``. With a cut-off ``k`` only the first ``k + 1`` documents of a draw
can be such an ``s``: they are found without sorting the others. Then all documents slide over these
points, four points a pass. For a reader who stops, the product is that of the whole list as long as
``j`` is below ``s``; the documents above ``s`` are among the first ``k + 1`` themselves and are
computed by rank, where the product without ``j`` grows from point to point and nothing is ever
divided.

Differences of positions are taken in two parts, ``(t_high - x_high) + (t_low - x_low)``, so that
float32 lanes are right however far scores are from 0. No kernel holds more than a few arrays of the
length of the longest list.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from tautrank.arrays import F64, I32, Array
from tautrank.kernels.ranking import LANES, longest_list
from tautrank.losses import _smoothing_kernel as smoothing
from tautrank.losses._smoothing_kernel import (
    Draws,
    bell,
    draw_positions,
    first_documents,
    mean_positions,
    scratch,
)

# Products may be fused with sums, which keeps every lane's own order of operations.
_FUSE = {"contract", "nsz"}
_U = np.uintp
_NOT_AMONG_THE_FIRST = 2.0**30


@njit(error_model="numpy")
def up_to_second_certain_stop(t: F64, gain: Array, n: int) -> int:
    """Return how many documents stand at or above the second one that stops every reader; ``n``
    where there is none.

    Whoever slides over a document further down leaves a certain stop above it: nothing changes
    there.

    Args:
        t: the positions.
        gain: the chances to stop, lowest first.
        n: how many documents.
    """
    highest = -math.inf
    second = -math.inf
    p = n - 1
    while p >= 0 and gain[p] == 1.0:
        second = max(second, min(highest, t[p]))
        highest = max(highest, t[p])
        p -= 1
    count = 0
    for p in range(n):
        count += 1 if t[p] >= second else 0
    return count


@register_jitable(error_model="numpy")
def reader_value(
    _sums: None, _moved: None, draws: Draws, options: Any, query: int, t: F64, room: Any
) -> Any:
    """Return the metric of a list, see `build_kernels`."""
    best, _, order, places, top = room
    _, _, _, k, weights, _, stops = options
    start = draws.offsets[query]
    n = draws.offsets[query + 1] - start
    depth = min(k, n)
    first_documents(t, n, depth, best, order, places, top)
    value = 0.0
    reach = 1.0
    for rank in range(depth):
        gain = draws.values[start + top[rank]]
        value += weights[rank] * gain * reach
        if stops:
            reach *= 1.0 - gain
    return value


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _slide_over(
    high: Array,
    low: Array,
    gain: Array,
    rank: Array,
    first: int,
    stop: int,
    points: Array,
    point: int,
    g: Array,
    h: Array,
) -> None:
    """Add the jumps of the documents ``first`` to ``stop`` at the four breaking points from
    ``point`` on.

    A breaking point is a column of ``points``: the two parts ``a`` and ``b`` of its position, its
    gain ``u``, its rank ``r``, and its weights ``w`` for the documents below it and ``v`` for those
    above it. The document of the point itself has its gain, so that it needs no exception.
    """
    a0, b0, u0 = points[0, point], points[1, point], points[2, point]
    r0, w0, v0 = points[3, point], points[4, point], points[5, point]
    point1 = point + 1
    a1, b1, u1 = points[0, point1], points[1, point1], points[2, point1]
    r1, w1, v1 = points[3, point1], points[4, point1], points[5, point1]
    point2 = point + 2
    a2, b2, u2 = points[0, point2], points[1, point2], points[2, point2]
    r2, w2, v2 = points[3, point2], points[4, point2], points[5, point2]
    point3 = point + 3
    a3, b3, u3 = points[0, point3], points[1, point3], points[2, point3]
    r3, w3, v3 = points[3, point3], points[4, point3], points[5, point3]
    for column in range(stop - first):
        j = _U(first) + _U(column)
        x = high[j]
        y = low[j]
        u = gain[j]
        r = rank[j]
        d0, d1, d2, d3 = u - u0, u - u1, u - u2, u - u3
        e0 = bell((a0 - x) + (b0 - y)) * (w0 if r > r0 else v0)
        e1 = bell((a1 - x) + (b1 - y)) * (w1 if r > r1 else v1)
        e2 = bell((a2 - x) + (b2 - y)) * (w2 if r > r2 else v2)
        e3 = bell((a3 - x) + (b3 - y)) * (w3 if r > r3 else v3)
        g[j] += (e0 * d0 + e1 * d1) + (e2 * d2 + e3 * d3)
        h[j] += (e0 * abs(d0) + e1 * abs(d1)) + (e2 * abs(d2) + e3 * abs(d3))


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _slide_above(
    ranked: Array, first: int, stop: int, a: float, b: float, u: float, weight: float, passed: float
) -> None:
    """Add the jumps of the ranks ``first`` to ``stop`` at one breaking point below them, then let
    them pass it.

    The point's position is ``a + b`` and its gain ``u``; ``passed`` is the chance that a reader
    goes on past it.
    """
    high = ranked[0]
    low = ranked[1]
    gain = ranked[2]
    reach = ranked[3]
    g = ranked[4]
    h = ranked[5]
    for column in range(stop - first):
        j = _U(first) + _U(column)
        d = gain[j] - u
        e = bell((a - high[j]) + (b - low[j])) * weight * reach[j]
        g[j] += e * d
        h[j] += e * abs(d)
        reach[j] *= passed


@njit(error_model="numpy")
def _collect_points(
    t: F64, gain: Array, top: I32, n_first: int, drops: F64, stops: bool, points: Array
) -> tuple[int, int]:
    """Write the columns of `_slide_over`: breaking points without a gain first, both kinds filled
    up to fours.

    Returns how many columns the first kind takes, and how many both take.
    """
    count = 0
    n_gainless = 0
    for with_gain in (False, True):
        n_gainless = count
        reach = 1.0
        for rank in range(n_first):
            p = top[rank]
            u = gain[p]
            # Without the document that slides, a point below it has one rank less.
            above = drops[rank - 1] if rank > 0 and not stops else 0.0
            below = drops[rank] * reach
            if (u > 0.0) == with_gain and (below > 0.0 or above > 0.0):
                points[0, count] = t[p]
                points[1, count] = t[p] - points[0, count]
                points[2, count] = u
                points[3, count] = rank
                points[4, count] = below
                points[5, count] = above
                count += 1
            if stops:
                reach *= 1.0 - np.float64(u)
        while count % 4:
            points[:, count] = 0.0
            count += 1
    return n_gainless, count


@njit(error_model="numpy")
def _slide_first_ranks(
    t: F64,
    high: Array,
    low: Array,
    gain: Array,
    top: I32,
    n_first: int,
    drops: F64,
    ranked: Array,
    g: Array,
    h: Array,
) -> None:
    """Add the jumps of the first documents at the breaking points ranked below them, for a reader
    who stops.

    The rows of ``ranked`` are, by rank: both parts of the position, gain, the product of
    ``1 - stop`` over the documents above the breaking point other than this one, and the two sums.
    """
    single = high.dtype.type
    ranked[:, : (n_first + LANES - 1) // LANES * LANES] = 0.0
    for rank in range(n_first):
        p = top[rank]
        ranked[0, rank] = high[p]
        ranked[1, rank] = low[p]
        ranked[2, rank] = gain[p]

    # The chance that a reader comes as far as the breaking point.
    above = 1.0
    # Ranks before `alive` have a certain stop above every breaking point to come: they gain nothing
    # any more.
    alive = 0
    last_alive = 0
    highest = gain[top[0]]
    for rank in range(1, n_first):
        # The document of the rank before is above the breaking points from here on.
        before = gain[top[rank - 1]]
        passed = 1.0 - np.float64(before)
        if passed == 0.0:
            alive = rank - 1
        if above > 0.0:
            ranked[3, rank - 1] = above
            last_alive = rank - 1
            above *= passed
        elif passed == 0.0:
            break
        highest = max(highest, before)

        p = top[rank]
        u = gain[p]
        through = 1.0 - np.float64(u)
        # As long as nothing has a gain nothing changes, and everything is passed.
        if highest == 0.0 and u == 0.0:
            continue
        a = single(t[p])
        _slide_above(
            ranked,
            alive // LANES * LANES,
            (last_alive // LANES + 1) * LANES,
            a,
            single(t[p] - a),
            u,
            single(drops[rank - 1]),
            single(through),
        )

    for rank in range(n_first):
        g[top[rank]] += ranked[4, rank]
        h[top[rank]] += ranked[5, rank]


@njit(nogil=True, cache=True, error_model="numpy")
def reader_gradients(
    draws: Draws, options: Any, first: int, last: int, grad: Array, hess: Array
) -> None:
    """Estimate gradients of a reader's metric by coordinate conditional sampling.

    Args:
        draws: the lists; their values are normalised gains (or chances to stop).
        options: as `build_kernels` says, and then ``w_p`` and ``w_p - w_{p+1}`` by rank from 0, and
            whether the reader stops with the chance of the gain.
        first, last: the first query, and one past the last.
        grad: receives the estimate, one per document.
        hess: receives the mean size of its terms, one per document.
    """
    scores, arrangement, gains, offsets, scale, samples, _, _ = draws
    _, sigma, _, k, _, drops, stops = options
    longest = longest_list(offsets, first, last)
    size = longest + 2 * LANES
    width = min(k + 1, longest) + 2 * LANES
    x, t, noise, (best, _, order, places, top) = scratch(longest)
    high = np.empty(size, scores.dtype)
    low = np.empty(size, scores.dtype)
    gain = np.empty(size, scores.dtype)
    rank = np.empty(size, scores.dtype)
    g = np.empty(size, scores.dtype)
    h = np.empty(size, scores.dtype)
    points = np.empty((6, width), scores.dtype)
    ranked = np.empty((6, width), scores.dtype)
    for query in range(first, last):
        if scale[query] == 0.0:
            continue
        start = offsets[query]
        n = offsets[query + 1] - start
        padded = (n + LANES - 1) // LANES * LANES

        # Lay the list out in the order of the arrangement: documents without a gain come first.
        mean_positions(draws, options, query, x)
        n_gainless = 0
        for p in range(n):
            high[p] = x[p]
            low[p] = x[p] - high[p]
            gain[p] = gains[start + p]
            n_gainless += gain[p] == 0.0
        for column in (high, low, gain):
            column[n:padded] = 0.0
        for sums in (g, h):
            sums[:padded] = 0.0

        for sample in range(samples):
            draw_positions(draws, query, sample, x, noise, t)

            # The first documents of the draw are the breaking points.
            n_first = min(k + 1, n)
            if stops and gain[n - 1] == 1.0:
                n_first = min(n_first, up_to_second_certain_stop(t, gain, n))
            first_documents(t, n, n_first, best, order, places, top)
            rank[:padded] = _NOT_AMONG_THE_FIRST
            for r in range(n_first):
                rank[top[r]] = r

            # Two documents without a gain change places for nothing, so points without one need
            # only part of a pass.
            n_without, n_points = _collect_points(t, gain, top, n_first, drops, stops, points)
            for point in range(0, n_points, 4):
                begin = n_gainless // LANES * LANES if point < n_without else 0
                _slide_over(high, low, gain, rank, begin, padded, points, point, g, h)
            if stops:
                _slide_first_ranks(t, high, low, gain, top, n_first, drops, ranked, g, h)

        share = scores.dtype.type(smoothing.DENSITY_AT_0 / (sigma * samples))
        for p in range(n):
            grad[arrangement[start + p]] = -share * g[p]
            hess[arrangement[start + p]] = share * h[p]


_compiled = njit(nogil=True, cache=True, error_model="numpy")
READER_KERNELS = smoothing.build_kernels(reader_gradients, _compiled, reader_value)
"""The kernels of every reader's metric; `reader_gradients` says what they are given."""
