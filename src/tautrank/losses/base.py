"""The base of all losses: a small frozen object of parameters that prints as you would type it.

`bind` a loss to labels and it becomes an `Objective`: a pure function of ``(scores, step)``.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank import arrays
from tautrank.arguments import check_fields, checked_by, choice, job_count, real, whole
from tautrank.arrays import F64, I32, I64, Array, Bools, Floats
from tautrank.data.lists import Lists
from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError, OptionError
from tautrank.kernels.streams import GUMBEL_STREAM
from tautrank.kernels.threads import Range, balanced_ranges, run
from tautrank.metrics.gains import Gain, gain_values
from tautrank.metrics.ordering import query_sums
from tautrank.names import Registry, changed_options, write_name

Ranges: TypeAlias = dict[str, tuple[Any, ...]]
"""Ranges of parameters by name, as `tautrank.tune` takes them."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Loss(abc.ABC):
    """A ranking loss: parameters only, so that it compares, hashes, prints and parses back.

    Args:
        noise: ``None``, or ``"gumbel"`` to add ``strength * Gumbel`` to the scores before the loss
            sees them, fresh for every (seed, step, query, document): the E-lambda baselines of
            Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020.
        strength: scale of the noise.

    >>> noisy = loss("lambdarank", noise="gumbel", strength=0.5)
    >>> noisy, noisy.is_random
    (lambdarank(noise=gumbel,strength=0.5), True)
    """

    name: ClassVar[str]
    takes_propensities: ClassVar[bool] = False
    """Whether `bind` takes propensities."""

    _searched: ClassVar[Ranges] = {}
    """What `worth_searching` returns, unless it depends on the parameters."""

    noise: str | None = field(default=None, metadata=checked_by(choice, known=("gumbel",)))
    strength: float = field(default=1.0, metadata=checked_by(real, least=0.0))

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        inherited_name = getattr(cls, "name", None)
        if "name" not in vars(cls) and inherited_name not in REGISTRY:
            cls.name = cls.__name__  # until it is registered

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def gradient_is_derivative(self) -> bool:
        """Whether ``gradients`` returns the derivative of ``values``, rather than a direction
        derived from it.
        """
        return True

    @property
    def ignores_shifts(self) -> bool:
        """Whether adding a constant to the scores of a query leaves the loss unchanged."""
        return True

    @property
    def is_random(self) -> bool:
        """Whether the loss draws random numbers, so that ``seed`` and ``step`` matter."""
        return self.noise is not None

    @property
    def worth_searching(self) -> Ranges:
        """Parameters that `tautrank.tune` searches by default, with their ranges as `tune` takes
        them.

        >>> loss("ndcg-loss2++").worth_searching
        {'k': ('choice', 10, 30, 100, None), 'mu': ('float', 0.5, 20.0, 'log')}
        """
        return self._searched

    def bind(
        self,
        labels: ArrayLike | RankingData | Lists,
        offsets: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        *,
        propensities: ArrayLike | None = None,
    ) -> Objective:
        """Bind the loss to labels; the result computes gradients and values for scores.

        Args:
            labels: relevance, one finite number of at least 0 per document, documents of a query
                adjacent; or `RankingData` or `Lists`, which have their queries.
            offsets: start of each query, and the number of documents at the end. None for one
                query.
            weights: one per query; they scale value, gradient and hessian.
            seed: seed of all random numbers.
            n_jobs: number of threads; ``None`` is all cores. The result does not depend on it.
            propensities: probability that a user looked at the document, above 0 and at most 1, one
                per document; for losses that take them (`takes_propensities`): labels are then
                clicks, and the expected value, gradient and hessian over clicks are those of the
                relevance, see `SoftmaxLoss`.

        >>> data = RankingData.from_arrays([[7.0], [8.0]], [0, 1], group=[2])
        >>> loss("ranknet").bind(data).values([0.0, 0.0])
        array([1.])
        """
        if propensities is not None and not self.takes_propensities:
            raise OptionError(
                f"propensities: the loss {self} has no use for them; expected listnet or xendcg"
            )
        lists = TrainingLists.of(labels, offsets, weights, propensities)
        return self._bind(lists, whole("seed", seed, 0, 2**64 - 1), job_count(n_jobs))

    @abc.abstractmethod
    def _bind(self, lists: TrainingLists, seed: int, threads: int) -> Objective:
        """Return the objective of checked lists."""

    def __str__(self) -> str:
        options = changed_options(self)
        # The options that differ from their defaults, as in "ndcg-loss2++(k=5,mu=10)"; those that
        # every loss has (fields of `Loss`) are taken out and put back, so that they come last.
        for shared in dataclasses.fields(Loss):
            if shared.name in options:
                options[shared.name] = options.pop(shared.name)
        return write_name(self.name, options)

    __repr__ = __str__


