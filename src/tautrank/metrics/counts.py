"""Metrics that count the documents above each relevant one: average precision, R-precision, bpref
and AUC.

The last three are sums over the ties of a list (a document without an equal is a tie of one) of a
closed form in a few counts, so that the mean over the orders of tied documents is exact and costs
no more than one order.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from tautrank.arguments import checked_by, choice
from tautrank.arrays import F64, I64, Bools, Floats, Numbers, query_of
from tautrank.metrics.base import Scorer, register
from tautrank.metrics.ordering import TieGroups, flat_order, missing_last, query_sums, when_tied
from tautrank.metrics.ranked import Binary, BinaryMetric


@register("map", "ap", "average_precision")
@dataclass(frozen=True, repr=False)
class MAP(BinaryMetric):
    """Average precision: the mean, over the relevant documents, of the precision where each one
    stands.

    ``AP@k = (1 / |relevant|) sum_{r <= k} rel_r * |relevant in the first r| / r``: the sum is
    divided by *all* relevant documents, as in trec_eval, also when more of them exist than ``k``;
    with ``divide_by="reachable"`` by ``min(k, |relevant|)``, as in LightGBM, XGBoost and CatBoost.

    Buckley and Voorhees, *Evaluating Evaluation Measure Stability*, SIGIR 2000; expected ties:
    McSherry and Najork, ECIR 2008. Empty: no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        divide_by: ``"relevant"`` or ``"reachable"``.

    >>> MAP().per_query([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4])
    array([0.75])
    >>> MAP(ties="expected").per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.75])
    """

    divide_by: str = field(
        default="relevant", metadata=checked_by(choice, known=("relevant", "reachable"))
    )

    def _norms(self, values: F64, offsets: I64) -> F64:
        """Return the divisor of each query: the number of its relevant documents, or of those that
        fit into the first ``k`` ranks.

        Args:
            values: 1 for a relevant document, 0 otherwise.
            offsets: where each query's documents begin, and the number of documents at the end.
        """
        n_relevant = query_sums(values, offsets)
        if self.k is None or self.divide_by == "relevant":
            return n_relevant
        return np.minimum(n_relevant, self.k)

    def _value_in_order(self, values: F64) -> F64:
        """Return the sum, over the relevant documents of each row, of the precision at each one."""
        ranks = np.arange(1, values.shape[1] + 1)
        # Values are 1 (relevant) or 0: the sums count the relevant documents down to each rank.
        # Only the precision at a relevant document is kept.
        precision = np.cumsum(values, axis=1)
        precision *= values
        precision /= ranks
        return np.asarray(precision.sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        """Return the sum of the precisions at the relevant documents of each list, the mean over
        the orders of tied documents.

        In a tie of ``t`` documents, ``r`` of them relevant, each place holds a relevant one with
        the chance ``r / t``. Given that, a document before it in the tie is relevant with the
        chance ``(r - 1) / (t - 1)``, which gives the expected precision at the place.

        Args:
            groups: the lists as rows, cut into ties; a document without ties is a tie of one.
        """
        n_rows, width = groups.values.shape
        t = groups.sizes
        r = groups.sums(groups.values)
        # Relevant documents above each tie, counted from the start of its list.
        n_relevant_above = np.cumsum(r) - r
        n_before_list = n_relevant_above[groups.row_starts]
        n_relevant_above -= n_before_list[groups.rows()]

        ranks = np.tile(np.arange(1.0, width + 1), n_rows)
        n_before_in_tie = ranks - 1 - np.repeat(groups.positions(), t)
        chance_before = (r - 1) / np.maximum(t - 1, 1)
        # The relevant documents up to a rank that holds a relevant one.
        n_relevant_up_to = np.repeat(n_relevant_above + 1, t)
        n_relevant_up_to += n_before_in_tie * np.repeat(chance_before, t)

        chance_at_rank = np.repeat(r / t, t)
        expected_precision = chance_at_rank * n_relevant_up_to / ranks
        rows = expected_precision.reshape(n_rows, width)
        depth = self._depth(width)
        return np.asarray(rows[:, :depth].sum(axis=1))


class Ties(NamedTuple):
    """Counts of the ties that hold a relevant document; all arrays have one number per tie.

    Args:
        query: the list of the tie.
        above: documents of the list above the tie.
        size: documents in the tie.
        relevant: relevant documents in the tie.
        irrelevant_above: judged documents above the tie that are not relevant.
        irrelevant: judged documents in the tie that are not relevant.
        all_relevant: relevant documents of the list.
        all_irrelevant: judged documents of the list that are not relevant.
    """

    query: I64
    above: F64
    size: F64
    relevant: F64
    irrelevant_above: F64
    irrelevant: F64
    all_relevant: F64
    all_irrelevant: F64


class _Counted(Binary):
    """A metric that is a sum over the ties of a list; no document is left out of the ranking by a
    cutoff.
    """

    has_cutoff: ClassVar[bool] = False
    all_count: ClassVar[bool] = False
    """Whether documents that were not retrieved count, tied at the bottom."""

    @abstractmethod
    def _of_ties(self, ties: Ties) -> F64:
        """Return the mean, over the orders of each tie, of what its documents add to the sum of the
        list.
        """

    def _norms(self, relevant: F64, irrelevant: F64) -> F64:
        """Return what to divide the sum of each list by, from the numbers of its documents; 0 for
        an empty query.
        """
        return relevant

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Return a function that ranks each list and adds up its ties; and which queries are not
        empty.
        """
        is_relevant = self._is_relevant(labels)
        is_irrelevant = ~is_relevant & ~np.isnan(labels)
        lists = _CountedLists(
            offsets=offsets,
            query=query_of(offsets),
            n_relevant=query_sums(is_relevant, offsets),
            n_irrelevant=query_sums(is_irrelevant, offsets),
        )
        norms = self._norms(lists.n_relevant, lists.n_irrelevant)
        divisors = np.maximum(norms, 1.0)
        codes = when_tied(np.nan_to_num(labels), self.ties)

        def score(scores: Floats) -> F64:
            # Documents that were not retrieved (score -inf) become a tie at the bottom.
            comparable = missing_last(scores)
            order = flat_order(comparable, offsets, codes)
            relevant = is_relevant[order]
            irrelevant = is_irrelevant[order]
            if not self.all_count:  # documents that were not retrieved count as neither
                is_retrieved = scores[order] > -np.inf
                relevant &= is_retrieved
                irrelevant &= is_retrieved

            if codes is None:
                starts, ends = _tie_bounds(comparable[order], lists.query)
            else:  # a code tells all documents of a list apart
                starts = np.arange(order.size)
                ends = starts + 1
            ties = _ties_with_relevant(lists, starts, ends, relevant, irrelevant)
            # Each tie's value is added to that of its query.
            sums = np.bincount(ties.query, self._of_ties(ties), norms.size)
            return sums / divisors

        return score, norms > 0


