"""Metrics of a selection: documents keep their order, scores say which of them are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tautrank.metrics.base import Metric, Scorer, register
from tautrank.metrics.gains import Gain, check_gain, gain_values
from tautrank.metrics.ordering import F64, I64, query_sums


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

    gain: Gain = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", check_gain(self.gain))

    def _scorer(self, labels: NDArray[np.number], offsets: I64) -> tuple[Scorer, NDArray[np.bool_]]:
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
