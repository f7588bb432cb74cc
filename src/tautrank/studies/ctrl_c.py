"""Processes that do not answer Ctrl-C themselves."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Start processes in this block that do not hear Ctrl-C, which reaches every process of a terminal.

    Who starts a process decides what becomes of it. A process inherits the signals its parent blocks, so it is deaf
    from its first moment, imports included; the parent hears what came meanwhile when the block ends.
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