REGISTRY: Registry[Loss] = Registry(Loss, "loss", "'lambdarank' or 'lambdarank(k=5)'")  # type: ignore[type-abstract]
"""Every loss by the name it is typed as."""

register = REGISTRY.register


def loss(name: str | Loss, **parameters: Any) -> Loss:
    """Make a loss by name, with parameters.

    A loss prints as a name that parses back, so losses travel through files and command lines as
    text.

    Args:
        name: ``mse``, ``ranknet``, ``lambdarank``, ``arp-loss1``, ``arp-loss2``, ``ndcg-loss1``,
            ``ndcg-loss2``, ``ndcg-loss2++``, ``listnet``, ``xendcg``, ``softrank``,
            ``stochasticrank``, ``reinforce``, ``yetiloss``, ``plrank``, ``approxndcg`` or
            ``neuralndcg``, alone or followed by parameters in parentheses; or a loss, which is
            returned as it is, or with ``parameters`` changed.
        **parameters: parameters of the loss's class.

    >>> loss("ndcg-loss2++", k=5, mu=10)
    ndcg-loss2++(k=5,mu=10)
    >>> loss("ndcg-loss2++(k=5,mu=10)") == loss("ndcg-loss2++", k=5, mu=10.0)
    True
    >>> loss("lamdarank")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown loss 'lamdarank'; did you mean 'lambdarank'? (known: ...)
    """
    return REGISTRY.make(name, **parameters)


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingLists:
    """Labelled lists with what only a loss needs; `TrainingLists.of` makes and checks them.

    Attributes:
        lists: the checked lists.
        labels: their labels as float64, one per document.
        weights: float64, one per query; 0 without a relevant document, so that value and gradient
            are 0 in every loss, except for clicks: a loss says what a list without one means.
        has_relevant: one per query: whether any label is above 0.
        propensities: float64, one per document, where the labels are clicks; None where they are
            not.

    >>> TrainingLists.of([0, 0, 2], [0, 1, 3]).weights
    array([0., 1.])
    """

    lists: Lists
    labels: F64
    weights: F64
    has_relevant: Bools
    propensities: F64 | None = None

    @classmethod
    def of(
        cls,
        labels_or_data: Any,
        offsets: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        propensities: ArrayLike | None = None,
    ) -> TrainingLists:
        """Return checked labels, weights and propensities for a loss; errors name the query and the
        document.

        Args:
            labels_or_data, offsets: as `Lists.of` takes them.
            weights: one finite number of at least 0 per query; None for equal weights.
            propensities: one number above 0 and at most 1 per document; None if the labels are no
                clicks.

        >>> TrainingLists.of([0, 1, -1], [0, 2, 3])
        Traceback (most recent call last):
        tautrank.errors.DataError: labels[2] (query 1, document 0): found -1; expected a finite
        number of at least 0
        """
        lists = Lists.of(labels_or_data, offsets)
        if lists.order is not None:
            raise DataError(
                "labels: found lists of scattered rows; expected the documents of a query adjacent"
            )
        labels = np.ascontiguousarray(lists.labels, np.float64)
        if weights is None:
            query_weights = np.ones(lists.n_queries)
        else:
            query_weights = arrays.check_weights(weights, lists.n_queries)
        if propensities is not None:
            propensities = _checked_propensities(propensities, lists)

        has_relevant = query_sums(labels > 0, lists.offsets) > 0
        # Other lists get the weight 0, which makes value and gradient 0 in every loss.
        # Labels with propensities are clicks: a list without a click may still say something.
        are_clicks = propensities is not None
        is_learned_from = has_relevant | are_clicks
        return cls(
            lists=lists,
            labels=labels,
            weights=np.where(is_learned_from, query_weights, 0.0),
            has_relevant=has_relevant,
            propensities=propensities,
        )

    @property
    def offsets(self) -> I64:
        """Start of each query, and the number of documents at the end."""
        return self.lists.offsets

    @property
    def sizes(self) -> I64:
        """Number of documents of each query."""
        return self.lists.sizes

    @property
    def longest(self) -> int:
        """Number of documents of the longest list; 0 without queries."""
        return self.lists.longest

    @property
    def query(self) -> I64:
        """Number of the query of each document."""
        return self.lists.query

    @functools.cached_property
    def arrangement(self) -> I64:
        """Flat indices of the documents of each query, from the lowest label to the highest, then
        in input order.

        Equal scores are ranked in this order, the worst case of a metric.
        """
        return np.lexsort((self.labels, self.query)).astype(np.int64)

    def scores(self, scores: ArrayLike) -> Floats:
        """One finite score per document, checked: float32 as it is, anything else as float64."""
        return arrays.check_finite_scores(scores, self.offsets)

    def gains(self, gain: Gain) -> F64:
        """Return the gains of the labels; an error about a label names its query."""
        with arrays.naming_queries(self.offsets):
            return gain_values(self.labels, gain)

    def weights_of(self, gains: F64) -> F64:
        """Return the weight of each query, 0 where no document has a gain."""
        return np.where(query_sums(gains != 0, self.offsets) > 0, self.weights, 0.0)


