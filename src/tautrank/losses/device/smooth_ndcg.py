"""NDCG made smooth on a CUDA device; see `tautrank.losses.smooth_ndcg` for the formulas.

All sums are float64. There are gradients, but no hessians, which only a booster needs.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.losses.device.lists import COLUMNS, ROWS, DeviceLists, DeviceObjective, device_gains, own_tile
from tautrank.losses.smooth_ndcg import NeuralNDCG, SmoothNDCG
from tautrank.metrics.gains import discount_values


@triton.jit
def _row_sums_kernel(
    offsets, tile_lists, tile_starts, s_ptr, f_ptr, out, KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Sum a function of ``d = s_j - s_i`` over the documents ``j`` of the list of ``i``: the logistic function, its
    derivative times ``f_j - f_i``, the distance, or ``f_j`` with the sign of ``-d``."""
    _, start, n, _, i, live = own_tile(tl.program_id(0), offsets, tile_lists, tile_starts, ROWS)
    own = tl.load(s_ptr + start + i, live, 0.0)[:, None]
    f = tl.load(f_ptr + start + i, live, 0.0)[:, None]
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for j0 in range(0, n, COLUMNS):
        j = j0 + tl.arange(0, COLUMNS)
        d = tl.load(s_ptr + start + j, j < n, 0.0)[None, :] - own
        fj = tl.load(f_ptr + start + j, j < n, 0.0)[None, :]
        x = tl.exp(-tl.abs(d))
        if KIND == "chance":
            part = tl.where(d >= 0, 1.0, x) / (1.0 + x)
        elif KIND == "slope":
            part = (fj - f) * x / ((1.0 + x) * (1.0 + x))
        elif KIND == "distance":
            part = tl.abs(d)
        else:
            part = tl.where(d < 0, fj, tl.where(d > 0, -fj, 0.0))
        total += tl.where((j < n)[None, :], part, 0.0)
    tl.store(out + start + i, tl.sum(total, 1), live)


class DeviceSmoothNDCG(DeviceObjective):
    """ApproxNDCG or NeuralNDCG bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: not used: nothing is drawn.
    """

    def __init__(self, loss: SmoothNDCG, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists = loss, lists
        self._discounts = discount_values(max(lists.longest, 1), "log2", loss.k)[: loss.k]
        ideal = lists.placed(discount_values(max(lists.longest, 1), "log2", loss.k))
        arranged = lists.of_best(device_gains(lists.arranged, loss.gain), ideal).double()
        self._gains = torch.empty_like(arranged)
        self._gains[lists.arrangement] = arranged
        self._scale = lists.weights_of(arranged).double()

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return values and gradient."""
        part = self._sorted if isinstance(self.loss, NeuralNDCG) else self._ranked
        value, grad = part(scores.double() / self.loss.temperature)
        scale = self._scale / self.loss.temperature
        return (self._scale * (1.0 - value)).to(scores.dtype), (scale[self.lists.query] * grad).to(scores.dtype)

    def _row_sums(self, s: Tensor, kind: str, f: Tensor | None = None) -> Tensor:
        out = torch.empty_like(s)
        self.lists.tiled(_row_sums_kernel, s, s if f is None else f, out, kind, ROWS, COLUMNS)
        return out

    def _ranked(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """NDCG of the approximate ranks, and what one minus it changes by, with the scores in units of T."""
        # The sum has the document's own chance too, 1/2; this is the logarithm of its rank and one.
        log = torch.log(1.5 + self._row_sums(s, "chance"))
        worth = self._gains * math.log(2.0) / log
        return self.lists.sums(worth), self._row_sums(s, "slope", worth / log * torch.exp(-log))

    def _sorted(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """The same for the gains that are sorted approximately, rank by rank."""
        lists, gains = self.lists, self._gains
        far, more = self._row_sums(s, "distance"), self._row_sums(s, "sign", torch.ones_like(s))
        value, grad, b = torch.zeros_like(self._scale), torch.zeros_like(s), torch.zeros_like(s)
        for i, discount in enumerate(self._discounts):
            factor = (lists.sizes - 1.0 - 2.0 * i)[lists.query]
            logits = factor * s - far
            p = torch.exp(logits - lists.maxima(logits)[lists.query])
            total = lists.sums(p).clamp(min=1.0)
            gain = lists.sums(p * gains) / total
            weight = (i < lists.sizes).double() * float(discount)
            value += weight * gain
            a = (weight / total)[lists.query] * p * (gain[lists.query] - gains)
            b -= a
            grad += a * (factor - more)
        return value, grad + self._row_sums(s, "sign", b)
