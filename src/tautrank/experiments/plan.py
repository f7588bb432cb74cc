"""A plan: systems under conditions, judged by metrics, on given data, with a budget and a seed; and
its trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar, TypeVar

import numpy as np

import tautrank
from tautrank.arguments import check_fields, checked_by, choice, whole
from tautrank.data import Splits
from tautrank.engines import DEFAULT_ENGINE, engine_for, read_loss
from tautrank.errors import OptionError
from tautrank.experiments.changes import Change
from tautrank.experiments.data_source import DataSource, fingerprint_of
from tautrank.experiments.protocols import PARTS, GivenSplits, Protocol, Resampling
from tautrank.experiments.space import Search, with_parameters
from tautrank.experiments.store import Trial
from tautrank.experiments.trial import MEASUREMENTS
from tautrank.experiments.versions import results_version
from tautrank.json_values import declare, digest, to_json
from tautrank.losses.own_losses import own_losses
from tautrank.metrics import metric
from tautrank.names import name_of
from tautrank.ranker.stored_names import with_stored_names

PLAIN = "plain"
"""The name of the condition of an experiment that has only one."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class System:
    """A loss with parameters of its own, for comparing one loss under several settings.

    Args:
        loss: the loss, as `Ranker` takes it.
        name: the name in tables; by default the loss.
        parameters: parameters of this system's `Ranker`, on top of those of all systems, such as
            ``{"num_leaves": 7}``.

    >>> str(System("mse", parameters={"num_leaves": 7}))
    'mse'
    """

    loss: str
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name or self.loss


@dataclass(frozen=True)
class Measurement:
    """What a study runs in place of a system if nothing is trained.

    Args:
        kind: one of `MEASUREMENTS`.
        name: the name in tables; by default the kind.
        parameters: the parameters of the function.

    >>> str(Measurement("jensen-clouds", parameters={"examples": 20}))
    'jensen-clouds'
    """

    kind: str
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name or self.kind


@dataclass(frozen=True)
class Condition:
    """One point of a figure's x axis, or one variant of a table.

    Args:
        name: the name in tables.
        value: the position on the axis, if it is a number.
        changes: what is done to the data, in order.
        parameters: parameters of every `Ranker`.
        loss: parameters of every loss that has them, such as ``{"mu": 10.0}``; other losses stay as
            they are.
        systems: parameters of single systems' `Ranker`, by name of the system.
        metrics: replace the experiment's; the first one picks models.

    >>> Condition("30%", 0.3, (Change("perturb-labels", {"probability": 0.3}),)).name
    '30%'
    """

    name: str = PLAIN
    value: float | None = None
    changes: tuple[Change, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, Any] = field(default_factory=dict)
    systems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """How much of an experiment to run; what is None stays as the experiment declares it.

    Args:
        trials: the number of repetitions.
        configurations: how many are tried in each trial of each system; 0 takes the parameters as
            they are.
        trees: the most trees of a model.

    >>> Budget(trials=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: trials: found 0; expected a whole number of at least 1
    """

    trials: int | None = field(default=None, metadata=checked_by(whole, least=1))
    configurations: int | None = field(default=None, metadata=checked_by(whole, least=0))
    trees: int | None = field(default=None, metadata=checked_by(whole, least=1))

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is compared and how, apart from the data. A comparison is one; a study is one with a
    paper.

    Args:
        systems: what is compared; or `Measurement`.
        metrics: the first one picks models and stops training; all are recorded for every test
            query.
        protocol: where a trial's queries come from.
        conditions: every system runs under each.
        trials, configurations, trees: the budget; `trees` None leaves them to the parameters.
        parameters: parameters of every `Ranker`.
        search: what configurations are drawn from.
        judged: the parts whose mean metrics are recorded: the test part always, ``"train"`` and
            ``"valid"`` if named.
        curves: the parts whose first metric is recorded after every tree: ``"valid"``, ``"train"``.
        baseline: the system that the others are compared with; by default the first.
    """

    systems: tuple[System | Measurement, ...]
    metrics: tuple[str, ...]
    protocol: Protocol = field(default_factory=Resampling)
    conditions: tuple[Condition, ...] = (Condition(),)
    trials: int = 5
    trees: int | None = None
    configurations: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    judged: tuple[str, ...] = ("test",)
    curves: tuple[str, ...] = ()
    baseline: str = ""

    keeps_failures: ClassVar[bool] = False
    """Whether a trial that fails is recorded and the others go on; else its error ends the run."""

    def __post_init__(self) -> None:
        for what, example in (
            ("systems", "System('mse')"),
            ("conditions", "Condition()"),
            ("metrics", "'ndcg@10'"),
        ):
            if not getattr(self, what):
                raise OptionError(f"{what}: found none; expected at least one, such as {example}")
        Budget(self.trials, self.configurations, self.trees)
        if "test" not in self.judged or not set(self.judged) <= set(PARTS):
            raise OptionError(
                f"judged: found {list(self.judged)}; expected 'test', and 'train' or 'valid' besides"
            )
        if not set(self.curves) <= {"train", "valid"}:
            raise OptionError(f"curves: found {list(self.curves)}; expected 'train' or 'valid'")
        for system in self.systems:
            if isinstance(system, Measurement):
                choice("measurement", system.kind, MEASUREMENTS)
            elif isinstance(system, System):
                self._check_trained(system)
        if not self.baseline:
            object.__setattr__(self, "baseline", self.system_names[0])
        self.system(self.baseline)

    def _check_trained(self, system: System) -> None:
        """Report a wrong name when the experiment is declared, not when it has run."""
        engine = {**self.parameters, **system.parameters}.get("engine", DEFAULT_ENGINE)
        engine_for(str(engine), read_loss(system.loss))
        for condition in self.conditions:
            read_loss(with_parameters(system.loss, condition.loss))
            for name in condition.metrics or self.metrics:
                metric(name)

    @property
    def origin(self) -> dict[str, Any]:
        """What a trial's specification says about where it comes from."""
        return {"tautrank": results_version(tautrank.__version__)}

    @property
    def system_names(self) -> tuple[str, ...]:
        """The names of the systems in tables: one that is there twice is numbered."""
        names = [str(system) for system in self.systems]
        before = [names[:i].count(name) for i, name in enumerate(names)]
        return tuple(
            f"{name} #{n + 1}" if n else name for name, n in zip(names, before, strict=True)
        )

    def occurrence(self, index: int) -> int:
        """How many of the systems before this one are equal to it.

        Args:
            index: its place among the systems.
        """
        return self.systems[:index].count(self.systems[index])

    @property
    def condition_names(self) -> tuple[str, ...]:
        """The names of the conditions in tables."""
        return tuple(condition.name for condition in self.conditions)

    @property
    def measures_only(self) -> bool:
        """Whether nothing is trained."""
        return all(isinstance(system, Measurement) for system in self.systems)

    @property
    def losses(self) -> list[str]:
        """The losses that are trained, as text."""
        return [system.loss for system in self.systems if isinstance(system, System)]

    def system(self, name: str) -> System | Measurement:
        """The system of that name."""
        return by_name("system", name, dict(zip(self.system_names, self.systems, strict=True)))

    def condition(self, name: str) -> Condition:
        """The condition of that name."""
        return by_name(
            "condition", name, dict(zip(self.condition_names, self.conditions, strict=True))
        )

    def metrics_under(self, condition: str) -> tuple[str, ...]:
        """The metrics that are recorded under a condition."""
        return self.condition(condition).metrics or self.metrics

    def planned(self, budget: Budget) -> Budget:
        """Fill in what a budget leaves open."""
        left_open = {
            name: getattr(self, name) for name, value in vars(budget).items() if value is None
        }
        return replace(budget, **left_open)


