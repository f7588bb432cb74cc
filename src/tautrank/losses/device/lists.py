"""Labelled lists on a CUDA device, and what all losses there share: tiles of rows, sums, ranks and random numbers.

A program of a quadratic kernel takes `ROWS` documents of one list and walks over all documents of the list. How many
programs there are depends on the lengths of the lists, which stay on the device: the host starts the most there can be,
and those without rows end at once. Every sum has a fixed order, so the same scores give the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

ROWS = 32
"""Documents of a list that one program of a quadratic kernel takes."""

COLUMNS = 4
"""Documents it compares them with at a time; a divisor of `ROWS`."""


@triton.jit
def tile_of(program, tile_lists, tile_starts, offsets, ROWS: tl.constexpr):
    """Return the list of a program, its start, its length and the first of the program's rows."""
    query = tl.load(tile_lists + program)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    return query, start, n, (program - tl.load(tile_starts + query)) * ROWS


@triton.jit
def _count(values, start, n, first, own, i, DESCENDING: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Count the values that come before those of the rows; equal ones in their own order."""
    count = tl.zeros([ROWS, COLUMNS], tl.float32)
    # Left of the rows an equal value comes before, right of them it does not.
    for j0 in range(0, first, COLUMNS):
        other = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        before = other >= own[:, None] if DESCENDING else other <= own[:, None]
        count += tl.where(before, 1.0, 0.0)
    for j0 in range(first, tl.minimum(first + ROWS, n), COLUMNS):
        j = j0 + tl.arange(0, COLUMNS)
        other = tl.load(values + start + j, j < n, 0.0)[None, :]
        before = other > own[:, None] if DESCENDING else other < own[:, None]
        before |= (other == own[:, None]) & (j[None, :] < i[:, None])
        count += tl.where(before & (j < n)[None, :], 1.0, 0.0)
    for j0 in range(first + ROWS, n // COLUMNS * COLUMNS, COLUMNS):
        other = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        before = other > own[:, None] if DESCENDING else other < own[:, None]
        count += tl.where(before, 1.0, 0.0)
    rest = tl.maximum(n // COLUMNS * COLUMNS, first + ROWS)
    if rest < n:
        j = rest + tl.arange(0, COLUMNS)
        other = tl.load(values + start + j, j < n, 0.0)[None, :]
        before = other > own[:, None] if DESCENDING else other < own[:, None]
        count += tl.where(before & (j < n)[None, :], 1.0, 0.0)
    return tl.sum(count, 1).to(tl.int32)


@triton.jit
def _order_kernel(values, offsets, tile_lists, tile_starts, n_tiles, order, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    if tl.program_id(0) >= tl.load(n_tiles):
        return
    _, start, n, first = tile_of(tl.program_id(0), tile_lists, tile_starts, offsets, ROWS)
    i = first + tl.arange(0, ROWS)
    own = tl.load(values + start + i, i < n, 0.0)
    place = _count(values, start, n, first, own, i, False, ROWS, COLUMNS)
    tl.store(order + start + place, (start + i).to(tl.int32), i < n)


@triton.jit
def _rank_kernel(
    scores, arrangement, carried, offsets, tile_lists, tile_starts, n_tiles, sorted_scores, sorted_carried, target,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Order arranged scores, and carry a number of each document and its flat index along."""
    if tl.program_id(0) >= tl.load(n_tiles):
        return
    _, start, n, first = tile_of(tl.program_id(0), tile_lists, tile_starts, offsets, ROWS)
    i = first + tl.arange(0, ROWS)
    own = tl.load(scores + start + i, i < n, 0.0)
    place = start + _count(scores, start, n, first, own, i, True, ROWS, COLUMNS)
    tl.store(sorted_scores + place, own, i < n)
    tl.store(sorted_carried + place, tl.load(carried + start + i, i < n, 0.0), i < n)
    tl.store(target + place, tl.load(arrangement + start + i, i < n, 0), i < n)


@triton.jit
def _sum_kernel(values, offsets, sums, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    stop = tl.load(offsets + query + 1)
    total = tl.zeros([BLOCK], values.dtype.element_ty)
    for p0 in range(start, stop, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.load(values + p, p < stop, 0.0)
    tl.store(sums + query, tl.sum(total, 0))


@triton.jit
def _max_kernel(values, offsets, maxima, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    stop = tl.load(offsets + query + 1)
    most = tl.full([BLOCK], float("-inf"), values.dtype.element_ty)
    for p0 in range(start, stop, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        most = tl.maximum(most, tl.load(values + p, p < stop, float("-inf")))
    tl.store(maxima + query, tl.max(most, 0))


@triton.jit
def uniforms(seed, block, query, step, stream, document):
    """Return the uniform number of each document and those of its pair, as `kernels.randomness.fill_uniform`."""
    w0, w1, w2, w3 = tl.philox(seed, block, query, step, stream)
    u0 = (w0.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    u1 = (w1.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    u2 = (w2.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    u3 = (w3.to(tl.float64) + 0.5) * 2.3283064365386963e-10
    late = document % 4 >= 2
    first = tl.where(late, u2, u0)
    second = tl.where(late, u3, u1)
    return tl.where(document % 2 == 1, second, first), first, second


@triton.jit
def _noise_kernel(offsets, seed, step, stream, out, GUMBEL: tl.constexpr, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        zero = p * 0
        own, first, second = uniforms(seed, p // 4, zero + query, zero + step, zero + stream, p)
        if GUMBEL:
            noise = -tl.log(-tl.log(own))
        else:
            radius = tl.sqrt(-2.0 * tl.log(first))
            angle = 6.283185307179586 * second
            noise = radius * tl.where(p % 2 == 1, tl.sin(angle), tl.cos(angle))
        tl.store(out + start + p, noise, p < n)


class DeviceLists:
    """Labelled lists on one CUDA device, as `tautrank.losses.base.Lists` is in memory.

    Args:
        labels: one per document, of the type that the loss computes in.
        offsets: int64, start of each list, and the number of documents at the end.
        weights: one per list, or ``None`` for 1; lists without a relevant document count 0.
    """

    def __init__(self, labels: Tensor, offsets: Tensor, weights: Tensor | None = None) -> None:
        self.labels = labels.contiguous()
        self.offsets = offsets.contiguous()
        self.count = offsets.numel() - 1
        relevant = self.maxima(self.labels) > 0
        given = torch.ones_like(relevant, dtype=labels.dtype) if weights is None else weights.to(labels.dtype)
        self.weights = torch.where(relevant, given, torch.zeros_like(given))

    @functools.cached_property
    def sizes(self) -> Tensor:
        """Documents of each list."""
        return self.offsets.diff()

    @functools.cached_property
    def query(self) -> Tensor:
        """The list of each document."""
        places = torch.arange(self.labels.numel(), device=self.offsets.device)
        return torch.searchsorted(self.offsets, places, right=True) - 1

    @functools.cached_property
    def tiles(self) -> tuple[Tensor, Tensor, Tensor, int]:
        """The list of each program of a quadratic kernel, the first program of each list, their number, its limit."""
        starts = torch.zeros(self.count + 1, dtype=torch.int32, device=self.offsets.device)
        torch.cumsum((self.sizes + (ROWS - 1)) // ROWS, 0, dtype=torch.int32, out=starts[1:])
        most = self.labels.numel() // ROWS + self.count
        programs = torch.arange(most, dtype=torch.int32, device=self.offsets.device)
        return torch.searchsorted(starts[1:], programs, right=True, out_int32=True), starts, starts[-1:], most

    @functools.cached_property
    def arrangement(self) -> Tensor:
        """Flat indices of the documents of each list, from the lowest label up: the order of equal scores."""
        lists, starts, number, most = self.tiles
        order = torch.empty(self.labels.numel(), dtype=torch.int32, device=self.labels.device)
        if most:
            _order_kernel[(most,)](self.labels, self.offsets, lists, starts, number, order, ROWS, COLUMNS, num_warps=1)
        return order

    @functools.cached_property
    def longest(self) -> int:
        """Length of the longest list."""
        return int(self.sizes.max()) if self.count else 0

    @property
    def rank(self) -> Tensor:
        """The place of each document in its list, from 0."""
        return torch.arange(self.labels.numel(), device=self.offsets.device) - self.offsets[self.query]

    def ranked(self, scores: Tensor, carried: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores by decreasing score, the numbers (in the order of the arrangement) and the flat indices."""
        return self.order_down(scores[self.arrangement], carried, self.arrangement)

    def order_down(self, values: Tensor, carried: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the values of each list from the highest down, equal ones in their order, and two companions."""
        lists, starts, number, most = self.tiles
        s, c, target = torch.empty_like(values), torch.empty_like(carried), torch.empty_like(index)
        if most:
            _rank_kernel[(most,)](
                values, index, carried, self.offsets, lists, starts, number, s, c, target, ROWS, COLUMNS, num_warps=1
            )
        return s, c, target

    def sums(self, values: Tensor) -> Tensor:
        """Sum one value per document over each list."""
        return self._each(_sum_kernel, values)

    def maxima(self, values: Tensor) -> Tensor:
        """Return the largest value of each list; minus infinity for an empty one."""
        return self._each(_max_kernel, values)

    def _each(self, kernel: Any, values: Tensor) -> Tensor:
        out = torch.empty(self.count, dtype=values.dtype, device=values.device)
        if self.count:
            kernel[(self.count,)](values, self.offsets, out, 128, num_warps=1)
        return out

    def noisy(self, scores: Tensor, size: float, seed: int, step: int, stream: int, gumbel: bool) -> Tensor:
        """Add ``size`` times the noise of (seed, step, list, document) to the scores, as `add_noise` in memory."""
        noise = torch.empty(scores.numel(), dtype=torch.float64, device=scores.device)
        if self.count:
            _noise_kernel[(self.count,)](self.offsets, seed, step, stream, noise, gumbel, 128, num_warps=1)
        return (scores.double() + size * noise).to(scores.dtype)


def label_table(labels: Tensor, of_labels: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Tensor:
    """Apply a function of labels that lives in memory: only the distinct labels leave the device.

    Args:
        labels: one per document.
        of_labels: returns one number per label.
    """
    distinct, which = torch.unique(labels, return_inverse=True)
    table = np.ascontiguousarray(of_labels(distinct.double().cpu().numpy()), np.float64)
    return torch.from_numpy(table).to(labels.device, labels.dtype)[which]
