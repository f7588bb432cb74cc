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
from tautrank.losses.device.lists import ROWS, DeviceLists, label_table, tile_of
from tautrank.losses.stochastic import SmoothedLoss
from tautrank.metrics import NDCG
from tautrank.metrics.gains import discount_values
from tautrank.metrics.reader import ReaderMetric
from tautrank.metrics.selection import DCGRR

_SMOOTHING_STREAM = 3  # as in kernels.randomness, which needs Numba
_DENSITY_AT_0 = 1.0 / math.sqrt(2.0 * math.pi)
_FAR = {torch.float32: 1e18, torch.float64: 1e150}


@triton.jit
def _normal(word):
    """The normal quantile of a word of 32 bits, as `kernels.normal` computes it."""
    below = word.to(tl.float64) + 0.5
    above = 4294967296.0 - below
    bits = (below * above * 2.168404344971009e-19).to(tl.int64, bitcast=True)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = (bits - (exponent << 52)).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    third: tl.constexpr = 1 / 3
    seventh: tl.constexpr = 1 / 7
    ninth: tl.constexpr = 1 / 9
    eleventh: tl.constexpr = 1 / 11
    artanh = s * (1.0 + q * (third + q * (0.2 + q * (seventh + q * (ninth + q * eleventh)))))
    v = -(exponent.to(tl.float64) * 0.6931471805599453 + 2.0 * artanh)
    p = 0.001144983021 + v * (6.124274347e-05 + v * 2.034873409e-07)
    p = 1.253314108 + v * (0.4469247174 + v * (0.0910093726 + v * (0.01255141641 + v * p)))
    q = 0.002308084904 + v * (0.0002533391286 + v * 3.914180559e-06)
    q = 1.0 + v * (0.09479435307 + v * (0.03476822871 + v * q))
    return (below - above) * 2.3283064365386963e-10 * p / q


@triton.jit
def _smoothing_kernel(offsets, seed, step, stream, out, BLOCK: tl.constexpr):
    """Fill the noise of every document, as `kernels.normal.fill_noise`: groups of 64 share 16 blocks of four words."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        zero = p * 0
        block = 16 * (p // 64) + p % 16
        w0, w1, w2, w3 = tl.philox(seed, block, zero + query, zero + step, zero + stream)
        which = p % 64 // 16
        word = tl.where(which == 0, w0, tl.where(which == 1, w1, tl.where(which == 2, w2, w3)))
        tl.store(out + start + p, _normal(word), p < n)


@triton.jit
def _slide_kernel(
    t_ptr, u_ptr, place, x_ptr, drops, offsets, tile_lists, tile_starts, n_tiles, grad, mass, depth,
    STOPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Add the jumps of every document at the first ``depth`` documents of the draw to its sums."""
    if tl.program_id(0) >= tl.load(n_tiles):
        return
    _, start, n, first = tile_of(tl.program_id(0), tile_lists, tile_starts, offsets, ROWS)
    i = first + tl.arange(0, ROWS)
    live = i < n
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
def _reader_kernel(u_ptr, weights, offsets, values, depth, BLOCK: tl.constexpr):
    """What a reader who stops earns, document by document."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    kind = u_ptr.dtype.element_ty
    value = tl.full([], 0.0, kind)
    reach = tl.full([], 1.0, kind)
    for p in range(tl.minimum(depth, n)):
        u = tl.load(u_ptr + start + p)
        value += tl.load(weights + p) * u * reach
        reach *= 1.0 - u
    tl.store(values + query, value)


@triton.jit
def _selection_kernel(t_ptr, u_ptr, offsets, jumps, values, k, BLOCK: tl.constexpr):
    """DCG-RR of the documents above 0, and what showing each of them changes: one forward and one backward walk."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
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


class DeviceSmoothed:
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
            gains = label_table(labels[self._order], metric._document_values)
            weights = discount_values(max(lists.longest, 1), metric.discount, metric.k)
            self._weights = torch.from_numpy(weights).to(labels.device, labels.dtype)
            self._drops = torch.from_numpy(-np.diff(weights, append=0.0)).to(labels.device, labels.dtype)
            self._k = max(int(np.count_nonzero(weights)), 1)
            if isinstance(metric, NDCG):
                best = lists.sums(gains * self._weights[(lists.sizes - 1)[lists.query] - lists.rank])
                gains = gains / torch.where(best > 0, best, torch.ones_like(best))[lists.query]
        else:
            raise OptionError(
                f"metric: found {metric}, which is Python code and cannot run on a CUDA device; expected dcg, ndcg, "
                "err, mrr or dcg-rr, or tensors on the CPU"
            )
        self._gains = gains
        self._scale = torch.where(lists.maxima(gains.abs()) > 0, lists.weights, torch.zeros_like(lists.weights))
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
            noise = self._noise(step, sample)[self._order]
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
                tile_lists, starts, number, most = lists.tiles
                if most:
                    _slide_kernel[(most,)](
                        by_rank, gains, place, x, self._drops, lists.offsets, tile_lists, starts, number, grad, mass,
                        self._k + 1, self._stops, ROWS, num_warps=1,
                    )  # fmt: skip
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
            total += self._metric(x + self._noise(step, sample)[self._order])
        return -self._scale * (total / loss.samples).to(scores.dtype)

    def _mean_positions(self, scores: Tensor) -> Tensor:
        far = _FAR[scores.dtype]
        return (scores.double()[self._order] / self.loss.sigma - self._shift).clamp(-far, far)

    def _noise(self, step: int, sample: int) -> Tensor:
        lists = self.lists
        noise = torch.empty(lists.labels.numel(), dtype=torch.float64, device=lists.labels.device)
        if lists.count:
            _smoothing_kernel[(lists.count,)](
                lists.offsets, self.seed, step, _SMOOTHING_STREAM + 256 * sample, noise, 128, num_warps=1
            )
        return noise

    def _selection(self, t: Tensor) -> tuple[Tensor, Tensor]:
        lists = self.lists
        gains = self._gains.double()
        jumps = torch.empty_like(gains)
        values = torch.empty(lists.count, dtype=gains.dtype, device=t.device)
        if lists.count:
            _selection_kernel[(lists.count,)](t, gains, lists.offsets, jumps, values, self._k, 1, num_warps=1)
        return values, jumps

    def _metric(self, t: Tensor) -> Tensor:
        """The metric of each list with its documents at the positions ``t``, in float64."""
        lists = self.lists
        if self._selects:
            return self._selection(t)[0]
        gains = lists.order_down(t, self._gains.double(), lists.arrangement)[1]
        weights = self._weights.double()
        if not self._stops:
            return lists.sums(gains * weights[lists.rank])
        values = torch.empty(lists.count, dtype=gains.dtype, device=t.device)
        if lists.count:
            _reader_kernel[(lists.count,)](gains, weights, lists.offsets, values, self._k, 1, num_warps=1)
        return values

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
