"""Figures of a study's page: curves by trees and over conditions, gains of queries, clouds, bounds, directness."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tautrank.experiments.measurements import Measurement
from tautrank.experiments.plan import PLAIN
from tautrank.json_values import or_nan
from tautrank.papers.results import CellResult, StudyResult
from tautrank.report.figures import (
    MOST_POINTS,
    Cloud,
    Curve,
    cloud_figure,
    curve_figure,
    difficulty_groups,
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
from tautrank.report.system_figures import FEWEST_QUERIES, difficulty_section, over_trainings, query_gain_section

Sections: TypeAlias = Iterator[FigureSection]
_Point: TypeAlias = tuple[str, float, float, float]  # condition, mean, and the ends of its interval

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
    kinds = (_clouds, _bounds, _guarantees, _courses, _over_conditions, _single_conditions)
    return [section for kind in kinds for section in kind(result)]


def _styles(result: StudyResult) -> dict[str, SystemStyle]:
    return system_styles(result.plan.study.system_names)


def _under(condition: str) -> str:
    return "" if condition == PLAIN else f" ({condition})"


# ---- Curves by trees


def _courses(result: StudyResult) -> Sections:
    study = result.plan.study
    parts = dict.fromkeys(part for _, _, part in result.curves)
    for condition, part in itertools.product(study.condition_names, parts):
        histories = {s: result.curves.get((condition, s, part), []) for s in study.system_names}
        curves = validation_curves(histories)
        if not curves:
            continue
        first = study.metrics_under(condition)[0]
        title, queries = _COURSES.get(part, (f"{part} by iteration", ""))
        caption = f"{first} on the {queries} queries after each tree." if queries else f"{part} after each iteration."
        caption += over_trainings(max(map(len, histories.values())), "trials")
        if any(claim.of_curves for claim in study.claims):
            caption += " The claims look at the best value so far, as early stopping keeps it."
        told = "; ".join(
            f"{c.name} has {c.mean[max(math.ceil(c.mean.size / 10), 1) - 1]:.4f} after a tenth and {c.mean[-1]:.4f} at "
            f"the end of {c.mean.size} trees"
            for c in curves
        )
        figure = curve_figure(
            curves,
            x_title="trees" if queries else "iterations",
            y_title=f"{queries} {first}" if queries else part,
            styles=_styles(result),
            points=False,
        )
        yield FigureSection(title + _under(condition), figure, caption, f"Lines: {told}.")


# ---- Curves over conditions


def _along(result: StudyResult) -> dict[str, float]:
    """The conditions' places on an axis, from the smallest; none where they are not all numbers."""
    conditions = result.plan.study.conditions
    values = {condition.name: condition.value for condition in conditions if condition.value is not None}
    if len(values) < max(len(conditions), 2):
        return {}
    return dict(sorted(values.items(), key=lambda item: item[1]))


def _over_conditions(result: StudyResult) -> Sections:
    study = result.plan.study
    if not _along(result):
        return
    if len(study.systems) == 1 and len(study.metrics) > 1 and not own_metrics(result):
        yield from _metric_curves(result)
        return
    for metrics in [study.metrics] if own_metrics(result) else [(name,) for name in study.metrics]:
        for part in study.judged:
            yield from _mean_curves(result, metrics, part)
        yield from _lead_curves(result, metrics)


def _mean_curves(result: StudyResult, metrics: Sequence[str], part: str) -> Sections:
    cells = {system: _cells(result, system, metrics, part) for system in result.plan.study.system_names}
    named = ", ".join(metrics)
    measured = named if part == "test" else f"{named} of the {part} queries"
    yield from _condition_section(
        result,
        f"{measured} by condition",
        {system: _mean_points(found) for system, found in cells.items()},
        y_title=measured,
        caption=f"{measured} by {_axis(result)}: means over trials.{_bands(result)}",
        told=lambda c: (
            f"{c.name} goes from {c.mean[0]:.4f} at {cells[c.name][0].condition} to {c.mean[-1]:.4f} at "
            f"{cells[c.name][-1].condition}"
        ),
        styles=_styles(result),
    )


def _metric_curves(result: StudyResult) -> Sections:
    """One system, measured in several ways that share an axis."""
    study = result.plan.study
    system = study.system_names[0]
    yield from _condition_section(
        result,
        f"What {system} gives by condition",
        {name: _mean_points(_cells(result, system, [name], "test")) for name in study.metrics},
        y_title="mean",
        caption=f"What is measured by {_axis(result)}: means over trials.{_bands(result)}",
        told=lambda c: f"{c.name} from {c.mean[0]:.4f} to {c.mean[-1]:.4f}",
    )


