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

_RANGE_FORMS = "('float', low, high), ('int', low, high), either with 'log' at the end, or ('choice', a, b, ...)"


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
            raise OptionError(f"found a choice of nothing; expected {_RANGE_FORMS}")
        for index, value in enumerate(self.values):
            if not _fits_json(value):
                raise OptionError(
                    f"found {value!r} to choose; expected numbers, text, true, false or none"
                )
            # `in` compares by ==, under which 1, 1.0 and True are the same value.
            values_before = self.values[:index]
            if value in values_before:
                raise OptionError(
                    f"found {value!r} twice to choose from; expected every value once"
                )

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one of the values at random, all with the same probability."""
        index = int(rng.integers(len(self.values)))
        return self.values[index]

    def probes(self) -> tuple[Any, ...]:
        """Return all values of the choice: a parameter must accept each of them."""
        return self.values

    def to_plain(self) -> list[Any]:
        """Return the range as JSON can hold it; `read_range` reads it back."""
        return ["choice", *self.values]


def _fits_json(value: Any) -> bool:
    """Return whether JSON can hold a value: None, a truth value, text or a finite number."""
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
    _expected_ends: ClassVar[str] = "finite numbers"
    _types_of_ends: ClassVar[tuple[type, ...]] = (int, float)
    _largest_end: ClassVar[float] = sys.float_info.max

    def __post_init__(self) -> None:
        # The types and the bound of the ends are those of the subclass: whole or real numbers.
        for end in (self.low, self.high):
            # To Python, True is an int.
            is_number = isinstance(end, self._types_of_ends) and not isinstance(end, bool)
            # A comparison with NaN is False, so that NaN is not in bounds.
            is_usable = is_number and abs(end) <= self._largest_end
            if not is_usable:
                raise OptionError(
                    f"found {end!r} as an end of the range; expected {self._expected_ends}"
                )
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
        """Draw a number uniformly between the ends, or with `log` uniformly on a logarithmic
        scale.
        """
        if not self.log:
            return float(rng.uniform(self.low, self.high))
        # Each factor, such as from 0.01 to 0.1 and from 0.1 to 1, is equally likely.
        logarithm = rng.uniform(math.log(self.low), math.log(self.high))
        return float(math.exp(logarithm))

    def probes(self) -> tuple[Any, ...]:
        """Return values that a parameter must accept to be searched in this range: both ends, and
        a number between them that is not whole.
        """
        # Divided by an irrational number, the distance of two whole ends is not whole.
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
    _expected_ends = "whole numbers"
    _types_of_ends = (int,)
    _largest_end = 2**53 - 1  # a float64 holds all whole numbers up to here

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a whole number: draw a real one between `low` and `high` + 1, and round it down."""
        number = Uniform(self.low, self.high + 1, self.log).draw(rng)
        return math.floor(number)

    def probes(self) -> tuple[Any, ...]:
        """Return values that a parameter must accept to be searched in this range: both ends."""
        return self.low, self.high


Dimension: TypeAlias = Choice | Uniform
Space: TypeAlias = dict[str, Dimension]

