"""Timing two or more things in one run, taking turns, so that a busy machine is busy for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def interleaved(candidates: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each candidate over `rounds` rounds, every round running each of them once."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}
