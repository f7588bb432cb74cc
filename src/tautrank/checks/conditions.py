"""Why a check does not apply to a loss or to lists: the conditions that several checks share."""

from __future__ import annotations

import math
from typing import Any

from tautrank.arrays import F64
from tautrank.losses import Loss, SmoothedLoss
from tautrank.losses.base import TrainingLists
from tautrank.metrics import Metric
from tautrank.theory.softrank_bounds import not_about_softrank
from tautrank.theory.theorem import sees_scores


def always_applies(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check that applies to every loss and to all lists."""
    return None


def nothing_relevant(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check that needs a relevant document, one whose label is worth something."""
    if lists.gains(_gain(loss)).any():
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
    metric = getattr(loss, "metric", None)
    highest = getattr(metric, "max_label", math.inf)
    for gain in (getattr(loss, "gain", None), getattr(metric, "gain", None)):
        if isinstance(gain, tuple):
            highest = min(highest, len(gain) - 1)
    if label <= highest:
        return None
    return f"its labels end at {highest:g}, and these lists have a label of {label:g}"


def not_softrank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check about SoftNDCG."""
    reason = not_about_softrank(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def not_smoothed_ranking(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check about a metric of the ranking that is smoothed by noise."""
    if not isinstance(loss, SmoothedLoss) or not sees_scores(loss):
        return "it is about stochasticrank and reinforce without noise"
    reason = nothing_relevant(loss, scores, lists)
    if reason is not None:
        return reason
    if not loss.ignores_shifts or not isinstance(loss.metric, Metric):
        return "it is about the metrics of a ranking"
    return None


def not_smoothed_with_worst_ties(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a check about a smoothed metric that counts ties as their worst case."""
    reason = not_smoothed_ranking(loss, scores, lists)
    if reason is not None:
        return reason
    if not loss._ties_are_worst:
        return "it is about metrics with ties at their worst"
    return None
