"""Figures of a study's page: curves by trees and over conditions, gains of queries, clouds, bounds, directness."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tautrank.report.figures import (
    MOST_BARS,
    MOST_POINTS,
    Cloud,
    Curve,
    cloud_figure,
    curve_figure,
    difficulty_figure,
    difficulty_groups,
    query_gain_figure,
    validation_curves,
)
from tautrank.report.page import FigureSection
from tautrank.report.palette import SystemStyle, system_styles
from tautrank.report.study_gains import (
    QueryGains,
    group_intervals,
    interval_over_trials,
    query_gains,
    same_queries,
)
from tautrank.report.study_tables import own_metrics
from tautrank.studies.claims import PLAIN
from tautrank.studies.measurements import Measurement
from tautrank.studies.results import CellResult, StudyResult

_FEWEST_QUERIES = 10  # for gains by query: fewer say nothing
_LOG_FROM = 10.0  # how far values of a condition are apart where the axis grows by factors
_AXIS_PIXELS, _LETTER_PIXELS = 225, 6.5  # of an axis on a phone, and of a letter below it

_COURSES = {
    "valid": ("Validation by number of trees", "validation"),
    "train": ("Training queries by number of trees", "training"),
}
_BOUNDS = {
    "distance": "distance, measured",
    "within-bound": "bound of the proof",
    "within-bound-as-stated": "bound as stated",
    "within-bound-by-contests": "bound by contests",
}
_GUARANTEES = {
    "directness": ("guarantee: 2 eps1 + eps2", -1),
    "by-means": ("guarantee by means", -1),
    "cost": ("cost, measured", 1),
}
_LEAST_HEIGHT, _ROW = 260, 44  # pixels of a figure with a row a loss


def study_figures(result: StudyResult) -> list[FigureSection]:
    """The figures that fit a study.

    Curves by trees where they were recorded; curves over conditions where those are numbers; every trial, the gain of
    each query and gains by difficulty where they are not; and what measurements give.

    Args:
        result: of a study.
    """
    styles = system_styles(result.plan.study.system_names)
    made = [
        *_clouds(result),
        *_bounds(result),
        *_guarantees(result),
        *_courses(result, styles),
        *_over_conditions(result, styles),
        *_single_conditions(result, styles),
    ]
    return [section for section in made if section is not None]


# ---- Curves by trees


def _courses(result: StudyResult, styles: dict[str, SystemStyle]) -> list[FigureSection | None]:
    study = result.plan.study
    parts = dict.fromkeys(part for _, _, part in result.curves)
    return [_course(result, condition, part, styles) for condition in study.condition_names for part in parts]


def _course(result: StudyResult, condition: str, part: str, styles: dict[str, SystemStyle]) -> FigureSection | None:
    study = result.plan.study
    histories = {s: result.curves.get((condition, s, part), []) for s in study.system_names}
    curves = validation_curves(histories)
    if not curves:
        return None
    first = study.metrics_under(condition)[0]
    title, queries = _COURSES.get(part, (f"{part} by iteration", ""))
    measured = f"{queries} {first}" if queries else part
    trials = max(len(history) for history in histories.values())
    caption = f"{first} on the {queries} queries after each tree." if queries else f"{part} after each iteration."
    if trials > 1:
        caption += (
            f" Lines are means and bands standard deviations over {trials} trials; a line ends where the first of its "
            "trainings stopped."
        )
    if any(claim.of_curves for claim in study.claims):
        caption += " The claims look at the best value so far, as early stopping keeps it."
    told = "; ".join(
        f"{c.name} has {c.mean[max(math.ceil(c.mean.size / 10), 1) - 1]:.4f} after a tenth and {c.mean[-1]:.4f} at the "
        f"end of {c.mean.size} trees"
        for c in curves
    )
    figure = curve_figure(
        curves, x_title="trees" if queries else "iterations", y_title=measured, styles=styles, points=False
    )
    return FigureSection(title + _under(condition), figure, caption, f"Lines: {told}.")


# ---- Curves over conditions


def _numeric(result: StudyResult) -> bool:
    conditions = result.plan.study.conditions
    return len(conditions) > 1 and all(condition.value is not None for condition in conditions)


def _over_conditions(result: StudyResult, styles: dict[str, SystemStyle]) -> list[FigureSection | None]:
    study = result.plan.study
    if not _numeric(result):
        return []
    if len(study.systems) == 1 and len(study.metrics) > 1 and not own_metrics(result):
        return [_metric_curves(result)]
    groups = [study.metrics] if own_metrics(result) else [(name,) for name in study.metrics]
    made: list[FigureSection | None] = []
    for metrics in groups:
        made += [_mean_curves(result, metrics, part, styles) for part in study.judged]
        made.append(_lead_curves(result, metrics, styles))
    return made


def _mean_curves(
    result: StudyResult, metrics: Sequence[str], part: str, styles: dict[str, SystemStyle]
) -> FigureSection | None:
    study = result.plan.study
    cells = {system: _cells(result, system, metrics, part) for system in study.system_names}
    drawn = (_interval_curve(result, system, found) for system, found in cells.items())
    curves = [curve for curve in drawn if curve is not None]
    if not curves:
        return None
    named = ", ".join(metrics)
    measured = named if part == "test" else f"{named} of the {part} queries"
    figure = _with_conditions(
        result, curve_figure(curves, x_title=_axis(result), y_title=measured, styles=styles, log_x=_by_factors(result))
    )
    caption = f"{measured} by {_axis(result)}: means over trials.{_bands(result)}"
    ends = [(system, found[0], found[-1]) for system, found in cells.items() if found]
    told = "; ".join(
        f"{s} goes from {a.mean:.4f} at {a.condition} to {b.mean:.4f} at {b.condition}" for s, a, b in ends
    )
    return FigureSection(f"{measured} by condition", figure, caption, f"Lines: {told}.")


def _metric_curves(result: StudyResult) -> FigureSection | None:
    """One system, measured in several ways that share an axis."""
    study = result.plan.study
    system = study.system_names[0]
    found = {name: _cells(result, system, [name], "test") for name in study.metrics}
    drawn = (_interval_curve(result, name, cells) for name, cells in found.items())
    curves = [curve for curve in drawn if curve is not None]
    if not curves:
        return None
    figure = _with_conditions(
        result, curve_figure(curves, x_title=_axis(result), y_title="mean", log_x=_by_factors(result))
    )
    told = "; ".join(f"{c.name} from {c.mean[0]:.4f} to {c.mean[-1]:.4f}" for c in curves)
    caption = f"What is measured by {_axis(result)}: means over trials.{_bands(result)}"
    return FigureSection(f"What {system} gives by condition", figure, caption, f"Lines: {told}.")


def _lead_curves(result: StudyResult, metrics: Sequence[str], styles: dict[str, SystemStyle]) -> FigureSection | None:
    """How far each system is ahead of the baseline: the third line of XE-NDCG's Figures 3 and 4."""
    study = result.plan.study
    curves = []
    for system in (s for s in study.system_names if s != study.baseline):
        points = []
        for cell in _cells(result, system, metrics, "test"):
            gains = _trial_gains(result, cell)
            if gains.size:
                low, high = interval_over_trials(gains, result.overlap)
                points.append((_value(result, cell.condition), float(gains.mean()), low, high))
        if points:
            curves.append(_curve(system, points))
    if not curves:
        return None
    named = ", ".join(metrics)
    figure = curve_figure(
        curves,
        x_title=_axis(result),
        y_title=f"gain over {study.baseline} in {named}",
        styles=styles,
        log_x=_by_factors(result),
    )
    figure.update_yaxes(zeroline=True)
    caption = f"How far each system is ahead of {study.baseline} in {named}, in the trials both have done."
    if result.plan.budget.trials != 1:
        caption += " Bands are 95% confidence intervals over trials"
        caption += ", widened for the training queries that trials share (Nadeau and Bengio)" if result.overlap else ""
        caption += "; they say nothing of other test queries." if same_queries(study.protocol) else "."
    told = "; ".join(f"{c.name} from {c.mean[0]:+.4f} to {c.mean[-1]:+.4f}" for c in curves)
    title = f"Lead over {study.baseline} in {named}"
    return FigureSection(title, _with_conditions(result, figure), caption, f"Lines: {told}.")


