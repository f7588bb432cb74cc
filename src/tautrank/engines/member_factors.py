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
    """Return the factor by which each model's scores enter the sum of a committee: its weight over
    the spread of its scores within queries.

    Factors are divided by the number of models that count, so the sum is a mean.

    Args:
        models: one model per member of the committee.
        task: training data to measure the spread on, validation data to fit weights to, and the
            metric that fitted weights raise.
        weights: ``"equal"`` or ``"fitted"``.
    """
    sampled_data = task.train
    if sampled_data.n_queries > _MEASURED_QUERIES:
        evenly_spaced = np.linspace(0, sampled_data.n_queries - 1, _MEASURED_QUERIES)
        sampled_data = sampled_data.subset(evenly_spaced.astype(np.int64))

    factor_per_model = []
    for model in models:
        scores = scores_of(model, sampled_data)
        factor_per_model.append(inverse_spread(scores, sampled_data))
    factors: F64 = np.array(factor_per_model)

    if weights == "fitted":
        first_validation_set = next(iter(task.validation_sets().values()))
        valid = first_validation_set.data
        valid_scores = np.array([scores_of(model, valid) for model in models])
        scaled_scores = factors[:, np.newaxis] * valid_scores
        factors = factors * _fitted_weights(scaled_scores, task.metric, valid)

    n_counting_models = int(np.count_nonzero(factors))
    return factors / max(n_counting_models, 1)


def scores_of(model: FittedModel, data: RankingData, n_jobs: int | None = None) -> F64:
    """Return the score that a model gives to each document of some data.

    Args:
        model: a model that may have been trained on the first columns only.
        data: documents in lists, one list per query.
        n_jobs: number of threads.
    """
    return model.predict(columns_of(data.X, model), n_jobs, data.offsets)


def columns_of(X: Any, model: FittedModel) -> Any:
    """Return the feature columns that a model was trained on: the first of all.

    A member of a committee may not know the list features, which are the last columns.
    """
    if X.shape[1] == model.n_features:
        return X
    return X[:, : model.n_features]


def inverse_spread(scores: F64, data: RankingData) -> float:
    """Return 1 over the spread of a model's scores within queries; 0 if all scores of a query are
    equal, as those of a model without a split.

    The spread is the root of the mean squared distance of a score to the mean of its query.

    Args:
        scores: one per document.
        data: the documents, with the number of them in each query.
    """
    if scores.size == 0:
        return 0.0
    # `offsets` says where each query's documents begin; the last one is the end, left out here.
    # reduceat needs a number at every offset, also that of a last query without documents (hence
    # one 0 more); of an empty query it returns the number at its offset instead of 0.
    padded_scores = np.append(scores, 0.0)
    sum_per_query = np.add.reduceat(padded_scores, data.offsets[:-1])
    sum_per_query *= data.sizes > 0
    # A divisor of at least 1 avoids 0 / 0 for empty queries.
    mean_per_query = sum_per_query / np.maximum(data.sizes, 1)

    deviations = scores - np.repeat(mean_per_query, data.sizes)
    spread = math.sqrt(float(np.mean(deviations**2)))
    # Equal scores may have a spread of their rounding errors, relative to the largest score.
    rounding = _SMALLEST_SPREAD * float(np.abs(scores).max())
    is_more_than_rounding = spread > rounding
    return 1.0 / spread if is_more_than_rounding else 0.0


def _fitted_weights(scores: F64, metric: Metric, valid: RankingData) -> F64:
    """Return one weight per member of a committee, such that the metric of the weighted sum of
    scores is high on the validation data.

    Coordinate search: starting from equal weights, the weight of one member at a time is multiplied
    by each of a few factors, and a change is kept if the metric improves, until none does.

    Args:
        scores: ``[members, documents]``, scaled to the same spread.
        metric: the metric to raise (or to lower, where lower is better).
        valid: the validation data.
    """
    bound_metric = metric.bind(valid)  # prepared for these labels

    def signed_metric(weights: F64) -> float:
        # The sign, 1 or -1, makes a larger value the better one.
        return metric.sign * bound_metric.mean(weights @ scores)

    weights: F64 = np.ones(scores.shape[0])
    best_value = signed_metric(weights)
    has_improved = True
    while has_improved:
        has_improved = False
        for member in range(weights.size):
            for factor in _WEIGHT_STEPS:
                candidate = weights.copy()
                candidate[member] *= factor
                if not candidate.any():  # one member has to stay
                    continue
                value = signed_metric(candidate)
                if value > best_value + _SMALLEST_GAIN:
                    weights = candidate
                    best_value = value
                    has_improved = True
    return weights
