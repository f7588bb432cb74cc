"""Experiments: one plan, one trial, one store, one pool of workers, one result.

`tautrank.compare` and `tautrank.tune` are the entry points. The names below are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautrank.experiments.divide import FixedParts, OnItself, OwnFolds, Resampling
    from tautrank.experiments.measurements import Measurement
    from tautrank.experiments.perturb import Change
    from tautrank.experiments.plan import Budget, Condition
    from tautrank.experiments.result import Comparison, Result
    from tautrank.experiments.space import Choice, Search, Uniform, WholeNumber
    from tautrank.experiments.store import Store
    from tautrank.experiments.system import System
    from tautrank.experiments.tune import Tuning

_MODULES = {
    "divide": ("FixedParts", "OnItself", "OwnFolds", "Resampling"),
    "measurements": ("Measurement",),
    "perturb": ("Change",),
    "plan": ("Budget", "Condition"),
    "result": ("Comparison", "Result"),
    "space": ("Choice", "Search", "Uniform", "WholeNumber"),
    "store": ("Store",),
    "system": ("System",),
    "tune": ("Tuning",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"tautrank.experiments.{module}"), name)
    raise AttributeError(f"module 'tautrank.experiments' has no attribute '{name}'")


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
