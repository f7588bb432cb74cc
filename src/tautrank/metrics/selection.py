"""Metrics of a selection: documents keep their order, scores say which of them are shown.

The functions are plain Python here; `tautrank.losses` compiles them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.arrays import F64, I64, Bools
from tautrank.metrics.base import Metric, Scorer, register
from tautrank.metrics.gains import Gain, check_gain, gain_values
from tautrank.metrics.ordering import query_sums


def selection_sums(values: F64, scores: F64, k: int) -> F64:
    """The sums of DCG-RR, see `tautrank.losses.ScaleFreeMetric.sums`: one row per document.

    The columns are: whether it is shown; how many are shown before it and what they earn; what those shown after it
    earn at their ranks, one rank further down, and one rank further up.

    Args:
        values: gains in input order.
        scores: documents above 0 are shown.
        k: ranks that count.

    >>> selection_sums(np.array([1.0]), np.array([1.0]), 1)
    array([[1., 0., 0., 0., 0., 0.]])
    """
    n = values.shape[0]
    sums = np.zeros((n, 6))
    shown = 0
    earned = 0.0
    for i in range(n):
        sums[i, 1] = shown
        sums[i, 2] = earned
        if scores[i] > 0.0:
            sums[i, 0] = 1.0
            shown += 1
            if shown <= k:
                earned += values[i] / shown
    here = 0.0
    down = 0.0
    up = 0.0
    for i in range(n - 1, -1, -1):
        sums[i, 3] = here
        sums[i, 4] = down
        sums[i, 5] = up
        if scores[i] > 0.0:
            rank = sums[i, 1] + 1.0
            if rank <= k:
                here += values[i] / rank
            if rank + 1.0 <= k:
                down += values[i] / (rank + 1.0)
            # The first document shown has nobody before it whose rank it could take.
            if rank >= 2.0 and rank - 1.0 <= k:
                up += values[i] / (rank - 1.0)
    return sums


def selection_moved(values: F64, sums: F64, document: int, place: int, k: int) -> Any:
    """DCG-RR with one document hidden (place 0) or shown (place 1), see `tautrank.losses.ScaleFreeMetric.moved`.

    Args:
        values: gains in input order.
        sums: those of `selection_sums`.
        document: which document.
        place: 0 or 1.
        k: ranks that count.

    >>> gains, scores = np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5])
    >>> sums = selection_sums(gains, scores, 3)  # 1/1 + 3/2; with the second one shown 1/1 + 2/2 + 3/3
    >>> float(selection_moved(gains, sums, 1, 0, 3)), float(selection_moved(gains, sums, 1, 1, 3))
    (2.5, 3.0)
    """
    shown, rank = sums[document, 0] > 0.0, sums[document, 1] + 1.0
    value = sums[document, 2]
    if place == 0:
        return value + (sums[document, 5] if shown else sums[document, 3])
    if rank <= k:
        value += values[document] / rank
    return value + (sums[document, 3] if shown else sums[document, 4])


@register("dcg-rr")
@dataclass(frozen=True, repr=False)
class DCGRR(Metric):
    """DCG-RR: documents keep their order, those with a score above 0 are shown, each earns gain over rank.

    ``DCG-RR = sum_i gain(y_i) [s_i > 0] / (1 + sum_{j < i} [s_j > 0])``, ``i`` and ``j`` in input order;
    with ``k``, over the first ``k`` shown. A score of exactly 0 is not shown, whatever ``ties`` is: nothing
    is compared, so nothing ties. Adding a constant to the scores does change this metric.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*,
    ICML 2020, eq. 5. Empty: no document with a gain.

    Args:
        k: count the first ``k`` shown documents; None for all.
        ties: without effect.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"linear"``, ``"exp2"`` or a table by label.

    >>> DCGRR().per_query([1.0, -1.0, 0.5], [1, 2, 3], [0, 3])
    array([2.5])
    """

    gain: Gain = field(default="linear", metadata={"check": check_gain})

    # What makes it a `tautrank.losses.ScaleFreeMetric`, which StochasticRank can optimise.
    breaks_at = "zero"
    sums = staticmethod(selection_sums)
    moved = staticmethod(selection_moved)

    def document_values(self, labels: F64) -> F64:
        """Return the gain of each label.

        Args:
            labels: one finite number of at least 0 per document.
        """
        return gain_values(labels, self.gain)

    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, Bools]:
        gains = gain_values(labels, self.gain)

        def score(scores: NDArray[np.floating]) -> F64:
            shown = np.flatnonzero(scores > 0)
            before = np.searchsorted(shown, offsets[:-1])
            counts = np.diff(before, append=shown.size)
            ranks = np.arange(1, shown.size + 1) - np.repeat(before, counts)
            earned = gains[shown] / ranks
            if self.k is not None:
                earned[ranks > self.k] = 0.0
            return query_sums(earned, np.append(before, shown.size))

        return score, query_sums(gains, offsets) > 0
