"""What runs trials: this process, processes of this machine, or a Dask cluster; all give the same
results.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeAlias

import tautrank
from tautrank.arguments import whole
from tautrank.data.distributed import connect, in_one_sentence
from tautrank.errors import DataError, OptionError, require
from tautrank.experiments.plan import Plan
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Store, Trial, TrialOutcome
from tautrank.experiments.trial import (
    RunTrial,
    TrialContext,
    attempt,
    forget_data,
    no_answer,
    run_trial,
)
from tautrank.losses.own_losses import OwnLoss, sendable
from tautrank.progress import Progress, Silent

Ended: TypeAlias = Iterator[tuple[Trial, TrialOutcome]]
"""Trials as they finish; what is not finished when the iterator is closed is given up."""

Workers: TypeAlias = Callable[[Sequence[Trial], TrialContext], Ended]
"""What runs trials."""

MOST_DEATHS = 3
"""How often the process of a trial may die before the trial is given up, as one too big for its
machine.
"""

_NEEDS_DASK = "running trials on a cluster needs Dask"
_READY, _ASKS, _DONE, _DIED = "ready", "asks", "done", "died"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How trials are run.

    Args:
        answer: the function that answers a trial that asks, given the trial and what it sent.
        deadline: the time, by `time.monotonic`, at which to give up what is running.
        most_deaths: how often the process of a trial may die.
        status_if_lost: the status of a trial whose processes died as often.
    """

    answer: Callable[[Trial, Any], Any] = no_answer
    deadline: float | None = None
    most_deaths: int = MOST_DEATHS
    status_if_lost: str = FAILED


_DEFAULT_OPTIONS = RunOptions()


def run_trials(
    n: int,
    run: RunTrial,
    trials: Iterable[Trial],
    context: TrialContext,
    options: RunOptions = _DEFAULT_OPTIONS,
) -> Ended:
    """Run trials in this process one after the other, or in others; each comes back, in any order,
    with its outcome.

    Processes are started afresh: a forked one would inherit OpenMP threads that no longer run. If
    one dies, its trial is given to another. When this process dies, so do they; what is not
    finished when the iterator is closed is given up.

    Args:
        n: the number of processes; 1 for this process. As many as trials are enough.
        run: the function that runs a trial; a `functools.partial` of one brings what all trials
            need.
        trials: the trials; the next one is taken when a process is free and the last outcome has
            been taken.
        context: what all trials need.
        options: who answers trials, and what ends them.
    """
    try:
        if n > 1:
            yield from _run_in_processes(n, run, trials, context, options)
            return
        context = replace(context, deadline=options.deadline)
        for trial in trials:
            ask = partial(options.answer, trial)
            yield trial, attempt(trial.spec, replace(context, ask=ask), run)
    finally:
        forget_data()


def _run_in_processes(
    n: int, run: RunTrial, trials: Iterable[Trial], context: TrialContext, options: RunOptions
) -> Ended:
    """Run trials in processes that share a folder of binned data."""
    with (
        tempfile.TemporaryDirectory(prefix="tautrank-bins-", ignore_cleanup_errors=True) as bins,
        closing(_Pool(n, run, replace(context, bins=bins), trials)) as pool,
    ):
        n_deaths = Counter[str]()
        while True:
            pool.give_trials()
            messages = pool.wait(options.deadline)
            if not messages:
                return
            for process, trial, kind, content in messages:
                if kind == _ASKS:
                    process.send(options.answer(trial, content))
                    continue
                process.trial = None
                if kind == _DONE:
                    yield trial, content
                    continue
                n_deaths[trial.key] += 1
                if n_deaths[trial.key] < options.most_deaths:
                    pool.give_again(trial)
                else:
                    error = _death_text(n_deaths[trial.key], content)
                    yield trial, TrialOutcome(options.status_if_lost, error=error)


class _Message(NamedTuple):
    """What a process sent about its trial, or how it died."""

    process: _Process
    trial: Trial
    kind: str
    content: Any


