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
from tautrank.notebooks import html_table, pandas


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Per-query values of several metrics; prints as a table of their means.

    Attributes:
        metrics: the metrics, in the order asked for.
        values: float64 ``[metrics, queries]``; NaN where a metric skipped a query.
        qids: one id per query.
    """

    metrics: tuple[Metric, ...]
    values: F64
    qids: Array

    def of(self, which: int | str | Metric) -> F64:
        """Return the values of a metric, one per query.

        Args:
            which: the metric, its name, or its number.
        """
        known = [str(each) for each in self.metrics]
        if not isinstance(which, int) and str(metric(which)) not in known:
            raise OptionError(f"metric: found {which}; expected one of {', '.join(known)}")
        values: F64 = self.values[which if isinstance(which, int) else known.index(str(metric(which)))]
        return values

    def mean(self, which: int | str | Metric) -> float:
        """Mean of a metric, given as in `of`, over the queries it did not skip; NaN if it skipped all."""
        return mean_over_queries(self.of(which))

    def standard_error(self, which: int | str | Metric) -> float:
        """Standard error of that mean over queries; NaN for fewer than two."""
        used = self.of(which)[~np.isnan(self.of(which))]
        return float(used.std(ddof=1) / math.sqrt(used.size)) if used.size > 1 else math.nan

    def skipped(self, which: int | str | Metric) -> int:
        """Number of queries that a metric skipped."""
        return int(np.isnan(self.of(which)).sum())

    def to_frame(self) -> Any:
        """Return a pandas frame of one row per query and one column per metric; NaN where a metric skipped a query."""
        return pandas().DataFrame(self.values.T, index=self.qids, columns=[str(each) for each in self.metrics])

    def _rows(self) -> list[tuple[str, ...]]:
        numbers = ((self.mean(i), self.standard_error(i), self.skipped(i)) for i in range(len(self.metrics)))
        means = [(f"{mean:.4f}", f"{error:.4f}", f"{skipped}") for mean, error, skipped in numbers]
        return [(str(each), *row) for each, row in zip(self.metrics, means, strict=True)]

    def __repr__(self) -> str:
        width = max(len(str(each)) for each in self.metrics)
        rows = [("metric", "mean", "error", "skipped"), *self._rows()]
        return "\n".join(f"{name:<{width}}  {mean:>8}  {error:>7}  {skipped:>7}" for name, mean, error, skipped in rows)

    def _repr_html_(self) -> str:
        return html_table(("metric", "mean", "std. error", "skipped"), self._rows(), f"{self.qids.size:,} queries")

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

    >>> evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0], [0, 1, 0])
    metric       mean    error  skipped
    ndcg@10    0.6309      nan        0
    mrr        0.5000      nan        0
    >>> evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0], [0, 1, 0]).mean("mrr")
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
