"""The Python packages of the tools, safe to use in this process.

The packages are safe to use after a fork, as found by experiment. LightGBM and XGBoost
use GNU OpenMP. Once a process has run one parallel region and then forks, the next parallel region
in the child waits forever for threads that were not copied; with LightGBM 4.7 even reading a model
does, whatever ``num_threads`` says. A child that was forked after such a library was loaded
therefore runs it on one thread. Processes that were spawned, or started by loky (joblib,
scikit-learn's ``n_jobs``), are not affected; nor is CatBoost.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import warnings
from typing import Any, NamedTuple

from tautrank.arguments import job_count
from tautrank.engines import lightgbm_private
from tautrank.errors import TautrankWarning, require


class Tool(NamedTuple):
    """What the library knows about a tool without importing it.

    Args:
        engine: where its engine is, ``module:Class``.
        package: its Python package.
        display_name: the name as its authors write it.
        hangs_after_fork: whether it hangs in a forked process unless it is held to one thread.
    """

    engine: str
    package: str
    display_name: str
    hangs_after_fork: bool = False


TOOLS: dict[str, Tool] = {
    "lightgbm": Tool("tautrank.engines.lightgbm:LightGBM", "lightgbm", "LightGBM", True),
    "xgboost": Tool("tautrank.engines.xgboost:XGBoost", "xgboost", "XGBoost", True),
    "catboost": Tool("tautrank.engines.catboost:CatBoost", "catboost", "CatBoost"),
    "torch": Tool("tautrank.engines.torch:Torch", "torch", "PyTorch"),
}
"""The tools by the names of their engines, which are also the extras that install them. A new
engine is one file and one line here; `registry` imports it.
"""

DEFAULT_ENGINE = "lightgbm"


# Whether the parent ran a parallel region cannot be known here: having loaded the library is taken
# for it.
_loaded_before_fork: set[str] = set()


def _note_loaded_tools() -> None:
    for name, tool in TOOLS.items():
        if tool.hangs_after_fork and tool.package in sys.modules:
            _loaded_before_fork.add(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_loaded_tools)


# By these a user says how GNU OpenMP's threads wait.
_WAIT_VARIABLES = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}


def package(name: str) -> Any:
    """Import the Python package of a tool such as LightGBM and return it, safe to use in this
    process.

    GNU OpenMP lets threads spin while they wait, for up to milliseconds, which is what other
    processes then wait for: 100 trees on MQ2008 with two threads on two busy cores took 43 s and
    more, asleep 2 s. It reads the environment when it is loaded: its threads sleep, unless the
    environment says otherwise.

    Args:
        name: one of `TOOLS`.

    >>> package("lightgbm").Booster.__name__
    'Booster'
    """
    tool = TOOLS[name]
    needed = f"engine '{name}' needs {tool.display_name}"
    # Nothing is set for a tool that is loaded already, or where the user has said how to wait.
    if tool.package in sys.modules or _WAIT_VARIABLES & os.environ.keys():
        module = require(tool.package, needed, name)
    else:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        try:
            module = require(tool.package, needed, name)
        finally:
            os.environ.pop("OMP_WAIT_POLICY", None)
    make_safe(name)
    return module


def check_installed(name: str) -> None:
    """Refuse an engine whose package is missing, without importing it, which takes a second.

    Args:
        name: one of `TOOLS`.
    """
    if importlib.util.find_spec(TOOLS[name].package) is None:
        package(name)


def usable_threads(n_jobs: int | None) -> int:
    """Return how many threads to use for ``n_jobs``; 1 in a forked process, where OpenMP would hang
    with more.

    If more were asked for by number, there is a warning. ``None`` is all cores, or fewer where the
    environment says so: joblib sets ``OMP_NUM_THREADS`` for its workers, and more threads than
    cores would mostly wait for each other.

    >>> usable_threads(2)
    2
    """
    threads = job_count(n_jobs)
    if n_jobs is None:
        threads = min(threads, _threads_of_environment() or threads)
    # Tools that were loaded before this process was forked; empty in any other process.
    would_hang = bool(_loaded_before_fork) and threads > 1
    if not would_hang:
        return threads
    # None and -1 leave the number to this library, so that 1 is no surprise.
    asked_by_number = n_jobs not in (None, -1)
    if asked_by_number:
        loaded = " and ".join(sorted(_loaded_before_fork))
        warnings.warn(
            f"n_jobs: found {n_jobs} in a process forked after {loaded} was loaded, where OpenMP "
            "would hang; using 1 thread (start processes with 'spawn' to use more)",
            TautrankWarning,
            stacklevel=2,
        )
    return 1


def _threads_of_environment() -> int:
    """Return the number of threads in ``OMP_NUM_THREADS``; 0 if it says none."""
    first_level = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first_level) if first_level.isdecimal() else 0


def make_safe(name: str) -> None:
    """Hold an engine's tool to one thread if it would hang in this process otherwise; called before
    every use.

    Args:
        name: the engine.
    """
    if name in _loaded_before_fork:
        _limit_to_one_thread(name)


@functools.cache
def _limit_to_one_thread(name: str) -> None:
    """Hold a tool to one thread; what was limited in the parent, itself a child, stays limited."""
    if name == "lightgbm":
        # Its reading of a model takes no number of threads.
        lightgbm_private.limit_to_one_thread()
        return
    import threadpoolctl  # type: ignore[import-untyped, unused-ignore]  # comes with scikit-learn

    threadpoolctl.threadpool_limits(1, user_api="openmp")
