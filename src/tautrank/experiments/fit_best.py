"""What comparisons and studies have in common when they train: what validates, and which configuration is best."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tautrank.data import RankingData, Splits
from tautrank.errors import TautrankError
from tautrank.experiments.configuration import Configuration, parameters_of
from tautrank.json_values import or_none
from tautrank.metrics import Metric
from tautrank.ranker.estimator import Ranker

F64 = npt.NDArray[np.float64]

HELD_OUT = 0.2
"""The share of the training queries that validates, where the data brings no validation part."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with (finished, all, which one)."""


def hold_out(train: RankingData, valid: RankingData | None, seed: int) -> tuple[RankingData, RankingData]:
    """Divide the queries of training and validation anew: as many validate as before, or a fifth.

    Args:
        train, valid: as they came.
        seed: of the division.

    >>> data = RankingData.from_arrays([[0.0]] * 10, [1] * 10, group=[1] * 10)
    >>> [part.n_queries for part in hold_out(data, None, 0)]
    [8, 2]
    """
    pool = train if valid is None else RankingData.concat([train, valid], repeated="separate")
    share = HELD_OUT if valid is None else valid.n_queries / pool.n_queries
    train, valid = pool.split([1 - share, share], seed=seed)
    return train, valid


@dataclass(frozen=True, eq=False)
class Trained:
    """The ranker that validated best, and what all of them did.

    Args:
        ranker: the best.
        configuration: what was tried to get it.
        valid: its validation score.
        seconds: what its training took.
        values: per metric, one value a test query.
        tried: for each configuration its validation score and its mean test metrics.
    """

    ranker: Ranker
    configuration: dict[str, Any]
    valid: float
    seconds: float
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
        loss: what `Ranker` takes.
        configurations: values by name, as `Configuration` has them.
        fixed: parameters of `Ranker` that are the same whatever is tried.
        splits: what to train, validate and test on.
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
        ranker = Ranker(metric=metrics[0], **parameters_of(Configuration(loss, configuration), fixed))
        start = time.perf_counter()
        ranker.fit(splits.train, splits.valid)
        seconds = time.perf_counter() - start
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
            best = Trained(ranker, configuration, valid, seconds, values, tried)
    assert best is not None
    return best


def mean_of_counted(values: F64) -> float:
    """The mean over the queries that a metric does not skip; NaN where it skips all.

    >>> mean_of_counted(np.array([1.0, math.nan, 0.0]))
    0.5
    """
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if counted.size else math.nan


def in_a_sentence(error: Exception) -> str:
    """What is recorded of a training that raised an error.

    Args:
        error: one of this library's is a sentence already; of another, its kind and its first line.

    >>> in_a_sentence(ValueError("no such thing\\nat all"))
    'ValueError: no such thing'
    """
    if isinstance(error, TautrankError):
        return str(error)
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}".rstrip(": ")
