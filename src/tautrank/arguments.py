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
    """Return an argument as an int, or raise an error that says what was found.

    Args:
        name: the parameter's name.
        value: the argument; 5.0 is a whole number, True is not.
        least: the smallest number allowed.
        most: the largest number allowed; by default what fits a word of the random numbers'
            counters.
        otherwise: what else the caller accepts, for the error.

    >>> whole("samples", 0, least=1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: samples: found 0; expected a whole number of at least 1
    """
    number = _whole_or_none(value)
    if number is None or not least <= number <= most:
        limits = f"at least {least}"
        if number is not None and number > most:
            limits += f" and at most {most}"
        if otherwise:
            limits += f", or {otherwise}"
        raise OptionError(f"{name}: found {_text(value)}; expected a whole number of {limits}")
    return number


def _whole_or_none(value: object) -> int | None:
    """Return an argument as an int, None if it is no whole number."""
    # To Python, True is the whole number 1.
    if isinstance(value, bool):
        return None
    if isinstance(value, float | np.floating):
        is_whole = math.isfinite(value) and value == int(value)
        return int(value) if is_whole else None
    try:
        # Accepts the integers of NumPy too, and raises a TypeError about anything else.
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def real(
    name: str, value: object, least: float = 0.0, above: bool = False, most: float = math.inf
) -> float:
    """Return an argument as a finite float, or raise an error that says what was found.

    Args:
        name: the parameter's name.
        value: the argument.
        least: the smallest number allowed.
        above: whether ``least`` itself is too small.
        most: the largest number allowed.

    >>> real("sigma", 0, above=True)
    Traceback (most recent call last):
    tautrank.errors.OptionError: sigma: found 0; expected a number above 0
    """
    # NaN stands for what is no number.
    number = _real_or_nan(value)
    # Comparisons with NaN are false, so what is no number is refused as well.
    is_inside = least <= number <= most and math.isfinite(number)
    is_excluded_end = above and number == least
    if not is_inside or is_excluded_end:
        limits = f"above {least:g}" if above else f"of at least {least:g}"
        if math.isfinite(most):
            limits += f" and at most {most:g}"
        raise OptionError(f"{name}: found {_text(value)}; expected a number {limits}")
    return number


def _real_or_nan(value: object) -> float:
    """Return an argument as a float, NaN if it is no number."""
    if isinstance(value, bool | str):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return math.nan


