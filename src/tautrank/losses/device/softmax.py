"""The softmax family on a CUDA device; see `tautrank.losses.softmax` for the formulas.

One program per list walks over its documents a few times; whatever is divided by ``1 - rho`` of the
best document is written by the softmax over the others, which stays finite however far the best one
leads.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from tautrank.kernels.streams import GAMMA_STREAM
from tautrank.losses.device.lists import (
    BLOCK,
    DeviceLists,
    DeviceObjective,
    largest_value,
    list_of_program,
    uniform_numbers,
)
from tautrank.losses.softmax import XENDCG, ListNet, SoftmaxLoss

_HESSIANS = {"diagonal": 0, "neumann": 1, "exact": 2}


@triton.jit
def _uniform_kernel(offsets, base, unit, seed, step, stream, phi, BLOCK: tl.constexpr):
    """Write the targets of a list, each with a gamma drawn uniformly."""
    query, start, n = list_of_program(offsets)
    kind = base.dtype.element_ty
    step_of_gamma = tl.load(unit + query)
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        gamma = uniform_numbers(seed, query, step, stream, p)[0]
        t = tl.load(base + start + p, p < n, 0.0) + step_of_gamma * (1.0 - gamma).to(kind)
        t = tl.where(p < n, t, 0.0)
        total += t
        tl.store(phi + start + p, t, p < n)
    sum_of_targets = tl.sum(total, 0)
    share = tl.where(sum_of_targets > 0, 1.0 / sum_of_targets, 0.0)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        tl.store(phi + start + p, tl.load(phi + start + p, p < n, 0.0) * share, p < n)


@triton.jit
def _tight_kernel(offsets, costs, weights, weighted, unit, taken):
    """As `tight_targets` in memory: documents from the highest score down, while the next one costs
    less than the mean so far."""
    query, start, n = list_of_program(offsets)
    u = tl.load(unit + query)
    weight = tl.load(weights + query)
    total = tl.load(weighted + query)
    count = 0
    going = n > 0
    while going:
        cost = tl.load(costs + start + count)
        going = cost * (1.0 + 1e-12) < total / weight
        if going:
            weight += u
            total += u * cost
            count += 1
            going = count < n
    tl.store(taken + query, count)


@triton.jit
def _others(scores, phi, start, p, rest, next_top, share):
    """Return ``exp(s - next_top)``, the softmax and its distance from the target, for all but the
    best document.
    """
    e = tl.exp(tl.load(scores + start + p, rest, float("-inf")) - next_top)
    rho = e * share
    return e, rho, rho - tl.load(phi + start + p, rest, 0.0)


@triton.jit
def _gradient_kernel(
    offsets, scores, phi, scale, grad, hess, HESSIAN: tl.constexpr, BLOCK: tl.constexpr
):
    """Write gradient and hessian of a list, as `_softmax_kernel.softmax_gradients` in memory."""
    query, start, n = list_of_program(offsets)
    c = tl.load(scale + query)
    kind = scores.dtype.element_ty

    # The best document, the first one of several, and the highest score of all others.
    top = largest_value(scores, start, n, -1, BLOCK)
    at = tl.full([BLOCK], 2147483647, tl.int32)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        s = tl.load(scores + start + p, p < n, float("-inf"))
        at = tl.minimum(at, tl.where((s == top) & (p < n), p, 2147483647))
    best = tl.min(at, 0)
    next_top = tl.where(n > 1, largest_value(scores, start, n, best, BLOCK), top)

    # The exponentials of the others are measured by the highest of them.
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        total += tl.exp(
            tl.load(scores + start + p, (p < n) & (p != best), float("-inf")) - next_top
        )
    sum_of_others = tl.sum(total, 0)
    lead_of_next = tl.exp(next_top - top)
    tail = sum_of_others * lead_of_next
    share = 1.0 / (1.0 + tail)
    inverse = tl.where(n > 1, 1.0 / sum_of_others, 0.0)
    lead = share - tl.load(phi + start + best, n > 0, 0.0)

    # The two sums that the second and third term of `neumann` need.
    sum1 = tl.sum(tl.zeros([BLOCK], kind), 0)
    sum2 = sum1
    if HESSIAN == 1:
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            is_other = (p < n) & (p != best)
            e, rho, g = _others(scores, phi, start, p, is_other, next_top, lead_of_next * share)
            sums += g / (1.0 - rho)
        sum1 = tl.sum(sums, 0)
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            is_other = (p < n) & (p != best)
            e, rho, g = _others(scores, phi, start, p, is_other, next_top, lead_of_next * share)
            sums += (rho * (sum1 - g / (1.0 - rho)) + e * inverse * lead) / (1.0 - rho)
        sum2 = tl.sum(sums, 0)

    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        is_best = p == best
        e, rho, g = _others(
            scores, phi, start, p, (p < n) & (p != best), next_top, lead_of_next * share
        )
        rho = tl.where(is_best, share, rho)
        g = tl.where(is_best, lead, g)
        # 1 - rho of the best document is the share of the others.
        one_less_rho = tl.where(is_best, tail * share, 1.0 - rho)
        if HESSIAN == 1:  # noqa: SIM102, one is decided when compiling, the other when running
            if n > 1:
                q = e * inverse
                g2 = rho * (sum1 - g / one_less_rho) + q * lead
                g = tl.where(
                    is_best,
                    lead + share * sum1 + share * sum2,
                    g + g2 + rho * (sum2 - g2 / one_less_rho) + q * (share * sum1),
                )
        h = rho if HESSIAN == 2 else rho * one_less_rho
        tl.store(grad + start + p, c * g, p < n)
        tl.store(hess + start + p, c * h, p < n)


class DeviceSoftmax(DeviceObjective):
    """A softmax loss bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: seed of the gammas of ``gamma="uniform"``.
    """

    def __init__(self, loss: SoftmaxLoss, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        labels = lists.labels
        self._gamma: str | float = 1.0
        if isinstance(loss, XENDCG):
            highest_label = lists.maxima(labels)
            self._unit = torch.exp2(-highest_label)
            self._base = torch.exp2(labels - highest_label[lists.query]) - self._unit[lists.query]
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
            self._base = (
                self._base
                / torch.where(lists.weights != 0, sums, torch.ones_like(sums))[lists.query]
            )

    def _targets(self, scores: Tensor, step: int) -> Tensor:
        """Return the target distribution of each list, one number per document."""
        if isinstance(self._gamma, float):
            return self._base
        lists = self.lists
        if self._gamma == "uniform":
            phi = torch.empty_like(scores)
            lists.run_per_list(
                _uniform_kernel, self._base, self._unit, self.seed, step, GAMMA_STREAM, phi, BLOCK
            )
            return phi
        # Sums decide which targets are at their upper ends: in float64, as in memory.
        unit, base, costs = self._unit.double(), self._base.double(), self._costs(scores.double())
        weight, order = lists.sums(base), lists.rank(scores, scores)[2]
        n_upper = torch.empty_like(lists.sizes)
        lists.run_per_list(
            _tight_kernel, costs[order], weight, lists.sums(base * costs), unit, n_upper
        )
        slack = torch.where(lists.place_in_list < n_upper[lists.query], unit[lists.query], 0.0)
        base = base.index_add(0, order, slack)
        total = weight + unit * n_upper
        share = torch.where(total > 0, 1.0 / total, torch.zeros_like(total))
        return (base * share[lists.query]).to(scores.dtype)

    def _costs(self, scores: Tensor) -> Tensor:
        """``-log rho`` of each document."""
        lists = self.lists
        below = scores - lists.maxima(scores)[lists.query]
        return torch.log(lists.sums(torch.exp(below)))[lists.query] - below

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return gradient and hessian, one per document."""
        grad, hess = torch.empty_like(scores), torch.empty_like(scores)
        kind = _HESSIANS[self.loss.hessian]
        targets, weights = self._targets(scores, step), self.lists.weights
        self.lists.run_per_list(_gradient_kernel, scores, targets, weights, grad, hess, kind, BLOCK)
        return grad, hess

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        lists = self.lists
        values = lists.sums(self._targets(scores, step) * self._costs(scores))
        return torch.where(lists.weights == 0, 0.0, lists.weights * values)
