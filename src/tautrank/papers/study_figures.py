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
    sections = [*_measured(result), *tree_sections(result, _remark_on_curves(result))]
    if conditions_on_axis(result):
        sections += _over_conditions(result)
    elif not result.measures_only:
        sections += trial_sections(result)
    return sections


def _remark_on_curves(result: StudyValues) -> str:
    if any(claim.of_curves for claim in result.plan.study.claims):
        return " The claims look at the best value so far, as early stopping keeps it."
    return ""


# ---- Curves over conditions


def conditions_on_axis(result: StudyValues) -> dict[str, float]:
    """Return the value of each condition, from the smallest; empty where they are not all numbers.

    Args:
        result: the values of the study.
    """
    conditions = result.plan.study.conditions
    values = {
        condition.name: condition.value for condition in conditions if condition.value is not None
    }
    has_all_values = len(values) == len(conditions)
    if len(conditions) < 2 or not has_all_values:
        return {}
    return dict(sorted(values.items(), key=lambda item: item[1]))


def _over_conditions(result: StudyValues) -> Iterator[FigureSection]:
    """Draw means and leads over the conditions, a figure per metric."""
    study = result.plan.study
    are_quantities = len(study.systems) == 1 and len(study.metrics) > 1
    if are_quantities and not result.has_own_metrics:
        # Several quantities of one system share an axis.
        system = study.system_names[0]
        cells = {metric: _cells(result, system, [metric], "test") for metric in study.metrics}
        yield from _mean_curves(result, f"What {system} gives", "mean", cells)
        return
    groups: list[tuple[str, ...]] = [(metric,) for metric in study.metrics]
    if result.has_own_metrics:
        groups = [study.metrics]
    for metrics in groups:
        for part in study.judged:
            title = ", ".join(metrics)
            if part != "test":
                title += f" of the {part} queries"
            cells = {system: _cells(result, system, metrics, part) for system in study.system_names}
            yield from _mean_curves(result, title, title, cells)
        yield from _lead_curves(result, metrics)


class _Point(NamedTuple):
    """A mean under a condition, and its confidence interval."""

    condition: str
    mean: float
    low: float
    high: float


def _mean_curves(
    result: StudyValues, title: str, y_title: str, cells: Mapping[str, Sequence[CellResult]]
) -> Iterator[FigureSection]:
    """Draw the means of several series of cells, by the name of the series."""
    caption = f"{title} by {_axis(result)}: means over trials."
    if result.plan.budget.repeats != 1:
        caption += (
            " Bands are 95 % confidence intervals as papers give them: as if trials were"
            " independent."
        )
    points = {}
    for name, series in cells.items():
        points[name] = [_Point(cell.condition, cell.mean, *cell.interval) for cell in series]
    curves = _condition_curves(result, points)
    if curves:
        figure = _condition_figure(result, curves, y_title)
        summary = _ends_text(points, sign="")
        yield FigureSection(f"{title} by condition", figure, caption, summary)


def _lead_curves(result: StudyValues, metrics: Sequence[str]) -> Iterator[FigureSection]:
    """Draw how far each system is ahead of the baseline, as the third line of XE-NDCG's Figures 3
    and 4.
    """
    named = ", ".join(metrics)
    over = f"over {result.baseline} in {named}"
    caption = (
        f"How far each system is ahead of {result.baseline} in {named}, in the trials both have"
        " finished."
    )
    if result.plan.budget.repeats != 1:
        caption += f" Bands are 95 % confidence intervals over trials{widened(result.overlap)}"
        caption += (
            "; they say nothing about other test queries." if result.tests_same_queries else "."
        )
    points = {}
    for system in result.system_names:
        if system != result.baseline:
            points[system] = _lead_points(result, system, metrics)
    curves = _condition_curves(result, points)
    if curves:
        figure = _condition_figure(result, curves, f"gain {over}").update_yaxes(zeroline=True)
        yield FigureSection(f"Lead {over}", figure, caption, _ends_text(points, sign="+"))


def _lead_points(result: StudyValues, system: str, metrics: Sequence[str]) -> list[_Point]:
    """Return the lead of a system under each condition, where both it and the baseline have values."""
    points = []
    for cell in _cells(result, system, metrics, "test"):
        gains = _trial_gains(result, cell)
        if gains.size:
            interval = interval_over_trials(gains, result.overlap)
            points.append(_Point(cell.condition, float(gains.mean()), *interval))
    return points


