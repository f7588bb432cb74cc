"""Metrics of a ranking: sort each list, then take its documents in rank order; `ListMetric` for
those of your own.

DCG, NDCG, ERR and MRR are also one model of a reader who goes down the list, which is what losses
need to optimise them (`ReaderMetric`). The reader collects

    sum_r  w_r g_r  prod_{j < r} (1 - stop_j)  /  norm

where ``g`` and ``stop`` belong to the documents, ``w`` to the ranks and ``norm`` to the list.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*,
ICML 2020, appendix D.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from tautrank.arguments import checked_by, real
from tautrank.arrays import F64, I64, Bools, Floats, Numbers
from tautrank.errors import OptionError
from tautrank.metrics.base import Metric, Scorer
from tautrank.metrics.gains import Discount, discount_values
from tautrank.metrics.ordering import (
    Block,
    SortedRows,
    TieGroups,
    blocks,
    missing_last,
    query_sums,
    rank_order,
    sort_rows,
    when_tied,
)


class RankedMetric(Metric):
    """A metric that depends on the scores through the ranking alone.

    A subclass computes the value of a document (``_document_values``), the metric of a row of such
    values in rank order (``_value_in_order``), its exact mean over the orders of tied documents
    (``_expected_value``), and what to divide by (``_norms``).

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.

    >>> from tautrank.metrics import NDCG
    >>> issubclass(NDCG, RankedMetric)
    True
    """

    all_count: ClassVar[bool] = False
    """Whether documents beyond the cutoff and those not retrieved (tied at the bottom) count, as
    they do in a cost.
    """

    @abstractmethod
    def _document_values(self, labels: Numbers) -> F64:
        """Return the value of each document; a query is empty when all of its documents have the
        value 0.
        """

    @abstractmethod
    def _value_in_order(self, values: F64) -> F64:
        """Return one number per row of document values in rank order, cut at ``_depth``."""

    @abstractmethod
    def _expected_value(self, groups: TieGroups) -> F64:
        """Return the mean of ``_value_in_order`` over every order inside the tie groups, one number
        per row.
        """

    def _norms(self, values: F64, offsets: I64) -> F64 | None:
        """Return what to divide each query's number by, or None."""
        return None

    def _depth(self, width: int) -> int:
        """Return the number of ranks of a row that matter."""
        if self.k is None or self.all_count:
            return width
        return min(self.k, width)

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Return a function that sorts each list and computes the metric of its documents in rank
        order; and which queries have a relevant document.
        """
        values = self._document_values(labels)
        has_relevant = query_sums(values, offsets) > 0
        norms = self._norms(values, offsets)
        if norms is not None:
            # Empty queries are overwritten later; 1 keeps the division quiet.
            norms = np.where(has_relevant, norms, 1.0)
        codes = when_tied(labels, self.ties)  # by which ties are broken; None for the mean
        all_blocks = list(blocks(offsets))

        def score(scores: Floats) -> F64:
            if self.all_count:  # documents that were not retrieved (-inf) count, at the bottom
                scores = missing_last(scores)
            numbers = np.zeros(offsets.size - 1)
            # A block holds queries of similar length, sorted together as the rows of a matrix.
            for block in all_blocks:
                sorted_rows = sort_rows(block, scores, self._depth(block.width), codes)
                numbers[block.queries] = self._row_values(block, sorted_rows, values)
            return self._normalise(numbers, norms, scores, offsets)

        return score, has_relevant

    def _row_values(self, block: Block, sorted_rows: SortedRows, values: F64) -> F64:
        """Return the metric of each row (list) of a block, before it is divided by its norm.

        Rows with open ties, tied documents in no fixed order, get the mean over their orders.

        Args:
            block: lists of similar length, laid out as the rows of a matrix.
            sorted_rows: their ranking, and which rows have open ties.
            values: the value of each document of all lists.
        """
        depth = sorted_rows.head.shape[1]
        # `_without_missing` sets the values of documents that were not retrieved to 0.
        in_order = block.take(values, sorted_rows.order[:, :depth])
        row_values = self._value_in_order(_without_missing(in_order, sorted_rows.head))

        tied_rows = sorted_rows.open_ties
        if tied_rows.size:
            order = sorted_rows.order[tied_rows]
            keys = np.take_along_axis(sorted_rows.keys[tied_rows], order, axis=1)
            in_order = _without_missing(block.take(values, order, tied_rows), keys)
            row_values[tied_rows] = self._expected_value(TieGroups.of(keys, in_order))
        return row_values

    def _normalise(self, numbers: F64, norms: F64 | None, scores: Floats, offsets: I64) -> F64:
        """Return the number of each query divided by its norm."""
        return numbers if norms is None else numbers / norms


def _without_missing(in_order: F64, sorted_keys: Floats) -> F64:
    """Set the values of padding and of documents that were not retrieved to 0.

    Args:
        in_order: rows of values by rank; changed in place.
        sorted_keys: their keys, ``+inf`` where there is no document to find.
    """
    if (sorted_keys[:, -1] == np.inf).any():
        in_order[sorted_keys == np.inf] = 0.0
    return in_order


@dataclass(frozen=True, repr=False)
class Binary(Metric):
    """A metric of binary relevance.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.

    >>> from tautrank.metrics import MRR
    >>> MRR(relevant=2).mean([3.0, 2.0, 1.0], [1, 2, 0], [0, 3])
    0.5
    """

    relevant: float | None = field(default=None, metadata=checked_by(real, above=True))

    def _is_relevant(self, labels: Numbers) -> Bools:
        """Return which documents are relevant."""
        if self.relevant is None:
            return np.asarray(labels > 0)
        return np.asarray(labels >= self.relevant)


class BinaryMetric(Binary, RankedMetric):
    """A metric of a ranking and of binary relevance, see `Binary`.

    >>> from tautrank.metrics import MRR
    >>> issubclass(MRR, BinaryMetric)
    True
    """

    def _document_values(self, labels: Numbers) -> F64:
        return self._is_relevant(labels).astype(np.float64)


@dataclass(frozen=True, repr=False)
class ListMetric(Metric):
    """Base class of metrics that are written as one function of the labels of one list, in rank
    order.

    A subclass is a frozen dataclass of parameters with a static method ``one_list(labels, ...)``.
    The function gets the labels of the documents of one query, the best score first, and returns a
    number. After ``labels`` it names the parameters of the dataclass that it needs. With a cutoff
    it gets the first ``k`` labels; if it names ``k``, it gets all labels, and ``k`` (None for no
    cutoff).

    Ties are ranked as ``ties`` says (all but ``"expected"``), documents that were not retrieved
    come last, and queries without a relevant document never reach the function. The metric judges,
    stops trainings, and is typed, printed, saved and compared like any other. A cost sets
    ``higher_is_better = False`` in the class.

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
                f"ties: found expected, the mean over all orders, which {self.name} cannot compute;"
                " expected worst, best or input"
            )
        fields_of_metric = [field.name for field in fields(self)]
        names = self._parameters_of_one_list()  # the first one takes the labels
        takes_fields_only = set(names[1:]) <= set(fields_of_metric)
        if not names or not takes_fields_only:
            raise OptionError(
                f"one_list: {type(self).__name__} has no one_list(labels, ...) that is a static"
                " method and takes only parameters of its dataclass"
                f" ({', '.join(fields_of_metric)})"
            )

    @classmethod
    def _parameters_of_one_list(cls) -> list[str]:
        """Return the names of the parameters of `one_list`; none if it is no static method."""
        one_list = inspect.getattr_static(cls, "one_list", None)
        if not isinstance(one_list, staticmethod):
            return []
        return list(inspect.signature(cls.one_list).parameters)

    def _scorer(self, labels: Numbers, offsets: I64) -> tuple[Scorer, Bools]:
        """Return a function that calls `one_list` for each list that has a relevant document; and
        which lists have one.
        """
        names = self._parameters_of_one_list()[1:]  # the first one takes the labels
        options = {name: getattr(self, name) for name in names}
        # A function that takes the cutoff k gets the whole list, and any other only k documents.
        cutoff = None if "k" in options else self.k
        all_labels = np.asarray(labels, np.float64)
        has_relevant = query_sums(all_labels, offsets) > 0

        def score(scores: Floats) -> F64:
            # Labels in rank order, query after query.
            ranked = all_labels[rank_order(scores, all_labels, offsets, self.ties)]
            values = np.zeros(has_relevant.size)
            for query in np.flatnonzero(has_relevant):
                labels_of_list = ranked[offsets[query] : offsets[query + 1]]
                values[query] = self._value_of(labels_of_list[:cutoff], options)
            return values

        return score, has_relevant

    def _value_of(self, labels: F64, options: dict[str, Any]) -> float:
        """Return the value of one list; an error of its function becomes one of tautrank.

        Args:
            labels: the labels of the list in rank order.
            options: the parameters that `one_list` takes after the labels.
        """
        function = type(self).one_list
        try:
            return float(function(labels, **options))
        except Exception as error:
            raise OptionError(
                f"one_list: found {function.__qualname__} stopped with"
                f" {type(error).__name__}: {error} (the labels {labels});"
                " expected a number for every list"
            ) from error


