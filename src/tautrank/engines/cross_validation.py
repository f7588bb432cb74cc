"""Trees chosen by cross-validation, and a model of as many trees that learns from every query.

NDCG of a few hundred validation queries jumps from tree to tree, and its highest value may be luck.
Here every query judges a model that has not seen it: the queries are divided into parts, and for
each part a model is trained on the others, all side by side, one tree at a time. The number of
trees is the best for the metric over all queries; the final model has as many and is trained on all
of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tautrank.arrays import I64
from tautrank.data import RankingData
from tautrank.engines.base import Engine
from tautrank.engines.lockstep import Lockstep
from tautrank.engines.loop import train_rounds
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.task import Record, Settings, Task
from tautrank.errors import DataError, OptionError, counted
from tautrank.progress import Progress

FOLDS = 4
"""Parts that the queries are divided into."""


def pooled(task: Task) -> Task:
    """Return the task with its validation queries among those to learn from.

    Args:
        task: what to learn.
    """
    if task.start is not None:
        raise OptionError(
            "cross_validate_trees: found init_model, which may have seen every query; expected one of the two"
        )
    if task.valid is None:
        return task
    if len(task.sets) > 1:
        raise OptionError(
            f"cross_validate_trees: found {len(task.sets)} validation sets; expected one, to learn from as well"
        )
    if task.weights is not None or task.propensities is not None:
        found = "weights or propensities, which the validation data does not have"
        raise OptionError(
            f"cross_validate_trees: found {found}; expected all queries as training data, without an eval_set"
        )
    every = RankingData.concat([task.train, task.valid], repeated="separate")
    return dataclasses.replace(task, train=every, valid=None, sets=())


def refitted(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None
) -> tuple[FittedModel, Record]:
    """Choose the number of trees by cross-validation, and train as many on all queries.

    Args:
        engine: what grows the models.
        task: what to learn, without validation data.
        settings: how.
        progress: shows the progress of the cross-validation.
    """
    n = task.train.n_queries
    if n < FOLDS:
        raise DataError(
            f"cross_validate_trees: found {counted(n, 'query')}; expected at least {FOLDS}, for cross-validation"
        )
    order = np.random.default_rng(settings.seed).permutation(n)
    patience = settings.early_stopping_rounds or settings.n_estimators
    judged = dataclasses.replace(settings, eval_train=False, early_stopping_rounds=patience)
    monitor = TrainingMonitor(
        dataclasses.replace(task, valid=task.train.subset(order)), judged, progress
    )
    rounds = itertools.count(1)
    folds = Lockstep(
        FOLDS,
        lambda scores: monitor.after_round(next(rounds), lambda part: np.concatenate(scores)),
        FOLDS,
    )
    plain = dataclasses.replace(
        settings, eval_train=False, early_stopping_rounds=None, callbacks=()
    )
    each = dataclasses.replace(plain, n_jobs=max(1, settings.threads // FOLDS))
    with ThreadPoolExecutor(FOLDS) as pool:
        running = [
            pool.submit(folds.train, number, engine, _without(task, part), each)
            for number, part in enumerate(np.array_split(order, FOLDS))
        ]
        try:
            for future in running:
                future.result()
        finally:
            folds.stop = True  # where the user has interrupted
    found = monitor.record()
    rates = (
        settings.rates[: found.steps] if isinstance(settings.rates, Sequence) else settings.rates
    )
    once = dataclasses.replace(
        plain, n_estimators=found.steps, eval_train=settings.eval_train, rates=rates
    )
    last = TrainingMonitor(task, once)
    model = train_rounds(engine, task, once, last)
    return model, dataclasses.replace(
        found, best_iteration=model.n_trees, history=found.history | last.history
    )


def _without(task: Task, part: I64) -> Task:
    """Return the task of learning from all queries but a part, which is held out."""
    data, rest = task.train, np.ones(task.train.n_queries, bool)
    rest[part] = False
    return dataclasses.replace(
        task,
        train=data.subset(rest),
        valid=data.subset(part),
        weights=None if task.weights is None else task.weights[rest],
        propensities=None
        if task.propensities is None
        else task.propensities[np.repeat(rest, data.sizes)],
        bins=None,
    )
