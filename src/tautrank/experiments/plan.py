"""A study made definite: this data, this budget, this seed; and with that the list of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.experiments.configuration import with_parameters
from tautrank.experiments.data_source import NONE, DataSource, fingerprint_of, is_small, read_source, recognise
from tautrank.experiments.divide import fold_of
from tautrank.experiments.plain_values import from_plain, to_plain
from tautrank.json_values import digest
from tautrank.losses.own_losses import OwnLoss, own_losses, sendable
from tautrank.names import name_of
from tautrank.papers.claims import PLAIN
from tautrank.papers.measurements import Measurement
from tautrank.papers.study import OTHER_DATA, Budget, Condition, Recipe, Study


@dataclass(frozen=True)
class Trial:
    """One system under one condition, once.

    Args:
        number: its place in the plan.
        key: a hash of the specification: two trials with one key have one result.
        spec: everything the result depends on, ready for JSON.
    """

    number: int
    key: str
    spec: dict[str, Any]

    @property
    def title(self) -> str:
        """What is shown while it runs."""
        return title_of(self.spec)


@dataclass(frozen=True)
class StudyPlan:
    """All that decides what a run of a study computes.

    Args:
        study: what is declared.
        data: where the data comes from.
        fingerprints: a hash of the data for each fold that is used.
        n_queries, n_features: the size of the data, of its first fold.
        recipe: the name of the data set whose parameters are used; empty where the study has no recipes.
        budget: with nothing left open.
        seed: where all randomness starts.
        n_jobs: threads of one trial.
        codes: for each loss that is not of this library, its name and a hash of its code.
    """

    study: Study
    data: DataSource
    fingerprints: tuple[tuple[int, str], ...]
    n_queries: int
    n_features: int
    recipe: str
    budget: Budget
    seed: int = 0
    n_jobs: int = 1
    codes: tuple[tuple[str, str], ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Everything as JSON can hold it."""
        codes = {"codes": [list(code) for code in self.codes]} if self.codes else {}
        return {
            **codes,
            "study": to_plain(self.study),
            "data": list(self.data.given),
            "fold": self.data.fold,
            "fingerprints": [[fold, text] for fold, text in self.fingerprints],
            "n_queries": self.n_queries,
            "n_features": self.n_features,
            "recipe": self.recipe,
            "budget": to_plain(self.budget),
            "seed": self.seed,
            "n_jobs": self.n_jobs,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> StudyPlan:
        """Undo `to_plain`.

        Args:
            plain: what it gave.
        """
        try:
            return cls(
                study=from_plain(plain["study"]),
                data=DataSource(tuple(plain["data"]), plain["fold"]),
                fingerprints=tuple((int(fold), str(text)) for fold, text in plain["fingerprints"]),
                n_queries=int(plain["n_queries"]),
                n_features=int(plain["n_features"]),
                recipe=str(plain["recipe"]),
                budget=from_plain(plain["budget"]),
                seed=int(plain["seed"]),
                n_jobs=int(plain["n_jobs"]),
                codes=tuple((str(name), str(code)) for name, code in plain.get("codes", [])),
            )
        except OptionError as error:
            own = ", ".join(str(code[0]) for code in plain.get("codes", []))
            hint = f" (it has losses of its own, {own}: --import the file that registers them)" if own else ""
            raise DataError(f"the plan cannot be read: {error}{hint}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the plan cannot be read ({error}); expected one written by this version") from None

    @property
    def key(self) -> str:
        """A hash of the whole plan; where the data lies is no part of it, what is in the data is."""
        return digest({name: value for name, value in self.to_plain().items() if name not in ("data", "fold")})

    @property
    def used_recipe(self) -> Recipe | None:
        """The recipe whose parameters are used."""
        return self.study.recipe(self.recipe) if self.recipe else None

    @property
    def size(self) -> int:
        """How many trials there are."""
        assert self.budget.trials is not None
        return self.budget.trials * len(self.study.conditions) * len(self.study.systems)

    def trials(self) -> list[Trial]:
        """Every trial, in the order they are run: all systems and conditions of the first repetition, then the next.

        So a run that is stopped half-way has whole repetitions to compare.
        """
        assert self.budget.trials is not None
        places = product(range(self.budget.trials), self.study.conditions, self.study.system_names)
        specs = [self._spec(*place) for place in places]
        return [Trial(number, trial_key(spec), spec) for number, spec in enumerate(specs)]

    def _spec(self, trial: int, condition: Condition, name: str) -> dict[str, Any]:
        study = self.study
        system = study.system(name)
        fold = fold_of(study.protocol, trial, [fold for fold, _ in self.fingerprints])
        spec = {
            "study": study.name,
            "version": study.version,
            "data": {"given": list(self.data.given), "fold": fold, "fingerprint": dict(self.fingerprints)[fold]},
            "protocol": to_plain(study.protocol),
            "condition": condition.name,
            "changes": to_plain(condition.changes),
            "system": name,
            "trial": trial,
            # One seed for all systems and conditions of a trial: they see the same queries and the same noise.
            "seed": int(np.random.SeedSequence([self.seed, trial]).generate_state(1)[0] % 2**31),
            "study_seed": self.seed,
            "metrics": list(condition.metrics or study.metrics),
            "n_jobs": self.n_jobs,
        }
        recipe = self.used_recipe
        own: list[Any] = [study.parameters, recipe.parameters if recipe else {}, condition.parameters]
        own.append(recipe.conditions.get(condition.name, {}) if recipe else {})
        own += [system.parameters, recipe.systems.get(name, {}) if recipe else {}, condition.systems.get(name, {})]
        parameters = {key: value for layer in own for key, value in layer.items()}
        if isinstance(system, Measurement):
            return {**spec, "measure": system.kind, "parameters": to_plain(parameters)}
        search = {**study.search.everyone, **study.search.systems.get(name, {})} if self.budget.configurations else {}
        loss = with_parameters(system.loss, condition.loss)
        code = dict(self.codes).get(name_of(loss))
        return {
            **spec,
            **({} if code is None else {"code": code}),
            "loss": loss,
            "parameters": to_plain({**parameters, "n_estimators": self.budget.trees}),
            "configurations": self.budget.configurations,
            "search": to_plain(search),
            "judged": list(study.judged),
            "curves": list(study.curves),
        }


def title_of(spec: dict[str, Any]) -> str:
    """A trial in a few words.

    Args:
        spec: of the trial.

    >>> title_of({"trial": 0, "condition": "30%", "system": "xendcg"})
    'trial 1, 30%, xendcg'
    """
    under = "" if spec["condition"] == PLAIN else f"{spec['condition']}, "
    return f"trial {spec['trial'] + 1}, {under}{spec['system']}"


def trial_key(spec: dict[str, Any]) -> str:
    """A hash of what the result of a trial depends on: not where the data lies, but what is in it.

    Args:
        spec: of the trial.

    >>> a, b = ({"data": {"given": [place], "fold": 1, "fingerprint": "f"}} for place in ("here", "there"))
    >>> trial_key(a) == trial_key(b)
    True
    """
    content = {name: value for name, value in spec["data"].items() if name != "given"}
    return digest({**spec, "data": content})


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
    """Read the data once, to know it again, and settle what a run of the study will do.

    Args:
        study: the study.
        data: as `read_source` takes it; the study's own where it is empty.
        budget: what to run less (or more) of.
        fold: the only fold of a folder to use.
        recipe: the data set whose parameters to use; that which the data looks like where it is empty.
        seed: where all randomness starts.
        n_jobs: threads of one trial; the losses of this library give the same bits for any number.

    >>> from tautrank.papers.catalogue import find_study
    >>> study = find_study("xe-table1")
    >>> plan = make_plan(study, "simulated:yahoo:20", budget=Budget(trials=2))
    >>> plan.size, plan.recipe, plan.trials()[0].spec["parameters"]["num_leaves"]
    (6, 'yahoo1', 200)
    """
    seed, n_jobs = whole("seed", seed, 0), whole("n_jobs", n_jobs, 1)
    chosen = data or study.data
    if not chosen and not study.measures_only:
        raise OptionError("--data: found none; expected a folder, a file, or made-up data such as simulated:mslr:200")
    if recipe:
        study.recipe(recipe)
    source = read_source(chosen or NONE, fold)
    if source.given == (NONE,) and not study.measures_only:
        raise OptionError(f"--data: found none; expected data, since {study.name} trains models")
    planned = study.planned(budget or Budget())
    marks, n_queries, n_features = _marks(study, source, planned)
    if not recipe and study.recipes:
        recipe = _recipe_for(study, n_features, n_queries)
    codes = tuple((own.name, own.code) for own in own_losses(losses_of(study)))
    return StudyPlan(study, source, marks, n_queries, n_features, recipe, planned, seed, n_jobs, codes)


def losses_of(study: Study) -> list[str]:
    """The losses that a study trains, as text.

    Args:
        study: the study.

    >>> from tautrank.papers.catalogue import find_study
    >>> losses_of(find_study("xe-figure2"))
    ['lightgbm:lambdarank', 'xendcg']
    """
    return [system.loss for system in study.systems if not isinstance(system, Measurement)]


def own_losses_of(trials: Sequence[Trial], needed_by: str) -> tuple[OwnLoss, ...]:
    """What has to be imported where trials are run, beside this library.

    Args:
        trials: which.
        needed_by: the argument that asks for other processes.
    """
    return sendable([trial.spec["loss"] for trial in trials if "loss" in trial.spec], needed_by)


def _recipe_for(study: Study, n_features: int, n_queries: int) -> str:
    """The recipe of the data set that some data is or looks like; else the study's first."""
    names = [recipe.data for recipe in study.recipes]
    # Limits on a leaf that were found on thousands of queries may leave a sample of them nothing to split.
    if OTHER_DATA in names and is_small(n_features, n_queries):
        return OTHER_DATA
    alike = recognise(n_features, n_queries)
    families = {"web10k": "web30k", "web30k": "web10k", "yahoo2": "yahoo1", "yahoo1": "yahoo2"}
    return next((name for name in (alike, families.get(alike, "")) if name in names), names[0])


def _marks(study: Study, source: DataSource, budget: Budget) -> tuple[tuple[tuple[int, str], ...], int, int]:
    """The fingerprint of every fold that is used, and the size of the first."""
    if source.given == (NONE,):
        return ((1, fingerprint_of(None)),), 0, 0
    assert budget.trials is not None
    folds = source.folds()
    marks, sizes = [], []
    for fold in sorted({fold_of(study.protocol, trial, folds) for trial in range(budget.trials)}):
        data = source.read(fold)
        marks.append((fold, fingerprint_of(data)))
        parts = data if isinstance(data, tuple) else (data,)
        sizes.append((sum(part.n_queries for part in parts if part is not None), parts[0].n_features))
    return tuple(marks), *sizes[0]
