"""The tables of a study: what was run, how to read the results, and the verdicts on the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tautrank.experiments.comparison_tables import (
    OWN_MARK,
    as_json_values,
    detectable_cell,
    difference_cell,
    measured_values,
    power_note,
)
from tautrank.papers.study import OTHER_DATA
from tautrank.papers.study_values import StudyValues, Verdict
from tautrank.significance.verdicts import TestOutcome
from tautrank.tables import Cell, Column, Table, Titled, number_cell, p_cell, p_text, text_cell

# ---- What was run


def facts(result: StudyValues) -> dict[str, str]:
    """Return what a study ran, in words: paper, data, protocol, budget, verdict, ..., each under its
    title; what does not apply is left out.

    Args:
        result: the values of a study.
    """
    study = result.plan.study
    verdict = ""
    if result.verdicts:
        verdict = f"{result.verdict}; by the paper's own test: {result.own_verdict}"
    text_by_title = {
        "paper": study.paper,
        "claim": study.claim,
        "data": _data_text(result),
        "parameters": _parameters_text(result),
        "protocol": study.protocol.describe(),
        "budget": _budget_text(result),
        "finished": _finished_text(result),
        "paper's test": str(study.test),
        "note": study.note,
        "verdict": verdict,
    }
    return {title: text for title, text in text_by_title.items() if text}


def _data_text(result: StudyValues) -> str:
    """Return in words the data that a study ran on, such as a folder, with its numbers of queries and
    features if they are known.
    """
    plan = result.plan
    data = ", ".join(plan.data.given)
    if plan.n_queries:
        data += f" ({plan.n_queries:,} queries, {plan.n_features} features)"
    return data


def _parameters_text(result: StudyValues) -> str:
    """Return whose parameters a study used: the paper's for some data set, or others; empty if the
    paper has none for single data sets.
    """
    recipe = result.plan.used_recipe
    if recipe is None:
        return ""
    if recipe.data == OTHER_DATA:
        return recipe.title
    return f"the paper's for {recipe.title}"


def _budget_text(result: StudyValues) -> str:
    """Return in words the budget of a study: how many trials, trees and tried configurations
    (parameters to choose from) it has, and its seed.
    """
    budget, study = result.plan.budget, result.plan.study
    text = f"{budget.repeats} trials"
    if not study.measures_only:
        text += f", at most {budget.trees} trees"
    if budget.configurations:
        text += (
            f", the best of {budget.configurations} configurations by validation {study.metrics[0]}"
        )
    return f"{text}; seed {result.plan.seed}"


def _finished_text(result: StudyValues) -> str:
    """Return in words how many trainings (or measurements, if nothing is trained) of a study are
    finished, how many failed, and how many models rank nothing, having found no split.
    """
    kind = "measurements" if result.measures_only else "trainings"
    text = f"{result.n_done} of {result.plan.size} {kind}"
    if result.failures:
        text += f"; {len(result.failures)} failed"
    if result.n_constant:
        text += f"; {result.n_constant} models found no split and rank nothing"
    return text


# ---- Results


def opening(result: StudyValues) -> str:
    """Return sentences that explain the columns of a study's tables: what the conditions are, what
    the paper prints, and its own test.

    Args:
        result: the values of the study.
    """
    study = result.plan.study
    recipe = result.plan.used_recipe
    sentences = []
    if study.axis:
        sentences.append(f"Condition: {study.axis}.")
    sentences.append("Mean ± standard deviation over trials.")
    has_printed = any(cell.printed is not None for cell in result.cells)
    if recipe and has_printed:
        sentences.append(
            f"'In print' is the paper's number for {recipe.title}, and 'lead' its difference from"
            f" {study.baseline} there. On other data than the paper's, compare leads rather than"
            " values."
        )
    if len(study.systems) > 1:
        sentences.append(
            f"'p own' is from the paper's test ({study.test}); {OWN_MARK} marks what it finds"
            " significant."
        )
    return " ".join(sentences)


def claim_table(result: StudyValues) -> Table:
    """Return the table of a paper's claims: a row for each comparison that they make, with its
    advantage, the verdict, and the outcome of the paper's own test.

    Args:
        result: the values of a study.
    """
    rows = [_claim_row(verdict) for verdict in result.verdicts]
    return Table.of_rows(rows, _claim_note(result))


def _claim_row(verdict: Verdict) -> list[Titled]:
    """Return the row of one comparison in the table of a paper's claims, as cells with their columns:
    the claim, the verdict and p-value of this library's test, and those of the paper's own test.
    """
    tested, by_paper = verdict.tested, verdict.own
    # Where a cell holds two values, they are two columns of CSV.
    claim_column = Column("claim", ("claim", "in the paper's words"), words=True)
    claim_cell = Cell(verdict.sentence, (verdict.sentence, verdict.text))
    paper_column = Column("paper's test", ("p own", "verdict own"), words=True)
    paper_cell = Cell(outcome_text(by_paper), (by_paper.p_value, by_paper.verdict))
    return [
        (claim_column, claim_cell),
        text_cell("verdict", tested.verdict),
        difference_cell("advantage", tested),
        p_cell("p", tested.adjusted),
        detectable_cell(tested),
        (paper_column, paper_cell),
        number_cell("trials", verdict.trials, str(verdict.trials)),
    ]


def _claim_note(result: StudyValues) -> str:
    """Return the text below the table of a paper's claims: the paper's words, and what the columns
    mean.
    """
    outcomes = [verdict.tested for verdict in result.verdicts]
    paper_outcomes = [verdict.own for verdict in result.verdicts]
    quotations = []
    for verdict in result.verdicts:
        quotation = f'"{verdict.text}"'
        if verdict.text and quotation not in quotations:
            quotations.append(quotation)

    sentences = []
    if quotations:
        sentences.append(f"In the paper's words: {'; '.join(quotations)}.")
    level = f"{100 * (1 - result.alpha):g} %"
    tests = _test_names(outcomes)
    sentences += [
        f"Advantage: the number that the claim says is positive, with its {level} confidence"
        " interval.",
        "holds: significantly above 0; fails: significantly below 0; undecided: neither.",
        f"p: {tests}, adjusted by Holm's method for all rows, level {result.alpha:g}.",
        "Detectable: the smallest true advantage that the row alone would find with 80 % power.",
        f"The paper's test: {_test_names(paper_outcomes)}.",
        power_note({"": outcomes}, result.alpha),
    ]
    return " ".join(sentences)


def _test_names(outcomes: Iterable[TestOutcome]) -> str:
    """Return the names of the tests that outcomes come from, each once."""
    names = [outcome.test for outcome in outcomes]
    return " or ".join(dict.fromkeys(names))


def outcome_text(outcome: TestOutcome) -> str:
    """Return the verdict and the adjusted p-value of a test, such as "holds, p 0.003"."""
    return f"{outcome.verdict}, p {p_text(outcome.adjusted)}"


# ---- Other forms


def markdown_heading(result: StudyValues) -> str:
    """Return the title of a study and what was run, as the beginning of a page in Markdown.

    Args:
        result: the values of the study.
    """
    lines = []
    for name, text in facts(result).items():
        lines.append(f"- **{name}**: {text}")
    return "\n".join([f"# {result.plan.study.title}", "", *lines, "", ""])


def latex_heading(result: StudyValues) -> str:
    """Return what was run as comments in LaTeX.

    Args:
        result: the values of a study.
    """
    lines = []
    for name, text in facts(result).items():
        lines.append(f"% {name}: {text}\n")
    return "".join(lines)


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each comparison that a paper's claims make: the claim as a sentence, and the
    outcomes of this library's test (over queries and trials) and of the paper's own.
    """
    lines = []
    for verdict in verdicts:
        tested, by_own_test = outcome_text(verdict.tested), outcome_text(verdict.own)
        lines.append(f"{verdict.sentence}: {tested}; by the paper's test: {by_own_test}")
    return lines


def to_dict(result: StudyValues) -> dict[str, Any]:
    """Return a study as plain values, ready for JSON.

    Args:
        result: the values of the study.
    """
    plan, study = result.plan, result.plan.study
    verdict: Mapping[str, str] | None = None
    if result.verdicts:
        verdict = {"own": result.own_verdict, "tested": result.verdict}
    plain = {
        "study": study.name,
        "version": study.version,
        "title": study.title,
        "facts": facts(result),
        "tautrank": result.meta.get("tautrank"),
        "data_fingerprint": result.meta.get("data_fingerprint"),
        "recipe": plan.recipe or None,
        "axis": study.axis or None,
        **measured_values(result),
        "claims": result.verdicts,
        "verdict": verdict,
    }
    return as_json_values(plain)