def _lead_curves(result: StudyResult, metrics: Sequence[str]) -> Sections:
    """How far each system is ahead of the baseline: the third line of XE-NDCG's Figures 3 and 4."""
    study = result.plan.study
    points: dict[str, list[_Point]] = {}
    for system in (s for s in study.system_names if s != study.baseline):
        gained = [(cell, _trial_gains(result, cell)) for cell in _cells(result, system, metrics, "test")]
        points[system] = [
            (cell.condition, float(gains.mean()), *interval_over_trials(gains, result.overlap))
            for cell, gains in gained
            if gains.size
        ]
    named = ", ".join(metrics)
    caption = f"How far each system is ahead of {study.baseline} in {named}, in the trials both have done."
    if result.plan.budget.trials != 1:
        caption += " Bands are 95% confidence intervals over trials"
        caption += ", widened for the training queries that trials share (Nadeau and Bengio)" if result.overlap else ""
        caption += "; they say nothing of other test queries." if same_queries(study.protocol) else "."
    yield from _condition_section(
        result,
        f"Lead over {study.baseline} in {named}",
        points,
        y_title=f"gain over {study.baseline} in {named}",
        caption=caption,
        told=lambda c: f"{c.name} from {c.mean[0]:+.4f} to {c.mean[-1]:+.4f}",
        styles=_styles(result),
        zeroline=True,
    )


def _condition_section(
    result: StudyResult,
    title: str,
    points: Mapping[str, Sequence[_Point]],
    *,
    y_title: str,
    caption: str,
    told: Callable[[Curve], str],
    styles: dict[str, SystemStyle] | None = None,
    **y_axis: Any,
) -> Sections:
    curves = [_curve(result, name, found) for name, found in points.items() if found]
    if curves:
        figure = _condition_figure(result, curves, y_title, styles, **y_axis)
        yield FigureSection(title, figure, caption, f"Lines: {'; '.join(map(told, curves))}.")


def _trial_gains(result: StudyResult, cell: CellResult) -> np.ndarray[Any, np.dtype[np.float64]]:
    reference = result.cell(cell.condition, result.plan.study.baseline, cell.metric, cell.part)
    ours, theirs = (dict(zip(c.numbers, c.means.tolist(), strict=True)) for c in (cell, reference))
    sign = 1 if cell.higher_is_better else -1
    return np.array([sign * (ours[t] - theirs[t]) for t in sorted(ours.keys() & theirs.keys())], np.float64)


def _cells(result: StudyResult, system: str, metrics: Sequence[str], part: str) -> list[CellResult]:
    """The cells of a curve that hold something, by increasing value of their condition."""
    places = itertools.product(_along(result), [system], metrics, [part])
    found = (result.by_place.get(place) for place in places)
    return [cell for cell in found if cell is not None and cell.means.size]


def _mean_points(cells: Sequence[CellResult]) -> list[_Point]:
    return [(cell.condition, cell.mean, *cell.interval) for cell in cells]


def _curve(result: StudyResult, name: str, points: Sequence[_Point]) -> Curve:
    conditions, mean, low, high = zip(*points, strict=True)
    along = _along(result)
    band = () if np.isnan(low).all() else (low, high)
    return Curve(name, [along[condition] for condition in conditions], mean, *band)


def _axis(result: StudyResult) -> str:
    return result.plan.study.axis or "condition"


def _bands(result: StudyResult) -> str:
    if result.plan.budget.trials == 1:
        return ""
    return " Bands are 95% confidence intervals as papers give them: as if trials were independent."


def _condition_figure(
    result: StudyResult,
    curves: Sequence[Curve],
    y_title: str,
    styles: dict[str, SystemStyle] | None = None,
    **y_axis: Any,
) -> Any:
    """Curves over the conditions, named below the axis; names too near the last one for a phone are left out."""
    names, values = list(_along(result)), list(_along(result).values())
    by_factors = values[0] > 0 and values[-1] >= _LOG_FROM * values[0]
    figure = curve_figure(curves, x_title=_axis(result), y_title=y_title, styles=styles, log_x=by_factors)
    figure.update_yaxes(**y_axis)
    if values[0] == values[-1]:
        return figure
    along = np.log(values) if by_factors else np.array(values)
    along = (along - along[0]) / (along[-1] - along[0]) * _AXIS_PIXELS
    shown: list[str] = []
    end = -math.inf
    for place, name in zip(along, names, strict=True):
        half = _LETTER_PIXELS * (len(name) + 1) / 2
        fits = place - half >= end
        # Plotly reads a kind of HTML.
        shown.append(html.escape(name, quote=False) if fits else "")
        end = place + half if fits else end
    figure.update_xaxes(tickvals=values, ticktext=shown, tickangle=0)
    return figure


# ---- Tables: every trial, every query


def _single_conditions(result: StudyResult) -> Sections:
    study = result.plan.study
    if _along(result) or study.measures_only:
        return
    for condition in study.condition_names:
        first = study.metrics_under(condition)[0]
        yield from _trials(result, condition, first)
        found = query_gains(result, condition, first)
        if found is not None and np.count_nonzero(~np.isnan(found.baseline)) >= FEWEST_QUERIES:
            yield _query_gains(result, found, condition, first)
            yield _difficulty(result, found, condition, first)


