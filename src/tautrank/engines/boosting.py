"""The one loop of all engines, and what happens around a round: gradients before it, the metric and
progress after it.

Progress is shown on standard error: a bar on a terminal, a few lines elsewhere if asked for.
"""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tautrank.arrays import F32, F64, Array, Bools, place
from tautrank.data import RankingData, StreamedRows
from tautrank.data.distributed import DistributedData
from tautrank.engines.base import (
    Engine,
    FittedModel,
    History,
    Part,
    Record,
    Settings,
    Step,
    Task,
    scaled,
)
from tautrank.engines.binned import shared_bins
from tautrank.engines.langevin import Refilled, leaf_values, with_noise
from tautrank.engines.registry import DEFAULT_ENGINE, OPENMP, NativeLoss
from tautrank.errors import DataError, OptionError, TautrankWarning, refuse
from tautrank.losses.base import Loss
from tautrank.metrics.base import BoundMetric

# Leaves of the engine grow as the scale of the model falls; this ratio is still far from where
# doubles end.
_SMALLEST_SCALE = 2.0**-800
_EXACT_BITS = 52
# A thread with fewer values than this to count saves less time than waking it takes.
_VALUES_PER_THREAD = 1_000_000
# Beyond this a float32 power of two overflows; gradients below 2^-68 are as good as zero.
_LARGEST_SHIFT = 100


Show: TypeAlias = Callable[[int, str], None]
"""Called with the number of trees so far and the value of the metric."""
After: TypeAlias = Callable[[Array], bool]
"""Called with scores; training stops when it returns True."""


def silent(done: int, value: str) -> None:
    """Show nothing."""


@contextmanager
def show_progress(label: str, total: int, verbose: int | None) -> Iterator[Show]:
    """Show how many trees there are, the value of the metric, and the time left.

    Args:
        label: name of what is trained.
        total: maximum number of trees.
        verbose: 0 (or less) for silence, 1 for progress, None for a bar if standard error is a
            terminal or this is a notebook.
    """
    asked = None if verbose is None else verbose > 0  # -1 is silence in LightGBM
    terminal = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    # The workers of a process pool share one terminal: their bars would overwrite each other.
    in_main = multiprocessing.current_process().name == "MainProcess"
    if terminal and (in_main if asked is None else asked):
        yield from _bar(label, total)
    elif asked and not terminal:
        yield _lines(label, total)
    else:
        yield silent


def _bar(label: str, total: int) -> Iterator[Show]:
    from rich.console import Console
    from rich.errors import LiveError
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        "{task.fields[value]}",
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    row = bar.add_task(label, total=total, value="")
    with suppress(LiveError):  # another bar is being drawn already
        bar.start()
    try:
        yield lambda done, value: bar.update(row, completed=done, value=value)
    finally:
        bar.stop()