@runtime_checkable
class ReaderMetric(Protocol):
    """A metric that says how its reader reads, so that `StochasticRank` can optimise it.

    >>> from tautrank.metrics import metric
    >>> isinstance(metric("ndcg@10"), ReaderMetric), isinstance(metric("map"), ReaderMetric)
    (True, False)
    """

    k: int | None

    discount: Discount
    """The worth of the ranks, ``w``."""

    stops: bool
    """Whether the reader stops at a document with the chance ``g``, or reads on to the end."""

    def _document_values(self, labels: Numbers) -> F64: ...

    def _norms(self, values: F64, offsets: I64) -> F64 | None: ...


def reader_parts(metric: ReaderMetric, labels: Numbers, offsets: I64) -> tuple[F64, F64]:
    """Return the value ``g`` of each document, divided by the norm of its list (what the metric
    divides by), and the weight ``w`` of each rank, 0 beyond the cutoff: the two factors of the
    terms that the metric adds up.

    Args:
        metric: the metric; its ``ties`` and ``empty`` do not matter.
        labels: checked labels.
        offsets: checked offsets.

    >>> from tautrank.metrics import ERR
    >>> reader_parts(ERR(max_label=1, k=2), np.array([1.0, 0.0]), np.array([0, 2]))
    (array([0.5, 0. ]), array([1. , 0.5]))
    """
    sizes = np.diff(offsets)
    longest = int(sizes.max(initial=0))
    weights = discount_values(longest, metric.discount, metric.k)
    gains = metric._document_values(labels)
    norms = metric._norms(gains, offsets)
    if norms is not None:  # the largest value of each list; 0 for a list without relevant ones
        divisors = np.where(norms > 0, norms, 1.0)
        gains = gains / np.repeat(divisors, sizes)
    return gains, weights