_CLASSES_BY_KIND: Mapping[str, Callable[..., Dimension]] = {
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
    configurations: list[dict[str, Any]] = []
    while len(configurations) < n:
        # Draw again until the configuration is new.
        configuration = {name: values.draw(rng) for name, values in TREE_SPACE.items()}
        if configuration not in configurations:
            configurations.append(configuration)
    return configurations


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
        """Draw `n` random configurations (values of parameters by name) for one of the systems that
        are compared.

        The same seed draws the same configurations, and a longer list begins with the shorter one.
        A parameter has its own random numbers, seeded by a checksum of its name: a further range
        of one system changes no other draw.

        Args:
            system: The name of the system; its own ranges replace those of all systems.
            n: The number of configurations.
            seed: The seed of the draws.
        """
        ranges_of_system = self.systems.get(system, {})
        space = {**self.everyone, **ranges_of_system}

        streams = {}
        for name in space:
            checksum = crc32(name.encode())
            streams[name] = np.random.default_rng((*seed, checksum))

        configurations = []
        for _ in range(n):
            values = {name: dimension.draw(streams[name]) for name, dimension in space.items()}
            configurations.append(values)
        return configurations


def read_range(name: str, written: Any) -> Dimension:
    """Read the range to search a parameter in, such as ``("float", 0.01, 0.3, "log")``; the error
    for a range that cannot be used names the parameter.

    Args:
        name: The parameter that the range is for.
        written: The range as a user wrote it, a tuple or a list: a kind, then two ends or the
            values to choose from. A `Choice` or a `Uniform` is returned unchanged.

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
        kind, values = written[0], list(written[1:])
        choice(f"kind of range for {name},", kind, _CLASSES_BY_KIND)
        try:
            # None if the values are not two ends, or two ends and "log".
            dimension = _range_of_kind(kind, values)
        except OptionError as error:
            raise OptionError(f"{name}: {error}") from None
        if dimension is not None:
            return dimension
    raise OptionError(f"{name}: found {written!r}; expected {_RANGE_FORMS}")


def _range_of_kind(kind: str, values: list[Any]) -> Dimension | None:
    """Build a range from what stands behind its kind; None if an interval is not two ends, or two
    ends and "log".

    Args:
        kind: "choice", "float" or "int".
        values: the values to choose from, or the ends of an interval, perhaps followed by "log".
    """
    if kind == "choice":
        return Choice(tuple(values))

    ends, options = values[:2], values[2:]
    is_logarithmic = options == ["log"]
    if len(ends) < 2 or (options and not is_logarithmic):
        return None
    low, high = ends
    make_range = _CLASSES_BY_KIND[kind]
    return make_range(low, high, log=is_logarithmic)


def read_space(written: Mapping[str, Any]) -> Space:
    """Read a search space that a user wrote: the ranges of parameters by name.

    Args:
        written: By name of the parameter, a range such as ``("int", 4, 64, "log")``.

    >>> read_space({"num_leaves": ("int", 4, 64, "log")})
    {'num_leaves': WholeNumber(low=4, high=64, log=True)}
    """
    if not written:
        raise OptionError("space: found nothing in it; expected at least one range")
    space = {}
    for name, written_range in written.items():
        space[str(name)] = read_range(str(name), written_range)
    return space


def space_named_or_in_file(text: str) -> str | Space:
    """Return a search space from what a user typed: the name of a space as it is, or the ranges by
    name that a JSON file holds.

    Args:
        text: The name of a space, or the path of a JSON file.

    >>> space_named_or_in_file("trees")
    'trees'
    >>> space_named_or_in_file("treees")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown space 'treees'; did you mean 'trees'? (known: ...; or a JSON file)
    """
    if text in SPACES:
        return text
    if not Path(text).is_file() and not text.endswith(".json"):
        # The sentence ends with "(known: ...)": add the file within the parentheses.
        sentence = str(unknown("space", text, SPACES))
        raise OptionError(f"{sentence.removesuffix(')')}; or a JSON file)")

    try:
        return _read_space_file(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{text}: is not JSON ({error}); expected an object of ranges by name"
        ) from None
    except OptionError as error:
        raise OptionError(f"{text}: {error}") from None


def _read_space_file(file: str) -> Space:
    """Read a search space, the ranges of parameters by name, from a JSON file; a parameter that
    stands there twice is an error.
    """

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return a JSON object as a dictionary; by default, JSON drops all but the last of several
        entries with the same name.
        """
        names = [name for name, _value in pairs]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"{file}: found '{name}' twice; expected every name once")
        return dict(pairs)

    with opened(file, "a JSON file of ranges by name") as stream:
        content = json.load(stream, object_pairs_hook=refuse_duplicates)
    if not isinstance(content, dict):
        raise DataError(
            f"{file}: found something else;"
            ' expected an object such as {"num_leaves": ["int", 4, 64]}'
        )
    return read_space(content)


