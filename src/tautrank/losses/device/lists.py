"""Labelled lists on a CUDA device, and what all losses there share: tiles of rows, sums, ranks,
gains and noise.

A program of a quadratic kernel takes `ROWS` documents of one list and walks over all documents of
the list. How many programs there are depends on the lengths of the lists, which stay on the device:
the host starts the most there can be, and those without rows have a list of no documents. Every sum
has a fixed order, so the same scores give the same bits.

Random numbers are the same as in memory, keyed by (seed, step, list, document).
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

from tautrank.metrics.gains import Gain, gain_values

ROWS = 32
"""Documents of a list that one program of a quadratic kernel takes."""

COLUMNS = 4
"""Documents it compares them with at a time; a divisor of `ROWS`."""

BLOCK = 128
"""Documents of a list that a program which walks over a whole one takes at a time."""


@triton.jit
def own_list(offsets):
    """Return the list of a program that takes a whole one, its start and its length."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    return query, start, (tl.load(offsets + query + 1) - start).to(tl.int32)


@triton.jit
def own_tile(program, offsets, tile_lists, tile_starts, ROWS: tl.constexpr):
    """Return the list of a program, its start, its length, the program's first row, its rows and
    which there are.
    """
    query = tl.load(tile_lists + program)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    first = (program - tl.load(tile_starts + query)) * ROWS
    n = tl.where(first < n, n, 0)
    i = first + tl.arange(0, ROWS)
    return query, start, n, first, i, i < n


