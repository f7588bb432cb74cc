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
import itertools
import json
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64
from tautrank.data import RankingData
from tautrank.engines.base import SelfTrainingEngine
from tautrank.engines.binned import Bins
from tautrank.engines.lockstep import Lockstep
from tautrank.engines.model import FittedModel, scaled, shares
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import DEFAULT_ENGINE
from tautrank.engines.registry import engine_named, engine_of_member
from tautrank.engines.task import Committee, Member, NativeLoss, QueryBagging, Settings, Step, Task
from tautrank.engines.training import train_model
from tautrank.engines.trees import Tree, exact_unit
from tautrank.errors import DataError, OptionError, counted
from tautrank.losses.base import Loss
from tautrank.metrics import Metric

# What each member learns from, unless the user says otherwise: enough to make members differ, and
# to be as good alone.
_QUERY_SHARE = 0.8
_FEATURE_SHARE = 0.8
# A tree of random thresholds needs more leaves where there is more to learn from: one per so many
# training documents, up to so many times as many as asked for.
_DOCUMENTS_PER_LEAF = 2_000
_MOST_LEAVES = 4
# Documents that the spread of a member's scores is measured on: one number for the whole data.
_MEASURED_QUERIES = 2_000
# Fewer validation queries than this would fit weights to noise.
_FEWEST_FOR_WEIGHTS = 500
_SEED_STEP = 1_000_003
# Leaves are rounded to multiples of at most this much; the scores of a committee differ by about 1
# within queries.
_COARSEST = 2.0**-17


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
            settings: how; for each member.
            monitor: judges the sum, once.
        """
        committee = task.loss
        assert isinstance(committee, Committee)
        losses = committee.all_members
        found = next((data.n_queries for data, _ in task.validation_sets().values()), 0)
        if committee.weights == "fitted" and found < _FEWEST_FOR_WEIGHTS:
            expected = (
                f"expected at least {_FEWEST_FOR_WEIGHTS} to fit weights to, or weights=equal"
            )
            raise OptionError(f"weights: found {counted(found, 'validation query')}; {expected}")
        side_by_side = min(settings.threads, len(losses))
        done, one_by_one, failed = itertools.count(1), threading.Lock(), threading.Event()

        progress, n_trees = monitor.take_progress(), settings.n_estimators * len(losses)

        def count_tree(_: Step) -> bool:
            """Count the trees of all members for one bar; members end when another has failed."""
            with one_by_one:
                progress.update(next(done), n_trees, "")
            return failed.is_set()

        called, threads = (
            (*settings.callbacks, count_tree),
            max(1, settings.threads // side_by_side),
        )
        settings = dataclasses.replace(settings, n_jobs=threads, verbose=0, callbacks=called)
        bins = task.bins or Bins()
        without_lists = _own_columns(task)
        lockstep, of_sum = (
            None,
            TrainingMonitor(task, dataclasses.replace(settings, callbacks=(), eval_train=False)),
        )
        take_turns = any(engine_of_member(self._engine, loss).one_at_a_time for loss in losses)
        if task.valid is not None and not take_turns:
            lockstep = Lockstep(len(losses), _judge_of_sum(task, of_sum), side_by_side)
        trained = []
        with ThreadPoolExecutor(side_by_side if lockstep is None else len(losses)) as pool:
            for number, loss in enumerate(losses):
                sees_lists = task.own_columns is not None and number % 2 == 0
                seen = task if sees_lists else without_lists
                member = dataclasses.replace(seen, loss=loss, bins=bins, bin_seed=settings.seed)
                own = self._own_settings(number, loss, settings, task.train.n_documents, sees_lists)
                trained.append(pool.submit(self._member, number, member, own, lockstep))
            try:
                models = [future.result() for future in trained]
            except BaseException:
                failed.set()  # members that are still training end with their next tree
                raise
        factors = member_factors(models, task, committee.weights)
        total = exact_in_float32(weighted_sum(models, factors))
        monitor.after_round(
            total.n_trees, lambda part: scores_of(total, task.parts[part], settings.n_jobs)
        )
        monitor.prepend_history(of_sum.history)
        return total

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Rename parameters as the engine of the members does.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.
        """
        return engine_named(self._engine).translate_parameters(parameters, fixed)

    def _own_settings(
        self,
        number: int,
        loss: Member,
        settings: Settings,
        documents: int,
        sees_lists: bool = False,
    ) -> Settings:
        seed = (settings.seed + number * _SEED_STEP) % 2**31
        engine = engine_of_member(self._engine, loss)
        # The parameters of the committee's engine mean nothing to members of other tools.
        extra, bagging = dict(settings.extra) if engine.name == self._engine else {}, None
        if engine.may_sample("rows", extra):
            if isinstance(loss, Loss):
                bagging = QueryBagging(_QUERY_SHARE, 1, seed)
            elif not (
                engine.supports_fast and settings.speed == "fast"
            ):  # it would add up other documents (LightGBM#7397)
                extra |= engine.translate_parameters({"subsample": _QUERY_SHARE}, extra)
        if engine.may_sample("features", extra):
            extra |= engine.translate_parameters({"colsample_bytree": _FEATURE_SHARE}, extra)
        if engine.may_sample("thresholds", extra) and not sees_lists:
            extra |= dict.fromkeys(engine.sampling["thresholds"], True)
            few = settings.num_leaves
            leaves = min(max(few, documents // _DOCUMENTS_PER_LEAF), _MOST_LEAVES * few)
            settings = dataclasses.replace(settings, num_leaves=leaves)
        return dataclasses.replace(settings, seed=seed, extra=extra, bagging=bagging)

    def _member(
        self, number: int, task: Task, settings: Settings, lockstep: Lockstep | None
    ) -> FittedModel:
        assert isinstance(task.loss, Loss | NativeLoss)
        engine = engine_of_member(self._engine, task.loss)
        if lockstep is None:
            return train_model(engine, task, settings)[0]
        # What a member has grown is kept: alone it may be past its best, the sum rarely is.
        return lockstep.train(
            number, engine, task, dataclasses.replace(settings, early_stopping_rounds=None)
        )


def _own_columns(task: Task) -> Task:
    """Return the task without the list features; the task as it is if there are none."""
    if task.own_columns is None:
        return task

    def own(data: RankingData) -> RankingData:
        names = data.feature_names and data.feature_names[: task.own_columns]
        return dataclasses.replace(
            data, X=data.X[:, : task.own_columns].copy(), feature_names=names
        )

    return dataclasses.replace(
        task, train=own(task.train), valid=None if task.valid is None else own(task.valid)
    )


def _judge_of_sum(task: Task, monitor: TrainingMonitor) -> Callable[[list[NDArray[Any]]], bool]:
    """Return what says from the validation scores of the members whether their sum has stopped
    improving.
    """
    valid, documents = next(iter(task.validation_sets().values()))

    def judge(scores: list[NDArray[Any]]) -> bool:
        scaled = [each * _inverse_spread(each[documents], valid) for each in scores]
        return monitor.after_round(0, lambda part: np.sum(scaled, axis=0))

    return judge


def member_factors(models: Sequence[FittedModel], task: Task, weights: str = "equal") -> F64:
    """Return what each member's scores are multiplied by: its weight over the spread of its scores
    within queries.

    Args:
        models: the members.
        task: training data to measure the spread on, validation data to fit weights to, and the
            metric.
        weights: as in `Committee`.
    """
    some, last = task.train, task.train.n_queries - 1
    if last >= _MEASURED_QUERIES:
        some = some.subset(np.linspace(0, last, _MEASURED_QUERIES).astype(np.int64))
    inverse: F64 = np.array([_inverse_spread(scores_of(model, some), some) for model in models])
    if weights == "fitted":
        valid, _ = next(iter(task.validation_sets().values()))
        scores = np.array([scores_of(model, valid) for model in models]) * inverse[:, np.newaxis]
        inverse = inverse * _fitted_weights(scores, task.metric, valid)
    return inverse / max(int(np.count_nonzero(inverse)), 1)


def scores_of(model: FittedModel, data: RankingData, n_jobs: int | None = None) -> F64:
    """Return the scores of a model for whole lists.

    Args:
        model: the model.
        data: the lists.
        n_jobs: threads.
    """
    return model.predict(columns_of(data.X, model), n_jobs, data.offsets)


def columns_of(X: Any, model: FittedModel) -> Any:
    """Return the columns that a model has seen: a member of a committee may not know the list
    features.

    Args:
        X: features.
        model: the model.
    """
    return X if X.shape[1] == model.n_features else X[:, : model.n_features]


def _inverse_spread(scores: F64, data: RankingData) -> float:
    """1 over the root of the mean variance of the scores within queries; 0 for a member without a
    split.
    """
    sizes = np.maximum(data.sizes, 1)
    sums = np.add.reduceat(np.append(scores, 0.0), data.offsets[:-1]) * (data.sizes > 0)
    centred = scores - np.repeat(sums / sizes, data.sizes)
    spread = math.sqrt(float(np.mean(centred**2))) if scores.size else 0.0
    # Rounding alone makes no spread.
    return 1.0 / spread if spread > 1e-12 * float(np.abs(scores).max(initial=0.0)) else 0.0


def _fitted_weights(scores: F64, metric: Metric, valid: RankingData) -> F64:
    """Weights that raise the metric on the validation data, one member at a time, until none
    does.
    """
    judge, sign = metric.bind(valid), metric.sign
    weights: F64 = np.ones(scores.shape[0])
    best = sign * judge.mean(weights @ scores)
    improved = True
    while improved:
        improved = False
        for member in range(weights.size):
            for factor in (0.0, 0.5, 0.8, 1.25, 2.0):
                tried = weights.copy()
                tried[member] *= factor
                value = sign * judge.mean(tried @ scores) if tried.any() else -math.inf
                # A step must be worth more than rounding, or the search would not end.
                if value > best + 1e-7:
                    weights, best, improved = tried, value, True
    return weights


def weighted_sum(models: Sequence[FittedModel], factors: Iterable[float]) -> FittedModel:
    """Return one model whose scores are the sum of the models' scores, each times its factor.

    Args:
        models: at least one.
        factors: one per model.
    """
    given = [float(factor) for factor in factors]
    kinds = {type(model) for model in models}
    if len(kinds) == 1:
        total = kinds.pop().weighted_sum(models, given)
        if total is not None:
            return total
    return SeveralModels(models, given)


def exact_in_float32(total: FittedModel) -> FittedModel:
    """Return the model with leaves rounded such that float32 adds them up exactly, in any order.

    Solr, Elasticsearch, OpenSearch and RankLib, which add leaves in float32, then give the same
    bits as `predict`. The model stays as it is where that would round too much, or where its trees
    are not its own.

    Args:
        total: a committee.
    """
    try:
        unit = exact_unit(total.trees())
    except OptionError:
        return total
    return total.rounded(unit) if unit <= _COARSEST else total


class SeveralModels(FittedModel):
    """A sum of models of several tools; kept in a file as one member that holds them all.

    Args:
        models: the models.
        factors: what the scores of each are multiplied by.
    """

    tool: ClassVar[str] = "committee"
    member: ClassVar[str] = "committee.bin"

    def __init__(self, models: Sequence[FittedModel], factors: Sequence[float]) -> None:
        self.models = tuple(models)
        self.factors = tuple(factors)
        self.n_features = max(model.n_features for model in models)
        self.n_trees = sum(model.n_trees for model in models)
        self.by_list = any(model.by_list for model in models)

    def _scores(self, X: Any, threads: int, offsets: Any = None) -> Any:
        total = np.zeros(X.shape[0])
        for model, factor in zip(self.models, self.factors, strict=True):
            total += factor * model.predict(columns_of(X, model), threads, offsets)
        return total

    def contributions(self, X: Any, n_jobs: int | None = None) -> F64:
        """Return the sum of the members' contributions, each times its factor.

        Args:
            X: as for `predict`.
            n_jobs: threads.
        """
        total: F64 = np.zeros((X.shape[0], self.n_features + 1))
        for model, factor in zip(self.models, self.factors, strict=True):
            part = factor * model.contributions(columns_of(X, model), n_jobs)
            total[:, : model.n_features] += part[:, :-1]
            total[:, -1] += part[:, -1]
        return scaled(total, self.scale)

    def importances(self) -> F64:
        """Return the mean share of each feature over the members."""
        total: F64 = np.zeros(self.n_features)
        for model in self.models:
            total[: model.n_features] += model.importances()
        return shares(total)

    def to_bytes(self) -> bytes:
        """Return a line of JSON that describes the members, and their own bytes."""
        contents = [model.to_bytes() for model in self.models]
        described = [
            {
                "tool": model.tool,
                "bytes": len(content),
                "scale": model.scale,
                "factor": factor,
                "features": model.n_features,
            }
            for model, content, factor in zip(self.models, contents, self.factors, strict=True)
        ]
        return json.dumps(described).encode() + b"\n" + b"".join(contents)

    @classmethod
    def from_bytes(cls, content: bytes, n_features: int) -> SeveralModels:
        """Read what `to_bytes` wrote.

        Args:
            content: the bytes.
            n_features: number of features of the data; a member that says nothing else must have as
                many.
        """
        head, _, rest = content.partition(b"\n")
        models, factors = [], []
        try:
            for described in json.loads(head):
                size, width = int(described["bytes"]), int(described.get("features", n_features))
                if described["tool"] == cls.tool or not (
                    0 <= size <= len(rest) and 0 < width <= n_features
                ):
                    raise ValueError
                models.append(
                    engine_named(described["tool"]).model_class.read(
                        rest[:size], width, float(described["scale"])
                    )
                )
                factors.append(float(described["factor"]))
                rest = rest[size:]
        except (ValueError, KeyError, TypeError):
            raise DataError("found something else than the members of a committee") from None
        if not models:
            raise DataError("found a committee without members")
        return cls(models, factors)

    @classmethod
    def read(cls, content: bytes, n_features: int, scale: float = 1.0) -> FittedModel:
        """Read what `to_bytes` wrote; each member checks its own bytes and features.

        Args:
            content: the bytes.
            n_features: number of features of the data.
            scale: what the scores are multiplied by.
        """
        model = cls.from_bytes(content, n_features)
        model.scale = scale
        return model

    def rounded(self, unit: float) -> FittedModel:
        """Return the sum of members whose leaves, times their factors, are multiples of a number.

        Args:
            unit: the number.
        """
        scaled = [
            type(model).weighted_sum([model], [factor])
            for model, factor in zip(self.models, self.factors, strict=True)
        ]
        rounded = [model.rounded(unit) for model in scaled if model is not None]
        return SeveralModels(rounded, [1.0] * len(rounded)) if len(rounded) == len(scaled) else self

    def trees(self) -> list[Tree]:
        """Return the trees of all members as plain arrays, scaled."""
        return [
            tree.times(factor * self.scale)
            for model, factor in zip(self.models, self.factors, strict=True)
            for tree in model.trees()
        ]

    def version(self) -> str:
        """Return the versions of the tools."""
        return ", ".join(sorted({f"{model.tool} {model.version()}" for model in self.models}))
