"""Metrics that add up the value of a document times the weight of its rank: DCG and its relatives.

Their mean over the orders of tied documents is exact and cheap: inside a tie every document has the same
chance of every rank, so a tie has the value of the sum of its documents times the mean of its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import choice, real
from tautrank.arrays import F64, I64, Bools
from tautrank.errors import OptionError
from tautrank.metrics.base import Scorer, register
from tautrank.metrics.gains import Discount, Gain, check_discount, check_gain, discount_values, gain_values
from tautrank.metrics.ordering import TieGroups, blocks, query_sums
from tautrank.metrics.ranked import BinaryMetric, RankedMetric

# What a rank is worth beyond this is below a float64's last digit.
_NEGLIGIBLE = 1e-20
_MOST_PERSISTENT = 0.9999


class _Positional(RankedMetric):
    """``sum_r value_r * weight_r`` over the ranks."""

    def _document_values(self, labels: NDArray[np.number]) -> F64:
        return labels.astype(np.float64)

    def _rank_weights(self, n: int) -> F64:
        """Return the weights of the ranks 1 to ``n``."""
        return np.ones(n)

    def _reachable(self, scores: NDArray[np.floating], offsets: I64) -> F64:
        """Return how many documents each query has in the first ``k`` ranks, at least 1."""
        return np.clip(query_sums(scores > -np.inf, offsets), 1.0, self.k)

    def _judge(self, values: F64) -> F64:
        return np.asarray((values * self._rank_weights(values.shape[1])).sum(axis=1))

    def _judge_expected(self, groups: TieGroups) -> F64:
        rows, width = groups.values.shape
        weights = np.zeros(width)
        depth = self._depth(width)
        weights[:depth] = self._rank_weights(depth)
        of_ranks = groups.sums(np.broadcast_to(weights, (rows, width)))
        return groups.row_sums(groups.sums(groups.values) * of_ranks / groups.sizes)


@dataclass(frozen=True, repr=False)
class _Gained(_Positional):
    """A positional metric of label gains and rank discounts."""

    gain: Gain = field(default="exp2", metadata={"check": check_gain})
    discount: Discount = field(default="log2", metadata={"check": check_discount})

    def _document_values(self, labels: NDArray[np.number]) -> F64:
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
            # The same sum as in _judge, so that a perfect ranking is worth 1 to the last bit.
            products = np.negative(best[:, :depth]) * discount_values(depth, self.discount)
            ideal[block.queries] = products.sum(axis=1)
        return ideal


@register("dcg")
class DCG(_Gained):
    """Discounted cumulative gain: what a reader who gives up bit by bit collects.

    ``DCG@k = sum_{r <= k} gain(y_r) * discount(r)``, by default ``(2^y - 1) / log2(1 + r)``.

    Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation of IR Techniques*, TOIS 20(4), 2002; this gain
    and this discount: Burges et al., *Learning to Rank using Gradient Descent*, ICML 2005. Empty: no
    document with a gain.

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

    Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation of IR Techniques*, TOIS 20(4), 2002; expected
    ties: McSherry and Najork, ECIR 2008. Empty: no document with a gain.

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

    def _normalise(self, numbers: F64, norms: F64 | None, scores: NDArray[np.floating], offsets: I64) -> F64:
        # Ties of equal labels are averaged, which may round to a hair above the ideal.
        return np.minimum(super()._normalise(numbers, norms, scores, offsets), 1.0)


