"""NDCG made smooth on a CUDA device; `tautrank.losses.softrank` and `smooth_ndcg` have the
formulas.

There are gradients, but no hessians, which only a booster needs. A program of SoftRank takes a few
documents and plays their contests with every document of the list. What the contests pass on to the
other documents is written as one row per program and added up in a fixed order afterwards. The sums
of ApproxNDCG and NeuralNDCG are float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from tautrank.losses.device.lists import (
    COLUMNS,
    ROWS,
    DeviceLists,
    DeviceObjective,
    device_gains,
    tile_of_program,
)
from tautrank.losses.smooth_ndcg import NeuralNDCG, SmoothNDCG
from tautrank.losses.softrank import TOLERANCE, SoftRank, power_tables
from tautrank.metrics.gains import discount_values

# Numbers that the states of the recursion may take at a time.
_STATES_AT_A_TIME = 2**27
_TERMS_PER_GROUP = 4  # terms of a sum of powers come in groups of this many, as in memory


@triton.jit
def _losing_probability(other_score, own_score, is_itself, units):
    """Return the probability that a document's noisy score loses against another document's, and
    the derivative of that probability by the score; both are 0 against itself.

    The difference of two noisy scores is normal: the probability is ``erfc(-x)/2`` with
    ``x = h (other_score - own_score)``, its derivative ``h/sqrt(pi) exp(-x^2)``, where
    ``h = 1/(2 sigma)``.

    Args:
        other_score, own_score: scores of the other document and of the rows.
        is_itself: which row is the other document.
        units: ``h`` and ``h/sqrt(pi)``.
    """
    # Against itself a document plays no contest: both results are 0 there.
    x = (other_score - own_score) * tl.load(units)
    probability = 0.5 * libdevice.erfc(-x)
    density = tl.load(units + 1) * tl.exp(-x * x)
    return tl.where(is_itself, 0.0, probability), tl.where(is_itself, 0.0, density)


@triton.jit
def _power_kernel(
    offsets,
    tile_lists,
    tile_starts,
    s_ptr,
    u_ptr,
    row_starts,
    gaps,
    coefficients,
    reach,
    rows_of_reach,
    units,
    expected,
    own_slopes,
    passed,
    DERIVE: tl.constexpr,
    TERMS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write the expected discount of each document under noise, where the discount is a sum of
    powers ``D(r) = sum_t c_t (1 - gap_t)^r`` of the rank ``r``, and the slopes by the scores.

    The rank of a document is how many contests it loses, each with its own probability ``pi``. So
    the expectation of a power is the product of ``1 - pi gap`` over all contests.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        s_ptr, u_ptr: scores and gains, by rank.
        row_starts: where the row of each program begins in ``passed``.
        gaps, coefficients: tables of ``gap`` and ``c``, one row per reach and column per term.
        reach, rows_of_reach: the longest list that each row serves, and how many rows there are.
        units: as in `_losing_probability`.
        expected, own_slopes, passed: receive the expected discounts, the slopes by a document's own
            score, and, in a row per program, the slopes by all other scores of the list.
        DERIVE, TERMS, ROWS: whether to compute slopes; terms of the sum; documents of a program.
    """
    program = tl.program_id(0)
    _, start, n, _, i, is_row = tile_of_program(program, offsets, tile_lists, tile_starts, ROWS)
    s = tl.load(s_ptr + start + i, is_row, 0.0)

    # The row of the tables that serves a list of this length.
    row = 0
    for row_of_reach in range(rows_of_reach):
        row += (tl.load(reach + row_of_reach) < n).to(tl.int32)
    term = tl.arange(0, TERMS)
    gap = tl.load(gaps + row * TERMS + term)[None, :]

    product = tl.full([ROWS, TERMS], 1.0, s_ptr.dtype.element_ty)
    for m in range(n):
        lost, _ = _losing_probability(tl.load(s_ptr + start + m), s, i == m, units)
        product *= 1.0 - lost[:, None] * gap
    product *= tl.load(coefficients + row * TERMS + term)[None, :]
    tl.store(expected + start + i, tl.sum(product, 1), is_row)

    # A slope leaves one factor of the product out, and has its derivative instead.
    if DERIVE:
        u = tl.load(u_ptr + start + i, is_row, 0.0)
        row_of_passed = passed + tl.load(row_starts + program)
        product *= gap
        g = s * 0.0
        for m in range(n):
            lost, density = _losing_probability(tl.load(s_ptr + start + m), s, i == m, units)
            pull = -u * density * tl.sum(product / (1.0 - lost[:, None] * gap), 1)
            g += pull
            tl.store(row_of_passed + m, tl.sum(pull, 0))
        tl.store(own_slopes + start + i, g, is_row)


