"""Average precision, and its exact mean over the orders of tied documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tautrank.arguments import choice
from tautrank.arrays import F64, I64
from tautrank.metrics.base import register
from tautrank.metrics.ordering import TieGroups, query_sums
from tautrank.metrics.ranked import BinaryMetric


@register("map", "ap", "average_precision")
@dataclass(frozen=True, repr=False)
class MAP(BinaryMetric):
    """Average precision: the mean, over the relevant documents, of the precision where each one stands.

    ``AP@k = (1 / |relevant|) sum_{r <= k} rel_r * |relevant in the first r| / r``: the sum is divided by
    *all* relevant documents, as in trec_eval, also when more of them exist than ``k``; with
    ``divide_by="reachable"`` by ``min(k, |relevant|)``, as in LightGBM, XGBoost and CatBoost.

    Buckley and Voorhees, *Evaluating Evaluation Measure Stability*, SIGIR 2000; expected ties: McSherry and
    Najork, ECIR 2008. Empty: no relevant document.

    Args:
        k: number of ranks that count; None for the full list.
        ties: ``"worst"``, ``"best"``, ``"input"`` or ``"expected"``.
        empty: ``"skip"``, ``"zero"`` or ``"one"``.
        relevant: a document is relevant when its label is at least this; None when it is above 0.
        divide_by: ``"relevant"`` or ``"reachable"``.

    >>> MAP().per_query([4.0, 3.0, 2.0, 1.0], [1, 0, 0, 1], [0, 4])
    array([0.75])
    >>> MAP(ties="expected").per_query([0.0, 0.0], [1, 0], [0, 2])
    array([0.75])
    """

    divide_by: str = "relevant"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("divide_by", self.divide_by, ("relevant", "reachable"))

    def _norms(self, values: F64, offsets: I64) -> F64:
        relevant = query_sums(values, offsets)
        return relevant if self.k is None or self.divide_by == "relevant" else np.minimum(relevant, self.k)

    def _judge(self, values: F64) -> F64:
        found = np.cumsum(values, axis=1)
        found *= values
        found /= np.arange(1, values.shape[1] + 1)
        totals: F64 = found.sum(axis=1)
        return totals

    def _judge_expected(self, groups: TieGroups) -> F64:
        # Position x of a tie of t documents, r of them relevant, holds a relevant one with chance r/t;
        # given that, each of the x-1 above it in the tie is one of the t-1 others, r-1 of which are
        # relevant.
        rows, width = groups.values.shape
        relevant = groups.sums(groups.values)
        before = np.cumsum(relevant) - relevant
        before -= before[groups.row_starts][groups.rows()]
        slope = (relevant - 1) / np.maximum(groups.sizes - 1, 1)
        share = relevant / groups.sizes

        depth = self._depth(width)
        ranks = np.broadcast_to(np.arange(1.0, width + 1), (rows, width)).ravel()
        x_less_1 = ranks - 1 - np.repeat(groups.positions(), groups.sizes)
        found = np.repeat(before + 1, groups.sizes) + x_less_1 * np.repeat(slope, groups.sizes)
        at_rank = (np.repeat(share, groups.sizes) * found / ranks).reshape(rows, width)
        totals: F64 = at_rank[:, :depth].sum(axis=1)
        return totals
