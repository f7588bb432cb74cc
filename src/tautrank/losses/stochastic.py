"""The StochasticRank family: the metric itself, smoothed by noise on the scores.

With ``L = -metric`` and noise ``eps ~ N(-mu y, I)`` the loss is ``E L(s + sigma eps)``, a smooth
function of the scores ``s``. The shift by ``-mu y`` puts the better of two equal documents lower,
so that a metric that ranks ties in the worst order is smoothed without a bias towards ties; without
it (``mu = 0``) ties count as their expected value. The members differ in how they estimate the
derivative from one draw of the noise.

A metric is scale-free when multiplying all scores by a positive number does not change it. Such a
metric changes only where the score of a document crosses a breaking point: the score of another
document, for a metric of a ranking, or 0, for a metric of a selection (sec. 3).

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*,
ICML 2020.
"""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tautrank.arguments import checked_by, choice, real, truth, whole
from tautrank.arrays import F64, Floats, naming_queries, spot
from tautrank.errors import DataError, OptionError, unknown
from tautrank.losses.base import Loss, Objective, Ranges, TrainingLists, register
from tautrank.metrics import METRICS, NDCG, Metric
from tautrank.metrics import metric as read_metric
from tautrank.metrics.base import check_k
from tautrank.metrics.other_tools import respelled
from tautrank.metrics.ranked import ReaderMetric, reader_parts
from tautrank.names import name_of

if TYPE_CHECKING:
    from tautrank.losses._smoothing_kernel import Draws, Kernels

DEFAULT_METRIC = NDCG(k=10)
"""The metric that losses made of a metric take by default."""

_DEFAULT_MU = 0.1
# A gain above this, times a density, would leave float32's range.
_LARGEST_GAIN = 1e30
# How far from 0 positions in units of sigma may be: their differences have squares inside the
# range.
_FAR: dict[np.dtype[Any], float] = {np.dtype(np.float32): 1e18, np.dtype(np.float64): 1e150}


@runtime_checkable
class ScaleFreeMetric(Protocol):
    """A metric, higher is better, that StochasticRank can optimise:
    ``tr.loss("stochasticrank", metric=MyMetric())``.

    Subclass it, or write an object with the same attributes and methods. Lists come one at a time.
    Places and documents are counted from 0. ``sums`` is called once per list; ``moved`` is called
    for each document and each of its breaking points, so it should take O(1) time, with the help of
    what ``sums`` returned.

    A plain Python object works; one whose ``sums`` and ``moved`` are Numba-compiled functions
    (static methods, since compiled code has no ``self``) runs at native speed. If the object is
    hashable and comparable, as a frozen dataclass is, so is the loss; the loss prints the object's
    ``str``.

    >>> import numpy as np
    >>> class Precision(ScaleFreeMetric):
    ...     '''The share of the first k documents that are relevant.'''
    ...
    ...     def __init__(self, k):
    ...         self.k = k
    ...
    ...     def sums(self, values, scores, k):  # relevant documents among the first 0, 1, 2, ...
    ...         return np.concatenate(([0.0], np.cumsum(values > 0)))
    ...
    ...     def moved(self, values, sums, document, place, k):
    ...         # The first k hold the document and k - 1 others, or k others.
    ...         n_others = k - 1 if place < k else k
    ...         was_before = document < n_others
    ...         relevant = sums[min(n_others + was_before, values.size)]
    ...         if values[document] > 0:
    ...             relevant += (place < k) - int(was_before)
    ...         return relevant / self.k
    >>> from tautrank.losses import loss
    >>> objective = loss("stochasticrank", metric=Precision(1), mu=0).bind([0, 1], [0, 2])
    >>> grad, hess = objective.gradients([0.0, 0.0])
    >>> bool(grad[0] > 0), bool(grad[1] < 0)
    (True, True)
    """

    breaks_at: str = "scores"
    """``"scores"``: the metric depends on the ranking, and changes where two scores are equal.
    ``"zero"``: it depends on which scores are above 0, and changes where a score is 0."""

    k: int | None = None
    """The metric depends on the first ``k`` places only; None: on all."""

    def document_values(self, labels: F64) -> F64:
        """Return what each document brings to the metric, computed once from the labels; by default
        the labels.

        Args:
            labels: the labels of all documents of all lists.
        """
        return labels

    @abc.abstractmethod
    def sums(self, values: F64, scores: F64, k: int) -> Any:
        """Return what ``moved`` needs to know about a list, as an array.

        Args:
            values: the ``document_values`` of the list: in the order of the ranking, first place
                first (``breaks_at="scores"``), or in input order (``"zero"``).
            scores: noisy scores in the same order; only their order or sign has a meaning.
            k: the metric's ``k``, or the length of the list if that is less.
        """

    @abc.abstractmethod
    def moved(self, values: F64, sums: Any, document: int, place: int, k: int) -> float:
        """Return the metric of the list after one document is moved and the others keep their
        order.

        Args:
            values: as in ``sums``.
            sums: what ``sums`` returned.
            document: the document's index in ``values``.
            place: its new place in the ranking (``breaks_at="scores"``); or 0 for below 0 and 1 for
                above 0.
            k: as in ``sums``.
        """


