"""The LambdaLoss family: logistic loss over pairs, weighted by how much the pair matters to the
metric.

Every member has the value

    sum over pairs of  w_ij log2(1 + exp(-sigma (s_i - s_j)))

where the weights come from the current ranking and are held constant when differentiating (the
M-step of EM). The members differ in the pairs and in ``w``. Ranks are by decreasing score; equal
scores are ranked with the lower label first, then in input order, the worst case of the metric.
``G_i`` is the gain of document ``i`` over maxDCG@k, ``1/D_r`` the discount of rank ``r``.

Wang, Li, Golbandi, Bendersky and Najork, *The LambdaLoss Framework for Ranking Metric
Optimization*, CIKM 2018.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tautrank.arguments import checked_by, choice, real, whole
from tautrank.arrays import F64, I32, I64, Bools, Floats
from tautrank.errors import OptionError
from tautrank.kernels.streams import RANKING_STREAM
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.metrics.base import check_k
from tautrank.metrics.gains import Discount, Gain, check_discount, check_gain, discount_values
from tautrank.metrics.ordering import query_sums

# How far `exp` may go from the centre of a window of scores: the range of float32 and float64, with
# a margin.
_REACH = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 300.0}


@dataclass(frozen=True, kw_only=True, repr=False)
class LambdaLoss(Loss):
    """The base of the family.

    Args:
        k: cutoff: a pair counts when at least one of its documents is ranked ``k`` or better (eq.
            18 of the paper), and maxDCG is taken at ``k``; ``None`` is the full list. The default
            is 30 for the losses made of gains, and the full list for ``ranknet``, ``arp-loss1`` and
            ``arp-loss2``: with a cutoff they are other losses, whose pairs depend on the ranking
            and which bound nothing.
        sigma: steepness of the logistic function.
        mu: weight of the NDCG-Loss2 term in ``ndcg-loss2++``; the other losses accept it and ignore
            it.
        assignment: ``"hard"`` takes the weights of the current ranking; ``"soft"`` (sec. 5.4) draws
            ``samples`` rankings from scores ``N(s, spread^2)`` and averages the weights, in which
            ``G_i`` becomes ``G_i (1 - 1/D_sampled) / (1 - 1/D_i)``, or stays where ``D_i = 1``.
            Weights without gains stay.
        samples: number of rankings drawn.
        spread: standard deviation of the drawn scores.
        norm: ``None``; ``"lightgbm"`` divides ``w_ij`` by ``0.01 + |s_i - s_j|`` where not all
            scores of the query are equal, and multiplies the query by ``log2(1 + S)/S``, where
            ``S = 2 sum w_ij sigma / (1 + exp(sigma (s_i - s_j)))`` adds up the sizes of all
            lambdas, as LightGBM's ``lambdarank_norm`` does; ``"xgboost"`` does the same and doubles
            the hessian, as XGBoost's ``rank:ndcg`` does. Both factors are held constant when
            differentiating.
        extend: ``None``, or which documents that the first ``k`` ranks miss are paired with every
            document, too (Lambda-eX): those of the ideal top ``k``, with a label above 0, that are
            ranked below ``k``. If equal labels compete for the last of the ideal ``k`` places,
            ``"static"`` takes those that come last in the input, ``"random"`` draws them anew at
            every step, and ``"all"`` takes them all. Without it a good document that is ranked low
            is paired with ``k`` documents only, and may be pushed less than a worse one above it.
            Marcuzzi, Lucchese and Orlando, *LambdaRank Gradients are Incoherent*, CIKM 2023. Only
            for pairs of different labels.
        noise: see `Loss`.
        strength: see `Loss`.

    >>> LambdaRank(k=5, assignment="soft", samples=20)
    lambdarank(k=5,assignment=soft,samples=20)
    """

    _searched: ClassVar[Ranges] = {"k": ("choice", 10, 30, 100, None)}

    every_pair: ClassVar[bool] = False
    """Whether all pairs of a document count with its weight, rather than only pairs of different
    labels.
    """

    _cap: ClassVar[float] = math.inf
    """Upper limit of the difference of document weights."""

    k: int | None = field(default=None, metadata=checked_by(check_k))
    sigma: float = field(default=1.0, metadata=checked_by(real, above=True))
    mu: float = field(default=5.0, metadata=checked_by(real, least=0.0))
    assignment: str = field(default="hard", metadata=checked_by(choice, known=("hard", "soft")))
    samples: int = field(default=8, metadata=checked_by(whole, least=1, most=2**16))
    spread: float = field(default=0.1, metadata=checked_by(real, least=0.0))
    norm: str | None = field(
        default=None, metadata=checked_by(choice, known=("lightgbm", "xgboost"))
    )
    extend: str | None = field(
        default=None, metadata=checked_by(choice, known=("static", "random", "all"))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extend is not None and self.every_pair:
            raise OptionError(
                f"extend: found {self.extend} with {self.name}, which counts pairs of equal labels"
                " too; expected None, or a loss of pairs of different labels"
            )

    @property
    def is_random(self) -> bool:
        """Whether scores are noisy, rankings are drawn, or missed documents are."""
        draws_missed_documents = self.extend == "random" and self.k is not None
        return super().is_random or self._draws_rankings or draws_missed_documents

    @property
    def _draws_rankings(self) -> bool:
        """Whether weights are means over drawn rankings; without gains they do not depend on
        them.
        """
        return self.assignment == "soft" and isinstance(self, _GainLoss)

    def _document_weights(self, lists: TrainingLists) -> F64:
        """Return what each document is worth in the weights of its pairs: here its label; a pair
        counts by the difference of its two documents, or by the better one alone.
        """
        return lists.labels

    def _rank_weights(self, n: int) -> tuple[F64, F64]:
        """Return ``v`` for ranks 1 to ``n`` and ``gap`` for distances 0 to ``n - 1``.

        A pair of ranks ``i < j`` has the weight ``v_i - v_j + gap_(j - i)``; if every pair counts,
        a document of rank ``i`` has the weight ``v_i``.
        """
        return np.zeros(n), np.ones(n)

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return _PairObjective(self, lists, seed, threads)


@dataclass(frozen=True, kw_only=True, repr=False)
class _GainLoss(LambdaLoss):
    """The members whose weights are built from the metric's gain and discount."""

    k: int | None = 30
    gain: Gain = field(default="exp2", metadata=checked_by(check_gain))
    discount: Discount = field(default="log2", metadata=checked_by(check_discount))

    def _document_weights(self, lists: TrainingLists) -> F64:
        """Return ``G_i``, the gain of each document over the maxDCG@k of its query."""
        return gains_over_max_dcg(lists, self.gain, self.discount, self.k)

    def _rank_weights(self, n: int) -> tuple[F64, F64]:
        return discount_values(n, self.discount), np.zeros(n)

    def _gaps(self, n: int) -> F64:
        """``delta_d = 1/D_d - 1/D_(d+1)`` for the distances 0 to ``n - 1``; 0 for distance 0."""
        by_rank = discount_values(n, self.discount)
        return np.concatenate(([0.0], by_rank[:-1] - by_rank[1:]))


