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
            # What a trial asks while it trains, such as whether to stop, is answered at once.
            ask = partial(options.answer, trial)
            yield trial, attempt(trial.spec, replace(context, ask=ask), run)
    finally:
        forget_data()


def _run_in_processes(
    n: int, run: RunTrial, trials: Iterable[Trial], context: TrialContext, options: RunOptions
) -> Ended:
    """Run trials in ``n`` processes, and yield each trial with its outcome as it ends.

    The loop gives every free process a trial, waits for messages, and deals with them: a question
    is answered, an outcome is yielded, and the trial of a process that died is given to another
    process, unless that has happened too often. The processes share a folder of binned features.
    """
    with (
        tempfile.TemporaryDirectory(prefix="tautrank-bins-", ignore_cleanup_errors=True) as bins,
        closing(_Pool(n, run, replace(context, bins=bins), trials)) as pool,
    ):
        deaths_by_trial = Counter[str]()
        while True:
            pool.give_trials()
            messages = pool.wait(options.deadline)
            if not messages:
                return
            for process, trial, kind, content in messages:
                if kind == _ASKS:
                    answer = options.answer(trial, content)
                    process.send(answer)
                    continue
                process.trial = None
                if kind == _DONE:
                    yield trial, content
                    continue
                deaths_by_trial[trial.key] += 1
                n_deaths = deaths_by_trial[trial.key]
                if n_deaths < options.most_deaths:
                    pool.give_again(trial)
                else:
                    error = _death_text(n_deaths, content)
                    yield trial, TrialOutcome(options.status_if_lost, error=error)


class _Message(NamedTuple):
    """What a process sent about its trial, or how it died.

    Attributes:
        process: the sender.
        trial: the trial that the process runs.
        kind: ``asks``, ``done`` or ``died``.
        content: the question, the outcome, or the cause of death.
    """

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
        self._trials_to_repeat = deque[Trial]()
        self._process_by_connection: dict[Any, _Process] = {}

    def give_again(self, trial: Trial) -> None:
        """Let another process run a trial whose process died."""
        self._trials_to_repeat.append(trial)

    def give_trials(self) -> None:
        """Give each idle process a trial, and start new processes while there are fewer than allowed
        and trials are left.
        """
        processes = self._process_by_connection.values()
        idle = [process for process in processes if process.trial is None]
        while idle or len(processes) < self._n:
            trial = self._next_trial()
            if trial is None:
                return
            # A process without a trial is idle; the pool finds a process by its connection.
            process = idle.pop() if idle else _Process(self._run, self._context)
            self._process_by_connection[process.connection] = process
            process.trial = trial
            process.send(trial.spec)

    def _next_trial(self) -> Trial | None:
        """Return the next trial to run, first those whose process died; None if there are no
        more.
        """
        if self._trials_to_repeat:
            return self._trials_to_repeat.popleft()
        return next(self._trials, None)

    def wait(self, deadline: float | None) -> Iterator[_Message] | None:
        """Wait until a process sends something, and return the messages about trials; None if no
        process has a trial, or if nothing comes before the deadline.

        Args:
            deadline: the time by `time.monotonic`; None waits for as long as it takes.
        """
        processes = self._process_by_connection.values()
        if not any(process.trial for process in processes):
            return None

        seconds_left = None
        if deadline is not None:
            seconds_left = max(0.0, deadline - time.monotonic())
        # `wait` of multiprocessing: the connections on which something has come.
        ready_connections = wait(list(self._process_by_connection), seconds_left)
        if not ready_connections:
            return None
        return self._read_messages(ready_connections)

    def _read_messages(self, connections: Sequence[Any]) -> Iterator[_Message]:
        """Read one message from each connection, and yield those about a trial; a process that died
        leaves the pool.
        """
        for connection in connections:
            process = self._process_by_connection[connection]
            kind, content = process.receive()
            if kind == _DIED:
                del self._process_by_connection[connection]
            # A process that has just started says that it is ready.
            is_about_trial = kind != _READY
            if process.trial is not None and is_about_trial:
                yield _Message(process, process.trial, kind, content)

    def close(self) -> None:
        """Kill all processes, also those that run a trial."""
        for process in self._process_by_connection.values():
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
    # Multiprocessing's resource tracker unblocks the signal when it starts: it has to run before.
    resource_tracker.ensure_running()
    signals_blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals_blocked_before)


