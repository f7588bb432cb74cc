"""Trials of a search side by side in processes of this machine; who started them draws, judges and keeps."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from tautrank.data import RankingData
from tautrank.errors import OptionError
from tautrank.losses.own_losses import OwnLoss, import_own
from tautrank.metrics import Metric
from tautrank.studies.ctrl_c import deaf_to_ctrl_c
from tautrank.studies.tuning_trial import FAILED, UNFINISHED, Outcome, run_tuning_trial

_READY = "ready"
_T = TypeVar("_T")


class TuningProcesses(Generic[_T]):
    """Processes that are started afresh, each with the data; they are gone when the context ends.

    Args:
        n: how many.
        data: what to train and to judge on.
        metric: judges.
        every: after how many trees a trial reports; None for never.
        own: losses that are not of this library.
    """

    def __init__(
        self,
        n: int,
        data: tuple[RankingData, RankingData],
        metric: Metric,
        every: int | None,
        own: tuple[OwnLoss, ...] = (),
    ) -> None:
        self._n = n
        self._arguments = (*data, metric, every, own)
        self._all: dict[Connection, _Process[_T]] = {}

    def __enter__(self) -> TuningProcesses[_T]:
        return self

    def __exit__(self, *error: Any) -> None:
        for process in self._all.values():
            process.end()
        self._all.clear()

    def run(
        self,
        trials: Iterator[tuple[_T, Mapping[str, Any]]],
        is_hopeless: Callable[[_T, int, float], bool],
        deadline: float | None,
    ) -> Iterator[tuple[_T, Outcome]]:
        """Run trials as processes become free; what is under way at the deadline is given up.

        Args:
            trials: each with its parameters; the next one is asked for when a process is free.
            is_hopeless: what a trial's report is answered with.
            deadline: by `time.monotonic`.
        """
        source: Iterator[tuple[_T, Mapping[str, Any]]] | None = trials
        while True:
            while source is not None and len(self._all) < self._n:
                process = _Process[_T](self._arguments)
                self._all[process.connection] = process
            if source is None and not any(process.is_busy for process in self._all.values()):
                return
            left = None if deadline is None else deadline - time.monotonic()
            ready = wait(list(self._all), left) if left is None or left > 0 else []
            if not ready:
                return
            for connection in ready:
                assert isinstance(connection, Connection)
                process = self._all[connection]
                message = process.receive()
                if message is None:
                    del self._all[connection]
                    if process.is_busy:
                        yield process.trial, Outcome(UNFINISHED, error=process.epitaph())
                    continue
                if isinstance(message, tuple):
                    process.send(is_hopeless(process.trial, *message))
                    continue
                if isinstance(message, Outcome):
                    process.is_busy = False
                    yield process.trial, message
                following = next(source, None) if source is not None else None
                if following is None:
                    source = None
                else:
                    process.give(*following)


class _Process(Generic[_T]):
    """A worker process and the trial it has."""

    trial: _T

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, *arguments), daemon=True)
        with deaf_to_ctrl_c():
            self.process.start()
        # With the other end closed here, the death of the process is the end of what can be received.
        theirs.close()
        self.is_busy = False
        self._is_ready = False

    def receive(self) -> Any:
        """A report, an outcome, or that it is ready; None where the process is dead."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.end()
            if not self._is_ready:
                raise OptionError(
                    "workers: a new process ended before it was ready; expected one that can start (a script needs "
                    "its 'if __name__ == \"__main__\":', and workers=1 needs no processes)"
                ) from None
            return None
        self._is_ready = True
        return message

    def give(self, trial: _T, parameters: Mapping[str, Any]) -> None:
        self.trial = trial
        self.is_busy = True
        self.send(parameters)

    def send(self, message: Any) -> None:
        # A process that just died is noticed by what it does not send.
        with suppress(OSError):
            self.connection.send(message)

    def epitaph(self) -> str:
        code = self.process.exitcode
        return f"its process ended with code {code}; perhaps there is not enough memory"

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(
    connection: Connection,
    train: RankingData,
    valid: RankingData,
    metric: Metric,
    every: int | None,
    own: tuple[OwnLoss, ...],
) -> None:
    """What a worker process does: trial after trial, until nobody asks."""
    # Ctrl-C reaches every process of the terminal; who started this one decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def report(trees: int, best: float) -> bool:
        connection.send((trees, best))
        return bool(connection.recv())

    with suppress(EOFError, OSError):
        connection.send(_READY)
        while True:
            parameters = connection.recv()
            try:
                import_own(own)
            except OptionError as error:
                connection.send(Outcome(FAILED, error=str(error)))
                continue
            outcome = run_tuning_trial(
                parameters, metric, train, valid, report=None if every is None else report, every=every or 1
            )
            connection.send(outcome)


def _die_with_parent() -> None:
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os._exit(1)
