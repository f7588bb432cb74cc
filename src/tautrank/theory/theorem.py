"""A theorem of the form "this is at least that": what it is about, both sides and the gap between
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, I64, check_finite_scores, check_offsets, numbers
from tautrank.errors import OptionError, counted
from tautrank.losses import REGISTRY, Loss
from tautrank.losses.base import TrainingLists
from tautrank.metrics.base import mean_over_queries

Condition: TypeAlias = Callable[[Any, F64, TrainingLists], str | None]
"""From a loss, scores and lists to the reason why a theorem or a check is not about them, or to
None where it is.
"""

_PAIRS_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False, kw_only=True)
class Bound:
    """Both sides of ``upper >= lower``, for each query and for the average over queries.

    A query that the theorem is not about (no relevant document) is NaN and left out of the
    averages.

    Args:
        name: the inequality, in words and symbols.
        upper: the side that should be larger, one per query.
        lower: the side that should be smaller, one per query.
        mean_lower: the smaller side on average; None for the mean of ``lower``. Some theorems have
            a function of means here, such as ``-log mean NDCG``.
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
        object.__setattr__(
            self,
            "steps",
            {name: np.where(silent, np.nan, step) for name, step in self.steps.items()},
        )

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
        """How much of the gap each inequality of the proof loses, from the upper side down; they
        add up to the gap.
        """
        values = [self.upper, *self.steps.values(), self.lower]
        names = [*self.steps, self.name.split(" >= ")[-1]]
        return {
            name: above - below
            for name, above, below in zip(names, values[:-1], values[1:], strict=True)
        }

    @property
    def margin(self) -> float:
        """The smallest gap, over the queries and the average, in units of ``1 + |lower|``; NaN
        without queries.
        """
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
        means = f"{upper:.4g} >= {lower:.4g} on average over {counted(queries, 'query')}"
        verdict = "holds" if self.holds() else "fails"
        return f"{self.name}: {means}, the smallest gap {np.nanmin(self.gap):.4g}; {verdict}"


def negative_log(values: ArrayLike) -> F64:
    """Return ``-log`` of numbers; infinity for 0.

    >>> negative_log(np.array([1.0, 0.0, np.nan]))
    array([ 0., inf, nan])
    """
    with np.errstate(divide="ignore"):
        # 0 - log(1) is 0, -log(1) would print as -0.
        return np.asarray(0.0 - np.log(values))


def check_list_scores(scores: ArrayLike, offsets: ArrayLike) -> tuple[F64, I64]:
    """Return scores as float64 and offsets as int64, for lists without labels.

    >>> check_list_scores([0.0, float("nan")], [0, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: scores[1] (query 0, document 1): found nan; expected a finite number
    """
    s = numbers("scores", scores)
    cuts = check_offsets(offsets, s.size)
    check_finite_scores(s, cuts)
    return s, cuts


def check_scored_lists(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike
) -> tuple[F64, TrainingLists]:
    """Return scores as float64, and the labelled lists of the same documents.

    >>> check_scored_lists([0.0], [1, 0], [0, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: scores: found length 1; expected 2, one per document
    """
    lists = TrainingLists.of(labels, offsets)
    return numbers("scores", lists.scores(scores)), lists


def document_pairs(offsets: I64) -> Iterator[tuple[I64, I64]]:
    """Yield the pairs of documents of all lists, a block at a time: the first documents and those
    behind them.

    >>> [(i.tolist(), j.tolist()) for i, j in document_pairs(np.array([0, 3, 5]))]
    [([0, 0, 1, 3], [1, 2, 2, 4])]
    """
    behind = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(1, offsets[-1] + 1)
    blocks = np.cumsum(behind) // _PAIRS_AT_ONCE
    for documents in np.split(np.arange(behind.size), np.flatnonzero(np.diff(blocks)) + 1):
        sizes = behind[documents]
        first = np.repeat(documents, sizes)
        places = np.arange(first.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        yield first, first + 1 + places


def sees_scores(loss: Loss) -> bool:
    """Return whether a loss adds no noise to the scores.

    >>> from tautrank.losses import loss
    >>> sees_scores(loss("listnet", noise="gumbel")), sees_scores(loss("listnet", noise="gumbel", strength=0))
    (False, True)
    """
    return loss.noise is None or loss.strength == 0


def in_scope(
    loss: Loss | str,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    unless: Condition,
) -> tuple[Any, F64, TrainingLists]:
    """Return the loss, the scores and the lists that a theorem is applied to, if it is about them.

    Args:
        loss: the loss, or its name.
        scores, labels, offsets: the lists, see `tautrank.theory`.
        unless: from a loss, scores and lists to the reason why the theorem is not about them, or
            None.

    >>> in_scope("mse", [0.0], [1], [0, 1], lambda *_: "it is about ranknet")
    Traceback (most recent call last):
    tautrank.errors.OptionError: loss: found mse; expected one that the theorem applies to: it is about ranknet
    """
    chosen = REGISTRY.make(loss)
    s, lists = check_scored_lists(scores, labels, offsets)
    reason = unless(chosen, s, lists)
    if reason is not None:
        raise OptionError(
            f"loss: found {chosen}; expected one that the theorem applies to: {reason}"
        )
    return chosen, s, lists
