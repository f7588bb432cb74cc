"""The tables of a study, once for the terminal, Markdown, LaTeX, CSV and the page."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tautrank.experiments.divide import FixedParts, OnItself, OwnFolds, Resampling
from tautrank.experiments.perturb import Change
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.result import win_tie_loss
from tautrank.json_values import from_json, or_none
from tautrank.papers.results import UNDECIDED, CellResult, Judgement, StudyResult
from tautrank.papers.study import OTHER_DATA
from tautrank.report.cells import difference_text, mean_cell, number_cell, p_text, text_cell, won_cell
from tautrank.report.gains import query_gains, same_queries
from tautrank.report.table import Cell, Column, ReportTable, Titled, Value

OWN_MARK, CORRECTED_MARK = "†", "*"

_CSV_FIELDS = (
    *("condition", "value", "system", "metric", "part", "trials", "mean", "deviation", "low", "high"),
    *("printed", "difference", "p_own", "p_corrected"),
)


def tables(result: StudyResult) -> dict[str, ReportTable]:
    """Return the results and the verdicts on the claims as tables, by title.

    Args:
        result: the result of a study.
    """
    found = result_tables(result)
    return {**found, "Claims": claim_table(result)} if result.verdicts else found


def to_markdown(result: StudyResult) -> str:
    """Return the study as a page of Markdown.

    Args:
        result: the result of a study.
    """
    lines = [f"# {result.plan.study.title}", ""]
    lines += [*(f"- **{what}**: {how}" for what, how in facts(result).items()), ""]
    for title, table in tables(result).items():
        lines += [f"## {title}", "", table.to_markdown()]
    if result.failures:
        lines += ["## Failed trials", "", *(f"- {failure.title}: {failure.error}" for failure in result.failures), ""]
    return "\n".join(lines)


def to_latex(result: StudyResult) -> str:
    """Return the tables of results for a paper (booktabs); everything else as comments.

    Args:
        result: the result of a study.
    """
    lines = [f"% {what}: {how}" for what, how in facts(result).items()]
    for title, table in result_tables(result).items():
        lines += [f"% {title}", table.to_latex().rstrip("\n")]
    for v in result.verdicts:
        lines.append(f"% {v.sentence}: {_judgement_text(v.own)}; corrected: {_judgement_text(v.corrected)}")
    lines += [f"% failed: {failure.title}: {failure.error}" for failure in result.failures]
    return "\n".join([*lines, ""])


def to_text(result: StudyResult) -> str:
    """Return the study as `print` shows it: Markdown.

    Args:
        result: the result of a study.
    """
    return to_markdown(result)


def to_csv(result: StudyResult) -> str:
    """Return the cells as CSV, one line per cell, with all digits; missing values are empty.

    Args:
        result: the result of a study.
    """
    rows: list[list[Value]] = []
    for c in result.cells:
        row: list[Value] = [c.condition, result.plan.study.condition(c.condition).value, c.system, c.metric, c.part]
        row += [c.means.size, c.mean, c.deviation, *c.interval, c.printed.value if c.printed else None, c.difference]
        rows.append([*row, *(j.p_value if j else None for j in (c.own, c.corrected))])
    return ReportTable.of(_CSV_FIELDS, rows).to_csv()


def to_dict(result: StudyResult) -> dict[str, Any]:
    """Return everything as plain values, ready for JSON.

    Args:
        result: the result of a study.
    """
    plan, study = result.plan, result.plan.study
    by_system = {
        name: [{"condition": c, "system": s, "by_trial": values} for (c, s), values in getattr(result, name).items()]
        for name in ("trees", "seconds", "chosen")
    }
    return {
        "study": study.name,
        "version": study.version,
        "title": study.title,
        "facts": facts(result),
        "tautrank": result.meta.get("tautrank"),
        "trained_with": list(result.trained_with),
        "data_fingerprint": result.meta.get("data_fingerprint"),
        "recipe": plan.recipe or None,
        "trials": {
            "planned": plan.size,
            "done": result.n_done,
            "failed": len(result.failures),
            "constant": result.n_constant,
        },
        "axis": study.axis or None,
        "conditions": [{"name": c.name, "value": c.value} for c in study.conditions],
        "baseline": study.baseline,
        "cells": [_cell_dict(cell) for cell in result.cells],
        "claims": [
            {
                "sentence": v.sentence,
                "text": v.text or None,
                "trials": v.trials,
                "advantage": or_none(v.advantage),
                "own": _judgement_dict(v.own),
                "corrected": _judgement_dict(v.corrected),
            }
            for v in result.verdicts
        ],
        "verdict": {"own": result.own_verdict, "corrected": result.verdict} if result.verdicts else None,
        **by_system,
        "curves": [
            {"condition": c, "system": s, "part": p, "by_trial": [[or_none(x) for x in curve] for curve in curves]}
            for (c, s, p), curves in result.curves.items()
        ],
        "points": [{"condition": c, "system": s, **points} for (c, s), points in result.points.items()],
        "failures": [{"trial": failure.title, "error": failure.error} for failure in result.failures],
    }


def _cell_dict(cell: CellResult) -> dict[str, Any]:
    return {
        **{name: getattr(cell, name) for name in ("condition", "system", "metric", "part")},
        "by_trial": dict(zip(map(str, cell.numbers), cell.means.tolist(), strict=True)),
        "mean": or_none(cell.mean),
        "deviation": or_none(cell.deviation),
        "interval": [or_none(end) for end in cell.interval],
        "printed": cell.printed.value if cell.printed else None,
        "difference": or_none(cell.difference),
        "own": _judgement_dict(cell.own),
        "corrected": _judgement_dict(cell.corrected),
    }


def _judgement_dict(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None:
        return None
    return {"test": judgement.test, "p": or_none(judgement.p_value), "verdict": judgement.verdict}


# ---- What was run


def facts(result: StudyResult) -> dict[str, str]:
    """Return what was run, in words.

    Args:
        result: the result of a study.
    """
    plan, study = result.plan, result.plan.study
    budget = plan.budget
    size = f" ({plan.n_queries:,} queries, {plan.n_features} features)" if plan.n_queries else ""
    things, trained = "trainings", f", at most {budget.trees} trees"
    if study.measures_only:
        things, trained = "measurements", ""
    if budget.configurations:
        trained += f", the best of {budget.configurations} configurations by validation {study.metrics[0]}"
    finished = f"{result.n_done} of {plan.size} {things}"
    finished += f"; {len(result.failures)} failed" if result.failures else ""
    finished += f"; {result.n_constant} models found no split and rank nothing" if result.n_constant else ""
    recipe, whose, verdict = plan.used_recipe, "", ""
    if recipe:
        whose = recipe.title if recipe.data == OTHER_DATA else f"the paper's for {recipe.title}"
    if result.verdicts:
        verdict = f"{result.own_verdict} by the paper's test; {result.verdict} by the corrected test"
    found = {
        "paper": study.paper,
        "claim": study.claim,
        "data": ", ".join(plan.data.given) + size,
        "parameters": whose,
        "protocol": _protocol(result),
        "budget": f"{budget.trials} trials{trained}; seed {plan.seed}",
        "finished": finished,
        "paper's test": str(study.test),
        "note": study.note,
        "verdict": verdict,
    }
    return {what: how for what, how in found.items() if how}


def _protocol(result: StudyResult) -> str:
    protocol = result.plan.study.protocol
    if isinstance(protocol, Resampling):
        shares = (protocol.train, protocol.valid, protocol.test)
        return "every trial splits the queries at random, " + "/".join(f"{100 * share:g}" for share in shares)
    if isinstance(protocol, OwnFolds):
        return "one trial per fold"
    if isinstance(protocol, OnItself):
        return "trained and tested on the same queries"
    assert isinstance(protocol, FixedParts)
    varied = "new split of training and validation queries" if protocol.redivide else "only seeds differ"
    return f"the same test queries in every trial, {varied}"


# ---- Results


def result_tables(result: StudyResult) -> dict[str, ReportTable]:
    """Return the means with their tests, one table per metric; the note of the last one says how to read them.

    A single table, titled "Results", serves a study with one system, or with one metric per condition.

    Args:
        result: the result of a study.
    """
    metrics = list(dict.fromkeys(cell.metric for cell in result.cells))
    if len(result.plan.study.systems) == 1 or len(metrics) == 1 or own_metrics(result):
        return {"Results": _result_table(result, metrics)}
    found = {name: _result_table(result, [name]) for name in metrics}
    return {name: table if name == metrics[-1] else replace(table, note="") for name, table in found.items()}


def own_metrics(result: StudyResult) -> bool:
    """Return whether each condition is judged by a single metric, and not all by the same.

    Args:
        result: the result of a study.
    """
    study = result.plan.study
    under = [study.metrics_under(condition) for condition in study.condition_names]
    return all(len(metrics) == 1 for metrics in under) and len(set(under)) > 1


def reading(result: StudyResult) -> str:
    """Return how to read the tables of results, in one paragraph.

    Args:
        result: the result of a study.
    """
    study = result.plan.study
    text = f"Condition: {study.axis}. " if study.axis else ""
    text += "Mean ± standard deviation over trials."
    if result.plan.used_recipe and any(c.printed for c in result.cells):
        text += f" 'In print' is the paper's number for {result.plan.used_recipe.title}."
    if len(study.systems) == 1:
        return text
    # Claims about training queries or curves are judged by other tests than the cells of the table.
    judged = [*(c.corrected for c in result.cells), *(v.corrected for v in result.verdicts)]
    corrected = next((judgement.test for judgement in judged if judgement), "")
    if corrected:
        text += (
            f" 'p own' is from the paper's test ({study.test}); 'p corr.' is from the {corrected}, which accounts for "
            "what the trials have in common, Holm-adjusted over the rows of a metric (for claims, over all claims)."
        )
    text += (
        f" {OWN_MARK} marks a difference that is significant by the paper's test, {CORRECTED_MARK} one that is by the "
        f"corrected test, at level {study.test.level:g}; the sign gives the direction."
    )
    if not study.measures_only:
        which = "by their means over trials" if same_queries(study.protocol) else "of all trials"
        text += f" w/t/l: test queries {which} won, tied and lost against {study.baseline}."
    return text


def _result_table(result: StudyResult, metrics: Sequence[str]) -> ReportTable:
    """One row per condition and system, with both tests against the baseline where there are several systems."""
    study = result.plan.study
    own, several = own_metrics(result), len(study.systems) > 1
    rows = []
    for condition, system in itertools.product(study.condition_names, study.system_names):
        under = study.metrics_under(condition)
        if several and not own and metrics[0] not in under:
            continue
        row = _condition_cells(result, condition)
        row += [text_cell("system", system)] if several or not row else []
        row += [text_cell("metric", under[0])] if own else []
        for name, part in itertools.product(under if own else metrics, study.judged):
            cell = result.by_place.get((condition, system, name, part))
            row += _mean_cells(result, metrics[0] if own else name, part, "mean" if own else name, cell)
            if several and part == "test":
                assert cell is not None
                row += _baseline_cells(result, cell)
        rows.append(row)
    whose = f"{' or '.join(metrics)} of {', '.join(study.judged)} queries. " if _by_part(result) else ""
    return ReportTable.of_rows(rows, whose + reading(result))


def _condition_cells(result: StudyResult, name: str) -> list[Titled]:
    """The condition's name, sorted by value if all conditions have one; nothing if there is only one condition."""
    study = result.plan.study
    if study.condition_names == (PLAIN,):
        return []
    if any(condition.value is None for condition in study.conditions):
        return [text_cell("condition", name)]
    return [(Column("condition", ("value", "condition"), words=True), Cell(name, (study.condition(name).value, name)))]


