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

# What a rank is worth beyond this is below a float64's last digit.
_NEGLIGIBLE = 1e-20
_MOST_PERSISTENT = 0.9999


class _Positional(RankedMetric):
    """``sum_r value_r * weight_r`` over the ranks."""

    def _document_values(self, labels: Numbers) -> F64:
        return labels.astype(np.float64)

    def _rank_weights(self, n: int) -> F64:
        """Return the weights of the ranks 1 to ``n``."""
        return np.ones(n)

    def _reachable(self, scores: Floats, offsets: I64) -> F64:
        """Return how many documents each query has in the first ``k`` ranks, at least 1."""
        return np.clip(query_sums(scores > -np.inf, offsets), 1.0, self.k)

    def _value_in_order(self, values: F64) -> F64:
        return np.asarray((values * self._rank_weights(values.shape[1])).sum(axis=1))

    def _expected_value(self, groups: TieGroups) -> F64:
        depth = self._depth(groups.values.shape[1])
        weights = np.zeros_like(groups.values)
        weights[:, :depth] = self._rank_weights(depth)
        return groups.row_sums(groups.sums(groups.values) * groups.sums(weights) / groups.sizes)


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
        """The DCG@k of each query's best ranking."""
        ideal = np.zeros(offsets.size - 1)
        for block in blocks(offsets):
            # Up to the cutoff also where the metric itself looks further.
            depth = block.width if self.k is None else min(self.k, block.width)
            best = np.negative(block.matrix(values, 0.0))
            best.sort(axis=1)
            # The same sum as in _value_in_order, so that a perfect ranking is worth 1 to the last bit.
            products = np.negative(best[:, :depth]) * discount_values(depth, self.discount)
            ideal[block.queries] = products.sum(axis=1)
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
        discounts = discount_values(n, self.discount)
        above = np.arange(n) if self.k is None else np.minimum(np.arange(n), self.k)
        up_to = np.concatenate([[0.0], np.cumsum(discounts)])
        return np.maximum(up_to[above] - above * discounts, 0.0)


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
        ranks = np.arange(1, n + 1, dtype=np.float64)
        return ranks if self.k is None else np.minimum(ranks, self.k + 1)


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

    def _counted(self, scores: Floats, offsets: I64) -> F64 | int:
        """Return the number of ranks to divide by."""
        return (
            self.k
            if self.k is not None and self.divide_by == "k"
            else self._reachable(scores, offsets)
        )

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        return numbers / self._counted(scores, offsets)


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
        assert norms is not None
        return 2.0 * numbers / (self._counted(scores, offsets) + norms)

    def _norms(self, values: F64, offsets: I64) -> F64:
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
        """The worth of the ranks, as far down as a float64 can see it."""
        seen = int(np.ceil(np.log(_NEGLIGIBLE) / np.log(self.p)))
        return tuple(self._rank_weights(seen if self.k is None else min(self.k, seen)).tolist())

    def _document_values(self, labels: Numbers) -> F64:
        relevant = super()._document_values(labels)
        return relevant * labels.astype(np.float64) if self.graded else relevant

    def _rank_weights(self, n: int) -> F64:
        return (1.0 - self.p) * self.p ** np.arange(n, dtype=np.float64)


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
        return super()._scorer(~np.isnan(labels) + 0.0, offsets)

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        return numbers / self._reachable(scores, offsets)


# A selection: documents keep their order, scores say which of them are shown. `tautrank.losses`
# compiles the functions.


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
    shown = 0
    earned = 0.0
    for i in range(n):
        sums[i, 1] = shown
        sums[i, 2] = earned
        if scores[i] > 0.0:
            sums[i, 0] = 1.0
            shown += 1
            if shown <= k:
                earned += values[i] / shown
    # From the last document up: its own rank, one further down, one further up; nobody has a rank
    # above the first.
    for i in range(n - 2, -1, -1):
        for moved in range(3):
            rank = sums[i + 1, 1] + (1.0, 2.0, 0.0)[moved]
            earns = sums[i + 1, 0] > 0.0 and 1.0 <= rank <= k
            sums[i, 3 + moved] = sums[i + 1, 3 + moved] + (values[i + 1] / rank if earns else 0.0)
    return sums


def selection_moved(values: F64, sums: F64, document: int, place: int, k: int) -> Any:
    """DCG-RR with one document hidden (place 0) or shown (place 1), see
    `tautrank.losses.ScaleFreeMetric.moved`.

    Args:
        values: gains in input order.
        sums: those of `selection_sums`.
        document: which document.
        place: 0 or 1.
        k: ranks that count.

    >>> gains, scores = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    >>> sums = selection_sums(gains, scores, 3)  # 1/1 + 3/2; with the second one shown 1/1 + 2/2 + 3/3
    >>> float(selection_moved(gains, sums, 1, 0, 3)), float(selection_moved(gains, sums, 1, 1, 3))
    (2.5, 3.0)
    """
    shown, rank = sums[document, 0] > 0.0, sums[document, 1] + 1.0
    value = sums[document, 2]
    if place == 0:
        return value + (sums[document, 5] if shown else sums[document, 3])
    if rank <= k:
        value += values[document] / rank
    return value + (sums[document, 3] if shown else sums[document, 4])


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
        gains = gain_values(labels, self.gain)

        def score(scores: Floats) -> F64:
            shown = np.flatnonzero(scores > 0)
            before = np.searchsorted(shown, offsets[:-1])
            of_shown = np.append(before, shown.size)
            ranks = ranks_in(of_shown)
            earned = gains[shown] / ranks
            if self.k is not None:
                earned[ranks > self.k] = 0.0
            return query_sums(earned, of_shown)

        return score, query_sums(gains, offsets) > 0
