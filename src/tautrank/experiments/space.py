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
from collections.abc import Callable, Iterable, Mapping, Sequence
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
        for index, value in enumerate(self.values):
            if not _is_plain(value):
                raise OptionError(
                    f"found {value!r} to choose; expected numbers, text, true, false or none"
                )
            # By ==, under which 1, 1.0 and True are the same value.
            if value in self.values[:index]:
                raise OptionError(
                    f"found {value!r} twice to choose from; expected every value once"
                )

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one value."""
        index = int(rng.integers(len(self.values)))
        return self.values[index]

    def probes(self) -> tuple[Any, ...]:
        """Return values to check a parameter with: all of them."""
        return self.values

    def to_plain(self) -> list[Any]:
        """Return the range as JSON can hold it; `read_range` reads it back."""
        return ["choice", *self.values]


def _is_plain(value: Any) -> bool:
    """Return whether JSON can hold a value, and a shell show it."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


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
    _numbers: ClassVar[str] = "finite numbers"
    _types: ClassVar[tuple[type, ...]] = (int, float)
    _largest: ClassVar[float] = sys.float_info.max

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            is_number = isinstance(end, self._types) and not isinstance(end, bool)
            if not is_number or not abs(end) <= self._largest:  # NaN is not below anything
                raise OptionError(f"found {end!r} as an end of the range; expected {self._numbers}")
        if self.low > self.high:
            raise OptionError(
                f"found a range from {self.low} to {self.high}; expected the lower end first"
            )
        if self.low == self.high:
            raise OptionError(
                f"found a range from {self.low} to itself;"
                f" expected two ends, or ('choice', {self.low})"
            )
        if self.log and self.low <= 0:
            raise OptionError(
                f"found a logarithmic range from {self.low}; expected it to start above 0"
            )

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one number."""
        if not self.log:
            return float(rng.uniform(self.low, self.high))
        logarithm = rng.uniform(math.log(self.low), math.log(self.high))
        return float(math.exp(logarithm))

    def probes(self) -> tuple[Any, ...]:
        """Return values to check a parameter with: both ends, and a number between them that is not
        whole.
        """
        between = self.low + (self.high - self.low) / math.e
        return self.low, between, self.high

    def to_plain(self) -> list[Any]:
        """Return the range as JSON can hold it; `read_range` reads it back.

        >>> WholeNumber(4, 64, log=True).to_plain()
        ['int', 4, 64, 'log']
        """
        plain: list[Any] = [self._kind, self.low, self.high]
        if self.log:
            plain.append("log")
        return plain


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
    _numbers = "whole numbers"
    _types = (int,)
    _largest = 2**53 - 1

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one number."""
        number = Uniform(self.low, self.high + 1, self.log).draw(rng)
        return math.floor(number)

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
# Names that scikit-learn and LightGBM share; `Engine.translate_parameters` translates them for the
# other tools.
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
        configurations = []
        for _ in range(n):
            values = {name: dimension.draw(streams[name]) for name, dimension in space.items()}
            configurations.append(values)
        return configurations


def read_range(name: str, written: Any) -> Dimension:
    """Read a range that a user wrote; the error for one that cannot be used names the parameter.

    Args:
        name: The parameter that the range is for.
        written: The range as described above, a tuple or a list.

    >>> read_range("learning_rate", ("float", 0.01, 0.3, "log"))
    Uniform(low=0.01, high=0.3, log=True)
    >>> read_range("num_leaves", ["int", 63, 7])
    Traceback (most recent call last):
    tautrank.errors.OptionError: num_leaves: found a range from 63 to 7; expected the lower end first
    """
    if isinstance(written, Choice | Uniform):
        return written
    is_list = isinstance(written, list | tuple) and len(written) > 0
    if is_list and isinstance(written[0], str):
        choice(f"kind of range for {name},", written[0], _KINDS)
        try:
            dimension = _range_of_kind(written[0], list(written[1:]))
        except OptionError as error:
            raise OptionError(f"{name}: {error}") from None
        if dimension is not None:
            return dimension
    raise OptionError(f"{name}: found {written!r}; expected {_EXPECTED}")


def _range_of_kind(kind: str, values: list[Any]) -> Dimension | None:
    """Return the range of a kind that is known; None if it needs other values."""
    if kind == "choice":
        return Choice(tuple(values))
    has_log = values[2:] == ["log"]
    if len(values) == 2 or (len(values) == 3 and has_log):
        low, high = values[:2]
        return _KINDS[kind](low, high, log=has_log)
    return None


