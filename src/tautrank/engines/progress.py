"""Progress of a training on standard error: a bar on a terminal, a few lines elsewhere if asked for."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import (
    TypeAlias,
)

Show: TypeAlias = Callable[[int, str], None]
"""Called with the number of trees so far and the value of the metric."""


def silent(done: int, value: str) -> None:
    """Show nothing."""


@contextmanager
def show_progress(label: str, total: int, verbose: int | None) -> Iterator[Show]:
    """Show how many trees there are, the value of the metric, and the time left.

    Args:
        label: name of what is trained.
        total: maximum number of trees.
        verbose: 0 (or less) for silence, 1 for progress, None for a bar if standard error is a
            terminal or this is a notebook.
    """
    asked = None if verbose is None else verbose > 0  # -1 is silence in LightGBM
    terminal = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    # The workers of a process pool share one terminal: their bars would overwrite each other.
    in_main = multiprocessing.current_process().name == "MainProcess"
    if terminal and (in_main if asked is None else asked):
        yield from _bar(label, total)
    elif asked and not terminal:
        yield _lines(label, total)
    else:
        yield silent


def _bar(label: str, total: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        "{task.fields[value]}",
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    row = bar.add_task(label, total=total, value="")
    with suppress(LiveError):  # another bar is being drawn already
        bar.start()
    try:
        yield lambda done, value: bar.update(row, completed=done, value=value)
    finally:
        bar.stop()


def _lines(label: str, total: int) -> Show:
    began = time.perf_counter()

    def show(done: int, value: str) -> None:
        if done == total or done % max(1, total // 10) == 0:
            left = (time.perf_counter() - began) / done * (total - done)
            text = f"{label}: {done}/{total} trees{', ' * bool(value)}{value}, {left:.0f} s left"
            print(text, file=sys.stderr, flush=True)

    return show
