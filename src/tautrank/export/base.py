"""What the writer of a format is given, and its numbers as another system has them.

Thresholds and leaves are written such that every document goes the same way.
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass

import numpy as np

from tautrank.arrays import F32, F64
from tautrank.engines import FittedModel
from tautrank.engines.trees import Tree
from tautrank.errors import DataError, TautrankWarning
from tautrank.ranker.list_features import ListFeatures

_MOST_NAMED = 3
# What Solr adds to every threshold, in float32.
SOLR_SLACK = np.float32(1e-6)


@dataclass(frozen=True, eq=False)
class Export:
    """One model to be written in one format.

    Args:
        format: name of the format.
        model: the fitted model.
        names: names of its features, in the order of the columns.
        named: whether these names are known; if not, they are ``f1``, ``f2``, ...
        name: name of the model.
        store: feature store, for Solr; None for the default one.
        lists: its list features, for formats that can express them; None if it has none.
        directions: whether missing values go where each split says, for OpenSearch.
    """

    format: str
    model: FittedModel
    names: tuple[str, ...]
    named: bool
    name: str
    store: str | None = None
    lists: ListFeatures | None = None
    directions: bool = False

    @functools.cached_property
    def trees(self) -> list[Tree]:
        """The trees as plain arrays; one tree of 0 where there are none, which no system reads."""
        return self.model.trees() or [Tree.constant(0.0)]

    @property
    def depends_on_missing(self) -> str:
        """The features whose missing values go elsewhere than 0, for a sentence; empty if there are none."""
        columns = sorted({int(column) for tree in self.trees for column in tree.feature[tree.depends_on_missing]})
        named = ", ".join(f"'{self.names[column]}'" for column in columns[:_MOST_NAMED])
        return named + (f" and {len(columns) - _MOST_NAMED} more features" if len(columns) > _MOST_NAMED else "")

    def warn_of_missing(self, effect: str) -> None:
        """Warn if the model distinguishes missing values from 0.

        Args:
            effect: what the other system does, for the sentence.
        """
        if self.depends_on_missing:
            self.warn(f"the model tells missing values of {self.depends_on_missing} from 0, {effect}")

    def warn(self, sentence: str) -> None:
        """Warn about what the other system does differently.

        Args:
            sentence: the text after the name of the format.
        """
        warnings.warn(f"{self.format}: {sentence}", TautrankWarning, stacklevel=4)


def greatest_float32(thresholds: F64) -> F32:
    """Return the greatest float32 not above each threshold: for float32 values ``<=`` means the same with either.

    Rounding to the nearest could send a value left that lies between the two.

    Args:
        thresholds: doubles.

    >>> low = greatest_float32(np.array([0.1, 0.5, 1e300]))
    >>> low[0] < np.float32(0.1), low[1], low[2] == np.finfo(np.float32).max
    (np.True_, np.float32(0.5), np.True_)
    """
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-math.inf)), nearest)


def solr_thresholds(thresholds: F64) -> tuple[F32, F32]:
    """Return what to write for Solr, and the thresholds it compares with: the former plus `SOLR_SLACK`, in float32.

    They are those of `greatest_float32`, except near 0 and below powers of two, where no float32 plus the slack gives
    that number; there it is the next one below that can be reached. 0 can be reached, so it stays on its side of every
    threshold.

    Args:
        thresholds: doubles.

    >>> written, compared = solr_thresholds(np.array([0.5, 0.0]))
    >>> written, compared
    (array([ 4.99999e-01, -1.00000e-06], dtype=float32), array([0.5, 0. ], dtype=float32))
    """
    wanted = greatest_float32(thresholds)
    # The subtraction is rounded: the number looked for may be next to it.
    near = wanted - SOLR_SLACK
    best, reached = np.full_like(wanted, -math.inf), np.full_like(wanted, -math.inf)
    with np.errstate(over="ignore"):
        for end in (math.inf, -math.inf):
            written = near
            for _ in range(3):
                sums = written + SOLR_SLACK
                better = (sums <= wanted) & (sums > reached)
                best, reached = np.where(better, written, best), np.where(better, sums, reached)
                written = np.nextafter(written, np.float32(end))
    return best, reached


def float32_leaves(leaves: F64) -> F32:
    """Return leaves as the nearest float32.

    Args:
        leaves: doubles.

    >>> float32_leaves(np.array([1e39]))
    Traceback (most recent call last):
    tautrank.errors.DataError: model: a leaf adds 1e+39 to the score; expected at most 3.4e+38, the largest float32
    """
    with np.errstate(over="ignore"):
        single = leaves.astype(np.float32)
    wrong = ~np.isfinite(single)
    if wrong.any():
        raise DataError(
            f"model: a leaf adds {leaves[wrong][0]:g} to the score; expected at most 3.4e+38, the largest float32"
        )
    return single


def float32_text(number: np.float32) -> str:
    """Return the shortest text that Java's ``Float.parseFloat`` reads as the same float32.

    Args:
        number: any float32 but NaN.

    >>> float32_text(np.float32(0.1)), float32_text(np.float32("-inf"))
    ('0.1', '-Infinity')
    """
    return str(number) if np.isfinite(number) else ("Infinity" if number > 0 else "-Infinity")
