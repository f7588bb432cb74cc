"""The page of a comparison: the answer, the table, figures, settings, and what reproduces it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

import tautrank
from tautrank.experiments.measurements import Measurement
from tautrank.experiments.result import Comparison
from tautrank.metrics import Metric
from tautrank.report.comparison import findings, tables, vary
from tautrank.report.figures import require_plotly, training_sections
from tautrank.report.gains import QueryGains, gain_sections
from tautrank.report.page import Code, Facts, FigureSection, Group, Page, Section, TableSection, Text
from tautrank.report.palette import SystemStyle, system_styles
from tautrank.report.reproduction import call_text, parameters_text, written_with
from tautrank.report.table import ReportTable


def comparison_page(result: Comparison, *, figures: bool = True, command: str | None = None) -> Page:
    """Build the page of a comparison.

    Args:
        result: the result of `tautrank.compare`.
        figures: whether to draw figures; without them the page has no script, and Plotly is not needed.
        command: the command that reproduces the comparison; by default the page shows the call in Python.

    >>> from tautrank.experiments.compare import compare
    >>> from tautrank.simulate import simulate_web_search
    >>> parts = simulate_web_search(60, n_features=16, mean_length=15).split([.5, .25, .25])
    >>> result = compare(*parts, losses=["mse", "listnet"], metrics=["ndcg@5"], repeats=2, n_estimators=5)
    >>> [section.title for section in comparison_page(result, figures=False).sections]
    ['Answer', 'Results', 'Every pair', 'Settings', 'Run it again']
    """
    sections: list[Section] = [Text("Answer", findings(result))]
    sections += [TableSection(title, table, folded=title != "Results") for title, table in tables(result).items()]
    if figures:
        sections += _figures(result)
    settings: list[Section] = [Facts("What was run", _settings(result))]
    if result.plan.data.held:
        settings.append(TableSection("Data", _data_table(result)))
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
    first = result.metrics[0]
    histories = {system.name: system.histories for system in result.systems if system.histories}
    yield from training_sections(histories, str(first), "validation", styles)
    if len(result.systems) > 1:
        yield from _gains(result, first, styles)


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
    plan, study = result.plan, result.plan.study
    repeats = plan.budget.trials or 1
    states = sorted({plan.seed_of(*place) for place in product(range(repeats), range(len(study.systems)))})
    facts = {
        "metrics": ", ".join(study.metrics),
        "repeats": f"{repeats}, other {vary(result)} in each" if repeats > 1 else "1",
        "seed": str(plan.seed),
        "random states of the trainings": ", ".join(map(str, states)),
        "level of significance": f"{result.alpha:g}",
        "overlap of repeats": f"{result.overlap:.4g}",
        "configurations tried": str(plan.budget.configurations or "none: parameters as given"),
        "parameters of all": parameters_text(study.parameters) or "the defaults",
    }
    for name, system in zip(study.system_names, study.systems, strict=True):
        if system.parameters:
            facts[f"parameters of {name}"] = parameters_text(system.parameters)
    facts["trained with"] = ", ".join([*result.trained_with, f"tautrank {tautrank.__version__}"])
    return {**facts, "page written with": written_with()}


def _data_table(result: Comparison) -> ReportTable:
    rows = [
        (number, name, part.n_queries, part.n_documents, part.n_features)
        for number, split in enumerate(result.plan.data.held, 1)
        for name, part in zip(split._fields, split, strict=True)
        if part is not None
    ]
    return ReportTable.of(["split", "part", "queries", "documents", "features"], rows)


def python_call(result: Comparison) -> str:
    """Return the call of `tautrank.compare` that gives a comparison again.

    Args:
        result: the result of `tautrank.compare`.
    """
    plan, study = result.plan, result.plan.study
    losses = [
        system if system.name or system.parameters or isinstance(system, Measurement) else system.loss
        for system in study.systems
    ]
    given = {
        "losses": repr(losses),
        "metrics": repr(list(study.metrics)),
        "repeats": repr(plan.budget.trials),
        "vary": repr(vary(result)),
        "seed": repr(plan.seed),
        "tune": repr(plan.budget.configurations),
        "alpha": repr(result.alpha),
        **{name: repr(value) for name, value in study.parameters.items()},
    }
    return call_text("tr.compare", "train, valid, test", given)
