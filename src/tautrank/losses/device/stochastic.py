"""Smoothed metrics on a CUDA device; see `tautrank.losses.stochastic` for the formulas.

Documents are laid out by their noisy positions. A row walks down the first documents of the draw and adds up the jumps
of sliding over them, with the product over the documents above that a stopping reader needs, its own left out.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.errors import OptionError
from tautrank.kernels.streams import SMOOTHING_STREAM
from tautrank.losses.device.lists import ROWS, DeviceLists, DeviceObjective, label_table, own_tile
from tautrank.losses.device.noise import own_list
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics import NDCG
from tautrank.metrics.gains import discount_values
from tautrank.metrics.ranked import ReaderMetric
from tautrank.metrics.selection import DCGRR

_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = {torch.float32: 1e18, torch.float64: 1e150}


@triton.jit
def _slide_kernel(
    offsets, tile_lists, tile_starts, t_ptr, u_ptr, place, x_ptr, drops, grad, mass, depth,
    STOPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Add the jumps of every document at the first ``depth`` documents of the draw to its sums."""
    _, start, n, _, i, live = own_tile(tl.program_id(0), offsets, tile_lists, tile_starts, ROWS)
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
    _, start, n = own_list(offsets)
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
    lists.each(_reach_kernel, gains, reach, depth)
    return reach


def reader_gains(metric: ReaderMetric, lists: DeviceLists) -> tuple[Tensor, np.ndarray]:
    """Return what each document brings to a metric, in the order of the arrangement, and the weights of the ranks.

    Args:
        metric: the metric.
        lists: the lists.
    """
    gains = label_table(lists.arranged, metric._document_values)
    weights = discount_values(max(lists.longest, 1), metric.discount, metric.k)
    return lists.of_best(gains, lists.placed(weights)) if isinstance(metric, NDCG) else gains, weights


@triton.jit
def _selection_kernel(offsets, t_ptr, u_ptr, jumps, values, k):
    """DCG-RR of the documents above 0, and what showing each of them changes: one forward and one backward walk."""
    query, start, n = own_list(offsets)
    kind = u_ptr.dtype.element_ty
    shown = tl.full([], 0, tl.int32)
    earned = tl.full([], 0.0, kind)
    for p in range(n):
        if tl.load(t_ptr + start + p) > 0.0:
            shown += 1
            if shown <= k:
                earned += tl.load(u_ptr + start + p) / shown.to(kind)
    tl.store(values + query, earned)
    here = tl.full([], 0.0, kind)
    down = tl.full([], 0.0, kind)
    up = tl.full([], 0.0, kind)
    for back in range(n):
        p = n - 1 - back
        u = tl.load(u_ptr + start + p)
        is_shown = tl.load(t_ptr + start + p) > 0.0
        rank = tl.where(is_shown, shown, shown + 1).to(kind)
        own = tl.where(rank <= k, u / rank, 0.0)
        # Shown against hidden: the documents after it are one rank further down.
        tl.store(jumps + start + p, own + tl.where(is_shown, here - up, down - here))
        if is_shown:
            here += own
            down += tl.where(rank + 1.0 <= k, u / (rank + 1.0), 0.0)
            up += tl.where((rank >= 2.0) & (rank - 1.0 <= k), u / tl.maximum(rank - 1.0, 1.0), 0.0)
            shown -= 1