def gains_over_max_dcg(lists: TrainingLists, gain: Gain, discount: Discount, k: int | None) -> F64:
    """Return the gain of each document over the DCG@k of the best ranking of its query; 0 where
    that is 0.

    >>> gains_over_max_dcg(TrainingLists.of([1, 2]), "linear", "log2", k=1)
    array([0.5, 1. ])
    """
    gains = lists.gains(gain)
    discounts = discount_values(lists.longest, discount, k)
    # The arrangement sorts each query by label, the best document last: counted from the end it is
    # the ideal ranking.
    last_document_of_query = np.repeat(lists.offsets[1:], lists.sizes) - 1
    ideal_ranks = last_document_of_query - np.arange(gains.size)
    discounted_gains = gains[lists.arrangement] * discounts[ideal_ranks]
    max_dcg = query_sums(discounted_gains, lists.offsets)

    # ``where`` leaves the zeros of ``out`` where a query has no gain, instead of dividing by 0.
    reciprocals = np.divide(1.0, max_dcg, out=np.zeros_like(max_dcg), where=max_dcg > 0)
    return np.asarray(gains * np.repeat(reciprocals, lists.sizes))


@register("ranknet")
class RankNet(LambdaLoss):
    """Every pair of documents with different labels counts the same.

    ``w_ij = 1`` for ``y_i > y_j``; the weights do not depend on the ranking, but a cutoff ``k``
    would.

    Burges et al., *Learning to Rank using Gradient Descent*, ICML 2005.

    Its parameters are those of `LambdaLoss`; ``assignment`` makes no difference.

    >>> RankNet().bind([0, 1], [0, 2]).values([0.0, 0.0])  # log2(1 + e^0)
    array([1.])
    """

    # `_document_weights` numbers the labels 0, 1, 2, ...; every difference counts as 1.
    _cap: ClassVar[float] = 1.0

    def _document_weights(self, lists: TrainingLists) -> F64:
        """Return the labels renumbered 0, 1, 2, ... from the lowest to the highest."""
        label_numbers = np.unique(lists.labels, return_inverse=True)[1]
        return label_numbers.astype(np.float64)


