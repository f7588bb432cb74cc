"""The base of all metrics: options, text form, registry, per-query values and their mean."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arguments import choice, whole
from tautrank.arrays import F64, I64, Bools, check_lists, check_scores, check_weights
from tautrank.metrics.ordering import TIES
from tautrank.names import Registry, changed_options, write_name

EMPTY = {"skip": math.nan, "zero": 0.0, "one": 1.0}
"""Value of a query without a relevant document."""

Scorer: TypeAlias = Callable[[NDArray[np.floating]], F64]
"""From checked scores to one value per query."""


@dataclass(frozen=True, repr=False)
class Metric(ABC):
    """A number for each query, from its scores and labels.

    A metric is an immutable set of options. It compares and hashes by value and prints as you would type
    it. Subclasses are listed in ``METRICS``; ``metric("ndcg@10")`` is the usual way to get one.

    Args:
        k: number of ranks that count; None for the full list.
        ties: how equal scores are ranked: ``"worst"`` (lower label first), ``"best"`` (higher label first),
            ``"input"`` (input order), or ``"expected"`` (the exact mean over every order of the tied
            documents).
        empty: value of a query without a relevant document: ``"skip"`` (NaN, left out of the mean),
            ``"zero"`` or ``"one"``.

    >>> metric("ndcg@10") == metric("NDCG", k=10)
    True
    >>> metric("ndcg@10").higher_is_better, metric("arp").higher_is_better
    (True, False)
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True

    k: int | None = None
    ties: str = "worst"
    empty: str = "skip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_k(self.k))
        choice("ties", self.ties, TIES)
        choice("empty", self.empty, tuple(EMPTY))

    def bind(self, labels: ArrayLike, offsets: ArrayLike) -> BoundMetric:
        """Fix the labels, so that many scorings of the same documents are evaluated cheaply.

        Args:
            labels: one finite number of at least 0 per document, documents of a query adjacent.
            offsets: ``n_queries + 1`` integers; query ``q`` owns the documents ``offsets[q]:offsets[q + 1]``.

        >>> judge = metric("ndcg").bind([0, 1], [0, 2])
        >>> judge.mean([1.0, 2.0]), judge.mean([2.0, 1.0])
        (1.0, 0.6309297535714575)
        """
        y, cuts = check_lists(labels, offsets)
        scorer, filled = self._scorer(y, cuts)
        return BoundMetric(self, cuts, scorer, filled)

    def per_query(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> F64:
        """Return one value per query; NaN where the query is skipped.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            labels: one finite number of at least 0 per document.
            offsets: ``n_queries + 1`` integers; query ``q`` owns the documents ``offsets[q]:offsets[q + 1]``.

        >>> metric("mrr").per_query([1.0, 2.0, 3.0, 4.0], [1, 0, 0, 0], [0, 2, 4])
        array([0.5, nan])
        """
        return self.bind(labels, offsets).per_query(scores)

    def mean(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the (weighted) mean over the queries that are not skipped; NaN when all are.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            labels: one finite number of at least 0 per document.
            offsets: ``n_queries + 1`` integers; query ``q`` owns the documents ``offsets[q]:offsets[q + 1]``.
            weights: one finite number of at least 0 per query; None for equal weights.

        >>> metric("mrr").mean([1.0, 2.0, 3.0, 4.0], [1, 0, 0, 1], [0, 2, 4], weights=[3, 1])
        0.625
        """
        return self.bind(labels, offsets).mean(scores, weights)

    @abstractmethod
    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, Bools]:
        """Compute what depends on the labels alone.

        Returns:
            The scorer, and which queries have a relevant document (the value of the others is not looked at).
        """

    def __str__(self) -> str:
        options = changed_options(self)
        options.pop("k", None)
        return write_name(self.name, options, self.k)

    def __repr__(self) -> str:
        return f"metric({str(self)!r})"


class BoundMetric:
    """A metric with its labels fixed, made by ``Metric.bind``.

    Args:
        metric: the metric.
        offsets: checked offsets of the lists.
        scorer: from checked scores to one value per query.
        filled: which queries have a relevant document.

    >>> metric("precision@1").bind([0, 1], [0, 2]).per_query([1.0, 2.0])
    array([1.])
    """

    def __init__(self, metric: Metric, offsets: I64, scorer: Scorer, filled: Bools) -> None:
        self.metric = metric
        self.offsets = offsets
        self._scorer = scorer
        self._empty = np.flatnonzero(~filled)

    def per_query(self, scores: ArrayLike) -> F64:
        """Return one value per query; NaN where the query is skipped.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
        """
        values = self._scorer(check_scores(scores, self.offsets))
        values[self._empty] = EMPTY[self.metric.empty]
        return values

    def mean(self, scores: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the (weighted) mean over the queries that are not skipped; NaN when all are.

        Args:
            scores: one number per document; ``-inf`` marks a document that was not retrieved.
            weights: one finite number of at least 0 per query; None for equal weights.
        """
        values = self.per_query(scores)
        if weights is not None:
            weights = check_weights(weights, values.size)
        return mean_over_queries(values, weights)

    def __repr__(self) -> str:
        return f"{self.metric!r} bound to {self.offsets.size - 1} queries"


def mean_over_queries(values: F64, weights: F64 | None = None) -> float:
    """Return ``sum w v / sum w`` over the queries that are not skipped; NaN when none has weight.

    Args:
        values: one per query, NaN where it is skipped.
        weights: checked weights, one per query; None for equal weights.

    >>> mean_over_queries(np.array([1.0, np.nan, 0.0]), np.array([3.0, 100.0, 1.0]))
    0.75
    """
    kept = ~np.isnan(values)
    if not kept.any():
        return math.nan
    if weights is None:
        return float(values[kept].mean())
    w = weights[kept]
    if w.max() == 0:
        return math.nan
    # Weights near the end of the float range would overflow in the sum; a power of two rounds nothing.
    w = np.ldexp(w, -int(np.frexp(w.max())[1]))
    return float((w * values[kept]).sum() / w.sum())


METRICS: Registry[Metric] = Registry(
    Metric,  # type: ignore[type-abstract]
    "metric",
    "'ndcg', 'ndcg@10' or 'ndcg(ties=expected)@10'",
)
"""Every metric by the name it is typed as."""

register = METRICS.register


def metric(name: str | Metric, **options: Any) -> Metric:
    """Make a metric by name: ``"ndcg"``, ``"ndcg@10"`` or ``"ndcg(ties=expected,gain=linear)@10"``.

    Args:
        name: a name of `METRICS` in any case, with options in parentheses and a cutoff after ``@`` if you like; or a
            metric, which comes back as it is, or with ``options`` changed.
        **options: the same options as keywords; an option may not be given twice with different values.

    >>> metric("NDCG (ties = expected) @10", gain=[0, 1, 3])
    metric('ndcg(ties=expected,gain=0/1/3)@10')
    >>> metric("ndgc@10")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown metric 'ndgc'; did you mean 'ndcg'? (known: ...)
    """
    return METRICS.make(name.lower() if isinstance(name, str) else name, **options)


def check_k(k: object) -> int | None:
    """Return the cut-off as an int, or None for the full list.

    >>> check_k(0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: k: found 0; expected a whole number of at least 1, or None for the full list
    """
    return None if k is None else whole("k", k, 1, otherwise="None for the full list")
