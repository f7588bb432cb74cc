"""The gradients of a loss as engines take them: float32 numbers with exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, Array, Bools, query_and_document
from tautrank.engines.langevin import leaf_values, with_noise
from tautrank.engines.model import scaled
from tautrank.engines.task import QueryBagging, Settings, Task
from tautrank.errors import DataError
from tautrank.losses import Loss

# Bits of a sum that float64 holds exactly.
_EXACT_BITS = 52
# Beyond this a float32 power of two overflows; gradients below 2^-68 are as good as zero.
_LARGEST_SHIFT = 100


class LargestValues(NamedTuple):
    """The largest absolute values of a step, which decide the grid that all documents round to."""

    gradient: float
    hessian: float


class _Checked(NamedTuple):
    """Finite float32 values, one per document."""

    values: F32
    largest: float
    """The largest absolute value."""


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
        self._loss = task.loss
        self._data = data
        self._settings = settings
        self._bagging = bagging
        self._objective = task.loss.bind(
            data.labels,
            data.offsets,
            task.weights,
            settings.seed,
            settings.threads,
            propensities=task.propensities,
        )
        # On a cluster, those of all workers.
        self._n_documents, self._n_queries = task.whole or (data.n_documents, data.n_queries)
        self._deviation = 0.0
        if settings.langevin is not None:
            self._deviation = settings.langevin.deviation(settings.learning_rate)

        self._scores = np.empty(data.n_documents, np.float32)
        self._rounded_gradients = np.empty(data.n_documents, np.float32)
        self._rounded_hessians = np.empty(data.n_documents, np.float32)
        # Of the last step, without noise and not rounded.
        self._step = -1
        self._gradients = np.empty(0, np.float32)
        self._hessians = np.empty(0, np.float32)
        self._is_drawn: Bools | None = None

    def at(self, step: int, scale: float) -> Callable[[Array], tuple[F32, F32]]:
        """Return the gradients of a round, a function of the scores; see a call."""
        return partial(self, step=step, scale=scale)

    def __call__(self, scores: Array, step: int, scale: float = 1.0) -> tuple[F32, F32]:
        """Return the gradient and the hessian of the loss for each document, ready for an engine.

        Args:
            scores: one per training document, as the engine has them.
            step: number of the tree.
            scale: factor from the engine's scores to the model's.
        """
        return self.rounded(self.measured(scores, step, scale))

    def measured(self, scores: Array, step: int, scale: float = 1.0) -> LargestValues:
        """Compute gradient and hessian of the loss for each document, keep them, and return the
        largest absolute value of each.

        Args:
            scores: one per training document, as the engine has them.
            step: number of the tree.
            scale: factor from the engine's scores to the model's, which Langevin boosting shrinks.
        """
        self._step = step
        # A score beyond float32 becomes infinite, which is reported.
        with np.errstate(over="ignore"):
            np.copyto(self._scores, scaled(scores, scale), casting="same_kind")
        check_bounded(self._scores, self._loss)
        gradients, hessians = self._objective.gradients(self._scores, step)

        if self._bagging is not None:
            # Bagging: this tree learns from some queries only; the gradients of others become 0.
            # Drawn among all queries, of which a worker of a cluster has the first or the next ones,
            # with empty queries in place of those before.
            is_drawn_query = self._bagging.drawn(self._n_queries, step)
            is_drawn_query = is_drawn_query[: self._data.n_queries]
            self._is_drawn = np.repeat(is_drawn_query, self._data.sizes)
        # As float32, refused unless finite.
        self._gradients, largest_gradient = self._checked("gradient", gradients)
        self._hessians, largest_hessian = self._checked("hessian", hessians)
        return LargestValues(largest_gradient, largest_hessian)

    def rounded(self, largest: LargestValues) -> tuple[F32, F32]:
        """Return the gradients and hessians that `measured` has computed, with the noise of
        Langevin boosting, rounded to a grid on which sums are exact.

        Args:
            largest: the largest gradient and hessian among all documents, also those of other
                workers, since all round to the same grid.
        """
        # A leaf's value is a sum of gradients divided by a sum of hessians.
        if self._step == 0 and largest.hessian == 0 and largest.gradient > 0:
            raise DataError(
                f"loss {self._loss}: all hessians are 0, so no leaf has a value; expected some "
                "above 0"
            )
        # `round_to_grid` writes to its third argument. The grid is fine enough for exact sums over
        # all documents of the training, `_n_documents`.
        round_to_grid(self._hessians, largest.hessian, self._rounded_hessians, self._n_documents)
        noisy = _Checked(self._gradients, largest.gradient)
        if self._deviation > 0:  # of the noise of Langevin boosting; 0 without it
            noisy = self._checked("gradient", self._with_noise())
        round_to_grid(noisy.values, noisy.largest, self._rounded_gradients, self._n_documents)
        return self._rounded_gradients, self._rounded_hessians

    def _with_noise(self) -> F32:
        """Return the gradients with the noise that the structure of the tree is chosen by."""
        return with_noise(
            self._gradients,
            self._rounded_hessians,
            self._data.offsets,
            self._deviation,
            self._settings.seed,
            self._step,
            self._settings.threads,
        )

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Return the values of leaves for the gradients of the last call, with noise of their own.

        Args:
            leaves: number of each training document's leaf.
            l2: the engine's L2 regularisation.
        """
        return leaf_values(
            leaves,
            self._gradients,
            self._rounded_hessians,
            l2,
            self._deviation,
            self._settings.seed,
            self._step,
        )

    def _checked(self, kind: str, values: Any) -> _Checked:
        """Return the gradients or hessians of a loss as float32 with their largest absolute value;
        refuse numbers that are not finite.

        Documents whose queries bagging has not drawn get 0.

        Args:
            kind: ``"gradient"`` or ``"hessian"``, for errors.
            values: one number per document, as the loss has computed them.
        """
        array = np.asarray(values)
        if array.shape != self._scores.shape:
            raise DataError(
                f"loss {self._loss}: the {kind} has the shape {array.shape}; "
                f"expected {self._scores.shape}, one per document"
            )
        # A number beyond float32 becomes infinite, which is refused below.
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float32, copy=False)
        if self._is_drawn is not None:
            rounded = np.where(self._is_drawn, rounded, np.float32(0))
        if rounded.size == 0:
            return _Checked(rounded, 0.0)

        # NaN makes both comparisons false.
        lowest = float(rounded.min())
        highest = float(rounded.max())
        is_finite = -math.inf < lowest and highest < math.inf
        if not is_finite:
            row = int(np.argmax(~np.isfinite(rounded)))
            query, document = query_and_document(self._data.offsets, row)
            raise DataError(
                f"loss {self._loss}: the {kind} of query {self._data.qids[query]} is "
                f"{array[row]:g} at its document {document}, before tree {self._step}; "
                "expected finite numbers"
            )
        return _Checked(rounded, max(-lowest, highest))


