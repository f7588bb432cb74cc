"""Figures of a study's page: curves over conditions, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.comparison_figures import (
    ROW_HEIGHT,
    condition_suffix,
    in_rows,
    styles_of,
    tree_sections,
    trial_sections,
)
from tautrank.experiments.comparison_values import CellResult
from tautrank.experiments.plan import Measurement
from tautrank.json_values import or_nan
from tautrank.papers.catalogue.declarations import MEASURED_FIGURES, MeasuredFigure
from tautrank.papers.study_values import StudyValues
from tautrank.report.figures import MOST_POINTS, Curve, curve_figure, escaped
from tautrank.report.gain_figures import interval_over_trials, widened
from tautrank.report.page import FigureSection

_LOG_FROM = 10.0  # the axis is logarithmic if its largest value is this many times the smallest


def study_figures(result: StudyValues) -> list[FigureSection]:
    """Return the figures that fit a study.

    They are the figures its measurements name; curves by trees if they were recorded; curves over
    conditions if those are numbers; and if not, every trial, the gain of each query and gains by
    difficulty.

    Args:
        result: the values of the study.
    """
    sections = [*_measurement_figures(result)]
    sections += tree_sections(result, _remark_on_curves(result))
    if conditions_on_axis(result):
        sections += _condition_figures(result)
    elif not result.measures_only:
        sections += trial_sections(result)
    return sections


def _remark_on_curves(result: StudyValues) -> str:
    """Return what a reader of training curves has to know about the claims; empty if no claim is
    about curves.
    """
    if any(claim.of_curves for claim in result.plan.study.claims):
        return " The claims look at the best value so far, as early stopping keeps it."
    return ""


# ---- Curves over conditions


def conditions_on_axis(result: StudyValues) -> dict[str, float]:
    """Return the conditions of a study (what it varies) for the x axis of a figure: from the name of
    each to its number, the smallest first. Empty if they are fewer than two, or not all numbers.

    Args:
        result: the values of the study.
    """
    conditions = result.plan.study.conditions
    if len(conditions) < 2:
        return {}
    value_by_name = {}
    for condition in conditions:
        if condition.value is None:
            return {}
        value_by_name[condition.name] = condition.value
    return dict(sorted(value_by_name.items(), key=lambda item: item[1]))


def _condition_figures(result: StudyValues) -> Iterator[FigureSection]:
    """Yield figures of means, and of leads over the baseline, with a study's conditions on the x
    axis: one per metric, or one for all if each condition has metrics of its own.
    """
    study = result.plan.study
    # One system with several metrics is a measurement, which gives several quantities.
    are_quantities = len(study.systems) == 1 and len(study.metrics) > 1
    if are_quantities and not result.has_own_metrics:
        # Several quantities of one system share an axis.
        system = study.system_names[0]
        cells_by_curve = {}
        for metric in study.metrics:
            cells_by_curve[metric] = _cells_of_curve(result, system, [metric], "test")
        yield from _mean_figures(result, f"What {system} gives", "mean", cells_by_curve)
        return

    metrics_of_figures: list[tuple[str, ...]] = [(metric,) for metric in study.metrics]
    if result.has_own_metrics:
        metrics_of_figures = [study.metrics]
    for metrics in metrics_of_figures:
        for part in study.judged:
            title = ", ".join(metrics)
            if part != "test":
                title += f" of the {part} queries"
            cells_by_curve = {}
            for system in study.system_names:
                cells_by_curve[system] = _cells_of_curve(result, system, metrics, part)
            yield from _mean_figures(result, title, title, cells_by_curve)
        yield from _lead_figures(result, metrics)


class _Point(NamedTuple):
    """A mean under a condition, and its confidence interval."""

    condition: str
    mean: float
    low: float
    high: float


def _mean_figures(
    result: StudyValues,
    title: str,
    y_title: str,
    cells_by_curve: Mapping[str, Sequence[CellResult]],
) -> Iterator[FigureSection]:
    """Yield a figure of means over trials with their confidence intervals, with a study's conditions
    on the x axis; none if no curve has values.

    Args:
        result: the values of the study.
        title: the title of the figure.
        y_title: the title of its y axis.
        cells_by_curve: by the name of each curve its cells, one per condition.
    """
    caption = f"{title} by {_axis_title(result)}: means over trials."
    if result.plan.budget.repeats != 1:
        caption += (
            " Bands are 95 % confidence intervals as papers give them: as if trials were"
            " independent."
        )
    points_by_curve = {}
    for name, cells in cells_by_curve.items():
        # A point is a condition, a mean, and the two ends of its confidence interval.
        points = [_Point(cell.condition, cell.mean, *cell.interval) for cell in cells]
        points_by_curve[name] = points
    curves = _condition_curves(result, points_by_curve)
    if curves:
        figure = _condition_figure(result, curves, y_title)
        summary = _ends_text(points_by_curve, sign="")
        yield FigureSection(f"{title} by condition", figure, caption, summary)


def _lead_figures(result: StudyValues, metrics: Sequence[str]) -> Iterator[FigureSection]:
    """Yield a figure of how far each system is ahead of the baseline, with a study's conditions on
    the x axis; none if no system has values.

    It is drawn as the third line of XE-NDCG's Figures 3 and 4.
    """
    metrics_text = ", ".join(metrics)
    over_baseline = f"over {result.baseline} in {metrics_text}"
    caption = (
        f"How far each system is ahead of {result.baseline} in {metrics_text}, in the trials both"
        " have finished."
    )
    if result.plan.budget.repeats != 1:
        caption += f" Bands are 95 % confidence intervals over trials{widened(result.overlap)}"
        if result.tests_same_queries:
            caption += "; they say nothing about other test queries."
        else:
            caption += "."

    points_by_system = {}
    for system in result.system_names:
        if system != result.baseline:
            points_by_system[system] = _lead_points(result, system, metrics)
    curves = _condition_curves(result, points_by_system)
    if curves:
        figure = _condition_figure(result, curves, f"gain {over_baseline}")
        figure.update_yaxes(zeroline=True)
        summary = _ends_text(points_by_system, sign="+")
        yield FigureSection(f"Lead {over_baseline}", figure, caption, summary)


def _lead_points(result: StudyValues, system: str, metrics: Sequence[str]) -> list[_Point]:
    """Return how far a system is ahead of the baseline under each condition of a study in which both
    have finished trials: the mean gain over trials, and its confidence interval.
    """
    points = []
    for cell in _cells_of_curve(result, system, metrics, "test"):
        gains = _gains_over_baseline(result, cell)
        if gains.size:
            low, high = interval_over_trials(gains, result.overlap)
            points.append(_Point(cell.condition, float(gains.mean()), low, high))
    return points


def _gains_over_baseline(result: StudyValues, cell: CellResult) -> F64:
    """Return by how much the system of a cell is better than the baseline under the same condition,
    one number per trial that both have finished.
    """
    baseline_cell = result.cell(cell.condition, result.baseline, cell.metric, cell.part)
    # `numbers` are the numbers of the finished trials, `means` their means over queries.
    mean_by_trial = dict(zip(cell.numbers, cell.means.tolist(), strict=True))
    baseline_by_trial = dict(zip(baseline_cell.numbers, baseline_cell.means.tolist(), strict=True))
    common_trials = sorted(mean_by_trial.keys() & baseline_by_trial.keys())
    differences = [mean_by_trial[trial] - baseline_by_trial[trial] for trial in common_trials]
    # Of a cost the smaller value is better.
    sign = 1 if cell.higher_is_better else -1
    return sign * np.array(differences, np.float64)


def _condition_curves(
    result: StudyValues, points_by_curve: Mapping[str, Sequence[_Point]]
) -> list[Curve]:
    """Return a curve over a study's conditions for each name that has points, with a band where
    confidence intervals are known.
    """
    x_of_condition = conditions_on_axis(result)
    curves = []
    for name, points in points_by_curve.items():
        if not points:
            continue
        x = [x_of_condition[point.condition] for point in points]
        means = [point.mean for point in points]
        low = [point.low for point in points]
        high = [point.high for point in points]
        has_intervals = not np.isnan(low).all()
        if has_intervals:
            curves.append(Curve(name, x, means, low, high))
        else:
            curves.append(Curve(name, x, means))
    return curves


def _ends_text(points_by_curve: Mapping[str, Sequence[_Point]], sign: str) -> str:
    """Return a sentence on the first and the last mean of each curve, for readers who do not see the
    figure.

    Args:
        points_by_curve: the points of each curve, by its name.
        sign: "+" to write the sign of positive means too, else "".
    """
    texts = []
    for name, points in points_by_curve.items():
        if points:
            first, last = points[0], points[-1]
            begin = f"{first.mean:{sign}.4f} at {first.condition}"
            end = f"{last.mean:{sign}.4f} at {last.condition}"
            texts.append(f"{name} from {begin} to {end}")
    return f"Lines: {'; '.join(texts)}."


def _cells_of_curve(
    result: StudyValues, system: str, metrics: Sequence[str], part: str
) -> list[CellResult]:
    """Return the cells of one system that have values, by increasing number of their condition.

    Args:
        result: the values of the study.
        system: the name of the system.
        metrics: the metrics of the cells.
        part: the queries that they are about, such as "test".
    """
    cells = []
    for condition in conditions_on_axis(result):
        for metric in metrics:
            cell = result.by_place.get((condition, system, metric, part))
            if cell is not None and cell.means.size:
                cells.append(cell)
    return cells


def _axis_title(result: StudyValues) -> str:
    """Return the title of the axis of a study's conditions."""
    return result.plan.study.axis or "condition"