def _trial_gains(result: StudyValues, cell: CellResult) -> F64:
    """Return what each trial gains over the baseline, in the trials that both have finished."""
    baseline = result.cell(cell.condition, result.baseline, cell.metric, cell.part)
    ours = dict(zip(cell.numbers, cell.means.tolist(), strict=True))
    theirs = dict(zip(baseline.numbers, baseline.means.tolist(), strict=True))
    sign = 1 if cell.higher_is_better else -1
    trials = sorted(ours.keys() & theirs.keys())
    gains = [ours[trial] - theirs[trial] for trial in trials]
    return sign * np.array(gains, np.float64)


def _condition_curves(result: StudyValues, points: Mapping[str, Sequence[_Point]]) -> list[Curve]:
    """Return a curve for each name that has points; without a band where no interval is known."""
    value_of = conditions_on_axis(result)
    curves = []
    for name, of_curve in points.items():
        if not of_curve:
            continue
        x = [value_of[point.condition] for point in of_curve]
        means = [point.mean for point in of_curve]
        low = [point.low for point in of_curve]
        high = [point.high for point in of_curve]
        if np.isnan(low).all():
            curves.append(Curve(name, x, means))
        else:
            curves.append(Curve(name, x, means, low, high))
    return curves


def _ends_text(points: Mapping[str, Sequence[_Point]], sign: str) -> str:
    """Return where each curve begins and ends; with the sign "+", differences show theirs."""
    ends = []
    for name, of_curve in points.items():
        if of_curve:
            first, last = of_curve[0], of_curve[-1]
            begin = f"{first.mean:{sign}.4f} at {first.condition}"
            end = f"{last.mean:{sign}.4f} at {last.condition}"
            ends.append(f"{name} from {begin} to {end}")
    return f"Lines: {'; '.join(ends)}."


def _cells(result: StudyValues, system: str, metrics: Sequence[str], part: str) -> list[CellResult]:
    """Return the cells of a curve that have values, by increasing value of their condition."""
    cells = []
    for condition in conditions_on_axis(result):
        for metric in metrics:
            cell = result.by_place.get((condition, system, metric, part))
            if cell is not None and cell.means.size:
                cells.append(cell)
    return cells


def _axis(result: StudyValues) -> str:
    return result.plan.study.axis or "condition"


def _condition_figure(result: StudyValues, curves: Sequence[Curve], y_title: str) -> Any:
    """Draw curves over the conditions, which are named below the axis."""
    names = list(conditions_on_axis(result))
    values = list(conditions_on_axis(result).values())
    # Curves of other things than systems have styles of their own.
    are_systems = {curve.name for curve in curves} <= set(result.system_names)
    styles = styles_of(result) if are_systems else None
    figure = curve_figure(curves, x_title=_axis(result), y_title=y_title, styles=styles)
    lowest, highest = values[0], values[-1]
    by_factors = lowest > 0 and highest >= _LOG_FROM * lowest
    return figure.update_xaxes(
        type="log" if by_factors else "linear",
        tickvals=values,
        ticktext=[escaped(name) for name in names],
    )


# ---- Measurements


def _measured(result: StudyValues) -> Iterator[FigureSection]:
    """Draw the figure that each kind of measurement names."""
    draw_form = {"clouds": _clouds, "curves": _point_curves, "rows": _rows}
    for kind, measured in MEASURED_FIGURES.items():
        systems = []
        for system in result.plan.study.systems:
            if isinstance(system, Measurement) and system.kind == kind:
                systems.append(str(system))
        if systems:
            yield from draw_form[measured.form](result, measured, systems)


def _clouds(
    result: StudyValues, measured: MeasuredFigure, systems: Sequence[str]
) -> Iterator[FigureSection]:
    """Draw the points of the first trial, a cloud per list."""
    (x, x_title), (y, y_title) = measured.series.items()
    for system in systems:
        for condition in result.condition_names:
            points = result.points.get((condition, system))
            if points is None:
                continue
            clouds = _clouds_of_lists(points[x], points[y])
            figure = curve_figure(clouds, x_title=x_title, y_title=y_title, mode="markers")
            title = measured.title + condition_suffix(condition)
            yield FigureSection(title, figure, measured.caption, _heights_text(clouds))