def _trials(result: StudyResult, condition: str, first: str) -> Sections:
    cells = [result.cell(condition, system, first) for system in result.plan.study.system_names]
    curves = [Curve(c.system, [number + 1 for number in c.numbers], c.means) for c in cells if c.means.size]
    if max((curve.x.size for curve in curves), default=0) < 2:
        return
    figure = curve_figure(curves, x_title="trial", y_title=first, styles=_styles(result))
    if result.plan.budget.trials is not None and result.plan.budget.trials <= 12:
        figure.update_xaxes(dtick=1)
    caption = f"{first} of the test queries in every trial. All systems of a trial see the same queries."
    told = "; ".join(f"{c.name} from {c.mean.min():.4f} to {c.mean.max():.4f}" for c in curves)
    yield FigureSection(f"Every trial{_under(condition)}", figure, caption, f"Lines: {told}.")


def _query_gains(result: StudyResult, found: QueryGains, condition: str, first: str) -> FigureSection:
    baseline = result.plan.study.baseline
    whose = "each test query, mean over trials," if found.trial_of is None else "each test query of each trial"
    shares = {name: gains[~np.isnan(gains)] for name, gains in found.gains.items()}
    told = "; ".join(
        f"{name} gains on {np.mean(gains > 0):.0%} and loses on {np.mean(gains < 0):.0%} of the queries"
        for name, gains in shares.items()
    )
    return query_gain_section(
        found.gains,
        f"What {whose} gains or loses against {baseline} in {first}, sorted in each panel.",
        f"Bars: {told}.",
        unit=first,
        baseline=baseline,
        styles=_styles(result),
        under=_under(condition),
    )


def _difficulty(result: StudyResult, found: QueryGains, condition: str, first: str) -> FigureSection:
    groups = difficulty_groups(found.baseline, higher_is_better=found.higher_is_better)
    over_trials: dict[str, Any] = {}
    if found.trial_of is not None:
        # A query may come up in several trials: drawing from all of them again would make too much of it.
        how = "confidence intervals over trials"
        how += ", widened for the training queries that trials share (Nadeau and Bengio)" if result.overlap else ""
        intervals = {
            name: group_intervals(gains, groups, found.trial_of, result.overlap) for name, gains in found.gains.items()
        }
        over_trials = {"how": how, "intervals": intervals}
    return difficulty_section(
        found.gains,
        groups,
        unit=first,
        baseline=result.plan.study.baseline,
        styles=_styles(result),
        under=_under(condition),
        **over_trials,
    )


# ---- Measurements


def _of_kind(result: StudyResult, kind: str) -> list[str]:
    systems = result.plan.study.systems
    return [str(system) for system in systems if isinstance(system, Measurement) and system.kind == kind]


def _clouds(result: StudyResult) -> Sections:
    """Figure 1 of the XE-NDCG paper."""
    systems = _of_kind(result, "jensen-clouds")
    for system, condition in itertools.product(systems, result.plan.study.condition_names):
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
        yield FigureSection(f"The gap of many gammas{_under(condition)}", figure, caption, told)


def _bounds(result: StudyResult) -> Sections:
    """He and Liu's Theorem 2: how far SoftNDCG is from NDCG, and the bounds on it."""
    along = _along(result)
    for system in _of_kind(result, "softrank-distance"):
        known = [(along[c], result.points[c, system]) for c in along if (c, system) in result.points]
        if not known:
            continue
        curves = []
        for field, name in _BOUNDS.items():
            values = [or_nan(points.get(field)) for _, points in known]
            if not np.isnan(values).all():
                curves.append(Curve(name, [value for value, _ in known], values))
        figure = _condition_figure(result, curves, "distance from NDCG", type="log", exponentformat="power", dtick=2)
        figure.update_traces(hovertemplate="%{y:.3g} at %{x}")
        caption = (
            "How far SoftNDCG is from NDCG, mean over the lists of the first trial, and the bounds on it. A bound "
            "that is missing says nothing there. Above 1 a bound says nothing either: no two NDCGs are further apart."
        )
        told = "; ".join(f"{c.name} from {c.mean[-1]:.3g} to {c.mean[0]:.3g}" for c in curves)
        told = f"Lines, from the largest to the smallest {_axis(result)}: {told}."
        yield FigureSection("Distance from NDCG and its bounds", figure, caption, told)


def _guarantees(result: StudyResult) -> Sections:
    """He and Liu's Theorem 1: the most that choosing by a loss can cost, and what it does cost, loss by loss."""
    names = _of_kind(result, "directness")
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
        yield FigureSection(title, figure, caption, f"Points: {told}.")
