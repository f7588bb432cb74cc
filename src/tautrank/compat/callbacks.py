"""LightGBM's callbacks as settings of a training and dictionaries to record in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tautrank.errors import OptionError

_KNOWN = (
    "early_stopping without min_delta, reset_parameter of the learning_rate, log_evaluation, "
    "record_evaluation, or functions of one argument, a Step"
)


class CallbackSettings(NamedTuple):
    """What callbacks of both kinds ask for.

    Args:
        callbacks: those of this library, functions of a `Step`.
        settings: the settings that LightGBM's callbacks stand for, by name.
        records: dictionaries that the history of the training is recorded in.
    """

    callbacks: tuple[Any, ...]
    settings: dict[str, Any]
    records: list[dict[str, Any]]


def read_callbacks(callbacks: Iterable[Any]) -> CallbackSettings:
    """Return what LightGBM's callbacks stand for, and the callbacks of this library.

    Args:
        callbacks: both kinds.

    >>> import lightgbm
    >>> read_callbacks([lightgbm.early_stopping(10, verbose=False), lightgbm.log_evaluation(0)])
    CallbackSettings(callbacks=(), settings={'early_stopping_rounds': 10, 'verbose': 0}, records=[])
    """
    functions = []
    settings: dict[str, Any] = {}
    records = []
    for callback in callbacks:
        if type(callback).__module__ != "lightgbm.callback":
            functions.append(callback)
        elif hasattr(callback, "eval_result"):
            records.append(callback.eval_result)
        else:
            settings |= _setting(callback)
    return CallbackSettings(tuple(functions), settings, records)


def _setting(callback: Any) -> dict[str, Any]:
    """Return the setting that a callback of LightGBM stands for."""
    if hasattr(callback, "stopping_rounds") and not callback.min_delta:
        return {"early_stopping_rounds": callback.stopping_rounds}
    if hasattr(callback, "period"):
        return {"verbose": int(callback.period > 0)}
    if set(getattr(callback, "kwargs", ())) == {"learning_rate"}:
        return {"rates": callback.kwargs["learning_rate"]}
    name = type(callback).__name__.strip("_")
    raise OptionError(
        f"callbacks: found {name} of lightgbm.callback with options that have no counterpart; "
        f"expected {_KNOWN}"
    )