def _trial_gains(result: StudyResult, cell: CellResult) -> np.ndarray[Any, np.dtype[np.float64]]:
    reference = result.cell(cell.condition, result.plan.study.baseline, cell.metric, cell.part)
    ours, theirs = (dict(zip(c.numbers, c.means.tolist(), strict=True)) for c in (cell, reference))
    sign = 1 if cell.higher_is_better else -1
    return np.array([sign * (ours[t] - theirs[t]) for t in sorted(ours.keys() & theirs.keys())], np.float64)


def _cells(result: StudyResult, system: str, metrics: Sequence[str], part: str) -> list[CellResult]:
    """The cells of a curve that hold something, by increasing value of their condition."""
    study = result.plan.study
    ordered = sorted(study.conditions, key=lambda condition: condition.value or 0.0)
    places = [(c.name, system, name, part) for c in ordered for name in metrics if name in study.metrics_under(c.name)]
    return [result.by_place[place] for place in places if result.by_place[place].means.size]


def _interval_curve(result: StudyResult, name: str, cells: Sequence[CellResult]) -> Curve | None:
    points = [(_value(result, cell.condition), cell.mean, *cell.interval) for cell in cells]
    return _curve(name, points) if points else None


def _curve(name: str, points: Sequence[tuple[float, float, float, float]]) -> Curve:
    x, mean, low, high = (list(column) for column in zip(*points, strict=True))
    if np.isnan(low).all():
        return Curve(name, x, mean)
    return Curve(name, x, mean, low, high)