class _CountedLists(NamedTuple):
    """Lists and the numbers of their documents.

    Args:
        offsets: checked offsets of the lists.
        query: the query of each document.
        n_relevant: relevant documents of each list.
        n_irrelevant: judged documents of each list that are not relevant.
    """

    offsets: I64
    query: I64
    n_relevant: F64
    n_irrelevant: F64


def _ties_with_relevant(
    lists: _CountedLists, starts: I64, ends: I64, relevant: Bools, irrelevant: Bools
) -> Ties:
    """Return counts of relevant and irrelevant documents in and above each tie (run of documents
    with equal scores) that holds a relevant document: without one, a tie adds nothing.

    Args:
        lists: where each list begins, and its numbers of relevant and irrelevant documents.
        starts, ends: where each tie begins and ends in rank order.
        relevant, irrelevant: documents in rank order: relevant ones, and judged ones that are not.
    """
    # Entry i counts the documents before rank position i: differences count inside any range.
    relevant_before = _count_before(relevant)
    irrelevant_before = _count_before(irrelevant)
    has_relevant = relevant_before[ends] > relevant_before[starts]
    starts, ends = starts[has_relevant], ends[has_relevant]

    query = lists.query[starts]
    first = lists.offsets[query]  # position of the first document of the tie's list
    return Ties(
        query=query,
        above=(starts - first).astype(np.float64),
        size=(ends - starts).astype(np.float64),
        relevant=relevant_before[ends] - relevant_before[starts],
        irrelevant_above=irrelevant_before[starts] - irrelevant_before[first],
        irrelevant=irrelevant_before[ends] - irrelevant_before[starts],
        all_relevant=lists.n_relevant[query],
        all_irrelevant=lists.n_irrelevant[query],
    )


def _count_before(flags: Bools) -> F64:
    """Return how many flags are set before each document, and how many in all.

    >>> _count_before(np.array([True, False, True]))
    array([0., 1., 1., 2.])
    """
    return np.concatenate([[0.0], np.cumsum(flags, dtype=np.float64)])


def _tie_bounds(scores: Floats, query: I64) -> tuple[I64, I64]:
    """Return where each tie (run of equal scores of a query) begins and ends; a document without an
    equal is a tie of one.

    Args:
        scores: scores of all documents, query after query, each from the best score to the worst.
        query: the query of each document.

    >>> _tie_bounds(np.array([2.0, 1.0, 1.0]), np.array([0, 0, 0]))
    (array([0, 1]), array([1, 3]))
    """
    scores_differ = scores[1:] != scores[:-1]
    queries_differ = query[1:] != query[:-1]
    inner_bounds = np.flatnonzero(scores_differ | queries_differ) + 1
    bounds = np.concatenate([[0], inner_bounds, [scores.size]])
    return bounds[:-1], bounds[1:]


