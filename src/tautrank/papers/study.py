"""A study as data: which systems, on which data, under which conditions, judged how, and what the paper found.

How to declare one. A study is a frozen `Study`; there is nothing to program. This is a whole one:

>>> from tautrank.papers.claims import Better
>>> from tautrank.experiments.comparison import System
>>> study = Study(
...     name="my-table1",
...     title="XE-NDCG against ListNet",
...     paper="Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020, Table 1",
...     claim="XE-NDCG ranks better than ListNet",
...     systems=(System("listnet"), System("xendcg")),
...     metrics=("ndcg@5", "ndcg@10"),
...     claims=(Better(better="xendcg", worse="listnet", metric="ndcg@5"),),
...     trials=100,
...     trees=500,
... )
>>> study.protocol, study.baseline
(Resampling(train=0.6, valid=0.2, test=0.2), 'listnet')

Then:

- **Protocol**: where a trial's training, validation and test queries come from: `Resampling` (the default), `OwnFolds`
  (a trial a fold), `FixedParts` (the same test queries) or `OnItself` (what is trained on is tested on).
- **Conditions**: the points of a figure's x axis, or a table's variants. A `Condition` changes data (`Change`),
  parameters of every `Ranker`, parameters of every loss that has them, parameters of single systems, or the metrics.
  Every system runs under every condition in every trial; within a trial all see the same queries and the same noise.
- **Recipes**: a paper's parameters and printed numbers for one data set (`Recipe`, `Printed`). The data names its
  recipe by its number of features, or the user does; other data takes the first recipe's parameters.
- **Parameters** come, each over the last, from: the study, the recipe, the condition, the recipe for this condition,
  the system, the recipe for this system, the condition for this system, the configuration that is tried; the number
  of trees is the budget's.
- **Search**: with a budget of configurations (`configurations`, or ``--configs``) each trial of a system picks the best
  by the first metric on the validation queries; 0 takes the parameters as they are.
- **Claims** (`Better`, `BetterUnder`, `GapGrows`, `Reaches`, `LeadsEarly`, `Converges`) are judged twice: by the
  paper's own test (`PaperTest`) and by one that knows that trials share data.
- **Measurements**: where a figure needs no training, a `Measurement` stands in the place of a system, and the metrics
  are the names of what it measures.

Put it in a module of `tautrank.papers.catalogue` and name it in its ``STUDIES``; raise `version` whenever a change
would give other numbers, so that old stores are not continued by accident.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from tautrank.arguments import choice, whole
from tautrank.engines import NativeLoss, engine_for, read_loss
from tautrank.errors import OptionError, unknown
from tautrank.experiments.comparison import System
from tautrank.experiments.configuration import with_parameters
from tautrank.experiments.perturb import PARTS, Change
from tautrank.experiments.space import Search
from tautrank.metrics import metric
from tautrank.papers.claims import PLAIN, Claim
from tautrank.papers.measurements import MEASUREMENTS, Measurement

_T = TypeVar("_T")

OTHER_DATA = "other"
"""What a recipe is called whose parameters are for other data than the paper's."""

__all__ = [
    "OTHER_DATA",
    "Budget",
    "Condition",
    "FixedParts",
    "OnItself",
    "OwnFolds",
    "PaperTest",
    "Printed",
    "Protocol",
    "Recipe",
    "Resampling",
    "Study",
]


@dataclass(frozen=True)
class Resampling:
    """Every trial divides all queries anew at random.

    Args:
        train, valid, test: the shares of the queries.

    >>> Resampling(train=0.8)
    Traceback (most recent call last):
    tautrank.errors.OptionError: train, valid, test: found (0.8, 0.2, 0.2); expected shares above 0 that sum to 1
    """

    train: float = 0.6
    valid: float = 0.2
    test: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.train, self.valid, self.test)
        if not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
            raise OptionError(f"train, valid, test: found {shares}; expected shares above 0 that sum to 1")


@dataclass(frozen=True)
class OwnFolds:
    """A trial is a fold of the data set; after the last fold the first follows with another seed.

    Data that has no folds is divided into five, three of them for training, one for validation, one for test.
    """


@dataclass(frozen=True)
class FixedParts:
    """All trials test on the same queries, and train and validate on the same too, so that only random seeds differ.

    Seeds change nothing where neither loss nor trees draw anything; `redivide` then gives trials something to vary.

    Args:
        fold: which of the data set's folds (or sets); data in one piece is divided 60/20/20 once.
        redivide: whether each trial after the first divides the training and validation queries anew.
    """

    fold: int = 1
    redivide: bool = False


@dataclass(frozen=True)
class OnItself:
    """Trained, validated and tested on the same queries, all there are: can the loss be optimised at all?"""


