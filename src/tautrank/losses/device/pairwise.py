"""The LambdaLoss family on a CUDA device; see `tautrank.losses.pairwise` for the formulas.

Documents are laid out by rank. A row meets every other document: each pair is visited twice, once from either side, so
that no two programs write to one place and sums have a fixed order. With ``x = exp(-sigma |s_i - s_j|)``,
``p = 1/(1 + x)`` and ``y = x p``, a pair of weight ``w`` in the right order has the derivative ``w y``, in the wrong
order ``w p``, and both have the second derivative ``w y p``.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.losses.device.lists import COLUMNS, ROWS, DeviceLists, label_table, tile_of
from tautrank.losses.pairwise import LambdaLoss, _GainLoss
from tautrank.metrics.gains import Gain, discount_values, gain_values

RANKING_STREAM = 2  # as in kernels.randomness, which needs Numba


@triton.jit
def _exp2(x):
    """2 to the power of x; float32 by the hardware's own instruction, which is right to two units in the last place."""
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(x)


@triton.jit
def _reciprocal(x):
    if x.dtype == tl.float32:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def _log2_of_one_plus(x):
    """log2(1 + x) for x in [0, 1], right to the last digits for small x as well."""
    small = x * (1.0 - x * (0.5 - x * (0.3333333333333333 - x * (0.25 - x * 0.2)))) * 1.4426950408889634
    if x.dtype == tl.float32:
        return tl.where(x < 0.01, small, tl.log2(1.0 + x))
    # log(u) x / (u - 1) with u = 1 + x rounded: the rounding of u cancels (Goldberg).
    u = 1.0 + x
    return tl.where(u == 1.0, x, tl.log(u) * x / tl.where(u == 1.0, 1.0, u - 1.0)) * 1.4426950408889634