def _mean_cells(result: StudyResult, name: str, part: str, title: str, cell: CellResult | None) -> list[Titled]:
    higher = next(cell.higher_is_better for cell in result.cells if cell.metric == name)
    field = title if part == "test" else f"{title} {part}"
    fields = (field, f"{field} deviation", f"{field} low", f"{field} high")
    # Names of metrics may be long; where each part has a column, the note of the table names the metric.
    shown = (part if _by_part(result) else title) + ("" if higher else " (lower is better)")
    values = (math.nan,) * 4 if cell is None else (cell.mean, cell.deviation, *cell.interval)
    cells = [mean_cell(shown, fields, values, high_first=higher)]
    if any(other.printed for other in result.cells if (other.metric, other.part) == (name, part)):
        names = (f"{field} in print", f"{field} in print spread")
        cells.append(mean_cell("in print", names, _printed(cell), high_first=higher))
    return cells


def _by_part(result: StudyResult) -> bool:
    return len(result.plan.study.systems) > 1 and len(result.plan.study.judged) > 1


def _printed(cell: CellResult | None) -> tuple[Value, ...]:
    return (cell.printed.value, cell.printed.spread) if cell and cell.printed else (None, None)


def _baseline_cells(result: StudyResult, cell: CellResult) -> list[Titled]:
    """The difference from the baseline, marked where a test finds it, both p-values, and the queries won and lost."""
    study = result.plan.study
    tests = ((OWN_MARK, cell.own), (CORRECTED_MARK, cell.corrected))
    marks = "".join(mark for mark, judged in tests if judged and judged.verdict != UNDECIDED)
    difference = difference_text(cell.difference) if cell.own else ""
    cells = [number_cell(f"minus {study.baseline}", cell.difference, difference, marks)]
    for title, judged in (("p own", cell.own), ("p corr.", cell.corrected)):
        p = judged.p_value if judged else math.nan
        cells.append(number_cell(title, p, p_text(p) if judged else "", high_first=False))
    if study.measures_only:
        return cells
    found = query_gains(result, cell.condition, cell.metric, [cell.system])
    return [*cells, won_cell(None if found is None else win_tie_loss(found.gains[cell.system]))]


