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
    typed_words = list(words)
    for name, value_or_values in options.items():
        option = f"--{name.replace('_', '-')}"
        values = value_or_values if isinstance(value_or_values, list | tuple) else [value_or_values]
        for value in values:
            if value is True:
                typed_words.append(option)
            elif value is not None:
                typed_words += [option, str(value)]
    return shlex.join(typed_words)


def summary_table(names: Sequence[str], summaries: Sequence[DataSummary]) -> Table:
    """Return a table of the numbers of queries, documents, labels and so on of data sets, one
    column per data set and one row per quantity.

    Args:
        names: the headings: the names of the data sets.
        summaries: what `describe` counted, one summary per data set.
    """
    # A summary has rows of (quantity, text), the same quantities for every data set.
    rows_of_data_sets = [summary.rows() for summary in summaries]
    table_rows = []
    # All rows of one quantity, one from each data set.
    for rows in zip(*rows_of_data_sets, strict=True):
        quantity = rows[0][0]
        texts = [text for _quantity, text in rows]
        if quantity == "labels":
            # One label per line.
            texts = [text.replace("  ", "\n") for text in texts]
        table_rows.append([quantity, *texts])
    return Table.of(["", *names], table_rows)


def evaluation_table(evaluation: Evaluation) -> Table:
    """Lay out an evaluation, one row per metric: mean, standard error, queries counted and skipped,
    ties.

    Args:
        evaluation: the evaluation.
    """
    n_metrics = len(evaluation.metrics)
    return Table.of_rows([_evaluation_row(evaluation, number) for number in range(n_metrics)])


def _evaluation_row(evaluation: Evaluation, number: int) -> list[Titled]:
    """Return the table row of one metric of an evaluation: its mean and standard error over
    queries, the numbers of counted and skipped queries, and how ties and empty queries count.

    Args:
        evaluation: the evaluation.
        number: the index of the metric.
    """
    metric = evaluation.metrics[number]
    # How ties and empty queries count has columns of its own. The name of a metric does not write
    # options that are at their default, so they are put there.
    name = str(dataclasses.replace(metric, ties="worst", empty="skip"))
    if not metric.higher_is_better:
        name += "  (lower is better)"
    mean = evaluation.mean(number)
    error = evaluation.standard_error(number)
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
    """Return a metric value as text for a table: with four decimals, or one if it is at least
    1,000.
    """
    if math.isnan(value):
        return "n/a"
    if abs(value) < 1000:
        return f"{value:.4f}"
    return f"{value:,.1f}"
