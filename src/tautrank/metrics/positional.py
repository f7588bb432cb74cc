"""Metrics that add up the value of a document times the weight of its rank: DCG and its relatives,
DCG-RR too.

Their mean over the orders of tied documents is exact and cheap: inside a tie every document has the
same chance of every rank, so a tie has the value of the sum of its documents times the mean of its
ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import checked_by, choice, real, truth
from tautrank.arrays import F64, I64, Bools, Floats, Numbers, ranks_in
from tautrank.metrics.base import Metric, Scorer, register
from tautrank.metrics.gains import (
    Discount,
    Gain,
    check_discount,
    check_gain,
    discount_values,
    gain_values,
)
from tautrank.metrics.ordering import TieGroups, blocks, query_sums
from tautrank.metrics.ranked import BinaryMetric, RankedMetric

# Ranks that are worth less than this change no digit of a float64.
_NEGLIGIBLE = 1e-20
_MOST_PERSISTENT = 0.9999


class _Positional(RankedMetric):
    """``sum_r value_r * weight_r`` over the ranks."""

    def _document_values(self, labels: Numbers) -> F64:
        """Return the value of each document: its label."""
        return labels.astype(np.float64)

    def _rank_weights(self, n: int) -> F64:
        """Return the weights of the ranks 1 to ``n``."""
        return np.ones(n)

    def _reachable(self, scores: Floats, offsets: I64) -> F64:
        """Return how many documents each query has in the first ``k`` ranks, at least 1."""
        n_retrieved = query_sums(scores > -np.inf, offsets)
        return np.clip(n_retrieved, 1.0, self.k)

    def _value_in_order(self, values: F64) -> F64:
        """Return the sum of each row of values in rank order, times the weights of the ranks."""
        weights = self._rank_weights(values.shape[1])
        return np.asarray((values * weights).sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        """Return the sum of document values times rank weights of each list, the mean over the
        orders of tied documents.

        Every document of a tie is at each of its ranks with the same probability, so the tie adds
        the sum of its values times the mean of its weights.

        Args:
            groups: the lists as rows, cut into groups of documents with equal scores (ties).
        """
        # Ranks beyond the depth do not count: their weight stays 0.
        depth = self._depth(groups.values.shape[1])
        weights = np.zeros_like(groups.values)
        weights[:, :depth] = self._rank_weights(depth)
        sums_of_values = groups.sums(groups.values)
        sums_of_weights = groups.sums(weights)
        group_values = sums_of_values * sums_of_weights / groups.sizes
        return groups.row_sums(group_values)


@dataclass(frozen=True, repr=False)
class _Gained(_Positional):
    """A positional metric of label gains and rank discounts."""

    gain: Gain = field(default="exp2", metadata=checked_by(check_gain))
    discount: Discount = field(default="log2", metadata=checked_by(check_discount))

    def _document_values(self, labels: Numbers) -> F64:
        return gain_values(labels, self.gain)

    def _rank_weights(self, n: int) -> F64:
        return discount_values(n, self.discount)

    def _norms(self, values: F64, offsets: I64) -> F64 | None:
        """Return the largest possible DCG@k of each query: that of the ranking by gain.

        Args:
            values: the gain of each document.
            offsets: where each query's documents begin, and the number of documents at the end.
        """
        ideal = np.zeros(offsets.size - 1)
        # Lists of similar length are sorted together, as the rows of a matrix.
        for block in blocks(offsets):
            negated_gains = np.negative(block.matrix(values, 0.0))
            negated_gains.sort(axis=1)
            # The best gains first, up to the cutoff k also where the metric itself looks further.
            best_values = np.negative(negated_gains[:, : self.k])
            # The same sum as in _value_in_order, so that a perfect ranking is worth 1 to the last
            # bit.
            discounts = discount_values(best_values.shape[1], self.discount)
            ideal[block.queries] = (best_values * discounts).sum(axis=1)
        return ideal


@register("dcg")
class DCG(_Gained):
    """Discounted cumulative gain: the sum of the gains of the documents, discounted by their ranks.

    ``DCG@k = sum_{r <= k} gain(y_r) * discount(r)``, by default ``(2^y - 1) / log2(1 + r)``.

    Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation of IR Techniques*, TOIS 20(4), 2002;
    this gain and this discount: Burges et al., *Learning to Rank using Gradient Descent*, ICML
    2005. Empty: no document with a gain.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a table by label.
        discount: ``"log2"``, ``"reciprocal"`` or a table by rank.

    >>> DCG(k=2).per_query([3.0, 2.0, 1.0], [2, 0, 3], [0, 3])
    array([3.])
    """

    stops: ClassVar[bool] = False

    def _norms(self, values: F64, offsets: I64) -> None:
        return None


@register("ndcg")
class NDCG(_Gained):
    """Normalised discounted cumulative gain: DCG as a share of the best possible.

    ``NDCG@k = DCG@k / max DCG@k``, the maximum over the rankings of the query's documents.

    Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation of IR Techniques*, TOIS 20(4), 2002;
    expected ties: McSherry and Najork, ECIR 2008. Empty: no document with a gain.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a table by label.
        discount: ``"log2"``, ``"reciprocal"`` or a table by rank.

    >>> NDCG(k=10).per_query([3.0, 2.0, 1.0], [1, 0, 0], [0, 3])
    array([1.])
    >>> NDCG(ties="expected", discount="reciprocal").per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.75])
    """

    stops: ClassVar[bool] = False

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        """Return the DCG of each query over its ideal DCG, at most 1."""
        # Ties of equal labels are averaged, which may round to a hair above the ideal.
        return np.minimum(super()._normalise(numbers, norms, scores, offsets), 1.0)


@register("lambdarank-metric")
class LambdaRankMetric(_Gained):
    """The cost that LambdaRank's loss bounds from above.

    ``sum_i G_i sum_{j < i} |1/D_i - 1/D_j|`` over ranks, with ``G = gain(y) / max DCG@k`` and
    ``1/D`` the discount; with ``k``, a pair counts when its upper rank ``j`` is at most ``k``.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, eq. 17 and
    18. Empty: no document with a gain. Documents that were not retrieved are tied at the bottom.

    Args:
        k: keep the pairs with a document in the first ``k`` ranks; None for all pairs.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a table by label.
        discount: ``"log2"``, ``"reciprocal"`` or a table by rank.

    >>> LambdaRankMetric(discount="reciprocal").per_query([3.0, 2.0, 1.0], [0, 0, 1], [0, 3])
    array([0.83333333])
    """

    higher_is_better: ClassVar[bool] = False
    all_count: ClassVar[bool] = True

    def _rank_weights(self, n: int) -> F64:
        """Return ``sum_{j < i} |1/D_i - 1/D_j|`` of each rank ``i``, over the upper ranks ``j``
        that count (at most ``k``); ``1/D_i`` is the discount of rank i.

        Discounts fall with the rank, so the absolute values can be summed without their bars.

        Args:
            n: number of ranks.
        """
        discounts = discount_values(n, self.discount)
        n_above = np.arange(n)
        if self.k is not None:
            n_above = np.minimum(n_above, self.k)
        sums_of_discounts = np.concatenate([[0.0], np.cumsum(discounts)])
        sums_above = sums_of_discounts[n_above]
        # Rounding errors must not make a weight negative.
        return np.maximum(sums_above - n_above * discounts, 0.0)


@register("arp")
class ARP(_Positional):
    """Average relevance position: how far down the relevant documents stand; a cost.

    ``ARP = sum_r y_r * r``. With ``k``, a rank counts as ``min(r, k + 1)``: every document below
    the cutoff is as bad as the first one below it, so that pushing a relevant document out never
    pays.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, sec. 4,
    without its constant factor. Empty: no positive label. Documents that were not retrieved are
    tied at the bottom.

    Args:
        k: ranks beyond ``k`` count as ``k + 1``; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.

    >>> ARP().per_query([3.0, 2.0, 1.0], [0, 1, 2], [0, 3])
    array([8.])
    >>> ARP(k=1).per_query([3.0, 2.0, 1.0], [0, 1, 2], [0, 3])
    array([6.])
    """

    higher_is_better: ClassVar[bool] = False
    all_count: ClassVar[bool] = True

    def _rank_weights(self, n: int) -> F64:
        """Return the ranks, those beyond ``k`` as ``k + 1``."""
        ranks = np.arange(1, n + 1, dtype=np.float64)
        if self.k is None:
            return ranks
        return np.minimum(ranks, self.k + 1)


@register("precision", "p", "pre", "set_p")
@dataclass(frozen=True, repr=False)
class Precision(BinaryMetric, _Positional):
    """Precision: the share of the first ``k`` ranks that hold a relevant document.

    ``P@k = |relevant in the first k| / k``, also when the list is shorter than ``k``, as in
    trec_eval; with ``divide_by="reachable"`` over ``min(k, |retrieved|)``, as in XGBoost and
    CatBoost. Without ``k``, the share of the retrieved documents (trec_eval's ``set_P``).

    Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 2008, sec. 8.4. Empty:
    no relevant document.

    Args:
        k: the ranks to count and to divide by; None for the retrieved documents.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        divide_by: ``"k"`` or ``"reachable"``.

    >>> Precision(k=4).per_query([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    divide_by: str = field(default="k", metadata=checked_by(choice, known=("k", "reachable")))

    def _n_ranks(self, scores: Floats, offsets: I64) -> F64 | int:
        """Return the number of ranks to divide by."""
        if self.k is not None and self.divide_by == "k":
            return self.k
        return self._reachable(scores, offsets)

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        """Return the number of relevant documents over the number of ranks."""
        return numbers / self._n_ranks(scores, offsets)


@register("recall", "r", "set_recall")
class Recall(BinaryMetric, _Positional):
    """Recall: the share of the relevant documents that stand in the first ``k`` ranks.

    ``R@k = |relevant in the first k| / |relevant|``.

    Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 2008, sec. 8.4. Empty:
    no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> Recall(k=1).per_query([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    def _norms(self, values: F64, offsets: I64) -> F64:
        """Return the number of relevant documents of each query."""
        return query_sums(values, offsets)


@register("f1", "f1_score", "set_f")
class F1(Precision):
    """F1: the harmonic mean of precision and recall.

    ``F1@k = 2 P R / (P + R) = 2 |relevant in the first k| / (k + |relevant|)``, with the ``P@k`` of
    `Precision` and the ``R@k`` of `Recall`; with another divisor than ``k`` in the one, it takes
    the place of ``k`` here.

    van Rijsbergen, *Information Retrieval*, 1979, ch. 7; without ``k`` trec_eval's ``set_F``.
    Expected ties: it is proportional to the number of relevant documents found, and so exact at
    their expected number. Empty: no relevant document.

    Args:
        k: the ranks to count and to divide by; None for the retrieved documents.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        divide_by: ``"k"`` or ``"reachable"``.

    >>> F1(k=1).per_query([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])  # precision 1, recall 1/2
    array([0.66666667])
    >>> F1(k=1, ties="expected").per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.5])
    """

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        """Return ``2 |relevant in the first k| / (k + |relevant|)``."""
        n_relevant = norms
        assert n_relevant is not None
        return 2.0 * numbers / (self._n_ranks(scores, offsets) + n_relevant)

    def _norms(self, values: F64, offsets: I64) -> F64:
        """Return the number of relevant documents of each query."""
        return query_sums(values, offsets)


@register("rbp")
@dataclass(frozen=True, repr=False)
class RBP(BinaryMetric, _Positional):
    """Rank-biased precision: what a reader finds who goes on to the next document with probability
    ``p``.

    ``RBP@k = (1 - p) sum_{r <= k} rel_r p^(r - 1)``, at most 1; ``k`` and the end of the list cut
    the sum. With ``graded``, a relevant document earns its label instead of 1, as in ranx.

    Moffat and Zobel, *Rank-Biased Precision for Measurement of Retrieval Effectiveness*, TOIS
    27(1), 2008. Empty: no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        p: persistence, the chance to read on; above 0 and below 1.
        graded: whether a relevant document earns its label.

    >>> RBP(p=0.5).per_query([3.0, 2.0, 1.0], [1, 0, 2])
    array([0.625])
    """

    # A reader who leaves by chance, not because of what is found.
    stops: ClassVar[bool] = False

    p: float = field(default=0.8, metadata=checked_by(real, above=True, most=_MOST_PERSISTENT))
    graded: bool = field(default=False, metadata=checked_by(truth, expected="true or false"))

    @property
    def discount(self) -> tuple[float, ...]:
        """The worth of each rank from the first one down, as far as a float64 can see it."""
        # Rank r is worth about p^r: solved for r where that becomes negligible.
        n_visible = int(np.ceil(np.log(_NEGLIGIBLE) / np.log(self.p)))
        n_ranks = n_visible if self.k is None else min(self.k, n_visible)
        return tuple(self._rank_weights(n_ranks).tolist())

    def _document_values(self, labels: Numbers) -> F64:
        """Return what each document earns: 1, or its label, if it is relevant."""
        is_relevant = super()._document_values(labels)
        if not self.graded:
            return is_relevant
        return is_relevant * labels.astype(np.float64)

    def _rank_weights(self, n: int) -> F64:
        """Return ``(1 - p) p^(r - 1)`` of the ranks ``r`` from 1 to ``n``."""
        n_above = np.arange(n, dtype=np.float64)
        reading_chances = self.p**n_above
        return (1.0 - self.p) * reading_chances


@register("judged")
class JudgedShare(_Positional):
    """Judged: the share of the first ``k`` documents that somebody has judged, relevant or not.

    ``judged@k = |judged in the first k| / min(k, |retrieved|)``. It says how far the other metrics
    of a run can be trusted: they take a document without a judgment as not relevant. Which
    documents are judged is the argument ``judged`` of `Metric.per_query`; without it all are. In a
    tie the worst order puts those without a judgment first.

    MacAvaney, Macdonald and Ounis, *Streamlining Evaluation with ir-measures*, ECIR 2022. Empty: no
    judged document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.

    >>> JudgedShare(k=2).per_query([3.0, 2.0, 1.0], [0, 0, 1], judged=[True, False, True])
    array([0.5])
    """

    sees_unjudged: ClassVar[bool] = True

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Return the scorer of labels that say whether a document is judged."""
        is_judged = ~np.isnan(labels)
        return super()._scorer(is_judged.astype(np.float64), offsets)

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        """Return the number of judged documents over that of the ranks with a document."""
        return numbers / self._reachable(scores, offsets)


# A selection: documents keep their order, scores say which of them are shown. `tautrank.losses`
# compiles the functions. Columns of the sums: whether a document is shown; how many are shown
# before it, and what they earn; what those after it earn at their ranks, one rank further down, and
# one rank further up.
_IS_SHOWN, _SHOWN_BEFORE, _EARNED_BEFORE = 0, 1, 2
_EARNED_AFTER, _EARNED_ONE_DOWN, _EARNED_ONE_UP = 3, 4, 5


def selection_sums(values: F64, scores: F64, k: int) -> F64:
    """The sums of DCG-RR, see `tautrank.losses.ScaleFreeMetric.sums`: one row per document.

    The columns are: whether it is shown; how many are shown before it and what they earn; what
    those shown after it earn at their ranks, one rank further down, and one rank further up.

    Args:
        values: gains in input order.
        scores: documents above 0 are shown.
        k: ranks that count.

    >>> selection_sums(np.array([1.0]), np.array([1.0]), 1)
    array([[1., 0., 0., 0., 0., 0.]])
    """
    n = values.shape[0]
    sums = np.zeros((n, 6))
    n_shown = 0
    earned = 0.0
    for i in range(n):
        sums[i, _SHOWN_BEFORE] = n_shown
        sums[i, _EARNED_BEFORE] = earned
        if scores[i] > 0.0:
            sums[i, _IS_SHOWN] = 1.0
            n_shown += 1
            if n_shown <= k:
                earned += values[i] / n_shown

    # From the last document up. Nobody has a rank above the first.
    for i in range(n - 2, -1, -1):
        below = i + 1
        rank = sums[below, _SHOWN_BEFORE] + 1.0
        for column, moved_rank in (
            (_EARNED_AFTER, rank),
            (_EARNED_ONE_DOWN, rank + 1.0),
            (_EARNED_ONE_UP, rank - 1.0),
        ):
            sums[i, column] = sums[below, column]
            if sums[below, _IS_SHOWN] > 0.0 and 1.0 <= moved_rank <= k:
                sums[i, column] += values[below] / moved_rank
    return sums


def selection_moved(values: F64, sums: F64, document: int, place: int, k: int) -> Any:
    """Return DCG-RR (sum of gain over rank of the shown documents of a list) after one document is
    hidden (place 0) or shown (place 1), see `tautrank.losses.ScaleFreeMetric.moved`.

    Shown documents keep their input order, so a change moves only the documents after it by a rank.

    Args:
        values: gains in input order.
        sums: those of `selection_sums`: for each document, whether it is shown, how many are shown
            before it, and what the documents before it and after it earn: those after it at their
            own ranks, one rank down, and one rank up.
        document: which document is hidden or shown.
        place: 0 to hide it, 1 to show it.
        k: ranks that count.

    >>> gains, scores = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    >>> sums = selection_sums(gains, scores, 3)  # 1/1 + 3/2; the second one shown: 1/1 + 2/2 + 3/3
    >>> float(selection_moved(gains, sums, 1, 0, 3)), float(selection_moved(gains, sums, 1, 1, 3))
    (2.5, 3.0)
    """
    is_shown = sums[document, _IS_SHOWN] > 0.0
    value = sums[document, _EARNED_BEFORE]
    if place == 0:
        # If it was shown, the documents after it rise by a rank.
        after = _EARNED_ONE_UP if is_shown else _EARNED_AFTER
        return value + sums[document, after]

    rank = sums[document, _SHOWN_BEFORE] + 1.0
    if rank <= k:
        value += values[document] / rank
    # If it was hidden, the documents after it fall by a rank.
    after = _EARNED_AFTER if is_shown else _EARNED_ONE_DOWN
    return value + sums[document, after]


@register("dcg-rr")
@dataclass(frozen=True, repr=False)
class DCGRR(Metric):
    """DCG-RR: documents keep their order, those with a score above 0 are shown, each earns gain
    over rank.

    ``DCG-RR = sum_i gain(y_i) [s_i > 0] / (1 + sum_{j < i} [s_j > 0])``, ``i`` and ``j`` in input
    order; with ``k``, over the first ``k`` shown. A score of exactly 0 is not shown, whatever
    ``ties`` is: nothing is compared, so nothing ties. Adding a constant to the scores does change
    this metric.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete
    Functions*, ICML 2020, eq. 5. Empty: no document with a gain.

    Args:
        k: count the first ``k`` shown documents; None for all.
        ties: without effect.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"linear"``, ``"exp2"`` or a table by label.

    >>> DCGRR().per_query([1.0, -1.0, 0.5], [1, 2, 3], [0, 3])
    array([2.5])
    """

    gain: Gain = field(default="linear", metadata=checked_by(check_gain))

    # What makes it a `tautrank.losses.ScaleFreeMetric`, which StochasticRank can optimise.
    breaks_at = "zero"
    sums = staticmethod(selection_sums)
    moved = staticmethod(selection_moved)

    def document_values(self, labels: F64) -> F64:
        """Return the gain of each label.

        Args:
            labels: one finite number of at least 0 per document.
        """
        return gain_values(labels, self.gain)

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Return a function that adds up gain over rank of the documents that scores show; and
        which queries have a document with a gain.
        """
        gains = gain_values(labels, self.gain)

        def score(scores: Floats) -> F64:
            # The shown documents of all queries, and where those of each query begin among them.
            shown_documents = np.flatnonzero(scores > 0)
            starts = np.searchsorted(shown_documents, offsets[:-1])
            offsets_of_shown = np.append(starts, shown_documents.size)
            ranks = ranks_in(offsets_of_shown)  # 1, 2, ... inside each query
            earned = gains[shown_documents] / ranks
            if self.k is not None:
                earned[ranks > self.k] = 0.0
            return query_sums(earned, offsets_of_shown)

        return score, query_sums(gains, offsets) > 0
