"""The engines by name, and other tools' own objectives as losses: ``"lightgbm:lambdarank"``,
``"xgboost:rank:ndcg"``.

Each engine is imported when it is first asked for, and its tool when it first trains. A tool trains
its own objective as it would by itself; every iteration is judged with the metric of this library,
so that tools can be compared.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import (
    Any,
)

from tautrank.engines.base import Engine
from tautrank.engines.packages import TOOLS
from tautrank.engines.task import Member, NativeLoss
from tautrank.errors import (
    OptionError,
    unknown,
)
from tautrank.losses import REGISTRY, loss
from tautrank.names import name_of


def engine_named(name: str) -> Engine:
    """Return the engine of this name.

    Args:
        name: one of `TOOLS`.

    >>> engine_named("lightgbm").display_name
    'LightGBM'
    >>> engine_named("lightbgm")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown engine 'lightbgm'; did you mean 'lightgbm'? (known: ...)
    """
    if name not in TOOLS:
        raise unknown("engine", str(name), TOOLS)
    module, _, kind = TOOLS[name].engine.partition(":")
    found: Engine = getattr(importlib.import_module(module), kind)()
    return found


def read_member(given: Any) -> Member:
    """Return the loss of one model that a user means.

    Args:
        given: a name, a printed loss, a `Loss`, or ``tool:objective``.
    """
    if isinstance(given, NativeLoss):
        return given
    if isinstance(given, str):
        tool, colon, objective = given.strip().partition(":")
        if colon and "(" not in tool:
            found = (
                engine_named(tool.lower()).find_objective(objective)
                if tool.lower() in TOOLS
                else None
            )
            if found is None:
                raise unknown("loss", given, _native_losses())
            return NativeLoss(tool.lower(), found)
        if name_of(given) not in REGISTRY:
            raise unknown("loss", name_of(given), [*REGISTRY, *_native_losses()])
    return loss(given)


def _native_losses() -> list[str]:
    return [f"{name}:{objective}" for name in TOOLS for objective in engine_named(name).objectives]


def engine_of_member(name: str, loss: Member) -> Engine:
    """Return the engine that trains the loss of one model: the tool itself for its own objective,
    else the engine of that name.

    Args:
        name: one of `TOOLS`.
        loss: the loss to train.
    """
    engine = engine_named(name)
    if isinstance(loss, NativeLoss):
        return engine_named(loss.tool)
    if not engine.takes_losses:
        others = ", ".join(other for other in TOOLS if engine_named(other).takes_losses)
        found = f"{name} for the loss {loss}, but {engine.display_name} trains only its own objectives here"
        expected = f"{others}, or a loss such as '{name}:{engine.objectives[0]}'"
        raise OptionError(f"engine: found {found}; expected {expected}")
    return engine
