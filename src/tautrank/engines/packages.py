"""The packages of the tools: imported when first needed, and safe to use after a fork, as found by experiment.

LightGBM and XGBoost use GNU OpenMP. Once a process has run one parallel region and then forks, the next parallel region
in the child waits forever for threads that were not copied; with LightGBM 4.7 even reading a model does, whatever
``num_threads`` says. A child that was forked after such a library was loaded therefore runs it on one thread.
Processes that were spawned, or started by loky (joblib, scikit-learn's ``n_jobs``), are not affected; nor is CatBoost.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from tautrank.arguments import job_count
from tautrank.engines.registry import ENGINES, engine_named
from tautrank.errors import TautrankWarning, require

_loaded_before_fork: set[str] = set()
_limited: set[str] = set()
_warned = False


def _note_fork() -> None:
    global _warned
    # Whether the parent ran a parallel region cannot be known here: having loaded the library is taken for it.
    _loaded_before_fork.update(name for name in ENGINES if name in sys.modules)
    # What was limited in the parent, itself a child, stays limited here; a new fork may have added a tool.
    _warned = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def package(name: str) -> Any:
    """Import the package of an engine's tool, safe to use in this process.

    Args:
        name: one of `ENGINES`.

    >>> package("lightgbm").Booster.__name__
    'Booster'
    """
    engine = engine_named(name)
    module = engine.package or name
    with nullcontext() if module in sys.modules else _idle_threads_asleep():
        found = require(module, f"engine '{name}' needs {engine.written}", name)
    make_safe(name)
    return found


@contextmanager
def _idle_threads_asleep() -> Iterator[None]:
    """Load OpenMP in this block so that its threads sleep while they wait, unless the environment says otherwise.

    GNU OpenMP lets them spin, for up to milliseconds, which is what other processes then wait for: 100 trees on MQ2008
    with two threads on two busy cores took 43 s and more, asleep 2 s. It reads the environment when it is loaded.
    """
    if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        yield
        return
    os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        yield
    finally:
        os.environ.pop("OMP_WAIT_POLICY", None)


def check_installed(name: str) -> None:
    """Refuse an engine whose package is missing, without importing it, which takes a second.

    Args:
        name: one of `ENGINES`.
    """
    if importlib.util.find_spec(engine_named(name).package or name) is None:
        package(name)


def usable_threads(n_jobs: int | None) -> int:
    """Return how many threads ``n_jobs`` asks for; 1 in a forked process where more would hang.

    If more were asked for by number, there is a warning. ``None`` is all cores, or fewer where the environment says so:
    joblib sets ``OMP_NUM_THREADS`` for its workers, and more threads than cores would mostly wait for each other.

    >>> usable_threads(2)
    2
    """
    global _warned
    wanted = job_count(n_jobs)
    if n_jobs is None:
        stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        wanted = min(wanted, int(stated)) if stated.isdecimal() and int(stated) > 0 else wanted
    hanging = _hanging()
    if not hanging or wanted == 1:
        return wanted
    if n_jobs not in (None, -1) and not _warned:
        _warned = True
        warnings.warn(
            f"n_jobs: found {n_jobs} in a process forked after {' and '.join(hanging)} was loaded, where "
            "OpenMP would hang; using 1 thread (start processes with 'spawn' to use more)",
            TautrankWarning,
            stacklevel=2,
        )
    return 1


def make_safe(name: str) -> None:
    """Hold an engine's tool to one thread if it would hang in this process otherwise; called before every use.

    Args:
        name: the engine.
    """
    if name in _hanging() and name not in _limited:
        engine_named(name).limit_to_one_thread()
        _limited.add(name)


def _hanging() -> list[str]:
    return sorted(name for name in _loaded_before_fork if engine_named(name).uses_openmp)