def _condition_figure(result: StudyValues, curves: Sequence[Curve], y_title: str) -> Any:
    """Return a Plotly figure of curves with a study's conditions on the x axis, which is logarithmic
    if their numbers span a large range.
    """
    x_of_condition = conditions_on_axis(result)
    # Curves of other things than systems have styles of their own.
    are_systems = {curve.name for curve in curves} <= set(result.system_names)
    styles = styles_of(result) if are_systems else None
    figure = curve_figure(curves, x_title=_axis_title(result), y_title=y_title, styles=styles)

    # The conditions are sorted by their numbers.
    values = list(x_of_condition.values())
    lowest, highest = values[0], values[-1]
    is_logarithmic = lowest > 0 and highest >= _LOG_FROM * lowest
    return figure.update_xaxes(
        type="log" if is_logarithmic else "linear",
        tickvals=values,
        ticktext=[escaped(name) for name in x_of_condition],
    )


# ---- Measurements


def _measurement_figures(result: StudyValues) -> Iterator[FigureSection]:
    """Yield the figures of a study's measurements: what was measured without training, drawn in the
    form that belongs to each kind of measurement.
    """
    figures_of_form = {
        "clouds": _cloud_figures,
        "curves": _measured_curve_figures,
        "rows": _row_figures,
    }
    for kind, measured in MEASURED_FIGURES.items():
        measurements = []
        for system in result.plan.study.systems:
            if isinstance(system, Measurement) and system.kind == kind:
                measurements.append(str(system))
        if measurements:
            yield from figures_of_form[measured.form](result, measured, measurements)


