"""Metrics of a reader who goes down the list and stops: ERR, MRR and success, and their exact means
over ties.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tautrank.arguments import checked_by, real
from tautrank.arrays import F64, I64, Numbers, check_each
from tautrank.errors import OptionError
from tautrank.metrics.base import register
from tautrank.metrics.gains import Discount, gain_values
from tautrank.metrics.ordering import TieGroups, of_similar_width
from tautrank.metrics.ranked import BinaryMetric, RankedMetric

# Documents that a reader reaches with a smaller chance than this change no digit of a float64.
_NEGLIGIBLE_CHANCE = 1e-20
_LARGEST_MAX_LABEL = 1000


class _FirstRelevant(BinaryMetric):
    """What the rank of the first relevant document is worth; 0 when it stands below ``k``."""

    # A reader who stops at the first relevant document, see `tautrank.metrics.ranked`.
    stops: ClassVar[bool] = True

    @abstractmethod
    def _earned(self, chances: F64, ranks: F64) -> F64:
        """Return the chances that the first relevant document is at these ranks, times what they
        are worth.
        """

    def _value_in_order(self, values: F64) -> F64:
        found = values > 0
        first = found.argmax(axis=1)
        hit = found[np.arange(first.size), first]
        return self._earned(hit.astype(np.float64), first + 1.0)

    def _expected_value(self, groups: TieGroups) -> F64:
        rows, width = groups.values.shape
        relevant = groups.sums(groups.values)
        above = groups.positions()
        # Only the first tie that holds a relevant document matters; np.unique keeps the first of
        # each row.
        hits = np.flatnonzero((relevant > 0) & (above < self._depth(width)))
        of_row, first = np.unique(groups.rows()[hits], return_index=True)
        hits = hits[first]
        a, t, r = above[hits], groups.sizes[hits], relevant[hits]
        # The first relevant document is among the first t - r + 1 of the tie.
        terms = np.minimum(t - r.astype(np.int64) + 1, self._depth(width) - a)
        worth = np.zeros(rows)
        for chunk, n in of_similar_width(terms):
            x = np.arange(1.0, n + 1)
            size, good = t[chunk, None].astype(np.float64), r[chunk, None]
            left = size - x + 1
            # Chance that x is not relevant given that none above it was; 0 from x = t - r + 1 on.
            miss = np.maximum(left - good, 0.0) / np.maximum(left, 1.0)
            reach = np.cumprod(miss, axis=1)
            reach = np.concatenate([np.ones((chunk.size, 1)), reach[:, :-1]], axis=1)
            at = self._earned(reach * good / np.maximum(left, 1.0), a[chunk, None] + x)
            worth[of_row[chunk]] = np.where(x <= terms[chunk, None], at, 0.0).sum(axis=1)
        return worth


@register("mrr", "rr", "recip_rank", "reciprocal_rank")
class MRR(_FirstRelevant):
    """Reciprocal rank: one over the rank of the first relevant document; 0 when it stands below
    ``k``.

    ``RR@k = 1 / min {r : rel_r}`` if that rank is at most ``k``, else 0.

    Voorhees, *The TREC-8 Question Answering Track Report*, TREC 1999; expected ties: McSherry and
    Najork, ECIR 2008. Empty: no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> MRR().per_query([3.0, 2.0, 1.0], [0, 1, 1], [0, 3])
    array([0.5])
    >>> MRR(ties="expected").per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.75])
    """

    discount: ClassVar[Discount] = "reciprocal"

    def _earned(self, chances: F64, ranks: F64) -> F64:
        return chances / ranks


@register("success", "hit", "hit_rate", "hit-rate", "hitrate")
class Success(_FirstRelevant):
    """Success, or hit rate: whether one of the first ``k`` documents is relevant.

    ``success@k = 1`` if a document of the ranks 1 to ``k`` is relevant, else 0; without ``k``, of
    those retrieved.

    trec_eval's ``success``; Craswell and Hawking, *Overview of the TREC 2004 Web Track*, TREC 2004.
    Expected ties: the chance that the tied documents that fit into the first ``k`` ranks hold a
    relevant one. Empty: no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> Success(k=1).per_query([3.0, 2.0, 1.0], [0, 1, 1]), Success(k=2).per_query([3.0, 2.0, 1.0], [0, 1, 1])
    (array([0.]), array([1.]))
    >>> Success(k=1, ties="expected").per_query([0.0, 0.0, 0.0], [1, 0, 1])
    array([0.66666667])
    """

    @property
    def discount(self) -> tuple[float, ...]:
        """The worth of the ranks."""
        if self.k is None:
            found = "success without a cutoff, which no ranking changes"
            raise OptionError(f"metric: found {found}; expected a cutoff, such as success@10")
        return (1.0,) * self.k

    def _earned(self, chances: F64, ranks: F64) -> F64:
        return chances


@register("err")
@dataclass(frozen=True, repr=False)
class ERR(RankedMetric):
    """Expected reciprocal rank: one over the rank where a reader stops, on average; good documents
    make readers stop.

    ``ERR@k = sum_{r <= k} (1/r) R_r prod_{j < r} (1 - R_j)``, with ``R = (2^y - 1) / 2^max_label``.

    Chapelle et al., *Expected Reciprocal Rank for Graded Relevance*, CIKM 2009. Empty: no positive
    label. A label above ``max_label`` is an error.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        max_label: the highest label of the scale.

    >>> ERR(max_label=1).per_query([2.0, 1.0], [1, 1], [0, 2])
    array([0.625])
    >>> ERR(ties="expected", max_label=1).per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.375])
    """

    # A reader who stops at a document with the chance ``R``.
    stops: ClassVar[bool] = True
    discount: ClassVar[Discount] = "reciprocal"

    max_label: float = field(
        default=4.0, metadata=checked_by(real, above=True, most=_LARGEST_MAX_LABEL)
    )

    def _document_values(self, labels: Numbers) -> F64:
        expected = f"at most err's max_label = {self.max_label:g}, the highest label of the scale"
        check_each("labels", labels, labels <= self.max_label, expected)
        return np.asarray(gain_values(labels) / 2.0**self.max_label)

    def _value_in_order(self, values: F64) -> F64:
        at = values / np.arange(1, values.shape[1] + 1)
        at[:, 1:] *= np.cumprod(1.0 - values[:, :-1], axis=1)
        return np.asarray(at.sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        depth = self._depth(groups.values.shape[1])
        above = groups.positions()
        reach = np.ones_like(groups.values)
        np.cumprod(1.0 - groups.values[:, :-1], axis=1, out=reach[:, 1:])
        # A tie of one is its value; larger ones with something to find are computed below.
        stop = groups.sums(groups.values)
        worth = np.where((groups.sizes == 1) & (above < depth), stop / (above + 1.0), 0.0)
        open_ties = np.flatnonzero((groups.sizes > 1) & (stop > 0) & (above < depth))
        if open_ties.size:
            worth[open_ties] = _expected_stop(groups, open_ties, above[open_ties], depth)
        return groups.row_sums(worth * reach.ravel()[groups.starts])


def _expected_stop(groups: TieGroups, which: I64, above: I64, depth: int) -> F64:
    """For each tie, the mean of ``sum_x R_x prod_{j < x} (1 - R_j) / (above + x)`` over its orders.

    Let ``p_m`` be the mean chance to pass the first m documents and ``d_m`` that to pass m - 1 and
    stop at the m-th. Adding a document (R, q = 1 - R) to a tie of n - 1, it is, in a random order,
    absent from the first m with chance (n-m)/n, at each of those places with chance 1/n, so

        p_m <- (n-m)/n p_m + m/n q p_{m-1}
        d_m <- (n-m)/n d_m + (m-1)/n q d_{m-1} + 1/n R p_{m-1}

    where nothing is subtracted, so no digits are lost. Documents with R = 0 need no step: with them
    alone p = 1, d = 0.
    """
    size = groups.sizes[which]
    # Documents with R > 0, tie after tie, the ties side by side in one flat array.
    number = np.full(groups.sizes.size, -1)
    number[which] = np.arange(which.size)
    tie_of = np.repeat(number, groups.sizes)
    kept = (tie_of >= 0) & (groups.values.ravel() > 0)
    stops, tie_of = groups.values.ravel()[kept], tie_of[kept]
    steps = np.bincount(tie_of, minlength=which.size)
    begin = np.cumsum(steps) - steps

    # By Maclaurin's inequality p_m <= (mean of q)^m, so the tail beyond some m cannot be seen.
    mean_stop = np.bincount(tie_of, weights=stops, minlength=which.size) / size
    with np.errstate(over="ignore"):
        seen = np.log(_NEGLIGIBLE_CHANCE) / np.log1p(-mean_stop)
    terms = np.minimum(
        np.minimum(size, depth - above), np.ceil(np.minimum(seen, size)).astype(np.int64) + 1
    )

    worth = np.zeros(which.size)
    for chunk, n in of_similar_width(terms):
        # Most steps first: the ties that are still growing are always the first rows.
        chunk = chunk[np.argsort(-steps[chunk], kind="stable")]
        todo = steps[chunk]
        plain = (size[chunk] - todo).astype(np.float64)[:, None]
        m = np.arange(n + 1.0)
        passed = (m <= plain).astype(np.float64)
        stopped = np.zeros_like(passed)
        for step in range(int(todo[0])):
            growing = int(np.searchsorted(-todo, -step))
            total = plain[:growing] + (step + 1)
            found = stops[begin[chunk[:growing]] + step][:, None] / total
            miss = 1.0 / total - found
            # Beyond as many places as there are documents so far, p and d are 0 and stay so.
            last = min(n, int(total.max()))
            p, d = passed[:growing, : last + 1], stopped[:growing, : last + 1]
            absent = (total - m[1 : last + 1]) / total
            d[:, 1:] = d[:, 1:] * absent + (d[:, :-1] * m[:last] * miss + p[:, :-1] * found)
            p[:, 1:] = p[:, 1:] * absent + p[:, :-1] * m[1 : last + 1] * miss
        x = m[1:]
        at = stopped[:, 1:] / (above[chunk, None] + x)
        worth[chunk] = np.where(x <= terms[chunk, None], at, 0.0).sum(axis=1)
    return worth
