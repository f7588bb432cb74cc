"""The one loop all engines share, and everything that happens around a tree: gradients before it, judgement after."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import place
from tautrank.data import RankingData
from tautrank.engines.base import F64, FittedModel, History, Record, Settings, Step, Task
from tautrank.engines.exact_sums import round_to_grid
from tautrank.engines.langevin import GradientNoise, Shrunk
from tautrank.engines.native_loss import NativeLoss
from tautrank.engines.progress import Progress
from tautrank.errors import DataError, OptionError, TautrankWarning
from tautrank.losses.base import Loss

F32 = NDArray[np.float32]


class Grower(Protocol):
    """What an engine brings to the loop: it grows one tree at a time, and knows the scores so far."""

    def grow(self, step: int) -> None:
        """Add the tree of this step."""

    def n_trees(self) -> int:
        """Trees so far, those of the model it started from included."""

    def train_scores(self) -> NDArray[Any]:
        """The current score of each training document."""

    def valid_scores(self) -> NDArray[Any]:
        """The current score of each validation document."""

    def finish(self, n_trees: int, steps: int) -> tuple[FittedModel, Shrunk | None]:
        """The first ``n_trees`` trees, as the model was after ``steps`` steps, and what it remembers if it shrank."""


def boost(begin: Callable[[Task, Settings], Grower], task: Task, settings: Settings) -> tuple[FittedModel, Record]:
    """Grow trees until there are enough, or the validation metric has stopped improving, or a callback says so.

    Args:
        begin: makes the engine's side.
        task: what to learn.
        settings: how.
    """
    if settings.langevin is not None and isinstance(task.loss, NativeLoss):
        raise OptionError(
            f"langevin: the gradients of {task.loss} are out of reach; expected a loss of this library, or one of "
            "CatBoost's, which has Langevin boosting of its own"
        )
    grower = begin(task, settings)
    with Watch(task, settings) as watch:
        for step in range(task.start_step, task.start_step + settings.n_estimators):
            grower.grow(step)
            if watch.judge(grower.n_trees(), grower.train_scores, grower.valid_scores):
                break
    model, shrunk = grower.finish(watch.trees_to_keep, watch.steps_to_keep)
    warn_if_constant(model, task)
    return model, watch.record(shrunk)


def warn_if_constant(model: FittedModel, task: Task) -> None:
    """Say so when a model has learnt nothing: it is usable, but hardly what was meant.

    Args:
        model: what was fitted.
        task: what it was fitted to.
    """
    if not model.importances().any():
        warnings.warn(
            f"loss {task.loss}: no tree could be split, so every document gets the same score; expected queries with "
            "unlike labels, features that vary, and more documents than a leaf must hold (min_data_in_leaf)",
            TautrankWarning,
            stacklevel=2,
        )


class Gradients:
    """The gradients of a loss as an engine takes them: from its scores to checked float32 arrays with exact sums.

    The noise of Langevin boosting is added to every gradient before it is rounded. No NaN passes: the sentence names
    the loss, the query and the tree. The arrays are reused by the next call.

    Args:
        task: its loss is one of this library.
        settings: seed, threads and noise.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        if not isinstance(task.loss, Loss):
            raise TypeError(f"{task.loss} has no gradients here")
        data = task.train
        self._loss = task.loss
        self._data = data
        more = {} if task.propensities is None else {"propensities": task.propensities}
        self._objective = task.loss.bind(
            data.labels, data.offsets, weights=task.weights, seed=settings.seed, n_jobs=settings.threads, **more
        )
        of_training = (settings.learning_rate, data.offsets, settings.seed, settings.threads)
        self._noise = None if settings.langevin is None else GradientNoise(settings.langevin, *of_training)
        self._scores = np.empty(data.n_documents, np.float32)
        self._grad = np.empty_like(self._scores)
        self._hess = np.empty_like(self._scores)

    def __call__(self, scores: NDArray[Any], step: int) -> tuple[F32, F32]:
        """Gradient and hessian at ``scores``.

        Args:
            scores: one a training document.
            step: the number of the tree.
        """
        with np.errstate(over="ignore"):  # a score beyond float32 becomes infinite, which is reported
            np.copyto(self._scores, scores, casting="same_kind")
        _check_bounded(self._scores, self._loss)
        grad, hess = self._objective.gradients(self._scores, step)
        self._take("gradient", grad, step, self._noise, self._grad)
        self._take("hessian", hess, step, None, self._hess)
        return self._grad, self._hess

    def _take(self, kind: str, values: Any, step: int, noise: GradientNoise | None, out: F32) -> None:
        array = np.asarray(values)
        if array.shape != out.shape:
            raise DataError(
                f"loss {self._loss}: the {kind} has the shape {array.shape}; expected {out.shape}, one a document"
            )
        with np.errstate(over="ignore"):
            single = array.astype(np.float32, copy=False)
        if noise is not None:
            single = noise.added_to(single, step)
        low, high = (float(single.min()), float(single.max())) if single.size else (0.0, 0.0)
        if not (-math.inf < low and high < math.inf):
            at = int(np.argmax(~np.isfinite(single)))
            query, document = place(self._data.offsets, at)
            raise DataError(
                f"loss {self._loss}: the {kind} of query {self._data.qids[query]} is {array[at]:g} at its document "
                f"{document}, before tree {step}; expected finite numbers"
            )
        round_to_grid(single, max(-low, high), out)


