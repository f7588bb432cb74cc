"""The tables of a comparison: means with their tests, every pair, what was trained, and the same as
plain values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.experiments.changes import Change
from tautrank.experiments.comparison_values import (
    CellResult,
    ComparisonValues,
    Failure,
    PairTest,
    PlannedValues,
)
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.query_gains import query_gains
from tautrank.json_values import from_json, or_nan
from tautrank.report.terminal import EMPTY_QUERIES
from tautrank.significance.verdicts import UNDECIDED, TestOutcome, win_tie_loss
from tautrank.tables import (
    Cell,
    Column,
    Table,
    Titled,
    difference_text,
    mean_text,
    number_cell,
    p_cell,
    p_text,
    text_cell,
)

OWN_MARK, MARK = "†", "*"
"""What marks a difference that the paper's test, or the test over queries, finds significant."""


# ---- Results


def result_tables(
    result: ComparisonValues, opening: str, *, with_costs: bool = True
) -> dict[str, Table]:
    """Return the means with their tests, one table per metric; the note of the last one says how to
    read all of them.

    A single table, titled "Results", serves one system, or conditions that are judged by metrics of
    their own.

    Args:
        result: the values of a comparison or a study.
        opening: the first sentences of the note.
        with_costs: whether the first table, too, has the trees and seconds, which no metric
            changes.
    """
    metrics = result.metric_names
    n_tables = 1 if len(result.system_names) == 1 or result.has_own_metrics else len(metrics)
    if n_tables == 1:
        note = note_on_tables(result, opening, result.cells)
        return {"Results": result_table(result, result.cells, note, with_costs=with_costs)}

    tables = {}
    for name in metrics:
        cells = [cell for cell in result.cells if cell.metric == name]
        if name == metrics[-1]:
            note = note_on_tables(result, opening, cells)
        else:
            note = _what_tests_find(result, cells)
        tables[name] = result_table(
            result, cells, note, with_costs=with_costs and name == metrics[0]
        )
    return tables


def training_opening(result: PlannedValues) -> str:
    """Return the first sentences on how to read the tables of a comparison of losses.

    Args:
        result: the values of the comparison.
    """
    n_configurations = result.plan.budget.configurations
    sentences = [_what_a_mean_is(result)]
    if n_configurations:
        sentences.append(
            f"Each training picks the best of {n_configurations} random configurations by"
            f" validation {result.metrics[0]}; 'all tried' is the mean over all of them."
        )
    return " ".join([*sentences, ties_and_remarks(result)])


def _what_a_mean_is(result: PlannedValues) -> str:
    """Return the sentence on the number of trainings behind a mean."""
    if result.n_repeats == 1:
        return "One training each: nothing is known of other seeds and splits."
    differs = "other seeds"
    if result.varied == "splits":
        differs = "training/validation splits drawn anew"
    return f"Mean ± standard deviation over {result.n_repeats} repeats ({differs})."


def ties_and_remarks(result: ComparisonValues) -> str:
    """Return how ties and empty queries count, and the remarks on single queries.

    Args:
        result: the values of a comparison.
    """
    first = result.metrics[0]
    conventions = f"Ties: {first.ties}; empty queries: {EMPTY_QUERIES[first.empty]}."
    return " ".join([conventions, *result.remarks])


def note_on_tables(result: ComparisonValues, opening: str, cells: Sequence[CellResult]) -> str:
    """Return how to read the tables of results, in one paragraph.

    Args:
        result: the values of a comparison or a study.
        opening: its first sentences.
        cells: the cells of the table.
    """
    tests = dict.fromkeys(cell.tested.test for cell in result.cells if cell.tested)
    if not tests:
        return opening
    compared = f"every system with {result.baseline}"
    if result.pairs == "all":
        compared = "every two systems"
    level = f"{100 * (1 - result.alpha):g} %"
    sentences = [
        opening,
        f"'minus {result.baseline}' has its {level} confidence interval.",
        f"p is from the {' or '.join(tests)}, adjusted by Holm's method for comparing {compared} on"
        f" a metric; {MARK} marks p of at most {result.alpha:g}.",
        "Detectable is the smallest true difference that the comparison alone would find with 80 %"
        " power.",
        _what_tests_find(result, cells),
    ]
    if not result.measures_only:
        counted = "by their means over trials" if result.tests_same_queries else "of all trials"
        sentences.append(
            f"w/t/l: test queries {counted} won, tied and lost against {result.baseline}."
        )
    return " ".join(sentences)


