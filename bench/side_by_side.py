"""Measuring: candidates take turns in one run, so that a busy machine affects them all; or one runs
alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

Claims: TypeAlias = Iterator[tuple[str, str, str, bool]]
"""What was measured, the number, the requirement, and whether it holds."""

# The previous candidate leaves OpenMP threads spinning on the core that the next one needs, and
# threads that slept are spread over the cores only after a few calls.
_SETTLE_SECONDS, _SETTLE_CALLS, _TIMED_CALLS = 0.05, 4, 3


def interleaved(
    candidates: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    settle: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each candidate over `rounds` rounds, every round running each of them in
    turn.

    `settle` is for things that take milliseconds: each turn then starts with a pause and some
    untimed calls, and what counts is the mean of the calls after them. `clock` is what is read: the
    wall clock unless told otherwise.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            calls = 1
            if settle:
                time.sleep(_SETTLE_SECONDS)
                for _ in range(_SETTLE_CALLS):
                    run()
                calls = _TIMED_CALLS
            start = clock()
            for _ in range(calls):
                run()
            seconds[name].append((clock() - start) / calls)
    return {name: statistics.median(values) for name, values in seconds.items()}


def speedup(
    what: str, ours: float, theirs: float, least: float | None
) -> tuple[str, str, str, bool]:
    """How many times as fast ours is; `least` is the requirement, None if the number is only
    reported.
    """
    ratio = theirs / ours
    asked, holds = ("reported", True) if least is None else (f"{least:g}x", ratio >= least)
    return f"{what} ({ours * 1e3:.0f} ms / {theirs * 1e3:.0f} ms)", f"{ratio:.1f}x", asked, holds


def alone(*arguments: str, **environment: str) -> Any:
    """Run a separate Python process, with memory and caches of its own, and return the JSON it
    prints.
    """
    command = [sys.executable, *arguments]
    printed = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env=os.environ | environment
    )
    return json.loads(printed.stdout)


def peak_memory() -> int:
    """The most bytes this process has used. Not what `getrusage` says: that counts the process it
    was forked from.
    """
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