def _check_bounded(scores: NDArray[Any], loss: object) -> None:
    """A leaf whose hessians are near 0 may be given a value beyond all bounds; what comes after makes no sense."""
    if scores.size and not (-math.inf < scores.min() and scores.max() < math.inf):
        raise DataError(
            f"loss {loss}: the training diverges, scores have grown to infinity; expected scores that stay finite (by "
            "a smaller learning_rate, or larger min_sum_hessian_in_leaf, min_data_in_leaf or lambda_l2)"
        )


class Watch:
    """Judges each tree with the metric, keeps the history, and says when to stop.

    Args:
        task: what is being learnt.
        settings: early stopping, callbacks, progress.
    """

    def __init__(self, task: Task, settings: Settings) -> None:
        self._task = task
        self._settings = settings
        self._name = str(task.metric)
        self._sign = 1.0 if task.metric.higher_is_better else -1.0
        parts = {"train": task.train if settings.eval_train else None, "valid": task.valid}
        self._judges = {
            name: task.metric.bind(part.labels, part.offsets) for name, part in parts.items() if part is not None
        }
        self._check_early_stopping()
        self.history: History = {part: {self._name: []} for part in self._judges}
        self._trees: list[int] = []
        self._best = 0
        self._best_value = -math.inf
        self._progress = Progress(str(task.loss), settings.n_estimators, settings.verbose)
        self._began = time.perf_counter()

    def __enter__(self) -> Watch:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.__exit__(*error)

    def judge(
        self, n_trees: int, train_scores: Callable[[], NDArray[Any]], valid_scores: Callable[[], NDArray[Any]]
    ) -> bool:
        """Take note of one more step; True if training should stop.

        Args:
            n_trees: trees so far (a step may add none).
            train_scores: called if the training data is judged.
            valid_scores: called if there is validation data.
        """
        train = self._value("train", train_scores)
        valid = self._value("valid", valid_scores)
        index = len(self._trees)
        self._trees.append(n_trees)
        if valid is None:
            self._best = index
        elif self._sign * valid > self._best_value:
            self._best, self._best_value = index, self._sign * valid
        shown = valid if valid is not None else train
        self._progress.update(index + 1, "" if shown is None else f"{self._name} {shown:.4f}")
        stop = False
        start = self._task.start_step
        for callback in self._settings.callbacks:
            seconds = time.perf_counter() - self._began
            answer = callback(Step(start + index, train, valid, start + self._best, seconds, self.history))
            stop = stop or (isinstance(answer, bool | np.bool_) and bool(answer))
        rounds = self._settings.early_stopping_rounds
        return stop or (rounds is not None and index - self._best >= rounds)

    @property
    def trees_to_keep(self) -> int:
        """All trees, or those up to the best validation value where training may stop early."""
        return self._trees[self._last]

    @property
    def steps_to_keep(self) -> int:
        """How many steps those trees took, from the first of all."""
        return self._task.start_step + self._last + 1

    def record(self, shrunk: Shrunk | None = None) -> Record:
        """What happened, once training has ended.

        Args:
            shrunk: what the model remembers, if it shrank.
        """
        best = self.history["valid"][self._name][self._best] if "valid" in self.history else None
        return Record(self.history, self._trees[self._best], best, self.steps_to_keep, shrunk)

    @property
    def _last(self) -> int:
        return self._best if self._settings.early_stopping_rounds is not None else len(self._trees) - 1

    def _value(self, part: str, scores: Callable[[], NDArray[Any]]) -> float | None:
        if part not in self._judges:
            return None
        found = scores()
        _check_bounded(found, self._task.loss)
        value = self._judges[part].mean(found)
        self.history[part][self._name].append(value)
        return value

    def _check_early_stopping(self) -> None:
        if self._settings.early_stopping_rounds is None or self._task.valid is None:
            return
        if math.isnan(self._judges["valid"].mean(np.zeros(self._task.valid.n_documents))):
            raise DataError(
                f"eval_set: {self._name} skips every one of its {self._task.valid.n_queries} queries, so training "
                "cannot stop by it; expected a query with a relevant document"
            )


def document_weights(data: RankingData, weights: F64 | None) -> F64 | None:
    """The weight of each document's query, for tools that take weights by document.

    Args:
        data: the documents.
        weights: one a query, or None.
    """
    return None if weights is None else np.repeat(weights, data.sizes)
