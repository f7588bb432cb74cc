"""Running a study: every trial that is not finished yet, each recorded the moment it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tautrank
from tautrank.errors import DataError
from tautrank.experiments.fit_best import Progress
from tautrank.experiments.plan import losses_of, make_plan
from tautrank.experiments.store import StudyStore
from tautrank.experiments.trial import IMPOSSIBLE
from tautrank.experiments.workers import LocalProcesses, ThisProcess, Workers
from tautrank.losses.own_losses import own_losses
from tautrank.papers.study import Budget, Study

if TYPE_CHECKING:
    from tautrank.experiments.results import StudyResult


def run_study(
    study: Study,
    data: str | Sequence[str] = "",
    *,
    store: str | os.PathLike[str] | None = None,
    budget: Budget | None = None,
    fold: int | None = None,
    recipe: str = "",
    seed: int = 0,
    workers: int = 1,
    dask: str = "",
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study, or go on with it, and put the results together.

    Args:
        study: the study.
        data: a folder, a file, or made-up data such as ``"simulated:mslr:200"``; the study's own where it is empty.
        store: the file that keeps finished trials; None for memory.
        budget: what to run less (or more) of.
        fold: the only fold of a folder to use.
        recipe: the data set whose parameters to use; that which the data looks like where it is empty.
        seed: where all randomness starts.
        workers: processes that train side by side; with one, trials run in this process.
        dask: the address of a Dask scheduler to run the trials on instead, or ``"local"``.
        n_jobs: threads of one trial.
        progress: called with (finished, planned, what was finished last).

    >>> from tautrank.papers.catalogue import find_study
    >>> budget = Budget(trials=2, trees=3)
    >>> result = run_study(find_study("xe-table1"), "simulated:mslr:20,mean_length=20", budget=budget)
    >>> len(result.cells), result.failures
    (6, ())
    """
    from tautrank.experiments.results import collect

    plan = make_plan(study, data, budget=budget, fold=fold, recipe=recipe, seed=seed, n_jobs=n_jobs)
    with StudyStore.open_for(None if store is None else Path(store), plan) as opened:
        run_waiting(opened, choose_workers(workers, dask), progress)
        return collect(opened)


def choose_workers(workers: int, dask: str = "") -> Workers:
    """What runs the trials.

    Args:
        workers: how many processes.
        dask: the address of a scheduler; empty for processes of this machine.
    """
    if dask:
        from tautrank.experiments.dask_cluster import DaskCluster

        return DaskCluster(dask, workers)
    return ThisProcess() if workers == 1 else LocalProcesses(workers)


def run_waiting(
    store: StudyStore, workers: Workers, progress: Progress | None = None, *, retry_failed: bool = False
) -> None:
    """Run the trials that a store lacks; each is in the store before the next is waited for.

    Args:
        store: of the study.
        workers: what runs them.
        progress: called with (finished, planned, what was finished last).
        retry_failed: run failed trials again too.
    """
    _check_origin(store)
    with store.running():
        waiting = store.waiting(retry_failed=retry_failed)
        done = store.plan.size - len(waiting)
        if progress:
            progress(done, store.plan.size, "")
        for trial, outcome in workers.run(waiting):
            if outcome.status == IMPOSSIBLE:
                raise DataError(outcome.error)
            store.record(trial, outcome)
            done += 1
            if progress:
                progress(done, store.plan.size, trial.title)


def _check_origin(store: StudyStore) -> None:
    """Refuse to go on with another version, or other code of a loss: half of the numbers would be something else's."""
    made_by = store.meta["tautrank"]
    if made_by != tautrank.__version__:
        raise DataError(
            f"{store.path}: was begun by tautrank {made_by}, this is {tautrank.__version__}; expected the same "
            "version, since another may give other numbers"
        )
    now = {own.name: own.code for own in own_losses(losses_of(store.plan.study))}
    for name, code in store.plan.codes:
        if now.get(name) != code:
            raise DataError(
                f"{store.path}: was begun with other code of the loss '{name}'; expected the same (a new run needs "
                "another store)"
            )
