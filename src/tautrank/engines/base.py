"""What an engine is: something that fits trees to gradients, and gives back a model that scores documents."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tautrank.arguments import job_count, real, whole
from tautrank.data import RankingData
from tautrank.engines.forking import make_safe, usable_threads
from tautrank.engines.langevin import Langevin, Shrunk, check_langevin
from tautrank.engines.native_loss import NativeLoss, imported
from tautrank.errors import OptionError
from tautrank.losses.base import Loss
from tautrank.metrics.base import Metric

F64: TypeAlias = NDArray[np.float64]
History: TypeAlias = dict[str, dict[str, list[float]]]
"""``{"train": {"ndcg@10": [...]}, "valid": {"ndcg@10": [...]}}``, one value a tree."""


@dataclass(frozen=True, eq=False)
class Step:
    """What a callback is told after each tree.

    Args:
        step: the number of the tree, from 0; it goes on where continued training goes on.
        train: the metric on the training data, where it is asked for.
        valid: the metric on the validation data, where there is any.
        best_step: the step of the best validation value so far.
        seconds: since training began.
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
        train: the documents to learn from.
        loss: a loss of this library, or a tool's own objective.
        metric: judges each iteration.
        valid: held-out documents, judged each iteration.
        weights: one a query of `train`; they scale the loss, not the metric.
        propensities: one a document of `train`, for the losses that take them.
        start: a model to add trees to.
        start_step: how many steps `start` was trained for.
        start_shrunk: what `start` remembers, if it shrank.
        categorical: columns of category codes.
    """

    train: RankingData
    loss: Loss | NativeLoss
    metric: Metric
    valid: RankingData | None = None
    weights: F64 | None = None
    propensities: F64 | None = None
    start: FittedModel | None = None
    start_step: int = 0
    start_shrunk: Shrunk | None = None
    categorical: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Settings:
    """How to learn it. Numbers are checked here, once, for every engine.

    The defaults are those of `Ranker`, `compare`, `tune` and the commands; `DEFAULTS` holds them by name.

    Args:
        n_estimators: trees to add.
        learning_rate: what each tree is scaled by.
        num_leaves: leaves of a tree.
        early_stopping_rounds: stop after this many trees without a better validation value, and keep the trees up to
            the best one; None never stops. Without validation data it has no effect.
        seed: of the engine and of the loss.
        n_jobs: threads; None is all cores (or ``OMP_NUM_THREADS``), -1 is all cores.
        eval_train: whether to judge the training data too.
        verbose: 0 for silence, 1 for progress, None for a progress bar where standard error is a terminal.
        callbacks: called after each tree.
        langevin: noise on the gradients and shrinking of the model; None for neither.
        extra: the engine's own parameters, under its own names.

    >>> Settings(learning_rate=0)
    Traceback (most recent call last):
    tautrank.errors.OptionError: learning_rate: found 0; expected a number above 0
    """

    n_estimators: int = 500
    learning_rate: float = 0.05
    num_leaves: int = 31
    early_stopping_rounds: int | None = 50
    seed: int = 0
    n_jobs: int | None = None
    eval_train: bool = False
    verbose: int | None = None
    callbacks: tuple[Callback, ...] = ()
    langevin: Langevin | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("n_estimators", whole("n_estimators", self.n_estimators, least=1, most=2**31 - 1))
        put("learning_rate", real("learning_rate", self.learning_rate, least=0.0, above=True))
        put("num_leaves", whole("num_leaves", self.num_leaves, least=2, most=131072))
        if self.early_stopping_rounds is not None:
            put("early_stopping_rounds", whole("early_stopping_rounds", self.early_stopping_rounds, least=1))
        job_count(self.n_jobs)
        for callback in self.callbacks:
            kind = type(callback)
            if kind.__module__.startswith(("lightgbm.", "xgboost.")):  # theirs are told something else
                raise OptionError(
                    f"callbacks: found {kind.__name__.strip('_')} of {kind.__module__}; expected functions of one "
                    "argument, a Step (Ranker itself has early_stopping_rounds, verbose and evals_result_)"
                )
            if not callable(callback):
                raise OptionError(f"callbacks: found {callback!r}; expected functions of one argument, a Step")
        check_langevin(self.langevin, self.learning_rate)

    @property
    def threads(self) -> int:
        """How many threads `n_jobs` asks for, in this process (1 where more would hang, see `forking`)."""
        return usable_threads(self.n_jobs)


DEFAULTS: Mapping[str, Any] = {
    name: getattr(Settings, name) for name in ("n_estimators", "learning_rate", "num_leaves", "early_stopping_rounds")
}
"""The training parameters that `Ranker`, `compare`, `tune` and the commands use unless told otherwise."""


@dataclass(frozen=True, eq=False)
class Record:
    """What happened during training.

    Args:
        history: the metric after each tree of this fit.
        best_iteration: how many trees, from the first of all, give the best validation value; all of them where there
            is no validation data.
        best_score: that value.
        steps: how many steps the trees that were kept took; continued training starts there.
        shrunk: what the model remembers, if it shrank before each tree.
    """

    history: History
    best_iteration: int
    best_score: float | None
    steps: int
    shrunk: Shrunk | None = None


class FittedModel(abc.ABC):
    """Trees that were fitted, ready to score: no training data, no loss, no metric."""

    tool: ClassVar[str]
    """The library whose format `to_bytes` writes."""
    member: ClassVar[str]
    """What the bytes are called inside a model file."""

    n_features: int
    n_trees: int

    def predict(self, X: Any, n_jobs: int | None = None) -> F64:
        """Raw scores, one a row.

        Args:
            X: checked features, float32 (dense or CSR), `n_features` columns.
            n_jobs: threads; the result does not depend on it.
        """
        if X.shape[0] == 0:  # LightGBM refuses an empty matrix
            return np.zeros(0)
        make_safe(self.tool)
        return np.asarray(self._scores(X, usable_threads(n_jobs)), dtype=np.float64)

    @abc.abstractmethod
    def _scores(self, X: Any, threads: int) -> Any:
        """Raw scores of at least one row, as the tool gives them."""

    @abc.abstractmethod
    def importances(self) -> F64:
        """What each feature added to the objective over all splits, as shares that sum to 1 (0 without splits)."""

    @abc.abstractmethod
    def to_bytes(self) -> bytes:
        """The model in the tool's own format; `from_bytes` gives a model that predicts the same bits."""

    @classmethod
    @abc.abstractmethod
    def from_bytes(cls, content: bytes, n_features: int) -> FittedModel:
        """Read what `to_bytes` wrote."""

    @classmethod
    def version(cls) -> str:
        """The version of the tool that is installed."""
        return str(imported(cls.tool).__version__)

    def __reduce__(self) -> tuple[Any, ...]:
        # Trees live in the tool's own memory; worker processes receive them in the tool's own format.
        return type(self).from_bytes, (self.to_bytes(), self.n_features)


class Engine(abc.ABC):
    """Fits trees to the gradients of any loss, or to a tool's own objective."""

    name: ClassVar[str]
    model: ClassVar[type[FittedModel]]
    """What it fits."""

    @abc.abstractmethod
    def fit(self, task: Task, settings: Settings) -> tuple[FittedModel, Record]:
        """Train.

        Args:
            task: what to learn from what.
            settings: how.
        """


def shares(values: Any) -> F64:
    """Scale non-negative numbers to sum to 1; all zeros stay.

    >>> shares([1.0, 3.0])
    array([0.25, 0.75])
    """
    numbers = np.asarray(values, dtype=np.float64)
    total = numbers.sum()
    return numbers / total if total > 0 else numbers
