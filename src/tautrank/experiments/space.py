"""Search spaces: ranges of parameters by name, the spaces that have a name, and what a
configuration trains.

A name is a parameter of `Ranker` or of its engine (``learning_rate``), a parameter of the loss
(``loss.strength``), or one of `Langevin` (``langevin.temperature``). A range is written as
``("float", low, high)`` or ``("int", low, high)``, with ``"log"`` at the end to draw its logarithm
uniformly, or as ``("choice", a, b, ...)``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias
from zlib import crc32

import numpy as np

from tautrank.arguments import choice
from tautrank.engines import (
    DEFAULT_ENGINE,
    DEFAULTS,
    AnyLoss,
    NativeLoss,
    Settings,
    engine_for,
    read_loss,
)
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, OptionError, unknown
from tautrank.files import opened
from tautrank.json_values import declare
from tautrank.losses import Loss, SmoothedLoss, StochasticRank
from tautrank.ranker.list_features import ListFeatures

_EXPECTED = "('float', low, high), ('int', low, high), either with 'log' at the end, or ('choice', a, b, ...)"


@dataclass(frozen=True)
class Choice:
    """A choice among a few values, all equally likely.

    Args:
        values: The values.

    >>> Choice((1, 2)).draw(np.random.default_rng(0)) in (1, 2)
    True
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise OptionError(f"found a choice of nothing; expected {_EXPECTED}")
        for i, value in enumerate(self.values):
            is_plain = value is None or isinstance(value, bool | int | str)
            if not is_plain and not (isinstance(value, float) and math.isfinite(value)):
                raise OptionError(
                    f"found {value!r} to choose; expected numbers, text, true, false or none"
                )
            # By ==, under which 1, 1.0 and True are the same value.
            if value in self.values[:i]:
                raise OptionError(
                    f"found {value!r} twice to choose from; expected every value once"
                )

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one value."""
        return self.values[int(rng.integers(len(self.values)))]

    def probes(self) -> tuple[Any, ...]:
        """Return values to check a parameter with: all of them."""
        return self.values

    def to_plain(self) -> list[Any]:
        """Return the range as JSON can hold it; `read_range` reads it back."""
        return ["choice", *self.values]


@dataclass(frozen=True)
class Uniform:
    """A number between two others.

    Args:
        low: The lower end.
        high: The upper end.
        log: Whether the logarithm of the number is uniform, rather than the number.

    >>> 1e-3 <= Uniform(1e-3, 1, log=True).draw(np.random.default_rng(0)) <= 1
    True
    """

    low: float
    high: float
    log: bool = False

    _kind: ClassVar[str] = "float"
    _types: ClassVar[tuple[type, ...]] = (int, float)
    _largest: ClassVar[float] = sys.float_info.max

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            if (
                isinstance(end, bool)
                or not isinstance(end, self._types)
                or not abs(end) <= self._largest
            ):
                numbers = "finite numbers" if float in self._types else "whole numbers"
                raise OptionError(f"found {end!r} as an end of the range; expected {numbers}")
        if self.low > self.high:
            raise OptionError(
                f"found a range from {self.low} to {self.high}; expected the lower end first"
            )
        if self.low == self.high:
            raise OptionError(
                f"found a range from {self.low} to itself; expected two ends, or ('choice', {self.low})"
            )
        if self.log and self.low <= 0:
            raise OptionError(
                f"found a logarithmic range from {self.low}; expected it to start above 0"
            )

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one number."""
        if self.log:
            return float(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return float(rng.uniform(self.low, self.high))

    def probes(self) -> tuple[Any, ...]:
        """Return values to check a parameter with: both ends, and a number between them that is not
        whole.
        """
        return self.low, self.low + (self.high - self.low) / math.e, self.high

    def to_plain(self) -> list[Any]:
        """Return the range as JSON can hold it; `read_range` reads it back.

        >>> WholeNumber(4, 64, log=True).to_plain()
        ['int', 4, 64, 'log']
        """
        return [self._kind, self.low, self.high, *(["log"] if self.log else [])]


class WholeNumber(Uniform):
    """A whole number between two others, both included.

    Args:
        low: The smallest number.
        high: The largest number.
        log: Whether the logarithm of the number is uniform, rather than the number.

    >>> WholeNumber(1, 2).draw(np.random.default_rng(0)) in (1, 2)
    True
    """

    _kind = "int"
    _types = (int,)
    _largest = 2**53 - 1

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one number."""
        return math.floor(Uniform(self.low, self.high + 1, self.log).draw(rng))

    def probes(self) -> tuple[Any, ...]:
        """Return values to check a parameter with: both ends."""
        return self.low, self.high


Dimension: TypeAlias = Choice | Uniform
Space: TypeAlias = dict[str, Dimension]

_KINDS: Mapping[str, Callable[..., Dimension]] = {
    "choice": Choice,
    "float": Uniform,
    "int": WholeNumber,
}
# Names that scikit-learn and LightGBM share; `Engine.translate_parameters` translates them for the other
# tools.
TREE_SPACE: Mapping[str, Choice] = {
    "learning_rate": Choice((0.02, 0.03, 0.05, 0.08, 0.12, 0.2)),
    "num_leaves": Choice((4, 7, 15, 31, 63)),
    "min_child_samples": Choice((5, 10, 20, 50, 100)),
    "colsample_bytree": Choice((0.4, 0.6, 0.8, 1.0)),
    "subsample": Choice((0.5, 0.7, 0.85, 1.0)),
    "reg_lambda": Choice((0.0, 0.1, 1.0, 10.0)),
}
"""The tree parameters that matter most, and the values to draw them from."""


def random_configurations(n: int, seed: tuple[int, ...]) -> list[dict[str, Any]]:
    """Draw `n` distinct configurations of `TREE_SPACE`; the same seed draws the same.

    Args:
        n: The number of configurations.
        seed: The seed of the draws.

    >>> len(random_configurations(12, (0, 1)))
    12
    >>> random_configurations(3, (0,)) == random_configurations(3, (0,))
    True
    """
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = []
    while len(drawn) < n:
        configuration = {name: values.draw(rng) for name, values in TREE_SPACE.items()}
        if configuration not in drawn:
            drawn.append(configuration)
    return drawn


@dataclass(frozen=True)
class Search:
    """Random search: all systems get the same number of configurations, and the same draws of what
    they have in common.

    Args:
        everyone: The ranges that are searched for every system.
        systems: More ranges by the name of a system; they replace those of `everyone` with the same
            name.

    >>> search = Search({"learning_rate": Uniform(1e-3, 1, log=True)}, {"b": {"loss.strength": Uniform(0, 1)}})
    >>> a, b = search.draw("a", 2, (0, 1)), search.draw("b", 2, (0, 1))
    >>> [list(configuration) for configuration in b]
    [['learning_rate', 'loss.strength'], ['learning_rate', 'loss.strength']]
    >>> [x["learning_rate"] for x in a] == [x["learning_rate"] for x in b]
    True
    """

    everyone: Mapping[str, Dimension] = field(default_factory=lambda: dict(TREE_SPACE))
    systems: Mapping[str, Mapping[str, Dimension]] = field(default_factory=dict)

    def draw(self, system: str, n: int, seed: tuple[int, ...]) -> list[dict[str, Any]]:
        """Draw `n` configurations; the same seed draws the same, and a longer list begins with the
        shorter one.

        Args:
            system: The name of the system.
            n: The number of configurations.
            seed: The seed of the draws.
        """
        space = {**self.everyone, **self.systems.get(system, {})}
        # Each dimension has its own random numbers, so that a further range of one system changes
        # no other draw.
        streams = {name: np.random.default_rng((*seed, crc32(name.encode()))) for name in space}
        return [
            {name: dimension.draw(streams[name]) for name, dimension in space.items()}
            for _ in range(n)
        ]


def read_range(name: str, given: Any) -> Dimension:
    """Read a range that a user wrote; the error for one that cannot be used names the parameter.

    Args:
        name: The parameter that the range is for.
        given: The range as described above, a tuple or a list.

    >>> read_range("learning_rate", ("float", 0.01, 0.3, "log"))
    Uniform(low=0.01, high=0.3, log=True)
    >>> read_range("num_leaves", ["int", 63, 7])
    Traceback (most recent call last):
    tautrank.errors.OptionError: num_leaves: found a range from 63 to 7; expected the lower end first
    """
    if isinstance(given, Choice | Uniform):
        return given
    kind, *rest = given if isinstance(given, list | tuple) and given else [None]
    if isinstance(kind, str):
        choice(f"kind of range for {name},", kind, _KINDS)
        try:
            if kind == "choice":
                return Choice(tuple(rest))
            if len(rest) > 1 and rest[2:] in ([], ["log"]):
                return _KINDS[kind](*rest[:2], log=len(rest) == 3)
        except OptionError as error:
            raise OptionError(f"{name}: {error}") from None
    raise OptionError(f"{name}: found {given!r}; expected {_EXPECTED}")


def read_space(given: Mapping[str, Any]) -> Space:
    """Read a space that a user wrote.

    Args:
        given: The ranges by name.

    >>> read_space({"num_leaves": ("int", 4, 64, "log")})
    {'num_leaves': WholeNumber(low=4, high=64, log=True)}
    """
    if not given:
        raise OptionError("space: found nothing in it; expected at least one range")
    return {str(name): read_range(str(name), value) for name, value in given.items()}


def space_named_or_in_file(text: str) -> str | Space:
    """Return the name of a space, or the space in a JSON file: an object of ranges by name.

    Args:
        text: What the user typed.

    >>> space_named_or_in_file("trees")
    'trees'
    >>> space_named_or_in_file("treees")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown space 'treees'; did you mean 'trees'? (known: ...; or a JSON file)
    """
    if text in SPACES:
        return text
    if not Path(text).is_file() and not text.endswith(".json"):
        raise OptionError(f"{str(unknown('space', text, SPACES))[:-1]}; or a JSON file)")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{text}: found '{name}' twice; expected every name once")
        return dict(pairs)

    try:
        with opened(text, "a JSON file of ranges by name") as file:
            content = json.load(file, object_pairs_hook=once)
        if not isinstance(content, dict):
            expected = 'an object such as {"num_leaves": ["int", 4, 64]}'
            raise DataError(f"{text}: found something else; expected {expected}")
        return read_space(content)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{text}: is not JSON ({error}); expected an object of ranges by name"
        ) from None
    except OptionError as error:
        raise OptionError(f"{text}: {error}") from None


# Parameters that are not searched, and what to do instead.
_NOT_SEARCHED = {
    "loss": "a list of losses as loss",
    "langevin": "langevin.temperature and langevin.shrink_rate",
    "metric": "one metric for all trials",
    "engine": "one engine for all trials",
    "random_state": "one seed for all trials, so that they differ by their parameters alone",
    "n_jobs": "threads for all trials alike",
    "verbose": "what changes the model",
    "eval_train": "what changes the model",
    "categorical_feature": "the same columns in all trials",
}
_LANGEVIN = tuple(f"langevin.{field.name}" for field in dataclasses.fields(Langevin))


def spaces_of(
    losses: Iterable[str], space: str | Mapping[str, Any] | None, fixed: Mapping[str, Any]
) -> list[Space]:
    """Return the space of each loss: the part of the given space that applies to the loss.

    A space that has a name leaves out what is fixed and the parameters that the text of the loss
    sets. In a space of the user's own, every name must apply to one of the losses, and nothing may
    be given twice.

    Args:
        losses: The losses, as `Ranker` takes them.
        space: The name of a space, ranges by name, or None for the default.
        fixed: Parameters that are the same in all trials.

    >>> spaces_of(["ndcg-loss2++"], {"loss.mu": ("float", 1, 10)}, {})
    [{'loss.mu': Uniform(low=1, high=10, log=False)}]
    >>> spaces_of(["ndcg-loss2++"], {"loss.nu": ("float", 1, 10)}, {})
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of ndcg-loss2++: 'loss.nu'; did you mean 'loss.mu'? (known: ...)
    """
    read = [read_loss(loss) for loss in losses]
    if isinstance(space, Mapping):
        given = read_space(space)
        _check_names(given, read)
        found = [
            {name: one for name, one in given.items() if _applies(loss, name, one, fixed)}
            for loss in read
        ]
    elif space is None or isinstance(space, str):
        make = SPACES[choice("space", space or "default", SPACES)]
        found = [
            {name: one for name, one in make(loss).items() if _is_free(loss, name, one, fixed)}
            for loss in read
        ]
    else:
        raise OptionError(f"space: found {space!r}; expected a name, or ranges by name")
    # Sorted, so that what is drawn does not depend on the order in which a space was written.
    found = [dict(sorted(own.items())) for own in found]
    if len(read) == 1 and not found[0]:
        raise OptionError(
            f"space: found nothing to change in {read[0]}; expected a range of what is not fixed"
        )
    return found


def _parameters(loss: AnyLoss) -> dict[str, Any]:
    """Return the parameters of a loss and their defaults; a tool's own objective has none here."""
    return (
        {}
        if not isinstance(loss, Loss)
        else {field.name: field.default for field in dataclasses.fields(loss)}
    )


def parameters_of(configuration: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `Ranker` that train a configuration, in the words of the tool that
    trains its loss.

    Args:
        configuration: the loss, and the values that are tried by name: a parameter of `Ranker` or
            of its engine, ``loss.NAME``, or ``langevin.NAME``.
        fixed: parameters that are the same whatever is tried.

    >>> tried = {"loss": "lambdarank", "loss.k": 5, "learning_rate": 0.2, "langevin.temperature": 1e9}
    >>> parameters_of(tried, {"num_leaves": 7})
    {'loss': 'lambdarank(k=5)', 'num_leaves': 7, 'learning_rate': 0.2, 'langevin': Langevin(temperature=1e+09, ...)}
    """
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in configuration.items():
        part, _, rest = name.rpartition(".")
        parts[part][rest] = value
    loss = with_parameters(parts[""].pop("loss"), parts["loss"])
    engine = engine_for(str(fixed.get("engine", DEFAULT_ENGINE)), read_loss(loss))
    given = {"loss": loss, **fixed, **engine.translate_parameters(parts[""], fixed)}
    if parts["langevin"]:
        given["langevin"] = dataclasses.replace(
            fixed.get("langevin") or Langevin(), **parts["langevin"]
        )
    return given


def with_parameters(loss: str, parameters: Mapping[str, Any]) -> str:
    """A loss as text, with some parameters set: those it has; a tool's own objective has none.

    Args:
        loss: what `Ranker` takes.
        parameters: of losses, by name.

    >>> with_parameters("ndcg-loss2++(k=5)", {"mu": 10.0}), with_parameters("mse", {"mu": 10.0})
    ('ndcg-loss2++(k=5,mu=10)', 'mse')
    """
    read = read_loss(loss)
    known = _parameters(read)
    return str(
        dataclasses.replace(
            read, **{name: value for name, value in parameters.items() if name in known}
        )
    )


def _takes_langevin(loss: AnyLoss) -> bool:
    return not isinstance(loss, NativeLoss) or engine_for(DEFAULT_ENGINE, loss).has_langevin


def _is_free(loss: AnyLoss, name: str, one: Dimension, fixed: Mapping[str, Any]) -> bool:
    """Return whether a range of a named space is to be searched: nothing else sets it, and the loss
    takes it.
    """
    with suppress(OptionError):  # `mu`, for example, is refused with a metric that has no ties
        return name.partition(".")[0] not in fixed and _applies(loss, name, one, fixed)
    return False


def _applies(loss: AnyLoss, name: str, given: Dimension, fixed: Mapping[str, Any]) -> bool:
    """Return whether a loss is trained with a parameter; raise an error if it is set elsewhere, or
    for wrong values.

    The values of an engine's own parameters are left to the engine.
    """
    part, _, parameter = name.rpartition(".")
    known = _parameters(loss)
    if part and not (_takes_langevin(loss) if part == "langevin" else parameter in known):
        return False
    if name in fixed:
        raise OptionError(f"{name}: found in the space and as a fixed parameter; expected it once")
    if part == "loss" and getattr(loss, parameter) != known[parameter]:
        raise OptionError(f"{name}: found in the space and in {loss}; expected it once")
    try:
        for value in given.probes():
            if part == "langevin":
                Langevin(**{parameter: value})
            elif part == "loss":
                dataclasses.replace(loss, **{parameter: value})
            elif name in DEFAULTS:
                Settings(**{name: value})
    except OptionError as error:
        raise OptionError(f"{part}.{error}" if part else str(error)) from None
    return True


def _check_names(space: Space, losses: list[AnyLoss]) -> None:
    of = losses[0] if len(losses) == 1 else "these losses"
    langevin = _LANGEVIN if any(map(_takes_langevin, losses)) else ()
    known = {
        *DEFAULTS,
        *langevin,
        *(f"loss.{name}" for loss in losses for name in _parameters(loss)),
    }
    for name in space:
        if name in _NOT_SEARCHED:
            raise OptionError(f"{name}: found in the space; expected {_NOT_SEARCHED[name]}")
        # The engine checks its own names, which have no dot.
        if "." in name:
            choice(f"parameter of {of}:", name, known)


def _tree_space(_: AnyLoss) -> Space:
    """From the smallest to the largest value of `TREE_SPACE`; counts and rates on a logarithmic
    scale.
    """
    return {
        "learning_rate": Uniform(0.02, 0.2, log=True),
        "num_leaves": WholeNumber(4, 63, log=True),
        "min_child_samples": WholeNumber(5, 100, log=True),
        "colsample_bytree": Uniform(0.4, 1.0),
        "subsample": Uniform(0.5, 1.0),
        "reg_lambda": TREE_SPACE["reg_lambda"],
    }


def _default_space(loss: AnyLoss) -> Space:
    """The tree parameters, and those that the loss declares worth searching."""
    space = _tree_space(loss)
    if isinstance(loss, Loss):
        space |= {
            f"loss.{name}": read_range(name, one) for name, one in loss.worth_searching.items()
        }
    return space


def _stochasticrank_space(loss: AnyLoss) -> Space:
    """The space of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, appendix F.

    The paper ran 500 random trials of 1000 trees. A depth there is as many leaves here as a
    CatBoost tree of that depth has.
    """
    smoothed = isinstance(loss, SmoothedLoss)
    space: Space = {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice(tuple(2**depth for depth in (6, 7, 8, 9, 10))),
        "reg_lambda": Choice((0.0,)) if smoothed else Uniform(0.1, 10.0, log=True),
    }
    if smoothed:
        space["langevin.shrink_rate"] = Uniform(1e-5, 1e-2, log=True)
        space["langevin.temperature"] = Uniform(1e8, 1e11, log=True)
    if isinstance(loss, StochasticRank):
        space["loss.mu"] = Uniform(1e-2, 10.0, log=True)
    if isinstance(loss, Loss) and loss.noise is not None:
        space["loss.strength"] = Uniform(0.0, 1.0)
    return space


SPACES = {"default": _default_space, "trees": _tree_space, "stochasticrank": _stochasticrank_space}
"""The spaces that have a name, as functions of the loss."""

declare(__name__)
declare(Langevin.__module__)
declare(ListFeatures.__module__)
