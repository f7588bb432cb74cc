"""Learning to rank that optimises the ranking metric itself.

The names below are the public interface; everything else may change. Importing this module compiles nothing and imports
no optional dependency.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tautrank import losses, metrics, simulate
from tautrank.data import (
    DataSummary,
    RankingData,
    Splits,
    judge_run,
    list_folds,
    read_csv,
    read_folder,
    read_letor,
    read_parquet,
    read_qrels,
    read_run,
    read_scores,
    read_streamed,
    write_letor,
)
from tautrank.errors import DataError, MissingDependencyError, OptionError, TautrankError, TautrankWarning
from tautrank.losses import loss
from tautrank.metrics import Metric, metric
from tautrank.metrics.evaluation import Evaluation, evaluate
from tautrank.significance.paired import (
    bootstrap_interval,
    corrected_resampled_t_test,
    holm,
    paired_t_test,
    randomisation_test,
)
from tautrank.significance.systems import systems_test

if TYPE_CHECKING:
    from tautrank import checks, theory
    from tautrank.data.distributed import read_distributed
    from tautrank.engines.langevin import Langevin
    from tautrank.experiments.compare import compare
    from tautrank.experiments.result import Result
    from tautrank.experiments.runs import compare_runs
    from tautrank.experiments.tune import tune
    from tautrank.export import export_model
    from tautrank.losses.torch_loss import torch_loss
    from tautrank.ranker.estimator import Ranker
    from tautrank.ranker.list_features import ListFeatures
    from tautrank.report.side_by_side import side_by_side

__version__ = "0.2.0"

# What needs scikit-learn, which takes a second to import, is imported when it is first asked for.
_LATER = {
    "Langevin": "tautrank.engines.langevin",
    "ListFeatures": "tautrank.ranker.list_features",
    "Result": "tautrank.experiments.result",
    "Ranker": "tautrank.ranker.estimator",
    "compare": "tautrank.experiments.compare",
    "compare_runs": "tautrank.experiments.runs",
    "torch_loss": "tautrank.losses.torch_loss",
    "export_model": "tautrank.export",
    "side_by_side": "tautrank.report.side_by_side",
    "read_distributed": "tautrank.data.distributed",
    "tune": "tautrank.experiments.tune",
}


def __getattr__(name: str) -> Any:
    if name in ("checks", "theory"):
        return importlib.import_module(f"tautrank.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'tautrank' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "DataError", "DataSummary", "Evaluation", "Langevin", "ListFeatures", "Metric", "MissingDependencyError",
    "OptionError", "Ranker", "RankingData", "Result", "Splits", "TautrankError", "TautrankWarning",
    "bootstrap_interval", "checks", "compare", "compare_runs", "corrected_resampled_t_test", "evaluate", "export_model",
    "holm", "judge_run", "list_folds", "loss", "losses", "metric", "metrics", "paired_t_test", "randomisation_test",
    "read_csv", "read_distributed", "read_folder", "read_letor", "read_parquet", "read_qrels", "read_run",
    "read_scores", "read_streamed", "side_by_side", "simulate", "systems_test", "theory", "torch_loss", "tune",
    "write_letor",
]  # fmt: skip
