"""Training a model: what is checked before, what is shown meanwhile, and the choice of the way."""

from __future__ import annotations

import dataclasses
import warnings

from tautrank.data import StreamedRows
from tautrank.engines.base import Engine
from tautrank.engines.binned import shared_bins
from tautrank.engines.cross_validation import pooled, refitted
from tautrank.engines.loop import train_rounds
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import TOOLS
from tautrank.engines.task import NativeLoss, Record, Settings, Task
from tautrank.errors import (
    OptionError,
    TautrankWarning,
    refuse,
)
from tautrank.progress import Progress, show_progress

# A thread with fewer values than this to count saves less time than waking it takes.
_VALUES_PER_THREAD = 1_000_000


def fit(engine: Engine, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
    """Train, show the progress, and warn if nothing was learnt.

    Args:
        engine: what grows the model.
        task: what to learn from what.
        settings: how.
    """
    refuse(engine.name_errors(task.loss, settings.extra))
    if settings.cross_validate_trees:
        task = pooled(task)
    if settings.speed == "fast" and (not engine.supports_fast or settings.langevin is not None):
        found = "langevin" if engine.supports_fast else engine.display_name
        raise OptionError(
            f"speed: found 'fast' with {found}; expected 'exact', or LightGBM without langevin"
        )
    if isinstance(task.train.X, StreamedRows) and (
        settings.langevin is not None or isinstance(task.loss, NativeLoss)
    ):
        what = f"loss {task.loss}" if isinstance(task.loss, NativeLoss) else "langevin"
        raise OptionError(
            f"{what}: needs features in memory; expected a loss of this library without langevin"
        )
    task = dataclasses.replace(task, bins=shared_bins())
    if settings.n_jobs is None and engine.name in TOOLS and TOOLS[engine.name].hangs_after_fork:
        worth = max(1, task.train.n_documents * task.train.n_features // _VALUES_PER_THREAD)
        settings = dataclasses.replace(settings, n_jobs=min(settings.threads, worth))
    with show_progress(str(task.loss), "trees", verbose=settings.verbose, n_lines=10) as progress:
        model, record = train_model(engine, task, settings, progress)
    if not model.importances().any():
        found = f"loss {task.loss}: no tree could be split, so every document gets the same score"
        needed = "different labels, features that vary, and more documents than a leaf must hold (min_data_in_leaf)"
        warnings.warn(f"{found}; expected queries with {needed}", TautrankWarning, stacklevel=2)
    return model, record


def train_model(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None = None
) -> tuple[FittedModel, Record]:
    """Train one model, or choose its number of trees by cross-validation and train it on all
    queries.

    Args:
        engine: what grows the model; a committee refits its members.
        task: what to learn from what.
        settings: how.
        progress: shows the progress of the training; by default nothing.
    """
    if settings.cross_validate_trees and engine.refits:
        return refitted(engine, task, settings, progress)
    monitor = TrainingMonitor(task, settings, progress)
    return train_rounds(engine, task, settings, monitor), monitor.record()
