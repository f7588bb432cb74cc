"""A comparison as text: terminal table, CSV, LaTeX, Markdown, plain values, sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tautrank.experiments.divide import GivenSplits
from tautrank.experiments.result import Comparison
from tautrank.json_values import or_none
from tautrank.metrics import Metric
from tautrank.report.cells import number_cell, text_cell, won_cell
from tautrank.report.table import Cell, Column, ReportTable
from tautrank.report.terminal import EMPTY_QUERIES, as_text


def to_dict(result: Comparison) -> dict[str, Any]:
    """Return everything as plain values, ready for JSON.

    Args:
        result: the result of a comparison.
    """
    wins = {str(m): result.wins(m) for m in result.metrics}
    systems = []
    for i, system in enumerate(result.systems):
        by_metric: dict[str, Any] = {}
        for m in result.metrics:
            means = system.means(str(m))
            by_metric[str(m)] = {
                "mean": or_none(float(means.mean())),
                "by_repeat": [or_none(x) for x in means.tolist()],
                "spread": or_none(_spread(means)),
                "better_than": [result.systems[j].name for j in wins[str(m)][i]],
                "win_tie_loss": list(result.win_tie_loss(m, i)),
            }
            if system.untuned:
                by_metric[str(m)]["mean_over_configurations"] = or_none(float(np.mean(system.untuned[str(m)])))
        own = {"letter": _letter(i), "name": system.name, "trees": system.trees, "seconds": system.seconds}
        systems.append({**own, "metrics": by_metric})
    return {
        "repeats": result.plan.budget.trials,
        "vary": vary(result),
        "alpha": result.alpha,
        "systems": systems,
        "pairs": {
            str(m): [
                {
                    "better": result.systems[t.better].name,
                    "worse": result.systems[t.worse].name,
                    "difference": t.difference,
                    "p": t.p_value,
                    "p_holm": t.adjusted,
                }
                for t in result.tests(m)
            ]
            for m in result.metrics
        },
    }


def tables(result: Comparison) -> dict[str, ReportTable]:
    """Return the table of systems and the table of pairs, by title; the second only if there are pairs.

    Args:
        result: the result of a comparison.
    """
    pairs = pair_table(result)
    return {"Results": system_table(result), **({"Every pair": pairs} if pairs else {})}


def system_table(result: Comparison) -> ReportTable:
    """Return one row per system: means, significant wins, queries won and lost, trees and seconds.

    Args:
        result: the result of a comparison.
    """
    metrics = result.metrics
    wins = {str(m): result.wins(m) for m in metrics}
    rows = []
    for i, system in enumerate(result.systems):
        row = [(Column("", ("row",), words=True), Cell(_letter(i))), text_cell("loss", system.name)]
        for m in metrics:
            means = system.means(str(m))
            mean, spread = float(means.mean()), _spread(means)
            beaten = "".join(_letter(j) for j in wins[str(m)][i])
            text = f"{mean:.4f}" + (f" ±{spread:.3f}".replace("±0.", "±.") if means.size > 1 else "")
            title = str(m) + ("" if m.higher_is_better else " (lower is better)")
            fields = (str(m), f"{m} spread", f"{m} better than")
            column = Column(title, fields, high_first=m.higher_is_better)
            row.append((column, Cell(text, (mean, spread, beaten), beaten)))
            if system.untuned:
                tried = float(np.mean(system.untuned[str(m)]))
                column = Column("all tried", (f"{m} all tried",), high_first=m.higher_is_better)
                row.append((column, Cell(f"{tried:.4f}", (tried,))))
        trees, seconds = float(np.mean(system.trees)), float(np.mean(system.seconds))
        row += [
            won_cell(result.win_tie_loss(metrics[0], i) if i else None),
            number_cell("trees", trees, f"{trees:.0f}", high_first=False),
            (Column("sec.", ("seconds",)), Cell(f"{seconds:.1f}", (seconds,))),
        ]
        rows.append(row)
    return ReportTable.of_rows(rows, reading(result))


def pair_table(result: Comparison) -> ReportTable | None:
    """Return one row per pair of systems and metric: which is better, by how much, how sure that is; None without any.

    Args:
        result: the result of a comparison.
    """
    rows = [
        [
            text_cell("metric", str(m)),
            text_cell("better", result.systems[test.better].name),
            text_cell("worse", result.systems[test.worse].name),
            number_cell("difference", test.difference, f"{test.difference:.4f}"),
            number_cell("p", test.p_value, f"{test.p_value:.2g}", high_first=False),
            (Column("p (Holm)", ("p_holm",)), Cell(f"{test.adjusted:.2g}", (test.adjusted,))),
        ]
        for m in result.metrics
        for test in result.tests(m)
    ]
    note = "Test over queries and repeats; Holm's correction counts a metric's pairs."
    return ReportTable.of_rows(rows, note) if rows else None


def findings(result: Comparison) -> list[str]:
    """Return the result in words, one or two sentences per metric.

    Args:
        result: the result of a comparison.
    """
    return [_finding(result, m) for m in result.metrics]


def _finding(result: Comparison, m: Metric) -> str:
    means = np.array([system.means(str(m)).mean() for system in result.systems])
    if np.isnan(means).any():
        return f"{m}: every query was skipped."
    best = int(np.argmax(means) if m.higher_is_better else np.argmin(means))
    text = f"{m}: {result.systems[best].name} has the best mean, {means[best]:.4f}."
    beaten = result.wins(m)[best]
    others = [i for i in range(len(result.systems)) if i != best and i not in beaten]
    if beaten:
        text += f" It is significantly better than {_list([result.systems[i].name for i in beaten])}."
    if others:
        text += f" The difference from {_list([result.systems[i].name for i in others])} may be chance."
    return text


def reading(result: Comparison) -> str:
    """Return how to read the table, in one paragraph.

    Args:
        result: the result of a comparison.
    """
    n, tune, first = result.plan.budget.trials, result.plan.budget.configurations, result.metrics[0]
    how = "training/validation splits drawn anew" if vary(result) == "splits" else "other seeds"
    repeats = f"mean ± standard deviation over {n} repeats ({how})"
    if n == 1:
        repeats = "one training each: nothing is known of what another seed or split would give"
    tried = ""
    if tune:
        tried = (
            f"Each training picks the best of {tune} random configurations by validation {first}; 'all tried' is the "
            "mean over all of them. "
        )
    return (
        f"{repeats[0].upper()}{repeats[1:]}. A letter marks a significant win over that row: test over "
        f"queries and repeats, Holm-corrected, level {result.alpha:g}. w/t/l: queries won, tied and lost against "
        f"row a on {first}. {tried}Ties: {first.ties}; empty queries: {EMPTY_QUERIES[first.empty]}."
    )


def vary(result: Comparison) -> str:
    """Return what differs between the repeats.

    Args:
        result: the result of a comparison.
    """
    protocol = result.plan.study.protocol
    assert isinstance(protocol, GivenSplits)
    return protocol.vary


def to_text(result: Comparison) -> str:
    """Return the table of systems with its note, as a terminal shows it.

    Args:
        result: the result of a comparison.
    """
    table = system_table(result)
    return as_text(table, table.note, width=max(100, 24 * len(table.columns)))


def _letter(index: int) -> str:
    """a, b, ..., z, then numbers."""
    return chr(ord("a") + index) if index < 26 else str(index)


def _spread(values: npt.NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _list(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
