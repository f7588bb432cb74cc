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

_CONFIDENCE = 0.95


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
    """One system under one condition on one metric, over all trials.

    Args:
        condition, system, metric, part: its place; the part is ``test`` unless the study judges
            others too.
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
        """The mean over the trials."""
        return float(self.means.mean()) if self.means.size else math.nan

    @property
    def difference(self) -> float:
        """System minus baseline, over the trials that both have done; NaN for the baseline
        itself.
        """
        return self.tested.difference if self.tested else math.nan

    @property
    def deviation(self) -> float:
        """The standard deviation over the trials; NaN for one."""
        if self.means.size < 2:
            return math.nan
        return float(np.std(self.means, ddof=1))

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the mean, as papers give it: as if the trials were
        independent.
        """
        if self.means.size < 2:
            return math.nan, math.nan
        from scipy.special import stdtrit

        quantile = float(stdtrit(self.means.size - 1, (1 + _CONFIDENCE) / 2))
        half_width = quantile * self.deviation / math.sqrt(self.means.size)
        return self.mean - half_width, self.mean + half_width


@dataclass(frozen=True)
class PairTest:
    """One system against another on one metric.

    Args:
        better, worse: the places of the two systems.
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
        """Return the mean of a metric over the queries, one per repeat; NaN if every query was
        skipped.

        Args:
            name: the metric.
        """
        values = self.values[name]
        is_judged = ~np.isnan(values).any(axis=0)
        if not is_judged.any():
            return np.full(len(values), math.nan)
        means: F64 = values[:, is_judged].mean(axis=1)
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
        for index in range(len(self.systems)):
            cells += [self._cell(index, metric) for metric in self.metrics]
        object.__setattr__(self, "cells", tuple(cells))

    def _cell(self, index: int, metric: Metric) -> CellResult:
        """Return one system of a comparison on one metric, compared with the baseline."""
        system, name = self.systems[index], str(metric)
        means = system.means(name)
        repeats = np.flatnonzero(~np.isnan(means))
        mean_of_tried = math.nan
        if system.untuned:
            mean_of_tried = float(np.mean(system.untuned[name]))
        return CellResult(
            condition=self.condition_names[0],
            system=system.name,
            metric=name,
            part="test",
            higher_is_better=metric.higher_is_better,
            numbers=tuple(repeats.tolist()),
            means=means[repeats],
            tried=mean_of_tried,
            tested=self._outcome(index, metric),
        )

    def _outcome(self, index: int, metric: Metric) -> TestOutcome | None:
        """Return the test of a system against the baseline; None for the baseline itself, and
        where nothing can be tested.
        """
        test, baseline = self.test(metric), self._baseline_index
        if test is None or index == baseline:
            return None
        outcome = TestOutcome.of_pair(test, index, baseline)
        adjusted = float(test.adjusted[index, baseline])
        return outcome.with_verdict(adjusted, self.alpha, metric.sign)

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
        n_places = len(self.conditions) * len(self.system_names)
        return n_places * self.n_repeats * self.n_folds

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
        """Return one cell.

        Args:
            condition, system, metric, part: its place, by names.
        """
        return self.by_place[condition, system, metric, part]

    def across(self, condition: str, metric: str) -> list[CellResult]:
        """Return the cells of all systems on the test queries.

        Args:
            condition, metric: the names of the condition and of the metric.
        """
        return [self.cell(condition, system, metric) for system in self.system_names]

    @cached_property
    def by_place(self) -> dict[CellPlace, CellResult]:
        """The cells by (condition, system, metric, part)."""
        cells = {}
        for cell in self.cells:
            cells[cell.condition, cell.system, cell.metric, cell.part] = cell
        return cells

    def by_trial(self, condition: str, system: str, metric: str) -> dict[int, F64]:
        """Return the test queries' values by number of the trial, without trials in which every
        query was skipped.

        Args:
            condition, system, metric: the place, by names.
        """
        judged_trials = []
        for values in self._joined((condition, system, metric)):
            if not np.isnan(values).all():
                judged_trials.append(values)
        numbers = self.cell(condition, system, metric).numbers
        return dict(zip(numbers, judged_trials, strict=True))

    def _repeats(self, of_trials: Sequence[Any]) -> list[Sequence[Any]]:
        """Return what belongs to each repeat: one entry per fold."""
        starts = range(0, len(of_trials), self.n_folds)
        return [of_trials[start : start + self.n_folds] for start in starts]

    def _joined(self, cell: Cell) -> list[F64]:
        """Return the values of a cell in each repeat, those of all folds one after the other."""
        repeats = self._repeats(self.values.get(cell, []))
        return [np.concatenate(folds) for folds in repeats]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, the first one decides."""
        return tuple(read_metric(name) for name in self.metric_names)

    @cached_property
    def systems(self) -> tuple[SystemResult, ...]:
        """The systems of a comparison, in their order."""
        return tuple(self._system(name) for name in self.system_names)

    def _system(self, name: str) -> SystemResult:
        """Return what a system has in all repeats of a comparison."""
        condition = self.condition_names[0]
        place = (condition, name)
        values = {}
        for metric in self.metric_names:
            values[metric] = np.array(self._joined((condition, name, metric)))
        return SystemResult(
            name=name,
            values=values,
            trees=self.trees.get(place, []),
            seconds=self.seconds.get(place, []),
            valid=self.valid.get(place, []),
            untuned=self._means_of_tried(place),
            histories=self.curves.get((condition, name, "valid"), []),
        )

    def _means_of_tried(self, place: Place) -> dict[str, list[float]] | None:
        """Return the mean of each metric over all configurations that were tried, one per repeat;
        None without a search.
        """
        tried = self._repeats(self.tried.get(place, []))
        if not tried:
            return None
        means = {}
        for metric in self.metric_names:
            values = self._repeats(self.values[(*place, metric)])
            means[metric] = [
                _mean_of_tried(of_splits, configurations, metric)
                for of_splits, configurations in zip(values, tried, strict=True)
            ]
        return means

    def test(self, metric: str | Metric) -> SystemsTest | None:
        """Return the test of all systems of a comparison on one metric; None for one system, or
        fewer than two queries.

        Args:
            metric: the metric, or its name.
        """
        return self._tests_by_metric[str(metric)]

    @cached_property
    def _tests_by_metric(self) -> dict[str, SystemsTest | None]:
        baseline = None if self.pairs == "all" else self._baseline_index
        tests: dict[str, SystemsTest | None] = {}
        for name in self.metric_names:
            values = np.array([system.values[name] for system in self.systems])
            tests[name] = None
            if _can_test(values):
                tests[name] = systems_test(
                    values, self.overlap, baseline=baseline, level=self.alpha
                )
        return tests

    def tests(self, metric: str | Metric) -> list[PairTest]:
        """Return the tests of the pairs of systems that are compared on one metric.

        Args:
            metric: the metric, or its name.
        """
        test = self.test(metric)
        if test is None:
            return []
        sign = read_metric(metric).sign
        is_compared = np.triu(~np.isnan(test.adjusted))
        return [
            _pair_test(test, first, second, sign)
            for first, second in np.argwhere(is_compared).tolist()
        ]


