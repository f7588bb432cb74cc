"""The one loop of all engines: a round for the gradients of the loss, and what follows it."""

from __future__ import annotations

import warnings
from typing import NamedTuple

from tautrank.data.distributed import DistributedData
from tautrank.engines.base import (
    CutShortError,
    Engine,
    GradientSource,
    Learner,
    RefillableLearner,
    SelfTrainingEngine,
)
from tautrank.engines.gradients import Gradients
from tautrank.engines.langevin_learner import LangevinLearner
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import DEFAULT_ENGINE
from tautrank.engines.task import Settings, Task
from tautrank.errors import OptionError, TautrankWarning
from tautrank.losses import Loss

# Leaves of the engine grow as the scale of the model falls; this ratio is still far from where
# doubles end.
_SMALLEST_SCALE = 2.0**-800


def train_rounds(
    engine: Engine, task: Task, settings: Settings, monitor: TrainingMonitor
) -> FittedModel:
    """Train a model until the monitor stops it, and return the model of the rounds to keep.

    Args:
        engine: the tool that grows the trees.
        task: training and validation data, and the loss.
        settings: how to train.
        monitor: judges each round.
    """
    if isinstance(engine, SelfTrainingEngine):  # its tool runs the rounds itself
        return engine.train(task, settings, monitor)
    # Turns errors of the tool into errors of one sentence.
    with engine.in_one_sentence(task.loss):
        return boost(engine, task, settings, monitor)


def boost(engine: Engine, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
    """Boost a model round by round until there are enough rounds, the validation metric has stopped
    improving, or a callback says stop; return the model of the rounds to keep.

    With Langevin boosting the model ``F`` shrinks by a factor before each round. Engines cannot
    rescale the trees they have, so they keep ``G = F / scale``: the scale falls instead, the loss
    and the metric see ``scale * G``, and each round is added to ``G`` at ``learning_rate / scale``.
    Without Langevin boosting the scale is 1.

    Args:
        engine: the tool that grows one tree per round.
        task: training and validation data, and the loss.
        settings: how to train.
        monitor: judges each round.
    """
    shrinkage = _shrinkage(task, settings)
    learner, gradient_source = _start_learner(engine, task, settings)
    scale = shrinkage.first_scale
    scale_after_round: list[float] = []
    for round_number in range(settings.n_estimators):
        gradients = None  # a tool's own objective computes them itself
        if gradient_source is not None:
            gradients = gradient_source.at(task.start_step + round_number, scale)
        scale *= shrinkage.factor
        try:
            learner.grow(gradients, settings.rate(round_number) / scale)
        except CutShortError as error:
            if not scale_after_round:
                raise
            warnings.warn(
                f"{error}; the model has the {len(scale_after_round)} trees so far",
                TautrankWarning,
                stacklevel=2,
            )
            break
        scale_after_round.append(scale)
        if monitor.after_round(learner.rounds, learner.scores, scale):
            break

    model = learner.model(monitor.rounds_to_keep)
    last_kept_round = monitor.record().steps - task.start_step - 1
    model.scale = scale_after_round[last_kept_round]
    return model


class _Shrinkage(NamedTuple):
    """How the scale of a model falls while it is trained."""

    first_scale: float
    """Scale of the model that the training starts from."""
    factor: float
    """What the scale is multiplied by before each round; 1 without Langevin boosting."""


def _shrinkage(task: Task, settings: Settings) -> _Shrinkage:
    """Return the scale that a model starts from and the factor it falls by before each round of
    Langevin boosting, 1 without it.

    Langevin boosting multiplies all trees grown so far by the factor. Instead of changing leaves,
    one scale of the whole model is kept.

    Refused are settings by which the scale would fall to almost 0, and Langevin boosting of a
    tool's own objective, whose gradients this library does not see.
    """
    is_our_loss = isinstance(task.loss, Loss)
    if settings.langevin is None:
        factor = 1.0
    elif is_our_loss:
        factor = settings.langevin.factor(settings.learning_rate)
    else:
        raise OptionError(
            f"langevin: the gradients of {task.loss} are out of reach; expected a loss of this "
            "library, or one of CatBoost's, which has Langevin boosting of its own"
        )

    # A tool's own objective sees the tool's own scores: it continues a model that has its scale in
    # its leaves.
    first_scale = 1.0
    if task.start is not None and is_our_loss:
        first_scale = task.start.scale
    last_scale = first_scale * factor**settings.n_estimators
    if last_scale < _SMALLEST_SCALE:
        raise OptionError(
            f"langevin: {settings.langevin} with learning_rate={settings.learning_rate:g} shrinks "
            f"a tree to nothing in {settings.n_estimators} trees; expected fewer trees, or a "
            "smaller shrink_rate"
        )
    return _Shrinkage(first_scale, factor)


def _start_learner(
    engine: Engine, task: Task, settings: Settings
) -> tuple[Learner, GradientSource | None]:
    """Begin a training: return what grows the trees and what computes the gradients that they are
    grown for.

    The source of gradients is None for a tool's own objective. Langevin boosting wraps the learner,
    which must be able to give the leaves of a tree other values.
    """
    if isinstance(task.train, DistributedData):
        from tautrank.engines.cluster import ClusterLearner

        cluster = ClusterLearner(engine.name, task, settings)
        return cluster, cluster.gradients

    learner = engine.start(task, settings)
    if not isinstance(task.loss, Loss):
        return learner, None
    # Bagging samples queries for each tree; None learns from all.
    bagging = settings.bagging or engine.query_bagging(settings)
    gradients = Gradients(task, settings, bagging)
    if settings.langevin is None:
        return learner, gradients
    if not isinstance(learner, RefillableLearner):
        raise OptionError(
            f"langevin: {engine.display_name} cannot fill the leaves of a tree again; "
            f"expected another engine, such as {DEFAULT_ENGINE}"
        )
    return LangevinLearner(learner, task, gradients.leaf_values), gradients
