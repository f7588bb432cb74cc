"""What fits trees to gradients: the engines, and other tools' own objectives under the same
interface.
"""

from tautrank.engines.base import (
    DEFAULTS,
    Callback,
    Engine,
    FittedModel,
    Learner,
    Record,
    Settings,
    Step,
    Task,
)
from tautrank.engines.registry import (
    DEFAULT_ENGINE,
    AnyLoss,
    NativeLoss,
    engine_for,
    members_of,
    read_loss,
)

__all__ = [
    "DEFAULTS",
    "DEFAULT_ENGINE",
    "AnyLoss",
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
    "members_of",
    "read_loss",
]
