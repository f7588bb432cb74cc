"""The engines by name, and other tools' own objectives as losses: ``"lightgbm:lambdarank"``,
``"xgboost:rank:ndcg"``.

Each engine is imported when it is first asked for, and its tool when it first trains. A tool trains
its own objective as it would by itself; every iteration is judged with the metric of this library,
so that tools can be compared.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tautrank.engines.base import Engine
from tautrank.engines.packages import TOOLS
from tautrank.engines.task import Member, NativeLoss
from tautrank.errors import OptionError, unknown
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
    # `engine` says where the class is, "module:Class": it is imported now, at its first use.
    module, _colon, class_name = TOOLS[name].engine.partition(":")
    engine_class = getattr(importlib.import_module(module), class_name)
    engine: Engine = engine_class()
    return engine


def read_member(argument: Any) -> Member:
    """Return the loss of one model that a user means.

    Args:
        argument: a name, a printed loss, a `Loss`, or ``tool:objective``.
    """
    if isinstance(argument, NativeLoss):
        return argument
    if not isinstance(argument, str):
        return loss(argument)

    before_colon, colon, objective = argument.strip().partition(":")
    # A colon inside parentheses belongs to an option of a loss.
    if colon and "(" not in before_colon:
        return _read_native_loss(before_colon.lower(), objective, argument)
    if name_of(argument) not in REGISTRY:
        # An error that suggests the known name nearest to what was typed.
        raise unknown("loss", name_of(argument), [*REGISTRY, *_native_losses()])
    return loss(argument)


def _read_native_loss(tool: str, text: str, argument: str) -> NativeLoss:
    """Return the loss that a tool has under that name, such as LightGBM's ``lambdarank``.

    Args:
        tool: what the user typed before the colon.
        text: what the user typed after it, in any case.
        argument: all that was typed, for the error.
    """
    objective = None  # in the tool's own spelling; stays None if there is no such tool or objective
    if tool in TOOLS:
        objective = engine_named(tool).find_objective(text)
    if objective is None:
        raise unknown("loss", argument, _native_losses())
    return NativeLoss(tool, objective)


def _native_losses() -> list[str]:
    """Return the own objectives of all tools, as users type them: ``"tool:objective"``."""
    losses = []
    for name in TOOLS:
        losses += [f"{name}:{objective}" for objective in engine_named(name).objectives]
    return losses


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
    if engine.takes_losses:  # it can train any loss of this library
        return engine
    able_engines = ", ".join(tool for tool in TOOLS if engine_named(tool).takes_losses)
    raise OptionError(
        f"engine: found {name} for the loss {loss}, but {engine.display_name} trains only its own "
        f"objectives here; expected {able_engines}, or a loss such as "
        f"'{name}:{engine.objectives[0]}'"
    )
