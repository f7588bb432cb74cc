"""Kernels of the softmax family: cross entropy between a target distribution and the softmax of the
scores.

The targets of XE-NDCG are ``phi_i = t_i / sum t`` with ``t_i = base_i + unit (1 - gamma_i)``;
``base`` and ``unit`` carry a scale per query that cancels, so that no label overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, I64, Array
from tautrank.kernels.exponential import exponential
from tautrank.kernels.randomness import fill_uniform
from tautrank.kernels.ranking import REORDER, longest_list
from tautrank.kernels.streams import GAMMA_STREAM

DIAGONAL, NEUMANN, EXACT = 0, 1, 2
"""What the gradient and the hessian are made of, see `SoftmaxLoss`."""


@njit(nogil=True, cache=True, error_model="numpy", fastmath=REORDER)
def uniform_targets(
    base: F64,
    unit: F64,
    offsets: I64,
    seed: np.uint64,
    step: int,
    first: int,
    last: int,
    phi: Array,
    sums: F64,
) -> None:
    """Write targets ``phi`` with a gamma drawn uniformly for each document.

    Args:
        base: the part of the target that gamma does not touch, one per document.
        unit: what a gamma of 1 takes away, one per query.
        offsets: start of each query.
        seed: of the gammas.
        step: of the gammas.
        first, last: the first query, and one past the last.
        phi: receives the targets, one per document.
        sums: receives what they were divided by, one per query.
    """
    gammas = np.empty(longest_list(offsets, first, last))
    for query in range(first, last):
        start = offsets[query]
        t = gammas[: offsets[query + 1] - start]
        b = base[start : offsets[query + 1]]
        fill_uniform(t, seed, step, query, GAMMA_STREAM)
        total = 0.0
        for p in range(t.shape[0]):
            t[p] = b[p] + unit[query] * (1.0 - t[p])
            total += t[p]
        sums[query] = total
        share = 1.0 / total if total > 0.0 else 0.0
        for p in range(t.shape[0]):
            phi[start + p] = t[p] * share


@njit(error_model="numpy", inline="always")
def _log_total(scores: F64, start: int, stop: int) -> tuple[float, float]:
    """Return the highest score of a query, and ``log sum exp(score - highest)``: what ``-log rho``
    is measured by.
    """
    top = -math.inf
    for p in range(start, stop):
        top = max(top, scores[p])
    total = 0.0
    for p in range(start, stop):
        total += math.exp(scores[p] - top)
    return top, math.log(total)


@njit(nogil=True, cache=True, error_model="numpy")
def tight_targets(
    base: F64,
    unit: F64,
    offsets: I64,
    scores: F64,
    arrangement: I64,
    ranks: I32,
    scale: F64,
    first: int,
    last: int,
    phi: Array,
    sums: F64,
) -> None:
    """Write targets ``phi`` with the gammas in [0, 1] that minimise the loss ``sum t c / sum t``,
    where ``c = -log rho``.

    A ratio of linear functions over a box takes its minimum at a corner: ``t_i`` is at its upper
    end where ``c_i`` lies below the minimum, at its lower end elsewhere. So documents are taken
    from the highest score down, for as long as the next one costs less than the mean so far.

    Args:
        base: the part of the target that gamma does not touch, one per document.
        unit: what a gamma of 1 takes away, one per query.
        offsets: start of each query.
        scores: one per document.
        arrangement: flat indices of the documents, in any order within their query.
        ranks: 0-based, in the order of the arrangement.
        scale: one per query; 0 where no target is needed.
        first, last: the first query, and one past the last.
        phi: receives the targets, one per document.
        sums: receives what they were divided by, one per query; filled with 0.
    """
    cost = np.empty(longest_list(offsets, first, last))
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        if scale[query] == 0.0:
            continue

        # All targets at their lower ends.
        top, log_total = _log_total(scores, start, stop)
        sum_t = 0.0
        sum_tc = 0.0
        for p in range(start, stop):
            document = arrangement[p]
            c = log_total - (scores[document] - top)
            cost[ranks[p]] = c
            sum_t += base[document]
            sum_tc += base[document] * c

        # Those of the first ranks at their upper ends.
        n_upper = 0
        # The tolerance keeps documents of equal cost together when rounding alone tells cost and
        # mean apart.
        while n_upper < stop - start and cost[n_upper] * (1.0 + 1e-12) < sum_tc / sum_t:
            sum_t += unit[query]
            sum_tc += unit[query] * cost[n_upper]
            n_upper += 1

        sums[query] = sum_t
        for p in range(start, stop):
            slack = unit[query] if ranks[p] < n_upper else 0.0
            phi[arrangement[p]] = (base[arrangement[p]] + slack) / sum_t


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _sum(e: Array) -> float:
    """Return the sum of an array, in any order."""
    total = 0.0
    for p in range(e.shape[0]):
        total += e[p]
    return total


@njit(error_model="numpy")
def _softmax_without_best(s: Array, best: int, tail: float, e: Array, q: Array) -> None:
    """Write to ``q`` the softmax over all documents but the best one, for which it is 0; ``e`` is
    ``exp(s - max)``, and ``tail`` its sum without the best.
    """
    if tail > 1e-6:
        share = 1.0 / tail
        for p in range(s.shape[0]):
            q[p] = e[p] * share
    else:
        # The others may have underflowed next to the best one: measure them by the best among
        # themselves.
        top = -math.inf
        for p in range(s.shape[0]):
            if p != best:
                top = max(top, float(s[p]))
        total = 0.0
        for p in range(s.shape[0]):
            q[p] = math.exp(s[p] - top) if p != best else 0.0
            total += q[p]
        for p in range(s.shape[0]):
            q[p] /= total
    q[best] = 0.0


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _neumann(e: Array, q: Array, phi: Array, best: int, n: int, tail: float) -> None:
    """Replace ``e = exp(s - max)`` by the hessian and ``phi`` by the gradient
    ``D (I + S + S^2) D^-1 (rho - phi)``.

    ``1 - rho`` of the best document is ``tail / (1 + tail)``, the share of the others, and whatever
    is divided by it comes with a factor ``rho_k``: ``q_k = rho_k / (1 - rho_best)``, a softmax over
    the others, stays finite however far the best document leads.
    """
    one = e.dtype.type(1.0)
    share = e.dtype.type(1.0 / (1.0 + tail))
    lead = share - phi[best]

    # The best document is left out of the sums by a rho and a phi of 0, and put in by hand.
    e[best] = 0.0
    phi[best] = 0.0

    # The sums of the first term, rho - phi, and of the second, S times it, each over 1 - rho.
    sum1 = e.dtype.type(0.0)
    for p in range(n):
        rho = e[p] * share
        sum1 += (rho - phi[p]) / (one - rho)
    second_of_best = share * sum1
    sum2 = e.dtype.type(0.0)
    for p in range(n):
        rho = e[p] * share
        g1 = rho - phi[p]
        g2 = rho * (sum1 - g1 / (one - rho)) + q[p] * lead
        sum2 += g2 / (one - rho)

    for p in range(n):
        rho = e[p] * share
        one_less_rho = one - rho
        g1 = rho - phi[p]
        g2 = rho * (sum1 - g1 / one_less_rho) + q[p] * lead
        g3 = rho * (sum2 - g2 / one_less_rho)
        phi[p] = g1 + g2 + g3 + q[p] * second_of_best
        e[p] = rho * one_less_rho
    phi[best] = lead + second_of_best + share * sum2
    e[best] = share * (tail * share)


@njit(nogil=True, cache=True, error_model="numpy")
def softmax_gradients(
    scores: Array,
    offsets: I64,
    scale: F64,
    hessian: int,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
) -> None:
    """Write the gradients and hessians of the cross entropy.

    Args:
        scores: one per document.
        offsets: start of each query.
        scale: one per query; 0 where there is nothing to learn.
        hessian: ``DIAGONAL``, ``NEUMANN`` or ``EXACT``.
        first, last: the first query, and one past the last.
        grad: the target distribution of each query, one number per document; receives the gradient.
        hess: receives the hessian, one per document; filled with 0.
    """
    q = np.empty(longest_list(offsets, first, last), scores.dtype)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        s = scores[start : start + n]
        phi = grad[start : start + n]
        e = hess[start : start + n]
        if scale[query] == 0.0:
            phi[:] = 0.0
            continue

        # exp(s - max), and its sum without that of the best document, which is 1.
        best = 0
        for p in range(n):
            if s[p] > s[best]:
                best = p
        top = s[best]
        for p in range(n):
            e[p] = exponential(s[p] - top)
        tail = _sum(e) - 1.0
        if tail < 1e-3:
            # The difference has lost its digits: add up the others alone.
            tail = 0.0
            for p in range(n):
                if p != best:
                    tail += e[p]

        if hessian == NEUMANN and n > 1:
            _softmax_without_best(s, best, tail, e, q)
            _neumann(e, q, phi, best, n, tail)
        else:
            share = 1.0 / (1.0 + tail)
            for p in range(n):
                rho = e[p] * share
                phi[p] = rho - phi[p]
                e[p] = rho if hessian == EXACT else rho * (1.0 - rho)
            if hessian != EXACT:
                e[best] = share * (tail * share)

        c = scores.dtype.type(scale[query])
        for p in range(n):
            phi[p] *= c
            e[p] *= c


@njit(nogil=True, cache=True, error_model="numpy")
def softmax_values(
    scores: F64, targets: F64, offsets: I64, scale: F64, first: int, last: int, values: F64
) -> None:
    """Write the cross entropy of each query.

    Args:
        scores: one per document.
        targets: the distribution of each query, one per document.
        offsets: start of each query.
        scale: one per query; 0 where the value is not written.
        first, last: the first query, and one past the last.
        values: receives one value per query.
    """
    for query in range(first, last):
        if scale[query] == 0.0:
            continue
        start, stop = offsets[query], offsets[query + 1]
        top, log_total = _log_total(scores, start, stop)
        value = 0.0
        for p in range(start, stop):
            value += targets[p] * (log_total - (scores[p] - top))
        values[query] = scale[query] * value
