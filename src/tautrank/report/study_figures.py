"""Figures of a study's page: curves by trees and over conditions, gains of queries, and what was
measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tautrank.experiments.plan import PLAIN, Measurement
from tautrank.experiments.result import CellResult, Comparison
from tautrank.json_values import or_nan
from tautrank.papers.catalogue.declarations import MEASURED_FIGURES, MeasuredFigure
from tautrank.papers.study import Study
from tautrank.report import figures
from tautrank.report.figures import Curve, curve_figure, interval_over_trials, same_queries
from tautrank.report.page import FigureSection, Styles, system_styles
from tautrank.report.plotly_script import require_plotly
from tautrank.report.tables import own_metrics

Sections: TypeAlias = Iterator[FigureSection]
_Point: TypeAlias = tuple[str, float, float, float]  # condition, mean, and the ends of its interval

_LOG_FROM = 10.0  # the axis is logarithmic if the largest value of a condition is this many times the smallest
_LEAST_HEIGHT, _ROW = 260, 44  # pixels of a figure with one row per system
_FEW_TRIALS = 12  # up to here every trial has its tick


def study_figures(result: Comparison) -> list[FigureSection]:
    """Return the figures that fit a study.

    They are the figures its measurements name; curves by trees if they were recorded; curves over
    conditions if those are numbers; and if not, every trial, the gain of each query and gains by
    difficulty.

    Args:
        result: the result of a comparison or a study.
    """
    kinds = (_measured, _by_trees, _over_conditions, _single_conditions)
    return [section for kind in kinds for section in kind(result)]


def difference_sections(result: Comparison) -> Sections:
    """Draw every system minus the baseline with its confidence interval, on all metrics: what the
    result is about.

    Conditions that are numbers are drawn as curves instead, see `study_figures`.

    Args:
        result: the result of a comparison or a study.
    """
    study = result.plan.study
    for condition in () if _along(result) or study.measures_only else study.condition_names:
        names = study.metrics_under(condition)
        tested = {
            name: [cell for cell in result.across(condition, name) if cell.tested] for name in names
        }
        every = list(itertools.chain(*tested.values()))
        systems = list(dict.fromkeys(cell.system for cell in every))
        if not systems:
            continue
        figure, styles = require_plotly().Figure(), system_styles(names)
        for i, (name, found) in enumerate(tested.items()):
            ends = [
                np.array([getattr(c.tested, at) for c in found])
                for at in ("low", "difference", "high")
            ]
            # Metrics one below the other within the middle half of a system's row.
            places = np.array([systems.index(cell.system) for cell in found]) + 0.5 * (
                (i + 0.5) / len(names) - 0.5
            )
            figure.add_scatter(
                **figures.interval_points(name, styles[name], places, ends, "x", 10, thickness=2)
            )
        x_axis = {"zeroline": True, "tickformat": "+~g"}
        figures.with_axes(figure, f"difference from {study.baseline}", "", x_axis, showgrid=False)
        height = 90 + (_ROW + 8 * len(names)) * len(systems)
        _in_rows(figure, [figures.shortened(name) for name in systems], height)
        lower = [name for name, found in tested.items() if found and not found[0].higher_is_better]
        caption = f"Each system minus {study.baseline}, with its {100 * (1 - result.alpha):g} % confidence interval: "
        caption += "an interval that leaves out 0 is a difference that this comparison alone would call real; the "
        caption += "p-values of the table are also corrected for the number of comparisons."
        caption += f" Lower is better: {', '.join(lower)}." if lower else ""
        pairs = [(cell, cell.tested) for cell in every if cell.tested]
        intervals = [
            f"{c.system} {t.difference:+.4f} ({t.low:+.4f} to {t.high:+.4f}) on {c.metric}"
            for c, t in pairs
        ]
        title = f"Differences from {study.baseline}{_under(condition)}"
        yield FigureSection(title, figure, caption, f"{'; '.join(intervals)}.")


def _in_rows(figure: Any, names: Sequence[str], height: int) -> Any:
    """Give a figure one row for each name, from the top."""
    labels = {
        "tickvals": list(range(len(names))),
        "ticktext": [figures.escaped(name) for name in names],
    }
    figure.update_yaxes(**labels, range=[len(names) - 0.5, -0.5], zeroline=False)
    return figure.update_layout(height=max(_LEAST_HEIGHT, height))


def _styles(result: Comparison) -> Styles:
    return system_styles(result.plan.study.system_names)


def _under(condition: str) -> str:
    return "" if condition == PLAIN else f" ({condition})"


def _by_trees(result: Comparison) -> Sections:
    """A metric after each tree; nothing where no history was kept."""
    study = result.plan.study
    claimed = isinstance(study, Study) and any(claim.of_curves for claim in study.claims)
    remark = (
        " The claims look at the best value so far, as early stopping keeps it." if claimed else ""
    )
    parts = dict.fromkeys(part for _, _, part in result.curves)
    for condition, part in itertools.product(study.condition_names, parts):
        histories = {s: result.curves.get((condition, s, part), []) for s in study.system_names}
        curves, most = figures.validation_curves(histories), max(map(len, histories.values()))
        if not curves:
            continue
        first, whose = (
            study.metrics_under(condition)[0],
            {"valid": "validation", "train": "training"}[part],
        )
        caption = f"{first} on the {whose} queries after each tree."
        if most > 1:
            caption += f" Lines are means and bands standard deviations over {most} trainings; a line ends where the "
            caption += "first of its trainings stopped."
        ends = []
        for name, mean in ((curve.name, curve.mean) for curve in curves):
            tenth = f"{mean[math.ceil(mean.size / 10) - 1]:.4f} after a tenth"
            ends.append(f"{name} has {tenth} and {mean[-1]:.4f} at the end of {mean.size} trees")
        figure = curve_figure(
            curves,
            x_title="trees",
            y_title=f"{whose} {first}",
            styles=_styles(result),
            mode="lines",
        )
        title = f"{whose.capitalize()} by number of trees{_under(condition)}"
        yield FigureSection(title, figure, caption + remark, f"Lines: {'; '.join(ends)}.")


# ---- Curves over conditions


def _along(result: Comparison) -> dict[str, float]:
    """The conditions' places on an axis, from the smallest; none where they are not all numbers."""
    conditions = result.plan.study.conditions
    values = {
        condition.name: condition.value for condition in conditions if condition.value is not None
    }
    several = len(values) >= max(len(conditions), 2)
    return dict(sorted(values.items(), key=lambda item: item[1])) if several else {}


