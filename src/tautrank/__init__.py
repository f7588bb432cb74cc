"""Learning to rank that optimises the ranking metric itself.

The names below are the public interface; everything else may change. Importing this module compiles
nothing and imports no optional dependency.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tautrank import checks, losses, metrics, simulate, theory
    from tautrank.data.distributed import read_distributed
    from tautrank.data.folders import Splits, list_folds, read_folder
    from tautrank.data.letor import read_letor
    from tautrank.data.letor_writer import write_letor
    from tautrank.data.ranking_data import RankingData
    from tautrank.data.reading import read_scores
    from tautrank.data.streamed import read_streamed
    from tautrank.data.summary import DataSummary
    from tautrank.data.table_files import read_csv, read_parquet
    from tautrank.data.trec import judge_run, read_qrels, read_run
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
    from tautrank.significance.paired import (
        bootstrap_interval,
        corrected_resampled_t_test,
        holm,
        paired_t_test,
        randomisation_test,
    )
    from tautrank.significance.systems import systems_test

__version__ = "0.2.0"

# Every name is imported when it is first asked for: a command that only says what is wrong needs
# few of them.
_MODULES = ("checks", "compat", "losses", "metrics", "simulate", "theory")
_NAMES = {
    "data": "DataSummary RankingData Splits judge_run list_folds read_csv read_folder read_letor read_parquet "
    "read_qrels read_run read_scores read_streamed write_letor",
    "data.distributed": "read_distributed",
    "engines.langevin": "Langevin",
    "errors": "DataError MissingDependencyError OptionError TautrankError TautrankWarning",
    "experiments.compare": "compare",
    "experiments.compare_runs": "compare_runs",
    "experiments.result": "Result",
    "experiments.tune": "tune",
    "export": "export_model",
    "losses": "loss",
    "losses.torch_loss": "torch_loss",
    "metrics": "Evaluation Metric evaluate metric",
    "ranker": "ListFeatures",
    "ranker.estimator": "Ranker",
    "report.side_by_side": "side_by_side",
    "significance.paired": "bootstrap_interval corrected_resampled_t_test holm paired_t_test randomisation_test",
    "significance.systems": "systems_test",
}
_LATER = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tautrank.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(f"tautrank.{_LATER[name]}"), name)
    raise AttributeError(f"module 'tautrank' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "DataError",
    "DataSummary",
    "Evaluation",
    "Langevin",
    "ListFeatures",
    "Metric",
    "MissingDependencyError",
    "OptionError",
    "Ranker",
    "RankingData",
    "Result",
    "Splits",
    "TautrankError",
    "TautrankWarning",
    "bootstrap_interval",
    "checks",
    "compare",
    "compare_runs",
    "corrected_resampled_t_test",
    "evaluate",
    "export_model",
    "holm",
    "judge_run",
    "list_folds",
    "loss",
    "losses",
    "metric",
    "metrics",
    "paired_t_test",
    "randomisation_test",
    "read_csv",
    "read_distributed",
    "read_folder",
    "read_letor",
    "read_parquet",
    "read_qrels",
    "read_run",
    "read_scores",
    "read_streamed",
    "side_by_side",
    "simulate",
    "systems_test",
    "theory",
    "torch_loss",
    "tune",
    "write_letor",
]
