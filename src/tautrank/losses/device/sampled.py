"""Losses that draw noise or rankings, on a CUDA device; `tautrank.losses.stochastic` and `sampled`
have the formulas.

Smoothed metrics lay documents out by their noisy positions. A row walks down the first documents of
the draw and adds up the jumps of sliding over them, with the product over the documents above that
a stopping reader needs, its own left out. Losses of sampled rankings have gradients, but no
hessians, which only a booster needs; all their sums are float64, as in memory.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.errors import OptionError
from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM, SMOOTHING_STREAM
from tautrank.losses.device.lists import (
    BLOCK,
    ROWS,
    DeviceLists,
    DeviceObjective,
    largest_value,
    list_of_program,
    map_labels,
    tile_of_program,
)
from tautrank.losses.sampled import SampledLoss, YetiLoss
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics import MAP, NDCG
from tautrank.metrics.gains import discount_values
from tautrank.metrics.positional import DCGRR
from tautrank.metrics.ranked import ReaderMetric

_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = {torch.float32: 1e18, torch.float64: 1e150}


@triton.jit
def _slide_kernel(
    offsets,
    tile_lists,
    tile_starts,
    t_ptr,
    u_ptr,
    place,
    x_ptr,
    drops,
    grad,
    mass,
    depth,
    STOPS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Add the jumps of every document at the first ``depth`` documents of the draw to its sums."""
    _, start, n, _, i, live = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    at = tl.load(place + start + i, live, 0)
    x = tl.load(x_ptr + at, live, 0.0)
    u = tl.load(u_ptr + start + i, live, 0.0)
    kind = u_ptr.dtype.element_ty
    g = tl.zeros([ROWS], kind)
    h = tl.zeros([ROWS], kind)
    reach = tl.full([ROWS], 1.0, kind)
    before = tl.full([], 0.0, kind)
    for p in range(tl.minimum(depth, n)):
        up = tl.load(u_ptr + start + p)
        drop = tl.load(drops + p)
        d = (tl.load(t_ptr + start + p) - x).to(kind)
        # Without the document that slides, a point below it has one rank less.
        weight = tl.where(i > p, drop, before) * tl.exp(-0.5 * d * d)
        if STOPS:
            weight *= reach
            reach *= tl.where(i == p, 1.0, 1.0 - up)
        step = u - up
        g += weight * step
        h += weight * tl.abs(step)
        before = drop
    tl.store(grad + at, tl.load(grad + at, live, 0.0) + g, live)
    tl.store(mass + at, tl.load(mass + at, live, 0.0) + h, live)


@triton.jit
def _reach_kernel(offsets, u_ptr, reach, depth):
    """The chance that a reader who stops comes as far as each of the first ``depth`` documents."""
    _, start, n = list_of_program(offsets)
    here = tl.full([], 1.0, u_ptr.dtype.element_ty)
    for p in range(tl.minimum(depth, n)):
        tl.store(reach + start + p, here)
        here *= 1.0 - tl.load(u_ptr + start + p)


def reach_of(lists: DeviceLists, gains: Tensor, depth: int) -> Tensor:
    """Return the chance that a reader who stops comes as far as each document, 0 beyond ``depth``.

    Args:
        lists: the lists.
        gains: by rank.
        depth: ranks that count.
    """
    reach = torch.zeros_like(gains)
    lists.run_per_list(_reach_kernel, gains, reach, depth)
    return reach


def reader_gains(metric: ReaderMetric, lists: DeviceLists) -> tuple[Tensor, np.ndarray]:
    """Return what each document brings to a metric, in the order of the arrangement, and the
    weights of the ranks.

    Args:
        metric: the metric.
        lists: the lists.
    """
    gains = map_labels(lists.arranged_labels, metric._document_values)
    weights = discount_values(max(lists.longest_length, 1), metric.discount, metric.k)
    return lists.normalise_gains(gains, lists.to_device(weights)) if isinstance(
        metric, NDCG
    ) else gains, weights