def checked_metric(metric_or_name: object) -> Metric | ScaleFreeMetric:
    """Return the metric that a smoothed loss optimises, after checking that it can be optimised
    directly; raise an error that lists the metrics that can.

    Args:
        metric_or_name: a metric of this library or its name, or a `ScaleFreeMetric`.
    """
    metric = metric_or_name
    if isinstance(metric, str):
        metric = _read_metric(metric)
    if isinstance(metric, ReaderMetric) and isinstance(metric, Metric):
        # Reading the property may raise an error about options; since Python 3.12 `isinstance` no
        # longer reads it.
        _ = metric.discount
        if metric.ties not in ("worst", "expected"):
            raise OptionError(
                f"metric: found {metric}; expected ties=worst, or ties=expected, which is mu=0"
            )
        return metric
    # A class has the attributes of its objects, and would pass for one of them: it is refused.
    # The metric jumps where two scores are equal, or where one passes 0 ("zero").
    if isinstance(metric, ScaleFreeMetric) and not isinstance(metric, type):
        choice("breaks_at", metric.breaks_at, ("scores", "zero"))
        check_k(metric.k)
        if isinstance(metric, Metric) and metric.breaks_at == "zero" and metric.ties != "worst":
            raise OptionError(
                f"metric: found {metric}; expected no ties option, since {metric.name} has no ties"
            )
        return metric

    expected = f"{', '.join(_names_of_smooth_metrics())}, or a ScaleFreeMetric"
    if isinstance(metric, Metric):
        raise OptionError(
            f"metric: found {metric}, which cannot be optimised directly; expected {expected}"
        )
    raise OptionError(f"metric: found {metric!r}; expected {expected}")


def _read_metric(text: str) -> Metric:
    """Return a metric by name; an error about an unknown name lists those that can be smoothed."""
    name = name_of(respelled(text.lower()))
    if name not in METRICS and name not in METRICS.aliases:
        raise unknown("metric", name, _names_of_smooth_metrics())
    return read_metric(text)