@register("lambdarank")
class LambdaRank(_GainLoss):
    """A pair counts as much as swapping its documents would change NDCG.

    ``w_ij = |1/D_i - 1/D_j| |G_i - G_j|`` for ``y_i > y_j``.

    Burges, *From RankNet to LambdaRank to LambdaMART: An Overview*, MSR-TR-2010-82; as a LambdaLoss
    it bounds the metric of eq. 17 in Wang et al., CIKM 2018.

    Its parameters are those of `LambdaLoss`, and ``gain`` and ``discount`` as in
    `tautrank.metrics.NDCG`.

    >>> objective = LambdaRank(k=None).bind(labels=[0, 0, 1, 2], offsets=[0, 4])
    >>> objective.values([0.0, 3.0, 1.0, 2.0]).round(7)
    array([1.0718194])
    >>> grad, hess = objective.gradients([0.0, 3.0, 1.0, 2.0])
    >>> grad.round(4)  # the irrelevant document at the top goes down, the best one up
    array([ 0.0359,  0.4966, -0.1544, -0.3781])
    """


@register("arp-loss1")
class ARPLoss1(LambdaLoss):
    """Bounds the average relevance position by counting everything above a relevant document.

    ``w_ij = y_i`` for all ``i != j``.

    Wang et al., CIKM 2018, sec. 5.1.

    Its parameters are those of `LambdaLoss`; ``assignment`` makes no difference.

    >>> ARPLoss1().bind([0, 3, 0], [0, 3]).values([0.0, 0.0, 0.0])  # 3 log2(2), twice
    array([6.])
    """

    every_pair: ClassVar[bool] = True

    def _rank_weights(self, n: int) -> tuple[F64, F64]:
        return np.ones(n), np.zeros(n)


@register("arp-loss2")
class ARPLoss2(LambdaLoss):
    """Bounds the average relevance position by the pairs that are out of order.

    ``w_ij = |y_i - y_j|`` for ``y_i > y_j``.

    Wang et al., CIKM 2018, sec. 5.1.

    Its parameters are those of `LambdaLoss`; ``assignment`` makes no difference.

    >>> ARPLoss2().bind([1, 3, 0], [0, 3]).values([0.0, 0.0, 0.0])  # (3-1) + (3-0) + (1-0)
    array([6.])
    """


@register("ndcg-loss1")
class NDCGLoss1(_GainLoss):
    """Bounds ``1 - NDCG`` by counting everything above a relevant document; loose at lower ranks.

    ``w_ij = G_i / D_i`` for all ``i != j``.

    Wang et al., CIKM 2018, sec. 5.2.

    Its parameters are those of `LambdaLoss`, and ``gain`` and ``discount`` as in
    `tautrank.metrics.NDCG`.

    >>> # Ties rank the relevant document second: 1/log2(3).
    >>> NDCGLoss1(k=None).bind([0, 1], [0, 2]).values([0.0, 0.0]).round(4)
    array([0.6309])
    """

    every_pair: ClassVar[bool] = True


