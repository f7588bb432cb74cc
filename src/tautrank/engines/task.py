"""What is learnt from what, and how: the values that every engine is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice, job_count, real, truth, whole
from tautrank.arrays import F32, F64, Bools
from tautrank.data import RankingData
from tautrank.engines.binned import Bins
from tautrank.engines.langevin import Langevin, check_langevin
from tautrank.engines.model import FittedModel
from tautrank.engines.packages import TOOLS, usable_threads
from tautrank.errors import OptionError
from tautrank.losses import Loss
from tautrank.metrics.base import Metric
from tautrank.names import changed_options, write_name

History: TypeAlias = dict[str, dict[str, list[float]]]
"""``{"train": {"ndcg@10": [...]}, "valid": {"ndcg@10": [...]}}``, one value per round."""


Part: TypeAlias = Literal["train", "valid"]


@dataclass(frozen=True, eq=False)
class Step:
    """What a callback is told after each tree.

    Args:
        step: number of the tree, from 0; continued training goes on counting.
        train: metric on the training data, if it is judged.
        valid: metric on the validation data, if there is any.
        best_step: step of the best validation value so far.
        seconds: time since training began.
        history: all values so far; do not change it.
    """

    step: int
    train: float | None
    valid: float | None
    best_step: int
    seconds: float
    history: History


Callback: TypeAlias = Callable[[Step], "bool | None"]
"""Called after each tree; training stops when it returns True."""


@dataclass(frozen=True)
class NativeLoss:
    """A tool's own objective, trained as the tool itself trains it; prints as ``tool:objective``.

    Args:
        tool: the engine, such as ``lightgbm``.
        objective: the tool's name for the objective.

    >>> print(NativeLoss("xgboost", "rank:ndcg"))
    xgboost:rank:ndcg
    """

    tool: str
    objective: str

    def __str__(self) -> str:
        return f"{self.tool}:{self.objective}"


Member: TypeAlias = "Loss | NativeLoss"
"""What one model is trained for."""


DEFAULT_COMMITTEE = "lambdarank(extend=all)|ndcg-loss2++|ndcg-loss1|ranknet|xendcg|stochasticrank"
"""The losses of ``loss="committee"``."""


@dataclass(frozen=True, repr=False)
class Committee:
    """Several losses that are trained side by side and added up; prints as what one would type.

    Args:
        losses: the losses.
        members: number of members of each loss; they differ by their seeds.
        weights: ``"equal"``, or ``"fitted"`` for weights that are best for the metric on the
            validation data.
    """

    losses: tuple[Member, ...]
    members: int = field(default=1, metadata=checked_by(whole, least=1, most=1000))
    weights: str = field(default="equal", metadata=checked_by(choice, known=("equal", "fitted")))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def all_members(self) -> list[Member]:
        """The loss of each member: all losses, as often as there are members of each."""
        return list(self.losses) * self.members

    def __str__(self) -> str:
        changed = changed_options(self)
        del changed["losses"]
        losses = "|".join(map(str, self.losses))
        options = {} if losses == DEFAULT_COMMITTEE else {"of": losses}
        return write_name("committee", options | changed)

    __repr__ = __str__


AnyLoss: TypeAlias = "Member | Committee"
"""What can be trained."""


@dataclass(frozen=True)
class QueryBagging:
    """Which queries a round learns from: a new draw without replacement every ``every`` rounds.

    All documents of a query are in or out together. A round is grown for gradients and hessians of
    0 in all other queries: they add nothing to any sum.

    Args:
        share: share of the queries that are drawn.
        every: number of rounds with the same queries.
        seed: seed of the draws, which depend on it and on the number of the round only.

    >>> half = QueryBagging(share=0.5, every=2, seed=0)
    >>> [half.drawn(6, step).nonzero()[0].tolist() for step in range(3)]
    [[2, 3, 5], [2, 3, 5], [1, 3, 4]]
    """

    share: float
    every: int
    seed: int

    def drawn(self, queries: int, step: int) -> Bools:
        """Return which queries a round learns from, one truth value per query.

        Args:
            queries: number of queries.
            step: number of the round, from 0.
        """
        # Queries are drawn anew every so many rounds (`every`): rounds with the same number of the
        # draw learn from the same queries, a share of all (`share`).
        draw = step // self.every
        order = np.random.default_rng((self.seed, draw)).permutation(queries)
        n_drawn = max(1, round(self.share * queries))
        is_drawn = np.zeros(queries, bool)
        is_drawn[order[:n_drawn]] = True
        return is_drawn


class ValidationSet(NamedTuple):
    """Held-out documents that each round is judged on.

    Args:
        data: the documents.
        documents: their place in `Task.valid`.
    """

    data: RankingData
    documents: slice


@dataclass(frozen=True, eq=False)
class Task:
    """What to learn from what.

    Args:
        train: documents to learn from.
        loss: a loss of this library, or a tool's own objective.
        metric: the metric that judges each round, and decides.
        valid: held-out documents, judged after each round.
        weights: one per query of `train`; they scale the loss, not the metric.
        propensities: one per document of `train`, for the losses that take them.
        start: model to add trees to.
        start_step: number of steps that `start` was trained for.
        categorical: columns of category codes.
        metrics: further metrics that judge each round.
        sets: names and numbers of queries of the validation sets that `valid` holds one after the
            other, of which the first decides; empty for one, called valid.
        bins: binned data of this and other trainings; None for a training that bins its own.
        bin_seed: seed of the sample that bins are made from; None for the seed of the training.
        whole: number of documents and of queries of a training that `train` is one worker's part
            of. The queries before its own have no documents in it, so that each query has the same
            number on any worker.
        sample: features of some documents of the whole training, which bins are found from; None
            for the data itself.
        own_columns: number of features that describe a document by itself, before the list
            features; None if all do.
    """

    train: RankingData
    loss: AnyLoss
    metric: Metric
    valid: RankingData | None = None
    weights: F64 | None = None
    propensities: F64 | None = None
    start: FittedModel | None = None
    start_step: int = 0
    categorical: tuple[int, ...] = ()
    metrics: tuple[Metric, ...] = ()
    sets: tuple[tuple[str, int], ...] = ()
    bins: Bins | None = None
    bin_seed: int | None = None
    whole: tuple[int, int] | None = None
    sample: F32 | None = None
    own_columns: int | None = None

    @property
    def document_weights(self) -> F64 | None:
        """The weight of each training document's query, for tools' own objectives; other losses
        have the weights.
        """
        if self.weights is None or not isinstance(self.loss, NativeLoss):
            return None
        return np.repeat(self.weights, self.train.sizes)

    @property
    def parts(self) -> dict[Part, RankingData]:
        """The training data, and the validation data if there is any."""
        if self.valid is None:
            return {"train": self.train}
        return {"train": self.train, "valid": self.valid}

    def validation_sets(self) -> dict[str, ValidationSet]:
        """Return the validation sets by name, cut from the validation data, which holds one after
        the other; the first one decides when training stops.
        """
        if self.valid is None:
            return {}
        names_and_sizes = self.sets  # name and number of queries of each set; empty for one set
        if not names_and_sizes:
            names_and_sizes = (("valid", self.valid.n_queries),)
        sets = {}
        first_query = 0
        for name, n_queries in names_and_sizes:
            end_query = first_query + n_queries
            first_document = int(self.valid.offsets[first_query])
            end_document = int(self.valid.offsets[end_query])
            queries = np.arange(first_query, end_query)
            data = self.valid.subset(queries)
            sets[name] = ValidationSet(data, slice(first_document, end_document))
            first_query = end_query
        return sets


@dataclass(frozen=True, eq=False)
class Settings:
    """How to learn it. Numbers are checked here, once, for every engine.

    The defaults are those of `Ranker`, `compare`, `tune` and the commands; `DEFAULTS` holds them by
    name.

    Args:
        n_estimators: number of trees to add.
        learning_rate: factor that each tree is scaled by.
        num_leaves: leaves per tree.
        early_stopping_rounds: stop after this many trees without a better validation value, and
            keep the trees up to the best one; None never stops. Without validation data it has no
            effect.
        seed: seed of the engine and of the loss.
        n_jobs: threads; None is as many as the data is worth, up to all cores (or
            ``OMP_NUM_THREADS``), -1 is all cores.
        eval_train: whether to judge the training data too.
        verbose: 0 for silence, 1 for progress, None for a progress bar if standard error is a
            terminal.
        callbacks: functions called after each tree.
        rates: learning rate of each tree instead of `learning_rate`: one number per tree, or a
            function of its number.
        langevin: noise on the gradients and shrinkage of the model; None for neither.
        cross_validate_trees: whether to choose the number of trees by cross-validation and train as
            many on all queries.
        speed: ``"exact"``, or ``"fast"`` for coarser bins and quantised gradients.
        extra: the engine's own parameters, under its own names.
        bagging: the queries that each tree learns from, for losses of this library; None for what
            the engine's own parameters say.

    >>> Settings(learning_rate=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: learning_rate: found 0; expected a number above 0
    """

    n_estimators: int = field(default=500, metadata=checked_by(whole, least=1, most=2**31 - 1))
    learning_rate: float = field(default=0.05, metadata=checked_by(real, above=True))
    num_leaves: int = field(default=31, metadata=checked_by(whole, least=2, most=131072))
    early_stopping_rounds: int | None = field(default=50, metadata=checked_by(whole, least=1))
    seed: int = 0
    n_jobs: int | None = None
    eval_train: bool = field(default=False, metadata=checked_by(truth, expected="True or False"))
    verbose: int | None = None
    callbacks: tuple[Callback, ...] = ()
    rates: Sequence[float] | Callable[[int], float] | None = None
    langevin: Langevin | None = None
    cross_validate_trees: bool = field(
        default=False, metadata=checked_by(truth, expected="True or False")
    )
    speed: str = field(default="exact", metadata=checked_by(choice, known=("exact", "fast")))
    extra: Mapping[str, Any] = field(default_factory=dict)
    bagging: QueryBagging | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        job_count(self.n_jobs)
        if not isinstance(self.verbose, int | np.integer | None):
            raise OptionError(f"verbose: found {self.verbose!r}; expected a whole number, or None")
        for callback in self.callbacks:
            _check_callback(callback)
        check_langevin(self.langevin, self.learning_rate)
        if self.rates is not None:
            self._check_rates()

    def _check_rates(self) -> None:
        """Raise an error if learning rates of trees (`rates`) are given beside Langevin boosting, or
        their number is not that of the trees.
        """
        if self.langevin is not None:
            raise OptionError(
                "learning_rate: found one per tree, and langevin; expected one of the two"
            )
        if isinstance(self.rates, Sequence) and len(self.rates) != self.n_estimators:
            raise OptionError(
                f"learning_rate: found {len(self.rates)} of them; "
                f"expected {self.n_estimators}, one per tree"
            )

    def rate(self, tree: int) -> float:
        """Return the learning rate of a tree.

        Args:
            tree: its number, from 0.

        >>> Settings(rates=lambda tree: 0.1 * 0.5**tree).rate(1)
        0.05
        """
        # `rates` is a function of the tree, or one learning rate per tree; None for the same for all.
        if self.rates is None:
            return self.learning_rate
        rate = self.rates(tree) if callable(self.rates) else self.rates[tree]
        return real("learning_rate", rate, least=0.0, above=True)

    def refuse_dart(self) -> None:
        """Raise an error if early stopping is asked for. Engines call this for dart, which drops
        trees at random and rescales those it has.
        """
        if self.early_stopping_rounds is not None:
            raise OptionError(
                "early_stopping_rounds: dart rescales the trees it has, so that the best cannot "
                "be kept; expected None, or another boosting"
            )

    @property
    def threads(self) -> int:
        """How many threads `n_jobs` asks for, in this process (1 where more would hang, see
        `packages`).
        """
        return usable_threads(self.n_jobs)


def _check_callback(callback: object) -> None:
    """Raise an error if a callback cannot be called with a `Step`, or is one of LightGBM's, XGBoost's
    or another tool's own callbacks, which take other arguments.
    """
    expected = "functions of one argument, a Step"
    callback_type = type(callback)
    # The package that defines the callback, such as "lightgbm" of "lightgbm.callback".
    package_name = callback_type.__module__.partition(".")[0]
    if package_name in TOOLS:
        type_name = callback_type.__name__.strip("_")
        raise OptionError(
            f"callbacks: found {type_name} of {callback_type.__module__}; expected {expected}"
            " (Ranker itself has early_stopping_rounds, verbose and evals_result_)"
        )
    if not callable(callback):
        raise OptionError(f"callbacks: found {callback!r}; expected {expected}")


DEFAULTS: Mapping[str, Any] = {
    name: getattr(Settings, name)
    for name in ("n_estimators", "learning_rate", "num_leaves", "early_stopping_rounds")
}
"""The training parameters that `Ranker`, `compare`, `tune` and the commands use unless told
otherwise.
"""


@dataclass(frozen=True, eq=False)
class Record:
    """What happened during training.

    Args:
        history: the metric after each round of this fit.
        best_iteration: number of trees, from the very first, with the best validation value; all
            trees where there is no validation data.
        best_score: that value.
        steps: number of steps that grew the trees that were kept; continued training starts there.
        seed: seed of the training.
    """

    history: History
    best_iteration: int
    best_score: float | None
    steps: int
    seed: int
