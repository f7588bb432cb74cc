"""The finished trials of a plan, put together by what they belong to."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from tautrank.arrays import F64
from tautrank.experiments.comparison_values import Cell, Failure
from tautrank.experiments.plan import Plan
from tautrank.experiments.protocols import part_sizes
from tautrank.experiments.store import DONE, Store, TrialOutcome
from tautrank.json_values import or_nan


class FinishedTrials:
    """The finished trials of a plan, by where they belong and by their number.

    Args:
        plan: the plan.
        store: the store.
    """

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan = plan
        self._found: dict[str, dict[Any, dict[int, Any]]] = defaultdict(lambda: defaultdict(dict))
        finished = {trial.key: outcome for trial, outcome in store.finished()}
        ended = [(trial, finished[trial.key]) for trial in plan.trials() if trial.key in finished]
        self._failures = tuple(
            Failure(trial.title, found.error) for trial, found in ended if found.status != DONE
        )
        self._facts = [
            self._add(trial.spec, found) for trial, found in ended if found.status == DONE
        ]
        self.means: dict[tuple[str, str, str, str], dict[int, float]] = self._found.pop("means", {})
        self.queries: dict[Cell, dict[int, F64]] = self._found["values"]
        self.curves: dict[tuple[str, str, str], dict[int, list[float]]] = self._found["curves"]

    def _add(self, spec: Mapping[str, Any], outcome: TrialOutcome) -> dict[str, Any]:
        """Keep the numbers of a trial and return what else is known about it."""
        place, folds = (spec["condition"], spec["system"]), self.plan.folds_of(spec["trial"])
        number = spec["trial"] * len(folds) + folds.index(spec["data"]["fold"])
        result = json.loads(outcome.result)
        for part, by_metric in result["means"].items():
            for name, value in by_metric.items():
                self._found["means"][(*place, name, part)][number] = or_nan(value)
        for name, values in result["test"].items():
            self._found["values"][(*place, name)][number] = np.array(values, np.float64)
        for part, curve in result.get("curves", {}).items():
            self._found["curves"][(*place, part)][number] = [or_nan(x) for x in curve]
        for what, name in (
            ("trees", "trees"),
            ("configuration", "chosen"),
            ("tried", "tried"),
            ("points", "points"),
        ):
            if what in result:
                self._found[name][place][number] = result[what]
        self._found["valid"][place][number] = or_nan(result.get("valid"))
        self._found["seconds"][place][number] = outcome.seconds
        return {name: result.get(name) for name in ("constant", "trained_with", "queries")}

    def fields(self) -> dict[str, Any]:
        """Return the fields of a `Comparison`, without tests."""
        lists = {
            name: {key: list(of.values()) for key, of in found.items()}
            for name, found in self._found.items()
        }
        points = {place: of_trials[0] for place, of_trials in lists.pop("points", {}).items()}
        constant = sum(bool(facts["constant"]) for facts in self._facts)
        tools = tuple(sorted({facts["trained_with"] for facts in self._facts} - {None}))
        counts = {"n_done": len(self._facts), "n_constant": constant, "failures": self._failures}
        return {
            "plan": self.plan,
            **lists,
            "points": points,
            **counts,
            "trained_with": tools,
            "overlap": self.overlap,
        }

    @property
    def overlap(self) -> float:
        """Held out over trained on if trials draw their training queries again; else 0."""
        given, protocol = self.plan.data.held, self.plan.study.protocol
        if not given:
            sizes = next((facts["queries"] for facts in self._facts if facts["queries"]), None)
            return protocol.overlap(sizes) if sizes else 0.0
        if self.plan.budget.trials == 1:
            return 0.0
        return float(np.mean([protocol.overlap(part_sizes(splits)) for splits in given]))
