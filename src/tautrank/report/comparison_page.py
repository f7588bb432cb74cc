"""The page of a comparison: the answer, the table, figures, settings, and what reproduces it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import astuple

import numpy as np

from tautrank.experiments.comparison import Unit, random_state_of
from tautrank.experiments.system import System
from tautrank.metrics import Metric
from tautrank.report.comparison import Comparison
from tautrank.report.figures import curve_figure, over_trainings, require_plotly, validation_curves
from tautrank.report.gains import QueryGains, gain_sections
from tautrank.report.page import Code, Facts, FigureSection, Group, Page, Section, TableSection, Text
from tautrank.report.palette import SystemStyle, system_styles
from tautrank.report.reproduction import call_text, parameters_text, written_with
from tautrank.report.table import ReportTable


def comparison_page(result: Comparison, *, figures: bool = True, command: str | None = None) -> Page:
    """Build the page of a comparison.

    Args:
        result: what `tautrank.compare` returns.
        figures: whether to draw figures; without them the page has no script, and Plotly is not needed.
        command: what reproduces the comparison in a terminal; by default the page shows the call in Python.

    >>> from tautrank.experiments.compare import compare
    >>> from tautrank.simulate import simulate_web_search
    >>> parts = simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> [section.title for section in comparison_page(result, figures=False).sections]
    ['Answer', 'Results', 'Every pair', 'Settings', 'Run it again']
    """
    pairs = result.pair_table()
    sections: list[Section] = [Text("Answer", result.findings()), TableSection("Results", result.table())]
    if pairs.rows:
        sections.append(TableSection("Every pair", pairs, folded=True))
    if figures:
        sections += _figures(result)
    settings: list[Section] = [Facts("What was run", _settings(result))]
    if result.data:
        titles = ["split", "part", "queries", "documents", "features"]
        settings.append(TableSection("Data", ReportTable.of(titles, [astuple(part) for part in result.data])))
    sections.append(Group("Settings", settings))
    how = "call on the same data" if command is None else "command on the same files"
    again = python_call(result) if command is None else command
    sections.append(Code("Run it again", again, [f"The same {how} gives the same numbers."]))
    return Page("Comparison of losses", sections, lead=_question(result), interactive=figures)


def _question(result: Comparison) -> str:
    queries = next(iter(result.systems[0].values.values())).shape[1]
    if len(result.systems) == 1:
        return f"How well does {result.systems[0].name} rank {queries:,} test queries?"
    return f"Which of {len(result.systems)} losses wins on {queries:,} test queries, and is the win real?"


def _figures(result: Comparison) -> Iterator[FigureSection]:
    require_plotly()
    styles = system_styles([system.name for system in result.systems])
    first = result.plan.metrics[0]
    yield from _validation(result, first, styles)
    if len(result.systems) > 1:
        yield from _gains(result, first, styles)


def _validation(result: Comparison, first: Metric, styles: dict[str, SystemStyle]) -> Iterator[FigureSection]:
    histories = {system.name: system.histories for system in result.systems if system.histories is not None}
    curves = validation_curves(histories)
    if not curves:
        return
    ends = {curve.name: float(curve.mean[-1]) for curve in curves}
    caption = f"{first} on the validation queries after each tree." + over_trainings(max(map(len, histories.values())))
    without = [system.name for system in result.systems if system.name not in ends]
    if without:
        caption += f" Trainings of {', '.join(without)} were stored without their course."
    told = "; ".join(f"{name} ends at {value:.4f}" for name, value in ends.items())
    figure = curve_figure(curves, x_title="trees", y_title=f"validation {first}", styles=styles, points=False)
    yield FigureSection("Validation by number of trees", figure, caption, f"Lines: {told}.")


def _gains(result: Comparison, first: Metric, styles: dict[str, SystemStyle]) -> Iterator[FigureSection]:
    reference, *others = result.systems
    baseline, unit = reference.name, str(first)
    values = np.asarray(reference.values[unit].mean(axis=0))
    gains = {system.name: result.query_gains(first, i) for i, system in enumerate(others, 1)}
    caption = (
        f"What each test query gains or loses against {baseline} in {unit}, mean over repeats, sorted in each panel."
    )
    yield from gain_sections(QueryGains(unit, baseline, values, gains, first.higher_is_better), caption, styles)


def _settings(result: Comparison) -> dict[str, str]:
    plan = result.plan
    units = itertools.product([0], range(plan.repeats), range(len(plan.losses)))
    states = sorted({random_state_of(plan, Unit(*unit)) for unit in units})
    facts = {
        "metrics": ", ".join(map(str, plan.metrics)),
        "repeats": f"{plan.repeats}, other {plan.vary} in each" if plan.repeats > 1 else "1",
        "seed": str(plan.seed),
        "random states of the trainings": ", ".join(map(str, states)),
        "level of significance": f"{result.alpha:g}",
        "overlap of repeats": f"{result.overlap:.4g}",
        "configurations tried": str(plan.tune) if plan.tune else "none: parameters as given",
        "parameters of all": parameters_text(plan.parameters) or "the defaults",
    }
    for i, name in enumerate(plan.names()):
        own = plan.system(i).parameters
        if own:
            facts[f"parameters of {name}"] = parameters_text(own)
    versions = sorted({version for system in result.systems for version in system.versions})
    facts["trained with"] = ", ".join(versions) or "versions that the stored trainings do not say"
    return {**facts, "page written with": written_with()}


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
    return call_text("tr.compare", "train, valid, test", given)
