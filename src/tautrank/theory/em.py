"""LambdaLoss as expectation maximisation on the scores: fix the weights, minimise, rank again.

The E-step ranks the documents by their scores and takes the weights of the pairs from that ranking; the M-step
minimises the loss with those weights (Wang et al., CIKM 2018, sec. 4.2 and 4.3). Within an M-step the loss is convex
and falls. Whether it falls from one M-step to the next is another matter: the E-step of the paper puts the ranking
that the scores give in the place of the hidden one, whatever the labels say, and its M-step leaves out the probability
of that ranking under the new scores; so the argument that makes EM descend does not apply. `descends` says which losses
of this library descend anyway, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import whole
from tautrank.losses import MSE, XENDCG, LambdaLoss, ListNet, Loss
from tautrank.losses import loss as loss_named
from tautrank.metrics import Metric, metric
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.distributions import check_scored_lists
from tautrank.theory.lipschitz import differences

# Armijo's rule: a step is taken when it gains at least this share of what the slope promises.
_SHARE = 1e-4
_MOST_HALVINGS = 60


def descends(loss: Loss) -> str | None:
    """Return why the loss itself never rises from one M-step to the next; None where there is no such reason.

    Args:
        loss: the loss.

    >>> from tautrank.losses import loss
    >>> descends(loss("arp-loss2"))
    'its weights do not depend on the ranking'
    >>> descends(loss("xendcg(gamma=tight)"))
    'it is the minimum over gamma, which the E-step takes again at the new scores'
    >>> descends(loss("lambdarank(k=none)")) is None
    True
    """
    if loss.is_random:
        return None
    if isinstance(loss, LambdaLoss):
        v, gap = loss._rank_weights(8)
        constant = bool(np.ptp(v) == 0.0 and np.ptp(gap[1:]) == 0.0)
        return "its weights do not depend on the ranking" if constant and loss.k is None and not loss.norm else None
    if isinstance(loss, XENDCG) and loss.gamma == "tight":
        return "it is the minimum over gamma, which the E-step takes again at the new scores"
    if isinstance(loss, ListNet | XENDCG | MSE):
        return "nothing in it depends on the ranking"
    return None


@dataclass(frozen=True, eq=False)
class Iterations:
    """The course of `majorise_minimise`; the first index is the iteration.

    Args:
        objective: the loss with the weights of its own ranking, ``[iterations + 1, queries]``.
        frozen: the loss with the weights of an M-step, before it and after each of its steps,
            ``[iterations, steps + 1, queries]``.
        metric: ``[iterations + 1, queries]``; NaN where the query is skipped.
        scores: the final scores, one per document.

    >>> trace = majorise_minimise("ranknet", [0.0, 1.0], [1, 0], [0, 2], iterations=2, steps=1)
    >>> trace.objective.shape, trace.frozen.shape, trace.metric.shape
    ((3, 1), (2, 2, 1), (3, 1))
    """

    objective: F64
    frozen: F64
    metric: F64
    scores: F64


def majorise_minimise(
    loss: Loss | str,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    iterations: int = 10,
    steps: int = 5,
    judge: Metric | str = "ndcg",
    seed: int = 0,
) -> Iterations:
    """Alternate between ranking the documents and minimising the loss with its weights held fixed, on the scores.

    An M-step is ``steps`` steps of gradient descent, each with a line search for every query, so the loss with
    fixed weights never rises. With the soft assignment the rankings are drawn anew for every iteration.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, sec. 4.2 and Figure 5, where a
    tree takes the place of each step.

    Args:
        loss: any loss, or its name.
        scores: where to start, one finite number per document.
        labels, offsets: the lists, see `tautrank.theory`.
        iterations: number of rankings.
        steps: steps of gradient descent per M-step.
        judge: metric to record.
        seed: seed of a random loss.

    >>> trace = majorise_minimise("ndcg-loss2(k=none)", [2.0, 1.0, 0.0], [0, 1, 2], [0, 3], iterations=4)
    >>> trace.metric[:, 0].round(3)
    array([0.587, 1.   , 1.   , 1.   , 1.   ])
    >>> bool((np.diff(trace.frozen, axis=1) <= 0).all())
    True
    """
    chosen = loss_named(loss)
    s, lists = check_scored_lists(scores, labels, offsets)
    iterations, steps = whole("iterations", iterations, 0), whole("steps", steps, 1)
    objective = chosen.bind(lists.labels, lists.offsets, seed=seed)
    judged = metric(judge).bind(lists.labels, lists.offsets)
    queries = lists.sizes.size
    losses, metrics = np.empty((iterations + 1, queries)), np.empty((iterations + 1, queries))
    held_losses = np.empty((iterations, steps + 1, queries))
    losses[0], metrics[0] = objective.values(s, 0), judged.per_query(s)
    length = np.ones(queries)
    for iteration in range(iterations):
        held = objective.frozen(s, iteration)
        value = held.values(s)
        held_losses[iteration, 0] = value
        for step in range(steps):
            slopes = differences(held.values, s, lists.offsets)
            promised = query_sums(slopes**2, lists.offsets)
            # A step may be as long as the last one was, and four times that.
            length *= 4.0
            moving = promised > 0
            for _ in range(_MOST_HALVINGS):
                tried = s - np.repeat(np.where(moving, length, 0.0), lists.sizes) * slopes
                reached = held.values(tried)
                short = moving & ~(reached <= value - _SHARE * length * promised)
                if not short.any():
                    break
                length[short] *= 0.5
            else:
                # Differences have no digits left to show the way down.
                moving &= ~short
                tried = s - np.repeat(np.where(moving, length, 0.0), lists.sizes) * slopes
                reached = held.values(tried)
                length = np.maximum(length, 1e-6)
            s, value = tried, reached
            held_losses[iteration, step + 1] = value
        losses[iteration + 1], metrics[iteration + 1] = objective.values(s, iteration + 1), judged.per_query(s)
    return Iterations(losses, held_losses, metrics, s)
