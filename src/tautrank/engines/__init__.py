"""What fits trees to gradients: the engines, and other tools' own objectives under the same interface."""

from __future__ import annotations

from tautrank.arguments import choice
from tautrank.engines.base import DEFAULTS, Callback, Engine, FittedModel, Record, Settings, Step, Task
from tautrank.engines.native_loss import OBJECTIVES, PEERS, NativeLoss, native_loss
from tautrank.errors import unknown
from tautrank.losses import REGISTRY, Loss, loss
from tautrank.names import name_of

__all__ = [
    "DEFAULTS",
    "ENGINES",
    "PEERS",
    "Callback",
    "Engine",
    "FittedModel",
    "NativeLoss",
    "Record",
    "Settings",
    "Step",
    "Task",
    "engine_for",
    "model_format",
    "read_loss",
]

ENGINES: tuple[str, ...] = ("lightgbm",)
"""The engines that train any loss of this library."""


def read_loss(given: str | Loss | NativeLoss) -> Loss | NativeLoss:
    """The loss a user means: a name, a printed loss, a `Loss`, or ``tool:objective``.

    Args:
        given: what the user typed.

    >>> read_loss("ndcg-loss2++(k=5)"), read_loss("catboost:yetirank")
    (ndcg-loss2++(k=5), NativeLoss(tool='catboost', objective='YetiRank'))
    >>> read_loss("lambdarnk")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lambdarnk'; did you mean 'lambdarank'? (known: ...)
    """
    if isinstance(given, (Loss, NativeLoss)):
        return given
    if isinstance(given, str):
        native = native_loss(given)
        if native is not None:
            return native
        if name_of(given) not in REGISTRY:
            raise unknown("loss", name_of(given), [*REGISTRY, *PEERS])
    return loss(given)


def engine_for(name: str, wanted: Loss | NativeLoss) -> Engine:
    """The engine that trains a loss: the tool itself for its own objective, else the engine of that name.

    Args:
        name: one of `ENGINES`.
        wanted: the loss.

    >>> engine_for("lightgbm", read_loss("xendcg")).name
    'lightgbm'
    >>> engine_for("lightbgm", read_loss("xendcg"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown engine 'lightbgm'; did you mean 'lightgbm'? (known: lightgbm)
    """
    choice("engine", name, ENGINES)
    return _engine(wanted.tool if isinstance(wanted, NativeLoss) else name)


def model_format(tool: str) -> type[FittedModel]:
    """The class that reads and writes a tool's models; the tools are a fixed table, whatever a file says.

    Args:
        tool: ``lightgbm``, ``xgboost`` or ``catboost``.

    >>> model_format("lightgbm").member
    'model.txt'
    """
    return _engine(tool).model


def _engine(tool: str) -> Engine:
    if tool == "lightgbm":
        from tautrank.engines.lightgbm import LightGBMEngine

        return LightGBMEngine()
    if tool == "xgboost":
        from tautrank.engines.xgboost import XGBoostPeer

        return XGBoostPeer()
    if tool == "catboost":
        from tautrank.engines.catboost import CatBoostPeer

        return CatBoostPeer()
    raise unknown("engine", tool, OBJECTIVES)