class _Process:
    """A process, and the trial it has.

    Args:
        run, context: as those of `run_trials`.
    """

    def __init__(self, run: RunTrial, context: TrialContext) -> None:
        # A fresh interpreter: a forked one would inherit OpenMP threads that no longer run.
        multiprocessing_context = multiprocessing.get_context("spawn")
        self.connection, child_connection = multiprocessing_context.Pipe()
        self._process = multiprocessing_context.Process(
            target=_work, args=(child_connection, run, context), daemon=True
        )
        with ignoring_ctrl_c():
            self._process.start()
        # With the child's end of the pipe closed in this process, the death of the child ends the
        # pipe, and `receive` notices it.
        child_connection.close()
        self.trial: Trial | None = None
        self._is_ready = False

    def send(self, message: Any) -> None:
        """Send the process the specification of a trial to run, or the answer to its question."""
        # A process that has just died is noticed by `receive`.
        with suppress(OSError):
            self.connection.send(message)

    def receive(self) -> tuple[str, Any]:
        """Return the next message of the process, its kind and its content.

        If the process is dead, the kind is ``died`` and the content says how it ended; one that dies
        before it is ready raises an error, as every process after it would die too.
        """
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            self.connection.close()
            # The code says how it ended: a negative one is the signal that killed it.
            exit_code = self._process.exitcode or 0
            cause = _cause_of_death(exit_code)
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
    """Return in words how a process ended; a negative exit code is the number of a signal."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    signal_number = -exit_code
    with suppress(ValueError):  # a number without a name
        return f"signal {signal.Signals(signal_number).name}"
    return f"signal {signal_number}"


def _work(connection: Connection, run: RunTrial, context: TrialContext) -> None:
    """Run, in a process of its own, every trial whose specification comes through a connection, and
    send its outcome back, until the other end is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    # A daemon thread, which does not keep the process alive.
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def ask(message: Any) -> Any:
        connection.send((_ASKS, message))
        return connection.recv()

    context = replace(context, ask=ask)
    with suppress(EOFError, OSError):
        # The other end closes when the search ends: then `recv` raises, and the process ends.
        connection.send((_READY, None))
        while True:
            spec = connection.recv()
            outcome = attempt(spec, context, run)
            connection.send((_DONE, outcome))


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
    custom_losses = custom_losses_of(trials, "workers")
    return run_trials(n, run_trial, trials, replace(context, custom_losses=custom_losses))


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
        shared_context: Any = context
        if context.data:
            # Sent once: `broadcast` to every worker, and no hash is computed of large data.
            shared_context = client.scatter(context, broadcast=True, hash=False)

        trial_by_key = {f"tautrank-{trial.key}": trial for trial in trials}
        futures = []
        for key, trial in trial_by_key.items():
            # A result is a pure function of the key, but one that an earlier run left half-way must
            # not be waited for: hence `pure=False`.
            futures.append(client.submit(attempt, trial.spec, shared_context, key=key, pure=False))

        stack.callback(_cancel_unfinished, client, futures)
        stack.enter_context(in_one_sentence(client))
        for future in dask.as_completed(futures):
            trial = trial_by_key[future.key]
            yield trial, _outcome_of(future, dask, address)
            # The cluster may forget the outcome.
            future.release()


def _outcome_of(future: Any, dask: Any, address: str) -> TrialOutcome:
    """Return the outcome of a trial that a Dask cluster has finished.

    A trial whose workers died again and again has failed; any other error of a worker is raised.

    Args:
        future: Dask's future of the trial.
        dask: the module `distributed`.
        address: the address of the scheduler, for errors.
    """
    error = future.exception()
    if isinstance(error, dask.KilledWorker):
        cause = f"last {error.last_worker.address}"
        # Dask gives up after one death more than it allows.
        return TrialOutcome(FAILED, error=_death_text(MOST_DEATHS + 1, cause))
    # The result of a cancelled trial raises its error, which says why.
    if error is None or isinstance(error, dask.CancelledError):
        outcome: TrialOutcome = future.result()
        return outcome
    # `attempt` raises nothing: what arrives here is a worker that cannot run it.
    raise DataError(
        f"{address}: a worker cannot run trials ({type(error).__name__}: {error});"
        f" expected workers with tautrank {tautrank.__version__}"
    )


def _cancel_unfinished(client: Any, futures: list[Any]) -> None:
    """Cancel the trials that a Dask cluster has not finished, so that a cluster that outlives this
    run does not go on with them.
    """
    with suppress(Exception):
        unfinished_futures = [future for future in futures if not future.done()]
        client.cancel(unfinished_futures, force=True)


def choose_workers(workers: int, dask: str = "") -> Workers:
    """Return the function that runs trials: in processes of this machine, or on a Dask cluster.

    Args:
        workers: the number of processes; with one, trials run in this process.
        dask: the address of a Dask scheduler; empty for processes of this machine.

    >>> list(choose_workers(2)([], TrialContext()))
    []
    """
    n_processes = whole("workers", workers, 1)
    if not dask:
        return partial(run_here, n_processes)
    require("distributed", _NEEDS_DASK, "distributed")
    return partial(run_on_dask, dask, n_processes)


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
    """Raise the error of a trial if this machine could not run it, or if it failed in an experiment
    that does not go on after failures.
    """
    if outcome.status == IMPOSSIBLE:
        raise DataError(outcome.error)
    if outcome.status == FAILED and not plan.study.keeps_failures:
        # The error of another process comes as text; this is the class that it had.
        error_class = OptionError if outcome.is_option else DataError
        raise error_class(f"{trial.title}: {outcome.error}")


def unfinished(plan: Plan, store: Store, *, retry: bool = False) -> list[Trial]:
    """Return the trials of a plan that have no result in a store yet, in the order of the plan.

    Args:
        plan: the plan.
        store: the store of finished trials.
        retry: whether failed trials count as unfinished.
    """
    # A failed trial counts as ended, unless it is to be run again.
    ended_statuses = {DONE} if retry else {DONE, FAILED}
    status_by_key = store.statuses()
    unfinished_trials = []
    for trial in plan.trials():
        if status_by_key.get(trial.key) not in ended_statuses:
            unfinished_trials.append(trial)
    return unfinished_trials


def custom_losses_of(trials: Sequence[Trial], needed_by: str) -> tuple[OwnLoss, ...]:
    """Return the user's own losses and metrics that trials need, which the processes that run the
    trials have to import.

    Args:
        trials: the trials.
        needed_by: the argument that asks for other processes, for errors.
    """
    names = []
    for trial in trials:
        # A measurement trains nothing and has no loss.
        is_training = "loss" in trial.spec
        if is_training:
            names.append(trial.spec["loss"])
            names.extend(trial.spec["metrics"])
    return sendable(names, needed_by)