def _over_conditions(result: Comparison) -> Sections:
    study = result.plan.study
    if not _along(result):
        return
    if len(study.systems) == 1 and len(study.metrics) > 1 and not own_metrics(result):
        # Several quantities of one system share an axis.
        system = study.system_names[0]
        cells = {name: _cells(result, system, [name], "test") for name in study.metrics}
        yield from _mean_curves(result, f"What {system} gives", "mean", cells)
        return
    for metrics in [study.metrics] if own_metrics(result) else [(name,) for name in study.metrics]:
        named = ", ".join(metrics)
        for part in study.judged:
            measured = named if part == "test" else f"{named} of the {part} queries"
            cells = {system: _cells(result, system, metrics, part) for system in study.system_names}
            yield from _mean_curves(result, measured, measured, cells)
        yield from _lead_curves(result, metrics)


def _mean_curves(
    result: Comparison, title: str, y_title: str, cells: Mapping[str, Sequence[CellResult]]
) -> Sections:
    caption = f"{title} by {_axis(result)}: means over trials."
    if result.plan.budget.trials != 1:
        caption += " Bands are 95 % confidence intervals as papers give them: as if trials were independent."
    points = {
        name: [(cell.condition, cell.mean, *cell.interval) for cell in found]
        for name, found in cells.items()
    }
    yield from _condition_section(result, f"{title} by condition", y_title, caption, points)


def _lead_curves(result: Comparison, metrics: Sequence[str]) -> Sections:
    """How far each system is ahead of the baseline: the third line of XE-NDCG's Figures 3 and 4."""
    study, overlap = result.plan.study, result.overlap
    points: dict[str, list[_Point]] = {}
    for system in (s for s in study.system_names if s != study.baseline):
        pairs = [
            (cell, _trial_gains(result, cell)) for cell in _cells(result, system, metrics, "test")
        ]
        points[system] = [
            (c.condition, float(g.mean()), *interval_over_trials(g, overlap))
            for c, g in pairs
            if g.size
        ]
    named = f"over {study.baseline} in {', '.join(metrics)}"
    caption = f"How far each system is ahead of {named.removeprefix('over ')}, in the trials both have finished."
    if result.plan.budget.trials != 1:
        caption += f" Bands are 95 % confidence intervals over trials{figures.widened(overlap)}"
        caption += (
            "; they say nothing about other test queries." if same_queries(study.protocol) else "."
        )
    yield from _condition_section(result, f"Lead {named}", f"gain {named}", caption, points, "+")