def _checked_propensities(propensities: ArrayLike, lists: Lists) -> F64:
    """Return propensities as float64, each above 0 and at most 1."""
    checked = arrays.numbers("propensities", propensities, size=lists.n_documents)
    is_chance = (checked > 0) & (checked <= 1)
    expected = "a number above 0 and at most 1"
    arrays.check_each("propensities", checked, is_chance, expected, lists.offsets)
    return checked


class Objective:
    """A loss bound to labels: a pure function of scores and of the step (the number of the tree).

    float32 scores are computed in float32 and give float32 results; any other scores are computed
    in float64 throughout. Several threads may call it at once.

    Args:
        loss: the loss.
        lists: what it is bound to.
        seed: seed of all random numbers.
        threads: number of threads.
        costs: about how long each query takes, in any unit: threads get equal shares.

    >>> objective = loss("mse").bind(labels=[0, 1, 2], offsets=[0, 3])
    >>> grad, hess = objective.gradients([0.0, 0.0, 0.0])
    >>> grad, hess, objective.values([0.0, 0.0, 0.0])
    (array([ 0., -1., -2.]), array([1., 1., 1.]), array([2.5]))
    """

    def __init__(
        self, loss: Loss, lists: TrainingLists, seed: int, threads: int, costs: F64
    ) -> None:
        self.loss = loss
        self.lists = lists
        self.seed = seed
        self.threads = threads
        # Ranges of queries of about equal cost, which the threads share.
        self._ranges: list[Range] = balanced_ranges(costs, threads)

    def gradients(self, scores: ArrayLike, step: int = 0) -> tuple[Floats, Floats]:
        """Return the first and second derivative of the loss with respect to each score, as a
        booster takes them.

        Args:
            scores: one per document.
            step: number that keys the random numbers together with the seed; a booster's iteration.
        """
        step = whole("step", step, least=0)
        return self._gradients(self._noisy(self.lists.scores(scores), step), step)

    def values(self, scores: ArrayLike, step: int = 0) -> F64:
        """Return the loss of each query, its weight included.

        Args:
            scores: one per document.
            step: as in `gradients`.
        """
        return self.frozen(scores, step).values(scores)

    def frozen(self, scores: ArrayLike, step: int = 0) -> Frozen:
        """Freeze everything but the smooth part of the loss at ``scores`` and ``step``.

        Pair weights (which depend on the ranking), normalisers, sampled targets and noise stay
        fixed; what is left is a smooth function of the scores, and `gradients` returns its
        derivative.

        Args:
            scores: the scores to freeze it at.
            step: as in `gradients`.
        """
        step = whole("step", step, least=0)
        # Checked, and in float64; what is frozen belongs to the scores with the loss's noise.
        exact_scores = np.asarray(self.lists.scores(scores), dtype=np.float64)
        return Frozen(self, self._noisy(exact_scores, step), step)

    def _gradients(self, scores: Floats, step: int) -> tuple[Floats, Floats]:
        """Return gradient and hessian, one number each per document.

        Args:
            scores: one per document, noise included.
            step: keys the random numbers.
        """
        results = self._results(scores, scores, step)
        return results[0], results[1]

    def _values(self, scores: F64, held: F64, step: int) -> F64:
        """Return the loss of each query.

        Args:
            scores: one per document, noise included.
            held: scores from which ranks, weights and targets are computed; they stay fixed when
                a derivative is checked by moving ``scores``.
            step: keys the random numbers.
        """
        return self._results(scores, held, step)[2]

    def _results(self, scores: Floats, held: Floats, step: int) -> tuple[Floats, Floats, F64]:
        """Return gradient and hessian, one number each per document, and the loss of each query.

        An objective defines this method, or `_gradients` and `_values` where computing one is
        cheaper without the other.

        Args:
            scores: one per document, noise included.
            held: scores from which ranks, weights and targets are computed.
            step: keys the random numbers.
        """
        raise NotImplementedError

    def _noisy(self, scores: Array, step: int) -> Array:
        """Return the scores with the noise of the loss, if it has any."""
        if self.loss.noise is None or self.loss.strength == 0:
            return scores
        return self._with_noise(scores, self.loss.strength, step, GUMBEL_STREAM)

    def _with_noise(self, scores: Array, size: float, step: int, stream: int) -> Array:
        """Return the scores plus ``size`` times random noise, which depends only on the seed, the
        step, the query, the document and the stream, a number that says what the noise is for.
        """
        # Imported here: compiled code is loaded only when it is needed.
        from tautrank.kernels.randomness import add_noise

        noisy_scores = np.empty_like(scores)
        seed = np.uint64(self.seed)
        # `_fill` runs the compiled function over all queries and hands it the array to write to.
        self._fill(add_noise, (scores, self.lists.offsets, size, seed, step, stream), noisy_scores)
        return noisy_scores

    def _ranks(self, scores: Floats) -> I32:
        """Return the rank of each document in its query, from 0 for the highest score, with the
        documents in the order of the arrangement (lowest label first); equal scores are ranked in
        that order, too.
        """
        from tautrank.kernels.ranking import rank_queries

        ranks = np.empty(scores.size, np.int32)
        self._fill(rank_queries, (scores, self.lists.arrangement, self.lists.offsets), ranks)
        return ranks

    def _filled_gradients(
        self, kernel: Callable[..., None], dtype: np.dtype[Any], *arguments: Any
    ) -> tuple[Floats, Floats]:
        """Run a kernel over all queries and return the gradient and the hessian that it writes, one
        number each per document; 0 where it skips a query.

        Args:
            kernel: compiled function of the arguments and of the two arrays to write to.
            dtype: float type of both arrays.
            *arguments: what the kernel takes before them.
        """
        grad = np.zeros(self.lists.labels.size, dtype)
        hess = np.zeros_like(grad)
        self._fill(kernel, arguments, grad, hess)
        return grad, hess

    def _filled_results(
        self, kernel: Callable[..., None], dtype: np.dtype[Any], *arguments: Any
    ) -> tuple[Any, Any, F64]:
        """Run a kernel over all queries and return the gradient and the hessian that it writes, one
        number each per document, and the value of each query; 0 where it skips a query.
        """
        grad = np.zeros(self.lists.labels.size, dtype)
        hess = np.zeros_like(grad)
        values = np.zeros(self.lists.sizes.size)
        self._fill(kernel, arguments, grad, hess, values)
        return grad, hess, values

    def _filled_values(self, kernel: Callable[..., None], *arguments: Any) -> F64:
        """Run a kernel over all queries and return the value of each; 0 where it skips a query."""
        values = np.zeros(self.lists.sizes.size)
        self._fill(kernel, arguments, values)
        return values

    def _fill(
        self, kernel: Callable[..., None], arguments: tuple[Any, ...], *results: Array
    ) -> None:
        """Call ``kernel(*arguments, first, last, *results)`` for all queries, a range of them at a
        time, on all threads.
        """

        # `_ranges` are the queries in shares of about equal cost, which threads take one by one.
        def fill_range(first: int, last: int) -> None:
            kernel(*arguments, first, last, *results)

        run(fill_range, self._ranges, self.threads)


class Frozen:
    """The smooth part of a loss, with ranking, noise and targets fixed; returned by
    `Objective.frozen`.

    >>> # It draws a target at every step.
    >>> objective = loss("xendcg").bind(labels=[0, 1], offsets=[0, 2])
    >>> held = objective.frozen([0.0, 0.0], step=4)
    >>> bool(held.values([1.0, 0.0])[0] == objective.values([1.0, 0.0], step=4)[0])
    True
    """

    def __init__(self, objective: Objective, held: F64, step: int) -> None:
        self._objective = objective
        self._held = held
        self._step = step

    def values(self, scores: ArrayLike) -> F64:
        """Return the loss of each query at ``scores``, with everything else as it was frozen.

        Args:
            scores: one per document.
        """
        # `_held`: the scores at which everything else was frozen, which rank the documents.
        objective = self._objective
        exact_scores = np.asarray(objective.lists.scores(scores), dtype=np.float64)
        noisy_scores = objective._noisy(exact_scores, self._step)
        return objective._values(noisy_scores, self._held, self._step)
