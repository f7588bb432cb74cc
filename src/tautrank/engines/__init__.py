"""What fits trees to gradients: the engines, and other tools' own objectives under the same interface."""

from tautrank.engines.base import DEFAULTS as DEFAULTS
from tautrank.engines.base import Callback as Callback
from tautrank.engines.base import Engine as Engine
from tautrank.engines.base import FittedModel as FittedModel
from tautrank.engines.base import Learner as Learner
from tautrank.engines.base import Record as Record
from tautrank.engines.base import Settings as Settings
from tautrank.engines.base import Step as Step
from tautrank.engines.base import Task as Task
from tautrank.engines.registry import DEFAULT_ENGINE as DEFAULT_ENGINE
from tautrank.engines.registry import ENGINES as ENGINES
from tautrank.engines.registry import AnyLoss as AnyLoss
from tautrank.engines.registry import NativeLoss as NativeLoss
from tautrank.engines.registry import engine_for as engine_for
from tautrank.engines.registry import engine_named as engine_named
from tautrank.engines.registry import members_of as members_of
from tautrank.engines.registry import read_loss as read_loss
