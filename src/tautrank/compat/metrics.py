"""LightGBM's `eval_metric` and `eval_at` as metrics."""

from __future__ import annotations

import dataclasses
from typing import Any

from tautrank.arguments import one_or_more
from tautrank.metrics import Metric, metric


def extra_metrics(eval_metric: Any, eval_at: Any, first_metric: Metric) -> tuple[Metric, ...]:
    """Return the metrics that are recorded after each tree beside the one that decides.

    Args:
        eval_metric: names or metrics, one or several; None for none.
        eval_at: cutoffs of the metrics that have none; without `eval_metric`, of NDCG.
        first_metric: the metric that decides, which is not repeated.

    >>> extra_metrics(["ndcg", "map"], [1, 3], metric("ndcg@3"))
    (metric('ndcg@1'), metric('map@1'), metric('map@3'))
    """
    names = one_or_more(eval_metric or ())
    if not names and eval_at is not None:
        names = ("ndcg",)

    metrics = []
    for listed in map(metric, names):
        if listed.k is not None:
            metrics.append(listed)
        else:
            metrics += [dataclasses.replace(listed, k=k) for k in one_or_more(eval_at)]
    # Each once, in the order in which they are listed.
    return tuple(m for m in dict.fromkeys(metrics) if m != first_metric)
