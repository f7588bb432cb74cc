"""The softmax family: cross entropy between a distribution over documents and the softmax of their
scores.

Every member has the value ``-sum_i phi_i log rho_i`` with ``rho = softmax(s)``; they differ in the
target ``phi``.

Bruch, Wang, Bendersky and Najork, *An Analysis of the Softmax Cross Entropy Loss for
Learning-to-Rank with Binary Relevance*, ICTIR 2019; Bruch, *An Alternative Cross Entropy Loss for
Learning-to-Rank*, WWW 2021.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tautrank.arguments import checked_by, choice, real
from tautrank.arrays import F64, Floats
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.metrics.ordering import query_maxima, query_sums


@dataclass(frozen=True, kw_only=True, repr=False)
class SoftmaxLoss(Loss):
    """The base of the family.

    Args:
        hessian: ``"diagonal"`` is ``grad = rho - phi`` with ``hess = rho (1 - rho)``; ``"neumann"``
            (sec. 4.4 of the XE-NDCG paper) has the same ``hess``, and a ``grad`` such that
            ``grad / hess`` is the Newton step with the inverse hessian cut off at
            ``(I + S + S^2) D^-1``, where ``D_ii = rho_i (1 - rho_i)`` and
            ``S_ij = rho_j / (1 - rho_i)``; ``"exact"`` is ``grad = rho - phi`` with ``hess = rho``,
            the exact Newton step up to a constant per query (Sherman-Morrison).
        noise: see `Loss`.
        strength: see `Loss`.

    **Propensities** (see `Loss.bind`) make the loss of clicks equal the loss of the relevance in
    expectation: inverse propensity scoring, Joachims, Swaminathan and Schnabel, WSDM 2017. Write
    the target as ``phi_i = t_i / sum_j t_j``, where ``t_i = e_i + z_i`` is what the label earns and
    what a document has without a label: ``y_i`` and 0 for ``listnet``, ``e^y_i - 1`` and 1 for its
    softmax target, ``2^y_i - 1`` and ``1 - gamma_i`` for ``xendcg``. With propensities ``p``,

        t_i = e_i / p_i + z_i,    value = -sum_i t_i log rho_i / C,    C = the mean over all queries of sum_i e_i,

    so value, gradient and hessian are those of the target ``phi`` times ``sum_i t_i / C``.

    Proof: a document is looked at with probability ``p_i``; if so its label is left, otherwise 0,
    which earns nothing. So ``t_i`` is ``e_i / p_i + z_i`` with probability ``p_i`` and ``z_i``
    else: its expectation is ``e_i + z_i``, the ``t_i`` of the relevance. Value, hessian and
    gradient (of every ``hessian=``) are linear in ``t`` for given scores, hence their expectations
    are those of the relevance, for any propensities. A division by the query's own ``sum_i t_i``
    would undo it: with one click in a list, its propensity would cancel.

    It follows that a query counts by its ``sum_i t_i``, also where all propensities are 1, and that
    a query without a click keeps the gradient of its ``z_i``, which is 0 for ``listnet`` and
    ``xendcg(gamma=1)`` only. With ``gamma="tight"`` the gammas depend on the clicks, so the
    identity holds for given gammas; without a click they are 1.

    >>> ListNet(hessian="exact").bind([1, 0], [0, 2]).gradients([0.0, 0.0])
    (array([-0.5,  0.5]), array([0.5, 0.5]))
    """

    takes_propensities: ClassVar[bool] = True

    hessian: str = field(
        default="diagonal", metadata=checked_by(choice, known=("diagonal", "neumann", "exact"))
    )

    @property
    def gradient_is_derivative(self) -> bool:
        """Not with ``hessian="neumann"``, whose gradient is the numerator of a Newton step."""
        return self.hessian != "neumann"

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        return _SoftmaxObjective(self, lists, seed, threads)

    @abc.abstractmethod
    def _parts(self, lists: TrainingLists) -> tuple[F64, F64, F64]:
        """Return what each label earns in the target, what a document without a label has, one per
        query, and the unit that both are in, one per query: the highest gain of the query over that
        of the data, so that none overflows."""


@register("listnet")
@dataclass(frozen=True, kw_only=True, repr=False)
class ListNet(SoftmaxLoss):
    """Cross entropy with the labels as the target distribution; with binary labels it bounds MRR
    and NDCG.

    ``phi_i = y_i / sum_j y_j`` (``target="linear"``, eq. 6 of Bruch et al., ICTIR 2019) or
    ``e^y_i / sum_j e^y_j`` (``target="softmax"``, as first published).

    Cao, Qin, Liu, Tsai and Li, *Learning to Rank: From Pairwise Approach to Listwise Approach*,
    ICML 2007.

    Args:
        target: ``"linear"`` or ``"softmax"``.
        hessian: ``"diagonal"``, ``"neumann"`` or ``"exact"``, see `SoftmaxLoss`.
        noise: ``None`` or ``"gumbel"``, see `Loss`.
        strength: scale of the noise.

    >>> objective = ListNet().bind(labels=[1, 0], offsets=[0, 2])
    >>> objective.gradients([0.0, 0.0])  # rho - phi, rho (1 - rho)
    (array([-0.5,  0.5]), array([0.25, 0.25]))
    """

    _searched: ClassVar[Ranges] = {
        "target": ("choice", "linear", "softmax"),
        "hessian": ("choice", "diagonal", "exact"),
    }

    target: str = field(default="linear", metadata=checked_by(choice, known=("linear", "softmax")))

    def _parts(self, lists: TrainingLists) -> tuple[F64, F64, F64]:
        if self.target == "linear":
            return lists.labels, np.zeros(lists.sizes.size), np.ones(lists.sizes.size)
        return _above_zero(lists, np.exp)


def _checked_gamma(gamma: Any) -> str | float:
    return (
        choice("gamma", gamma, ("uniform", "tight"))
        if isinstance(gamma, str)
        else real("gamma", gamma, most=1.0)
    )


@register("xendcg")
@dataclass(frozen=True, kw_only=True, repr=False)
class XENDCG(SoftmaxLoss):
    """Cross entropy that is a convex bound of NDCG for graded labels.

    ``phi_i = (2^y_i - gamma_i) / sum_j (2^y_j - gamma_j)`` with any ``gamma`` in ``[0, 1]``.

    ``gamma="tight"`` minimises the loss at the current scores, which gives the tightest bound. It
    minimises a ratio of linear functions over a box: with ``c = -log rho``, ``gamma_i`` is 0 where
    ``c_i`` lies below the minimum and 1 elsewhere; one sort finds the threshold.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, WWW 2021.

    Args:
        gamma: ``"uniform"`` draws it for every (step, query, document); a number in [0, 1]; or
            ``"tight"``.
        hessian: ``"neumann"``, ``"diagonal"`` or ``"exact"``, see `SoftmaxLoss`; with ``"neumann"``
            and ``gamma="uniform"`` this is LightGBM's ``rank_xendcg`` with other random numbers.
        noise: ``None`` or ``"gumbel"``, see `Loss`.
        strength: scale of the noise.

    >>> objective = XENDCG(gamma=1.0, hessian="diagonal").bind(labels=[2, 1], offsets=[0, 2])
    >>> objective.gradients([0.0, 0.0])  # 1/2 - 3/4, 1/2 - 1/4
    (array([-0.25,  0.25]), array([0.25, 0.25]))
    """

    _searched: ClassVar[Ranges] = {
        "gamma": ("choice", "uniform", "tight"),
        "hessian": ("choice", "neumann", "diagonal", "exact"),
    }

    gamma: str | float = field(default="uniform", metadata=checked_by(_checked_gamma))
    hessian: str = "neumann"

    @property
    def is_random(self) -> bool:
        """Whether scores are noisy or gamma is drawn."""
        return super().is_random or self.gamma == "uniform"

    def _parts(self, lists: TrainingLists) -> tuple[F64, F64, F64]:
        return _above_zero(lists, np.exp2)


def _above_zero(lists: TrainingLists, power: Callable[[F64], F64]) -> tuple[F64, F64, F64]:
    """Return how far ``power(y)`` lies above ``power(0)``, and the rest of `_parts`."""
    highest = query_maxima(lists.labels, lists.offsets)
    zero = power(-highest)
    earned = power(lists.labels - np.repeat(highest, lists.sizes)) - np.repeat(zero, lists.sizes)
    return earned, zero, power(highest - highest.max(initial=0.0))


class _SoftmaxObjective(Objective):
    loss: SoftmaxLoss

    def __init__(self, loss: SoftmaxLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # A document costs about forty of the pairs that `balanced_ranges` counts in.
        super().__init__(loss, lists, seed, threads, 40.0 * lists.sizes.astype(np.float64))
        earned, self._zero, self._unit = loss._parts(lists)
        self._gamma = loss.gamma if isinstance(loss, XENDCG) else 0.0
        self._base = earned / (1.0 if lists.propensities is None else lists.propensities)
        self._mean_earned = float(np.sum(self._unit * query_sums(earned, lists.offsets))) / max(
            1, lists.sizes.size
        )
        if isinstance(self._gamma, float):
            self._base += np.repeat(self._zero * (1.0 - self._gamma), lists.sizes)
            self._sums = query_sums(self._base, lists.offsets)
            self._base /= np.repeat(np.where(self._sums > 0, self._sums, 1.0), lists.sizes)

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        from tautrank.losses import _softmax_kernel as kernel

        hessian = {"diagonal": kernel.DIAGONAL, "neumann": kernel.NEUMANN, "exact": kernel.EXACT}[
            self.loss.hessian
        ]
        grad, weights = self._targets(scores, step)
        hess = np.zeros_like(grad)
        self._fill(
            kernel.softmax_gradients, (scores, self.lists.offsets, weights, hessian), grad, hess
        )
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        from tautrank.losses._softmax_kernel import softmax_values

        targets, weights = self._targets(held, step)
        return self._filled_values(softmax_values, scores, targets, self.lists.offsets, weights)

    def _targets(self, scores: Floats, step: int) -> tuple[Floats, F64]:
        """Return a new array of the target distributions, of the type of the scores, and the weight
        of each query.
        """
        weights = self.lists.weights
        if isinstance(self._gamma, float):
            phi, sums = self._base.astype(scores.dtype), self._sums
        else:
            from tautrank.losses import _softmax_kernel as kernel

            phi, sums = np.zeros_like(scores), np.zeros(weights.size)
            given = (self._base, self._zero, self.lists.offsets)
            if self._gamma == "uniform":
                self._fill(kernel.uniform_targets, (*given, np.uint64(self.seed), step), phi, sums)
            else:
                exact = scores.astype(np.float64, copy=False)
                used = np.where(self.lists.has_relevant, weights, 0.0)
                ranking = (exact, self.lists.arrangement, self._ranks(exact), used)
                self._fill(kernel.tight_targets, (*given, *ranking), phi, sums)
        of_clicks = self.lists.propensities is not None
        return phi, weights * (
            self._unit * sums / (self._mean_earned or 1.0)
        ) if of_clicks else weights
