"""Consoles, JSON and progress for the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from tautrank.files import STANDARD
from tautrank.progress import Progress, show_progress

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
    OUT.print(*result.tables(), reading, markup=False)
    say("\n".join(result.answer()), "bold")


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


def show_reading(label: str) -> AbstractContextManager[Progress]:
    """Show a bar while something is read, if standard error is a terminal.

    Args:
        label: what is done.
    """
    return show_progress(label, shows_count=False, console=ERR)


@contextmanager
def show_trainings(label: str = "", *, hint: str = "") -> Iterator[ProgressCount]:
    """Context manager that shows how many trainings are finished, by a bar on a terminal, elsewhere
    by one line per training; if the user interrupts them, the error says how many are kept.

    Args:
        label: the name of the work.
        hint: where finished trainings are kept and how to continue, for a user who interrupts them.
    """
    with show_progress(label, verbose=1, console=ERR) as progress:
        count = ProgressCount(progress)
        try:
            yield count
        except KeyboardInterrupt:
            if not hint or not count.total:
                raise
            # `main` prints 'stopped' and this.
            what_is_kept = f": {count.done:.0f} of {count.total:.0f} trainings are kept{hint}"
            raise KeyboardInterrupt(what_is_kept) from None


class ProgressCount:
    """Passes progress on, and remembers how much was done.

    Args:
        shown: what is told.
    """

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self.done = self.total = 0.0

    def update(self, done: float, total: float, text: str) -> None:
        """Take note of how much is done, and pass it on."""
        self.done = done
        self.total = total
        self._shown.update(done, total, text)
