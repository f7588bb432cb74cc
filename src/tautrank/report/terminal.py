"""The tables of `tautrank data info` and `evaluate`, and anything printed as text."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tautrank.data.summary import DataSummary
from tautrank.metrics.base import Evaluation
from tautrank.tables import Table, number_cell, text_cell

if TYPE_CHECKING:
    from rich.console import RenderableType

EMPTY_QUERIES = {"skip": "skipped", "zero": "counted as 0", "one": "counted as 1"}
"""What becomes of queries without a relevant document, by the name of the policy."""


def as_text(*parts: RenderableType, width: int) -> str:
    """Return what a terminal without colours shows.

    Args:
        parts: things to print one below the other.
        width: the width of the terminal, in characters.

    >>> as_text("a", "b", width=80)
    'a\\nb\\n'
    """
    from rich.console import Console  # takes a while to import, and not every result is printed

    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    return captured.get()


def command_line(*words: str, **options: Any) -> str:
    """Return a command as one types it in a shell.

    Args:
        words: the command and its arguments.
        options: values by name; several are given one after the other, True stands alone, and None
            is left out.

    >>> command_line("tautrank", "train", data=["a b.txt", "c.txt"], seed=0, zero_based=True, fold=None)
    "tautrank train --data 'a b.txt' --data c.txt --seed 0 --zero-based"
    """
    typed = list(words)
    for name, given in options.items():
        for value in given if isinstance(given, list | tuple) else [given]:
            option = f"--{name.replace('_', '-')}"
            if value is not None:
                typed += [option] if value is True else [option, str(value)]
    return shlex.join(typed)


def summary_table(names: Sequence[str], summaries: Sequence[DataSummary]) -> Table:
    """Lay out what `describe` counted, one column per data set.

    Args:
        names: the headings.
        summaries: one summary per heading.
    """
    rows = []
    for facts in zip(*(summary.rows() for summary in summaries), strict=True):
        values = (value.replace("  ", "\n") if what == "labels" else value for what, value in facts)
        rows.append([facts[0][0], *values])
    return Table.of(["", *names], rows)


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out an evaluation, one row per metric: mean, standard error, queries counted and skipped,
    ties.

    Args:
        evaluation: the evaluation.
    """
    rows = []
    for i, metric in enumerate(evaluation.metrics):
        mean, error, skipped = (
            evaluation.mean(i),
            evaluation.standard_error(i),
            evaluation.skipped(i),
        )
        counted = evaluation.qids.size - skipped
        # Ties and empty queries have columns of their own.
        name = str(dataclasses.replace(metric, ties="worst", empty="skip"))
        row = [
            text_cell("metric", name + ("" if metric.higher_is_better else "  (lower is better)"))
        ]
        row += [
            number_cell(title, n, _format_number(n))
            for title, n in (("mean", mean), ("std. error", error))
        ]
        row += [
            number_cell(title, n, f"{n:,}")
            for title, n in (("queries", counted), ("skipped", skipped))
        ]
        empty = EMPTY_QUERIES[metric.empty].removeprefix(
            "counted "
        )  # short, so that a row takes one line
        rows.append([*row, text_cell("ties", metric.ties), text_cell("empty queries", empty)])
    return Table.of_rows(rows)


def _format_number(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"
