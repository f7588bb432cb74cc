"""The tables of comparisons and studies, once for the terminal, Markdown, LaTeX, CSV and the
page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.experiments.divide import Change, FixedParts, OwnFolds, Resampling
from tautrank.experiments.plan import PLAIN
from tautrank.experiments.result import CellResult, Comparison, PairTest
from tautrank.json_values import from_json, or_nan
from tautrank.papers.results import StudyResult
from tautrank.papers.study import OTHER_DATA
from tautrank.report.figures import query_gains, same_queries
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


def tables(result: Comparison) -> dict[str, Table]:
    """Return the results, and the verdicts on the claims of a study or every pair of a comparison,
    by title.

    Args:
        result: the result of a comparison or a study.
    """
    found = result_tables(result)
    if isinstance(result, StudyResult) and result.verdicts:
        found["Claims"] = claim_table(result)
    if result.pairs == "all" and any(map(result.tests, result.metrics)):
        found["Every pair"] = pair_table(result)
    return found


def to_markdown(result: Comparison) -> str:
    """Return the tables in Markdown; of a study, a page with what was run.

    Args:
        result: the result of a comparison or a study.
    """
    lines = []
    if isinstance(result, StudyResult):
        lines += [f"# {result.plan.study.title}", ""]
        lines += [*(f"- **{what}**: {how}" for what, how in facts(result).items()), ""]
    for title, table in tables(result).items():
        lines += [f"## {title}", "", table.to_markdown()]
    if result.failures:
        lines += [
            "## Failed trials",
            "",
            *(f"- {failure.title}: {failure.error}" for failure in result.failures),
            "",
        ]
    return "\n".join(lines)


def to_latex(result: Comparison) -> str:
    """Return the tables of results for a paper (booktabs); everything else as comments.

    Args:
        result: the result of a comparison or a study.
    """
    lines = []
    if isinstance(result, StudyResult):
        lines += [f"% {what}: {how}" for what, how in facts(result).items()]
    for title, table in result_tables(result).items():
        lines += [f"% {title}", table.to_latex()]
    if isinstance(result, StudyResult):
        for v in result.verdicts:
            lines.append(
                f"% {v.sentence}: {_outcome_text(v.tested)}; by the paper's test: {_outcome_text(v.own)}"
            )
    lines += [f"% failed: {failure.title}: {failure.error}" for failure in result.failures]
    return "\n".join([*lines, ""])


def to_csv(result: Comparison) -> str:
    """Return the cells as CSV, one line per cell, with all digits; missing values are empty.

    Args:
        result: the result of a comparison or a study.
    """
    return result_table(result, result.cells).to_csv()


def to_dict(result: Comparison) -> dict[str, Any]:
    """Return everything as plain values, ready for JSON.

    Args:
        result: the result of a comparison or a study.
    """
    plan, study, failed = result.plan, result.plan.study, len(result.failures)
    found: dict[str, Any] = {
        "trained_with": result.trained_with,
        "trials": {
            "planned": plan.size,
            "done": result.n_done,
            "failed": failed,
            "constant": result.n_constant,
        },
        "conditions": [{"name": c.name, "value": c.value} for c in study.conditions],
        "baseline": study.baseline,
        "cells": [_cell_dict(cell) for cell in result.cells],
    }
    for name in ("trees", "seconds", "chosen"):
        found[name] = [
            {"condition": c, "system": s, "by_trial": v}
            for (c, s), v in getattr(result, name).items()
        ]
    found |= {
        "curves": [
            {"condition": c, "system": s, "part": p, "by_trial": v}
            for (c, s, p), v in result.curves.items()
        ],
        "points": [
            {"condition": c, "system": s, **points} for (c, s), points in result.points.items()
        ],
        "failures": [
            {"trial": failure.title, "error": failure.error} for failure in result.failures
        ],
    }
    if isinstance(result, StudyResult):
        plan, study = result.plan, result.plan.study
        own = {
            "study": study.name,
            "version": study.version,
            "title": study.title,
            "facts": facts(result),
        }
        own |= {name: result.meta.get(name) for name in ("tautrank", "data_fingerprint")}
        own |= {"recipe": plan.recipe or None, "axis": study.axis or None}
        whole = {"own": result.own_verdict, "tested": result.verdict} if result.verdicts else None
        found = {**own, **found, "claims": result.verdicts, "verdict": whole}
    else:
        names = study.system_names
        pairs = {
            str(m): [
                {**vars(t), "better": names[t.better], "worse": names[t.worse]}
                for t in result.tests(m)
            ]
            for m in result.metrics
        }
        how = {
            "repeats": plan.budget.trials,
            "vary": vary(result),
            "alpha": result.alpha,
            "compared": result.pairs,
        }
        found = {**how, **found, "remarks": result.remarks, "pairs": pairs}
    # Through JSON and back: verdicts and outcomes as dictionaries, tuples as lists, NaN and
    # infinities as None.
    return dict(json.loads(json.dumps(found, default=vars), parse_constant=lambda _: None))


def _cell_dict(cell: CellResult) -> dict[str, Any]:
    numbers = ("mean", "deviation", "difference", "tried", "interval", "printed", "own", "tested")
    return {
        **{name: getattr(cell, name) for name in ("condition", "system", "metric", "part")},
        "by_trial": dict(zip(cell.numbers, cell.means.tolist(), strict=True)),
        **{name: getattr(cell, name) for name in numbers},
    }


# ---- What was run


def facts(result: StudyResult) -> dict[str, str]:
    """Return what was run, in words.

    Args:
        result: the result of a study.
    """
    plan, study, budget = result.plan, result.plan.study, result.plan.budget
    size = f" ({plan.n_queries:,} queries, {plan.n_features} features)" if plan.n_queries else ""
    things, trained = (
        ("measurements", "")
        if study.measures_only
        else ("trainings", f", at most {budget.trees} trees")
    )
    if budget.configurations:
        trained += (
            f", the best of {budget.configurations} configurations by validation {study.metrics[0]}"
        )
    finished = f"{result.n_done} of {plan.size} {things}"
    finished += f"; {len(result.failures)} failed" if result.failures else ""
    finished += (
        f"; {result.n_constant} models found no split and rank nothing" if result.n_constant else ""
    )
    recipe, whose = plan.used_recipe, ""
    verdict = (
        f"{result.verdict}; by the paper's own test: {result.own_verdict}"
        if result.verdicts
        else ""
    )
    if recipe:
        whose = recipe.title if recipe.data == OTHER_DATA else f"the paper's for {recipe.title}"
    found = {
        "paper": study.paper,
        "claim": study.claim,
        "data": ", ".join(plan.data.given) + size,
        "parameters": whose,
    }
    found |= {
        "protocol": _protocol(result),
        "budget": f"{budget.trials} trials{trained}; seed {plan.seed}",
    }
    found |= {
        "finished": finished,
        "paper's test": str(study.test),
        "note": study.note,
        "verdict": verdict,
    }
    return {what: how for what, how in found.items() if how}


def vary(result: Comparison) -> str:
    """Return what differs between the repeats of a comparison; empty if it is not known.

    Args:
        result: the result of a comparison.
    """
    return str(getattr(result.plan.study.protocol, "vary", ""))


def _protocol(result: StudyResult) -> str:
    protocol = result.plan.study.protocol
    if isinstance(protocol, Resampling):
        shares = (protocol.train, protocol.valid, protocol.test)
        return "every trial splits the queries at random, " + "/".join(
            f"{100 * share:g}" for share in shares
        )
    if isinstance(protocol, FixedParts):
        varied = (
            "new split of training and validation queries"
            if protocol.redivide
            else "only seeds differ"
        )
        return f"the same test queries in every trial, {varied}"
    return (
        "one trial per fold"
        if isinstance(protocol, OwnFolds)
        else "trained and tested on the same queries"
    )


# ---- Results


def result_tables(result: Comparison) -> dict[str, Table]:
    """Return the means with their tests, one table per metric; the note of the last one says how to
    read all of them.

    Trees and seconds, which no metric changes, are in the first one.

    A single table, titled "Results", serves one system, or conditions that are judged by metrics of
    their own.

    Args:
        result: the result of a comparison or a study.
    """
    study, metrics = result.plan.study, result.plan.study.metrics
    if len(study.systems) == 1 or len(metrics) == 1 or own_metrics(result):
        return {"Results": result_table(result, result.cells, reading(result))}
    found = {}
    for name in metrics:
        cells = [cell for cell in result.cells if cell.metric == name]
        note = reading(result, cells) if name == metrics[-1] else _seen(result, cells)
        found[name] = result_table(result, cells, note)
    return found


def own_metrics(result: Comparison) -> bool:
    """Return whether some conditions are judged by metrics of their own.

    Args:
        result: the result of a comparison or a study.
    """
    return any(condition.metrics for condition in result.plan.study.conditions)


def reading(result: Comparison, cells: Sequence[CellResult] = ()) -> str:
    """Return how to read the tables of results, in one paragraph.

    Args:
        result: the result of a comparison or a study.
        cells: those of the table; by default all.
    """
    study = result.plan.study
    text = (
        _reading_of_study(result)
        if isinstance(result, StudyResult)
        else _reading_of_comparison(result)
    )
    tests = dict.fromkeys(cell.tested.test for cell in result.cells if cell.tested)
    if not tests:
        return text
    compared = (
        "every two systems" if result.pairs == "all" else f"every system with {study.baseline}"
    )
    text += f" 'minus {study.baseline}' has its {100 * (1 - result.alpha):g} % confidence interval. p is from the "
    text += f"{' or '.join(tests)}, adjusted by Holm's method for comparing {compared} on a metric; {MARK} marks p of "
    text += f"at most {result.alpha:g}. Detectable is the smallest true difference that the comparison alone would "
    text += f"find with 80 % power. {_seen(result, cells or result.cells)}"
    if not study.measures_only:
        which = "by their means over trials" if same_queries(study.protocol) else "of all trials"
        text += f" w/t/l: test queries {which} won, tied and lost against {study.baseline}."
    return text


def _seen(result: Comparison, cells: Sequence[CellResult]) -> str:
    """What the tests of each metric could have seen, in words."""
    judged = [(cell.metric, cell.tested) for cell in cells if cell.tested]
    by_metric = {name: [test for metric, test in judged if metric == name] for name, _ in judged}
    compared = None if result.pairs == "baseline" else math.comb(len(result.plan.study.systems), 2)
    notes = dict.fromkeys(f"Note: {test.note}." for _, test in judged if test.note)
    return " ".join(filter(None, [power_note(by_metric, result.alpha, compared), *notes]))


def power_note(
    judged: Mapping[str, Sequence[TestOutcome]], level: float, compared: int | None = None
) -> str:
    """Return what tests could have seen, in words; empty if nothing was left to chance.

    Args:
        judged: the outcomes that stand together, by metric.
        level: the level of the tests.
        compared: the number of comparisons that Holm's method counts; by default those given.
    """
    alone, first = dict[str, str](), dict[str, str]()
    for name, each in judged.items():
        if known := [one for one in each if one.standard_error > 0]:
            for found, at in ((alone, level), (first, level / (compared or len(each)))):
                seen = (
                    TestOutcome.of("", 0.0, one.standard_error, one.degrees, at).detectable
                    for one in known
                )
                found[name] = difference_text(max(seen))[1:]
    if not alone:
        return ""
    one = len(alone) == 1
    sizes = [size if one else f"{size} on {name}" for name, size in alone.items()]
    text = f"{'A true difference' if one else 'True differences'} of {', '.join(sizes)} would be found with 80 % power"
    if first != alone:
        text += f", and {'one' if one else 'those'} of {', '.join(first.values())} at the first step of Holm's method"
    return f"{text}."


def _reading_of_comparison(result: Comparison) -> str:
    n, tune, first = result.plan.budget.trials, result.plan.budget.configurations, result.metrics[0]
    how = "training/validation splits drawn anew" if vary(result) == "splits" else "other seeds"
    given = result.plan.study.given
    text = f"Mean ± standard deviation over {n} {'runs' if given else f'repeats ({how})'}."
    if n == 1:
        text = (
            "One run each."
            if given
            else "One training each: nothing is known of other seeds and splits."
        )
    if tune:
        text += f" Each training picks the best of {tune} random configurations by validation {first}; 'all tried' is"
        text += " the mean over all of them."
    return " ".join(
        [
            f"{text} Ties: {first.ties}; empty queries: {EMPTY_QUERIES[first.empty]}.",
            *result.remarks,
        ]
    )


def _reading_of_study(result: StudyResult) -> str:
    study = result.plan.study
    text = f"Condition: {study.axis}. " if study.axis else ""
    text += "Mean ± standard deviation over trials."
    if result.plan.used_recipe and any(c.printed is not None for c in result.cells):
        text += f" 'In print' is the paper's number for {result.plan.used_recipe.title}, and 'lead' its difference "
        text += f"from {study.baseline} there. On other data than the paper's, compare leads rather than values."
    if len(study.systems) > 1:
        text += f" 'p own' is from the paper's test ({study.test}); {OWN_MARK} marks what it finds significant."
    return text


def result_table(result: Comparison, cells: Sequence[CellResult], note: str = "") -> Table:
    """Return one row per cell: its place, as far as cells differ in it, the mean, and the tests
    against the baseline.

    Args:
        result: the result of a comparison or a study.
        cells: the cells to show.
        note: how to read the table.
    """
    study = result.plan.study
    metrics = {cell.metric for cell in cells}
    printed, tried = (
        any(c.printed is not None for c in cells),
        any(not math.isnan(c.tried) for c in cells),
    )
    rows = []
    for cell in cells:
        lower = "" if cell.higher_is_better else " (lower is better)"
        row = []
        if study.condition_names != (PLAIN,):
            values = (study.condition(cell.condition).value, cell.condition)
            row.append(
                (
                    Column("condition", ("value", "condition"), words=True),
                    Cell(cell.condition, values),
                )
            )
        row.append(text_cell("system", cell.system))
        if len(metrics) > 1:
            row.append((Column("metric", words=True), Cell(cell.metric + lower, (cell.metric,))))
        if len(study.judged) > 1:
            row.append(text_cell("queries", cell.part))
        fields, numbers = (
            ("mean", "deviation", "low", "high"),
            (cell.mean, cell.deviation, *cell.interval),
        )
        title = "mean" if len(metrics) > 1 else cell.metric + lower
        place = (cell.condition, cell.metric, cell.part)
        rivals = [
            c.mean for c in cells if (c.condition, c.metric, c.part) == place and c.means.size
        ]
        best = (
            max(rivals, default=math.nan)
            if cell.higher_is_better
            else min(rivals, default=math.nan)
        )
        style = "bold" if cell.mean == best and len(study.systems) > 1 else ""
        shown = Cell(mean_text(cell.mean, cell.deviation), numbers, style=style)
        row.append((Column(title, fields, high_first=cell.higher_is_better), shown))
        row += [number_cell("all tried", cell.tried, mean_text(cell.tried, None))] if tried else []
        row += _printed_cells(result, cell) if printed else []
        row += _baseline_cells(result, cell) if len(study.systems) > 1 else []
        # The same study gives the same tables; its trees and seconds are told beside its
        # parameters.
        again = isinstance(result, StudyResult) or study.metrics[0] not in metrics
        rows.append([*row, *([] if again else _spent_cells(result, (cell.condition, cell.system)))])
    return Table.of_rows(rows, note)


def _printed_cells(result: Comparison, cell: CellResult) -> list[Titled]:
    """The paper's number, what is above it here, and the paper's lead over the baseline."""
    reference = result.cell(cell.condition, result.plan.study.baseline, cell.metric, cell.part)
    value, base = or_nan(cell.printed), math.nan if cell is reference else or_nan(reference.printed)
    found = {"here minus print": cell.mean - value, "lead in print": value - base}
    column = Column("in print", ("in print", "in print spread"), high_first=cell.higher_is_better)
    shown = Cell(mean_text(value, cell.printed_spread), (value, cell.printed_spread))
    return [
        (column, shown),
        *(number_cell(title, number, difference_text(number)) for title, number in found.items()),
    ]


def _baseline_cells(result: Comparison, cell: CellResult) -> list[Titled]:
    """The difference from the baseline with its tests, what could have been seen, and the queries
    won and lost.
    """
    study, judged = result.plan.study, cell.tested or TestOutcome("")
    tests = ((OWN_MARK, cell.own), (MARK, cell.tested))
    marks = "".join(mark for mark, test in tests if test and test.verdict != UNDECIDED)
    p = Cell(p_text(judged.adjusted) if cell.tested else "", (judged.adjusted, judged.p_value))
    cells = [_difference_cell(f"minus {study.baseline}", judged, marks)]
    cells += [(Column("p", ("p", "p of one comparison")), p), _detectable_cell(judged)]
    if isinstance(result, StudyResult):
        cells.append(
            p_cell("p own", cell.own.p_value) if cell.own else p_cell("p own", math.nan, "")
        )
    if study.measures_only:
        return cells
    found = query_gains(result, cell.condition, cell.metric, [cell.system]) if cell.tested else None
    counts = None if found is None else win_tie_loss(found.gains[cell.system])
    won = Cell("/".join(map(str, counts)), counts) if counts else Cell("", (None, None, None))
    return [*cells, (Column("w/t/l", ("won", "tied", "lost"), high_first=True), won)]


def _difference_cell(title: str, judged: TestOutcome | PairTest, marks: str = "") -> Titled:
    numbers = (judged.difference, judged.low, judged.high)
    text = "" if math.isnan(judged.difference) else difference_text(judged.difference)
    if not math.isnan(judged.low):
        text += f" [{difference_text(judged.low)}, {difference_text(judged.high)}]"
    style = ("green" if judged.difference > 0 else "red") if MARK in marks else ""
    return Column(title, (title, f"{title} low", f"{title} high"), high_first=True), Cell(
        text, numbers, marks, style
    )


def _detectable_cell(judged: TestOutcome) -> Titled:
    value = judged.detectable
    return number_cell(
        "detectable",
        value,
        "" if math.isnan(value) else difference_text(value)[1:],
        high_first=False,
    )


def _spent_cells(result: Comparison, place: tuple[str, str]) -> list[Titled]:
    """The means over trials of trees and seconds, where they are known."""
    cells = []
    for title, by_place, form in (
        ("trees", result.trees, ".0f"),
        ("seconds", result.seconds, ".2f"),
    ):
        if by_place:
            mean = float(np.mean(by_place[place])) if place in by_place else math.nan
            cells.append(
                number_cell(
                    title, mean, f"{mean:{form}}" if place in by_place else "-", high_first=False
                )
            )
    return cells


def pair_table(result: Comparison) -> Table:
    """Return one row per pair of systems and metric: which is better, by how much, how sure that
    is.

    Args:
        result: the result of a comparison.
    """
    rows = []
    for name in result.plan.study.metrics:
        for test in result.tests(name):
            row = [text_cell("metric", name), text_cell("better", result.systems[test.better].name)]
            row += [
                text_cell("worse", result.systems[test.worse].name),
                _difference_cell("difference", test),
            ]
            rows.append(
                [*row, p_cell("p of one comparison", test.p_value), p_cell("p", test.adjusted)]
            )
    return Table.of_rows(rows, "p counts all pairs of a metric, by Holm's method.")


def claim_table(result: StudyResult) -> Table:
    """Return every comparison that the claims make: what should be positive, the verdict, and the
    paper's own test.

    Args:
        result: the result of a study.
    """
    rows = []
    for v in result.verdicts:
        row = [
            (
                Column("claim", ("claim", "in the paper's words"), words=True),
                Cell(v.sentence, (v.sentence, v.text)),
            )
        ]
        row += [text_cell("verdict", v.tested.verdict), _difference_cell("advantage", v.tested)]
        row += [p_cell("p", v.tested.adjusted), _detectable_cell(v.tested)]
        column = Column("paper's test", ("p own", "verdict own"), words=True)
        row.append((column, Cell(_outcome_text(v.own), (v.own.p_value, v.own.verdict))))
        rows.append([*row, number_cell("trials", v.trials, str(v.trials))])
    own, tested = (
        " or ".join(dict.fromkeys(getattr(v, n).test for v in result.verdicts))
        for n in ("own", "tested")
    )
    words = list(dict.fromkeys(f'"{v.text}"' for v in result.verdicts if v.text))
    note = f"In the paper's words: {'; '.join(words)}. " if words else ""
    note += f"Advantage: the number that the claim says is positive, with its {100 * (1 - result.alpha):g} % "
    note += "confidence interval. holds: significantly above 0; fails: significantly below 0; undecided: neither. "
    note += f"p: {tested}, adjusted by Holm's method for all rows, level {result.alpha:g}. "
    note += (
        "Detectable: the smallest true advantage that the row alone would find with 80 % power. "
    )
    note += f"The paper's test: {own}. {power_note({'': [v.tested for v in result.verdicts]}, result.alpha)}"
    return Table.of_rows(rows, note)


def _outcome_text(outcome: TestOutcome) -> str:
    return f"{outcome.verdict}, p {p_text(outcome.adjusted)}"


# ---- What was trained


def run_table(result: Comparison) -> Table:
    """Return what was trained (or measured) under each condition, with all parameters, trees and
    time.

    Args:
        result: the result of a comparison or a study.
    """
    study = result.plan.study
    given = [
        [text_cell("system", str(s)), text_cell("run", run)] for s in study.given for run in s.runs
    ]
    if given:
        return Table.of_rows(given)
    specs = [
        trial.spec for trial in result.plan.trials()[: len(study.conditions) * len(study.systems)]
    ]
    changing, searching = (
        any(spec["changes"] for spec in specs),
        any(spec.get("search") for spec in specs),
    )
    rows = []
    for spec in specs:
        row = (
            [text_cell("condition", spec["condition"])] if study.condition_names != (PLAIN,) else []
        )
        row.append(text_cell("system", spec["system"]))
        row.append(
            text_cell(
                "measurement" if study.measures_only else "loss",
                spec.get("loss") or spec["measure"],
            )
        )
        row += _spent_cells(result, (spec["condition"], spec["system"]))
        row.append(text_cell("parameters", parameters_text(from_json(spec["parameters"]))))
        if searching:
            chosen = result.chosen.get((spec["condition"], spec["system"]), [])
            row.append(text_cell("searched", parameters_text(from_json(spec["search"]))))
            row.append(text_cell("chosen, trial by trial", "; ".join(map(parameters_text, chosen))))
        if changing:
            row.append(
                text_cell(
                    "change of the data", "; ".join(map(_change_text, from_json(spec["changes"])))
                )
            )
        rows.append(row)
    return Table.of_rows(rows, "Trees and seconds are means over trials.")


def _change_text(change: Change) -> str:
    return f"{change.kind}({parameters_text(change.parameters)}) of {', '.join(change.parts)}"


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())
