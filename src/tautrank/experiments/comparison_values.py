"""The values of a comparison or a study: what was measured, by system and metric, and what tests
say about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.plan import Condition, Plan
from tautrank.metrics import Metric, metric
from tautrank.significance.systems import SystemsTest, systems_test
from tautrank.significance.verdicts import TestOutcome

Cell: TypeAlias = tuple[str, str, str]
"""(condition, system, metric)."""
Place: TypeAlias = tuple[str, str]
"""(condition, system)."""

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
        return float(np.std(self.means, ddof=1)) if self.means.size > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the mean, as papers give it: as if the trials were
        independent.
        """
        if self.means.size < 2:
            return math.nan, math.nan
        from scipy.special import stdtrit

        half = (
            float(stdtrit(self.means.size - 1, (1 + _CONFIDENCE) / 2))
            * self.deviation
            / math.sqrt(self.means.size)
        )
        return self.mean - half, self.mean + half


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
        used = values[:, ~np.isnan(values).any(axis=0)]
        return used.mean(axis=1) if used.shape[1] else np.full(values.shape[0], math.nan)


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
    tried: Mapping[Place, list[list[dict[str, Any]]]] = field(default_factory=dict)
    curves: Mapping[tuple[str, str, str], list[list[float]]] = field(default_factory=dict)
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
        if not self.cells:
            cells = [self._cell(i, m) for i in range(len(self.systems)) for m in self.metrics]
            object.__setattr__(self, "cells", tuple(cells))

    def _cell(self, index: int, m: Metric) -> CellResult:
        """One system of a comparison on one metric, compared with the baseline."""
        system, name, baseline = self.systems[index], str(m), self._baseline_index
        means = system.means(name)
        done = np.flatnonzero(~np.isnan(means))
        tried = float(np.mean(system.untuned[name])) if system.untuned else math.nan
        place = (self.condition_names[0], system.name, name, "test")
        cell = CellResult(
            *place, m.higher_is_better, tuple(done.tolist()), means[done], tried=tried
        )
        found = self.test(m)
        if found is None or index == baseline:
            return cell
        tested = TestOutcome.of_pair(found, index, baseline)
        return replace(
            cell,
            tested=tested.with_verdict(float(found.adjusted[index, baseline]), self.alpha, m.sign),
        )

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
        return len(self.conditions) * len(self.system_names) * self.n_repeats * self.n_folds

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

    def cell(self, condition: str, system: str, name: str, part: str = "test") -> CellResult:
        """Return one cell.

        Args:
            condition, system, name, part: its place; the name is the metric's.
        """
        return self.by_place[condition, system, name, part]

    def across(self, condition: str, name: str) -> list[CellResult]:
        """Return the cells of all systems on the test queries.

        Args:
            condition, name: the condition, and the name of the metric.
        """
        return [self.cell(condition, system, name) for system in self.system_names]

    @cached_property
    def by_place(self) -> dict[tuple[str, str, str, str], CellResult]:
        """The cells by (condition, system, metric, part)."""
        return {(c.condition, c.system, c.metric, c.part): c for c in self.cells}

    def by_trial(self, condition: str, system: str, name: str) -> dict[int, F64]:
        """Return the test queries' values by number of the trial, without trials in which every
        query was skipped.

        Args:
            condition, system, name: the place; the name is the metric's.
        """
        counted = [
            values
            for values in self._joined((condition, system, name))
            if not np.isnan(values).all()
        ]
        return dict(zip(self.cell(condition, system, name).numbers, counted, strict=True))

    def _repeats(self, of_trials: Sequence[Any]) -> list[Sequence[Any]]:
        """What belongs to each repeat: one entry per fold."""
        starts = range(0, len(of_trials), self.n_folds)
        return [of_trials[start : start + self.n_folds] for start in starts]

    def _joined(self, cell: Cell) -> list[F64]:
        return [np.concatenate(folds) for folds in self._repeats(self.values.get(cell, []))]

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics, the first one decides."""
        return tuple(map(metric, self.metric_names))

    @cached_property
    def systems(self) -> tuple[SystemResult, ...]:
        """The systems of a comparison, in their order."""
        return tuple(map(self._system, self.system_names))

    def _system(self, name: str) -> SystemResult:
        place, metrics = (self.condition_names[0], name), self.metric_names
        tried, untuned = self._repeats(self.tried.get(place, [])), {}
        for m in metrics if tried else ():
            each = zip(self._repeats(self.values[(*place, m)]), tried, strict=True)
            untuned[m] = [
                _mean_over_tried(values, configurations, m) for values, configurations in each
            ]
        values = {m: np.array(self._joined((*place, m))) for m in metrics}
        trees, seconds, valid = (
            self.trees.get(place, []),
            self.seconds.get(place, []),
            self.valid.get(place, []),
        )
        histories = self.curves.get((*place, "valid"), [])
        return SystemResult(name, values, trees, seconds, valid, untuned or None, histories)

    def test(self, m: str | Metric) -> SystemsTest | None:
        """Return the test of all systems of a comparison on one metric; None for one system, or
        fewer than two queries.

        Args:
            m: the metric.
        """
        return self._found[str(m)]

    @cached_property
    def _found(self) -> dict[str, SystemsTest | None]:
        baseline, found = None if self.pairs == "all" else self._baseline_index, {}
        for name in self.metric_names:
            values = np.array([system.values[name] for system in self.systems])
            testable = len(values) > 1 and np.count_nonzero(~np.isnan(values[0]).any(axis=0)) > 1
            found[name] = (
                systems_test(values, self.overlap, baseline=baseline, level=self.alpha)
                if testable
                else None
            )
        return found

    def tests(self, m: str | Metric) -> list[PairTest]:
        """Return the tests of the pairs of systems that are compared on one metric.

        Args:
            m: the metric.
        """
        found, pairs, sign = self.test(m), [], metric(m).sign
        if found is None:
            return []
        for i, j in np.argwhere(np.triu(~np.isnan(found.adjusted))).tolist():
            better, worse = (i, j) if sign * found.differences[i, j] > 0 else (j, i)
            numbers = [
                sign * float(each[better, worse])
                for each in (found.differences, found.low, found.high)
            ]
            p = (float(found.p_values[i, j]), float(found.adjusted[i, j]))
            pairs.append(
                PairTest(better, worse, numbers[0], min(numbers[1:]), max(numbers[1:]), *p)
            )
        return pairs


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
        return self.plan.budget.trials or 1

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


def _mean_over_tried(
    values: Sequence[F64], tried: Sequence[list[dict[str, Any]]], name: str
) -> float:
    """The mean of a metric over all configurations; a query counts once, so a split counts by its
    queries.
    """
    total, weight = 0.0, 0
    for split, configurations in zip(values, tried, strict=True):
        counted = int(np.count_nonzero(~np.isnan(split)))
        tests = [one["test"][name] for one in configurations if one["test"][name] is not None]
        if tests and counted:
            total += counted * float(np.mean(tests))
            weight += counted
    return total / weight if weight else math.nan
