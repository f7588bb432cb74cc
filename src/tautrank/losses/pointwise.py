"""The pointwise loss: regression on the label, the baseline for every ranking loss."""

from __future__ import annotations

import numpy as np

from tautrank.arrays import F64, Floats
from tautrank.losses.base import Loss, Objective, TrainingLists, register
from tautrank.metrics.ordering import query_sums


@register("mse")
class MSE(Loss):
    """Squared error of the score as an estimate of the label.

    ``value = sum_i (s_i - y_i)^2 / 2``, so that ``grad = s - y`` and ``hess = 1``; 0 in a query
    without a relevant document, as in every loss here. Unlike a ranking loss it changes when a
    constant is added to the scores of a query.

    Friedman, *Greedy Function Approximation: A Gradient Boosting Machine*, Annals of Statistics
    29(5), 2001.

    Args:
        noise: see `Loss`.
        strength: see `Loss`.

    >>> objective = MSE().bind(labels=[0, 2, 0], offsets=[0, 2, 3])
    >>> objective.gradients([1.0, 1.5, 7.0])
    (array([ 1. , -0.5,  0. ]), array([1., 1., 0.]))
    >>> objective.values([1.0, 1.5, 7.0])
    array([0.625, 0.   ])
    """

    ignores_shifts = False
    """The score estimates the label itself."""

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return _SquaredError(self, lists, seed, threads, lists.sizes.astype(np.float64))


class _SquaredError(Objective):
    """Half of the squared error, bound to lists."""

    def _document_weights(self) -> F64:
        """Return the weight of each document: that of its query."""
        return np.repeat(self.lists.weights, self.lists.sizes)

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian of half the squared error, one number each per document: its
        weight times ``score - label``, and its weight; the scores include the loss's noise.
        """
        weights = self._document_weights().astype(scores.dtype)
        errors = scores - self.lists.labels.astype(scores.dtype)
        return weights * errors, weights

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return half of the squared error of each query."""
        errors = scores - self.lists.labels
        losses = 0.5 * self._document_weights() * errors**2
        return query_sums(losses, self.lists.offsets)
