"""What runs trials: this process, processes of this machine, or a cluster; all give the same results."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from operator import length_hint
from typing import Any, TypeAlias, TypeVar

from tautrank.arguments import whole
from tautrank.errors import DataError, OptionError
from tautrank.experiments.plan import Plan
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Outcome, Store, Trial
from tautrank.experiments.trial import Surroundings, attempt, forget_data
from tautrank.losses.own_losses import OwnLoss, sendable

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with (finished, all, title of the last one finished)."""

MOST_LOSSES = 3
"""How often a job may lose its process before it is given up: one too big for its machine ends there."""

Ask: TypeAlias = Callable[[Any], Any]
"""A function that a job may call to send something to the process that gave it, and to get an answer."""

_READY, _ASKS, _DONE, _DIED = "ready", "asks", "done", "died"
_Job = TypeVar("_Job")


@dataclass(frozen=True)
class Lost:
    """The outcome of a job whose processes died.

    Args:
        times: the number of deaths.
        how: what is known about the last one.

    >>> print(Lost(1, "exit code 1"))
    its worker died once (exit code 1); perhaps there is not enough memory
    """

    times: int
    how: str

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"its worker died {times} ({self.how}); perhaps there is not enough memory"


def no_answer(job: Any, what: Any) -> None:
    """Answer a job that asks nothing."""


def run_jobs(
    n: int,
    work: Callable[[_Job, Ask], Any],
    jobs: Iterable[_Job],
    *,
    answer: Callable[[_Job, Any], Any] = no_answer,
    deadline: float | None = None,
    most_losses: int = MOST_LOSSES,
) -> Iterator[tuple[_Job, Any]]:
    """Run jobs in other processes; each comes back, in any order, with its result or with `Lost`.

    Processes are started afresh: a forked one would inherit OpenMP threads that no longer run. If one dies, its job is
    given to another. When this process dies, so do they; what is not finished when the iterator is closed is given up.

    Args:
        n: the number of processes; as many as jobs are enough.
        work: a function of a job and of `Ask` that raises nothing; a `functools.partial` of one brings what all jobs
            need.
        jobs: the jobs; the next one is taken when a process is free and the last result has been taken.
        answer: the function that answers a job, given the job and what it sent.
        deadline: the time, by `time.monotonic`, at which to give up what is running.
        most_losses: how often a job may lose its process.
    """
    n = min(n, length_hint(jobs, n))
    source = enumerate(jobs)
    again: deque[tuple[int, _Job]] = deque()
    losses: Counter[int] = Counter()
    processes: dict[Any, _Process] = {}
    are_more = n > 0  # jobs, as far as is known
    try:
        while True:
            # A process with nothing left to do takes over the job of one that died.
            for process in processes.values():
                if process.is_ready and process.given is None and (again or are_more):
                    process.given = again.popleft() if again else next(source, None)
                    are_more = are_more and process.given is not None
                    if process.given is not None:
                        process.send(process.given[1])
            while (again or are_more) and len(processes) < n:
                process = _Process(work)
                processes[process.connection] = process
            if not (again or are_more or any(process.given for process in processes.values())):
                return
            left = None if deadline is None else deadline - time.monotonic()
            ready = wait(list(processes), left) if left is None or left > 0 else []
            if not ready:
                return
            for connection in ready:
                process = processes[connection]
                kind, content = process.receive()
                if kind == _DIED:
                    del processes[connection]
                if process.given is None:  # it has become ready, or died without a job
                    continue
                number, job = process.given
                if kind == _ASKS:
                    process.send(answer(job, content))
                    continue
                process.given = None
                losses[number] += kind == _DIED
                if kind == _DONE:
                    yield job, content
                elif losses[number] < most_losses:
                    again.append((number, job))
                else:
                    yield job, Lost(losses[number], content)
    finally:
        for process in processes.values():
            process.end()


@contextmanager
def ignoring_ctrl_c() -> Iterator[None]:
    """Start processes in this block that ignore Ctrl-C, which reaches every process of a terminal.

    A process inherits the signals its parent blocks, so it ignores Ctrl-C from its first moment, imports included; the
    parent gets what came meanwhile when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Process:
    """A process, and the number and content of the job it has."""

    def __init__(self, work: Callable[[Any, Ask], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, work), daemon=True)
        with ignoring_ctrl_c():
            self._process.start()
        # With the other end closed here, the death of the process is the end of what can be received.
        theirs.close()
        self.given: tuple[int, Any] | None = None
        self.is_ready = False

    def send(self, message: Any) -> None:
        # A process that just died is noticed by what it does not send.
        with suppress(OSError):
            self.connection.send(message)

    def receive(self) -> tuple[str, Any]:
        """Return the kind of message and its content; if the process is dead, how it died."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            self.connection.close()
            how = _cause_of_death(self._process.exitcode or 0)
            if not self.is_ready:
                raise OptionError(
                    f"workers: a new process ended before it was ready ({how}); expected one that can start (a script "
                    "needs its 'if __name__ == \"__main__\":', and workers=1 needs no processes)"
                ) from None
            return _DIED, how
        self.is_ready = True
        return kind, content

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _cause_of_death(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"


def _work(connection: Connection, work: Callable[[Any, Ask], Any]) -> None:
    """Run one job after the other until no more come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def ask(what: Any) -> Any:
        connection.send((_ASKS, what))
        return connection.recv()

    with suppress(EOFError, OSError):
        connection.send((_READY, None))
        while True:
            connection.send((_DONE, work(connection.recv(), ask)))


def _die_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)


class Workers:
    """What runs trials: processes of this machine, one trial in each; a single one is this process itself.

    Args:
        n: the number of processes.

    >>> list(Workers(2).run([], Surroundings()))
    []
    """

    def __init__(self, n: int) -> None:
        self.n = whole("workers", n, 1)

    def run(self, trials: Sequence[Trial], around: Surroundings) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; they come back as they finish, and what is not finished when the iterator is closed is given up.

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
    return Workers(workers)


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
        tell = progress or (lambda *_: None)
        tell(size - len(waiting), size, "")
        for done, (trial, outcome) in enumerate(workers.run(waiting, around), size - len(waiting) + 1):
            if outcome.status == IMPOSSIBLE:
                raise DataError(outcome.error)
            if outcome.status == FAILED and not plan.study.keeps_failures:
                kind = OptionError if outcome.is_option else DataError
                raise kind(f"{trial.title}: {outcome.error}")
            store.record(trial, outcome)
            tell(done, size, trial.title)


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
