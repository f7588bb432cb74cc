"""What fits trees to gradients: the engines, and other tools' own objectives under the same
interface.
"""

from tautrank.engines.base import Engine, Learner
from tautrank.engines.choosing import engine_for, members_of, read_loss
from tautrank.engines.model import FittedModel
from tautrank.engines.packages import DEFAULT_ENGINE
from tautrank.engines.task import (
    DEFAULTS,
    AnyLoss,
    Callback,
    NativeLoss,
    Record,
    Settings,
    Step,
    Task,
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
