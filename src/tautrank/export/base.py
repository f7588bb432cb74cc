"""What the writer of a format is given, and what a format is."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass

from tautrank.engines import FittedModel
from tautrank.engines.trees import Tree
from tautrank.errors import TautrankWarning
from tautrank.ranker.list_features import ListFeatures

_MOST_NAMED = 3


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
