"""Metrics as a model of a reader who goes down the list, which is what losses need to optimise them.

DCG, NDCG, ERR and MRR are one model. The reader collects

    sum_r  w_r g_r  prod_{j < r} (1 - stop_j)  /  norm

where ``g`` and ``stop`` belong to the documents, ``w`` to the ranks and ``norm`` to the list.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
appendix D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64, I64, Bools
from tautrank.metrics.gains import Discount, discount_values
from tautrank.metrics.ordering import query_sums


@dataclass(frozen=True)
class Reader:
    """How such a reader reads.

    Args:
        discount: the worth of the ranks, ``w``.
        stops: whether the reader stops at a document with the chance ``g``, or reads on to the end.

    >>> from tautrank.metrics import metric
    >>> metric("err").reader()
    Reader(discount='reciprocal', stops=True)
    """

    discount: Discount
    stops: bool


@runtime_checkable
class ReaderMetric(Protocol):
    """A metric with a method ``reader``: this is how a metric says that `StochasticRank` can optimise it.

    >>> from tautrank.metrics import metric
    >>> isinstance(metric("ndcg@10"), ReaderMetric), isinstance(metric("map"), ReaderMetric)
    (True, False)
    """

    k: int | None

    def reader(self) -> Reader:
        """How the reader of this metric reads."""

    def _document_values(self, labels: NDArray[np.number]) -> F64: ...

    def _norms(self, values: F64, offsets: I64) -> F64 | None: ...


@dataclass(frozen=True, eq=False)
class ReaderModel:
    """The reader of given lists: what documents, ranks and lists bring to the metric.

    Args:
        gains: ``g``, one per document.
        stops: as in `Reader`.
        weights: ``w`` of the ranks 1, 2, ...; 0 beyond the cutoff.
        norms: what each list's sum is divided by; 1 where it has nothing to gain.
        filled: whether a list has a document with a gain.

    >>> from tautrank.metrics import ERR
    >>> model = ReaderModel.of(ERR(max_label=1, k=2), np.array([1.0, 0.0]), np.array([0, 2]))
    >>> model.gains, model.stops, model.weights
    (array([0.5, 0. ]), True, array([1. , 0.5]))
    """

    gains: F64
    stops: bool
    weights: F64
    norms: F64
    filled: Bools

    @classmethod
    def of(cls, metric: ReaderMetric, labels: NDArray[np.number], offsets: I64) -> ReaderModel:
        """Write a metric as a reader of the given lists.

        Args:
            metric: the metric; its ``ties`` and ``empty`` do not matter.
            labels: checked labels.
            offsets: checked offsets.
        """
        reader = metric.reader()
        weights = discount_values(int(np.diff(offsets).max(initial=0)), reader.discount)
        if metric.k is not None:
            weights[metric.k :] = 0.0
        gains = metric._document_values(labels)
        filled = query_sums(gains, offsets) > 0
        norms = metric._norms(gains, offsets)
        return cls(gains, reader.stops, weights, np.where(filled, 1.0 if norms is None else norms, 1.0), filled)
