"""Kernels of the LambdaLoss family.

Documents are laid out by rank, so that ``x = exp(-sigma (s_i - s_j))`` of a document ``i`` above
``j`` is at most 1, and it factors into ``a_i b_j``: two exponentials per document instead of one
per pair. With ``p = 1/(1 + x)`` and ``y = x p = 1 - p``, a pair whose upper document is the better
one has the derivative ``-sigma w y``, the other way round ``+sigma w p``, and both have the second
derivative ``sigma^2 w y p``. A pair of documents is visited once, from the upper one; with a cutoff
``k`` only the first ``k`` rows are, and documents that they miss meet the rest of the list in
`_meet_all`.

No kernel holds more than a few arrays of the length of the longest list.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, I64, Array, Bools
from tautrank.kernels.exponential import exponential
from tautrank.kernels.normal import GROUP, fill_words
from tautrank.kernels.ranking import LANES, REORDER, longest_list
from tautrank.kernels.streams import TIES_STREAM

# Unsigned indices: Numba then leaves out the test for negative ones, which would keep a loop from
# vectorising.
_U = np.uintp

Ideal: TypeAlias = Bools | None
"""Whether a document belongs to the ideal top ``k`` and meets every document, in the order of the
arrangement.
"""


class Divisor(NamedTuple):
    """What the weight of a pair is divided by: ``near + slope |s_i - s_j|``."""

    near: float
    slope: float


class Pairs(NamedTuple):
    """Ranked lists and how their pairs are weighed.

    Args:
        scores: one per document: those that rank the documents.
        arrangement: flat indices of the documents in the order of equal scores.
        ranks: 0-based, in the order of the arrangement.
        gains: one row per sampled ranking (or the one row of the hard assignment), in the order of
            the arrangement.
        offsets: start of each query.
        scale: one per query: what the sums are multiplied by, 0 where there is nothing to learn.
        v: discount by rank, padded.
        gap: weight by distance of ranks, entry ``d + 2`` for the distance ``d``, padded.
        cap: the most that a difference of gains counts.
        every_pair: weights ``v_i u_i`` over all pairs, instead of differences over pairs of
            different labels.
        normalise: divide by the score distance, and each query's sums to the logarithm of their
            size.
        k: rows to visit.
        sigma: steepness.
    """

    scores: Array
    arrangement: I64
    ranks: I32
    gains: Array
    offsets: I64
    scale: F64
    v: Array
    gap: Array
    cap: float
    every_pair: bool
    normalise: bool
    k: int
    sigma: float


class Rows(NamedTuple):
    """A list laid out by rank.

    Args:
        s: scores.
        u: gains.
        levels: ranks of the labels among the distinct labels.
        a: first factors of the exponentials, see `_exponentials`.
        b: second factors.
        g: sums of the first derivatives.
        h: sums of the second derivatives.
    """

    s: Array
    u: Array
    levels: Array
    a: Array
    b: Array
    g: Array
    h: Array


@njit(error_model="numpy", inline="always")
def _exponentials(rows: Rows, row: int, n: int, sigma: float, reach: float) -> int:
    """Factor ``exp(-sigma (s_i - s_j)) = a_i b_j`` for the rows from ``row`` on; return the first
    row out of reach.

    Centred ``reach`` below the score of ``row``, both factors of every row down to ``2 reach``
    below it stay inside the exponent range; a ``b_j`` too small for it belongs to pairs whose ``x``
    rounds to 0 anyway. Lists with a wider range of scores are done in several such windows, so that
    no range of scores needs another formula.
    """
    s, _, _, a, b, _, _ = rows
    top = s[row]
    n_within = 0
    n_lanes = (n - row + LANES - 1) // LANES * LANES
    for lane in range(n_lanes):
        p = _U(row) + _U(lane)
        t = s.dtype.type(sigma * (top - s[p]) - reach)
        b[p] = exponential(-t)
        n_within += 1 if t <= reach else 0
    for lane in range(n_lanes):
        p = _U(row) + _U(lane)
        a[p] = s.dtype.type(1.0) / b[p]
    b[n : n + LANES] = 0.0
    return min(row + n_within, n)


@njit(error_model="numpy", inline="always")
def _pull(x: Any, weight: Any, d: Any, zero: Any, one: Any) -> tuple[Any, Any]:
    """Return both derivatives, but for sigma, of a pair with ``w = weight |d|``: ``w y`` or
    ``w p``, and ``w y p``; ``d > 0`` if the upper document is the better one.
    """
    p = one / (one + x)
    y = x * p
    w = weight * d
    return w * (y if d > zero else p), abs(w) * y * p


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _pull_four(rows: Rows, four: Any, weights: Any, j: Any, sums: Any) -> Any:
    """Add the pairs of four rows with the row ``j`` to that row; return the sums of the four rows
    with these pairs.

    Args:
        rows: the list.
        four: ``a`` of the four rows, then ``u``.
        weights: of each pair, what its difference of gains is multiplied by.
        j: the row below.
        sums: ``g`` of the four rows, then ``h``.
    """
    a0, a1, a2, a3, u0, u1, u2, u3 = four
    g0, g1, g2, g3, h0, h1, h2, h3 = sums
    zero = rows.a.dtype.type(0.0)
    one = rows.a.dtype.type(1.0)
    bj = rows.b[j]
    uj = rows.u[j]
    l0, c0 = _pull(a0 * bj, weights[0], u0 - uj, zero, one)
    l1, c1 = _pull(a1 * bj, weights[1], u1 - uj, zero, one)
    l2, c2 = _pull(a2 * bj, weights[2], u2 - uj, zero, one)
    l3, c3 = _pull(a3 * bj, weights[3], u3 - uj, zero, one)
    rows.g[j] += (l0 + l1) + (l2 + l3)
    rows.h[j] += (c0 + c1) + (c2 + c3)
    return g0 + l0, g1 + l1, g2 + l2, g3 + l3, h0 + c0, h1 + c1, h2 + c2, h3 + c3


@njit(error_model="numpy", inline="always")
def _credit_four(rows: Rows, four: Any, sums: Any) -> None:
    """Add the sums of `_pull_four` to the four rows of these numbers."""
    for number in range(4):
        rows.g[four[number]] -= sums[number]
        rows.h[four[number]] += sums[number + 4]


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _swap_rows(
    rows: Rows, v: Array, gap: Array, first: int, stop: int, n: int, highest: float
) -> None:
    """Add the pairs of the rows ``first`` to ``stop`` with all rows below them.

        w_ij = (v_i - v_j + gap_(j-i)) |u_i - u_j|

    Four rows at a time share the loads, the stores and the loop. A row also meets documents above
    it in its group of four: there ``v_i - v_j`` and the gap are not positive and cut off at 0.
    Equal labels cost a multiplication by 0; leaving them out would cost the alignment of ranks with
    the gap table.
    """
    _, u, _, a, _, _, _ = rows
    zero = a.dtype.type(0.0)
    # A row that fills up a group of four has x = 0 and the highest gain: it is the better document
    # of all its pairs, and they are in order.
    unused = a.dtype.type(highest)
    for row in range(first, stop, 4):
        i = _U(row)
        i1, i2, i3 = i + _U(1), i + _U(2), i + _U(3)
        a1, u1 = (a[i1], u[i1]) if row + 1 < stop else (zero, unused)
        a2, u2 = (a[i2], u[i2]) if row + 2 < stop else (zero, unused)
        a3, u3 = (a[i3], u[i3]) if row + 3 < stop else (zero, unused)
        four = (a[i], a1, a2, a3, u[i], u1, u2, u3)
        v0, v1, v2, v3 = v[i], v[i1], v[i2], v[i3]
        sums = (zero, zero, zero, zero, zero, zero, zero, zero)
        for column in range((n - 1 - row + LANES - 1) // LANES * LANES):
            t = _U(column)
            vj = v[i1 + t]
            weights = (
                max(v0 - vj, zero) + gap[t + _U(3)],
                max(v1 - vj, zero) + gap[t + _U(2)],
                max(v2 - vj, zero) + gap[t + _U(1)],
                max(v3 - vj, zero) + gap[t],
            )
            sums = _pull_four(rows, four, weights, i1 + t, sums)
        _credit_four(rows, (i, i1, i2, i3), sums)


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _general_row(
    rows: Rows,
    pairs: Pairs,
    gap_around: Array,
    share: Array,
    divisor: Divisor,
    row: int,
    first: int,
    n: int,
) -> float:
    """Add the pairs of one row with the rows from ``first`` on; return the sum of the sizes of
    their lambdas.

    As `_swap_rows` and `_meet_all`, where labels and gains need not agree (sampled gains), with a
    divisor and a cap, directed by ``levels``:

        w_ij = share_j (|v_i - v_j| + gap_|j-i|) min(|u_i - u_j|, cap) / (near + slope |s_i - s_j|)

    or, if every pair counts, for all ``j != i``, labels regardless:

        w_ij = u_i / (near + slope |s_i - s_j|)

    The padding must hold ``u = 0``.
    """
    s, u, levels, a, b, g, h = rows
    v, every_pair = pairs.v, pairs.every_pair
    zero = a.dtype.type(0.0)
    one = a.dtype.type(1.0)
    near = a.dtype.type(divisor.near)
    slope = a.dtype.type(divisor.slope)
    cap = a.dtype.type(pairs.cap)
    first_gap = _U(gap_around.shape[0] // 2 + first - row)
    i = _U(row)
    ai, si, ui, li, vi = a[i], s[i], u[i], levels[i], v[i]
    gi, hi, ti = zero, zero, zero
    for column in range((n - first + LANES - 1) // LANES * LANES):
        t = _U(column)
        j = _U(first) + t
        x = ai * b[j]
        p = one / (one + x)
        y = x * p
        distance = near + slope * abs(si - s[j])
        if every_pair:
            up = ui * y / distance
            down = u[j] * p / distance
        else:
            by_rank = share[j] * (abs(vi - v[j]) + gap_around[first_gap + t])
            w = by_rank * min(abs(ui - u[j]), cap) / distance
            e = li - levels[j]
            up = (w if e > zero else zero) * y
            down = (w if e < zero else zero) * p
        c = up * p + down * y
        g[j] += up - down
        h[j] += c
        gi += up - down
        hi += c
        ti += up + down
    g[i] -= gi
    h[i] += hi
    return float(ti)


@njit(error_model="numpy", fastmath=REORDER, forceinline=True)
def _meet_all(
    rows: Rows,
    v: Array,
    gap_around: Array,
    share: Array,
    missed: I32,
    number: int,
    first: int,
    n: int,
    highest: float,
) -> None:
    """Add the pairs of four missed rows, from ``number`` on, with all rows from ``first`` on.

        w_ij = share_j (|v_i - v_j| + gap_|j-i|) |u_i - u_j|

    A row may be above or below a column, so that ``x`` may exceed 1; ``n`` stands for a row that
    fills up the four.
    """
    _, u, _, a, _, _, _ = rows
    zero = a.dtype.type(0.0)
    # The padding's x is 0 here: it is above all rows and better than all.
    u[n] = highest
    a[n] = zero
    row0 = missed[number]
    row1 = missed[number + 1]
    row2 = missed[number + 2]
    row3 = missed[number + 3]
    i0, i1, i2, i3 = _U(row0), _U(row1), _U(row2), _U(row3)
    factors_and_gains = (a[i0], a[i1], a[i2], a[i3], u[i0], u[i1], u[i2], u[i3])
    u[n] = zero

    v0, v1, v2, v3 = v[i0], v[i1], v[i2], v[i3]
    middle = gap_around.shape[0] // 2 + first
    gap0 = _U(middle - row0)
    gap1 = _U(middle - row1)
    gap2 = _U(middle - row2)
    gap3 = _U(middle - row3)
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    for column in range((n - first + LANES - 1) // LANES * LANES):
        t = _U(column)
        j = _U(first) + t
        vj = v[j]
        share_j = share[j]
        weights = (
            share_j * (abs(v0 - vj) + gap_around[gap0 + t]),
            share_j * (abs(v1 - vj) + gap_around[gap1 + t]),
            share_j * (abs(v2 - vj) + gap_around[gap2 + t]),
            share_j * (abs(v3 - vj) + gap_around[gap3 + t]),
        )
        sums = _pull_four(rows, factors_and_gains, weights, j, sums)
    _credit_four(rows, (i0, i1, i2, i3), sums)


@njit(nogil=True, cache=True)
def draw_ties(
    offsets: I64,
    begin: I64,
    n_places: I64,
    seed: np.uint64,
    step: int,
    first: int,
    last: int,
    ideal: Bools,
) -> None:
    """Choose which of the documents that tie for the last places of the ideal top ``k`` are in it.

    Args:
        offsets: start of each query.
        begin: of each query, the first of the ties and one past the last, in the order of the
            arrangement.
        n_places: of each query, how many of them are in the ideal top.
        seed, step: as in `fill_words`.
        first, last: the first query, and one past the last.
        ideal: receives whether each of the ties is in the ideal top.
    """
    words = np.zeros(longest_list(offsets, first, last) + GROUP)
    for query in range(first, last):
        start = begin[query, 0]
        n_ties = begin[query, 1] - start
        free_places = n_places[query]
        if 0 < free_places < n_ties:
            n_words = (n_ties + GROUP - 1) // GROUP * GROUP
            fill_words(words[:n_words], seed, step, query, TIES_STREAM)
        for tie in range(n_ties):
            # One after the other, each with the chance that the free places give it.
            n_left = n_ties - tie
            is_drawn = free_places == n_left or words[tie] * n_left < free_places * 2.0**32
            ideal[start + tie] = is_drawn
            free_places -= is_drawn


@njit(error_model="numpy", inline="always")
def _normaliser(total: float) -> float:
    """Return what brings a query's sum of lambdas, ``total``, to ``log2(1 + total)``."""
    return math.log2(1.0 + total) / total if total > 0.0 else 1.0