def read_space(written: Mapping[str, Any]) -> Space:
    """Read a space that a user wrote.

    Args:
        written: The ranges by name.

    >>> read_space({"num_leaves": ("int", 4, 64, "log")})
    {'num_leaves': WholeNumber(low=4, high=64, log=True)}
    """
    if not written:
        raise OptionError("space: found nothing in it; expected at least one range")
    return {str(name): read_range(str(name), value) for name, value in written.items()}


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
        sentence = str(unknown("space", text, SPACES))
        raise OptionError(f"{sentence.removesuffix(')')}; or a JSON file)")

    try:
        return _space_in_file(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{text}: is not JSON ({error}); expected an object of ranges by name"
        ) from None
    except OptionError as error:
        raise OptionError(f"{text}: {error}") from None


def _space_in_file(file: str) -> Space:
    """Return the space in a JSON file, in which every name is there once."""

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{file}: found '{name}' twice; expected every name once")
        return dict(pairs)

    with opened(file, "a JSON file of ranges by name") as stream:
        content = json.load(stream, object_pairs_hook=without_doubles)
    if not isinstance(content, dict):
        raise DataError(
            f"{file}: found something else;"
            ' expected an object such as {"num_leaves": ["int", 4, 64]}'
        )
    return read_space(content)


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
    read_losses = [read_loss(loss) for loss in losses]
    if isinstance(space, Mapping):
        spaces = _spaces_of_user(read_losses, read_space(space), fixed)
    elif space is None or isinstance(space, str):
        spaces = _spaces_by_name(read_losses, space or "default", fixed)
    else:
        raise OptionError(f"space: found {space!r}; expected a name, or ranges by name")
    if len(read_losses) == 1 and not spaces[0]:
        raise OptionError(
            f"space: found nothing to change in {read_losses[0]};"
            " expected a range of what is not fixed"
        )
    # Sorted, so that what is drawn does not depend on the order in which a space was written.
    return [dict(sorted(space_of_loss.items())) for space_of_loss in spaces]


def _spaces_of_user(
    losses: Sequence[AnyLoss], space: Space, fixed: Mapping[str, Any]
) -> list[Space]:
    """Return the part of a user's space that applies to each loss; a wrong name is an error."""
    _check_names(space, losses)
    spaces = []
    for loss in losses:
        names = [name for name in space if _applies(loss, name, space[name], fixed)]
        spaces.append({name: space[name] for name in names})
    return spaces


def _spaces_by_name(losses: Sequence[AnyLoss], name: str, fixed: Mapping[str, Any]) -> list[Space]:
    """Return a space that has a name for each loss, without what is fixed."""
    make_space = SPACES[choice("space", name, SPACES)]
    spaces = []
    for loss in losses:
        space = make_space(loss)
        names = [name for name in space if _is_free(loss, name, space[name], fixed)]
        spaces.append({name: space[name] for name in names})
    return spaces


def _defaults_of(loss: AnyLoss) -> dict[str, Any]:
    """Return the parameters of a loss and their defaults; a tool's own objective has none here."""
    if not isinstance(loss, Loss):
        return {}
    return {field.name: field.default for field in dataclasses.fields(loss)}


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
    values_by_part: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in configuration.items():
        part, _, parameter = name.rpartition(".")
        values_by_part[part][parameter] = value
    of_ranker = values_by_part[""]
    loss = with_parameters(of_ranker.pop("loss"), values_by_part["loss"])
    engine = engine_for(str(fixed.get("engine", DEFAULT_ENGINE)), read_loss(loss))
    parameters = {"loss": loss, **fixed, **engine.translate_parameters(of_ranker, fixed)}
    if values_by_part["langevin"]:
        langevin = fixed.get("langevin") or Langevin()
        parameters["langevin"] = dataclasses.replace(langevin, **values_by_part["langevin"])
    return parameters


def with_parameters(loss: str, parameters: Mapping[str, Any]) -> str:
    """Return a loss as text, with some parameters set: those it has; a tool's own objective has
    none.

    Args:
        loss: what `Ranker` takes.
        parameters: of losses, by name.

    >>> with_parameters("ndcg-loss2++(k=5)", {"mu": 10.0}), with_parameters("mse", {"mu": 10.0})
    ('ndcg-loss2++(k=5,mu=10)', 'mse')
    """
    read_value = read_loss(loss)
    names = [name for name in parameters if name in _defaults_of(read_value)]
    changed = dataclasses.replace(read_value, **{name: parameters[name] for name in names})
    return str(changed)


