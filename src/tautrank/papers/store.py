"""The store of a study: one plan, its finished trials, and the run of those that are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import tautrank
from tautrank.errors import DataError
from tautrank.experiments.data_source import DataSource
from tautrank.experiments.plan import title_of
from tautrank.experiments.store import DONE, FAILED, Store
from tautrank.experiments.versions import results_version
from tautrank.experiments.workers import Workers, run_waiting
from tautrank.json_values import canonical
from tautrank.losses.own_losses import own_losses
from tautrank.papers.plan import StudyPlan
from tautrank.progress import Progress


class StudyStore(Store):
    """The store of one plan of a study; a store of anything else is refused.

    A store of the same plan with fewer trials belongs to a run that is to be extended: it gets the
    plan, and keeps what it has.

    Args:
        path: the file; None for memory.
        plan: the plan; None reads it from an existing store.
        command: the command line, for the record of a new store.
        data: where the data of an existing store lies now, if it has moved.

    >>> from tautrank.papers import Budget, find_study
    >>> from tautrank.papers.plan import make_plan
    >>> plan = make_plan(find_study("xe-table1"), "simulated:mslr:20,mean_length=5", budget=Budget(repeats=1))
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
        must_exist = plan is None
        if must_exist and (path is None or not path.is_file()):
            raise DataError(f"{path}: found no such file; expected a store of trials")
        meta = {**_plan_meta(plan), "command": command} if plan else {}
        super().__init__(path, meta, kind="study")
        try:
            stored = self._stored_plan(data)
            if plan is not None:
                self._take(plan, stored)
        except DataError:
            self.close()
            raise
        self.plan = plan or stored
        self._plan_was_stored = plan is None

    def _take(self, plan: StudyPlan, stored: StudyPlan) -> None:
        """Take the plan that is asked for, if it is the stored one, or has more trials."""
        if _is_longer(plan, stored):
            self.set_meta(_plan_meta(plan))
        elif plan.key != stored.key:
            raise DataError(
                f"{self.path}: holds {_difference(stored, plan)}; expected a store of this run"
                " (another --store, or 'tautrank study resume' to go on with that one)"
            )

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
            progress: what is told how many trials are finished, and the title of the last one.
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
        lines = []
        for trial, outcome in self.finished():
            if outcome.status == FAILED:
                lines.append(f"{title_of(trial.spec)}: {outcome.error}")
        return lines

    def _check_origin(self) -> None:
        """Refuse to go on with another version, or other code of a loss: the numbers would be
        unlike the others.
        """

        difference = self._difference_of_origin()
        if difference:
            raise DataError(
                f"{self.path}: {difference}; expected the same version, since another may give"
                " other numbers (a new run needs another --store)"
            )

    def _difference_of_origin(self) -> str:
        """Return what would make the numbers unlike those in the store; empty if nothing does."""
        from tautrank.papers.catalogue import CATALOGUE

        study, begun_by, version = self.plan.study, self.meta["tautrank"], tautrank.__version__
        if results_version(begun_by) != results_version(version):
            return f"was begun by tautrank {begun_by}, this is {version}"
        declared = CATALOGUE.get(study.name, study) if self._plan_was_stored else study
        if declared.version != study.version:
            return (
                f"holds version {study.version} of '{study.name}',"
                f" this tautrank has {declared.version}"
            )
        code_by_name = {loss.name: loss.code for loss in own_losses(study.losses)}
        for name, code in self.plan.codes:
            if code_by_name.get(name) != code:
                return f"was begun with other code of the loss '{name}'"
        return ""


def _plan_meta(plan: StudyPlan) -> dict[str, str]:
    """Return what a store says about its plan."""
    return {
        "study": plan.study.name,
        "study_version": str(plan.study.version),
        "data": ", ".join(plan.data.given),
        "data_fingerprint": ", ".join(fingerprint for _, fingerprint in plan.fingerprints),
        "plan": canonical(plan.to_plain()),
        "plan_hash": plan.key,
    }


def _is_longer(plan: StudyPlan, stored: StudyPlan) -> bool:
    """Return whether a plan is the stored one with more repeats: those that are there stay what they
    are.
    """
    n_repeats, n_stored = plan.budget.repeats or 0, stored.budget.repeats or 0
    if n_repeats <= n_stored or not set(stored.fingerprints) <= set(plan.fingerprints):
        return False
    budget = replace(stored.budget, repeats=n_repeats)
    extended = replace(stored, budget=budget, fingerprints=plan.fingerprints)
    return extended.key == plan.key


def _difference(stored: StudyPlan, plan: StudyPlan) -> str:
    """Return what distinguishes the plan of a store from the one that was asked for, in a few
    words.
    """
    study, wanted_study = stored.study, plan.study
    if study.name != wanted_study.name:
        return f"the study '{study.name}', not '{wanted_study.name}'"
    if study.version != wanted_study.version:
        return f"version {study.version} of '{study.name}', not {wanted_study.version}"
    if stored.codes != plan.codes:
        return "trials of a loss whose code has changed since"
    if stored.fingerprints != plan.fingerprints:
        return "trials on other data"
    wanted_options = _options(plan)
    for name, value in _options(stored).items():
        if value != wanted_options[name]:
            return f"a plan with {name} = {value}, not {wanted_options[name]}"
    return f"'{study.name}' declared otherwise"


def _options(plan: StudyPlan) -> dict[str, Any]:
    """Return what a user chooses for a run, by name."""
    options = {"seed": plan.seed, "recipe": plan.recipe, "n_jobs": plan.n_jobs}
    return {**vars(plan.budget), **options}
