"""Progress of a training on standard error: a bar on a terminal, a few lines elsewhere if asked for."""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Any


class Progress:
    """Shows how many trees there are, the current value of the metric, and the time left.

    Args:
        label: what is being trained.
        total: how many trees at most.
        verbose: 0 (or less) for silence, 1 for progress, None for a bar where standard error is a terminal.
    """

    def __init__(self, label: str, total: int, verbose: int | None) -> None:
        self._label = label
        self._total = total
        wanted = None if verbose is None else verbose > 0  # LightGBM's own word for silence is -1
        terminal = sys.stderr is not None and sys.stderr.isatty()
        # The workers of a process pool share one terminal: their bars would overwrite each other.
        main = multiprocessing.current_process().name == "MainProcess"
        self._draws = terminal and (main if wanted is None else wanted)
        self._prints = bool(wanted) and not terminal
        self._bar: Any = None
        self._row: Any = None
        self._began = time.perf_counter()

    def __enter__(self) -> Progress:
        if self._draws:
            from rich.console import Console
            from rich.errors import LiveError
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[value]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            try:
                bar.start()
            except LiveError:  # somebody else is drawing already
                return self
            self._bar = bar
            self._row = bar.add_task(self._label, total=self._total, value="")
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, value: str) -> None:
        """Show that ``done`` trees are grown and that the metric is ``value``."""
        if self._bar is not None:
            self._bar.update(self._row, completed=done, value=value)
        elif self._prints and (done == self._total or done % max(1, self._total // 10) == 0):
            seconds = time.perf_counter() - self._began
            left = seconds / done * (self._total - done)
            text = f"{self._label}: {done}/{self._total} trees{', ' * bool(value)}{value}, {left:.0f} s left"
            print(text, file=sys.stderr, flush=True)