class _Pool:
    """Processes, and the trials that they have not been given yet.

    Args:
        n: the number of processes; each is started when there is a trial for it.
        run, context: as those of `run_trials`.
        trials: the trials.
    """

    def __init__(
        self, n: int, run: RunTrial, context: TrialContext, trials: Iterable[Trial]
    ) -> None:
        self._n = n
        self._run = run
        self._context = context
        self._trials = iter(trials)
        self._again = deque[Trial]()
        self._processes: dict[Any, _Process] = {}

    def give_again(self, trial: Trial) -> None:
        """Let another process run a trial whose process died."""
        self._again.append(trial)

    def give_trials(self) -> None:
        """Give every free process a trial, as long as there are trials."""
        # A process with nothing left to do takes over the trial of one that died.
        idle = [process for process in self._processes.values() if process.trial is None]
        while idle or len(self._processes) < self._n:
            trial = self._next_trial()
            if trial is None:
                return
            process = idle.pop() if idle else _Process(self._run, self._context)
            self._processes[process.connection] = process
            process.trial = trial
            process.send(trial.spec)

    def _next_trial(self) -> Trial | None:
        if self._again:
            return self._again.popleft()
        return next(self._trials, None)

    def wait(self, deadline: float | None) -> Iterator[_Message] | None:
        """Return what processes send next about their trials; None if nothing runs, or if nothing
        comes before the deadline.
        """
        if not any(process.trial for process in self._processes.values()):
            return None
        seconds_left = None if deadline is None else max(0.0, deadline - time.monotonic())
        connections = wait(list(self._processes), seconds_left)
        return self._received(connections) if connections else None

    def _received(self, connections: Sequence[Any]) -> Iterator[_Message]:
        """Read one message from each connection, and yield those about a trial."""
        for connection in connections:
            process = self._processes[connection]
            kind, content = process.receive()
            if kind == _DIED:
                del self._processes[connection]
            if process.trial is not None and kind != _READY:
                yield _Message(process, process.trial, kind, content)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.close()


def _death_text(times: int, cause: str) -> str:
    """Return what happened to a trial whose processes died."""
    often = "once" if times == 1 else f"{times} times"
    return f"its worker died {often} ({cause}); perhaps there is not enough memory"


@contextmanager
def ignoring_ctrl_c() -> Iterator[None]:
    """Start processes in this block that ignore Ctrl-C, which reaches every process of a terminal.

    A process inherits the signals its parent blocks, so it ignores Ctrl-C from its first moment,
    imports included; the parent gets what came meanwhile when the block ends.
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
    """A process, and the trial it has.

    Args:
        run, context: as those of `run_trials`.
    """

    def __init__(self, run: RunTrial, context: TrialContext) -> None:
        processes = multiprocessing.get_context("spawn")
        self.connection, theirs = processes.Pipe()
        self._process = processes.Process(target=_work, args=(theirs, run, context), daemon=True)
        with ignoring_ctrl_c():
            self._process.start()
        # With the other end closed here, the death of the process is the end of what can be
        # received.
        theirs.close()
        self.trial: Trial | None = None
        self._is_ready = False

    def send(self, message: Any) -> None:
        """Send a trial's specification, or the answer to it."""
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
            cause = _cause_of_death(self._process.exitcode or 0)
            if not self._is_ready:
                raise OptionError(
                    f"workers: a new process ended before it was ready ({cause});"
                    " expected one that can start (a script needs its"
                    " 'if __name__ == \"__main__\":', and workers=1 needs no processes)"
                ) from None
            return _DIED, cause
        self._is_ready = True
        return kind, content

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _cause_of_death(exit_code: int) -> str:
    """Return how a process ended: by an exit code, or by a signal, whose code is negative."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-exit_code).name}"
    return f"signal {-exit_code}"


def _work(connection: Connection, run: RunTrial, context: TrialContext) -> None:
    """Run one trial after the other until no more come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def ask(message: Any) -> Any:
        connection.send((_ASKS, message))
        return connection.recv()

    context = replace(context, ask=ask)
    with suppress(EOFError, OSError):
        connection.send((_READY, None))
        while True:
            spec = connection.recv()
            connection.send((_DONE, attempt(spec, context, run)))


