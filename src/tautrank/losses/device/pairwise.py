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
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
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
    """2 to the power of x; float32 by the hardware's own instruction, which is right to two units
    in the last place.
    """
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def _reciprocal(x):
    """Return 1/x, in float32 by the instruction of the device."""
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def _log2_of_one_plus(x):
    """log2(1 + x) for x in [0, 1], right to the last digits for small x as well."""
    small = (
        x * (1.0 - x * (0.5 - x * (0.3333333333333333 - x * (0.25 - x * 0.2)))) * 1.4426950408889634
    )
    if x.dtype == tl.float32:
        return tl.where(x < 0.01, small, tl.log2(1.0 + x))
    # log(u) x / (u - 1) with u = 1 + x rounded: the rounding of u cancels (Goldberg).
    u = 1.0 + x
    return (
        tl.where(u == 1.0, x, tl.log(u) * x / tl.where(u == 1.0, 1.0, u - 1.0)) * 1.4426950408889634
    )


@triton.jit
def _row(places, keep, MASKED: tl.constexpr):
    """Load a row of numbers; 0 where ``keep`` is false."""
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
    """Add the pairs of the rows ``i`` with the columns ``j`` to the sums of derivatives and of
    values (or lambdas).
    """
    uj = _row(u_ptr + j, keep, MASKED)
    d = t[:, None] - _row(t_ptr + j, keep, MASKED)
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
            e = level[:, None] - _row(level_ptr + j, keep, MASKED)
            dg = tl.where(e > 0, tl.abs(dg), tl.where(e < 0, -tl.abs(dg), 0.0))
        if BY_RANK:
            w = tl.abs(v[:, None] - _row(v_ptr + j, keep, MASKED))
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
    """Write the derivatives of a tile of rows with all documents of their list."""
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
def _ties_kernel(offsets, begin, stop, n_places, words, ideal):
    """Choose which of the documents that tie for the last ideal places are taken, as `draw_ties` in
    memory.
    """
    query, list_start, _ = list_of_program(offsets)
    start = tl.load(begin + query)
    size = (tl.load(stop + query) - start).to(tl.int32)
    free_places = tl.load(n_places + query).to(tl.int32)
    for place in range(size):
        # One after the other, each with the chance that the number of places left gives it.
        chance = (
            tl.load(words + list_start + place) * (size - place)
            < free_places.to(tl.float64) * 4294967296.0
        )
        is_drawn = chance | (free_places == size - place)
        tl.store(ideal + start + place, is_drawn.to(tl.int8))
        free_places -= is_drawn.to(tl.int32)


