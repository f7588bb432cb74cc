"""The one loop of all engines: a round for the gradients of the loss, and what follows it."""

from __future__ import annotations

import warnings

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
from tautrank.errors import (
    OptionError,
    TautrankWarning,
)
from tautrank.losses import Loss

# Leaves of the engine grow as the scale of the model falls; this ratio is still far from where
# doubles end.
_SMALLEST_SCALE = 2.0**-800


def train_rounds(
    engine: Engine, task: Task, settings: Settings, monitor: TrainingMonitor
) -> FittedModel:
    """Train until `monitor` says stop, and return the model of the rounds to keep.

    Args:
        engine: what grows the rounds.
        task: what to learn from what.
        settings: how.
        monitor: judges each round.
    """
    if isinstance(engine, SelfTrainingEngine):
        return engine.train(task, settings, monitor)
    with engine.in_one_sentence(task.loss):
        return boost(engine, task, settings, monitor)


def boost(engine: Engine, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
    """Grow rounds until there are enough, the validation metric has stopped improving, or a
    callback says stop.

    With Langevin boosting the model ``F`` shrinks by a factor before each round. Engines cannot
    rescale the trees they have, so they keep ``G = F / scale``: the scale falls instead, the loss
    and the metric see ``scale * G``, and each round is added to ``G`` at ``learning_rate / scale``.
    Without it the scale is 1. Each round is grown for gradients with one draw of noise, and its
    leaves are then filled again with another (see `langevin`).

    Args:
        engine: what grows the rounds.
        task: what to learn.
        settings: how.
        monitor: judges each round.
    """
    own_loss = isinstance(task.loss, Loss)
    if settings.langevin is not None and not own_loss:
        able = (
            "a loss of this library, or one of CatBoost's, which has Langevin boosting of its own"
        )
        raise OptionError(
            f"langevin: the gradients of {task.loss} are out of reach; expected {able}"
        )
    factor = 1.0 if settings.langevin is None else settings.langevin.factor(settings.learning_rate)
    # A tool's own objective sees the tool's own scores: it continues a model that has its scale in
    # its leaves.
    scale = task.start.scale if task.start is not None and own_loss else 1.0
    if scale * factor**settings.n_estimators < _SMALLEST_SCALE:
        found = f"{settings.langevin} with learning_rate={settings.learning_rate:g} shrinks a tree to nothing"
        expected = "expected fewer trees, or a smaller shrink_rate"
        raise OptionError(f"langevin: {found} in {settings.n_estimators} trees; {expected}")
    learner, source = _begun(engine, task, settings)
    if settings.langevin is not None:
        if source is None or not isinstance(learner, RefillableLearner):
            found = f"{engine.display_name} cannot fill the leaves of a tree again"
            raise OptionError(
                f"langevin: {found}; expected another engine, such as {DEFAULT_ENGINE}"
            )
        learner = LangevinLearner(learner, task, source.leaf_values)
    scales: list[float] = []
    for step in range(task.start_step, task.start_step + settings.n_estimators):
        at = None if source is None else source.at(step, scale)
        scale *= factor
        try:
            learner.grow(at, settings.rate(step - task.start_step) / scale)
        except CutShortError as error:
            if not scales:
                raise
            warnings.warn(
                f"{error}; the model has the {len(scales)} trees so far",
                TautrankWarning,
                stacklevel=2,
            )
            break
        scales.append(scale)
        if monitor.after_round(learner.rounds, learner.scores, scale):
            break
    model: FittedModel = learner.model(monitor.rounds_to_keep)
    model.scale = scales[monitor.record().steps - task.start_step - 1]
    return model


def _begun(engine: Engine, task: Task, settings: Settings) -> tuple[Learner, GradientSource | None]:
    """Begin a training; a tool's own objective has no source of gradients."""
    if isinstance(task.train, DistributedData):
        from tautrank.engines.cluster import ClusterLearner

        cluster = ClusterLearner(engine.name, task, settings)
        return cluster, cluster.gradients
    learner = engine.start(task, settings)
    if not isinstance(task.loss, Loss):
        return learner, None
    bagging = settings.bagging or engine.query_bagging(settings)
    return learner, Gradients(task, settings, bagging)
