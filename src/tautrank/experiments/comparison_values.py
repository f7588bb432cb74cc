"""The values of a comparison or a study: what was measured, by system and metric, and what tests
say about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.plan import Condition, Plan
from tautrank.metrics import Metric
from tautrank.metrics import metric as read_metric
from tautrank.significance.systems import SystemsTest, systems_test
from tautrank.significance.verdicts import TestOutcome

Cell: TypeAlias = tuple[str, str, str]
"""(condition, system, metric)."""
CellPlace: TypeAlias = tuple[str, str, str, str]
"""(condition, system, metric, part)."""
CurvePlace: TypeAlias = tuple[str, str, str]
"""(condition, system, part)."""
Place: TypeAlias = tuple[str, str]
"""(condition, system)."""
Configurations: TypeAlias = list[dict[str, Any]]
"""What a trial tried, each with its scores."""

_CONFIDENCE = 0.95  # of the intervals of means


@dataclass(frozen=True)
class Failure:
    """A trial that raised an error.

    Args:
        title: the trial in a few words.
        error: its sentence.
    """

    title: str
    error: str


@dataclass(frozen=True, eq=False)
class CellResult:
    """The values of one system under one condition on one metric, over all trials.

    Args:
        condition, system, metric, part: names that tell the cell from others; the part of the data
            is ``test`` unless the study evaluates other parts, too.
        higher_is_better: whether more is better.
        numbers: the numbers of the trials that are done.
        means: the mean over the queries, one per trial.
        printed, printed_spread: the paper's number and what stands after ± there; None if it
            printed none.
        tried: the mean over all configurations of a comparison that tunes; else NaN.
        own: the paper's test against the baseline; None for the baseline itself, and without a
            paper.
        tested: the same by the test over queries and trials: system minus baseline; it holds if the
            system is better.
    """

    condition: str
    system: str
    metric: str
    part: str
    higher_is_better: bool
    numbers: tuple[int, ...]
    means: F64
    printed: float | None = None
    printed_spread: float | None = None
    tried: float = math.nan
    own: TestOutcome | None = None
    tested: TestOutcome | None = None

    @property
    def mean(self) -> float:
        """The mean of the metric over all trials; NaN if no trial is done."""
        if not self.means.size:
            return math.nan
        return float(self.means.mean())

    @property
    def difference(self) -> float:
        """System minus baseline, over the trials that both have done; NaN for the baseline
        itself.
        """
        return self.tested.difference if self.tested else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation of the trials' means; NaN for fewer than two trials."""
        if self.means.size < 2:
            return math.nan
        return float(np.std(self.means, ddof=1))

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of Student's 95 % confidence interval of the mean over
        trials, as papers give it: as if the trials were independent. NaN for fewer than two trials.
        """
        n_trials = self.means.size
        if n_trials < 2:
            return math.nan, math.nan
        from scipy.special import stdtrit  # slow to import

        degrees_of_freedom = n_trials - 1
        # The interval leaves out as much at either end: 95 % confidence is the 97.5 % quantile.
        quantile = float(stdtrit(degrees_of_freedom, (1 + _CONFIDENCE) / 2))
        # The standard error of a mean is the standard deviation by the root of the number of
        # trials.
        half_width = quantile * self.deviation / math.sqrt(n_trials)
        return self.mean - half_width, self.mean + half_width


@dataclass(frozen=True)
class PairTest:
    """The test of one system against another on one metric.

    Args:
        better, worse: the numbers of the two systems in their order, from 0.
        difference: by how much the better one is better.
        low, high: the confidence interval of the difference.
        p_value: the p-value of the test over queries and repeats.
        adjusted: the same after Holm's correction over the pairs of the metric that are compared.
    """

    better: int
    worse: int
    difference: float
    low: float
    high: float
    p_value: float
    adjusted: float


@dataclass(frozen=True, eq=False)
class SystemResult:
    """The values, trees and times of one system in all repeats.

    Args:
        name: the name in tables.
        values: per metric, float64 ``[repeats, queries]``; NaN where the metric skips a query.
        trees, seconds: the number of trees and the time of each training, one per repeat and split.
        valid: the validation score of each model, one per repeat and split.
        untuned: per metric, the test mean over all configurations tried, ``[repeats]``; None
            without tuning.
        histories: the first metric on the validation data after each tree, one list per repeat and
            split.
    """

    name: str
    values: dict[str, F64]
    trees: list[int]
    seconds: list[float]
    valid: list[float]
    untuned: dict[str, list[float]] | None = None
    histories: list[list[float]] = field(default_factory=list)

    def means(self, name: str) -> F64:
        """Return the mean of a metric over the queries in each repeat; NaN if the metric skips every
        query.

        A query that is skipped in one repeat counts in none.

        Args:
            name: the name of the metric.
        """
        values = self.values[name]
        is_skipped = np.isnan(values).any(axis=0)
        if is_skipped.all():
            n_repeats = len(values)
            # No query is left to average over.
            return np.full(n_repeats, math.nan)
        means: F64 = values[:, ~is_skipped].mean(axis=1)
        return means


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ComparisonValues(ABC):
    """What a comparison measured and tested: plain data, and statistics that are computed once.

    Values are kept by (condition, system) or (condition, system, metric), one entry per trial; a
    comparison of several folds has one trial per repeat and fold.

    Args:
        values: by (condition, system, metric), one array per trial: a value per test query.
        trees: by (condition, system), the number of trees of each trial's model.
        seconds: by (condition, system), the time of each trial.
        valid: by (condition, system), the validation score of each trial's model.
        chosen: by (condition, system), the configurations that validated best; empty without a
            search.
        tried: by (condition, system), all configurations of each trial with their scores; empty
            without a search.
        curves: by (condition, system, part), the first metric after each tree, one list per trial.
        points: by (condition, system), what a measurement gives for a figure, of the first trial.
        failures: trials that raised an error.
        n_done: the number of trials that are done.
        n_constant: how many of them have a model that gives every document the same score.
        trained_with: the tools and their versions.
        overlap: held-out over training size if trials draw their training queries anew; else 0.
        alpha: the significance level; that of the paper's test in a study.
        pairs: ``"baseline"`` compares every system with the baseline, ``"all"`` every two systems.
        meta: what the store says about itself.
        cells: condition by condition, system by system, metric by metric, each compared with the
            baseline.
        remarks: sentences about queries that were left out or filled in.
    """

    values: Mapping[Cell, list[F64]]
    trees: Mapping[Place, list[int]] = field(default_factory=dict)
    seconds: Mapping[Place, list[float]] = field(default_factory=dict)
    valid: Mapping[Place, list[float]] = field(default_factory=dict)
    chosen: Mapping[Place, list[dict[str, Any]]] = field(default_factory=dict)
    tried: Mapping[Place, list[Configurations]] = field(default_factory=dict)
    curves: Mapping[CurvePlace, list[list[float]]] = field(default_factory=dict)
    points: Mapping[Place, dict[str, Any]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    n_done: int = 0
    n_constant: int = 0
    trained_with: tuple[str, ...] = ()
    overlap: float = 0.0
    alpha: float = 0.05
    pairs: str = "baseline"
    meta: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    cells: tuple[CellResult, ...] = ()

    def __post_init__(self) -> None:
        if self.cells:
            return
        cells = []
        for system_index in range(len(self.systems)):
            cells += [self._summarize(system_index, metric) for metric in self.metrics]
        # A frozen dataclass refuses an assignment.
        object.__setattr__(self, "cells", tuple(cells))

    def _summarize(self, system_index: int, metric: Metric) -> CellResult:
        """Return the means of one system of a comparison on one metric in all repeats, and its test
        against the baseline.

        Args:
            system_index: the number of the system in the order of the comparison.
            metric: the metric.
        """
        system = self.systems[system_index]
        metric_name = str(metric)
        means = system.means(metric_name)
        # A mean is NaN if the metric skips every query of the repeat.
        repeats_with_mean = np.flatnonzero(~np.isnan(means))

        # `untuned` has the mean over all configurations that were tried in each repeat, by metric: what
        # one would get without choosing by validation. It is None if nothing was searched.
        mean_of_tried = math.nan
        if system.untuned:
            mean_of_tried = float(np.mean(system.untuned[metric_name]))
        return CellResult(
            condition=self.condition_names[0],
            system=system.name,
            metric=metric_name,
            part="test",
            higher_is_better=metric.higher_is_better,
            numbers=tuple(repeats_with_mean.tolist()),
            means=means[repeats_with_mean],
            tried=mean_of_tried,
            tested=self._compare_with_baseline(system_index, metric),
        )

    def _compare_with_baseline(self, system_index: int, metric: Metric) -> TestOutcome | None:
        """Return the outcome of the significance test of a system against the baseline on a metric;
        None for the baseline itself, and where nothing can be tested.
        """
        test = self.test(metric)
        baseline_index = self._baseline_index
        if test is None or system_index == baseline_index:
            return None
        outcome = TestOutcome.of_pair(test, system_index, baseline_index)
        # Corrected by Holm for the number of comparisons; `metric.sign` is -1 if lower is better.
        adjusted_p_value = float(test.adjusted[system_index, baseline_index])
        return outcome.with_verdict(adjusted_p_value, self.alpha, metric.sign)

    @property
    @abstractmethod
    def system_names(self) -> tuple[str, ...]:
        """The names of the systems in tables."""

    @property
    @abstractmethod
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics, the first one decides."""

    @property
    @abstractmethod
    def baseline(self) -> str:
        """The name of the system that the others are compared with."""

    @property
    @abstractmethod
    def n_repeats(self) -> int:
        """The number of trainings or runs of each system."""

    @property
    @abstractmethod
    def varied(self) -> str:
        """What differs between repeats: splits or seeds; empty for a study."""

    @property
    def n_folds(self) -> int:
        """The number of trials of each repeat: one per fold of the data."""
        return 1

    @property
    def n_planned(self) -> int:
        """The number of trials, those that are not done included."""
        n_conditions, n_systems = len(self.conditions), len(self.system_names)
        return n_conditions * n_systems * self.n_repeats * self.n_folds

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, a single one without a name for a comparison."""
        return (Condition(),)

    @property
    def condition_names(self) -> tuple[str, ...]:
        """The names of the conditions, the single one of a comparison being `PLAIN`."""
        return tuple(condition.name for condition in self.conditions)

    @property
    def judged_parts(self) -> tuple[str, ...]:
        """The parts of the data with a mean: the test part, and others if a study asks for them."""
        return ("test",)

    def metrics_under(self, condition: str) -> tuple[str, ...]:
        """The names of the metrics that are recorded under a condition."""
        return self.metric_names

    @property
    def has_own_metrics(self) -> bool:
        """Whether some conditions are judged by metrics of their own."""
        return any(condition.metrics for condition in self.conditions)

    @property
    def measures_only(self) -> bool:
        """Whether nothing was trained, but something measured."""
        return False

    @property
    def tests_same_queries(self) -> bool:
        """Whether all trials test on the same queries."""
        return True

    @property
    def _baseline_index(self) -> int:
        return self.system_names.index(self.baseline)

    def cell(self, condition: str, system: str, metric: str, part: str = "test") -> CellResult:
        """Return the values of one system on one metric, under one condition and on one part of the
        data, over all trials.

        Args:
            condition, system, metric, part: the names of these.
        """
        return self.by_place[condition, system, metric, part]

    def across(self, condition: str, metric: str) -> list[CellResult]:
        """Return the values of all systems on the test queries, one `CellResult` per system.

        Args:
            condition, metric: the names of the condition and of the metric.
        """
        return [self.cell(condition, system, metric) for system in self.system_names]

    @cached_property
    def by_place(self) -> dict[CellPlace, CellResult]:
        """The cells (values of one system on one metric) by (condition, system, metric, part)."""
        cells = {}
        for cell in self.cells:
            cells[cell.condition, cell.system, cell.metric, cell.part] = cell
        return cells

    def by_trial(self, condition: str, system: str, metric: str) -> dict[int, F64]:
        """Return a system's values of a metric, one per test query, by number of the trial.

        Trials in which the metric skips every query are left out.

        Args:
            condition, system, metric: the names of these.
        """
        values_of_trials = []
        # `_join_folds` gives one array per trial, with the test queries of all its folds.
        for values in self._join_folds((condition, system, metric)):
            is_skipped = np.isnan(values)
            if not is_skipped.all():
                values_of_trials.append(values)
        # The cell has the numbers of the trials with a mean, which are those kept above.
        numbers = self.cell(condition, system, metric).numbers
        return dict(zip(numbers, values_of_trials, strict=True))

    def _group_by_repeat(self, entries: Sequence[Any]) -> list[Sequence[Any]]:
        """Split a list with one entry per trial into one list per repeat, with one entry per fold
        of the data.
        """
        # The trials of one repeat, one per fold, follow each other.
        starts = range(0, len(entries), self.n_folds)
        return [entries[start : start + self.n_folds] for start in starts]

    def _join_folds(self, cell: Cell) -> list[F64]:
        """Return a system's values of a metric in each repeat, one per test query, the queries of
        all folds of the data one after the other.

        Args:
            cell: the names of the condition, the system and the metric.
        """
        values_of_trials = self.values.get(cell, [])
        return [np.concatenate(folds) for folds in self._group_by_repeat(values_of_trials)]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, the first one decides."""
        return tuple(read_metric(name) for name in self.metric_names)

    @cached_property
    def systems(self) -> tuple[SystemResult, ...]:
        """The systems of a comparison, in their order."""
        return tuple(self._collect_system(name) for name in self.system_names)

    def _collect_system(self, system: str) -> SystemResult:
        """Return the values, trees, times and validation scores of a system in all repeats of a
        comparison, which has a single condition.
        """
        condition = self.condition_names[0]
        values_by_metric = {}
        for metric in self.metric_names:
            values_of_repeats = self._join_folds((condition, system, metric))
            # The table is [repeats, queries].
            values_by_metric[metric] = np.array(values_of_repeats)
        return SystemResult(
            name=system,
            values=values_by_metric,
            trees=self.trees.get((condition, system), []),
            seconds=self.seconds.get((condition, system), []),
            valid=self.valid.get((condition, system), []),
            untuned=self._means_of_configurations(condition, system),
            histories=self.curves.get((condition, system, "valid"), []),
        )

    def _means_of_configurations(
        self, condition: str, system: str
    ) -> dict[str, list[float]] | None:
        """Return for each metric a system's mean over all configurations that its search tried, one
        per repeat; None without a search.
        """
        configurations_of_trials = self.tried.get((condition, system), [])
        configurations_by_repeat = self._group_by_repeat(configurations_of_trials)
        if not configurations_by_repeat:
            return None

        means_by_metric = {}
        for metric in self.metric_names:
            values_by_repeat = self._group_by_repeat(self.values[condition, system, metric])
            repeats = zip(values_by_repeat, configurations_by_repeat, strict=True)
            means_by_metric[metric] = [
                _mean_of_configurations(values, configurations, metric)
                for values, configurations in repeats
            ]
        return means_by_metric

    def test(self, metric: str | Metric) -> SystemsTest | None:
        """Return the test of all systems of a comparison on one metric; None for one system, or
        fewer than two queries.

        Args:
            metric: the metric, or its name.
        """
        return self._tests_by_metric[str(metric)]

    @cached_property
    def _tests_by_metric(self) -> dict[str, SystemsTest | None]:
        """The significance test of all systems on each metric, by its name; None where there are
        too few systems or queries.

        `overlap` is how much training data repeats share, by which the test is corrected; `alpha`
        is the significance level.
        """
        # Without a baseline, every two systems are compared.
        baseline = None if self.pairs == "all" else self._baseline_index
        tests: dict[str, SystemsTest | None] = {}
        for metric in self.metric_names:
            values = np.array([system.values[metric] for system in self.systems])
            test = None
            if _can_test(values):
                test = systems_test(values, self.overlap, baseline=baseline, level=self.alpha)
            tests[metric] = test
        return tests

    def tests(self, metric: str | Metric) -> list[PairTest]:
        """Return the tests of the pairs of systems that are compared on one metric: each system with
        the baseline, or every two systems.

        Args:
            metric: the metric, or its name.
        """
        test = self.test(metric)
        if test is None:
            return []

        # Pairs that are not compared have no adjusted p-value. The table of p-values is symmetric:
        # the triangle above its diagonal has each pair once.
        is_compared = np.triu(~np.isnan(test.adjusted))
        pairs = np.argwhere(is_compared).tolist()
        sign = read_metric(metric).sign
        return [_pair_test(test, first, second, sign) for first, second in pairs]


