"""Stochastic gradient Langevin boosting: noise on the gradients, and a model that shrinks before
every tree.

``F_{t+1} = s F_t + r tree_t`` with the learning rate ``r`` and ``s = 1 - r shrink_rate``. Two
independent draws of noise make a tree: the gradients at ``F_t`` plus the first one choose its
structure, plus the second one they fill its leaves. With one draw for both, splits are chosen where
the noise is large, and leaves hold about ten times the noise.

**How much noise.** Let the columns of ``Z`` say which documents are in which leaf, ``H = diag(h)``
hold the hessians, and ``l`` be the engine's L2 regularisation. The step is ``-r P (g + zeta)`` with
``P = Z A^-1 Z'`` and ``A = Z' H Z + l I``. The Langevin equation
``dF = -P grad(L) dt + sqrt(2 P / temperature) dW`` draws scores from ``exp(-temperature L)``. A
step of length ``r`` follows it if ``Cov(r P zeta) = 2 r P / temperature``, and since ``P`` sees no
more than ``Z' zeta``, this holds if and only if ``Cov(Z' zeta) = 2 A / (r temperature)``: in each
leaf

    value = -(sum g + N(0, 2 (sum h + l) / (r temperature))) / (sum h + l).

That is noise of the variance ``2 h_i / (r temperature)`` on every document; with hessians of 1, the
authors' noise. The temperature then means the same whatever the size of the hessians: of two losses
with equal gradients, the one that reports hessians a hundred times smaller takes steps a hundred
times as long, and both end in the same distribution. A document whose hessian is 0, as in a query
without a relevant document, gets no noise. CatBoost fills its Newton leaves by this formula too.
(Where hessians change with the scores, the equation has one more term, the derivative of ``P``,
which CatBoost leaves out, and so does this module.)

Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021; Ustimenko and
Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
section 6.

Engines cannot rescale the trees they have, and need not: see `loop.boost`, which keeps one
scale for the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tautrank.arguments import check_fields, checked_by, real
from tautrank.arrays import F32, F64, I64, Array
from tautrank.errors import OptionError
from tautrank.kernels.threads import balanced_ranges, run

# A document costs about as much as this many of the pairs that `balanced_ranges` counts in.
_COST = 30.0
# Gradients travel as float32: sums of noise must not come near 3e38.
_LARGEST_DEVIATION = 1e30
# LightGBM's and XGBoost's parameters that change the value of a leaf, lambda_l2 and reg_lambda left
# out.
_OF_LIGHTGBM = ("lambda_l1", "path_smooth", "linear_tree", "max_delta_step", "monotone_constraints")
_MORE_THAN_A_STEP = (*_OF_LIGHTGBM, "reg_alpha", "num_parallel_tree")


@dataclass(frozen=True, repr=False)
class Langevin:
    """Strength of Langevin boosting: gradient noise and shrinkage.
    `Ranker(langevin=Langevin(...))`, with any loss.

    Every gradient gets noise of the variance ``2 hessian / (learning_rate * temperature)``: one
    draw for the structure of a tree, and an independent one for its leaves, keyed by the seed and
    the number of the tree. Before each tree the model is scaled by
    ``1 - learning_rate * shrink_rate``. With many small steps the scores are drawn from
    ``exp(-temperature (loss + regulariser))``, whatever the size of the loss's hessians. The
    authors tuned ``temperature`` between 1e8 and 1e11 and ``shrink_rate`` between 1e-5 and 1e-2 for
    StochasticRank on web search, and used 1e3 and 1e-3 for a set of five documents.

    Ustimenko and Prokhorenkova, *SGLB: Stochastic Gradient Langevin Boosting*, ICML 2021.

    Args:
        temperature: inverse strength of the noise, above 0.
        shrink_rate: shrinkage of the model before each tree, in units of the learning rate; 0 for
            noise only.

    >>> Langevin(temperature=1e3)
    Langevin(temperature=1000, shrink_rate=0.0001)
    >>> Langevin(1e8, 1e-4) == Langevin()
    True
    >>> Langevin(temperature=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: temperature: found 0; expected a number above 0
    """

    temperature: float = field(default=1e8, metadata=checked_by(real, above=True))
    shrink_rate: float = field(default=1e-4, metadata=checked_by(real, least=0.0))

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        temperature = _shortest_text(self.temperature)
        shrink_rate = _shortest_text(self.shrink_rate)
        return f"Langevin(temperature={temperature}, shrink_rate={shrink_rate})"

    def deviation(self, learning_rate: float) -> float:
        """Return the standard deviation of the noise where the hessian is 1,
        ``sqrt(2 / (learning_rate temperature))``.

        Args:
            learning_rate: learning rate of the training.

        >>> Langevin(temperature=200).deviation(learning_rate=0.01)
        1.0
        """
        return math.sqrt(2.0 / learning_rate / self.temperature)

    def factor(self, learning_rate: float) -> float:
        """Return the factor that the model is scaled by before each tree,
        ``1 - learning_rate shrink_rate``.

        Args:
            learning_rate: learning rate of the training.

        >>> Langevin(shrink_rate=0.5).factor(learning_rate=0.5)
        0.75
        """
        return 1.0 - learning_rate * self.shrink_rate


def check_langevin(langevin: Any, learning_rate: float) -> None:
    """Refuse an argument ``langevin`` by which the model would shrink to nothing, or the noise would
    overflow float32.

    Langevin boosting adds noise to gradients, and before each tree multiplies the model by 1 minus
    the learning rate times the shrink rate.

    Args:
        langevin: what the user gave; None trains without Langevin boosting.
        learning_rate: learning rate of the training, above 0.

    >>> check_langevin(Langevin(shrink_rate=10.0), learning_rate=0.1)
    Traceback (most recent call last):
    tautrank.errors.OptionError: langevin: shrink_rate=10 times learning_rate=0.1 is 1; expected less
    than 1
    """
    if langevin is None:
        return
    if not isinstance(langevin, Langevin):
        raise OptionError(
            f"langevin: found {langevin!r}; expected None or "
            "tautrank.Langevin(temperature=..., shrink_rate=...)"
        )
    shrinkage = learning_rate * langevin.shrink_rate
    if shrinkage >= 1:
        raise OptionError(
            f"langevin: shrink_rate={_shortest_text(langevin.shrink_rate)} times "
            f"learning_rate={_shortest_text(learning_rate)} is {shrinkage:g}; expected less than 1"
        )
    deviation = langevin.deviation(learning_rate)
    if deviation > _LARGEST_DEVIATION:
        raise OptionError(
            f"langevin: temperature={_shortest_text(langevin.temperature)} with "
            f"learning_rate={_shortest_text(learning_rate)} is noise of the deviation {deviation:.1g}; "
            f"expected at most {_LARGEST_DEVIATION:g}"
        )


def check_leaves(langevin: Langevin | None, extra: Mapping[str, Any]) -> None:
    """Refuse parameters of a tool by which the value of a leaf is something else than the sum of its
    documents' gradients over the sum of their hessians, as Langevin boosting needs it.

    Args:
        langevin: None is off.
        extra: the tool's parameters, under its main names.

    >>> check_leaves(Langevin(), {"lambda_l1": 0.5})
    Traceback (most recent call last):
    tautrank.errors.OptionError: lambda_l1: found 0.5 with langevin, whose leaves are sums of
    gradients over sums of hessians; expected it unset, or no langevin
    """
    if langevin is None:
        return
    for name, value in extra.items():
        if name in _MORE_THAN_A_STEP and value:
            raise OptionError(
                f"{name}: found {value} with langevin, whose leaves are sums of gradients over "
                "sums of hessians; expected it unset, or no langevin"
            )


def with_noise(
    grad: F32, hess: F32, offsets: I64, deviation: float, seed: int, step: int, threads: int
) -> F32:
    """Return gradients with the noise of Langevin boosting added, by which the splits of a tree are
    chosen.

    A document of hessian ``h`` gets normal noise of the standard deviation ``deviation sqrt(h)``,
    keyed by the seed, the tree and the query.

    Args:
        grad: gradients, one per document.
        hess: hessians, one per document; the variance of its noise is in proportion.
        offsets: start of each query, and the number of documents at the end.
        deviation: standard deviation of the noise where the hessian is 1.
        seed: seed of the training.
        step: number of the tree.
        threads: number of threads; the numbers do not depend on it.

    >>> ones = np.ones(3, np.float32)
    >>> with_noise(ones, ones, np.array([0, 3]), 1e-4, seed=0, step=0, threads=1).round(3)
    array([1., 1., 1.], dtype=float32)
    """
    from tautrank.kernels.randomness import add_noise
    from tautrank.kernels.streams import LANGEVIN_STREAM

    noise = np.zeros_like(grad)
    key = np.uint64(seed)

    def fill_queries(first: int, last: int) -> None:
        # `add_noise` adds noise to its first argument and writes the sum to its last: here to zeros
        # and in place, so that the array holds the noise alone.
        add_noise(noise, offsets, deviation, key, step, LANGEVIN_STREAM, first, last, noise)

    # Threads take ranges of queries with about equal numbers of documents.
    cost_of_queries = _COST * np.diff(offsets)
    run(fill_queries, balanced_ranges(cost_of_queries, threads), threads)

    # A hessian below 0 counts as 0. In place, to spare the memory of one more array.
    noise *= np.sqrt(np.maximum(hess, 0))
    noise += grad
    return noise


def leaf_values(
    leaves: Array, gradients: F32, hessians: F32, l2: float, deviation: float, seed: int, step: int
) -> F64:
    """Return the values of a tree's leaves with the noise of Langevin boosting, before they are
    scaled by the learning rate.

    A leaf with the sums ``G`` of gradients and ``H`` of hessians has the value ``-(G + noise) / (H
    + l2)``, with noise of the variance ``deviation^2 (H + l2)``; a leaf with ``H = 0`` has the
    value 0.

    Args:
        leaves: number of each document's leaf, from 0.
        gradients: one per document, without noise.
        hessians: one per document.
        l2: what is added to the sum of a leaf's hessians.
        deviation: standard deviation of the noise of a document whose hessian is 1.
        seed: seed of the training.
        step: number of the tree.

    >>> leaves, gradients = np.array([0, 0, 1]), np.float32([1, 3, -2])
    >>> noise = {"deviation": 1e-9, "seed": 0, "step": 0}
    >>> leaf_values(leaves, gradients, np.float32([1, 1, 0.5]), l2=0.0, **noise).round(6)
    array([-2.,  4.])
    """
    from tautrank.kernels.randomness import fill_normal
    from tautrank.kernels.streams import LANGEVIN_LEAF_STREAM

    # Weighted counts: the sum over each leaf's documents.
    gradient_sums = np.bincount(leaves, gradients)
    hessian_sums = np.bincount(leaves, hessians)
    n_leaves = gradient_sums.size

    # Normal numbers are drawn in pairs: one more for an odd number of leaves.
    standard_normal = np.empty(n_leaves + n_leaves % 2)
    fill_normal(standard_normal, np.uint64(seed), step, 0, LANGEVIN_LEAF_STREAM)
    standard_normal = standard_normal[:n_leaves]

    has_hessian = hessian_sums > 0
    # 1 in place of a divisor 0, whose leaf gets the value 0 below.
    divisors = np.where(has_hessian, hessian_sums + l2, 1.0)
    noise = deviation * np.sqrt(divisors) * standard_normal
    values = -(gradient_sums + noise) / divisors
    return np.where(has_hessian, values, 0.0)


def _shortest_text(number: float) -> str:
    """Return a number in six digits, or in as many as it takes to write it exactly."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)