@functools.lru_cache(maxsize=64)
def _tables(loss: LambdaLoss, n: int, kind: torch.dtype, device: torch.device) -> tuple[Any, ...]:
    """Return what depends on the loss and on the longest list only.

    These are the weight by rank; the weight by signed distance of ranks, 0 in the middle; the
    discount by rank; the same with 0 beyond the cutoff; sigma log2(e), and the factors of gradient
    and hessian; and whether the weights by rank and by distance matter.
    """
    v, gap = loss._rank_weights(n)
    gap[0] = 0.0
    plain, ideal = v, v
    if isinstance(loss, _GainLoss):
        plain, ideal = discount_values(n, loss.discount), discount_values(n, loss.discount, loss.k)
    sigma, doubled = loss.sigma, 2.0 if loss.norm == "xgboost" else 1.0
    units = np.array([sigma * math.log2(math.e), sigma, sigma * sigma * doubled])
    tables = (v, np.concatenate((gap[:0:-1], gap)), plain, ideal, units)
    placed = [torch.from_numpy(np.ascontiguousarray(table)).to(device, kind) for table in tables]
    has_gaps = bool(gap.any())
    return *placed, bool((v != v[0]).any()) or not has_gaps, has_gaps


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
        labels = lists.labels
        # A power of two, so that batches of other lengths share the tables.
        self._n = 2 ** math.ceil(math.log2(lists.longest_length + ROWS))
        v, gap, self._discount, ideal, units, *self._weighed_by = _tables(
            loss, self._n, labels.dtype, labels.device
        )
        self._v, self._gap, self._units = v, gap, units
        self._factor = lists.weights / math.log(2.0)
        if isinstance(loss, _GainLoss):
            self._gains = lists.normalise_gains(
                device_gains(lists.arranged_labels, loss.gain), ideal
            )
        elif math.isfinite(loss._cap):
            self._gains = torch.unique(lists.arranged_labels, return_inverse=True)[1].to(
                labels.dtype
            )
        else:
            self._gains = lists.arranged_labels

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        grad, hess, lambdas = self._run(scores, step, value=False)
        if self.loss.norm is None:
            return grad, hess
        normaliser = self._normaliser(lambdas)[self.lists.query]
        return grad * normaliser, hess * normaliser

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return values and gradient, without a normaliser from one pass over the pairs."""
        grad, _, parts = self._run(scores, step, value=True)
        values = self.lists.sums(parts) * math.log(2.0)
        if self.loss.norm is None:
            return values, grad
        normaliser = self._normaliser(self._run(scores, step, value=False)[2])
        return values * normaliser, grad * normaliser[self.lists.query]

    def _normaliser(self, lambdas: Tensor) -> Tensor:
        """``log2(1 + S)/S`` of each list; the weight of a list is not part of it."""
        one = torch.ones_like(self._factor)
        factor = torch.where(self._factor > 0, self._factor * math.log(2.0), one)
        total = self.loss.sigma * math.log(2.0) * self.lists.sums(lambdas) / factor
        return torch.where(total > 0, torch.log2(1.0 + total) / total, one)

    def _run(self, scores: Tensor, step: int, value: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Gradient, hessian, and the parts of the value or the sizes of the lambdas; ``log(2)``
        taken off all.
        """
        loss, lists = self.loss, self.lists
        by_rank, gains, target = lists.rank(scores, self._gains)
        soft, extended = loss._draws_rankings, loss.extend is not None and loss.k is not None
        rows = self._sampled_gains(scores, gains, target, step) if soft else gains[None]
        if loss.every_pair:
            rows = (rows.mean(0) * self._v[lists.place_in_list])[None]
        samples = rows.shape[0]
        grad, hess = torch.empty_like(scores), torch.empty_like(scores)
        extra = torch.empty_like(scores) if value or loss.norm is not None else grad
        lists.run_per_tile(
            _pair_kernel,
            by_rank,
            rows,
            lists.labels[target] if soft else by_rank,
            self._v,
            self._gap,
            self._ideal(step)[target] if extended else target,
            target,
            grad,
            hess,
            extra,
            self._units,
            self._factor / samples if samples > 1 else self._factor,
            2**31 - 1 if loss.k is None else loss.k,
            samples,
            scores.numel(),
            self._n - 1,
            *self._weighed_by,
            math.isfinite(loss._cap),
            loss.every_pair,
            soft,
            loss.norm is not None,
            value,
            extended,
            ROWS,
            COLUMNS,
        )
        return grad, hess, extra

    def _ideal(self, step: int) -> Tensor:
        """Return whether each document is of the ideal top k and so meets every document."""
        loss, lists, labels = self.loss, self.lists, self.lists.arranged_labels
        assert loss.k is not None
        ends = lists.offsets[1:]

        # The label of the last ideal place: documents below it are out, those above it are in.
        first_ideal = ends - lists.sizes.clamp(max=loss.k)
        last_label = torch.cat((labels, labels.new_zeros(1)))[first_ideal][lists.query]
        is_below = (labels < last_label) | (labels == 0)
        is_below_or_tied = labels <= last_label
        begin = lists.offsets[:-1] + lists.sums(is_below.double()).long()
        stop = lists.offsets[:-1] + lists.sums(is_below_or_tied.double()).long()

        n_places = torch.minimum(stop - (ends - loss.k), stop - begin)
        first = begin if loss.extend == "all" else stop - n_places
        ideal = (lists.flat_indices >= first[lists.query]).to(torch.int8)
        if loss.extend == "random":
            lists.run_per_list(
                _ties_kernel,
                begin,
                stop,
                n_places,
                lists.noise("words", self.seed, step, TIES_STREAM),
                ideal,
            )
        return torch.empty_like(ideal).index_put_((lists.arrangement,), ideal)

    def _sampled_gains(self, scores: Tensor, gains: Tensor, target: Tensor, step: int) -> Tensor:
        """Return the gains by rank for every sampled ranking."""
        loss, lists = self.loss, self.lists
        rank = lists.place_in_list
        cost = 1.0 - self._discount
        share = torch.where(cost > 0, 1.0 / cost, torch.zeros_like(cost))
        rows = gains.new_empty((loss.samples, gains.numel()))
        drawn_rank = torch.empty_like(rank)
        for sample in range(loss.samples):
            noise = lists.noise("four normal", self.seed, step, RANKING_STREAM + 256 * sample)
            drawn = (scores.double() + loss.spread * noise).to(scores.dtype)
            drawn_rank[lists.rank(drawn, gains)[2].long()] = rank
            scaled = cost[drawn_rank[target]] * share[rank]
            rows[sample] = gains * torch.where(cost[rank] > 0, scaled, torch.ones_like(scaled))
        return rows
