"""Fitting several configurations of a loss and keeping the one that validates best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tautrank.data import Splits
from tautrank.errors import TautrankError
from tautrank.experiments.configuration import parameters_of
from tautrank.json_values import or_none
from tautrank.metrics import Metric
from tautrank.ranker.estimator import Ranker

F64 = npt.NDArray[np.float64]

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with (finished, all, title of the last one finished)."""


@dataclass(frozen=True, eq=False)
class Trained:
    """The ranker that validated best, and the scores of all that were tried.

    Args:
        ranker: the best one.
        configuration: its configuration.
        valid: its validation score.
        values: per metric, one value per test query.
        tried: for each configuration its validation score and its mean test metrics.
    """

    ranker: Ranker
    configuration: dict[str, Any]
    valid: float
    values: dict[str, F64]
    tried: list[dict[str, Any]]


def train_best(
    loss: str,
    configurations: Iterable[dict[str, Any]],
    fixed: Mapping[str, Any],
    splits: Splits,
    metrics: Sequence[Metric],
) -> Trained:
    """Fit a ranker of every configuration and keep the one with the best validation value of the first metric.

    Args:
        loss: the loss, as `Ranker` takes it.
        configurations: values by name, as `parameters_of` takes them.
        fixed: parameters of `Ranker` that all configurations share.
        splits: the data to train, validate and test on.
        metrics: the first one decides, all are measured.

    >>> from tautrank.metrics import metric
    >>> from tautrank.simulate import simulate_web_search
    >>> splits = Splits(*simulate_web_search(40, n_features=16, mean_length=8).split([0.5, 0.25, 0.25]))
    >>> tried = [{"num_leaves": 2}, {"num_leaves": 7}]
    >>> best = train_best("lambdarank", tried, {"n_estimators": 3}, splits, [metric("ndcg@5")])
    >>> best.valid == max(attempt["valid"] for attempt in best.tried)
    True
    """
    assert splits.valid is not None
    judge = metrics[0].bind(splits.valid.labels, splits.valid.offsets)
    sign = 1 if metrics[0].higher_is_better else -1
    best: Trained | None = None
    tried: list[dict[str, Any]] = []
    for configuration in configurations:
        ranker = Ranker(metric=metrics[0], **parameters_of({"loss": loss, **configuration}, fixed))
        ranker.fit(splits.train, splits.valid)
        valid = judge.mean(ranker.predict(splits.valid))
        scores = ranker.predict(splits.test)
        values = {str(m): m.per_query(scores, splits.test.labels, splits.test.offsets) for m in metrics}
        tried.append(
            {
                "configuration": configuration,
                "valid": or_none(valid),
                "test": {name: or_none(mean_of_counted(v)) for name, v in values.items()},
            }
        )
        if best is None or sign * valid > sign * best.valid:
            best = Trained(ranker, configuration, valid, values, tried)
    assert best is not None
    return best


def mean_of_counted(values: F64) -> float:
    """Return the mean over the queries that a metric does not skip; NaN if it skips all.

    >>> mean_of_counted(np.array([1.0, math.nan, 0.0]))
    0.5
    """
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if counted.size else math.nan


def in_a_sentence(error: Exception) -> str:
    """Turn an error into one sentence.

    Args:
        error: an error of this library is a sentence already; of another, its type and first line are used.

    >>> in_a_sentence(ValueError("no such thing\\nat all"))
    'ValueError: no such thing'
    """
    if isinstance(error, TautrankError):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}".rstrip(": ")
