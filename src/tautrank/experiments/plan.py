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
        # Checks of numbers and of empty fields; then those of every system by its kind.
        self._check_fields()
        for system in self.systems:
            if isinstance(system, Measurement):
                choice("measurement", system.kind, MEASUREMENTS)
            else:
                self._check_trained(system)
        if not self.baseline:
            # A frozen dataclass refuses an assignment.
            object.__setattr__(self, "baseline", self.system_names[0])
        self.system(self.baseline)

    def _check_fields(self) -> None:
        """Raise an `OptionError` about an empty field, a budget that is out of range, or a part of
        the data other than train, valid and test.
        """
        examples = {
            "systems": "System('mse')",
            "conditions": "Condition()",
            "metrics": "'ndcg@10'",
        }
        for name, example in examples.items():
            if not getattr(self, name):
                raise OptionError(f"{name}: found none; expected at least one, such as {example}")

        # Making a budget checks its numbers.
        Budget(self.repeats, self.configurations, self.trees)

        # `<=` of sets: all parts are known ones.
        has_unknown_part = not set(self.judged) <= set(PARTS)
        if "test" not in self.judged or has_unknown_part:
            raise OptionError(
                f"judged: found {list(self.judged)};"
                " expected 'test', and 'train' or 'valid' besides"
            )
        if not set(self.curves) <= {"train", "valid"}:
            raise OptionError(f"curves: found {list(self.curves)}; expected 'train' or 'valid'")

    def _check_trained(self, system: System) -> None:
        """Raise an error if a system names an engine, loss or metric that does not exist.

        Reading the names is the check: it happens when the experiment is declared, long before the
        names are needed for training.
        """
        parameters = {**self.parameters, **system.parameters}
        engine_name = str(parameters.get("engine", DEFAULT_ENGINE))
        engine_for(engine_name, read_loss(system.loss))

        for condition in self.conditions:
            # A condition may set parameters of the loss.
            loss_under_condition = with_parameters(system.loss, condition.loss)
            read_loss(loss_under_condition)
            for metric_name in condition.metrics or self.metrics:
                metric(metric_name)

    @property
    def origin(self) -> dict[str, Any]:
        """What a trial's specification says about where it comes from."""
        return {"tautrank": results_version(tautrank.__version__)}

    @property
    def system_names(self) -> tuple[str, ...]:
        """The names of the systems in tables: the second system called mse is "mse #2"."""
        unique_names: list[str] = []
        typed_names = [str(system) for system in self.systems]
        for index, name in enumerate(typed_names):
            n_before = typed_names[:index].count(name)
            if n_before:
                unique_names.append(f"{name} #{n_before + 1}")
            else:
                unique_names.append(name)
        return tuple(unique_names)

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
        """Return a budget in which every None is replaced by the value that the experiment declares
        for it.
        """
        declared_values = {}
        for name, value in vars(budget).items():
            if value is None:
                declared_values[name] = getattr(self, name)
        return replace(budget, **declared_values)


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

        # A fingerprint is a hash of the data, by which a later run recognises it.
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
        """The data in memory by its fingerprint, by which trials ask for it; empty if the data is
        in files.
        """
        if not self.data.held:
            return {}
        # Folds are numbered from 1.
        return {fingerprint: self.data.held[fold - 1] for fold, fingerprint in self.fingerprints}

    def folds_of(self, trial: int) -> list[int]:
        """Return the numbers of the folds that a trial trains and tests on.

        Args:
            trial: the number of the trial, from 0.
        """
        folds = [fold for fold, _fingerprint in self.fingerprints]
        return self.study.protocol.folds_of(trial, folds)

    @property
    def size(self) -> int:
        """The number of trials (of single trainings: each system under each condition on each fold
        counts).
        """
        return len(self.trials())

    def trials(self) -> list[Trial]:
        """Return every trial in the order they are run: one per fold, condition and system in the
        first repetition, then those of the next repetition.

        So a run that is stopped half-way has whole repetitions to compare.
        """
        trials: list[Trial] = []
        system_indices = range(len(self.study.systems))
        # Without a number of repeats, there is one.
        for repeat in range(self.budget.repeats or 1):
            folds = self.folds_of(repeat)
            for fold, condition, index in product(folds, self.study.conditions, system_indices):
                # The specification is everything the trial depends on, as JSON; its hash is the
                # key.
                spec = self._spec(_TrialPosition(repeat, fold, condition, index))
                number = len(trials)
                trials.append(Trial(number, trial_key(spec), spec, title_of(spec)))
        return trials

    def configured_trial(
        self, number: int, configuration: Mapping[str, Any], checkpoints: Sequence[int]
    ) -> Trial:
        """Return the trial of a hyperparameter search that trains one configuration, once.

        The trial belongs to the first condition and fold, as a search has one of each; `study` is
        the declared search.

        Args:
            number: the number of the trial, from 0.
            configuration: the loss (under ``loss``) and the hyperparameter values, by name.
            checkpoints: the numbers of trees after which the trial reports its validation score.
        """
        position = _TrialPosition(
            repeat=0,
            fold=self.folds_of(0)[0],
            condition=self.study.conditions[0],
            system_index=self.study.losses.index(configuration["loss"]),
        )
        spec = {
            **self._spec(position),
            "number": number,
            "configuration": dict(configuration),
            "checkpoints": list(checkpoints),
        }
        return Trial(number, trial_key(spec), spec, f"trial {number}")

    def seed_of(self, trial: int, index: int) -> int:
        """Return the random seed of one system's training in a trial.

        Args:
            trial: the number of the trial, from 0.
            index: the index of the system; the second of two equal systems gets other seeds under
                the protocol `GivenSplits`.
        """
        occurrence = self.study.occurrence(index)
        return self.study.protocol.seed_of(self.seed, trial, occurrence)

    def _spec(self, position: _TrialPosition) -> dict[str, Any]:
        """Return the specification of one trial as JSON values: everything its result depends on.

        Args:
            position: the repetition, fold, condition and system of the trial.
        """
        study = self.study
        condition = position.condition
        system = study.systems[position.system_index]
        fingerprint_by_fold = dict(self.fingerprints)
        spec = {
            **study.origin,
            "system": study.system_names[position.system_index],
            "condition": condition.name,
            "trial": position.repeat,
            "data": {
                "given": list(self.data.given),
                "fold": position.fold,
                "fingerprint": fingerprint_by_fold[position.fold],
            },
            "protocol": to_json(study.protocol, "plan"),
            "changes": to_json(condition.changes, "plan"),
            "seed": self.seed_of(position.repeat, position.system_index),
            "study_seed": self.seed,
            "metrics": list(condition.metrics or study.metrics),
        }
        if self.n_jobs is not None:
            spec["n_jobs"] = self.n_jobs

        # The layers go from general to special: later ones replace values of earlier ones.
        parameters: dict[str, Any] = {}
        for layer in self.layers(condition, position.system_index):
            parameters.update(layer)

        if isinstance(system, Measurement):
            spec["measure"] = system.kind
            spec["parameters"] = to_json(parameters, "plan")
            return spec
        return {**spec, **self._training_spec(position, system, parameters)}

    def _training_spec(
        self, position: _TrialPosition, system: System, parameters: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the part of a trial's specification that only trainings have: loss, parameters,
        hyperparameter search, and the parts of the data that are judged.

        Args:
            position: the repetition, fold, condition and system of the trial.
            system: what is trained.
            parameters: the parameters of its `Ranker`.
        """
        study = self.study
        if self.budget.trees is not None:
            parameters = {**parameters, "n_estimators": self.budget.trees}

        n_configurations = self.budget.configurations
        search: dict[str, Any] = {}
        if n_configurations:
            system_name = study.system_names[position.system_index]
            search = {**study.search.everyone, **study.search.systems.get(system_name, {})}

        loss = with_parameters(system.loss, position.condition.loss)
        spec = {
            "loss": loss,
            "parameters": to_json(with_stored_names(parameters), "plan"),
            "search": to_json(search, "plan"),
            "configurations": n_configurations,
            "judged": list(study.judged),
            "curves": list(study.curves),
        }

        # The code of a user's own loss is part of what the result depends on.
        hash_by_custom_loss = dict(self.codes)
        code_hash = hash_by_custom_loss.get(name_of(loss))
        if code_hash is not None:
            spec["code"] = code_hash

        # These numbers seed the random configurations of the search.
        if n_configurations and isinstance(study.protocol, GivenSplits):
            occurrence = study.occurrence(position.system_index)
            spec["draws"] = [self.seed, position.repeat, position.fold - 1, occurrence]
        return spec

    def layers(self, condition: Condition, index: int) -> list[Mapping[str, Any]]:
        """Return the dictionaries of `Ranker` parameters that apply to a system under a condition,
        from the most general to the most special; a later one overrides the earlier ones.

        Args:
            condition: what the experiment varies, such as a level of noise in the labels.
            index: the index of the system among the systems of the experiment.
        """
        system = self.study.systems[index]
        system_name = self.study.system_names[index]
        parameters_of_all = self.study.parameters
        # A condition can set parameters of a single system, under its name.
        parameters_of_system_here = condition.systems.get(system_name, {})
        return [
            parameters_of_all,
            condition.parameters,
            system.parameters,
            parameters_of_system_here,
        ]


class _TrialPosition(NamedTuple):
    """Where a trial stands in its plan.

    Attributes:
        repeat: the number of the repetition, from 0.
        fold: the fold of the data, from 1.
        condition: the condition.
        system_index: the index of the system among the systems.
    """

    repeat: int
    fold: int
    condition: Condition
    system_index: int


class _Size(NamedTuple):
    """The size of data: its queries, and the columns of its features."""

    n_queries: int
    n_features: int


def _size_of(data: RankingData | Splits | None) -> _Size:
    """Return the number of queries in all parts of data together, and the number of features."""
    if data is None:
        return _Size(0, 0)
    if isinstance(data, RankingData):
        return _Size(data.n_queries, data.n_features)

    parts = [part for part in data if part is not None]
    n_queries = sum(part.n_queries for part in parts)
    return _Size(n_queries, parts[0].n_features)


def title_of(spec: Mapping[str, Any]) -> str:
    """Return a title of a trial for progress messages: its number, fold, condition and system.

    Args:
        spec: the specification of the trial.

    >>> title_of({"study": "s", "trial": 0, "condition": "30%", "system": "xendcg"})
    'trial 1, 30%, xendcg'
    """
    is_of_study = "study" in spec
    number = spec["trial"] + 1
    if is_of_study:
        words = [f"trial {number}"]
    else:
        words = [f"repeat {number}"]

    # A repetition of a comparison runs on every fold, so its titles say which one.
    if not is_of_study:
        fold = spec["data"]["fold"]
        if fold > 1:
            words.append(f"fold {fold}")
    if spec["condition"] != PLAIN:
        words.append(spec["condition"])
    words.append(spec["system"])
    return ", ".join(words)


def trial_key(spec: Mapping[str, Any]) -> str:
    """Return the key under which the result of a trial is stored: a hash of its specification.

    The path of the data is left out of the hash: the same data in another folder gives the same
    result.

    Args:
        spec: the specification of the trial.

    >>> a, b = ({"data": {"given": [path], "fold": 1, "fingerprint": "f"}} for path in ("here", "there"))
    >>> trial_key(a) == trial_key(b)
    True
    """
    data_without_path = {name: value for name, value in spec["data"].items() if name != "given"}
    return digest({**spec, "data": data_without_path})


def by_name(kind: str, name: str, values: Mapping[str, _T]) -> _T:
    """Return the value of a name, or raise an `OptionError` that suggests the nearest known name.

    Args:
        kind: what is looked up, for the error, such as ``"system"``.
        name: the name.
        values: all values by name.
    """
    known_name = choice(kind, name, values)
    return values[known_name]
