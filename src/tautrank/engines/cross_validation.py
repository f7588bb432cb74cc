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


def with_validation_in_training(task: Task) -> Task:
    """Return a task that learns from the training queries and from the validation queries.

    Refused are tasks with more than one validation set, with weights that validation queries do not
    have, or with a model to continue, which may have seen every query.
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


def train_with_chosen_trees(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None
) -> tuple[FittedModel, Record]:
    """Choose the number of trees by cross-validation, train a model with that many trees on all
    queries, and return it with the record of both.

    Args:
        engine: the tool that grows the models.
        task: what to learn, without validation data.
        settings: how to train.
        progress: shows the progress of the cross-validation.
    """
    # The record holds the metric of each round and the number of rounds chosen, `steps`.
    record = _cross_validate(engine, task, settings, progress)

    n_rounds = record.steps
    rates = settings.rates  # a function of the round, or one learning rate per round
    if isinstance(rates, Sequence):
        rates = rates[:n_rounds]
    final_settings = dataclasses.replace(
        _without_stopping(settings),
        n_estimators=n_rounds,
        rates=rates,
        eval_train=settings.eval_train,
    )
    monitor = TrainingMonitor(task, final_settings)
    model = train_rounds(engine, task, final_settings, monitor)

    # The cross-validation's history of validation values, and the final training's own.
    history = record.history | monitor.history
    record = dataclasses.replace(record, best_iteration=model.n_trees, history=history)
    return model, record


def _cross_validate(
    engine: Engine, task: Task, settings: Settings, progress: Progress | None
) -> Record:
    """Train one model per fold, each without a quarter of the queries, and return the metric's
    history over all queries with the best number of rounds.

    The models grow one tree at a time, side by side. After each round every query is judged by the
    model that has not learnt from it, and all models stop together.
    """
    n_queries = task.train.n_queries
    if n_queries < FOLDS:
        raise DataError(
            f"cross_validate_trees: found {counted(n_queries, 'query')}; expected at least {FOLDS},"
            " for cross-validation"
        )
    shuffled_queries = np.random.default_rng(settings.seed).permutation(n_queries)
    monitor = _monitor_of_folds(task, settings, shuffled_queries, progress)
    round_numbers = itertools.count(1)

    def stop_rule(scores_of_folds: list[Array]) -> bool:
        # Folds follow each other in the shuffled order, and so do the scores that are judged.
        scores = np.concatenate(scores_of_folds)
        return monitor.after_round(next(round_numbers), lambda _part: scores)

    lockstep = Lockstep(FOLDS, stop_rule, n_growing=FOLDS)
    threads = max(1, settings.threads // FOLDS)
    fold_settings = dataclasses.replace(_without_stopping(settings), n_jobs=threads)
    with ThreadPoolExecutor(FOLDS) as pool:
        trainings = []
        for number, held_out_queries in enumerate(np.array_split(shuffled_queries, FOLDS)):
            fold_task = _holding_out(task, held_out_queries)
            training = pool.submit(lockstep.train, number, engine, fold_task, fold_settings)
            trainings.append(training)
        try:
            for training in trainings:
                training.result()
        finally:
            lockstep.stop = True  # where the user has interrupted
    return monitor.record()


def _monitor_of_folds(
    task: Task, settings: Settings, shuffled_queries: I64, progress: Progress | None
) -> TrainingMonitor:
    """Return a monitor that judges all training queries as validation data, in the shuffled order
    that the folds of a cross-validation are cut from.

    Each query is scored by the model of the fold that has not learnt from it.
    """
    judged_task = dataclasses.replace(task, valid=task.train.subset(shuffled_queries))
    # Without early stopping all rounds are grown: a patience as long as the training is never
    # exhausted, and lets the monitor note the best round all the same.
    patience = settings.early_stopping_rounds or settings.n_estimators
    judging_settings = dataclasses.replace(
        settings, eval_train=False, early_stopping_rounds=patience
    )
    return TrainingMonitor(judged_task, judging_settings, progress)


def _without_stopping(settings: Settings) -> Settings:
    """Return settings without early stopping, callbacks and training scores: the training is judged
    and stopped from outside.
    """
    return dataclasses.replace(settings, eval_train=False, early_stopping_rounds=None, callbacks=())


def _holding_out(task: Task, held_out_queries: I64) -> Task:
    """Return a task that learns from all training queries but some, which become its validation
    data.

    Weights are one per query and propensities one per document; those of the queries learnt from
    are kept.
    """
    data = task.train
    is_learnt = np.ones(data.n_queries, bool)
    is_learnt[held_out_queries] = False
    weights = task.weights
    if weights is not None:
        weights = weights[is_learnt]
    propensities = task.propensities
    if propensities is not None:
        is_learnt_document = np.repeat(is_learnt, data.sizes)
        propensities = propensities[is_learnt_document]
    return dataclasses.replace(
        task,
        train=data.subset(is_learnt),
        valid=data.subset(held_out_queries),
        weights=weights,
        propensities=propensities,
        bins=None,  # each fold has data of its own, so there is nothing to share
    )
