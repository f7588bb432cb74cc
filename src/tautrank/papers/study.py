"""A study as data: its systems, conditions and protocol, how it is judged, and what the paper
found.

How to declare one: a study is a frozen `Study`; there is nothing to program. This is a complete
one:

>>> from tautrank.papers.claims import Better
>>> from tautrank.experiments.plan import System
>>> study = Study(
...     name="my-table1",
...     title="XE-NDCG against ListNet",
...     paper="Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020, Table 1",
...     claim="XE-NDCG ranks better than ListNet",
...     systems=(System("listnet"), System("xendcg")),
...     metrics=("ndcg@5", "ndcg@10"),
...     claims=(Better(better="xendcg", worse="listnet", metric="ndcg@5"),),
...     repeats=100,
...     trees=500,
... )
>>> study.protocol, study.baseline
(Resampling(train=0.6, valid=0.2, test=0.2), 'listnet')

Then:

- **Protocol**: where a trial's training, validation and test queries come from: `Resampling` (the
  default), `OwnFolds` (one fold per trial), `FixedParts` (the same test queries) or `OnItself`
  (tested on the training queries).
- **Conditions**: the points of a figure's x axis, or a table's variants. A `Condition` changes data
  (`Change`), parameters of every `Ranker`, parameters of every loss that has them, parameters of
  single systems, or the metrics. Every system runs under every condition in every trial; within a
  trial all see the same queries and the same noise.
- **Recipes**: a paper's parameters and printed numbers for one data set (`Recipe`, `Printed`). The
  data names its recipe by its number of features, or the user does; other data takes the first
  recipe's parameters.
- **Parameters** come, each over the last, from: the study, the recipe, the condition, the recipe
  for this condition, the system, the recipe for this system, the condition for this system, the
  configuration that is tried; the number of trees is the budget's.
- **Search**: with a budget of configurations (`configurations`, or ``--configs``) each trial of a
  system picks the best by the first metric on the validation queries; 0 takes the parameters as
  they are.
- **Claims** (`Better`, `BetterUnder`, `GapGrows`, `Reaches`, `LeadsEarly`, `Converges`) are judged
  twice: by the paper's own test (`PaperTest`) and by the library's, over queries and trials.
- **Measurements**: if a figure needs no training, a `Measurement` takes the place of a system, and
  the metrics are the names of what it measures.

Put it in a module of `tautrank.papers.catalogue`; raise `version` whenever a change
would give other numbers, so that old stores are not continued by accident.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tautrank.arguments import check_fields, checked_by, choice
from tautrank.errors import OptionError
from tautrank.experiments.plan import PLAIN, Experiment, by_name
from tautrank.json_values import declare, stored_as
from tautrank.papers.claims import Claim
from tautrank.significance.paired import fraction

OTHER_DATA = "other"
"""The name of a recipe whose parameters are for other data than the paper's."""


@dataclass(frozen=True)
class Printed:
    """A number in the paper.

    Args:
        system: the name of the system.
        metric: the metric.
        value: as a share, not in percent: 48.23 is ``0.4823``.
        condition: the name of the condition.
        part: the queries: ``"test"``, ``"valid"`` or ``"train"``.
        spread: the number after ± in the paper, as a share too.
    """

    system: str
    metric: str
    value: float
    condition: str = PLAIN
    part: str = "test"
    spread: float | None = None


@dataclass(frozen=True)
class Recipe:
    """The parameters and numbers of a paper on one data set.

    Args:
        data: the name of the data set: ``"web30k"``, ``"web10k"``, ``"yahoo1"``, ``"yahoo2"``, ...
            (see `papers.plan`); or `OTHER_DATA`, first of the recipes, if the paper's parameters
            would not suit other data.
        title: the paper's name for it.
        parameters: parameters of every `Ranker`.
        systems: parameters of single systems' `Ranker`, by name of the system.
        conditions: parameters of every `Ranker` under single conditions, by name of the condition.
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
        kind: ``"paired-t"``, the paired t-test; or ``"intervals"``: confidence intervals that do
            not touch.
        over: what is paired: ``"trials"`` (their means) or ``"queries"`` (of the first trial).
        level: the significance level; for intervals 1 - confidence.
        one_sided: whether only one direction is tested.

    >>> print(PaperTest(level=0.01))
    paired t-test over trials, level 0.01
    """

    kind: str = field(
        default="paired-t", metadata=checked_by(choice, known=("paired-t", "intervals"))
    )
    over: str = field(default="trials", metadata=checked_by(choice, known=("trials", "queries")))
    level: float = 0.05
    one_sided: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        fraction("level", self.level)

    def __str__(self) -> str:
        if self.kind == "intervals":
            return f"{100 * (1 - self.level):g}% confidence intervals over {self.over} that do not touch"
        side = "one-sided " if self.one_sided else ""
        return f"{side}paired t-test over {self.over}, level {self.level:g}"


