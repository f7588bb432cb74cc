"""Jobs side by side in processes of this machine, one job per process at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from typing import Any, Generic, TypeAlias, TypeVar

from tautrank.errors import OptionError

MOST_LOSSES = 3
"""How often a job may lose its process before it is given up: one too big for its machine ends there."""

Ask: TypeAlias = Callable[[Any], Any]
"""A function that a job may call to send something to the process that gave it, and to get an answer."""

_READY, _ASKS, _DONE, _RAISED, _DIED = "ready", "asks", "done", "raised", "died"
_Job = TypeVar("_Job")


@dataclass(frozen=True)
class Lost:
    """The outcome of a job whose processes died.

    Args:
        times: the number of deaths.
        how: what is known about the last one.

    >>> print(Lost(3, "signal SIGKILL"))
    its worker died 3 times (signal SIGKILL); perhaps there is not enough memory
    """

    times: int
    how: str

    def __str__(self) -> str:
        return f"its worker died {self.times} times ({self.how}); perhaps there is not enough memory"


def run_jobs(
    n: int,
    work: Callable[[_Job, Ask], Any],
    jobs: Iterable[_Job],
    *,
    answer: Callable[[_Job, Any], Any] | None = None,
    deadline: float | None = None,
    most_losses: int = MOST_LOSSES,
) -> Iterator[tuple[_Job, Any]]:
    """Run jobs in other processes; each comes back, in any order, with its result or with `Lost`.

    Processes are started afresh: a forked one would inherit OpenMP threads that no longer run. If one dies, its job is
    given to another. When this process dies, so do they; what is not finished when the iterator is closed is given up.
    What a job raises is raised here.

    Args:
        n: the number of processes.
        work: a function of a job and of `Ask`; a `functools.partial` of one brings what all jobs need.
        jobs: the jobs; the next one is taken when a process is free and the last result has been taken.
        answer: the function that answers a job, given the job and what it sent.
        deadline: the time, by `time.monotonic`, at which to give up what is running.
        most_losses: how often a job may lose its process.
    """
    source = (_Given(job) for job in jobs)
    again: deque[_Given[_Job]] = deque()
    processes: dict[Any, _Process[_Job]] = {}
    are_more = n > 0  # jobs, as far as is known
    try:
        while True:
            # A process with nothing left to do takes over the job of one that died.
            for process in processes.values():
                if process.is_idle and (again or are_more):
                    given = again.popleft() if again else next(source, None)
                    are_more = are_more and given is not None
                    process.give(given)
            while (again or are_more) and len(processes) < n:
                process = _Process[_Job](work)
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
                given = process.given
                if given is None:  # it has become ready, or died without a job
                    continue
                if kind == _RAISED:
                    raise content
                if kind == _ASKS:
                    assert answer is not None
                    process.send(answer(given.job, content))
                    continue
                process.given = None
                given.losses += kind == _DIED
                if kind == _DONE:
                    yield given.job, content
                elif given.losses < most_losses:
                    again.append(given)
                else:
                    yield given.job, Lost(given.losses, content)
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


@dataclass
class _Given(Generic[_Job]):
    """A job, and how often it has lost its process."""

    job: _Job
    losses: int = 0


class _Process(Generic[_Job]):
    """A process and the job it has."""

    def __init__(self, work: Callable[[_Job, Ask], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, work), daemon=True)
        with ignoring_ctrl_c():
            self._process.start()
        # With the other end closed here, the death of the process is the end of what can be received.
        theirs.close()
        self.given: _Given[_Job] | None = None
        self._is_ready = False

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a job."""
        return self._is_ready and self.given is None

    def give(self, given: _Given[_Job] | None) -> None:
        self.given = given
        if given is not None:
            self.send(given.job)

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
                raise OptionError(
                    f"workers: a new process ended before it was ready ({how}); expected one that can start (a script "
                    "needs its 'if __name__ == \"__main__\":', and workers=1 needs no processes)"
                ) from None
            return _DIED, how
        self._is_ready = True
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
            job = connection.recv()
            try:
                told = _DONE, work(job, ask)
            except Exception as error:
                told = _RAISED, ExceptionWithTraceback(error, error.__traceback__)
            connection.send(told)


def _die_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