def _can_test(values: F64) -> bool:
    """Return whether there are two systems and two judged queries at least.

    Args:
        values: ``[systems, repeats, queries]``; NaN where the metric skips a query.
    """
    is_judged = ~np.isnan(values[0]).any(axis=0)
    return len(values) > 1 and int(np.count_nonzero(is_judged)) > 1


def _pair_test(test: SystemsTest, first: int, second: int, sign: int) -> PairTest:
    """Return the test of two systems, the better one before the worse.

    Args:
        test: the test of all systems.
        first, second: the places of the two.
        sign: 1 if more is better, -1 for a cost.
    """
    if sign * test.differences[first, second] > 0:
        better, worse = first, second
    else:
        better, worse = second, first
    ends = (sign * float(test.low[better, worse]), sign * float(test.high[better, worse]))
    return PairTest(
        better=better,
        worse=worse,
        difference=sign * float(test.differences[better, worse]),
        low=min(ends),
        high=max(ends),
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


def _mean_of_tried(values: Sequence[F64], tried: Sequence[Configurations], metric: str) -> float:
    """Return the mean of a metric over all configurations; a query counts once, so a split counts
    by its queries.

    Args:
        values: the values of the queries of each split; NaN where the metric skips one.
        tried: the configurations of each split, with their means on it.
        metric: the name of the metric.
    """
    total, n_queries = 0.0, 0
    for split, configurations in zip(values, tried, strict=True):
        n_judged = int(np.count_nonzero(~np.isnan(split)))
        means = [configuration["test"][metric] for configuration in configurations]
        means = [mean for mean in means if mean is not None]
        if means and n_judged:
            total += n_judged * float(np.mean(means))
            n_queries += n_judged
    return total / n_queries if n_queries else math.nan
