"""Losses that sample rankings on a CUDA device; see `tautrank.losses.sampled` for the formulas.

All sums are float64, as in memory. There are gradients, but no hessians, which only a booster needs.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM
from tautrank.losses.device.lists import DeviceLists, DeviceObjective, highest, label_table
from tautrank.losses.device.noise import own_list
from tautrank.losses.device.stochastic import reach_of, reader_gains
from tautrank.losses.sampled import SampledLoss, YetiLoss
from tautrank.metrics import MAP
from tautrank.metrics.gains import discount_values

_BLOCK = 128


@triton.jit
def _policy_kernel(offsets, f_ptr, u_ptr, weights, logs, rewards, grad, values, k, BLOCK: tl.constexpr):
    """PL-Rank-3 of lists by their sampled ranks, as `policy_gradients` in memory; ``logs[x]`` belongs to rank x + 1."""
    query, start, n = own_list(offsets)
    depth = tl.minimum(k, n)
    top = highest(f_ptr, start + depth, n - depth, -1, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(f_ptr + start + p, p < n, float("-inf")) - top)
    # Of documents that are not drawn there may be none: a logarithm that adds nothing.
    log = tl.where(depth < n, top + tl.log(tl.sum(total, 0)), -1e308)
    reward = tl.full([], 0.0, tl.float64)
    for back in range(depth):
        at = start + depth - 1 - back
        own = tl.load(f_ptr + at)
        log = tl.maximum(own, log) + tl.log(1.0 + tl.exp(-tl.abs(own - log)))
        tl.store(rewards + at, reward)
        reward += tl.load(weights + depth - 1 - back) * tl.load(u_ptr + at)
        tl.store(logs + at, log)
    tl.store(values + query, reward)
    tl.debug_barrier()  # what one thread has stored, all may read
    by_weight = tl.full([], 0.0, tl.float64)
    by_reward = tl.full([], 0.0, tl.float64)
    for rank in range(depth):
        own = tl.load(u_ptr + start + rank)
        after = tl.load(rewards + start + rank)
        next_log = tl.load(logs + start + rank)
        fall = tl.exp(next_log - log)
        log = next_log
        w = tl.load(weights + rank)
        by_weight = w + fall * by_weight
        by_reward = after + w * own + fall * by_reward
        q = tl.exp(tl.load(f_ptr + start + rank) - log)
        tl.store(grad + start + rank, after + q * (own * by_weight - by_reward))
    for p0 in range(depth, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        q = tl.exp(tl.load(f_ptr + start + p, p < n, 0.0) - log)
        tl.store(grad + start + p, q * (tl.load(u_ptr + start + p, p < n, 0.0) * by_weight - by_reward), p < n)


class DeviceSampled(DeviceObjective):
    """A loss of sampled rankings bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the rankings.
    """

    def __init__(self, loss: SampledLoss, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists, self.seed = loss, lists, seed
        metric = loss.metric
        if isinstance(metric, MAP):
            gains = label_table(lists.arranged, metric._document_values)
            most = metric.k if metric.k is not None and metric.divide_by == "reachable" else None
            gains = gains / lists.sums(gains).clamp(min=1.0, max=most)[lists.query]
            weights = discount_values(max(lists.longest, 1), "reciprocal", metric.k)
        else:
            gains, weights = reader_gains(metric, lists)  # type: ignore[arg-type]
        ranks: np.ndarray = weights[: np.count_nonzero(weights)]
        if isinstance(loss, YetiLoss):
            ranks = -np.diff(ranks, append=0.0) if loss.decay is None else loss.decay ** np.arange(ranks.size)
        self._depth = ranks.size
        # By rank, and 0 beyond the cutoff.
        self._weights = lists.placed(np.pad(ranks, (0, max(lists.longest + 1 - ranks.size, 1)))).double()
        self._gains, self._scale = gains.double(), lists.weights_of(gains)

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
            _, gains, order = lists.ranked(drawn, self._gains)
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
        has_next = lists.rank + 1 < lists.sizes[lists.query]
        d = torch.where(has_next, gains - gains.roll(-1), 0.0)
        w = torch.where(has_next, self._weights[lists.rank], 0.0) * d.abs()
        if isinstance(metric, MAP):
            relevant = (gains > 0).double()
            before = relevant.cumsum(0) - relevant
            w = w * (1.0 + before - before[lists.offsets[:-1].clamp(max=max(before.numel() - 1, 0))][lists.query])
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
        self.lists.each(_policy_kernel, s, gains, self._weights, logs, rewards, grad, values, self._depth, _BLOCK)
        return -values, -grad