def _takes_langevin(loss: AnyLoss) -> bool:
    """Return whether a loss can be trained by Langevin boosting."""
    if not isinstance(loss, NativeLoss):
        return True
    return engine_for(DEFAULT_ENGINE, loss).has_langevin


def _is_free(loss: AnyLoss, name: str, dimension: Dimension, fixed: Mapping[str, Any]) -> bool:
    """Return whether a range of a named space is to be searched: nothing else sets it, and the loss
    takes it.
    """
    if name.partition(".")[0] in fixed:
        return False
    try:
        return _applies(loss, name, dimension, fixed)
    except OptionError:  # `mu`, for example, is refused with a metric that has no ties
        return False


def _applies(loss: AnyLoss, name: str, dimension: Dimension, fixed: Mapping[str, Any]) -> bool:
    """Return whether a loss is trained with a parameter; raise an error if it is set elsewhere, or
    for wrong values.
    """
    part, _, parameter = name.rpartition(".")
    defaults = _defaults_of(loss)
    if part == "langevin" and not _takes_langevin(loss):
        return False
    if part not in ("", "langevin") and parameter not in defaults:
        return False
    if name in fixed:
        raise OptionError(f"{name}: found in the space and as a fixed parameter; expected it once")
    if part == "loss" and getattr(loss, parameter) != defaults[parameter]:
        raise OptionError(f"{name}: found in the space and in {loss}; expected it once")
    try:
        for value in dimension.probes():
            _check_value(loss, part, parameter, value)
    except OptionError as error:
        raise OptionError(f"{part}.{error}" if part else str(error)) from None
    return True


def _check_value(loss: AnyLoss, part: str, parameter: str, value: Any) -> None:
    """Raise an error for a value that a parameter cannot have.

    The values of an engine's own parameters are left to the engine.
    """
    if part == "langevin":
        Langevin(**{parameter: value})
    elif part == "loss":
        dataclasses.replace(loss, **{parameter: value})
    elif parameter in DEFAULTS:
        Settings(**{parameter: value})


def _check_names(space: Space, losses: Sequence[AnyLoss]) -> None:
    """Refuse names that no loss has, and what is the same for all trials."""
    owner = losses[0] if len(losses) == 1 else "these losses"
    allowed = set(DEFAULTS)
    for loss in losses:
        allowed.update(f"loss.{name}" for name in _defaults_of(loss))
        if _takes_langevin(loss):
            allowed.update(_LANGEVIN)
    for name in space:
        if name in _NOT_SEARCHED:
            raise OptionError(f"{name}: found in the space; expected {_NOT_SEARCHED[name]}")
        # The engine checks its own names, which have no dot.
        if "." in name:
            choice(f"parameter of {owner}:", name, allowed)


def _tree_space(_: AnyLoss) -> Space:
    """Return the ranges of `TREE_SPACE` as a whole; counts and rates on a logarithmic scale."""
    return {
        "learning_rate": Uniform(0.02, 0.2, log=True),
        "num_leaves": WholeNumber(4, 63, log=True),
        "min_child_samples": WholeNumber(5, 100, log=True),
        "colsample_bytree": Uniform(0.4, 1.0),
        "subsample": Uniform(0.5, 1.0),
        "reg_lambda": TREE_SPACE["reg_lambda"],
    }


def _default_space(loss: AnyLoss) -> Space:
    """Return the tree parameters, and those that the loss declares worth searching."""
    space = _tree_space(loss)
    if isinstance(loss, Loss):
        for name, written in loss.worth_searching.items():
            space[f"loss.{name}"] = read_range(name, written)
    return space


def _stochasticrank_space(loss: AnyLoss) -> Space:
    """Return the space of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, appendix F.

    The paper ran 500 random trials of 1000 trees. A depth there is as many leaves here as a
    CatBoost tree of that depth has.
    """
    space: Space = {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice(tuple(2**depth for depth in (6, 7, 8, 9, 10))),
        "reg_lambda": Uniform(0.1, 10.0, log=True),
    }
    if isinstance(loss, SmoothedLoss):
        space["reg_lambda"] = Choice((0.0,))
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
