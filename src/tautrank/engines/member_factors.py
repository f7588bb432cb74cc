"""What the scores of each member of a committee are multiplied by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tautrank.arrays import F64
from tautrank.data import RankingData
from tautrank.engines.model import FittedModel
from tautrank.engines.task import Task
from tautrank.metrics import Metric

# Queries that the spread of a member's scores is measured on: one number for the whole data.
_MEASURED_QUERIES = 2_000
# A spread below this share of the scores is rounding.
_SMALLEST_SPREAD = 1e-12
# A better weight must be worth more than rounding, or the search would not end.
_SMALLEST_GAIN = 1e-7
_WEIGHT_STEPS = (0.0, 0.5, 0.8, 1.25, 2.0)


def member_factors(models: Sequence[FittedModel], task: Task, weights: str = "equal") -> F64:
    """Return what each member's scores are multiplied by: its weight over the spread of its scores
    within queries.

    Args:
        models: the members.
        task: training data to measure the spread on, validation data to fit weights to, and the
            metric.
        weights: as in `Committee`.
    """
    measured = task.train
    if measured.n_queries > _MEASURED_QUERIES:
        queries = np.linspace(0, measured.n_queries - 1, _MEASURED_QUERIES)
        measured = measured.subset(queries.astype(np.int64))
    factors: F64 = np.array(
        [inverse_spread(scores_of(model, measured), measured) for model in models]
    )
    if weights == "fitted":
        valid = next(iter(task.validation_sets().values())).data
        scores = np.array([scores_of(model, valid) for model in models])
        factors = factors * _fitted_weights(factors[:, np.newaxis] * scores, task.metric, valid)
    return factors / max(int(np.count_nonzero(factors)), 1)


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


def inverse_spread(scores: F64, data: RankingData) -> float:
    """Return 1 over the root of the mean variance of the scores within queries; 0 for a member
    without a split.

    Args:
        scores: one per document.
        data: the documents.
    """
    if scores.size == 0:
        return 0.0
    # The 0 at the end is for a last query without documents.
    sums = np.add.reduceat(np.append(scores, 0.0), data.offsets[:-1])
    sums *= data.sizes > 0
    means = sums / np.maximum(data.sizes, 1)
    centred = scores - np.repeat(means, data.sizes)
    spread = math.sqrt(float(np.mean(centred**2)))
    has_split = spread > _SMALLEST_SPREAD * float(np.abs(scores).max())
    return 1.0 / spread if has_split else 0.0


def _fitted_weights(scores: F64, metric: Metric, valid: RankingData) -> F64:
    """Return weights that raise the metric on the validation data, changed one member at a time
    until no change does.
    """
    bound_metric = metric.bind(valid)

    def value_of(weights: F64) -> float:
        return metric.sign * bound_metric.mean(weights @ scores)

    weights: F64 = np.ones(scores.shape[0])
    best_value = value_of(weights)
    has_improved = True
    while has_improved:
        has_improved = False
        for member in range(weights.size):
            for step in _WEIGHT_STEPS:
                candidate = weights.copy()
                candidate[member] *= step
                value = value_of(candidate) if candidate.any() else -math.inf
                if value > best_value + _SMALLEST_GAIN:
                    weights = candidate
                    best_value = value
                    has_improved = True
    return weights
