"""The engines by name. Each is imported when it is first asked for, and its tool when it first trains."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tautrank.engines.forking import make_safe
from tautrank.errors import MissingDependencyError, unknown

if TYPE_CHECKING:
    from tautrank.engines.base import Engine

ENGINES: dict[str, str] = {
    "lightgbm": "tautrank.engines.lightgbm:LightGBM",
    "xgboost": "tautrank.engines.xgboost:XGBoost",
    "catboost": "tautrank.engines.catboost:CatBoost",
}
"""Where each engine is: ``module:Class``. A new engine is one file and one line here."""

DEFAULT_ENGINE = "lightgbm"


def engine_named(name: str) -> Engine:
    """Return the engine of this name.

    Args:
        name: one of `ENGINES`.

    >>> engine_named("lightgbm").written
    'LightGBM'
    >>> engine_named("lightbgm")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown engine 'lightbgm'; did you mean 'lightgbm'? (known: ...)
    """
    if name not in ENGINES:
        raise unknown("engine", str(name), ENGINES)
    module, _, kind = ENGINES[name].partition(":")
    found: Engine = getattr(importlib.import_module(module), kind)()
    return found


def package(name: str) -> Any:
    """Import the package of an engine's tool, safe to use in this process (see `forking`).

    Args:
        name: one of `ENGINES`.

    >>> package("lightgbm").Booster.__name__
    'Booster'
    """
    engine = engine_named(name)
    try:
        found = importlib.import_module(engine.package or name)
    except ImportError:
        raise MissingDependencyError(
            f"engine '{name}' needs {engine.written}; install it with: pip install 'tautrank[{name}]'"
        ) from None
    make_safe(name)
    return found