class DeviceSmoothed(DeviceObjective):
    """A smoothed metric bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the noise.
    """

    def __init__(self, loss: SmoothedLoss, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists, self.seed = loss, lists, seed
        metric, labels = loss.metric, lists.labels
        self._selects = isinstance(metric, DCGRR)
        self._stops = bool(getattr(metric, "stops", False))
        if isinstance(metric, DCGRR):
            self._order = torch.arange(labels.numel(), dtype=torch.int32, device=labels.device)
            gains = label_table(labels, metric.document_values)
            self._k = lists.longest if metric.k is None else metric.k
        elif isinstance(metric, ReaderMetric):
            self._order = lists.arrangement
            gains, weights = reader_gains(metric, lists)
            self._weights, self._drops = lists.placed(weights), lists.placed(-np.diff(weights, append=0.0))
            self._k = max(int(np.count_nonzero(weights)), 1)
        else:
            raise OptionError(
                f"metric: found {metric}, which is Python code and cannot run on a CUDA device; expected dcg, ndcg, "
                "err, mrr or dcg-rr, or tensors on the CPU"
            )
        self._gains = gains
        self._scale = lists.weights_of(gains)
        self._shift = loss._shift_by_label * labels.double()[self._order]

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        loss, lists = self.loss, self.lists
        grad, mass = torch.zeros_like(scores), torch.zeros_like(scores)
        x = self._mean_positions(scores)
        # In the order of `_order`, until the end.
        own = torch.arange(scores.numel(), dtype=torch.int32, device=scores.device)
        share = _DENSITY_AT_0 / (loss.sigma * loss.samples)
        baseline = self._metric(scores.double()[self._order]) if loss._by_log_derivative else None
        for sample in range(loss.samples):
            noise = self._noise(step, sample)
            t = x + noise
            if baseline is not None:
                gap = ((baseline - self._metric(t)) / (loss.sigma * loss.samples))[lists.query] * noise
                grad += gap.to(scores.dtype)
                mass += gap.abs().to(scores.dtype)
            elif self._selects:
                _, jumps = self._selection(t)
                terms = share * torch.exp(-0.5 * x * x) * jumps
                grad -= terms.to(scores.dtype)
                mass += terms.abs().to(scores.dtype)
            else:
                by_rank, gains, place = lists.order_down(t, self._gains, own)
                lists.tiled(
                    _slide_kernel, by_rank, gains, place, x, self._drops, grad, mass, self._k + 1, self._stops, ROWS
                )
        if baseline is None and not self._selects:
            grad, mass = -share * grad, share * mass
        flat_grad, flat_mass = torch.empty_like(grad), torch.empty_like(mass)
        flat_grad[self._order] = grad
        flat_mass[self._order] = mass
        return self._finished(scores, flat_grad, flat_mass)

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        loss = self.loss
        x = self._mean_positions(scores)
        total = torch.zeros(self.lists.count, dtype=torch.float64, device=scores.device)
        for sample in range(loss.samples):
            total += self._metric(x + self._noise(step, sample))
        return -self._scale * (total / loss.samples).to(scores.dtype)

    def _mean_positions(self, scores: Tensor) -> Tensor:
        far = _FAR[scores.dtype]
        return (scores.double()[self._order] / self.loss.sigma - self._shift).clamp(-far, far)

    def _noise(self, step: int, sample: int) -> Tensor:
        return self.lists.noise("normal", self.seed, step, SMOOTHING_STREAM + 256 * sample)[self._order]

    def _selection(self, t: Tensor) -> tuple[Tensor, Tensor]:
        lists = self.lists
        gains = self._gains.double()
        jumps = torch.empty_like(gains)
        values = torch.empty(lists.count, dtype=gains.dtype, device=t.device)
        lists.each(_selection_kernel, t, gains, jumps, values, self._k)
        return values, jumps

    def _metric(self, t: Tensor) -> Tensor:
        """The metric of each list with its documents at the positions ``t``, in float64."""
        lists = self.lists
        if self._selects:
            return self._selection(t)[0]
        gains = lists.order_down(t, self._gains.double(), lists.arrangement)[1]
        if self._stops:
            gains = gains * reach_of(lists, gains, self._k)
        return lists.sums(gains * self._weights.double()[lists.rank])

    def _finished(self, scores: Tensor, grad: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Acceleration, curvature and weights, as `losses._smoothing_kernel.finish_queries`."""
        loss, lists = self.loss, self.lists
        taken = torch.zeros_like(grad)
        if loss.accelerates:
            z = scores.double()
            # Scores beyond 1e150 have squares beyond float64: those lists are measured in other units.
            far = lists.maxima(z.abs()) > 1e140
            unit = torch.ones_like(far, dtype=z.dtype).masked_fill(far, 2.0**-600)
            z = z * unit[lists.query]
            if loss.ignores_shifts:
                z = z - (lists.sums(z) / lists.sizes.clamp(min=1))[lists.query]
            length = lists.sums(z * z).sqrt() + unit * loss.nu
            along = lists.sums(grad.double() * z) / length / length
            taken = (along[lists.query] * z).to(grad.dtype)
        scale = self._scale[lists.query]
        size = (mass + taken.abs()) / loss.sigma if loss.follows_curvature else torch.ones_like(mass)
        return scale * (grad - taken), scale * size
