"""How steep a loss can be: the Lipschitz constant with respect to the largest change of a score.

A loss whose value changes by at most ``L max_i |s_i - s'_i|`` is ``L``-Lipschitz with respect to the infinity norm;
for a differentiable loss the smallest such ``L`` is the largest ``sum_i |dl/ds_i|``.

The weights of ``lambdarank``, the NDCG losses and every loss with a cutoff jump when documents change places, so as
functions of the scores they have no Lipschitz constant at all; what is bounded, here as in the paper, is the loss
between such jumps, with its weights held fixed.

Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.losses import LambdaLoss, LambdaRank, Loss, SoftmaxLoss
from tautrank.losses import loss as loss_named
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.derivatives import differences


@dataclass(frozen=True, eq=False)
class Lipschitz:
    """Lipschitz constants of a loss on given labels, one per query.

    Args:
        paper: what the paper states: 2 for cross entropy, ``sigma m^2 / log 2`` for LambdaRank (the losses of this
            library take logarithms to base 2, the paper's to base e); NaN for other losses.
        proven: a bound for these labels that needs no scores; NaN where none is known, infinity where there is none.
        measured: the largest ``sum_i |dl/ds_i|`` over the scores that were tried.

    >>> found = lipschitz("lambdarank(k=none)", [1, 0, 0, 0], [0, 4])
    >>> found.paper.round(2), found.proven.round(2), found.measured.round(2)
    (array([23.08]), array([5.31]), array([2.42]))
    """

    paper: F64
    proven: F64
    measured: F64


def lipschitz(loss: Loss | str, labels: ArrayLike, offsets: ArrayLike, *, draws: int = 20, seed: int = 0) -> Lipschitz:
    """Measure how steep a loss is, next to the constants that are stated and proven.

    Proven for the softmax family: ``sum_i |rho_i - phi_i| <= 2`` (Proposition 2). For a LambdaLoss every pair pulls two
    documents by at most ``sigma w_ij / log 2``, so the constant is at most ``2 sigma / log 2`` times the sum of the
    weights; each weight is at most ``|u_i - u_j|`` (or ``u_i``) times the largest rank part. Proposition 1 replaces
    that sum by ``m^2 / 2``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Propositions 1 and 2.

    Args:
        loss: any loss, or its name.
        labels, offsets: the lists, see `tautrank.theory`.
        draws: random scorings to try per scale, besides the labels upside down, the worst case of a
            pairwise loss, and all of the probability on the worst document, the worst case of cross entropy.
        seed: seed of the scores and of the loss.

    >>> found = lipschitz("listnet", [1, 0, 0], [0, 3])
    >>> found.paper, found.measured
    (array([2.]), array([2.]))
    """
    chosen = loss_named(loss)
    lists = Lists.of(labels, offsets, None)
    return Lipschitz(
        paper_constant(chosen, lists),
        proven_constant(chosen, lists),
        measured_constant(chosen, lists, whole("draws", draws, 1), whole("seed", seed, 0)),
    )


def paper_constant(loss: Loss, lists: Lists) -> F64:
    """Return the constants of Propositions 1 and 2, one per query; NaN for other losses.

    Args:
        loss: the loss.
        lists: the labelled lists.

    >>> from tautrank.losses import XENDCG
    >>> paper_constant(XENDCG(), Lists.of([1, 0], [0, 2], None))
    array([2.])
    """
    if isinstance(loss, LambdaRank) and loss.norm is None and loss.assignment == "hard":
        return np.where(lists.has_relevant, loss.sigma * lists.sizes.astype(np.float64) ** 2 / math.log(2.0), 0.0)
    return proven_constant(loss, lists) if isinstance(loss, SoftmaxLoss) else np.full(lists.sizes.size, np.nan)


def proven_constant(loss: Loss, lists: Lists) -> F64:
    """Return a bound on ``sum_i |dl/ds_i|`` for all scores, one per query; see `lipschitz`.

    Args:
        loss: the loss.
        lists: the labelled lists.

    >>> from tautrank.losses import RankNet
    >>> proven_constant(RankNet(), Lists.of([1, 0], [0, 2], None)).round(4)  # 2/log 2: one pair
    array([2.8854])
    """
    if isinstance(loss, SoftmaxLoss):
        return np.where(lists.has_relevant, 2.0, 0.0)
    # A norm divides by the distance of scores, and sampled gains have no bound that is of use.
    if not isinstance(loss, LambdaLoss) or loss.norm is not None or loss._draws_rankings:
        return np.full(lists.sizes.size, np.inf if loss.name == "mse" else np.nan)
    u = loss._document_weights(lists)[lists.arrangement]
    v, gap = loss._rank_weights(lists.longest + 1)
    if loss.every_pair:
        weights = float(v.max(initial=0.0)) * (lists.sizes - 1) * query_sums(u, lists.offsets)
    else:
        others = lists.sizes[lists.query] - 1
        if math.isfinite(loss._cap):
            # Every pair of unlike labels counts the same: all pairs but those of equal labels.
            _, group, count = np.unique(np.stack((lists.query, u)), axis=1, return_inverse=True, return_counts=True)
            of_documents = 0.5 * (others + 1 - count[group.ravel()])
        else:
            # From the lowest to the highest u, the sum of all differences.
            place = np.arange(u.size) - lists.offsets[lists.query]
            of_documents = u * (2.0 * place - others)
        steepest = float(v[0] - v[-1] + gap[1:].max(initial=0.0)) if v.size else 0.0
        weights = steepest * query_sums(of_documents, lists.offsets)
    return np.where(lists.has_relevant, 2.0 * loss.sigma / math.log(2.0) * np.maximum(weights, 0.0), 0.0)


def measured_constant(
    loss: Loss, lists: Lists, draws: int, seed: int, scales: tuple[float, ...] = (0.1, 1.0, 30.0)
) -> F64:
    """Return the largest ``sum_i |dl/ds_i|`` over random and worst-case scores, one per query.

    Where the loss returns a direction other than its derivative, the derivative is taken by differences.

    Args:
        loss: the loss.
        lists: the labelled lists.
        draws: random scorings per scale.
        seed: seed of the scores and of the loss.
        scales: standard deviations of the scores.

    >>> from tautrank.losses import RankNet
    >>> measured_constant(RankNet(), Lists.of([1, 0], [0, 2], None), 3, 0).round(4)
    array([2.8854])
    """
    objective = loss.bind(lists.labels, lists.offsets, seed=seed)
    rng = np.random.default_rng(seed)
    most = np.zeros(lists.sizes.size)
    # The first document of the arrangement has the lowest label.
    worst_on_top = np.zeros(lists.labels.size)
    worst_on_top[lists.arrangement[lists.offsets[:-1][lists.sizes > 0]]] = 1.0
    tried = [-lists.labels, worst_on_top, *(rng.normal(size=lists.labels.size) for _ in range(draws))]
    for step, unit in enumerate(tried):
        for scale in scales:
            scores = scale * unit
            if loss.gradient_is_derivative:
                slopes = np.asarray(objective.gradients(scores, step)[0], dtype=np.float64)
            else:
                slopes = differences(objective.frozen(scores, step).values, scores, lists.offsets)
            most = np.maximum(most, query_sums(np.abs(slopes), lists.offsets))
    return most
