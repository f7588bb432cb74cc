"""The plan of a study: all that decides what a run of it computes on some data, with a budget and a
seed.
"""

from __future__ import annotations

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
        """Return everything as JSON can hold it."""
        fields = dict(vars(self))
        del fields["data"]
        if not self.codes:
            del fields["codes"]
        plain = {name: to_json(value, "plan") for name, value in fields.items()}
        return {**plain, "data": list(self.data.given), "fold": self.data.fold}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> StudyPlan:
        """Undo `to_plain`.

        Args:
            plain: its result.
        """
        try:
            stored = dict(plain)
            data = DataSource(tuple(stored.pop("data")), stored.pop("fold"))
            fields = {name: from_json(value) for name, value in stored.items()}
            return cls(**fields, data=data)
        except OptionError as error:
            hint = ""
            custom_losses = ", ".join(str(code[0]) for code in plain.get("codes", []))
            if custom_losses:
                hint = (
                    f" (it has losses of its own, {custom_losses}:"
                    " --import the file that registers them)"
                )
            raise DataError(f"the plan cannot be read: {error}{hint}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the plan cannot be read ({error}); expected one written by this version"
            ) from None

    @property
    def key(self) -> str:
        """A hash of all that is run: of what is in the data, but not of where it lies, nor of the
        study's texts.
        """
        plain = self.to_plain()
        plain["study"] |= dict.fromkeys(("title", "paper", "claim", "note", "axis"))
        del plain["data"], plain["fold"]
        return digest(plain)

    @property
    def used_recipe(self) -> Recipe | None:
        """The recipe whose parameters are used."""
        return self.study.recipe(self.recipe) if self.recipe else None

    def layers(self, condition: Condition, index: int) -> list[Mapping[str, Any]]:
        """The parameters of a system under a condition, what is general first; each with the
        recipe's after it.

        Args:
            condition: the condition.
            index: the place of the system.
        """
        general, of_condition, of_system, of_both = super().layers(condition, index)
        recipe = self.used_recipe or Recipe("", "")
        return [
            general,
            recipe.parameters,
            of_condition,
            recipe.conditions.get(condition.name, {}),
            of_system,
            recipe.systems.get(self.study.system_names[index], {}),
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
    """Read the data once, to recognise it later, and plan what a run of the study will do.

    Args:
        study: the study.
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
    seed, n_jobs = whole("seed", seed, 0), whole("n_jobs", n_jobs, 1)
    recipe = recipe and study.recipe(recipe).data
    source = read_source(data or study.data or NONE, fold)
    if source.given == (NONE,) and not study.measures_only:
        expected = "a folder, a file, or synthetic data such as simulated:mslr:200"
        raise OptionError(
            f"--data: found none; expected {expected}, since {study.name} trains models"
        )
    plan = StudyPlan.of(study, source, budget, seed=seed, n_jobs=n_jobs)
    if not recipe and study.recipes:
        recipe = _recipe_for(study, plan.n_features, plan.n_queries)
    return replace(plan, recipe=recipe)


def _recipe_for(study: Study, n_features: int, n_queries: int) -> str:
    """The recipe of the data set that some data is or looks like; else the study's first."""
    names = [recipe.data for recipe in study.recipes]
    data_set, is_small = recognise(n_features, n_queries)
    # Limits on a leaf that were found on thousands of queries may leave a sample of them nothing to
    # split.
    if OTHER_DATA in names and is_small:
        return OTHER_DATA
    for name in (data_set, _SAME_FAMILY.get(data_set, "")):
        if name in names:
            return name
    return names[0]


def recognise(n_features: int, n_queries: int) -> tuple[str, bool]:
    """Name the published data set that some data is, or looks most like; empty if it looks like
    none.

    Args:
        n_features: the number of columns.
        n_queries: the number of queries, of all parts.

    Returns:
        The name, and whether the data has less than a tenth of the queries of every data set of
        that width.

    >>> recognise(136, 10000), recognise(700, 30000), recognise(136, 500), recognise(3, 2)
    (('web10k', False), ('yahoo1', False), ('web30k', True), ('', False))
    """
    sizes = {}
    for name, (widths, size) in PUBLISHED.items():
        if n_features in widths:
            sizes[name] = size
    if not sizes:
        return "", False
    is_small = n_queries < min(sizes.values()) / 10
    near = [name for name, size in sizes.items() if 0.5 < n_queries / size < 2]
    if near:
        return min(near, key=lambda name: abs(sizes[name] - n_queries)), is_small
    # Few queries may be a sample of any of them; the first, the one most papers use, is as good as
    # another.
    return next(iter(sizes)), is_small
