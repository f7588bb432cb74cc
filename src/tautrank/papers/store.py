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
        # Without a plan the store is opened to read, or to go on with, the plan that it holds.
        must_exist = plan is None
        if must_exist and (path is None or not path.is_file()):
            raise DataError(f"{path}: found no such file; expected a store of trials")
        meta = {}
        if plan is not None:
            meta = {**_plan_meta(plan), "command": command}
        super().__init__(path, meta, kind="study")
        try:
            # A new store holds the plan that was just written into it.
            stored_plan = self._read_plan(data)
            if plan is not None:
                self._check_or_extend(plan, stored_plan)
        except DataError:
            self.close()
            raise
        self.plan = stored_plan if plan is None else plan
        self._plan_was_stored = plan is None

    def _check_or_extend(self, plan: StudyPlan, stored_plan: StudyPlan) -> None:
        """Raise an error if the plan of a run is another than that in the store; write it there if
        it is the same with more trials.
        """
        if _is_longer(plan, stored_plan):
            self.set_meta(_plan_meta(plan))
        elif plan.key != stored_plan.key:
            difference = _difference(stored_plan, plan)
            raise DataError(
                f"{self.path}: holds {difference}; expected a store of this run"
                " (another --store, or 'tautrank study resume' to go on with that one)"
            )

    def _read_plan(self, moved_data: DataSource | None) -> StudyPlan:
        """Return the plan that is written in the store.

        Args:
            moved_data: where its data lies now; None if it is where the plan says.
        """
        try:
            plain = json.loads(self.meta["plan"])
        except (KeyError, ValueError):
            raise DataError(
                f"{self.path}: does not say which study it holds; expected a whole store"
            ) from None
        if moved_data is not None:
            plain = {**plain, "data": list(moved_data.given), "fold": moved_data.fold}
        return StudyPlan.from_plain(plain)

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
        """The numbers of trials that are done, that failed, and that are planned in all, by these
        words.
        """
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
        """Raise an error if this version of tautrank, of the study or of a user's loss may give
        other numbers than the version that ran the stored trials.
        """
        change = self._change_since_begun()
        if change:
            raise DataError(
                f"{self.path}: {change}; expected the same version, since another may give"
                " other numbers (a new run needs another --store)"
            )

    def _change_since_begun(self) -> str:
        """Return in words what has changed since the stored trials were run, and may change numbers:
        the version of tautrank or of the study, or the code of a user's loss; empty if nothing has.
        """
        from tautrank.papers.catalogue import CATALOGUE

        study = self.plan.study
        # Versions of tautrank differ here only if numbers changed between them.
        begun_by, version = self.meta["tautrank"], tautrank.__version__
        if results_version(begun_by) != results_version(version):
            return f"was begun by tautrank {begun_by}, this is {version}"

        # A study read from the store may be older than the one of that name in the catalogue.
        present_study = study
        if self._plan_was_stored:
            present_study = CATALOGUE.get(study.name, study)
        if present_study.version != study.version:
            return (
                f"holds version {study.version} of '{study.name}',"
                f" this tautrank has {present_study.version}"
            )

        present_codes = {loss.name: loss.code for loss in own_losses(study.losses)}
        for name, code in self.plan.codes:
            if present_codes.get(name) != code:
                return f"was begun with other code of the loss '{name}'"
        return ""


def _plan_meta(plan: StudyPlan) -> dict[str, str]:
    """Return by name the texts about the plan of a study that are written into its store: the study,
    its data, the whole plan as JSON, and a hash by which the plan is recognised.
    """
    return {
        "study": plan.study.name,
        "study_version": str(plan.study.version),
        "data": ", ".join(plan.data.given),
        "data_fingerprint": ", ".join(fingerprint for _, fingerprint in plan.fingerprints),
        "plan": canonical(plan.to_plain()),
        "plan_hash": plan.key,
    }


def _is_longer(plan: StudyPlan, stored: StudyPlan) -> bool:
    """Return whether a plan is the stored one with more repeats, so that the trials in the store are
    the first of it.
    """
    n_repeats = plan.budget.repeats or 0
    n_stored_repeats = stored.budget.repeats or 0
    has_stored_data = set(stored.fingerprints) <= set(plan.fingerprints)
    if n_repeats <= n_stored_repeats or not has_stored_data:
        return False
    # The key is a hash of all that decides the numbers: but for repeats, the two have to be equal.
    budget = replace(stored.budget, repeats=n_repeats)
    extended = replace(stored, budget=budget, fingerprints=plan.fingerprints)
    return extended.key == plan.key


def _difference(stored: StudyPlan, plan: StudyPlan) -> str:
    """Return in a few words the first difference of the plan in a store from the plan of the run
    that was asked for.
    """
    stored_study, study = stored.study, plan.study
    if stored_study.name != study.name:
        return f"the study '{stored_study.name}', not '{study.name}'"
    if stored_study.version != study.version:
        return f"version {stored_study.version} of '{stored_study.name}', not {study.version}"
    if stored.codes != plan.codes:
        return "trials of a loss whose code has changed since"
    if stored.fingerprints != plan.fingerprints:
        return "trials on other data"

    options = _options_of_run(plan)
    for name, stored_value in _options_of_run(stored).items():
        if stored_value != options[name]:
            return f"a plan with {name} = {stored_value}, not {options[name]}"
    return f"'{stored_study.name}' declared otherwise"


def _options_of_run(plan: StudyPlan) -> dict[str, Any]:
    """Return the options of a study's run by name: its budget (repeats, trees, ...), seed, recipe (a
    paper's parameters for one data set) and threads.
    """
    options = dict(vars(plan.budget))
    options["seed"] = plan.seed
    options["recipe"] = plan.recipe
    options["n_jobs"] = plan.n_jobs
    return options
