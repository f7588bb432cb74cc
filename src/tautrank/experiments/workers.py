"""What runs trials: this process, processes of this machine, or a cluster; all give the same results."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.experiments.plan import Plan
from tautrank.experiments.processes import Ask, Lost, no_answer, run_jobs
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Outcome, Store, Trial
from tautrank.experiments.trial import Surroundings, attempt, forget_data
from tautrank.losses.own_losses import OwnLoss, sendable

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with (finished, all, title of the last one finished)."""


class Workers(Protocol):
    """Runs trials and returns the outcome of each, in any order, each once."""

    def run(self, trials: Sequence[Trial], around: Surroundings) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; what is not finished when the iterator is closed is given up.

        Args:
            trials: the trials.
            around: what all of them need.
        """
        ...


class LocalProcesses:
    """Processes of this machine, one trial in each; a single one is this process itself.

    Args:
        n: the number of processes.

    >>> list(LocalProcesses(2).run([], Surroundings()))
    []
    """

    def __init__(self, n: int) -> None:
        self.n = whole("workers", n, 1)

    def run(self, trials: Sequence[Trial], around: Surroundings) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; they come back as they finish.

        Args:
            trials: the trials.
            around: what all of them need.
        """
        with folder_for_bins(self.n) as bins:
            if self.n > 1:
                around = replace(around, own=own_losses_of(trials, "workers"), bins=bins)
            yield from run_trials(self.n, partial(_attempt, around), trials)


@contextmanager
def folder_for_bins(n: int) -> Iterator[str]:
    """Make a folder where processes share binned data, for as long as the block; a single process needs none.

    Args:
        n: the number of processes.
    """
    try:
        if n == 1:
            yield ""
            return
        with tempfile.TemporaryDirectory(prefix="tautrank-bins-", ignore_cleanup_errors=True) as folder:
            yield folder
    finally:
        forget_data()


def run_trials(
    n: int,
    work: Callable[[Trial, Ask], Outcome],
    trials: Iterable[Trial],
    *,
    answer: Callable[[Trial, Any], Any] = no_answer,
    lost: str = FAILED,
    **limits: Any,
) -> Iterator[tuple[Trial, Outcome]]:
    """Run trials in this process one after the other, or in others as `run_jobs` does.

    Args:
        n: the number of processes; 1 for this process.
        work, answer: as those of `run_jobs`.
        trials: the trials.
        lost: the status of a trial whose processes died.
        limits: `deadline` and `most_losses` of `run_jobs`.
    """
    if n == 1:
        for trial in trials:
            yield trial, work(trial, partial(answer, trial))
        return
    for trial, outcome in run_jobs(n, work, trials, answer=answer, **limits):
        yield trial, Outcome(lost, error=str(outcome)) if isinstance(outcome, Lost) else outcome


def choose_workers(workers: int, dask: str = "") -> Workers:
    """Return what runs the trials.

    Args:
        workers: the number of processes; with one, trials run in this process.
        dask: the address of a Dask scheduler; empty for processes of this machine.
    """
    if dask:
        from tautrank.experiments.dask_cluster import DaskCluster

        return DaskCluster(dask, workers)
    return LocalProcesses(workers)


def run_waiting(
    plan: Plan,
    store: Store,
    workers: Workers,
    progress: Progress | None = None,
    *,
    threads: int = 1,
    retry_failed: bool = False,
) -> None:
    """Run the trials of a plan that a store lacks; each is in the store before the next is waited for.

    Args:
        plan: the plan.
        store: the store.
        workers: what runs them.
        progress: called with (finished, planned, title of the last one finished).
        threads: threads of one trial, unless the plan says how many.
        retry_failed: run failed trials again too.
    """
    held = {mark: plan.data.held[fold - 1] for fold, mark in plan.fingerprints} if plan.data.held else {}
    around = Surroundings(held=held, threads=threads)
    with store.running():
        waiting = unfinished(plan, store, retry_failed=retry_failed)
        size = plan.size
        done = size - len(waiting)
        if progress:
            progress(done, size, "")
        for trial, outcome in workers.run(waiting, around):
            if outcome.status == IMPOSSIBLE:
                raise DataError(outcome.error)
            if outcome.status == FAILED and not plan.study.keeps_failures:
                kind = OptionError if outcome.is_option else DataError
                raise kind(f"{trial.title}: {outcome.error}")
            store.record(trial, outcome)
            done += 1
            if progress:
                progress(done, size, trial.title)


def unfinished(plan: Plan, store: Store, *, retry_failed: bool = False) -> list[Trial]:
    """Return the trials of a plan that a store does not have, in their order.

    Args:
        plan: the plan.
        store: the store.
        retry_failed: count failed trials as unfinished.
    """
    kept = (DONE,) if retry_failed else (DONE, FAILED)
    statuses = store.statuses()
    return [trial for trial in plan.trials() if statuses.get(trial.key) not in kept]


def own_losses_of(trials: Sequence[Trial], needed_by: str) -> tuple[OwnLoss, ...]:
    """Return what has to be imported where trials are run, besides this library.

    Args:
        trials: the trials.
        needed_by: the argument that asks for other processes.
    """
    trained = [trial.spec for trial in trials if "loss" in trial.spec]
    return sendable([name for spec in trained for name in (spec["loss"], *spec["metrics"])], needed_by)


def _attempt(around: Surroundings, trial: Trial, _: Ask) -> Outcome:
    return attempt(trial.spec, around)