def _what_tests_find(result: ComparisonValues, cells: Sequence[CellResult]) -> str:
    """Return what the tests of each metric could have found, and what a reader has to know."""
    tests_by_metric: dict[str, list[TestOutcome]] = {}
    notes = {}
    for cell in cells:
        if cell.tested:
            tests_by_metric.setdefault(cell.metric, []).append(cell.tested)
            notes[cell.tested.note] = f"Note: {cell.tested.note}."
    notes.pop("", None)
    n_comparisons = None
    if result.pairs != "baseline":
        n_comparisons = math.comb(len(result.system_names), 2)
    sentences = [power_note(tests_by_metric, result.alpha, n_comparisons)]
    sentences += notes.values()
    return " ".join(sentence for sentence in sentences if sentence)


def power_note(
    tests_by_metric: Mapping[str, Sequence[TestOutcome]],
    level: float,
    n_comparisons: int | None = None,
) -> str:
    """Return what tests could have found, in words; empty if nothing was left to chance.

    Args:
        tests_by_metric: the outcomes that stand together.
        level: the level of the tests.
        n_comparisons: the number of comparisons that Holm's method counts; by default those of the
            metric.
    """
    alone: dict[str, str] = {}
    at_first_step: dict[str, str] = {}
    for name, tests in tests_by_metric.items():
        uncertain = [test for test in tests if test.standard_error > 0]
        if uncertain:
            alone[name] = _detectable_text(uncertain, level)
            first_level = level / (n_comparisons or len(tests))
            at_first_step[name] = _detectable_text(uncertain, first_level)
    if not alone:
        return ""

    if len(alone) == 1:
        size = next(iter(alone.values()))
        text = f"A true difference of {size} would be found with 80 % power"
    else:
        sizes = [f"{size} on {name}" for name, size in alone.items()]
        text = f"True differences of {', '.join(sizes)} would be found with 80 % power"
    if at_first_step != alone:
        pronoun = "one" if len(alone) == 1 else "those"
        first_sizes = ", ".join(at_first_step.values())
        text += f", and {pronoun} of {first_sizes} at the first step of Holm's method"
    return f"{text}."


def _detectable_text(tests: Sequence[TestOutcome], level: float) -> str:
    """Return the difference that each of the tests finds with 80 % power at a level."""
    at_level = [TestOutcome.of("", 0.0, test.standard_error, test.degrees, level) for test in tests]
    return difference_text(max(test.detectable for test in at_level)).removeprefix("+")


# ---- One row per cell


def result_table(
    result: ComparisonValues,
    cells: Sequence[CellResult],
    note: str = "",
    *,
    with_costs: bool = True,
) -> Table:
    """Return one row per cell: its place, as far as cells differ in it, the mean, and the tests
    against the baseline.

    Args:
        result: the values of a comparison or a study.
        cells: the cells to show.
        note: how to read the table.
        with_costs: whether to show trees and seconds.
    """
    return Table.of_rows([_row(result, cells, cell, with_costs) for cell in cells], note)


def _row(
    result: ComparisonValues, cells: Sequence[CellResult], cell: CellResult, with_costs: bool
) -> list[Titled]:
    """Return the row of one of the cells of a table."""
    several_systems = len(result.system_names) > 1
    row = _place_cells(result, cells, cell)
    row.append(_mean_cell(cells, cell, mark_best=several_systems))
    if _has_search(cells):
        row.append(number_cell("all tried", cell.tried, mean_text(cell.tried, None)))
    if _has_printed(cells):
        row += _printed_cells(result, cell)
    if several_systems:
        row += _baseline_cells(result, cell)
    if with_costs:
        row += _cost_cells(result, (cell.condition, cell.system))
    return row


def _place_cells(
    result: ComparisonValues, cells: Sequence[CellResult], cell: CellResult
) -> list[Titled]:
    """Return condition, system, metric and queries of a cell, as far as there are several."""
    row = []
    if result.condition_names != (PLAIN,):
        value = _condition_value(result, cell.condition)
        column = Column("condition", ("value", "condition"), words=True)
        row.append((column, Cell(cell.condition, (value, cell.condition))))
    row.append(text_cell("system", cell.system))
    if _has_several_metrics(cells):
        name = Cell(cell.metric + _direction(cell), (cell.metric,))
        row.append((Column("metric", words=True), name))
    if len(result.judged_parts) > 1:
        row.append(text_cell("queries", cell.part))
    return row