def _condition_section(
    result: Comparison,
    title: str,
    y_title: str,
    caption: str,
    points: Mapping[str, Sequence[_Point]],
    sign: str = "",
) -> Sections:
    """Curves over the conditions; with a sign of numbers, 0 is a line of the figure."""
    curves, ends, along = [], [], _along(result)
    for name, found in points.items():
        if found:
            at, mean, low, high = zip(*found, strict=True)
            band = () if np.isnan(low).all() else (low, high)
            curves.append(Curve(name, [along[condition] for condition in at], mean, *band))
            ends.append(
                f"{name} from {mean[0]:{sign}.4f} at {at[0]} to {mean[-1]:{sign}.4f} at {at[-1]}"
            )
    if curves:
        figure = _condition_figure(result, curves, y_title, **({"zeroline": True} if sign else {}))
        yield FigureSection(title, figure, caption, f"Lines: {'; '.join(ends)}.")


def _trial_gains(result: Comparison, cell: CellResult) -> np.ndarray[Any, np.dtype[np.float64]]:
    reference = result.cell(cell.condition, result.plan.study.baseline, cell.metric, cell.part)
    ours, theirs = (dict(zip(c.numbers, c.means.tolist(), strict=True)) for c in (cell, reference))
    sign = 1 if cell.higher_is_better else -1
    return np.array(
        [sign * (ours[t] - theirs[t]) for t in sorted(ours.keys() & theirs.keys())], np.float64
    )


def _cells(result: Comparison, system: str, metrics: Sequence[str], part: str) -> list[CellResult]:
    """The cells of a curve that have values, by increasing value of their condition."""
    places = itertools.product(_along(result), [system], metrics, [part])
    found = (result.by_place.get(place) for place in places)
    return [cell for cell in found if cell is not None and cell.means.size]


def _axis(result: Comparison) -> str:
    return getattr(result.plan.study, "axis", "") or "condition"


def _condition_figure(
    result: Comparison, curves: Sequence[Curve], y_title: str, **y_axis: Any
) -> Any:
    """Curves over the conditions, named below the axis."""
    names, values = list(_along(result)), list(_along(result).values())
    by_factors = values[0] > 0 and values[-1] >= _LOG_FROM * values[0]
    # Curves of other things than systems have styles of their own.
    styles = (
        _styles(result)
        if {curve.name for curve in curves} <= set(result.plan.study.system_names)
        else None
    )
    figure = curve_figure(
        curves, x_title=_axis(result), y_title=y_title, styles=styles
    ).update_yaxes(**y_axis)
    kind, shown = "log" if by_factors else "linear", [figures.escaped(name) for name in names]
    return figure.update_xaxes(type=kind, tickvals=values, ticktext=shown)


# ---- Studies that are tables: every trial, every query


def _single_conditions(result: Comparison) -> Sections:
    study = result.plan.study
    if _along(result) or study.measures_only:
        return
    for condition in study.condition_names:
        first, under = study.metrics_under(condition)[0], _under(condition)
        cells = [cell for cell in result.across(condition, first) if cell.means.size]
        curves = [
            Curve(cell.system, [number + 1 for number in cell.numbers], cell.means)
            for cell in cells
        ]
        if any(curve.x.size > 1 for curve in curves):
            figure = curve_figure(
                curves, x_title="trial", y_title=first, styles=_styles(result), mode="markers"
            )
            figure.update_xaxes(
                dtick=1 if max(curve.x.size for curve in curves) <= _FEW_TRIALS else None
            )
            caption = f"{first} of the test queries in every trial. All systems of a trial see the same queries."
            summary = "; ".join(
                f"{c.name} from {c.mean.min():.4f} to {c.mean.max():.4f}" for c in curves
            )
            yield FigureSection(f"Every trial{under}", figure, caption, f"Points: {summary}.")
        found = figures.query_gains(result, condition, first)
        if found is not None:
            yield from figures.gain_sections(found, _styles(result), under)


