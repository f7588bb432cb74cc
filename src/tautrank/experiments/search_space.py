"""Where a search draws from, as data: choices and ranges by the name of what they set.

A name is a parameter of `Ranker` or of its engine (``learning_rate``), a parameter of the loss (``loss.strength``), or
one of `Langevin` (``langevin.temperature``). A user writes a range as ``("float", low, high)`` or ``("int", low,
high)``, either with ``"log"`` behind where its logarithm is uniform, or as ``("choice", a, b, ...)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from tautrank.errors import OptionError, unknown


@dataclass(frozen=True)
class Choice:
    """One of a few values, all equally likely.

    Args:
        values: which.

    >>> Choice((1, 2)).draw(np.random.default_rng(0)) in (1, 2)
    True
    """

    values: tuple[Any, ...]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one value."""
        return self.values[int(rng.integers(len(self.values)))]


@dataclass(frozen=True)
class Uniform:
    """A number between two others.

    Args:
        low: the least.
        high: the most.
        log: whether the logarithm is uniform, rather than the number.

    >>> 1e-3 <= Uniform(1e-3, 1, log=True).draw(np.random.default_rng(0)) <= 1
    True
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high < math.inf or (self.log and self.low <= 0):
            raise OptionError(f"low, high: found {self.low!r} and {self.high!r}; expected a range, above 0 for log")

    def draw(self, rng: np.random.Generator) -> float:
        """Draw one number."""
        if self.log:
            return float(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))
        return float(rng.uniform(self.low, self.high))


class WholeNumber(Uniform):
    """A whole number between two others, both included.

    Args:
        low: the least.
        high: the most.
        log: whether the logarithm is uniform, rather than the number.

    >>> WholeNumber(1, 2).draw(np.random.default_rng(0)) in (1, 2)
    True
    """

    low: int
    high: int

    def draw(self, rng: np.random.Generator) -> int:
        """Draw one number."""
        return math.floor(Uniform(self.low, self.high + 1, self.log).draw(rng))


Dimension: TypeAlias = Choice | Uniform

_KINDS = ("choice", "float", "int")
_EXPECTED = "expected ('float', low, high) or ('int', low, high), with 'log' behind if wanted, or ('choice', a, b, ...)"

# scikit-learn-style names; `in_words_of` says them as each tool does.
TREE_SPACE: Mapping[str, Choice] = {
    "learning_rate": Choice((0.02, 0.03, 0.05, 0.08, 0.12, 0.2)),
    "num_leaves": Choice((4, 7, 15, 31, 63)),
    "min_child_samples": Choice((5, 10, 20, 50, 100)),
    "colsample_bytree": Choice((0.4, 0.6, 0.8, 1.0)),
    "subsample": Choice((0.5, 0.7, 0.85, 1.0)),
    "reg_lambda": Choice((0.0, 0.1, 1.0, 10.0)),
}
"""The tree parameters that matter most, and what they are drawn from."""


def random_configurations(n: int, seed: tuple[int, ...]) -> list[dict[str, Any]]:
    """Draw `n` distinct configurations of the tree parameters that matter most; the same seed draws the same.

    Args:
        n: how many.
        seed: where the draws start.

    >>> len(random_configurations(12, (0, 1)))
    12
    >>> random_configurations(3, (0,)) == random_configurations(3, (0,))
    True
    """
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = []
    while len(drawn) < n:
        configuration = {name: choice.draw(rng) for name, choice in TREE_SPACE.items()}
        if configuration not in drawn:
            drawn.append(configuration)
    return drawn


@dataclass(frozen=True)
class Search:
    """Random search: every system gets as many configurations, and the same draws of what all have in common.

    Args:
        everyone: what is searched for every system.
        systems: what is searched besides, by the name of the system; a name of `everyone` is replaced.

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
        """Draw `n` configurations; the same seed draws the same, and more of them begin with the fewer.

        Args:
            system: its name.
            n: how many.
            seed: where the draws start.
        """
        space = {**self.everyone, **self.systems.get(system, {})}
        # Each dimension has random numbers of its own, so that what one system searches besides moves nothing else.
        streams = {name: np.random.default_rng((*seed, crc32(name.encode()))) for name in space}
        return [{name: dimension.draw(streams[name]) for name, dimension in space.items()} for _ in range(n)]