@njit(nogil=True, cache=True, error_model="numpy")
def pair_gradients(
    pairs: Pairs,
    levels: Array | None,
    ideal: Ideal,
    reach: float,
    first: int,
    last: int,
    grad: Array,
    hess: Array,
) -> None:
    """Gradients of every member of the family.

    Args:
        pairs: the lists.
        levels: rank of the label among the distinct labels, in the order of the arrangement.
            ``None`` for one ranking without cap and normaliser whose gains never fall as labels
            rise, and not over every pair: the only way that is compiled then is `_swap_rows`, which
            is faster.
        ideal: the documents that meet every document. ``None`` if only the first ``k`` ranks do:
            `_meet_all` is not compiled then.
        reach: see `_exponentials`.
        first, last: the first query, and one past the last.
        grad: receives the gradient, one per document; filled with 0.
        hess: receives the second derivative, one per document; filled with 0.
    """
    scores, arrangement, ranks, gains = pairs.scores, pairs.arrangement, pairs.ranks, pairs.gains
    offsets, scale, v, gap = pairs.offsets, pairs.scale, pairs.v, pairs.gap
    every_pair, normalise, k, sigma = pairs.every_pair, pairs.normalise, pairs.k, pairs.sigma
    size = longest_list(offsets, first, last) + 2 * LANES
    s = np.empty(size, scores.dtype)
    u = np.empty(size, scores.dtype)
    level = np.empty(size, scores.dtype)
    a = np.empty(size, scores.dtype)
    b = np.empty(size, scores.dtype)
    g = np.empty(size, scores.dtype)
    h = np.empty(size, scores.dtype)
    rows = Rows(s, u, level, a, b, g, h)
    whole_share = np.ones(size, scores.dtype)
    share = np.empty(size, scores.dtype)
    missed = np.empty(size, np.int32)
    # The gap by distance, mirrored: rows below the cutoff meet rows on both of their sides.
    gap_around = np.concatenate((gap[size + 1 : 2 : -1], gap[2 : size + 2]))
    n_samples = gains.shape[0]
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        if scale[query] == 0.0:
            continue

        # Lay the list out by rank. Padding has x = 0, no gain, and a finite distance: it adds
        # nothing to any row.
        for p in range(start, start + n):
            s[ranks[p]] = scores[arrangement[p]]
            if levels is not None:
                level[ranks[p]] = levels[p]
            if ideal is not None:
                share[ranks[p]] = 0.5 if ideal[p] else 1.0
        s[n : n + LANES] = s[n - 1]
        for column in (level, b, share):
            column[n : n + LANES] = 0.0
        for sums in (u, g, h):
            sums[: n + LANES] = 0.0
        divisor = Divisor(1.0, 0.0)
        if normalise and s[0] != s[n - 1]:
            divisor = Divisor(0.01, 1.0)

        total = 0.0
        for sample in range(n_samples):
            if every_pair:
                # These weights are linear in the gains: one pass with their sum does for all
                # samples.
                for p in range(start, start + n):
                    u[ranks[p]] += gains[sample, p] * v[ranks[p]]
                if sample < n_samples - 1:
                    continue
            else:
                for p in range(start, start + n):
                    u[ranks[p]] = gains[sample, p]
            highest = gains[sample, start + n - 1]

            # Rows meet the rows below them, one window of scores after the other.
            end = n - 1
            if not every_pair:
                end = _rows_with_pairs(u if levels is None else level, n)
            end = min(end, k)
            row = 0
            reached = 0
            while row < end:
                reached = _exponentials(rows, row, n, sigma, reach)
                stop = min(end, reached)
                if levels is None:
                    _swap_rows(rows, v, gap, row, stop, n, gains[0, start + n - 1])
                else:
                    for upper in range(row, stop):
                        total += _general_row(
                            rows, pairs, gap_around, whole_share, divisor, upper, upper + 1, n
                        )
                row = stop

            # The missed rows meet all rows beyond k. Two of them meet twice, and share their pair.
            if ideal is not None and end == k:
                n_missed = _rows_missed(share, k, n, missed)
                if levels is None and reached == n:
                    for number in range(0, n_missed, 4):
                        _meet_all(rows, v, gap_around, share, missed, number, k, n, highest)
                    continue
                if levels is None:
                    level[:n] = u[:n]
                for number in range(n_missed):
                    if reached < n:
                        _exponentials_around(rows, missed[number], k, n, sigma, reach)
                    total += _general_row(
                        rows, pairs, gap_around, share, divisor, missed[number], k, n
                    )

        factor = scale[query] / n_samples
        if normalise:
            factor *= _normaliser(2.0 * sigma * total / n_samples)
        gradient_factor = scores.dtype.type(factor)
        hessian_factor = scores.dtype.type(factor * sigma)
        for p in range(start, start + n):
            grad[arrangement[p]] = gradient_factor * g[ranks[p]]
            hess[arrangement[p]] = hessian_factor * h[ranks[p]]