# ---- Measurements


def _measured(result: Comparison) -> Sections:
    """The figure that each kind of measurement names."""
    draw = {"clouds": _clouds, "curves": _point_curves, "rows": _rows}
    for kind, measured in MEASURED_FIGURES.items():
        systems = [
            str(s)
            for s in result.plan.study.systems
            if isinstance(s, Measurement) and s.kind == kind
        ]
        if systems:
            yield from draw[measured.form](result, measured, systems)


def _clouds(result: Comparison, measured: MeasuredFigure, systems: Sequence[str]) -> Sections:
    (x, x_title), (y, y_title) = measured.series.items()
    for system, condition in itertools.product(systems, result.plan.study.condition_names):
        points = result.points.get((condition, system))
        if points is None:
            continue
        # As many points of each list as can be drawn.
        most = max(figures.MOST_POINTS // max(len(points[y]), 1), 1)
        lists = enumerate(zip(points[x], points[y], strict=True), 1)
        clouds = [Curve(f"list {i}", across[:most], up[:most]) for i, (across, up) in lists]
        figure = curve_figure(clouds, x_title=x_title, y_title=y_title, mode="markers")
        heights = [np.ptp(cloud.mean) for cloud in clouds]
        summary = f"{len(clouds)} clouds, from {min(heights):.3g} to {max(heights):.3g} tall."
        yield FigureSection(measured.title + _under(condition), figure, measured.caption, summary)


def _point_curves(result: Comparison, measured: MeasuredFigure, systems: Sequence[str]) -> Sections:
    along = _along(result)
    for system in systems:
        known = [
            (along[c], result.points[c, system]) for c in along if (c, system) in result.points
        ]
        if not known:
            continue
        x = [value for value, _ in known]
        values = {
            name: [or_nan(points.get(field)) for _, points in known]
            for field, name in measured.series.items()
        }
        curves = [
            Curve(name, x, found) for name, found in values.items() if not np.isnan(found).all()
        ]
        figure = _condition_figure(
            result, curves, measured.axis, type="log", exponentformat="power", dtick=2
        )
        figure.update_traces(hovertemplate="%{y:.3g} at %{x}")
        summary = "; ".join(f"{c.name} from {c.mean[-1]:.3g} to {c.mean[0]:.3g}" for c in curves)
        summary = f"Lines, from the largest to the smallest {_axis(result)}: {summary}."
        yield FigureSection(measured.title, figure, measured.caption, summary)


def _rows(result: Comparison, measured: MeasuredFigure, systems: Sequence[str]) -> Sections:
    study = result.plan.study
    first, first_title = next(iter(measured.series.items()))
    for condition in study.condition_names:
        clouds = []
        for quantity in (
            name for name in measured.series if name in study.metrics_under(condition)
        ):
            cells = [result.cell(condition, name, quantity) for name in systems]
            places = np.concatenate(
                [np.full(cell.means.size, place) for place, cell in enumerate(cells)]
            )
            # Quantities count costs as negative numbers; a logarithmic axis has no place for 0.
            values = np.abs(np.concatenate([cell.means for cell in cells]))
            clouds.append(
                Curve(measured.series[quantity], np.where(values > 0, values, np.nan), places)
            )
        if first not in study.metrics_under(condition) or not any(cloud.x.size for cloud in clouds):
            continue
        figure = curve_figure(clouds, x_title=measured.axis, y_title="", mode="markers")
        figure.update_xaxes(type="log", dtick=1, tickformat="~g", tickangle=0)
        _in_rows(figure, systems, _ROW * len(systems)).update_traces(hovertemplate="%{x:.4g}")
        zeros = {cloud.name: int(np.isnan(cloud.x).sum()) for cloud in clouds}
        hidden = "".join(f" Not shown: {n} values of 0 ({name})." for name, n in zeros.items() if n)
        means = {name: abs(result.cell(condition, name, first).mean) for name in systems}
        summary = "; ".join(f"{name} {mean:.3g}" for name, mean in means.items())
        title = measured.title + _under(condition)
        yield FigureSection(
            title, figure, measured.caption + hidden, f"Points; {first_title}, mean: {summary}."
        )
