"""The StochasticRank family: the metric itself, smoothed by noise on the scores.

With ``L = -metric`` and noise ``eps ~ N(-mu y, I)`` the loss is ``E L(s + sigma eps)``, a smooth function of the scores
``s``. The shift by ``-mu y`` puts the better of two equal documents lower, so that a metric that ranks ties in the
worst order is smoothed without a bias towards ties; without it (``mu = 0``) ties count as their expected value. The
members differ in how they estimate the derivative from one draw of the noise.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arguments import choice, real, whole
from tautrank.arrays import F64, I64, Bools, naming_queries, spot
from tautrank.errors import DataError, OptionError, unknown
from tautrank.losses.base import Floats, Lists, Loss, Objective, register
from tautrank.losses.scale_free import BREAKS, ScaleFreeMetric
from tautrank.metrics import METRICS, NDCG, Metric
from tautrank.metrics import metric as read_metric
from tautrank.metrics.base import check_k
from tautrank.metrics.ordering import query_sums
from tautrank.metrics.reader import ReaderMetric, ReaderModel
from tautrank.names import name_of

if TYPE_CHECKING:
    from tautrank.losses._smoothing_kernel import Draws

_DEFAULT_METRIC = NDCG(k=10)
_SCALES = ("curvature", "plain")
_DEFAULT_MU = 0.1
# A gain above this, times a density, would leave float32's range.
_LARGEST_GAIN = 1e30
# How far from 0 positions in units of sigma may be: their differences have squares inside the range.
_FAR = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e150}


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothedLoss(Loss):
    """The base of the family.

    Args:
        metric: the metric to optimise: ``dcg``, ``ndcg``, ``err``, ``mrr`` or ``dcg-rr``, with its options and ``@k``,
            by name or as a `Metric`; or any `ScaleFreeMetric`. ``empty`` is ignored: a query with nothing to gain
            does not count.
        sigma: standard deviation of the noise.
        mu: how far a label shifts the mean of the noise; ``None`` is 0.1, or 0 for a metric without ties (``dcg-rr``)
            and for one with ``ties=expected``.
        nu: keeps scale-free acceleration finite where all scores are equal.
        sfa: scale-free acceleration (sec. 5.2): with ``u = s / (|s| + nu)``, ``s`` less its mean for a metric that
            ignores shifts, ``<g, u> u`` is taken off the gradient ``g``, since the metric does not change along ``s``.
            ``None`` is true with ``scale="plain"`` and false otherwise.
        samples: draws of the noise to average.
        scale: ``"plain"`` is ``hess = 1``, the paper's form; ``"curvature"`` is the magnitude of the smoothed metric's
            own curvature, ``hess = (mass + |what sfa took off|) / sigma`` with ``mass`` the sum of the sizes of the
            terms of the gradient. Then ``|grad| <= sigma hess``: no Newton step goes further than the smoothing
            reaches, and ``sigma`` is the unit of the scores and nothing else: twice the sigma is the same training with
            scores twice as large. ``None`` is ``"plain"`` where ``sfa=True`` is asked for, and ``"curvature"``
            otherwise: with a hessian of 1 scores stay far below the noise, where acceleration helps; at the scale of
            the noise it takes off what is being learnt.
        noise: see `Loss`.
        strength: see `Loss`.

    >>> StochasticRank(metric="err(max_label=2)@5", sigma=2, sfa=False)
    stochasticrank(metric=err(max_label=2)@5,sigma=2,sfa=false)
    """

    metric: str | Metric | ScaleFreeMetric = _DEFAULT_METRIC
    sigma: float = 1.0
    mu: float | None = None
    nu: float = 1e-2
    sfa: bool | None = None
    samples: int = 1
    scale: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set("metric", _checked_metric(self.metric))
        self._set("sigma", real("sigma", self.sigma, least=0.0, above=True))
        if self.mu is not None:
            self._set("mu", real("mu", self.mu, least=0.0))
            if self.mu and not self._ties_are_worst:
                why = "has no ties" if not self.ignores_shifts else "counts the expected value of ties"
                raise OptionError(
                    f"mu: found {self.mu:g} with the metric {self.metric}, which {why}; expected 0 or None"
                )
        self._set("nu", real("nu", self.nu, least=0.0, above=True))
        if self.sfa is not None:
            if not isinstance(self.sfa, bool | np.bool_):
                raise OptionError(f"sfa: found {self.sfa!r}; expected true or false")
            self._set("sfa", bool(self.sfa))
        self._set("samples", whole("samples", self.samples, least=1, most=2**16))
        if self.scale is not None:
            choice("scale", self.scale, _SCALES)

    @property
    def accelerates(self) -> bool:
        """Whether scale-free acceleration is on: ``sfa``, or its default where ``sfa`` is None."""
        return self.scale == "plain" if self.sfa is None else self.sfa

    @property
    def follows_curvature(self) -> bool:
        """Whether the hessian is the curvature: ``scale``, or its default where ``scale`` is None."""
        return not self.sfa if self.scale is None else self.scale == "curvature"

    @property
    def gradient_is_derivative(self) -> bool:
        """False: the gradient is an estimate of the derivative of the expected value."""
        return False

    @property
    def ignores_shifts(self) -> bool:
        """Whether the metric depends on the ranking; one of a selection compares scores with 0."""
        return getattr(self.metric, "breaks_at", "scores") == "scores"

    @property
    def is_random(self) -> bool:
        """True: every step draws new noise."""
        return True

    @property
    def _ties_are_worst(self) -> bool:
        return self.ignores_shifts and getattr(self.metric, "ties", "worst") == "worst"

    @property
    def _shift_by_label(self) -> float:
        if self.mu is None:
            return _DEFAULT_MU if self._ties_are_worst else 0.0
        return self.mu

    def _bind(self, lists: Lists, seed: int, threads: int) -> Objective:
        kind = _ReaderObjective if isinstance(self.metric, ReaderMetric) else _ScaleFreeObjective
        return kind(self, lists, seed, threads)

    @property
    @abc.abstractmethod
    def _by_log_derivative(self) -> bool:
        """Whether the derivative is estimated by the log-derivative trick."""


@register("stochasticrank")
@dataclass(frozen=True, kw_only=True, repr=False)
class StochasticRank(SmoothedLoss):
    """The smoothed metric, its derivative estimated by coordinate conditional sampling: low variance, no bias.

    For each document ``j`` only the noise of the others is drawn; the derivative over its own is exact. With ``b``
    the breaking points of document ``j`` (the others' noisy scores) and ``phi`` the normal density

        g_j = (1/sigma) sum_b (L(b+) - L(b-)) phi((b - s_j)/sigma + mu y_j)

    where ``L(b+)`` and ``L(b-)`` are the losses with document ``j`` just above and just below ``b``. The estimate is
    unbiased for every ``sigma`` and ``mu``, and takes O(n (k + log n)) time. The value is ``L(s + sigma eps)``, the
    mean over the draws of the step.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020,
    Theorem 3 with the sign of its Lemma 1, and Theorem 4.

    Its parameters are those of `SmoothedLoss`.

    >>> objective = StochasticRank(metric="mrr", mu=0, samples=1000).bind(labels=[0, 1], offsets=[0, 2])
    >>> grad, hess = objective.gradients([0.0, 0.0])
    >>> exact = 0.5 / np.sqrt(4 * np.pi)  # the jump from 1/2 to 1, times the density of a difference of two noises at 0
    >>> bool(abs(grad[0] - exact) < 0.01), bool(abs(grad[1] + exact) < 0.01)
    (True, True)
    """

    @property
    def worth_searching(self) -> dict[str, tuple[Any, ...]]:
        """How far labels shift the noise."""
        return {"mu": ("float", 0.01, 1.0, "log")}

    @property
    def _by_log_derivative(self) -> bool:
        return False


@register("reinforce")
@dataclass(frozen=True, kw_only=True, repr=False)
class Reinforce(SmoothedLoss):
    """The smoothed metric, its derivative estimated by the log-derivative trick: unbiased too, but of high variance.

    ``g = (1/sigma) (L(s + sigma eps) - L(s)) (eps + mu y)``, where the loss without noise, ties at their worst, is the
    baseline. StochasticRank's experiments compare coordinate conditional sampling with this estimate. With
    ``scale="curvature"`` the mass is the mean over the draws of the estimate's size, so that ``|grad| <= sigma hess``
    holds here as well.

    Williams, *Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning*, Machine
    Learning 8, 1992; in this form Nesterov and Spokoiny, *Random Gradient-Free Minimization of Convex Functions*, 2017.

    Its parameters are those of `SmoothedLoss`.

    >>> grad, hess = Reinforce(metric="ndcg@10").bind([0, 1, 2], [0, 3]).gradients([0.1, 0.0, -0.1])
    >>> bool((abs(grad) <= hess).all())
    True
    """

    sfa: bool = False

    @property
    def _by_log_derivative(self) -> bool:
        return True


class _SmoothedObjective(Objective):
    loss: SmoothedLoss
    _order: I64
    _shift: F64
    _scale: F64

    def __init__(self, loss: SmoothedLoss, lists: Lists, seed: int, threads: int, k: int, a_jump: float) -> None:
        # In units of the pairs that `balanced_ranges` counts in: the noise and the search for the first documents,
        # about forty per document, and its jumps.
        sizes = lists.sizes.astype(np.float64)
        super().__init__(
            loss, lists, seed, threads, loss.samples * sizes * (40.0 + a_jump * np.minimum(k + 1.0, sizes))
        )
        self._k = k

    def _scales(self, filled: Bools) -> F64:
        return np.where(filled & self.lists.has_relevant, self.lists.weights, 0.0)

    @abc.abstractmethod
    def _kernel(self, result: str, kind: np.dtype[Any]) -> tuple[Callable[..., None], Floats, tuple[Any, ...]]:
        """Return the kernel of gradients, log_derivatives or values, the document values, and its other arguments."""

    def _draws(self, scores: Floats, step: int, values: Floats) -> Draws:
        from tautrank.losses._smoothing_kernel import Draws

        loss = self.loss
        return Draws(
            scores, self._order, self._shift, values, self.lists.offsets, self._scale, self._k,
            loss.sigma, loss.samples, _FAR[scores.dtype], np.uint64(self.seed), step,
        )  # fmt: skip

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        from tautrank.losses._smoothing_kernel import finish_queries

        loss = self.loss
        kernel, values, more = self._kernel("log_derivatives" if loss._by_log_derivative else "gradients", scores.dtype)
        grad, hess = self._filled_gradients(kernel, scores.dtype, self._draws(scores, step, values), *more)
        finished = (
            scores, self.lists.offsets, self._scale, loss.sigma, loss.nu,
            loss.accelerates, loss.ignores_shifts, loss.follows_curvature,
        )  # fmt: skip
        self._fill(finish_queries, finished, grad, hess)
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        kernel, values, more = self._kernel("values", scores.dtype)
        return self._filled_values(kernel, self._draws(scores, step, values), *more)


class _ReaderObjective(_SmoothedObjective):
    def __init__(self, loss: SmoothedLoss, lists: Lists, seed: int, threads: int) -> None:
        metric = loss.metric
        assert isinstance(metric, ReaderMetric)
        with naming_queries(lists.offsets):
            model = ReaderModel.of(metric, lists.labels, lists.offsets)
        # Ranks without a weight are beyond the cutoff, of the metric or of its discount table.
        super().__init__(loss, lists, seed, threads, max(int(np.count_nonzero(model.weights)), 1), 1.0)
        self._scale = self._scales(model.filled)
        gains = model.gains / np.repeat(model.norms, lists.sizes)
        if gains.size and gains.max() > _LARGEST_GAIN:
            where = spot("labels", int(np.argmax(gains > _LARGEST_GAIN)), lists.offsets)
            raise DataError(
                f"{where}: found a gain of {gains.max():g}; expected at most "
                f"{_LARGEST_GAIN:g}, or the metric ndcg, which divides gains by the best possible"
            )
        self._order = lists.arrangement
        self._gains = gains[self._order]
        self._shift = loss._shift_by_label * lists.labels[self._order]
        self._weights = model.weights
        self._drops = -np.diff(model.weights, append=0.0)
        self._stops = model.stops

    @functools.cached_property
    def _gains_as_float32(self) -> Floats:
        return self._gains.astype(np.float32)

    def _kernel(self, result: str, kind: np.dtype[Any]) -> tuple[Callable[..., None], Floats, tuple[Any, ...]]:
        from tautrank.losses import _stochastic_kernel as kernels

        if result == "gradients":
            gains: Floats = self._gains_as_float32 if kind == np.float32 else self._gains
            return kernels.reader_gradients, gains, (self._drops, self._stops)
        kernel = kernels.reader_values if result == "values" else kernels.reader_log_derivatives
        return kernel, self._gains, (self._weights, self._stops)


class _ScaleFreeObjective(_SmoothedObjective):
    def __init__(self, loss: SmoothedLoss, lists: Lists, seed: int, threads: int) -> None:
        moves = loss.metric
        assert isinstance(moves, ScaleFreeMetric)
        self._moves = moves
        by_score = loss.ignores_shifts
        k = lists.longest if moves.k is None else moves.k
        super().__init__(loss, lists, seed, threads, max(k, 1), 20.0 if by_score else 0.0)
        with naming_queries(lists.offsets):
            values = np.asarray(moves.document_values(lists.labels.copy()), np.float64)
        if values.shape != lists.labels.shape:
            raise DataError(
                f"metric: the document_values of {loss.metric} have the shape {values.shape}; "
                f"expected {lists.labels.shape}, one per document"
            )
        self._scale = self._scales(query_sums(values != 0, lists.offsets) > 0)
        # A selection keeps the input order; a ranking uses the order of equal scores.
        self._order = lists.arrangement if by_score else np.arange(values.size)
        self._document_values = np.ascontiguousarray(values[self._order])
        self._shift = loss._shift_by_label * lists.labels[self._order]

    def _kernel(self, result: str, kind: np.dtype[Any]) -> tuple[Callable[..., None], Floats, tuple[Any, ...]]:
        from tautrank.losses._scale_free_kernel import kernels_for

        kernel = getattr(kernels_for(self._moves.sums, self._moves.moved), result)
        return kernel, self._document_values, (self.loss.ignores_shifts,)


def _checked_metric(given: object) -> Metric | ScaleFreeMetric:
    """Return the metric as an object that can be smoothed."""
    known = [name for name, cls in METRICS.items() if hasattr(cls, "reader") or hasattr(cls, "breaks_at")]
    if isinstance(given, str):
        if name_of(given) not in METRICS:
            raise unknown("metric", name_of(given), known)
        given = read_metric(given)
    if isinstance(given, ReaderMetric) and isinstance(given, Metric):
        if given.ties not in ("worst", "expected"):
            raise OptionError(f"metric: found {given}; expected ties=worst, or ties=expected, which is mu=0")
        return given
    # A class has the attributes of its objects.
    if isinstance(given, ScaleFreeMetric) and not isinstance(given, type):
        choice("breaks_at", given.breaks_at, BREAKS)
        check_k(given.k)
        if isinstance(given, Metric) and given.breaks_at == "zero" and given.ties != "worst":
            raise OptionError(f"metric: found {given}; expected no ties option, since {given.name} has no ties")
        return given
    expected = f"expected {', '.join(known)}, or a ScaleFreeMetric"
    if isinstance(given, Metric):
        raise OptionError(f"metric: found {given}, which cannot be optimised directly; {expected}")
    raise OptionError(f"metric: found {given!r}; {expected}")
