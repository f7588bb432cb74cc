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
from tautrank.errors import OptionError, TautrankWarning, refuse
from tautrank.progress import Progress, show_progress

# A thread with fewer values than this to count saves less time than waking it takes.
_VALUES_PER_THREAD = 1_000_000


def fit(engine: Engine, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
    """Train, show the progress, and warn if nothing was learnt.

    Args:
        engine: what grows the model.
        task: what to learn from what.
        settings: how to train.
    """
    refuse(engine.name_errors(task.loss, settings.extra))
    if settings.cross_validate_trees:
        task = pooled(task)
    _check_speed(engine, settings)
    _check_memory(task, settings)

    task = dataclasses.replace(task, bins=shared_bins())
    settings = _with_worthwhile_threads(engine, task, settings)
    with show_progress(str(task.loss), "trees", verbose=settings.verbose, n_lines=10) as progress:
        model, record = train_model(engine, task, settings, progress)
    if not model.importances().any():
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
        unable = engine.display_name
    elif settings.langevin is not None:
        unable = "langevin"
    else:
        return
    raise OptionError(
        f"speed: found 'fast' with {unable}; expected 'exact', or LightGBM without langevin"
    )


def _check_memory(task: Task, settings: Settings) -> None:
    """Refuse what needs features in memory where they stay in files."""
    if not isinstance(task.train.X, StreamedRows):
        return
    if isinstance(task.loss, NativeLoss):
        needy = f"loss {task.loss}"
    elif settings.langevin is not None:
        needy = "langevin"
    else:
        return
    raise OptionError(
        f"{needy}: needs features in memory; expected a loss of this library without langevin"
    )


def _with_worthwhile_threads(engine: Engine, task: Task, settings: Settings) -> Settings:
    """Return the settings with as many threads as the data is worth, unless a number is set."""
    tool = TOOLS.get(engine.name)
    uses_openmp = tool is not None and tool.hangs_after_fork
    if settings.n_jobs is not None or not uses_openmp:
        return settings
    n_values = task.train.n_documents * task.train.n_features
    worthwhile = max(1, n_values // _VALUES_PER_THREAD)
    return dataclasses.replace(settings, n_jobs=min(settings.threads, worthwhile))


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
    if settings.cross_validate_trees and engine.refits:
        return refitted(engine, task, settings, progress)
    monitor = TrainingMonitor(task, settings, progress)
    model = train_rounds(engine, task, settings, monitor)
    return model, monitor.record()
