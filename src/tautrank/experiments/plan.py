"""A plan: systems under conditions, judged by metrics, on given data, with a budget and a seed; and
its trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import tautrank
from tautrank.arguments import check_fields, checked_by, choice, whole
from tautrank.data import RankingData, Splits
from tautrank.engines import DEFAULT_ENGINE, engine_for, read_loss
from tautrank.errors import OptionError
from tautrank.experiments.changes import Change
from tautrank.experiments.data_source import DataSource, fingerprint_of
from tautrank.experiments.measurements import MEASUREMENTS
from tautrank.experiments.protocols import PARTS, GivenSplits, Protocol, Resampling
from tautrank.experiments.space import Search, with_parameters
from tautrank.experiments.store import Trial
from tautrank.experiments.versions import results_version
from tautrank.json_values import declare, digest, stored_as, to_json
from tautrank.losses.own_losses import own_losses
from tautrank.metrics import metric
from tautrank.names import name_of
from tautrank.ranker.stored_names import with_stored_names

if TYPE_CHECKING:
    from typing_extensions import Self

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
        repeats: the number of repetitions.
        configurations: how many are tried in each training; 0 takes the parameters as
            they are.
        trees: the most trees of a model.

    >>> Budget(repeats=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: repeats: found 0; expected a whole number of at least 1
    """

    repeats: int | None = field(
        default=None, metadata=checked_by(whole, least=1) | stored_as("trials")
    )
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
        repeats, configurations, trees: the budget; `trees` None leaves them to the parameters.
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
    repeats: int = field(default=5, metadata=stored_as("trials"))
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
        self._check_fields()
        for system in self.systems:
            if isinstance(system, Measurement):
                choice("measurement", system.kind, MEASUREMENTS)
            else:
                self._check_trained(system)
        if not self.baseline:
            object.__setattr__(self, "baseline", self.system_names[0])
        self.system(self.baseline)

    def _check_fields(self) -> None:
        """Refuse an experiment without systems, and parts of the data that there are not."""
        examples = {
            "systems": "System('mse')",
            "conditions": "Condition()",
            "metrics": "'ndcg@10'",
        }
        for name, example in examples.items():
            if not getattr(self, name):
                raise OptionError(f"{name}: found none; expected at least one, such as {example}")
        Budget(self.repeats, self.configurations, self.trees)
        if "test" not in self.judged or not set(self.judged) <= set(PARTS):
            raise OptionError(
                f"judged: found {list(self.judged)};"
                " expected 'test', and 'train' or 'valid' besides"
            )
        if not set(self.curves) <= {"train", "valid"}:
            raise OptionError(f"curves: found {list(self.curves)}; expected 'train' or 'valid'")

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
        names: list[str] = []
        typed_names = [str(system) for system in self.systems]
        for index, name in enumerate(typed_names):
            n_before = typed_names[:index].count(name)
            names.append(f"{name} #{n_before + 1}" if n_before else name)
        return tuple(names)

    def occurrence(self, index: int) -> int:
        """Return how many of the systems before this one are equal to it.

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
        """Return the system of that name."""
        systems = dict(zip(self.system_names, self.systems, strict=True))
        return by_name("system", name, systems)

    def condition(self, name: str) -> Condition:
        """Return the condition of that name."""
        conditions = {condition.name: condition for condition in self.conditions}
        return by_name("condition", name, conditions)

    def metrics_under(self, condition: str) -> tuple[str, ...]:
        """Return the metrics that are recorded under a condition."""
        return self.condition(condition).metrics or self.metrics

    def planned(self, budget: Budget) -> Budget:
        """Return a budget with what it leaves open as the experiment declares it."""
        open_names = [name for name, value in vars(budget).items() if value is None]
        return replace(budget, **{name: getattr(self, name) for name in open_names})


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

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        source: DataSource,
        budget: Budget | None = None,
        *,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> Self:
        """Read the data once, to recognise it later, and return the plan of an experiment on it.

        Args:
            experiment: the experiment.
            source: where the data comes from.
            budget: how much to run; by default what the experiment declares.
            seed: the seed of all random numbers.
            n_jobs: threads of one trial.
        """
        budget = experiment.planned(budget or Budget())
        all_folds = source.folds()
        used_folds = set()
        for trial in range(budget.repeats or 1):
            used_folds.update(experiment.protocol.folds_of(trial, all_folds))

        fingerprints: list[tuple[int, str]] = []
        size = _Size(0, 0)
        for fold in sorted(used_folds):
            data = source.read(fold)
            if not fingerprints:
                size = _size_of(data)
            fingerprints.append((fold, fingerprint_of(data)))

        custom = own_losses([*experiment.losses, *experiment.metrics])
        return cls(
            study=experiment,
            data=source,
            fingerprints=tuple(fingerprints),
            n_queries=size.n_queries,
            n_features=size.n_features,
            budget=budget,
            seed=whole("seed", seed, 0),
            n_jobs=n_jobs,
            codes=tuple((loss.name, loss.code) for loss in custom),
        )

    @property
    def data_by_fingerprint(self) -> dict[str, Splits]:
        """The data in memory, as trials ask for it."""
        if not self.data.held:
            return {}
        return {fingerprint: self.data.held[fold - 1] for fold, fingerprint in self.fingerprints}

    def folds_of(self, trial: int) -> list[int]:
        """Return the folds that a trial uses.

        Args:
            trial: its number, from 0.
        """
        folds = [fold for fold, _ in self.fingerprints]
        return self.study.protocol.folds_of(trial, folds)

    @property
    def size(self) -> int:
        """The number of trials (of single trainings: each system under each condition on each fold
        counts).
        """
        return len(self.trials())

    def trials(self) -> list[Trial]:
        """Return every trial, in the order they are run: all systems and conditions of the first
        repetition, then the next.

        So a run that is stopped half-way has whole repetitions to compare.
        """
        trials: list[Trial] = []
        for repeat in range(self.budget.repeats or 1):
            places = product(
                self.folds_of(repeat), self.study.conditions, range(len(self.study.systems))
            )
            for fold, condition, index in places:
                spec = self._spec(_Place(repeat, fold, condition, index))
                trials.append(Trial(len(trials), trial_key(spec), spec, title_of(spec)))
        return trials

    def configured_trial(
        self, number: int, configuration: Mapping[str, Any], checkpoints: Sequence[int]
    ) -> Trial:
        """Return a trial that trains one configuration of a search, once.

        Args:
            number: its number, from 0.
            configuration: the loss, and the values that are tried by name.
            checkpoints: the numbers of trees at which it says how it goes.
        """
        index = self.study.losses.index(configuration["loss"])
        spec = {
            **self._spec(_Place(0, self.folds_of(0)[0], self.study.conditions[0], index)),
            "number": number,
            "configuration": dict(configuration),
            "checkpoints": list(checkpoints),
        }
        return Trial(number, trial_key(spec), spec, f"trial {number}")

    def seed_of(self, trial: int, index: int) -> int:
        """Return the seed of a trial.

        Args:
            trial: its number, from 0.
            index: the place of the system; a system that is there again has other seeds where
                splits are given.
        """
        return self.study.protocol.seed_of(self.seed, trial, self.study.occurrence(index))

    def _spec(self, place: _Place) -> dict[str, Any]:
        """Return everything that the result of a trial depends on, as JSON values."""
        study = self.study
        system = study.systems[place.system]
        spec = {
            **study.origin,
            "system": study.system_names[place.system],
            "condition": place.condition.name,
            "trial": place.repeat,
            "data": {
                "given": list(self.data.given),
                "fold": place.fold,
                "fingerprint": dict(self.fingerprints)[place.fold],
            },
            "protocol": to_json(study.protocol, "plan"),
            "changes": to_json(place.condition.changes, "plan"),
            "seed": self.seed_of(place.repeat, place.system),
            "study_seed": self.seed,
            "metrics": list(place.condition.metrics or study.metrics),
        }
        if self.n_jobs is not None:
            spec["n_jobs"] = self.n_jobs

        parameters: dict[str, Any] = {}
        for layer in self.layers(place.condition, place.system):
            parameters |= layer
        if isinstance(system, Measurement):
            spec["measure"] = system.kind
            spec["parameters"] = to_json(parameters, "plan")
            return spec
        return spec | self._training_spec(place, system, parameters)

    def _training_spec(
        self, place: _Place, system: System, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what the result of a training depends on besides data, seeds and metrics."""
        study, n_configurations = self.study, self.budget.configurations
        if self.budget.trees is not None:
            parameters = {**parameters, "n_estimators": self.budget.trees}
        search: dict[str, Any] = {}
        if n_configurations:
            name = study.system_names[place.system]
            search = {**study.search.everyone, **study.search.systems.get(name, {})}
        loss = with_parameters(system.loss, place.condition.loss)
        spec = {
            "loss": loss,
            "parameters": to_json(with_stored_names(parameters), "plan"),
            "search": to_json(search, "plan"),
            "configurations": n_configurations,
            "judged": list(study.judged),
            "curves": list(study.curves),
        }
        code = dict(self.codes).get(name_of(loss))
        if code is not None:
            spec["code"] = code
        if n_configurations and isinstance(study.protocol, GivenSplits):
            occurrence = study.occurrence(place.system)
            spec["draws"] = [self.seed, place.repeat, place.fold - 1, occurrence]
        return spec

    def layers(self, condition: Condition, index: int) -> list[Mapping[str, Any]]:
        """Return the parameters of a system under a condition, what is general first.

        Args:
            condition: the condition.
            index: the place of the system.
        """
        name = self.study.system_names[index]
        return [
            self.study.parameters,
            condition.parameters,
            self.study.systems[index].parameters,
            condition.systems.get(name, {}),
        ]


