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

_MIN_HEIGHT = 260  # pixels of a figure with one row per system
ROW_HEIGHT = 44
"""Pixels of one row of a figure with one row per system."""
_ROW_HEIGHT_PER_METRIC = 8
_HEIGHT_OF_AXIS = 90  # pixels below the rows and above them
_MAX_TRIALS_WITH_TICKS = 12  # with more trials, ticks at all of them would overlap
_PART_NAMES = {"valid": "validation", "train": "training"}


def comparison_figures(result: ComparisonValues) -> list[FigureSection]:
    """Return the figures of a comparison: the validation metric by number of trees if it was
    recorded, the value of every trial, and what test queries gain over the baseline.

    Args:
        result: the values of a comparison.
    """
    return [*tree_sections(result), *trial_sections(result)]


# ---- Every system minus the baseline


def difference_sections(result: ComparisonValues) -> Iterator[FigureSection]:
    """Yield one figure per condition (a variant of the data or parameters): the difference of every
    system from the baseline with its confidence interval, on all metrics.

    A condition has no figure if no difference was tested there.

    Args:
        result: the values of a comparison or a study.
    """
    for condition in result.condition_names:
        metrics = result.metrics_under(condition)
        cells_by_metric = {}
        for metric in metrics:
            cells = result.across(condition, metric)
            # The baseline is not tested against itself, so it has no difference to draw.
            cells_by_metric[metric] = [cell for cell in cells if cell.tested]
        has_differences = any(cells_by_metric.values())
        if has_differences:
            yield _difference_section(result, condition, cells_by_metric)


def _difference_section(
    result: ComparisonValues, condition: str, cells_by_metric: dict[str, list[CellResult]]
) -> FigureSection:
    """Return the figure of all differences from the baseline under one condition, with its title,
    caption and a summary in words.

    Args:
        result: the values of a comparison or a study.
        condition: the name of the condition.
        cells_by_metric: for each metric, the values of the systems that are tested against the
            baseline.
    """
    cells: list[CellResult] = []
    for cells_of_metric in cells_by_metric.values():
        cells += cells_of_metric
    # A dictionary keeps each name once, in order; so it does for metrics below.
    systems = list(dict.fromkeys(cell.system for cell in cells))
    figure = _draw_differences(result.baseline, systems, cells_by_metric)

    level = f"{100 * (1 - result.alpha):g} %"
    caption = (
        f"Each system minus {result.baseline}, with its {level} confidence interval: an interval"
        " that leaves out 0 is a difference that this comparison alone would call real; the"
        " p-values of the table are also corrected for the number of comparisons."
    )
    cost_metrics = dict.fromkeys(cell.metric for cell in cells if not cell.higher_is_better)
    if cost_metrics:
        caption += f" Lower is better: {', '.join(cost_metrics)}."

    title = f"Differences from {result.baseline}{condition_suffix(condition)}"
    summary = "; ".join(_difference_summary(cell) for cell in cells)
    return FigureSection(title, figure, caption, f"{summary}.")


def _draw_differences(
    baseline: str, systems: Sequence[str], cells_by_metric: dict[str, list[CellResult]]
) -> Any:
    """Return a Plotly figure of the differences from the baseline as points with confidence
    intervals: one row per system, and in its middle half the metrics one below the other.

    Args:
        baseline: the name of the baseline, for the title of the axis.
        systems: the systems in the order of the rows.
        cells_by_metric: for each metric, the systems' values, each tested against the baseline.
    """
    n_metrics = len(cells_by_metric)
    styles_by_metric = system_styles(list(cells_by_metric))
    figure = require_plotly().Figure()
    for metric_index, (metric, cells) in enumerate(cells_by_metric.items()):
        # Row i is the strip from i - 1/2 to i + 1/2: metrics share i - 1/4 to i + 1/4.
        share_of_strip = (metric_index + 0.5) / n_metrics
        shift = 0.5 * (share_of_strip - 0.5)
        rows = np.array([systems.index(cell.system) + shift for cell in cells])
        tests = [cell.tested for cell in cells if cell.tested]
        intervals = Intervals(
            low=np.array([test.low for test in tests]),
            middle=np.array([test.difference for test in tests]),
            high=np.array([test.high for test in tests]),
        )
        style = styles_by_metric[metric]
        points = interval_points(metric, style, rows, intervals, "x", size=10, thickness=2)
        figure.add_scatter(**points)

    x_axis = {"zeroline": True, "tickformat": "+~g"}
    with_axes(figure, f"difference from {baseline}", "", x_axis, showgrid=False)
    row_height = ROW_HEIGHT + _ROW_HEIGHT_PER_METRIC * n_metrics
    height = _HEIGHT_OF_AXIS + row_height * len(systems)
    row_names = [shortened(system) for system in systems]
    return in_rows(figure, row_names, height)


def _difference_summary(cell: CellResult) -> str:
    """Return a system's difference from the baseline on a metric, with its confidence interval, in
    words.
    """
    test = cell.tested
    assert test is not None  # only systems that are tested against the baseline are drawn
    difference = f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})"
    return f"{cell.system} {difference} on {cell.metric}"


def in_rows(figure: Any, names: Sequence[str], height: int) -> Any:
    """Label the y axis of a figure with one row per name, the first at the top, and set the height;
    the figure is changed in place and returned.

    Args:
        figure: a Plotly figure whose points have the numbers of rows, from 0, as y.
        names: the names of the rows.
        height: pixels of the figure; a figure that would be too low to read is made higher.
    """
    n_rows = len(names)
    figure.update_yaxes(
        tickvals=list(range(n_rows)),
        ticktext=[escaped(name) for name in names],
        range=[n_rows - 0.5, -0.5],  # reversed: row 0 is at the top
        zeroline=False,
    )
    return figure.update_layout(height=max(_MIN_HEIGHT, height))