@dataclass(frozen=True, kw_only=True)
class Study(Experiment):
    """A paper's table or figure, declared: see the docstring of this module for how to write one.

    Args:
        name: the name to type, such as ``"xe-table1"``.
        title: one line.
        paper: the citation.
        claim: what the paper says it shows, in one sentence.
        claims: what the numbers should show.
        axis: the meaning of the conditions' values, for a figure.
        repeats, trees, configurations: the paper's budget.
        recipes: parameters and printed numbers by data set.
        test: the paper's own test.
        data: the data to use if the user names none, as in ``--data``; empty if there has to be
            some.
        note: what the paper leaves open and how it is settled here, and how the result is judged.
        version: raised whenever the same trial would give other numbers.

    The other arguments are those of `tautrank.experiments.plan.Experiment`: systems, metrics,
    protocol, conditions, parameters, search, judged, curves and baseline.
    """

    name: str
    title: str
    paper: str
    claim: str
    claims: tuple[Claim, ...] = ()
    axis: str = ""
    repeats: int = field(default=100, metadata=stored_as("trials"))
    trees: int = 500
    recipes: tuple[Recipe, ...] = ()
    test: PaperTest = field(default_factory=PaperTest)
    data: str = ""
    note: str = ""
    version: int = 1

    keeps_failures = True

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]*", self.name):
            raise OptionError(
                f"name: found '{self.name}'; expected small letters, digits and hyphens"
            )
        _check_different("systems", [str(system) for system in self.systems])
        _check_different("conditions", self.condition_names)
        _check_different("metrics", self.metrics)
        _check_different("recipes", [recipe.data for recipe in self.recipes])
        super().__post_init__()
        for claim in self.claims:
            self._check_claim(claim)
        self._check_names()

    @property
    def origin(self) -> dict[str, Any]:
        """The name and version of the study, which every trial of it carries."""
        return {"study": self.name, "version": self.version}

    def recipe(self, data: str) -> Recipe:
        """Return the paper's recipe for the data set of that name; raise an error if there is
        none.
        """
        recipe_by_name = {recipe.data: recipe for recipe in self.recipes}
        return by_name("recipe", data, recipe_by_name)

    def _check_claim(self, claim: Claim) -> None:
        """Raise an error if a claim of the paper names a system, condition, metric or part of the
        queries that the study does not have.
        """
        parts = self.curves if claim.of_curves else self.judged
        choice("part of a claim", claim.part, parts)
        for cells in claim.cells(self.condition_names):
            for condition, system, metric in cells:
                self.system(system)  # an error if there is none of that name
                metrics = self.metrics_under(condition)
                if claim.of_curves:
                    metrics = metrics[:1]  # the only one that is recorded after each tree
                choice("metric of a claim", metric, metrics)

    def _check_names(self) -> None:
        """Raise an error if conditions, recipes or the search name a system, condition, metric or
        part of the queries that the study does not have.

        So a misspelt name is found when the study is declared, not when it has run.
        """
        # `system`, `condition` and `metrics_under` raise an error for an unknown name.
        for condition in self.conditions:
            self._check_systems(condition.systems)
        for recipe in self.recipes:
            self._check_systems(recipe.systems)
        self._check_systems(self.search.systems)

        for recipe in self.recipes:
            for name in recipe.conditions:
                self.condition(name)
            for printed in recipe.printed:
                self.system(printed.system)
                choice("part in print", printed.part, self.judged)
                choice("metric in print", printed.metric, self.metrics_under(printed.condition))

    def _check_systems(self, names: Iterable[str]) -> None:
        """Raise an error if the study has no system of one of these names."""
        for name in names:
            self.system(name)


def _check_different(kind: str, names: Sequence[str]) -> None:
    """Raise an error if a name occurs twice; `kind` says what the names are of."""
    for name, count in Counter(names).items():
        if count > 1:
            raise OptionError(f"{kind}: found '{name}' twice; expected different names")


declare(__name__)
