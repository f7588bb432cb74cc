"""Experiments: one plan, one trial, one store, one pool of workers, one result.

`tautrank.compare` and `tautrank.tune` are the entry points.
"""

from tautrank.experiments.changes import Change
from tautrank.experiments.plan import Budget, Condition, Measurement, System
from tautrank.experiments.protocols import FixedParts, OnItself, OwnFolds, Resampling
from tautrank.experiments.result import Comparison, Result
from tautrank.experiments.space import Choice, Search, Uniform, WholeNumber
from tautrank.experiments.store import Store
from tautrank.experiments.tuning import Tuning

__all__ = [
    "Budget",
    "Change",
    "Choice",
    "Comparison",
    "Condition",
    "FixedParts",
    "Measurement",
    "OnItself",
    "OwnFolds",
    "Resampling",
    "Result",
    "Search",
    "Store",
    "System",
    "Tuning",
    "Uniform",
    "WholeNumber",
]
