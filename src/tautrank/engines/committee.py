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

from tautrank.arrays import Array
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
from tautrank.engines.task import Committee, Member, QueryBagging, Settings, Step, Task
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
        """Train all members, side by side as far as the threads go, and add them up.

        Args:
            task: what to learn from what.
            settings: how to train each member.
            monitor: judges the sum, once.
        """
        committee = task.loss
        assert isinstance(committee, Committee)
        if committee.weights == "fitted":
            _check_enough_for_weights(task)
        members = _members(committee, task)
        monitor_of_rounds = TrainingMonitor(
            task, dataclasses.replace(settings, callbacks=(), eval_train=False)
        )

        models = self._trained(members, task, settings, monitor.take_progress(), monitor_of_rounds)
        factors = member_factors(models, task, committee.weights)
        total = exact_in_float32(weighted_sum(models, factors))
        monitor.after_round(
            total.n_trees, lambda part: scores_of(total, task.parts[part], settings.n_jobs)
        )
        monitor.prepend_history(monitor_of_rounds.history)
        return total

    def _trained(
        self,
        members: Sequence[SeatedMember],
        task: Task,
        settings: Settings,
        progress: Progress,
        monitor: TrainingMonitor,
    ) -> list[FittedModel]:
        """Return the models of the members; the monitor judges their sum after each round."""
        n_side_by_side = min(settings.threads, len(members))
        counter = _TreeCounter(progress, settings.n_estimators * len(members))
        settings = dataclasses.replace(
            settings,
            n_jobs=max(1, settings.threads // n_side_by_side),
            verbose=0,
            callbacks=(*settings.callbacks, counter),
        )
        engines = [engine_of_member(self._engine, member.loss) for member in members]
        take_turns = any(engine.one_at_a_time for engine in engines)
        lockstep = None
        if task.valid is not None and not take_turns:
            lockstep = Lockstep(len(members), _stop_rule_of_sum(task, monitor), n_side_by_side)

        task = dataclasses.replace(task, bins=task.bins or Bins(), bin_seed=settings.seed)
        task_without_lists = _without_list_features(task)
        # In lockstep all have begun, and wait for their turn.
        with ThreadPoolExecutor(len(members) if lockstep else n_side_by_side) as pool:
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
                counter.stop_all.set()
                raise

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Rename parameters as the engine of the members does.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.
        """
        return engine_named(self._engine).translate_parameters(parameters, fixed)

    def member_settings(
        self, member: SeatedMember, settings: Settings, n_documents: int
    ) -> Settings:
        """Return the settings of a member: a seed of its own, and what it does not learn from,
        unless the user has said so.

        Args:
            member: the member.
            settings: those of the committee.
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
    """Refuse to fit weights to few validation queries."""
    sets = [*task.validation_sets().values()]
    n_queries = sets[0].data.n_queries if sets else 0
    if n_queries < _FEWEST_FOR_WEIGHTS:
        raise OptionError(
            f"weights: found {counted(n_queries, 'validation query')}; expected at least "
            f"{_FEWEST_FOR_WEIGHTS} to fit weights to, or weights=equal"
        )


def _members(committee: Committee, task: Task) -> list[SeatedMember]:
    """Return the members: every second one sees the list features, if there are any."""
    has_list_features = task.own_columns is not None
    return [
        SeatedMember(number, loss, has_list_features and number % 2 == 0)
        for number, loss in enumerate(committee.all_members)
    ]


def _train_member(
    number: int, engine: Engine, task: Task, settings: Settings, lockstep: Lockstep | None
) -> FittedModel:
    """Train one member, alone or in step with the others."""
    if lockstep is None:
        model, _ = train_model(engine, task, settings)
        return model
    # What a member has grown is kept: alone it may be past its best, the sum rarely is.
    settings = dataclasses.replace(settings, early_stopping_rounds=None)
    return lockstep.train(number, engine, task, settings)


def _without_list_features(task: Task) -> Task:
    """Return the task without the list features; the task as it is if there are none."""
    n_columns = task.own_columns
    if n_columns is None:
        return task

    def narrowed(data: RankingData) -> RankingData:
        names = data.feature_names and data.feature_names[:n_columns]
        return dataclasses.replace(data, X=data.X[:, :n_columns].copy(), feature_names=names)

    valid = None if task.valid is None else narrowed(task.valid)
    return dataclasses.replace(task, train=narrowed(task.train), valid=valid)


def _stop_rule_of_sum(task: Task, monitor: TrainingMonitor) -> Callable[[list[Array]], bool]:
    """Return what says from the validation scores of the members whether their sum has stopped
    improving.
    """
    deciding_set = next(iter(task.validation_sets().values()))

    def stop_rule(scores_of_members: list[Array]) -> bool:
        scaled_scores = []
        for scores in scores_of_members:
            spread = inverse_spread(scores[deciding_set.documents], deciding_set.data)
            scaled_scores.append(scores * spread)
        total = np.sum(scaled_scores, axis=0)
        return monitor.after_round(0, lambda _: total)

    return stop_rule
