"""What happens after each round of a training: the metric, the callbacks, and early stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from tautrank.arrays import Array
from tautrank.data import RankingData
from tautrank.engines.gradients import check_bounded
from tautrank.engines.model import scaled
from tautrank.engines.task import History, Part, Record, Settings, Step, Task, ValidationSet
from tautrank.errors import DataError
from tautrank.metrics.base import BoundMetric
from tautrank.progress import Progress, Silent

StopRule: TypeAlias = Callable[[Array], bool]
"""Called with validation scores; returns whether to stop."""


class _JudgedSet(NamedTuple):
    """Documents that each round is judged on."""

    part: Part
    documents: slice
    """The documents' place in the part."""
    metrics: dict[str, BoundMetric]
    """The metrics by their names, bound to the documents' labels."""


class TrainingMonitor:
    """Judges each round of a training with the metric, keeps the history, and says when to stop.

    Args:
        task: what is being learnt.
        settings: early stopping and callbacks.
        progress: shows the progress of the training; by default nothing.
        stop_rule: asked after each round where nothing else has stopped the training.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        progress: Progress | None = None,
        stop_rule: StopRule | None = None,
    ) -> None:
        self._task = task
        self._settings = settings
        self._stop_rule = stop_rule
        self._progress: Progress = progress or Silent()
        self._metric_name = str(task.metric)
        validation_sets = task.validation_sets()
        self._sets = _judged_sets(task, validation_sets, with_train=settings.eval_train)
        self._deciding_set = next(iter(validation_sets), None)
        if self._deciding_set is not None and settings.early_stopping_rounds is not None:
            self._check_metric_judges(validation_sets[self._deciding_set].data)

        self.history: History = {}
        for name, judged_set in self._sets.items():
            self.history[name] = {metric_name: [] for metric_name in judged_set.metrics}
        self._rounds: list[int] = []
        self._best_index = 0
        self._best_value = -math.inf
        self._began = time.perf_counter()

    def _check_metric_judges(self, valid: RankingData) -> None:
        """Refuse validation data of which the metric skips every query, such as queries without a
        relevant document: its mean would be NaN, and training could not stop by it.
        """
        # Which queries are skipped does not depend on the scores.
        any_scores = np.zeros(valid.n_documents)
        mean = self._task.metric.mean(any_scores, valid)
        if math.isnan(mean):
            raise DataError(
                f"eval_set: {self._metric_name} skips every one of its {valid.n_queries} queries, "
                "so training cannot stop by it; expected a query with a relevant document"
            )

    def after_round(self, rounds: int, scores: Callable[[Part], Array], scale: float = 1.0) -> bool:
        """Judge a model after one more round with all metrics; return whether training should stop.

        Training stops if a callback says so, if the validation metric has not improved for some
        rounds, or by the stop rule.

        Args:
            rounds: trees of the model so far (a round may add none).
            scores: function that returns the model's scores of the training or validation data.
            scale: factor to multiply these scores by.
        """
        self._extend_history(scores, scale)
        self._rounds.append(rounds)
        # Values of the first metric; None for data that is not judged.
        train_value = self._last_value("train")
        valid_value = self._last_value(self._deciding_set)
        self._note_best(valid_value)
        self._show(train_value if valid_value is None else valid_value)

        if self._call_callbacks(train_value, valid_value) or self._has_run_out_of_patience():
            return True
        if self._stop_rule is None:
            return False
        valid_scores = scaled(scores("valid"), scale)
        return self._stop_rule(valid_scores)

    def _extend_history(self, scores: Callable[[Part], Array], scale: float) -> None:
        """Append to the history the value of every metric on every judged set of documents.

        A set is a slice of the training or the validation data; the scores of either are computed
        once.

        Args:
            scores: function that returns the model's scores of the training or validation data.
            scale: factor to multiply these scores by.
        """
        scores_of_part: dict[Part, Array] = {}
        for name, judged_set in self._sets.items():
            part = judged_set.part
            if part not in scores_of_part:
                # Refused if they are infinite or not a number.
                scores_of_part[part] = scaled(scores(part), scale)
                check_bounded(scores_of_part[part], self._task.loss)
            scores_of_set = scores_of_part[part][judged_set.documents]
            for metric_name, bound_metric in judged_set.metrics.items():
                self.history[name][metric_name].append(bound_metric.mean(scores_of_set))

    def _last_value(self, name: str | None) -> float | None:
        """Return the main metric's value after the last round on the set of that name; None if the
        set is not judged.
        """
        if name is None or name not in self._sets:
            return None
        return self.history[name][self._metric_name][-1]

    def _note_best(self, valid: float | None) -> None:
        """Note the last round if it is the best so far, by its validation value; without validation
        data (None) it always is.
        """
        index = len(self._rounds) - 1
        if valid is None:
            self._best_index = index
            return
        # The sign, 1 or -1, makes a larger value the better one.
        value = self._task.metric.sign * valid
        if value > self._best_value:
            self._best_index = index
            self._best_value = value

    def _show(self, value: float | None) -> None:
        text = "" if value is None else f"{self._metric_name} {value:.4f}"
        self._progress.update(len(self._rounds), self._settings.n_estimators, text)

    def _call_callbacks(self, train: float | None, valid: float | None) -> bool:
        """Call all callbacks with a description of the last round; return whether one of them
        answers True, to stop the training.

        Args:
            train: value of the metric on the training data, if that is judged.
            valid: value of the metric on the validation data, if there is any.
        """
        should_stop = False
        for callback in self._settings.callbacks:
            step = Step(
                # Rounds are counted on from those of a model that training continues.
                step=self._task.start_step + len(self._rounds) - 1,
                train=train,
                valid=valid,
                best_step=self._task.start_step + self._best_index,
                seconds=time.perf_counter() - self._began,
                history=self.history,
            )
            answer = callback(step)
            # Anything but a truth value is no answer: a callback may return what it likes.
            if isinstance(answer, bool | np.bool_) and answer:
                should_stop = True
        return should_stop

    def _has_run_out_of_patience(self) -> bool:
        patience = self._settings.early_stopping_rounds
        rounds_since_best = len(self._rounds) - 1 - self._best_index
        return patience is not None and rounds_since_best >= patience

    def take_progress(self) -> Progress:
        """Return what shows the progress, and show nothing here from now on."""
        progress = self._progress
        self._progress = Silent()
        return progress

    def prepend_history(self, history: History) -> None:
        """Put values of rounds that have been judged elsewhere before those of this history.

        Args:
            history: the values, by name and metric.
        """
        for name, values_by_metric in history.items():
            for metric_name, values in values_by_metric.items():
                self.history[name][metric_name][:0] = values

    @property
    def rounds_to_keep(self) -> int:
        """All rounds, or those up to the best validation value where training may stop early."""
        return self._rounds[self._last_index]

    def record(self) -> Record:
        """Return the record of a training that has ended: the history of the metrics, the best
        round and its score.
        """
        best_score = None
        if self._deciding_set is not None:
            values = self.history[self._deciding_set][self._metric_name]
            # A negative index: values of rounds judged elsewhere may stand before those of here.
            best_from_end = self._best_index - len(self._rounds)
            best_score = values[best_from_end]
        return Record(
            history=self.history,
            best_iteration=self._rounds[self._best_index],  # trees of the model at its best round
            best_score=best_score,
            steps=self._task.start_step + self._last_index + 1,
            seed=self._settings.seed,
        )

    @property
    def _last_index(self) -> int:
        """Index of the last round to keep."""
        if self._settings.early_stopping_rounds is not None:
            return self._best_index
        return len(self._rounds) - 1


def _judged_sets(
    task: Task, validation_sets: dict[str, ValidationSet], *, with_train: bool
) -> dict[str, _JudgedSet]:
    """Return the sets of documents that each round of a training is judged on, by name: the
    validation sets, and the training data if asked for.

    Metrics are bound to the labels of a set once, so that a round only has to pass scores. A judged
    set names the part of the data ("train" or "valid") whose scores it takes, and which of them.
    """
    metrics = (task.metric, *task.metrics)
    judged_sets = {}
    if with_train:
        bound_metrics = {str(metric): metric.bind(task.train) for metric in metrics}
        all_documents = slice(None)
        judged_sets["train"] = _JudgedSet("train", all_documents, bound_metrics)
    for name, validation_set in validation_sets.items():
        data = validation_set.data
        bound_metrics = {str(metric): metric.bind(data) for metric in metrics}
        judged_sets[name] = _JudgedSet("valid", validation_set.documents, bound_metrics)
    return judged_sets
