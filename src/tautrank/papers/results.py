"""From a store to what it shows: means, spreads, two tests, the paper's numbers beside them, and
verdicts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.experiments import comparison_tables
from tautrank.experiments.comparison_values import CellPlace, CellResult
from tautrank.experiments.result import Comparison
from tautrank.papers import study_tables
from tautrank.papers.claims import Better
from tautrank.papers.evidence import ClaimedCells, StudyEvidence
from tautrank.papers.store import StudyStore
from tautrank.papers.study import Printed, Recipe
from tautrank.papers.study_values import StudyValues, Verdict
from tautrank.significance.verdicts import TestOutcome
from tautrank.tables import Table

if TYPE_CHECKING:
    from tautrank.report.page import Page


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StudyResult(StudyValues, Comparison):
    """What a study shows so far: a `Comparison` with the paper's numbers beside it, and verdicts.

    Args:
        verdicts: one per comparison that the claims make.
    """

    def titled_tables(self) -> dict[str, Table]:
        """Return the results of each metric, and the verdicts on the claims."""
        tables = self._result_tables()
        if self.verdicts:
            tables["Claims"] = study_tables.claim_table(self)
        return tables

    def opening(self) -> str:
        """Return the first sentences on how to read the tables."""
        return study_tables.opening(self)

    def facts(self) -> dict[str, str]:
        """Return what was run, in words."""
        return study_tables.facts(self)

    def answer(self) -> list[str]:
        """Return the result in words: the verdict on the claim, what is missing, and which system
        is best.
        """
        from tautrank.papers import study_page

        return study_page.answer(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        return study_tables.to_dict(self)

    def page(self, *, figures: bool = True, command: str | None = None) -> Page:
        """Return the page that `to_html` writes; it always has figures.

        Args:
            figures: not used.
            command: the command that runs a study that is not in the catalogue; one of the
                catalogue is run by its name.
        """
        from tautrank.papers import study_page

        claims = study_tables.claim_table(self) if self.verdicts else None
        return study_page.study_page(self, self._result_tables(), claims, command)

    def _result_tables(self) -> dict[str, Table]:
        """Return the tables of means by title, one per metric."""
        # The same study gives the same tables: the time it took is told beside its parameters.
        return comparison_tables.result_tables(self, self.opening(), with_costs=False)

    def _csv(self) -> str:
        """Return all cells as CSV."""
        table = comparison_tables.result_table(self, self.cells, with_costs=False)
        return table.to_csv()

    def _latex(self) -> str:
        """Return the study in LaTeX: its heading and the tables of means, with a comment for each
        verdict on a claim and each failed trial.
        """
        failed = [f"failed: {failure.title}: {failure.error}" for failure in self.failures]
        comments = [*study_tables.verdict_lines(self.verdicts), *failed]
        tables = comparison_tables.to_latex(self._result_tables(), comments)
        return study_tables.latex_heading(self) + tables

    def _markdown(self) -> str:
        """Return the study as a page in Markdown: title, what was run, and tables."""
        tables = comparison_tables.to_markdown(self.titled_tables(), self.failures)
        return study_tables.markdown_heading(self) + tables


def read_results(path: Path) -> StudyResult:
    """Return the results in a store.

    Args:
        path: the store's file; the study may still be running.
    """
    with StudyStore(path) as store:
        return collect(store)


def collect(store: StudyStore) -> StudyResult:
    """Return the results of the finished trials of a study: means, tests and verdicts on the claims.

    Args:
        store: the study's plan and finished trials.
    """
    # The finished trials, with what tests say about the claims; its fields are the result's first.
    evidence = StudyEvidence(store.plan, store)
    return StudyResult(
        **evidence.fields(),
        meta=store.meta,
        alpha=store.plan.study.test.level,
        cells=_cells(evidence),
        verdicts=_verdicts(evidence),
    )


# ---- Cells, each compared with the baseline


def _cells(evidence: StudyEvidence) -> tuple[CellResult, ...]:
    """Return the results of all cells of a study: a cell is one system under one condition, judged
    by one metric on one part of the queries. Those of the test queries are tested against the
    baseline.
    """
    study = evidence.plan.study
    printed_numbers = _printed_by_cell(evidence.plan.used_recipe)
    cells = []
    for condition in study.condition_names:
        metrics = study.metrics_under(condition)
        # A key of a cell is condition, system, metric, and part of the queries.
        for cell_key in product([condition], study.system_names, metrics, study.judged):
            printed = printed_numbers.get(cell_key)
            cells.append(_cell_result(evidence, cell_key, printed))
    return tuple(_with_tests(evidence, cells))


def _printed_by_cell(recipe: Recipe | None) -> dict[CellPlace, Printed]:
    """Return the numbers that a paper prints for a data set, by the cell they belong to: condition,
    system, metric, and part of the queries.
    """
    if recipe is None:
        return {}
    printed_by_cell = {}
    for printed in recipe.printed:
        cell_key = (printed.condition, printed.system, printed.metric, printed.part)
        printed_by_cell[cell_key] = printed
    return printed_by_cell


def _cell_result(
    evidence: StudyEvidence, cell_key: CellPlace, printed: Printed | None
) -> CellResult:
    """Return the result of a cell (one system under one condition, by one metric): its means over
    queries, one per finished trial, with the number that the paper prints.

    Args:
        evidence: the finished trials.
        cell_key: condition, system, metric, and part of the queries.
        printed: the paper's number; None if it prints none.
    """
    condition, system, metric, part = cell_key
    mean_by_trial = evidence.means.get(cell_key, {})
    means = {}
    for trial, mean in sorted(mean_by_trial.items()):
        # NaN: the metric was defined for none of the queries.
        if not math.isnan(mean):
            means[trial] = mean
    # The sign of a metric is -1 for costs, else 1.
    higher_is_better = evidence.sign(metric) > 0
    return CellResult(
        condition=condition,
        system=system,
        metric=metric,
        part=part,
        higher_is_better=higher_is_better,
        numbers=tuple(means),  # the numbers of the trials, which are the keys
        means=np.array(list(means.values()), np.float64),
        printed=printed.value if printed else None,
        printed_spread=printed.spread if printed else None,
    )


def _with_tests(evidence: StudyEvidence, cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells of a study, those of the test queries with the outcomes of tests against the
    baseline under the same condition; all other cells stay untested.

    P-values are adjusted by Holm's method for the number of comparisons by one metric.
    """
    baseline = evidence.plan.study.baseline
    indices_by_metric: dict[str, list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        if cell.system != baseline and cell.part == "test":
            indices_by_metric[cell.metric].append(index)

    cells_with_tests = list(cells)
    for indices in indices_by_metric.values():
        comparisons = [_claim_against(baseline, cells[index]) for index in indices]
        # One call for each metric: p-values are adjusted for the comparisons of a call.
        judgements = evidence.judge(comparisons)
        for index, judgement in zip(indices, judgements, strict=True):
            cell = cells[index]
            outcome = judgement.tested
            # The test had costs negated, so that greater is better.
            if not cell.higher_is_better:
                outcome = _with_opposite_sign(outcome)
            # `own` is the outcome of the paper's own test, `tested` that of this library's.
            cells_with_tests[index] = replace(cell, own=judgement.own, tested=outcome)
    return cells_with_tests


def _claim_against(baseline: str, cell: CellResult) -> ClaimedCells:
    """Return the claim that the system of a cell is better than the baseline, by the same metric and
    under the same condition, with the two cells that it compares.
    """
    claim = Better(better=cell.system, worse=baseline, metric=cell.metric, condition=cell.condition)
    # It names its condition, so that it makes one comparison and needs no list of conditions.
    (compared_cells,) = claim.cells(())
    return ClaimedCells(claim, compared_cells)


def _with_opposite_sign(outcome: TestOutcome) -> TestOutcome:
    """Return the outcome of a test with difference and confidence interval negated."""
    return replace(outcome, difference=-outcome.difference, low=-outcome.high, high=-outcome.low)


# ---- Verdicts on the claims


def _verdicts(evidence: StudyEvidence) -> tuple[Verdict, ...]:
    """Return a verdict (holds, fails or undecided) on every comparison of cells (system, condition,
    metric) that the claims of a paper make; a claim may make one for each condition.
    """
    study = evidence.plan.study
    comparisons = []
    for claim in study.claims:
        for cells in claim.cells(study.condition_names):
            comparisons.append(ClaimedCells(claim, cells))

    verdicts = []
    # Each judgement has the outcomes of the paper's own test and of this library's.
    judgements = evidence.judge(comparisons)
    for (claim, cells), judgement in zip(comparisons, judgements, strict=True):
        verdict = Verdict(
            sentence=claim.sentence(cells),
            trials=judgement.advantage.trials.size,
            own=judgement.own,
            tested=judgement.tested,
            text=claim.text,
        )
        verdicts.append(verdict)
    return tuple(verdicts)
