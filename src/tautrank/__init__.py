"""Learning to rank that optimises the ranking metric itself.

The public interface is `__all__` of this module and of its rooms, such as `tautrank.data`;
everything else may change. Importing this module compiles nothing and imports no optional
dependency.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautrank import checks, data, losses, metrics, significance, simulate, theory
    from tautrank import compat as compat
    from tautrank.data.distributed import read_distributed
    from tautrank.data.letor import read_letor
    from tautrank.data.ranking_data import RankingData
    from tautrank.data.reading import read
    from tautrank.engines.langevin import Langevin
    from tautrank.errors import (
        DataError,
        MissingDependencyError,
        OptionError,
        TautrankError,
        TautrankWarning,
    )
    from tautrank.experiments.compare import compare
    from tautrank.experiments.compare_runs import compare_runs
    from tautrank.experiments.result import Result
    from tautrank.experiments.tune import tune
    from tautrank.export import export_model
    from tautrank.losses import loss
    from tautrank.losses.torch_loss import torch_loss
    from tautrank.metrics import Evaluation, Metric, evaluate, metric
    from tautrank.ranker import ListFeatures
    from tautrank.ranker.estimator import Ranker
    from tautrank.report.side_by_side import side_by_side
    from tautrank.significance.systems import systems_test

__version__ = "0.3.0"

# Every name is imported when it is first asked for: a command that only says what is wrong needs
# few of them.
_ROOMS = ("checks", "compat", "data", "losses", "metrics", "significance", "simulate", "theory")
_MODULE_OF_NAME = {
    "DataError": "errors",
    "Evaluation": "metrics",
    "Langevin": "engines.langevin",
    "ListFeatures": "ranker",
    "Metric": "metrics",
    "MissingDependencyError": "errors",
    "OptionError": "errors",
    "Ranker": "ranker.estimator",
    "RankingData": "data",
    "Result": "experiments.result",
    "TautrankError": "errors",
    "TautrankWarning": "errors",
    "compare": "experiments.compare",
    "compare_runs": "experiments.compare_runs",
    "evaluate": "metrics",
    "export_model": "export",
    "loss": "losses",
    "metric": "metrics",
    "read": "data",
    "read_distributed": "data.distributed",
    "read_letor": "data",
    "side_by_side": "report.side_by_side",
    "systems_test": "significance",
    "torch_loss": "losses.torch_loss",
    "tune": "experiments.tune",
}


def __getattr__(name: str) -> Any:
    # Called for names that the module does not have yet: parts of the library are imported when
    # they are first used.
    if name in _ROOMS:
        return importlib.import_module(f"tautrank.{name}")
    if name in _MODULE_OF_NAME:
        return getattr(importlib.import_module(f"tautrank.{_MODULE_OF_NAME[name]}"), name)
    raise AttributeError(f"module 'tautrank' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "DataError",
    "Evaluation",
    "Langevin",
    "ListFeatures",
    "Metric",
    "MissingDependencyError",
    "OptionError",
    "Ranker",
    "RankingData",
    "Result",
    "TautrankError",
    "TautrankWarning",
    "checks",
    "compare",
    "compare_runs",
    "data",
    "evaluate",
    "export_model",
    "loss",
    "losses",
    "metric",
    "metrics",
    "read",
    "read_distributed",
    "read_letor",
    "side_by_side",
    "significance",
    "simulate",
    "systems_test",
    "theory",
    "torch_loss",
    "tune",
]
