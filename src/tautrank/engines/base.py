"""What an engine is: something that adds one round to a model at given gradients, and hands the
model out.
"""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from tautrank.arguments import check_fields, checked_by, choice, job_count, real, truth, whole
from tautrank.arrays import F32, F64, I64, Array
from tautrank.data import RankingData, StreamedRows
from tautrank.engines import registry
from tautrank.engines.langevin import Langevin, check_langevin
from tautrank.engines.registry import (
    AnyLoss,
    NativeLoss,
    engine_named,
    make_safe,
    package,
    usable_threads,
)
from tautrank.engines.trees import Tree, more_than_comparisons
from tautrank.errors import DataError, OptionError
from tautrank.metrics.base import Metric

if TYPE_CHECKING:
    from tautrank.engines.binned import Bins
    from tautrank.engines.boosting import QueryBagging, Watch
    from tautrank.engines.scoring import Scorer

History: TypeAlias = dict[str, dict[str, list[float]]]
"""``{"train": {"ndcg@10": [...]}, "valid": {"ndcg@10": [...]}}``, one value per round."""
Part: TypeAlias = Literal["train", "valid"]
GradientsAt: TypeAlias = Callable[[Array], tuple[F32, F32]]
"""From the scores of the training documents to their gradients and hessians."""


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
        return (
            {"train": self.train}
            if self.valid is None
            else {"train": self.train, "valid": self.valid}
        )

    def validation_sets(self) -> dict[str, tuple[RankingData, slice]]:
        """Return the validation sets by name, each with its documents' place in `valid`; the first
        one decides.
        """
        if self.valid is None:
            return {}
        sets = self.sets or (("valid", self.valid.n_queries),)
        ends = np.cumsum([size for _, size in sets])
        found = {}
        for (name, size), end in zip(sets, ends, strict=True):
            documents = slice(*self.valid.offsets[[end - size, end]].tolist())
            found[name] = self.valid.subset(np.arange(end - size, end)), documents
        return found


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
        refit: whether to choose the number of trees by cross-validation and train as many on all
            queries.
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
    refit: bool = field(default=False, metadata=checked_by(truth, expected="True or False"))
    speed: str = field(default="exact", metadata=checked_by(choice, known=("exact", "fast")))
    extra: Mapping[str, Any] = field(default_factory=dict)
    bagging: QueryBagging | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        job_count(self.n_jobs)
        if not isinstance(self.verbose, int | np.integer | None):
            raise OptionError(f"verbose: found {self.verbose!r}; expected a whole number, or None")
        for callback in self.callbacks:
            kind, expected = type(callback), "functions of one argument, a Step"
            if (
                kind.__module__.partition(".")[0] in registry.ENGINES
            ):  # a tool's own callbacks take other arguments
                found = f"{kind.__name__.strip('_')} of {kind.__module__}"
                instead = "Ranker itself has early_stopping_rounds, verbose and evals_result_"
                raise OptionError(f"callbacks: found {found}; expected {expected} ({instead})")
            if not callable(callback):
                raise OptionError(f"callbacks: found {callback!r}; expected {expected}")
        check_langevin(self.langevin, self.learning_rate)
        if self.rates is not None and self.langevin is not None:
            raise OptionError(
                "learning_rate: found one per tree, and langevin; expected one of the two"
            )
        if isinstance(self.rates, Sequence) and len(self.rates) != self.n_estimators:
            expected = f"{self.n_estimators}, one per tree"
            raise OptionError(
                f"learning_rate: found {len(self.rates)} of them; expected {expected}"
            )

    def rate(self, tree: int) -> float:
        """Return the learning rate of a tree.

        Args:
            tree: its number, from 0.

        >>> Settings(rates=lambda tree: 0.1 * 0.5**tree).rate(1)
        0.05
        """
        if self.rates is None:
            return self.learning_rate
        given = self.rates(tree) if callable(self.rates) else self.rates[tree]
        return real("learning_rate", given, least=0.0, above=True)

    def refuse_dart(self) -> None:
        """Refuse early stopping of a training that drops trees; without validation data nothing
        stops early.
        """
        if self.early_stopping_rounds is not None:
            found = "dart rescales the trees it has, so that the best cannot be kept"
            raise OptionError(f"early_stopping_rounds: {found}; expected None, or another boosting")

    @property
    def threads(self) -> int:
        """How many threads `n_jobs` asks for, in this process (1 where more would hang, see
        `registry`).
        """
        return usable_threads(self.n_jobs)


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


