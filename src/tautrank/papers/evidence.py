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
        """Return 1 for a metric whose greater values are better, -1 for a cost; 1 for what a
        `Measurement` gives, which claims take as it is.
        """
        if self.plan.study.measures_only:
            return 1
        return read_metric(metric).sign

    def judge(self, comparisons: Sequence[ClaimedCells]) -> list[JudgedAdvantage]:
        """Return for each comparison of a paper's claims its advantage (what should be positive) and
        the outcomes of two tests of it: the paper's own, and the library's over queries and trials.

        The p-values of the library's test are adjusted for the number of comparisons, by Holm's
        method.
        """
        if not comparisons:
            return []
        advantages = []
        outcomes = []
        for claim, cells in comparisons:
            advantage = self.advantage(claim, cells)
            advantages.append(advantage)
            outcomes.append(self._test_over_queries_and_trials(claim, cells, advantage))
        adjusted_p_values = holm([outcome.p_value for outcome in outcomes]).tolist()

        paper_test = self.plan.study.test
        judged = []
        for advantage, outcome, p_value in zip(
            advantages, outcomes, adjusted_p_values, strict=True
        ):
            by_paper = judge_as_paper(advantage, paper_test)
            tested = outcome.with_verdict(p_value, paper_test.level)
            judged.append(JudgedAdvantage(advantage, by_paper, tested))
        return judged

    # ---- What a claim says should be positive

    def advantage(self, claim: Claim, cells: tuple[Cell, ...]) -> Advantage:
        """Return the number that a claim says is positive, such as one system's mean less
        another's, for each trial that all compared cells have finished.

        Args:
            claim: the claim.
            cells: the cells (condition, system, metric) of one comparison that it makes.
        """
        trials = self._common_trials(claim, cells)

        # The claim asks for the values of a cell by one of these.
        def curves_of(cell: Cell) -> F64:
            return self._best_so_far(cell, claim.part, trials)

        def means_of(cell: Cell) -> F64:
            return self._means(cell, claim.part, trials)

        # Training curves are of all queries together: there is nothing to test query by query.
        if claim.of_curves:
            return Advantage(claim.advantage(curves_of, cells), trials)
        # What is compared, if it is one cell with another: some papers test these two.
        sides = None
        if len(cells) == 2:
            sides = (means_of(cells[0]), means_of(cells[1]))
        return Advantage(
            trials=claim.advantage(means_of, cells),
            numbers=trials,
            queries=self._query_advantages(claim, cells, trials),
            sides=sides,
        )

    def _common_trials(self, claim: Claim, cells: tuple[Cell, ...]) -> list[int]:
        """Return the numbers of the trials in which all cells of a claim have values, ascending."""
        trials_of_cells = [set(self._trials_with_values(cell, claim)) for cell in cells]
        return sorted(set.intersection(*trials_of_cells))

    def _trials_with_values(self, cell: Cell, claim: Claim) -> list[int]:
        """Return the numbers of the trials in which one cell (condition, system, metric) has what a
        claim is about: a whole training curve, or a mean that is a number.
        """
        condition, system, _metric = cell
        if claim.of_curves:
            curve_by_trial = self.curves.get((condition, system, claim.part), {})
            return [trial for trial, curve in curve_by_trial.items() if _is_whole_curve(curve)]
        mean_by_trial = self.means.get((*cell, claim.part), {})
        return [trial for trial, mean in mean_by_trial.items() if not math.isnan(mean)]

    def _means(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """Return the mean over queries of a cell (condition, system, metric) in each of some trials;
        costs are negated, so that greater is better.
        """
        _condition, _system, metric = cell
        mean_by_trial = self.means[(*cell, part)]
        means = np.array([mean_by_trial[trial] for trial in trials], np.float64)
        return self.sign(metric) * means

    def _query_values(self, cell: Cell, trial: int) -> F64:
        """Return the value of each test query of a cell (condition, system, metric) in one trial;
        costs are negated, so that greater is better.
        """
        _condition, _system, metric = cell
        return self.sign(metric) * self.queries[cell][trial]

    def _best_so_far(self, cell: Cell, part: str, trials: Sequence[int]) -> F64:
        """Return the best validation value up to each tree, one row per trial and one column per
        tree of the budget; this is the value that early stopping would keep.

        A training that stopped early keeps its last value to the end of the row.
        """
        condition, system, metric = cell
        n_trees = self.plan.budget.trees or 1
        curve_by_trial = self.curves[condition, system, part]
        rows = np.empty((len(trials), n_trees))
        for row, trial in enumerate(trials):
            curve = np.array(curve_by_trial[trial][:n_trees])
            best = np.maximum.accumulate(self.sign(metric) * curve)
            rows[row, : best.size] = best
            rows[row, best.size :] = best[-1]
        return rows

    def _query_advantages(
        self, claim: Claim, cells: tuple[Cell, ...], trials: Sequence[int]
    ) -> list[F64] | None:
        """Return, for each trial, an array with the number per test query that a claim says is
        positive, such as one system's value less another's.

        None if the number of a trial is no mean over its queries, or if the compared cells test
        different queries.
        """
        if not claim.by_query or claim.part != "test":
            return None
        advantages = []
        for trial in trials:
            values_by_cell = {cell: self._query_values(cell, trial) for cell in cells}
            numbers_of_queries = {values.size for values in values_by_cell.values()}
            if len(numbers_of_queries) > 1:
                return None
            advantages.append(claim.query_advantage(values_by_cell.__getitem__, cells))
        return advantages

    # ---- The test over queries and trials

    def _test_over_queries_and_trials(
        self, claim: Claim, cells: tuple[Cell, ...], advantage: Advantage
    ) -> TestOutcome:
        """Test whether an advantage of a claim is other than 0, for new test queries and new
        trainings.

        Trials alone are tested if the test queries are no sample of unseen ones, or if the
        advantage is not known query by query.
        """
        study = self.plan.study
        tests_a_sample = study.protocol.tests_unseen_queries and not study.measures_only
        if advantage.queries is None or not tests_a_sample:
            return over_trials(advantage.trials, self.overlap, study.test.level)

        values = self._test_values(claim, cells, advantage)
        # `values[0]` is what the claim is about, trials by queries: NaN where a query was not tested.
        has_value = ~np.isnan(values[0]).all(axis=0)
        n_queries = np.count_nonzero(has_value)
        if n_queries < 2:
            mean = float(advantage.trials.mean()) if advantage.numbers else math.nan
            return TestOutcome("test over queries and trials", mean, note="too few queries")
        test = resampled_systems_test(values, self.overlap, level=study.test.level)
        # The first series less the second.
        return TestOutcome.of_pair(test, 0, 1)

    def _test_values(self, claim: Claim, cells: tuple[Cell, ...], advantage: Advantage) -> F64:
        """Return the values ``[series, trials, queries]`` of the test over queries and trials, which
        compares the first series with the second; NaN where a trial did not test a query.

        A difference of two cells takes the variance between trials from all cells that share their
        condition or system: these are further series. Any other advantage is compared with 0.
        """
        trials = advantage.numbers
        if not isinstance(claim, Better | BetterUnder):
            advantages = list(advantage.queries or ())
            # A product, so that NaN stays NaN.
            zeros = [0.0 * values for values in advantages]
            return self._aligned_by_query([advantages, zeros], trials)

        compared_cells = list(cells)
        for cell in self._related_cells(cells):
            has_all_trials = set(trials) <= set(self.queries[cell])
            if has_all_trials:
                compared_cells.append(cell)
        series = []
        for cell in compared_cells:
            series.append([self._query_values(cell, trial) for trial in trials])
        return self._aligned_by_query(series, trials)

    def _related_cells(self, cells: tuple[Cell, ...]) -> list[Cell]:
        """Return further cells (condition, system, metric) like the two that a claim compares: the
        other systems of their condition if they share it, else the other conditions of their
        system.
        """
        study = self.plan.study
        first_cell, second_cell = cells
        condition, system, metric = first_cell
        related: list[Cell] = []
        if condition == second_cell[0]:
            for name in study.system_names:
                related.append((condition, name, metric))
        else:
            for name in study.condition_names:
                if metric in study.metrics_under(name):
                    related.append((name, system, metric))
        return [cell for cell in related if cell not in cells]

    def _aligned_by_query(self, series: Sequence[Sequence[F64]], trials: Sequence[int]) -> F64:
        """Return series of values of test queries as an array ``[series, trials, queries]``, in
        which a query has the same column in all trials.

        A value is NaN where the trial did not test the query, or where any series lacks it.

        Args:
            series: for each series and trial the values of the trial's test queries.
            trials: the numbers of the trials.
        """
        # Every trial tests a sample of queries: their numbers tell which are the same.
        sizes = [values.size for values in series[0]]
        tested_queries = []
        for trial, size in zip(trials, sizes, strict=True):
            tested_queries.append(self._tested_queries(trial, size))
        empty = np.zeros(0, np.int64)  # without trials there is nothing else to join
        queries, column = np.unique(np.concatenate([empty, *tested_queries]), return_inverse=True)
        # For each value, all trials joined: its trial (row) and its query (column).
        row = np.repeat(np.arange(len(trials)), sizes)

        aligned = np.full((len(series), len(trials), queries.size), math.nan)
        for number, values_of_trials in enumerate(series):
            aligned[number, row, column] = np.concatenate([empty, *values_of_trials])
        # A value that one series lacks does not count in the others either.
        lacks_a_value = np.isnan(aligned).any(axis=0)
        aligned[:, lacks_a_value] = math.nan
        return aligned

    def _tested_queries(self, trial: int, n_tested: int) -> I64:
        """Return the numbers of the test queries of a trial in the whole data; the same query has
        the same number in all trials.
        """
        plan = self.plan
        # A draw says by which seeds a trial divides the queries into training and test data.
        draw = Draw(trial, plan.seed, plan.seed_of(trial, 0))
        # Each fold of the data has a fingerprint.
        n_folds = len(plan.fingerprints)
        return queries_of_trial(plan.study.protocol, draw, n_tested, plan.n_queries, n_folds)


def _is_whole_curve(curve: Sequence[float]) -> bool:
    """Return whether a training curve has a value after every tree."""
    return bool(curve) and not np.isnan(curve).any()


# ---- The paper's own test


def judge_as_paper(advantage: Advantage, test: PaperTest) -> TestOutcome:
    """Test by the paper's own method whether an advantage is other than 0: by a paired t-test, or by
    whether the confidence intervals of two systems touch.

    Two intervals at level a, each the mean ± t(a) standard errors, touch where the difference of
    the means is no more than t(a) times the sum of the standard errors; the p-value is the level at
    which they just touch.

    Args:
        advantage: the advantage of the system that should win.
        test: the paper's test.

    >>> outcome = judge_as_paper(Advantage(np.array([0.25, 0.25, 0.5])), PaperTest(level=0.1))
    >>> round(outcome.p_value, 4), outcome.verdict
    (0.0572, 'holds')
    """
    name = "paired t-test over trials"
    differences = advantage.trials
    if test.over == "queries" and advantage.queries is not None:
        name = "paired t-test over the queries of the first trial"
        differences = _values_of_first_trial(advantage.queries)
    # One number has no variance to test by.
    if differences.size < 2:
        return TestOutcome(name)

    mean = float(differences.mean())
    alternative: Literal["greater", "two-sided"] = "greater" if test.one_sided else "two-sided"
    # `sides` are the values of the two systems, whose intervals are compared.
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


def _values_of_first_trial(values_of_trials: Sequence[F64]) -> F64:
    """Return the values of the queries of the first trial, without the NaN of skipped queries; an
    empty array if there are no trials.
    """
    if not values_of_trials:
        return np.zeros(0)
    values = values_of_trials[0]
    return values[~np.isnan(values)]


def _touching_level(difference: float, sides: tuple[F64, F64]) -> float:
    """Return the significance level at which the confidence intervals of two means just touch.

    They touch where the difference is t times the sum of the two standard errors; the level is the
    two-sided tail of Student's distribution beyond t.

    Args:
        difference: the difference of the two means.
        sides: the values of both samples, of the same size.
    """
    # `ddof=1`: the standard deviation of a sample, with n - 1 as divisor.
    standard_errors = [float(np.std(side, ddof=1)) / math.sqrt(side.size) for side in sides]
    total_error = sum(standard_errors)
    if total_error:
        statistic = difference / total_error
    # Without any spread, means that differ do so at every level.
    elif difference:
        statistic = math.copysign(math.inf, difference)
    else:
        statistic = 0.0
    degrees_of_freedom = sides[0].size - 1
    return t_tail(statistic, degrees_of_freedom, "two-sided")


def _one_sided_verdict(mean: float, p_value: float, level: float) -> str:
    """Return the verdict of a one-sided test on a claim: it holds if the p-value is at most the
    level, and fails if the p-value of the opposite direction is.
    """
    if p_value <= level:
        return HOLDS
    is_opposite_significant = mean < 0 and 1 - p_value <= level
    return FAILS if is_opposite_significant else UNDECIDED
