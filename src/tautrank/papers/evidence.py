"""What the finished trials of a study say about its claims: by the paper's own test, and by the test
over queries and trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.experiments.comparison_values import Cell
from tautrank.experiments.finished_trials import FinishedTrials
from tautrank.experiments.protocols import Draw, queries_of_trial
from tautrank.metrics import metric as read_metric
from tautrank.papers.claims import Better, BetterUnder, Claim
from tautrank.papers.plan import StudyPlan
from tautrank.papers.study import PaperTest
from tautrank.significance.paired import holm, paired_t_test, t_tail
from tautrank.significance.systems import resampled_systems_test
from tautrank.significance.verdicts import FAILS, HOLDS, UNDECIDED, TestOutcome, over_trials


@dataclass(frozen=True, eq=False)
class Advantage:
    """What a claim says should be positive, in every trial.

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


class ClaimedCells(NamedTuple):
    """One comparison of a claim.

    Args:
        claim: the claim.
        cells: the cells that it compares.
    """

    claim: Claim
    cells: tuple[Cell, ...]


class JudgedAdvantage(NamedTuple):
    """What a claim says should be positive, and what tests say about it.

    Args:
        advantage: what should be positive.
        own: the outcome of the paper's own test.
        tested: the outcome of the test over queries and trials.
    """

    advantage: Advantage
    own: TestOutcome
    tested: TestOutcome