def _cloud_figures(
    result: StudyValues, measured: MeasuredFigure, measurements: Sequence[str]
) -> Iterator[FigureSection]:
    """Yield a scatter plot of the points that each measurement took in its first trial, under each
    condition; the points of one list of documents are one cloud.
    """
    # Two series, by the name under which the points are stored: across and up.
    (x_name, x_title), (y_name, y_title) = measured.series.items()
    for measurement in measurements:
        for condition in result.condition_names:
            points = result.points.get((condition, measurement))
            if points is None:
                continue
            clouds = _clouds_of_lists(points[x_name], points[y_name])
            figure = curve_figure(clouds, x_title=x_title, y_title=y_title, mode="markers")
            title = measured.title + condition_suffix(condition)
            yield FigureSection(title, figure, measured.caption, _heights_text(clouds))


def _clouds_of_lists(
    x_of_lists: Sequence[Sequence[float]], y_of_lists: Sequence[Sequence[float]]
) -> list[Curve]:
    """Return a cloud of points for each list, named "list 1", "list 2", ...; all lists get equal
    shares of the points that a figure can hold.
    """
    n_lists = max(len(y_of_lists), 1)
    points_per_list = max(MOST_POINTS // n_lists, 1)
    clouds: list[Curve] = []
    for x, y in zip(x_of_lists, y_of_lists, strict=True):
        name = f"list {len(clouds) + 1}"
        clouds.append(Curve(name, x[:points_per_list], y[:points_per_list]))
    return clouds


def _heights_text(clouds: Sequence[Curve]) -> str:
    """Return a sentence on the least and the largest height (range of y) of clouds of points."""
    # `ptp` is the largest less the least value; `mean` of a curve holds its y values.
    heights = [np.ptp(cloud.mean) for cloud in clouds]
    lowest, highest = min(heights), max(heights)
    return f"{len(clouds)} clouds, from {lowest:.3g} to {highest:.3g} tall."


def _measured_curve_figures(
    result: StudyValues, measured: MeasuredFigure, measurements: Sequence[str]
) -> Iterator[FigureSection]:
    """Yield a figure for each measurement: what its first trial measured, a curve per quantity, with
    a study's conditions on the x axis.
    """
    x_of_condition = conditions_on_axis(result)
    for measurement in measurements:
        x = []
        points_of_conditions = []
        for condition, value in x_of_condition.items():
            if (condition, measurement) in result.points:
                x.append(value)
                points_of_conditions.append(result.points[condition, measurement])
        if not x:
            continue

        curves = []
        for quantity, name in measured.series.items():
            values = [or_nan(points.get(quantity)) for points in points_of_conditions]
            if not np.isnan(values).all():
                curves.append(Curve(name, x, values))
        figure = _condition_figure(result, curves, measured.axis)
        # A tick at every second power of 10.
        figure.update_yaxes(type="log", exponentformat="power", dtick=2)
        figure.update_traces(hovertemplate="%{y:.3g} at %{x}")
        summary = (
            f"Lines, from the largest to the smallest {_axis_title(result)}:"
            f" {_falling_ends_text(curves)}."
        )
        yield FigureSection(measured.title, figure, measured.caption, summary)


def _falling_ends_text(curves: Sequence[Curve]) -> str:
    """Return the last and the first value of each curve in words, such as 'ndcg from 0.1 to 0.9': the
    curves run from small to large conditions, and are told from the large end.
    """
    texts = []
    for curve in curves:
        first, last = curve.mean[0], curve.mean[-1]
        texts.append(f"{curve.name} from {last:.3g} to {first:.3g}")
    return "; ".join(texts)


def _row_figures(
    result: StudyValues, measured: MeasuredFigure, measurements: Sequence[str]
) -> Iterator[FigureSection]:
    """Yield a figure of measured quantities for each condition: a row per measurement, and a mark
    per trial and quantity on a logarithmic axis.
    """
    first_quantity, first_title = next(iter(measured.series.items()))
    for condition in result.condition_names:
        metrics = result.metrics_under(condition)
        if first_quantity not in metrics:
            continue
        marks_of_quantities = []
        for quantity, title in measured.series.items():
            if quantity in metrics:
                marks = _row_marks(result, condition, quantity, title, measurements)
                marks_of_quantities.append(marks)
        n_marks = sum(marks.x.size for marks in marks_of_quantities)
        if n_marks == 0:
            continue

        figure = curve_figure(
            marks_of_quantities, x_title=measured.axis, y_title="", mode="markers"
        )
        figure.update_xaxes(type="log", dtick=1, tickformat="~g", tickangle=0)
        in_rows(figure, measurements, ROW_HEIGHT * len(measurements))
        figure.update_traces(hovertemplate="%{x:.4g}")

        means = []
        for measurement in measurements:
            mean = abs(result.cell(condition, measurement, first_quantity).mean)
            means.append(f"{measurement} {mean:.3g}")
        title = measured.title + condition_suffix(condition)
        caption = measured.caption + _hidden_text(marks_of_quantities)
        summary = f"Points; {first_title}, mean: {'; '.join(means)}."
        yield FigureSection(title, figure, caption, summary)


def _row_marks(
    result: StudyValues, condition: str, quantity: str, title: str, measurements: Sequence[str]
) -> Curve:
    """Return a mark for each trial's value of a measured quantity, in the row of its measurement.

    Args:
        result: the values of the study.
        condition: the condition of the study.
        quantity: the name of the quantity.
        title: the name of the marks in the figure.
        measurements: the measurements, in the order of their rows.
    """
    cells = [result.cell(condition, measurement, quantity) for measurement in measurements]
    n_trials = [cell.means.size for cell in cells]
    # The row of each mark: the number of its measurement, once for each of its trials.
    rows = np.repeat(np.arange(len(cells)), n_trials)
    # Quantities count costs as negative numbers; a logarithmic axis has no place for 0.
    values = np.abs(np.concatenate([cell.means for cell in cells]))
    positive_or_nan = np.where(values > 0, values, np.nan)
    return Curve(title, positive_or_nan, rows)


def _hidden_text(marks_of_quantities: Sequence[Curve]) -> str:
    """Return sentences on how many values of 0 a logarithmic axis does not show; empty if there are
    none.
    """
    sentences = []
    for marks in marks_of_quantities:
        # A mark whose value is 0 has NaN as its place on the axis.
        n_zeros = int(np.isnan(marks.x).sum())
        if n_zeros:
            sentences.append(f" Not shown: {n_zeros} values of 0 ({marks.name}).")
    return "".join(sentences)