def _names_of_smooth_metrics() -> list[str]:
    """Return the names of the metrics of this library that can be smoothed."""
    names = []
    for name, cls in METRICS.items():
        if hasattr(cls, "stops") or hasattr(cls, "breaks_at"):
            names.append(name)
    return names


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothedLoss(Loss):
    """The base of the family.

    Args:
        metric: the metric to optimise: ``dcg``, ``ndcg``, ``err``, ``mrr``, ``success@k``, ``rbp``
            or ``dcg-rr``, with its options and ``@k``, by name or as a `Metric`; or any
            `ScaleFreeMetric`. ``empty`` is ignored: a query with nothing to gain does not count.
        sigma: standard deviation of the noise.
        mu: how far a label shifts the mean of the noise; ``None`` is 0.1, or 0 for a metric without
            ties (``dcg-rr``) and for one with ``ties=expected``.
        nu: keeps scale-free acceleration finite where all scores are equal.
        sfa: scale-free acceleration (sec. 5.2): with ``u = s / (|s| + nu)``, ``s`` less its mean
            for a metric that ignores shifts, ``<g, u> u`` is taken off the gradient ``g``, since
            the metric does not change along ``s``. ``None`` is true with ``scale="plain"`` and
            false otherwise.
        samples: draws of the noise to average.
        scale: ``"plain"`` is ``hess = 1``, the paper's form; ``"curvature"`` is the magnitude of
            the smoothed metric's own curvature, ``hess = (mass + |what sfa took off|) / sigma``
            with ``mass`` the sum of the sizes of the terms of the gradient. Then
            ``|grad| <= sigma hess``: no Newton step goes further than the smoothing reaches, and
            ``sigma`` only sets the unit of the scores: twice the sigma is the same training with
            scores twice as large. ``None`` is ``"plain"`` with ``sfa=True``, and ``"curvature"``
            otherwise: with a hessian of 1 scores stay far below the noise, where acceleration
            helps; at the scale of the noise it removes what is being learnt.
        noise: see `Loss`.
        strength: see `Loss`.

    >>> StochasticRank(metric="err(max_label=2)@5", sigma=2, sfa=False)
    stochasticrank(metric=err(max_label=2)@5,sigma=2,sfa=false)
    """

    _by_log_derivative: ClassVar[bool] = False

    metric: str | Metric | ScaleFreeMetric = field(
        default=DEFAULT_METRIC, metadata=checked_by(checked_metric)
    )
    sigma: float = field(default=1.0, metadata=checked_by(real, above=True))
    mu: float | None = field(default=None, metadata=checked_by(real, least=0.0))
    nu: float = field(default=1e-2, metadata=checked_by(real, above=True))
    sfa: bool | None = field(default=None, metadata=checked_by(truth, expected="true or false"))
    samples: int = field(default=1, metadata=checked_by(whole, least=1, most=2**16))
    scale: str | None = field(
        default=None, metadata=checked_by(choice, known=("curvature", "plain"))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu and not self._ties_are_worst:
            reason = "counts the expected value of ties" if self.ignores_shifts else "has no ties"
            raise OptionError(
                f"mu: found {self.mu:g} with the metric {self.metric}, which {reason}; expected 0"
                " or None"
            )

    @property
    def accelerates(self) -> bool:
        """Whether scale-free acceleration is on: ``sfa``, or its default where ``sfa`` is None."""
        if self.sfa is None:
            return self.scale == "plain"
        return self.sfa

    @property
    def follows_curvature(self) -> bool:
        """Whether the hessian is the curvature: ``scale``, or its default where ``scale`` is
        None.
        """
        if self.scale is None:
            return not self.sfa
        return self.scale == "curvature"

    gradient_is_derivative = False
    """The gradient is an estimate of the derivative of the expected value."""

    is_random = True
    """Every step draws new noise."""

    @property
    def ignores_shifts(self) -> bool:
        """Whether the metric depends on the ranking; one of a selection compares scores with 0."""
        return getattr(self.metric, "breaks_at", "scores") == "scores"

    @property
    def _ties_are_worst(self) -> bool:
        """Whether the metric has ties, and counts the worst order of them."""
        ties = getattr(self.metric, "ties", "worst")
        return self.ignores_shifts and ties == "worst"

    @property
    def _shift_by_label(self) -> float:
        """``mu``, or its default where ``mu`` is None."""
        if self.mu is None:
            return _DEFAULT_MU if self._ties_are_worst else 0.0
        return self.mu

    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""
        return SmoothedObjective(self, lists, seed, threads)


@register("stochasticrank")
class StochasticRank(SmoothedLoss):
    """The smoothed metric, its derivative estimated by coordinate conditional sampling: low
    variance, no bias.

    For each document ``j`` only the noise of the others is drawn; the derivative over its own is
    exact. With ``b`` the breaking points of document ``j`` (the others' noisy scores) and ``phi``
    the normal density

        g_j = (1/sigma) sum_b (L(b+) - L(b-)) phi((b - s_j)/sigma + mu y_j)

    where ``L(b+)`` and ``L(b-)`` are the losses with document ``j`` just above and just below
    ``b``. The estimate is unbiased for every ``sigma`` and ``mu``, and takes O(n (k + log n)) time.
    The value is ``L(s + sigma eps)``, the mean over the draws of the step.

    Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete
    Functions*, ICML 2020, Theorem 3 with the sign of its Lemma 1, and Theorem 4.

    Its parameters are those of `SmoothedLoss`.

    >>> objective = StochasticRank(metric="mrr", mu=0, samples=1000).bind([0, 1], [0, 2])
    >>> grad, hess = objective.gradients([0.0, 0.0])
    >>> # The jump from 1/2 to 1, times the density at 0 of the difference of two noises.
    >>> exact = 0.5 / np.sqrt(4 * np.pi)
    >>> bool(abs(grad[0] - exact) < 0.01), bool(abs(grad[1] + exact) < 0.01)
    (True, True)
    """

    _searched: ClassVar[Ranges] = {"mu": ("float", 0.01, 1.0, "log")}


@register("reinforce")
@dataclass(frozen=True, kw_only=True, repr=False)
class Reinforce(SmoothedLoss):
    """The smoothed metric, its derivative estimated by the log-derivative trick: unbiased too, but
    of high variance.

    ``g = (1/sigma) (L(s + sigma eps) - L(s)) (eps + mu y)``, where the loss without noise, ties at
    their worst, is the baseline. StochasticRank's experiments compare coordinate conditional
    sampling with this estimate. With ``scale="curvature"`` the mass is the mean over the draws of
    the estimate's size, so that ``|grad| <= sigma hess`` holds here as well.

    Williams, *Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement
    Learning*, Machine Learning 8, 1992; in this form Nesterov and Spokoiny, *Random Gradient-Free
    Minimization of Convex Functions*, 2017.

    Its parameters are those of `SmoothedLoss`.

    >>> grad, hess = Reinforce(metric="ndcg@10").bind([0, 1, 2], [0, 3]).gradients([0.1, 0.0, -0.1])
    >>> bool((abs(grad) <= hess).all())
    True
    """

    _by_log_derivative: ClassVar[bool] = True

    sfa: bool = False


class SmoothedObjective(Objective):
    """A smoothed metric bound to labels."""

    loss: SmoothedLoss

    def __init__(self, loss: SmoothedLoss, lists: TrainingLists, seed: int, threads: int) -> None:
        metric = loss.metric
        if isinstance(metric, ReaderMetric):
            parts = _parts_of_reader(metric, lists)
        else:
            assert isinstance(metric, ScaleFreeMetric)
            parts = _parts_of_own_metric(metric, lists, loss.ignores_shifts)
        # Costs are in units of a pair of documents. The noise of a document and the search for the
        # first documents cost about forty; then come the scores at which the metric jumps.
        n_jumps = np.minimum(parts.k + 1.0, lists.sizes)
        cost_of_document = 40.0 + parts.cost_of_jump * n_jumps
        costs = loss.samples * lists.sizes * cost_of_document
        super().__init__(loss, lists, seed, threads, costs)

        self._scale = lists.weights_of(parts.values)
        if loss.ignores_shifts:
            # A metric of the ranking: documents in the order in which equal scores are ranked.
            self._order = lists.arrangement
        else:
            # A metric of which scores are above 0 needs no order.
            self._order = np.arange(parts.values.size)
        self._document_values = np.ascontiguousarray(parts.values[self._order])
        shift = loss._shift_by_label * lists.labels[self._order]
        self._options: dict[np.dtype[Any], tuple[Any, ...]] = {}
        for dtype, far in _FAR.items():
            self._options[dtype] = (shift, loss.sigma, far, parts.k, *parts.options)

    @functools.cached_property
    def _kernels(self) -> Kernels:
        """The kernels of the metric; those of one's own metric are compiled if its methods are."""
        from tautrank.losses._smoothing_kernel import kernels_for
        from tautrank.losses._stochastic_kernel import READER_KERNELS

        metric: Any = self.loss.metric
        if isinstance(metric, ReaderMetric):
            return READER_KERNELS
        return kernels_for(metric.sums, metric.moved)

    def _draws_and_options(self, scores: Floats, step: int) -> tuple[Draws, Any]:
        """Return the arguments of the kernels that draw noise: the lists with their scores and
        random seeds, and the options of the metric.
        """
        from tautrank.losses._smoothing_kernel import Draws

        # `_order`: the order in which equal scores are ranked; `_scale`: weights of the queries.
        draws = Draws(
            scores=scores,
            arrangement=self._order,
            values=self._document_values,
            offsets=self.lists.offsets,
            scale=self._scale,
            samples=self.loss.samples,
            seed=np.uint64(self.seed),
            step=step,
        )
        return draws, self._options[scores.dtype]

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return estimates of gradient and hessian of the smoothed metric, one number each per
        document, from the noise that is drawn at a step.
        """
        from tautrank.losses._smoothing_kernel import finish_queries

        # First the raw estimate, by the noise's density (REINFORCE) or by the jumps of the metric;
        # then `finish_queries` changes grad and hess in place: it takes off the part of a gradient
        # along the scores, if the loss accelerates, and applies the weights of the queries.
        loss, kernels = self.loss, self._kernels
        kernel = kernels.log_derivatives if loss._by_log_derivative else kernels.gradients
        draws, options = self._draws_and_options(scores, step)
        grad, hess = self._filled_gradients(kernel, scores.dtype, draws, options)
        options_to_finish = (
            loss.sigma,
            loss.nu,
            loss.accelerates,
            loss.ignores_shifts,
            loss.follows_curvature,
        )
        arguments = (scores, self.lists.offsets, self._scale, options_to_finish)
        self._fill(finish_queries, arguments, grad, hess)
        return grad, hess

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the negated metric of each query at noisy scores, the mean over the draws of a
        step.
        """
        draws, options = self._draws_and_options(scores, step)
        return self._filled_values(self._kernels.values, draws, options)


class _MetricParts(NamedTuple):
    """A metric of lists, as its kernels take it.

    values: what each document brings to the metric.
    k: number of ranks that matter, at least 1.
    options: what the kernels of the metric take besides those of others.
    cost_of_jump: time for a breaking point, in units of a pair.
    """

    values: F64
    k: int
    options: tuple[Any, ...]
    cost_of_jump: float


def _parts_of_reader(metric: ReaderMetric, lists: TrainingLists) -> _MetricParts:
    """Return what a kernel needs to compute a metric like NDCG or ERR: the gains of the documents,
    the number of ranks that count, and the weights of the ranks.
    """
    gains, rank_weights = reader_gains(metric, lists)
    # Ranks without a weight are beyond the cutoff, of the metric or of its discount table.
    n_ranks = int(np.count_nonzero(rank_weights))
    # What a document loses from one rank to the next; beyond the last rank the weight is 0.
    drops_to_next_rank = -np.diff(rank_weights, append=0.0)
    return _MetricParts(
        values=gains,
        k=max(n_ranks, 1),
        options=(rank_weights, drops_to_next_rank, metric.stops),
        cost_of_jump=1.0,
    )


def _parts_of_own_metric(
    metric: ScaleFreeMetric, lists: TrainingLists, ignores_shifts: bool
) -> _MetricParts:
    """Return what a kernel needs to compute a metric that a user wrote.

    Args:
        metric: the user's object.
        lists: the labelled lists.
        ignores_shifts: whether the metric depends on the ranking, rather than on which scores are
            above 0.
    """
    k = lists.longest if metric.k is None else metric.k
    return _MetricParts(
        values=_values_of_own_metric(metric, lists),
        k=max(k, 1),
        options=(ignores_shifts,),
        # In units of a pair of documents; without sliding over other documents there are no jumps.
        cost_of_jump=20.0 if ignores_shifts else 0.0,
    )


def reader_gains(metric: ReaderMetric, lists: TrainingLists) -> tuple[F64, F64]:
    """Return the gain of each document and the weight of each rank in a metric; raise an error
    about gains that float32 cannot hold.

    Args:
        metric: the metric.
        lists: the labelled lists.
    """
    # Errors about a label name its query.
    with naming_queries(lists.offsets):
        gains, rank_weights = reader_parts(metric, lists.labels, lists.offsets)
    is_too_large = gains > _LARGEST_GAIN
    if is_too_large.any():
        first_too_large = int(np.argmax(is_too_large))  # the first True
        label_position = spot("labels", first_too_large, lists.offsets)
        raise DataError(
            f"{label_position}: found a gain of {gains.max():g}; expected at most"
            f" {_LARGEST_GAIN:g}, or the metric ndcg, which divides gains by the best possible"
        )
    return gains, rank_weights


def _values_of_own_metric(metric: ScaleFreeMetric, lists: TrainingLists) -> F64:
    """Return the value of each document in a metric that a user wrote, as float64; raise an error
    unless there is one number per document.
    """
    with naming_queries(lists.offsets):
        # A copy, since the user's code may change the array.
        values = np.asarray(metric.document_values(lists.labels.copy()), np.float64)
    if values.shape != lists.labels.shape:
        raise DataError(
            f"metric: the document_values of {metric} have the shape {values.shape};"
            f" expected {lists.labels.shape}, one per document"
        )
    return values
