"""Kernels of NDCG with smooth ranks and with smooth sorting: value, gradient by a reverse pass, and
its size.

No kernel holds more than a few arrays of the length of the longest list.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I64, Array
from tautrank.kernels.exponential import exponential
from tautrank.kernels.ranking import REORDER, longest_list
from tautrank.losses._smoothing_kernel import bell


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _chances(s: Array, i: int, inverse: float, chance: Array) -> float:
    """Write ``1 / (1 + exp((s_i - s_j) / T))``, the chance that ``j`` is above the document ``i``,
    where ``inverse = 1 / T``; return the sum.
    """
    one = s.dtype.type(1.0)
    # ``bell(d) = exp(-d^2 / 2)``, which float32 lanes compute without the library.
    twice_inverse = s.dtype.type(2.0 * inverse)
    s_i = s[i]
    total = 0.0
    for j in range(s.size):
        d = s[j] - s_i
        x = bell(np.sqrt(twice_inverse * abs(d)))
        p = one / (one + x)
        chance[j] = p if d >= 0 else x * p
        total += chance[j]
    return total


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _slopes(chance: Array, factor: float, g: Array, h: Array) -> float:
    """Add ``factor chance (1 - chance)`` to both sums; return the sum of what was added."""
    f = chance.dtype.type(factor)
    one = chance.dtype.type(1.0)
    total = 0.0
    for j in range(chance.size):
        slope = f * chance[j] * (one - chance[j])
        g[j] += slope
        h[j] += slope
        total += slope
    return total


@njit(nogil=True, cache=True, error_model="numpy")
def approximate_ranks(
    scores: Array,
    gains: F64,
    offsets: I64,
    scale: F64,
    temperature: float,
    _: F64,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
    values: F64,
) -> None:
    """Write one minus ApproxNDCG; `tautrank.losses.ApproxNDCG` has the formula.

    Args:
        scores: one per document.
        gains: one per document, over the best DCG of its list.
        offsets: start of each query.
        scale: one per query: its weight, 0 where there is nothing to learn.
        temperature: of the chances.
        _: the discounts of `sorted_gains`.
        first, last: the first query, and one past the last.
        grad: receives the gradient, one per document.
        hess: receives the sum of the sizes of its terms, one per document.
        values: receives one value per query.
    """
    size = longest_list(offsets, first, last)
    chance = np.empty(size, scores.dtype)
    for query in range(first, last):
        start = offsets[query]
        stop = offsets[query + 1]
        if scale[query] == 0.0:
            continue
        s = scores[start:stop]
        g = grad[start:stop]
        h = hess[start:stop]
        c = chance[: stop - start]
        value = 1.0
        for i in range(stop - start):
            gain = gains[start + i]
            if gain == 0.0:
                continue
            # The sum holds 1/2 for the document itself: this is the logarithm of its rank plus 1.
            log = math.log(1.5 + _chances(s, i, 1.0 / temperature, c))
            value -= gain * math.log(2.0) / log
            slope_of_rank = log * log * math.exp(log) * temperature
            factor = scale[query] * gain * math.log(2.0) / slope_of_rank
            c[i] = 0.0
            total = _slopes(c, factor, g, h)
            g[i] -= total
            h[i] += total
        values[query] = scale[query] * value


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _distances(s: F64, s_i: float) -> tuple[float, float]:
    """Return the sum of the distances of a score from all scores, and by how many those below it
    outnumber those above it.
    """
    total = 0.0
    surplus = 0.0
    for j in range(s.size):
        d = s_i - s[j]
        total += abs(d)
        surplus += (1.0 if d > 0.0 else 0.0) - (1.0 if d < 0.0 else 0.0)
    return total, surplus


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _signed_sums(s: F64, s_i: float, b: F64) -> tuple[float, float]:
    """Return the sum of ``b``, plus for scores below ``s_i`` and minus for those above it, and the
    sum of the sizes.
    """
    total = 0.0
    size = 0.0
    for j in range(s.size):
        d = s_i - s[j]
        total += (b[j] if d > 0.0 else 0.0) - (b[j] if d < 0.0 else 0.0)
        size += abs(b[j]) if d != 0.0 else 0.0
    return total, size


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _logits(s: F64, distance: F64, factor: float, inverse: float, z: F64) -> float:
    """Write the logits of all documents at one rank; return the highest."""
    highest = -math.inf
    for j in range(s.size):
        z[j] = (factor * s[j] - distance[j]) * inverse
        highest = max(highest, z[j])
    return highest


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _exponentials(z: F64, highest: float, p: Array) -> None:
    """Write the exponentials of logits, the largest of which is 1."""
    for j in range(z.size):
        p[j] = exponential(p.dtype.type(z[j] - highest))


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _sums(p: Array, earned: F64) -> tuple[float, float]:
    """Return the sum of exponentials, and that of what they earn."""
    total = 0.0
    gain = 0.0
    for j in range(p.size):
        total += p[j]
        gain += p[j] * earned[j]
    return total, gain


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _pass_back(
    factor: float,
    share: float,
    gain: float,
    earned: F64,
    surplus: F64,
    p: Array,
    b: F64,
    g: F64,
    h: F64,
) -> None:
    """Add the slopes of one rank to the sums: those of the distances to ``b``, all others to ``g``
    and ``h``; letters as in `sorted_gains`.
    """
    for j in range(earned.size):
        a = share * p[j] * (gain - earned[j])
        b[j] -= a
        term = a * (factor - surplus[j])
        g[j] += term
        h[j] += abs(term)


@njit(nogil=True, cache=True, error_model="numpy")
def sorted_gains(
    scores: Array,
    gains: F64,
    offsets: I64,
    scale: F64,
    temperature: float,
    discounts: F64,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
    values: F64,
) -> None:
    """Write one minus NeuralNDCG; `tautrank.losses.NeuralNDCG` has the formula, and
    `approximate_ranks` the arguments.

    The logit of document ``j`` at the 0-based rank ``i`` is ``z_j = ((n - 1 - 2i) s_j - B_j) / T``
    with ``B_j = sum_l |s_j - s_l|``. It changes with ``s_j`` by ``(n - 1 - 2i - m_j) / T``, where
    the documents below ``j`` outnumber those above it by ``m_j``, and with another score by 1/T up
    or down. All sums are float64; of float32 scores only the exponentials are in float32.
    """
    size = longest_list(offsets, first, last)
    s_of_list = np.empty(size)
    distance = np.empty(size)  # B
    surplus = np.empty(size)  # m
    z = np.empty(size)
    g = np.empty(size)
    h = np.empty(size)
    b = np.empty(size)
    p = np.empty(size, scores.dtype)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        if scale[query] == 0.0:
            continue
        s = s_of_list[:n]
        earned = gains[start : start + n]
        for j in range(n):
            s[j] = scores[start + j]
            g[j] = 0.0
            h[j] = 0.0
            b[j] = 0.0
        for j in range(n):
            distance[j], surplus[j] = _distances(s, s[j])

        value = 1.0
        for i in range(min(n, discounts.size)):
            factor = n - 1.0 - 2.0 * i
            highest = _logits(s, distance, factor, 1.0 / temperature, z)
            _exponentials(z[:n], highest, p)
            total, gain = _sums(p[:n], earned)
            gain /= total
            value -= discounts[i] * gain
            share = discounts[i] / (total * temperature)
            _pass_back(factor, share, gain, earned, surplus, p, b, g, h)
        values[query] = scale[query] * value
        for j in range(n):
            signed, sizes = _signed_sums(s, s[j], b[:n])
            grad[start + j] = scale[query] * (g[j] + signed)
            hess[start + j] = scale[query] * (h[j] + sizes)
