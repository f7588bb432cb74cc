"""Kernels of StochasticRank for any scale-free metric that computes its value after one document moves.

Every kernel here is written once, around the two functions of the metric (see `ScaleFreeMetric`), and built anew for
each metric: compiled if the functions are, and as it stands for one of plain Python.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core.dispatcher import Dispatcher
from numba.extending import register_jitable

from tautrank.arrays import F64
from tautrank.kernels.ranking import longest_list
from tautrank.losses._smoothing_kernel import (
    DENSITY_AT_0,
    Draws,
    Kernels,
    build_kernels,
    draw_positions,
    mean_positions,
    scratch,
    sort_positions,
)
from tautrank.metrics.selection import selection_moved, selection_sums

_Compile = Callable[[Callable[..., None]], Callable[..., None]]

# Registered rather than compiled: a kernel around dispatchers could not be cached.
for _function in (selection_sums, selection_moved):
    register_jitable(error_model="numpy")(_function)


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


@njit(cache=True, error_model="numpy")
def _list_in_order(draws: Draws, query: int, t: F64, by_score: bool, room: Any) -> None:
    """Lay out a list's values and positions by rank, or as they come; the third array of ``room`` says how."""
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
def moved_value(sums: Any, moved: Any, draws: Draws, by_score: bool, query: int, t: F64, room: Any) -> Any:
    """The metric of a list, see `build_kernels`: what it is when the first document moves to where it is."""
    _list_in_order(draws, query, t, by_score, room)
    v, b, _, _, _ = room
    n = draws.offsets[query + 1] - draws.offsets[query]
    depth = min(draws.k, n)
    place = 0 if by_score or b[0] <= 0.0 else 1
    return moved(v[:n], sums(v[:n], b[:n], depth), 0, place, depth)


def _build(sums: Callable[..., Any], moved: Callable[..., Any], compiled: _Compile) -> Kernels:
    @compiled
    def gradients(draws: Draws, by_score: bool, first: int, last: int, grad: Any, hess: Any) -> None:
        _, arrangement, _, _, offsets, scale, k, sigma, samples, _, _, _ = draws
        longest = longest_list(offsets, first, last)
        x, t, noise, room = scratch(longest)
        v, b, order, _, _ = room
        g, h = np.empty(longest), np.empty(longest)
        share = DENSITY_AT_0 / (sigma * samples)
        for query in range(first, last):
            if scale[query] == 0.0:
                continue
            start = offsets[query]
            n = offsets[query + 1] - start
            depth = min(k, n)
            mean_positions(draws, query, x)
            for sample in range(samples):
                draw_positions(draws, query, sample, x, noise, t)
                _list_in_order(draws, query, t, by_score, room)
                prepared = sums(v[:n], b[:n], depth)
                for i in range(n):
                    g[i] = 0.0
                    h[i] = 0.0
                    mean = x[order[i]]
                    above = moved(v[:n], prepared, i, 0 if by_score else 1, depth)
                    for place in range(min(depth, n - 1) if by_score else 1):
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
                    at = arrangement[start + order[i]]
                    grad[at] -= share * g[i]
                    hess[at] += share * h[i]

    return build_kernels(gradients, compiled, moved_value, sums, moved)