@triton.jit
def _columns(
    g, h, a, t, u, v, level, i, j, keep, t_ptr, u_ptr, v_ptr, level_ptr, gaps, near, slope, unit,
    BY_RANK: tl.constexpr, GAPS: tl.constexpr, CAPPED: tl.constexpr, EVERY: tl.constexpr, LEVELS: tl.constexpr,
    NORM: tl.constexpr, VALUE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add the pairs of the rows ``i`` with the columns ``j`` to the sums of derivatives and of values (or lambdas)."""
    tj = tl.load(t_ptr + j, keep, 0.0)[None, :] if MASKED else tl.load(t_ptr + j)[None, :]
    uj = tl.load(u_ptr + j, keep, 0.0)[None, :] if MASKED else tl.load(u_ptr + j)[None, :]
    d = t[:, None] - tj
    x = _exp2(-tl.abs(d) * unit)
    p = _reciprocal(1.0 + x)
    y = x * p
    if EVERY:
        # A pair counts u_i for the order (i, j) and u_j for (j, i).
        own = tl.where(i[:, None] == j[None, :], 0.0, u[:, None])
        other = tl.where(i[:, None] == j[None, :], 0.0, uj)
        if MASKED:
            own = tl.where(keep[None, :], own, 0.0)
            other = tl.where(keep[None, :], other, 0.0)
        if NORM:
            part = 1.0 / (near + slope * tl.abs(d))
            own *= part
            other *= part
        push = own * tl.where(d > 0, y, p)
        pull = other * tl.where(d > 0, p, y)
        g += push - pull
        h += (own + other) * (y * p)
        if VALUE:
            bend = _log2_of_one_plus(x)
            a += 0.5 * ((own + other) * bend + unit * tl.abs(d) * tl.where(d > 0, other, own))
        elif NORM:
            a += push + pull
    else:
        dg = u[:, None] - uj
        if CAPPED:
            dg = tl.minimum(tl.maximum(dg, -1.0), 1.0)
        if LEVELS:
            # Sampled gains need not agree with the labels, which say what is better.
            lj = tl.load(level_ptr + j, keep, 0.0)[None, :] if MASKED else tl.load(level_ptr + j)[None, :]
            e = level[:, None] - lj
            dg = tl.where(e > 0, tl.abs(dg), tl.where(e < 0, -tl.abs(dg), 0.0))
        if BY_RANK:
            vj = tl.load(v_ptr + j, keep, 0.0)[None, :] if MASKED else tl.load(v_ptr + j)[None, :]
            w = tl.abs(v[:, None] - vj)
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
    t_ptr, u_ptr, level_ptr, v_ptr, gap_ptr, target, offsets, tile_lists, tile_starts, n_tiles, grad, hess, extra,
    units, factors, k, samples, size, zero_distance,
    BY_RANK: tl.constexpr, GAPS: tl.constexpr, CAPPED: tl.constexpr, EVERY: tl.constexpr, LEVELS: tl.constexpr,
    NORM: tl.constexpr, VALUE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    if tl.program_id(0) >= tl.load(n_tiles):
        return
    query, start, n, first = tile_of(tl.program_id(0), tile_lists, tile_starts, offsets, ROWS)
    i = first + tl.arange(0, ROWS)
    live = i < n
    kind = t_ptr.dtype.element_ty
    t = tl.load(t_ptr + start + i, live, 0.0)
    v = tl.load(v_ptr + i, live, 0.0)
    level = tl.load(level_ptr + start + i, live, 0.0)
    # What the distance of scores divides by; 1 where there is no normaliser or no distance.
    near = tl.full([], 1.0, kind)
    slope = tl.full([], 0.0, kind)
    if NORM and tl.load(t_ptr + start) != tl.load(t_ptr + start + n - 1):
        near = tl.full([], 0.01, kind)
        slope = tl.full([], 1.0, kind)
    # sigma in units of log2(e), and what gradient, hessian and the rest are multiplied by.
    unit = tl.load(units)
    factor = tl.load(factors + query)
    g = tl.zeros([ROWS, COLUMNS], kind)
    h = tl.zeros([ROWS, COLUMNS], kind)
    a = tl.zeros([ROWS, COLUMNS], kind)
    # Rows beyond the cutoff meet only the columns before it.
    stop = tl.where(first < k, n, tl.minimum(n, k))
    straddles = (first < k) & (first + ROWS > k)
    for sample in range(samples):
        u = tl.load(u_ptr + sample * size + start + i, live, 0.0)
        whole = tl.where(straddles, 0, stop // COLUMNS * COLUMNS)
        column = tl.arange(0, COLUMNS)
        gaps = gap_ptr + zero_distance + i[:, None] - column[None, :]
        for j0 in range(0, whole, COLUMNS):
            j = j0 + column
            g, h, a = _columns(
                g, h, a, t, u, v, level, i, j, j < n, t_ptr + start, u_ptr + sample * size + start, v_ptr,
                level_ptr + start, gaps, near, slope, unit, BY_RANK, GAPS, CAPPED, EVERY, LEVELS, NORM, VALUE, False,
            )  # fmt: skip
            gaps -= COLUMNS
        for j0 in range(whole, stop, COLUMNS):
            j = j0 + column
            g2, h2, a2 = _columns(
                g, h, a, t, u, v, level, i, j, j < stop, t_ptr + start, u_ptr + sample * size + start, v_ptr,
                level_ptr + start, gaps, near, slope, unit, BY_RANK, GAPS, CAPPED, EVERY, LEVELS, NORM, VALUE, True,
            )  # fmt: skip
            counts = (i < k)[:, None] | (j < k)[None, :]
            g = tl.where(counts, g2, g)
            h = tl.where(counts, h2, h)
            a = tl.where(counts, a2, a)
            gaps -= COLUMNS
    place = tl.load(target + start + i, live, 0)
    tl.store(grad + place, tl.sum(g, 1) * (-factor * tl.load(units + 1)), live)
    tl.store(hess + place, tl.sum(h, 1) * (factor * tl.load(units + 2)), live)
    if VALUE or NORM:
        tl.store(extra + place, tl.sum(a, 1) * factor, live)


class _Tables(NamedTuple):
    """What depends on the loss and on the longest list only."""

    v: Tensor  # weight by rank
    gap: Tensor  # weight by signed distance of ranks, 0 in the middle
    discount: Tensor  # discount by rank
    ideal: Tensor  # discount by rank, 0 beyond the cutoff
    units: Tensor  # sigma log2(e), and the factors of gradient and hessian
    by_rank: bool
    has_gaps: bool


@functools.lru_cache(maxsize=64)
def _tables(loss: LambdaLoss, n: int, kind: torch.dtype, device: torch.device) -> _Tables:
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
    by_rank = bool((v != v[0]).any()) or not has_gaps
    return _Tables(placed[0], placed[1], placed[2], placed[3], placed[4], by_rank, has_gaps)


class DevicePairs:
    """A member of the LambdaLoss family bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the drawn rankings of ``assignment="soft"``.
    """

    def __init__(self, loss: LambdaLoss, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists, self.seed = loss, lists, seed
        labels = lists.labels
        # A power of two, so that batches of other lengths share the tables.
        self._n = 2 ** math.ceil(math.log2(lists.longest + ROWS))
        self._tables = _tables(loss, self._n, labels.dtype, labels.device)
        self._factor = lists.weights / math.log(2.0)
        arranged = labels[lists.arrangement]
        if isinstance(loss, _GainLoss):
            gains = device_gains(arranged, loss.gain)
            # The arrangement has the best documents last: counted from the end it is the ideal ranking.
            best = lists.sums(gains * self._tables.ideal[(lists.sizes - 1)[lists.query] - lists.rank])
            self._gains = gains * torch.where(best > 0, 1.0 / best, torch.zeros_like(best))[lists.query]
        elif math.isfinite(loss._cap):
            self._gains = torch.unique(arranged, return_inverse=True)[1].to(labels.dtype)
        else:
            self._gains = arranged

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        grad, hess, lambdas = self._run(scores, step, self._factor, value=False)
        if lambdas is None:
            return grad, hess
        normaliser = self._normaliser(lambdas)[self.lists.query]
        return grad * normaliser, hess * normaliser

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        weights = self.lists.weights
        extra = self._run(scores, step, weights, value=True)[2]
        assert extra is not None
        values = self.lists.sums(extra)
        if self.loss.norm is not None:
            lambdas = self._run(scores, step, self._factor, value=False)[2]
            assert lambdas is not None
            values = values * self._normaliser(lambdas)
        return values

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return values and gradient of a loss without a normaliser from one pass over the pairs."""
        grad, _, extra = self._run(scores, step, self._factor, value=True)
        assert extra is not None
        return self.lists.sums(extra) * math.log(2.0), grad

    def _normaliser(self, lambdas: Tensor) -> Tensor:
        """``log2(1 + S)/S`` of each list; the weight of a list is not part of it."""
        factor = torch.where(self._factor > 0, self._factor * math.log(2.0), torch.ones_like(self._factor))
        total = self.loss.sigma * math.log(2.0) * self.lists.sums(lambdas) / factor
        return torch.where(total > 0, torch.log2(1.0 + total) / total, torch.ones_like(total))

    def _run(self, scores: Tensor, step: int, factor: Tensor, value: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        loss, lists, tables = self.loss, self.lists, self._tables
        by_rank, gains, target = lists.ranked(scores, self._gains)
        soft = loss._draws_rankings
        rows = self._sampled_gains(scores, gains, target, step) if soft else gains[None]
        if loss.every_pair:
            rows = (rows.mean(0) * tables.v[lists.rank])[None]
        samples = rows.shape[0]
        tile_lists, starts, number, most = lists.tiles
        grad, hess = torch.empty_like(scores), torch.empty_like(scores)
        extra = torch.empty_like(scores) if value or loss.norm is not None else None
        if most:
            _pair_kernel[(most,)](
                by_rank, rows, lists.labels[target] if soft else by_rank, tables.v, tables.gap, target, lists.offsets,
                tile_lists, starts, number, grad, hess, grad if extra is None else extra, tables.units,
                factor / samples if samples > 1 else factor, 2**31 - 1 if loss.k is None else loss.k, samples,
                scores.numel(), self._n - 1, tables.by_rank, tables.has_gaps, math.isfinite(loss._cap), loss.every_pair,
                soft, loss.norm is not None, value, ROWS, COLUMNS, num_warps=1,
            )  # fmt: skip
        return grad, hess, extra

    def _sampled_gains(self, scores: Tensor, gains: Tensor, target: Tensor, step: int) -> Tensor:
        """Return the gains by rank for every sampled ranking."""
        loss, lists = self.loss, self.lists
        rank = lists.rank
        cost = 1.0 - self._tables.discount
        share = torch.where(cost > 0, 1.0 / cost, torch.zeros_like(cost))
        rows = gains.new_empty((loss.samples, gains.numel()))
        drawn_rank = torch.empty_like(rank)
        for sample in range(loss.samples):
            drawn = lists.noisy(scores, loss.spread, self.seed, step, RANKING_STREAM + 256 * sample, gumbel=False)
            drawn_rank[lists.ranked(drawn, gains)[2].long()] = rank
            scaled = cost[drawn_rank[target]] * share[rank]
            rows[sample] = gains * torch.where(cost[rank] > 0, scaled, torch.ones_like(scaled))
        return rows


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
