"""Kernels of StochasticRank for any scale-free metric that computes its value after one document moves.

Every kernel here is written once, around the two functions of the metric (see `ScaleFreeMetric`), and built anew for
each metric: compiled if the functions are, and as it stands for one of plain Python.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.extending import register_jitable

from tautrank.arrays import F64, I32
from tautrank.kernels.normal import GROUP
from tautrank.kernels.ranking import longest_list
from tautrank.losses._smoothing_kernel import DENSITY_AT_0, Draws, draw_positions, mean_positions, sort_positions
from tautrank.metrics.selection import selection_moved, selection_sums

_Compile = Callable[[Callable[..., None]], Callable[..., None]]

# Registered rather than compiled: a kernel around dispatchers could not be cached.
for _function in (selection_sums, selection_moved):
    register_jitable(error_model="numpy")(_function)


class Kernels(NamedTuple):
    """What an objective calls: all take the same arguments but the last ones, which receive the result.

    Args:
        gradients: coordinate conditional sampling; receives the estimate and the mean size of its terms.
        log_derivatives: the log-derivative estimate; likewise.
        values: the negated metric; receives one value per query.
    """

    gradients: Callable[..., None]
    log_derivatives: Callable[..., None]
    values: Callable[..., None]


def kernels_for(sums: Callable[..., Any], moved: Callable[..., Any]) -> Kernels:
    """The kernels of the metric with these functions: native if both are compiled by Numba.

    Args:
        sums: its `ScaleFreeMetric.sums`.
        moved: its `ScaleFreeMetric.moved`.
    """
    if sums is selection_sums or (isinstance(sums, Dispatcher) and isinstance(moved, Dispatcher)):
        return _compiled_kernels(sums, moved)
    return _build(sums, moved, lambda kernel: kernel)


@functools.lru_cache(maxsize=64)
def _compiled_kernels(sums: Callable[..., Any], moved: Callable[..., Any]) -> Kernels:
    # What closes over a dispatcher cannot be kept from one process to the next.
    return _build(sums, moved, njit(nogil=True, cache=sums is selection_sums, error_model="numpy"))


@njit(error_model="numpy", inline="always")
def _scratch(longest: int) -> tuple[Any, ...]:
    """Mean and noisy positions; values and both by place; noise; the order and room to find it."""
    x, t, v, b, m = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    return x, t, v, b, m, np.empty(longest + GROUP), np.empty(longest, np.int32), np.empty(longest, np.int32)


@njit(cache=True, error_model="numpy")
def _list_in_order(
    t: F64, x: F64, values: F64, start: int, n: int, by_score: bool, order: I32, spare: I32, v: F64, b: F64, m: F64
) -> None:
    """Lay out a list's values, noisy positions and mean positions by rank, or as they come; ``order`` says how."""
    if by_score:
        sort_positions(t, n, spare, order, n)
    else:
        for i in range(n):
            order[i] = i
    for i in range(n):
        v[i] = values[start + order[i]]
        b[i] = t[order[i]]
        m[i] = x[order[i]]


@njit(cache=True, error_model="numpy")
def _own_place(first_position: float, by_score: bool) -> int:
    """The place that leaves the first document of a list where it is."""
    return 0 if by_score or first_position <= 0.0 else 1


def _build(sums: Callable[..., Any], moved: Callable[..., Any], compiled: _Compile) -> Kernels:
    @compiled
    def gradients(draws: Draws, by_score: bool, first: int, last: int, grad: Any, hess: Any) -> None:
        _, arrangement, _, values, offsets, scale, k, sigma, samples, _, _, _ = draws
        longest = longest_list(offsets, first, last)
        x, t, v, b, m, noise, order, spare = _scratch(longest)
        g, h = np.empty(longest), np.empty(longest)
        share = DENSITY_AT_0 / (sigma * samples)
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            grad[start : start + n] = 0.0
            hess[start : start + n] = 0.0
            depth = min(k, n)
            mean_positions(draws, query, x)
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                _list_in_order(t, x, values, start, n, by_score, order, spare, v, b, m)
                prepared = sums(v[:n], b[:n], depth)
                for i in range(n):
                    g[i] = 0.0
                    h[i] = 0.0
                    above = moved(v[:n], prepared, i, 0 if by_score else 1, depth)
                    for place in range(min(depth, n - 1) if by_score else 1):
                        below = moved(v[:n], prepared, i, place + 1 if by_score else 0, depth)
                        point = 0.0
                        if by_score:
                            # Who stands at this place once document i is taken out.
                            point = b[place] if place < i else b[place + 1]
                        term = (above - below) * math.exp(-0.5 * (point - m[i]) ** 2)
                        g[i] += term
                        h[i] += abs(term)
                        above = below
                for i in range(n):
                    at = arrangement[start + order[i]]
                    grad[at] -= share * g[i]
                    hess[at] += share * h[i]

    @compiled
    def log_derivatives(draws: Draws, by_score: bool, first: int, last: int, grad: Any, hess: Any) -> None:
        scores, arrangement, _, values, offsets, scale, k, sigma, samples, _, _, _ = draws
        x, t, v, b, m, noise, order, spare = _scratch(longest_list(offsets, first, last))
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            grad[start : start + n] = 0.0
            hess[start : start + n] = 0.0
            depth = min(k, n)
            for i in range(n):
                t[i] = scores[arrangement[start + i]]
            _list_in_order(t, t, values, start, n, by_score, order, spare, v, b, m)
            baseline = moved(v[:n], sums(v[:n], b[:n], depth), 0, _own_place(b[0], by_score), depth)
            mean_positions(draws, query, x)
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                _list_in_order(t, x, values, start, n, by_score, order, spare, v, b, m)
                value = moved(v[:n], sums(v[:n], b[:n], depth), 0, _own_place(b[0], by_score), depth)
                gap = (baseline - value) / (sigma * samples)
                for i in range(n):
                    grad[start + i] += gap * noise[i]
                    hess[start + i] += abs(gap * noise[i])

    @compiled
    def negated_values(draws: Draws, by_score: bool, first: int, last: int, results: Any) -> None:
        _, _, _, values, offsets, scale, k, _, samples, _, _, _ = draws
        x, t, v, b, m, noise, order, spare = _scratch(longest_list(offsets, first, last))
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            depth = min(k, n)
            mean_positions(draws, query, x)
            total = 0.0
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                _list_in_order(t, x, values, start, n, by_score, order, spare, v, b, m)
                total += moved(v[:n], sums(v[:n], b[:n], depth), 0, _own_place(b[0], by_score), depth)
            results[query] = -scale[query] * total / samples

    return Kernels(gradients, log_derivatives, negated_values)