def _value(result: StudyResult, condition: str) -> float:
    value = result.plan.study.condition(condition).value
    assert value is not None
    return value


def _axis(result: StudyResult) -> str:
    return result.plan.study.axis or "condition"


def _bands(result: StudyResult) -> str:
    if result.plan.budget.trials == 1:
        return ""
    return " Bands are 95% confidence intervals as papers give them: as if trials were independent."


def _by_factors(result: StudyResult) -> bool:
    values = [_value(result, condition) for condition in result.plan.study.condition_names]
    return min(values) > 0 and max(values) >= _LOG_FROM * min(values)


def _with_conditions(result: StudyResult, figure: Any) -> Any:
    """Name the conditions below the axis; those too near the last one for a phone keep their line, but no name."""
    ordered = sorted(result.plan.study.conditions, key=lambda condition: condition.value or 0.0)
    values = [_value(result, condition.name) for condition in ordered]
    if values[0] == values[-1]:
        return figure
    along = np.log(values) if _by_factors(result) else np.array(values)
    along = (along - along[0]) / (along[-1] - along[0]) * _AXIS_PIXELS
    names: list[str] = []
    end = -math.inf
    for place, condition in zip(along, ordered, strict=True):
        half = _LETTER_PIXELS * (len(condition.name) + 1) / 2
        fits = place - half >= end
        # Plotly reads a kind of HTML.
        names.append(html.escape(condition.name, quote=False) if fits else "")
        end = place + half if fits else end
    figure.update_xaxes(tickvals=values, ticktext=names, tickangle=0)
    return figure


# ---- Tables: every trial, every query


def _single_conditions(result: StudyResult, styles: dict[str, SystemStyle]) -> list[FigureSection | None]:
    study = result.plan.study
    if _numeric(result) or study.measures_only:
        return []
    made = []
    for condition in study.condition_names:
        first = study.metrics_under(condition)[0]
        made.append(_trials(result, condition, first, styles))
        found = query_gains(result, condition, first)
        if found is not None and np.count_nonzero(~np.isnan(found.baseline)) >= _FEWEST_QUERIES:
            made += [
                _query_gains(result, found, condition, first, styles),
                _difficulty(result, found, condition, first, styles),
            ]
    return made


def _trials(result: StudyResult, condition: str, first: str, styles: dict[str, SystemStyle]) -> FigureSection | None:
    study = result.plan.study
    cells = [result.cell(condition, system, first) for system in study.system_names]
    curves = [Curve(c.system, [number + 1 for number in c.numbers], c.means) for c in cells if c.means.size]
    if max((curve.x.size for curve in curves), default=0) < 2:
        return None
    figure = curve_figure(curves, x_title="trial", y_title=first, styles=styles)
    if result.plan.budget.trials is not None and result.plan.budget.trials <= 12:
        figure.update_xaxes(dtick=1)
    caption = f"{first} of the test queries in every trial. All systems of a trial see the same queries."
    told = "; ".join(f"{c.name} from {c.mean.min():.4f} to {c.mean.max():.4f}" for c in curves)
    return FigureSection(f"Every trial{_under(condition)}", figure, caption, f"Lines: {told}.")


