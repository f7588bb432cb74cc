"""The outcomes of the finished trials of a plan, collected by condition, system and metric."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.comparison_values import Cell, CellPlace, CurvePlace, Failure, Place
from tautrank.experiments.plan import Plan
from tautrank.experiments.protocols import part_sizes
from tautrank.experiments.store import DONE, Store, TrialOutcome
from tautrank.json_values import or_nan

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# The fields of a comparison, by the names of the same values in the result of a trial.
_FIELDS_BY_RESULT_NAME = {
    "trees": "trees",
    "configuration": "chosen",
    "tried": "tried",
    "points": "points",
}


class _TrainingInfo(NamedTuple):
    """What a finished trial records about its training and its data.

    Args:
        is_constant: whether its model gives every document the same score.
        trained_with: the tool and its version; None if nothing was trained.
        n_queries: the number of queries of each part; None if it is not known.
    """

    is_constant: bool
    trained_with: str | None
    n_queries: dict[str, int] | None


class FinishedTrials:
    """The outcomes of the finished trials of a plan.

    A trial is one training, or one measurement, of a system under a condition (a variant of the
    data or the parameters). Values are kept by system and condition, and for each of these by the
    number of the trial.

    Args:
        plan: the trials that are planned.
        store: the outcomes of those that have been run.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.means: dict[CellPlace, dict[int, float]] = defaultdict(dict)
        self.queries: dict[Cell, dict[int, F64]] = defaultdict(dict)
        self.curves: dict[CurvePlace, dict[int, list[float]]] = defaultdict(dict)
        self._values_by_field: dict[str, dict[Place, dict[int, Any]]] = {}
        for field in [*_FIELDS_BY_RESULT_NAME.values(), "valid", "seconds"]:
            self._values_by_field[field] = defaultdict(dict)
        self._training_infos: list[_TrainingInfo] = []
        self._failures: list[Failure] = []

        # The plan says which of the trials in the store belong here, and their order.
        outcomes_by_key = {trial.key: outcome for trial, outcome in store.finished()}
        for trial in plan.trials():
            if trial.key not in outcomes_by_key:
                continue
            outcome = outcomes_by_key[trial.key]
            if outcome.status == DONE:
                self._add(trial.spec, outcome)
            else:
                self._failures.append(Failure(trial.title, outcome.error))

    def _add(self, spec: Mapping[str, Any], outcome: TrialOutcome) -> None:
        """Add the outcome of a finished trial to the values that are kept here.

        Args:
            spec: what the trial ran, such as its condition and system.
            outcome: what it measured, as JSON text, and its time.
        """
        result = json.loads(outcome.result)
        condition, system = spec["condition"], spec["system"]
        trial_number = self._trial_number(spec)
        for part, mean_by_metric in result["means"].items():
            for metric, mean in mean_by_metric.items():
                self.means[condition, system, metric, part][trial_number] = or_nan(mean)
        for metric, query_values in result["test"].items():
            values = np.array(query_values, np.float64)
            self.queries[condition, system, metric][trial_number] = values
        for part, curve in result.get("curves", {}).items():
            values_by_tree = [or_nan(value) for value in curve]
            self.curves[condition, system, part][trial_number] = values_by_tree

        values_by_field: dict[str, Any] = {
            "valid": or_nan(result.get("valid")),
            "seconds": outcome.seconds,
        }
        for name, field in _FIELDS_BY_RESULT_NAME.items():
            if name in result:
                values_by_field[field] = result[name]
        for field, value in values_by_field.items():
            self._values_by_field[field][condition, system][trial_number] = value

        training_info = _TrainingInfo(
            is_constant=bool(result.get("constant")),
            trained_with=result.get("trained_with"),
            n_queries=result.get("queries"),
        )
        self._training_infos.append(training_info)

    def _trial_number(self, spec: Mapping[str, Any]) -> int:
        """Return the number of a trial among those of its system: each repeat has one trial per
        fold of the data, and repeats and folds count from 0.
        """
        repeat, fold = spec["trial"], spec["data"]["fold"]
        folds = self.plan.folds_of(repeat)
        # Trials are counted fold by fold within a repeat, then repeat by repeat.
        return int(repeat * len(folds) + folds.index(fold))

    def fields(self) -> dict[str, Any]:
        """Return the arguments that build a comparison (`PlannedValues`) from these trials, by
        name; tests and tables follow from them.
        """
        lists_by_field = {}
        for field, values_by_key in self._values_by_field.items():
            # `_values_by_field` has for each field of the comparison its values by key and trial.
            lists_by_field[field] = _list_trials(values_by_key)

        # A figure shows the points of the first trial.
        first_points = {}
        for key, points_of_trials in lists_by_field["points"].items():
            first_points[key] = points_of_trials[0]
        lists_by_field.pop("points")

        # One per finished training: its tool, whether its scores are all equal, its sizes.
        infos = self._training_infos
        tools = {info.trained_with for info in infos if info.trained_with is not None}
        return {
            "plan": self.plan,
            "values": _list_trials(self.queries),
            "curves": _list_trials(self.curves),
            **lists_by_field,
            "points": first_points,
            "n_done": len(infos),
            "n_constant": sum(info.is_constant for info in infos),
            "failures": tuple(self._failures),
            "trained_with": tuple(sorted(tools)),
            "overlap": self.overlap,
        }

    @property
    def overlap(self) -> float:
        """Nadeau and Bengio's ratio of held-out queries to all others, averaged over the splits of
        the data; 0 unless trials draw their training queries anew.

        Tests need it: trials that share training queries are not independent.
        """
        protocol, splits = self.plan.study.protocol, self.plan.data.held
        if splits:
            # A single trial shares training queries with no other.
            if self.plan.budget.repeats == 1:
                return 0.0
            overlaps = [protocol.overlap(part_sizes(split)) for split in splits]
            return float(np.mean(overlaps))

        # The data is not in memory: a finished trial has noted how many queries its parts have.
        noted_sizes = [info.n_queries for info in self._training_infos if info.n_queries]
        if not noted_sizes:
            return 0.0
        return protocol.overlap(noted_sizes[0])


def _list_trials(
    values_by_key: Mapping[_Key, Mapping[int, _Value]],
) -> dict[_Key, list[_Value]]:
    """Turn values that are kept by number of the trial into one list per key, in the order of the
    trials.

    Args:
        values_by_key: for example by condition and system, the value of each trial by its number.
    """
    lists = {}
    for key, value_by_trial_number in values_by_key.items():
        lists[key] = list(value_by_trial_number.values())
    return lists
