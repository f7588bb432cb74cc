"""Kernels of this room: how often noise reverses a pair, and how it orders ties; gammas; sums over pairs."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, I64
from tautrank.kernels.ranking import longest_list

# Beyond this half of erfc underflows in float64.
_FAR = 27.3


@njit(nogil=True, cache=True, error_model="numpy")
def flip_sums(scores: F64, labels: F64, weights: F64, only_unlike: bool, offsets: I64, sigmas: F64, mus: F64) -> F64:
    """Return the sum over the pairs of each query, each pair times the probability that noise reverses it.

    Noisy scores are ``s_i + sigma (eps_i - mu y_i)``. A sigma of 0 is the limit from above: noise then reverses tied
    documents only.

    Args:
        scores: one per document; the documents of each query go from the first rank to the last.
        labels: one per document.
        weights: one per document; a pair counts the sum of its two weights.
        only_unlike: whether pairs with equal labels are left out.
        offsets: start of each query, and the number of documents at the end.
        sigmas: standard deviation of the noise, one per query.
        mus: shift of the noise's mean per unit of the label, one per query.
    """
    sums = np.empty(offsets.size - 1)
    for query in range(sums.size):
        start, stop = offsets[query], offsets[query + 1]
        sigma, mu = sigmas[query], mus[query]
        most = 0.0
        for i in range(start, stop):
            most = max(most, labels[i])
        total = 0.0
        for i in range(start, stop):
            for j in range(i + 1, stop):
                gap = scores[i] - scores[j]
                x = -0.5 * mu * (labels[i] - labels[j])
                if gap > 0.0:
                    # Scores only fall from here on, and no label pulls further than the highest one.
                    if gap / sigma - mu * most > 2.0 * _FAR:
                        break
                    x += 0.5 * gap / sigma
                weight = weights[i] + weights[j]
                if weight > 0.0 and not (only_unlike and labels[i] == labels[j]):
                    total += weight * 0.5 * math.erfc(x)
        sums[query] = total
    return sums


@njit(nogil=True, cache=True, error_model="numpy")
def tied_discounts(groups: I64, places: I64, labels: F64, discounts: F64, mu: float, nodes: F64, chances: F64) -> F64:
    """Return the expected discount, one per document, of tied documents ordered by normal noise of mean ``-mu y``.

    Given a document's own noise the others stand above it independently of each other, so its place among them is a sum
    of independent trials; what is left is an integral over its own noise.

    Args:
        groups: where each group of tied documents starts, and the number of documents at the end.
        places: the 0-based rank at which each group starts.
        labels: of the documents, group by group, equal labels adjacent.
        discounts: by rank.
        mu: shift of the noise's mean per unit of the label.
        nodes: of the integral over a normal variable.
        chances: weights of the nodes, which add up to 1.
    """
    expected = np.empty(labels.size)
    p = np.empty(longest_list(groups, 0, groups.size - 1) + 1)
    for group in range(groups.size - 1):
        start, stop = groups[group], groups[group + 1]
        size = stop - start
        for j in range(start, stop):
            if j > start and labels[j] == labels[j - 1]:
                expected[j] = expected[j - 1]
                continue
            total = 0.0
            for node in range(nodes.size):
                p[0] = 1.0
                count = 0
                lost = 0.0
                # No label: the first document sets it.
                of_label = -1.0
                for i in range(start, stop):
                    if i == j:
                        continue
                    if labels[i] != of_label:
                        of_label = labels[i]
                        lost = 0.5 * math.erfc((nodes[node] + mu * (labels[i] - labels[j])) / math.sqrt(2.0))
                    p[count + 1] = 0.0
                    for r in range(count + 1, 0, -1):
                        p[r] = p[r] * (1.0 - lost) + p[r - 1] * lost
                    p[0] *= 1.0 - lost
                    count += 1
                for r in range(size):
                    total += chances[node] * p[r] * discounts[places[group] + r]
            expected[j] = total
    return expected


@njit(nogil=True, cache=True, error_model="numpy")
def smallest_jensen_gaps(log_rho: F64, least: F64, unit: F64, offsets: I64) -> tuple[F64, I64]:
    """Find the gammas of 0 and 1 that minimise ``log sum phi rho - sum phi log rho``.

    The gap is concave in the target ``phi``, so its minimum is a corner of the box of gammas, and there it also
    minimises its own linear part, whose slopes ``rho/A - log rho`` are convex in ``rho``: the documents with a gamma of
    0 are neighbours in the order of the scores. All such windows are tried with running sums.

    Args:
        log_rho: log of the softmax of the scores, from the highest to the lowest within each query.
        least: the target's numerator at a gamma of 1 in that order.
        unit: what a gamma of 0 adds to it, one per query.
        offsets: start of each query, and the number of documents at the end.

    Returns:
        The smallest gap of each query, infinity where no document has a numerator; and for each query the first place
        of the window and the one past its last.
    """
    gaps = np.empty(offsets.size - 1)
    windows = np.empty((gaps.size, 2), np.int64)
    for query in range(gaps.size):
        start, stop = offsets[query], offsets[query + 1]
        weight = 0.0
        likely = 0.0
        weighted = 0.0
        # Probabilities are measured by the highest one in the sum: next to a far better document all may underflow.
        top = -math.inf
        for p in range(start, stop):
            if least[p] > 0.0:
                top = max(top, log_rho[p])
        for p in range(start, stop):
            if least[p] > 0.0:
                weight += least[p]
                likely += least[p] * math.exp(log_rho[p] - top)
                weighted -= least[p] * log_rho[p]
        best = math.inf
        if weight > 0.0:
            best = math.log(likely / weight) + top + weighted / weight
        from_place, to_place = 0, 0
        for begin in range(start, stop):
            reference = max(top, log_rho[begin])
            w, c = weight, weighted
            x = likely * math.exp(top - reference)
            for end in range(begin, stop):
                w += unit[query]
                x += unit[query] * math.exp(log_rho[end] - reference)
                c -= unit[query] * log_rho[end]
                gap = math.log(x / w) + reference + c / w
                if gap < best:
                    best = gap
                    from_place, to_place = begin - start, end + 1 - start
        gaps[query] = best
        windows[query] = from_place, to_place
    return gaps, windows


@njit(nogil=True, cache=True, error_model="numpy")
def pair_sums(ranks: I32, gains: F64, levels: F64, offsets: I64, v: F64, gap: F64, cap: float, k: int) -> F64:
    """Return sums over the pairs of each query, where ``w_ij`` is the rank part of the loss's weight.

    Args:
        ranks: 0-based, one per document, in the order of the arrangement as the arrays that follow.
        gains: weight of each document.
        levels: rank of the label among the distinct labels.
        offsets: start of each query, and the number of documents at the end.
        v: discount by rank.
        gap: weight by distance of ranks, entry ``d + 2`` for the distance ``d``.
        cap: the most that a difference of gains counts.
        k: pairs count when their upper rank is at most this.

    Returns:
        Three numbers per query: ``sum w_ij min(|u_i - u_j|, cap)`` over the pairs that are out of order; ``sum w_ij
        u_j`` over the pairs with equal labels; ``sum w_ij min(u_i, u_j)`` over the pairs with different labels.
    """
    sums = np.empty((offsets.size - 1, 3))
    longest = longest_list(offsets, 0, offsets.size - 1)
    u = np.empty(longest)
    level = np.empty(longest)
    for query in range(offsets.size - 1):
        start, stop = offsets[query], offsets[query + 1]
        for p in range(start, stop):
            u[ranks[p]] = gains[p]
            level[ranks[p]] = levels[p]
        wrong, alike, unlike = 0.0, 0.0, 0.0
        for i in range(min(k, stop - start - 1)):
            for j in range(i + 1, stop - start):
                w = v[i] - v[j] + gap[j - i + 2]
                if level[i] == level[j]:
                    alike += w * u[j]
                else:
                    unlike += w * min(u[i], u[j])
                    if level[i] < level[j]:
                        wrong += w * min(u[j] - u[i], cap)
        sums[query] = wrong, alike, unlike
    return sums