@register("ndcg-loss2")
class NDCGLoss2(_GainLoss):
    """Bounds ``1 - NDCG`` by the pairs that are out of order; tighter than NDCG-Loss1.

    ``w_ij = delta_ij |G_i - G_j|`` for ``y_i > y_j``, where ``delta_ij = |1/D_d - 1/D_(d+1)|`` and
    ``d = |rank_i - rank_j|``.

    Wang et al., CIKM 2018, sec. 5.2, eq. 15 and 16.

    Its parameters are those of `LambdaLoss`, and ``gain`` and ``discount`` as in
    `tautrank.metrics.NDCG`.

    >>> NDCGLoss2(k=None).bind([0, 0, 1, 2], [0, 4]).values([0.0, 3.0, 1.0, 2.0]).round(7)
    array([0.8460206])
    """

    def _rank_weights(self, n: int) -> tuple[F64, F64]:
        return np.zeros(n), self._gaps(n)


@register("ndcg-loss2++")
class NDCGLoss2PP(_GainLoss):
    """LambdaRank and NDCG-Loss2 together: the best of the paper's experiments.

    ``w_ij = (rho_ij + mu delta_ij) |G_i - G_j|`` for ``y_i > y_j``, where
    ``rho_ij = |1/D_i - 1/D_j|`` is LambdaRank's and ``delta_ij`` NDCG-Loss2's.

    Wang et al., CIKM 2018, eq. 19.

    Its parameters are those of `LambdaLoss`, and ``gain`` and ``discount`` as in
    `tautrank.metrics.NDCG`.

    >>> NDCGLoss2PP(k=None, mu=10).bind([0, 0, 1, 2], [0, 4]).values([0.0, 3.0, 1.0, 2.0]).round(7)
    array([9.5320258])
    """

    _searched: ClassVar[Ranges] = {**LambdaLoss._searched, "mu": ("float", 0.5, 20.0, "log")}

    def _rank_weights(self, n: int) -> tuple[F64, F64]:
        return discount_values(n, self.discount), self.mu * self._gaps(n)


