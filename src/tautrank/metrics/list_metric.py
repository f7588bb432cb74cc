"""`ListMetric`: add a metric of your own by writing a function of one ranked list."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64, I64, Bools
from tautrank.errors import OptionError
from tautrank.metrics.base import Metric, Scorer
from tautrank.metrics.ordering import query_maxima, rank_order


@dataclass(frozen=True, repr=False)
class ListMetric(Metric):
    """Base class of metrics that are written as one function of the labels of one list, in rank order.

    A subclass is a frozen dataclass of parameters with a static method ``one_list(labels, ...)``. The function gets the
    labels of the documents of one query, the best score first, and returns a number. After ``labels`` it names the
    parameters of the dataclass that it needs. With a cutoff it gets the first ``k`` labels; if it names ``k``, it
    gets all labels, and ``k`` (None for no cutoff).

    Ties are ranked as ``ties`` says (all but ``"expected"``), documents that were not retrieved come last, and queries
    without a relevant document never reach the function. The metric judges, stops trainings, and is typed, printed,
    saved and compared like any other. A cost sets ``higher_is_better = False`` in the class.

    Args:
        k: see `Metric`.
        ties: see `Metric`.
        empty: see `Metric`.

    >>> from tautrank.metrics import METRICS, metric, register
    >>> @register("top-grade")
    ... @dataclass(frozen=True)
    ... class TopGrade(ListMetric):
    ...     best: float = 2.0
    ...
    ...     @staticmethod
    ...     def one_list(labels, best):
    ...         return (labels == best).mean()
    >>> metric("top-grade@2").per_query([3.0, 2.0, 1.0], [0, 2, 2])
    array([0.5])
    >>> metric("top-grade(best=1)@2", ties="best")
    metric('top-grade(ties=best,best=1)@2')
    >>> del METRICS["top-grade"]
    """

    one_list: ClassVar[Callable[..., float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ties == "expected":
            raise OptionError(
                f"ties: found expected, the mean over all orders, which {self.name} cannot compute; expected worst, "
                "best or input"
            )

    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, Bools]:
        function = type(self).one_list
        names = [*inspect.signature(function).parameters][1:]
        given = {name: getattr(self, name) for name in names}
        grades = np.asarray(labels, np.float64)
        filled = query_maxima(grades, offsets) > 0
        most = None if "k" in names else self.k

        def score(scores: NDArray[np.floating]) -> F64:
            ranked = grades[rank_order(scores, grades, offsets, self.ties)]
            values = np.zeros(filled.size)
            for query in np.flatnonzero(filled):
                one = ranked[offsets[query] : offsets[query + 1]]
                try:
                    values[query] = function(one[:most], **given)
                except Exception as error:
                    raise OptionError(
                        f"one_list: {function.__qualname__} stopped with {type(error).__name__}: {error} (the labels "
                        f"{one[:most]}); expected a number for every list"
                    ) from error
            return values

        return score, filled