class _Place(NamedTuple):
    """Where a trial stands in its plan.

    Attributes:
        repeat: the number of the repetition, from 0.
        fold: the fold of the data, from 1.
        condition: the condition.
        system: the index of the system among the systems.
    """

    repeat: int
    fold: int
    condition: Condition
    system: int


class _Size(NamedTuple):
    """The size of data: its queries, and the columns of its features."""

    n_queries: int
    n_features: int


def _size_of(data: RankingData | Splits | None) -> _Size:
    """Return the size of all parts of data together."""
    if data is None:
        return _Size(0, 0)
    parts = [data] if isinstance(data, RankingData) else [part for part in data if part is not None]
    return _Size(sum(part.n_queries for part in parts), parts[0].n_features)


def title_of(spec: Mapping[str, Any]) -> str:
    """Return a trial in a few words.

    Args:
        spec: its specification.

    >>> title_of({"study": "s", "trial": 0, "condition": "30%", "system": "xendcg"})
    'trial 1, 30%, xendcg'
    """
    is_of_study = "study" in spec
    words = [f"{'trial' if is_of_study else 'repeat'} {spec['trial'] + 1}"]
    if not is_of_study and spec["data"]["fold"] > 1:
        words.append(f"fold {spec['data']['fold']}")
    if spec["condition"] != PLAIN:
        words.append(spec["condition"])
    return ", ".join([*words, spec["system"]])


def trial_key(spec: Mapping[str, Any]) -> str:
    """Return a hash of what the result of a trial depends on: what is in the data, but not where it
    lies.

    Args:
        spec: its specification.

    >>> a, b = ({"data": {"given": [place], "fold": 1, "fingerprint": "f"}} for place in ("here", "there"))
    >>> trial_key(a) == trial_key(b)
    True
    """
    content = {name: value for name, value in spec["data"].items() if name != "given"}
    return digest({**spec, "data": content})


def by_name(kind: str, name: str, values: Mapping[str, _T]) -> _T:
    """Look a name up; an unknown one is an error.

    Args:
        kind: what is looked up, for the error.
        name: the name.
        values: everything by name.
    """
    return values[choice(kind, name, values)]
