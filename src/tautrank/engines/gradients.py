"""The gradients of a loss as engines take them: float32 numbers with exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import (
    Any,
)

import numpy as np

from tautrank.arrays import F32, F64, Array, Bools, place
from tautrank.engines.langevin import leaf_values, with_noise
from tautrank.engines.model import scaled
from tautrank.engines.task import QueryBagging, Settings, Task
from tautrank.errors import (
    DataError,
)
from tautrank.losses import Loss

_EXACT_BITS = 52


# Beyond this a float32 power of two overflows; gradients below 2^-68 are as good as zero.
_LARGEST_SHIFT = 100


class Gradients:
    """The gradients of a loss as engines take them: checked float32 arrays with exact sums.

    The noise of Langevin boosting is added before they are rounded. NaN is refused in a sentence
    that names the loss, the query and the tree. The arrays are reused by the next call.

    Args:
        task: a task with a loss of this library.
        settings: seed, threads and noise.
        bagging: the queries to learn from; those of all others are 0.
    """

    def __init__(self, task: Task, settings: Settings, bagging: QueryBagging | None = None) -> None:
        assert isinstance(task.loss, Loss)
        data = task.train
        self._loss, self._data, self._settings, self._bagging = task.loss, data, settings, bagging
        lists, how = (data.labels, data.offsets, task.weights), (settings.seed, settings.threads)
        self._objective = task.loss.bind(*lists, *how, propensities=task.propensities)
        self._documents, self._queries = task.whole or (data.n_documents, data.n_queries)
        self._used: Bools | None = None  # all
        self._deviation = (
            settings.langevin.deviation(settings.learning_rate)
            if settings.langevin is not None
            else 0.0
        )
        self._scores, self._grad, self._hess = np.empty((3, data.n_documents), np.float32)
        self._plain = self._curvature = (
            self._grad
        )  # gradients without noise and hessians; of the last call

    def __call__(self, scores: Array, step: int, scale: float = 1.0) -> tuple[F32, F32]:
        """Return gradient and hessian.

        Args:
            scores: one per training document, as the engine has them.
            step: number of the tree.
            scale: factor from the engine's scores to the model's.
        """
        return self.rounded(*self.measured(scores, step, scale), step)

    def at(self, step: int, scale: float) -> Callable[[Array], tuple[F32, F32]]:
        """Return the gradients of a round, a function of the scores; see a call."""
        return partial(self, step=step, scale=scale)

    def measured(self, scores: Array, step: int, scale: float = 1.0) -> tuple[float, float]:
        """Compute gradient and hessian, and return the largest absolute value of each; arguments as
        in a call.
        """
        self._step = step
        with np.errstate(
            over="ignore"
        ):  # a score beyond float32 becomes infinite, which is reported
            np.copyto(self._scores, scaled(scores, scale), casting="same_kind")
        check_bounded(self._scores, self._loss)
        grad, hess = self._objective.gradients(self._scores, step)
        if self._bagging is not None:
            drawn = self._bagging.drawn(self._queries, step)[: self._data.n_queries]
            self._used = np.repeat(drawn, self._data.sizes)
        self._plain, largest = self._checked("gradient", grad, step)
        self._curvature, most = self._checked("hessian", hess, step)
        return largest, most

    def rounded(self, largest: float, most: float, step: int) -> tuple[F32, F32]:
        """Return what `measured` computed, rounded to the grid of all documents.

        Args:
            largest: largest absolute value of a gradient among all documents.
            most: largest absolute value of a hessian.
            step: number of the tree.
        """
        if most == 0 < largest and step == 0:
            raise DataError(
                f"loss {self._loss}: all hessians are 0, so no leaf has a value; expected some above 0"
            )
        round_to_grid(self._curvature, most, self._hess, self._documents)
        noisy = self._plain
        if self._deviation > 0:
            seed, threads = self._settings.seed, self._settings.threads
            noisy = with_noise(
                self._plain, self._hess, self._data.offsets, self._deviation, seed, step, threads
            )
            noisy, largest = self._checked("gradient", noisy, step)
        round_to_grid(noisy, largest, self._grad, self._documents)
        return self._grad, self._hess

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Return the values of leaves for the gradients of the last call, with noise of their own.

        Args:
            leaves: number of each training document's leaf.
            l2: the engine's L2 regularisation.
        """
        return leaf_values(
            leaves, self._plain, self._hess, l2, self._deviation, self._settings.seed, self._step
        )

    def _checked(self, kind: str, values: Any, step: int) -> tuple[F32, float]:
        """Return the values as float32, and the largest absolute value among them."""
        array = np.asarray(values)
        if array.shape != self._scores.shape:
            found = f"loss {self._loss}: the {kind} has the shape {array.shape}"
            raise DataError(f"{found}; expected {self._scores.shape}, one per document")
        with np.errstate(over="ignore"):
            single = array.astype(np.float32, copy=False)
        if self._used is not None:
            single = np.where(self._used, single, np.float32(0))
        low, high = (float(single.min()), float(single.max())) if single.size else (0.0, 0.0)
        if not (-math.inf < low and high < math.inf):
            at = int(np.argmax(~np.isfinite(single)))
            query, document = place(self._data.offsets, at)
            where = f"the {kind} of query {self._data.qids[query]} is {array[at]:g} at its document {document}"
            raise DataError(
                f"loss {self._loss}: {where}, before tree {step}; expected finite numbers"
            )
        return single, max(-low, high)


def round_to_grid(values: F32, largest: float, out: F32, documents: int | None = None) -> None:
    """Write ``values`` to ``out``, rounded so that any sum of them in float64 is exact.

    An engine adds float32 gradients in float64, in an order that depends on the number of threads
    and on its memory layout, and so do the last bits of a leaf. Rounded to multiples of
    ``2^-b max|g|`` with ``n 2^b <= 2^52``, every sum of them is a whole number of at most 53 bits
    times that grid: exact, in any order. For a million documents ``b`` is 32, finer than the 24
    bits of a float32.

    Args:
        values: finite numbers.
        largest: largest absolute value among them.
        out: array for the result.
        documents: how many numbers are added up, where ``values`` are some of them.

    >>> out = np.empty(3, np.float32)
    >>> round_to_grid(np.array([1.0, 0.1, 2.0**-60], np.float32), 1.0, out)
    >>> out.tolist() == [1.0, float(np.float32(0.1)), 0.0]
    True
    """
    bits = _EXACT_BITS - math.ceil(math.log2(max(2, documents or values.size)))
    exponent = math.frexp(largest)[1]  # largest < 2^exponent
    shift = max(-_LARGEST_SHIFT, min(_LARGEST_SHIFT, bits - exponent))
    np.multiply(values, np.float32(2.0**shift), out=out)
    np.rint(out, out=out)
    np.multiply(out, np.float32(2.0**-shift), out=out)


def check_bounded(scores: Array, loss: object) -> None:
    """Refuse infinite scores: a leaf whose hessians are near 0 may get a value beyond all
    bounds.
    """
    if scores.size and not (-math.inf < scores.min() and scores.max() < math.inf):
        found = f"loss {loss}: the training diverges, scores have grown to infinity"
        how = "by a smaller learning_rate, or larger min_sum_hessian_in_leaf, min_data_in_leaf or lambda_l2"
        raise DataError(f"{found}; expected scores that stay finite ({how})")
