"""Consoles, JSON and progress bars for the commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

OUT = Console(highlight=False, soft_wrap=False)
"""Standard output: results."""

ERR = Console(stderr=True, highlight=False, soft_wrap=True)
"""Standard error: progress, notes and errors."""


def print_json(value: Any) -> None:
    """Write a value to standard output as JSON.

    Args:
        value: plain values without NaN.
    """
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def reading_bar(what: str) -> Iterator[Callable[[float], None] | None]:
    """Show a progress bar while something is read, if standard error is a terminal.

    Args:
        what: description of the work.
    """
    if not ERR.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def trainings_bar() -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar of finished trainings; one line per training if standard error is not a terminal."""
    if not ERR.is_terminal:
        yield _Lines()
        return
    columns = (MofNCompleteColumn(), BarColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    # Losses differ in speed and take turns, so the last few trainings say little about the rest.
    with Progress(*columns, console=ERR, transient=True, speed_estimate_period=600) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)


class _Lines:
    """Prints one line per finished training."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._before: int | None = None

    def __call__(self, done: int, total: int, what: str) -> None:
        if self._before is None:
            self._before = done
        left = ""
        if self._before < done < total:
            seconds = (time.monotonic() - self._start) / (done - self._before) * (total - done)
            left = f", about {duration_text(seconds)} left"
        ERR.print(f"{done}/{total} {what}{left}".rstrip(), markup=False)


def duration_text(seconds: float) -> str:
    """Format a duration.

    >>> duration_text(75), duration_text(600), duration_text(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