class StudyEvidence(FinishedTrials):
    """The finished trials of a study, and what its claims say about them."""

    plan: StudyPlan

    def sign(self, metric: str) -> int:
        """Return 1 where more is better, -1 for a cost; what a measurement gives is taken as it
        is.
        """
        if self.plan.study.measures_only:
            return 1
        return read_metric(metric).sign

    def judge(self, comparisons: Sequence[ClaimedCells]) -> list[JudgedAdvantage]:
        """Judge comparisons by the paper's test, and by the test over queries and trials; the latter
        counts all of them, by Holm's method.
        """
        test = self.plan.study.test
        advantages = [self.advantage(claim, cells) for claim, cells in comparisons]
        outcomes = []
        for (claim, cells), advantage in zip(comparisons, advantages, strict=True):
            outcomes.append(self._outcome(claim, cells, advantage))
        if not outcomes:
            return []

        adjusted = holm([outcome.p_value for outcome in outcomes]).tolist()
        judged = []
        for advantage, outcome, p_value in zip(advantages, outcomes, adjusted, strict=True):
            tested = outcome.with_verdict(p_value, test.level)
            judged.append(JudgedAdvantage(advantage, own_test(advantage, test), tested))
        return judged

    # ---- What a claim says should be positive

    def advantage(self, claim: Claim, cells: tuple[Cell, ...]) -> Advantage:
        """Return what a claim says should be positive, in the trials that all of its cells have
        done.
        """
        trials = self._common_trials(claim, cells)

        def curves(cell: Cell) -> F64:
            return self._best_so_far(cell, claim.part, trials)

        def means(cell: Cell) -> F64:
            return self._means(cell, claim.part, trials)

        if claim.of_curves:
            return Advantage(claim.advantage(curves, cells), trials)
        sides = None
        if len(cells) == 2:
            sides = (means(cells[0]), means(cells[1]))
        return Advantage(
            trials=claim.advantage(means, cells),
            numbers=trials,
            queries=self._query_advantages(claim, cells, trials),
            sides=sides,
        )

    def _common_trials(self, claim: Claim, cells: tuple[Cell, ...]) -> list[int]:
        """Return the numbers of the trials in which all cells of a claim have values."""
        trials = [set(self._trials(cell, claim)) for cell in cells]
        return sorted(set.intersection(*trials))

    def _trials(self, cell: Cell, claim: Claim) -> list[int]:
        """Return the numbers of the trials in which one cell of a claim has values."""
        condition, system, _ = cell
        if claim.of_curves:
            curves = self.curves.get((condition, system, claim.part), {})
            return [number for number, curve in curves.items() if _is_whole(curve)]
        means = self.means.get((*cell, claim.part), {})
        return [number for number, mean in means.items() if not math.isnan(mean)]

    def _means(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """Return the means of a cell in some trials, greater ones being better."""
        _, _, metric = cell
        by_trial = self.means[(*cell, part)]
        means = np.array([by_trial[trial] for trial in trials], np.float64)
        return self.sign(metric) * means

    def _values(self, cell: Cell, trial: int) -> F64:
        """Return the values of the queries of a trial, greater ones being better."""
        _, _, metric = cell
        return self.sign(metric) * self.queries[cell][trial]

    def _best_so_far(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """Return the best value so far after each tree of the budget, one row per trial: what early
        stopping keeps.
        """
        condition, system, metric = cell
        n_trees = self.plan.budget.trees or 1
        rows = np.empty((len(trials), n_trees))
        for row, trial in zip(rows, trials, strict=True):
            recorded = self.curves[condition, system, part][trial][:n_trees]
            best = np.maximum.accumulate(self.sign(metric) * np.array(recorded))
            row[: best.size] = best
            row[best.size :] = best[-1]
        return rows

    def _query_advantages(
        self, claim: Claim, cells: tuple[Cell, ...], trials: Sequence[int]
    ) -> list[F64] | None:
        """Return what should be positive for each test query of each trial; None if the advantage
        of a trial is no mean over its queries, or the cells test different queries.
        """
        if not claim.by_query or claim.part != "test":
            return None
        advantages = []
        for trial in trials:
            values = {cell: self._values(cell, trial) for cell in cells}
            sizes = {of_cell.size for of_cell in values.values()}
            if len(sizes) > 1:
                return None
            advantages.append(claim.query_advantage(values.__getitem__, cells))
        return advantages

    # ---- The test over queries and trials

    def _outcome(self, claim: Claim, cells: tuple[Cell, ...], advantage: Advantage) -> TestOutcome:
        """Test an advantage over queries and trials; over trials alone if all queries are there, or
        none are known.
        """
        study, trials = self.plan.study, advantage.numbers
        tests_a_sample = study.protocol.tests_unseen_queries and not study.measures_only
        if advantage.queries is None or not tests_a_sample:
            return over_trials(advantage.trials, self.overlap, study.test.level)

        values = self._in_place(self._test_arrays(claim, cells, advantage), trials)
        n_judged = np.count_nonzero(~np.isnan(values[0]).all(axis=0))
        if n_judged < 2:
            mean = float(advantage.trials.mean()) if trials else math.nan
            return TestOutcome("test over queries and trials", mean, note="too few queries")
        test = resampled_systems_test(values, self.overlap, level=study.test.level)
        return TestOutcome.of_pair(test, 0, 1)

    def _test_arrays(
        self, claim: Claim, cells: tuple[Cell, ...], advantage: Advantage
    ) -> list[list[F64]]:
        """Return what is tested, the first array against the second, with one entry per trial.

        A difference of two cells takes the variance between trials from all cells that share their
        condition or system; any other advantage is tested against 0.
        """
        trials = advantage.numbers
        if not isinstance(claim, Better | BetterUnder):
            advantages = list(advantage.queries or ())
            return [advantages, [0.0 * values for values in advantages]]
        family = list(cells)
        for cell in self._relatives(cells):
            if set(trials) <= set(self.queries[cell]):
                family.append(cell)
        return [[self._values(cell, trial) for trial in trials] for cell in family]

    def _relatives(self, cells: tuple[Cell, ...]) -> list[Cell]:
        """Return the other cells of the metric that have the condition, or the system, that the two
        cells of a claim share.
        """
        study = self.plan.study
        (condition, system, metric), (second_condition, _, _) = cells
        if condition == second_condition:
            relatives = [(condition, name, metric) for name in study.system_names]
        else:
            relatives = []
            for name in study.condition_names:
                if metric in study.metrics_under(name):
                    relatives.append((name, system, metric))
        return [cell for cell in relatives if cell not in cells]

    def _in_place(self, arrays: Sequence[Sequence[F64]], trials: Sequence[int]) -> F64:
        """Return values ``[arrays, trials, queries]``, each query in its place; NaN where a trial
        did not test it.
        """
        sizes = [of_trial.size for of_trial in arrays[0]]
        none = np.zeros(0, np.int64)  # without trials there is nothing to join
        queries = [
            self._tested_queries(trial, size) for trial, size in zip(trials, sizes, strict=True)
        ]
        numbers, column = np.unique(np.concatenate([none, *queries]), return_inverse=True)
        row = np.repeat(np.arange(len(trials)), sizes)
        values = np.full((len(arrays), len(trials), numbers.size), math.nan)
        for of_array, by_trial in zip(values, arrays, strict=True):
            of_array[row, column] = np.concatenate([none, *by_trial])
        values[:, np.isnan(values).any(axis=0)] = math.nan
        return values

    def _tested_queries(self, trial: int, n_tested: int) -> I64:
        """Return a number for each test query of a trial, the same in all trials."""
        plan = self.plan
        draw = Draw(trial, plan.seed, plan.seed_of(trial, 0))
        n_folds = len(plan.fingerprints)
        return queries_of_trial(plan.study.protocol, draw, n_tested, plan.n_queries, n_folds)


def _is_whole(curve: Sequence[float]) -> bool:
    """Return whether a curve has a value after every tree."""
    return bool(curve) and not np.isnan(curve).any()


# ---- The paper's own test


def own_test(advantage: Advantage, test: PaperTest) -> TestOutcome:
    """Judge as the paper did.

    Two intervals at level a, each the mean ± t(a) standard errors, touch where the difference of
    the means is no more than t(a) times the sum of the standard errors; the p-value is the level at
    which they just touch.

    Args:
        advantage: the advantage of the system that should win.
        test: the paper's test.

    >>> outcome = own_test(Advantage(np.array([0.25, 0.25, 0.5])), PaperTest(level=0.1))
    >>> round(outcome.p_value, 4), outcome.verdict
    (0.0572, 'holds')
    """
    name, differences = "paired t-test over trials", advantage.trials
    if test.over == "queries" and advantage.queries is not None:
        name = "paired t-test over the queries of the first trial"
        differences = _first_trial(advantage.queries)
    if differences.size < 2:
        return TestOutcome(name)

    mean = float(differences.mean())
    alternative: Literal["greater", "two-sided"] = "greater" if test.one_sided else "two-sided"
    if test.kind == "intervals" and test.over == "trials" and advantage.sides is not None:
        name = "intervals over trials"
        p_value = _touching_level(mean, advantage.sides)
    else:
        p_value = paired_t_test(differences, np.zeros_like(differences), alternative).p_value
    outcome = TestOutcome(name, mean, p_value)
    if test.one_sided:
        verdict = _one_sided_verdict(mean, p_value, test.level)
        return replace(outcome, adjusted=p_value, verdict=verdict)
    return outcome.with_verdict(p_value, test.level)


def _first_trial(queries: Sequence[F64]) -> F64:
    """Return the values of the queries of the first trial that are not skipped."""
    if not queries:
        return np.zeros(0)
    return queries[0][~np.isnan(queries[0])]


def _touching_level(mean: float, sides: tuple[F64, F64]) -> float:
    """Return the level at which the intervals of two means touch."""
    errors = [float(np.std(side, ddof=1)) / math.sqrt(side.size) for side in sides]
    total_error = sum(errors)
    if total_error:
        statistic = mean / total_error
    else:
        statistic = math.copysign(math.inf, mean) if mean else 0.0
    return t_tail(statistic, sides[0].size - 1, "two-sided")


def _one_sided_verdict(mean: float, p_value: float, level: float) -> str:
    """Return the verdict of a test whose small p-values speak for the claim."""
    if p_value <= level:
        return HOLDS
    return FAILS if mean < 0 and 1 - p_value <= level else UNDECIDED
