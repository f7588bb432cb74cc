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
    """Write the target distribution of XE-NDCG with random gammas, one list per program.

    The target of a document is ``phi = t / sum(t)`` over its list, where ``t`` is its base
    ``2^label - 1`` plus ``1 - gamma``, both in units of ``2^(highest label)``, and gamma is
    uniform in (0, 1).

    Args:
        offsets: where each list's documents begin, and the number of all.
        base, unit: one base per document, and the size of 1 in the units of each list.
        seed, step, stream: what the random gammas depend on.
        phi: receives one target per document.
        BLOCK: documents that are served together.
    """
    query, start, n = list_of_program(offsets)
    kind = base.dtype.element_ty
    unit_of_list = tl.load(unit + query)

    partial_sums = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        gamma, _, _ = uniform_numbers(seed, query, step, stream, p)
        t = tl.load(base + start + p, p < n, 0.0) + unit_of_list * (1.0 - gamma).to(kind)
        t = tl.where(p < n, t, 0.0)
        partial_sums += t
        tl.store(phi + start + p, t, p < n)

    sum_of_targets = tl.sum(partial_sums, 0)
    factor = tl.where(sum_of_targets > 0, 1.0 / sum_of_targets, 0.0)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        t = tl.load(phi + start + p, p < n, 0.0)
        tl.store(phi + start + p, t * factor, p < n)


@triton.jit
def _tight_kernel(offsets, costs, weights, weighted, unit, n_upper):
    """Write how many documents of each list get ``gamma = 0`` in XE-NDCG's tightest bound, the
    gammas (0 to 1) that make the loss lowest; the others get 1. They are counted from the cheapest
    on, while the next one costs less than the mean so far; `tight_targets` does it in memory.

    The mean is ``sum(t c) / sum(t)`` with the target mass ``t`` and the cost ``c = -log rho`` of
    each document; rho is its softmax. A gamma of 0 instead of 1 adds one unit to ``t``.

    Args:
        offsets: where each list's documents begin, and the number of all.
        costs: one per document, ascending in each list.
        weights, weighted: ``sum(t)`` and ``sum(t c)`` of each list if all gammas are 1.
        unit: what a gamma of 0 adds, one per list.
        n_upper: receives the counts.
    """
    query, start, n = list_of_program(offsets)
    unit_of_list = tl.load(unit + query)
    weight = tl.load(weights + query)
    weighted_costs = tl.load(weighted + query)

    count = 0
    goes_on = n > 0
    while goes_on:
        cost = tl.load(costs + start + count)
        # A cost that equals the mean but for rounding (1e-12) changes nothing: it does not count.
        goes_on = cost * (1.0 + 1e-12) < weighted_costs / weight
        if goes_on:
            weight += unit_of_list
            weighted_costs += unit_of_list * cost
            count += 1
            goes_on = count < n
    tl.store(n_upper + query, count)


@triton.jit
def _softmax_of_others(scores, phi, start, p, is_other, next_top, factor):
    """Return three numbers of each document ``p`` that is not the best of its list: the exponential
    ``e = exp(score - next_top)``, the softmax ``rho = e factor``, and ``rho - phi``, its distance
    from the target. All but the last are 0 where ``is_other`` is false.

    Args:
        scores, phi: one score and one target per document.
        start, p: where the list begins, and places in it.
        is_other: which places are documents other than the best.
        next_top: the highest score of the other documents.
        factor: what makes a softmax of the exponentials.
    """
    # A score of minus infinity has the exponential 0.
    e = tl.exp(tl.load(scores + start + p, is_other, float("-inf")) - next_top)
    rho = e * factor
    return e, rho, rho - tl.load(phi + start + p, is_other, 0.0)