@triton.jit
def _selection_kernel(offsets, t_ptr, u_ptr, jumps, values, k):
    """DCG-RR of the documents above 0, and what showing each of them changes: one forward and one
    backward walk.
    """
    query, start, n = list_of_program(offsets)
    kind = u_ptr.dtype.element_ty
    n_shown = tl.full([], 0, tl.int32)
    earned = tl.full([], 0.0, kind)
    for p in range(n):
        if tl.load(t_ptr + start + p) > 0.0:
            n_shown += 1
            if n_shown <= k:
                earned += tl.load(u_ptr + start + p) / n_shown.to(kind)
    tl.store(values + query, earned)
    here = tl.full([], 0.0, kind)
    down = tl.full([], 0.0, kind)
    up = tl.full([], 0.0, kind)
    for back in range(n):
        p = n - 1 - back
        u = tl.load(u_ptr + start + p)
        is_shown = tl.load(t_ptr + start + p) > 0.0
        rank = tl.where(is_shown, n_shown, n_shown + 1).to(kind)
        share = tl.where(rank <= k, u / rank, 0.0)
        # Shown against hidden: the documents after it are one rank further down.
        tl.store(jumps + start + p, share + tl.where(is_shown, here - up, down - here))
        if is_shown:
            here += share
            down += tl.where(rank + 1.0 <= k, u / (rank + 1.0), 0.0)
            up += tl.where((rank >= 2.0) & (rank - 1.0 <= k), u / tl.maximum(rank - 1.0, 1.0), 0.0)
            n_shown -= 1