def _die_with_parent() -> None:
    """Wait for the process that started this one to end, and end as well."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)


def run_here(n: int, trials: Sequence[Trial], context: TrialContext) -> Ended:
    """Run trials in processes of this machine, one trial in each; a single one is this process
    itself.

    Args:
        n: the number of processes.
        trials: the trials.
        context: what all of them need.
    """
    if n == 1:
        return ((trial, attempt(trial.spec, context, run_trial)) for trial in trials)
    context = replace(context, custom_losses=custom_losses_of(trials, "workers"))
    return run_trials(n, run_trial, trials, context)


def run_on_dask(address: str, n: int, trials: Sequence[Trial], context: TrialContext) -> Ended:
    """Run trials on the workers of a Dask scheduler (the `distributed` extra).

    Each needs this version of tautrank, and the data at the same path. A worker that is lost loses
    nothing: Dask gives its trials to others, a few times.

    Args:
        address: the address of the scheduler (``tcp://host:8786``), its scheduler file, or
            ``local`` for a cluster on this machine.
        n: the number of worker processes of a local cluster.
        trials: the trials.
        context: what all of them need; data in memory is sent to each worker once.
    """
    dask = require("distributed", _NEEDS_DASK, "distributed")
    context = replace(context, custom_losses=custom_losses_of(trials, "dask"))
    with ExitStack() as stack:
        client = connect(address, n, stack, "--dask")
        shared = client.scatter(context, broadcast=True, hash=False) if context.data else context
        trials_by_key = {f"tautrank-{trial.key}": trial for trial in trials}
        # A result is a pure function of the key, but one that an earlier run left half-way must not
        # be waited for.
        futures = [
            client.submit(attempt, trial.spec, shared, key=key, pure=False)
            for key, trial in trials_by_key.items()
        ]
        stack.callback(_forget, client, futures)
        stack.enter_context(in_one_sentence(client))
        for future in dask.as_completed(futures):
            yield trials_by_key[future.key], _outcome_of(future, dask, address)
            future.release()


def _outcome_of(future: Any, dask: Any, address: str) -> TrialOutcome:
    """Return the outcome of a trial on a cluster; one that killed its workers has failed."""
    error = future.exception()
    if isinstance(error, dask.KilledWorker):
        cause = f"last {error.last_worker.address}"
        return TrialOutcome(FAILED, error=_death_text(MOST_DEATHS + 1, cause))
    if error is None or isinstance(error, dask.CancelledError):
        outcome: TrialOutcome = future.result()
        return outcome
    # `attempt` raises nothing: what arrives here is a worker that cannot run it.
    raise DataError(
        f"{address}: a worker cannot run trials ({type(error).__name__}: {error});"
        f" expected workers with tautrank {tautrank.__version__}"
    )


def _forget(client: Any, futures: list[Any]) -> None:
    """Give up what is still running, so that a cluster that outlives the run does not go on with
    it.
    """
    with suppress(Exception):
        client.cancel([future for future in futures if not future.done()], force=True)


def choose_workers(workers: int, dask: str = "") -> Workers:
    """Return what runs the trials.

    Args:
        workers: the number of processes; with one, trials run in this process.
        dask: the address of a Dask scheduler; empty for processes of this machine.

    >>> list(choose_workers(2)([], TrialContext()))
    []
    """
    n = whole("workers", workers, 1)
    if not dask:
        return partial(run_here, n)
    require("distributed", _NEEDS_DASK, "distributed")
    return partial(run_on_dask, dask, n)


def run_waiting(
    plan: Plan,
    store: Store,
    workers: Workers,
    progress: Progress | None = None,
    threads: int = 1,
    retry: bool = False,
) -> None:
    """Run the trials of a plan that a store lacks; each is in the store before the next is waited
    for.

    Args:
        plan: the plan.
        store: the store.
        workers: what runs them.
        progress: what is told how many trials are finished, and the title of the last one.
        threads: threads of one trial, unless the plan says how many.
        retry: run failed trials again too.
    """
    context = TrialContext(data=plan.data_by_fingerprint, threads=threads)
    progress = progress or Silent()
    with store.running():
        waiting = unfinished(plan, store, retry=retry)
        n_planned = plan.size
        n_done = n_planned - len(waiting)
        progress.update(n_done, n_planned, "")
        try:
            for trial, outcome in workers(waiting, context):
                _check_outcome(plan, trial, outcome)
                store.record(trial, outcome)
                n_done += 1
                progress.update(n_done, n_planned, trial.title)
        finally:
            forget_data()


def _check_outcome(plan: Plan, trial: Trial, outcome: TrialOutcome) -> None:
    """Raise the error of a trial that this machine cannot run, or that must not fail."""
    if outcome.status == IMPOSSIBLE:
        raise DataError(outcome.error)
    if outcome.status == FAILED and not plan.study.keeps_failures:
        kind = OptionError if outcome.is_option else DataError
        raise kind(f"{trial.title}: {outcome.error}")


def unfinished(plan: Plan, store: Store, *, retry: bool = False) -> list[Trial]:
    """Return the trials of a plan that a store does not have, in their order.

    Args:
        plan: the plan.
        store: the store.
        retry: count failed trials as unfinished.
    """
    ended = {DONE} if retry else {DONE, FAILED}
    statuses = store.statuses()
    return [trial for trial in plan.trials() if statuses.get(trial.key) not in ended]


def custom_losses_of(trials: Sequence[Trial], needed_by: str) -> tuple[OwnLoss, ...]:
    """Return what has to be imported where trials are run, besides this library.

    Args:
        trials: the trials.
        needed_by: the argument that asks for other processes.
    """
    names = []
    for trial in trials:
        if "loss" in trial.spec:
            names += [trial.spec["loss"], *trial.spec["metrics"]]
    return sendable(names, needed_by)