@njit(error_model="numpy", inline="always")
def _rows_with_pairs(alike: Array, n: int) -> int:
    """Return the number of rows before those that are all alike to the last: these add nothing."""
    end = n - 1
    while end > 0 and alike[end - 1] == alike[n - 1]:
        end -= 1
    return end


@njit(error_model="numpy", inline="always")
def _rows_missed(share: Array, k: int, n: int, missed: I32) -> int:
    """Write the rows beyond ``k`` that meet every document to ``missed``; return their number.

    Four times ``n`` behind them fills up the last group of four.
    """
    n_missed = 0
    for row in range(k, n):
        missed[n_missed] = row
        n_missed += 1 if share[row] < 1.0 else 0
    missed[n_missed : n_missed + 4] = n
    return n_missed


@njit(error_model="numpy", inline="always")
def _exponentials_around(
    rows: Rows, row: int, first: int, n: int, sigma: float, reach: float
) -> None:
    """Set ``a_i b_j = exp(-sigma (s_i - s_j))`` for one row ``i`` and the rows from ``first`` on,
    where scores are too wide apart to be factored for all rows.
    """
    rows.a[row] = 1.0
    for j in range(first, n):
        distance = sigma * (rows.s[j] - rows.s[row])
        rows.b[j] = math.exp(min(max(distance, -2.0 * reach), 2.0 * reach))


