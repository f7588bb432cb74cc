"""Tables of a study's page: claims and verdicts, results with significance, the paper's numbers, what was trained."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tautrank.report.comparison import win_tie_loss
from tautrank.report.reproduction import parameters_text
from tautrank.report.study_gains import pair_gains, same_queries
from tautrank.report_table import Cell, Column, ReportTable
from tautrank.studies.changes import Change
from tautrank.studies.claims import PLAIN
from tautrank.studies.judging import UNDECIDED, Judgement
from tautrank.studies.plain_values import from_plain
from tautrank.studies.result_tables import mean_text, note, p_text, printed_text, signed_text
from tautrank.studies.results import CellResult, StudyResult

OWN_MARK, CORRECTED_MARK = "†", "*"


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
    columns = _condition_columns(result) or [Column("system", words=True)]
    for name in metrics:
        for part in study.judged:
            columns += _mean_columns(result, name, part, name)
    rows = []
    for condition in study.condition_names:
        row = _condition_cells(result, condition) or [Cell(system)]
        for name in metrics:
            for part in study.judged:
                row += _mean_cells(result, name, part, result.by_place.get((condition, system, name, part)))
        rows.append(tuple(row))
    return ReportTable(tuple(columns), tuple(rows), reading(result))


def _comparisons(result: StudyResult, metrics: Sequence[str]) -> ReportTable:
    """Several systems: a row for each under each condition, with both tests against the baseline."""
    study = result.plan.study
    together = len(metrics) > 1
    trained = not study.measures_only
    columns = [*_condition_columns(result), Column("system", words=True)]
    columns += [Column("metric", words=True)] if together else []
    for part in study.judged:
        columns += _mean_columns(result, metrics[0], part, "mean" if together else metrics[0])
        if part == "test":
            columns += [Column(f"minus {study.baseline}", high_first=True), Column("p own"), Column("p corr.")]
            columns += [Column("w/t/l", ("won", "tied", "lost"), high_first=True)] if trained else []
    rows = []
    for condition in study.condition_names:
        for name in (name for name in metrics if name in study.metrics_under(condition)):
            for system in study.system_names:
                row = [*_condition_cells(result, condition), Cell(system), *([Cell(name)] if together else [])]
                for part in study.judged:
                    cell = result.cell(condition, system, name, part)
                    row += _mean_cells(result, metrics[0], part, cell)
                    if part == "test":
                        row += _against_baseline(cell)
                        row += [_won_cell(result, cell)] if trained else []
                rows.append(tuple(row))
    whose = f"{' or '.join(metrics)} of {', '.join(study.judged)} queries. " if _by_part(result) else ""
    return ReportTable(tuple(columns), tuple(rows), whose + reading(result))


def _condition_columns(result: StudyResult) -> list[Column]:
    if result.plan.study.condition_names == (PLAIN,):
        return []
    return [Column("condition", ("value", "condition") if _with_values(result) else (), words=True)]


def _condition_cells(result: StudyResult, name: str) -> list[Cell]:
    """The name, sorted by the value where all conditions have one."""
    if result.plan.study.condition_names == (PLAIN,):
        return []
    return [Cell(name, (result.plan.study.condition(name).value, name) if _with_values(result) else ())]


def _with_values(result: StudyResult) -> bool:
    return all(condition.value is not None for condition in result.plan.study.conditions)


def _mean_columns(result: StudyResult, name: str, part: str, title: str) -> list[Column]:
    higher = next(cell.higher_is_better for cell in result.cells if cell.metric == name)
    field = title if part == "test" else f"{title} {part}"
    fields = (field, f"{field} deviation", f"{field} low", f"{field} high")
    # The names of metrics may be long; where each part has a column, the text below the table says whose it is.
    shown = part if _by_part(result) else title
    columns = [Column(shown if higher else f"{shown} (lower is better)", fields, high_first=higher)]
    if _in_print(result, name, part):
        columns.append(Column("in print", (f"{field} in print", f"{field} in print spread"), high_first=higher))
    return columns


def _mean_cells(result: StudyResult, name: str, part: str, cell: CellResult | None) -> list[Cell]:
    numbers = (math.nan,) * 4 if cell is None else (cell.mean, cell.deviation, *cell.interval)
    cells = [Cell(mean_text(cell), numbers)]
    return [*cells, _printed_cell(cell)] if _in_print(result, name, part) else cells


def _by_part(result: StudyResult) -> bool:
    return len(result.plan.study.systems) > 1 and len(result.plan.study.judged) > 1


def _in_print(result: StudyResult, name: str, part: str) -> bool:
    return any(cell.printed for cell in result.cells if (cell.metric, cell.part) == (name, part))


def _against_baseline(cell: CellResult) -> list[Cell]:
    own, corrected = (_p_value(judgement) for judgement in (cell.own, cell.corrected))
    if cell.own is None or cell.corrected is None:
        return [Cell("", (math.nan,)), Cell("", (own,)), Cell("", (corrected,))]
    marks = OWN_MARK * (cell.own.verdict != UNDECIDED) + CORRECTED_MARK * (cell.corrected.verdict != UNDECIDED)
    return [
        Cell(signed_text(cell.difference), (cell.difference,), marks),
        Cell(p_text(own), (own,)),
        Cell(p_text(corrected), (corrected,)),
    ]


def _won_cell(result: StudyResult, cell: CellResult) -> Cell:
    gains = pair_gains(result, cell.condition, cell.system, cell.metric)
    if cell.system == result.plan.study.baseline or not gains.size:
        return Cell("", (None, None, None))
    counts = win_tie_loss(gains)
    return Cell("/".join(map(str, counts)), counts)


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
    columns = [Column("condition", words=True)] if several else []
    columns += [Column("system", words=True), Column("metric", words=True)]
    columns += [Column("queries", words=True)] if parts else []
    columns += [
        Column("in print", ("in print", "in print spread"), high_first=True),
        Column("here", ("here", "here deviation"), high_first=True),
        Column("here minus print", high_first=True),
        Column("lead in print", high_first=True),
        Column("lead here", high_first=True),
    ]
    rows = []
    for cell in shown:
        assert cell.printed is not None
        row = [Cell(cell.condition)] if several else []
        row += [Cell(cell.system), Cell(cell.metric), *([Cell(cell.part)] if parts else [])]
        row += [_printed_cell(cell), Cell(mean_text(cell), (cell.mean, cell.deviation))]
        row.append(_signed(cell.mean - cell.printed.value))
        reference = result.cell(cell.condition, study.baseline, cell.metric, cell.part)
        if cell.system == study.baseline:
            row += [Cell("", (math.nan,)), Cell("", (math.nan,))]
        else:
            row.append(_signed(cell.printed.value - reference.printed.value if reference.printed else math.nan))
            row.append(_signed(cell.difference if cell.part == "test" else cell.mean - reference.mean))
        rows.append(tuple(row))
    data = ", ".join(result.plan.data.given)
    said = (
        f"In print is what the paper has for {recipe.title}; here the data is {data}. A lead is what a system has more "
        f"than {study.baseline}: on other data than the paper's, compare leads rather than how high systems stand."
    )
    return ReportTable(tuple(columns), tuple(rows), said)


def _signed(value: float) -> Cell:
    return Cell(signed_text(value), (value,))


def run_table(result: StudyResult) -> ReportTable:
    """What was trained (or measured) under each condition, with all parameters, trees and time.

    Args:
        result: of a study.
    """
    plan, study = result.plan, result.plan.study
    specs = [trial.spec for trial in plan.trials() if trial.spec["trial"] == 0]
    several, trained = study.condition_names != (PLAIN,), not study.measures_only
    changing = any(spec["changes"] for spec in specs)
    searching = any(spec.get("search") for spec in specs)
    columns = [Column("condition", words=True)] if several else []
    columns += [Column("system", words=True), Column("loss" if trained else "measurement", words=True)]
    columns += [Column("trees")] if trained else []
    columns += [Column("sec.", ("seconds",)), Column("parameters", words=True)]
    columns += [Column("searched", words=True), Column("chosen, trial by trial", words=True)] if searching else []
    columns += [Column("change of the data", words=True)] if changing else []
    rows = []
    for spec in specs:
        place = (spec["condition"], spec["system"])
        row = [Cell(spec["condition"])] if several else []
        row += [Cell(spec["system"]), Cell(spec.get("loss") or spec["measure"])]
        row += [_mean_of(result.trees.get(place, []), "{:.0f}")] if trained else []
        row.append(_mean_of(result.seconds.get(place, []), "{:.2f}"))
        row.append(Cell(parameters_text(from_plain(spec["parameters"]))))
        if searching:
            chosen = (parameters_text(configuration) for configuration in result.chosen.get(place, []))
            row += [Cell(parameters_text(from_plain(spec["search"]))), Cell("; ".join(chosen))]
        row += [Cell("; ".join(map(_change_text, from_plain(spec["changes"]))))] if changing else []
        rows.append(tuple(row))
    said = "Trees and seconds are means over trials." if trained else "Seconds are means over trials."
    return ReportTable(tuple(columns), tuple(rows), said)


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


def _p_value(judgement: Judgement | None) -> float:
    return math.nan if judgement is None else judgement.p_value