class _PairObjective(Objective):
    """A LambdaLoss bound to lists. All arrays that a kernel reads are in the order of the
    arrangement.
    """

    loss: LambdaLoss

    def __init__(self, loss: LambdaLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # Rows: the documents of the first k ranks; a pair has at least one of them.
        self._n_rows = lists.longest if loss.k is None else min(loss.k, lists.longest)
        # Pairs, and per document about thirty pairs' worth of ranking and exponentials.
        pairs_per_document = np.minimum(self._n_rows, lists.sizes) + 30.0
        super().__init__(loss, lists, seed, threads, costs=lists.sizes * pairs_per_document)
        self._weights = loss._document_weights(lists)[lists.arrangement]
        # The loss is in bits: logarithms to the base 2.
        self._scale = lists.weights / math.log(2.0)

    @functools.cached_property
    def _levels(self) -> F64:
        """The number of each document's label among the different labels."""
        labels = self.lists.labels[self.lists.arrangement]
        _, levels = np.unique(labels, return_inverse=True)
        return levels.astype(np.float64)

    @functools.cached_property
    def _tables(self) -> _WeightTables:
        """The tables that pair weights are made of, in float64: the weight of each document (its
        gain or label), ``v`` by rank (a discount), and ``gap`` by the distance of two ranks.
        """
        from tautrank.kernels.ranking import LANES

        # The kernels serve LANES documents at a time and so look beyond the end of a list.
        v, gap = self.loss._rank_weights(self.lists.longest + 2 * LANES)
        # They also look up to two places before distance 0: the zeros are for the distances -2, -1
        # and 0, which weigh nothing; ``gap[1:]`` are the distances from 1 on.
        padded_gap = np.concatenate((np.zeros(3), gap[1:]))
        return _WeightTables(self._weights, v, padded_gap)

    @functools.cached_property
    def _tables_in_float32(self) -> _WeightTables:
        """The same tables for training."""
        return _WeightTables(*(table.astype(np.float32) for table in self._tables))

    @property
    def _compares_labels(self) -> bool:
        """Whether the kernel must compare labels to tell which document of a pair is better,
        because the difference of their weights alone does not say it.
        """
        loss = self.loss
        is_capped = math.isfinite(loss._cap)
        return loss.every_pair or loss.norm is not None or loss._draws_rankings or is_capped

    def _pairs(self, scores: Floats, step: int, scale: F64) -> Any:
        """Return the arguments of the kernels that loop over pairs of documents: scores, ranks and
        the tables that give each pair its weight.

        Args:
            scores: scores that rank the documents.
            step: keys the random numbers of sampled rankings.
            scale: one factor per query.
        """
        from tautrank.losses._pairwise_kernel import Pairs

        loss, lists = self.loss, self.lists
        tables = self._tables_in_float32 if scores.dtype == np.float32 else self._tables
        # The arrangement has the documents of each query from the lowest label to the highest;
        # ranks and gains are in its order. `_cap`: the upper limit of the difference of two gains.
        ranks = self._ranks(scores)
        return Pairs(
            scores=scores,
            arrangement=lists.arrangement,
            ranks=ranks,
            gains=self._gains(scores, ranks, step, tables.documents),
            offsets=lists.offsets,
            scale=scale,
            v=tables.v,
            gap=tables.gap,
            cap=loss._cap,
            every_pair=loss.every_pair,
            normalise=loss.norm is not None,
            k=self._n_rows,
            sigma=loss.sigma,
        )

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian of the pairwise loss, one number each per document.

        Args:
            scores: one per document, noise included; their type is that of the results.
            step: keys the random numbers.
        """
        from tautrank.losses._pairwise_kernel import pair_gradients

        dtype = scores.dtype
        # The numbers of the labels tell which document of a pair is better, where the difference of
        # their weights alone does not.
        levels: Floats | None = None
        if self._compares_labels:
            levels = self._levels.astype(dtype, copy=False)
        pairs = self._pairs(scores, step, self._scale * self.loss.sigma)
        ideal = self._ideal_documents(step)
        grad, hess = self._filled_gradients(
            pair_gradients, dtype, pairs, levels, ideal, _REACH[dtype]
        )
        # XGBoost doubles the hessian, and so halves its steps.
        if self.loss.norm == "xgboost":
            hess *= 2.0
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the pairwise loss of each query.

        Args:
            scores: scores at which the logistic loss of each pair is taken.
            held: scores that rank the documents; the weights of pairs depend on these ranks.
            step: keys the random numbers.
        """
        from tautrank.losses._pairwise_kernel import pair_values

        pairs = self._pairs(held, step, self._scale)
        ideal = self._ideal_documents(step)
        # ``pairs`` was made from ``held``; the logistic losses are taken at ``scores``.
        return self._filled_values(pair_values, pairs, self._levels, ideal, scores)

    @functools.cached_property
    def _ideal_top(self) -> _IdealTop:
        """The k documents with the highest labels of each query, and the documents with equal
        labels that compete for the last of these k places.

        Documents are sorted by label inside each query, the best ones last, so the ideal top k are
        the last k, and those that compete for its last places are neighbours.
        """
        loss, lists = self.loss, self.lists
        assert loss.k is not None
        labels = lists.labels[lists.arrangement]
        starts = lists.offsets[:-1]
        ends = lists.offsets[1:]

        # The lowest label of each query's top k; the 0 appended is for queries without documents.
        first_of_top = ends - np.minimum(loss.k, lists.sizes)
        lowest_label_of_top = np.append(labels, 0.0)[first_of_top]
        threshold = lowest_label_of_top[lists.query]

        # The documents with that label; those with label 0 never belong to the ideal top.
        is_below = (labels < threshold) | (labels == 0)
        is_below_or_tied = labels <= threshold
        n_below = query_sums(is_below, lists.offsets).astype(np.int64)
        n_below_or_tied = query_sums(is_below_or_tied, lists.offsets).astype(np.int64)
        tie_starts = starts + n_below
        tie_ends = starts + n_below_or_tied

        n_places = np.minimum(tie_ends - (ends - loss.k), tie_ends - tie_starts)
        first_ideal = tie_starts if loss.extend == "all" else tie_ends - n_places
        documents = np.arange(labels.size)
        return _IdealTop(
            is_ideal=documents >= first_ideal[lists.query],
            ties=np.stack((tie_starts, tie_ends), axis=1),
            n_places=n_places,
        )

    def _ideal_documents(self, step: int) -> Bools | None:
        """Return which documents belong to the k best of their query by label; None if the loss
        does not extend its pairs to them.

        Of documents with equal labels that compete for the last of the k places, ``random`` draws
        some anew at each step.
        """
        if self.loss.extend is None or self.loss.k is None:
            return None
        ideal_top = self._ideal_top
        if self.loss.extend != "random":
            return ideal_top.is_ideal
        from tautrank.losses._pairwise_kernel import draw_ties

        # A copy, since the kernel overwrites the entries of the tied documents.
        is_ideal = ideal_top.is_ideal.copy()
        seed = np.uint64(self.seed)
        arguments = (self.lists.offsets, ideal_top.ties, ideal_top.n_places, seed, step)
        self._fill(draw_ties, arguments, is_ideal)
        return is_ideal

    def _gains(self, scores: Floats, ranks: I32, step: int, weights: Floats) -> Floats:
        """Return what each document is worth in the weights of its pairs, one row per sampled
        ranking.

        The hard assignment has one row, the weights themselves. The soft assignment draws rankings
        from noisy scores and multiplies the weight of a document by
        ``(1 - D(drawn rank)) / (1 - D(rank))`` with the discount ``D``.

        Args:
            scores: scores that rank the documents.
            ranks: ranks from 0 by these scores.
            step: keys the random numbers.
            weights: one per document.
        """
        loss, lists = self.loss, self.lists
        if not isinstance(loss, _GainLoss) or not loss._draws_rankings:
            return weights[np.newaxis]

        cost_by_rank = 1.0 - discount_values(lists.longest, loss.discount)
        reciprocal_costs = np.zeros_like(cost_by_rank)
        np.divide(1.0, cost_by_rank, out=reciprocal_costs, where=cost_by_rank > 0)
        reciprocal_cost = reciprocal_costs[ranks]
        # The first rank has no cost, so a document there keeps its weight.
        has_cost = cost_by_rank[ranks] > 0

        sampled_weights = np.empty((loss.samples, scores.size), scores.dtype)
        for sample in range(loss.samples):
            # Streams of random numbers that do not overlap those of other uses.
            stream = RANKING_STREAM + 256 * sample
            drawn_scores = self._with_noise(scores, loss.spread, step, stream)
            drawn_cost = cost_by_rank[self._ranks(drawn_scores)]
            factors = np.where(has_cost, drawn_cost * reciprocal_cost, 1.0)
            sampled_weights[sample] = weights * factors
        return sampled_weights


class _WeightTables(NamedTuple):
    """What the weights of pairs are made of.

    documents: weight of each document.
    v: weight by rank, padded.
    gap: weight by distance of ranks, entry ``d + 2`` for the distance ``d``, padded.
    """

    documents: Floats
    v: Floats
    gap: Floats


class _IdealTop(NamedTuple):
    """The ideal top k of each query, in the order of the arrangement.

    is_ideal: which documents belong to it.
    ties: of each query, the range of the documents that tie for its last places.
    n_places: of each query, how many of these documents it takes.
    """

    is_ideal: Bools
    ties: I64
    n_places: I64