@njit(nogil=True, cache=True, error_model="numpy")
def pair_values(
    pairs: Pairs, levels: F64, ideal: Ideal, scores: F64, first: int, last: int, values: F64
) -> None:
    """The loss of each query at ``scores``, with the weights and normalisers that belong to those
    of the pairs.

    Args:
        pairs: the lists, ranked by the scores that are held; all in float64.
        levels: rank of the label among the distinct labels, in the order of the arrangement.
        ideal: as in `pair_gradients`.
        scores: the scores of the smooth part.
        first, last: the first query, and one past the last.
        values: receives one value per query, the sum of ``w_ij log(1 + exp(...))`` times ``scale``;
            filled with 0.
    """
    held, arrangement, ranks, gains = pairs.scores, pairs.arrangement, pairs.ranks, pairs.gains
    offsets, scale, v, gap = pairs.offsets, pairs.scale, pairs.v, pairs.gap
    cap, every_pair, normalise = pairs.cap, pairs.every_pair, pairs.normalise
    k, sigma = pairs.k, pairs.sigma
    size = longest_list(offsets, first, last)
    s = np.empty(size)
    moved = np.empty(size)
    u = np.empty(size)
    level = np.empty(size)
    meets_all = np.empty(size, np.bool_)
    n_samples = gains.shape[0]
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        if scale[query] == 0.0:
            continue

        # Lay the list out by rank.
        for p in range(start, start + n):
            s[ranks[p]] = held[arrangement[p]]
            moved[ranks[p]] = scores[arrangement[p]]
            level[ranks[p]] = levels[p]
            meets_all[ranks[p]] = ranks[p] < k
            if ideal is not None:
                meets_all[ranks[p]] |= ideal[p]
        near, slope = 1.0, 0.0
        if normalise and s[0] != s[n - 1]:
            near, slope = 0.01, 1.0
        n_rows = min(k, n - 1) if ideal is None else n - 1

        value = 0.0
        total = 0.0
        for sample in range(n_samples):
            for p in range(start, start + n):
                u[ranks[p]] = gains[sample, p]
            for i in range(n_rows):
                for j in range(i + 1, n):
                    if not (meets_all[i] or meets_all[j]):
                        continue

                    # What the pair weighs if the upper document is the better one, and if not.
                    if every_pair:
                        up = u[i] * v[i]
                        down = u[j] * v[j]
                    else:
                        w = (v[i] - v[j] + gap[j - i + 2]) * min(abs(u[i] - u[j]), cap)
                        up = w if level[i] > level[j] else 0.0
                        down = w if level[i] < level[j] else 0.0
                    if up == 0.0 and down == 0.0:
                        continue

                    # log(1 + exp(-d)) and log(1 + exp(d)), which never overflow in this form.
                    distance = near + slope * (s[i] - s[j])
                    d = sigma * (moved[i] - moved[j])
                    bend = math.log1p(math.exp(-abs(d)))
                    cost_up = up * (bend + max(-d, 0.0))
                    cost_down = down * (bend + max(d, 0.0))
                    value += (cost_up + cost_down) / distance
                    if normalise:
                        x = math.exp(-sigma * (s[i] - s[j]))
                        total += (up * x + down) / (1.0 + x) / distance

        value *= scale[query] / n_samples
        if normalise:
            value *= _normaliser(2.0 * sigma * total / n_samples)
        values[query] = value
