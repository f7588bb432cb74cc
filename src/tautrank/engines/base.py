"""What an engine is: something that adds one round to a model at given gradients, and hands the
model out.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeAlias

from tautrank.arrays import F32, F64, Array
from tautrank.engines.model import FittedModel
from tautrank.engines.monitor import TrainingMonitor
from tautrank.engines.packages import TOOLS
from tautrank.engines.parameter_names import our_name
from tautrank.engines.task import AnyLoss, Part, QueryBagging, Settings, Task
from tautrank.errors import DataError

GradientsAt: TypeAlias = Callable[[Array], tuple[F32, F32]]
"""From the scores of the training documents to their gradients and hessians."""


class CutShortError(DataError):
    """A training cannot go on; what it has grown so far is kept."""


class Learner(Protocol):
    """One training in progress: what an engine brings to the loop (`loop.boost`)."""

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


class RefillableLearner(Learner):
    """A learner whose last tree can be given other leaf values, as Langevin boosting needs.

    Its `scores` need not follow the values.
    """

    l2: float
    """L2 regularisation of the leaves."""

    @abc.abstractmethod
    def leaves(self, part: Part) -> Array:
        """Return the leaf of each document in the tree that `grow` has just added."""

    @abc.abstractmethod
    def fill(self, leaves: Array, values: F64) -> F64:
        """Give leaves of that tree other values, and return them as they are kept."""


class GradientSource(Protocol):
    """Where the gradients of a loss come from, one function of the scores for each round."""

    def at(self, step: int, scale: float) -> Any:
        """Return what `Learner.grow` is given: the gradients of a round, to be computed there.

        Args:
            step: number of the round.
            scale: factor from the engine's scores to the model's.
        """

    def leaf_values(self, leaves: Array, l2: float) -> F64:
        """Return the values of leaves for the gradients of the last round, with noise of their own.

        Args:
            leaves: number of each training document's leaf.
            l2: the engine's L2 regularisation.
        """


class Engine(abc.ABC):
    """Fits a model to the gradients of any loss, or to a tool's own objective."""

    name: ClassVar[str]
    """What users type; also the extra that installs its tool."""
    model_class: ClassVar[type[FittedModel]]
    objectives: ClassVar[tuple[str, ...]] = ()
    """Its own objectives, as it spells them; users type ``name:objective``."""
    takes_losses: ClassVar[bool] = True
    """Whether it trains the losses of this library."""
    has_langevin: ClassVar[bool] = False
    """Whether it has Langevin boosting of its own, for its own objectives."""
    refits: ClassVar[bool] = True
    """Whether cross-validation chooses the trees of its whole model; a committee has those of each
    member chosen instead.
    """
    one_at_a_time: ClassVar[bool] = False
    """Whether its trainings within a process wait for each other."""
    sampling: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Its parameters that sample ``"features"``, ``"rows"`` and ``"thresholds"``, under their main
    names.
    """
    supports_fast: bool = False
    """Whether it knows a faster way to train, ``speed="fast"``."""

    def start(self, task: Task, settings: Settings) -> Learner:
        """Begin a training.

        Args:
            task: what to learn from what. A `Task.start` is continued unscaled for a loss of this
                library.
            settings: how to train; `Settings.extra` holds the engine's own parameters.
        """
        raise NotImplementedError(f"{self.name} runs the loop itself")

    def name_errors(self, loss: AnyLoss, names: Iterable[str]) -> list[str]:
        """Return a sentence about each parameter that the engine cannot be given.

        Args:
            loss: the loss to train.
            names: names of parameters that a ranker does not have itself.
        """
        return [sentence for name in names for sentence in our_name(name)]

    @property
    def display_name(self) -> str:
        """The name as its authors write it."""
        return TOOLS[self.name].display_name

    def query_bagging(self, settings: Settings) -> QueryBagging | None:
        """Return how queries are sampled for each round of a loss of this library; None for not at
        all.

        Args:
            settings: `Settings.extra` holds the engine's own parameters.
        """
        return None

    def may_sample(self, kind: str, extra: Collection[str]) -> bool:
        """Whether ``"features"``, ``"rows"`` or ``"thresholds"`` can be sampled, and the user has
        not said how.

        Args:
            kind: a key of `sampling`.
            extra: names of the parameters that the user has set.
        """
        names = self.sampling.get(kind)
        return names is not None and set(names).isdisjoint(extra)

    @classmethod
    def find_objective(cls, text: str) -> str | None:
        """Return the objective that a user means, as the tool spells it; None if there is none.

        Args:
            text: what was typed after ``name:``.
        """
        for objective in cls.objectives:
            if objective.lower() == text.lower():
                return objective
        return None

    def translate_parameters(
        self, parameters: Mapping[str, Any], fixed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Rename parameters to the engine's own names, and leave out those it does not have.

        Args:
            parameters: values under the names that scikit-learn and LightGBM use.
            fixed: names of the parameters that are set besides.
        """
        return dict(parameters)

    @contextmanager
    def in_one_sentence(self, loss: object) -> Iterator[None]:
        """Turn the tool's exceptions into one sentence (`DataError`).

        Args:
            loss: the loss that is trained.
        """
        try:
            yield
        except self.model_class.tool_errors() as error:
            reason = _reason(error)
            raise DataError(
                f"loss {loss}: {self.display_name} cannot train on this ({reason})"
            ) from None


def _reason(error: Exception) -> str:
    """Return the reason in a tool's error message, without time stamps and places in its source
    code, and without the marks of C++.

    LightGBM says "Check failed: what is wrong at /path/file.hpp, line 12 .", and XGBoost
    "[12:34:56] /path/file.cc:78: Check failed: condition: what is wrong" before a stack trace.

    >>> _reason(ValueError("Check failed: (max_bin) > (1) at /src/config.cpp, line 12 ."))
    'expected max_bin > 1'
    >>> _reason(ValueError("[12:34:56] /src/config.cc:78: config->bagging_freq > 0.5f"))
    'bagging_freq > 0.5'
    """
    first_line = str(error).strip().partition("\n")[0]
    time_and_place = r"^\[[\d:]+\] \S+:\d+: "  # as of XGBoost
    place_at_end = r" at \S+, line \d+ *\.?$"  # as of LightGBM
    reason = re.sub(f"{time_and_place}|{place_at_end}", "", first_line).strip()
    if "num_features()) > (0)" in reason:  # how LightGBM says it
        return "no feature varies enough to be split"
    # C++ writes a parameter as config->name, and a float32 number as 0.5f.
    without_cpp = re.sub(r"config->|(?<=\d)f\b", "", reason)
    # "(max_bin) > (1)" becomes "max_bin > 1".
    without_parentheses = re.sub(r"(?<!\w)\(([\w.]+)\)", r"\1", without_cpp)
    return without_parentheses.replace("Check failed: ", "expected ")


class SelfTrainingEngine(Engine):
    """An engine whose tool must run the loop itself."""

    @abc.abstractmethod
    def train(self, task: Task, settings: Settings, monitor: TrainingMonitor) -> FittedModel:
        """Train until `monitor` says stop, and return the model of the rounds to keep.

        Args:
            task: what to learn from what.
            settings: how to train.
            monitor: judges each round.
        """