def _query_gains(
    result: StudyResult, found: QueryGains, condition: str, first: str, styles: dict[str, SystemStyle]
) -> FigureSection:
    baseline = result.plan.study.baseline
    figure = query_gain_figure(found.gains, unit=first, styles=styles)
    whose = "each test query, mean over trials," if found.trial_of is None else "each test query of each trial"
    caption = f"What {whose} gains or loses against {baseline} in {first}, sorted in each panel."
    counted = int(np.count_nonzero(~np.isnan(found.baseline)))
    if counted > MOST_BARS:
        caption += f" A bar is the mean of about {counted / MOST_BARS:.0f} neighbours in that order."
    shares = {name: gains[~np.isnan(gains)] for name, gains in found.gains.items()}
    told = "; ".join(
        f"{name} gains on {np.mean(gains > 0):.0%} and loses on {np.mean(gains < 0):.0%} of the queries"
        for name, gains in shares.items()
    )
    return FigureSection(f"Gain of each query over {baseline}{_under(condition)}", figure, caption, f"Bars: {told}.")


def _difficulty(
    result: StudyResult, found: QueryGains, condition: str, first: str, styles: dict[str, SystemStyle]
) -> FigureSection:
    baseline = result.plan.study.baseline
    groups = difficulty_groups(found.baseline, higher_is_better=found.higher_is_better)
    how, intervals = "bootstrap intervals over queries", None
    if found.trial_of is not None:
        # A query may come up in several trials: drawing from all of them again would make too much of it.
        how = "confidence intervals over trials"
        how += ", widened for the training queries that trials share (Nadeau and Bengio)" if result.overlap else ""
        intervals = {
            name: group_intervals(gains, groups, found.trial_of, result.overlap) for name, gains in found.gains.items()
        }
    figure = difficulty_figure(found.gains, groups, unit=first, baseline=baseline, styles=styles, intervals=intervals)
    with_intervals = intervals is None or not np.isnan(list(intervals.values())).all()
    caption = (
        f"Mean gain over {baseline} in {first} by how hard a query is for {baseline}"
        + (f", with 95% {how}" if with_intervals else "")
        + f". The groups are made of {baseline}'s own values, so part of a gain on the hardest and of a loss on the "
        "easiest queries is its own chance evening out."
    )
    told = "; ".join(
        f"{name} gains {np.nanmean(gains[groups[0].queries]):+.4f} on the hardest and "
        f"{np.nanmean(gains[groups[-1].queries]):+.4f} on the easiest"
        for name, gains in found.gains.items()
    )
    title = f"Gain by difficulty of the query{_under(condition)}"
    return FigureSection(title, figure, caption, f"Points with intervals: {told}.")


def _under(condition: str) -> str:
    return "" if condition == PLAIN else f" ({condition})"


# ---- Measurements


def _of_kind(result: StudyResult, kind: str) -> list[str]:
    systems = result.plan.study.systems
    return [str(system) for system in systems if isinstance(system, Measurement) and system.kind == kind]


