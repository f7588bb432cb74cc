"""What the writers of all formats are given, and numbers and trees as other systems have them.

Thresholds and leaves are written such that every document goes the same way.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, F64
from tautrank.engines import FittedModel
from tautrank.engines.trees import Tree
from tautrank.errors import DataError, TautrankWarning

if TYPE_CHECKING:
    from tautrank.ranker.list_features import ListFeatures

_NAMES_IN_WARNING = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Export:
    """One model to be written in one format.

    Args:
        format: name of the format.
        model: the fitted model.
        names: names of its features, in the order of the columns.
        has_known_names: whether these names are known; if not, they are ``f1``, ``f2``, ...
        name: name of the model.
        store: feature store, for Solr; None for the default one.
        list_features: its list features, for formats that can express them; None if it has none.
        directions: whether missing values go where each split says, for OpenSearch.
    """

    format: str
    model: FittedModel
    names: tuple[str, ...]
    has_known_names: bool
    name: str
    store: str | None = None
    list_features: ListFeatures | None = None
    directions: bool = False

    @functools.cached_property
    def trees(self) -> list[Tree]:
        """The trees as plain arrays; one tree of 0 where there are none, which no system reads."""
        return self.model.trees() or [Tree.constant(0.0)]

    @functools.cached_property
    def features_with_missing(self) -> str:
        """The names of the features for which some tree sends a missing value elsewhere than a 0,
        as text for a warning; empty if there are none.
        """
        columns: set[int] = set()
        for tree in self.trees:
            columns.update(tree.feature[tree.depends_on_missing].tolist())
        names = [f"'{self.names[column]}'" for column in sorted(columns)]
        text = ", ".join(names[:_NAMES_IN_WARNING])
        if len(names) > _NAMES_IN_WARNING:
            text += f" and {len(names) - _NAMES_IN_WARNING} more features"
        return text

    def warn_of_missing(self, effect: str) -> None:
        """Warn if the model distinguishes missing values from 0.

        Args:
            effect: what the other system does, for the sentence.
        """
        if self.features_with_missing:
            self.warn(
                f"the model tells missing values of {self.features_with_missing} from 0, {effect}"
            )

    def warn(self, sentence: str) -> None:
        """Warn about what the other system does differently.

        Args:
            sentence: the text after the name of the format.
        """
        warnings.warn(f"{self.format}: {sentence}", TautrankWarning, stacklevel=4)


def float32_leaves(leaves: F64) -> F32:
    """Return the values of leaves rounded to the nearest float32; refuse one that is too large for
    it.

    >>> float32_leaves(np.array([1e39]))
    Traceback (most recent call last):
    tautrank.errors.DataError: model: a leaf adds 1e+39 to the score; expected at most 3.4e+38, the largest float32
    """
    # Too large a number becomes infinite, which is an error below instead of NumPy's warning.
    with np.errstate(over="ignore"):
        rounded = leaves.astype(np.float32)
    is_too_large = ~np.isfinite(rounded)
    if is_too_large.any():
        raise DataError(
            f"model: a leaf adds {leaves[is_too_large][0]:g} to the score; "
            "expected at most 3.4e+38, the largest float32"
        )
    return rounded


def float32_text(number: np.float32) -> str:
    """Return the shortest text that Java's ``Float.parseFloat`` reads as the same float32, which is
    not NaN.

    >>> float32_text(np.float32(0.1)), float32_text(np.float32("-inf"))
    ('0.1', '-Infinity')
    """
    if np.isfinite(number):
        return str(number)
    return "Infinity" if number > 0 else "-Infinity"


class Brackets(NamedTuple):
    """What encloses the children of a split in JSON: the text before the left one, between the two,
    and after the right one.
    """

    before: str
    between: str
    after: str


def nested_json(
    tree: Tree,
    brackets: Brackets,
    describe_split: Callable[[int, int], dict[str, Any]],
    describe_leaf: Callable[[int], dict[str, Any]],
) -> str:
    """Return a decision tree as JSON text, an object per node, in which every split holds its
    children.

    Args:
        tree: the tree.
        brackets: the texts before, between and behind the children of a split.
        describe_split: from the number of a split and its depth to the entries of its object but
            the children.
        describe_leaf: from the number of a leaf to its object.
    """

    def texts_of_split(split: int, depth: int) -> tuple[str, str, str]:
        text = json.dumps(describe_split(split, depth), ensure_ascii=False)
        # The children come before the closing brace.
        without_brace = text[:-1]
        return without_brace + brackets.before, brackets.between, brackets.after

    def text_of_leaf(leaf: int, depth: int) -> str:
        return json.dumps(describe_leaf(leaf))

    return tree.nested_text(texts_of_split, text_of_leaf)
