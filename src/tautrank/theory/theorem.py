"""A theorem of the form "this is at least that": what it is about, both sides and the gap between
them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, I64, Bools, check_finite_scores, check_offsets, numbers
from tautrank.data import Lists, RankingData
from tautrank.errors import OptionError, counted
from tautrank.losses import Loss
from tautrank.losses.base import TrainingLists
from tautrank.metrics.base import mean_over_queries
from tautrank.metrics.ordering import query_sums

Labelled: TypeAlias = ArrayLike | RankingData | Lists
"""Labelled lists: `Lists`, `RankingData`, or the labels of a single list."""

Condition: TypeAlias = Callable[[Any, F64, Lists], str | None]
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
        is_skipped = np.isnan(self.upper) | np.isnan(self.lower)

        def without_skipped(values: F64) -> F64:
            return np.where(is_skipped, np.nan, values)

        steps = {name: without_skipped(step) for name, step in self.steps.items()}
        object.__setattr__(self, "upper", without_skipped(self.upper))
        object.__setattr__(self, "lower", without_skipped(self.lower))
        object.__setattr__(self, "steps", steps)

    @property
    def gap(self) -> F64:
        """How loose the bound is, one per query; negative where it fails."""
        return self.upper - self.lower

    @property
    def means(self) -> tuple[float, float]:
        """The larger and the smaller side on average."""
        mean_upper = mean_over_queries(self.upper)
        if self.mean_lower is None:
            return mean_upper, mean_over_queries(self.lower)
        return mean_upper, self.mean_lower

    @property
    def parts(self) -> dict[str, F64]:
        """How much each inequality of the proof loses, by name, from the upper side down to the
        lower one; together they are the gap between the two sides.
        """
        lower_name = self.name.split(" >= ")[-1]
        parts = {}
        above = self.upper
        for name, below in [*self.steps.items(), (lower_name, self.lower)]:
            parts[name] = above - below
            above = below
        return parts

    @property
    def margin(self) -> float:
        """By how much the bound ``upper >= lower`` holds at least, below 0 where it fails: the
        smallest gap, over the queries and the average, in units of ``1 + |lower|``; NaN without
        queries.
        """
        # The gap of a query that the bound is not about is NaN.
        gaps = self.gap / (1.0 + np.abs(self.lower))
        gaps = gaps[~np.isnan(gaps)]
        if gaps.size == 0:
            return math.nan
        mean_upper, mean_lower = self.means
        gap_of_means = (mean_upper - mean_lower) / (1.0 + abs(mean_lower))
        return min(float(gaps.min()), gap_of_means)

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Whether no query and no average falls below its lower side.

        Args:
            tolerance: largest violation that counts as rounding, in units of ``1 + |lower|``.
        """
        return not self.margin < -tolerance

    def __repr__(self) -> str:
        n_queries = int(np.count_nonzero(~np.isnan(self.gap)))
        if n_queries == 0:
            return f"{self.name}: no query with a relevant document"
        upper, lower = self.means
        queries = counted(n_queries, "query")
        smallest_gap = np.nanmin(self.gap)
        verdict = "holds" if self.holds() else "does not hold"
        sides = f"{upper:.4g} >= {lower:.4g} on average over {queries}"
        return f"{self.name}: {sides}, the smallest gap {smallest_gap:.4g}; {verdict}"


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
    scores = numbers("scores", scores)
    offsets = check_offsets(offsets, scores.size)
    check_finite_scores(scores, offsets)
    return scores, offsets


def check_lists(lists: Labelled) -> Lists:
    """Return checked lists with float64 labels, the documents of each query adjacent.

    >>> check_lists([1, 0]).labels
    array([1., 0.])
    """
    checked = TrainingLists.of(lists)
    return dataclasses.replace(checked.lists, labels=checked.labels)


def float_labels(lists: Lists) -> F64:
    """Return the labels of lists as float64.

    >>> float_labels(Lists.of([1, 0]))
    array([1., 0.])
    """
    return np.asarray(lists.labels, np.float64)


def check_scored_lists(scores: ArrayLike, lists: Labelled) -> tuple[F64, Lists]:
    """Return scores as float64, and the checked lists of the same documents.

    >>> check_scored_lists([0.0], [1, 0])
    Traceback (most recent call last):
    tautrank.errors.DataError: scores: found length 1; expected 2, one per document
    """
    checked = check_lists(lists)
    return numbers("scores", check_finite_scores(scores, checked.offsets)), checked


def has_relevant(lists: Lists) -> Bools:
    """Return whether each query has a document with a label above 0.

    >>> has_relevant(Lists.of([0, 1, 0], [0, 2, 3]))
    array([ True, False])
    """
    return np.asarray(query_sums(lists.labels > 0, lists.offsets) > 0)


def document_pairs(offsets: I64) -> Iterator[tuple[I64, I64]]:
    """Yield all pairs of documents of the same list, many pairs at a time, as two arrays: the
    documents that come first, and the documents behind them.

    >>> [(i.tolist(), j.tolist()) for i, j in document_pairs(np.array([0, 3, 5]))]
    [([0, 0, 1, 3], [1, 2, 2, 4])]
    """
    # A document has a pair with each document behind it in its list. `offsets` are the starts of the
    # lists, and the number of documents at the end.
    n_documents = int(offsets[-1])
    ends = np.repeat(offsets[1:], np.diff(offsets))
    n_behind = ends - np.arange(1, n_documents + 1)
    # The documents are cut into blocks with about _PAIRS_AT_ONCE pairs each, to limit the memory.
    block = np.cumsum(n_behind) // _PAIRS_AT_ONCE
    starts_of_blocks = np.flatnonzero(np.diff(block)) + 1
    for documents in np.split(np.arange(n_documents), starts_of_blocks):
        n_pairs = n_behind[documents]
        first = np.repeat(documents, n_pairs)
        # Number the pairs of each first document from 0.
        starts = np.cumsum(n_pairs) - n_pairs
        pair_number = np.arange(first.size) - np.repeat(starts, n_pairs)
        yield first, first + 1 + pair_number


def sees_scores(loss: Loss) -> bool:
    """Return whether a loss adds no noise to the scores.

    >>> from tautrank.losses import loss
    >>> sees_scores(loss("listnet", noise="gumbel"))
    False
    >>> sees_scores(loss("listnet", noise="gumbel", strength=0))
    True
    """
    return loss.noise is None or loss.strength == 0


def in_scope(
    loss: Loss, scores: ArrayLike, lists: Labelled, unless: Condition
) -> tuple[F64, Lists]:
    """Return the scores and the lists that a theorem is applied to, if it is about them.

    Args:
        loss: the loss.
        scores, lists: the lists, see `tautrank.theory`.
        unless: from a loss, scores and lists to the reason why the theorem is not about them, or
            None.

    >>> from tautrank.losses import MSE
    >>> in_scope(MSE(), [0.0], [1], lambda *_: "it is about ranknet")
    Traceback (most recent call last):
    tautrank.errors.OptionError: loss: found mse; expected one that the theorem applies to: it is about ranknet
    """
    scores, lists = check_scored_lists(scores, lists)
    reason = unless(loss, scores, lists)
    if reason is not None:
        raise OptionError(f"loss: found {loss}; expected one that the theorem applies to: {reason}")
    return scores, lists
