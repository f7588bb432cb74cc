"""NDCG made smooth without noise: by approximate ranks (ApproxNDCG) or by an approximate sort
(NeuralNDCG).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tautrank.arguments import checked_by, choice, real
from tautrank.arrays import F64, Floats
from tautrank.errors import OptionError
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.losses.pairwise import gains_over_max_dcg
from tautrank.metrics.base import check_k
from tautrank.metrics.gains import Gain, check_gain, discount_values


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothNDCG(Loss):
    """The base of both losses: one minus a smooth NDCG, with its exact gradient.

    Args:
        k: number of ranks that count; ``None`` is the full list, and the only choice of
            ``approxndcg``.
        temperature: unit of the scores: the lower, the closer to NDCG and the steeper.
        gain: ``"exp2"``, ``"linear"``, or a table by label.
        scale: ``"curvature"``: the hessian is the sum of the sizes of the terms of the gradient
            over the temperature, so that ``|grad| <= temperature * hess`` and the temperature only
            changes the unit of the scores; ``"plain"``: it is 1.
        noise: see `Loss`.
        strength: see `Loss`.
    """

    k: int | None = field(default=None, metadata=checked_by(check_k))
    temperature: float = field(default=1.0, metadata=checked_by(real, above=True))
    gain: Gain = field(default="exp2", metadata=checked_by(check_gain))
    scale: str = field(
        default="curvature", metadata=checked_by(choice, known=("curvature", "plain"))
    )

    @property
    def worth_searching(self) -> Ranges:
        """The cutoff of ``neuralndcg``, and the temperature where the hessian is 1; otherwise it is
        a unit.
        """
        if self.scale == "curvature":
            return self._searched
        return self._searched | {"temperature": ("float", 0.1, 10.0, "log")}

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return _SmoothObjective(self, lists, seed, threads)


@register("approxndcg")
class ApproxNDCG(SmoothNDCG):
    """One minus the NDCG of approximate ranks.

        rank_i = 1 + sum_(j != i) 1 / (1 + exp((s_i - s_j) / temperature))
        value = 1 - sum_i G_i / log2(1 + rank_i),    G_i = gain_i / maxDCG

    The time is ``O(n)`` for each document with a gain: a list of 50,000 documents, a tenth of them
    relevant, takes seconds.

    Qin, Liu and Li, *A General Approximation Framework for Direct Optimization of Information
    Retrieval Measures*, Information Retrieval 13(4), 2010, where ``alpha`` is one over the
    temperature.

    Its parameters are those of `SmoothNDCG`, but there is no cutoff.

    >>> objective = ApproxNDCG().bind(labels=[0, 1], offsets=[0, 2])
    >>> (1 - objective.values([0.0, 0.0])).round(4)  # both ranks are 1.5
    array([0.7565])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            raise OptionError(
                f"k: found {self.k} with approxndcg; expected None, as its ranks are not whole"
                " numbers"
            )


@register("neuralndcg")
@dataclass(frozen=True, kw_only=True, repr=False)
class NeuralNDCG(SmoothNDCG):
    """One minus the NDCG of gains that are sorted approximately, by NeuralSort's relaxed
    permutation matrix.

        P_ij = softmax over j of ((n + 1 - 2i) s_j - sum_l |s_j - s_l|) / temperature
        value = 1 - sum_(i <= k) (sum_j P_ij G_j) / log2(1 + i),    G_j = gain_j / maxDCG@k

    Rows of ``P`` add up to 1, columns need not, so that the value may be below 0. The paper also
    scales ``P`` until its columns add up to 1 (Sinkhorn), for which it needs the whole matrix; this
    is left out here. It takes ``O(n k)`` exponentials, ``O(n^2)`` additions and ``O(n)`` memory: a
    second for a list of 50,000 documents.

    Pobrotyn and Bialobrzeski, *NeuralNDCG: Direct Optimisation of a Ranking Metric via
    Differentiable Relaxation of Sorting*, 2021, the deterministic form; Grover, Wang, Zweig and
    Ermon, *Stochastic Optimization of Sorting Networks via Continuous Relaxations*, ICLR 2019.

    Its parameters are those of `SmoothNDCG`, with a cutoff of 30 by default.

    >>> objective = NeuralNDCG().bind(labels=[0, 1], offsets=[0, 2])
    >>> (1 - objective.values([0.0, 0.0])).round(4)  # both ranks hold half of the gain
    array([0.8155])
    """

    _searched: ClassVar[Ranges] = {"k": ("choice", 10, 30, 100, None)}

    k: int | None = 30


class _SmoothObjective(Objective):
    """A smooth NDCG bound to lists."""

    loss: SmoothNDCG

    def __init__(self, loss: SmoothNDCG, lists: TrainingLists, seed: int, threads: int) -> None:
        # All pairs of documents, each about four times the work of a pair in a pairwise loss.
        costs = 4.0 * lists.sizes.astype(np.float64) ** 2
        super().__init__(loss, lists, seed, threads, costs)
        self._gains = gains_over_max_dcg(lists, loss.gain, "log2", loss.k)
        self._discounts = discount_values(lists.longest, "log2", loss.k)[: loss.k]
        self._scale = lists.weights_of(self._gains)

    def _results(self, scores: Floats, held: Floats, step: int) -> tuple[Floats, Floats, F64]:
        """Return gradient and hessian (one number each per document) and the value of each query
        of one minus a smooth NDCG; there is nothing to hold fixed, so ``held`` is not used.
        """
        from tautrank.losses._smooth_ndcg_kernel import approximate_ranks, sorted_gains

        loss, lists = self.loss, self.lists
        kernel = sorted_gains if isinstance(loss, NeuralNDCG) else approximate_ranks
        # In place of a hessian the kernels write the sum of the sizes of a gradient's terms.
        grad, sum_of_sizes, values = self._filled_results(
            kernel,
            scores.dtype,
            scores,
            self._gains,
            lists.offsets,
            self._scale,
            loss.temperature,
            self._discounts,
        )
        # With the scale "plain" every document's hessian is the weight of its query.
        if loss.scale == "plain":
            weights = np.repeat(self._scale, lists.sizes)
            return grad, weights.astype(scores.dtype), values
        return grad, sum_of_sizes / scores.dtype.type(loss.temperature), values
