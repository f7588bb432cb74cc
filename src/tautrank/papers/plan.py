"""The plan of a study: all that decides what a run of it computes on some data, with a budget and a
seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import NONE, DataSource, read_source
from tautrank.experiments.plan import Budget, Condition, Plan
from tautrank.json_values import digest, from_json, to_json
from tautrank.papers.study import OTHER_DATA, Recipe, Study

# The published data sets: the widths of their files, and their number of queries. Yahoo! numbers
# its features up to 700 in both sets; 519 and 596 of them are used.
PUBLISHED = {
    "web30k": ((136,), 31531),
    "web10k": ((136,), 10000),
    "yahoo1": ((519, 699, 700), 29921),
    "yahoo2": ((596, 699, 700), 6330),
    "istella": ((220,), 33018),
    "mq2007": ((46,), 1692),
    "mq2008": ((46,), 784),
}

_SAME_FAMILY = {"web10k": "web30k", "web30k": "web10k", "yahoo2": "yahoo1", "yahoo1": "yahoo2"}


@dataclass(frozen=True, kw_only=True)
class StudyPlan(Plan):
    """All that decides what a run of a study computes.

    Args:
        recipe: the name of the data set whose parameters are used; empty if the study has no
            recipes.
    """

    study: Study
    recipe: str = ""

    def to_plain(self) -> dict[str, Any]:
        """Return the plan as a dictionary that JSON can hold; `from_plain` reads it."""
        fields = dict(vars(self))
        # The source of the data is written as two entries: what the user typed, and the fold.
        del fields["data"]
        # Without losses of the user's own there are no codes (hashes of their source) to keep.
        if not self.codes:
            del fields["codes"]
        plain = {name: to_json(value, "plan") for name, value in fields.items()}
        plain["data"] = list(self.data.given)
        plain["fold"] = self.data.fold
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> StudyPlan:
        """Return the plan of a study from the dictionary that `to_plain` made of it; raise an error
        that says why if it cannot be read.

        Args:
            plain: the result of `to_plain`, as read from JSON.
        """
        try:
            stored = dict(plain)  # a copy, since entries are taken out
            data = DataSource(tuple(stored.pop("data")), stored.pop("fold"))
            fields = {name: from_json(value) for name, value in stored.items()}
            return cls(**fields, data=data)
        # A value that this version does not know, such as the name of a loss.
        except OptionError as error:
            hint = ""
            # `codes` are pairs: the name of a loss that the user wrote, and a hash of its code. Such
            # a loss is unknown until the user's file is imported.
            names_of_losses = [str(code[0]) for code in plain.get("codes", [])]
            if names_of_losses:
                hint = (
                    f" (it has losses of its own, {', '.join(names_of_losses)}:"
                    " --import the file that registers them)"
                )
            raise DataError(f"the plan cannot be read: {error}{hint}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the plan cannot be read ({error}); expected one written by this version"
            ) from None

    @property
    def key(self) -> str:
        """A hash of all in this plan that decides the numbers of a run, by which a stored run is
        recognised: of what is in the data, but not of where it lies, nor of the study's texts.
        """
        plain = self.to_plain()
        for text in ("title", "paper", "claim", "note", "axis"):
            plain["study"][text] = None
        # The fingerprints stay in, which are hashes of the data itself.
        del plain["data"]
        del plain["fold"]
        return digest(plain)

    @property
    def used_recipe(self) -> Recipe | None:
        """The recipe whose parameters are used."""
        return self.study.recipe(self.recipe) if self.recipe else None

    def layers(self, condition: Condition, index: int) -> list[Mapping[str, Any]]:
        """Return the parameters of a system under a condition as several mappings, of which a later
        one overrides those before: the general ones first, each followed by those that the paper's
        recipe for the data has in its place.

        Args:
            condition: what the study varies, such as the noise in the labels.
            index: the number of the system in the study.
        """
        # Of the study: for all, for this condition, for this system, for the two together.
        general, of_condition, of_system, of_both = super().layers(condition, index)
        recipe = self.used_recipe
        # An empty recipe adds nothing.
        if recipe is None:
            recipe = Recipe(data="", title="")
        system_name = self.study.system_names[index]
        recipe_of_condition = recipe.conditions.get(condition.name, {})
        recipe_of_system = recipe.systems.get(system_name, {})
        return [
            general,
            recipe.parameters,
            of_condition,
            recipe_of_condition,
            of_system,
            recipe_of_system,
            of_both,
        ]


def make_plan(
    study: Study,
    data: str | Sequence[str] = "",
    *,
    budget: Budget | None = None,
    fold: int | None = None,
    recipe: str = "",
    seed: int = 0,
    n_jobs: int = 1,
) -> StudyPlan:
    """Return the plan of a run of a study: its trials on some data, with a budget and a seed.

    The data is read once, for fingerprints by which it is recognised later.

    Args:
        study: the study of a paper.
        data: as in `read_source`; by default the study's own.
        budget: how much to run.
        fold: the only fold of a folder to use.
        recipe: the data set whose parameters to use; by default the one that the data looks like.
        seed: the seed of all random numbers.
        n_jobs: threads of one trial; the losses of this library give the same bits for any number.

    >>> from tautrank.papers.catalogue import find_study
    >>> study = find_study("xe-table1")
    >>> plan = make_plan(study, "simulated:yahoo:20", budget=Budget(repeats=2))
    >>> plan.size, plan.recipe, plan.trials()[0].spec["parameters"]["num_leaves"]
    (6, 'yahoo1', 200)
    """
    seed = whole("seed", seed, least=0)
    n_jobs = whole("n_jobs", n_jobs, least=1)
    if recipe:
        recipe = study.recipe(recipe).data  # an error if the study has none of that name

    # The data given here goes before the study's own; NONE stands for no data.
    source = read_source(data or study.data or NONE, fold)
    has_no_data = source.given == (NONE,)
    if has_no_data and not study.measures_only:
        expected = "a folder, a file, or synthetic data such as simulated:mslr:200"
        raise OptionError(
            f"--data: found none; expected {expected}, since {study.name} trains models"
        )
    plan = StudyPlan.of(study, source, budget, seed=seed, n_jobs=n_jobs)
    if not recipe and study.recipes:
        recipe = _recipe_for(study, plan.n_features, plan.n_queries)
    return replace(plan, recipe=recipe)


def _recipe_for(study: Study, n_features: int, n_queries: int) -> str:
    """Return the name of the recipe (a paper's parameters for one data set) that suits some data:
    that of the published data set it looks like, or of one of the same family; else the study's
    first.
    """
    recipe_names = [recipe.data for recipe in study.recipes]
    data_set, is_small = recognise(n_features, n_queries)
    # The paper's least number of documents in a leaf, found on thousands of queries, may leave
    # nothing to split in a small sample.
    if is_small and OTHER_DATA in recipe_names:
        return OTHER_DATA
    if data_set in recipe_names:
        return data_set
    similar_data_set = _SAME_FAMILY.get(data_set, "")
    if similar_data_set in recipe_names:
        return similar_data_set
    return recipe_names[0]


def recognise(n_features: int, n_queries: int) -> tuple[str, bool]:
    """Return the name of the published data set that some data is, or looks most like, by its
    numbers of features and queries; empty if it looks like none.

    Args:
        n_features: the number of columns.
        n_queries: the number of queries, of all parts.

    Returns:
        The name, and whether the data has less than a tenth of the queries of every data set of
        that width.

    >>> recognise(136, 10000), recognise(700, 30000), recognise(136, 500), recognise(3, 2)
    (('web10k', False), ('yahoo1', False), ('web30k', True), ('', False))
    """
    # The number of queries of each data set that has as many features.
    queries_by_data_set = {}
    for name, (numbers_of_features, published_queries) in PUBLISHED.items():
        if n_features in numbers_of_features:
            queries_by_data_set[name] = published_queries
    if not queries_by_data_set:
        return "", False
    is_small = n_queries < min(queries_by_data_set.values()) / 10

    # More than half and less than twice as many queries: the nearest number decides.
    nearest = ""
    least_distance = math.inf
    for name, published_queries in queries_by_data_set.items():
        distance = abs(published_queries - n_queries)
        if 0.5 < n_queries / published_queries < 2 and distance < least_distance:
            nearest, least_distance = name, distance
    if nearest:
        return nearest, is_small
    # Few queries may be a sample of any of them; the first, the one most papers use, is as good as
    # another.
    most_used = next(iter(queries_by_data_set))
    return most_used, is_small
