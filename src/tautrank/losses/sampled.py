"""Losses that sample rankings: YetiLoss compares neighbours, PL-Rank differentiates the expected
metric.

Lyzhin, Ustimenko, Gulin and Prokhorenkova, *Which Tricks Are Important for Learning to Rank?*, ICML
2023; Oosterhuis, *Learning-to-Rank at the Speed of Sampling*, SIGIR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import checked_by, choice, real, whole
from tautrank.arrays import F64, Floats
from tautrank.errors import OptionError
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.losses.stochastic import DEFAULT_METRIC, checked_metric, reader_gains
from tautrank.metrics import MAP, Metric
from tautrank.metrics import metric as read_metric
from tautrank.metrics.gains import discount_values
from tautrank.metrics.ranked import ReaderMetric


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledLoss(Loss):
    """The base of the losses that sample rankings.

    Args:
        metric: the metric, by name or as a `Metric`, with its options and ``@k``.
        samples: rankings to draw and to average at each step.
        noise: see `Loss`.
        strength: see `Loss`.
    """

    _expected: ClassVar[str] = "dcg, ndcg, err, mrr, map, success or rbp"

    metric: str | Metric = DEFAULT_METRIC
    samples: int = field(default=10, metadata=checked_by(whole, least=1, most=2**16))

    def __post_init__(self) -> None:
        super().__post_init__()
        metric: Any = self.metric
        # Average precision (MAP) is read here, since `checked_metric` refuses it: it cannot be
        # optimised directly, but by sampling.
        if str(metric).lower().startswith("map"):
            metric = read_metric(metric)
        if not isinstance(metric, MAP):
            metric = checked_metric(metric)
        # The dataclass is frozen: an ordinary assignment would be an error.
        object.__setattr__(self, "metric", metric)
        if not self._takes(metric):
            raise OptionError(
                f"metric: found {self.metric} with {self.name}; expected {self._expected}"
            )

    @property
    def is_random(self) -> bool:
        """Every step draws new rankings."""
        return True

    def _takes(self, metric: Any) -> bool:
        """Return whether the loss can be made of a metric."""
        return isinstance(metric, ReaderMetric | MAP)

    def _rank_weights(self, weights: F64) -> F64:
        """Return the metric's weight of each rank up to its cutoff; ranks behind it have weight 0.

        Args:
            weights: the metric's weight of every rank.
        """
        n_ranks = np.count_nonzero(weights)
        return weights[:n_ranks]

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return _SampledObjective(self, lists, seed, threads)


@register("yetiloss")
@dataclass(frozen=True, kw_only=True, repr=False)
class YetiLoss(SampledLoss):
    """Neighbours of noisy rankings, compared by a logistic loss with the weight that swapping them
    has in the metric.

    Each of the ``samples`` rankings orders ``s + spread * noise``. Its neighbours at the ranks
    ``r`` and ``r + 1``, a pair with the gains ``g_i > g_j`` in either order, add

        w_ij log(1 + exp(-(s_i - s_j))),    w_ij = |metric - metric with i and j swapped|

    and the value is the mean over the rankings. Rankings and weights are held constant when
    differentiating, and the hessian is the second derivative. For dcg and ndcg
    ``w = (g_i - g_j) (1/D_r - 1/D_(r+1))``; for err and mrr times the chance that the reader comes
    as far as rank ``r``; for map ``w = (1 + c) (1/r - 1/(r + 1)) / |relevant|``, where ``c``
    relevant documents are above. A swap at the end of ``@k`` takes a document out of the metric.

    Lyzhin, Ustimenko, Gulin and Prokhorenkova, *Which Tricks Are Important for Learning to Rank?*,
    ICML 2023. YetiRank is Gulin, Kuralenok and Pavlov, *Winning the Transfer Learning Track of
    Yahoo!'s Learning to Rank Challenge with YetiRank*, 2011:
    ``yetiloss(metric=dcg(gain=linear),decay=0.85)`` has the weights of CatBoost's, but for a
    factor.

    Args:
        metric: ``dcg``, ``ndcg``, ``err``, ``mrr``, ``map``, ``success@k`` or ``rbp``.
        samples: rankings to draw, CatBoost's ``permutations``.
        distribution: of the noise: ``"logistic"``, ``log(u / (1 - u))``, which CatBoost calls
            Gumbel; ``"gumbel"``, with which rankings are those of a Plackett-Luce model; or
            ``"normal"``.
        spread: scale of the noise.
        decay: ``None``, or what the weight of a pair of ranks is multiplied by from rank to rank,
            instead of the differences of the metric's discount.
        noise: see `Loss`; it also changes the scores that the loss is taken at.
        strength: see `Loss`.

    >>> objective = YetiLoss(metric="mrr", spread=0).bind(labels=[1, 0, 0], offsets=[0, 3])
    >>> objective.values([0.0, 1.0, 2.0]) / np.log1p(np.e)  # one pair counts: from rank 3 to rank 2
    array([0.16666667])
    """

    _searched: ClassVar[Ranges] = {"spread": ("float", 0.1, 3.0, "log")}

    distribution: str = field(
        default="logistic", metadata=checked_by(choice, known=("logistic", "gumbel", "normal"))
    )
    spread: float = field(default=1.0, metadata=checked_by(real, least=0.0))
    decay: float | None = field(default=None, metadata=checked_by(real, least=0.0, most=1.0))

    @property
    def is_random(self) -> bool:
        """Whether scores or rankings are noisy."""
        return self.noise is not None or self.spread > 0

    def _rank_weights(self, weights: F64) -> F64:
        """Return the weight of each pair of neighbouring ranks: how much the metric's weight falls
        from one to the next, or a power of ``decay``.
        """
        weights_to_cutoff = super()._rank_weights(weights)
        # Beyond the cutoff the weight is 0, to which the last rank falls.
        drops_to_next_rank = -np.diff(weights_to_cutoff, append=0.0)
        if self.decay is None:
            return drops_to_next_rank
        return np.power(self.decay, np.arange(drops_to_next_rank.size))


@register("plrank")
@dataclass(frozen=True, kw_only=True, repr=False)
class PLRank(SampledLoss):
    """The expected metric of a Plackett-Luce policy, with unbiased estimates of its derivatives.

    The policy draws a ranking ``y`` document by document, each with a chance in proportion to
    ``e^f`` of its score ``f``; the value is minus the mean of ``sum_x w_x g_(y_x)`` over the drawn
    rankings, for the weights ``w`` of the first ``K`` ranks and the gains ``g``. With ``Z_x`` the
    sum of ``e^f`` over the documents left at rank ``x``, the reward
    ``R_x = sum_(i >= x) w_i g_(y_i)``, and ``r`` the rank of document ``d``, or ``K`` if it is not
    drawn,

        grad_d = -E [ P_d + A_d ],    A_d = e^f_d sum_(x <= r) (g_d w_x - R_x) / Z_x

    where ``P_d = R_(r + 1)``, or 0 if ``d`` is not drawn. The second derivative is estimated from
    the same rankings,

        h_d = -E [ (P_d + A_d) ([d is drawn] - e^f_d sum_(x <= r) 1/Z_x) + A_d - B_d ]
        B_d = e^2f_d sum_(x <= r) (g_d w_x - R_x) / Z_x^2

    The expected metric is not convex: ``hess`` is ``|h_d|`` but at least ``|grad_d|``, so that no
    Newton step is longer than the scale of the policy, 1. Rankings are drawn by adding Gumbel noise
    to the scores. The time is ``O(n + K log K)`` per ranking.

    Oosterhuis, *Learning-to-Rank at the Speed of Sampling: Plackett-Luce Gradient Estimation With
    Minimal Computational Complexity*, SIGIR 2022 (PL-Rank-3); Kang, de Rijke and Oosterhuis,
    *Estimating the Hessian Matrix of Ranking Objectives for Stochastic Learning to Rank with
    Gradient Boosted Trees*, SIGIR 2024.

    Args:
        metric: ``dcg``, ``ndcg`` or ``rbp``.
        samples: rankings to draw.
        noise: see `Loss`.
        strength: see `Loss`.

    >>> objective = PLRank(metric="dcg(gain=linear)@1", samples=2000).bind([1, 0], [0, 2])
    >>> grad, hess = objective.gradients([0.0, 0.0])
    >>> grad.round(2)  # the chance of rank 1 is the logistic function: a slope of 1/4
    array([-0.25,  0.25])
    """

    gradient_is_derivative = False
    """The gradient is an estimate of the derivative of the expected value."""

    _searched: ClassVar[Ranges] = {"samples": ("choice", 5, 10, 30)}
    _expected: ClassVar[str] = "dcg, ndcg or rbp, whose gains add up"

    def _takes(self, metric: Any) -> bool:
        """Return whether the gains of a metric add up: its reader does not stop."""
        return isinstance(metric, ReaderMetric) and not metric.stops


class _SampledObjective(Objective):
    """A loss of sampled rankings, bound to lists."""

    loss: SampledLoss

    def __init__(self, loss: SampledLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        gains, rank_weights = _compute_gains_and_weights(loss.metric, lists)
        self._weights = loss._rank_weights(rank_weights)
        # In units of a pair of documents: forty for the noise of each document, a hundred to find
        # the document at each rank.
        n_ranks = np.minimum(self._weights.size, lists.sizes)
        cost_of_ranking = lists.sizes * 40.0 + 100.0 * n_ranks
        costs = loss.samples * cost_of_ranking
        super().__init__(loss, lists, seed, threads, costs)
        # The arrangement has the documents of each query from the lowest label to the highest.
        self._gains = np.ascontiguousarray(gains[lists.arrangement])
        self._scale = lists.weights_of(gains)

    def _results(self, scores: Floats, held: Floats, step: int) -> tuple[Floats, Floats, F64]:
        """Return gradient and hessian (one number each per document) and the value of each query,
        as means over the rankings that are drawn at a step.

        Args:
            scores: scores at which the loss is taken.
            held: scores that rankings are drawn from, where the two differ (YetiLoss).
            step: keys the random numbers.
        """
        if isinstance(self.loss, YetiLoss):
            return self._compare_neighbours(self.loss, scores, held, step)
        from tautrank.losses._sampled_kernel import policy_gradients

        draws = self._draws(scores, step)
        grad, hess, values = self._filled_results(
            policy_gradients, scores.dtype, draws, self._weights
        )
        # A hessian that is estimated may be negative; at least |gradient|, it keeps Newton steps at
        # most 1 long.
        hess = np.maximum(np.abs(hess), np.abs(grad))
        return grad, hess, values

    def _compare_neighbours(
        self, loss: YetiLoss, scores: Floats, held: Floats, step: int
    ) -> tuple[Floats, Floats, F64]:
        """Return gradient, hessian and values of YetiLoss: a logistic loss of each two documents
        that are neighbours in a randomly drawn ranking.

        Args:
            loss: the loss.
            scores: scores that the logistic loss compares.
            held: scores that rankings are drawn from.
            step: keys the random numbers.
        """
        from tautrank.losses import _sampled_kernel as kernel
        from tautrank.losses._smoothing_kernel import DISTRIBUTIONS

        # How the metric's reader goes on after a document, which decides what a swap changes.
        if isinstance(loss.metric, MAP):
            reader = kernel.COUNTS
        elif getattr(loss.metric, "stops", False):
            reader = kernel.STOPS
        else:
            reader = kernel.READS
        options = (DISTRIBUTIONS.index(loss.distribution), loss.spread, reader)
        draws = self._draws(held, step)
        return self._filled_results(
            kernel.neighbour_pairs, scores.dtype, draws, self._weights, options, scores
        )

    def _draws(self, scores: Floats, step: int) -> Any:
        """Return the arguments of the kernels that draw rankings: the lists, the scores to draw
        from, and the keys of the random numbers.
        """
        from tautrank.losses._smoothing_kernel import Draws

        return Draws(
            scores=scores,
            arrangement=self.lists.arrangement,
            values=self._gains,
            offsets=self.lists.offsets,
            scale=self._scale,  # weight of each query; 0 where no document has a gain
            samples=self.loss.samples,
            seed=np.uint64(self.seed),
            step=step,
        )


def _compute_gains_and_weights(metric: Any, lists: TrainingLists) -> tuple[F64, F64]:
    """Return the gain of each document and the weight of each rank in a metric.

    For average precision the gain of a relevant document is one over the number of relevant
    documents of its query, and rank ``r`` has the weight ``1/r``.
    """
    if not isinstance(metric, MAP):
        return reader_gains(metric, lists)
    # Relevance is 1 or 0. `_norms` counts the relevant documents of each query, or only as many as
    # fit above the metric's cutoff; at least 1, which must not divide by 0.
    relevance = metric._document_values(lists.labels)
    n_relevant = np.maximum(metric._norms(relevance, lists.offsets), 1.0)
    gains = relevance / np.repeat(n_relevant, lists.sizes)
    rank_weights = discount_values(lists.longest, "reciprocal", metric.k)
    return gains, rank_weights