def _condition_value(result: ComparisonValues, name: str) -> float | None:
    """Return the position of a condition on the axis of its study."""
    return next(condition.value for condition in result.conditions if condition.name == name)


def _mean_cell(cells: Sequence[CellResult], cell: CellResult, *, mark_best: bool) -> Titled:
    """Return the mean with its deviation; the best of its rivals is bold."""
    title = "mean" if _has_several_metrics(cells) else cell.metric + _direction(cell)
    fields = ("mean", "deviation", "low", "high")
    numbers = (cell.mean, cell.deviation, *cell.interval)
    style = "bold" if mark_best and cell.mean == _best_mean(cells, cell) else ""
    column = Column(title, fields, high_first=cell.higher_is_better)
    return column, Cell(mean_text(cell.mean, cell.deviation), numbers, style=style)


def _best_mean(cells: Sequence[CellResult], cell: CellResult) -> float:
    """Return the best mean of all systems in the place of a cell; NaN if there is none."""
    rivals = [rival for rival in cells if _are_rivals(rival, cell)]
    means = [rival.mean for rival in rivals if rival.means.size]
    best = max if cell.higher_is_better else min
    return best(means, default=math.nan)


def _are_rivals(first: CellResult, second: CellResult) -> bool:
    """Return whether two cells measure the same: they differ in the system at most."""
    place = (first.condition, first.metric, first.part)
    return place == (second.condition, second.metric, second.part)


def _has_search(cells: Sequence[CellResult]) -> bool:
    return any(not math.isnan(cell.tried) for cell in cells)


def _has_printed(cells: Sequence[CellResult]) -> bool:
    return any(cell.printed is not None for cell in cells)


def _has_own_tests(cells: Sequence[CellResult]) -> bool:
    return any(cell.own for cell in cells)


def _has_several_metrics(cells: Sequence[CellResult]) -> bool:
    return len({cell.metric for cell in cells}) > 1


def _direction(cell: CellResult) -> str:
    return "" if cell.higher_is_better else " (lower is better)"


def _printed_cells(result: ComparisonValues, cell: CellResult) -> list[Titled]:
    """Return the paper's number, what is above it here, and the paper's lead over the baseline."""
    reference = result.cell(cell.condition, result.baseline, cell.metric, cell.part)
    printed = or_nan(cell.printed)
    lead = math.nan
    if cell is not reference:
        lead = printed - or_nan(reference.printed)
    excess = cell.mean - printed
    column = Column("in print", ("in print", "in print spread"), high_first=cell.higher_is_better)
    return [
        (column, Cell(mean_text(printed, cell.printed_spread), (printed, cell.printed_spread))),
        number_cell("here minus print", excess, difference_text(excess)),
        number_cell("lead in print", lead, difference_text(lead)),
    ]


def _baseline_cells(result: ComparisonValues, cell: CellResult) -> list[Titled]:
    """Return the difference from the baseline with its tests, what could have been found, and the
    queries won and lost.
    """
    outcome = cell.tested or TestOutcome("")
    p_value = p_text(outcome.adjusted) if cell.tested else ""
    p_column = Column("p", ("p", "p of one comparison"))
    row = [
        difference_cell(f"minus {result.baseline}", outcome, _marks(cell)),
        (p_column, Cell(p_value, (outcome.adjusted, outcome.p_value))),
        detectable_cell(outcome),
    ]
    if _has_own_tests(result.cells):
        row.append(_own_test_cell(cell))
    if not result.measures_only:
        row.append(_won_cell(result, cell))
    return row


def _marks(cell: CellResult) -> str:
    """Return the marks of the tests that find the cell's difference significant."""
    marks = ""
    if cell.own and cell.own.verdict != UNDECIDED:
        marks += OWN_MARK
    if cell.tested and cell.tested.verdict != UNDECIDED:
        marks += MARK
    return marks


def _own_test_cell(cell: CellResult) -> Titled:
    if cell.own is None:
        return p_cell("p own", math.nan, "")
    return p_cell("p own", cell.own.p_value)


