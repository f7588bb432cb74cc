"""What a metric is worth when one document of a ranked list moves: every move in O(1), after sums over the list.

DCG, NDCG, ERR and MRR are one model of a reader, who goes down the list and collects

    sum_r  w_r g_r  prod_{j < r} (1 - stop_j)  /  norm

where ``g`` and ``stop`` belong to the documents, ``w`` to the ranks and ``norm`` to the list.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
appendix D. The paper divides by ``1 - stop``; here nothing is divided by what may be 0 or nearly 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arrays import check_labels
from tautrank.errors import DataError, OptionError
from tautrank.metrics.base import Metric
from tautrank.metrics.base import metric as read_metric
from tautrank.metrics.cascade import ERR, MRR
from tautrank.metrics.gains import discount_values
from tautrank.metrics.ordering import F64, I64, query_sums
from tautrank.metrics.positional import DCG, NDCG

READER_METRICS: tuple[str, ...] = (DCG.name, NDCG.name, ERR.name, MRR.name)
"""The metrics that `ReaderModel` knows."""


@dataclass(frozen=True, eq=False)
class ReaderModel:
    """A metric as a reader who goes down the list: what documents, ranks and lists bring to it.

    Args:
        gains: ``g``, one a document.
        stops: whether the reader stops at a document with the chance ``g``, or reads on to the end.
        weights: ``w`` of the ranks 1, 2, ...; 0 beyond the cut-off.
        norms: what each list's sum is divided by; 1 where it has nothing to gain.
        filled: whether a list has a document with a gain.

    >>> model = ReaderModel.of(ERR(max_label=1, k=2), np.array([1.0, 0.0]), np.array([0, 2]))
    >>> model.gains, model.stops, model.weights
    (array([0.5, 0. ]), True, array([1. , 0.5]))
    """

    gains: F64
    stops: bool
    weights: F64
    norms: F64
    filled: NDArray[np.bool_]

    @classmethod
    def of(cls, metric: Metric, labels: NDArray[np.number], offsets: I64) -> ReaderModel:
        """Write ``metric`` as a reader of the given lists.

        Args:
            metric: one of `READER_METRICS`; its options count, except ``ties`` and ``empty``.
            labels: checked labels.
            offsets: checked offsets.
        """
        longest = int(np.diff(offsets).max(initial=0))
        if isinstance(metric, (ERR, MRR)):
            stops = True
            weights = discount_values(longest, "reciprocal")
        elif isinstance(metric, (DCG, NDCG)):
            stops = False
            weights = metric._rank_weights(longest)
        else:
            raise OptionError(
                f"metric: found {metric}, which does not say what moving a document is worth; "
                f"expected one of {', '.join(READER_METRICS)}"
            )
        if metric.k is not None:
            weights[metric.k :] = 0.0
        gains = metric._document_values(labels)
        filled = query_sums(gains, offsets) > 0
        norms = metric._norms(gains, offsets)
        return cls(gains, stops, weights, np.where(filled, 1.0 if norms is None else norms, 1.0), filled)


class Moves:
    """The values of a metric when the document at one rank of a list is moved to another, in O(1) each.

    With ``P_r = prod_{j < r} (1 - stop_j)`` the sums over the list are, in the words of the model above, what is
    collected before a rank in place and one rank further down, and what is collected from a rank on by a reader who
    got there, in place (``V``) and one rank further up (``U``). A document that moves up from rank ``i`` to ``p``
    pushes those between down; one that moves down lets them up and out of its own shadow:

        value = sum_{r < i} w_r g_r P_r + P_i U_{i+1} + E (w_p g_i + (1 - stop_i) V_{p+1} - U_{p+1})

    where ``E`` is the product of ``1 - stop`` over the first ``p`` documents other than ``i``.

    Args:
        metric: ``dcg``, ``ndcg``, ``err`` or ``mrr``, by name or as an object.
        labels: the labels of the list, from the first rank to the last.

    >>> moves = Moves("mrr", labels=[0, 1, 0])
    >>> moves.value
    0.5
    >>> moves.values(2, 1), moves.values(2, 3)
    (array(1.), array(0.33333333))
    >>> moves.values([[1], [2], [3]], [1, 2, 3])  # row: the document's rank; column: where it goes
    array([[0.5       , 1.        , 1.        ],
           [1.        , 0.5       , 0.33333333],
           [0.33333333, 0.33333333, 0.5       ]])
    """

    value: float
    """The metric of the list as it is; 0 where it has nothing to gain."""

    def __init__(self, metric: str | Metric, labels: ArrayLike) -> None:
        y = check_labels(labels)
        model = ReaderModel.of(read_metric(metric), y, np.array([0, y.size]))
        n = self._n = y.size
        # Entry r of each array belongs to rank r; ranks 0 and n + 1 are there so that no sum has a special case.
        self._w = np.concatenate(([0.0], model.weights, [0.0]))
        g = self._g = np.concatenate(([0.0], model.gains / model.norms[0]))
        d = self._d = np.concatenate(([1.0], 1.0 - model.gains if model.stops else np.ones(n)))
        self._p = np.ones(n + 2)
        np.cumprod(d, out=self._p[1:])
        # Only the first certain stop has anything behind it to reveal when it moves away.
        blocked = np.flatnonzero(d == 0)
        self._first_block = int(blocked[0]) if blocked.size else 0
        opened = d.copy()
        opened[self._first_block] = 1.0
        self._p_opened = np.ones(n + 2)
        np.cumprod(opened, out=self._p_opened[1:])
        earned = g * self._p[:-1]
        self._in_place = np.cumsum(earned * self._w[:-1])
        self._pushed_down = np.cumsum(earned * self._w[1:])
        self._from = np.zeros(n + 2)
        self._from_up = np.zeros(n + 2)
        for rank in range(n, 0, -1):
            self._from[rank] = self._w[rank] * g[rank] + d[rank] * self._from[rank + 1]
            self._from_up[rank] = self._w[rank - 1] * g[rank] + d[rank] * self._from_up[rank + 1]
        self.value = float(self._in_place[-1])

    def values(self, document: ArrayLike, to: ArrayLike) -> F64:
        """The metric after the document at rank ``document`` was moved to rank ``to``, the others closing up.

        Args:
            document: the rank the document has, from 1.
            to: the rank it gets, from 1. The two are broadcast against each other.
        """
        i, p = np.broadcast_arrays(self._ranks("document", document), self._ranks("to", to))
        w, g, d, product = self._w, self._g[i], self._d[i], self._p
        up = (
            self._in_place[p - 1]
            + product[p] * w[p] * g
            + d * (self._pushed_down[i - 1] - self._pushed_down[p - 1])
            + (self._in_place[-1] - self._in_place[i])
        )
        after = np.minimum(p + 1, self._n + 1)
        others = np.divide(product[after], d, out=np.zeros(i.shape), where=d > 0)
        others = np.where((d == 0) & (i == self._first_block), self._p_opened[after], others)
        down = (
            self._in_place[i - 1]
            + product[i] * self._from_up[i + 1]
            + others * (w[p] * g + d * self._from[after] - self._from_up[after])
        )
        values: F64 = np.where(p <= i, up, down)
        return values

    def _ranks(self, name: str, given: ArrayLike) -> I64:
        ranks = np.asarray(given)
        if ranks.dtype.kind not in "iu" or (ranks.size and not (ranks.min() >= 1 and ranks.max() <= self._n)):
            raise DataError(f"{name}: found {given!r}; expected ranks, whole numbers from 1 to {self._n}")
        return ranks.astype(np.int64)
