"""The page of a comparison: the answer, the table, figures, settings, and what reproduces it."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np

import tautrank
from tautrank.metrics import Metric
from tautrank.report.figures import (
    MOST_BARS,
    curve_figure,
    difficulty_figure,
    difficulty_groups,
    query_gain_figure,
    require_plotly,
    validation_curves,
)
from tautrank.report.page import Code, Facts, FigureSection, Group, Page, Section, TableSection, Text
from tautrank.report.palette import SystemStyle, system_styles
from tautrank.report_table import ReportTable, Value
from tautrank.studies.comparison import System, Unit, random_state_of

if TYPE_CHECKING:
    from tautrank.report.comparison import Comparison

_FEWEST_QUERIES = 10  # for groups by difficulty: fewer say nothing


def comparison_page(result: Comparison, *, figures: bool = True, command: str | None = None) -> Page:
    """Build the page of a comparison.

    Args:
        result: what `tautrank.compare` returns.
        figures: whether to draw figures; without them the page has no script, and Plotly is not needed.
        command: what reproduces the comparison in a terminal; by default the page shows the call in Python.

    >>> from tautrank.comparing import compare
    >>> from tautrank.simulate import simulate_web_search
    >>> parts = simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> [section.title for section in comparison_page(result, figures=False).sections]
    ['Answer', 'Results', 'Every pair', 'Settings', 'Run it again']
    """
    pairs = result.pair_table()
    sections: list[Section] = [Text("Answer", result.findings()), TableSection("Results", result.report_table())]
    if pairs.rows:
        sections.append(TableSection("Every pair", pairs, folded=True))
    if figures:
        sections += _figures(result)
    settings: list[Section] = [Facts("What was run", _settings(result))]
    if result.data:
        titles = ["split", "part", "queries", "documents", "features"]
        rows: list[tuple[Value, ...]] = [
            (part.split, part.part, part.queries, part.documents, part.features) for part in result.data
        ]
        settings.append(TableSection("Data", ReportTable.of(titles, rows)))
    sections.append(Group("Settings", settings))
    sections.append(_reproduction(result, command))
    return Page("Comparison of losses", sections, lead=_question(result), interactive=figures)


def _question(result: Comparison) -> str:
    queries = next(iter(result.systems[0].values.values())).shape[1]
    if len(result.systems) == 1:
        return f"How well does {result.systems[0].name} rank {queries:,} test queries?"
    return f"Which of {len(result.systems)} losses wins on {queries:,} test queries, and is the win real?"


def _figures(result: Comparison) -> list[Section]:
    require_plotly()
    styles = system_styles([system.name for system in result.systems])
    first = result.plan.metrics[0]
    made = [_validation(result, first, styles)]
    known = ~np.isnan(result.systems[0].values[str(first)]).any(axis=0)
    if len(result.systems) > 1 and known.any():
        made.append(_query_gains(result, first, styles))
        if known.sum() >= _FEWEST_QUERIES:
            made.append(_difficulty(result, first, styles))
    return [figure for figure in made if figure is not None]


def _validation(result: Comparison, first: Metric, styles: dict[str, SystemStyle]) -> FigureSection | None:
    histories = {system.name: system.histories for system in result.systems if system.histories is not None}
    curves = validation_curves(histories)
    if not curves:
        return None
    ends = {curve.name: float(curve.mean[-1]) for curve in curves}
    trainings = max(len(history) for history in histories.values())
    caption = f"{first} on the validation queries after each tree."
    if trainings > 1:
        caption += (
            f" Lines are means and bands standard deviations over {trainings} trainings; a line ends where the first "
            "of its trainings stopped."
        )
    without = [system.name for system in result.systems if system.name not in ends]
    if without:
        caption += f" Trainings of {', '.join(without)} were stored without their course."
    told = "; ".join(f"{name} ends at {value:.4f}" for name, value in ends.items())
    figure = curve_figure(curves, x_title="trees", y_title=f"validation {first}", styles=styles, points=False)
    return FigureSection("Validation by number of trees", figure, caption, f"Lines: {told}.")


def _query_gains(result: Comparison, first: Metric, styles: dict[str, SystemStyle]) -> FigureSection:
    baseline = result.systems[0].name
    gains = {system.name: result.query_gains(first, i) for i, system in enumerate(result.systems) if i}
    figure = query_gain_figure(gains, unit=str(first), styles=styles)
    counted = max(int((~np.isnan(values)).sum()) for values in gains.values())
    caption = (
        f"What each test query gains or loses against {baseline} in {first}, mean over repeats, sorted in each panel."
    )
    if counted > MOST_BARS:
        caption += f" A bar is the mean of about {counted / MOST_BARS:.0f} neighbours in that order."
    told = []
    for i, system in enumerate(result.systems):
        if i:
            won, tied, lost = result.win_tie_loss(first, i)
            told.append(f"{system.name} wins {won}, ties {tied} and loses {lost} queries")
    return FigureSection(f"Gain of each query over {baseline}", figure, caption, f"Sorted bars: {'; '.join(told)}.")


def _difficulty(result: Comparison, first: Metric, styles: dict[str, SystemStyle]) -> FigureSection:
    baseline = result.systems[0].name
    gains = {system.name: result.query_gains(first, i) for i, system in enumerate(result.systems) if i}
    values = result.systems[0].values[str(first)].mean(axis=0)
    groups = difficulty_groups(values, higher_is_better=first.higher_is_better)
    figure = difficulty_figure(gains, groups, unit=str(first), baseline=baseline, styles=styles)
    caption = (
        f"Mean gain over {baseline} in {first} by how hard a query is for {baseline}, with 95% bootstrap intervals "
        f"over queries. The groups are made of {baseline}'s own values, so part of a gain on the hardest and of a loss "
        "on the easiest queries is its own chance evening out."
    )
    told = "; ".join(
        f"{name} gains {values[groups[0].queries].mean():+.4f} on the hardest and "
        f"{values[groups[-1].queries].mean():+.4f} on the easiest"
        for name, values in gains.items()
    )
    return FigureSection("Gain by difficulty of the query", figure, caption, f"Points with intervals: {told}.")


def _settings(result: Comparison) -> dict[str, str]:
    plan = result.plan
    states = sorted(
        {
            random_state_of(plan, Unit(0, repeat, system))
            for repeat in range(plan.repeats)
            for system in range(len(plan.losses))
        }
    )
    facts = {
        "metrics": ", ".join(map(str, plan.metrics)),
        "repeats": f"{plan.repeats}, other {plan.vary} in each" if plan.repeats > 1 else "1",
        "seed": str(plan.seed),
        "random states of the trainings": ", ".join(map(str, states)),
        "level of significance": f"{result.alpha:g}",
        "overlap of repeats": f"{result.overlap:.4g}",
        "configurations tried": str(plan.tune) if plan.tune else "none: parameters as given",
        "parameters of all": _parameters(plan.parameters) or "the defaults",
    }
    for i, name in enumerate(plan.names()):
        own = plan.system(i).parameters
        if own:
            facts[f"parameters of {name}"] = _parameters(own)
    versions = sorted({version for system in result.systems for version in system.versions})
    facts["trained with"] = ", ".join(versions) or "versions that the stored trainings do not say"
    here = f"tautrank {tautrank.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"
    facts["page written with"] = here
    return facts


def _parameters(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def _reproduction(result: Comparison, command: str | None) -> Code:
    if command is not None:
        return Code("Run it again", command, ["The same command on the same files gives the same numbers."])
    return Code("Run it again", python_call(result), ["The same call on the same data gives the same numbers."])


def python_call(result: Comparison) -> str:
    """The call of `tautrank.compare` that a comparison came from.

    Args:
        result: what `tautrank.compare` returned.
    """
    plan = result.plan
    losses = ", ".join(repr(loss) if isinstance(loss, System) else repr(str(loss)) for loss in plan.losses)
    given = {
        "losses": f"[{losses}]",
        "metrics": repr([str(m) for m in plan.metrics]),
        "repeats": repr(plan.repeats),
        "vary": repr(plan.vary),
        "seed": repr(plan.seed),
        "tune": repr(plan.tune),
        "alpha": repr(result.alpha),
        **{name: repr(value) for name, value in plan.parameters.items()},
    }
    lines = "".join(f"    {name}={value},\n" for name, value in given.items())
    return f"tr.compare(\n    train, valid, test,\n{lines})"
