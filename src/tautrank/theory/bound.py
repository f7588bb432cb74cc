"""A theorem of the form "this is at least that" on given lists: both sides and the gap between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from tautrank.errors import OptionError
from tautrank.losses import Loss
from tautrank.losses import loss as loss_named
from tautrank.metrics.base import mean_over_queries
from tautrank.metrics.ordering import F64

_Kind = TypeVar("_Kind", bound=Loss)


@dataclass(frozen=True, eq=False, kw_only=True)
class Bound:
    """Both sides of ``upper >= lower``, for each query and for the average over queries.

    A query that the theorem is not about (no relevant document) is NaN and left out of the averages.

    Args:
        name: the inequality, in words and symbols.
        upper: the side that should be larger, one per query.
        lower: the side that should be smaller, one per query.
        mean_lower: the smaller side on average; None for the mean of ``lower``. Some theorems have a function of means
            here, such as ``-log mean NDCG``.
        steps: intermediate terms of the proof by name, from the upper side down.
        constants: terms added to the loss to form the upper side, by name.

    >>> bound = Bound(name="a >= b", upper=np.array([3.0, np.nan]), lower=np.array([1.0, np.nan]),
    ...               steps={"in between": np.array([2.5, np.nan])})
    >>> bound
    a >= b: 3 >= 1 on average over 1 query, the smallest gap 2; holds
    >>> bound.parts
    {'in between': array([0.5, nan]), 'b': array([1.5, nan])}
    """

    name: str
    upper: F64
    lower: F64
    mean_lower: float | None = None
    steps: Mapping[str, F64] = field(default_factory=dict)
    constants: Mapping[str, F64] = field(default_factory=dict)

    def __post_init__(self) -> None:
        silent = np.isnan(self.upper) | np.isnan(self.lower)
        object.__setattr__(self, "upper", np.where(silent, np.nan, self.upper))
        object.__setattr__(self, "lower", np.where(silent, np.nan, self.lower))
        object.__setattr__(self, "steps", {name: np.where(silent, np.nan, step) for name, step in self.steps.items()})

    @property
    def gap(self) -> F64:
        """How loose the bound is, one per query; negative where it fails."""
        return self.upper - self.lower

    @property
    def means(self) -> tuple[float, float]:
        """The larger and the smaller side on average."""
        lower = mean_over_queries(self.lower) if self.mean_lower is None else self.mean_lower
        return mean_over_queries(self.upper), lower

    @property
    def parts(self) -> dict[str, F64]:
        """How much of the gap each inequality of the proof loses, from the upper side down; they add up to the gap."""
        values = [self.upper, *self.steps.values(), self.lower]
        names = [*self.steps, self.name.split(" >= ")[-1]]
        return {name: above - below for name, above, below in zip(names, values[:-1], values[1:], strict=True)}

    @property
    def margin(self) -> float:
        """The smallest gap, over the queries and the average, in units of ``1 + |lower|``; NaN without queries."""
        gaps = self.gap / (1.0 + np.abs(self.lower))
        upper, lower = self.means
        mean = (upper - lower) / (1.0 + abs(lower))
        kept = gaps[~np.isnan(gaps)]
        return min(float(kept.min()), mean) if kept.size else math.nan

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Whether no query and no average falls below its lower side.

        Args:
            tolerance: largest violation that counts as rounding, in units of ``1 + |lower|``.
        """
        return not self.margin < -tolerance

    def __repr__(self) -> str:
        queries = int(np.count_nonzero(~np.isnan(self.gap)))
        if queries == 0:
            return f"{self.name}: no query with a relevant document"
        upper, lower = self.means
        return (
            f"{self.name}: {upper:.4g} >= {lower:.4g} on average over {queries} "
            f"quer{'y' if queries == 1 else 'ies'}, the smallest gap {np.nanmin(self.gap):.4g}; "
            f"{'holds' if self.holds() else 'fails'}"
        )


def negative_log(values: ArrayLike) -> F64:
    """Return ``-log`` of numbers; infinity for 0.

    >>> negative_log(np.array([1.0, 0.0, np.nan]))
    array([ 0., inf, nan])
    """
    with np.errstate(divide="ignore"):
        # 0 - log(1) is 0, -log(1) would print as -0.
        return np.asarray(0.0 - np.log(values))


def sees_scores(loss: Loss) -> bool:
    """Return whether a loss adds no noise to the scores.

    >>> from tautrank.losses import loss
    >>> sees_scores(loss("listnet", noise="gumbel")), sees_scores(loss("listnet", noise="gumbel", strength=0))
    (False, True)
    """
    return loss.noise is None or loss.strength == 0


def loss_without_noise(
    loss: Loss | str, kind: type[_Kind], expected: str, fits: Callable[[_Kind], bool] = lambda loss: True
) -> _Kind:
    """Return the loss that a theorem is about, which must be of a kind and without noise.

    Args:
        loss: the loss, or its name.
        kind: required class.
        expected: the required loss in words.
        fits: whether a loss of the class is such a loss.

    >>> from tautrank.losses import ListNet
    >>> loss_without_noise("listnet(noise=gumbel)", ListNet, "a listnet loss")
    Traceback (most recent call last):
    tautrank.errors.OptionError: loss: found listnet(noise=gumbel); expected a loss without noise, because bounds
    are about the scores themselves
    """
    chosen = loss_named(loss)
    if not (isinstance(chosen, kind) and fits(chosen)):
        raise OptionError(f"loss: found {chosen}; expected {expected}")
    if not sees_scores(chosen):
        raise OptionError(
            f"loss: found {chosen}; expected a loss without noise, because bounds are about the scores themselves"
        )
    return chosen
