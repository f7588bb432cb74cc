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
    """Return callbacks sorted into functions of this library, settings of the training that
    LightGBM's callbacks stand for, and dictionaries that LightGBM's `record_evaluation` fills.

    Args:
        callbacks: callbacks of LightGBM and of this library, mixed.

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
        # LightGBM's `record_evaluation` holds the user's dictionary to fill.
        elif hasattr(callback, "eval_result"):
            records.append(callback.eval_result)
        else:
            settings |= _equivalent_setting(callback)
    return CallbackSettings(tuple(functions), settings, records)


def _equivalent_setting(callback: Any) -> dict[str, Any]:
    """Return the setting of a training, by name, that has the effect of a callback of LightGBM;
    raise an error if there is none.

    Callbacks are recognised by the attributes that LightGBM gives them.
    """
    is_early_stopping = hasattr(callback, "stopping_rounds")
    if is_early_stopping and not callback.min_delta:
        return {"early_stopping_rounds": callback.stopping_rounds}
    is_log_evaluation = hasattr(callback, "period")
    if is_log_evaluation:
        return {"verbose": int(callback.period > 0)}
    reset_parameters = getattr(callback, "kwargs", {})
    if set(reset_parameters) == {"learning_rate"}:
        return {"rates": reset_parameters["learning_rate"]}

    name = type(callback).__name__.strip("_")
    raise OptionError(
        f"callbacks: found {name} of lightgbm.callback with options that have no counterpart; "
        f"expected {_KNOWN}"
    )