def styles_of(result: ComparisonValues) -> Styles:
    """Return the colours and marks of the systems by name, the same in all figures of a page.

    Args:
        result: the values of a comparison or a study.
    """
    return system_styles(result.system_names)


def condition_suffix(condition: str) -> str:
    """Return the name of a condition (a variant of the data or parameters) in parentheses, to
    follow a title; empty for `PLAIN`, the only condition of a plain comparison.

    >>> condition_suffix("20%"), condition_suffix("plain")
    (' (20%)', '')
    """
    return "" if condition == PLAIN else f" ({condition})"


# ---- Curves by trees


def tree_sections(result: ComparisonValues, remark: str = "") -> Iterator[FigureSection]:
    """Yield figures of the first metric after each tree of the models, one figure for each
    condition (a variant of the data or parameters) and part of the data (``train`` or ``valid``).

    There is no figure where trainings recorded no values.

    Args:
        result: the values of a comparison or a study.
        remark: what to add to the captions.
    """
    # `curves` is keyed by (condition, system, part); a dictionary keeps each part once, in order.
    data_parts = dict.fromkeys(data_part for _condition, _system, data_part in result.curves)
    for condition in result.condition_names:
        for data_part in data_parts:
            trainings_by_system = {}
            for system in result.system_names:
                trainings = result.curves.get((condition, system, data_part), [])
                trainings_by_system[system] = trainings
            curves = validation_curves(trainings_by_system)
            if curves:
                n_trainings = max(len(trainings) for trainings in trainings_by_system.values())
                yield _tree_section(result, condition, data_part, curves, n_trainings, remark)


def _tree_section(
    result: ComparisonValues,
    condition: str,
    data_part: str,
    curves: Sequence[Curve],
    n_trainings: int,
    remark: str,
) -> FigureSection:
    """Return a figure of the first metric by number of trees, with its title, caption and a summary
    in words.

    Args:
        result: the values of a comparison or a study.
        condition: the name of the condition.
        data_part: the part of the data that the metric was measured on, ``train`` or ``valid``.
        curves: one curve per system, the mean over its trainings.
        n_trainings: the largest number of trainings behind a curve.
        remark: what to add to the caption.
    """
    metric = result.metrics_under(condition)[0]
    # What readers call the part: "training" or "validation".
    part_name = _PART_NAMES[data_part]
    caption = f"{metric} on the {part_name} queries after each tree."
    if n_trainings > 1:
        caption += (
            f" Lines are means and bands standard deviations over {n_trainings} trainings; a line"
            " ends where the first of its trainings stopped."
        )
    figure = curve_figure(
        curves,
        x_title="trees",
        y_title=f"{part_name} {metric}",
        styles=styles_of(result),
        mode="lines",
    )
    title = f"{part_name.capitalize()} by number of trees{condition_suffix(condition)}"
    summary = "; ".join(_curve_summary(curve) for curve in curves)
    return FigureSection(title, figure, caption + remark, f"Lines: {summary}.")


def _curve_summary(curve: Curve) -> str:
    """Return in words the values of a curve by number of trees: after a tenth of the trees and
    after the last.
    """
    n_trees = curve.mean.size
    # `mean` has one value per number of trees, from 1: entry i - 1 belongs to i trees.
    tenth_of_trees = math.ceil(n_trees / 10)
    value_after_tenth = curve.mean[tenth_of_trees - 1]
    last_value = curve.mean[-1]
    return (
        f"{curve.name} has {value_after_tenth:.4f} after a tenth"
        f" and {last_value:.4f} at the end of {n_trees} trees"
    )


# ---- Every trial, every query


def trial_sections(result: ComparisonValues) -> Iterator[FigureSection]:
    """Yield figures of the first metric under each condition (a variant of the data or parameters):
    its mean in every trial, and what each test query gains over the baseline.

    Figures that would have too little to show are left out: trials need two of one system.

    Args:
        result: the values of a comparison or a study.
    """
    for condition in result.condition_names:
        metric = result.metrics_under(condition)[0]
        curves = []
        for cell in result.across(condition, metric):
            if cell.means.size:
                # `means` has one value per trial that has finished, `numbers` the numbers of those
                # trials.
                trial_numbers = [number + 1 for number in cell.numbers]  # readers count from 1
                curves.append(Curve(cell.system, trial_numbers, cell.means))

        has_several_trials = any(curve.x.size > 1 for curve in curves)
        if has_several_trials:
            yield _trial_section(result, condition, metric, curves)
        gains = query_gains(result, condition, metric)
        if gains is not None:
            yield from gain_sections(gains, styles_of(result), condition_suffix(condition))


def _trial_section(
    result: ComparisonValues, condition: str, metric: str, curves: Sequence[Curve]
) -> FigureSection:
    """Return a figure with one point per trial and system, its mean of the metric over the test
    queries, and with a title, a caption and a summary in words.
    """
    figure = curve_figure(
        curves, x_title="trial", y_title=metric, styles=styles_of(result), mode="markers"
    )
    most_trials = max(curve.x.size for curve in curves)
    # With few trials each gets a tick; None leaves the choice to Plotly.
    tick_distance = 1 if most_trials <= _MAX_TRIALS_WITH_TICKS else None
    figure.update_xaxes(dtick=tick_distance)

    caption = (
        f"{metric} of the test queries in every trial. All systems of a trial see the same queries."
    )
    ranges = []
    for curve in curves:
        lowest, highest = curve.mean.min(), curve.mean.max()
        ranges.append(f"{curve.name} from {lowest:.4f} to {highest:.4f}")

    title = f"Every trial{condition_suffix(condition)}"
    return FigureSection(title, figure, caption, f"Points: {'; '.join(ranges)}.")
