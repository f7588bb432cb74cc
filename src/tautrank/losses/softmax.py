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
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

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

        t_i = e_i / p_i + z_i,    value = -sum_i t_i log rho_i / C,
        C = the mean over all queries of sum_i e_i,

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
        """Return the objective of checked lists."""
        return _SoftmaxObjective(self, lists, seed, threads)

    @abc.abstractmethod
    def _targets(self, lists: TrainingLists) -> TargetParts:
        """Return what the target distributions are made of."""


class TargetParts(NamedTuple):
    """What a target distribution is made of: ``t_i = e_i + z``, over the sum of the query.

    Both parts are in units of the query: its highest gain over that of the data, so that none
    overflows.

    earned: ``e``, what the label of each document earns.
    bare: ``z`` of each query, what a document without a label has.
    unit: the unit of each query.
    """

    earned: F64
    bare: F64
    unit: F64


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

    def _targets(self, lists: TrainingLists) -> TargetParts:
        """Return the labels, or the powers ``e^y``."""
        if self.target == "linear":
            n_queries = lists.sizes.size
            return TargetParts(lists.labels, bare=np.zeros(n_queries), unit=np.ones(n_queries))
        return _powers_of_labels(lists, np.exp)


def _checked_gamma(gamma: Any) -> str | float:
    """Return ``"uniform"``, ``"tight"`` or a number from 0 to 1."""
    if isinstance(gamma, str):
        return choice("gamma", gamma, ("uniform", "tight"))
    return real("gamma", gamma, most=1.0)


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

    def _targets(self, lists: TrainingLists) -> TargetParts:
        """Return the powers ``2^y``."""
        return _powers_of_labels(lists, np.exp2)


def _powers_of_labels(lists: TrainingLists, power: Callable[[F64], F64]) -> TargetParts:
    """Return the powers of the labels: a document without a label has ``power(0)``, and a label
    earns what its power lies above that.
    """
    highest = query_maxima(lists.labels, lists.offsets)
    bare = power(-highest)
    below_highest = lists.labels - np.repeat(highest, lists.sizes)
    earned = power(below_highest) - np.repeat(bare, lists.sizes)
    unit = power(highest - highest.max(initial=0.0))
    return TargetParts(earned, bare, unit)


class _SoftmaxObjective(Objective):
    """A cross entropy with the softmax of the scores, bound to lists."""

    loss: SoftmaxLoss

    def __init__(self, loss: SoftmaxLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # A document costs about forty of the pairs that `balanced_ranges` counts in.
        super().__init__(loss, lists, seed, threads, costs=40.0 * lists.sizes.astype(np.float64))
        earned, self._bare, self._unit = loss._targets(lists)
        n_queries = max(1, lists.sizes.size)
        sum_earned = float(np.sum(self._unit * query_sums(earned, lists.offsets)))
        self._mean_earned = sum_earned / n_queries
        self._earned = earned if lists.propensities is None else earned / lists.propensities

    @functools.cached_property
    def _fixed_targets(self) -> tuple[F64, F64]:
        """The target distributions where gamma is a number, and what they were divided by."""
        gamma = self.loss.gamma if isinstance(self.loss, XENDCG) else 0.0
        assert isinstance(gamma, float)
        bare = np.repeat(self._bare * (1.0 - gamma), self.lists.sizes)
        targets = self._earned + bare
        sums = query_sums(targets, self.lists.offsets)
        divisors = np.where(sums > 0, sums, 1.0)
        targets /= np.repeat(divisors, self.lists.sizes)
        return targets, sums

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian at noisy scores."""
        from tautrank.losses import _softmax_kernel as kernel

        codes = {"diagonal": kernel.DIAGONAL, "neumann": kernel.NEUMANN, "exact": kernel.EXACT}
        hessian = codes[self.loss.hessian]
        targets, weights = self._targets(scores, step)
        # The gradient takes the place of the targets.
        grad = targets
        hess = np.zeros_like(grad)
        arguments = (scores, self.lists.offsets, weights, hessian)
        self._fill(kernel.softmax_gradients, arguments, grad, hess)
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the value of each query at the scores; targets are those of ``held``."""
        from tautrank.losses._softmax_kernel import softmax_values

        targets, weights = self._targets(held, step)
        return self._filled_values(softmax_values, scores, targets, self.lists.offsets, weights)

    def _targets(self, scores: Floats, step: int) -> tuple[Floats, F64]:
        """Return a new array of the target distributions, of the type of the scores, and the weight
        of each query.
        """
        gamma = self.loss.gamma if isinstance(self.loss, XENDCG) else 0.0
        if gamma == "uniform":
            targets, sums = self._uniform_targets(scores, step)
        elif gamma == "tight":
            targets, sums = self._tight_targets(scores)
        else:
            exact_targets, sums = self._fixed_targets
            targets = exact_targets.astype(scores.dtype)

        weights = self.lists.weights
        if self.lists.propensities is not None:
            mean_earned = self._mean_earned or 1.0
            weights = weights * (self._unit * sums / mean_earned)
        return targets, weights

    def _uniform_targets(self, scores: Floats, step: int) -> tuple[Floats, F64]:
        """Return the targets with gammas drawn for a step, and what they were divided by."""
        from tautrank.losses._softmax_kernel import uniform_targets

        targets, sums = np.zeros_like(scores), np.zeros(self.lists.sizes.size)
        seed = np.uint64(self.seed)
        arguments = (self._earned, self._bare, self.lists.offsets, seed, step)
        self._fill(uniform_targets, arguments, targets, sums)
        return targets, sums

    def _tight_targets(self, scores: Floats) -> tuple[Floats, F64]:
        """Return the targets with the gammas that minimise the loss, and what they were divided
        by.
        """
        from tautrank.losses._softmax_kernel import tight_targets

        lists = self.lists
        targets, sums = np.zeros_like(scores), np.zeros(lists.sizes.size)
        exact_scores = scores.astype(np.float64, copy=False)
        arguments = (
            self._earned,
            self._bare,
            lists.offsets,
            exact_scores,
            lists.arrangement,
            self._ranks(exact_scores),
            np.where(lists.has_relevant, lists.weights, 0.0),
        )
        self._fill(tight_targets, arguments, targets, sums)
        return targets, sums