@register("r-precision", "rprec", "r_precision", "rprecision")
class RPrecision(_Counted):
    """R-precision: precision at the rank ``R``, the number of relevant documents.

    ``Rprec = |relevant in the first R| / R``; 1 when all relevant documents are on top.

    Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 2008, sec. 8.4;
    trec_eval's ``Rprec``. Empty: no relevant document.

    Args:
        k: without meaning here; None.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> RPrecision().per_query([3.0, 2.0, 1.0], [1, 0, 2])
    array([0.5])
    """

    def _of_ties(self, ties: Ties) -> F64:
        """Return the number of relevant documents of each tie in the first R ranks: each document
        of the tie is as likely as its others to be at one of the ranks that are left.
        """
        n_ranks_within = np.clip(ties.all_relevant - ties.above, 0.0, ties.size)
        return ties.relevant * n_ranks_within / ties.size


@register("bpref")
class BPref(_Counted):
    """Binary preference: how few judged documents that are not relevant stand above the relevant
    ones.

    ``bpref = (1/R) sum_r 1 - min(n_r, R) / min(N, R)`` over the retrieved relevant documents, where
    ``n_r`` judged documents that are not relevant stand above ``r``, and ``R`` and ``N`` are the
    numbers of relevant and other judged documents. Documents without a judgment (argument
    ``judged`` of `Metric.per_query`) are as if they were not there, which makes it the metric for
    incomplete judgments. A document without any judged one above it adds 1.

    Buckley and Voorhees, *Retrieval Evaluation with Incomplete Information*, SIGIR 2004, with
    ``min(N, R)`` as trec_eval has it since version 8. Empty: no relevant document.

    Args:
        k: without meaning here; None.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> BPref().per_query([4.0, 3.0, 2.0, 1.0], [0, 1, 0, 1])
    array([0.25])
    >>> BPref().per_query([4.0, 3.0, 2.0, 1.0], [0, 1, 0, 1], judged=[False, True, True, True])
    array([0.5])
    """

    sees_unjudged: ClassVar[bool] = True

    def _of_ties(self, ties: Ties) -> F64:
        """Return the sum of ``1 - min(n_r, R) / min(N, R)`` over the relevant documents of each tie
        (documents with equal scores), the mean over the orders of the tie.

        R and N are the numbers of relevant and irrelevant documents of the list, and ``n_r`` is
        the number of irrelevant ones above the relevant document. A relevant document stands below
        x of the tie's n irrelevant ones with the chance 1 / (n + 1) for every x from 0 to n, so
        that n_r is b + x where b irrelevant ones stand above the tie.
        """
        n = ties.irrelevant
        b = ties.irrelevant_above
        R = ties.all_relevant
        # min(b + x, R) is b + x up to this x, and R from then on.
        last_rise = np.clip(R - b, 0.0, n)
        sum_of_b = (last_rise + 1.0) * np.minimum(b, R)
        sum_of_x = last_rise * (last_rise + 1.0) / 2.0
        sum_of_limits = (n - last_rise) * R
        mean = (sum_of_b + sum_of_x + sum_of_limits) / (n + 1.0)
        # A list without irrelevant documents is divided by 1: its numerator is 0.
        lost = mean / np.maximum(np.minimum(ties.all_irrelevant, R), 1.0)
        return ties.relevant * (1.0 - lost)


@register("auc", "roc_auc", "auroc")
class AUC(_Counted):
    """Area under the ROC curve: the share of pairs in which the relevant document stands above the
    other one.

    ``AUC = |{(i, j): i relevant, j not, i above j}| / (R N)``, with ``R`` relevant documents and
    ``N`` others, in each query; with ``ties="expected"`` a tied pair counts half, as in
    scikit-learn's ``roc_auc_score``.

    Hanley and McNeil, *The Meaning and Use of the Area under a Receiver Operating Characteristic
    (ROC) Curve*, Radiology 143, 1982. Empty: no relevant document, or no other. Documents that were
    not retrieved are tied at the bottom.

    Args:
        k: without meaning here; None.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> AUC().per_query([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0])
    array([0.75])
    >>> AUC(ties="expected").per_query([0.0, 0.0], [1, 0])
    array([0.5])
    """

    all_count: ClassVar[bool] = True

    def _norms(self, relevant: F64, irrelevant: F64) -> F64:
        """Return the number of pairs of each list."""
        return relevant * irrelevant

    def _of_ties(self, ties: Ties) -> F64:
        """Return the number of pairs that the relevant documents of each tie win: half of those
        with the others of the tie.
        """
        irrelevant_below = ties.all_irrelevant - ties.irrelevant_above - ties.irrelevant / 2.0
        return ties.relevant * irrelevant_below