# Parameters that are not searched, and what the error expects instead.
_INSTEAD_OF_SEARCHING = {
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
_LANGEVIN_NAMES = tuple(f"langevin.{field.name}" for field in dataclasses.fields(Langevin))


def spaces_of(
    losses: Iterable[str], space: str | Mapping[str, Any] | None, fixed: Mapping[str, Any]
) -> list[Space]:
    """Return the search space of each loss: the ranges of those parameters that it is trained with.

    A space that has a name leaves out fixed parameters, and those that the text of a loss sets:
    ``loss.k`` for ``lambdarank(k=5)``. In a space of the user's own, every name must belong to one
    of the losses, and no parameter may be set twice.

    Args:
        losses: The losses, as `Ranker` takes them.
        space: The name of a space, ranges by name, or None for the default.
        fixed: Parameters that are the same in all trials, and not searched.

    >>> spaces_of(["ndcg-loss2++"], {"loss.mu": ("float", 1, 10)}, {})
    [{'loss.mu': Uniform(low=1, high=10, log=False)}]
    >>> spaces_of(["ndcg-loss2++"], {"loss.nu": ("float", 1, 10)}, {})
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown parameter of ndcg-loss2++: 'loss.nu'; did you mean 'loss.mu'? (known: ...)
    """
    # Losses as objects, with the parameters that their texts set.
    read_losses = [read_loss(loss) for loss in losses]
    if isinstance(space, Mapping):
        spaces = _divide_user_space(read_losses, read_space(space), fixed)
    elif space is None or isinstance(space, str):
        space_name = space or "default"
        spaces = _make_named_spaces(read_losses, space_name, fixed)
    else:
        raise OptionError(f"space: found {space!r}; expected a name, or ranges by name")
    if len(read_losses) == 1 and not spaces[0]:
        raise OptionError(
            f"space: found nothing to change in {read_losses[0]};"
            " expected a range of what is not fixed"
        )
    # Sorted, so that what is drawn does not depend on the order in which a space was written.
    return [dict(sorted(space_of_loss.items())) for space_of_loss in spaces]


def _divide_user_space(
    losses: Sequence[AnyLoss], space: Space, fixed: Mapping[str, Any]
) -> list[Space]:
    """Return for each loss the ranges of a user's search space that the loss takes; a name that no
    loss has is an error.
    """
    _check_names(space, losses)
    spaces = []
    for loss in losses:
        space_of_loss = {}
        for name, dimension in space.items():
            if _can_search(loss, name, dimension, fixed):
                space_of_loss[name] = dimension
        spaces.append(space_of_loss)
    return spaces


def _make_named_spaces(
    losses: Sequence[AnyLoss], space_name: str, fixed: Mapping[str, Any]
) -> list[Space]:
    """Return for each loss the search space of a name in `SPACES`, without the parameters that are
    fixed or that the loss does not take.
    """
    choice("space", space_name, SPACES)
    # A function that returns the space for a loss, as losses differ in parameters.
    make_space = SPACES[space_name]
    spaces = []
    for loss in losses:
        space_of_loss = {}
        for name, dimension in make_space(loss).items():
            if _is_free(loss, name, dimension, fixed):
                space_of_loss[name] = dimension
        spaces.append(space_of_loss)
    return spaces


def _loss_defaults(loss: AnyLoss) -> dict[str, Any]:
    """Return the default values of a loss's parameters by name; empty for an objective of another
    tool, such as ``lightgbm:lambdarank``.
    """
    if not isinstance(loss, Loss):
        return {}
    return {field.name: field.default for field in dataclasses.fields(loss)}


def parameters_of(configuration: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword parameters of `Ranker` that train a configuration of a search.

    Dotted names become parts of one argument: ``loss.k`` a parameter in the text of the loss, and
    ``langevin.temperature`` an attribute of `Langevin`. Names that the engine (the tool that
    trains the loss, such as XGBoost) calls otherwise are renamed to its own.

    Args:
        configuration: the loss, and the values that are tried by name: a parameter of `Ranker` or
            of its engine, ``loss.NAME``, or ``langevin.NAME``.
        fixed: parameters that are the same in all configurations.

    >>> tried = {"loss": "lambdarank", "loss.k": 5, "learning_rate": 0.2, "langevin.temperature": 1e9}
    >>> parameters_of(tried, {"num_leaves": 7})
    {'loss': 'lambdarank(k=5)', 'num_leaves': 7, 'learning_rate': 0.2, 'langevin': Langevin(temperature=1e+09, ...)}
    """
    values_by_prefix: dict[str, dict[str, Any]] = defaultdict(dict)
    for dotted_name, value in configuration.items():
        prefix, name = _split_name(dotted_name)
        # "loss.k" is k of the prefix loss; the prefix of a name without a dot is empty.
        values_by_prefix[prefix][name] = value
    ranker_values = values_by_prefix[""]
    langevin_values = values_by_prefix["langevin"]

    loss = with_parameters(ranker_values.pop("loss"), values_by_prefix["loss"])
    engine_name = str(fixed.get("engine", DEFAULT_ENGINE))
    engine = engine_for(engine_name, read_loss(loss))
    # The engine says what its tool calls each parameter.
    engine_values = engine.translate_parameters(ranker_values, fixed)

    parameters = {"loss": loss, **fixed, **engine_values}
    if langevin_values:
        langevin = fixed.get("langevin") or Langevin()
        parameters["langevin"] = dataclasses.replace(langevin, **langevin_values)
    return parameters


def _split_name(dotted_name: str) -> tuple[str, str]:
    """Split the name of a searched parameter at its last dot: ``loss.k`` into ``loss`` and ``k``;
    the prefix of a plain parameter of `Ranker` is empty.
    """
    prefix, _, name = dotted_name.rpartition(".")
    return prefix, name


def with_parameters(loss: str, parameters: Mapping[str, Any]) -> str:
    """Return the text of a loss with some of its parameters set; names of parameters that the loss
    does not have are ignored, and an objective of another tool has none.

    Args:
        loss: the text of a loss, as `Ranker` takes it.
        parameters: values of loss parameters by name.

    >>> with_parameters("ndcg-loss2++(k=5)", {"mu": 10.0}), with_parameters("mse", {"mu": 10.0})
    ('ndcg-loss2++(k=5,mu=10)', 'mse')
    """
    parsed_loss = read_loss(loss)
    # The parameters of the loss with their defaults; none for objectives of other tools.
    known_names = _loss_defaults(parsed_loss)
    changes = {name: value for name, value in parameters.items() if name in known_names}
    return str(dataclasses.replace(parsed_loss, **changes))


def _takes_langevin(loss: AnyLoss) -> bool:
    """Return whether a loss can be trained by Langevin boosting (with noise in the gradients): any
    loss of tautrank, and an objective of another tool if the tool does so.
    """
    is_of_tautrank = not isinstance(loss, NativeLoss)
    if is_of_tautrank:
        return True
    return engine_for(DEFAULT_ENGINE, loss).has_langevin


def _is_free(loss: AnyLoss, name: str, dimension: Dimension, fixed: Mapping[str, Any]) -> bool:
    """Return whether to search a parameter of a named space for a loss: it is not fixed, nor set in
    the text of the loss, and the loss takes all values of its range.
    """
    # A fixed `langevin` sets `langevin.temperature`, too.
    argument = name.partition(".")[0]
    if argument in fixed:
        return False
    try:
        return _can_search(loss, name, dimension, fixed)
    except OptionError:  # `mu`, for example, is refused with a metric that has no ties
        return False


def _can_search(
    loss: AnyLoss, dotted_name: str, dimension: Dimension, fixed: Mapping[str, Any]
) -> bool:
    """Return whether a parameter of a search space belongs to a loss, so that the search may set
    it.

    Raise an `OptionError` if the parameter does belong to the loss, but is fixed or set in the
    text of the loss as well, or cannot have the values of its range.
    """
    prefix, name = _split_name(dotted_name)
    defaults = _loss_defaults(loss)
    # Langevin boosting adds noise to gradients; not every tool can do that with its own losses.
    if prefix == "langevin" and not _takes_langevin(loss):
        return False
    # Without a prefix, a parameter belongs to `Ranker` or to the training tool.
    is_of_loss = prefix not in ("", "langevin")
    if is_of_loss and name not in defaults:
        return False

    if dotted_name in fixed:
        raise OptionError(
            f"{dotted_name}: found in the space and as a fixed parameter; expected it once"
        )
    # A value that differs from the default was set in the text of the loss.
    if prefix == "loss" and getattr(loss, name) != defaults[name]:
        raise OptionError(f"{dotted_name}: found in the space and in {loss}; expected it once")

    try:
        # A few values, among them both ends, stand for all values of a range.
        for value in dimension.probes():
            _check_value(loss, prefix, name, value)
    except OptionError as error:
        sentence = f"{prefix}.{error}" if prefix else str(error)
        raise OptionError(sentence) from None
    return True


def _check_value(loss: AnyLoss, prefix: str, name: str, value: Any) -> None:
    """Raise an `OptionError` if a searched parameter cannot have a value: build the object that it
    is a parameter of, which checks its values.

    The engine checks its own parameters when it trains.

    Args:
        loss: the loss that is trained.
        prefix: ``loss``, ``langevin``, or empty for parameters of `Ranker` and its engine.
        name: the name of the parameter, without the prefix.
        value: one of the values that a search could draw.
    """
    if prefix == "langevin":
        Langevin(**{name: value})
    elif prefix == "loss":
        dataclasses.replace(loss, **{name: value})
    # Making `Settings`, the parameters of `Ranker` as an object, checks the value.
    elif name in DEFAULTS:
        Settings(**{name: value})


def _check_names(space: Space, losses: Sequence[AnyLoss]) -> None:
    """Raise an `OptionError` if a search space has a dotted parameter that none of the losses has,
    or a parameter that must be the same in all trials, such as the metric.
    """
    owner = losses[0] if len(losses) == 1 else "these losses"
    allowed_names = set(DEFAULTS)
    for loss in losses:
        # Dotted names: loss.NAME for parameters of a loss, langevin.NAME for those of `Langevin`.
        allowed_names.update(f"loss.{name}" for name in _loss_defaults(loss))
        if _takes_langevin(loss):
            allowed_names.update(_LANGEVIN_NAMES)

    for name in space:
        if name in _INSTEAD_OF_SEARCHING:
            # What to do instead, in words.
            instead = _INSTEAD_OF_SEARCHING[name]
            raise OptionError(f"{name}: found in the space; expected {instead}")
        # The engine checks names without a dot when it trains: some are parameters of its own.
        if "." in name:
            choice(f"parameter of {owner}:", name, allowed_names)


def _tree_space(_loss: AnyLoss) -> Space:
    """Return the ranges of the tree parameters in `TREE_SPACE`, the same for every loss; counts
    and rates are drawn on a logarithmic scale.
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
    """Return the ranges of the tree parameters, and of those that the loss declares worth
    searching.
    """
    space = _tree_space(loss)
    if isinstance(loss, Loss):
        for name, written_range in loss.worth_searching.items():
            space[f"loss.{name}"] = read_range(name, written_range)
    return space


def _stochasticrank_space(loss: AnyLoss) -> Space:
    """Return the search space of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020,
    appendix F, for a loss.

    The paper ran 500 random trials of 1000 trees. It searches the depth of CatBoost's symmetric
    trees, which have 2**depth leaves: here the number of leaves is searched. For smoothed losses,
    such as StochasticRank, it searches the parameters of Langevin boosting instead of the L2
    penalty `reg_lambda`, which is 0.
    """
    depths = (6, 7, 8, 9, 10)
    space: Space = {
        "learning_rate": Uniform(1e-3, 1.0, log=True),
        "num_leaves": Choice(tuple(2**depth for depth in depths)),
        "reg_lambda": Uniform(0.1, 10.0, log=True),
    }
    if isinstance(loss, SmoothedLoss):
        # A choice of one value fixes it.
        no_penalty = Choice((0.0,))
        space["reg_lambda"] = no_penalty
        space["langevin.shrink_rate"] = Uniform(1e-5, 1e-2, log=True)
        space["langevin.temperature"] = Uniform(1e8, 1e11, log=True)
    if isinstance(loss, StochasticRank):
        space["loss.mu"] = Uniform(1e-2, 10.0, log=True)
    # Losses that draw noise have a parameter for its strength.
    if isinstance(loss, Loss) and loss.noise is not None:
        space["loss.strength"] = Uniform(0.0, 1.0)
    return space


SPACES = {"default": _default_space, "trees": _tree_space, "stochasticrank": _stochasticrank_space}
"""The spaces that have a name, as functions of the loss."""

declare(__name__)
declare(Langevin.__module__)
declare(ListFeatures.__module__)