def read_range(name: str, given: Any) -> Dimension:
    """The range a user means, or a sentence that says what is wrong with it.

    Args:
        name: what it is for.
        given: a range in the words above, as a tuple or a list.

    >>> read_range("learning_rate", ("float", 0.01, 0.3, "log"))
    Uniform(low=0.01, high=0.3, log=True)
    >>> read_range("num_leaves", ["int", 63, 7])
    Traceback (most recent call last):
    tautrank.errors.OptionError: num_leaves: found a range from 63 to 7; expected the lower end first
    """
    if isinstance(given, Choice | Uniform):
        given = range_to_plain(given)
    if not isinstance(given, list | tuple) or not given or not isinstance(given[0], str):
        raise OptionError(f"{name}: found {given!r}; {_EXPECTED}")
    kind, *rest = given
    if kind not in _KINDS:
        raise unknown(f"kind of range for {name},", kind, _KINDS)
    return _choice(name, rest) if kind == "choice" else _between(name, kind, rest, given)


def range_to_plain(given: Dimension) -> list[Any]:
    """The range as JSON holds it; `read_range` undoes it.

    Args:
        given: a range.

    >>> range_to_plain(WholeNumber(4, 64, log=True))
    ['int', 4, 64, 'log']
    """
    if isinstance(given, Choice):
        return ["choice", *given.values]
    kind = "int" if isinstance(given, WholeNumber) else "float"
    return [kind, given.low, given.high, *(["log"] if given.log else [])]


def samples(given: Dimension) -> tuple[Any, ...]:
    """Values that show whether a range is within bounds, and whether there may be fractions in it.

    Args:
        given: a range.

    >>> samples(WholeNumber(4, 64))
    (4, 64)
    """
    if isinstance(given, Choice):
        return given.values
    if isinstance(given, WholeNumber):
        return given.low, given.high
    return given.low, given.low + (given.high - given.low) / math.e, given.high


def _choice(name: str, values: list[Any]) -> Choice:
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = list(values[0])
    if not values:
        raise OptionError(f"{name}: found a choice of nothing; {_EXPECTED}")
    for i, value in enumerate(values):
        is_plain = value is None or isinstance(value, bool | int | str)
        if not is_plain and not (isinstance(value, float) and math.isfinite(value)):
            raise OptionError(f"{name}: found {value!r} to choose; expected numbers, text, true, false or none")
        # Equal means equal: 1, 1.0 and True could not be told apart.
        if value in values[:i]:
            raise OptionError(f"{name}: found {value!r} twice to choose from; expected every value once")
    return Choice(tuple(values))


def _between(name: str, kind: str, rest: list[Any], given: Any) -> Uniform | WholeNumber:
    if len(rest) not in (2, 3) or (len(rest) == 3 and not (rest[2] == "log" or isinstance(rest[2], bool))):
        raise OptionError(f"{name}: found {given!r}; {_EXPECTED}")
    low, high, log = rest[0], rest[1], bool(rest[2]) if len(rest) == 3 else False
    for end in (low, high):
        is_number = isinstance(end, int if kind == "int" else int | float) and not isinstance(end, bool)
        if not is_number or (not abs(end) < 2**53 and not (kind == "float" and math.isfinite(end))):
            wanted = "whole numbers" if kind == "int" else "finite numbers"
            raise OptionError(f"{name}: found {end!r} as an end of the range; expected {wanted}")
    if low > high:
        raise OptionError(f"{name}: found a range from {low} to {high}; expected the lower end first")
    if low == high:
        raise OptionError(f"{name}: found a range from {low} to itself; expected two ends, or ('choice', {low})")
    if log and low <= 0:
        raise OptionError(f"{name}: found a logarithmic range from {low}; expected it to start above 0")
    return WholeNumber(low, high, log) if kind == "int" else Uniform(low, high, log)
