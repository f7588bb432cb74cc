"""The tables of `tautrank data info` and `evaluate`, and anything printed as text."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tautrank.data.summary import DataSummary
from tautrank.metrics.base import Evaluation
from tautrank.tables import Table, Titled, number_cell, text_cell

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
    for name, values in options.items():
        option = f"--{name.replace('_', '-')}"
        for value in values if isinstance(values, list | tuple) else [values]:
            if value is True:
                typed.append(option)
            elif value is not None:
                typed += [option, str(value)]
    return shlex.join(typed)


def summary_table(names: Sequence[str], summaries: Sequence[DataSummary]) -> Table:
    """Lay out what `describe` counted, one column per data set.

    Args:
        names: the headings.
        summaries: one summary per heading.
    """
    rows = []
    for facts in zip(*(summary.rows() for summary in summaries), strict=True):
        fact, _ = facts[0]
        texts = [text for _, text in facts]
        if fact == "labels":
            texts = [text.replace("  ", "\n") for text in texts]  # one label per line
        rows.append([fact, *texts])
    return Table.of(["", *names], rows)


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out an evaluation, one row per metric: mean, standard error, queries counted and skipped,
    ties.

    Args:
        evaluation: the evaluation.
    """
    n_metrics = len(evaluation.metrics)
    return Table.of_rows([_evaluation_row(evaluation, number) for number in range(n_metrics)])


def _evaluation_row(evaluation: Evaluation, number: int) -> list[Titled]:
    """Return one metric of an evaluation; its ties and empty queries have columns of their own."""
    metric = evaluation.metrics[number]
    name = str(dataclasses.replace(metric, ties="worst", empty="skip"))
    if not metric.higher_is_better:
        name += "  (lower is better)"
    mean, error = evaluation.mean(number), evaluation.standard_error(number)
    n_skipped = evaluation.skipped(number)
    n_queries = evaluation.qids.size - n_skipped
    empty = EMPTY_QUERIES[metric.empty].removeprefix("counted ")  # so that a row takes one line
    return [
        text_cell("metric", name),
        number_cell("mean", mean, _format_number(mean)),
        number_cell("std. error", error, _format_number(error)),
        number_cell("queries", n_queries, f"{n_queries:,}"),
        number_cell("skipped", n_skipped, f"{n_skipped:,}"),
        text_cell("ties", metric.ties),
        text_cell("empty queries", empty),
    ]


def _format_number(value: float) -> str:
    """Return a number for a table: four digits of a share, one of a large number."""
    if math.isnan(value):
        return "n/a"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"
