"""Trials side by side in processes of this machine, one trial a process at a time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import tautrank
from tautrank.arguments import whole
from tautrank.errors import OptionError
from tautrank.losses.own_losses import OwnLoss
from tautrank.studies.ctrl_c import deaf_to_ctrl_c
from tautrank.studies.plan import Trial, own_losses_of
from tautrank.studies.trial import Outcome, attempt
from tautrank.studies.workers import MOST_LOSSES, lost

_READY = "ready"


class LocalProcesses:
    """Processes that are started afresh: a forked one would inherit OpenMP threads that no longer run.

    A process that dies, of whatever, takes nothing along: its trial is given to a new one, a few times. When this
    process dies, so do they.

    Args:
        n: how many.
    """

    def __init__(self, n: int) -> None:
        self.n = whole("workers", n, 1)

    def run(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Run trials; they come back as they finish.

        Args:
            trials: which.
        """
        own = own_losses_of(trials, "workers")
        waiting = deque(trials)
        losses: dict[str, int] = {}
        processes: dict[Connection, _Process] = {}
        try:
            while waiting or any(process.trial for process in processes.values()):
                while len(processes) < min(self.n, len(waiting) + _busy(processes)):
                    process = _Process()
                    processes[process.connection] = process
                for process in processes.values():
                    # One that had nothing left to do gets what another one died of.
                    if waiting and process.is_idle:
                        process.give(waiting.popleft(), own)
                for connection in wait(list(processes)):
                    assert isinstance(connection, Connection)
                    process = processes[connection]
                    outcome = process.receive()
                    if outcome is None:
                        del processes[connection]
                        trial = process.buried()
                        if trial is not None:
                            losses[trial.key] = losses.get(trial.key, 0) + 1
                            if losses[trial.key] < MOST_LOSSES:
                                waiting.appendleft(trial)
                            else:
                                yield trial, lost(trial, losses[trial.key], process.epitaph)
                        continue
                    finished, process.trial = process.trial, None
                    if waiting:  # at once: whoever takes what is finished may take their time
                        process.give(waiting.popleft(), own)
                    if finished is not None:
                        assert isinstance(outcome, Outcome)
                        yield finished, outcome
        finally:
            for process in processes.values():
                process.end()


def _busy(processes: dict[Connection, _Process]) -> int:
    return sum(process.trial is not None for process in processes.values())


class _Process:
    """A worker process and the trial it has."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=True)
        with deaf_to_ctrl_c():
            self.process.start()
        # With the other end closed here, the death of the process is the end of what can be received.
        theirs.close()
        self.trial: Trial | None = None
        self.is_ready = False

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a trial."""
        return self.is_ready and self.trial is None

    def receive(self) -> Outcome | str | None:
        """What the process sends; None where it is dead."""
        try:
            message: Outcome | str = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.is_ready = True
        return message

    def give(self, trial: Trial, own: tuple[OwnLoss, ...]) -> None:
        self.trial = trial
        # A process that just died is noticed by what it does not send.
        with suppress(OSError):
            self.connection.send((trial.key, trial.spec, tautrank.__version__, own))

    def buried(self) -> Trial | None:
        """Tidy up after a dead process and return the trial it had."""
        self.process.join()
        self.connection.close()
        if not self.is_ready:
            raise OptionError(
                f"workers: a new process ended before it was ready ({self.epitaph}); expected one that can start "
                "(a script needs its 'if __name__ == \"__main__\":', and --workers 1 needs no processes)"
            )
        return self.trial

    @property
    def epitaph(self) -> str:
        code = self.process.exitcode or 0
        if code >= 0:
            return f"exit code {code}"
        with suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
        return f"signal {-code}"

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Connection) -> None:
    """What a worker process does: trial after trial, until nobody asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        connection.send(_READY)
        while True:
            connection.send(attempt(*connection.recv()))


def _die_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
