"""Timing two or more things in one run, taking turns, so that a busy machine is busy for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

# What ran before leaves OpenMP threads spinning on the core the next candidate needs, and what slept is spread over the
# cores only after a few calls.
_SETTLE_SECONDS, _SETTLE_CALLS, _TIMED_CALLS = 0.05, 4, 3


def interleaved(candidates: Mapping[str, Callable[[], Any]], rounds: int, *, settle: bool = False) -> dict[str, float]:
    """Median seconds of each candidate over `rounds` rounds, every round running each of them in turn.

    `settle` is for things that take milliseconds: each turn then starts with a pause and some untimed calls, and what
    counts is the mean of the calls after them.
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
            start = time.perf_counter()
            for _ in range(calls):
                run()
            seconds[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(values) for name, values in seconds.items()}