def _clouds_of_lists(x: Sequence[Sequence[float]], y: Sequence[Sequence[float]]) -> list[Curve]:
    """Return as many points of each list as can be drawn."""
    n_lists = max(len(y), 1)
    n_points = max(MOST_POINTS // n_lists, 1)
    clouds: list[Curve] = []
    for across, up in zip(x, y, strict=True):
        clouds.append(Curve(f"list {len(clouds) + 1}", across[:n_points], up[:n_points]))
    return clouds


def _heights_text(clouds: Sequence[Curve]) -> str:
    heights = [np.ptp(cloud.mean) for cloud in clouds]
    lowest, highest = min(heights), max(heights)
    return f"{len(clouds)} clouds, from {lowest:.3g} to {highest:.3g} tall."


def _point_curves(
    result: StudyValues, measured: MeasuredFigure, systems: Sequence[str]
) -> Iterator[FigureSection]:
    """Draw the points of the first trial over the conditions, a curve per series."""
    value_of = conditions_on_axis(result)
    for system in systems:
        conditions = [name for name in value_of if (name, system) in result.points]
        if not conditions:
            continue
        x = [value_of[condition] for condition in conditions]
        curves = []
        for field, name in measured.series.items():
            points = [result.points[condition, system] for condition in conditions]
            values = [or_nan(of_condition.get(field)) for of_condition in points]
            if not np.isnan(values).all():
                curves.append(Curve(name, x, values))
        figure = _condition_figure(result, curves, measured.axis)
        figure.update_yaxes(type="log", exponentformat="power", dtick=2)
        figure.update_traces(hovertemplate="%{y:.3g} at %{x}")
        ends = []
        for curve in curves:
            first, last = curve.mean[0], curve.mean[-1]
            ends.append(f"{curve.name} from {last:.3g} to {first:.3g}")
        summary = f"Lines, from the largest to the smallest {_axis(result)}: {'; '.join(ends)}."
        yield FigureSection(measured.title, figure, measured.caption, summary)


def _rows(
    result: StudyValues, measured: MeasuredFigure, systems: Sequence[str]
) -> Iterator[FigureSection]:
    """Draw quantities, a row per system and a mark per trial."""
    first, first_title = next(iter(measured.series.items()))
    for condition in result.condition_names:
        metrics = result.metrics_under(condition)
        if first not in metrics:
            continue
        clouds = []
        for quantity, title in measured.series.items():
            if quantity in metrics:
                clouds.append(_row_cloud(result, condition, quantity, title, systems))
        if sum(cloud.x.size for cloud in clouds) == 0:
            continue

        figure = curve_figure(clouds, x_title=measured.axis, y_title="", mode="markers")
        figure.update_xaxes(type="log", dtick=1, tickformat="~g", tickangle=0)
        in_rows(figure, systems, ROW_HEIGHT * len(systems))
        figure.update_traces(hovertemplate="%{x:.4g}")
        means = []
        for system in systems:
            mean = abs(result.cell(condition, system, first).mean)
            means.append(f"{system} {mean:.3g}")
        title = measured.title + condition_suffix(condition)
        caption = measured.caption + _hidden_text(clouds)
        summary = f"Points; {first_title}, mean: {'; '.join(means)}."
        yield FigureSection(title, figure, caption, summary)


def _row_cloud(
    result: StudyValues, condition: str, quantity: str, title: str, systems: Sequence[str]
) -> Curve:
    """Return one quantity in all trials, each system in its row."""
    cells = [result.cell(condition, system, quantity) for system in systems]
    n_trials = [cell.means.size for cell in cells]
    rows = np.repeat(np.arange(len(cells)), n_trials)
    # Quantities count costs as negative numbers; a logarithmic axis has no place for 0.
    values = np.abs(np.concatenate([cell.means for cell in cells]))
    return Curve(title, np.where(values > 0, values, np.nan), rows)


def _hidden_text(clouds: Sequence[Curve]) -> str:
    """Return how many values a logarithmic axis does not show."""
    sentences = []
    for cloud in clouds:
        n_zeros = int(np.isnan(cloud.x).sum())
        if n_zeros:
            sentences.append(f" Not shown: {n_zeros} values of 0 ({cloud.name}).")
    return "".join(sentences)
