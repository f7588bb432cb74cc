"""NDCG made smooth on a CUDA device; `tautrank.losses.softrank` and `smooth_ndcg` have the
formulas.

There are gradients, but no hessians, which only a booster needs. A program of SoftRank takes a few
documents and plays their contests with every document of the list. What the contests pass on to the
other documents is written as one row per program and added up in a fixed order afterwards. The sums
of ApproxNDCG and NeuralNDCG are float64.
"""

from __future__ import annotations

import math

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
_ROOM = 2**27
_GROUP = 4  # terms of a sum of powers come in groups of this many, as in memory


@triton.jit
def _contest(other, own, itself, units):
    """The probability of losing against another document, and its derivative by the score; 0
    against oneself.
    """
    x = (other - own) * tl.load(units)
    return tl.where(itself, 0.0, 0.5 * libdevice.erfc(-x)), tl.where(
        itself, 0.0, tl.load(units + 1) * tl.exp(-x * x)
    )


@triton.jit
def _power_kernel(
    offsets,
    tile_lists,
    tile_starts,
    s_ptr,
    u_ptr,
    places,
    gaps,
    coefficients,
    reach,
    rows_of_reach,
    units,
    expected,
    own,
    passed,
    DERIVE: tl.constexpr,
    TERMS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Expected discounts and slopes where the discount is a sum of powers."""
    program = tl.program_id(0)
    _, start, n, _, i, live = tile_of_program(program, offsets, tile_lists, tile_starts, ROWS)
    s = tl.load(s_ptr + start + i, live, 0.0)
    row = 0
    for row_of_reach in range(rows_of_reach):
        row += (tl.load(reach + row_of_reach) < n).to(tl.int32)
    term = tl.arange(0, TERMS)
    gap = tl.load(gaps + row * TERMS + term)[None, :]
    product = tl.full([ROWS, TERMS], 1.0, s_ptr.dtype.element_ty)
    for m in range(n):
        lost = _contest(tl.load(s_ptr + start + m), s, i == m, units)[0]
        product *= 1.0 - lost[:, None] * gap
    product *= tl.load(coefficients + row * TERMS + term)[None, :]
    tl.store(expected + start + i, tl.sum(product, 1), live)
    if DERIVE:
        u = tl.load(u_ptr + start + i, live, 0.0)
        row_of_passed = passed + tl.load(places + program)
        product *= gap
        g = s * 0.0
        for m in range(n):
            lost, density = _contest(tl.load(s_ptr + start + m), s, i == m, units)
            pull = -u * density * tl.sum(product / (1.0 - lost[:, None] * gap), 1)
            g += pull
            tl.store(row_of_passed + m, tl.sum(pull, 0))
        tl.store(own + start + i, g, live)


@triton.jit
def _recursion_kernel(
    offsets,
    tile_lists,
    tile_starts,
    s_ptr,
    u_ptr,
    first_program,
    places,
    discount,
    depth,
    units,
    states,
    state_places,
    expected,
    own,
    passed,
    DERIVE: tl.constexpr,
    RANKS: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Expected discounts and slopes by recursion over the contests, and back."""
    program = first_program + tl.program_id(0)
    _, start, n, _, i, live = tile_of_program(program, offsets, tile_lists, tile_starts, ROWS)
    s = tl.load(s_ptr + start + i, live, 0.0)
    r = tl.arange(0, RANKS)[None, :] + tl.zeros([ROWS, 1], tl.int32)
    cell = tl.arange(0, ROWS)[:, None] * RANKS + r
    kept = states + tl.load(state_places + program) - tl.load(state_places + first_program)
    p = tl.where(r == 0, 1.0, 0.0).to(s_ptr.dtype.element_ty)
    for m in range(n):
        if DERIVE:
            tl.store(kept + m * (ROWS * RANKS) + cell, p)
        lost = _contest(tl.load(s_ptr + start + m), s, i == m, units)[0]
        before = tl.where(r == 0, 0.0, tl.gather(p, tl.maximum(r - 1, 0), 1))
        p += lost[:, None] * (before - p)
    a = tl.load(discount + r, r < depth, 0.0)
    tl.store(expected + start + i, tl.sum(p * a, 1), live)
    if DERIVE:
        u = tl.load(u_ptr + start + i, live, 0.0)
        row_of_passed = passed + tl.load(places + program)
        g = s * 0.0
        for back in range(n):
            m = n - 1 - back
            lost, density = _contest(tl.load(s_ptr + start + m), s, i == m, units)
            p = tl.load(kept + m * (ROWS * RANKS) + cell)
            d = tl.where(r == RANKS - 1, 0.0, tl.gather(a, tl.minimum(r + 1, RANKS - 1), 1)) - a
            pull = u * density * tl.sum(p * d, 1)
            a += lost[:, None] * d
            g += pull
            tl.store(row_of_passed + m, tl.sum(pull, 0))
        tl.store(own + start + i, g, live)


@triton.jit
def _collect_kernel(
    offsets, tile_lists, tile_starts, own, passed, places, target, scale, grad, ROWS: tl.constexpr
):
    """The gradient: what a document's own ranks give, less what the programs of its list pass on to
    it.
    """
    query, start, _, _, i, live = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    total = tl.load(own + start + i, live, 0.0)
    for program in range(tl.load(tile_starts + query), tl.load(tile_starts + query + 1)):
        total -= tl.load(passed + tl.load(places + program) + i, live, 0.0)
    tl.store(grad + tl.load(target + start + i, live, 0), total * tl.load(scale + query), live)


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
        labels = lists.labels
        longest = max(lists.longest_length, 1)
        ideal = lists.to_device(discount_values(longest, loss.discount, loss.k))
        self._gains = lists.normalise_gains(device_gains(lists.arranged_labels, loss.gain), ideal)
        self._scale = lists.weights_where_any(self._gains)
        half = 0.5 / loss.sigma
        self._units = lists.to_device(np.array([half, half / math.sqrt(math.pi)]))
        self._by_powers = loss.k is None and isinstance(loss.discount, str)
        if self._by_powers:
            kind = np.dtype(str(labels.dtype).removeprefix("torch."))
            gaps, coefficients, _, reach = power_tables(
                longest, str(loss.discount), TOLERANCE[kind], _GROUP
            )
            self._terms = max(4, 2 ** math.ceil(math.log2(gaps.shape[1])))
            wide = ((0, 0), (0, self._terms - gaps.shape[1]))
            self._gaps, self._coefficients = (
                lists.to_device(np.pad(gaps, wide)),
                lists.to_device(np.pad(coefficients, wide)),
            )
            self._reach = torch.from_numpy(reach).to(labels.device)
        else:
            depth = longest if loss.k is None else min(loss.k, longest)
            trimmed = np.trim_zeros(discount_values(depth, loss.discount), "b")
            self._depth = trimmed.size
            self._ranks = max(2, 2 ** math.ceil(math.log2(max(trimmed.size, 1))))
            self._discount = lists.to_device(trimmed)

    def gradients(self, scores: Tensor, step: int) -> tuple[Tensor, None]:
        """Return the gradient, one per document."""
        lists = self.lists
        _, _, by_own_score, passed, places, target = self._run(scores, derive=True)
        grad = torch.zeros_like(scores)
        lists.run_per_tile(
            _collect_kernel, by_own_score, passed, places, target, self._scale, grad, ROWS
        )
        return grad, None

    def values(self, scores: Tensor, step: int) -> Tensor:
        """Return the value of each list."""
        lists = self.lists
        if (
            self._by_powers and scores.dtype != torch.float64
        ):  # terms cancel each other: in float64, as in memory
            exact = DeviceLists(lists.labels.double(), lists.offsets, lists.weights)
            return (
                DeviceSoftRank(self.loss, exact, 0).values(scores.double(), step).to(scores.dtype)
            )
        gains, expected = self._run(scores, derive=False)[:2]
        return self._scale * (1.0 - lists.sums(gains * expected))

    def _run(self, scores: Tensor, derive: bool) -> tuple[Tensor, ...]:
        """Return gains, expected discounts, and what the gradient is made of, by rank."""
        lists = self.lists
        by_rank, gains, target = lists.rank(scores, self._gains)
        tile_lists, starts, n_programs = lists.tiles
        # One row per program, as long as its list; the programs beyond the last have none.
        programs = torch.arange(n_programs, device=scores.device)
        lengths = torch.where(programs < starts[-1], lists.sizes[tile_lists], 0)
        places = torch.cumsum(lengths, 0) - lengths
        passed = torch.empty(
            int(lengths.sum()) if derive else 0, dtype=scores.dtype, device=scores.device
        )
        expected, by_own_score = torch.zeros_like(scores), torch.zeros_like(scores)
        results = (expected, by_own_score, passed, derive)
        if self._by_powers:
            lists.run_per_tile(
                _power_kernel,
                by_rank,
                gains,
                places,
                self._gaps,
                self._coefficients,
                self._reach,
                self._reach.numel(),
                self._units,
                *results,
                self._terms,
                ROWS,
            )
            return gains, expected, by_own_score, passed, places, target
        size = ROWS * self._ranks
        ends = ((places + lengths) * size).cpu().numpy()
        first, last, before = 0, int(starts[-1]), 0
        while first < last:
            stop = max(first + 1, int(np.searchsorted(ends[:last], before + _ROOM, side="right")))
            room = int(ends[stop - 1]) - before if derive else 0
            states = torch.empty(room, dtype=scores.dtype, device=scores.device)
            _recursion_kernel[(stop - first,)](
                lists.offsets,
                tile_lists,
                starts,
                by_rank,
                gains,
                first,
                places,
                self._discount,
                self._depth,
                self._units,
                states,
                places * size,
                *results,
                self._ranks,
                ROWS,
                num_warps=max(1, min(8, self._ranks // 16)),
            )
            first, before = stop, int(ends[stop - 1])
        return gains, expected, by_own_score, passed, places, target


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
    """Sum a function of ``d = s_j - s_i`` over the documents ``j`` of the list of ``i``: the
    logistic function, its derivative times ``f_j - f_i``, the distance, or ``f_j`` with the sign of
    ``-d``."""
    _, start, n, _, i, live = tile_of_program(
        tl.program_id(0), offsets, tile_lists, tile_starts, ROWS
    )
    s_i = tl.load(s_ptr + start + i, live, 0.0)[:, None]
    f = tl.load(f_ptr + start + i, live, 0.0)[:, None]
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for j0 in range(0, n, COLUMNS):
        j = j0 + tl.arange(0, COLUMNS)
        d = tl.load(s_ptr + start + j, j < n, 0.0)[None, :] - s_i
        fj = tl.load(f_ptr + start + j, j < n, 0.0)[None, :]
        x = tl.exp(-tl.abs(d))
        if KIND == "chance":
            part = tl.where(d >= 0, 1.0, x) / (1.0 + x)
        elif KIND == "slope":
            part = (fj - f) * x / ((1.0 + x) * (1.0 + x))
        elif KIND == "distance":
            part = tl.abs(d)
        else:
            part = tl.where(d < 0, fj, tl.where(d > 0, -fj, 0.0))
        total += tl.where((j < n)[None, :], part, 0.0)
    tl.store(out + start + i, tl.sum(total, 1), live)


class DeviceSmoothNDCG(DeviceObjective):
    """ApproxNDCG or NeuralNDCG bound to lists on a device.

    Args:
        loss: the loss.
        lists: the lists.
        seed: not used: nothing is drawn.
    """

    def __init__(self, loss: SmoothNDCG, lists: DeviceLists, seed: int) -> None:
        super().__init__(loss, lists, seed)
        discounts = discount_values(max(lists.longest_length, 1), "log2", loss.k)
        self._discounts = discounts[: loss.k]
        arranged = lists.normalise_gains(
            device_gains(lists.arranged_labels, loss.gain), lists.to_device(discounts)
        ).double()
        self._gains = torch.empty_like(arranged).index_put_((lists.arrangement,), arranged)
        self._scale = lists.weights_where_any(arranged).double()

    def values_and_gradient(self, scores: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return values and gradient."""
        part = self._sorted if isinstance(self.loss, NeuralNDCG) else self._ranked
        value, grad = part(scores.double() / self.loss.temperature)
        scale = self._scale / self.loss.temperature
        values = self._scale * (1.0 - value)
        gradient = scale[self.lists.query] * grad
        return values.to(scores.dtype), gradient.to(scores.dtype)

    def _row_sums(self, s: Tensor, kind: str, f: Tensor | None = None) -> Tensor:
        """Return a sum over the list per document; the kinds are those of `_row_sums_kernel`."""
        out = torch.empty_like(s)
        self.lists.run_per_tile(
            _row_sums_kernel, s, s if f is None else f, out, kind, ROWS, COLUMNS
        )
        return out

    def _ranked(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """NDCG of the approximate ranks, and what one minus it changes by, with the scores in units
        of T.
        """
        # The sum holds 1/2 for the document itself: this is the logarithm of its rank plus 1.
        log = torch.log(1.5 + self._row_sums(s, "chance"))
        worth = self._gains * math.log(2.0) / log
        return self.lists.sums(worth), self._row_sums(s, "slope", worth / log * torch.exp(-log))

    def _sorted(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """The same for the gains that are sorted approximately, rank by rank."""
        lists, gains = self.lists, self._gains
        distance = self._row_sums(s, "distance")
        surplus = self._row_sums(s, "sign", torch.ones_like(s))
        value = torch.zeros_like(self._scale)
        grad = torch.zeros_like(s)
        b = torch.zeros_like(s)
        for i, discount in enumerate(self._discounts):
            factor = (lists.sizes - 1.0 - 2.0 * i)[lists.query]
            logits = factor * s - distance
            p = torch.exp(logits - lists.maxima(logits)[lists.query])
            total = lists.sums(p).clamp(min=1.0)
            gain = lists.sums(p * gains) / total
            weight = (i < lists.sizes).double() * float(discount)
            value += weight * gain
            a = (weight / total)[lists.query] * p * (gain[lists.query] - gains)
            b -= a
            grad += a * (factor - surplus)
        return value, grad + self._row_sums(s, "sign", b)
