"""What happens after each round of a training: the metric, the callbacks, and early stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import (
    TypeAlias,
)

import numpy as np

from tautrank.arrays import Array
from tautrank.data import RankingData
from tautrank.engines.gradients import check_bounded
from tautrank.engines.model import scaled
from tautrank.engines.task import History, Part, Record, Settings, Step, Task
from tautrank.errors import (
    DataError,
)
from tautrank.metrics.base import BoundMetric
from tautrank.progress import Progress, Silent

After: TypeAlias = Callable[[Array], bool]
"""Called with scores; training stops when it returns True."""


class TrainingMonitor:
    """Judges each round with the metric, keeps the history, and says when to stop.

    Args:
        task: what is being learnt.
        settings: early stopping and callbacks.
        progress: shows the progress of the training; by default nothing.
        after: called with the validation scores after each step but the last; returns whether to
            stop.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        progress: Progress | None = None,
        after: After | None = None,
    ) -> None:
        self._task, self._settings, self._after = task, settings, after
        self._progress: Progress = progress or Silent()
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

    def after_round(self, rounds: int, scores: Callable[[Part], Array], scale: float = 1.0) -> bool:
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
                check_bounded(found[part], self._task.loss)
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
        text = "" if shown is None else f"{self._name} {shown:.4f}"
        self._progress.update(index + 1, self._settings.n_estimators, text)
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

    def take_progress(self) -> Progress:
        """Return what shows the progress, and show nothing here from now on."""
        progress, self._progress = self._progress, Silent()
        return progress

    def prepend_history(self, history: History) -> None:
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