def choice(name: str, value: object, known: Collection[str]) -> str:
    """Return an argument if it is one of the known words, or raise an error with the nearest of
    them.

    >>> choice("target", "liner", ("linear", "softmax"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown target 'liner'; did you mean 'linear'? (known: linear,
    softmax)
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


def one_or_more(argument: Any) -> tuple[Any, ...]:
    """Return the items of a list; of anything else, such as a text, a tuple of it alone.

    >>> one_or_more(["ndcg@5", "map"]), one_or_more("ndcg@5")
    (('ndcg@5', 'map'), ('ndcg@5',))
    """
    if isinstance(argument, Iterable) and not isinstance(argument, str | bytes):
        return tuple(argument)
    return (argument,)


def checked_by(check: Callable[..., Any], **limits: Any) -> dict[str, Any]:
    """Return the metadata of a dataclass's field: how its value is checked and brought to its one
    canonical form.

    Args:
        check: ``check(name, value, **limits)``, or ``check(value)`` where there are no limits,
            returns the value to keep, or raises an error. None is kept unchecked where the type of
            the field allows it.
        **limits: keyword arguments of the check.
    """
    return {"check": check, "limits": limits}


def check_fields(instance: Any) -> None:
    """Check the fields of a frozen dataclass, and keep their canonical form.

    Args:
        instance: the object; its checks are declared with `checked_by`.

    >>> import dataclasses
    >>> @dataclasses.dataclass(frozen=True)
    ... class Shape:
    ...     side: float = dataclasses.field(default=1.0, metadata=checked_by(real, above=True))
    ...     __post_init__ = check_fields
    >>> Shape(2)
    Shape(side=2.0)
    """
    cls: Any = type(instance)
    for name, field in _checked_fields(cls).items():
        value = getattr(instance, name)
        # Such as "int | None", the annotation of the field as text.
        may_be_none = "None" in str(field.type)
        if value is None and may_be_none:
            continue
        check, limits = field.metadata["check"], field.metadata["limits"]
        # A check with limits also takes the name, for its error; another only converts.
        checked = check(name, value, **limits) if limits else check(value)
        object.__setattr__(instance, name, checked)


@functools.cache
def _checked_fields(cls: type) -> dict[str, Any]:
    """Return the fields of a dataclass whose values are to be checked, by name.

    Where a subclass redeclares a field without a check, for another default, the field of its base
    class counts, so that the check stays.
    """
    field_by_name = {}
    # From the most general class to the class itself: later declarations replace earlier ones.
    for base_or_class in reversed(cls.__mro__):
        fields = vars(base_or_class).get("__dataclass_fields__", {})
        for name, field in fields.items():
            if "check" in field.metadata:
                field_by_name[name] = field
    return field_by_name


def job_count(n_jobs: int | None) -> int:
    """Return the number of threads or processes ``n_jobs`` asks for; None or -1 is every core this
    process may use.

    These are the cores that `taskset` leaves, or fewer where a container has a quota of processor
    time.

    >>> job_count(2)
    2
    >>> job_count(0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: n_jobs: found 0; expected a whole number of at least 1, or -1 for
    all cores
    """
    if n_jobs is None or n_jobs == -1:
        return max(1, math.ceil(min(_n_cores(), processor_quota())))
    return whole("n_jobs", n_jobs, 1, otherwise="-1 for all cores")


def _n_cores() -> int:
    """Return the number of cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# joblib.cpu_count takes 0.15 s to import, and looks at no control group but the root.
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
        # Linux lists here the control groups of the process, one per line.
        group_lines = Path(root, "proc/self/cgroup").read_text().splitlines()
        for line in group_lines:
            # Such as "4:cpu,cpuacct:/user" in version 1, and "0::/user" in version 2.
            _hierarchy, controllers, path = line.split(":", 2)
            is_first_version = bool(controllers)
            if is_first_version and "cpu" not in controllers.split(","):
                continue
            mount_folder = Path(root, "sys/fs/cgroup", controllers)
            for group_folder in _group_and_ancestors(mount_folder, path):
                quotas.append(_quota_of_group(group_folder, is_first_version))
    return min(quotas)


def _group_and_ancestors(mount_folder: Path, path: str) -> list[Path]:
    """Return the folders of a control group and of all groups above it, whose limits bind it too.

    In a container the folder of its own group may not exist; its limits are then those of the root.

    Args:
        mount_folder: the folder of the root group.
        path: the path of the group below the root, such as ``"/user/session"``.
    """
    # The first part is the slash at the beginning.
    names = Path(path).parts[1:]
    folders = []
    for depth in range(len(names) + 1):
        folders.append(mount_folder.joinpath(*names[:depth]))
    return folders


def _quota_of_group(group: Path, is_first_version: bool) -> float:
    """Return how many processors' time a Linux control group may use; infinite without a limit.

    The limit is a quota of microseconds of processor time in each period. Version 1 has the two
    numbers in two files, version 2 in one.

    Args:
        group: the folder of the group.
        is_first_version: whether the group is of version 1 of control groups.
    """
    names = ["cpu.max"]
    if is_first_version:
        names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    files = [group / name for name in names]
    if not all(file.exists() for file in files):
        return math.inf
    texts = [file.read_text() for file in files]
    quota, period = " ".join(texts).split()
    # How versions 2 and 1 write that there is no limit.
    is_unlimited = quota in ("max", "-1")
    return math.inf if is_unlimited else int(quota) / int(period)


def _text(value: object) -> str:
    """Return a value as one would type it; NumPy's numbers without the name of their type."""
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(value)
