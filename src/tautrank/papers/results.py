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

from tautrank.arrays import F64
from tautrank.experiments import comparison_tables
from tautrank.experiments.comparison_values import Cell, CellResult
from tautrank.experiments.finished_trials import FinishedTrials
from tautrank.experiments.protocols import Draw, queries_of_trial
from tautrank.experiments.result import Comparison
from tautrank.metrics import metric
from tautrank.papers import study_page, study_tables
from tautrank.papers.claims import Better, BetterUnder, Claim
from tautrank.papers.plan import StudyPlan
from tautrank.papers.store import StudyStore
from tautrank.papers.study import PaperTest
from tautrank.papers.study_values import StudyValues, Verdict
from tautrank.report.page import Page
from tautrank.significance.paired import holm, paired_t_test, t_tail
from tautrank.significance.systems import resampled_systems_test
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED, TestOutcome, over_trials
from tautrank.tables import Table


@dataclass(frozen=True, eq=False)
class Advantage:
    """What should be positive, in every trial.

    Args:
        trials: one number per trial.
        numbers: the numbers of the trials.
        queries: for each trial one number per query, NaN if it is skipped; None if a trial's number
            is not a mean over its queries.
        sides: the values of two systems, one per trial, if the advantage is their difference.
    """

    trials: F64
    numbers: Sequence[int] = ()
    queries: Sequence[F64] | None = None
    sides: tuple[F64, F64] | None = None


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
    found = _Judged(store.plan, store)
    level = store.plan.study.test.level
    return StudyResult(
        **found.fields(),
        meta=store.meta,
        alpha=level,
        cells=_cells(found),
        verdicts=_verdicts(found),
    )


def own_test(advantage: Advantage, test: PaperTest) -> TestOutcome:
    """Judge as the paper did.

    Two intervals at level a, each the mean ± t(a) standard errors, touch where the difference of
    the means is no more than t(a) times the sum of the standard errors; the p-value is the level at
    which they just touch.

    Args:
        advantage: the advantage of the system that should win.
        test: the paper's test.

    >>> advantage = Advantage(np.array([0.25, 0.25, 0.5]))
    >>> round(own_test(advantage, PaperTest(level=0.1)).p_value, 4), own_test(advantage, PaperTest(level=0.1)).verdict
    (0.0572, 'holds')
    """
    d, name = advantage.trials, "paired t-test over trials"
    if test.over == "queries" and advantage.queries is not None:
        name = "paired t-test over the queries of the first trial"
        d = advantage.queries[0] if len(advantage.queries) else np.zeros(0)
        d = d[~np.isnan(d)]
    if d.size < 2:
        return TestOutcome(name)
    mean = float(d.mean())
    if test.kind == "intervals" and advantage.sides is not None and test.over == "trials":
        name = "intervals over trials"
        errors = sum(float(np.std(side, ddof=1)) / math.sqrt(side.size) for side in advantage.sides)
        t = mean / errors if errors else math.copysign(math.inf, mean) if mean else 0.0
        p = t_tail(t, d.size - 1, "two-sided")
    else:
        p = paired_t_test(d, np.zeros_like(d), "greater" if test.one_sided else "two-sided").p_value
    found = TestOutcome(name, mean, p).with_verdict(p, test.level)
    if not test.one_sided:
        return found
    against = mean < 0 and 1 - p <= test.level
    return replace(found, verdict=HOLDS if p <= test.level else FAILS if against else UNDECIDED)


