"""Metrics of a ranking: sort each list, then judge the values of its documents in rank order."""

from __future__ import annotations

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import real
from tautrank.arrays import F64, I64, Bools
from tautrank.metrics.base import Metric, Scorer
from tautrank.metrics.ordering import TieGroups, blocks, last_place_for_missing, query_sums, sort_rows, tie_codes


class RankedMetric(Metric):
    """A metric that depends on the scores through the ranking alone.

    A subclass computes the value of a document (``_document_values``), the metric of a row of such values in rank
    order (``_judge``), its exact mean over the orders of tied documents (``_judge_expected``), and what to divide
    by (``_norms``).

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.

    >>> from tautrank.metrics import NDCG
    >>> issubclass(NDCG, RankedMetric)
    True
    """

    all_count: ClassVar[bool] = False
    """Whether documents beyond the cutoff and those not retrieved (tied at the bottom) count, as they do in a cost."""

    @abstractmethod
    def _document_values(self, labels: NDArray[np.number]) -> F64:
        """Return the value of each document; a query is empty when all of its documents have the value 0."""

    @abstractmethod
    def _judge(self, values: F64) -> F64:
        """Return one number per row of document values in rank order, cut at ``_depth``."""

    @abstractmethod
    def _judge_expected(self, groups: TieGroups) -> F64:
        """Return the mean of ``_judge`` over every order inside the tie groups, one number per row."""

    def _norms(self, values: F64, offsets: I64) -> F64 | None:
        """Return what to divide each query's number by, or None."""
        return None

    def _depth(self, width: int) -> int:
        """Return the number of ranks of a row that matter."""
        return width if self.k is None or self.all_count else min(self.k, width)

    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, Bools]:
        values = self._document_values(labels)
        filled = query_sums(values, offsets) > 0
        norms = self._norms(values, offsets)
        if norms is not None:
            # Empty queries are overwritten later; 1 keeps the division quiet.
            norms = np.where(filled, norms, 1.0)
        # Computed when the first tie is met.
        codes = None if self.ties == "expected" else functools.cache(lambda: tie_codes(labels, self.ties))
        cut = list(blocks(offsets))

        def score(scores: NDArray[np.floating]) -> F64:
            if self.all_count:
                scores = last_place_for_missing(scores)
            missing = scores.size > 0 and scores.min() == -np.inf
            result = np.zeros(offsets.size - 1)
            for block in cut:
                depth = self._depth(block.width)
                hide = missing or block.padded
                order, keys, head, tied = sort_rows(block, scores, depth, codes)
                in_order = values.take(block.starts[:, None] + order[:, :depth], mode="clip")
                if hide:
                    in_order[head == np.inf] = 0.0
                row_values = self._judge(in_order)
                if tied.size:
                    some = order[tied]
                    sorted_keys = np.take_along_axis(keys[tied], some, axis=1)
                    in_order = values.take(block.starts[tied, None] + some, mode="clip")
                    if hide:
                        in_order[sorted_keys == np.inf] = 0.0
                    row_values[tied] = self._judge_expected(TieGroups.of(sorted_keys, in_order))
                result[block.queries] = row_values
            return self._normalise(result, norms, scores, offsets)

        return score, filled

    def _normalise(self, numbers: F64, norms: F64 | None, scores: NDArray[np.floating], offsets: I64) -> F64:
        return numbers if norms is None else numbers / norms


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

    relevant: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant is not None:
            object.__setattr__(self, "relevant", real("relevant", self.relevant, above=True))

    def _is_relevant(self, labels: NDArray[np.number]) -> Bools:
        passed: Bools = labels > 0 if self.relevant is None else labels >= self.relevant
        return passed


class BinaryMetric(Binary, RankedMetric):
    """A metric of a ranking and of binary relevance, see `Binary`.

    >>> from tautrank.metrics import MRR
    >>> issubclass(MRR, BinaryMetric)
    True
    """

    def _document_values(self, labels: NDArray[np.number]) -> F64:
        return self._is_relevant(labels).astype(np.float64)