@triton.jit
def _rank_kernel(
    offsets,
    tile_lists,
    tile_starts,
    values,
    index,
    carried,
    sorted_values,
    sorted_carried,
    target,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Order values, from the highest down and equal ones as they come, and carry two numbers of
    each along.
    """
    _, start, n, first, i, live = own_tile(tl.program_id(0), offsets, tile_lists, tile_starts, ROWS)
    row_values = tl.load(values + start + i, live, 0.0)
    count = tl.zeros([ROWS, COLUMNS], tl.float32)
    # Left of the rows an equal value comes before, right of them it does not.
    for j0 in range(0, tl.minimum(first, n), COLUMNS):
        column_values = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        count += tl.where(column_values >= row_values[:, None], 1.0, 0.0)
    for j0 in range(first + ROWS, n // COLUMNS * COLUMNS, COLUMNS):
        column_values = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        count += tl.where(column_values > row_values[:, None], 1.0, 0.0)
    # The rows themselves, and what is left at the end of the list.
    remainder = tl.maximum(n // COLUMNS * COLUMNS, first + ROWS)
    for j0 in range(first, first + ROWS + COLUMNS, COLUMNS):
        j = tl.where(j0 < first + ROWS, j0, remainder) + tl.arange(0, COLUMNS)
        column_values = tl.load(values + start + j, j < n, 0.0)[None, :]
        before = (column_values > row_values[:, None]) | (
            (column_values == row_values[:, None]) & (j[None, :] < i[:, None])
        )
        count += tl.where(before & (j < n)[None, :], 1.0, 0.0)
    place = start + tl.sum(count, 1).to(tl.int32)
    tl.store(sorted_values + place, row_values, live)
    tl.store(sorted_carried + place, tl.load(carried + start + i, live, 0.0), live)
    tl.store(target + place, tl.load(index + start + i, live, 0), live)


@triton.jit
def _sum_kernel(offsets, values, sums, BLOCK: tl.constexpr):
    """Sum the values of a list."""
    query, start, n = own_list(offsets)
    total = tl.zeros([BLOCK], values.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.load(values + start + p, p < n, 0.0)
    tl.store(sums + query, tl.sum(total, 0))


@triton.jit
def highest(values, start, n, leave_out, BLOCK: tl.constexpr):
    """Return the largest value of a list, one document left out; minus infinity without any."""
    maxima = tl.full([BLOCK], float("-inf"), values.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        maxima = tl.maximum(
            maxima, tl.load(values + start + p, (p < n) & (p != leave_out), float("-inf"))
        )
    return tl.max(maxima, 0)


@triton.jit
def _max_kernel(offsets, values, maxima, BLOCK: tl.constexpr):
    """Write the largest value of a list."""
    query, start, n = own_list(offsets)
    tl.store(maxima + query, highest(values, start, n, -1, BLOCK))


@triton.jit
def uniforms(seed, query, step, stream, document):
    """Return the uniform number of each document and those of its pair, as
    `kernels.randomness.fill_uniform`.
    """
    zero = document * 0
    w0, w1, w2, w3 = tl.philox(seed, document // 4, zero + query, zero + step, zero + stream)
    late = document % 4 >= 2
    first = (tl.where(late, w2, w0).to(tl.float64) + 0.5) * 2.3283064365386963e-10
    second = (tl.where(late, w3, w1).to(tl.float64) + 0.5) * 2.3283064365386963e-10
    return tl.where(document % 2 == 1, second, first), first, second


@triton.jit
def _minus_log(x):
    """``-log x``, as `kernels.normal.minus_log` computes it."""
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = (bits - (exponent << 52)).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    third: tl.constexpr = 1 / 3
    seventh: tl.constexpr = 1 / 7
    ninth: tl.constexpr = 1 / 9
    eleventh: tl.constexpr = 1 / 11
    artanh = s * (1.0 + q * (third + q * (0.2 + q * (seventh + q * (ninth + q * eleventh)))))
    return -(exponent.to(tl.float64) * 0.6931471805599453 + 2.0 * artanh)


@triton.jit
def _noise_kernel(offsets, seed, step, stream, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Fill the noise of every document of a list.

    The kinds ``"four gumbel"`` and ``"four normal"`` are those of `kernels.randomness`, where four
    documents share a block of four words; ``"words"``, ``"normal"``, ``"logistic"`` and
    ``"gumbel"`` are those of `kernels.normal`, where 64 documents share 16 blocks.
    """
    query, start, n = own_list(offsets)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        if KIND == "four gumbel":
            noise = -tl.log(-tl.log(uniforms(seed, query, step, stream, p)[0]))
        elif KIND == "four normal":
            _, first, second = uniforms(seed, query, step, stream, p)
            angle = 6.283185307179586 * second
            noise = tl.sqrt(-2.0 * tl.log(first)) * tl.where(
                p % 2 == 1, tl.sin(angle), tl.cos(angle)
            )
        else:
            zero = p * 0
            w0, w1, w2, w3 = tl.philox(
                seed, 16 * (p // 64) + p % 16, zero + query, zero + step, zero + stream
            )
            word = p % 64 // 16
            noise = tl.where(
                word == 0, w0, tl.where(word == 1, w1, tl.where(word == 2, w2, w3))
            ).to(tl.float64)
            below = noise + 0.5
            above = 4294967296.0 - below
            if KIND == "normal":
                v = _minus_log(below * above * 2.168404344971009e-19)
                a = 0.001144983021 + v * (6.124274347e-05 + v * 2.034873409e-07)
                a = 1.253314108 + v * (
                    0.4469247174 + v * (0.0910093726 + v * (0.01255141641 + v * a))
                )
                b = 0.002308084904 + v * (0.0002533391286 + v * 3.914180559e-06)
                b = 1.0 + v * (0.09479435307 + v * (0.03476822871 + v * b))
                noise = (below - above) * 2.3283064365386963e-10 * a / b
            elif KIND == "gumbel":
                noise = _minus_log(_minus_log(below * 2.3283064365386963e-10))
            elif KIND != "words":
                noise = -_minus_log(below / above)
        tl.store(out + start + p, noise, p < n)


class DeviceLists:
    """Labelled lists on one CUDA device, as `tautrank.losses.base.TrainingLists` is in memory.

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
        query_weights = (
            torch.ones_like(relevant, dtype=labels.dtype)
            if weights is None
            else weights.to(labels.dtype)
        )
        self.weights = torch.where(relevant, query_weights, torch.zeros_like(query_weights))

    @functools.cached_property
    def sizes(self) -> Tensor:
        """Documents of each list."""
        return self.offsets.diff()

    @functools.cached_property
    def places(self) -> Tensor:
        """The flat index of each document."""
        return torch.arange(self.labels.numel(), dtype=torch.int32, device=self.labels.device)

    @functools.cached_property
    def query(self) -> Tensor:
        """The list of each document."""
        return torch.searchsorted(self.offsets, self.places.long(), right=True) - 1

    @functools.cached_property
    def tiles(self) -> tuple[Tensor, Tensor, int]:
        """The list of each program of a quadratic kernel, the first program of each list, and the
        most programs there can be.
        """
        starts = torch.zeros(self.count + 1, dtype=torch.int32, device=self.offsets.device)
        torch.cumsum((self.sizes + (ROWS - 1)) // ROWS, 0, dtype=torch.int32, out=starts[1:])
        n_programs = self.labels.numel() // ROWS + self.count
        programs = torch.arange(n_programs, dtype=torch.int32, device=self.offsets.device)
        lists = torch.searchsorted(starts[1:], programs, right=True, out_int32=True)
        return lists.clamp_(max=self.count - 1), starts, n_programs

    @functools.cached_property
    def arrangement(self) -> Tensor:
        """Flat indices of the documents of each list, from the lowest label up: the order of equal
        scores.
        """
        return self.order_down(-self.labels, self.labels, self.places)[2]

    @functools.cached_property
    def arranged(self) -> Tensor:
        """The labels of each list from the lowest up."""
        return self.labels[self.arrangement]

    @functools.cached_property
    def longest(self) -> int:
        """Length of the longest list."""
        return int(self.sizes.max()) if self.count else 0

    @functools.cached_property
    def rank(self) -> Tensor:
        """The place of each document in its list, from 0."""
        return self.places - self.offsets[self.query]

    def each(self, kernel: Any, *arguments: Any) -> None:
        """Start one program per list: ``kernel(offsets, *arguments)``."""
        kernel[(self.count,)](self.offsets, *arguments, num_warps=1)

    def tiled(self, kernel: Any, *arguments: Any) -> None:
        """Start the programs of a quadratic kernel:
        ``kernel(offsets, tile_lists, tile_starts, *arguments)``.
        """
        lists, starts, n_programs = self.tiles
        kernel[(n_programs,)](self.offsets, lists, starts, *arguments, num_warps=1)

    def ranked(self, scores: Tensor, carried: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the scores by decreasing score, the numbers (in the order of the arrangement) and
        the flat indices.
        """
        return self.order_down(scores[self.arrangement], carried, self.arrangement)

    def order_down(
        self, values: Tensor, carried: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the values of each list from the highest down, equal ones in their order, and two
        companions.
        """
        s, c, target = torch.empty_like(values), torch.empty_like(carried), torch.empty_like(index)
        self.tiled(_rank_kernel, values, index, carried, s, c, target, ROWS, COLUMNS)
        return s, c, target

    def sums(self, values: Tensor) -> Tensor:
        """Sum one value per document over each list."""
        return self._reduced(_sum_kernel, values)

    def maxima(self, values: Tensor) -> Tensor:
        """Return the largest value of each list; minus infinity for an empty one."""
        return self._reduced(_max_kernel, values)

    def _reduced(self, kernel: Any, values: Tensor) -> Tensor:
        """Return one number per list, written by a kernel that walks over the list."""
        out = torch.empty(self.count, dtype=values.dtype, device=values.device)
        self.each(kernel, values, out, BLOCK)
        return out

    def noise(self, kind: str, seed: int, step: int, stream: int) -> Tensor:
        """Return the noise of (seed, step, list, document), float64; the kinds are those of
        `_noise_kernel`.
        """
        noise = torch.empty(self.labels.numel(), dtype=torch.float64, device=self.labels.device)
        self.each(_noise_kernel, seed, step, stream, noise, kind, BLOCK)
        return noise

    def placed(self, values: NDArray[Any]) -> Tensor:
        """Return numbers that live in memory on the device, in the type of the labels."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(
            self.labels.device, self.labels.dtype
        )

    def of_best(self, gains: Tensor, discount: Tensor) -> Tensor:
        """Divide gains, in the order of the arrangement, by the sum of discounted gains of the best
        ranking.
        """
        # The arrangement has the best documents last: counted from the end it is the ideal ranking.
        best = self.sums(gains * discount[(self.sizes - 1)[self.query] - self.rank])
        return gains * torch.where(best > 0, 1.0 / best, torch.zeros_like(best))[self.query]

    def weights_of(self, gains: Tensor) -> Tensor:
        """Return the weight of each list, 0 where there is nothing to gain."""
        return torch.where(
            self.maxima(gains.abs()) > 0, self.weights, torch.zeros_like(self.weights)
        )


class DeviceObjective:
    """A loss bound to lists on a device, as `tautrank.losses.base.Objective` is in memory.

    It defines ``values_and_gradient``, or ``values`` and ``gradients``, or, where a booster could
    train on the device, both. Scores are checked and noisy already; the step is as in memory.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of all random numbers.
    """

    def __init__(self, loss: Any, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists, self.seed = loss, lists, seed

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        return self.values_and_gradient(scores, step)[0]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        """Return gradient and hessian, one per document; ``None`` for a hessian that only a booster
        would need.
        """
        return self.values_and_gradient(scores, step)[1], None

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the value of each list and the gradient, in one pass where the kernels can do
        it.
        """
        return self.values(scores, step), self.gradients(scores, step)[0]


def label_table(
    labels: Tensor, of_labels: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Tensor:
    """Apply a function of labels that lives in memory: only the distinct labels leave the device.

    Args:
        labels: one per document.
        of_labels: returns one number per label.
    """
    distinct, level_of = torch.unique(labels, return_inverse=True)
    table = np.ascontiguousarray(of_labels(distinct.double().cpu().numpy()), np.float64)
    return torch.from_numpy(table).to(labels.device, labels.dtype)[level_of]


def device_gains(labels: Tensor, gain: Gain) -> Tensor:
    """Return the gains of labels on a device.

    Args:
        labels: one per document.
        gain: as in `tautrank.metrics.gains.gain_values`.
    """
    if gain == "linear":
        return labels
    if gain == "exp2" and labels.dtype == torch.float32:
        return torch.exp2(labels) - 1.0
    return label_table(labels, lambda distinct: gain_values(distinct, gain))