@register("lambdarank-metric")
class LambdaRankMetric(_Gained):
    """The cost that LambdaRank's loss bounds from above.

    ``sum_i G_i sum_{j < i} |1/D_i - 1/D_j|`` over ranks, with ``G = gain(y) / max DCG@k`` and ``1/D`` the
    discount; with ``k``, a pair counts when its upper rank ``j`` is at most ``k``.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, eq. 17 and 18.
    Empty: no document with a gain. Documents that were not retrieved are tied at the bottom.

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

    ``ARP = sum_r y_r * r``. With ``k``, a rank counts as ``min(r, k + 1)``: every document below the
    cutoff is as bad as the first one below it, so that pushing a relevant document out never pays.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, sec. 4, without its
    constant factor. Empty: no positive label. Documents that were not retrieved are tied at the bottom.

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

    ``P@k = |relevant in the first k| / k``, also when the list is shorter than ``k``, as in trec_eval; with
    ``divide_by="reachable"`` over ``min(k, |retrieved|)``, as in XGBoost and CatBoost. Without ``k``, the share of the
    retrieved documents (trec_eval's ``set_P``).

    Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 2008, sec. 8.4. Empty: no
    relevant document.

    Args:
        k: the ranks to count and to divide by; None for the retrieved documents.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        divide_by: ``"k"`` or ``"reachable"``.

    >>> Precision(k=4).per_query([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])
    array([0.5])
    """

    divide_by: str = field(default="k", metadata={"check": partial(choice, "divide_by", known=("k", "reachable"))})

    def _normalise(self, numbers: F64, norms: F64 | None, scores: NDArray[np.floating], offsets: I64) -> F64:
        if self.k is not None and self.divide_by == "k":
            return numbers / self.k
        return numbers / self._reachable(scores, offsets)


@register("recall", "r", "set_recall")
class Recall(BinaryMetric, _Positional):
    """Recall: the share of the relevant documents that stand in the first ``k`` ranks.

    ``R@k = |relevant in the first k| / |relevant|``.

    Manning, Raghavan and Schütze, *Introduction to Information Retrieval*, 2008, sec. 8.4. Empty: no
    relevant document.

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


@register("rbp")
@dataclass(frozen=True, repr=False)
class RBP(BinaryMetric, _Positional):
    """Rank-biased precision: what a reader finds who goes on to the next document with the chance ``p``.

    ``RBP@k = (1 - p) sum_{r <= k} rel_r p^(r - 1)``, at most 1; ``k`` and the end of the list cut the sum. With
    ``graded``, a relevant document earns its label instead of 1, as in ranx.

    Moffat and Zobel, *Rank-Biased Precision for Measurement of Retrieval Effectiveness*, TOIS 27(1), 2008. Empty: no
    relevant document.

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

    p: float = field(default=0.8, metadata={"check": partial(real, "p", above=True, most=_MOST_PERSISTENT)})
    graded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.graded, bool):
            raise OptionError(f"graded: found {self.graded!r}; expected true or false")

    @property
    def discount(self) -> tuple[float, ...]:
        """The worth of the ranks, as far down as a float64 can see it."""
        seen = int(np.ceil(np.log(_NEGLIGIBLE) / np.log(self.p)))
        return tuple(self._rank_weights(seen if self.k is None else min(self.k, seen)).tolist())

    def _document_values(self, labels: NDArray[np.number]) -> F64:
        relevant = super()._document_values(labels)
        return relevant * labels.astype(np.float64) if self.graded else relevant

    def _rank_weights(self, n: int) -> F64:
        return (1.0 - self.p) * self.p ** np.arange(n, dtype=np.float64)


@register("judged")
class JudgedShare(_Positional):
    """Judged: the share of the first ``k`` documents that somebody has judged, relevant or not.

    ``judged@k = |judged in the first k| / min(k, |retrieved|)``. It says how far the other metrics of a run can be
    trusted: they take a document without a judgment as not relevant. Which documents are judged is the argument
    ``judged`` of `Metric.per_query`; without it all are. In a tie the worst order puts those without a judgment first.

    MacAvaney, Macdonald and Ounis, *Streamlining Evaluation with ir-measures*, ECIR 2022. Empty: no judged document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.

    >>> JudgedShare(k=2).per_query([3.0, 2.0, 1.0], [0, 0, 1], judged=[True, False, True])
    array([0.5])
    """

    sees_unjudged: ClassVar[bool] = True

    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, Bools]:
        return super()._scorer(~np.isnan(labels) + 0.0, offsets)

    def _normalise(self, numbers: F64, norms: F64 | None, scores: NDArray[np.floating], offsets: I64) -> F64:
        return numbers / self._reachable(scores, offsets)