class FittedModel(abc.ABC):
    """A fitted model, ready to score: no training data, no loss, no metric."""

    tool: ClassVar[str]
    """The engine whose format `to_bytes` writes."""
    member: ClassVar[str]
    """Name of the bytes inside a model file."""

    sums_are_single: ClassVar[bool] = False
    """Whether the tool adds up its trees in float32."""

    n_features: int
    n_trees: int
    scale: float = 1.0
    """What the scores of the trees are multiplied by: below 1 where Langevin boosting has shrunk
    the model.
    """
    by_list: bool = False
    """Whether a score depends on the other documents of the list; `_scores` then takes their
    offsets too.
    """

    def predict(self, X: Any, n_jobs: int | None = None, offsets: Array | None = None) -> F64:
        """Return raw scores, one per row.

        Args:
            X: checked features, float32 or float64 (dense or CSR), `n_features` columns.
            n_jobs: threads; the result does not depend on it.
            offsets: start of each list and the number of rows, for a model that is `by_list`; None
                for one list.
        """
        if X.shape[0] == 0:  # LightGBM refuses an empty matrix
            return np.zeros(0)
        scorer = self.scorer
        alone = scorer is not None and X.shape[0] <= scorer.few and n_jobs in (None, 1, -1)
        lists = {"offsets": offsets} if self.by_list else {}
        return scaled(
            self.unscaled_scores(X, 1 if alone else usable_threads(n_jobs), **lists), self.scale
        )

    def unscaled_scores(self, X: Any, threads: int, **lists: Any) -> F64:
        """Return scores before they are scaled; features in files are read in chunks.

        Args:
            X: as for `predict`, at least one row.
            threads: number of threads.
            **lists: the offsets for a model that is `by_list`.
        """
        if isinstance(X, StreamedRows):
            if lists:
                raise OptionError(
                    "X: found features in files, read in chunks; expected whole lists in memory"
                )
            return np.concatenate(
                [self.unscaled_scores(chunk, threads) for chunk in X.chunks(threads)]
            )
        scorer = self.scorer
        if (
            scorer is not None
            and isinstance(X, np.ndarray)
            and (X.dtype == np.float32 or scorer.single)
        ):
            return scorer.scores(np.ascontiguousarray(X, np.float32), threads)
        make_safe(self.tool)
        return np.asarray(self._scores(X, threads, **lists), dtype=np.float64)

    @functools.cached_property
    def scorer(self) -> Scorer | None:
        """The trees packed for this library's own scoring, to the same bits; None where the tool
        itself must score.
        """
        try:
            trees = self.unscaled_trees()
        except OptionError:
            return None
        from tautrank.engines.scoring import Scorer

        return Scorer.of(trees, single=self.sums_are_single)

    @abc.abstractmethod
    def _scores(self, X: Any, threads: int) -> Any:
        """Return unscaled scores of at least one row, as the tool gives them."""

    def contributions(self, X: Any, n_jobs: int | None = None) -> F64:
        """Return what each feature adds to each score: SHAP values by the tool's own exact
        TreeSHAP.

        Lundberg et al., *From local explanations to global understanding with explainable AI for
        trees*, 2020.

        Args:
            X: as for `predict`.
            n_jobs: threads.

        Returns:
            One row per document, one column per feature, and a last column for the mean score that
            all start from; each row sums to the score.
        """
        if X.shape[0] == 0:
            return np.zeros((0, self.n_features + 1))
        make_safe(self.tool)
        unable: tuple[type[Exception], ...] = (
            NotImplementedError,
            *engine_named(self.tool).errors(),
        )
        try:
            parts = self._contributions(X, usable_threads(n_jobs))
        except unable:
            found = f"{self.tool} has no contributions for this kind of model"
            expected = "trees with one number per leaf, of lightgbm or xgboost"
            raise OptionError(f"explain: {found}; expected {expected}") from None
        return scaled(np.asarray(parts, dtype=np.float64), self.scale)

    def _contributions(self, X: Any, threads: int) -> Any:
        """Return unscaled contributions of at least one row, as the tool gives them."""
        raise NotImplementedError

    def leaves(self, X: Any, n_jobs: int | None = None) -> I64:
        """Return the leaf that each document reaches in each tree, as the tool numbers them.

        Args:
            X: as for `predict`.
            n_jobs: threads.
        """
        make_safe(self.tool)
        return np.asarray(self._leaves(X, usable_threads(n_jobs)), np.int64).reshape(X.shape[0], -1)

    def _leaves(self, X: Any, threads: int) -> Any:
        raise OptionError(
            f"pred_leaf: {self.tool} has no leaves; expected a model of lightgbm or xgboost"
        )

    def first(self, trees: int) -> FittedModel:
        """Return the model of the first trees.

        Args:
            trees: their number.
        """
        raise OptionError(
            f"num_iteration: a model of {self.tool} predicts as a whole; expected None"
        )

    @abc.abstractmethod
    def importances(self) -> F64:
        """Return what each feature added to the objective over all splits, as shares that sum to 1
        (0 if no splits).
        """

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """Return the unscaled model in the tool's own format; `from_bytes` gives the same bits
        back.
        """

    @classmethod
    @abc.abstractmethod
    def from_bytes(cls, content: bytes, n_features: int) -> FittedModel:
        """Read what `to_bytes` wrote; `read_model` turns the tool's exceptions into one sentence.

        Args:
            content: the model in the tool's own format.
            n_features: columns of the data it was trained on, for tools that do not keep it.
        """

    def unscaled_trees(self) -> list[Tree]:
        """Return the trees as arrays, in the order in which the tool adds them up; an error if the
        model has none.
        """
        found = f"a model trained by {self.tool}, which can only be saved"
        raise OptionError(f"format: found {found}; expected one trained by lightgbm or xgboost")

    def trees(self) -> list[Tree]:
        """Return the trees as plain arrays, scaled: what exports are written from."""
        trees = self.unscaled_trees()
        if (more := more_than_comparisons(trees)) is not None:
            expected = (
                "lightgbm, which can do so too"
                if self.tool == "lightgbm"
                else "a model without that"
            )
            raise OptionError(f"format: the model {more}; expected {expected}")
        return [tree.times(self.scale) for tree in trees] if self.scale != 1 else trees

    @classmethod
    def added(cls, models: Sequence[Any], factors: Sequence[float]) -> FittedModel | None:
        """Return one model of this tool whose scores are the sum of the models' scores, each times
        its factor.

        Args:
            models: models of this class.
            factors: one per model.

        Returns:
            None where the tool's format cannot hold a sum; the models are then kept side by side.
        """
        return None

    def rounded(self, unit: float) -> FittedModel:
        """Return the model with leaves that are multiples of a number; the model as it is where its
        tool has no leaves.

        Args:
            unit: the number.
        """
        return self

    def version(self) -> str:
        """Return the version of the tool that is installed."""
        return str(package(self.tool).__version__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Trees live in the tool's own memory; worker processes receive them in the tool's own
        # format.
        return read_model, (self.tool, self.to_bytes(), self.n_features, self.scale)


def read_model(tool: str, content: bytes, n_features: int, scale: float) -> FittedModel:
    """Read a model in a tool's own format.

    Args:
        tool: the engine.
        content: what `FittedModel.to_bytes` returned.
        n_features: number of features that the model must have.
        scale: what its scores are multiplied by.
    """
    if tool == "committee":
        from tautrank.engines.committee import SeveralModels

        several: FittedModel = SeveralModels.from_bytes(content, n_features)
        several.scale = scale
        return several
    engine = engine_named(tool)
    try:
        model = engine.model_class.from_bytes(content, n_features)
    except engine.errors():
        raise DataError(
            f"{engine.written} cannot read the model; expected the trees as {tool} saves them"
        ) from None
    if model.n_features != n_features:
        raise DataError(
            f"found {engine.written}'s model of {model.n_features} features; expected {n_features}"
        )
    model.scale = scale
    return model


class Learner(Protocol):
    """One training in progress: what an engine brings to the loop (`boosting.boost`).

    Langevin boosting needs more: ``leaves(part)`` returns the leaf of each document in the tree
    that `grow` has just added, ``fill(leaves, values)`` gives leaves of that tree other values, and
    returns them as they are kept, and ``l2`` is the L2 regularisation. `scores` need not follow.
    """

    def grow(self, gradients: GradientsAt | None, rate: float) -> None:
        """Add one round.

        Args:
            gradients: the gradients to fit, a function of the current `scores`; None for the tool's
                own objective.
            rate: factor to scale the round by; it changes from round to round if the model shrinks.
        """

    def scores(self, part: Part) -> Array:
        """Return the current score of each document of a part, not scaled by
        `FittedModel.scale`.
        """

    @property
    def rounds(self) -> int:
        """Rounds so far, those of the model it started from included (a round may add no tree)."""

    def model(self, rounds: int) -> FittedModel:
        """Return the model of the first ``rounds`` rounds, free of the training data."""


class Engine(abc.ABC):
    """Fits a model to the gradients of any loss, or to a tool's own objective.

    An engine defines `start`, which makes a `Learner`; the loop is the same for all. A tool that
    must run the loop itself defines `train` instead.
    """

    name: ClassVar[str]
    """What users type; also the extra that installs its tool."""
    package: ClassVar[str] = ""
    """The Python package of its tool; empty if it has the engine's name."""
    written: ClassVar[str]
    """The name as its authors write it."""
    model_class: ClassVar[type[FittedModel]]
    objectives: ClassVar[tuple[str, ...]] = ()
    """Its own objectives, as it spells them; users type ``name:objective``."""
    takes_losses: ClassVar[bool] = True
    """Whether it trains the losses of this library."""
    has_langevin: ClassVar[bool] = False
    """Whether it has Langevin boosting of its own, for its own objectives."""
    refits: ClassVar[bool] = True
    """Whether a model of it is refitted; not a committee, whose members are."""
    one_at_a_time: ClassVar[bool] = False
    """Whether its trainings within a process wait for each other."""
    sampling: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Its parameters that sample ``"features"``, ``"rows"`` and ``"thresholds"``, under their main
    names.
    """
    has_fast: bool = False
    """Whether it knows a faster way to train, ``speed="fast"``."""

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what. A `Task.start` is continued unscaled for a loss of this
                library.
            settings: how; `Settings.extra` holds the engine's own parameters.
        """
        raise NotImplementedError(f"{self.name} runs the loop itself")

    def train(self, task: Task, settings: Settings, watch: Watch) -> FittedModel:
        """Train until `watch` says stop, and return the model of the rounds to keep.

        Args:
            task: what to learn from what.
            settings: how.
            watch: judges each round.
        """
        from tautrank.engines.boosting import boost

        with self.in_one_sentence(task.loss):
            return boost(self, task, settings, watch)

    def wrong_names(self, loss: AnyLoss, names: Iterable[str]) -> list[str]:
        """Return a sentence about each parameter that the engine cannot be given.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        return [sentence for name in names for sentence in registry.other_name(name)]

    def most_rounds(self, task: Task, settings: Settings) -> int:
        """Return how many rounds a training has at most, for its progress.

        Args:
            task: what to learn.
            settings: how.
        """
        return settings.n_estimators

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return how queries are sampled for each round of a loss of this library; None for not at
        all.

        Args:
            settings: `Settings.extra` holds the engine's own parameters.
        """
        return None

    def may_sample(self, what: str, extra: Collection[str]) -> bool:
        """Whether ``"features"``, ``"rows"`` or ``"thresholds"`` can be sampled, and the user has
        not said how.

        Args:
            what: a key of `sampling`.
            extra: names of the parameters that the user has set.
        """
        return what in self.sampling and not set(self.sampling[what]) & set(extra)

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the tool's own exceptions about a training that it cannot do."""
        return ()

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return the objective that a user means, as the tool spells it; None if there is none.

        Args:
            text: what was typed after ``name:``.
        """
        return {known.lower(): known for known in cls.objectives}.get(text.lower())

    def in_its_words(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Rename parameters to the engine's own names, and leave out those it does not have.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.
        """
        return dict(parameters)

    def limit_to_one_thread(self) -> None:
        """Hold the tool to one thread in this process."""
        import threadpoolctl  # type: ignore[import-untyped, unused-ignore]  # comes with scikit-learn

        threadpoolctl.threadpool_limits(1, user_api="openmp")

    @contextmanager
    def in_one_sentence(self, loss: object) -> Iterator[None]:
        """Turn the tool's exceptions into one sentence (`DataError`).

        Args:
            loss: the loss that is trained.
        """
        try:
            yield
        except self.errors() as error:
            # LightGBM: "Check failed: what is wrong at /path/file.hpp, line 12 ."; XGBoost:
            # "[12:34:56] /path/file.cc:78: Check failed: condition: what is wrong" and a stack
            # trace in C++.
            first = str(error).strip().partition("\n")[0]
            reason = re.sub(r"^\[[\d:]+\] \S+:\d+: | at \S+, line \d+ *\.?$", "", first).strip()
            if "num_features()) > (0)" in reason:
                reason = "no feature varies enough to be split"
            # "Check failed: (max_bin) > (1)" and "config->bagging_freq > 0", as a user would write
            # it
            plain = re.sub(
                r"(?<!\w)\(([\w.]+)\)", r"\1", re.sub(r"config->|(?<=\d)f\b", "", reason)
            )
            reason = plain.replace("Check failed: ", "expected ")
            raise DataError(
                f"loss {loss}: {self.written} cannot train on this ({reason})"
            ) from None


def scaled(scores: Array, scale: float) -> Array:
    """Return ``scores * scale``; the same array where the scale is 1."""
    return scores if scale == 1 else scores * scale


def shares(values: Any) -> F64:
    """Scale non-negative numbers to sum to 1; all zeros stay.

    >>> shares([1.0, 3.0])
    array([0.25, 0.75])
    """
    numbers = np.asarray(values, dtype=np.float64)
    total = numbers.sum()
    return numbers / total if total > 0 else numbers