def _can_test(values: F64) -> bool:
    """Return whether differences between systems can be tested: there are at least two systems, and
    two queries that the metric does not skip.

    Args:
        values: ``[systems, repeats, queries]``; NaN where the metric skips a query.
    """
    # Whether a query is skipped depends on its judgments, the same for all systems.
    values_of_first_system = values[0]
    is_skipped = np.isnan(values_of_first_system).any(axis=0)
    n_systems, n_queries = len(values), int(np.count_nonzero(~is_skipped))
    return n_systems > 1 and n_queries > 1


def _pair_test(test: SystemsTest, first: int, second: int, sign: int) -> PairTest:
    """Return the test of two systems as that of the better one minus the worse, by their mean
    difference.

    Args:
        test: the test of all systems, with tables ``[system, system]`` of differences of the
            metric, ends of confidence intervals and p-values.
        first, second: the indices of the two systems in the order of the comparison.
        sign: 1 if high values of the metric are better, -1 if low ones are.
    """
    better, worse = second, first
    # `differences[a, b]` is the mean of system a minus that of system b.
    first_is_better = sign * test.differences[first, second] > 0
    if first_is_better:
        better, worse = first, second

    # The sign -1 turns the interval around: its upper end becomes the lower one.
    one_end = sign * float(test.low[better, worse])
    other_end = sign * float(test.high[better, worse])
    return PairTest(
        better=better,
        worse=worse,
        difference=sign * float(test.differences[better, worse]),
        low=min(one_end, other_end),
        high=max(one_end, other_end),
        p_value=float(test.p_values[first, second]),
        adjusted=float(test.adjusted[first, second]),
    )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class PlannedValues(ComparisonValues):
    """What the trials of a plan measured.

    Args:
        plan: what was run.
    """

    plan: Plan

    @property
    def system_names(self) -> tuple[str, ...]:
        """The names of the systems in tables."""
        return self.plan.study.system_names

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of the metrics, the first one decides."""
        return self.plan.study.metrics

    @property
    def baseline(self) -> str:
        """The name of the system that the others are compared with."""
        return self.plan.study.baseline

    @property
    def n_repeats(self) -> int:
        """The number of trainings of each system."""
        return self.plan.budget.repeats or 1

    @property
    def varied(self) -> str:
        """What differs between repeats: splits or seeds; empty for a study."""
        return self.plan.study.protocol.varied

    @property
    def n_folds(self) -> int:
        """The number of trials of each repeat: one per fold of the data."""
        return len(self.plan.folds_of(0))

    @property
    def n_planned(self) -> int:
        """The number of trials, those that are not done included."""
        return self.plan.size

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, a single one without a name for a comparison."""
        return self.plan.study.conditions

    @property
    def judged_parts(self) -> tuple[str, ...]:
        """The parts of the data with a mean: the test part, and others if a study asks for them."""
        return self.plan.study.judged

    def metrics_under(self, condition: str) -> tuple[str, ...]:
        """The names of the metrics that are recorded under a condition."""
        return self.plan.study.metrics_under(condition)

    @property
    def measures_only(self) -> bool:
        """Whether nothing was trained, but something measured."""
        return self.plan.study.measures_only

    @property
    def tests_same_queries(self) -> bool:
        """Whether all trials test on the same queries."""
        return self.plan.study.protocol.tests_same_queries


def _mean_of_configurations(
    values: Sequence[F64], configurations: Sequence[Configurations], metric: str
) -> float:
    """Return the mean of a metric over all configurations that a search tried, and over the folds
    of the data, weighted by their numbers of test queries; NaN if there is none.

    Args:
        values: for each fold, the metric of its test queries; NaN where the metric skips a query.
        configurations: for each fold, the configurations, each with its mean over the queries under
            ``configuration["test"][metric]``, which is None if all were skipped.
        metric: the name of the metric.
    """
    weighted_sum = 0.0
    n_queries = 0
    for values_of_fold, configurations_of_fold in zip(values, configurations, strict=True):
        is_skipped = np.isnan(values_of_fold)
        n_queries_of_fold = int(np.count_nonzero(~is_skipped))
        means = []
        for configuration in configurations_of_fold:
            mean = configuration["test"][metric]
            if mean is not None:
                means.append(mean)
        if means and n_queries_of_fold:
            # A fold counts as often as it has queries: the mean is one over all queries.
            weighted_sum += n_queries_of_fold * float(np.mean(means))
            n_queries += n_queries_of_fold

    if not n_queries:
        return math.nan
    return weighted_sum / n_queries
