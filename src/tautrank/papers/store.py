"""The store of a study: one plan, its finished trials, and the run of those that are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

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
        if results_version(made_by) != results_version(tautrank.__version__):
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
