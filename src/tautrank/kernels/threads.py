"""Spread a kernel over queries with plain threads: the same bits for any number of them.

Kernels release the GIL and write only the rows of their own queries, so threads are all they need.
Numba's own threading layers are avoided on purpose: GNU OpenMP ends or hangs a process that was
forked after its first parallel region (a process pool, LightGBM next door), and the workqueue layer
aborts when two threads call it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import ContextVar

import numpy as np

from tautrank.arrays import F64

Range = tuple[int, int]
"""The queries ``first`` (included) to ``last`` (excluded)."""

# Below this many pair operations (a few hundred microseconds) waking another thread costs more than
# it saves.
_smallest_share = ContextVar("smallest_share", default=1_000_000)
# With more shares than threads, a thread that is delayed does not hold up the others.
_SHARES_PER_THREAD = 4


def balanced_ranges(costs: F64, threads: int) -> list[Range]:
    """Cut the queries into consecutive ranges of about equal cost, a few for each thread.

    Args:
        costs: the work of each query, in pair operations.
        threads: how many threads will share the ranges.

    >>> balanced_ranges(np.array([5e6, 1e6, 1e6, 3e6]), threads=1)
    [(0, 4)]
    >>> balanced_ranges(np.array([5e6, 1e6, 1e6, 3e6]), threads=2)
    [(0, 1), (1, 3), (3, 4)]
    """
    total = float(costs.sum())
    # Shares smaller than `_smallest_share` cost more in waking threads than they save.
    n_shares = min(threads * _SHARES_PER_THREAD, int(total // _smallest_share.get()))
    if threads <= 1 or n_shares <= 1 or costs.size <= 1:
        return [(0, int(costs.size))]

    # Each share ends with the query that brings the costs so far to its part of the total.
    costs_at_ends = total * np.arange(1, n_shares) / n_shares
    ends = np.searchsorted(np.cumsum(costs), costs_at_ends, side="left") + 1
    inner_cuts = np.minimum(ends, costs.size)
    # A query that is dearer than a share ends several: equal cuts are taken once.
    cuts = np.unique(np.concatenate(([0], inner_cuts, [costs.size])))
    return [(int(first), int(last)) for first, last in itertools.pairwise(cuts)]


@contextlib.contextmanager
def small_shares() -> Iterator[None]:
    """Within the block, share out even the smallest work, so that a test sees several threads.

    >>> with small_shares():
    ...     balanced_ranges(np.ones(2), threads=2)
    [(0, 1), (1, 2)]
    """
    token = _smallest_share.set(1)
    try:
        yield
    finally:
        _smallest_share.reset(token)


def run(task: Callable[[int, int], None], ranges: Sequence[Range], threads: int) -> None:
    """Call ``task(first, last)`` for every range, on up to ``threads`` threads, the caller's among
    them.

    Args:
        task: a function that releases the GIL and touches only the rows of its queries.
        ranges: what `balanced_ranges` returned.
        threads: the most threads to use.

    >>> squares = np.zeros(4)
    >>> def task(first: int, last: int) -> None:
    ...     squares[first:last] = np.arange(first, last) ** 2
    >>> run(task, [(0, 2), (2, 4)], threads=2)
    >>> squares
    array([0., 1., 4., 9.])
    """
    # One less: the caller works as well.
    helpers = min(threads, len(ranges)) - 1
    todo = iter(ranges)  # `next` on a list iterator is atomic: each range is taken once

    def work() -> None:
        for first, last in todo:
            task(first, last)

    futures: list[Future[None]] = [_shared_pool().submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        # A helper that has not started finds nothing left to do; one that has must finish its
        # range.
        running = [future for future in futures if not future.cancel()]
        wait(running)
    for future in running:
        future.result()  # raises what it raised


@functools.cache
def _shared_pool() -> ThreadPoolExecutor:
    """Return the threads that all kernels of this process share."""
    return ThreadPoolExecutor(
        max_workers=max(64, os.cpu_count() or 1), thread_name_prefix="tautrank"
    )


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the child starts its own on its first call.
    os.register_at_fork(after_in_child=_shared_pool.cache_clear)
