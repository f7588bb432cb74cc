"""What `tautrank data info` and `tautrank evaluate` print, and how anything is printed as text."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from tautrank.data.summary import DataSummary
from tautrank.metrics import Metric
from tautrank.metrics.evaluation import Evaluation


def as_text(*parts: RenderableType, width: int) -> str:
    """What a terminal without colours would show.

    Args:
        parts: printed one below the other.
        width: of the terminal.

    >>> as_text("a", "b", width=80)
    'a\\nb\\n'
    """
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return captured.get()


def summary_table(names: Sequence[str], summaries: Sequence[DataSummary]) -> Table:
    """Lay out what `describe` counted, a column a data set."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for name in names:
        table.add_column(name, overflow="fold")
    for rows in zip(*(summary.rows() for summary in summaries), strict=True):
        table.add_row(rows[0][0], *(value.replace("  ", "\n") if what == "labels" else value for what, value in rows))
    return table


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out an evaluation, a row a metric: mean, standard error, queries counted and skipped, ties."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("metric", overflow="fold")
    for name in ("mean", "std. error", "queries", "skipped"):
        table.add_column(name, justify="right")
    table.add_column("ties")
    table.add_column("empty queries")
    words = {"skip": "skipped", "zero": "count as 0", "one": "count as 1"}
    for i, metric in enumerate(evaluation.metrics):
        skipped = evaluation.skipped(i)
        table.add_row(
            _short_name(metric) + ("" if metric.higher_is_better else "  (lower is better)"),
            _number(evaluation.mean(i)),
            _number(evaluation.standard_error(i)),
            f"{evaluation.qids.size - skipped:,}",
            f"{skipped:,}",
            metric.ties,
            words[metric.empty],
        )
    return table


def _short_name(metric: Metric) -> str:
    """A metric's name without its ties and empty queries, which have columns of their own."""
    return str(dataclasses.replace(metric, ties="worst", empty="skip"))


def _number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"