def _won_cell(result: ComparisonValues, cell: CellResult) -> Titled:
    """Return how many test queries a system wins, ties and loses against the baseline."""
    column = Column("w/t/l", ("won", "tied", "lost"), high_first=True)
    gains = None
    if cell.tested:
        gains = query_gains(result, cell.condition, cell.metric, [cell.system])
    if gains is None:
        return column, Cell("", (None, None, None))
    counts = win_tie_loss(gains.gains[cell.system])
    return column, Cell("/".join(map(str, counts)), counts)


def difference_cell(title: str, outcome: TestOutcome | PairTest, marks: str = "") -> Titled:
    """Return a difference with its confidence interval; green or red if it is significant."""
    text = ""
    if not math.isnan(outcome.difference):
        text = difference_text(outcome.difference)
    if not math.isnan(outcome.low):
        text += f" [{difference_text(outcome.low)}, {difference_text(outcome.high)}]"
    style = ""
    if MARK in marks:
        style = "green" if outcome.difference > 0 else "red"
    column = Column(title, (title, f"{title} low", f"{title} high"), high_first=True)
    numbers = (outcome.difference, outcome.low, outcome.high)
    return column, Cell(text, numbers, marks, style)


def detectable_cell(outcome: TestOutcome) -> Titled:
    """Return the smallest true difference that a test alone finds with 80 % power."""
    value = outcome.detectable
    text = "" if math.isnan(value) else difference_text(value).removeprefix("+")
    return number_cell("detectable", value, text, high_first=False)


def _cost_cells(result: ComparisonValues, place: tuple[str, str]) -> list[Titled]:
    """Return the means over trials of trees and seconds, where they are known."""
    cells = []
    for title, by_place, digits in (
        ("trees", result.trees, 0),
        ("seconds", result.seconds, 2),
    ):
        if not by_place:
            continue
        if place in by_place:
            mean = float(np.mean(by_place[place]))
            cells.append(number_cell(title, mean, f"{mean:.{digits}f}", high_first=False))
        else:
            cells.append(number_cell(title, math.nan, "-", high_first=False))
    return cells


# ---- Every pair


def pair_table(result: ComparisonValues) -> Table:
    """Return one row per pair of systems and metric: which is better, by how much, how sure that
    is.

    Args:
        result: the values of a comparison.
    """
    rows = []
    for name in result.metric_names:
        for test in result.tests(name):
            rows.append(
                [
                    text_cell("metric", name),
                    text_cell("better", result.system_names[test.better]),
                    text_cell("worse", result.system_names[test.worse]),
                    difference_cell("difference", test),
                    p_cell("p of one comparison", test.p_value),
                    p_cell("p", test.adjusted),
                ]
            )
    return Table.of_rows(rows, "p counts all pairs of a metric, by Holm's method.")


# ---- What was trained


def training_table(result: PlannedValues) -> Table:
    """Return what was trained (or measured) under each condition, with all parameters, trees and
    time.

    Args:
        result: the values of a comparison or a study.
    """
    n_places = len(result.condition_names) * len(result.system_names)
    specs = [trial.spec for trial in result.plan.trials()[:n_places]]
    has_search = any(spec.get("search") for spec in specs)
    has_changes = any(spec["changes"] for spec in specs)
    rows = []
    for spec in specs:
        row = _run_row(result, spec)
        if has_search:
            row += _search_cells(result, spec)
        if has_changes:
            changes = map(_change_text, from_json(spec["changes"]))
            row.append(text_cell("change of the data", "; ".join(changes)))
        rows.append(row)
    return Table.of_rows(rows, "Trees and seconds are means over trials.")


def _run_row(result: ComparisonValues, spec: Mapping[str, Any]) -> list[Titled]:
    """Return what is trained by one of the trials of the first repeat."""
    place = (spec["condition"], spec["system"])
    row = []
    if result.condition_names != (PLAIN,):
        row.append(text_cell("condition", spec["condition"]))
    row.append(text_cell("system", spec["system"]))
    if result.measures_only:
        row.append(text_cell("measurement", spec["measure"]))
    else:
        row.append(text_cell("loss", spec["loss"]))
    row += _cost_cells(result, place)
    row.append(text_cell("parameters", parameters_text(from_json(spec["parameters"]))))
    return row


def _search_cells(result: ComparisonValues, spec: Mapping[str, Any]) -> list[Titled]:
    """Return what was searched, and the configuration that each trial picked."""
    configurations = result.chosen.get((spec["condition"], spec["system"]), [])
    return [
        text_cell("searched", parameters_text(from_json(spec["search"]))),
        text_cell("chosen, trial by trial", "; ".join(map(parameters_text, configurations))),
    ]


