"""The LambdaLoss family on a CUDA device; see `tautrank.losses.pairwise` for the formulas.

Documents are laid out by rank. A row meets every other document: each pair is visited twice, once
from either side, so that no two programs write to one place and sums have a fixed order. With
``x = exp(-sigma |s_i - s_j|)``, ``p = 1/(1 + x)`` and ``y = x p``, a pair of weight ``w`` in the
right order has the derivative ``w y``, in the wrong order ``w p``, and both have the second
derivative ``w y p``.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from tautrank.kernels.streams import RANKING_STREAM, TIES_STREAM
from tautrank.losses.device.lists import (
    COLUMNS,
    ROWS,
    DeviceLists,
    DeviceObjective,
    device_gains,
    list_of_program,
    tile_of_program,
)
from tautrank.losses.pairwise import LambdaLoss, _GainLoss
from tautrank.metrics.gains import discount_values


@triton.jit
def _exp2(x):
    """Return ``2^x``: for float32 by the hardware's own instruction, which is right to two units in
    the last place.
    """
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def _reciprocal(x):
    """Return ``1/x``: for float32 by the hardware's own approximate instruction."""
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def _log2_of_one_plus(x):
    """Return ``log2(1 + x)`` for x in [0, 1], right to the last digits for small x as well.

    In float32, small x take the series ``log(1 + x) = x - x^2/2 + x^3/3 - ...``, times ``log2(e)``.
    """
    log2_e: tl.constexpr = 1.4426950408889634
    third: tl.constexpr = 0.3333333333333333
    series = x * (1.0 - x * (0.5 - x * (third - x * (0.25 - x * 0.2)))) * log2_e
    if x.dtype == tl.float32:
        return tl.where(x < 0.01, series, tl.log2(1.0 + x))
    # log(u) x / (u - 1) with u = 1 + x rounded: the rounding of u cancels (Goldberg). Where x is
    # too small to change 1, log(1 + x) is x, and the divisor 1 only keeps 0/0 away.
    u = 1.0 + x
    divisor = tl.where(u == 1.0, 1.0, u - 1.0)
    return tl.where(u == 1.0, x, tl.log(u) * x / divisor) * log2_e


@triton.jit
def _load_columns(places, keep, MASKED: tl.constexpr):
    """Load one number for each column, as a matrix of one row; with ``MASKED``, 0 where ``keep`` is
    false.
    """
    return (tl.load(places, keep, 0.0) if MASKED else tl.load(places))[None, :]


