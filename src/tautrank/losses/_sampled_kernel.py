"""Kernels of the losses that sample rankings: the neighbours of YetiLoss and the policy of PL-Rank.

A sampled ranking orders the scores plus noise; of a metric with a cutoff only its first documents
are found. All sums are float64. No kernel holds more than a few arrays of the length of the longest
list.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, Array
from tautrank.kernels.ranking import REORDER, longest_list
from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM
from tautrank.losses._smoothing_kernel import GUMBEL, Draws, add_noise, first_documents, scratch

READS, STOPS, COUNTS = 0, 1, 2
"""A reader who reads on, one who stops with the chance of a gain, and one who counts what is
relevant.
"""

# Sums over the ranks up to one, of what is divided by Z and by its square.
_BY_WEIGHT, _BY_REWARD, _BY_WEIGHT_2, _BY_REWARD_2, _STEPS = range(5)
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
    """Write YetiLoss at ``scores``, with the pairs and weights that belong to the scores of the
    draws.

    A pair of neighbours ``a`` above ``b`` in a sampled ranking weighs ``w = drop |gain_a - gain_b|``
    times the reader's factor. With ``lead`` the score of the better one less that of the other, it
    adds ``w log(1 + exp(-lead))`` to the value.

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
    z, t, noise, (best, _, order, places, top) = scratch(longest)
    s = np.empty(longest)
    g = np.empty(longest)
    h = np.empty(longest)
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
            stream = NEIGHBOUR_STREAM + 256 * sample
            add_noise(draws, query, z, distribution, spread, stream, noise, t)
            first_documents(t, n, depth + 1, best, order, places, top)
            factor = 1.0
            for rank in range(depth):
                a = top[rank]
                b = top[rank + 1]
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
def _sum_of_left(e: F64, left: F64) -> float:
    """Return the sum of ``e`` over the documents that were not drawn, whose ``left`` is 1."""
    total = 0.0
    for p in range(e.size):
        total += left[p] * e[p]
    return total


@njit(error_model="numpy", fastmath={"contract", "nsz"}, forceinline=True)
def _add_left(e: F64, left: F64, gain: F64, factor: float, sums: Array, g: F64, h: F64) -> None:
    """Add the parts of the documents that were not drawn, see `policy_gradients`;
    ``q = factor e``.
    """
    by_weight = sums[_BY_WEIGHT]
    by_reward = sums[_BY_REWARD]
    by_weight2 = sums[_BY_WEIGHT_2]
    by_reward2 = sums[_BY_REWARD_2]
    steps = sums[_STEPS]
    for p in range(e.size):
        q = left[p] * e[p] * factor
        second = q * (gain[p] * by_weight - by_reward)
        of_square = gain[p] * by_weight2 - by_reward2
        g[p] += second
        h[p] += second * (1.0 - q * steps) - q * q * of_square


@njit(error_model="numpy", inline="always")
def _log_of_sum(f: F64, left: F64, n: int) -> float:
    """Return ``log sum exp(f)`` over the documents that were not drawn, whose ``left`` is 1."""
    highest = -math.inf
    for p in range(n):
        highest = max(highest, f[p] if left[p] > 0.0 else -math.inf)
    total = 0.0
    for p in range(n if highest > -math.inf else 0):
        total += left[p] * math.exp(f[p] - highest if left[p] > 0.0 else 0.0)
    return highest + math.log(total) if total > 0.0 else -math.inf


@njit(error_model="numpy", inline="always")
def _add_ranks_from_below(
    f: F64, gain: F64, weights: F64, top: I32, depth: int, logs: F64, rewards: F64
) -> None:
    """Write ``L`` and the rewards of the first ``depth`` ranks, from those of the rank below."""
    for rank in range(depth - 1, -1, -1):
        f_of_rank = f[top[rank]]
        log_below = logs[rank + 1]
        bend = math.log1p(math.exp(-abs(f_of_rank - log_below)))
        logs[rank] = max(f_of_rank, log_below) + bend
        rewards[rank] = rewards[rank + 1] + weights[rank] * gain[top[rank]]


@njit(nogil=True, cache=True, error_model="numpy")
def policy_gradients(
    draws: Draws, weights: F64, first: int, last: int, grad: Array, hess: Array, values: F64
) -> None:
    """Write PL-Rank-3 and its second derivatives; the formulas are those of
    `tautrank.losses.PLRank`, for the metric itself.

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
    f, t, noise, (best, _, order, places, top) = scratch(longest)
    e = np.empty(longest)
    left = np.empty(longest)  # 1 for a document that was not drawn, else 0
    g = np.empty(longest)
    h = np.empty(longest)
    logs = np.empty(weights.size + 1)  # L by rank
    rewards = np.empty(weights.size + 1)  # what the ranks from one on earn
    sums = np.empty(5)
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
            left[p] = 1.0
            g[p] = 0.0
            h[p] = 0.0

        value = 0.0
        for sample in range(samples):
            stream = POLICY_STREAM + 256 * sample
            add_noise(draws, query, f, GUMBEL, 1.0, stream, noise, t)
            first_documents(t, n, depth, best, order, places, top)
            for rank in range(depth):
                left[top[rank]] = 0.0

            # L and the rewards, from the last rank up.
            sum_of_left = _sum_of_left(e[:n], left[:n])
            if sum_of_left > 1e-250:
                logs[depth] = highest + math.log(sum_of_left)
            else:
                logs[depth] = _log_of_sum(f, left, n)
            rewards[depth] = 0.0
            _add_ranks_from_below(f, gain, weights, top, depth, logs, rewards)
            value += rewards[0]

            # The documents that were drawn, from the first rank down.
            sums[:] = 0.0
            for rank in range(depth):
                d = top[rank]
                fall = math.exp(logs[rank] - logs[rank - 1]) if rank > 0 else 0.0
                sums[_BY_WEIGHT] = weights[rank] + fall * sums[_BY_WEIGHT]
                sums[_BY_REWARD] = rewards[rank] + fall * sums[_BY_REWARD]
                sums[_BY_WEIGHT_2] = weights[rank] + fall * fall * sums[_BY_WEIGHT_2]
                sums[_BY_REWARD_2] = rewards[rank] + fall * fall * sums[_BY_REWARD_2]
                sums[_STEPS] = 1.0 + fall * sums[_STEPS]
                q = math.exp(f[d] - logs[rank])
                second = q * (gain[d] * sums[_BY_WEIGHT] - sums[_BY_REWARD])
                both = rewards[rank + 1] + second
                of_square = gain[d] * sums[_BY_WEIGHT_2] - sums[_BY_REWARD_2]
                g[d] += both
                h[d] += both * (1.0 - q * sums[_STEPS]) + second - q * q * of_square

            # All others.
            if depth < n:
                fall = highest - logs[depth - 1]
                if fall < _FAR:
                    _add_left(e[:n], left[:n], gain, math.exp(fall), sums, g, h)
                else:
                    for p in range(n):
                        t[p] = math.exp(min(f[p] - logs[depth - 1], 0.0))
                    _add_left(t[:n], left[:n], gain, 1.0, sums, g, h)
            for rank in range(depth):
                left[top[rank]] = 1.0

        share = scale[query] / samples
        values[query] = -share * value
        for p in range(n):
            grad[arrangement[start + p]] = -share * g[p]
            hess[arrangement[start + p]] = -share * h[p]
