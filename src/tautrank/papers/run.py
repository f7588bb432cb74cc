"""Running a study: its plan (on this data, with this budget and seed), its store, and the trials
still to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tautrank
from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import NONE, DataSource, read_source
from tautrank.experiments.plan import Budget, Condition, Plan, settle, title_of
from tautrank.experiments.store import DONE, FAILED, Store
from tautrank.experiments.workers import Progress, Workers, choose_workers, run_waiting
from tautrank.files import PathLike
from tautrank.json_values import canonical, digest, from_json, to_json
from tautrank.losses.own_losses import own_losses
from tautrank.papers.study import OTHER_DATA, Recipe, Study

if TYPE_CHECKING:
    from tautrank.papers.results import StudyResult


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
        left_out = {"data"} if self.codes else {"data", "codes"}
        plain = {
            name: to_json(value, "plan")
            for name, value in vars(self).items()
            if name not in left_out
        }
        return {**plain, "data": list(self.data.given), "fold": self.data.fold}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> StudyPlan:
        """Undo `to_plain`.

        Args:
            plain: its result.
        """
        try:
            fields = {
                name: from_json(value)
                for name, value in plain.items()
                if name not in ("data", "fold")
            }
            return cls(**fields, data=DataSource(tuple(plain["data"]), plain["fold"]))
        except OptionError as error:
            own = ", ".join(str(code[0]) for code in plain.get("codes", []))
            hint = (
                f" (it has losses of its own, {own}: --import the file that registers them)"
                if own
                else ""
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
        return digest(
            {name: value for name, value in plain.items() if name not in ("data", "fold")}
        )

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
        general, under, system, own = super().layers(condition, index)
        recipe = self.used_recipe or Recipe("", "")
        ours = (
            recipe.conditions.get(condition.name, {}),
            recipe.systems.get(self.study.system_names[index], {}),
        )
        return [general, recipe.parameters, under, ours[0], system, ours[1], own]


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
    """Read the data once, to recognise it later, and settle what a run of the study will do.

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
    >>> plan = make_plan(study, "simulated:yahoo:20", budget=Budget(trials=2))
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
    settled = settle(study, source, study.planned(budget or Budget()))
    if not recipe and study.recipes:
        recipe = _recipe_for(study, settled["n_features"], settled["n_queries"])
    return StudyPlan(**settled, recipe=recipe, seed=seed, n_jobs=n_jobs)


def _recipe_for(study: Study, n_features: int, n_queries: int) -> str:
    """The recipe of the data set that some data is or looks like; else the study's first."""
    names = [recipe.data for recipe in study.recipes]
    alike, is_small = recognise(n_features, n_queries)
    # Limits on a leaf that were found on thousands of queries may leave a sample of them nothing to
    # split.
    if OTHER_DATA in names and is_small:
        return OTHER_DATA
    families = {"web10k": "web30k", "web30k": "web10k", "yahoo2": "yahoo1", "yahoo1": "yahoo2"}
    return next((name for name in (alike, families.get(alike, "")) if name in names), names[0])


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
    alike = {name: size for name, (widths, size) in PUBLISHED.items() if n_features in widths}
    near = [name for name, size in alike.items() if 0.5 < n_queries / size < 2]
    # Few queries may be a sample of any of them; the first, the one most papers use, is as good as
    # another.
    name = min(near, key=lambda name: abs(alike[name] - n_queries), default=next(iter(alike), ""))
    return name, n_queries < min(alike.values(), default=0) / 10


