"""How directly a loss optimises a metric: the cost, in the metric, of choosing a ranker by the
loss.

A loss is read as ``O1 = 1 - surrogate measure`` (`surrogate`), the metric as ``O2 = 1 - metric``.
If the two are within ``eps1`` of each other at the ranker that is best by the loss, and within
``eps2`` at the one that is best by the metric, the first ranker is by the metric at most
``2 eps1 + eps2`` worse than the second.

It follows from one line about averages over the queries by which both rankers were chosen:

    O2(w1) - O2(w2) = [O2(w1) - O1(w1)] + [O1(w1) - O1(w2)] + [O1(w2) - O2(w2)] <= eps1 + 0 + eps2

The paper claims it for the expectation over unseen queries, and its proof takes for granted that
``w1`` is no worse than ``w2`` by the loss on each of them. On unseen queries this need not hold:
`docs/theory.md` has an example.

He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank import losses
from tautrank.arguments import whole
from tautrank.arrays import F64
from tautrank.data import Lists
from tautrank.errors import DataError, OptionError
from tautrank.losses import Loss
from tautrank.metrics import ARP, NDCG, Metric, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.theory.loss_bounds import lambdaloss_bound, ndcg_cost
from tautrank.theory.theorem import Labelled, check_lists, check_scored_lists, float_labels

# A measure that is an expected value is estimated from at least so many draws.
_DRAWS = 100


class Surrogate(NamedTuple):
    """A loss read on the scale of a metric.

    Args:
        loss: the loss.
        metric: the metric it stands for.
        reading: the cost in words.
        costs: from scores, lists and a seed to ``O1``, one number per query.

    >>> surrogate("softrank(k=5)")
    softrank(k=5) read as 1 - SoftNDCG@k, compared with 1 - ndcg@5
    >>> surrogate("xendcg").metric_costs([1.0, 0.0], [0, 1]).round(4)
    array([0.3691])
    """

    loss: Loss
    metric: Metric
    reading: str
    costs: Callable[[F64, Lists, int], F64]

    def metric_costs(self, scores: ArrayLike, lists: Labelled) -> F64:
        """``O2``: one minus the metric, or the metric itself where lower is better; NaN where a
        query is skipped.

        Args:
            scores, lists: the lists, see `tautrank.theory`.
        """
        values = self.metric.per_query(scores, lists)
        return 1.0 - values if self.metric.higher_is_better else values

    def __repr__(self) -> str:
        cost = f"1 - {self.metric}" if self.metric.higher_is_better else str(self.metric)
        return f"{self.loss} read as {self.reading}, compared with {cost}"


Readable: TypeAlias = Loss | Surrogate | str
"""A loss, its surrogate measure, or its name."""


@functools.singledispatch
def surrogate(loss: Any) -> Surrogate:
    """Return the surrogate measure of a loss whose value has the scale of a metric.

    =================================  ===================================================================  ==========
    loss                               ``O1``                                                               metric
    =================================  ===================================================================  ==========
    ``softrank``                       the loss: ``1 - SoftNDCG@k``                                         ``ndcg@k``
    ``approxndcg``, ``neuralndcg``     the loss: one minus a smooth NDCG                                    ``ndcg@k``
    ``stochasticrank``, ``reinforce``  ``1 +`` the loss: one minus the mean metric of at least 100 draws    its own
    ``plrank``                         likewise                                                             its own
    ``xendcg``                         ``1 - exp(-loss)``; at least ``1 - NDCG - 1/maxDCG``                 ``ndcg``
    ``listnet``                        ``1 - exp(-loss)``; at least ``1 - NDCG`` for binary labels          ``ndcg``
    ``lambdarank``, ``ndcg-loss2``     the loss; without a cutoff at least ``1 - NDCG``                     ``ndcg@k``
    ``ndcg-loss1``                     the loss less ``sum G - 1``; without a cutoff at least ``1 - NDCG``  ``ndcg@k``
    ``ndcg-loss2++``                   the loss over ``1 + mu``; without a cutoff at least ``1 - NDCG``     ``ndcg@k``
    ``arp-loss1``, ``arp-loss2``       the loss and the constants of its derivation; at least ARP           ``arp@k``
    =================================  ===================================================================  ==========

    ``ranknet``, ``yetiloss`` and ``mse`` count pairs and squares and have the scale of no metric.
    To enter a loss of your own, decorate a function from the loss to its `Surrogate` with
    ``@surrogate.register``.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, sec. V; the
    lower bounds are those of `softmax_ndcg_bound`, `xe_ndcg_bound`, `ndcg_cost_bound` and
    `lambdaloss_bound`.

    Args:
        loss: the loss, or its name.

    >>> surrogate("ndcg-loss2++")
    ndcg-loss2++ read as the loss over 1 + mu, compared with 1 - ndcg@30
    >>> surrogate("mse")
    Traceback (most recent call last):
    tautrank.errors.OptionError: loss: found mse; expected one whose value has the scale of a metric, as the values of
    softrank, xendcg or lambdarank have
    """
    if isinstance(loss, str):
        return surrogate(losses.loss(loss))
    raise OptionError(
        f"loss: found {loss}; expected one whose value has the scale of a metric, as the values of"
        " softrank, xendcg or lambdarank have"
    )


@surrogate.register
def _of_surrogate(surrogate: Surrogate) -> Surrogate:
    return surrogate


def _values(loss: Loss, scores: F64, lists: Lists, seed: int) -> F64:
    """Return the loss of each query."""
    return loss.bind(lists, seed=seed).values(scores)


def _ndcg_of(loss: Any) -> NDCG:
    """Return NDCG with the cutoff, the gain and the discount of a loss."""
    return NDCG(k=loss.k, gain=loss.gain, discount=loss.discount)


def _with_enough_draws(loss: Any) -> Any:
    """Return a loss that is a mean over draws with as many of them as a measure needs."""
    return dataclasses.replace(loss, samples=max(loss.samples, _DRAWS))


@surrogate.register
def _of_softrank(loss: losses.SoftRank) -> Surrogate:
    subject = loss if loss.estimator == "exact" else _with_enough_draws(loss)
    costs = functools.partial(_values, subject)
    return Surrogate(loss, _ndcg_of(loss), "1 - SoftNDCG@k", costs)


@surrogate.register
def _of_smooth_ndcg(loss: losses.SmoothNDCG) -> Surrogate:
    ndcg = NDCG(k=loss.k, gain=loss.gain)
    return Surrogate(loss, ndcg, "1 - a smooth NDCG", functools.partial(_values, loss))


@surrogate.register(losses.SmoothedLoss)
@surrogate.register(losses.PLRank)
def _of_smoothed(loss: Any) -> Surrogate:
    """Return a loss that is minus a metric of noisy scores, read as the cost 1 - metric."""
    if not isinstance(loss.metric, Metric):
        raise OptionError(f"loss: found the metric {loss.metric}; expected one of tautrank.metrics")
    with_draws = _with_enough_draws(loss)

    def costs(scores: F64, lists: Lists, seed: int) -> F64:
        return 1.0 + _values(with_draws, scores, lists, seed)

    smoothed = metric(loss.metric, empty="skip")
    return Surrogate(loss, smoothed, "1 - the metric of noisy scores", costs)


@surrogate.register(losses.ListNet)
@surrogate.register(losses.XENDCG)
def _of_cross_entropy(loss: Any) -> Surrogate:
    """Return cross entropy read on the scale of NDCG: the loss bounds -log NDCG from above, so
    ``1 - exp(-loss)`` bounds 1 - NDCG.
    """

    def costs(scores: F64, lists: Lists, seed: int) -> F64:
        values = _values(loss, scores, lists, seed)
        return np.asarray(-np.expm1(-values))

    return Surrogate(loss, NDCG(), "1 - exp(-loss)", costs)


@surrogate.register(losses.LambdaRank)
@surrogate.register(losses.NDCGLoss2)
def _of_loss_above_ndcg_cost(loss: Any) -> Surrogate:
    return Surrogate(loss, _ndcg_of(loss), "the loss", functools.partial(_values, loss))


@surrogate.register
def _of_ndcg_loss2pp(loss: losses.NDCGLoss2PP) -> Surrogate:
    """Return NDCG-Loss2++ read on the scale of NDCG: it is LambdaRank plus ``mu`` times NDCG-Loss2,
    each on that scale, so it is divided by ``1 + mu``.
    """

    def costs(scores: F64, lists: Lists, seed: int) -> F64:
        return _values(loss, scores, lists, seed) / (1.0 + loss.mu)

    return Surrogate(loss, _ndcg_of(loss), "the loss over 1 + mu", costs)


@surrogate.register
def _of_ndcg_loss1(loss: losses.NDCGLoss1) -> Surrogate:
    """Return NDCG-Loss1 read as the cost 1 - NDCG: the loss bounds ``sum G - NDCG`` (``G`` are gains
    over the maximal DCG), which is ``sum G - 1`` more than 1 - NDCG.
    """

    def costs(scores: F64, lists: Lists, seed: int) -> F64:
        options = {"k": loss.k, "gain": loss.gain, "discount": loss.discount}
        # With the labels as scores NDCG is 1, so its cost sum G - NDCG is sum G - 1.
        cost_of_ideal = ndcg_cost(lists.labels, lists, **options)
        return _values(loss, scores, lists, seed) - cost_of_ideal

    return Surrogate(loss, _ndcg_of(loss), "the loss less sum G - 1", costs)


@surrogate.register(losses.ARPLoss1)
@surrogate.register(losses.ARPLoss2)
def _of_arp(loss: Any) -> Surrogate:
    """Return an ARP loss read on the scale of the average relevance position: the loss plus the
    constants of its derivation bounds that metric.
    """

    def costs(scores: F64, lists: Lists, seed: int) -> F64:
        return lambdaloss_bound(scores, lists, loss).upper

    reading = "the loss and the constants of its derivation"
    return Surrogate(loss, ARP(k=loss.k), reading, costs)


class Directness(NamedTuple):
    """The cost, in the metric, of choosing by the loss, and the guarantee; NaN where a query is
    skipped.

    ``w1`` is the ranker that is best by the loss, ``w2`` the one that is best by the metric.

    Args:
        loss_costs: ``O1`` of each query at ``w1`` and at ``w2``, ``[2, queries]``.
        metric_costs: ``O2`` of each query at ``w1`` and at ``w2``, ``[2, queries]``.

    >>> measured = Directness(np.array([[0.2, 0.4], [0.5, 0.3]]), np.array([[0.1, 0.4], [0.3, 0.1]]))
    >>> measured
    eps1 0.1, eps2 0.2: at most 0.4 worse than the best by the metric, measured 0.05
    >>> round(measured.guarantee_of_means, 4)
    0.15
    """

    loss_costs: F64
    metric_costs: F64

    @property
    def gaps(self) -> F64:
        """``O1 - O2`` of each query at ``w1`` and at ``w2``, ``[2, queries]``."""
        return self.loss_costs - self.metric_costs

    @property
    def eps1(self) -> float:
        """The largest ``|O1 - O2|`` of a query at ``w1``; NaN without queries."""
        return float(np.fmax.reduce(np.abs(self.gaps[0]), initial=np.nan))

    @property
    def eps2(self) -> float:
        """The largest ``|O1 - O2|`` of a query at ``w2``; NaN without queries."""
        return float(np.fmax.reduce(np.abs(self.gaps[1]), initial=np.nan))

    @property
    def guarantee(self) -> float:
        """``2 eps1 + eps2``, as the paper has it."""
        return 2.0 * self.eps1 + self.eps2

    @property
    def guarantee_of_means(self) -> float:
        """``mean(O2 - O1)`` at ``w1`` plus ``mean(O1 - O2)`` at ``w2``: all that the premises
        imply.
        """
        return mean_over_queries(self.gaps[1]) - mean_over_queries(self.gaps[0])

    @property
    def difference(self) -> float:
        """How much worse ``w1`` is by the metric on average; below 0 when it is better."""
        return mean_over_queries(self.metric_costs[0]) - mean_over_queries(self.metric_costs[1])

    @property
    def margin(self) -> float:
        """``2 eps1 + eps2`` less ``|difference|``; below 0 where the theorem is broken, NaN without
        queries.
        """
        return self.guarantee - abs(self.difference)

    def __repr__(self) -> str:
        if math.isnan(self.guarantee):
            return "no query with a relevant document"
        distances = f"eps1 {self.eps1:.4g}, eps2 {self.eps2:.4g}"
        guaranteed = f"at most {self.guarantee:.4g} worse than the best by the metric"
        return f"{distances}: {guaranteed}, measured {self.difference:.4g}"


def directness(
    loss: Readable,
    loss_scores: ArrayLike,
    metric_scores: ArrayLike,
    lists: Labelled,
) -> Directness:
    """Measure eps1, eps2 and what they guarantee for two rankers.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 1.
    The supremum of the paper is taken over the queries given, its expectation is their mean.

    Args:
        loss: the loss, its name, or its `Surrogate`.
        loss_scores: scores of the ranker that is best by the loss.
        metric_scores: scores of the ranker that is best by the metric.
        lists: the lists, see `tautrank.theory`.

    >>> directness("softrank(sigma=0.5)", [1.0, 2.0, 0.0], [0.0, 0.5, -0.5], [0, 1, 0])
    eps1 0.02985, eps2 0.113: at most 0.1727 worse than the best by the metric, measured 0
    """
    lists = check_lists(lists)
    return _measure_costs(surrogate(loss), loss_scores, metric_scores, lists, seed=0)


def _measure_costs(
    subject: Surrogate,
    loss_scores: ArrayLike,
    metric_scores: ArrayLike,
    lists: Lists,
    seed: int,
) -> Directness:
    """Take the scores of two rankers and return what each costs on each query, by the loss and by
    the metric.

    The first row of each result is the ranker that is best by the loss, the second the one that is
    best by the metric. A surrogate is a loss with the reading that puts it on a metric's scale.

    Args:
        subject: the loss, read on the scale of a metric.
        loss_scores: scores of the ranker that is best by the loss.
        metric_scores: scores of the ranker that is best by the metric.
        lists: the labelled lists.
        seed: seed of a random loss.
    """
    of_best_by_loss = _compute_costs(subject, loss_scores, lists, seed)
    of_best_by_metric = _compute_costs(subject, metric_scores, lists, seed)
    return Directness(
        loss_costs=np.array([of_best_by_loss.by_loss, of_best_by_metric.by_loss]),
        metric_costs=np.array([of_best_by_loss.by_metric, of_best_by_metric.by_metric]),
    )


class _Costs(NamedTuple):
    """The costs of scores, one number per query; NaN where a query is skipped.

    Attributes:
        by_loss: ``O1``.
        by_metric: ``O2``.
    """

    by_loss: F64
    by_metric: F64


def _compute_costs(subject: Surrogate, scores: ArrayLike, lists: Lists, seed: int) -> _Costs:
    """Return what one scoring of the documents costs on each query, by the loss and by the metric;
    NaN where the metric skips the query.
    """
    scores = check_scored_lists(scores, lists)[0]  # and the lists, which are checked already
    by_metric = subject.metric_costs(scores, lists)
    by_loss = subject.costs(scores, lists, seed)
    return _Costs(np.where(np.isnan(by_metric), np.nan, by_loss), by_metric)


def directness_among(
    loss: Readable,
    scorings: Sequence[ArrayLike],
    lists: Labelled,
    *,
    seed: int = 0,
) -> Directness:
    """Choose among scorings by the loss and by the metric, and measure what the choice costs.

    The scorings are the class of rankers, finite as in footnote 2 of He and Liu, *Are Algorithms
    Directly Optimizing IR Measures Really Direct?*, 2008; ``w1`` has the least mean ``O1`` among
    them, ``w2`` the least mean ``O2``. On the queries by which they were chosen Theorem 1 holds for
    every loss and every metric.

    Args:
        loss: the loss, its name, or its `Surrogate`.
        scorings: arrays of scores.
        lists: the lists, see `tautrank.theory`.
        seed: seed of a random loss.

    >>> scorings = [1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [9.0, 0.0, 0.0]
    >>> directness_among("xendcg(gamma=1)", scorings, [0, 1, 0])
    eps1 0.1562, eps2 0.1562: at most 0.4686 worse than the best by the metric, measured 0
    """
    best = best_scorings(loss, scorings, lists, seed=seed)
    lists = check_lists(lists)
    scores_of_best_by_loss = scorings[best.by_loss]
    scores_of_best_by_metric = scorings[best.by_metric]
    return _measure_costs(
        surrogate(loss), scores_of_best_by_loss, scores_of_best_by_metric, lists, seed
    )


class BestScorings(NamedTuple):
    """Which of several scorings is best.

    Args:
        by_loss: the one with the least mean ``O1``.
        by_metric: the one with the least mean ``O2``; of several the best by the loss.

    >>> BestScorings(by_loss=1, by_metric=0).by_loss
    1
    """

    by_loss: int
    by_metric: int


def best_scorings(
    loss: Readable,
    scorings: Sequence[ArrayLike],
    lists: Labelled,
    *,
    seed: int = 0,
) -> BestScorings:
    """Return the numbers of two scorings: the best one by the loss and the best one by the metric,
    each with the least mean cost over the queries.

    Of several that are best by the metric it is the best by the loss, and the first one of equals.

    Args:
        loss: the loss, its name, or its `Surrogate`.
        scorings: arrays of scores.
        lists: the lists, see `tautrank.theory`.
        seed: seed of a random loss.

    >>> best_scorings("lambdarank(k=none)", ([1.0, 2.0], [0.0, 3.0]), [0, 1])  # NDCG is 1 at both
    BestScorings(by_loss=1, by_metric=1)
    """
    if len(scorings) == 0:
        raise DataError("scorings: found none; expected at least one")
    lists = check_lists(lists)
    subject = surrogate(loss)
    costs = [_compute_costs(subject, scores, lists, seed) for scores in scorings]
    mean_loss_costs = np.array([mean_over_queries(cost.by_loss) for cost in costs])
    mean_metric_costs = np.array([mean_over_queries(cost.by_metric) for cost in costs])

    # Metrics that differ by rounding are equal.
    is_best_by_metric = mean_metric_costs <= mean_metric_costs.min() + 1e-12
    loss_costs_of_best = np.where(is_best_by_metric, mean_loss_costs, np.inf)
    return BestScorings(
        by_loss=int(np.argmin(mean_loss_costs)),
        by_metric=int(np.argmin(loss_costs_of_best)),
    )


def spread_scorings(lists: Labelled, *, seed: int = 0) -> list[F64]:
    """Return fifteen scorings from chance to near the order of the labels, at three scales: a class
    of rankers.

    ``scale (t y/max y + (1 - t) noise)`` for ``t`` of 0, 0.2, 0.4, 0.6 and 0.8 and scales of 1/2, 3
    and 20, each with noise of its own.

    Args:
        lists: the lists, see `tautrank.theory`.
        seed: seed of the noise.

    >>> scorings = spread_scorings([0, 1, 2])
    >>> len(scorings), scorings[0].shape
    (15, (3,))
    """
    lists = check_lists(lists)
    rng = np.random.default_rng(whole("seed", seed, 0))
    labels = float_labels(lists)
    highest_label = max(float(labels.max(initial=0.0)), 1e-300)  # not 0, to divide by it
    by_label = labels / highest_label
    scorings = []
    for scale in (0.5, 3.0, 20.0):
        for t in (0.0, 0.2, 0.4, 0.6, 0.8):
            noise = rng.normal(size=lists.n_documents)
            blend = t * by_label + (1.0 - t) * noise
            scorings.append(scale * blend)
    return scorings