declare(__name__)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """An experiment on given data: everything that decides what a run computes.

    Args:
        study: the experiment.
        data: where the data comes from.
        fingerprints: a hash of the data for each fold that is used; empty if it is not known.
        n_queries, n_features: the size of the data, of its first fold; 0 if it is not known.
        budget: with nothing left open.
        seed: the seed of all random numbers.
        n_jobs: threads of one trial; None leaves them to whoever runs it.
        codes: for each loss that is not of this library, its name and a hash of its code.
    """

    study: Experiment
    data: DataSource
    fingerprints: tuple[tuple[int, str], ...] = ((1, ""),)
    n_queries: int = 0
    n_features: int = 0
    budget: Budget
    seed: int = 0
    n_jobs: int | None = None
    codes: tuple[tuple[str, str], ...] = ()

    def folds_of(self, trial: int) -> list[int]:
        """The folds that a trial uses.

        Args:
            trial: its number, from 0.
        """
        return self.study.protocol.folds_of(trial, [fold for fold, _ in self.fingerprints])

    @property
    def size(self) -> int:
        """The number of trials (of single trainings: each system under each condition on each fold
        counts).
        """
        return len(self.trials())

    def trials(self) -> list[Trial]:
        """Every trial, in the order they are run: all systems and conditions of the first
        repetition, then the next.

        So a run that is stopped half-way has whole repetitions to compare.
        """
        specs = [
            self._spec(trial, *place)
            for trial in range(self.budget.trials or 1)
            for place in product(
                self.folds_of(trial), self.study.conditions, range(len(self.study.systems))
            )
        ]
        return [
            Trial(number, trial_key(spec), spec, title_of(spec))
            for number, spec in enumerate(specs)
        ]

    def seed_of(self, trial: int, index: int) -> int:
        """The seed of a trial.

        Args:
            trial: its number, from 0.
            index: the place of the system; a system that is there again has other seeds where
                splits are given.
        """
        if isinstance(self.study.protocol, GivenSplits):
            return self.seed + 1000 * trial + 1_000_000 * self.study.occurrence(index)
        # One seed for all systems and conditions of a trial: they see the same queries and the same
        # noise.
        return int(np.random.SeedSequence([self.seed, trial]).generate_state(1)[0] % 2**31)

    def _spec(self, trial: int, fold: int, condition: Condition, index: int) -> dict[str, Any]:
        study = self.study
        system, name = study.systems[index], study.system_names[index]
        spec = {**study.origin, "system": name, "condition": condition.name, "trial": trial}
        spec["data"] = {
            "given": list(self.data.given),
            "fold": fold,
            "fingerprint": dict(self.fingerprints)[fold],
        }
        spec |= {
            "protocol": to_json(study.protocol, "plan"),
            "changes": to_json(condition.changes, "plan"),
        }
        spec |= {"seed": self.seed_of(trial, index), "study_seed": self.seed}
        spec["metrics"] = list(condition.metrics or study.metrics)
        if self.n_jobs is not None:
            spec["n_jobs"] = self.n_jobs
        parameters = {
            key: value for layer in self.layers(condition, index) for key, value in layer.items()
        }
        if isinstance(system, Measurement):
            return {**spec, "measure": system.kind, "parameters": to_json(parameters, "plan")}
        if self.budget.trees is not None:
            parameters["n_estimators"] = self.budget.trees
        search = (
            {**study.search.everyone, **study.search.systems.get(name, {})}
            if self.budget.configurations
            else {}
        )
        loss = with_parameters(system.loss, condition.loss)
        if (code := dict(self.codes).get(name_of(loss))) is not None:
            spec["code"] = code
        if isinstance(study.protocol, GivenSplits) and self.budget.configurations:
            spec["draws"] = [self.seed, trial, fold - 1, study.occurrence(index)]
        spec |= {
            "loss": loss,
            "parameters": to_json(with_stored_names(parameters), "plan"),
            "search": to_json(search, "plan"),
        }
        spec |= {"configurations": self.budget.configurations, "judged": list(study.judged)}
        return {**spec, "curves": list(study.curves)}

    def layers(self, condition: Condition, index: int) -> list[Mapping[str, Any]]:
        """The parameters of a system under a condition, what is general first.

        Args:
            condition: the condition.
            index: the place of the system.
        """
        own = condition.systems.get(self.study.system_names[index], {})
        return [
            self.study.parameters,
            condition.parameters,
            self.study.systems[index].parameters,
            own,
        ]


