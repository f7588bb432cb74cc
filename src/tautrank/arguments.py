"""Check parameters: every value that cannot be used is refused in one sentence that names it."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.errors import OptionError, unknown


def whole(
    name: str, value: object, least: int = 0, most: float = 2**32 - 1, otherwise: str = ""
) -> int:
    """Return ``value`` as an int from ``least`` to ``most``, or raise an error that says what was
    found.

    Args:
        name: the parameter's name.
        value: the value given; 5.0 is a whole number, True is not.
        least: the smallest number allowed.
        most: the largest number allowed; by default what fits a word of the random numbers'
            counters.
        otherwise: what else the caller accepts, for the error.

    >>> whole("samples", 0, least=1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: samples: found 0; expected a whole number of at least 1
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        is_whole = (
            isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value)
        )
        number = int(value) if is_whole else least - 1  # type: ignore[call-overload]
    if isinstance(value, bool) or not least <= number <= most:
        limit = f" and at most {most}" if number > most else ""
        rest = f", or {otherwise}" if otherwise else ""
        raise OptionError(
            f"{name}: found {_text(value)}; expected a whole number of at least {least}{limit}{rest}"
        )
    return number


def real(
    name: str, value: object, least: float = 0.0, above: bool = False, most: float = math.inf
) -> float:
    """Return ``value`` as a finite float from ``least`` (or ``above`` it) to ``most``, or raise an
    error.

    Args:
        name: the parameter's name.
        value: the value given.
        least: the smallest number allowed.
        above: whether ``least`` itself is too small.
        most: the largest number allowed.

    >>> real("sigma", 0, above=True)
    Traceback (most recent call last):
    tautrank.errors.OptionError: sigma: found 0; expected a number above 0
    """
    number = math.nan
    if not isinstance(value, bool | str):
        with contextlib.suppress(TypeError, ValueError):
            number = float(value)  # type: ignore[arg-type]
    if not (math.isfinite(number) and least <= number <= most) or (above and number == least):
        bound = f"above {least:g}" if above else f"of at least {least:g}"
        bound += "" if math.isinf(most) else f" and at most {most:g}"
        raise OptionError(f"{name}: found {_text(value)}; expected a number {bound}")
    return number


def choice(name: str, value: object, known: Collection[str]) -> str:
    """Return ``value`` if it is one of ``known``, or raise an error with the nearest of them.

    >>> choice("target", "liner", ("linear", "softmax"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown target 'liner'; did you mean 'linear'? (known: linear, softmax)
    """
    if value not in known:
        raise unknown(name, str(value), known)
    return str(value)


def truth(name: str, value: object, expected: str = "True or False") -> bool:
    """Return ``value`` if it is true or false, or raise an error.

    Args:
        name: the parameter's name.
        value: the value given.
        expected: the two as a user writes them, for the error.

    >>> truth("eval_train", "yes")
    Traceback (most recent call last):
    tautrank.errors.OptionError: eval_train: found 'yes'; expected True or False
    """
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"{name}: found {value!r}; expected {expected}")
    return bool(value)


def one_or_more(given: Any) -> tuple[Any, ...]:
    """Return what was given for a list: its items, or the one thing, such as a text, that stands
    there instead.

    >>> one_or_more(["ndcg@5", "map"]), one_or_more("ndcg@5")
    (('ndcg@5', 'map'), ('ndcg@5',))
    """
    return (
        tuple(given)
        if isinstance(given, Iterable) and not isinstance(given, str | bytes)
        else (given,)
    )


def checked_by(check: Callable[..., Any], **limits: Any) -> dict[str, Any]:
    """Return the metadata of a dataclass's field: how its value is checked and brought to its one
    canonical form.

    Args:
        check: ``check(name, value, **limits)``, or ``check(value)`` where there are no limits,
            returns the value to keep, or raises an error. None is kept unchecked where the type of
            the field allows it.
        **limits: what else it is given.
    """
    return {"check": check, "limits": limits}


@functools.cache
def _checks(cls: type) -> dict[str, Any]:
    """Return the checked fields of a class as first declared: a subclass that changes a default
    keeps the check.
    """
    inherited = [vars(each).get("__dataclass_fields__", {}) for each in reversed(cls.__mro__)]
    return {
        name: one for each in inherited for name, one in each.items() if "check" in one.metadata
    }


def check_fields(made: Any) -> None:
    """Check the fields of a frozen dataclass, and keep their canonical form.

    Args:
        made: the object; its checks are declared with `checked_by`.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Shape:
    ...     side: float = dataclasses.field(default=1.0, metadata=checked_by(real, above=True))
    ...     __post_init__ = check_fields
    >>> Shape(2)
    Shape(side=2.0)
    """
    for name, declared in _checks(made.__class__).items():
        value, check, limits = (
            getattr(made, name),
            declared.metadata["check"],
            declared.metadata["limits"],
        )
        if value is not None or "None" not in str(declared.type):
            object.__setattr__(made, name, check(name, value, **limits) if limits else check(value))


def job_count(n_jobs: int | None) -> int:
    """Return the number of threads or processes ``n_jobs`` asks for; None or -1 is every core this
    process may use.

    These are the cores that `taskset` leaves, or fewer where a container has a quota of processor
    time.

    >>> job_count(2)
    2
    >>> job_count(0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: n_jobs: found 0; expected a whole number of at least 1, or -1 for all cores
    """
    if n_jobs is None or n_jobs == -1:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        return max(1, math.ceil(min(cores, processor_quota())))
    return whole("n_jobs", n_jobs, 1, otherwise="-1 for all cores")


@functools.cache
def processor_quota(root: str = "/") -> float:
    """Return how many processors' time the control groups of this process may use; infinite without
    a limit.

    Args:
        root: the root of the file system.

    >>> processor_quota("/no/such/folder")
    inf
    """
    quotas = [math.inf]
    with contextlib.suppress(OSError, ValueError):  # not Linux, or not as its documentation says
        for line in Path(root, "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "cpu" not in kinds.split(","):
                continue
            base = Path(root, "sys/fs/cgroup", kinds)
            # A group is bound by those above it; a container may not see its own, which is then the
            # root.
            for group in {
                base.joinpath(*Path(path).parts[1:up]) for up in range(1, len(Path(path).parts) + 1)
            }:
                names = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if kinds else ("cpu.max",)
                files = [group / name for name in names]
                if all(file.exists() for file in files):
                    quota, period = " ".join(file.read_text().strip() for file in files).split()
                    if quota not in ("max", "-1"):
                        quotas.append(int(quota) / int(period))
    return min(quotas)


def _text(value: object) -> str:
    """Write a value as one would type it; NumPy's numbers without the name of their type."""
    return repr(value.item() if isinstance(value, np.generic) else value)