def run_study(
    study: Study,
    data: str | Sequence[str] = "",
    *,
    store: PathLike | None = None,
    budget: Budget | None = None,
    fold: int | None = None,
    recipe: str = "",
    seed: int = 0,
    workers: int = 1,
    dask: str = "",
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study, or continue it, and return its results.

    Args:
        study: the study.
        data: a folder, a file, or synthetic data such as ``"simulated:mslr:200"``; by default the
            study's own.
        store: the file for finished trials; None for memory.
        budget: how much to run.
        fold: the only fold of a folder to use.
        recipe: the data set whose parameters to use; by default the one that the data looks like.
        seed: the seed of all random numbers.
        workers: the number of processes that train in parallel; with one, trials run in this
            process.
        dask: the address of a Dask scheduler to run the trials on instead, or ``"local"``.
        n_jobs: threads of one trial.
        progress: called with (finished, planned, title of the last one finished).

    >>> from tautrank.papers.catalogue import find_study
    >>> budget = Budget(trials=2, trees=3)
    >>> result = run_study(find_study("xe-table1"), "simulated:mslr:20,mean_length=20", budget=budget)
    >>> len(result.cells), result.failures
    (6, ())
    """
    from tautrank.papers.results import collect

    plan = make_plan(study, data, budget=budget, fold=fold, recipe=recipe, seed=seed, n_jobs=n_jobs)
    with StudyStore(None if store is None else Path(store), plan) as opened:
        opened.run(choose_workers(workers, dask), progress)
        return collect(opened)


class StudyStore(Store):
    """The store of one plan of a study; a store of anything else is refused.

    A store of the same plan with fewer trials belongs to a run that is to be extended: it gets the
    plan, and keeps what it has.

    Args:
        path: the file; None for memory.
        plan: the plan; None reads it from an existing store.
        command: the command line, for the record of a new store.
        data: where the data of an existing store lies now, if it has moved.

    >>> from tautrank.papers.catalogue import find_study
    >>> plan = make_plan(find_study("xe-table1"), "simulated:mslr:20,mean_length=5", budget=Budget(trials=1))
    >>> StudyStore(None, plan).counts()
    {'done': 0, 'failed': 0, 'planned': 3}
    """

    def __init__(
        self,
        path: Path | None,
        plan: StudyPlan | None = None,
        command: str = "",
        *,
        data: DataSource | None = None,
    ) -> None:
        if plan is None and not (path and path.is_file()):
            raise DataError(f"{path}: found no such file; expected a store of trials")
        super().__init__(
            path, {**_plan_meta(plan), "command": command} if plan else {}, kind="study"
        )
        try:
            found = self._stored_plan(data)
            if plan and _is_more_of(found, plan):
                self.set_meta(_plan_meta(plan))
            elif plan and found.key != plan.key:
                hint = "another --store, or 'tautrank study resume' to go on with that one"
                raise DataError(
                    f"{path}: holds {_difference(found, plan)}; expected a store of this run ({hint})"
                )
        except DataError:
            self.close()
            raise
        self.plan, self._plan_was_stored = plan or found, plan is None

    def _stored_plan(self, data: DataSource | None) -> StudyPlan:
        try:
            plain = json.loads(self.meta["plan"])
        except (KeyError, ValueError):
            raise DataError(
                f"{self.path}: does not say which study it holds; expected a whole store"
            ) from None
        moved = {} if data is None else {"data": list(data.given), "fold": data.fold}
        return StudyPlan.from_plain({**plain, **moved})

    def run(
        self, workers: Workers, progress: Progress | None = None, *, retry_failed: bool = False
    ) -> None:
        """Run the trials that are not finished; each is in the store before the next is waited for.

        Args:
            workers: what runs them.
            progress: called with (finished, planned, title of the last one finished).
            retry_failed: run failed trials again too.
        """
        self._check_origin()
        run_waiting(self.plan, self, workers, progress, retry=retry_failed)

    def counts(self) -> dict[str, int]:
        """How many trials are done, failed, and planned in all."""
        statuses = list(self.statuses().values())
        return {
            DONE: statuses.count(DONE),
            FAILED: statuses.count(FAILED),
            "planned": self.plan.size,
        }

    def failures(self) -> list[str]:
        """A line for each failed trial: its title and its error."""
        return [
            f"{title_of(t.spec)}: {outcome.error}"
            for t, outcome in self.finished()
            if outcome.status == FAILED
        ]

    def _check_origin(self) -> None:
        """Refuse to go on with another version, or other code of a loss: the numbers would be
        unlike the others.
        """
        from tautrank.papers.catalogue import CATALOGUE

        study, made_by, found = self.plan.study, self.meta["tautrank"], ""
        declared = CATALOGUE.get(study.name, study) if self._plan_was_stored else study
        codes = {own.name: own.code for own in own_losses(study.losses)}
        changed = [name for name, code in self.plan.codes if codes.get(name) != code]
        if made_by != tautrank.__version__:
            found = f"was begun by tautrank {made_by}, this is {tautrank.__version__}"
        elif declared.version != study.version:
            found = f"holds version {study.version} of '{study.name}', this tautrank has {declared.version}"
        elif changed:
            found = f"was begun with other code of the loss '{changed[0]}'"
        if found:
            expected = "the same version, since another may give other numbers (a new run needs another --store)"
            raise DataError(f"{self.path}: {found}; expected {expected}")


def _plan_meta(plan: StudyPlan) -> dict[str, str]:
    marks = ", ".join(mark for _, mark in plan.fingerprints)
    of_data = {"data": ", ".join(plan.data.given), "data_fingerprint": marks}
    of_plan = {"plan": canonical(plan.to_plain()), "plan_hash": plan.key}
    return {
        "study": plan.study.name,
        "study_version": str(plan.study.version),
        **of_data,
        **of_plan,
    }


def _is_more_of(found: StudyPlan, wanted: StudyPlan) -> bool:
    """Whether a plan is another one with more trials: those that are there stay what they are."""
    longer = replace(
        found,
        budget=replace(found.budget, trials=wanted.budget.trials),
        fingerprints=wanted.fingerprints,
    )
    more = (wanted.budget.trials or 0) > (found.budget.trials or 0)
    return more and set(found.fingerprints) <= set(wanted.fingerprints) and longer.key == wanted.key


def _difference(found: StudyPlan, wanted: StudyPlan) -> str:
    """What distinguishes the plan of a store from the one that was asked for, in a few words."""
    if found.study.name != wanted.study.name:
        return f"the study '{found.study.name}', not '{wanted.study.name}'"
    if found.study.version != wanted.study.version:
        return f"version {found.study.version} of '{found.study.name}', not {wanted.study.version}"
    if found.codes != wanted.codes:
        return "trials of a loss whose code has changed since"
    if found.fingerprints != wanted.fingerprints:
        return "trials on other data"
    named = [
        {**vars(p.budget), "seed": p.seed, "recipe": p.recipe, "n_jobs": p.n_jobs}
        for p in (found, wanted)
    ]
    for name, old in named[0].items():
        if old != named[1][name]:
            return f"a plan with {name} = {old}, not {named[1][name]}"
    return f"'{found.study.name}' declared otherwise"
