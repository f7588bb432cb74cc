"""What fits trees to gradients: the engines, and other tools' own objectives under the same interface."""

from __future__ import annotations

from tautrank.engines.base import DEFAULTS, Callback, Engine, FittedModel, Learner, Record, Settings, Step, Task
from tautrank.engines.native_loss import NativeLoss, native_loss, native_losses
from tautrank.engines.registry import DEFAULT_ENGINE, ENGINES, engine_named
from tautrank.errors import OptionError, unknown
from tautrank.losses import REGISTRY, Loss, loss
from tautrank.names import name_of

__all__ = [
    "DEFAULTS",
    "DEFAULT_ENGINE",
    "ENGINES",
    "Callback",
    "Engine",
    "FittedModel",
    "Learner",
    "NativeLoss",
    "Record",
    "Settings",
    "Step",
    "Task",
    "engine_for",
    "engine_named",
    "native_losses",
    "read_loss",
]


def read_loss(given: str | Loss | NativeLoss) -> Loss | NativeLoss:
    """Return the loss a user means.

    Args:
        given: a name, a printed loss, a `Loss`, or ``tool:objective``.

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
            raise unknown("loss", name_of(given), [*REGISTRY, *native_losses()])
    return loss(given)


def engine_for(name: str, loss: Loss | NativeLoss) -> Engine:
    """Return the engine that trains a loss: the tool itself for its own objective, else the engine of that name.

    Args:
        name: one of `ENGINES`.
        loss: the loss to train.

    >>> engine_for("lightgbm", read_loss("xendcg")).name, engine_for("lightgbm", read_loss("catboost:RMSE")).name
    ('lightgbm', 'catboost')
    >>> engine_for("catboost", read_loss("xendcg"))
    Traceback (most recent call last):
    tautrank.errors.OptionError: engine: found catboost for the loss xendcg, but CatBoost trains only its own objectives
    here; expected lightgbm, or a loss such as 'catboost:YetiRank'
    """
    engine = engine_named(name)
    if isinstance(loss, NativeLoss):
        return engine_named(loss.tool)
    if not engine.takes_losses:
        others = " or ".join(other for other in ENGINES if engine_named(other).takes_losses)
        raise OptionError(
            f"engine: found {name} for the loss {loss}, but {engine.written} trains only its own objectives here; "
            f"expected {others}, or a loss such as '{name}:{engine.objectives[0]}'"
        )
    return engine