Protocol: TypeAlias = Resampling | OwnFolds | FixedParts | OnItself


@dataclass(frozen=True)
class Condition:
    """One point of a figure's x axis, or one variant of a table.

    Args:
        name: as the table calls it.
        value: where it stands on the axis, if it is a number.
        changes: what is done to the data, in order.
        parameters: for every `Ranker`.
        loss: parameters for every loss that has them, such as ``{"mu": 10.0}``; other losses stay as they are.
        systems: parameters for single systems' `Ranker`, by name of the system.
        metrics: instead of the study's; the first one picks models.

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
class Printed:
    """A number in the paper.

    Args:
        system: the name of the system.
        metric: the metric.
        value: as a share, not in percent: 48.23 is ``0.4823``.
        condition: the name of the condition.
        part: which queries: ``"test"``, ``"valid"`` or ``"train"``.
        spread: what stands behind ± in the paper, likewise.
    """

    system: str
    metric: str
    value: float
    condition: str = PLAIN
    part: str = "test"
    spread: float | None = None


@dataclass(frozen=True)
class Recipe:
    """What a paper did and found on one data set.

    Args:
        data: the name of the data set: ``"web30k"``, ``"web10k"``, ``"yahoo1"``, ``"yahoo2"``, ... (see `data_source`);
            or `OTHER_DATA`, first of the recipes, where the paper's parameters would not serve other data.
        title: as the paper calls it.
        parameters: for every `Ranker`.
        systems: parameters for single systems' `Ranker`, by name of the system.
        conditions: parameters for every `Ranker` under single conditions, by name of the condition.
        printed: the paper's numbers.
    """

    data: str
    title: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    systems: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    printed: tuple[Printed, ...] = ()


@dataclass(frozen=True)
class PaperTest:
    """How the paper decided what is significant.

    Args:
        kind: ``"paired-t"``, the paired t-test; or ``"intervals"``: confidence intervals that do not touch.
        over: what is paired: ``"trials"`` (their means) or ``"queries"`` (of the first trial).
        level: of significance; for intervals 1 - confidence.
        one_sided: whether only one direction is asked for.

    >>> print(PaperTest(level=0.01))
    paired t-test over trials, level 0.01
    """

    kind: str = "paired-t"
    over: str = "trials"
    level: float = 0.05
    one_sided: bool = False

    def __post_init__(self) -> None:
        choice("kind of test", self.kind, ("paired-t", "intervals"))
        choice("over of test", self.over, ("trials", "queries"))
        if not 0 < self.level < 1:
            raise OptionError(f"level: found {self.level!r}; expected a number between 0 and 1")

    def __str__(self) -> str:
        if self.kind == "intervals":
            return f"{100 * (1 - self.level):g}% confidence intervals over {self.over} that do not touch"
        side = "one-sided " if self.one_sided else ""
        return f"{side}paired t-test over {self.over}, level {self.level:g}"


@dataclass(frozen=True)
class Budget:
    """How much of a study to run; what is None stays as the study declares it.

    Args:
        trials: repetitions.
        configurations: tried in each trial of each system; 0 takes the parameters as they are.
        trees: of a model, at most.

    >>> Budget(trials=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: trials: found 0; expected a whole number of at least 1
    """

    trials: int | None = None
    configurations: int | None = None
    trees: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("trials", 1), ("configurations", 0), ("trees", 1)):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole(name, value, least))


@dataclass(frozen=True)
class Study:
    """A paper's table or figure, declared: see the text of this module on how to write one.

    Args:
        name: what is typed, such as ``"xe-table1"``.
        title: one line.
        paper: where it stands.
        claim: what the paper says it shows, in one sentence.
        systems: what is compared; or `Measurement`.
        metrics: the first one picks models and stops training; all are recorded for every test query.
        claims: what the numbers should show.
        protocol: where a trial's queries come from.
        conditions: every system runs under each.
        axis: what the conditions' values are, for a figure.
        trials, trees, configurations: the paper's budget.
        parameters: for every `Ranker`.
        search: what configurations are drawn from.
        recipes: parameters and printed numbers by data set.
        test: the paper's own.
        judged: the parts whose mean metrics are recorded: the test part always, ``"train"`` and ``"valid"`` besides.
        curves: the parts whose first metric is recorded after every tree: ``"valid"``, ``"train"``.
        baseline: the system the others are compared with; the first where it is empty.
        data: what is used where the user names none, as in ``--data``; empty where there has to be some.
        note: what the paper leaves open and how it is settled here, and how the result is judged.
        version: raised whenever the same trial would give other numbers.
    """

    name: str
    title: str
    paper: str
    claim: str
    systems: tuple[System | Measurement, ...]
    metrics: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    protocol: Protocol = field(default_factory=Resampling)
    conditions: tuple[Condition, ...] = (Condition(),)
    axis: str = ""
    trials: int = 100
    trees: int = 500
    configurations: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    recipes: tuple[Recipe, ...] = ()
    test: PaperTest = field(default_factory=PaperTest)
    judged: tuple[str, ...] = ("test",)
    curves: tuple[str, ...] = ()
    baseline: str = ""
    data: str = ""
    note: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", self.name):
            raise OptionError(f"name: found '{self.name}'; expected small letters, digits and hyphens")
        for what, names in (
            ("systems", self.system_names),
            ("conditions", self.condition_names),
            ("metrics", self.metrics),
            ("recipes", tuple(recipe.data for recipe in self.recipes)),
        ):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise OptionError(f"{what}: found '{twice}' twice; expected different names")
            if not names and what != "recipes":
                raise OptionError(f"{what}: found none; expected at least one")
        Budget(self.trials, self.configurations, self.trees)
        if not self.baseline:
            object.__setattr__(self, "baseline", self.system_names[0])
        self._check_names()
        self._check_systems()

    @property
    def system_names(self) -> tuple[str, ...]:
        """What the table calls the systems."""
        return tuple(str(system) for system in self.systems)

    @property
    def condition_names(self) -> tuple[str, ...]:
        """What the table calls the conditions."""
        return tuple(condition.name for condition in self.conditions)

    @property
    def measures_only(self) -> bool:
        """Whether nothing is trained."""
        return all(isinstance(system, Measurement) for system in self.systems)

    def system(self, name: str) -> System | Measurement:
        """The system of that name."""
        return _by_name("system", name, dict(zip(self.system_names, self.systems, strict=True)))

    def condition(self, name: str) -> Condition:
        """The condition of that name."""
        return _by_name("condition", name, dict(zip(self.condition_names, self.conditions, strict=True)))

    def recipe(self, data: str) -> Recipe:
        """The recipe of that data set."""
        return _by_name("recipe", data, {recipe.data: recipe for recipe in self.recipes})

    def metrics_under(self, condition: str) -> tuple[str, ...]:
        """The metrics that are recorded under a condition."""
        return self.condition(condition).metrics or self.metrics

    def planned(self, budget: Budget) -> Budget:
        """The budget with what it leaves open taken from the study."""
        left_open = {name: getattr(self, name) for name, value in vars(budget).items() if value is None}
        return replace(budget, **left_open)

    def _check_names(self) -> None:
        """A misspelt name is said when the study is declared, not when it has run."""
        self.system(self.baseline)
        if "test" not in self.judged or not set(self.judged) <= set(PARTS):
            raise OptionError(f"judged: found {list(self.judged)}; expected 'test', and 'train' or 'valid' besides")
        if not set(self.curves) <= {"train", "valid"}:
            raise OptionError(f"curves: found {list(self.curves)}; expected 'train' or 'valid'")
        named = [owner.systems for owner in self.conditions] + [owner.systems for owner in self.recipes]
        for name in (name for systems in (*named, self.search.systems) for name in systems):
            self.system(name)
        for name in (name for recipe in self.recipes for name in recipe.conditions):
            self.condition(name)
        for claim in self.claims:
            looked_at = self.curves if claim.of_curves else self.judged
            if claim.part not in looked_at:
                raise unknown("part of a claim", claim.part, looked_at)
            for group in claim.cells(self.condition_names):
                for condition, system, measured in group:
                    self.system(system)
                    known = self.metrics_under(condition)
                    known = known[:1] if claim.of_curves else known
                    if measured not in known:
                        raise unknown("metric of a claim", measured, known)
        for recipe in self.recipes:
            for printed in recipe.printed:
                self.system(printed.system)
                if printed.part not in self.judged:
                    raise unknown("part in print", printed.part, self.judged)
                if printed.metric not in self.metrics_under(printed.condition):
                    raise unknown("metric in print", printed.metric, self.metrics_under(printed.condition))

    def _check_systems(self) -> None:
        for system in self.systems:
            if isinstance(system, Measurement):
                if system.kind not in MEASUREMENTS:
                    raise unknown("measurement", system.kind, MEASUREMENTS)
                continue
            wanted = read_loss(system.loss)
            parameters = {**self.parameters, **system.parameters}
            engine_for(str(parameters.get("engine", "lightgbm")), wanted)
            for condition in self.conditions:
                if not isinstance(wanted, NativeLoss):
                    read_loss(with_parameters(system.loss, condition.loss))
                for name in condition.metrics or self.metrics:
                    metric(name)


def _by_name(kind: str, name: str, known: Mapping[str, _T]) -> _T:
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]