def _clouds(result: StudyResult) -> list[FigureSection | None]:
    """Figure 1 of the XE-NDCG paper."""
    made: list[FigureSection | None] = []
    for system in _of_kind(result, "jensen-clouds"):
        for condition in result.plan.study.condition_names:
            points = result.points.get((condition, system))
            if points is None:
                continue
            # Of many gammas, as many of each list as can be drawn.
            most = max(MOST_POINTS // max(len(points["gaps"]), 1), 1)
            clouds = [
                Cloud(f"list {i}", losses[:most], gaps[:most])
                for i, (losses, gaps) in enumerate(zip(points["losses"], points["gaps"], strict=True), 1)
            ]
            figure = cloud_figure(clouds, x_title="XE-NDCG", y_title="Jensen gap")
            caption = (
                "The Jensen gap against the loss, of the first trial: a cloud a list, a point a gamma drawn at random. "
                "The taller a cloud, the more gamma decides how tight the bound is."
            )
            spread = [max(cloud.y) - min(cloud.y) for cloud in clouds]
            told = f"{len(clouds)} clouds, from {min(spread):.3g} to {max(spread):.3g} tall."
            made.append(FigureSection(f"The gap of many gammas{_under(condition)}", figure, caption, told))
    return made


def _bounds(result: StudyResult) -> list[FigureSection | None]:
    """He and Liu's Theorem 2: how far SoftNDCG is from NDCG, and the bounds on it."""
    if not _numeric(result):
        return []
    study = result.plan.study
    ordered = sorted(study.conditions, key=lambda condition: condition.value or 0.0)
    made: list[FigureSection | None] = []
    for system in _of_kind(result, "softrank-distance"):
        known = [(c.value, result.points[c.name, system]) for c in ordered if (c.name, system) in result.points]
        if not known:
            continue
        curves = []
        for field, name in _BOUNDS.items():
            values = [math.nan if points.get(field) is None else points[field] for _, points in known]
            if not np.isnan(values).all():
                curves.append(Curve(name, [value for value, _ in known], values))
        figure = _with_conditions(
            result,
            curve_figure(curves, x_title=_axis(result), y_title="distance from NDCG", log_x=_by_factors(result)),
        )
        figure.update_yaxes(type="log", exponentformat="power", dtick=2)
        figure.update_traces(hovertemplate="%{y:.3g} at %{x}")
        caption = (
            "How far SoftNDCG is from NDCG, mean over the lists of the first trial, and the bounds on it. A bound "
            "that is missing says nothing there. Above 1 a bound says nothing either: no two NDCGs are further apart."
        )
        told = "; ".join(f"{c.name} from {c.mean[-1]:.3g} to {c.mean[0]:.3g}" for c in curves)
        told = f"Lines, from the largest to the smallest {_axis(result)}: {told}."
        made.append(FigureSection("Distance from NDCG and its bounds", figure, caption, told))
    return made


def _guarantees(result: StudyResult) -> list[FigureSection | None]:
    """He and Liu's Theorem 1: the most that choosing by a loss can cost, and what it does cost, loss by loss."""
    names = _of_kind(result, "directness")
    made: list[FigureSection | None] = []
    study = result.plan.study
    for condition in study.condition_names if names else ():
        if "directness" not in study.metrics_under(condition):
            continue
        clouds = []
        for quantity, (title, sign) in _GUARANTEES.items():
            if quantity in study.metrics_under(condition):
                cells = [result.cell(condition, name, quantity) for name in names]
                places = [np.full(cell.means.size, place) for place, cell in enumerate(cells)]
                values = np.concatenate([sign * cell.means for cell in cells])
                # The axis grows by factors, and has no place for 0.
                clouds.append(Cloud(title, np.where(values > 0, values, np.nan), np.concatenate(places)))
        if not any(cloud.x.size for cloud in clouds):
            continue
        figure = cloud_figure(clouds, x_title="cost in NDCG", y_title="")
        figure.update_xaxes(type="log", dtick=1, tickformat="~g", tickangle=0)
        labels = [html.escape(name, quote=False) for name in names]
        figure.update_yaxes(
            tickvals=list(range(len(names))), ticktext=labels, range=[len(names) - 0.5, -0.5], zeroline=False
        )
        figure.update_traces(hovertemplate="%{x:.4g}")
        figure.update_layout(height=max(_LEAST_HEIGHT, _ROW * len(names)))
        free = sum(int(np.isnan(cloud.x).sum()) for cloud in clouds if cloud.name == _GUARANTEES["cost"][0])
        caption = (
            "What the ranker that is best by a loss may lose in NDCG against the best one by the theorem, by the same "
            "argument with means over queries, and what it does lose: a point a trial. Further left is more direct."
        )
        caption += f" In {free} trials it loses nothing, which the axis does not show." if free else ""
        guaranteed = {name: -result.cell(condition, name, "directness").mean for name in names}
        told = "; ".join(f"{name} is guaranteed {most:.3g}" for name, most in guaranteed.items())
        title = f"How direct each loss is{_under(condition)}"
        made.append(FigureSection(title, figure, caption, f"Points: {told}."))
    return made