@triton.jit
def _recursion_kernel(
    offsets,
    tile_lists,
    tile_starts,
    s_ptr,
    u_ptr,
    first_program,
    row_starts,
    discount,
    depth,
    units,
    states,
    state_starts,
    expected,
    own_slopes,
    passed,
    DERIVE: tl.constexpr,
    RANKS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write the expected discount of each document under noise for any discount, and the slopes by
    the scores, by a recursion over the contests.

    A document's rank is how many contests it loses. One contest with the probability ``pi`` to lose
    makes ``(1 - pi) P(r) + pi P(r - 1)`` of its distribution ``P`` of ranks. The slopes come from
    the way back: the expected discount ``a(r)`` of a document that has lost ``r`` contests so far.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        s_ptr, u_ptr: scores and gains, by rank.
        first_program: number of the first program of this launch.
        row_starts: where the row of each program begins in ``passed``.
        discount, depth: discounts by rank, and how many are not 0.
        units: as in `_losing_probability`.
        states, state_starts: space for the distributions before each contest, and where each
            program's begin.
        expected, own_slopes, passed: as in `_power_kernel`.
        DERIVE, RANKS, ROWS: whether to compute slopes; ranks of a distribution; documents of a
            program.
    """
    program = first_program + tl.program_id(0)
    _, start, n, _, i, is_row = tile_of_program(program, offsets, tile_lists, tile_starts, ROWS)
    s = tl.load(s_ptr + start + i, is_row, 0.0)
    r = tl.arange(0, RANKS)[None, :] + tl.zeros([ROWS, 1], tl.int32)
    state_place = tl.arange(0, ROWS)[:, None] * RANKS + r
    kept = states + tl.load(state_starts + program) - tl.load(state_starts + first_program)

    # Before any contest, the rank is 0.
    p = tl.where(r == 0, 1.0, 0.0).to(s_ptr.dtype.element_ty)
    for m in range(n):
        if DERIVE:
            tl.store(kept + m * (ROWS * RANKS) + state_place, p)
        lost, _ = _losing_probability(tl.load(s_ptr + start + m), s, i == m, units)
        p_of_rank_before = tl.where(r == 0, 0.0, tl.gather(p, tl.maximum(r - 1, 0), 1))
        p += lost[:, None] * (p_of_rank_before - p)
    a = tl.load(discount + r, r < depth, 0.0)
    tl.store(expected + start + i, tl.sum(p * a, 1), is_row)

    # Back from the last contest: d is what one more contest lost changes.
    if DERIVE:
        u = tl.load(u_ptr + start + i, is_row, 0.0)
        row_of_passed = passed + tl.load(row_starts + program)
        g = s * 0.0
        for back in range(n):
            m = n - 1 - back
            lost, density = _losing_probability(tl.load(s_ptr + start + m), s, i == m, units)
            p = tl.load(kept + m * (ROWS * RANKS) + state_place)
            d = tl.where(r == RANKS - 1, 0.0, tl.gather(a, tl.minimum(r + 1, RANKS - 1), 1)) - a
            pull = u * density * tl.sum(p * d, 1)
            a += lost[:, None] * d
            g += pull
            tl.store(row_of_passed + m, tl.sum(pull, 0))
        tl.store(own_slopes + start + i, g, is_row)


@triton.jit
def _collect_kernel(
    offsets,
    tile_lists,
    tile_starts,
    own_slopes,
    passed,
    row_starts,
    target,
    scale,
    grad,
    ROWS: tl.constexpr,
):
    """Write the gradient of each document: its slope by its own score, less the slopes of all
    documents of the list by its score, times the scale of the list.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        own_slopes, passed, row_starts: slopes, as written by `_power_kernel`.
        target: flat indices of the documents, by rank.
        scale, grad: one factor per list; receives one number per document.
        ROWS: documents of a program.
    """
    query, start, _, _, i, is_row = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    # ``passed`` holds one row per program of the list: what its documents pass to each other one,
    # with the opposite sign, since only differences of scores matter.
    slope = tl.load(own_slopes + start + i, is_row, 0.0)
    for program in range(tl.load(tile_starts + query), tl.load(tile_starts + query + 1)):
        slope -= tl.load(passed + tl.load(row_starts + program) + i, is_row, 0.0)
    place = tl.load(target + start + i, is_row, 0)
    tl.store(grad + place, slope * tl.load(scale + query), is_row)


class _Contests(NamedTuple):
    """The contests between the documents of each list: what a kernel makes of them, by rank.

    Attributes:
        gains: gain of each document.
        expected_discounts: expectation of each document's discount under noise.
        own_slopes: derivative of each document's expected, weighted discount by its own score.
        passed: a row per program, with the derivatives of its documents by all scores of the list.
        row_starts: where each program's row begins in ``passed``.
        target: flat index of each document.
    """

    gains: Tensor
    expected_discounts: Tensor
    own_slopes: Tensor
    passed: Tensor
    row_starts: Tensor
    target: Tensor


def _next_power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least ``number``, which is at least 1."""
    return int(2 ** math.ceil(math.log2(number)))


class DeviceSoftRank(DeviceObjective):
    """SoftRank bound to lists on a device; it has a gradient there, but no hessian, which only a
    booster needs.

    Args:
        loss: the loss.
        lists: the lists.
        seed: not used: nothing is drawn.
    """

    def __init__(self, loss: SoftRank, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        longest = max(lists.longest_length, 1)
        ideal_discounts = lists.to_device(discount_values(longest, loss.discount, loss.k))
        gains = device_gains(lists.arranged_labels, loss.gain)
        self._gains = lists.normalise_gains(gains, ideal_discounts)
        self._scale = lists.weights_where_any(self._gains)

        half = 0.5 / loss.sigma
        self._units = lists.to_device(np.array([half, half / math.sqrt(math.pi)]))
        self._by_powers = loss.k is None and isinstance(loss.discount, str)
        if self._by_powers:
            self._use_powers(longest, str(loss.discount))
        else:
            depth = longest if loss.k is None else min(loss.k, longest)
            trimmed = np.trim_zeros(discount_values(depth, loss.discount), "b")
            self._depth = trimmed.size
            self._ranks = max(2, _next_power_of_two(max(trimmed.size, 1)))
            self._discount = lists.to_device(trimmed)

    def _use_powers(self, longest: int, discount: str) -> None:
        """Set the tables that write a discount as a sum ``D(rank) = sum_q c_q x_q^rank``, for lists
        up to ``longest`` documents; the number of terms is filled up to a power of two, which
        Triton needs. The tables hold the gaps ``1 - x_q`` and the coefficients ``c_q``.
        """
        lists = self.lists
        # The NumPy type of the same name: ``torch.float32`` is ``float32``.
        kind = np.dtype(str(lists.labels.dtype).removeprefix("torch."))
        gaps, coefficients, _, reach = power_tables(
            longest, discount, TOLERANCE[kind], _TERMS_PER_GROUP
        )

        n_terms = gaps.shape[1]
        self._terms = max(4, _next_power_of_two(n_terms))
        # A term with the coefficient 0 adds nothing. One row per length of list, which stays.
        filling = ((0, 0), (0, self._terms - n_terms))
        self._gaps = lists.to_device(np.pad(gaps, filling))
        self._coefficients = lists.to_device(np.pad(coefficients, filling))
        self._reach = torch.from_numpy(reach).to(lists.labels.device)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, None]:
        """Return the derivatives of the loss by the scores, one per document, and ``None`` for the
        second derivatives, which there are none of on a device.
        """
        # Each document plays a noisy contest against every other one; its expected rank counts the
        # lost ones. The kernel collects the slopes of all contests that a score takes part in.
        contests = self._play_contests(scores, derive=True)
        grad = torch.zeros_like(scores)
        self.lists.run_per_tile(
            _collect_kernel,
            contests.own_slopes,
            contests.passed,
            contests.row_starts,
            contests.target,
            self._scale,
            grad,
            ROWS,
        )
        return grad, None

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the loss of each list: its weight times one minus the expected NDCG."""
        lists = self.lists
        if self._by_powers and scores.dtype != torch.float64:
            # The terms of the sum of powers cancel each other: in float64, as in memory.
            exact_lists = DeviceLists(lists.labels.double(), lists.offsets, lists.weights)
            exact_loss = DeviceSoftRank(self.loss, exact_lists, 0)
            return exact_loss.values(scores.double(), step).to(scores.dtype)

        # The chances to lose noisy contests with the other documents give each expected discount.
        contests = self._play_contests(scores, derive=False)
        expected_ndcg = lists.sums(contests.gains * contests.expected_discounts)
        return self._scale * (1.0 - expected_ndcg)

    def _play_contests(self, scores: Tensor, derive: bool) -> _Contests:
        """Return the expected discount of each document, and, if ``derive``, the slopes that its
        gradient is added up from.
        """
        lists = self.lists
        by_rank, gains, target = lists.rank(scores, self._gains)
        tile_lists, tile_starts, n_programs = lists.tiles

        # One row per program, as long as its list; the programs beyond the last have none.
        programs = torch.arange(n_programs, device=scores.device)
        row_lengths = torch.where(programs < tile_starts[-1], lists.sizes[tile_lists], 0)
        row_starts = torch.cumsum(row_lengths, 0) - row_lengths
        n_passed = int(row_lengths.sum()) if derive else 0
        contests = _Contests(
            gains,
            expected_discounts=torch.zeros_like(scores),
            own_slopes=torch.zeros_like(scores),
            passed=torch.empty(n_passed, dtype=scores.dtype, device=scores.device),
            row_starts=row_starts,
            target=target,
        )
        if self._by_powers:
            lists.run_per_tile(
                _power_kernel,
                by_rank,
                gains,
                row_starts,
                self._gaps,
                self._coefficients,
                self._reach,
                self._reach.numel(),
                self._units,
                contests.expected_discounts,
                contests.own_slopes,
                contests.passed,
                derive,
                self._terms,
                ROWS,
            )
        else:
            self._run_recursion(by_rank, contests, row_starts + row_lengths, derive)
        return contests

    def _run_recursion(
        self, by_rank: Tensor, contests: _Contests, row_ends: Tensor, derive: bool
    ) -> None:
        """Fill expected discounts and slopes of contests by recursion, a few programs at a time,
        so that the states which the way back needs fit into memory.

        Args:
            by_rank: scores by rank.
            contests: gains and the arrays to fill.
            row_ends: where the row of each program ends.
            derive: whether to compute slopes, which need the states.
        """
        lists = self.lists
        tile_lists, tile_starts, _ = lists.tiles
        state_size = ROWS * self._ranks
        state_ends = (row_ends * state_size).cpu().numpy()
        n_programs = int(tile_starts[-1])
        first = 0
        states_before = 0
        while first < n_programs:
            # As many programs as there is room for, and at least one.
            room_end = states_before + _STATES_AT_A_TIME
            n_fitting = int(np.searchsorted(state_ends[:n_programs], room_end, side="right"))
            end = max(first + 1, n_fitting)
            states_after = int(state_ends[end - 1])
            n_states = states_after - states_before if derive else 0
            states = torch.empty(n_states, dtype=by_rank.dtype, device=by_rank.device)
            _recursion_kernel[(end - first,)](
                lists.offsets,
                tile_lists,
                tile_starts,
                by_rank,
                contests.gains,
                first,
                contests.row_starts,
                self._discount,
                self._depth,
                self._units,
                states,
                contests.row_starts * state_size,
                contests.expected_discounts,
                contests.own_slopes,
                contests.passed,
                derive,
                self._ranks,
                ROWS,
                num_warps=max(1, min(8, self._ranks // 16)),
            )
            first = end
            states_before = states_after


@triton.jit
def _row_sums_kernel(
    offsets,
    tile_lists,
    tile_starts,
    s_ptr,
    f_ptr,
    out,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write for each document ``i`` a sum over the documents ``j`` of its list of a function of
    ``d = s_j - s_i``.

    The kinds are ``"chance"``, the logistic function ``1/(1 + exp(-d))``; ``"slope"``, its
    derivative times ``f_j - f_i``; ``"distance"``, ``|d|``; and ``"sign"``, ``-sign(d) f_j``.

    Args:
        offsets, tile_lists, tile_starts: the documents of a program, as in `tile_of_program`.
        s_ptr, f_ptr, out: scores, factors and the sums, one per document.
        KIND, ROWS, COLUMNS: the function; documents of a program, and others at a time.
    """
    _, start, n, _, i, is_row = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    s_i = tl.load(s_ptr + start + i, is_row, 0.0)[:, None]
    f_i = tl.load(f_ptr + start + i, is_row, 0.0)[:, None]
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for j0 in range(0, n, COLUMNS):
        j = j0 + tl.arange(0, COLUMNS)
        d = tl.load(s_ptr + start + j, j < n, 0.0)[None, :] - s_i
        f_j = tl.load(f_ptr + start + j, j < n, 0.0)[None, :]
        x = tl.exp(-tl.abs(d))
        if KIND == "chance":
            term = tl.where(d >= 0, 1.0, x) / (1.0 + x)
        elif KIND == "slope":
            term = (f_j - f_i) * x / ((1.0 + x) * (1.0 + x))
        elif KIND == "distance":
            term = tl.abs(d)
        else:
            term = tl.where(d < 0, f_j, tl.where(d > 0, -f_j, 0.0))
        total += tl.where((j < n)[None, :], term, 0.0)
    tl.store(out + start + i, tl.sum(total, 1), is_row)


class DeviceSmoothNDCG(DeviceObjective):
    """ApproxNDCG or NeuralNDCG bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: not used: nothing is drawn.
    """

    def __init__(self, loss: SmoothNDCG, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        # One per rank of the longest list, 0 beyond the cutoff; `_discounts` ends at the cutoff.
        discounts = discount_values(max(lists.longest_length, 1), "log2", loss.k)
        self._discounts = discounts[: loss.k]
        gains = device_gains(lists.arranged_labels, loss.gain)
        arranged_gains = lists.normalise_gains(gains, lists.to_device(discounts)).double()

        # From the order of the arrangement to that of the documents.
        flat_gains = torch.empty_like(arranged_gains)
        self._gains = flat_gains.index_put_((lists.arrangement,), arranged_gains)
        self._scale = lists.weights_where_any(arranged_gains).double()

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return the loss of each list, its weight times one minus a smooth NDCG, and the loss's
        derivative by each score.
        """
        temperature = self.loss.temperature
        scaled_scores = scores.double() / temperature
        if isinstance(self.loss, NeuralNDCG):
            ndcg, gradient = self._ndcg_of_sorted_gains(scaled_scores)
        else:
            ndcg, gradient = self._ndcg_of_approximate_ranks(scaled_scores)
        # `_scale`: the weight of each list, 0 without gains. The gradient is by the scaled scores.
        values = self._scale * (1.0 - ndcg)
        factor = self._scale / temperature
        gradient = factor[self.lists.query] * gradient
        return values.to(scores.dtype), gradient.to(scores.dtype)

    def _sum_over_pairs(self, scores: Tensor, kind: str, factors: Tensor | None = None) -> Tensor:
        """Return for each document the sum, over all documents of its list, of a function of the
        two scores; ``kind`` names the function, one of those of `_row_sums_kernel`.

        Args:
            scores: one per document.
            kind: the function.
            factors: one per document, where the function needs them.
        """
        pair_sums = torch.empty_like(scores)
        # A kernel needs an array even if it does not look at it.
        given_factors = scores if factors is None else factors
        self.lists.run_per_tile(
            _row_sums_kernel, scores, given_factors, pair_sums, kind, ROWS, COLUMNS
        )
        return pair_sums

    def _ndcg_of_approximate_ranks(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the NDCG of each list with approximate ranks (ApproxNDCG), and the derivative of
        one minus it by each score.

        The approximate rank of document ``i``, from 1, is 1/2 plus the sum of the logistic function
        of ``s_j - s_i`` over all documents ``j``: the document itself adds the other 1/2.

        Args:
            scores: one per document, divided by the temperature.
        """
        # 1.5: the 1/2 of the approximate rank, and the 1 of NDCG's discount, 1 / log2(1 + rank).
        log_of_rank_plus_1 = torch.log(1.5 + self._sum_over_pairs(scores, "chance"))
        discounted_gains = self._gains * math.log(2.0) / log_of_rank_plus_1
        # The discounted gain is ``G log(2) / log(1 + rank)``; its derivative by the rank is, but
        # for the sign, that over ``log(1 + rank) (1 + rank)``. exp(-log) is 1 / (1 + rank).
        slopes = discounted_gains / log_of_rank_plus_1 * torch.exp(-log_of_rank_plus_1)
        return self.lists.sums(discounted_gains), self._sum_over_pairs(scores, "slope", slopes)

    def _ndcg_of_sorted_gains(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return the NDCG of each list with approximately sorted gains (NeuralNDCG), and the
        derivative of one minus it by each score.

        The gain at rank ``i`` is a mean over the documents ``j`` with the probabilities
        ``softmax_j((n - 1 - 2 i) s_j - sum_k |s_j - s_k|)``, which is NeuralSort.

        Args:
            scores: one per document, divided by the temperature.
        """
        lists, gains = self.lists, self._gains
        distances = self._sum_over_pairs(scores, "distance")
        # How many more documents have a lower score than have a higher one.
        surplus = self._sum_over_pairs(scores, "sign", torch.ones_like(scores))
        ndcg = torch.zeros_like(self._scale)
        gradient = torch.zeros_like(scores)
        by_distance = torch.zeros_like(scores)
        for rank, discount in enumerate(self._discounts):
            factor = (lists.sizes - 1.0 - 2.0 * rank)[lists.query]
            logits = factor * scores - distances
            exponentials = torch.exp(logits - lists.maxima(logits)[lists.query])
            divisors = lists.sums(exponentials).clamp(min=1.0)
            gain_at_rank = lists.sums(exponentials * gains) / divisors
            weight = (rank < lists.sizes).double() * float(discount)
            ndcg += weight * gain_at_rank

            # The derivative of one minus NDCG by the logits, then by the scores.
            missing_gains = gain_at_rank[lists.query] - gains
            by_logit = (weight / divisors)[lists.query] * exponentials * missing_gains
            by_distance -= by_logit
            gradient += by_logit * (factor - surplus)
        return ndcg, gradient + self._sum_over_pairs(scores, "sign", by_distance)
