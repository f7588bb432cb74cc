"""What is said when a system cannot send missing values where the model sends them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from tautrank.errors import TautrankWarning
from tautrank.export.trees import Tree

_MOST_NAMED = 3


def features_that_depend_on_missing(trees: Sequence[Tree], names: Sequence[str]) -> str:
    """The features whose missing values go elsewhere than 0, for a sentence; empty if there are none.

    Args:
        trees: of the model.
        names: of its features.

    >>> import numpy as np
    >>> tree = Tree(*(np.array(a) for a in ([1], [0.5], [False], [~0], [~1], [-1.0, 1.0])))
    >>> features_that_depend_on_missing([tree], ["title", "price"])
    "'price'"
    """
    columns = sorted({int(column) for tree in trees for column in tree.feature[tree.depends_on_missing]})
    named = ", ".join(f"'{names[column]}'" for column in columns[:_MOST_NAMED])
    return named + (f" and {len(columns) - _MOST_NAMED} more features" if len(columns) > _MOST_NAMED else "")


def warn_of_missing(trees: Sequence[Tree], names: Sequence[str], system: str, does: str) -> None:
    """Warn if the model tells missing values from 0.

    Args:
        trees: of the model.
        names: of its features.
        system: the format.
        does: what the system does with missing values.
    """
    features = features_that_depend_on_missing(trees, names)
    if features:
        say(f"{system}: the model tells missing values of {features} from 0, and {does}")


def say(sentence: str) -> None:
    """Warn of what the other system will do differently.

    Args:
        sentence: what to know.
    """
    warnings.warn(sentence, TautrankWarning, stacklevel=4)