# ---- Claims, and the paper's numbers


def claim_table(result: StudyResult) -> ReportTable:
    """Return every comparison that the claims make: what should be positive, and the verdicts of both tests.

    Args:
        result: the result of a study.
    """
    rows = []
    for v in result.verdicts:
        row = [(Column("claim", ("claim", "in the paper's words"), words=True), Cell(v.sentence, (v.sentence, v.text)))]
        for title, name, j in (("paper's test", "own", v.own), ("corrected test", "corrected", v.corrected)):
            column = Column(title, (f"p {name}", f"verdict {name}"), words=True)
            row.append((column, Cell(_judgement_text(j), (j.p_value, j.verdict))))
        row.append(number_cell("advantage", v.advantage, difference_text(v.advantage)))
        rows.append([*row, number_cell("trials", v.trials, str(v.trials))])
    own = " or ".join(dict.fromkeys(v.own.test for v in result.verdicts))
    corrected = " or ".join(dict.fromkeys(v.corrected.test for v in result.verdicts))
    words = list(dict.fromkeys(f'"{v.text}"' for v in result.verdicts if v.text))
    note = f"In the paper's words: {'; '.join(words)}. " if words else ""
    note += (
        "Advantage: the mean over trials of the number that the claim says is positive. agrees: significantly above 0; "
        f"does not agree: significantly below 0; not decidable: neither, or too few trials. The paper's test: {own}. "
        f"The corrected test, which accounts for what trials have in common: {corrected}, Holm-adjusted over all rows. "
        f"Level {result.plan.study.test.level:g}."
    )
    return ReportTable.of_rows(rows, note)