@triton.jit
def _gradient_kernel(
    offsets, scores, phi, scale, grad, hess, HESSIAN: tl.constexpr, BLOCK: tl.constexpr
):
    """Write gradients and hessians of a softmax loss, one list per program, as
    `_softmax_kernel.softmax_gradients` in memory.

    With the softmax ``rho`` and the target ``phi`` the gradient is ``g = rho - phi``, and the
    diagonal of the hessian is ``rho (1 - rho)``. For the best document ``1 - rho`` is computed as
    the softmax of all others, which keeps its digits where rho is nearly 1.

    Args:
        offsets: where each list's documents begin, and the number of all.
        scores, phi, scale: one score and one target per document; a factor per list.
        grad, hess: receive one number per document.
        HESSIAN: 0 for the diagonal; 1 for a gradient with two more terms of Neumann's series, on
            the diagonal; 2 for ``rho``.
        BLOCK: documents that are served together.
    """
    query, start, n = list_of_program(offsets)
    c = tl.load(scale + query)
    kind = scores.dtype.element_ty

    # The best document, the first one of several, and the highest score of all others.
    beyond_all: tl.constexpr = 2147483647
    top = largest_value(scores, start, n, -1, BLOCK)
    first_best = tl.full([BLOCK], beyond_all, tl.int32)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        s = tl.load(scores + start + p, p < n, float("-inf"))
        first_best = tl.minimum(first_best, tl.where((s == top) & (p < n), p, beyond_all))
    best = tl.min(first_best, 0)
    next_top = tl.where(n > 1, largest_value(scores, start, n, best, BLOCK), top)

    # The exponentials of the others are measured by the highest of them.
    total = tl.zeros([BLOCK], kind)
    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        is_other = (p < n) & (p != best)
        total += tl.exp(tl.load(scores + start + p, is_other, float("-inf")) - next_top)
    sum_of_others = tl.sum(total, 0)
    lead_of_next = tl.exp(next_top - top)
    tail = sum_of_others * lead_of_next
    share = 1.0 / (1.0 + tail)  # the softmax of the best document
    inverse = tl.where(n > 1, 1.0 / sum_of_others, 0.0)
    lead = share - tl.load(phi + start + best, n > 0, 0.0)
    factor = lead_of_next * share

    # The two sums that the second and third term of `neumann` need.
    sum1 = tl.sum(tl.zeros([BLOCK], kind), 0)
    sum2 = sum1
    if HESSIAN == 1:
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            is_other = (p < n) & (p != best)
            e, rho, g = _softmax_of_others(scores, phi, start, p, is_other, next_top, factor)
            sums += g / (1.0 - rho)
        sum1 = tl.sum(sums, 0)
        sums = tl.zeros([BLOCK], kind)
        for p0 in range(0, n, BLOCK):
            p = p0 + tl.arange(0, BLOCK)
            is_other = (p < n) & (p != best)
            e, rho, g = _softmax_of_others(scores, phi, start, p, is_other, next_top, factor)
            sums += (rho * (sum1 - g / (1.0 - rho)) + e * inverse * lead) / (1.0 - rho)
        sum2 = tl.sum(sums, 0)

    for p0 in range(0, n, BLOCK):
        p = p0 + tl.arange(0, BLOCK)
        is_best = p == best
        is_other = (p < n) & (p != best)
        e, rho, g = _softmax_of_others(scores, phi, start, p, is_other, next_top, factor)
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
        self._gamma: str | float = 1.0  # of ListNet, which has no gamma: fixed targets
        if isinstance(loss, XENDCG):
            self._gamma = loss.gamma
            self._use_xendcg_targets(loss)
        else:
            assert isinstance(loss, ListNet)
            self._target_mass = self._listnet_targets(loss)

        # A gamma that is a number gives the same targets at every step: they are normalised here.
        # A list of weight 0 may have the sum 0, which must not divide.
        has_fixed_targets = isinstance(self._gamma, float)
        if has_fixed_targets:
            sums = lists.sums(self._target_mass)
            divisors = torch.where(lists.weights != 0, sums, torch.ones_like(sums))
            self._target_mass = self._target_mass / divisors[lists.query]

    def _listnet_targets(self, loss: ListNet) -> Tensor:
        """Return the targets of ListNet before they are divided by their sum: the labels, or their
        exponentials, measured by the highest label of the list.
        """
        labels = self.lists.labels
        # Less the highest label of the list, no exponential overflows; the sum divides it out.
        if loss.target != "softmax":
            return labels
        highest_label = self.lists.maxima(labels)
        return torch.exp(labels - highest_label[self.lists.query])

    def _use_xendcg_targets(self, loss: XENDCG) -> None:
        """Set the targets of XE-NDCG before they are divided by their sum, ``2^label - gamma``, in
        units of ``2^(highest label)`` of the list, which cannot overflow.

        If gamma is not a number, it is 1 here: what it adds is decided for every step.
        """
        labels, query = self.lists.labels, self.lists.query
        highest_label = self.lists.maxima(labels)
        self._unit = torch.exp2(-highest_label)
        # ``2^label - 1`` in that unit, in which the 1 is `_unit`; then what a smaller gamma adds.
        self._target_mass = torch.exp2(labels - highest_label[query]) - self._unit[query]
        if isinstance(loss.gamma, float):
            self._target_mass = self._target_mass + self._unit[query] * (1.0 - loss.gamma)

    def _targets(self, scores: Tensor, step: int) -> Tensor:
        """Return the target distribution of each list at a step, one number per document; the
        numbers of a list add up to 1.
        """
        if isinstance(self._gamma, float):
            return self._target_mass
        if self._gamma == "tight":
            return self._tight_targets(scores)

        # Gamma "uniform": one per document and step, drawn from [0, 1]; phi are the targets.
        phi = torch.empty_like(scores)
        random_numbers = (self.seed, step, GAMMA_STREAM)
        self.lists.run_per_list(
            _uniform_kernel, self._target_mass, self._unit, *random_numbers, phi, BLOCK
        )
        return phi

    def _tight_targets(self, scores: Tensor) -> Tensor:
        """Return the target distribution of each list with the gammas in [0, 1] for which the bound
        of XE-NDCG is tightest: 0 for the documents of highest score, 1 for all others.

        How many gammas are 0 depends on sums: they are float64, as in memory.
        """
        lists = self.lists
        unit, mass = self._unit.double(), self._target_mass.double()
        costs = self._costs(scores.double())
        total_mass = lists.sums(mass)
        total_costs = lists.sums(mass * costs)

        _, _, order = lists.rank(scores, scores)
        n_upper = torch.empty_like(lists.sizes)  # how many gammas of a list are 0
        lists.run_per_list(_tight_kernel, costs[order], total_mass, total_costs, unit, n_upper)

        is_upper = lists.place_in_list < n_upper[lists.query]
        added_by_rank = torch.where(is_upper, unit[lists.query], 0.0)
        mass = mass.index_add(0, order, added_by_rank)
        total_mass = total_mass + unit * n_upper
        factor = torch.where(total_mass > 0, 1.0 / total_mass, torch.zeros_like(total_mass))
        return (mass * factor[lists.query]).to(scores.dtype)

    def _costs(self, scores: Tensor) -> Tensor:
        """Return ``-log rho`` of each document: ``rho = exp(score) / sum(exp(scores))`` is the
        softmax of its score in its list.
        """
        lists = self.lists
        # Relative to the highest score of the list, no exponential overflows.
        relative_scores = scores - lists.maxima(scores)[lists.query]
        log_of_sums = torch.log(lists.sums(torch.exp(relative_scores)))
        return log_of_sums[lists.query] - relative_scores

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the first and the second derivatives of the loss by the scores, one per document;
        the second ones are those of the loss's ``hessian``.
        """
        grad = torch.empty_like(scores)
        hess = torch.empty_like(scores)
        targets = self._targets(scores, step)
        # The kernel knows the hessian (diagonal, neumann, exact) by a number.
        hessian = _HESSIANS[self.loss.hessian]
        weights = self.lists.weights
        self.lists.run_per_list(
            _gradient_kernel, scores, targets, weights, grad, hess, hessian, BLOCK
        )
        return grad, hess

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the loss of each list: its weight times the cross-entropy between targets and
        softmax, the sum of ``-target log rho``.
        """
        lists = self.lists
        targets = self._targets(scores, step)
        # `_costs` are ``-log rho`` of the softmax rho. A list of weight 0 counts 0 even
        # where its cross-entropy is not finite.
        cross_entropies = lists.sums(targets * self._costs(scores))
        return torch.where(lists.weights == 0, 0.0, lists.weights * cross_entropies)
