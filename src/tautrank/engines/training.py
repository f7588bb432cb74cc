"""Training a model: what is checked before, what is shown meanwhile, and the choice of the way."""

from __future__ import annotations

import dataclasses
import warnings

from tautrank.data import StreamedRows
from tautrank.engines.base import Engine
from tautrank.engines.binned import shared_bins
from tautrank.engines.cross_validation import (
    train_with_chosen_trees,
    with_validation_in_training,
)
from tautrank.engines.loop import train_rounds
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import TOOLS
from tautrank.engines.task import NativeLoss, Record, Settings, Task
from tautrank.errors import OptionError, TautrankWarning, refuse
from tautrank.progress import Progress, show_progress

# A thread with fewer values than this to count saves less time than waking it takes.
_VALUES_PER_THREAD = 1_000_000


def fit(engine: Engine, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
    """Check a training, carry it out with its progress shown, and return the model and the record of
    the training.

    There is a warning if the model learnt nothing, that is, if no tree could be split.

    Args:
        engine: the tool that grows the model, such as LightGBM's engine.
        task: training and validation data, loss and metric.
        settings: how to train.
    """
    errors_of_parameters = engine.name_errors(task.loss, settings.extra)
    refuse(errors_of_parameters)  # raises if there are any
    if settings.cross_validate_trees:
        # Every query is trained on and judged in turn, so validation queries join the others.
        task = with_validation_in_training(task)
    _check_speed(engine, settings)
    _check_memory(task, settings)

    # Trainings on the same data share the bins that features are divided into.
    task = dataclasses.replace(task, bins=shared_bins())
    settings = _with_worthwhile_threads(engine, task, settings)
    with show_progress(str(task.loss), "trees", verbose=settings.verbose, n_lines=10) as progress:
        model, record = train_model(engine, task, settings, progress)

    # A feature that some tree splits by has an importance above 0.
    has_split = model.importances().any()
    if not has_split:
        warnings.warn(
            f"loss {task.loss}: no tree could be split, so every document gets the same score; "
            "expected queries with different labels, features that vary, and more documents than "
            "a leaf must hold (min_data_in_leaf)",
            TautrankWarning,
            stacklevel=2,
        )
    return model, record


def _check_speed(engine: Engine, settings: Settings) -> None:
    """Refuse ``speed="fast"`` where there is no faster way to train."""
    if settings.speed != "fast":
        return
    if not engine.supports_fast:
        cause = engine.display_name
    elif settings.langevin is not None:
        cause = "langevin"
    else:
        return
    raise OptionError(
        f"speed: found 'fast' with {cause}; expected 'exact', or LightGBM without langevin"
    )


def _check_memory(task: Task, settings: Settings) -> None:
    """Refuse a training that needs features in memory, if they stay in files and are read in chunks
    (`StreamedRows`).

    A tool's own loss and Langevin boosting need them in memory.
    """
    features_stay_in_files = isinstance(task.train.X, StreamedRows)
    if not features_stay_in_files:
        return
    if isinstance(task.loss, NativeLoss):
        cause = f"loss {task.loss}"
    elif settings.langevin is not None:
        cause = "langevin"
    else:
        return
    raise OptionError(
        f"{cause}: needs features in memory; expected a loss of this library without langevin"
    )


def _with_worthwhile_threads(engine: Engine, task: Task, settings: Settings) -> Settings:
    """Return settings with fewer threads where the training data is small, unless the user has set
    their number.

    Only tools that use OpenMP are limited: waking one of its threads costs more than it saves where
    it has few feature values to count.
    """
    tool = TOOLS.get(engine.name)
    # The tools that hang after a fork are those whose threads are OpenMP's.
    uses_openmp = tool is not None and tool.hangs_after_fork
    if settings.n_jobs is not None or not uses_openmp:
        return settings
    n_values = task.train.n_documents * task.train.n_features
    n_worthwhile_threads = max(1, n_values // _VALUES_PER_THREAD)
    return dataclasses.replace(settings, n_jobs=min(settings.threads, n_worthwhile_threads))


def train_model(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None = None
) -> tuple[FittedModel, Record]:
    """Train one model, or choose its number of trees by cross-validation and train it on all
    queries.

    Args:
        engine: what grows the model; a committee has its members cross-validated instead.
        task: what to learn from what.
        settings: how to train.
        progress: shows the progress of the training; by default nothing.
    """
    # The trees of a whole model are chosen by training it again (`refits`); a committee has those of
    # each member chosen instead.
    if settings.cross_validate_trees and engine.refits:
        return train_with_chosen_trees(engine, task, settings, progress)
    monitor = TrainingMonitor(task, settings, progress)
    model = train_rounds(engine, task, settings, monitor)
    return model, monitor.record()