def title_of(spec: Mapping[str, Any]) -> str:
    """A trial in a few words.

    Args:
        spec: its specification.

    >>> title_of({"study": "s", "trial": 0, "condition": "30%", "system": "xendcg"})
    'trial 1, 30%, xendcg'
    """
    under = "" if spec["condition"] == PLAIN else f"{spec['condition']}, "
    if "study" in spec:
        return f"trial {spec['trial'] + 1}, {under}{spec['system']}"
    fold = spec["data"]["fold"]
    return (
        f"repeat {spec['trial'] + 1}, {f'fold {fold}, ' if fold > 1 else ''}{under}{spec['system']}"
    )


def trial_key(spec: Mapping[str, Any]) -> str:
    """A hash of what the result of a trial depends on: what is in the data, but not where it lies.

    Args:
        spec: its specification.

    >>> a, b = ({"data": {"given": [place], "fold": 1, "fingerprint": "f"}} for place in ("here", "there"))
    >>> trial_key(a) == trial_key(b)
    True
    """
    content = {name: value for name, value in spec["data"].items() if name != "given"}
    return digest({**spec, "data": content})


def settle(study: Experiment, source: DataSource, budget: Budget) -> dict[str, Any]:
    """Read the data once and return the fields of a `Plan` that depend on it.

    Args:
        study: the experiment.
        source: where the data comes from.
        budget: with nothing left open.
    """
    found: dict[str, Any] = {"study": study, "data": source, "budget": budget}
    found["codes"] = tuple(
        (own.name, own.code) for own in own_losses([*study.losses, *study.metrics])
    )
    folds = source.folds()
    used = {
        fold
        for trial in range(budget.trials or 1)
        for fold in study.protocol.folds_of(trial, folds)
    }
    marks = {}
    for fold in sorted(used):
        data = source.read(fold)
        marks[fold] = fingerprint_of(data)
        if len(marks) == 1:
            parts = [
                part for part in (data if isinstance(data, Splits) else [data]) if part is not None
            ]
            found["n_queries"] = sum(part.n_queries for part in parts)
            found["n_features"] = parts[0].n_features if parts else 0
    return {**found, "fingerprints": tuple(marks.items())}


def by_name(kind: str, name: str, known: Mapping[str, _T]) -> _T:
    """Look a name up.

    Args:
        kind: what is looked up, for the error.
        name: the name.
        known: everything by name.
    """
    return known[choice(kind, name, known)]
