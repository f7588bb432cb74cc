"""SoftRank: NDCG of scores that are normal distributions, with its exact gradient.

Taylor, Guiver, Robertson and Minka, *SoftRank: Optimizing Non-Smooth Rank Metrics*, WSDM 2008.

A discount is a sum of powers, ``D(r) = sum_q c_q x_q^r``, to any precision asked for:
``1/log2(2 + r)`` and ``1/(1 + r)`` are completely monotone, mixtures of ``x^r`` over ``x`` in (0,
1). A few dozen powers, their ``-log x`` spaced evenly in the logarithm, are as good as the whole
mixture. Beylkin and Monzon, *On Approximation of Functions by Exponential Sums*, Applied and
Computational Harmonic Analysis 19(1), 2005.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tautrank.arguments import checked_by, choice, real, whole
from tautrank.arrays import F64, I64, Floats
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.losses.pairwise import gains_over_max_dcg
from tautrank.losses.stochastic import SmoothedObjective, StochasticRank
from tautrank.metrics import NDCG
from tautrank.metrics.base import check_k
from tautrank.metrics.gains import Discount, Gain, check_discount, check_gain, discount_values
from tautrank.metrics.ordering import query_sums

TOLERANCE = {np.dtype(np.float32): 2e-6, np.dtype(np.float64): 1e-9}
"""The relative error of the discount's steps where it is a sum of powers: less than the lanes round
off.
"""

_MOST_TERMS = 64
_SHORTEST = 64
_GROWTH = 4
# Logarithms of -log x, by the length of the list: fewer powers than evenly spaced ones do for the
# logarithmic discount.
# Their largest error is the smallest that nonlinear least squares finds. Only places are fixed, not
# the coefficients.
_FITTED = {
    64: (
        -7.76272,
        -5.41699,
        -3.81444,
        -2.77499,
        -2.05831,
        -1.49158,
        -1.00221,
        -0.55256,
        -0.12013,
        0.31257,
        0.77006,
        1.32390,
    ),
    256: (
        -8.45523,
        -5.13148,
        -3.98404,
        -3.21091,
        -2.58609,
        -2.02738,
        -1.49797,
        -0.98136,
        -0.46953,
        0.04526,
        0.58161,
        1.21004,
    ),
    1024: (
        -10.15283,
        -6.65122,
        -5.49444,
        -4.72728,
        -4.11910,
        -3.58634,
        -3.09014,
        -2.61179,
        -2.14239,
        -1.67760,
        -1.21527,
        -0.75398,
        -0.29150,
        0.17828,
        0.67391,
        1.26509,
    ),
}


@register("softrank")
@dataclass(frozen=True, kw_only=True, repr=False)
class SoftRank(Loss):
    """One minus the expected NDCG when every score is a normal distribution around the model's
    score.

    Scores ``S_i ~ N(s_i, sigma^2)`` make a contest of every pair of documents, which ``i`` wins
    with probability ``pi_ij = Pr(S_i > S_j) = (1 + erf((s_i - s_j) / (2 sigma))) / 2``. The rank of
    a document is the number of contests it loses: its distribution ``p_j`` starts at the first rank
    and is updated contest by contest, ``p_j(r) <- p_j(r - 1) pi_mj + p_j(r) (1 - pi_mj)`` for every
    ``m != j``. The value is ``1 - SoftNDCG@k``,

        SoftNDCG@k = sum_j G_j sum_r p_j(r) / D_r,    G_j = gain_j / maxDCG@k,    1/D_r = 0 beyond k

    As ``sigma`` falls to 0 it becomes ``1 - NDCG@k``. The contests of a document are taken as
    independent, as in the paper. They are not, since they share its score: SoftNDCG is near the
    expected NDCG of the noisy scores, not equal to it, and may even exceed 1 (four equal documents,
    ``k=3``: 1.03). This has one practical consequence. Among ``n`` documents with equal scores,
    each is almost certainly ranked within a few times ``sqrt(n)`` of the middle, so with a cutoff
    far above the middle, such as ``k=10`` of a hundred documents, there is no gradient to start
    from. The default is therefore the full list.

    The gradient is exact. With a cutoff it takes ``O(n^2 k)`` time, by a reverse pass over the
    contests. On the full list it takes ``O(n^2)`` times the number of powers ``x^r`` that add up to
    the discount, about twenty (to 1e-9; in float32 twelve, to 2e-6). Both take memory proportional
    to ``n``, and skip documents without a gain or without a chance of a discount.

    Taylor, Guiver, Robertson and Minka, *SoftRank: Optimizing Non-Smooth Rank Metrics*, WSDM 2008;
    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, sec. III.

    Args:
        k: the cutoff; ``None`` is the full list.
        sigma: standard deviation of every score.
        gain: ``"exp2"``, ``"linear"``, or a table by label.
        discount: ``"log2"``, ``"reciprocal"``, or a table by rank.
        estimator: ``"exact"`` as above. ``"ccs"`` draws noisy scores and estimates the gradient of
            their expected NDCG@k by coordinate conditional sampling, which is how Ustimenko and
            Prokhorenkova, *StochasticRank*, ICML 2020, run SoftRank: `StochasticRank` with
            ``mu = 0`` and without scale-free acceleration. The value is then one minus the mean
            NDCG of the noisy scores.
        samples: number of draws to average, for ``"ccs"``.
        scale: ``"plain"`` is ``hess = 1``, the papers' form. ``"curvature"`` is the size of
            SoftNDCG's own curvature: with ``w_im`` the derivative of SoftNDCG by ``pi_im``, through
            the ranks of both documents, and ``psi_im`` the derivative of ``pi_im`` by ``s_i``, the
            gradient is ``-sum_m w_im psi_im`` and ``hess_i = sum_m |w_im| psi_im / sigma``. So
            ``|grad| <= sigma hess``: no Newton step is longer than the reach of the smoothing. In a
            list with more than 1024 documents that have a gain, the sizes of the two parts of
            ``w_im``, one for the ranks of each document, are added instead.
        noise: ``None`` or ``"gumbel"``, see `Loss`.
        strength: scale of the noise.

    >>> objective = SoftRank(sigma=0.5).bind(labels=[0, 0, 1, 2], offsets=[0, 4])
    >>> 1 - objective.values([0.0, 3.0, 1.0, 2.0]).round(8)
    array([0.67430413])
    >>> grad, hess = objective.gradients([0.0, 3.0, 1.0, 2.0])
    >>> grad.round(4)  # the irrelevant document at the top goes down, the best one up
    array([ 0.0055,  0.0604,  0.0137, -0.0796])
    """

    k: int | None = field(default=None, metadata=checked_by(check_k))
    sigma: float = field(default=1.0, metadata=checked_by(real, above=True))
    gain: Gain = field(default="exp2", metadata=checked_by(check_gain))
    discount: Discount = field(default="log2", metadata=checked_by(check_discount))
    estimator: str = field(default="exact", metadata=checked_by(choice, known=("exact", "ccs")))
    samples: int = field(default=1, metadata=checked_by(whole, least=1, most=2**16))
    scale: str = field(
        default="curvature", metadata=checked_by(choice, known=("curvature", "plain"))
    )

    @property
    def worth_searching(self) -> Ranges:
        """``sigma`` where the hessian is 1; otherwise sigma only changes the unit of the scores."""
        if self.scale == "curvature":
            return {}
        return {"sigma": ("float", 0.1, 10.0, "log")}

    @property
    def gradient_is_derivative(self) -> bool:
        """False for ``estimator="ccs"``, which estimates the derivative of an expected value."""
        return self.estimator == "exact"

    @property
    def is_random(self) -> bool:
        """Whether scores are noisy or the gradient is estimated."""
        return super().is_random or self.estimator == "ccs"

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        if self.estimator == "exact":
            return _ExactObjective(self, lists, seed, threads)
        return _SmoothedSoftRank(self.sampled, lists, seed, threads)

    @property
    def _takes_powers(self) -> bool:
        """Whether the kernel takes the discount as a sum of powers, rather than rank by rank."""
        return self.k is None and isinstance(self.discount, str)

    @property
    def sampled(self) -> StochasticRank:
        """The loss whose gradient ``estimator="ccs"`` takes; its value is lower by 1."""
        return StochasticRank(
            metric=NDCG(k=self.k, gain=self.gain, discount=self.discount),
            sigma=self.sigma,
            mu=0.0,
            sfa=False,
            samples=self.samples,
            scale=self.scale,
            noise=self.noise,
            strength=self.strength,
        )


class _ExactObjective(Objective):
    """SoftRank with its exact gradient, bound to lists."""

    loss: SoftRank

    def __init__(self, loss: SoftRank, lists: TrainingLists, seed: int, threads: int) -> None:
        gains = gains_over_max_dcg(lists, loss.gain, loss.discount, loss.k)
        # Documents with a gain play contests against all others; ranks down to the depth count.
        n_with_gain = query_sums(gains > 0, lists.offsets)
        self._depth = lists.longest if loss.k is None else min(loss.k, lists.longest)
        # In units of the pairs that `balanced_ranges` counts in: contests, each a dozen and a few
        # for every rank or power; and thirty for every document.
        cost_of_discount = 20.0 if loss._takes_powers else 1.0 * self._depth
        cost_of_contest = 12.0 + cost_of_discount
        costs = lists.sizes * (30.0 + cost_of_contest * n_with_gain)
        super().__init__(loss, lists, seed, threads, costs)
        self._gains = gains[lists.arrangement]
        self._scale = np.where(n_with_gain > 0, lists.weights, 0.0)

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian of SoftRank at noisy scores, one number each per document."""
        grad = np.zeros_like(scores)
        hess = np.zeros_like(scores)
        # The kernel fills the arrays; it needs one for the values, which are not looked at.
        unused_values = np.zeros(self.lists.sizes.size)
        self._compute(scores, unused_values, grad, hess)
        # With the scale "plain" every document's hessian is the weight of its query.
        if self.loss.scale == "plain":
            hess[:] = np.repeat(self._scale, self.lists.sizes)
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return SoftRank's loss of each query at noisy scores; it holds nothing fixed and draws
        nothing, so ``held`` and ``step`` are not used.
        """
        values = np.zeros(self.lists.sizes.size)
        # Empty arrays tell `_compute` to leave out gradient and hessian.
        no_derivatives = np.zeros(0, scores.dtype)
        self._compute(scores, values, no_derivatives, no_derivatives)
        return values

    def _compute(self, scores: Floats, values: F64, grad: Floats, hess: Floats) -> None:
        """Compute SoftRank's loss, one minus the expected NDCG under normal noise, of all queries
        at some scores, and write it to ``values``; write gradient and hessian as well, unless their
        arrays are empty.

        Args:
            scores: noisy scores.
            values: one per query, filled with 0.
            grad, hess: one per document, filled with 0; or empty.
        """
        from tautrank.losses._softrank_kernel import softrank_queries

        lists, dtype = self.lists, scores.dtype
        # The kernel takes the discount in one of two forms: as a sum of powers, or as one number
        # per rank, which a cutoff needs. The way for the form that is None is not even compiled.
        discounts: Floats | None = None
        powers: tuple[Floats, Floats, I64, I64] | None = None
        if self.loss._takes_powers:
            powers = self._powers(dtype)
        else:
            discounts = self._discounts(dtype)

        arranged_gains = self._gains.astype(dtype, copy=False)
        derive = grad.size > 0
        # In the order of the kernel's parameters. The arrangement has the documents of each query
        # from the lowest label to the highest, the order of ranks, gains and ties.
        arguments = (
            scores,
            lists.arrangement,
            self._ranks(scores),
            arranged_gains,
            lists.offsets,
            self._scale,
            discounts,
            powers,
            self.loss.sigma,
            derive,
        )
        self._fill(softrank_queries, arguments, values, grad, hess)

    def _discounts(self, dtype: np.dtype[Any]) -> Floats:
        """Return the discounts of the ranks, up to the last one that has any."""
        discounts = discount_values(self._depth, self.loss.discount)
        return np.trim_zeros(discounts, "b").astype(dtype)

    def _powers(self, dtype: np.dtype[Any]) -> tuple[Floats, Floats, I64, I64]:
        """Return the discount as the kernel takes it, a sum ``D(rank) = sum_q c_q x_q^rank``: the
        gaps ``1 - x_q`` and the coefficients ``c_q`` in the given float type, a row each for lists
        of up to some length; and the number of terms and the longest list of each row.
        """
        from tautrank.losses._softrank_kernel import POWERS

        discount = self.loss.discount
        assert isinstance(discount, str)  # only named discounts are written so
        tables = power_tables(self.lists.longest, discount, TOLERANCE[dtype], POWERS)
        gaps, coefficients = tables.gaps.astype(dtype), tables.coefficients.astype(dtype)
        return gaps, coefficients, tables.n_terms, tables.reach


class _SmoothedSoftRank(SmoothedObjective):
    """The estimate of SoftRank's gradient; its value is one minus the smoothed metric."""

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the value of each query at noisy scores."""
        # The smoothed value is the metric with a minus sign.
        return self._scale + super()._values(scores, held, step)


@functools.lru_cache(maxsize=64)
def discount_powers(n: int, discount: str, tolerance: float, group: int) -> F64:
    """``1 - x_q`` and ``c_q``, a row each, for the 0-based ranks below ``n``.

    The coefficients are fitted to the relative error of the discount and of its steps from rank to
    rank, because a gradient is made of those. Powers are evenly spaced, or where fewer will do, at
    the places of ``_FITTED``.

    Args:
        n: ranks.
        discount: ``"log2"`` or ``"reciprocal"``.
        tolerance: the largest relative error of a step, unless 64 terms do not reach it.
        group: the number of terms is a multiple of this.

    >>> gaps, coefficients = discount_powers(256, "log2", 1e-6, 4)
    >>> gaps.size
    12
    >>> bool(abs(coefficients @ (1 - gaps) ** 6 - 1 / np.log2(2 + 6)) < 1e-7)
    True
    """
    # All low ranks, and of the others as many as matter.
    low_ranks = np.arange(min(n, 200))
    spaced_ranks = np.rint(np.geomspace(1, n, 800)).astype(np.int64)
    ranks = np.unique(np.concatenate((low_ranks, spaced_ranks - 1)))
    discounts = discount_values(n + 1, discount)
    goal = discounts[ranks]
    steps = discounts[ranks + 1] - goal

    for rates in _rates_to_try(n, discount, group):
        powers = np.exp(-np.outer(ranks, rates))
        steps_of_powers = powers * np.expm1(-rates)
        # Relative errors of the discount and of its steps: each row should add up to 1.
        system = np.vstack((powers / goal[:, np.newaxis], steps_of_powers / steps[:, np.newaxis]))
        ones = np.ones(2 * ranks.size)
        coefficients = np.linalg.lstsq(system, ones, rcond=1e-15)[0]
        errors = np.abs(system @ coefficients - 1.0)
        if errors.max() < tolerance:
            break
    table = np.stack((-np.expm1(-rates), coefficients))
    table.setflags(write=False)
    return table


def _rates_to_try(n: int, discount: str, group: int) -> Iterator[F64]:
    """Yield candidates for the rates ``-log x_q`` of the powers ``x_q^rank`` whose sum stands for a
    discount over ``n`` ranks: those fitted beforehand if there are any, then ever more rates, by
    ``group``, with a constant ratio from one to the next.
    """
    # `_FITTED` has the logarithms of rates by the number of ranks, for the discount log2 only.
    if discount == "log2" and n in _FITTED:
        yield np.exp(_FITTED[n])
    for n_terms in range(group, _MOST_TERMS + 1, group):
        # From a power that hardly falls over all ranks to one that is gone after the first.
        yield np.geomspace(0.3 / n, 8.0, n_terms)


class PowerTables(NamedTuple):
    """A discount as sums of powers, one sum per row for lists of up to some length.

    gaps: ``1 - x_q``, filled up with zeros.
    coefficients: ``c_q``, filled up with zeros.
    n_terms: the number of terms of each row.
    reach: the longest list of each row.
    """

    gaps: F64
    coefficients: F64
    n_terms: I64
    reach: I64


def power_tables(longest: int, discount: str, tolerance: float, group: int) -> PowerTables:
    """Return tables that write a discount as sums of powers ``sum_q c_q x_q^rank``, one row of
    ``1 - x_q`` and ``c_q`` for lists of up to 64, 256, 1024, ... documents each, until ``longest``
    is reached; `discount_powers` finds the sums.

    Which row serves a list depends on its own length only, so that queries stay independent of each
    other.

    Args:
        longest: documents of the longest list.
        discount: ``"log2"`` or ``"reciprocal"``.
        tolerance: as in `discount_powers`, as is ``group``.
        group: see there.

    >>> tables = power_tables(300, "log2", 1e-6, 4)
    >>> tables.n_terms, tables.reach
    (array([12, 12, 16]), array([  64,  256, 1024]))
    """
    lengths = [_SHORTEST]
    while lengths[-1] < longest:
        lengths.append(lengths[-1] * _GROWTH)
    sums = [discount_powers(length, discount, tolerance, group) for length in lengths]
    n_terms = np.array([gaps.size for gaps, _ in sums], dtype=np.int64)
    # Shorter sums are filled up with zeros: a term with the coefficient 0 adds nothing.
    tables = np.zeros((2, len(sums), int(n_terms.max())))
    for row, sum_of_powers in enumerate(sums):
        tables[:, row, : n_terms[row]] = sum_of_powers
    gaps, coefficients = tables
    return PowerTables(gaps, coefficients, n_terms, reach=np.array(lengths, dtype=np.int64))
