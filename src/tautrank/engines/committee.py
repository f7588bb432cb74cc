"""Committees: several losses trained on the same data and added up to one model.

Losses make different errors, and a sum of models that err differently ranks better than any of
them. Each member learns from its own sample of the queries and of the features, and tries one
threshold per feature, drawn at random, in trees that have more leaves where there are more
documents; all of them stop together, when their sum has stopped improving. With list features,
every second member sees them, and tries all thresholds. The scores of a member are divided by one
constant, their spread within the training queries, so that no member outweighs the others. A sum of
scaled trees is a model of trees, so a committee is saved, exported and continued like any other
model.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.data import RankingData
from tautrank.engines.base import Engine, SelfTrainingEngine
from tautrank.engines.binned import Bins
from tautrank.engines.lockstep import Lockstep
from tautrank.engines.member_factors import inverse_spread, member_factors, scores_of
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import DEFAULT_ENGINE
from tautrank.engines.registry import engine_named, engine_of_member
from tautrank.engines.sum_model import exact_in_float32, weighted_sum
from tautrank.engines.task import (
    Committee,
    Member,
    Part,
    QueryBagging,
    Settings,
    Step,
    Task,
)
from tautrank.engines.training import train_model
from tautrank.errors import OptionError, counted
from tautrank.losses.base import Loss
from tautrank.progress import Progress

# What each member learns from, unless the user says otherwise: enough to make members differ, and
# to be as good alone.
_QUERY_SHARE = 0.8
_FEATURE_SHARE = 0.8
# A tree of random thresholds needs more leaves where there is more to learn from: one per so many
# training documents, up to so many times as many as asked for.
_DOCUMENTS_PER_LEAF = 2_000
_MOST_TIMES_LEAVES = 4
# Fewer validation queries than this would fit weights to noise.
_FEWEST_FOR_WEIGHTS = 500
_SEED_STEP = 1_000_003


class SeatedMember(NamedTuple):
    """One member of a committee.

    Args:
        number: its number, from 0.
        loss: the loss that it is trained for.
        sees_lists: whether it sees the list features.
    """

    number: int
    loss: Member
    sees_lists: bool = False


class CommitteeEngine(SelfTrainingEngine):
    """Trains the members of a committee, each on its own engine, and adds them up.

    Args:
        engine: the engine of the members whose loss is one of this library.
    """

    name: ClassVar[str] = "committee"
    display_name = "a committee"
    refits: ClassVar[bool] = False

    def __init__(self, engine: str = DEFAULT_ENGINE) -> None:
        self._engine = engine
        self.supports_fast = engine_named(engine).supports_fast

    def train(self, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
        """Train all members of a committee of losses, and return the weighted sum of their models.

        A committee is a loss made of several: each has one model or more, the members.
        Members are trained side by side, as many as there are threads.

        Args:
            task: training and validation data, and the committee as its loss.
            settings: how to train each member.
            monitor: judges the finished sum, once.
        """
        committee = task.loss
        assert isinstance(committee, Committee)
        if committee.weights == "fitted":
            _check_enough_for_weights(task)
        members = _members(committee, task)
        # After each round another monitor judges the members' sum: it decides when they stop.
        settings_of_rounds = dataclasses.replace(settings, callbacks=(), eval_train=False)
        monitor_of_rounds = TrainingMonitor(task, settings_of_rounds)
        progress = monitor.take_progress()
        models = self._train_members(members, task, settings, progress, monitor_of_rounds)

        # Factors bring the members' scores to the same spread, times the weight of each member. In
        # the sum, leaves are rounded so that float32 adds them up exactly.
        factors = member_factors(models, task, committee.weights)
        summed_model = exact_in_float32(weighted_sum(models, factors))

        def scores_of_sum(part: Part) -> F64:
            return scores_of(summed_model, task.parts[part], settings.n_jobs)

        monitor.after_round(summed_model.n_trees, scores_of_sum)
        monitor.prepend_history(monitor_of_rounds.history)
        return summed_model

    def _train_members(
        self,
        members: Sequence[SeatedMember],
        task: Task,
        settings: Settings,
        progress: Progress,
        monitor: TrainingMonitor,
    ) -> list[FittedModel]:
        """Train the members of a committee in threads of their own, and return their models.

        With validation data, all members grow one tree, the monitor judges the sum of their scores,
        and then all grow the next tree or stop (`Lockstep`). Without it, or where trainings of a
        tool cannot run at the same time, each member is trained to its end by itself.
        """
        n_growing = min(settings.threads, len(members))
        tree_counter = _TreeCounter(progress, settings.n_estimators * len(members))
        settings = dataclasses.replace(
            settings,
            n_jobs=max(1, settings.threads // n_growing),
            verbose=0,
            callbacks=(*settings.callbacks, tree_counter),
        )
        engines = [engine_of_member(self._engine, member.loss) for member in members]
        can_overlap = not any(engine.one_at_a_time for engine in engines)

        lockstep = None
        n_threads = n_growing
        if task.valid is not None and can_overlap:
            lockstep = Lockstep(len(members), _stop_rule_of_sum(task, monitor), n_growing)
            # Each member needs a thread to wait in, also where fewer may grow at a time.
            n_threads = len(members)

        task = dataclasses.replace(task, bins=task.bins or Bins(), bin_seed=settings.seed)
        task_without_lists = _without_list_features(task)
        with ThreadPoolExecutor(n_threads) as pool:
            trainings = []
            for member, engine in zip(members, engines, strict=True):
                member_task = task if member.sees_lists else task_without_lists
                member_task = dataclasses.replace(member_task, loss=member.loss)
                member_settings = self.member_settings(member, settings, task.train.n_documents)
                training = pool.submit(
                    _train_member, member.number, engine, member_task, member_settings, lockstep
                )
                trainings.append(training)
            try:
                return [training.result() for training in trainings]
            except BaseException:
                tree_counter.stop_all.set()
                raise

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return parameters under the names that the engine of the members has for them.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.
        """
        return engine_named(self._engine).translate_parameters(parameters, fixed)

    def member_settings(
        self, member: SeatedMember, settings: Settings, n_documents: int
    ) -> Settings:
        """Return the training settings of one member of a committee, such that members differ.

        Every member has a seed of its own and learns from a random share of the queries and of the
        features; its thresholds are drawn at random, in trees with more leaves. Sampling that the
        user has set, or that the member's engine cannot do, is left alone.

        Args:
            member: its number, its loss, and whether it sees the list features.
            settings: the settings of the committee.
            n_documents: number of training documents.
        """
        seed = (settings.seed + member.number * _SEED_STEP) % 2**31
        engine = engine_of_member(self._engine, member.loss)
        # The parameters of the committee's engine mean nothing to members of other tools.
        extra = dict(settings.extra) if engine.name == self._engine else {}
        bagging = None
        num_leaves = settings.num_leaves
        if engine.may_sample("rows", extra):
            if isinstance(member.loss, Loss):
                bagging = QueryBagging(_QUERY_SHARE, 1, seed)
            elif not engine.supports_fast or settings.speed != "fast":
                # A fast training would add up other documents (LightGBM#7397).
                extra |= engine.translate_parameters({"subsample": _QUERY_SHARE}, extra)
        if engine.may_sample("features", extra):
            extra |= engine.translate_parameters({"colsample_bytree": _FEATURE_SHARE}, extra)
        if engine.may_sample("thresholds", extra) and not member.sees_lists:
            extra |= dict.fromkeys(engine.sampling["thresholds"], True)
            worthwhile_leaves = max(num_leaves, n_documents // _DOCUMENTS_PER_LEAF)
            num_leaves = min(worthwhile_leaves, _MOST_TIMES_LEAVES * num_leaves)
        return dataclasses.replace(
            settings, seed=seed, extra=extra, bagging=bagging, num_leaves=num_leaves
        )


class _TreeCounter:
    """A callback that counts the trees of all members for one bar, and may stop all of them.

    Args:
        progress: shows how many trees there are.
        n_trees: the most trees of all members.
    """

    def __init__(self, progress: Progress, n_trees: int) -> None:
        self._progress = progress
        self._n_trees = n_trees
        self._n_grown = 0
        self._lock = threading.Lock()
        self.stop_all = threading.Event()
        """Set when a member has failed: those still training end with their next tree."""

    def __call__(self, _: Step) -> bool:
        with self._lock:
            self._n_grown += 1
            self._progress.update(self._n_grown, self._n_trees, "")
        return self.stop_all.is_set()


def _check_enough_for_weights(task: Task) -> None:
    """Refuse weights that are to be fitted to too few validation queries; the first validation set
    counts.
    """
    # The members of a committee are added up with weights, fitted to the first validation set.
    validation_sets = [*task.validation_sets().values()]
    n_queries = 0
    if validation_sets:
        n_queries = validation_sets[0].data.n_queries
    if n_queries < _FEWEST_FOR_WEIGHTS:
        raise OptionError(
            f"weights: found {counted(n_queries, 'validation query')}; expected at least "
            f"{_FEWEST_FOR_WEIGHTS} to fit weights to, or weights=equal"
        )


def _members(committee: Committee, task: Task) -> list[SeatedMember]:
    """Return the numbered members of a committee (a sum of models of several losses): every second
    one sees the list features, if there are any.

    List features are computed from all documents of a query; `own_columns` is None without them.
    """
    has_list_features = task.own_columns is not None
    members = []
    for number, loss in enumerate(committee.all_members):
        is_even = number % 2 == 0
        members.append(SeatedMember(number, loss, sees_lists=has_list_features and is_even))
    return members


def _train_member(
    number: int, engine: Engine, task: Task, settings: Settings, lockstep: Lockstep | None
) -> FittedModel:
    """Train the member of a committee with a number and return its model.

    A `Lockstep` makes members wait for each other after each tree, until their sum is judged: with
    one the member keeps all its trees; without one it is trained by itself.
    """
    if lockstep is None:
        model, _record = train_model(engine, task, settings)
        return model
    # What a member has grown is kept: alone it may be past its best, the sum rarely is.
    settings = dataclasses.replace(settings, early_stopping_rounds=None)
    return lockstep.train(number, engine, task, settings)


def _without_list_features(task: Task) -> Task:
    """Return a task whose training and validation data have only the user's own feature columns.

    List features are computed from all documents of a query, and stand in the columns after those.
    """
    n_columns = task.own_columns  # number of the user's own columns
    if n_columns is None:  # there are no list features
        return task

    def with_own_columns(data: RankingData) -> RankingData:
        """Return data with the first `n_columns` feature columns, the user's own."""
        names = data.feature_names
        if names is not None:
            names = names[:n_columns]
        # A copy in a block of memory of its own.
        own_features = data.X[:, :n_columns].copy()
        return dataclasses.replace(data, X=own_features, feature_names=names)

    valid = None
    if task.valid is not None:
        valid = with_own_columns(task.valid)
    return dataclasses.replace(task, train=with_own_columns(task.train), valid=valid)


def _stop_rule_of_sum(task: Task, monitor: TrainingMonitor) -> Callable[[list[Array]], bool]:
    """Return a function that says whether a committee should stop training.

    The function takes each member's scores of the validation documents, divides them by their
    spread within queries, and has the monitor judge their sum.
    """
    # The spread is measured on the first validation set, which decides when to stop.
    deciding_set = next(iter(task.validation_sets().values()))

    def stop_rule(scores_of_members: list[Array]) -> bool:
        """Return whether the members should stop, from each one's scores of the validation data."""
        scaled_scores = []
        for scores in scores_of_members:
            factor = inverse_spread(scores[deciding_set.documents], deciding_set.data)
            scaled_scores.append(scores * factor)
        summed_scores = np.sum(scaled_scores, axis=0)
        # Only the scores are judged: the number of trees is of no use here, and 0 stands for it.
        return monitor.after_round(0, lambda _part: summed_scores)

    return stop_rule
