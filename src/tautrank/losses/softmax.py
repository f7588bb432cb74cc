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
    """The target distribution of a query before it is normalised: ``t_i = e_i + z``.

    Both parts are in units of the query: its highest gain over that of the data, so that none
    overflows.

    label_gains: ``e``, what the label of each document adds to its target.
    base_targets: ``z`` of each query, the target of a document with label 0.
    unit: the unit of each query.
    """

    label_gains: F64
    base_targets: F64
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
        """Return the target of each document before it is normalised: its label ``y`` (linear
        target), or ``e^y`` (softmax target).
        """
        # Parts: what a label adds, the target of label 0, and the unit that a query counts in.
        if self.target == "softmax":
            return _exponential_targets(lists, np.exp)
        n_queries = lists.sizes.size
        return TargetParts(
            label_gains=lists.labels,
            base_targets=np.zeros(n_queries),
            unit=np.ones(n_queries),
        )


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
        """Return the target ``2^y`` of each document, before gamma is taken off and the targets
        are normalised.
        """
        return _exponential_targets(lists, np.exp2)


def _exponential_targets(lists: TrainingLists, power: Callable[[F64], F64]) -> TargetParts:
    """Return the targets ``b^y`` of documents with labels ``y``, split into ``b^0``, the target of
    label 0, and the gain of the label, ``b^y - b^0``.

    The highest label of each query is taken off the exponents, which would overflow otherwise.

    Args:
        lists: labels, and where each query's documents begin.
        power: the function ``b^y``.
    """
    highest_labels = query_maxima(lists.labels, lists.offsets)
    base_targets = power(-highest_labels)

    labels_below_highest = lists.labels - np.repeat(highest_labels, lists.sizes)
    label_gains = power(labels_below_highest) - np.repeat(base_targets, lists.sizes)

    # What 1 in the units of a query is, compared with the query of the highest label.
    highest_of_all = highest_labels.max(initial=0.0)
    unit = power(highest_labels - highest_of_all)
    return TargetParts(label_gains, base_targets, unit)


class _SoftmaxObjective(Objective):
    """A cross entropy with the softmax of the scores, bound to lists."""

    loss: SoftmaxLoss

    def __init__(self, loss: SoftmaxLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        # A document costs about forty of the pairs that `balanced_ranges` counts in.
        super().__init__(loss, lists, seed, threads, costs=40.0 * lists.sizes.astype(np.float64))
        parts = loss._targets(lists)
        self._base_targets = parts.base_targets
        self._unit = parts.unit

        # The mean over queries of the sum of gains, in the common unit: what a query of clicks is
        # compared with.
        gains_of_queries = self._unit * query_sums(parts.label_gains, lists.offsets)
        n_queries = max(1, lists.sizes.size)
        self._mean_gain_of_query = float(np.sum(gains_of_queries)) / n_queries

        # Inverse propensity scoring: a click that is seldom seen counts for those that were not.
        self._label_gains = parts.label_gains
        if lists.propensities is not None:
            self._label_gains = parts.label_gains / lists.propensities

    @functools.cached_property
    def _fixed_targets(self) -> tuple[F64, F64]:
        """The target distribution over the documents of each query, for a gamma that is the same
        number everywhere; and the sum of each query's targets before they were normalised.

        The target of a document is the gain of its label plus ``1 - gamma`` times the target of
        label 0. ListNet is the case ``gamma = 0``.
        """
        gamma = self.loss.gamma if isinstance(self.loss, XENDCG) else 0.0
        assert isinstance(gamma, float)
        base_targets = self._base_targets * (1.0 - gamma)
        targets = self._label_gains + np.repeat(base_targets, self.lists.sizes)

        target_sums = query_sums(targets, self.lists.offsets)
        # Queries without targets keep zeros instead of 0/0.
        divisors = np.where(target_sums > 0, target_sums, 1.0)
        normalised_targets = targets / np.repeat(divisors, self.lists.sizes)
        return normalised_targets, target_sums

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian of softmax cross entropy, one number each per document.

        Args:
            scores: one per document, noise included.
            step: keys the random numbers of targets that are drawn.
        """
        from tautrank.losses import _softmax_kernel as kernel

        codes = {"diagonal": kernel.DIAGONAL, "neumann": kernel.NEUMANN, "exact": kernel.EXACT}
        hessian = codes[self.loss.hessian]
        targets, weights = self._targets(scores, step)
        # The kernel overwrites the targets, a new array, with the gradient, softmax minus target.
        grad = targets
        hess = np.zeros_like(grad)
        arguments = (scores, self.lists.offsets, weights, hessian)
        self._fill(kernel.softmax_gradients, arguments, grad, hess)
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the cross entropy of each query.

        Args:
            scores: scores at which the loss is taken.
            held: scores at which the targets are computed, and then held fixed.
            step: keys the random numbers of targets that are drawn.
        """
        from tautrank.losses._softmax_kernel import softmax_values

        targets, weights = self._targets(held, step)
        return self._filled_values(softmax_values, scores, targets, self.lists.offsets, weights)

    def _targets(self, scores: Floats, step: int) -> tuple[Floats, F64]:
        """Return the target distribution over the documents of each query, in a new array of the
        type of the scores; and the weight of each query in the loss.

        With propensities a query counts in proportion to the sum of its targets, which keeps the
        loss of clicks unbiased.
        """
        # Gamma is what XE-NDCG takes off each target: drawn, chosen to minimise the loss, or fixed;
        # ListNet takes off nothing.
        gamma = self.loss.gamma if isinstance(self.loss, XENDCG) else 0.0
        if gamma == "uniform":
            targets, target_sums = self._uniform_targets(scores, step)
        elif gamma == "tight":
            targets, target_sums = self._tight_targets(scores)
        else:
            exact_targets, target_sums = self._fixed_targets
            targets = exact_targets.astype(scores.dtype)

        weights = self.lists.weights
        if self.lists.propensities is not None:
            mean_gain = self._mean_gain_of_query
            if mean_gain == 0:
                mean_gain = 1.0
            weights = weights * (self._unit * target_sums / mean_gain)
        return targets, weights

    def _uniform_targets(self, scores: Floats, step: int) -> tuple[Floats, F64]:
        """Return the target distribution of each query for a gamma per document that is drawn
        uniformly from [0, 1] at this step; and the sum of each query's targets before they were
        normalised.
        """
        from tautrank.losses._softmax_kernel import uniform_targets

        # The kernel fills both.
        targets = np.zeros_like(scores)
        target_sums = np.zeros(self.lists.sizes.size)
        seed = np.uint64(self.seed)
        arguments = (self._label_gains, self._base_targets, self.lists.offsets, seed, step)
        self._fill(uniform_targets, arguments, targets, target_sums)
        return targets, target_sums

    def _tight_targets(self, scores: Floats) -> tuple[Floats, F64]:
        """Return the target distribution of each query for the gammas that minimise the loss at
        these scores; and the sum of each query's targets before they were normalised.
        """
        from tautrank.losses._softmax_kernel import tight_targets

        lists = self.lists
        targets = np.zeros_like(scores)
        target_sums = np.zeros(lists.sizes.size)
        exact_scores = scores.astype(np.float64, copy=False)
        arguments = (
            self._label_gains,
            self._base_targets,
            lists.offsets,
            exact_scores,
            lists.arrangement,
            self._ranks(exact_scores),
            np.where(lists.has_relevant, lists.weights, 0.0),  # queries of weight 0 are skipped
        )
        self._fill(tight_targets, arguments, targets, target_sums)
        return targets, target_sums