def round_to_grid(values: F32, largest: float, out: F32, n_added: int | None = None) -> None:
    """Write ``values`` to ``out``, rounded so that any sum of them in float64 is exact.

    An engine adds float32 gradients in float64, in an order that depends on the number of threads
    and on its memory layout, and so do the last bits of a leaf. With n gradients g, rounded to
    multiples of ``2^-b max|g|`` with ``n 2^b <= 2^52``, every sum of them is a whole number of at
    most 53 bits times that grid: exact, in any order. For a million documents ``b`` is 32, finer
    than the 24 bits of a float32.

    Args:
        values: finite numbers.
        largest: largest absolute value among them.
        out: array for the result.
        n_added: how many numbers are added up, where ``values`` are some of them.

    >>> out = np.empty(3, np.float32)
    >>> round_to_grid(np.array([1.0, 0.1, 2.0**-60], np.float32), 1.0, out)
    >>> out.tolist() == [1.0, float(np.float32(0.1)), 0.0]
    True
    """
    n_summands = max(2, n_added or values.size)
    bits = _EXACT_BITS - math.ceil(math.log2(n_summands))  # the b of above
    _mantissa, exponent = math.frexp(largest)  # largest < 2^exponent
    # Limited, so that 2^shift and 2^-shift are float32 numbers.
    shift = max(-_LARGEST_SHIFT, min(_LARGEST_SHIFT, bits - exponent))

    # The grid is 2^-shift: scaled by 2^shift, its points are the whole numbers.
    np.multiply(values, np.float32(2.0**shift), out=out)
    np.rint(out, out=out)
    np.multiply(out, np.float32(2.0**-shift), out=out)


def check_bounded(scores: Array, loss: object) -> None:
    """Refuse infinite scores: a leaf whose hessians are near 0 may get a value beyond all bounds.

    Args:
        scores: one per document.
        loss: what is trained, for the error.
    """
    if scores.size == 0:
        return
    if not (-math.inf < scores.min() and scores.max() < math.inf):
        raise DataError(
            f"loss {loss}: the training diverges, scores have grown to infinity; expected scores "
            "that stay finite (by a smaller learning_rate, or larger min_sum_hessian_in_leaf, "
            "min_data_in_leaf or lambda_l2)"
        )
