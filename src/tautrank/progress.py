"""How far work is: one protocol, and what shows it as nothing, as lines or as a bar."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

_ESTIMATE_SECONDS = 600.0  # the bar's estimate of the time left looks back this far


class Progress(Protocol):
    """What is told how far some work is.

    `tautrank.compare`, `tautrank.tune`, `tautrank.read_letor` and others take one as `progress`.

    >>> class Printed:
    ...     def update(self, done: float, total: float, text: str) -> None:
    ...         print(f"{done} of {total}: {text}")
    >>> Printed().update(2, 3, "mse")
    2 of 3: mse
    """

    def update(self, done: float, total: float, text: str) -> None:
        """Take note of how much is done.

        Args:
            done: how much is done.
            total: how much there is in all, in the same unit.
            text: a few words on what was done last.
        """


class Silent:
    """Shows nothing."""

    def update(self, done: float, total: float, text: str) -> None:
        """Show nothing."""


class Lines:
    """Writes lines on standard error.

    Args:
        label: the name of the work.
        unit: what is counted, such as ``trees``.
        n_lines: about how many lines to write in all; None for one per update.
    """

    def __init__(self, label: str = "", unit: str = "", n_lines: int | None = None) -> None:
        self._label = label
        self._unit = unit
        self._n_lines = n_lines
        self._began = 0.0
        self._done_before: float | None = None

    def update(self, done: float, total: float, text: str) -> None:
        """Write a line, unless the last one was not long ago."""
        if self._done_before is None:
            self._began = time.monotonic()
            # What was done before the first call, such as in an earlier run, took no time of this
            # one.
            self._done_before = done
        if not self._is_due(done, total):
            return

        count = f"{done:.0f}/{total:.0f}"
        if self._unit:
            count += f" {self._unit},"
        line = f"{self._label}: " if self._label else ""
        line += f"{count} {text}".rstrip(" ,")
        if self._done_before < done < total:
            line += f", about {duration_text(self._seconds_left(done, total))} left"
        print(line, file=sys.stderr, flush=True)

    def _is_due(self, done: float, total: float) -> bool:
        """Return whether to write a line: at equal steps of the work, and at its end."""
        if self._n_lines is None or done == total:
            return True
        # Every step-th update gets a line.
        step = max(1, total // self._n_lines)
        return done > 0 and done % step == 0

    def _seconds_left(self, done: float, total: float) -> float:
        """Return about how many seconds the rest of the work takes, at the speed so far."""
        # What an earlier run has done took none of this time.
        done_now = done - (self._done_before or 0)
        seconds_per_unit = (time.monotonic() - self._began) / done_now
        return seconds_per_unit * (total - done)


class Bar:
    """Draws a bar on a terminal for as long as its block runs.

    Args:
        label: the name of the work.
        shows_count: whether to show how much is done as numbers.
        console: Rich's console to draw on; by default a new one on standard error.
    """

    def __init__(self, label: str = "", *, shows_count: bool = True, console: Any = None) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        columns: list[ProgressColumn] = [BarColumn(), TimeRemainingColumn()]
        if label:
            columns.insert(0, TextColumn("{task.description}", markup=False))
        if shows_count:
            # Before the remaining time: "3/10".
            columns.insert(-1, MofNCompleteColumn())
        columns.append(TextColumn("{task.fields[text]}", markup=False))
        self._bar = Progress(
            *columns,
            console=console or Console(stderr=True),
            # The bar disappears when the work ends.
            transient=True,
            # Trainings differ in speed and take turns: the last few say little about the rest.
            speed_estimate_period=_ESTIMATE_SECONDS,
        )
        # The total is not known before the first update.
        self._task = self._bar.add_task(label, total=None, text="")

    def __enter__(self) -> Bar:
        from rich.errors import LiveError

        with suppress(LiveError):  # another bar is being drawn
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, done: float, total: float, text: str) -> None:
        """Draw how much is done."""
        self._bar.update(self._task, completed=done, total=total, text=text)


@dataclass(frozen=True)
class PartOf:
    """The progress of one of several pieces of work, told as progress of the whole.

    Args:
        whole: what is told.
        before: how much the pieces before this one are.
        total: how much all pieces are.
    """

    whole: Progress
    before: float
    total: float

    def update(self, done: float, total: float, text: str) -> None:
        """Tell how much of the whole is done."""
        self.whole.update(self.before + done, self.total, text)


@contextmanager
def show_progress(
    label: str = "",
    unit: str = "",
    *,
    verbose: int | None = None,
    shows_count: bool = True,
    n_lines: int | None = None,
    console: Any = None,
) -> Iterator[Progress]:
    """Show the progress of the work in this block on standard error.

    Args:
        label: the name of the work.
        unit: what lines count, such as ``trees``.
        verbose: 0 or less for silence, 1 for a bar on a terminal or in a notebook and lines
            elsewhere, None for the bar alone.
        shows_count: whether a bar shows how much is done as numbers.
        n_lines: about how many lines to write in all; None for one per update.
        console: Rich's console to draw on; by default a new one on standard error.

    >>> with show_progress("reading", verbose=0) as progress:
    ...     progress.update(1, 2, "first.txt")
    """
    # Someone watches a terminal or a notebook; standard error is None in a window without one.
    is_watched = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    if verbose is None:
        # The workers of a process pool share one terminal: their bars would overwrite each other.
        is_wanted = is_watched and multiprocessing.current_process().name == "MainProcess"
    else:
        is_wanted = verbose > 0

    if not is_wanted:
        yield Silent()
    elif is_watched:
        with Bar(label, shows_count=shows_count, console=console) as bar:
            yield bar
    else:
        yield Lines(label, unit, n_lines)


def duration_text(seconds: float) -> str:
    """Format a duration.

    >>> duration_text(75), duration_text(600), duration_text(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
