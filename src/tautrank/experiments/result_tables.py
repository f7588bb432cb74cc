"""Results of a study as text: Markdown, LaTeX, CSV, plain values, tables for the terminal."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

from tautrank.experiments.results import CellResult, StudyResult
from tautrank.json_values import or_none
from tautrank.papers.claims import PLAIN
from tautrank.papers.judging import Judgement
from tautrank.papers.study import OTHER_DATA, FixedParts, OnItself, OwnFolds, Resampling
from tautrank.report.table import Cell, Column, ReportTable, Value

_CSV_FIELDS = (
    *("condition", "value", "system", "metric", "part", "trials", "mean", "deviation", "low", "high"),
    *("printed", "difference", "p_own", "p_corrected"),
)
_NONE = "-"


def cell_table(result: StudyResult, only: str = "") -> ReportTable:
    """The main table: a row for each condition and system, columns for each metric and part.

    Args:
        result: of a study.
        only: the only metric to show; all where it is empty.
    """
    study = result.plan.study
    shown = list(dict.fromkeys((c.metric, c.part) for c in result.cells if only in ("", c.metric)))
    in_print = {(c.metric, c.part) for c in result.cells if c.printed}
    rows = []
    for condition, system in itertools.product(study.condition_names, study.system_names):
        if only and only not in study.metrics_under(condition):
            continue
        row = [(Column("condition", words=True), Cell(condition))] if study.condition_names != (PLAIN,) else []
        row.append((Column("system", words=True), Cell(system)))
        for name, part in shown:
            cell = result.by_place.get((condition, system, name, part))
            row.append((Column(name + ("" if part == "test" else f" {part}")), Cell(mean_text(cell))))
            if (name, part) in in_print:
                row.append((Column("in print"), Cell(printed_text(cell))))
            if len(study.systems) > 1 and part == "test":
                row += against_baseline(cell, study.baseline)
        rows.append(row)
    return ReportTable.of_rows(rows, note(result))


def against_baseline(cell: CellResult | None, baseline: str, marks: str = "") -> list[tuple[Column, Cell]]:
    """How far a cell is ahead of the baseline, and the p-values of both tests.

    Args:
        cell: which; None where there is none.
        baseline: the system it is compared with.
        marks: behind the difference.
    """
    columns = (Column(f"minus {baseline}", high_first=True), Column("p own"), Column("p corr."))
    if cell is None or cell.own is None or cell.corrected is None:
        return [(column, Cell("", (math.nan,))) for column in columns]
    p_values = (cell.own.p_value, cell.corrected.p_value)
    cells = [Cell(signed_text(cell.difference), (cell.difference,), marks), *(Cell(p_text(p), (p,)) for p in p_values)]
    return list(zip(columns, cells, strict=True))


def claim_table(result: StudyResult) -> ReportTable:
    """Every comparison that the claims make: what should be positive, and what both tests say of it.

    Args:
        result: of a study.
    """
    columns = (
        Column("claim", ("claim", "in the paper's words"), words=True),
        Column("paper's test", ("p own", "verdict own"), words=True),
        Column("corrected test", ("p corrected", "verdict corrected"), words=True),
        Column("advantage", high_first=True),
        Column("trials", high_first=True),
    )
    rows = []
    for v in result.verdicts:
        row = [Cell(v.sentence, (v.sentence, v.text))]
        row += [Cell(_told(j), (j.p_value, j.verdict)) for j in (v.own, v.corrected)]
        row += [Cell(signed_text(v.advantage), (v.advantage,)), Cell(str(v.trials), (v.trials,))]
        rows.append(tuple(row))
    own = " or ".join(dict.fromkeys(v.own.test for v in result.verdicts))
    corrected = " or ".join(dict.fromkeys(v.corrected.test for v in result.verdicts))
    words = list(dict.fromkeys(f'"{v.text}"' for v in result.verdicts if v.text))
    said = f"In the paper's words: {'; '.join(words)}. " if words else ""
    said += (
        "Advantage: the mean over trials of what the claim says is positive. agrees: significantly above 0; does not "
        f"agree: significantly below; not decidable: neither, or too few trials. The paper's test is the {own}; the "
        f"corrected one, which counts what trials have in common, the {corrected}, Holm-adjusted over all rows. Level "
        f"{result.plan.study.test.level:g}."
    )
    return ReportTable(columns, tuple(rows), said)


def facts(result: StudyResult) -> list[tuple[str, str]]:
    """What was run, as (what, how) pairs.

    Args:
        result: of a study.
    """
    plan, study = result.plan, result.plan.study
    budget = plan.budget
    size = f" ({plan.n_queries:,} queries, {plan.n_features} features)" if plan.n_queries else ""
    things, trained = "trainings", f", at most {budget.trees} trees"
    if study.measures_only:
        things, trained = "measurements", ""
    if budget.configurations:
        trained += f", the best of {budget.configurations} configurations by validation {study.metrics[0]}"
    rows = [
        ("paper", study.paper),
        ("claim", study.claim),
        ("data", ", ".join(plan.data.given) + size),
        ("protocol", _protocol(result)),
        ("budget", f"{budget.trials} trials{trained}; seed {plan.seed}"),
        ("finished", f"{result.n_done} of {plan.size} {things}{_failed(result)}"),
        ("paper's test", str(study.test)),
    ]
    if plan.used_recipe:
        others = plan.used_recipe.data == OTHER_DATA
        whose = plan.used_recipe.title if others else f"the paper's for {plan.used_recipe.title}"
        rows.insert(3, ("parameters", whose))
    if study.note:
        rows.append(("note", study.note))
    if result.verdicts:
        told = f"{result.own_verdict} by the paper's test; {result.verdict} by the corrected test"
        rows.append(("verdict", told))
    return rows


def note(result: StudyResult, *, tests: bool = True) -> str:
    """How to read the tables, in one paragraph.

    Args:
        result: of a study.
        tests: whether they show tests.
    """
    study = result.plan.study
    # Claims of training queries or of curves are judged by other tests than the cells of the table.
    corrected = next((c.corrected.test for c in result.cells if c.corrected), "")
    corrected = corrected or next((v.corrected.test for v in result.verdicts), "")
    text = f"Condition: {study.axis}. " if study.axis else ""
    text += "Mean ± standard deviation over trials. "
    if corrected and tests:
        text += (
            f"'own' is the paper's test ({study.test}); 'corr.' is the {corrected}, which counts what the trials have "
            "in common, Holm-adjusted over the rows of a metric (the claims' over all claims). "
        )
    if result.plan.used_recipe and any(c.printed for c in result.cells):
        text += f"'In print' is what the paper has for {result.plan.used_recipe.title}. "
    return text.strip()


def as_markdown(result: StudyResult) -> str:
    """A page of Markdown.

    Args:
        result: of a study.
    """
    study = result.plan.study
    lines = [f"# {study.title}", ""]
    lines += [f"- **{what}**: {how}" for what, how in facts(result)]
    lines += ["", cell_table(result).to_markdown()]
    if result.verdicts:
        lines.append(claim_table(result).to_markdown())
    if result.failures:
        lines += ["Trials that failed:", ""]
        lines += [f"- {failure.title}: {failure.error}" for failure in result.failures] + [""]
    return "\n".join(lines)


def as_latex(result: StudyResult) -> str:
    """The main table for a paper (booktabs); everything else as comments.

    Args:
        result: of a study.
    """
    lines = [f"% {what}: {how}" for what, how in facts(result)]
    lines.append(cell_table(result).to_latex().rstrip("\n"))
    lines += [f"% {v.sentence}: {_told(v.own)}; corrected: {_told(v.corrected)}" for v in result.verdicts]
    lines += [f"% failed: {failure.title}: {failure.error}" for failure in result.failures]
    return "\n".join([*lines, ""])


def as_csv(result: StudyResult) -> str:
    """The cells, a line each, with all digits; what is missing is empty.

    Args:
        result: of a study.
    """
    rows: list[list[Value]] = []
    for c in result.cells:
        row: list[Value] = [c.condition, result.plan.study.condition(c.condition).value, c.system, c.metric, c.part]
        row += [c.means.size, c.mean, c.deviation, *c.interval, c.printed.value if c.printed else None, c.difference]
        rows.append([*row, *(j.p_value if j else None for j in (c.own, c.corrected))])
    return ReportTable.of(_CSV_FIELDS, rows).to_csv()


def as_dict(result: StudyResult) -> dict[str, Any]:
    """Everything as plain values, ready for JSON.

    Args:
        result: of a study.
    """
    plan, study = result.plan, result.plan.study
    return {
        "study": study.name,
        "version": study.version,
        "title": study.title,
        "facts": dict(facts(result)),
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
        "trees": [{"condition": c, "system": s, "by_trial": n} for (c, s), n in result.trees.items()],
        "seconds": [{"condition": c, "system": s, "by_trial": n} for (c, s), n in result.seconds.items()],
        "chosen": [{"condition": c, "system": s, "by_trial": n} for (c, s), n in result.chosen.items()],
        "curves": [
            {"condition": c, "system": s, "part": p, "by_trial": [[or_none(x) for x in curve] for curve in curves]}
            for (c, s, p), curves in result.curves.items()
        ],
        "points": [{"condition": c, "system": s, **points} for (c, s), points in result.points.items()],
        "failures": [{"trial": failure.title, "error": failure.error} for failure in result.failures],
    }


def terminal_tables(result: StudyResult) -> list[ReportTable]:
    """A table a metric and one of the claims: narrow, for a terminal.

    Args:
        result: of a study.
    """
    metrics = dict.fromkeys(cell.metric for cell in result.cells)
    return [*(cell_table(result, name) for name in metrics), *([claim_table(result)] if result.verdicts else [])]


def p_text(p: float) -> str:
    """A p-value for a table.

    >>> p_text(0.01234), p_text(3e-5), p_text(math.nan)
    ('.0123', '<.0001', '-')
    """
    if math.isnan(p):
        return _NONE
    return "<.0001" if p < 1e-4 else _short(f"{p:.4f}")


def _short(number: str) -> str:
    """Without the zero before the point, which every share has."""
    return re.sub(r"^([+-]?)0\.", r"\1.", number)


def mean_text(cell: CellResult | None) -> str:
    """Mean and standard deviation of a cell for a table.

    Args:
        cell: which; None where there is none.

    >>> mean_text(None)
    '-'
    """
    if cell is None or not cell.means.size:
        return _NONE
    spread = "" if math.isnan(cell.deviation) else f" ±{_short(f'{cell.deviation:.4f}')}"
    return f"{cell.mean:.4f}{spread}"


def printed_text(cell: CellResult | None) -> str:
    """What the paper has in the place of a cell, for a table.

    Args:
        cell: which; None where there is none.

    >>> printed_text(None)
    '-'
    """
    if cell is None or cell.printed is None:
        return _NONE
    spread = f" ±{_short(f'{cell.printed.spread:.4f}')}" if cell.printed.spread is not None else ""
    return f"{cell.printed.value:.4f}{spread}"


def signed_text(value: float) -> str:
    """A difference for a table.

    >>> signed_text(0.0123), signed_text(-1.5), signed_text(math.nan)
    ('+.0123', '-1.5000', '-')
    """
    return _NONE if math.isnan(value) else _short(f"{value:+.4f}")


def _cell_dict(cell: CellResult) -> dict[str, Any]:
    low, high = cell.interval
    return {
        "condition": cell.condition,
        "system": cell.system,
        "metric": cell.metric,
        "part": cell.part,
        "by_trial": dict(zip(map(str, cell.numbers), cell.means.tolist(), strict=True)),
        "mean": or_none(cell.mean),
        "deviation": or_none(cell.deviation),
        "interval": [or_none(low), or_none(high)],
        "printed": cell.printed.value if cell.printed else None,
        "difference": or_none(cell.difference),
        "own": _judgement_dict(cell.own),
        "corrected": _judgement_dict(cell.corrected),
    }


def _told(judgement: Judgement) -> str:
    return f"{judgement.verdict}, p {p_text(judgement.p_value)}"


def _judgement_dict(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None:
        return None
    return {"test": judgement.test, "p": or_none(judgement.p_value), "verdict": judgement.verdict}


def _protocol(result: StudyResult) -> str:
    protocol = result.plan.study.protocol
    if isinstance(protocol, Resampling):
        shares = (protocol.train, protocol.valid, protocol.test)
        return "queries divided anew in each trial, " + "/".join(f"{100 * share:g}" for share in shares)
    if isinstance(protocol, OwnFolds):
        return "a trial a fold"
    if isinstance(protocol, OnItself):
        return "trained and tested on the same queries"
    assert isinstance(protocol, FixedParts)
    varied = "training and validation queries divided anew" if protocol.redivide else "only seeds differ"
    return f"the same test queries in each trial, {varied}"


def _failed(result: StudyResult) -> str:
    n = len(result.failures)
    failed = f"; {n} failed" if n else ""
    constant = f"; {result.n_constant} models found nothing to split and rank nothing" if result.n_constant else ""
    return failed + constant
