"""Kernels over pairs of noisy scores: how often noise reverses a pair, and how it orders tied documents."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I64
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
