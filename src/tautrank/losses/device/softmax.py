"""The softmax family on a CUDA device; see `tautrank.losses.softmax` for the formulas.

One program per list walks over its documents a few times; whatever is divided by ``1 - rho`` of the best document is
written by the softmax over the others, which stays finite however far the best one leads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.losses.device.lists import DeviceLists, uniforms
from tautrank.losses.softmax import XENDCG, ListNet, SoftmaxLoss

_BLOCK = 128
_GAMMA_STREAM = 0  # as in kernels.randomness, which needs Numba
_HESSIANS = {"diagonal": 0, "neumann": 1, "exact": 2}


@triton.jit
def _uniform_kernel(base, unit, offsets, seed, step, stream, phi, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    kind = base.dtype.element_ty
    step_of_gamma = tl.load(unit + query)
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        zero = p * 0
        gamma, _, _ = uniforms(seed, p // 4, zero + query, zero + step, zero + stream, p)
        t = tl.load(base + start + p, p < n, 0.0) + step_of_gamma * (1.0 - gamma).to(kind)
        t = tl.where(p < n, t, 0.0)
        total += t
        tl.store(phi + start + p, t, p < n)
    whole = tl.sum(total, 0)
    share = tl.where(whole > 0, 1.0 / whole, 0.0)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        tl.store(phi + start + p, tl.load(phi + start + p, p < n, 0.0) * share, p < n)


@triton.jit
def _tight_kernel(base, unit, offsets, scores, order, phi, BLOCK: tl.constexpr):
    """As `tight_targets` in the kernels for the processor: documents from the highest score down, while the next one
    costs less than the mean so far."""
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    u = tl.load(unit + query)
    top = tl.load(scores + tl.load(order + start, n > 0, 0), n > 0, 0.0)
    total = tl.zeros([BLOCK], scores.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.where(p < n, tl.exp(tl.load(scores + start + p, p < n, 0.0) - top), 0.0)
    log_total = tl.log(tl.sum(total, 0))
    weights = tl.zeros([BLOCK], scores.dtype.element_ty)
    costs = tl.zeros([BLOCK], scores.dtype.element_ty)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        b = tl.load(base + start + p, p < n, 0.0)
        weights += b
        costs += b * (log_total - (tl.load(scores + start + p, p < n, 0.0) - top))
    weight = tl.sum(weights, 0)
    weighted = tl.sum(costs, 0)
    taken = 0
    going = n > 0
    while going:
        cost = log_total - (tl.load(scores + tl.load(order + start + taken)) - top)
        going = cost * (1.0 + 1e-12) < weighted / weight
        if going:
            weight += u
            weighted += u * cost
            taken += 1
            going = taken < n
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        at = tl.load(order + start + p, p < n, 0)
        t = tl.load(base + at, p < n, 0.0) + tl.where(p < taken, u, 0.0)
        tl.store(phi + at, tl.where(weight > 0, t / weight, 0.0), p < n)


@triton.jit
def _gradient_kernel(scores, phi, offsets, scale, grad, hess, HESSIAN: tl.constexpr, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    c = tl.load(scale + query)
    kind = scores.dtype.element_ty
    low = tl.full([BLOCK], float("-inf"), kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        low = tl.maximum(low, tl.load(scores + start + p, p < n, float("-inf")))
    top = tl.max(low, 0)
    at = tl.full([BLOCK], 2147483647, tl.int32)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        s = tl.load(scores + start + p, p < n, float("-inf"))
        at = tl.minimum(at, tl.where((s == top) & (p < n), p, 2147483647))
    best = tl.min(at, 0)
    low = tl.full([BLOCK], float("-inf"), kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        low = tl.maximum(low, tl.load(scores + start + p, (p < n) & (p != best), float("-inf")))
    next_top = tl.where(n > 1, tl.max(low, 0), top)
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        s = tl.load(scores + start + p, (p < n) & (p != best), float("-inf"))
        total += tl.exp(s - next_top)
    others = tl.sum(total, 0)
    lead_of_next = tl.exp(next_top - top)
    tail = others * lead_of_next
    share = 1.0 / (1.0 + tail)
    inverse = tl.where(n > 1, 1.0 / others, 0.0)
    best_phi = tl.load(phi + start + best, n > 0, 0.0)
    lead = share - best_phi
    sum1 = tl.sum(tl.zeros([BLOCK], kind), 0)
    sum2 = sum1
    if HESSIAN == 1:
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            rest = (p < n) & (p != best)
            e = tl.exp(tl.load(scores + start + p, rest, float("-inf")) - next_top)
            rho = e * (lead_of_next * share)
            sums += (rho - tl.load(phi + start + p, rest, 0.0)) / (1.0 - rho)
        sum1 = tl.sum(sums, 0)
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            rest = (p < n) & (p != best)
            e = tl.exp(tl.load(scores + start + p, rest, float("-inf")) - next_top)
            rho = e * (lead_of_next * share)
            f = tl.load(phi + start + p, rest, 0.0)
            sums += (rho * (sum1 - (rho - f) / (1.0 - rho)) + e * inverse * lead) / (1.0 - rho)
        sum2 = tl.sum(sums, 0)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        e = tl.exp(tl.load(scores + start + p, p < n, 0.0) - next_top)
        f = tl.load(phi + start + p, p < n, 0.0)
        is_best = p == best
        rho = tl.where(is_best, share, e * (lead_of_next * share))
        # 1 - rho of the best document is the share of the others.
        rest = tl.where(is_best, tail * share, 1.0 - rho)
        g = rho - f
        if HESSIAN == 1:  # noqa: SIM102, one is decided when compiling, the other when running
            if n > 1:
                q = e * inverse
                g2 = rho * (sum1 - g / rest) + q * lead
                g = tl.where(
                    is_best, lead + share * sum1 + share * sum2, g + g2 + rho * (sum2 - g2 / rest) + q * (share * sum1)
                )
        h = rho if HESSIAN == 2 else rho * rest
        tl.store(grad + start + p, c * g, p < n)
        tl.store(hess + start + p, c * h, p < n)


@triton.jit
def _value_kernel(scores, phi, offsets, scale, values, BLOCK: tl.constexpr):
    query = tl.program_id(0)
    start = tl.load(offsets + query)
    n = (tl.load(offsets + query + 1) - start).to(tl.int32)
    kind = scores.dtype.element_ty
    low = tl.full([BLOCK], float("-inf"), kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        low = tl.maximum(low, tl.load(scores + start + p, p < n, float("-inf")))
    top = tl.max(low, 0)
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.where(p < n, tl.exp(tl.load(scores + start + p, p < n, 0.0) - top), 0.0)
    log_total = tl.log(tl.sum(total, 0))
    value = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        cost = log_total - (tl.load(scores + start + p, p < n, 0.0) - top)
        value += tl.where(p < n, tl.load(phi + start + p, p < n, 0.0) * cost, 0.0)
    c = tl.load(scale + query)
    tl.store(values + query, tl.where(c == 0, 0.0, c * tl.sum(value, 0)))


class DeviceSoftmax:
    """A softmax loss bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the gammas of ``gamma="uniform"``.
    """

    def __init__(self, loss: SoftmaxLoss, lists: DeviceLists, seed: int) -> None:
        self.loss, self.lists, self.seed = loss, lists, seed
        labels = lists.labels
        self._unit = torch.zeros(lists.count, dtype=labels.dtype, device=labels.device)
        self._gamma: str | float = 1.0
        if isinstance(loss, XENDCG):
            highest = lists.maxima(labels)
            self._unit = torch.exp2(-highest)
            self._base = torch.exp2(labels - highest[lists.query]) - self._unit[lists.query]
            self._gamma = loss.gamma
            if isinstance(loss.gamma, float):
                self._base = self._base + self._unit[lists.query] * (1.0 - loss.gamma)
        else:
            assert isinstance(loss, ListNet)
            self._base = labels
            if loss.target == "softmax":
                self._base = torch.exp(labels - lists.maxima(labels)[lists.query])
        if isinstance(self._gamma, float):
            sums = lists.sums(self._base)
            self._base = self._base / torch.where(lists.weights != 0, sums, torch.ones_like(sums))[lists.query]

    def _targets(self, scores: Tensor, step: int) -> Tensor:
        if isinstance(self._gamma, float):
            return self._base
        lists = self.lists
        phi = torch.zeros_like(scores)
        if not lists.count:
            return phi
        if self._gamma == "uniform":
            _uniform_kernel[(lists.count,)](
                self._base, self._unit, lists.offsets, self.seed, step, _GAMMA_STREAM, phi, _BLOCK, num_warps=1
            )
            return phi
        # Sums decide which documents are taken: in float64, as in memory.
        order = lists.ranked(scores, scores)[2]
        exact = torch.zeros_like(scores, dtype=torch.float64)
        _tight_kernel[(lists.count,)](
            self._base.double(), self._unit.double(), lists.offsets, scores.double(), order, exact, _BLOCK, num_warps=1
        )
        return exact.to(scores.dtype)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        lists = self.lists
        grad, hess = torch.empty_like(scores), torch.empty_like(scores)
        if lists.count:
            _gradient_kernel[(lists.count,)](
                scores, self._targets(scores, step), lists.offsets, lists.weights, grad, hess,
                _HESSIANS[self.loss.hessian], _BLOCK, num_warps=1,
            )  # fmt: skip
        return grad, hess

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        lists = self.lists
        values = torch.zeros(lists.count, dtype=scores.dtype, device=scores.device)
        if lists.count:
            targets = self._targets(scores, step)
            _value_kernel[(lists.count,)](scores, targets, lists.offsets, lists.weights, values, _BLOCK, num_warps=1)
        return values
