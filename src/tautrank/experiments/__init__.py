"""Experiments: one plan, one trial, one store, one pool of workers, one result.

`tautrank.compare` and `tautrank.tune` are the entry points.
"""

from tautrank.experiments.divide import FixedParts as FixedParts
from tautrank.experiments.divide import OnItself as OnItself
from tautrank.experiments.divide import OwnFolds as OwnFolds
from tautrank.experiments.divide import Resampling as Resampling
from tautrank.experiments.perturb import Change as Change
from tautrank.experiments.plan import Budget as Budget
from tautrank.experiments.plan import Condition as Condition
from tautrank.experiments.plan import Measurement as Measurement
from tautrank.experiments.plan import System as System
from tautrank.experiments.result import Comparison as Comparison
from tautrank.experiments.result import Result as Result
from tautrank.experiments.result import Tuning as Tuning
from tautrank.experiments.space import Choice as Choice
from tautrank.experiments.space import Search as Search
from tautrank.experiments.space import Uniform as Uniform
from tautrank.experiments.space import WholeNumber as WholeNumber
from tautrank.experiments.store import Store as Store