def _change_text(change: Change) -> str:
    parameters, parts = parameters_text(change.parameters), ", ".join(change.parts)
    return f"{change.kind}({parameters}) of {parts}"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    texts = [f"{name}={value!r}" for name, value in parameters.items()]
    return ", ".join(texts)


# ---- Other forms


def to_markdown(tables: Mapping[str, Table], failures: Iterable[Failure]) -> str:
    """Return tables below their titles in Markdown, followed by the trials that failed.

    Args:
        tables: the tables by title.
        failures: the trials.
    """
    lines = []
    for title, table in tables.items():
        lines += [f"## {title}", "", table.to_markdown()]
    failed = [f"- {failure.title}: {failure.error}" for failure in failures]
    if failed:
        lines += ["## Failed trials", "", *failed, ""]
    return "\n".join(lines)


def to_latex(tables: Mapping[str, Table], comments: Iterable[str]) -> str:
    """Return tables for a paper (booktabs), each below its title as a comment.

    Args:
        tables: the tables by title.
        comments: what to say below them.
    """
    lines = []
    for title, table in tables.items():
        lines += [f"% {title}", table.to_latex()]
    lines += [f"% {comment}" for comment in comments]
    return "\n".join([*lines, ""])


def to_dict(result: ComparisonValues) -> dict[str, Any]:
    """Return a comparison as plain values, ready for JSON.

    Args:
        result: the values of the comparison.
    """
    plain = {
        "repeats": result.n_repeats,
        "vary": result.varied,
        "alpha": result.alpha,
        "compared": result.pairs,
        **measured_values(result),
        "remarks": result.remarks,
        "pairs": {name: _pair_dicts(result, name) for name in result.metric_names},
    }
    return as_json_values(plain)


def as_json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them: outcomes of tests as dictionaries, tuples as lists, NaN and
    infinities as None.
    """
    text = json.dumps(values, default=vars)
    return dict(json.loads(text, parse_constant=lambda _: None))


def measured_values(result: ComparisonValues) -> dict[str, Any]:
    """Return what comparisons and studies measure: cells, trees, seconds, curves and failures.

    Args:
        result: the values of a comparison or a study.
    """
    trials = {
        "planned": result.n_planned,
        "done": result.n_done,
        "failed": len(result.failures),
        "constant": result.n_constant,
    }
    curves = []
    for (condition, system, part), by_trial in result.curves.items():
        place = {"condition": condition, "system": system, "part": part}
        curves.append({**place, "by_trial": by_trial})
    points = []
    for (condition, system), of_system in result.points.items():
        points.append({"condition": condition, "system": system, **of_system})
    return {
        "trained_with": result.trained_with,
        "trials": trials,
        "conditions": [
            {"name": condition.name, "value": condition.value} for condition in result.conditions
        ],
        "baseline": result.baseline,
        "cells": [_cell_dict(cell) for cell in result.cells],
        "trees": _by_trial(result.trees),
        "seconds": _by_trial(result.seconds),
        "chosen": _by_trial(result.chosen),
        "curves": curves,
        "points": points,
        "failures": [
            {"trial": failure.title, "error": failure.error} for failure in result.failures
        ],
    }


def _by_trial(values: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Return what is kept by (condition, system) as a list."""
    entries = []
    for (condition, system), by_trial in values.items():
        entries.append({"condition": condition, "system": system, "by_trial": by_trial})
    return entries


def _cell_dict(cell: CellResult) -> dict[str, Any]:
    """Return a cell by the names of its numbers."""
    return {
        "condition": cell.condition,
        "system": cell.system,
        "metric": cell.metric,
        "part": cell.part,
        "by_trial": dict(zip(cell.numbers, cell.means.tolist(), strict=True)),
        "mean": cell.mean,
        "deviation": cell.deviation,
        "difference": cell.difference,
        "tried": cell.tried,
        "interval": cell.interval,
        "printed": cell.printed,
        "own": cell.own,
        "tested": cell.tested,
    }


def _pair_dicts(result: ComparisonValues, metric: str) -> list[dict[str, Any]]:
    """Return the tests of the pairs on a metric, with the names of the systems."""
    systems = result.system_names
    pairs = []
    for test in result.tests(metric):
        names = {"better": systems[test.better], "worse": systems[test.worse]}
        pairs.append({**vars(test), **names})
    return pairs
