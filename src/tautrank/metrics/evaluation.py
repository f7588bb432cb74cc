"""Evaluate one set of scores by several metrics; each mean comes with the number of skipped queries."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tautrank.arrays import F64, Array, check_flags, flat_numbers
from tautrank.data.arrays import checked_queries
from tautrank.errors import DataError, OptionError
from tautrank.files import write_whole
from tautrank.json_values import or_none
from tautrank.metrics.base import Metric, mean_over_queries, metric


@dataclass(frozen=True)
class Evaluation:
    """Per-query values of several metrics.

    Attributes:
        metrics: the metrics, in the order asked for.
        values: float64 ``[metrics, queries]``; NaN where a metric skipped a query.
        qids: one id per query.
    """

    metrics: tuple[Metric, ...]
    values: F64
    qids: Array

    def mean(self, index: int) -> float:
        """Mean of metric number `index` over the queries it did not skip; NaN if it skipped all."""
        return mean_over_queries(self.values[index])

    def standard_error(self, index: int) -> float:
        """Standard error of that mean over queries; NaN for fewer than two."""
        used = self.values[index][~np.isnan(self.values[index])]
        return float(used.std(ddof=1) / math.sqrt(used.size)) if used.size > 1 else math.nan

    def skipped(self, index: int) -> int:
        """Number of queries metric number `index` skipped."""
        return int(np.isnan(self.values[index]).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return means, standard errors and counts as plain values; JSON has no NaN, so it becomes None."""
        return {
            "queries": int(self.qids.size),
            "metrics": {
                str(m): {
                    "mean": or_none(self.mean(i)),
                    "standard_error": or_none(self.standard_error(i)),
                    "queries": int(self.qids.size) - self.skipped(i),
                    "skipped": self.skipped(i),
                    "ties": m.ties,
                    "empty": m.empty,
                    "higher_is_better": m.higher_is_better,
                }
                for i, m in enumerate(self.metrics)
            },
        }

    def write_per_query(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV with a row per query and a column per metric; a skipped query's cell is empty."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["qid", *(str(m) for m in self.metrics)])
        for qid, column in zip(self.qids.tolist(), self.values.T.tolist(), strict=True):
            writer.writerow([qid, *("" if math.isnan(value) else repr(value) for value in column)])
        write_whole(path, text.getvalue())


def evaluate(
    metrics: Sequence[str | Metric],
    scores: Any,
    labels: Any,
    offsets: Any = None,
    *,
    qid: Any = None,
    group: Any = None,
    judged: Any = None,
    qids: Any = None,
    **options: Any,
) -> Evaluation:
    """Evaluate one set of scores by several metrics.

    Args:
        metrics: names or metric objects.
        scores, labels, offsets, qid, group, judged: the flat arrays every metric takes, see `Metric.bind`.
        qids: one id per query; default those of `qid`, else 0, 1, 2, ...
        options: options given to every metric named by text, such as ``ties="expected"`` or ``like="trec_eval"``.

    >>> evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0], [0, 1, 0]).mean(1)
    0.5
    >>> evaluate(["mrr"], [3.0, 2.0, 1.0], [0, 1, 1], qid=["b", "b", "a"]).qids.tolist()
    ['b', 'a']
    """
    if not metrics:
        raise OptionError("metrics: found none; expected at least one, such as 'ndcg@10'")
    chosen = tuple(m if isinstance(m, Metric) else metric(m, **options) for m in metrics)
    y = flat_numbers("labels", labels)
    offsets, found, order = checked_queries(y.size, offsets, qid, group)
    if order is not None:
        judges = None if judged is None else check_flags("judged", judged, y.size)[order]
        scores, y, judged = flat_numbers("scores", scores, size=y.size)[order], y[order], judges
    values = np.stack([m.per_query(scores, y, offsets, judged=judged) for m in chosen])
    ids = found if qids is None else np.asarray(qids)
    if ids.shape != (values.shape[1],):
        raise DataError(f"qids: found {ids.size} ids; expected {values.shape[1]}, one per query")
    return Evaluation(chosen, values, ids)
