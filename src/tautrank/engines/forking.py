"""Threads after a fork: what is safe in a child process, found by experiment.

LightGBM and XGBoost use GNU OpenMP. Once a process has run one parallel region and then forks, the next parallel region
in the child waits for threads that were not copied, for ever; with LightGBM 4.7 even reading a model does, whatever
``num_threads`` says. A child that was forked after either library was loaded therefore runs them on one thread.
Processes that were spawned, or started by loky (joblib, scikit-learn's ``n_jobs``), are not affected; nor is CatBoost.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from typing import Any

from tautrank.arguments import job_count
from tautrank.errors import OptionError, TautrankWarning

_OPENMP_TOOLS = ("lightgbm", "xgboost")

_forked_with: set[str] = set()
_held: list[Any] = []
_limited: set[str] = set()
_told = False


def _note_fork() -> None:
    global _told
    # Whether the parent ran a parallel region cannot be known here: having loaded the library is taken for it.
    _forked_with.update(tool for tool in _OPENMP_TOOLS if tool in sys.modules)
    # What was limited in the parent, itself a child, stays limited here; a new fork may have added a tool.
    _told = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def usable_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` asks for; 1 in a forked process where more would hang, with a warning if more
    were asked for by number.

    ``None`` is all cores, or fewer where the environment says so: joblib sets ``OMP_NUM_THREADS`` for its workers, and
    more threads than cores would wait for each other most of the time.

    >>> usable_threads(2)
    2
    """
    global _told
    wanted = job_count(n_jobs)
    if n_jobs is None:
        stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
        wanted = min(wanted, int(stated)) if stated.isdecimal() and int(stated) > 0 else wanted
    if not _forked_with or wanted == 1:
        return wanted
    if n_jobs not in (None, -1) and not _told:
        _told = True
        warnings.warn(
            f"n_jobs: found {n_jobs} in a process forked after {' and '.join(sorted(_forked_with))} was loaded, where "
            "OpenMP would hang; using 1 thread (start processes with 'spawn' to use more)",
            TautrankWarning,
            stacklevel=2,
        )
    return 1


def make_safe(tool: str) -> None:
    """Hold ``tool`` to one thread if this process was forked after it was loaded; called before every use of it.

    Args:
        tool: ``lightgbm`` or ``xgboost``.
    """
    if tool not in _forked_with or tool in _limited:
        return
    if tool == "lightgbm":
        from lightgbm.basic import _LIB  # type: ignore[attr-defined, unused-ignore]

        try:
            # The one setting that also holds where LightGBM takes no num_threads, as in reading a model.
            _LIB.LGBM_SetMaxThreads(ctypes.c_int(1))
        except AttributeError:
            raise OptionError(
                "this process was forked after lightgbm was loaded, where OpenMP would hang; "
                "expected a spawned process, or a LightGBM that has LGBM_SetMaxThreads"
            ) from None
    else:
        # Comes with scikit-learn.
        import threadpoolctl  # type: ignore[import-untyped, unused-ignore]

        _held.append(threadpoolctl.threadpool_limits(1, user_api="openmp"))
    _limited.add(tool)