@triton.jit
def _columns(
    g,
    h,
    a,
    t,
    u,
    v,
    level,
    i,
    j,
    keep,
    t_ptr,
    u_ptr,
    v_ptr,
    level_ptr,
    gaps,
    near,
    slope,
    unit,
    BY_RANK: tl.constexpr,
    GAPS: tl.constexpr,
    CAPPED: tl.constexpr,
    EVERY: tl.constexpr,
    LEVELS: tl.constexpr,
    NORM: tl.constexpr,
    VALUE: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Return the sums of the rows with the pairs of rows ``i`` and columns ``j`` added: ``g`` of
    the first and ``h`` of the second derivatives, and ``a`` of the values (or lambdas).

    With ``d = t_i - t_j``, ``x = exp(-sigma |d|)``, ``p = 1/(1 + x)`` and ``y = x p``, a pair of
    weight ``m`` adds ``m y`` to ``g`` in the right order, ``m p`` in the wrong one, and ``m y p``
    to ``h``. The weight is the difference of the gains ``u`` times a weight by ranks or distance.

    Args:
        g, h, a: the sums so far, rows by columns.
        t, u, v, level: scores, gains, weights by rank and labels of the rows.
        i, j, keep: ranks of rows and columns, and which columns there are.
        t_ptr, u_ptr, v_ptr, level_ptr: the same four, of the list.
        gaps: addresses of the weights by distance of ranks.
        near, slope: the normaliser divides by ``near + slope |d|``.
        unit: sigma log2(e).
        BY_RANK to MASKED: as in `_pair_kernel`; ``MASKED`` if some columns may be missing.
    """
    uj = _load_columns(u_ptr + j, keep, MASKED)
    d = t[:, None] - _load_columns(t_ptr + j, keep, MASKED)
    x = _exp2(-tl.abs(d) * unit)
    p = _reciprocal(1.0 + x)
    y = x * p
    if EVERY:
        # A pair counts u_i for the order (i, j) and u_j for (j, i).
        row_weight = tl.where(i[:, None] == j[None, :], 0.0, u[:, None])
        column_weight = tl.where(i[:, None] == j[None, :], 0.0, uj)
        if MASKED:
            row_weight = tl.where(keep[None, :], row_weight, 0.0)
            column_weight = tl.where(keep[None, :], column_weight, 0.0)
        if NORM:
            part = 1.0 / (near + slope * tl.abs(d))
            row_weight *= part
            column_weight *= part
        push = row_weight * tl.where(d > 0, y, p)
        pull = column_weight * tl.where(d > 0, p, y)
        g += push - pull
        h += (row_weight + column_weight) * (y * p)
        if VALUE:
            bend = _log2_of_one_plus(x)
            a += 0.5 * (
                (row_weight + column_weight) * bend
                + unit * tl.abs(d) * tl.where(d > 0, column_weight, row_weight)
            )
        elif NORM:
            a += push + pull
    else:
        dg = u[:, None] - uj
        if CAPPED:
            dg = tl.minimum(tl.maximum(dg, -1.0), 1.0)
        if LEVELS:
            # Sampled gains need not agree with the labels, which say what is better.
            e = level[:, None] - _load_columns(level_ptr + j, keep, MASKED)
            dg = tl.where(e > 0, tl.abs(dg), tl.where(e < 0, -tl.abs(dg), 0.0))
        if BY_RANK:
            w = tl.abs(v[:, None] - _load_columns(v_ptr + j, keep, MASKED))
            if GAPS:
                w += tl.load(gaps)
        else:
            w = tl.load(gaps)
        m = w * dg
        if MASKED:
            m = tl.where(keep[None, :], m, 0.0)
        if NORM:
            m *= 1.0 / (near + slope * tl.abs(d))
        right = d * dg > 0
        slopes = m * tl.where(right, y, p)
        g += slopes
        h += tl.abs(m) * (y * p)
        if VALUE:
            a += 0.5 * tl.abs(m) * (_log2_of_one_plus(x) + tl.where(right, 0.0, unit * tl.abs(d)))
        elif NORM:
            a += tl.abs(slopes)
    return g, h, a


@triton.jit
def _pair_kernel(
    offsets,
    tile_lists,
    tile_starts,
    t_ptr,
    u_ptr,
    level_ptr,
    v_ptr,
    gap_ptr,
    meets_ptr,
    target,
    grad,
    hess,
    extra,
    units,
    factors,
    k,
    samples,
    size,
    zero_distance,
    BY_RANK: tl.constexpr,
    GAPS: tl.constexpr,
    CAPPED: tl.constexpr,
    EVERY: tl.constexpr,
    LEVELS: tl.constexpr,
    NORM: tl.constexpr,
    VALUE: tl.constexpr,
    EXTENDED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write for each document the sums of derivatives over its pairs with all documents of its
    list, as `_columns` adds them up, and of values or lambdas.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        t_ptr, u_ptr, level_ptr: scores, gains (a row per sample) and labels, by rank.
        v_ptr, gap_ptr: weights by rank, and by signed distance of ranks.
        meets_ptr: which documents meet every other, by rank.
        target: flat indices of the documents, by rank.
        grad, hess, extra: receive one number per document.
        units, factors: sigma log2(e), the factors of gradient and hessian; a factor per list.
        k, samples, size: the cutoff; sampled rankings; documents of all lists.
        zero_distance: where the distance 0 stands in ``gap_ptr``.
        BY_RANK, GAPS: whether weights are by rank, and by distance.
        CAPPED, EVERY, LEVELS: whether gains differ by at most 1; every pair counts in both orders;
            labels say which document is better.
        NORM, VALUE, EXTENDED: whether to normalise, to sum values, and to ask ``meets_ptr``.
        ROWS, COLUMNS: documents of a program, and others at a time.
    """
    query, start, n, first, i, live = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    kind = t_ptr.dtype.element_ty

    # The rows: scores, discounts and levels.
    t = tl.load(t_ptr + start + i, live, 0.0)
    v = tl.load(v_ptr + i, live, 0.0)
    level = tl.load(level_ptr + start + i, live, 0.0)
    # What the distance of scores divides by; 1 where there is no normaliser or no distance.
    near = tl.full([], 1.0, kind)
    slope = tl.full([], 0.0, kind)
    if NORM and tl.load(t_ptr + start, n > 0, 0.0) != tl.load(t_ptr + start + n - 1, n > 0, 0.0):
        near = tl.full([], 0.01, kind)
        slope = tl.full([], 1.0, kind)
    # sigma in units of log2(e), and what gradient, hessian and the rest are multiplied by.
    unit = tl.load(units)
    factor = tl.load(factors + query)
    g = tl.zeros([ROWS, COLUMNS], kind)
    h = tl.zeros([ROWS, COLUMNS], kind)
    a = tl.zeros([ROWS, COLUMNS], kind)

    # Rows beyond the cutoff meet only the columns before it, unless some documents beyond it meet
    # everything.
    stop = tl.where((first < k) | EXTENDED, n, tl.minimum(n, k))
    end_of_full = tl.where(
        ((first < k) & (first + ROWS > k)) | EXTENDED, 0, stop // COLUMNS * COLUMNS
    )
    meets = i < k
    if EXTENDED:
        meets |= tl.load(meets_ptr + start + i, live, 0) > 0
    column = tl.arange(0, COLUMNS)
    for sample in range(samples):
        u = tl.load(u_ptr + sample * size + start + i, live, 0.0)
        gaps = gap_ptr + zero_distance + i[:, None] - column[None, :]
        for j0 in range(0, end_of_full, COLUMNS):
            g, h, a = _columns(
                g,
                h,
                a,
                t,
                u,
                v,
                level,
                i,
                j0 + column,
                live,
                t_ptr + start,
                u_ptr + sample * size + start,
                v_ptr,
                level_ptr + start,
                gaps,
                near,
                slope,
                unit,
                BY_RANK,
                GAPS,
                CAPPED,
                EVERY,
                LEVELS,
                NORM,
                VALUE,
                False,
            )
            gaps -= COLUMNS
        for j0 in range(end_of_full, stop, COLUMNS):
            j = j0 + column
            g2, h2, a2 = _columns(
                g,
                h,
                a,
                t,
                u,
                v,
                level,
                i,
                j,
                j < stop,
                t_ptr + start,
                u_ptr + sample * size + start,
                v_ptr,
                level_ptr + start,
                gaps,
                near,
                slope,
                unit,
                BY_RANK,
                GAPS,
                CAPPED,
                EVERY,
                LEVELS,
                NORM,
                VALUE,
                True,
            )
            counts = meets[:, None] | (j < k)[None, :]
            if EXTENDED:
                counts |= (tl.load(meets_ptr + start + j, j < n, 0) > 0)[None, :]
            g = tl.where(counts, g2, g)
            h = tl.where(counts, h2, h)
            a = tl.where(counts, a2, a)
            gaps -= COLUMNS
    place = tl.load(target + start + i, live, 0)
    tl.store(grad + place, tl.sum(g, 1) * (-factor * tl.load(units + 1)), live)
    tl.store(hess + place, tl.sum(h, 1) * (factor * tl.load(units + 2)), live)
    if VALUE or NORM:
        tl.store(extra + place, tl.sum(a, 1) * factor, live)


@triton.jit
def _ties_kernel(offsets, begin, end, n_places, words, ideal):
    """Write which of the documents with equal labels get one of the last places among the k best,
    drawn at random; one program takes one list. `draw_ties` does the same in memory.

    Document after document, each is drawn with the probability ``places left / documents left``,
    so that every subset of the right size is equally likely.

    Args:
        offsets: where each list's documents begin, and the number of all.
        begin, end, n_places: the tied documents of each list, and how many of them get a place.
        words: random words of 32 bits, from the start of each list.
        ideal: receives 1 for drawn documents and 0 for the other tied ones.
    """
    query, list_start, _ = list_of_program(offsets)
    start = tl.load(begin + query)
    size = (tl.load(end + query) - start).to(tl.int32)
    free_places = tl.load(n_places + query).to(tl.int32)
    for place in range(size):
        n_left = size - place
        word = tl.load(words + list_start + place)
        # word / 2^32 < free_places / n_left, without a division.
        is_lucky = word * n_left < free_places.to(tl.float64) * 4294967296.0
        # When as many documents as places are left, all of them are drawn.
        is_drawn = is_lucky | (free_places == n_left)
        tl.store(ideal + start + place, is_drawn.to(tl.int8))
        free_places -= is_drawn.to(tl.int32)


class _WeightTables(NamedTuple):
    """The weights of the pairs of a loss, on the device.

    Attributes:
        by_rank: weight of each rank; a pair has the distance of two of them.
        by_distance: weight of each signed distance of ranks, 0 in the middle.
        discount: discount of each rank.
        ideal_discount: discount of each rank, 0 beyond the cutoff.
        units: sigma log2(e), and the factors of gradient and hessian.
        uses_ranks: whether the weights by rank matter.
        uses_distance: whether the weights by distance matter.
    """

    by_rank: Tensor
    by_distance: Tensor
    discount: Tensor
    ideal_discount: Tensor
    units: Tensor
    uses_ranks: bool
    uses_distance: bool


@functools.lru_cache(maxsize=64)
def _weight_tables(
    loss: LambdaLoss, n: int, kind: torch.dtype, device: torch.device
) -> _WeightTables:
    """Return the weights of pairs of a loss as tables on the device, for lists up to ``n`` long."""
    by_rank, by_distance = loss._rank_weights(n)
    by_distance[0] = 0.0
    discount = ideal_discount = by_rank
    if isinstance(loss, _GainLoss):
        discount = discount_values(n, loss.discount)
        ideal_discount = discount_values(n, loss.discount, loss.k)

    # XGBoost's hessian is twice as large.
    hessian_factor = 2.0 if loss.norm == "xgboost" else 1.0
    sigma = loss.sigma
    units = np.array([sigma * math.log2(math.e), sigma, sigma * sigma * hessian_factor])

    def to_device(table: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(table)).to(device, kind)

    distance_matters = bool(by_distance.any())
    ranks_differ = bool((by_rank != by_rank[0]).any())
    mirrored = by_distance[:0:-1]  # for negative distances
    return _WeightTables(
        by_rank=to_device(by_rank),
        by_distance=to_device(np.concatenate((mirrored, by_distance))),
        discount=to_device(discount),
        ideal_discount=to_device(ideal_discount),
        units=to_device(units),
        uses_ranks=ranks_differ or not distance_matters,
        uses_distance=distance_matters,
    )


class DevicePairs(DeviceObjective):
    """A member of the LambdaLoss family bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the drawn rankings of ``assignment="soft"``, and of the missed documents of
            ``extend="random"``.
    """

    def __init__(self, loss: LambdaLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        labels, arranged_labels = lists.labels, lists.arranged_labels
        # Length of the weight tables; a power of two, so that batches of other lengths share them.
        self._n = 2 ** math.ceil(math.log2(lists.longest_length + ROWS))
        self._tables = _weight_tables(loss, self._n, labels.dtype, labels.device)
        # The loss counts in bits: logarithms to the base 2.
        self._factor = lists.weights / math.log(2.0)

        # What the weight of a pair is the difference of: gains, numbers of labels, or labels.
        if isinstance(loss, _GainLoss):
            gains = device_gains(arranged_labels, loss.gain)
            self._gains = lists.normalise_gains(gains, self._tables.ideal_discount)
        elif math.isfinite(loss._cap):
            # The difference is cut at the cap, 1: every pair of different labels weighs the same,
            # as the numbers of the labels (0, 1, 2, ...) are at least 1 apart.
            _, label_numbers = torch.unique(arranged_labels, return_inverse=True)
            self._gains = label_numbers.to(labels.dtype)
        else:
            self._gains = arranged_labels

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the first and the second derivatives of the loss by the scores, one per
        document.
        """
        # Lambdas: the absolute derivatives of the pairs, which the normaliser of a list adds up.
        grad, hess, lambdas = self._sum_pairs(scores, step, value=False)
        if self.loss.norm is None:
            return grad, hess
        normaliser = self._normaliser(lambdas)[self.lists.query]
        return grad * normaliser, hess * normaliser

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the loss of each list and its derivative by each score, from one pass over the
        pairs, or from two if the loss has a normaliser, which needs the lambdas.
        """
        grad, _, value_parts = self._sum_pairs(scores, step, value=True)
        # `_sum_pairs` returns the parts of the value divided by log(2).
        values = self.lists.sums(value_parts) * math.log(2.0)
        if self.loss.norm is None:
            return values, grad
        _, _, lambdas = self._sum_pairs(scores, step, value=False)
        normaliser = self._normaliser(lambdas)
        return values * normaliser, grad * normaliser[self.lists.query]

    def _normaliser(self, lambdas: Tensor) -> Tensor:
        """Return LightGBM's factor ``log2(1 + S)/S`` of each list, where ``S`` is the sum of its
        lambdas, the absolute derivatives of its pairs; 1 where ``S`` is 0.

        The weight of a list, which the lambdas hold as a factor, is not part of ``S``.
        """
        # `_factor` is the weight of a list over log(2); weights of 0 must not divide.
        one = torch.ones_like(self._factor)
        list_weights = torch.where(self._factor > 0, self._factor * math.log(2.0), one)
        total = self.loss.sigma * math.log(2.0) * self.lists.sums(lambdas) / list_weights
        return torch.where(total > 0, torch.log2(1.0 + total) / total, one)

    def _sum_pairs(self, scores: Tensor, step: int, value: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return three sums over the pairs of each document: the gradient, the hessian, and either
        its part of the list's loss, if ``value``, or the sizes of its lambdas.

        The third is divided by log(2); without ``value`` and normaliser it holds nothing of use.
        """
        loss, lists, tables = self.loss, self.lists, self._tables
        by_rank, gains, target = lists.rank(scores, self._gains)
        draws_rankings = loss._draws_rankings
        is_extended = loss.extend is not None and loss.k is not None

        # One row of gains per sampled ranking.
        gain_rows = gains[None]
        if draws_rankings:
            gain_rows = self._sampled_gains(scores, gains, target, step)
        if loss.every_pair:
            gain_rows = (gain_rows.mean(0) * tables.by_rank[lists.place_in_list])[None]
        n_samples = gain_rows.shape[0]

        # A kernel needs an array even if it does not look at it.
        levels = lists.labels[target] if draws_rankings else by_rank
        meets_all = self._is_ideal(step)[target] if is_extended else target
        grad, hess = torch.empty_like(scores), torch.empty_like(scores)
        extra = torch.empty_like(scores) if value or loss.norm is not None else grad
        no_cutoff = 2**31 - 1
        lists.run_per_tile(
            _pair_kernel,
            by_rank,
            gain_rows,
            levels,
            tables.by_rank,
            tables.by_distance,
            meets_all,
            target,
            grad,
            hess,
            extra,
            tables.units,
            self._factor / n_samples if n_samples > 1 else self._factor,
            no_cutoff if loss.k is None else loss.k,
            n_samples,
            scores.numel(),
            self._n - 1,
            tables.uses_ranks,
            tables.uses_distance,
            math.isfinite(loss._cap),
            loss.every_pair,
            draws_rankings,
            loss.norm is not None,
            value,
            is_extended,
            ROWS,
            COLUMNS,
        )
        return grad, hess, extra

    def _is_ideal(self, step: int) -> Tensor:
        """Return 1 for each document of the ideal top k of its list, which meets all documents, and
        0 for all others.

        Documents that tie for the last ideal places count all, with ``extend="all"``, or as many as
        there are places, drawn at random with ``extend="random"``.
        """
        loss, lists, labels = self.loss, self.lists, self.lists.arranged_labels
        assert loss.k is not None
        starts, ends = lists.offsets[:-1], lists.offsets[1:]

        # The label of the last ideal place: documents below it are out, those above it are in.
        first_ideal = ends - lists.sizes.clamp(max=loss.k)
        # An empty list at the end looks one beyond the last label.
        labels_and_zero = torch.cat((labels, labels.new_zeros(1)))
        last_label = labels_and_zero[first_ideal][lists.query]
        is_below = (labels < last_label) | (labels == 0)
        is_below_or_tied = labels <= last_label
        ties_begin = starts + lists.sums(is_below.double()).long()
        ties_end = starts + lists.sums(is_below_or_tied.double()).long()

        n_places = torch.minimum(ties_end - (ends - loss.k), ties_end - ties_begin)
        first = ties_begin if loss.extend == "all" else ties_end - n_places
        is_ideal = (lists.flat_indices >= first[lists.query]).to(torch.int8)
        if loss.extend == "random":
            words = lists.noise("words", self.seed, step, TIES_STREAM)
            lists.run_per_list(_ties_kernel, ties_begin, ties_end, n_places, words, is_ideal)

        # From the order of the arrangement to that of the documents.
        return torch.empty_like(is_ideal).index_put_((lists.arrangement,), is_ideal)

    def _sampled_gains(self, scores: Tensor, gains: Tensor, target: Tensor, step: int) -> Tensor:
        """Return the gains of the documents for each ranking that is drawn with noisy scores: one
        row per sample, by the rank that the scores themselves give.

        A gain is multiplied by ``(1 - D(drawn rank)) / (1 - D(rank))``, where ``D`` is the discount
        of a rank: the assignment of ranks is soft.

        Args:
            scores: one per document.
            gains: by rank.
            target: flat indices of the documents, by rank.
            step: number of the training step.
        """
        loss, lists = self.loss, self.lists
        rank = lists.place_in_list
        cost = 1.0 - self._tables.discount
        inverse_cost = torch.where(cost > 0, 1.0 / cost, torch.zeros_like(cost))
        gain_rows = gains.new_empty((loss.samples, gains.numel()))
        drawn_rank = torch.empty_like(rank)
        for sample in range(loss.samples):
            noise = lists.noise("four normal", self.seed, step, RANKING_STREAM + 256 * sample)
            noisy_scores = (scores.double() + loss.spread * noise).to(scores.dtype)
            _, _, drawn_order = lists.rank(noisy_scores, gains)
            drawn_rank[drawn_order.long()] = rank

            ratio = cost[drawn_rank[target]] * inverse_cost[rank]
            factor = torch.where(cost[rank] > 0, ratio, torch.ones_like(ratio))
            gain_rows[sample] = gains * factor
        return gain_rows
