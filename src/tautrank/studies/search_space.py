"""Where random search draws from, as data: choices and ranges by the name of what they set.

A name is a parameter of `Ranker` or of its engine (``learning_rate``), a parameter of the loss (``loss.strength``), or
one of `Langevin` (``langevin.temperature``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from tautrank.errors import OptionError


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


Dimension: TypeAlias = Choice | Uniform

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
