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
from typing import Any

import numpy as np

from tautrank.experiments import comparison_tables
from tautrank.experiments.comparison_values import CellPlace, CellResult
from tautrank.experiments.result import Comparison
from tautrank.papers import study_page, study_tables
from tautrank.papers.claims import Better
from tautrank.papers.evidence import ClaimedCells, StudyEvidence
from tautrank.papers.store import StudyStore
from tautrank.papers.study import Printed, Recipe
from tautrank.papers.study_values import StudyValues, Verdict
from tautrank.report.page import Page
from tautrank.significance.verdicts import TestOutcome
from tautrank.tables import Table


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
        claims = study_tables.claim_table(self) if self.verdicts else None
        return study_page.study_page(self, self._result_tables(), claims, command)

    def _result_tables(self) -> dict[str, Table]:
        # The same study gives the same tables: the time it took is told beside its parameters.
        return comparison_tables.result_tables(self, self.opening(), with_costs=False)

    def _csv(self) -> str:
        table = comparison_tables.result_table(self, self.cells, with_costs=False)
        return table.to_csv()

    def _latex(self) -> str:
        failed = [f"failed: {failure.title}: {failure.error}" for failure in self.failures]
        comments = [*study_tables.verdict_lines(self.verdicts), *failed]
        tables = comparison_tables.to_latex(self._result_tables(), comments)
        return study_tables.latex_heading(self) + tables

    def _markdown(self) -> str:
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
    """Put the finished trials of a store together, and judge them.

    Args:
        store: the store.
    """
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
    """Return all cells of a study, those of the test queries with their tests."""
    study, printed = evidence.plan.study, _printed_by_place(evidence.plan.used_recipe)
    cells = []
    for condition in study.condition_names:
        metrics = study.metrics_under(condition)
        for place in product([condition], study.system_names, metrics, study.judged):
            cells.append(_cell(evidence, place, printed.get(place)))
    return tuple(_with_tests(evidence, cells))


def _printed_by_place(recipe: Recipe | None) -> dict[CellPlace, Printed]:
    """Return what the paper prints for the data that is used."""
    if recipe is None:
        return {}
    places = {}
    for number in recipe.printed:
        places[number.condition, number.system, number.metric, number.part] = number
    return places


def _cell(evidence: StudyEvidence, place: CellPlace, printed: Printed | None) -> CellResult:
    """Return the means of a cell in its trials, beside what the paper prints."""
    condition, system, metric, part = place
    means = {}
    for trial, mean in sorted(evidence.means.get(place, {}).items()):
        if not math.isnan(mean):
            means[trial] = mean
    return CellResult(
        condition=condition,
        system=system,
        metric=metric,
        part=part,
        higher_is_better=evidence.sign(metric) > 0,
        numbers=tuple(means),
        means=np.array(list(means.values()), np.float64),
        printed=printed.value if printed else None,
        printed_spread=printed.spread if printed else None,
    )


def _with_tests(evidence: StudyEvidence, cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells compared with the baseline under the same condition; Holm's method counts
    the comparisons of a metric.
    """
    baseline = evidence.plan.study.baseline
    numbers_by_metric: dict[str, list[int]] = defaultdict(list)
    for number, cell in enumerate(cells):
        if cell.system != baseline and cell.part == "test":
            numbers_by_metric[cell.metric].append(number)

    tested = list(cells)
    for numbers in numbers_by_metric.values():
        comparisons = [_against(baseline, cells[number]) for number in numbers]
        for number, judged in zip(numbers, evidence.judge(comparisons), strict=True):
            outcome = judged.tested
            if not cells[number].higher_is_better:
                outcome = _of_opposite(outcome)
            tested[number] = replace(cells[number], own=judged.own, tested=outcome)
    return tested


def _against(baseline: str, cell: CellResult) -> ClaimedCells:
    """Return the claim that a system is better than the baseline under the same condition."""
    claim = Better(better=cell.system, worse=baseline, metric=cell.metric, condition=cell.condition)
    return ClaimedCells(claim, claim.cells(())[0])


def _of_opposite(outcome: TestOutcome) -> TestOutcome:
    """Return the outcome of a cost, in its own direction."""
    return replace(outcome, difference=-outcome.difference, low=-outcome.high, high=-outcome.low)


# ---- Verdicts on the claims


def _verdicts(evidence: StudyEvidence) -> tuple[Verdict, ...]:
    """Return a verdict on every comparison that the claims make."""
    study = evidence.plan.study
    comparisons = []
    for claim in study.claims:
        comparisons += [ClaimedCells(claim, cells) for cells in claim.cells(study.condition_names)]
    verdicts = []
    for (claim, cells), judged in zip(comparisons, evidence.judge(comparisons), strict=True):
        verdict = Verdict(
            sentence=claim.sentence(cells),
            trials=judged.advantage.trials.size,
            own=judged.own,
            tested=judged.tested,
            text=claim.text,
        )
        verdicts.append(verdict)
    return tuple(verdicts)
