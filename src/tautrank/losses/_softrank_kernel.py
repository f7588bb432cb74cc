"""Kernels of SoftRank: the expected discount of every document, and its derivative by every
contest.

A document meets every other one of its list in a contest that the other wins with probability
``pi``; its rank is the number of contests it loses. Documents that have a gain are taken in blocks
of ``LANES``, best score first, and whatever belongs to a block is laid out as
``[contest or rank][lane]``, so that every inner loop runs over the lanes.

The expected discount of a block's documents comes in one of two ways:

- by *recursion* over contests, ``p(r) <- p(r - 1) pi + p(r) (1 - pi)``, on the ranks before the
  cutoff only. Going back through the contests, ``a(r)``, the discount expected of a document that
  has lost ``r`` contests so far, gives the derivative by each contest:
  ``sum_r p(r) (a(r + 1) - a(r))``, with ``p`` before and ``a`` after it. The states ``p`` are kept
  for one segment of contests at a time, and computed again from the state at its start.
- by *powers*: where the discount is ``sum_q c_q x_q^r``, its expectation is
  ``sum_q c_q prod_m (1 - pi_m (1 - x_q))``, with as many terms as `discount_powers` needs, however
  long the list is.

Contests whose outcome is certain are not played: those lost for certain only shift the rank.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, I64, Array
from tautrank.kernels.ranking import REORDER, longest_list

LANES = 16
"""Documents of a block."""

RANKS = 5
"""Ranks are taken in groups of this many, which share loads; the common cutoffs are multiples of
it.
"""

POWERS = 4
"""Terms of a sum of powers are taken in groups of this many, which share a division."""

MOST_NET = 1024
"""Up to this many documents of a list with a gain, the two sides of a contest are set off against
each other in the hessian; beyond, where the table of all contests would be large, their magnitudes
are added."""

_FEWEST_IN_SEGMENT = 32

# A multiplication and an addition may be fused; nothing may be reordered, since the rounding trick
# of `contests` depends on the order.
_FUSE = {"nsz", "arcp", "contract"}

# Unsigned indices: Numba then leaves out the test for negative ones, which would keep a loop from
# vectorising.
_U = np.uintp
_L = np.uintp(LANES)
_F = np.float32

# exp(-y^2) = 2^(n + f): adding 1.5 2^23 rounds to the integer n and leaves it in the low bits.
_ROUND = _F(12582912.0)
_LOG2_E = _F(math.log2(math.e))
# Minimax polynomial of 2^f on [-1/2, 1/2], relative error 2e-9.
_E0 = _F(1.0)
_E1 = _F(6.93147206e-01)
_E2 = _F(2.40226469e-01)
_E3 = _F(5.55032878e-02)
_E4 = _F(9.61848897e-03)
_E5 = _F(1.33999312e-03)
_E6 = _F(1.53458075e-04)
# erfc(y) exp(y^2) = t P(t) with t = 1/(1 + 0.46 y): minimax on [0, 5.2] with the weight
# exp(-y^2 / 2), which makes the error of erfc(y) at most 5e-9 exp(-y^2 / 2).
_SHRINK = _F(0.46)
_C0 = _F(0.2625960668133179)
_C1 = _F(0.2246945476033094)
_C2 = _F(0.3987733244007023)
_C3 = _F(-0.25468139290831565)
_C4 = _F(0.7404743109982268)
_C5 = _F(-0.46404625675853955)
_C6 = _F(0.09218940443335509)

# Distances in units of 2 sigma beyond which a contest is certain: erfc is 1.5e-12 and 4e-20 there.
_CERTAIN_FLOAT32 = 5.0
_CERTAIN_FLOAT64 = 6.5
# A chance of a discount below this is none. A contest's share in the gradient is at most the chance
# times the hazard of a normal distribution, a small number.
_NO_CHANCE_FLOAT32 = 1e-12
_NO_CHANCE_FLOAT64 = 1e-30
# Probabilities stay above this, so that neither they nor their products become denormal numbers,
# which are slow.
_LEAST_FLOAT32 = 1e-18
_LEAST_FLOAT64 = 1e-150


class Block(NamedTuple):
    """A block of documents that have a gain, and their contests; tables are laid out as
    ``[contest][lane]``.

    Args:
        s: scores of all documents by rank.
        block_s: scores of the block's documents.
        place: ranks of the block's documents.
        sigma: standard deviation of every score.
        precise: whether to use the functions of the C library instead of float32 lanes.
        least: lower limit of probabilities.
        beaten: probability of losing each contest.
        density: derivative of that probability by the score.
        slopes: derivative of the expected discount by each contest.
        expected: expected discount of each document.
        gain: gain of each document.
        block_g: receives the derivative by the score of each of the block's documents, as far as
            it comes from the document's own ranks.
        block_h: receives its curvature, likewise.
    """

    s: Array
    block_s: Array
    place: I32
    sigma: float
    precise: bool
    least: float
    beaten: Array
    density: Array
    slopes: Array
    expected: Array
    gain: Array
    block_g: Array
    block_h: Array


class Recursion(NamedTuple):
    """Room for the recursion over the contests of a block; tables are laid out as
    ``[rank][lane]``.

    Args:
        states: distributions of the ranks, before and after each contest of a segment.
        stride: length of a state; it starts with a rank of zeros, the rank before the first one.
        checkpoints: the state at the start of each segment.
        segment: contests of a segment.
        ahead: the discounts by rank, and a rank of zeros at the end.
        chance: chance of any discount, one per lane.
        none: a chance below this is none.
    """

    states: Array
    stride: int
    checkpoints: Array
    segment: int
    ahead: Array
    chance: Array
    none: float


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def contests(block: Block, first: int, last: int) -> None:
    """Write the probability that the documents ``first`` to ``last`` beat those of the block, and
    its derivative by the score.

    With ``x = d / (2 sigma)`` of a difference of scores ``d``, ``beaten = (1 + erf(x)) / 2`` and
    ``density = exp(-x^2) / (2 sigma sqrt(pi))``; both are 0 for a document against itself.

    Args:
        block: the block; receives ``beaten`` and ``density``.
        first, last: the first contest, and one past the last.
    """
    s, block_s, place, sigma, precise, _, beaten, density, _, _, _, _, _ = block
    real = s.dtype.type
    zero = real(0.0)
    half = real(0.5 / sigma)
    height = real(0.5 / (sigma * math.sqrt(math.pi)))
    if precise:
        for m in range(first, last):
            row = _U(m) * _L
            for lane in range(LANES):
                i = _U(lane)
                x = (s[_U(m)] - block_s[i]) * half
                itself = place[i] == m
                beaten[row + i] = zero if itself else real(0.5 * math.erfc(-x))
                density[row + i] = zero if itself else height * real(math.exp(-x * x))
        return

    one = _F(1.0)
    for m in range(first, last):
        row = _U(m) * _L
        sm = s[_U(m)]
        for lane in range(LANES):
            i = _U(lane)
            x = _F((sm - block_s[i]) * half)
            y = min(abs(x), _F(_CERTAIN_FLOAT32))

            # e = exp(-y^2) = 2^n 2^f: n is added to the exponent of the polynomial.
            power = -(y * y) * _LOG2_E
            rounded = power + _ROUND
            f = power - (rounded - _ROUND)
            e = _E5 + f * _E6
            e = _E4 + f * e
            e = _E3 + f * e
            e = _E2 + f * e
            e = _E1 + f * e
            e = _E0 + f * e
            n = _F(rounded).view(np.int32) << np.int32(23)
            e = np.int32(_F(e).view(np.int32) + n).view(np.float32)

            # The smaller of the two probabilities: erfc(y) / 2 = e t P(t) / 2.
            t = one / (one + _SHRINK * y)
            q = _C5 + t * _C6
            q = _C4 + t * q
            q = _C3 + t * q
            q = _C2 + t * q
            q = _C1 + t * q
            q = _C0 + t * q
            tail = _F(0.5) * e * (q * t)
            itself = place[i] == m
            beaten[row + i] = zero if itself else real(tail if x < _F(0.0) else one - tail)
            density[row + i] = zero if itself else height * real(e)


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _play(block: Block, room: Recursion, first: int, last: int, played: int, ranks: int) -> None:
    """Play the contests ``first`` to ``last``: from the state before each of them write the state
    after it.

    State ``t`` (before contest ``first + t``) starts at ``t * stride``. After ``played`` contests
    no more than ``played`` are lost: the ranks beyond are not touched.
    """
    beaten, states, stride = block.beaten, room.states, room.stride
    low = states.dtype.type(block.least)
    for m in range(first, last):
        row = _U(m) * _L
        source = _U((m - first) * stride)
        target = source + _U(stride)
        top = _reached(played + m - first + 1, ranks)
        for r in range(0, top, RANKS):
            before = source + _U(r) * _L
            after = target + _U(r + 1) * _L
            for lane in range(LANES):
                i = _U(lane)
                b = beaten[row + i]
                p_above = states[before + i]
                for rank in range(RANKS):
                    p = states[before + i + _U(rank + 1) * _L]
                    states[after + i + _U(rank) * _L] = max(p + b * (p_above - p), low)
                    p_above = p
        next_top = _reached(played + m - first + 2, ranks)
        for cell in range((top + 1) * LANES, (next_top + 1) * LANES):
            states[target + _U(cell)] = 0.0


@njit(error_model="numpy")
def _reached(losses: int, ranks: int) -> int:
    """Return the number of ranks, in full groups, that ``losses`` lost contests can lead to."""
    return min(losses // RANKS * RANKS + RANKS, ranks)


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _return(block: Block, room: Recursion, first: int, last: int, played: int, ranks: int) -> None:
    """Take the contests ``last`` to ``first`` back: write the derivative by each, and bring
    ``ahead``, the discounts ``a(r)`` to expect, to what they are before the contest.

    With ``d(r) = a(r + 1) - a(r)`` the derivative is ``sum_r p(r) d(r)``, and
    ``a(r) <- a(r) + b d(r)``.
    """
    beaten, slopes, states, ahead = block.beaten, block.slopes, room.states, room.ahead
    low = states.dtype.type(block.least)
    for m in range(last - 1, first - 1, -1):
        row = _U(m) * _L
        source = _U((m - first) * room.stride)
        for lane in range(LANES):
            slopes[row + _U(lane)] = 0.0
        for r in range(0, _reached(played + m - first, ranks), RANKS):
            group = _U(r) * _L
            state = source + group + _L
            for lane in range(LANES):
                i = _U(lane)
                b = beaten[row + i]
                j = group + i
                a0 = ahead[j]
                a1 = ahead[j + _L]
                a2 = ahead[j + _U(2) * _L]
                a3 = ahead[j + _U(3) * _L]
                a4 = ahead[j + _U(4) * _L]
                d0 = a1 - a0
                d1 = a2 - a1
                d2 = a3 - a2
                d3 = a4 - a3
                d4 = ahead[j + _U(5) * _L] - a4
                ahead[j] = max(a0 + b * d0, low)
                ahead[j + _L] = max(a1 + b * d1, low)
                ahead[j + _U(2) * _L] = max(a2 + b * d2, low)
                ahead[j + _U(3) * _L] = max(a3 + b * d3, low)
                ahead[j + _U(4) * _L] = max(a4 + b * d4, low)
                p = state + i
                slope01 = states[p] * d0 + states[p + _L] * d1
                slope23 = states[p + _U(2) * _L] * d2 + states[p + _U(3) * _L] * d3
                slope4 = states[p + _U(4) * _L] * d4
                slopes[row + i] += slope01 + slope23 + slope4


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _expect(block: Block, room: Recursion, start: int, ranks: int) -> None:
    """For the state that starts at ``start``, write ``sum_r p(r)``, the chance of any discount, and
    ``sum_r p(r) a(r)``, the expected discount.
    """
    states, ahead, chance, expected = room.states, room.ahead, room.chance, block.expected
    chance[:] = 0.0
    expected[:] = 0.0
    for r in range(ranks):
        state = _U(start) + _U(r + 1) * _L
        row = _U(r) * _L
        for lane in range(LANES):
            p = states[state + _U(lane)]
            chance[_U(lane)] += p
            expected[_U(lane)] += p * ahead[row + _U(lane)]


@njit(error_model="numpy")
def _by_recursion(
    block: Block, room: Recursion, first: int, last: int, ranks: int, derive: bool
) -> bool:
    """Write the expected discounts of a block and, if ``derive``, their slopes; return False where
    no lane has a chance of any.
    """
    states, stride, checkpoints, segment, _, chance, none = room
    size = (ranks + 1) * LANES
    checkpoints[:size] = 0.0
    checkpoints[LANES : 2 * LANES] = 1.0

    # Forward, one segment after the other, with a checkpoint at the start of each.
    start = first
    checkpoint = 0
    while True:
        stop = min(start + segment, last)
        states[:size] = checkpoints[checkpoint : checkpoint + size]
        contests(block, start, stop)
        _play(block, room, start, stop, start - first, ranks)
        end = (stop - start) * stride
        _expect(block, room, end, _reached(stop - first, ranks))
        if chance.max() < none:
            return False
        if stop == last:
            break
        start = stop
        checkpoint += stride
        checkpoints[checkpoint : checkpoint + size] = states[end : end + size]

    # Back, playing each segment before the last one again.
    while derive:
        _return(block, room, start, stop, start - first, ranks)
        if start == first:
            break
        stop = start
        start -= segment
        checkpoint -= stride
        states[:size] = checkpoints[checkpoint : checkpoint + size]
        _play(block, room, start, stop, start - first, ranks)
    return True


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _multiply(
    beaten: Array, first: int, last: int, gaps: Array, terms: int, least: float, products: Array
) -> None:
    """Multiply the product of every power by ``1 - beaten gap`` for the contests ``first`` to
    ``last``.
    """
    one = beaten.dtype.type(1.0)
    low = beaten.dtype.type(least)
    for m in range(first, last):
        row = _U(m) * _L
        for q in range(0, terms, POWERS):
            y0, y1, y2, y3 = gaps[_U(q)], gaps[_U(q + 1)], gaps[_U(q + 2)], gaps[_U(q + 3)]
            group = _U(q) * _L
            for lane in range(LANES):
                b = beaten[row + _U(lane)]
                j = group + _U(lane)
                products[j] = max(products[j] * (one - b * y0), low)
                products[j + _L] = max(products[j + _L] * (one - b * y1), low)
                products[j + _U(2) * _L] = max(products[j + _U(2) * _L] * (one - b * y2), low)
                products[j + _U(3) * _L] = max(products[j + _U(3) * _L] * (one - b * y3), low)


@njit(error_model="numpy", fastmath=_FUSE, forceinline=True)
def _divide(
    beaten: Array, first: int, last: int, gaps: Array, terms: int, weighed: Array, slopes: Array
) -> None:
    """Write the slopes of the products, ``sum_q weighed_q / (1 - beaten gap_q)``, each group of
    fractions over one denominator.
    """
    one = beaten.dtype.type(1.0)
    for m in range(first, last):
        row = _U(m) * _L
        for lane in range(LANES):
            slopes[row + _U(lane)] = 0.0
        for q in range(0, terms, POWERS):
            y0, y1, y2, y3 = gaps[_U(q)], gaps[_U(q + 1)], gaps[_U(q + 2)], gaps[_U(q + 3)]
            group = _U(q) * _L
            for lane in range(LANES):
                b = beaten[row + _U(lane)]
                j = group + _U(lane)
                f0 = one - b * y0
                f1 = one - b * y1
                f2 = one - b * y2
                f3 = one - b * y3
                upper = weighed[j] * f1 + weighed[j + _L] * f0
                lower = weighed[j + _U(2) * _L] * f3 + weighed[j + _U(3) * _L] * f2
                numerator = upper * (f2 * f3) + lower * (f0 * f1)
                slopes[row + _U(lane)] += numerator / ((f0 * f1) * (f2 * f3))


@njit(error_model="numpy")
def _by_powers(
    block: Block,
    first: int,
    last: int,
    gaps: Array,
    coefficients: Array,
    terms: int,
    derive: bool,
    products: Array,
) -> None:
    """Write the expected discounts of a block and, if ``derive``, their slopes, where the discount
    is a sum of powers; each of the ``first`` contests is lost for certain.
    """
    contests(block, first, last)
    beaten, expected, least = block.beaten, block.expected, block.least
    for q in range(terms):
        certain = max(math.exp(first * math.log1p(-gaps[q])), least)
        for lane in range(LANES):
            products[q * LANES + lane] = certain
    _multiply(beaten, first, last, gaps, terms, least, products)
    expected[:] = 0.0
    for q in range(terms):
        for lane in range(LANES):
            weighed = coefficients[q] * products[q * LANES + lane]
            expected[lane] += weighed
            products[q * LANES + lane] = -gaps[q] * weighed
    if derive:
        _divide(beaten, first, last, gaps, terms, products, block.slopes)


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _credit(
    block: Block,
    first: int,
    last: int,
    number: I32,
    net: Array,
    width: int,
    column: int,
    g: Array,
    h: Array,
) -> None:
    """Share the block's slopes out to both documents of every contest.

    A contest between two documents with a gain goes to the table ``net`` to be set off, unless
    ``width`` is 0.
    """
    slopes, density, gain = block.slopes, block.density, block.gain
    block_g, block_h = block.block_g, block.block_h
    for m in range(first, last):
        row = _U(m) * _L
        total = slopes.dtype.type(0.0)
        size = slopes.dtype.type(0.0)
        is_netted = width > 0 and number[m] >= 0
        cell = _U(max(number[m], 0) * width + column)
        for lane in range(LANES):
            i = _U(lane)
            c = slopes[row + i] * gain[i] * density[row + i]
            block_g[i] -= c
            total += c
            if is_netted:
                net[cell + i] = c
            else:
                block_h[i] += abs(c)
                size += abs(c)
        g[m] += total
        h[m] += size


@njit(error_model="numpy", fastmath=REORDER)
def _set_off(
    net: Array, width: int, n_expected: int, n_rich: int, rich: I32, sizes: Array, h: Array
) -> None:
    """Add the difference of the two sides of every contest in the table to the curvature of both
    documents; only the first ``n_expected`` of those with a gain have a row in it.
    """
    row = _U(width)
    for j in range(n_rich):
        sizes[_U(j)] = 0.0
    for i in range(n_expected):
        total = net.dtype.type(0.0)
        for j in range(i + 1, n_rich):
            c = abs(net[_U(j) * row + _U(i)] - net[_U(i) * row + _U(j)])
            sizes[_U(j)] += c
            total += c
        sizes[_U(i)] += total
    for j in range(n_rich):
        h[rich[j]] += sizes[j]


@njit(error_model="numpy")
def _find_rich(u: Array, rich: I32, number: I32) -> int:
    """Number the documents that have a gain, best score first, and write their ranks to ``rich``;
    the others get -1. Return how many there are.
    """
    n_rich = 0
    for p in range(u.shape[0]):
        number[p] = -1
        if u[p] > 0.0:
            rich[n_rich] = p
            number[p] = n_rich
            n_rich += 1
    return n_rich


@njit(error_model="numpy", inline="always")
def _fill_block(block: Block, u: Array, rich: I32, column: int, n_rich: int) -> None:
    """Take the documents with a gain from number ``column`` on into a block.

    The last block is filled up with copies of its last document that have no gain.
    """
    for lane in range(LANES):
        place = rich[min(column + lane, n_rich - 1)]
        block.place[lane] = place
        block.block_s[lane] = block.s[place]
        block.gain[lane] = u[place] if column + lane < n_rich else block.s.dtype.type(0.0)
        block.block_g[lane] = 0.0
        block.block_h[lane] = 0.0


@njit(error_model="numpy", inline="always")
def _fill_discounts(ahead: Array, discount: Array, lost: int, depth: int) -> None:
    """Write the discounts from the rank ``lost`` on, and a rank of zeros at the end."""
    for r in range(depth + 1):
        value = discount[lost + r] if lost + r < discount.shape[0] else ahead.dtype.type(0.0)
        for lane in range(LANES):
            ahead[r * LANES + lane] = value


@njit(nogil=True, cache=True, error_model="numpy")
def softrank_queries(
    scores: Array,
    arrangement: I64,
    ranks: I32,
    gains: Array,
    offsets: I64,
    scale: F64,
    discount: Array | None,
    powers: tuple[Array, Array, I64, I64] | None,
    sigma: float,
    derive: bool,
    first: int,
    last: int,
    values: F64,
    grad: Array,
    hess: Array,
) -> None:
    """Write ``1 - SoftNDCG`` of each query and, if ``derive``, its gradient and the size of its
    curvature.

    Args:
        scores: one per document.
        arrangement: flat indices of the documents in the order of equal scores.
        ranks: 0-based, in the order of the arrangement.
        gains: normalised gains in that order.
        offsets: start of each query.
        scale: one per query, its weight; 0 where there is nothing to gain.
        discount: by 0-based rank, up to the last one that has any: what the recursion takes.
        powers: the discount as `power_tables` returns it. One of the two is ``None``, and the way
            that would take it is not even compiled.
        sigma: standard deviation of every score.
        derive: whether to write ``grad`` and ``hess``.
        first, last: the first query, and one past the last.
        values: receives one value per query; filled with 0.
        grad: receives the gradient, one per document; filled with 0.
        hess: receives ``sum_m |w_im| density_im / sigma``, one per document, see `SoftRank`; filled
            with 0.
    """
    real = scores.dtype.type
    precise = scores.itemsize == 8
    certain = 2.0 * sigma * (_CERTAIN_FLOAT64 if precise else _CERTAIN_FLOAT32)
    least = _LEAST_FLOAT64 if precise else _LEAST_FLOAT32
    longest = longest_list(offsets, first, last)
    if discount is not None:
        stride = (_reached(min(longest, discount.shape[0]), longest + RANKS) + 1) * LANES
        segment = max(_FEWEST_IN_SEGMENT, int(math.sqrt(longest)))
        states = np.zeros((min(segment, longest) + 1) * stride, scores.dtype)
        checkpoints = np.empty((longest // segment + 1) * stride, scores.dtype)
        ahead = np.empty(stride, scores.dtype)
        no_chance = _NO_CHANCE_FLOAT64 if precise else _NO_CHANCE_FLOAT32
        chance = np.empty(LANES, scores.dtype)
        room = Recursion(states, stride, checkpoints, segment, ahead, chance, no_chance)
    if powers is not None:
        gaps, coefficients, terms, reach = powers
        products = np.empty(gaps.shape[1] * LANES, scores.dtype)
    beaten = np.empty(longest * LANES, scores.dtype)
    density = np.empty(longest * LANES, scores.dtype)
    slopes = np.empty(longest * LANES, scores.dtype)
    block_s = np.empty(LANES, scores.dtype)
    gain = np.empty(LANES, scores.dtype)
    expected = np.empty(LANES, scores.dtype)
    block_g = np.empty(LANES, scores.dtype)
    block_h = np.empty(LANES, scores.dtype)
    place = np.empty(LANES, np.int32)
    s = np.empty(longest, scores.dtype)
    u = np.empty(longest, scores.dtype)
    g = np.empty(longest, scores.dtype)
    h = np.empty(longest, scores.dtype)
    rich = np.empty(longest, np.int32)
    number = np.empty(longest, np.int32)
    block = Block(
        s,
        block_s,
        place,
        sigma,
        precise,
        least,
        beaten,
        density,
        slopes,
        expected,
        gain,
        block_g,
        block_h,
    )

    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        if scale[query] == 0.0:
            continue

        # Lay the list out by rank, and the table of contests between documents with a gain.
        for p in range(start, start + n):
            s[ranks[p]] = scores[arrangement[p]]
            u[ranks[p]] = gains[p]
            g[ranks[p]] = 0.0
            h[ranks[p]] = 0.0
        n_rich = _find_rich(u[:n], rich, number)
        width = (n_rich + LANES - 1) // LANES * LANES if n_rich <= MOST_NET else 0
        net = np.zeros(n_rich * width if derive else 0, scores.dtype)

        value = 1.0
        lost = 0
        stop = 0
        n_expected = n_rich
        for column in range(0, n_rich, LANES):
            _fill_block(block, u, rich, column, n_rich)

            # Contests before `lost` are lost for certain, those from `stop` on won.
            while s[lost] - block_s[0] >= certain:
                lost += 1
            while stop < n and block_s[LANES - 1] - s[stop] < certain:
                stop += 1

            # The expected discounts of the block.
            has_chance = True
            if discount is not None:
                depth = _reached(min(n, discount.shape[0]) - lost - 1, longest + RANKS)
                _fill_discounts(ahead, discount, lost, depth)
                has_chance = False
                if lost < discount.shape[0]:
                    has_chance = _by_recursion(block, room, lost, stop, depth, derive)
            if powers is not None:
                row = 0
                while reach[row] < n:
                    row += 1
                _by_powers(
                    block, lost, stop, gaps[row], coefficients[row], terms[row], derive, products
                )
            if not has_chance:
                # Documents further down have none either.
                n_expected = column
                break

            for lane in range(LANES):
                value -= gain[lane] * expected[lane]
            if derive:
                _credit(block, lost, stop, number, net, width, column, g, h)
                for lane in range(min(LANES, n_rich - column)):
                    g[place[lane]] += block_g[lane]
                    h[place[lane]] += block_h[lane]

        values[query] = scale[query] * value
        if not derive:
            continue
        if width > 0:
            _set_off(net, width, n_expected, n_rich, rich, slopes, h)
        c = real(-scale[query])
        d = real(scale[query] / sigma)
        for p in range(start, start + n):
            grad[arrangement[p]] = c * g[ranks[p]]
            hess[arrangement[p]] = d * h[ranks[p]]
