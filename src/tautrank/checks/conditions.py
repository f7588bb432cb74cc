"""Why a check does not apply to a loss or to lists.

A condition takes a loss, scores and lists, and returns the reason, or None where the check applies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tautrank import theory
from tautrank.arrays import F64, Bools
from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import (
    LambdaLoss,
    LambdaRank,
    Loss,
    NDCGLoss1,
    NDCGLoss2,
    SmoothedLoss,
    SoftmaxLoss,
)
from tautrank.metrics import Metric, discount_values, gain_values
from tautrank.theory.lipschitz import proven_constant
from tautrank.theory.loss_bounds import (
    discount_not_from_1,
    not_about_lambdaloss,
    not_about_listnet,
    not_about_ndcg_cost,
    not_about_xendcg,
    not_of_family,
)
from tautrank.theory.minimising import DampedSoftmax
from tautrank.theory.softrank_bounds import least_distances, not_about_softrank
from tautrank.theory.theorem import has_relevant, sees_scores

# Of the damped softmax in the check of its Hessian.
EPSILON = 1e-3
# Smaller probabilities lose their digits.
_SMALLEST_PROBABILITY = 1e-290


def always_applies(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check that applies to every loss and to all lists."""
    return None


def nothing_relevant(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check that needs a relevant document, one whose label is worth something."""
    if gain_values(lists.labels, _gain(loss)).any():
        return None
    return "no query that it looks at has a relevant document"


def _gain(loss: Loss) -> Any:
    """Return what a label is worth to a loss: by its own parameter, or by that of its metric."""
    gain_of_metric = getattr(getattr(loss, "metric", None), "gain", "linear")
    return getattr(loss, "gain", gain_of_metric)


def labels_end_before(loss: Loss, label: float) -> str | None:
    """Return why a loss cannot take a label: its gain table, or the scale of its metric, ends
    before it.

    Args:
        loss: any loss.
        label: the highest label.

    >>> from tautrank.losses import loss
    >>> labels_end_before(loss("lambdarank", gain=(0, 1)), 4.0)
    'its labels end at 1, and these lists have a label of 4'
    """
    # A loss or its metric may have a gain table, a tuple by label, and a metric a highest label.
    metric = getattr(loss, "metric", None)
    highest = getattr(metric, "max_label", math.inf)
    for gain in (getattr(loss, "gain", None), getattr(metric, "gain", None)):
        if isinstance(gain, tuple):
            highest = min(highest, len(gain) - 1)
    if label <= highest:
        return None
    return f"its labels end at {highest:g}, and these lists have a label of {label:g}"


def not_softrank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about SoftNDCG."""
    reason = not_about_softrank(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def not_smoothed_ranking(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why a check about a metric of the ranking that is smoothed by noise does not apply to a
    loss and lists; None where it applies.
    """
    # sees_scores: the loss adds no noise of training to the scores, besides its own.
    is_smoothed = isinstance(loss, SmoothedLoss)
    if not is_smoothed or not sees_scores(loss):
        return "it is about stochasticrank and reinforce without noise"
    reason = nothing_relevant(loss, scores, lists)
    if reason is not None:
        return reason
    # A metric of the ranking alone does not change when all scores are shifted.
    if loss.ignores_shifts and isinstance(loss.metric, Metric):
        return None
    return "it is about the metrics of a ranking"


def not_smoothed_with_worst_ties(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about a smoothed metric that counts ties as their worst case."""
    reason = not_smoothed_ranking(loss, scores, lists)
    if reason is not None:
        return reason
    if not loss._ties_are_worst:
        return "it is about metrics with ties at their worst"
    return None


def not_xendcg(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about XE-NDCG."""
    reason = not_about_xendcg(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def not_listnet(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about ListNet."""
    reason = not_about_listnet(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def not_binary_listnet(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why a check about ListNet with the linear target and binary labels does not apply to a
    loss and lists; None where it applies.
    """
    reason = not_listnet(loss, scores, lists)
    if reason is not None:
        return reason
    if loss.target != "linear":
        return "it is about the linear target"
    # Binary labels: at most one value besides 0.
    labels_above_0 = np.unique(lists.labels[lists.labels > 0])
    if labels_above_0.size > 1:
        return "it is about binary labels"
    return None


def not_softmax(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about the softmax family."""
    if isinstance(loss, SoftmaxLoss) and sees_scores(loss):
        return nothing_relevant(loss, scores, lists)
    return "it is about the softmax family without noise"


def not_softmax_of_floats(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Return why a check about the softmax probabilities of scores, all of which must be floats
    above 0, does not apply to a loss and lists; None where it applies.
    """
    reason = not_softmax(loss, scores, lists)
    if reason is not None:
        return reason
    rho = DampedSoftmax.of(scores, lists.offsets, EPSILON).rho
    if (rho < _SMALLEST_PROBABILITY).any():
        return "a probability is too small for a float"
    return None


def not_lambdaloss(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why the check that a LambdaLoss plus its constants bounds a cost does not apply to a
    loss and lists; None where it applies.
    """
    # Each helper returns a reason or None.
    reason = not_about_lambdaloss(loss, scores, lists) or nothing_relevant(loss, scores, lists)
    if reason is None and isinstance(loss, NDCGLoss1):
        reason = _discount_below_reciprocal(loss, lists)
    return reason


def not_ndcg_cost(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why the check that a LambdaLoss without constants bounds 1 - NDCG does not apply to a
    loss and lists; None where it applies.
    """
    # Each helper returns a reason or None.
    reason = not_about_ndcg_cost(loss, scores, lists) or nothing_relevant(loss, scores, lists)
    if reason is None and isinstance(loss, NDCGLoss2):
        reason = _steps_of_discount_grow(loss, lists)
    if reason is None and isinstance(loss, NDCGLoss1):
        reason = discount_not_from_1(loss) or _discount_below_reciprocal(loss, lists)
    return reason


def _discount_below_reciprocal(loss: Any, lists: Lists) -> str | None:
    """Return why a theorem about discounts of at least 1/rank is not about a loss, or None."""
    ranks = np.arange(1, lists.longest + 1)
    if (discount_values(lists.longest, loss.discount) * ranks >= 1.0).all():
        return None
    return "it is about discounts of at least 1/rank"


def _steps_of_discount_grow(loss: Any, lists: Lists) -> str | None:
    """Return why a theorem about discounts whose steps shrink is not about a loss, or None."""
    changes_of_steps = np.diff(discount_values(lists.longest + 1, loss.discount), 2)
    return None if (changes_of_steps >= 0).all() else "it is about discounts whose steps shrink"


def not_lambdarank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about LambdaRank's metric."""
    if isinstance(loss, LambdaRank) and sees_scores(loss):
        return nothing_relevant(loss, scores, lists) or discount_not_from_1(loss)
    return "it is about lambdarank without noise"


def not_lambdarank_of_paper(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about LambdaRank as the paper defines it."""
    return not_of_family(loss, (LambdaRank,)) or nothing_relevant(loss, scores, lists)


def no_proven_constant(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about losses with a Lipschitz constant."""
    reason = nothing_relevant(loss, scores, lists)
    if reason is not None:
        return reason
    if np.isfinite(proven_constant(loss, lists)).all():
        return None
    return "it is about losses with a proven Lipschitz constant"


def need_not_descend(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about losses that fall from one M-step to the next."""
    if not theory.descends(loss):
        return "nothing makes its EM descend"
    return nothing_relevant(loss, scores, lists)


def not_scaled_as_metric(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Return why a check about losses whose value has the scale of a metric does not apply to a loss
    and lists; None where it applies.
    """
    # sees_scores: the loss adds no noise to the scores.
    if not sees_scores(loss):
        return "it is about losses without noise"
    if isinstance(loss, LambdaLoss):
        is_of_paper = loss.norm is None and not loss._draws_rankings
        if not is_of_paper:
            return "it is about the hard assignment without norm"
    # `surrogate` reads a loss on the scale of its metric, and refuses those that have none.
    try:
        theory.surrogate(loss)
    except OptionError:
        return "its value does not have the scale of a metric"
    return nothing_relevant(loss, scores, lists)


def no_two_halves(loss: Loss, scores: F64, lists: Lists) -> str | None:
    """Return why a check that chooses scores by one half of the queries and measures them on the
    other does not apply to a loss and lists; None where it applies.
    """
    reason = not_scaled_as_metric(loss, scores, lists)
    if reason is not None:
        return reason
    is_relevant = has_relevant(lists)
    # The halves are the queries with even and with odd numbers.
    if is_relevant[::2].any() and is_relevant[1::2].any():
        return None
    return "one half of the queries has no relevant document"


def have_several(lists: Lists) -> Bools:
    """Return whether each query has several documents, one of them relevant."""
    return (lists.sizes > 1) & has_relevant(lists)


def have_no_ties(scores: F64, lists: Lists) -> Bools:
    """Return whether Theorem 2 is about each query: several documents, no tie, and one of them
    relevant.
    """
    return (least_distances(scores, lists.offsets) > 0) & have_several(lists)


def not_full_softrank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why a check of Theorem 2 on SoftRank, which is about full lists (no cutoff ``k``), does
    not apply to a loss and lists; None where it applies.
    """
    reason = not_softrank(loss, scores, lists)
    if reason is not None:
        return reason
    if loss.k is not None or loss.discount != "log2":
        return "it is about full lists and the logarithmic discount"
    return None


def not_untied_softrank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check of Theorem 2 at given scores, which must differ."""
    reason = not_full_softrank(loss, scores, lists)
    if reason is not None:
        return reason
    has_list = have_no_ties(scores, lists).any()
    return None if has_list else "it is about lists without ties"


def not_softrank_of_several(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a check about the number of documents in Theorem 2."""
    reason = not_full_softrank(loss, scores, lists)
    if reason is None and not have_several(lists).any():
        reason = "it is about lists of several documents, one of them relevant"
    return reason
