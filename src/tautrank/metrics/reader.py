"""Metrics as a model of a reader who goes down the list, which is what losses need to optimise them.

DCG, NDCG, ERR and MRR are one model. The reader collects

    sum_r  w_r g_r  prod_{j < r} (1 - stop_j)  /  norm

where ``g`` and ``stop`` belong to the documents, ``w`` to the ranks and ``norm`` to the list.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
appendix D.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64, I64
from tautrank.metrics.gains import Discount, discount_values


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

    def _document_values(self, labels: NDArray[np.number]) -> F64: ...

    def _norms(self, values: F64, offsets: I64) -> F64 | None: ...


def reader_parts(metric: ReaderMetric, labels: NDArray[np.number], offsets: I64) -> tuple[F64, F64]:
    """Return ``g`` over the norm of its list, one per document, and ``w``, one per rank, 0 beyond the cutoff.

    Args:
        metric: the metric; its ``ties`` and ``empty`` do not matter.
        labels: checked labels.
        offsets: checked offsets.

    >>> from tautrank.metrics import ERR
    >>> reader_parts(ERR(max_label=1, k=2), np.array([1.0, 0.0]), np.array([0, 2]))
    (array([0.5, 0. ]), array([1. , 0.5]))
    """
    sizes = np.diff(offsets)
    weights = discount_values(int(sizes.max(initial=0)), metric.discount, metric.k)
    gains = metric._document_values(labels)
    norms = metric._norms(gains, offsets)
    if norms is not None:
        gains = gains / np.repeat(np.where(norms > 0, norms, 1.0), sizes)
    return gains, weights
