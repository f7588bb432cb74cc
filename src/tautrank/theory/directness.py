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
from tautrank.arrays import F64, I64
from tautrank.errors import DataError, OptionError
from tautrank.losses import Loss
from tautrank.metrics import ARP, NDCG, Metric, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.theory.loss_bounds import lambdaloss_bound, ndcg_cost
from tautrank.theory.theorem import check_scored_lists

# A measure that is an expected value is estimated from at least so many draws.
_DRAWS = 100


class Surrogate(NamedTuple):
    """A loss read on the scale of a metric.

    Args:
        loss: the loss.
        judge: the metric it stands for.
        reading: the cost in words.
        costs: from scores, labels, offsets and a seed to ``O1``, one number per query.

    >>> surrogate("softrank(k=5)")
    softrank(k=5) read as 1 - SoftNDCG@k, compared with 1 - ndcg@5
    >>> surrogate("xendcg").metric_costs([1.0, 0.0], [0, 1], [0, 2]).round(4)
    array([0.3691])
    """

    loss: Loss
    judge: Metric
    reading: str
    costs: Callable[[F64, F64, I64, int], F64]

    def metric_costs(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> F64:
        """``O2``: one minus the metric, or the metric itself where lower is better; NaN where a
        query is skipped.

        Args:
            scores, labels, offsets: the lists, see `tautrank.theory`.
        """
        values = self.judge.per_query(scores, labels, offsets)
        return 1.0 - values if self.judge.higher_is_better else values

    def __repr__(self) -> str:
        cost = f"1 - {self.judge}" if self.judge.higher_is_better else str(self.judge)
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
    expected = "one whose value has the scale of a metric, as the values of softrank, xendcg or lambdarank have"
    raise OptionError(f"loss: found {loss}; expected {expected}")


def _read(
    loss: Any,
    reading: str,
    change: Callable[..., F64],
    judge: Metric | None = None,
    drawn: bool = False,
) -> Surrogate:
    """Return a surrogate measure beside the loss's own NDCG or another metric.

    Args:
        loss: the loss.
        reading: the cost in words.
        change: from the values of the loss, scores, labels and offsets to the cost.
        judge: the metric.
        drawn: whether the loss is a mean over draws.
    """
    sampled = dataclasses.replace(loss, samples=max(loss.samples, _DRAWS)) if drawn else loss

    def costs(scores: F64, labels: F64, offsets: I64, seed: int) -> F64:
        return change(
            sampled.bind(labels, offsets, seed=seed).values(scores), scores, labels, offsets
        )

    return Surrogate(
        loss, judge or NDCG(k=loss.k, gain=loss.gain, discount=loss.discount), reading, costs
    )


def _as_it_is(values: F64, *_: Any) -> F64:
    return values


def _of_smoothed(loss: losses.SmoothedLoss | losses.PLRank) -> Surrogate:
    if not isinstance(loss.metric, Metric):
        raise OptionError(f"loss: found the metric {loss.metric}; expected one of tautrank.metrics")
    judge = metric(loss.metric, empty="skip")
    return _read(
        loss, "1 - the metric of noisy scores", lambda values, *_: 1.0 + values, judge, drawn=True
    )


def _of_cross_entropy(loss: losses.ListNet | losses.XENDCG) -> Surrogate:
    return _read(loss, "1 - exp(-loss)", lambda values, *_: -np.expm1(-values), NDCG())


def _of_ndcg_loss1(loss: losses.NDCGLoss1) -> Surrogate:
    own = {"k": loss.k, "gain": loss.gain, "discount": loss.discount}
    return _read(
        loss,
        "the loss less sum G - 1",
        lambda values, s, y, cuts: values - ndcg_cost(y, y, cuts, **own),
    )


def _of_arp(loss: losses.ARPLoss1 | losses.ARPLoss2) -> Surrogate:
    reading = "the loss and the constants of its derivation"
    return _read(
        loss,
        reading,
        lambda values, s, y, cuts: lambdaloss_bound(s, y, cuts, loss).upper,
        ARP(k=loss.k),
    )


_READINGS: dict[type[Any], Callable[[Any], Surrogate]] = {
    Surrogate: lambda given: given,
    losses.SoftRank: lambda loss: _read(
        loss, "1 - SoftNDCG@k", _as_it_is, drawn=loss.estimator != "exact"
    ),
    losses.SmoothNDCG: lambda loss: _read(
        loss, "1 - a smooth NDCG", _as_it_is, NDCG(k=loss.k, gain=loss.gain)
    ),
    **dict.fromkeys((losses.SmoothedLoss, losses.PLRank), _of_smoothed),
    **dict.fromkeys((losses.ListNet, losses.XENDCG), _of_cross_entropy),
    **dict.fromkeys(
        (losses.LambdaRank, losses.NDCGLoss2), lambda loss: _read(loss, "the loss", _as_it_is)
    ),
    losses.NDCGLoss2PP: lambda loss: _read(
        loss, "the loss over 1 + mu", lambda values, *_: values / (1.0 + loss.mu)
    ),
    losses.NDCGLoss1: _of_ndcg_loss1,
    **dict.fromkeys((losses.ARPLoss1, losses.ARPLoss2), _of_arp),
}
for _kind, _reading in _READINGS.items():
    surrogate.register(_kind, _reading)


class Directness(NamedTuple):
    """The cost, in the metric, of choosing by the loss, and the guarantee; NaN where a query is
    skipped.

    ``w1`` is the ranker that is best by the loss, ``w2`` the one that is best by the metric.

    Args:
        loss_costs: ``O1`` of each query at ``w1`` and at ``w2``, ``[2, queries]``.
        metric_costs: ``O2`` of each query at ``w1`` and at ``w2``, ``[2, queries]``.

    >>> found = Directness(np.array([[0.2, 0.4], [0.5, 0.3]]), np.array([[0.1, 0.4], [0.3, 0.1]]))
    >>> found
    eps1 0.1, eps2 0.2: at most 0.4 worse than the best by the metric, measured 0.05
    >>> round(found.guarantee_of_means, 4)
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
        """``2 eps1 + eps2`` less ``|difference|``; below 0 where the theorem fails, NaN without
        queries.
        """
        return self.guarantee - abs(self.difference)

    def __repr__(self) -> str:
        if math.isnan(self.guarantee):
            return "no query with a relevant document"
        most = f"at most {self.guarantee:.4g} worse than the best by the metric, measured {self.difference:.4g}"
        return f"eps1 {self.eps1:.4g}, eps2 {self.eps2:.4g}: {most}"


def directness(
    loss: Readable,
    loss_scores: ArrayLike,
    metric_scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
) -> Directness:
    """Measure eps1, eps2 and what they guarantee for two rankers.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 1.
    The supremum of the paper is taken over the queries given, its expectation is their mean.

    Args:
        loss: the loss, its name, or its `Surrogate`.
        loss_scores: scores of the ranker that is best by the loss.
        metric_scores: scores of the ranker that is best by the metric.
        labels, offsets: the lists, see `tautrank.theory`.

    >>> directness("softrank(sigma=0.5)", [1.0, 2.0, 0.0], [0.0, 0.5, -0.5], [0, 1, 0], [0, 3])
    eps1 0.02985, eps2 0.113: at most 0.1727 worse than the best by the metric, measured 0
    """
    return Directness(*_costs(loss, (loss_scores, metric_scores), labels, offsets, 0))


def _costs(
    loss: Readable, scorings: Sequence[ArrayLike], labels: ArrayLike, offsets: ArrayLike, seed: int
) -> tuple[F64, F64]:
    """Return ``O1`` and ``O2``, ``[scorings, queries]``; NaN where a query is skipped."""
    chosen, scored = (
        surrogate(loss),
        [check_scored_lists(scores, labels, offsets) for scores in scorings],
    )
    metric_costs = np.array(
        [chosen.metric_costs(s, lists.labels, lists.offsets) for s, lists in scored]
    )
    loss_costs = np.array(
        [chosen.costs(s, lists.labels, lists.offsets, seed) for s, lists in scored]
    )
    return np.where(np.isnan(metric_costs), np.nan, loss_costs), metric_costs


def directness_among(
    loss: Readable,
    scorings: Sequence[ArrayLike],
    labels: ArrayLike,
    offsets: ArrayLike,
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
        labels, offsets: the lists, see `tautrank.theory`.
        seed: seed of a random loss.

    >>> scorings = [1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [9.0, 0.0, 0.0]
    >>> directness_among("xendcg(gamma=1)", scorings, [0, 1, 0], [0, 3])
    eps1 0.1562, eps2 0.1562: at most 0.4686 worse than the best by the metric, measured 0
    """
    best = [scorings[at] for at in best_scorings(loss, scorings, labels, offsets, seed=seed)]
    return Directness(*_costs(loss, best, labels, offsets, seed))


def best_scorings(
    loss: Readable,
    scorings: Sequence[ArrayLike],
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    seed: int = 0,
) -> tuple[int, int]:
    """Return which of the scorings has the least mean ``O1``, and which has the least mean ``O2``.

    Of several that are best by the metric it is the best by the loss, and the first one of equals.

    Args:
        loss: the loss, its name, or its `Surrogate`.
        scorings: arrays of scores.
        labels, offsets: the lists, see `tautrank.theory`.
        seed: seed of a random loss.

    >>> best_scorings("lambdarank(k=none)", ([1.0, 2.0], [0.0, 3.0]), [0, 1], [0, 2])  # NDCG is 1 at both
    (1, 1)
    """
    if len(scorings) == 0:
        raise DataError("scorings: found none; expected at least one")
    costs = _costs(loss, scorings, labels, offsets, seed)
    by_loss, by_metric = np.array(
        [[mean_over_queries(values) for values in of_scorings] for of_scorings in costs]
    )
    among = by_metric <= by_metric.min() + 1e-12
    return int(np.argmin(by_loss)), int(np.argmin(np.where(among, by_loss, np.inf)))


def spread_scorings(labels: ArrayLike, offsets: ArrayLike, *, seed: int = 0) -> list[F64]:
    """Return fifteen scorings from chance to near the order of the labels, at three scales: a class
    of rankers.

    ``scale (t y/max y + (1 - t) noise)`` for ``t`` of 0, 0.2, 0.4, 0.6 and 0.8 and scales of 1/2, 3
    and 20, each with noise of its own.

    Args:
        labels, offsets: the lists, see `tautrank.theory`.
        seed: seed of the noise.

    >>> scorings = spread_scorings([0, 1, 2], [0, 3])
    >>> len(scorings), scorings[0].shape
    (15, (3,))
    """
    y, lists = check_scored_lists(labels, labels, offsets)
    rng = np.random.default_rng(whole("seed", seed, 0))
    unit = lists.labels / max(float(y.max(initial=0.0)), 1e-300)
    shares, scales = (0.0, 0.2, 0.4, 0.6, 0.8), (0.5, 3.0, 20.0)
    return [
        scale * (t * unit + (1.0 - t) * rng.normal(size=y.size)) for scale in scales for t in shares
    ]