def _judgement_text(judgement: Judgement) -> str:
    return f"{judgement.verdict}, p {p_text(judgement.p_value)}"


def printed_table(result: StudyResult) -> ReportTable | None:
    """Return the paper's numbers beside those found here, with each lead over the baseline; None if there are none.

    Args:
        result: the result of a study.
    """
    study, recipe = result.plan.study, result.plan.used_recipe
    shown = [cell for cell in result.cells if cell.printed]
    if not shown or recipe is None:
        return None
    several, parts = study.condition_names != (PLAIN,), len({cell.part for cell in shown}) > 1
    rows = []
    for cell in shown:
        assert cell.printed is not None
        row = [text_cell("condition", cell.condition)] if several else []
        row += [text_cell("system", cell.system), text_cell("metric", cell.metric)]
        row += [text_cell("queries", cell.part)] if parts else []
        row += [
            mean_cell("in print", ("in print", "in print spread"), _printed(cell)),
            mean_cell("here", ("here", "here deviation"), (cell.mean, cell.deviation)),
        ]
        reference = result.cell(cell.condition, study.baseline, cell.metric, cell.part)
        found = {"here minus print": cell.mean - cell.printed.value, "lead in print": math.nan, "lead here": math.nan}
        if cell is not reference:
            found["lead in print"] = cell.printed.value - reference.printed.value if reference.printed else math.nan
            found["lead here"] = cell.difference if cell.part == "test" else cell.mean - reference.mean
        row += [number_cell(title, value, difference_text(value)) for title, value in found.items()]
        rows.append(row)
    note = (
        f"In print: the paper's numbers for {recipe.title}. Here: numbers on {', '.join(result.plan.data.given)}. A "
        f"lead is a system's difference from {study.baseline}. On other data than the paper's, compare leads rather "
        "than values."
    )
    return ReportTable.of_rows(rows, note)


