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
        relevant = query_sums(values, offsets)
        return (
            relevant
            if self.k is None or self.divide_by == "relevant"
            else np.minimum(relevant, self.k)
        )

    def _value_in_order(self, values: F64) -> F64:
        found = np.cumsum(values, axis=1)
        found *= values
        found /= np.arange(1, values.shape[1] + 1)
        return np.asarray(found.sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        # Position x of a tie of t documents, r of them relevant, holds a relevant one with chance
        # r/t; given that, each of the x-1 above it in the tie is one of the t-1 others, r-1 of
        # which are relevant.
        rows, width = groups.values.shape
        relevant = groups.sums(groups.values)
        before = np.cumsum(relevant) - relevant
        before -= before[groups.row_starts][groups.rows()]
        slope = (relevant - 1) / np.maximum(groups.sizes - 1, 1)
        share = relevant / groups.sizes

        depth = self._depth(width)
        ranks = np.broadcast_to(np.arange(1.0, width + 1), (rows, width)).ravel()
        x_less_1 = ranks - 1 - np.repeat(groups.positions(), groups.sizes)
        found = np.repeat(before + 1, groups.sizes) + x_less_1 * np.repeat(slope, groups.sizes)
        at_rank = (np.repeat(share, groups.sizes) * found / ranks).reshape(rows, width)
        return np.asarray(at_rank[:, :depth].sum(axis=1))


class Ties(NamedTuple):
    """Counts of the ties that hold a relevant document; all arrays have one number per tie.

    Args:
        above: documents of the list above the tie.
        size: documents in the tie.
        relevant: relevant documents in the tie.
        others_above: judged documents above the tie that are not relevant.
        others: judged documents in the tie that are not relevant.
        all_relevant: relevant documents of the list.
        all_others: judged documents of the list that are not relevant.
    """

    above: F64
    size: F64
    relevant: F64
    others_above: F64
    others: F64
    all_relevant: F64
    all_others: F64


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

    def _norms(self, relevant: F64, others: F64) -> F64:
        """Return what to divide the sum of each list by, from the numbers of its documents; 0 for
        an empty query.
        """
        return relevant

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        relevant = self._is_relevant(labels)
        others = ~relevant & ~np.isnan(labels)
        n_relevant, n_others = query_sums(relevant, offsets), query_sums(others, offsets)
        norms = self._norms(n_relevant, n_others)
        query = query_of(offsets)
        codes = when_tied(np.nan_to_num(labels), self.ties)

        def score(scores: Floats) -> F64:
            placed = missing_last(scores)
            order = flat_order(placed, offsets, codes)
            good, bad = relevant[order], others[order]
            if placed is not scores and not self.all_count:
                retrieved = scores[order] > -np.inf
                good, bad = good & retrieved, bad & retrieved
            # How many of them come before each document of all lists, and behind the last one.
            good_before, bad_before = (
                np.concatenate([[0], np.cumsum(flags)]) for flags in (good, bad)
            )
            # Ties without a relevant document add nothing.
            if codes is None:
                in_order = placed[order]
                new = np.append(True, (in_order[1:] != in_order[:-1]) | (query[1:] != query[:-1]))[
                    : order.size
                ]
                begins = np.flatnonzero(new)
                ends = np.append(begins[1:], order.size)[: begins.size]
                some = good_before[ends] > good_before[begins]
                begins, ends = begins[some], ends[some]
            else:
                begins = np.flatnonzero(good)
                ends = begins + 1
            of_list = query[begins]
            first = offsets[of_list]
            relevant_in, others_in = (
                before[ends] - before[begins] for before in (good_before, bad_before)
            )
            of_tie = (
                begins - first,
                ends - begins,
                relevant_in,
                bad_before[begins] - bad_before[first],
                others_in,
            )
            counts = *of_tie, n_relevant[of_list], n_others[of_list]
            added = self._of_ties(Ties(*(count.astype(np.float64) for count in counts)))
            return np.bincount(of_list, added, norms.size) / np.maximum(norms, 1.0)

        return score, norms > 0


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
        # Each document of a tie is as likely as the others to be at one of the ranks that are left.
        within = np.clip(ties.all_relevant - ties.above, 0.0, ties.size)
        return ties.relevant * within / ties.size


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
        # A relevant document stands below x of the tie's n others with the chance 1/(n + 1) for
        # every x from 0 to n.
        n, b, most = ties.others, ties.others_above, ties.all_relevant
        rising = np.clip(most - b, 0.0, n)  # min(b + x, R) rises up to this x
        total = (
            (rising + 1.0) * np.minimum(b, most)
            + rising * (rising + 1.0) / 2.0
            + (n - rising) * most
        )
        lost = total / (n + 1.0) / np.maximum(np.minimum(ties.all_others, most), 1.0)
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

    def _norms(self, relevant: F64, others: F64) -> F64:
        return relevant * others

    def _of_ties(self, ties: Ties) -> F64:
        return ties.relevant * (ties.all_others - ties.others_above - ties.others / 2.0)
