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
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias

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

MOST_LOSSES = 3
"""How often a trial may lose its process before it is given up: one too big for its machine ends
there.
"""

_NEEDS_DASK = "running trials on a cluster needs Dask"
_READY, _ASKS, _DONE, _DIED = "ready", "asks", "done", "died"


def run_trials(
    n: int,
    run: RunTrial,
    trials: Iterable[Trial],
    context: TrialContext,
    *,
    answer: Callable[[Trial, Any], Any] = no_answer,
    deadline: float | None = None,
    most_losses: int = MOST_LOSSES,
    lost: str = FAILED,
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
        answer: the function that answers a trial that asks, given the trial and what it sent.
        deadline: the time, by `time.monotonic`, at which to give up what other processes are
            running.
        most_losses: how often a trial may lose its process.
        lost: the status of a trial that lost its processes as often.
    """
    again, losses, processes = deque[Trial](), Counter[str](), dict[Any, _Process]()
    with ExitStack() as stack:
        stack.callback(forget_data)
        if n == 1:
            for trial in trials:
                yield (
                    trial,
                    attempt(
                        trial.spec,
                        replace(context, ask=partial(answer, trial), deadline=deadline),
                        run,
                    ),
                )
            return
        bins = tempfile.TemporaryDirectory(prefix="tautrank-bins-", ignore_cleanup_errors=True)
        context, source = replace(context, bins=stack.enter_context(bins)), iter(trials)
        while True:
            # A process with nothing left to do takes over the trial of one that died.
            idle = [process for process in processes.values() if process.trial is None]
            while idle or len(processes) < n:
                given = again.popleft() if again else next(source, None)
                if given is None:
                    break
                process = (
                    idle.pop() if idle else stack.enter_context(closing(_Process(run, context)))
                )
                processes[process.connection], process.trial = process, given
                process.send(given.spec)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready = (
                wait(list(processes), left)
                if any(process.trial for process in processes.values())
                else []
            )
            if not ready:
                return
            for connection in ready:
                process = processes[connection]
                kind, content = process.receive()
                if kind == _DIED:
                    del processes[connection]
                if process.trial is None or kind == _READY:
                    continue
                trial = process.trial
                if kind == _ASKS:
                    process.send(answer(trial, content))
                    continue
                process.trial = None
                losses[trial.key] += kind == _DIED
                if kind == _DONE:
                    yield trial, content
                elif losses[trial.key] < most_losses:
                    again.append(trial)
                else:
                    yield trial, TrialOutcome(lost, error=_loss(losses[trial.key], content))


def _loss(times: int, how: str) -> str:
    often = "once" if times == 1 else f"{times} times"
    return f"its worker died {often} ({how}); perhaps there is not enough memory"


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
    """A process, and the trial it has."""

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
            if not self._is_ready:
                found = f"a new process ended before it was ready ({how})"
                hint = "a script needs its 'if __name__ == \"__main__\":', and workers=1 needs no processes"
                raise OptionError(
                    f"workers: {found}; expected one that can start ({hint})"
                ) from None
            return _DIED, how
        self._is_ready = True
        return kind, content

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _cause_of_death(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    names = {int(one): one.name for one in signal.Signals}
    return f"signal {names.get(-code, -code)}"


def _work(connection: Connection, run: RunTrial, context: TrialContext) -> None:
    """Run one trial after the other until no more come."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def ask(what: Any) -> Any:
        connection.send((_ASKS, what))
        return connection.recv()

    with suppress(EOFError, OSError):
        connection.send((_READY, None))
        while True:
            connection.send((_DONE, attempt(connection.recv(), replace(context, ask=ask), run)))


def _die_with_parent() -> None:
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
    if n > 1:
        context = replace(context, custom_losses=own_losses_of(trials, "workers"))
    yield from run_trials(n, run_trial, trials, context)


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
    context = replace(context, custom_losses=own_losses_of(trials, "dask"))
    with ExitStack() as stack:
        client = connect(address, n, stack, "--dask")
        shared = client.scatter(context, broadcast=True, hash=False) if context.data else context
        by_key = {f"tautrank-{trial.key}": trial for trial in trials}
        # A result is a pure function of the key, but one that an earlier run left half-way must not
        # be waited for.
        futures = [
            client.submit(attempt, trial.spec, shared, key=key, pure=False)
            for key, trial in by_key.items()
        ]
        stack.callback(_forget, client, futures)
        stack.enter_context(in_one_sentence(client))
        for future in dask.as_completed(futures):
            trial, error = by_key[future.key], future.exception()
            if isinstance(error, dask.KilledWorker):
                died = _loss(MOST_LOSSES + 1, f"last {error.last_worker.address}")
                yield trial, TrialOutcome(FAILED, error=died)
            elif error is None or isinstance(error, dask.CancelledError):
                yield trial, future.result()
            else:
                # `attempt` raises nothing: what arrives here is a worker that cannot run it.
                found = f"a worker cannot run trials ({type(error).__name__}: {error})"
                raise DataError(
                    f"{address}: {found}; expected workers with tautrank {tautrank.__version__}"
                )
            future.release()


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
    with store.running():
        waiting, size = unfinished(plan, store, retry=retry), plan.size
        progress = progress or Silent()
        progress.update(size - len(waiting), size, "")
        for done, (trial, outcome) in enumerate(workers(waiting, context), size - len(waiting) + 1):
            if outcome.status == IMPOSSIBLE:
                raise DataError(outcome.error)
            if outcome.status == FAILED and not plan.study.keeps_failures:
                kind = OptionError if outcome.is_option else DataError
                raise kind(f"{trial.title}: {outcome.error}")
            store.record(trial, outcome)
            progress.update(done, size, trial.title)


def unfinished(plan: Plan, store: Store, *, retry: bool = False) -> list[Trial]:
    """Return the trials of a plan that a store does not have, in their order.

    Args:
        plan: the plan.
        store: the store.
        retry: count failed trials as unfinished.
    """
    kept = (DONE,) if retry else (DONE, FAILED)
    statuses = store.statuses()
    return [trial for trial in plan.trials() if statuses.get(trial.key) not in kept]


def own_losses_of(trials: Sequence[Trial], needed_by: str) -> tuple[OwnLoss, ...]:
    """Return what has to be imported where trials are run, besides this library.

    Args:
        trials: the trials.
        needed_by: the argument that asks for other processes.
    """
    trained = [trial.spec for trial in trials if "loss" in trial.spec]
    return sendable(
        [name for spec in trained for name in (spec["loss"], *spec["metrics"])], needed_by
    )
