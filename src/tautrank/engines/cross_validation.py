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

from tautrank.arrays import I64, Array
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
            "cross_validate_trees: found init_model, which may have seen every query; "
            "expected one of the two"
        )
    if task.valid is None:
        return task
    if len(task.sets) > 1:
        raise OptionError(
            f"cross_validate_trees: found {len(task.sets)} validation sets; "
            "expected one, to learn from as well"
        )
    if task.weights is not None or task.propensities is not None:
        raise OptionError(
            "cross_validate_trees: found weights or propensities, which the validation data does "
            "not have; expected all queries as training data, without an eval_set"
        )
    all_queries = RankingData.concat([task.train, task.valid], repeated="separate")
    return dataclasses.replace(task, train=all_queries, valid=None, sets=())


def refitted(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None
) -> tuple[FittedModel, Record]:
    """Choose the number of trees by cross-validation, and train as many on all queries.

    Args:
        engine: what grows the models.
        task: what to learn, without validation data.
        settings: how to train.
        progress: shows the progress of the cross-validation.
    """
    record = _cross_validated(engine, task, settings, progress)

    rates = settings.rates
    if isinstance(rates, Sequence):
        rates = rates[: record.steps]
    settings = dataclasses.replace(
        _without_stopping(settings),
        n_estimators=record.steps,
        rates=rates,
        eval_train=settings.eval_train,
    )
    monitor = TrainingMonitor(task, settings)
    model = train_rounds(engine, task, settings, monitor)
    history = record.history | monitor.history
    return model, dataclasses.replace(record, best_iteration=model.n_trees, history=history)


def _cross_validated(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None
) -> Record:
    """Return what happened in a training whose every query was judged by a model that has not
    seen it.
    """
    n_queries = task.train.n_queries
    if n_queries < FOLDS:
        raise DataError(
            f"cross_validate_trees: found {counted(n_queries, 'query')}; expected at least {FOLDS},"
            " for cross-validation"
        )
    order = np.random.default_rng(settings.seed).permutation(n_queries)
    monitor = _monitor_of_folds(task, settings, order, progress)
    rounds = itertools.count(1)

    def stop_rule(scores_of_folds: list[Array]) -> bool:
        scores = np.concatenate(scores_of_folds)
        return monitor.after_round(next(rounds), lambda _: scores)

    lockstep = Lockstep(FOLDS, stop_rule, n_growing=FOLDS)
    threads = max(1, settings.threads // FOLDS)
    fold_settings = dataclasses.replace(_without_stopping(settings), n_jobs=threads)
    with ThreadPoolExecutor(FOLDS) as pool:
        trainings = []
        for number, held_out in enumerate(np.array_split(order, FOLDS)):
            fold = _holding_out(task, held_out)
            trainings.append(pool.submit(lockstep.train, number, engine, fold, fold_settings))
        try:
            for training in trainings:
                training.result()
        finally:
            lockstep.stop = True  # where the user has interrupted
    return monitor.record()


def _monitor_of_folds(
    task: Task, settings: Settings, order: I64, progress: Progress | None
) -> TrainingMonitor:
    """Return what judges all queries at once, in the order of the folds that hold them out."""
    patience = settings.early_stopping_rounds or settings.n_estimators
    return TrainingMonitor(
        dataclasses.replace(task, valid=task.train.subset(order)),
        dataclasses.replace(settings, eval_train=False, early_stopping_rounds=patience),
        progress,
    )


def _without_stopping(settings: Settings) -> Settings:
    """Return the settings of a training that others judge and stop."""
    return dataclasses.replace(settings, eval_train=False, early_stopping_rounds=None, callbacks=())


def _holding_out(task: Task, held_out: I64) -> Task:
    """Return the task of learning from all queries but those that are held out."""
    data = task.train
    is_learnt = np.ones(data.n_queries, bool)
    is_learnt[held_out] = False
    weights = task.weights
    if weights is not None:
        weights = weights[is_learnt]
    propensities = task.propensities
    if propensities is not None:
        propensities = propensities[np.repeat(is_learnt, data.sizes)]
    return dataclasses.replace(
        task,
        train=data.subset(is_learnt),
        valid=data.subset(held_out),
        weights=weights,
        propensities=propensities,
        bins=None,
    )