class _Judged(FinishedTrials):
    """The finished trials of a study, and what its claims say about them."""

    plan: StudyPlan

    def sign(self, name: str) -> int:
        """1 where more is better, -1 for a cost; what a measurement gives is taken as it is."""
        return 1 if self.plan.study.measures_only else metric(name).sign

    def advantage(self, claim: Claim, cells: tuple[Cell, ...]) -> Advantage:
        """What a claim says should be positive, in the trials that all of its cells have done."""
        common = sorted(
            set.intersection(
                *(set(self._trials(cell, claim.part, claim.of_curves)) for cell in cells)
            )
        )
        if claim.of_curves:
            return Advantage(
                claim.advantage(lambda cell: self._curves(cell, claim.part, common), cells), common
            )

        def means(cell: Cell) -> F64:
            return self.sign(cell[2]) * np.array(
                [self.means[(*cell, claim.part)][t] for t in common], np.float64
            )

        def of_queries(trial: int) -> F64:
            return claim.query_advantage(
                lambda cell: self.sign(cell[2]) * self.queries[cell][trial], cells
            )

        queries = None
        sizes = [{self.queries[cell][t].size for cell in cells} for t in common]
        if claim.by_query and claim.part == "test" and all(len(size) == 1 for size in sizes):
            queries = [of_queries(trial) for trial in common]
        sides = (means(cells[0]), means(cells[1])) if len(cells) == 2 else None
        return Advantage(claim.advantage(means, cells), common, queries, sides)

    def judge(
        self, compared: Sequence[tuple[Claim, tuple[Cell, ...]]]
    ) -> list[tuple[Advantage, TestOutcome, TestOutcome]]:
        """The advantages of comparisons, each with the outcomes of the paper's test and of the
        one over queries.

        The latter counts all of the comparisons, by Holm's method.
        """
        test = self.plan.study.test
        advantages = [self.advantage(claim, cells) for claim, cells in compared]
        tested = [
            self._test(claim, cells, each)
            for (claim, cells), each in zip(compared, advantages, strict=True)
        ]
        adjusted = holm([outcome.p_value for outcome in tested]).tolist() if tested else []
        judged = [
            found.with_verdict(p, test.level) for found, p in zip(tested, adjusted, strict=True)
        ]
        return [
            (each, own_test(each, test), found)
            for each, found in zip(advantages, judged, strict=True)
        ]

    def _test(self, claim: Claim, cells: tuple[Cell, ...], advantage: Advantage) -> TestOutcome:
        """Test an advantage over queries and trials; over trials alone if all queries are there, or
        none are known.

        A difference of two cells takes the variance between trials from all cells that share their
        condition or system.
        """
        study, trials = self.plan.study, advantage.numbers
        if (
            advantage.queries is None
            or not study.protocol.tests_unseen_queries
            or study.measures_only
        ):
            return over_trials(advantage.trials, self.overlap, study.test.level)
        arrays: list[Sequence[F64]] = [advantage.queries, [0.0 * d for d in advantage.queries]]
        if isinstance(claim, Better | BetterUnder):
            family = [
                *cells,
                *(
                    cell
                    for cell in self._relatives(cells)
                    if set(trials) <= set(self.queries[cell])
                ),
            ]
            arrays = [
                [self.sign(claim.metric) * self.queries[cell][trial] for trial in trials]
                for cell in family
            ]
        values = self._in_place(arrays, trials)
        if np.count_nonzero(~np.isnan(values[0]).all(axis=0)) < 2:
            mean = float(advantage.trials.mean()) if trials else math.nan
            return TestOutcome("test over queries and trials", mean, note="too few queries")
        return TestOutcome.of_pair(
            resampled_systems_test(values, self.overlap, level=study.test.level), 0, 1
        )

    def _relatives(self, cells: tuple[Cell, ...]) -> list[Cell]:
        """The cells of the same metric that have the condition, or the system, that both of the
        given cells have.
        """
        study, ((condition, system, name), (other, *_)) = self.plan.study, cells
        alike = [(condition, each) for each in study.system_names]
        if condition != other:
            alike = [
                (each, system)
                for each in study.condition_names
                if name in study.metrics_under(each)
            ]
        return [(*place, name) for place in alike if (*place, name) not in cells]

    def _in_place(self, arrays: Sequence[Sequence[F64]], trials: Sequence[int]) -> F64:
        """Values ``[arrays, trials, queries]``, each query in its place; NaN where a trial did not
        test it.
        """
        plan, sizes = self.plan, [of_trial.size for of_trial in arrays[0]]
        protocol, folds = plan.study.protocol, len(plan.fingerprints)
        places = [
            queries_of_trial(
                protocol,
                Draw(trial, plan.seed, plan.seed_of(trial, 0)),
                size,
                plan.n_queries,
                folds,
            )
            for trial, size in zip(trials, sizes, strict=True)
        ]
        known, column = np.unique(
            np.concatenate([*places, np.zeros(0, np.int64)]), return_inverse=True
        )
        row = np.repeat(np.arange(len(trials)), sizes)
        values = np.full((len(arrays), len(trials), known.size), math.nan)
        for of_array, given in zip(values, arrays, strict=True):
            of_array[row, column] = np.concatenate([*given, np.zeros(0)])
        values[:, np.isnan(values).any(axis=0)] = math.nan
        return values

    def _trials(self, cell: Cell, part: str, of_curves: bool) -> list[int]:
        if of_curves:
            curves = self.curves.get((cell[0], cell[1], part), {})
            return [trial for trial, curve in curves.items() if curve and not np.isnan(curve).any()]
        found = self.means.get((*cell, part), {})
        return [trial for trial, value in found.items() if not math.isnan(value)]

    def _curves(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """The best value so far after each tree of the budget, one row per trial: what early
        stopping keeps.
        """
        length = self.plan.budget.trees or 1
        rows = np.empty((len(trials), length))
        for row, trial in zip(rows, trials, strict=True):
            curve = self.sign(cell[2]) * np.array(
                self.curves[cell[0], cell[1], part][trial][:length]
            )
            row[: curve.size] = np.maximum.accumulate(curve)
            row[curve.size :] = row[curve.size - 1]
        return rows


def _cells(gathered: _Judged) -> tuple[CellResult, ...]:
    """Compare every system with the baseline under the same condition; Holm counts a metric's
    comparisons.
    """
    study, recipe = gathered.plan.study, gathered.plan.used_recipe
    result: list[CellResult] = []
    compared: dict[str, dict[int, Claim]] = defaultdict(dict)
    printed = {
        (p.condition, p.system, p.metric, p.part): p for p in (recipe.printed if recipe else ())
    }
    for condition in study.condition_names:
        for place in product(
            [condition], study.system_names, study.metrics_under(condition), study.judged
        ):
            by_trial = gathered.means.get(place, {})
            counted = {
                trial: value for trial, value in sorted(by_trial.items()) if not math.isnan(value)
            }
            means = np.array(list(counted.values()), np.float64)
            _, system, name, part = place
            if system != study.baseline and part == "test":
                claim = Better(
                    better=system, worse=study.baseline, metric=name, condition=condition
                )
                compared[name][len(result)] = claim
            shown = (printed[place].value, printed[place].spread) if place in printed else ()
            result.append(
                CellResult(*place, gathered.sign(name) > 0, tuple(counted), means, *shown)
            )
    for name, claims in compared.items():
        judged = gathered.judge([(claim, claim.cells(())[0]) for claim in claims.values()])
        for i, (_, own, tested) in zip(claims, judged, strict=True):
            result[i] = replace(
                result[i], own=own, tested=tested if gathered.sign(name) > 0 else _turned(tested)
            )
    return tuple(result)


def _verdicts(gathered: _Judged) -> tuple[Verdict, ...]:
    study = gathered.plan.study
    compared = [
        (claim, cells) for claim in study.claims for cells in claim.cells(study.condition_names)
    ]
    return tuple(
        Verdict(claim.sentence(cells), advantage.trials.size, own, tested, claim.text)
        for (claim, cells), (advantage, own, tested) in zip(
            compared, gathered.judge(compared), strict=True
        )
    )


def _turned(found: TestOutcome) -> TestOutcome:
    """The outcome of a cost, in its own direction."""
    return replace(found, difference=-found.difference, low=-found.high, high=-found.low)