def _lines(label: str, total: int) -> Show:
    began = time.perf_counter()

    def show(done: int, value: str) -> None:
        if done == total or done % max(1, total // 10) == 0:
            left = (time.perf_counter() - began) / done * (total - done)
            text = f"{label}: {done}/{total} trees{', ' * bool(value)}{value}, {left:.0f} s left"
            print(text, file=sys.stderr, flush=True)

    return show


class CutShortError(DataError):
    """A training cannot go on; what it has grown so far is kept."""


def fit(engine: Engine, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
    """Train, show the progress, and warn if nothing was learnt.

    Args:
        engine: what grows the model.
        task: what to learn from what.
        settings: how.
    """
    refuse(engine.wrong_names(task.loss, settings.extra))
    if settings.refit:
        from tautrank.engines.cross_validation import pooled

        task = pooled(task)
    if settings.speed == "fast" and (not engine.has_fast or settings.langevin is not None):
        found = "langevin" if engine.has_fast else engine.written
        raise OptionError(
            f"speed: found 'fast' with {found}; expected 'exact', or LightGBM without langevin"
        )
    if isinstance(task.train.X, StreamedRows) and (
        settings.langevin is not None or isinstance(task.loss, NativeLoss)
    ):
        what = f"loss {task.loss}" if isinstance(task.loss, NativeLoss) else "langevin"
        raise OptionError(
            f"{what}: needs features in memory; expected a loss of this library without langevin"
        )
    task = dataclasses.replace(task, bins=shared_bins())
    if settings.n_jobs is None and engine.name in OPENMP:
        worth = max(1, task.train.n_documents * task.train.n_features // _VALUES_PER_THREAD)
        settings = dataclasses.replace(settings, n_jobs=min(settings.threads, worth))
    with show_progress(
        str(task.loss), engine.most_rounds(task, settings), settings.verbose
    ) as show:
        model, record = train_model(engine, task, settings, show)
    if not model.importances().any():
        found = f"loss {task.loss}: no tree could be split, so every document gets the same score"
        needed = "different labels, features that vary, and more documents than a leaf must hold (min_data_in_leaf)"
        warnings.warn(f"{found}; expected queries with {needed}", TautrankWarning, stacklevel=2)
    return model, record


def train_model(
    engine: Engine, task: Task, settings: Settings, show: Show = silent
) -> tuple[FittedModel, Record]:
    """Train one model, or choose its number of trees by cross-validation and train it on all
    queries.

    Args:
        engine: what grows the model; a committee refits its members.
        task: what to learn from what.
        settings: how.
        show: shows the progress of the training.
    """
    if settings.refit and engine.refits:
        from tautrank.engines.cross_validation import refitted

        return refitted(engine, task, settings, show)
    watch = Watch(task, settings, show)
    return engine.train(task, settings, watch), watch.record()


def boost(engine: Engine, task: Task, settings: Settings, watch: Watch) -> FittedModel:
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
        watch: judges each round.
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
    if isinstance(task.train, DistributedData):
        from tautrank.engines.distributed import ClusterLearner

        learner: Any = ClusterLearner(engine.name, task, settings)
    else:
        learner = engine.start(task, settings)
    if settings.langevin is not None and not hasattr(learner, "fill"):
        found = f"{engine.written} cannot fill the leaves of a tree again"
        raise OptionError(f"langevin: {found}; expected another engine, such as {DEFAULT_ENGINE}")
    # Where workers hold the documents, the learner has the gradients computed there.
    gradients: Any = getattr(learner, "gradients", None)
    if own_loss and gradients is None:
        gradients = Gradients(task, settings, settings.bagging or engine.query_bagging(settings))
    training = (
        learner if settings.langevin is None else Refilled(learner, task, gradients.leaf_values)
    )
    scales: list[float] = []
    for step in range(task.start_step, task.start_step + settings.n_estimators):
        at = None if gradients is None else partial(gradients, step=step, scale=scale)
        scale *= factor
        try:
            training.grow(at, settings.rate(step - task.start_step) / scale)
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
        if watch.judge(learner.rounds, training.scores, scale):
            break
    model: FittedModel = learner.model(watch.rounds_to_keep)
    model.scale = scales[watch.record().steps - task.start_step - 1]
    return model


@dataclasses.dataclass(frozen=True)
class QueryBagging:
    """Which queries a round learns from: a new draw without replacement every ``every`` rounds.

    All documents of a query are in or out together. A round is grown for gradients and hessians of
    0 in all other queries: they add nothing to any sum.

    Args:
        share: share of the queries that are drawn.
        every: number of rounds with the same queries.
        seed: seed of the draws, which depend on it and on the number of the round only.

    >>> half = QueryBagging(share=0.5, every=2, seed=0)
    >>> [half.drawn(6, step).nonzero()[0].tolist() for step in range(3)]
    [[2, 3, 5], [2, 3, 5], [1, 3, 4]]
    """

    share: float
    every: int
    seed: int

    def drawn(self, queries: int, step: int) -> Bools:
        """Return which queries the round learns from.

        Args:
            queries: number of queries.
            step: number of the round.
        """
        mask = np.zeros(queries, bool)
        order = np.random.default_rng((self.seed, step // self.every)).permutation(queries)
        mask[order[: max(1, round(self.share * queries))]] = True
        return mask


class Gradients:
    """The gradients of a loss as engines take them: checked float32 arrays with exact sums.

    The noise of Langevin boosting is added before they are rounded. NaN is refused in a sentence
    that names the loss, the query and the tree. The arrays are reused by the next call.

    Args:
        task: a task with a loss of this library.
        settings: seed, threads and noise.
        bagging: the queries to learn from; those of all others are 0.
    """

    def __init__(self, task: Task, settings: Settings, bagging: QueryBagging | None = None) -> None:
        assert isinstance(task.loss, Loss)
        data = task.train
        self._loss, self._data, self._settings, self._bagging = task.loss, data, settings, bagging
        lists, how = (data.labels, data.offsets, task.weights), (settings.seed, settings.threads)
        self._objective = task.loss.bind(*lists, *how, propensities=task.propensities)
        self._documents, self._queries = task.whole or (data.n_documents, data.n_queries)
        self._used: Bools | None = None  # all
        self._deviation = (
            settings.langevin.deviation(settings.learning_rate)
            if settings.langevin is not None
            else 0.0
        )
        self._scores, self._grad, self._hess = np.empty((3, data.n_documents), np.float32)
        self._plain = self._curvature = (
            self._grad
        )  # gradients without noise and hessians; of the last call

    def __call__(self, scores: Array, step: int, scale: float = 1.0) -> tuple[F32, F32]:
        """Return gradient and hessian.

        Args:
            scores: one per training document, as the engine has them.
            step: number of the tree.
            scale: factor from the engine's scores to the model's.
        """
        return self.rounded(*self.measured(scores, step, scale), step)

    def measured(self, scores: Array, step: int, scale: float = 1.0) -> tuple[float, float]:
        """Compute gradient and hessian, and return the largest absolute value of each; arguments as
        in a call.
        """
        self._step = step
        with np.errstate(
            over="ignore"
        ):  # a score beyond float32 becomes infinite, which is reported
            np.copyto(self._scores, scaled(scores, scale), casting="same_kind")
        _check_bounded(self._scores, self._loss)
        grad, hess = self._objective.gradients(self._scores, step)
        if self._bagging is not None:
            drawn = self._bagging.drawn(self._queries, step)[: self._data.n_queries]
            self._used = np.repeat(drawn, self._data.sizes)
        self._plain, largest = self._checked("gradient", grad, step)
        self._curvature, most = self._checked("hessian", hess, step)
        return largest, most

    def rounded(self, largest: float, most: float, step: int) -> tuple[F32, F32]:
        """Return what `measured` computed, rounded to the grid of all documents.

        Args:
            largest: largest absolute value of a gradient among all documents.
            most: largest absolute value of a hessian.
            step: number of the tree.
        """
        if most == 0 < largest and step == 0:
            raise DataError(
                f"loss {self._loss}: all hessians are 0, so no leaf has a value; expected some above 0"
            )
        round_to_grid(self._curvature, most, self._hess, self._documents)
        noisy = self._plain
        if self._deviation > 0:
            seed, threads = self._settings.seed, self._settings.threads
            noisy = with_noise(
                self._plain, self._hess, self._data.offsets, self._deviation, seed, step, threads
            )
            noisy, largest = self._checked("gradient", noisy, step)
        round_to_grid(noisy, largest, self._grad, self._documents)
        return self._grad, self._hess

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Return the values of leaves for the gradients of the last call, with noise of their own.

        Args:
            leaves: number of each training document's leaf.
            l2: the engine's L2 regularisation.
        """
        return leaf_values(
            leaves, self._plain, self._hess, l2, self._deviation, self._settings.seed, self._step
        )

    def _checked(self, kind: str, values: Any, step: int) -> tuple[F32, float]:
        """Return the values as float32, and the largest absolute value among them."""
        array = np.asarray(values)
        if array.shape != self._scores.shape:
            found = f"loss {self._loss}: the {kind} has the shape {array.shape}"
            raise DataError(f"{found}; expected {self._scores.shape}, one per document")
        with np.errstate(over="ignore"):
            single = array.astype(np.float32, copy=False)
        if self._used is not None:
            single = np.where(self._used, single, np.float32(0))
        low, high = (float(single.min()), float(single.max())) if single.size else (0.0, 0.0)
        if not (-math.inf < low and high < math.inf):
            at = int(np.argmax(~np.isfinite(single)))
            query, document = place(self._data.offsets, at)
            where = f"the {kind} of query {self._data.qids[query]} is {array[at]:g} at its document {document}"
            raise DataError(
                f"loss {self._loss}: {where}, before tree {step}; expected finite numbers"
            )
        return single, max(-low, high)


def round_to_grid(values: F32, largest: float, out: F32, documents: int | None = None) -> None:
    """Write ``values`` to ``out``, rounded so that any sum of them in float64 is exact.

    An engine adds float32 gradients in float64, in an order that depends on the number of threads
    and on its memory layout, and so do the last bits of a leaf. Rounded to multiples of
    ``2^-b max|g|`` with ``n 2^b <= 2^52``, every sum of them is a whole number of at most 53 bits
    times that grid: exact, in any order. For a million documents ``b`` is 32, finer than the 24
    bits of a float32.

    Args:
        values: finite numbers.
        largest: largest absolute value among them.
        out: array for the result.
        documents: how many numbers are added up, where ``values`` are some of them.

    >>> out = np.empty(3, np.float32)
    >>> round_to_grid(np.array([1.0, 0.1, 2.0**-60], np.float32), 1.0, out)
    >>> out.tolist() == [1.0, float(np.float32(0.1)), 0.0]
    True
    """
    bits = _EXACT_BITS - math.ceil(math.log2(max(2, documents or values.size)))
    exponent = math.frexp(largest)[1]  # largest < 2^exponent
    shift = max(-_LARGEST_SHIFT, min(_LARGEST_SHIFT, bits - exponent))
    np.multiply(values, np.float32(2.0**shift), out=out)
    np.rint(out, out=out)
    np.multiply(out, np.float32(2.0**-shift), out=out)


def _check_bounded(scores: Array, loss: object) -> None:
    """Refuse infinite scores: a leaf whose hessians are near 0 may get a value beyond all
    bounds.
    """
    if scores.size and not (-math.inf < scores.min() and scores.max() < math.inf):
        found = f"loss {loss}: the training diverges, scores have grown to infinity"
        how = "by a smaller learning_rate, or larger min_sum_hessian_in_leaf, min_data_in_leaf or lambda_l2"
        raise DataError(f"{found}; expected scores that stay finite ({how})")


class Watch:
    """Judges each round with the metric, keeps the history, and says when to stop.

    Args:
        task: what is being learnt.
        settings: early stopping and callbacks.
        show: shows the progress of the training.
        after: called with the validation scores after each step but the last; returns whether to
            stop.
    """

    def __init__(
        self, task: Task, settings: Settings, show: Show = silent, after: After | None = None
    ) -> None:
        self._task, self._settings, self.show, self._after = task, settings, show, after
        self._name = str(task.metric)
        sets = task.validation_sets()
        self._decides = next(iter(sets), None)
        judged = {"train": (task.train, slice(None)), **sets} if settings.eval_train else sets

        def bound(data: RankingData) -> dict[str, BoundMetric]:
            return {str(each): each.bind(data) for each in (task.metric, *task.metrics)}

        self._judges = {
            name: (documents, bound(data)) for name, (data, documents) in judged.items()
        }
        if self._decides is not None and settings.early_stopping_rounds is not None:
            valid = sets[self._decides][0]
            if math.isnan(
                self._judges[self._decides][1][self._name].mean(np.zeros(valid.n_documents))
            ):
                found = f"eval_set: {self._name} skips every one of its {valid.n_queries} queries"
                raise DataError(
                    f"{found}, so training cannot stop by it; expected a query with a relevant document"
                )
        self.history: History = {
            name: {each: [] for each in judges} for name, (_, judges) in self._judges.items()
        }
        self._rounds: list[int] = []
        self._best, self._best_value = 0, -math.inf
        self._began = time.perf_counter()

    def judge(self, rounds: int, scores: Callable[[Part], Array], scale: float = 1.0) -> bool:
        """Note one more step; return whether training should stop.

        Args:
            rounds: rounds so far (a step may add none).
            scores: scores of the model so far, called for each part that is judged.
            scale: what they are multiplied by.
        """
        found: dict[Part, Array] = {}
        for name, (documents, judges) in self._judges.items():
            part: Part = "train" if name == "train" else "valid"
            if part not in found:
                found[part] = scaled(scores(part), scale)
                _check_bounded(found[part], self._task.loss)
            for each, judge in judges.items():
                self.history[name][each].append(judge.mean(found[part][documents]))
        last: dict[str | None, float] = {
            name: found[self._name][-1] for name, found in self.history.items()
        }
        train, valid = last.get("train"), last.get(self._decides)
        index = len(self._rounds)
        self._rounds.append(rounds)
        if valid is None:
            self._best = index
        elif self._task.metric.sign * valid > self._best_value:
            self._best, self._best_value = index, self._task.metric.sign * valid
        shown = valid if valid is not None else train
        self.show(index + 1, "" if shown is None else f"{self._name} {shown:.4f}")
        stop = False
        start = self._task.start_step
        for callback in self._settings.callbacks:
            seconds = time.perf_counter() - self._began
            answer = callback(
                Step(start + index, train, valid, start + self._best, seconds, self.history)
            )
            stop = stop or (isinstance(answer, bool | np.bool_) and bool(answer))
        patience = self._settings.early_stopping_rounds
        stop = stop or (patience is not None and index - self._best >= patience)
        return stop or (self._after is not None and self._after(scaled(scores("valid"), scale)))

    def put_before(self, history: History) -> None:
        """Put values of rounds that have been judged elsewhere before those of this history.

        Args:
            history: the values, by name and metric.
        """
        for name, values in history.items():
            for each, earlier in values.items():
                self.history[name][each][:0] = earlier

    @property
    def rounds_to_keep(self) -> int:
        """All rounds, or those up to the best validation value where training may stop early."""
        return self._rounds[self._last]

    def record(self) -> Record:
        """Return what happened, once training has ended."""
        index = self._best - len(
            self._rounds
        )  # from the end: values of other rounds may stand before
        best = None if self._decides is None else self.history[self._decides][self._name][index]
        steps = self._task.start_step + self._last + 1
        return Record(self.history, self._rounds[self._best], best, steps, self._settings.seed)

    @property
    def _last(self) -> int:
        return (
            self._best
            if self._settings.early_stopping_rounds is not None
            else len(self._rounds) - 1
        )


class InStep:
    """Trainings that grow one round at a time, wait for each other, and stop together.

    Args:
        members: number of trainings.
        judge: called after each round with the validation scores of all; returns whether to stop.
        at_once: how many may grow at the same time.
    """

    def __init__(self, members: int, judge: Callable[[list[Array]], bool], at_once: int) -> None:
        self._judge = judge
        self._scores: list[Array] = [np.zeros(0)] * members
        self._growing = set(range(members))
        self._waiting: set[int] = set()
        self._changed = threading.Condition()
        self._places = threading.Semaphore(at_once)
        self.stop = False
        """Whether all end with their next round."""

    def train(self, number: int, engine: Engine, task: Task, settings: Settings) -> FittedModel:
        """Train one of them; the others go on without it when it has ended, and stop if it has
        failed.

        Args:
            number: its number, from 0.
            engine: what grows the model.
            task: what to learn; with validation data.
            settings: how.
        """
        try:
            with self._places:
                return engine.train(
                    task, settings, Watch(task, settings, after=partial(self.after_round, number))
                )
        except BaseException:
            self.stop = True
            raise
        finally:
            with self._changed:
                self._growing.remove(number)
                self._judge_round()

    def after_round(self, number: int, scores: Array) -> bool:
        """Wait for the others; return whether to stop.

        Args:
            number: number of the training.
            scores: its validation scores.
        """
        self._scores[number] = scores
        self._places.release()
        with self._changed:
            self._waiting.add(number)
            self._judge_round()
            self._changed.wait_for(lambda: number not in self._waiting)
        self._places.acquire()
        return self.stop

    def _judge_round(self) -> None:
        if self._waiting and self._waiting == self._growing:
            self._waiting.clear()
            self._changed.notify_all()
            stopped, self.stop = self.stop, True  # also if the judge fails
            self.stop = stopped or self._judge(self._scores)
