"""What StochasticRank needs to know about a metric: its value after one document moves.

A metric is scale-free when multiplying all scores by a positive number does not change it. Such a metric changes only
where the score of a document crosses a breaking point: the score of another document, for a metric of a
ranking, or 0, for a metric of a selection.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020, sec. 3.
"""

from __future__ import annotations

import abc
from typing import Any, Protocol, runtime_checkable

from tautrank.arrays import F64


@runtime_checkable
class ScaleFreeMetric(Protocol):
    """A metric, higher is better, that StochasticRank can optimise: ``tr.loss("stochasticrank", metric=MyMetric())``.

    Subclass it, or write an object with the same attributes and methods. Lists come one at a time. Places and documents
    are counted from 0. ``sums`` is called once per list; ``moved`` is called for each document and each of its breaking
    points, so it should take O(1) time, with the help of what ``sums`` returned.

    A plain Python object works; one whose ``sums`` and ``moved`` are Numba-compiled functions (static methods, since
    compiled code has no ``self``) runs at native speed. If the object is hashable and comparable, as a frozen
    dataclass is, so is the loss; the loss prints the object's ``str``.

    >>> import numpy as np
    >>> class Precision(ScaleFreeMetric):
    ...     '''The share of the first k documents that are relevant.'''
    ...
    ...     def __init__(self, k):
    ...         self.k = k
    ...
    ...     def sums(self, values, scores, k):  # relevant documents among the first 0, 1, 2, ...
    ...         return np.concatenate(([0.0], np.cumsum(values > 0)))
    ...
    ...     def moved(self, values, sums, document, place, k):
    ...         # The others of the first k are the first k or, if the document is one of them, k + 1 of the list.
    ...         inside = place < k
    ...         others = sums[min(k - inside + (document < k - inside), values.size)]
    ...         own = values[document] > 0
    ...         return (others - (own and document < k - inside) + (own and inside)) / self.k
    >>> from tautrank.losses import loss
    >>> objective = loss("stochasticrank", metric=Precision(1), mu=0).bind([0, 1], [0, 2])
    >>> grad, hess = objective.gradients([0.0, 0.0])
    >>> bool(grad[0] > 0), bool(grad[1] < 0)
    (True, True)
    """

    breaks_at: str = "scores"
    """``"scores"``: the metric depends on the ranking, and changes where two scores are equal.
    ``"zero"``: it depends on which scores are above 0, and changes where a score is 0."""

    k: int | None = None
    """The metric depends on the first ``k`` places only; None: on all."""

    def document_values(self, labels: F64) -> F64:
        """Return what each document brings to the metric, computed once from the labels; by default the labels.

        Args:
            labels: the labels of all documents of all lists.
        """
        return labels

    @abc.abstractmethod
    def sums(self, values: F64, scores: F64, k: int) -> Any:
        """Return what ``moved`` needs to know about a list, as an array.

        Args:
            values: the ``document_values`` of the list: in the order of the ranking, first place first
                (``breaks_at="scores"``), or in input order (``"zero"``).
            scores: noisy scores in the same order; only their order or sign has a meaning.
            k: the metric's ``k``, or the length of the list if that is less.
        """

    @abc.abstractmethod
    def moved(self, values: F64, sums: Any, document: int, place: int, k: int) -> float:
        """Return the metric of the list after one document is moved and the others keep their order.

        Args:
            values: as in ``sums``.
            sums: what ``sums`` returned.
            document: the document's index in ``values``.
            place: its new place in the ranking (``breaks_at="scores"``); or 0 for below 0 and 1 for above 0.
            k: as in ``sums``.
        """
