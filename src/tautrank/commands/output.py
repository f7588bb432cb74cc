"""Consoles, JSON and progress bars for the commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tautrank.files import STANDARD

OUT = Console(highlight=False, soft_wrap=False)
"""Standard output: results."""

ERR = Console(stderr=True, highlight=False, markup=False, soft_wrap=not sys.stderr.isatty())
"""Standard error: progress, notes and errors; wrapped between words in a terminal, unwrapped in a
file.
"""


def say(text: str, style: str | None = None) -> None:
    """Write a line to standard output, wrapped between words in a terminal only.

    Args:
        text: plain text; brackets are no markup.
        style: style of the line, such as bold.
    """
    OUT.print(text, style=style, markup=False, soft_wrap=not OUT.is_terminal)


def show(result: Any, reading: str) -> None:
    """Print the tables of a comparison or a study, how to read them, and the answer.

    Args:
        result: the comparison or the study.
        reading: how to read the tables.
    """
    from tautrank.report.result_page import answer

    OUT.print(*result.tables(), reading, markup=False)
    say("\n".join(answer(result)), "bold")


def say_written(path: Path, text: str) -> None:
    """Say what a file now holds; nothing if it is standard output, which then holds only that.

    Args:
        path: the file.
        text: what it holds.
    """
    if str(path) != STANDARD:
        say(f"{path}: {text}")


def json_text(value: Any) -> str:
    """Format a value as JSON with a line end.

    Args:
        value: plain values without NaN.
    """
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def print_json(value: Any) -> None:
    """Write a value to standard output as JSON.

    Args:
        value: plain values without NaN.
    """
    sys.stdout.write(json_text(value))


@contextmanager
def reading_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar while something is read, if standard error is a terminal.

    Args:
        what: description of the work.
    """
    with _bar() as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def trainings_bar(kept: str = "") -> Iterator[Trainings]:
    """Show a progress bar of finished trainings; one line per training if standard error is not a
    terminal.

    Args:
        kept: where finished trainings are kept and how to continue, for a user who interrupts them.
    """
    shown = Trainings()
    try:
        with shown.bar:
            yield shown
    except KeyboardInterrupt:
        if not kept or not shown.total:
            raise
        raise KeyboardInterrupt(
            f": {shown.done} of {shown.total} trainings are kept{kept}"
        ) from None


class Trainings:
    """The progress of trainings, in a bar or in lines."""

    def __init__(self) -> None:
        self.done = self.total = self._before = 0
        self.bar = _bar(counted=True)
        self._task = self.bar.add_task("", total=None)
        self._start = time.monotonic()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show how many trainings of how many are finished, and the title of the last one."""
        if not self.total:
            self._before = done  # finished in an earlier run
        self.done, self.total = done, total
        self.bar.update(self._task, completed=done, total=total, description=what)
        left = ""
        if self._before < done < total:
            seconds = (time.monotonic() - self._start) / (done - self._before) * (total - done)
            left = f", about {duration_text(seconds)} left"
        if self.bar.disable:
            ERR.print(f"{done}/{total} {what}{left}".rstrip())


def _bar(*, counted: bool = False) -> Progress:
    what, bar, left = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    columns = (MofNCompleteColumn(), bar, left, what) if counted else (what, bar, left)
    # Losses differ in speed and take turns, so the last few trainings say little about the rest.
    return Progress(
        *columns,
        console=ERR,
        transient=True,
        speed_estimate_period=600,
        disable=not ERR.is_terminal,
    )


def duration_text(seconds: float) -> str:
    """Format a duration.

    >>> duration_text(75), duration_text(600), duration_text(9000)
    ('75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
