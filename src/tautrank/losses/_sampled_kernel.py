"""Kernels of the losses that sample rankings: the neighbours of YetiLoss and the policy of PL-Rank.

A sampled ranking orders the scores plus noise; of a metric with a cutoff only its first documents
are found. All sums are float64. No kernel holds more than a few arrays of the length of the longest
list.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, Array
from tautrank.kernels.ranking import REORDER, longest_list
from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM
from tautrank.losses._smoothing_kernel import GUMBEL, Draws, add_noise, first_documents, scratch

READS, STOPS, COUNTS = 0, 1, 2
"""A reader who reads on, one who stops with the chance of a gain, and one who counts what is
relevant.
"""

# Beyond this the product of two exponentials may leave the range of float64.
_FAR = 600.0


@njit(nogil=True, cache=True, error_model="numpy")
def neighbour_pairs(
    draws: Draws,
    drops: F64,
    noise_and_reader: tuple[int, float, int],
    scores: Array,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
    values: F64,
) -> None:
    """YetiLoss at ``scores``, with the pairs and weights that belong to the scores of the draws.

    Args:
        draws: the lists, and the rankings to draw; their values are gains, normalised.
        drops: what is lost from a rank to the next; only those before the cutoff.
        noise_and_reader: the place of the noise in `DISTRIBUTIONS`; its scale; and what weighs a
            pair besides: for `STOPS` the chance that the reader comes as far, for `COUNTS` one more
            than the relevant documents above.
        scores: the scores of the smooth part.
        first, last: the first query, and one past the last.
        grad: receives the gradient, one per document.
        hess: receives the second derivative, one per document.
        values: receives one value per query.
    """
    held, arrangement, gains, offsets, scale, samples, _, _ = draws
    distribution, spread, reader = noise_and_reader
    longest = longest_list(offsets, first, last)
    z, t, noise, (best, _, order, some, top) = scratch(longest)
    s, g, h = np.empty(longest), np.empty(longest), np.empty(longest)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        depth = min(drops.size, n - 1)
        if scale[query] == 0.0 or depth < 1:
            continue
        gain = gains[start : start + n]
        for p in range(n):
            z[p] = held[arrangement[start + p]]
            s[p] = scores[arrangement[start + p]]
            g[p] = 0.0
            h[p] = 0.0
        value = 0.0
        for sample in range(samples):
            add_noise(
                draws, query, z, distribution, spread, NEIGHBOUR_STREAM + 256 * sample, noise, t
            )
            first_documents(t, n, depth + 1, best, order, some, top)
            factor = 1.0
            for rank in range(depth):
                a, b = top[rank], top[rank + 1]
                d = gain[a] - gain[b]
                w = drops[rank] * factor * abs(d)
                if w > 0.0:
                    lead = s[a] - s[b] if d > 0.0 else s[b] - s[a]
                    x = math.exp(-abs(lead))
                    y = 1.0 / (1.0 + x)
                    push = w * (x * y if lead > 0.0 else y)
                    value += w * (math.log1p(x) + max(-lead, 0.0))
                    bend = w * x * y * y
                    g[a] += -push if d > 0.0 else push
                    g[b] += push if d > 0.0 else -push
                    h[a] += bend
                    h[b] += bend
                if reader == STOPS:
                    factor *= 1.0 - gain[a]
                elif reader == COUNTS and gain[a] > 0.0:
                    factor += 1.0
        share = scale[query] / samples
        values[query] = share * value
        for p in range(n):
            grad[arrangement[start + p]] = share * g[p]
            hess[arrangement[start + p]] = share * h[p]


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _sum_of_rest(e: F64, rest: F64) -> float:
    total = 0.0
    for p in range(e.size):
        total += rest[p] * e[p]
    return total


@njit(error_model="numpy", fastmath={"contract", "nsz"}, forceinline=True)
def _add_rest(e: F64, rest: F64, gain: F64, factor: float, sums: Array, g: F64, h: F64) -> None:
    """Add the parts of the documents that were not drawn, see `policy_gradients`;
    ``q = factor e``.
    """
    by_weight, by_reward, by_weight2, by_reward2, steps = (
        sums[0],
        sums[1],
        sums[2],
        sums[3],
        sums[4],
    )
    for p in range(e.size):
        q = rest[p] * e[p] * factor
        second = q * (gain[p] * by_weight - by_reward)
        g[p] += second
        h[p] += second * (1.0 - q * steps) - q * q * (gain[p] * by_weight2 - by_reward2)


@njit(error_model="numpy", inline="always")
def _log_of_sum(f: F64, rest: F64, n: int) -> float:
    highest = -math.inf
    for p in range(n):
        highest = max(highest, f[p] if rest[p] > 0.0 else -math.inf)
    total = 0.0
    for p in range(n if highest > -math.inf else 0):
        total += rest[p] * math.exp(f[p] - highest if rest[p] > 0.0 else 0.0)
    return highest + math.log(total) if total > 0.0 else -math.inf


@njit(nogil=True, cache=True, error_model="numpy")
def policy_gradients(
    draws: Draws, weights: F64, first: int, last: int, grad: Array, hess: Array, values: F64
) -> None:
    """PL-Rank-3 and its second derivatives; the formulas are those of `tautrank.losses.PLRank`, for
    the metric itself.

    With ``L_x = log Z_x``, which falls from rank to rank, ``e^f_d`` times the sum of ``c_x / Z_x``
    up to rank ``r`` is ``exp(f_d - L_r)`` times a sum that is ``c_r`` and ``exp(L_r - L_(r-1))``
    times the sum before: no exponent is above 0, however far scores are apart.

    Args:
        draws: the lists, and the rankings to draw; their values are gains, normalised.
        weights: of the ranks before the cutoff.
        first, last: the first query, and one past the last.
        grad: receives the estimate of the gradient, one per document.
        hess: receives the estimate of the second derivative, one per document.
        values: receives the mean metric of the rankings, negated.
    """
    scores, arrangement, gains, offsets, scale, samples, _, _ = draws
    longest = longest_list(offsets, first, last)
    f, t, noise, (best, _, order, some, top) = scratch(longest)
    e, rest, g, h = np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)
    logs, rewards, sums = np.empty(weights.size + 1), np.empty(weights.size + 1), np.empty(5)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        depth = min(weights.size, n)
        if scale[query] == 0.0 or n < 1:
            continue
        gain = gains[start : start + n]
        highest = -math.inf
        for p in range(n):
            f[p] = scores[arrangement[start + p]]
            highest = max(highest, f[p])
        for p in range(n):
            e[p] = math.exp(f[p] - highest)
            rest[p] = 1.0
            g[p] = 0.0
            h[p] = 0.0
        value = 0.0
        for sample in range(samples):
            add_noise(draws, query, f, GUMBEL, 1.0, POLICY_STREAM + 256 * sample, noise, t)
            first_documents(t, n, depth, best, order, some, top)
            for rank in range(depth):
                rest[top[rank]] = 0.0
            left = _sum_of_rest(e[:n], rest[:n])
            logs[depth] = highest + math.log(left) if left > 1e-250 else _log_of_sum(f, rest, n)
            rewards[depth] = 0.0
            for rank in range(depth - 1, -1, -1):
                own, others = f[top[rank]], logs[rank + 1]
                logs[rank] = max(own, others) + math.log1p(math.exp(-abs(own - others)))
                rewards[rank] = rewards[rank + 1] + weights[rank] * gain[top[rank]]
            value += rewards[0]
            sums[:] = 0.0
            for rank in range(depth):
                d = top[rank]
                fall = math.exp(logs[rank] - logs[rank - 1]) if rank > 0 else 0.0
                sums[0] = weights[rank] + fall * sums[0]
                sums[1] = rewards[rank] + fall * sums[1]
                sums[2] = weights[rank] + fall * fall * sums[2]
                sums[3] = rewards[rank] + fall * fall * sums[3]
                sums[4] = 1.0 + fall * sums[4]
                q = math.exp(f[d] - logs[rank])
                second = q * (gain[d] * sums[0] - sums[1])
                both = rewards[rank + 1] + second
                g[d] += both
                h[d] += both * (1.0 - q * sums[4]) + second - q * q * (gain[d] * sums[2] - sums[3])
            if depth < n:
                fall = highest - logs[depth - 1]
                if fall < _FAR:
                    _add_rest(e[:n], rest[:n], gain, math.exp(fall), sums, g, h)
                else:
                    for p in range(n):
                        t[p] = math.exp(min(f[p] - logs[depth - 1], 0.0))
                    _add_rest(t[:n], rest[:n], gain, 1.0, sums, g, h)
            for rank in range(depth):
                rest[top[rank]] = 1.0
        share = scale[query] / samples
        values[query] = -share * value
        for p in range(n):
            grad[arrangement[start + p]] = -share * g[p]
            hess[arrangement[start + p]] = -share * h[p]