# ---- What was trained


def run_table(result: StudyResult) -> ReportTable:
    """Return what was trained (or measured) under each condition, with all parameters, trees and time.

    Args:
        result: the result of a study.
    """
    study = result.plan.study
    specs = [trial.spec for trial in result.plan.trials() if trial.spec["trial"] == 0]
    trained = not study.measures_only
    changing, searching = any(spec["changes"] for spec in specs), any(spec.get("search") for spec in specs)
    rows = []
    for spec in specs:
        place = (spec["condition"], spec["system"])
        row = [text_cell("condition", spec["condition"])] if study.condition_names != (PLAIN,) else []
        row.append(text_cell("system", spec["system"]))
        row.append(text_cell("loss" if trained else "measurement", spec.get("loss") or spec["measure"]))
        row += [(Column("trees"), _mean_of(result.trees.get(place, []), "{:.0f}"))] if trained else []
        row.append((Column("sec.", ("seconds",)), _mean_of(result.seconds.get(place, []), "{:.2f}")))
        row.append(text_cell("parameters", parameters_text(from_json(spec["parameters"]))))
        if searching:
            chosen = (parameters_text(configuration) for configuration in result.chosen.get(place, []))
            row.append(text_cell("searched", parameters_text(from_json(spec["search"]))))
            row.append(text_cell("chosen, trial by trial", "; ".join(chosen)))
        if changing:
            row.append(text_cell("change of the data", "; ".join(map(_change_text, from_json(spec["changes"])))))
        rows.append(row)
    return ReportTable.of_rows(rows, f"{'Trees and seconds' if trained else 'Seconds'} are means over trials.")


def _change_text(change: Change) -> str:
    return f"{change.kind}({parameters_text(change.parameters)}) of {', '.join(change.parts)}"


def _mean_of(numbers: Sequence[float], form: str) -> Cell:
    if not numbers:
        return Cell("-", (math.nan,))
    mean = float(np.mean(numbers))
    return Cell(form.format(mean), (mean,))


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())
