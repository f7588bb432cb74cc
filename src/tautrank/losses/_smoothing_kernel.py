"""What every smoothed metric needs: noisy positions, the first of them, the normal density, and the
way to a booster.

Positions are scores in units of sigma, see `_stochastic_kernel`. The kernels of a metric that
computes its value after one document moves (`ScaleFreeMetric`) are written here, around its two
functions, and built anew for each such metric: compiled if the functions are, and as they stand for
one of plain Python.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core.dispatcher import Dispatcher
from numba.extending import overload, register_jitable

from tautrank.arrays import F64, I32, I64, Array
from tautrank.kernels.normal import GROUP, fill_long_tailed, fill_noise
from tautrank.kernels.ranking import LANES, REORDER, longest_list, rank_documents
from tautrank.kernels.streams import SMOOTHING_STREAM
from tautrank.metrics.positional import selection_moved, selection_sums

_Kernel = Callable[..., None]
_Compile = Callable[[_Kernel], _Kernel]

DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
"""The highest density of the standard normal distribution."""

DISTRIBUTIONS = ("logistic", "gumbel", "normal")
"""The noise that may be drawn."""

GUMBEL, NORMAL = 1, 2
_U = np.uintp
_HALF_LOG2E = 0.5 / math.log(2.0)
# 2^f = sum (f log 2)^i / i! for f in [-1/2, 1/2]: the next term is below 2e-7 of it.
_P0, _P1, _P2, _P3, _P4, _P5, _P6 = (
    np.float32(math.log(2.0) ** i / math.factorial(i)) for i in range(7)
)
_SINGLE = np.float32
# Densities below 2^-100 count as 0: what they are multiplied by would take them out of float32's
# range.
_LAST_POWER = np.float32(100.0)

# Registered rather than compiled: a kernel around dispatchers could not be cached.
for _function in (selection_sums, selection_moved):
    register_jitable(error_model="numpy")(_function)


def bell(d: Any) -> Any:
    """``exp(-d^2 / 2)``; in compiled float32 lanes by a polynomial, everywhere else by the library.

    >>> bell(0.0)
    1.0
    """
    return math.exp(-0.5 * d * d)


@overload(bell)
def _bell(d: Any) -> Any:
    """Return what stands for `bell` in compiled code."""
    if d == types.float32:

        def single(d: Any) -> Any:
            # exp(-d^2 / 2) = 2^-v = 2^-n 2^f, with f between -1/2 and 1/2.
            v = min(d * d * _SINGLE(_HALF_LOG2E), _LAST_POWER)
            n = np.int32(v + _SINGLE(0.5))
            f = _SINGLE(n) - v

            power = _P5 + f * _P6
            power = _P4 + f * power
            power = _P3 + f * power
            power = _P2 + f * power
            power = _P1 + f * power
            power = _P0 + f * power

            scale = np.int32((np.int32(127) - n) << np.int32(23)).view(np.float32)
            return power * scale if v < _LAST_POWER else _SINGLE(0.0)

        return single

    return bell


@njit(nogil=True, cache=True, error_model="numpy")
def finish_queries(
    scores: Array,
    offsets: I64,
    scale: F64,
    options: Any,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
) -> None:
    """Turn the estimates of the queries ``first`` to ``last`` into what a booster consumes.

    With ``u = z / (|z| + nu)`` acceleration takes ``<g, u> u`` off the gradient ``g``. The hessian
    is 1, or the magnitude of the smoothed metric's own curvature: the mass of the jumps and what
    acceleration took off, over sigma. This is at least ``|g| / sigma``, so that no Newton step goes
    further than the smoothing reaches.

    Args:
        scores: ``z``, one per document.
        offsets: start of each query.
        scale: one per query: its weight, 0 where there is nothing to learn.
        options: the reach of the smoothing, sigma; nu, which keeps ``u`` finite where all scores
            are equal; whether to accelerate; whether the loss ignores a constant added to the
            scores, so that ``z`` is what differs from the mean; and whether the hessian is the
            curvature.
        first, last: the first query, and one past the last.
        grad: holds the estimates, receives the gradients.
        hess: holds the mean sizes of the terms of the estimates, receives the hessians.
    """
    for query in range(first, last):
        if scale[query] == 0.0:
            continue
        start, stop = offsets[query], offsets[query + 1]
        _finish(scores[start:stop], scale[query], options, grad[start:stop], hess[start:stop])


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _finish(scores: Array, scale: float, options: Any, grad: Array, hess: Array) -> None:
    """Finish one query, whose weight is ``scale``; arguments as those of `finish_queries`."""
    sigma, nu, accelerate, centre, curvature = options
    n = scores.shape[0]
    mean = 0.0
    along = 0.0  # <g, u> / (|z| + nu)
    # Scores beyond 1e150 have squares beyond float64: those are done again, in another unit.
    unit = 1.0
    if accelerate:
        for unit in (1.0, 2.0**-600):
            mean = 0.0
            if centre:
                for p in range(n):
                    mean += unit * scores[p]
                mean /= n
            square = 0.0
            dot = 0.0
            for p in range(n):
                z = unit * scores[p] - mean
                square += z * z
                dot += grad[p] * z
            if square < 1e300:
                break
        length = math.sqrt(square) + unit * nu
        along = dot / length / length
    for p in range(n):
        taken_off = along * (unit * scores[p] - mean)
        size = (hess[p] + abs(taken_off)) / sigma if curvature else 1.0
        grad[p] = scale * (grad[p] - taken_off)
        hess[p] = scale * size


@njit(cache=True, error_model="numpy")
def sort_positions(t: F64, n: int, ranks: I32, top: I32, depth: int) -> None:
    """Write to ``top`` the places of the ``depth`` highest of ``n`` positions, highest first, ties
    in their order.

    Args:
        t: the positions; at least ``n + LANES`` long, what lies past ``n`` is overwritten.
        n: how many.
        ranks: scratch; at least ``n + LANES`` long.
        top: receives the places.
        depth: at most ``n``.
    """
    rank_documents(t, n, ranks)
    for i in range(n):
        if ranks[i] < depth:
            top[ranks[i]] = i


@njit(cache=True, error_model="numpy")
def first_documents(
    t: F64, n: int, depth: int, best: F64, order: I32, places: I32, top: I32
) -> None:
    """Write to ``top`` the places of the ``depth`` highest of the first ``n`` positions, highest
    first.

    Of equal positions the earlier one comes first. The positions are dealt out to lanes: at least
    ``depth`` of them reach the ``depth``-th highest of the lanes' maxima, and few others do, so
    that few are left to be sorted.

    Args:
        t: the positions; at least ``n + LANES`` long, what lies past ``n`` is overwritten.
        n: how many documents.
        depth: at most ``n``.
        best: scratch for positions, at least ``n + LANES`` long, as is everything that follows.
        order: scratch for places, as is the next.
        places: scratch.
        top: receives the places.
    """
    n_lanes = (depth + LANES - 1) // LANES * LANES
    if 2 * n_lanes > n:
        sort_positions(t, n, order, top, depth)
        return

    # The highest position of each lane.
    for p in range(n_lanes):
        best[p] = t[p]
    full_rows = n // n_lanes * n_lanes
    for row in range(n_lanes, full_rows, n_lanes):
        for column in range(n_lanes):
            lane = _U(column)
            position = t[_U(row) + lane]
            best[lane] = position if position > best[lane] else best[lane]
    for p in range(full_rows, n):
        best[p - full_rows] = max(best[p - full_rows], t[p])
    sort_positions(best, n_lanes, places, order, depth)
    limit = best[order[depth - 1]]

    # Sort the positions that reach the limit.
    count = 0
    for p in range(n):
        places[count] = p
        count += 1 if t[p] >= limit else 0
    for i in range(count):
        best[i] = t[places[i]]
    sort_positions(best, count, top, order, depth)
    for i in range(depth):
        top[i] = places[order[i]]


class Draws(NamedTuple):
    """Lists, and the noise to draw for them.

    Args:
        scores: one per document.
        arrangement: flat indices of the documents in the order of equal scores: from the lowest
            label to the highest, or, in a selection, as they come.
        values: what each document brings to the metric (a gain, a chance to stop), in that order.
        offsets: start of each query.
        scale: one per query: its weight, 0 where there is nothing to learn, and kernels write
            nothing.
        samples: draws to average.
        seed: of the noise.
        step: of the noise.
    """

    scores: Array
    arrangement: I64
    values: Array
    offsets: I64
    scale: F64
    samples: int
    seed: np.uint64
    step: int


@njit(error_model="numpy", forceinline=True)
def add_noise(
    draws: Draws,
    query: int,
    x: F64,
    distribution: int,
    spread: float,
    stream: int,
    noise: F64,
    t: F64,
) -> None:
    """Write ``x + spread e`` to ``t``, ``e`` of one of `DISTRIBUTIONS`; it is left in ``noise``, in
    input order.
    """
    start = draws.offsets[query]
    n = draws.offsets[query + 1] - start
    groups = noise[: (n + GROUP - 1) // GROUP * GROUP]
    if distribution == NORMAL:
        fill_noise(groups, draws.seed, draws.step, query, stream)
    else:
        fill_long_tailed(groups, distribution == GUMBEL, draws.seed, draws.step, query, stream)
    for p in range(n):
        t[p] = x[p] + spread * noise[draws.arrangement[start + p] - start]


@njit(error_model="numpy", forceinline=True)
def draw_positions(draws: Draws, query: int, sample: int, x: F64, noise: F64, t: F64) -> None:
    """Draw the positions ``t = x + e`` of a smoothed metric; the noise is left in ``noise``."""
    add_noise(draws, query, x, NORMAL, 1.0, SMOOTHING_STREAM + 256 * sample, noise, t)


@njit(error_model="numpy", forceinline=True)
def mean_positions(draws: Draws, options: Any, query: int, x: F64) -> None:
    """Write where each document stands without noise, in units of sigma, at most ``far`` from 0;
    `build_kernels` describes the options.
    """
    shift, sigma, far = options[0], options[1], options[2]
    start = draws.offsets[query]
    for p in range(draws.offsets[query + 1] - start):
        position = draws.scores[draws.arrangement[start + p]] / sigma - shift[start + p]
        x[p] = min(max(position, -far), far)


@njit(error_model="numpy", inline="always")
def scratch(longest: int) -> tuple[Any, ...]:
    """Mean positions, noisy positions and noise; and room to sort: two arrays of numbers and three
    of places.
    """
    size = longest + 2 * LANES
    places = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    return (
        np.empty(size),
        np.empty(size),
        np.empty(longest + GROUP),
        (np.empty(size), np.empty(size), *places),
    )


class Kernels(NamedTuple):
    """The kernels of a metric: all take the same arguments but the last ones, which receive the
    result.

    Args:
        gradients: coordinate conditional sampling; receives the estimate and the mean size of its
            terms, one per document, both filled with 0.
        log_derivatives: the log-derivative estimate ``(L(noisy) - L(scores)) e / sigma``; likewise.
        values: the negated metric, the mean over the draws that the gradient of the same step uses;
            receives one value per query.
    """

    gradients: _Kernel
    log_derivatives: _Kernel
    values: _Kernel


def build_kernels(
    gradients: _Kernel,
    compiled: _Compile,
    evaluate: Callable[..., Any],
    sums: Any = None,
    moved: Any = None,
) -> Kernels:
    """Build what a metric needs besides its gradients, around a function that evaluates one list.

    Args:
        gradients: the first of its kernels.
        compiled: decorator of the others.
        evaluate: ``evaluate(sums, moved, draws, options, query, t, room)`` returns the metric of a
            query's documents at the positions ``t``. The options are ``mu y`` in the order of the
            arrangement; sigma, the standard deviation of the noise; as far from 0 as positions may
            be, in units of sigma; the cut-off, at least the longest list if there is none; and then
            what the metric needs.
        sums: its `ScaleFreeMetric.sums`, if it is one.
        moved: its `ScaleFreeMetric.moved`.
    """

    @compiled
    def log_derivatives(
        draws: Draws, options: Any, first: int, last: int, grad: Any, hess: Any
    ) -> None:
        scores, arrangement, _, offsets, scale, samples, _, _ = draws
        sigma = options[1]
        longest = longest_list(offsets, first, last)
        x, t, noise, room = scratch(longest)
        g = np.empty(longest)
        h = np.empty(longest)
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start

            # Without noise equal scores are ranked by the arrangement: the worst case.
            for p in range(n):
                x[p] = scores[arrangement[start + p]]
                g[p] = 0.0
                h[p] = 0.0
            baseline = evaluate(sums, moved, draws, options, query, x, room)

            mean_positions(draws, options, query, x)
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                value = evaluate(sums, moved, draws, options, query, t, room)
                gap = (baseline - value) / (sigma * samples)
                for p in range(n):
                    g[p] += gap * noise[p]
                    h[p] += abs(gap * noise[p])
            for p in range(n):
                grad[start + p] = g[p]
                hess[start + p] = h[p]

    @compiled
    def values(draws: Draws, options: Any, first: int, last: int, results: Any) -> None:
        x, t, noise, room = scratch(longest_list(draws.offsets, first, last))
        for query in range(first, last):
            if draws.scale[query] == 0.0:
                continue
            mean_positions(draws, options, query, x)
            total = 0.0
            for sample in range(draws.samples):
                draw_positions(draws, query, sample, x, noise, t)
                total += evaluate(sums, moved, draws, options, query, t, room)
            results[query] = -draws.scale[query] * total / draws.samples

    return Kernels(gradients, log_derivatives, values)


def kernels_for(sums: Callable[..., Any], moved: Callable[..., Any]) -> Kernels:
    """Return the kernels of the metric with these functions: compiled if Numba compiled both.

    Args:
        sums: its `ScaleFreeMetric.sums`.
        moved: its `ScaleFreeMetric.moved`.
    """
    if sums is selection_sums or (isinstance(sums, Dispatcher) and isinstance(moved, Dispatcher)):
        return _compiled_kernels(sums, moved)
    return _build(sums, moved, lambda kernel: kernel)


@functools.lru_cache(maxsize=64)
def _compiled_kernels(sums: Callable[..., Any], moved: Callable[..., Any]) -> Kernels:
    """Return the kernels of a metric whose functions Numba compiled."""
    # What closes over a dispatcher cannot be kept from one process to the next.
    return _build(sums, moved, njit(nogil=True, cache=sums is selection_sums, error_model="numpy"))


@njit(cache=True, error_model="numpy")
def _list_in_order(draws: Draws, query: int, t: F64, by_score: bool, room: Any) -> None:
    """Write a list's values, positions and places by rank, or as they come, to the first three
    arrays of ``room``.
    """
    v, b, order, ranks, _ = room
    start = draws.offsets[query]
    n = draws.offsets[query + 1] - start
    if by_score:
        sort_positions(t, n, ranks, order, n)
    else:
        for i in range(n):
            order[i] = i
    for i in range(n):
        v[i] = draws.values[start + order[i]]
        b[i] = t[order[i]]


@register_jitable(error_model="numpy")
def moved_value(
    sums: Any, moved: Any, draws: Draws, options: Any, query: int, t: F64, room: Any
) -> Any:
    """Return the metric of a list, see `build_kernels`: its value when the first document moves to
    where it stands.
    """
    _, _, _, k, by_score = options
    _list_in_order(draws, query, t, by_score, room)
    v, b, _, _, _ = room
    n = draws.offsets[query + 1] - draws.offsets[query]
    depth = min(k, n)
    place = 0 if by_score or b[0] <= 0.0 else 1
    return moved(v[:n], sums(v[:n], b[:n], depth), 0, place, depth)


def _build(sums: Callable[..., Any], moved: Callable[..., Any], compiled: _Compile) -> Kernels:
    """Build the kernels of a metric that computes its value after one document moves."""

    @compiled
    def gradients(draws: Draws, options: Any, first: int, last: int, grad: Any, hess: Any) -> None:
        _, arrangement, _, offsets, scale, samples, _, _ = draws
        _, sigma, _, k, by_score = options
        longest = longest_list(offsets, first, last)
        x, t, noise, room = scratch(longest)
        v, b, order, _, _ = room
        g = np.empty(longest)
        h = np.empty(longest)
        share = DENSITY_AT_0 / (sigma * samples)
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            depth = min(k, n)
            # A selection has one breaking point, the score 0; a ranking one per rank.
            n_points = min(depth, n - 1) if by_score else 1
            mean_positions(draws, options, query, x)
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                _list_in_order(draws, query, t, by_score, room)
                prepared = sums(v[:n], b[:n], depth)
                for i in range(n):
                    g[i] = 0.0
                    h[i] = 0.0
                    mean = x[order[i]]
                    above = moved(v[:n], prepared, i, 0 if by_score else 1, depth)
                    for place in range(n_points):
                        below = moved(v[:n], prepared, i, place + 1 if by_score else 0, depth)
                        point = 0.0
                        if by_score:
                            # Who stands at this place once document i is taken out.
                            point = b[place] if place < i else b[place + 1]
                        term = (above - below) * math.exp(-0.5 * (point - mean) ** 2)
                        g[i] += term
                        h[i] += abs(term)
                        above = below
                for i in range(n):
                    document = arrangement[start + order[i]]
                    grad[document] -= share * g[i]
                    hess[document] += share * h[i]

    return build_kernels(gradients, compiled, moved_value, sums, moved)
