"""The softmax family: cross entropy between a distribution over documents and the softmax of their scores.

Every member has the value ``-sum_i phi_i log rho_i`` with ``rho = softmax(s)``; they differ in the target ``phi``.

Bruch, Wang, Bendersky and Najork, *An Analysis of the Softmax Cross Entropy Loss for Learning-to-Rank with Binary
Relevance*, ICTIR 2019; Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, WWW 2021.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import choice, real
from tautrank.arrays import F64
from tautrank.losses.base import Floats, Lists, Loss, Objective, register
from tautrank.metrics.ordering import query_maxima, query_sums


@dataclass(frozen=True, kw_only=True, repr=False)
class SoftmaxLoss(Loss):
    """The base of the family.

    Args:
        hessian: ``"diagonal"`` is ``grad = rho - phi`` with ``hess = rho (1 - rho)``; ``"neumann"`` (sec. 4.4 of the
            XE-NDCG paper) has the same ``hess``, and a ``grad`` such that ``grad / hess`` is the Newton step with the
            inverse hessian cut off at ``(I + S + S^2) D^-1``, where ``D_ii = rho_i (1 - rho_i)`` and
            ``S_ij = rho_j / (1 - rho_i)``; ``"exact"`` is ``grad = rho - phi`` with ``hess = rho``, the exact Newton
            step up to a constant per query (Sherman-Morrison).
        noise: see `Loss`.
        strength: see `Loss`.

    With propensities (see `Loss.bind`) what a label earns in the target is divided by the document's propensity
    (inverse propensity scoring, Joachims, Swaminathan and Schnabel, WSDM 2017, as the binary-relevance paper suggests):
    ``y_i / p_i`` for ``listnet``, ``1 + (e^y_i - 1) / p_i`` for its softmax target, ``1 - gamma_i + (2^y_i - 1) / p_i``
    for ``xendcg``, each over its sum.

    >>> ListNet(hessian="exact").bind([1, 0], [0, 2]).gradients([0.0, 0.0])
    (array([-0.5,  0.5]), array([0.5, 0.5]))
    """

    takes_propensities: ClassVar[bool] = True

    hessian: str = "diagonal"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("hessian", self.hessian, ("diagonal", "neumann", "exact"))

    @property
    def gradient_is_derivative(self) -> bool:
        """Not with ``hessian="neumann"``, whose gradient is the numerator of a Newton step."""
        return self.hessian != "neumann"

    def _bind(self, lists: Lists, seed: int, threads: int) -> Objective:
        return _SoftmaxObjective(self, lists, seed, threads)

    @abc.abstractmethod
    def _parts(self, lists: Lists) -> tuple[F64, F64]:
        """Return the target without gamma, one per document, and what a gamma of 1 subtracts, one per query."""


@register("listnet")
@dataclass(frozen=True, kw_only=True, repr=False)
class ListNet(SoftmaxLoss):
    """Cross entropy with the labels as the target distribution; with binary labels it bounds MRR and NDCG.

    ``phi_i = y_i / sum_j y_j`` (``target="linear"``, eq. 6 of Bruch et al., ICTIR 2019) or ``e^y_i / sum_j e^y_j``
    (``target="softmax"``, as first published).

    Cao, Qin, Liu, Tsai and Li, *Learning to Rank: From Pairwise Approach to Listwise Approach*, ICML 2007.

    Args:
        target: ``"linear"`` or ``"softmax"``.
        hessian: ``"diagonal"``, ``"neumann"`` or ``"exact"``, see `SoftmaxLoss`.
        noise: ``None`` or ``"gumbel"``, see `Loss`.
        strength: scale of the noise.

    >>> objective = ListNet().bind(labels=[1, 0], offsets=[0, 2])
    >>> objective.gradients([0.0, 0.0])  # rho - phi, rho (1 - rho)
    (array([-0.5,  0.5]), array([0.25, 0.25]))
    """

    target: str = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("target", self.target, ("linear", "softmax"))

    @property
    def worth_searching(self) -> dict[str, tuple[Any, ...]]:
        """The target, and what the gradient is divided by."""
        return {"target": ("choice", "linear", "softmax"), "hessian": ("choice", "diagonal", "exact")}

    def _parts(self, lists: Lists) -> tuple[F64, F64]:
        none = np.zeros(lists.sizes.size)
        if self.target == "linear":
            return lists.labels / lists.propensities, none
        top = np.repeat(query_maxima(lists.labels, lists.offsets), lists.sizes)
        zero = np.exp(-top)
        return zero + (np.exp(lists.labels - top) - zero) / lists.propensities, none


@register("xendcg")
@dataclass(frozen=True, kw_only=True, repr=False)
class XENDCG(SoftmaxLoss):
    """Cross entropy that is a convex bound of NDCG for graded labels.

    ``phi_i = (2^y_i - gamma_i) / sum_j (2^y_j - gamma_j)`` with any ``gamma`` in ``[0, 1]``.

    ``gamma="tight"`` minimises the loss at the current scores, which gives the tightest bound. It
    minimises a ratio of linear functions over a box: with ``c = -log rho``, ``gamma_i`` is 0 where ``c_i`` lies below
    the minimum and 1 elsewhere; one sort finds the threshold.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, WWW 2021.

    Args:
        gamma: ``"uniform"`` draws it for every (step, query, document); a number in [0, 1]; or ``"tight"``.
        hessian: ``"neumann"``, ``"diagonal"`` or ``"exact"``, see `SoftmaxLoss`; with ``"neumann"`` and
            ``gamma="uniform"`` this is LightGBM's ``rank_xendcg`` with other random numbers.
        noise: ``None`` or ``"gumbel"``, see `Loss`.
        strength: scale of the noise.

    >>> objective = XENDCG(gamma=1.0, hessian="diagonal").bind(labels=[2, 1], offsets=[0, 2])
    >>> objective.gradients([0.0, 0.0])  # 1/2 - 3/4, 1/2 - 1/4
    (array([-0.25,  0.25]), array([0.25, 0.25]))
    """

    gamma: str | float = "uniform"
    hessian: str = "neumann"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.gamma, str):
            choice("gamma", self.gamma, ("uniform", "tight"))
        else:
            self._set("gamma", real("gamma", self.gamma, least=0.0, most=1.0))

    @property
    def worth_searching(self) -> dict[str, tuple[Any, ...]]:
        """Gamma, and what the gradient is divided by."""
        return {"gamma": ("choice", "uniform", "tight"), "hessian": ("choice", "neumann", "diagonal", "exact")}

    @property
    def is_random(self) -> bool:
        """Whether scores are noisy or gamma is drawn."""
        return super().is_random or self.gamma == "uniform"

    def _parts(self, lists: Lists) -> tuple[F64, F64]:
        # In units of the query's highest 2^y, so that no label overflows.
        highest = query_maxima(lists.labels, lists.offsets)
        unit = np.exp2(-highest)
        earned = np.exp2(lists.labels - np.repeat(highest, lists.sizes)) - np.repeat(unit, lists.sizes)
        base = earned / lists.propensities
        if isinstance(self.gamma, float):
            base += np.repeat(unit, lists.sizes) * (1.0 - self.gamma)
        return base, unit


class _SoftmaxObjective(Objective):
    loss: SoftmaxLoss

    def __init__(self, loss: SoftmaxLoss, lists: Lists, seed: int, threads: int) -> None:
        # A document costs about forty of the pairs that `balanced_ranges` counts in.
        super().__init__(loss, lists, seed, threads, 40.0 * lists.sizes.astype(np.float64))
        self._base, self._unit = loss._parts(lists)
        self._gamma = loss.gamma if isinstance(loss, XENDCG) else 1.0
        if isinstance(self._gamma, float):
            sums = query_sums(self._base, lists.offsets)
            self._base /= np.repeat(np.where(lists.has_relevant, sums, 1.0), lists.sizes)

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        from tautrank.losses import _softmax_kernel as kernel

        hessian = {"diagonal": kernel.DIAGONAL, "neumann": kernel.NEUMANN, "exact": kernel.EXACT}[self.loss.hessian]
        targets = self._targets(scores, step)
        given = (scores, targets, self.lists.offsets, self.lists.weights, hessian)
        return self._filled_gradients(kernel.softmax_gradients, scores.dtype, *given)

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        from tautrank.losses._softmax_kernel import softmax_values

        targets = self._targets(held, step)
        return self._filled_values(softmax_values, scores, targets, self.lists.offsets, self.lists.weights)

    def _targets(self, scores: Floats, step: int) -> F64:
        if isinstance(self._gamma, float):
            return self._base
        from tautrank.losses import _softmax_kernel as kernel

        phi = np.zeros(scores.size)
        given = (self._base, self._unit, self.lists.offsets)
        if self._gamma == "uniform":
            self._fill(kernel.uniform_targets, (*given, np.uint64(self.seed), step), phi)
        else:
            exact = scores.astype(np.float64, copy=False)
            ranking = (exact, self.lists.arrangement, self._ranks(exact), self.lists.weights)
            self._fill(kernel.tight_targets, (*given, *ranking), phi)
        return phi
