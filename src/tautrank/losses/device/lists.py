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
def list_of_program(offsets):
    """Return, for a kernel with one program per list: the number of the program's list, the flat
    index of its first document, and its length.
    """
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    end = tl.load(offsets + query + 1)
    return query, start, (end - start).to(tl.int32)


@triton.jit
def tile_of_program(program, offsets, tile_lists, tile_starts, ROWS: tl.constexpr):
    """Return which documents a program of a quadratic kernel serves: ``ROWS`` of one list.

    These are the number of the list, the flat index of its first document, its length (0 for a
    program without documents), the tile's first row, all its rows, counted from the start of the
    list, and which of them are documents: the last tile of a list may reach beyond its end.

    Args:
        program: number of the program.
        offsets: where each list's documents begin, and the number of all.
        tile_lists: the list of each program.
        tile_starts: the first program of each list.
        ROWS: documents per tile.
    """
    query = tl.load(tile_lists + program)
    start = tl.load(offsets + query)
    end = tl.load(offsets + query + 1)
    n = (end - start).to(tl.int32)

    tile_in_list = program - tl.load(tile_starts + query)
    first = tile_in_list * ROWS
    # More programs are started than there are tiles: those left over find an empty list.
    n = tl.where(first < n, n, 0)
    rows = first + tl.arange(0, ROWS)
    return query, start, n, first, rows, rows < n


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
    sorted_index,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sort the values of each list from the highest down, with two companions of each document.

    The place of row ``i`` is the number of documents ``j`` that come before it: those with
    ``value_j > value_i``, and of those with an equal value the ones with ``j < i``.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        values, index, carried: one value, one whole number and one number per document.
        sorted_values, sorted_carried, sorted_index: receive them in the new order.
        ROWS, COLUMNS: documents of a program, and how many others it looks at together.
    """
    _, start, n, first, i, is_row = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    row_values = tl.load(values + start + i, is_row, 0.0)
    n_before = tl.zeros([ROWS, COLUMNS], tl.float32)
    end_of_full = n // COLUMNS * COLUMNS

    # Left of the rows an equal value comes before, right of them it does not.
    for j0 in range(0, tl.minimum(first, n), COLUMNS):
        other_values = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        n_before += tl.where(other_values >= row_values[:, None], 1.0, 0.0)
    for j0 in range(first + ROWS, end_of_full, COLUMNS):
        other_values = tl.load(values + start + j0 + tl.arange(0, COLUMNS))[None, :]
        n_before += tl.where(other_values > row_values[:, None], 1.0, 0.0)

    # The rows themselves, and, in one more step, the columns left over at the end of the list.
    left_over = tl.maximum(end_of_full, first + ROWS)
    for j0 in range(first, first + ROWS + COLUMNS, COLUMNS):
        j = tl.where(j0 < first + ROWS, j0, left_over) + tl.arange(0, COLUMNS)
        other_values = tl.load(values + start + j, j < n, 0.0)[None, :]
        is_earlier = (other_values == row_values[:, None]) & (j[None, :] < i[:, None])
        comes_before = (other_values > row_values[:, None]) | is_earlier
        n_before += tl.where(comes_before & (j < n)[None, :], 1.0, 0.0)

    place = start + tl.sum(n_before, 1).to(tl.int32)
    tl.store(sorted_values + place, row_values, is_row)
    tl.store(sorted_carried + place, tl.load(carried + start + i, is_row, 0.0), is_row)
    tl.store(sorted_index + place, tl.load(index + start + i, is_row, 0), is_row)


@triton.jit
def _sum_kernel(offsets, values, sums, BLOCK: tl.constexpr):
    """Write the sum of the values of each list to ``sums``; each program takes one list.

    Args:
        offsets: where each list's documents begin, and the number of all.
        values, sums: one value per document, and one sum per list.
        BLOCK: documents that are added together; their sums are added up at the end.
    """
    query, start, n = list_of_program(offsets)
    partial_sums = tl.zeros([BLOCK], values.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        # p: places in the list; those beyond its end read as 0.
        p = p0 + tl.arange(0, BLOCK)
        partial_sums += tl.load(values + start + p, p < n, 0.0)
    tl.store(sums + query, tl.sum(partial_sums, 0))


@triton.jit
def largest_value(values, start, n, leave_out, BLOCK: tl.constexpr):
    """Return the largest of the ``n`` values from ``start`` on, the one numbered ``leave_out`` not
    counted (-1: all count); minus infinity if none is left.
    """
    largest = tl.full([BLOCK], float("-inf"), values.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        is_counted = (p < n) & (p != leave_out)
        largest = tl.maximum(largest, tl.load(values + start + p, is_counted, float("-inf")))
    return tl.max(largest, 0)


@triton.jit
def _max_kernel(offsets, values, maxima, BLOCK: tl.constexpr):
    """Write the largest value of each list to ``maxima``; each program takes one list.

    Args:
        offsets: where each list's documents begin, and the number of all.
        values, maxima: one value per document, and one maximum per list.
        BLOCK: documents that are compared together.
    """
    query, start, n = list_of_program(offsets)
    # -1 is the number of no document: none is left out.
    all_count = -1
    tl.store(maxima + query, largest_value(values, start, n, all_count, BLOCK))


@triton.jit
def uniform_numbers(seed, query, step, stream, document):
    """Return three random numbers in (0, 1) for each document: its own, and the first and the
    second of its pair. Each is ``u = (word + 1/2) / 2^32`` of a random word of 32 bits.

    A Philox block of four words serves four documents, as in `kernels.randomness.fill_uniform`:
    word ``document % 4`` is the document's own. Documents 0 and 1 are a pair, as are 2 and 3.

    Args:
        seed, query, step, stream: what the numbers depend on, besides the document.
        document: places of documents in their list.
    """
    unit: tl.constexpr = 2.3283064365386963e-10  # 2^-32
    # Triton wants counters of the same shape: adding zeros repeats a number for each document.
    zero = document * 0
    w0, w1, w2, w3 = tl.philox(seed, document // 4, zero + query, zero + step, zero + stream)

    # Of the block of four words the first two serve its first pair, the others its second.
    is_second_pair = document % 4 >= 2
    first = (tl.where(is_second_pair, w2, w0).to(tl.float64) + 0.5) * unit
    second = (tl.where(is_second_pair, w3, w1).to(tl.float64) + 0.5) * unit
    is_second_of_pair = document % 2 == 1
    return tl.where(is_second_of_pair, second, first), first, second


@triton.jit
def _minus_log(x):
    """Return ``-log x`` of float64 numbers above 0, computed as `kernels.normal.minus_log` does.

    With ``x = m 2^exponent`` and ``m`` between sqrt(1/2) and sqrt(2), ``log m = 2 artanh(s)``
    and ``s = (m - 1)/(m + 1)``, where ``artanh(s) = s (1 + q/3 + q^2/5 + ...)`` with ``q = s^2``.
    """
    sqrt_half_bits: tl.constexpr = 0x3FE6A09E667F3BCD
    mantissa_bits: tl.constexpr = 52
    log_of_2: tl.constexpr = 0.6931471805599453
    bits = x.to(tl.int64, bitcast=True)
    exponent = (bits - sqrt_half_bits) >> mantissa_bits
    m = (bits - (exponent << mantissa_bits)).to(tl.float64, bitcast=True)

    s = (m - 1.0) / (m + 1.0)
    q = s * s
    third: tl.constexpr = 1 / 3
    fifth: tl.constexpr = 0.2
    seventh: tl.constexpr = 1 / 7
    ninth: tl.constexpr = 1 / 9
    eleventh: tl.constexpr = 1 / 11
    series = ninth + q * eleventh
    series = seventh + q * series
    series = fifth + q * series
    series = third + q * series
    artanh = s * (1.0 + q * series)
    return -(exponent.to(tl.float64) * log_of_2 + 2.0 * artanh)


@triton.jit
def _noise_kernel(offsets, seed, step, stream, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Fill ``out`` with the noise of every document of a list; each program takes one list.

    The kinds ``"four gumbel"`` and ``"four normal"`` are those of `kernels.randomness`, where four
    documents share a block of four random words: ``-log(-log u)`` and Box-Muller. ``"words"``,
    ``"normal"``, ``"logistic"`` and ``"gumbel"`` are those of `kernels.normal`, where 64 documents
    share 16 blocks: the word itself, and quantiles of ``u = (word + 1/2) / 2^32``.

    Args:
        offsets: where each list's documents begin, and the number of all.
        seed, step, stream: what the numbers depend on, besides the list and the document.
        out: one number per document.
        KIND, BLOCK: the kind of noise, and documents that are served together.
    """
    unit: tl.constexpr = 2.3283064365386963e-10  # 2^-32
    query, start, n = list_of_program(offsets)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        if KIND == "four gumbel":
            u, _, _ = uniform_numbers(seed, query, step, stream, p)
            noise = -tl.log(-tl.log(u))
        elif KIND == "four normal":
            _, first, second = uniform_numbers(seed, query, step, stream, p)
            angle = 6.283185307179586 * second  # 2 pi
            noise = tl.sqrt(-2.0 * tl.log(first)) * tl.where(
                p % 2 == 1, tl.sin(angle), tl.cos(angle)
            )
        else:
            # Document p of a group of 64 takes word p / 16 of block p % 16.
            zero = p * 0
            block = 16 * (p // 64) + p % 16
            w0, w1, w2, w3 = tl.philox(seed, block, zero + query, zero + step, zero + stream)
            word_number = p % 64 // 16
            noise = tl.where(
                word_number == 0,
                w0,
                tl.where(word_number == 1, w1, tl.where(word_number == 2, w2, w3)),
            ).to(tl.float64)

            # u = below / 2^32 and 1 - u = above / 2^32.
            below = noise + 0.5
            above = 4294967296.0 - below  # 2^32
            if KIND == "normal":
                # x F(v) with x = 2u - 1, v = -log(1 - x^2), and F a ratio of polynomials.
                v = _minus_log(below * above * 2.168404344971009e-19)  # 4 / 2^64
                a = 0.001144983021 + v * (6.124274347e-05 + v * 2.034873409e-07)
                a = 1.253314108 + v * (
                    0.4469247174 + v * (0.0910093726 + v * (0.01255141641 + v * a))
                )
                b = 0.002308084904 + v * (0.0002533391286 + v * 3.914180559e-06)
                b = 1.0 + v * (0.09479435307 + v * (0.03476822871 + v * b))
                noise = (below - above) * unit * a / b
            elif KIND == "gumbel":
                noise = _minus_log(_minus_log(below * unit))
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
        # The number of lists: ``offsets`` has their starts and one end.
        self.count = offsets.numel() - 1

        # A list is learned from if its highest label is above 0.
        has_relevant = self.maxima(self.labels) > 0
        if weights is None:
            list_weights = torch.ones_like(has_relevant, dtype=labels.dtype)
        else:
            list_weights = weights.to(labels.dtype)
        self.weights = torch.where(has_relevant, list_weights, torch.zeros_like(list_weights))

    @functools.cached_property
    def sizes(self) -> Tensor:
        """Return the number of documents of each list."""
        return self.offsets.diff()

    @functools.cached_property
    def flat_indices(self) -> Tensor:
        """Return the flat index of each document: 0, 1, 2, ... over all lists."""
        return torch.arange(self.labels.numel(), dtype=torch.int32, device=self.labels.device)

    @functools.cached_property
    def query(self) -> Tensor:
        """Return the number of the list that each document belongs to."""
        return torch.searchsorted(self.offsets, self.flat_indices.long(), right=True) - 1

    @functools.cached_property
    def tiles(self) -> tuple[Tensor, Tensor, int]:
        """Return, for a kernel that compares all pairs of documents, the list of each program, the
        first program of each list, and how many programs to start; a program serves a tile,
        ``ROWS`` documents of one list.

        The lengths of the lists stay on the device. The host therefore starts as many programs as
        there can be: at most one per list takes fewer than ``ROWS`` documents.
        """
        device = self.offsets.device
        programs_of_list = (self.sizes + (ROWS - 1)) // ROWS
        starts = torch.zeros(self.count + 1, dtype=torch.int32, device=device)
        # Written behind a leading 0, so that ``starts[q]`` counts the programs of the lists before.
        torch.cumsum(programs_of_list, 0, dtype=torch.int32, out=starts[1:])

        n_programs = self.labels.numel() // ROWS + self.count
        programs = torch.arange(n_programs, dtype=torch.int32, device=device)
        # The list of a program is the one whose range of programs it falls into.
        lists = torch.searchsorted(starts[1:], programs, right=True, out_int32=True)
        # Programs beyond the last tile get the last list, and find no rows of it.
        return lists.clamp_(max=self.count - 1), starts, n_programs

    @functools.cached_property
    def arrangement(self) -> Tensor:
        """Return the flat indices of the documents of each list, from the lowest label up: the
        order of documents with equal scores, so that ties count as wrong.
        """
        _, _, order = self.sort_descending(-self.labels, self.labels, self.flat_indices)
        return order

    @functools.cached_property
    def arranged_labels(self) -> Tensor:
        """Return the labels of each list from the lowest up."""
        return self.labels[self.arrangement]

    @functools.cached_property
    def longest_length(self) -> int:
        """Return the number of documents of the longest list."""
        return int(self.sizes.max()) if self.count else 0

    @functools.cached_property
    def place_in_list(self) -> Tensor:
        """Return the place of each document in its list, from 0; the rank, where documents are laid
        out by rank.
        """
        return self.flat_indices - self.offsets[self.query]

    def run_per_list(self, kernel: Any, *arguments: Any) -> None:
        """Start a Triton kernel with one program per list: ``kernel(offsets, *arguments)``."""
        kernel[(self.count,)](self.offsets, *arguments, num_warps=1)

    def run_per_tile(self, kernel: Any, *arguments: Any) -> None:
        """Start a quadratic Triton kernel with one program per tile of ``ROWS`` documents:
        ``kernel(offsets, tile_lists, tile_starts, *arguments)``.
        """
        tile_lists, tile_starts, n_programs = self.tiles
        kernel[(n_programs,)](self.offsets, tile_lists, tile_starts, *arguments, num_warps=1)

    def rank(self, scores: Tensor, carried: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rank the documents of each list by decreasing score, equal scores in the order of the
        arrangement, the lowest label first.

        Args:
            scores: one per document.
            carried: one number per document, in the order of the arrangement, such as a gain.

        Returns:
            By rank: the scores, the carried numbers, and the flat indices of the documents.
        """
        return self.sort_descending(scores[self.arrangement], carried, self.arrangement)

    def sort_descending(
        self, values: Tensor, carried: Tensor, index: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sort the values of each list from the highest down, equal ones in the order that they
        have, and return them with the carried numbers and indices of their documents.
        """
        sorted_values = torch.empty_like(values)
        sorted_carried = torch.empty_like(carried)
        sorted_index = torch.empty_like(index)
        results = (sorted_values, sorted_carried, sorted_index)
        # The kernel counts for each document how many come before it, and writes it to that rank.
        self.run_per_tile(_rank_kernel, values, index, carried, *results, ROWS, COLUMNS)
        return results

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of the values of each list, given one value per document."""
        return self._reduce(_sum_kernel, values)

    def maxima(self, values: Tensor) -> Tensor:
        """Return the largest value of each list; minus infinity for an empty one."""
        return self._reduce(_max_kernel, values)

    def _reduce(self, kernel: Any, values: Tensor) -> Tensor:
        """Return what a kernel makes of the values of each list: one number per list."""
        reduced = torch.empty(self.count, dtype=values.dtype, device=values.device)
        self.run_per_list(kernel, values, reduced, BLOCK)
        return reduced

    def noise(self, kind: str, seed: int, step: int, stream: int) -> Tensor:
        """Return one random number per document, float64, which depends only on the seed, the step,
        the stream, the list and the document.

        Args:
            kind: the distribution, one of those of `_noise_kernel`.
            seed: seed of all random numbers.
            step: number of the training step.
            stream: what the numbers are for.
        """
        noise = torch.empty(self.labels.numel(), dtype=torch.float64, device=self.labels.device)
        self.run_per_list(_noise_kernel, seed, step, stream, noise, kind, BLOCK)
        return noise

    def to_device(self, values: NDArray[Any]) -> Tensor:
        """Return a NumPy array as a tensor on the device, in the type of the labels."""
        contiguous = np.ascontiguousarray(values)
        return torch.from_numpy(contiguous).to(self.labels.device, self.labels.dtype)

    def normalise_gains(self, gains: Tensor, discount: Tensor) -> Tensor:
        """Return gains divided by the ideal DCG of their list, the sum of discounted gains of the
        best ranking; 0 where that is 0.

        Args:
            gains: one per document, in the order of the arrangement.
            discount: one per rank.
        """
        # The arrangement sorts each list by label, the best documents last: counted from the end it
        # is the ideal ranking.
        ideal_rank = (self.sizes - 1)[self.query] - self.place_in_list
        ideal_dcg = self.sums(gains * discount[ideal_rank])
        # A list without gains has no ideal DCG: its gains are 0 and stay so.
        factor = torch.where(ideal_dcg > 0, 1.0 / ideal_dcg, torch.zeros_like(ideal_dcg))
        return gains * factor[self.query]

    def weights_where_any(self, gains: Tensor) -> Tensor:
        """Return the weight of each list, 0 for lists whose documents all have the gain 0."""
        has_gain = self.maxima(gains.abs()) > 0
        return torch.where(has_gain, self.weights, torch.zeros_like(self.weights))


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
        """Return the loss of each list for the scores of its documents."""
        values, _ = self.values_and_gradient(scores, step)
        return values

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor | None]:
        """Return the first and the second derivatives of the loss by the scores, one per document;
        ``None`` instead of second derivatives that only a booster would need.
        """
        _, gradient = self.values_and_gradient(scores, step)
        return gradient, None

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the loss of each list, and its derivative by each score, in one pass where the
        kernels can do it.
        """
        values = self.values(scores, step)
        gradient, _ = self.gradients(scores, step)
        return values, gradient


def map_labels(
    labels: Tensor, value_of: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> Tensor:
    """Return one value per document, computed from its label by a NumPy function.

    The function is called in main memory: only the few distinct labels leave the device.

    Args:
        labels: one per document.
        value_of: returns one number for each of the labels that it gets.
    """
    distinct, number_of_label = torch.unique(labels, return_inverse=True)
    labels_in_memory = distinct.double().cpu().numpy()
    values = np.ascontiguousarray(value_of(labels_in_memory), np.float64)
    values_on_device = torch.from_numpy(values).to(labels.device, labels.dtype)
    return values_on_device[number_of_label]


def device_gains(labels: Tensor, gain: Gain) -> Tensor:
    """Return the gain of each document, what its label is worth in NDCG, on the device.

    Args:
        labels: one per document.
        gain: ``"linear"``, ``"exp2"``, or another one of `tautrank.metrics.gains.gain_values`.
    """
    if gain == "linear":
        return labels
    # In float32 the device is exact enough; float64 takes the same NumPy function as in memory.
    if gain == "exp2" and labels.dtype == torch.float32:
        return torch.exp2(labels) - 1.0
    return map_labels(labels, lambda distinct: gain_values(distinct, gain))
