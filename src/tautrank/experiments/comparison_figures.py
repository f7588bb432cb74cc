"""Figures of a comparison's page: differences from the baseline, curves by trees, every trial, and
what queries gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tautrank.experiments.comparison_values import CellResult, ComparisonValues
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.query_gains import query_gains
from tautrank.report.figures import (
    Curve,
    Intervals,
    curve_figure,
    escaped,
    interval_points,
    shortened,
    validation_curves,
    with_axes,
)
from tautrank.report.gain_figures import gain_sections
from tautrank.report.page import FigureSection, Styles, system_styles
from tautrank.report.plotly_script import require_plotly

_LEAST_HEIGHT = 260  # pixels of a figure with one row per system
ROW_HEIGHT = 44
"""Pixels of one row of such a figure."""
_FEW_TRIALS = 12  # up to here every trial has its tick
_PART_NAMES = {"valid": "validation", "train": "training"}


def comparison_figures(result: ComparisonValues) -> list[FigureSection]:
    """Return curves by trees if they were recorded, every trial, and the gains of queries.

    Args:
        result: the values of a comparison.
    """
    return [*tree_sections(result), *trial_sections(result)]


# ---- Every system minus the baseline


def difference_sections(result: ComparisonValues) -> Iterator[FigureSection]:
    """Draw every system minus the baseline with its confidence interval, on all metrics: what the
    result is about.

    Args:
        result: the values of a comparison or a study.
    """
    for condition in result.condition_names:
        metrics = result.metrics_under(condition)
        cells_by_metric = {}
        for metric in metrics:
            cells = result.across(condition, metric)
            cells_by_metric[metric] = [cell for cell in cells if cell.tested]
        if any(cells_by_metric.values()):
            yield _difference_section(result, condition, cells_by_metric)


def _difference_section(
    result: ComparisonValues, condition: str, cells_by_metric: dict[str, list[CellResult]]
) -> FigureSection:
    """Return the figure of the differences under one condition."""
    cells = [cell for of_metric in cells_by_metric.values() for cell in of_metric]
    systems = list(dict.fromkeys(cell.system for cell in cells))
    figure = _difference_figure(result.baseline, systems, cells_by_metric)
    level = f"{100 * (1 - result.alpha):g} %"
    caption = (
        f"Each system minus {result.baseline}, with its {level} confidence interval: an interval"
        " that leaves out 0 is a difference that this comparison alone would call real; the"
        " p-values of the table are also corrected for the number of comparisons."
    )
    costs = dict.fromkeys(cell.metric for cell in cells if not cell.higher_is_better)
    if costs:
        caption += f" Lower is better: {', '.join(costs)}."
    title = f"Differences from {result.baseline}{condition_suffix(condition)}"
    summary = "; ".join(_interval_text(cell) for cell in cells)
    return FigureSection(title, figure, caption, f"{summary}.")


def _difference_figure(
    baseline: str, systems: Sequence[str], cells_by_metric: dict[str, list[CellResult]]
) -> Any:
    """Draw intervals in one row per system, the metrics one below the other within its middle
    half.
    """
    n_metrics = len(cells_by_metric)
    styles = system_styles(list(cells_by_metric))
    figure = require_plotly().Figure()
    for number, (metric, cells) in enumerate(cells_by_metric.items()):
        shift = 0.5 * ((number + 0.5) / n_metrics - 0.5)
        rows = np.array([systems.index(cell.system) + shift for cell in cells])
        tests = [cell.tested for cell in cells if cell.tested]
        intervals = Intervals(
            low=np.array([test.low for test in tests]),
            middle=np.array([test.difference for test in tests]),
            high=np.array([test.high for test in tests]),
        )
        points = interval_points(metric, styles[metric], rows, intervals, "x", size=10, thickness=2)
        figure.add_scatter(**points)
    x_axis = {"zeroline": True, "tickformat": "+~g"}
    with_axes(figure, f"difference from {baseline}", "", x_axis, showgrid=False)
    row_height = ROW_HEIGHT + 8 * n_metrics
    names = [shortened(system) for system in systems]
    return in_rows(figure, names, 90 + row_height * len(systems))


def _interval_text(cell: CellResult) -> str:
    test = cell.tested
    assert test is not None  # only such cells are drawn
    difference = f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})"
    return f"{cell.system} {difference} on {cell.metric}"


def in_rows(figure: Any, names: Sequence[str], height: int) -> Any:
    """Give a figure one row for each name, from the top.

    Args:
        figure: a Plotly figure.
        names: the names.
        height: pixels of the figure, unless that is too low to read.
    """
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[escaped(name) for name in names],
        range=[len(names) - 0.5, -0.5],
        zeroline=False,
    )
    return figure.update_layout(height=max(_LEAST_HEIGHT, height))


def styles_of(result: ComparisonValues) -> Styles:
    """Return the styles of the systems, the same in all figures of a page.

    Args:
        result: the values of a comparison or a study.
    """
    return system_styles(result.system_names)


def condition_suffix(condition: str) -> str:
    """Return the condition as it follows a title.

    >>> condition_suffix("20%"), condition_suffix("plain")
    (' (20%)', '')
    """
    return "" if condition == PLAIN else f" ({condition})"


# ---- Curves by trees


def tree_sections(result: ComparisonValues, remark: str = "") -> Iterator[FigureSection]:
    """Draw the first metric after each tree; nothing where no history was kept.

    Args:
        result: the values of a comparison or a study.
        remark: what to add to the captions.
    """
    parts = dict.fromkeys(part for _, _, part in result.curves)
    for condition in result.condition_names:
        for part in parts:
            histories = {}
            for system in result.system_names:
                histories[system] = result.curves.get((condition, system, part), [])
            curves = validation_curves(histories)
            if curves:
                most_trainings = max(len(trainings) for trainings in histories.values())
                yield _tree_section(result, condition, part, curves, most_trainings, remark)


def _tree_section(
    result: ComparisonValues,
    condition: str,
    part: str,
    curves: Sequence[Curve],
    n_trainings: int,
    remark: str,
) -> FigureSection:
    """Return the figure of curves of one part of the queries."""
    first, queries = result.metrics_under(condition)[0], _PART_NAMES[part]
    caption = f"{first} on the {queries} queries after each tree."
    if n_trainings > 1:
        caption += (
            f" Lines are means and bands standard deviations over {n_trainings} trainings; a line"
            " ends where the first of its trainings stopped."
        )
    figure = curve_figure(
        curves,
        x_title="trees",
        y_title=f"{queries} {first}",
        styles=styles_of(result),
        mode="lines",
    )
    title = f"{queries.capitalize()} by number of trees{condition_suffix(condition)}"
    summary = "; ".join(_curve_text(curve) for curve in curves)
    return FigureSection(title, figure, caption + remark, f"Lines: {summary}.")


def _curve_text(curve: Curve) -> str:
    """Return where a curve is after a tenth of its trees and at its end."""
    n_trees = curve.mean.size
    after_a_tenth = curve.mean[math.ceil(n_trees / 10) - 1]
    at_the_end = f"{curve.mean[-1]:.4f} at the end of {n_trees} trees"
    return f"{curve.name} has {after_a_tenth:.4f} after a tenth and {at_the_end}"


# ---- Every trial, every query


def trial_sections(result: ComparisonValues) -> Iterator[FigureSection]:
    """Draw every trial and the gains of queries, on the first metric.

    Args:
        result: the values of a comparison or a study.
    """
    for condition in result.condition_names:
        first = result.metrics_under(condition)[0]
        curves = []
        for cell in result.across(condition, first):
            if cell.means.size:
                trials = [number + 1 for number in cell.numbers]
                curves.append(Curve(cell.system, trials, cell.means))
        if any(curve.x.size > 1 for curve in curves):
            yield _trial_section(result, condition, first, curves)
        gains = query_gains(result, condition, first)
        if gains is not None:
            yield from gain_sections(gains, styles_of(result), condition_suffix(condition))


def _trial_section(
    result: ComparisonValues, condition: str, metric: str, curves: Sequence[Curve]
) -> FigureSection:
    """Return the figure of one point per trial and system."""
    figure = curve_figure(
        curves, x_title="trial", y_title=metric, styles=styles_of(result), mode="markers"
    )
    most_trials = max(curve.x.size for curve in curves)
    figure.update_xaxes(dtick=1 if most_trials <= _FEW_TRIALS else None)
    caption = (
        f"{metric} of the test queries in every trial. All systems of a trial see the same queries."
    )
    ranges = []
    for curve in curves:
        lowest, highest = curve.mean.min(), curve.mean.max()
        ranges.append(f"{curve.name} from {lowest:.4f} to {highest:.4f}")
    title = f"Every trial{condition_suffix(condition)}"
    return FigureSection(title, figure, caption, f"Points: {'; '.join(ranges)}.")
