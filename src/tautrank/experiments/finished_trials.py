"""The finished trials of a plan, put together by what they belong to."""

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

# What a trial says about its training, and the field of a comparison that keeps it.
_FIELDS = {"trees": "trees", "configuration": "chosen", "tried": "tried", "points": "points"}


class _TrialFacts(NamedTuple):
    """What is known about a trial besides its numbers.

    Args:
        is_constant: whether its model gives every document the same score.
        trained_with: the tool and its version; None if nothing was trained.
        n_queries: the number of queries of each part; None if it is not known.
    """

    is_constant: bool
    trained_with: str | None
    n_queries: dict[str, int] | None


class FinishedTrials:
    """The finished trials of a plan, by where they belong and by their number.

    Args:
        plan: the plan.
        store: the store.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self.means: dict[CellPlace, dict[int, float]] = defaultdict(dict)
        self.queries: dict[Cell, dict[int, F64]] = defaultdict(dict)
        self.curves: dict[CurvePlace, dict[int, list[float]]] = defaultdict(dict)
        self._by_field: dict[str, dict[Place, dict[int, Any]]] = {
            field: defaultdict(dict) for field in [*_FIELDS.values(), "valid", "seconds"]
        }
        self._facts: list[_TrialFacts] = []
        self._failures: list[Failure] = []
        outcomes = {trial.key: outcome for trial, outcome in store.finished()}
        for trial in plan.trials():
            if trial.key not in outcomes:
                continue
            outcome = outcomes[trial.key]
            if outcome.status == DONE:
                self._add(trial.spec, outcome)
            else:
                self._failures.append(Failure(trial.title, outcome.error))

    def _add(self, spec: Mapping[str, Any], outcome: TrialOutcome) -> None:
        """Keep what a trial measured."""
        result = json.loads(outcome.result)
        place, number = (spec["condition"], spec["system"]), self._number(spec)
        for part, value_by_metric in result["means"].items():
            for metric, value in value_by_metric.items():
                self.means[(*place, metric, part)][number] = or_nan(value)
        for metric, values in result["test"].items():
            self.queries[(*place, metric)][number] = np.array(values, np.float64)
        for part, curve in result.get("curves", {}).items():
            self.curves[(*place, part)][number] = [or_nan(value) for value in curve]

        for name, field in _FIELDS.items():
            if name in result:
                self._by_field[field][place][number] = result[name]
        self._by_field["valid"][place][number] = or_nan(result.get("valid"))
        self._by_field["seconds"][place][number] = outcome.seconds
        facts = _TrialFacts(
            is_constant=bool(result.get("constant")),
            trained_with=result.get("trained_with"),
            n_queries=result.get("queries"),
        )
        self._facts.append(facts)

    def _number(self, spec: Mapping[str, Any]) -> int:
        """Return the number of a trial, where every fold of a repeat counts."""
        folds = self.plan.folds_of(spec["trial"])
        return int(spec["trial"] * len(folds) + folds.index(spec["data"]["fold"]))

    def fields(self) -> dict[str, Any]:
        """Return the fields of a comparison, without tests."""
        by_field = {field: _in_lists(by_place) for field, by_place in self._by_field.items()}
        points = by_field.pop("points")
        tools = {facts.trained_with for facts in self._facts if facts.trained_with is not None}
        return {
            "plan": self.plan,
            "values": _in_lists(self.queries),
            "curves": _in_lists(self.curves),
            **by_field,
            "points": {place: of_trials[0] for place, of_trials in points.items()},
            "n_done": len(self._facts),
            "n_constant": sum(facts.is_constant for facts in self._facts),
            "failures": tuple(self._failures),
            "trained_with": tuple(sorted(tools)),
            "overlap": self.overlap,
        }

    @property
    def overlap(self) -> float:
        """Held out over trained on if trials draw their training queries again; else 0."""
        protocol, splits = self.plan.study.protocol, self.plan.data.held
        if not splits:
            sizes = [facts.n_queries for facts in self._facts if facts.n_queries]
            return protocol.overlap(sizes[0]) if sizes else 0.0
        if self.plan.budget.repeats == 1:
            return 0.0
        return float(np.mean([protocol.overlap(part_sizes(split)) for split in splits]))


def _in_lists(by_place: Mapping[_Key, Mapping[int, _Value]]) -> dict[_Key, list[_Value]]:
    """Return what is kept by number of the trial as lists, in the order of the trials."""
    return {place: list(by_number.values()) for place, by_number in by_place.items()}
