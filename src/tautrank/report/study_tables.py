"""Tables of a study's page: results with significance, the paper's numbers, what was trained, and what failed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tautrank.experiments.perturb import Change
from tautrank.experiments.plain_values import from_plain
from tautrank.experiments.result_tables import against_baseline, mean_text, note, printed_text, signed_text
from tautrank.experiments.results import CellResult, StudyResult
from tautrank.papers.claims import PLAIN
from tautrank.papers.judging import UNDECIDED
from tautrank.report.comparison import win_tie_loss
from tautrank.report.reproduction import parameters_text
from tautrank.report.study_gains import pair_gains, same_queries
from tautrank.report.table import Cell, Column, ReportTable

OWN_MARK, CORRECTED_MARK = "†", "*"

_Titled: TypeAlias = tuple[Column, Cell]


def result_tables(result: StudyResult) -> dict[str, ReportTable]:
    """The means, a table a metric by its name; a single one where there is nothing to compare, or one metric each.

    Args:
        result: of a study.
    """
    metrics = list(dict.fromkeys(cell.metric for cell in result.cells))
    if len(result.plan.study.systems) == 1:
        return {"": _means_of_one(result, metrics)}
    if len(metrics) > 1 and own_metrics(result):
        return {"": _comparisons(result, metrics)}
    return {name: _comparisons(result, [name]) for name in metrics}


def own_metrics(result: StudyResult) -> bool:
    """Whether each condition is judged by a single metric, and not all by the same.

    Args:
        result: of a study.
    """
    study = result.plan.study
    under = [study.metrics_under(condition) for condition in study.condition_names]
    return all(len(metrics) == 1 for metrics in under) and len(set(under)) > 1


def reading(result: StudyResult) -> str:
    """How to read the tables of results.

    Args:
        result: of a study.
    """
    study = result.plan.study
    compared = len(study.systems) > 1
    said = note(result, tests=compared)
    if compared:
        said += (
            f" {OWN_MARK} marks a difference that is significant by the paper's test, {CORRECTED_MARK} one that is by "
            f"the corrected test, at level {study.test.level:g}; the sign says in which direction."
        )
    if compared and not study.measures_only:
        which = "by their means over trials" if same_queries(study.protocol) else "of all trials"
        said += f" w/t/l: test queries {which} won, tied and lost against {study.baseline}."
    return said


def _means_of_one(result: StudyResult, metrics: Sequence[str]) -> ReportTable:
    """One system: a row a condition, a column a metric."""
    study = result.plan.study
    system = study.system_names[0]
    rows = []
    for condition in study.condition_names:
        row = _condition_cells(result, condition) or [_words("system", system)]
        for name, part in itertools.product(metrics, study.judged):
            row += _mean_cells(result, name, part, name, result.by_place.get((condition, system, name, part)))
        rows.append(row)
    return ReportTable.of_rows(rows, reading(result))


def _comparisons(result: StudyResult, metrics: Sequence[str]) -> ReportTable:
    """Several systems: a row for each under each condition, with both tests against the baseline."""
    study = result.plan.study
    together = len(metrics) > 1
    rows = []
    for condition, name, system in itertools.product(study.condition_names, metrics, study.system_names):
        if name not in study.metrics_under(condition):
            continue
        row = [*_condition_cells(result, condition), _words("system", system)]
        row += [_words("metric", name)] if together else []
        for part in study.judged:
            cell = result.cell(condition, system, name, part)
            row += _mean_cells(result, metrics[0], part, "mean" if together else name, cell)
            if part == "test":
                row += against_baseline(cell, study.baseline, _marks(cell))
                row += [] if study.measures_only else [_won_cell(result, cell)]
        rows.append(row)
    whose = f"{' or '.join(metrics)} of {', '.join(study.judged)} queries. " if _by_part(result) else ""
    return ReportTable.of_rows(rows, whose + reading(result))


def _words(title: str, text: str) -> _Titled:
    return Column(title, words=True), Cell(text)


def _condition_cells(result: StudyResult, name: str) -> list[_Titled]:
    """The name, sorted by the value where all conditions have one."""
    study = result.plan.study
    if study.condition_names == (PLAIN,):
        return []
    if any(condition.value is None for condition in study.conditions):
        return [_words("condition", name)]
    return [(Column("condition", ("value", "condition"), words=True), Cell(name, (study.condition(name).value, name)))]


def _mean_cells(result: StudyResult, name: str, part: str, title: str, cell: CellResult | None) -> list[_Titled]:
    higher = next(cell.higher_is_better for cell in result.cells if cell.metric == name)
    field = title if part == "test" else f"{title} {part}"
    fields = (field, f"{field} deviation", f"{field} low", f"{field} high")
    # The names of metrics may be long; where each part has a column, the text below the table says whose it is.
    shown = part if _by_part(result) else title
    column = Column(shown if higher else f"{shown} (lower is better)", fields, high_first=higher)
    numbers = (math.nan,) * 4 if cell is None else (cell.mean, cell.deviation, *cell.interval)
    cells = [(column, Cell(mean_text(cell), numbers))]
    if any(other.printed for other in result.cells if (other.metric, other.part) == (name, part)):
        column = Column("in print", (f"{field} in print", f"{field} in print spread"), high_first=higher)
        cells.append((column, _printed_cell(cell)))
    return cells


def _by_part(result: StudyResult) -> bool:
    return len(result.plan.study.systems) > 1 and len(result.plan.study.judged) > 1


def _marks(cell: CellResult) -> str:
    """Which tests find a difference from the baseline."""
    tests = ((OWN_MARK, cell.own), (CORRECTED_MARK, cell.corrected))
    return "".join(mark for mark, judged in tests if judged is not None and judged.verdict != UNDECIDED)


def _won_cell(result: StudyResult, cell: CellResult) -> _Titled:
    column = Column("w/t/l", ("won", "tied", "lost"), high_first=True)
    gains = pair_gains(result, cell.condition, cell.system, cell.metric)
    if cell.system == result.plan.study.baseline or not gains.size:
        return column, Cell("", (None, None, None))
    counts = win_tie_loss(gains)
    return column, Cell("/".join(map(str, counts)), counts)


def _printed_cell(cell: CellResult | None) -> Cell:
    value, spread = (cell.printed.value, cell.printed.spread) if cell and cell.printed else (None, None)
    return Cell(printed_text(cell), (value, spread))


def printed_table(result: StudyResult) -> ReportTable | None:
    """The paper's numbers beside those found here, and how far each is ahead of the baseline; None if it has none.

    Args:
        result: of a study.
    """
    study, recipe = result.plan.study, result.plan.used_recipe
    shown = [cell for cell in result.cells if cell.printed]
    if not shown or recipe is None:
        return None
    several, parts = study.condition_names != (PLAIN,), len({cell.part for cell in shown}) > 1
    rows = []
    for cell in shown:
        assert cell.printed is not None
        row = [_words("condition", cell.condition)] if several else []
        row += [_words("system", cell.system), _words("metric", cell.metric)]
        row += [_words("queries", cell.part)] if parts else []
        here = Cell(mean_text(cell), (cell.mean, cell.deviation))
        row += [
            (Column("in print", ("in print", "in print spread"), high_first=True), _printed_cell(cell)),
            (Column("here", ("here", "here deviation"), high_first=True), here),
            _signed("here minus print", cell.mean - cell.printed.value),
        ]
        reference = result.cell(cell.condition, study.baseline, cell.metric, cell.part)
        if cell.system == study.baseline:
            row += [(Column(title, high_first=True), Cell("", (math.nan,))) for title in ("lead in print", "lead here")]
        else:
            in_print = cell.printed.value - reference.printed.value if reference.printed else math.nan
            lead = cell.difference if cell.part == "test" else cell.mean - reference.mean
            row += [_signed("lead in print", in_print), _signed("lead here", lead)]
        rows.append(row)
    data = ", ".join(result.plan.data.given)
    said = (
        f"In print is what the paper has for {recipe.title}; here the data is {data}. A lead is what a system has more "
        f"than {study.baseline}: on other data than the paper's, compare leads rather than how high systems stand."
    )
    return ReportTable.of_rows(rows, said)


def _signed(title: str, value: float) -> _Titled:
    return Column(title, high_first=True), Cell(signed_text(value), (value,))


def run_table(result: StudyResult) -> ReportTable:
    """What was trained (or measured) under each condition, with all parameters, trees and time.

    Args:
        result: of a study.
    """
    study = result.plan.study
    specs = [trial.spec for trial in result.plan.trials() if trial.spec["trial"] == 0]
    trained = not study.measures_only
    changing, searching = any(spec["changes"] for spec in specs), any(spec.get("search") for spec in specs)
    rows = []
    for spec in specs:
        place = (spec["condition"], spec["system"])
        row = [_words("condition", spec["condition"])] if study.condition_names != (PLAIN,) else []
        row.append(_words("system", spec["system"]))
        row.append(_words("loss" if trained else "measurement", spec.get("loss") or spec["measure"]))
        row += [(Column("trees"), _mean_of(result.trees.get(place, []), "{:.0f}"))] if trained else []
        row.append((Column("sec.", ("seconds",)), _mean_of(result.seconds.get(place, []), "{:.2f}")))
        row.append(_words("parameters", parameters_text(from_plain(spec["parameters"]))))
        if searching:
            chosen = (parameters_text(configuration) for configuration in result.chosen.get(place, []))
            row.append(_words("searched", parameters_text(from_plain(spec["search"]))))
            row.append(_words("chosen, trial by trial", "; ".join(chosen)))
        if changing:
            row.append(_words("change of the data", "; ".join(map(_change_text, from_plain(spec["changes"])))))
        rows.append(row)
    said = "Trees and seconds are means over trials." if trained else "Seconds are means over trials."
    return ReportTable.of_rows(rows, said)


def failure_table(result: StudyResult) -> ReportTable:
    """The trials that raised an error.

    Args:
        result: of a study.
    """
    return ReportTable.of(["trial", "error"], [[failure.title, failure.error] for failure in result.failures])


def _change_text(change: Change) -> str:
    return f"{change.kind}({parameters_text(change.parameters)}) of {', '.join(change.parts)}"


def _mean_of(numbers: Sequence[float], form: str) -> Cell:
    if not numbers:
        return Cell("-", (math.nan,))
    mean = float(np.mean(numbers))
    return Cell(form.format(mean), (mean,))
