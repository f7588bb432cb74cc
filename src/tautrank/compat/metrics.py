"""LightGBM's `eval_metric` and `eval_at` as metrics."""

from __future__ import annotations

import dataclasses
from typing import Any

from tautrank.arguments import one_or_more
from tautrank.metrics import Metric, metric


def extra_metrics(eval_metric: Any, eval_at: Any, first_metric: Metric) -> tuple[Metric, ...]:
    """Return LightGBM's arguments `eval_metric` and `eval_at` as the metrics that are recorded after
    each tree beside the ranker's own metric, which decides early stopping.

    Args:
        eval_metric: names or metrics, one or several; None for none.
        eval_at: cutoffs of the metrics that have none; without `eval_metric`, of NDCG.
        first_metric: the ranker's own metric, which is not repeated.

    >>> extra_metrics(["ndcg", "map"], [1, 3], metric("ndcg@3"))
    (metric('ndcg@1'), metric('map@1'), metric('map@3'))
    """
    names = one_or_more(eval_metric or ())
    if not names and eval_at is not None:
        names = ("ndcg",)

    metrics: list[Metric] = []
    for name in names:
        listed_metric = metric(name)
        # `k` is the cutoff: the number of documents, from the top, that count.
        if listed_metric.k is not None:
            metrics.append(listed_metric)
            continue
        for cutoff in one_or_more(eval_at):
            metrics.append(dataclasses.replace(listed_metric, k=cutoff))
    # Each once, in the order in which they are listed.
    different_metrics = dict.fromkeys(metrics)
    return tuple(extra for extra in different_metrics if extra != first_metric)
