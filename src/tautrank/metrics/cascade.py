"""Metrics of a reader who goes down the list and stops: ERR, MRR and success, and their exact means
over ties.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

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
    def _weigh_by_rank(self, chances: F64, ranks: F64) -> F64:
        """Return each chance that the first relevant document is at a rank, times the value of the
        metric for that rank.
        """

    def _value_in_order(self, values: F64) -> F64:
        """Return the metric of each list from the rank of its first relevant document; 0 without
        one.

        Args:
            values: a row per list: 1 for a relevant document and 0 otherwise, best score first.
        """
        is_relevant = values > 0
        first_relevant = is_relevant.argmax(axis=1)  # 0 without a relevant document
        # 1 or 0: whether there is a first relevant document, whose rank is then weighed.
        chances = np.asarray(is_relevant.any(axis=1), np.float64)
        return self._weigh_by_rank(chances, first_relevant + 1.0)

    def _expected_value(self, groups: TieGroups) -> F64:
        """Return the metric of each list from the rank of its first relevant document, the mean
        over the orders of tied documents.

        Args:
            groups: the lists as rows, cut into groups of documents with equal scores.
        """
        n_rows, width = groups.values.shape
        depth = self._depth(width)
        n_relevant = groups.sums(groups.values)
        n_above = groups.positions()  # documents of its list above each group

        # Only the first tie of a row that holds a relevant document matters: np.unique keeps it.
        # Groups are in rank order, and `depth` is the number of ranks that count.
        with_relevant = np.flatnonzero((n_relevant > 0) & (n_above < depth))
        rows, first_of_row = np.unique(groups.rows()[with_relevant], return_index=True)
        ties = with_relevant[first_of_row]

        values = np.zeros(n_rows)
        values[rows] = self._expected_in_ties(
            n_above[ties], groups.sizes[ties], n_relevant[ties], depth
        )
        return values

    def _expected_in_ties(self, n_above: I64, sizes: I64, n_relevant: F64, depth: int) -> F64:
        """Return the metric of the first relevant document of each tie, the mean over the orders
        of its documents.

        In a random order of ``t`` documents, ``r`` of them relevant, the first relevant one is at
        place ``x`` of the tie with the chance ``r / (t - x + 1)`` times the chances that every
        place ``y`` before it holds an irrelevant one, each ``(t - r - y + 1) / (t - y + 1)``.

        Args:
            n_above: number of documents above each tie.
            sizes: number of documents of each tie, ``t``.
            n_relevant: number of relevant documents of each tie, ``r``.
            depth: number of ranks that matter.
        """
        # The first relevant document is at one of the first t - r + 1 places of the tie.
        n_possible = sizes - n_relevant.astype(np.int64) + 1
        n_places = np.minimum(n_possible, depth - n_above)
        expected = np.zeros(sizes.size)
        for ties, width in of_similar_width(n_places):
            place = np.arange(1.0, width + 1)
            r = n_relevant[ties, None]
            t = sizes[ties, None].astype(np.float64)
            n_left = t - place + 1
            divisor = np.maximum(n_left, 1.0)
            # 0 from place t - r + 1 on.
            chance_irrelevant = np.maximum(n_left - r, 0.0) / divisor
            chance_none_before = np.ones_like(chance_irrelevant)
            np.cumprod(chance_irrelevant[:, :-1], axis=1, out=chance_none_before[:, 1:])

            chance_first = chance_none_before * r / divisor
            values = self._weigh_by_rank(chance_first, n_above[ties, None] + place)
            is_possible = place <= n_places[ties, None]
            expected[ties] = np.where(is_possible, values, 0.0).sum(axis=1)
        return expected


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

    def _weigh_by_rank(self, chances: F64, ranks: F64) -> F64:
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

    >>> Success(k=1).per_query([3.0, 2.0, 1.0], [0, 1, 1])
    array([0.])
    >>> Success(k=2).per_query([3.0, 2.0, 1.0], [0, 1, 1])
    array([1.])
    >>> Success(k=1, ties="expected").per_query([0.0, 0.0, 0.0], [1, 0, 1])
    array([0.66666667])
    """

    @property
    def discount(self) -> tuple[float, ...]:
        """The worth of the ranks."""
        if self.k is None:
            raise OptionError(
                "metric: found success without a cutoff, which no ranking changes; expected a"
                " cutoff, such as success@10"
            )
        return (1.0,) * self.k

    def _weigh_by_rank(self, chances: F64, ranks: F64) -> F64:
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
        """Return ``ERR = sum_r (1/r) R_r prod_{j < r} (1 - R_j)`` of each list.

        Args:
            values: a row per list: the chance ``R`` that the reader stops at a document, by rank.
        """
        ranks = np.arange(1, values.shape[1] + 1)
        terms = values / ranks
        # The reader surely reaches the first rank, and each later one past all documents above it.
        chance_to_reach = np.cumprod(1.0 - values[:, :-1], axis=1)
        terms[:, 1:] *= chance_to_reach
        return np.asarray(terms.sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        """Return ERR of each list, the mean over the orders of tied documents.

        The chance to reach a tie does not depend on the orders inside the ties above it, so each
        tie adds that chance times what its own documents are worth to a reader who reaches it.

        Args:
            groups: the lists as rows, cut into groups of documents with equal scores; a document's
                value is the chance that the reader stops at it.
        """
        depth = self._depth(groups.values.shape[1])  # number of ranks that count
        n_above = groups.positions()  # documents of its list above each group
        sum_of_stops = groups.sums(groups.values)
        is_counted = n_above < depth

        # A document without an equal is a group of one: its term is R / rank.
        is_single = groups.sizes == 1
        value_if_single = sum_of_stops / (n_above + 1.0)
        group_values = np.where(is_single & is_counted, value_if_single, 0.0)
        # Ties of several documents, at least one of which may stop the reader.
        ties = np.flatnonzero(~is_single & is_counted & (sum_of_stops > 0))
        if ties.size:
            group_values[ties] = _expected_err_in_ties(_StoppingTies.of(groups, ties), depth)

        # The chance to pass all documents above each rank; 1 for the first one.
        chance_to_reach = np.ones_like(groups.values)
        np.cumprod(1.0 - groups.values[:, :-1], axis=1, out=chance_to_reach[:, 1:])
        reach_of_group = chance_to_reach.ravel()[groups.starts]
        return groups.row_sums(group_values * reach_of_group)


class _StoppingTies(NamedTuple):
    """Ties (documents with equal scores) in which some document may stop the reader.

    Args:
        n_above: number of documents above each tie.
        sizes: number of documents of each tie.
        stops: chances ``R`` above 0 of the documents, tie after tie.
        n_stops: number of those documents in each tie.
        first_stop: where the chances of each tie begin in ``stops``.
        mean_stop: mean of ``R`` over all documents of each tie.
    """

    n_above: I64
    sizes: I64
    stops: F64
    n_stops: I64
    first_stop: I64
    mean_stop: F64

    @classmethod
    def of(cls, groups: TieGroups, ties: I64) -> _StoppingTies:
        """Gather, from some groups of documents with equal scores (ties), the documents at which
        the reader stops with a chance above 0; return these chances tie after tie, with sizes and
        means.

        Args:
            groups: all tie groups; a document's value is the chance that the reader stops at it.
            ties: the numbers of the groups to take.
        """
        tie_of_group = np.full(groups.sizes.size, -1)  # -1: not taken
        tie_of_group[ties] = np.arange(ties.size)
        tie_of_document = np.repeat(tie_of_group, groups.sizes)
        all_stops = groups.values.ravel()
        may_stop = (tie_of_document >= 0) & (all_stops > 0)

        stops = all_stops[may_stop]
        tie_of_stop = tie_of_document[may_stop]
        sizes = groups.sizes[ties]
        n_stops = np.bincount(tie_of_stop, minlength=ties.size)
        sum_of_stops = np.bincount(tie_of_stop, weights=stops, minlength=ties.size)
        return cls(
            n_above=groups.positions()[ties],
            sizes=sizes,
            stops=stops,
            n_stops=n_stops,
            first_stop=np.cumsum(n_stops) - n_stops,  # number of chances of the ties before
            mean_stop=sum_of_stops / sizes,
        )

    def n_places(self, depth: int) -> I64:
        """Return how many places of each tie count: those within the first ``depth`` ranks that a
        reader reaches with a chance large enough to change a float64.
        """
        # By Maclaurin's inequality the chance to pass m documents, the mean over orders of a tie,
        # is at most (1 - mean_stop)^m: solved for m where it becomes negligible.
        with np.errstate(over="ignore"):
            log_of_pass = np.log1p(-self.mean_stop)
            m_of_negligible = np.log(_NEGLIGIBLE_CHANCE) / log_of_pass
        last_reached = np.ceil(np.minimum(m_of_negligible, self.sizes))
        n_reached: I64 = last_reached.astype(np.int64) + 1
        n_at_ranks = np.minimum(self.sizes, depth - self.n_above)
        return np.minimum(n_at_ranks, n_reached).astype(np.int64)


def _expected_err_in_ties(ties: _StoppingTies, depth: int) -> F64:
    """Return what each tie (group of documents with equal scores) adds to ERR for a reader who
    reaches it, the mean over the orders of its documents.

    This is ``sum_x R_x prod_{j < x} (1 - R_j) / (n_above + x)`` over the places ``x`` of the tie,
    where ``R_x`` is the chance that the reader stops at the document there, and ``n_above`` the
    number of documents above the tie.

    Args:
        ties: the ties, with the chances of those documents that may stop the reader.
        depth: number of ranks that count.
    """
    n_places = ties.n_places(depth)
    # Ties of similar width are computed together, as the rows of a matrix.
    expected = np.zeros(ties.sizes.size)
    for chunk, width in of_similar_width(n_places):
        # Most documents first: the ties that still get one are always the first rows.
        most_stops_first = np.argsort(-ties.n_stops[chunk], kind="stable")
        rows = chunk[most_stops_first]
        place = np.arange(1.0, width + 1)
        ranks = ties.n_above[rows, None] + place
        terms = _mean_stop_chances(ties, rows, width) / ranks
        # Narrower ties than the matrix have places that do not count.
        is_counted = place <= n_places[rows, None]
        expected[rows] = np.where(is_counted, terms, 0.0).sum(axis=1)
    return expected


def _mean_stop_chances(ties: _StoppingTies, rows: I64, n_places: int) -> F64:
    """Return the chance that a reader stops at each of the first places of a tie (a group of
    documents with equal scores), the mean over the orders of its documents: a row per tie, a column
    per place.

    Each tie starts with the documents at which no reader stops; then those that may stop a reader
    are added one by one, in all ties at once.

    Args:
        ties: all ties.
        rows: the ties to look at, those with most documents that may stop the reader first.
        n_places: number of places.
    """
    n_stops = ties.n_stops[rows]
    n_without_stop = (ties.sizes[rows] - n_stops)[:, None].astype(np.float64)
    # Column m: the chance to pass the first m documents, and to stop at the m-th. At first a tie
    # has only documents that stop nobody: the reader passes as many as there are.
    has_m_documents = np.arange(n_places + 1.0) <= n_without_stop
    chance_passed = has_m_documents.astype(np.float64)
    chance_stopped = np.zeros_like(chance_passed)

    most_stops = int(n_stops[0])
    for n_added in range(most_stops):
        # The ties with a document left to add are the first ones, since they are sorted.
        n_rows = int(np.count_nonzero(n_stops > n_added))
        added = ties.first_stop[rows[:n_rows]] + n_added
        stops = ties.stops[added]
        sizes = n_without_stop[:n_rows] + (n_added + 1)
        # The slices are views: the chances are changed in place.
        _add_document(chance_passed[:n_rows], chance_stopped[:n_rows], stops[:, None], sizes)
    return chance_stopped[:, 1:]  # there is no 0-th document to stop at


def _add_document(passed: F64, stopped: F64, stops: F64, sizes: F64) -> None:
    """Add one document to each tie: update, in place, the mean chances to pass the first documents
    of the tie and to stop at each of them.

    Let ``p_m`` be the mean chance to pass the first m documents and ``d_m`` that to pass m - 1 and
    stop at the m-th. A new document (R, q = 1 - R), which makes the tie one of n, is in a random
    order absent from the first m with chance (n-m)/n and at each of those places with chance 1/n:

        p_m <- (n-m)/n p_m + m/n q p_{m-1}
        d_m <- (n-m)/n d_m + (m-1)/n q d_{m-1} + 1/n R p_{m-1}

    Nothing is subtracted, so no digits are lost.

    Args:
        passed: ``p_m``, a row per tie, from m = 0.
        stopped: ``d_m``.
        stops: the chance ``R`` of each new document.
        sizes: the number ``n`` of documents of each tie, the new one included.
    """
    # Beyond as many places as a tie has documents, p and d are 0 and stay so.
    n_places = min(passed.shape[1] - 1, int(sizes.max()))
    p = passed[:, : n_places + 1]
    d = stopped[:, : n_places + 1]
    m = np.arange(n_places + 1.0)

    absent = (sizes - m[1:]) / sizes
    stopped_by_new = stops / sizes
    passed_new = 1.0 / sizes - stopped_by_new
    p_before = p[:, :-1]
    d_before = d[:, :-1]
    d_behind_new = d_before * m[:-1] * passed_new
    d_at_new = p_before * stopped_by_new
    p_with_new = p_before * m[1:] * passed_new

    d_without_new = d[:, 1:] * absent
    p_without_new = p[:, 1:] * absent
    d[:, 1:] = d_without_new + (d_behind_new + d_at_new)
    p[:, 1:] = p_without_new + p_with_new