class DeviceSmoothed(DeviceObjective):
    """A smoothed metric bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the noise.
    """

    def __init__(self, loss: SmoothedLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        metric, labels = loss.metric, lists.labels
        self._selects = isinstance(metric, DCGRR)
        self._stops = bool(getattr(metric, "stops", False))
        if isinstance(metric, DCGRR):
            self._order = lists.flat_indices
            gains = map_labels(labels, metric.document_values)
            self._k = lists.longest_length if metric.k is None else metric.k
        elif isinstance(metric, ReaderMetric):
            self._order = lists.arrangement
            gains, weights = reader_gains(metric, lists)
            self._weights, self._drops = (
                lists.to_device(weights),
                lists.to_device(-np.diff(weights, append=0.0)),
            )
            self._k = max(int(np.count_nonzero(weights)), 1)
        else:
            raise OptionError(
                f"metric: found {metric}, which is Python code and cannot run on a CUDA device; "
                "expected dcg, ndcg, err, mrr or dcg-rr, or tensors on the CPU"
            )
        self._gains = gains
        self._scale = lists.weights_where_any(gains)
        self._shift = loss._shift_by_label * labels.double()[self._order]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        loss, lists = self.loss, self.lists
        grad, mass = torch.zeros_like(scores), torch.zeros_like(scores)
        x = self._mean_positions(scores)
        share = _DENSITY_AT_0 / (loss.sigma * loss.samples)
        baseline = self._metric(scores.double()[self._order]) if loss._by_log_derivative else None
        for sample in range(loss.samples):
            noise = self._noise(step, sample)
            t = x + noise
            if baseline is not None:
                gap = ((baseline - self._metric(t)) / (loss.sigma * loss.samples))[
                    lists.query
                ] * noise
                grad += gap.to(scores.dtype)
                mass += gap.abs().to(scores.dtype)
            elif self._selects:
                _, jumps = self._selection(t)
                terms = share * torch.exp(-0.5 * x * x) * jumps
                grad -= terms.to(scores.dtype)
                mass += terms.abs().to(scores.dtype)
            else:
                by_rank, gains, place = lists.sort_descending(t, self._gains, lists.flat_indices)
                lists.run_per_tile(
                    _slide_kernel,
                    by_rank,
                    gains,
                    place,
                    x,
                    self._drops,
                    grad,
                    mass,
                    self._k + 1,
                    self._stops,
                    ROWS,
                )
        if baseline is None and not self._selects:
            grad, mass = -share * grad, share * mass
        # Until here in the order of `_order`.
        flat = (
            torch.empty_like(result).index_put_((self._order,), result) for result in (grad, mass)
        )
        return self._finished(scores, *flat)

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        loss = self.loss
        x = self._mean_positions(scores)
        total = torch.zeros(self.lists.count, dtype=torch.float64, device=scores.device)
        for sample in range(loss.samples):
            total += self._metric(x + self._noise(step, sample))
        return -self._scale * (total / loss.samples).to(scores.dtype)

    def _mean_positions(self, scores: Tensor) -> Tensor:
        """Return where each document stands without noise, in units of sigma."""
        far = _FAR[scores.dtype]
        return (scores.double()[self._order] / self.loss.sigma - self._shift).clamp(-far, far)

    def _noise(self, step: int, sample: int) -> Tensor:
        """Return the noise of a draw in the order of the positions."""
        return self.lists.noise("normal", self.seed, step, SMOOTHING_STREAM + 256 * sample)[
            self._order
        ]

    def _selection(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the metric of each list for a selection, and the jump of each document at 0."""
        lists = self.lists
        gains = self._gains.double()
        jumps = torch.empty_like(gains)
        values = torch.empty(lists.count, dtype=gains.dtype, device=t.device)
        lists.run_per_list(_selection_kernel, t, gains, jumps, values, self._k)
        return values, jumps

    def _metric(self, t: Tensor) -> Tensor:
        """The metric of each list with its documents at the positions ``t``, in float64."""
        lists = self.lists
        if self._selects:
            return self._selection(t)[0]
        gains = lists.sort_descending(t, self._gains.double(), lists.arrangement)[1]
        if self._stops:
            gains = gains * reach_of(lists, gains, self._k)
        return lists.sums(gains * self._weights.double()[lists.place_in_list])

    def _finished(self, scores: Tensor, grad: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients and hessians, as `losses._smoothing_kernel.finish_queries`."""
        loss, lists = self.loss, self.lists
        taken_off = torch.zeros_like(grad)
        if loss.accelerates:
            z = scores.double()
            # Scores beyond 1e150 have squares beyond float64: those lists have another unit.
            far = lists.maxima(z.abs()) > 1e140
            unit = torch.ones_like(far, dtype=z.dtype).masked_fill(far, 2.0**-600)
            z = z * unit[lists.query]
            if loss.ignores_shifts:
                z = z - (lists.sums(z) / lists.sizes.clamp(min=1))[lists.query]
            length = lists.sums(z * z).sqrt() + unit * loss.nu
            along = lists.sums(grad.double() * z) / length / length
            taken_off = (along[lists.query] * z).to(grad.dtype)
        scale = self._scale[lists.query]
        size = torch.ones_like(mass)
        if loss.follows_curvature:
            size = (mass + taken_off.abs()) / loss.sigma
        return scale * (grad - taken_off), scale * size


@triton.jit
def _policy_kernel(
    offsets, f_ptr, u_ptr, weights, logs, rewards, grad, values, k, BLOCK: tl.constexpr
):
    """PL-Rank-3 of lists by their sampled ranks, as `policy_gradients` in memory; ``logs[x]``
    belongs to rank x + 1.
    """
    query, start, n = list_of_program(offsets)
    depth = tl.minimum(k, n)
    top = largest_value(f_ptr, start + depth, n - depth, -1, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(f_ptr + start + p, p < n, float("-inf")) - top)
    # Of documents that are not drawn there may be none: a logarithm that adds nothing.
    log = tl.where(depth < n, top + tl.log(tl.sum(total, 0)), -1e308)
    reward = tl.full([], 0.0, tl.float64)
    for back in range(depth):
        at = start + depth - 1 - back
        f_of_rank = tl.load(f_ptr + at)
        log = tl.maximum(f_of_rank, log) + tl.log(1.0 + tl.exp(-tl.abs(f_of_rank - log)))
        tl.store(rewards + at, reward)
        reward += tl.load(weights + depth - 1 - back) * tl.load(u_ptr + at)
        tl.store(logs + at, log)
    tl.store(values + query, reward)
    tl.debug_barrier()  # what one thread has stored, all may read
    by_weight = tl.full([], 0.0, tl.float64)
    by_reward = tl.full([], 0.0, tl.float64)
    for rank in range(depth):
        gain = tl.load(u_ptr + start + rank)
        after = tl.load(rewards + start + rank)
        next_log = tl.load(logs + start + rank)
        fall = tl.exp(next_log - log)
        log = next_log
        w = tl.load(weights + rank)
        by_weight = w + fall * by_weight
        by_reward = after + w * gain + fall * by_reward
        q = tl.exp(tl.load(f_ptr + start + rank) - log)
        tl.store(grad + start + rank, after + q * (gain * by_weight - by_reward))
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        q = tl.exp(tl.load(f_ptr + start + p, p < n, 0.0) - log)
        tl.store(
            grad + start + p,
            q * (tl.load(u_ptr + start + p, p < n, 0.0) * by_weight - by_reward),
            p < n,
        )


class DeviceSampled(DeviceObjective):
    """A loss of sampled rankings bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the rankings.
    """

    def __init__(self, loss: SampledLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        metric = loss.metric
        if isinstance(metric, MAP):
            gains = map_labels(lists.arranged_labels, metric._document_values)
            limit = metric.k if metric.k is not None and metric.divide_by == "reachable" else None
            gains = gains / lists.sums(gains).clamp(min=1.0, max=limit)[lists.query]
            weights = discount_values(max(lists.longest_length, 1), "reciprocal", metric.k)
        else:
            gains, weights = reader_gains(metric, lists)  # type: ignore[arg-type]
        ranks = loss._rank_weights(weights)
        self._depth = ranks.size
        # By rank, and 0 beyond the cutoff.
        self._weights = lists.to_device(
            np.pad(ranks, (0, max(lists.longest_length + 1 - ranks.size, 1)))
        ).double()
        self._gains, self._scale = gains.double(), lists.weights_where_any(gains)

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return values and gradient of the same rankings."""
        loss, lists = self.loss, self.lists
        s = scores.double()
        grad, values = torch.zeros_like(s), torch.zeros_like(self._scale, dtype=s.dtype)
        stream, kind, spread = POLICY_STREAM, "gumbel", 1.0
        if isinstance(loss, YetiLoss):
            stream, kind, spread = NEIGHBOUR_STREAM, loss.distribution, loss.spread
        for sample in range(loss.samples):
            drawn = s + spread * lists.noise(kind, self.seed, step, stream + 256 * sample)
            _, gains, order = lists.rank(drawn, self._gains)
            part = self._neighbours if isinstance(loss, YetiLoss) else self._policy
            value, by_rank = part(s[order], gains)
            values += value
            grad[order] += by_rank
        share = self._scale.double() / loss.samples
        return (share * values).to(scores.dtype), (share[lists.query] * grad).to(scores.dtype)

    def _neighbours(self, s: Tensor, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Value and gradient of YetiLoss, by rank, from scores and gains by rank."""
        lists, metric = self.lists, self.loss.metric
        # A document and the next one; the last of a list has none.
        has_next = lists.place_in_list + 1 < lists.sizes[lists.query]
        d = torch.where(has_next, gains - gains.roll(-1), 0.0)
        w = torch.where(has_next, self._weights[lists.place_in_list], 0.0) * d.abs()
        if isinstance(metric, MAP):
            relevant = (gains > 0).double()
            before = relevant.cumsum(0) - relevant
            w = w * (
                1.0
                + before
                - before[lists.offsets[:-1].clamp(max=max(before.numel() - 1, 0))][lists.query]
            )
        elif getattr(metric, "stops", False):
            w = w * reach_of(lists, gains, self._depth)
        lead = (s - s.roll(-1)) * d.sign()
        x = torch.exp(-lead.abs())
        push = w * d.sign() * torch.where(lead > 0, x, 1.0) / (1.0 + x)
        return lists.sums(w * (torch.log1p(x) + (-lead).clamp(min=0.0))), push.roll(1) - push

    def _policy(self, s: Tensor, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Value and gradient of PL-Rank, by rank, from scores and gains by rank."""
        grad, logs, rewards = torch.empty_like(s), torch.empty_like(s), torch.empty_like(s)
        values = torch.empty(self.lists.count, dtype=s.dtype, device=s.device)
        self.lists.run_per_list(
            _policy_kernel, s, gains, self._weights, logs, rewards, grad, values, self._depth, BLOCK
        )
        return -values, -grad
