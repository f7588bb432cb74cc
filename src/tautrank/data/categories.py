"""Columns of categories: their codes stand in the features, their levels are kept by column name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arrays import F64
from tautrank.errors import DataError

if TYPE_CHECKING:
    from tautrank.data.ranking_data import RankingData

Levels = Mapping[str, tuple[str, ...]]
"""The levels of each column of categories; level number ``i`` has the code ``i``."""

_KINDS = ("category", "Categorical", "Enum", "dictionary")


def is_categorical(column: Any) -> bool:
    """Return whether a column of pandas, Polars or Arrow has a type of categories."""
    return str(getattr(column, "dtype", getattr(column, "type", ""))).startswith(_KINDS)


def coded(column: Any) -> tuple[F64, tuple[str, ...]]:
    """Return the codes of a column, NaN where it has no value or empty text, and its levels as text.

    A category of pandas keeps its levels in their order, as in LightGBM; any other column has those that occur, sorted.

    Args:
        column: a column of pandas, Polars or Arrow, of any type.

    >>> import pandas as pd
    >>> coded(pd.Series(["b", None, "a"])), coded(pd.Series([2, 1], dtype="category"))
    ((array([ 1., nan,  0.]), ('a', 'b')), (array([1., 0.]), ('1', '2')))
    """
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):
        codes = np.array(column.cat.codes, np.float64)
        codes[codes < 0] = np.nan
        return codes, tuple(map(level_text, column.cat.categories.tolist()))
    if hasattr(column, "isna"):
        column = column.astype(object).where(column.notna(), None)
    values = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    texts = [None if value in (None, "") or value != value else level_text(value) for value in values]
    levels = tuple(sorted({text for text in texts if text is not None}))
    numbers = {level: code for code, level in enumerate(levels)}
    return np.array([np.nan if text is None else numbers[text] for text in texts], np.float64), levels


def level_text(level: Any) -> str:
    """Write a level as text: the same for a number in a file, in a frame and in a model.

    >>> level_text(3.0), level_text("red")
    ('3', 'red')
    """
    # A column of whole numbers with a gap becomes one of floats: 3.0 is the level 3.
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)


def with_levels(data: RankingData, levels: Levels, where: str) -> RankingData:
    """Return the same documents with the codes of other levels; values that are not among them become missing.

    Args:
        data: the documents.
        levels: the levels of the same columns.
        where: what the data is called in errors.
    """
    if data.categories == levels:
        return data
    for name in sorted({*levels} ^ {*data.categories}):
        kinds = ("numbers", "categories") if name in levels else ("categories", "numbers")
        raise DataError(f"{where}: column '{name}' holds {kinds[0]}; expected {kinds[1]}, as in the training data")
    X = data.X.copy()
    for name, known in levels.items():
        codes = {level: code for code, level in enumerate(known)}
        # The last one is for missing values.
        new = np.array([codes.get(level, np.nan) for level in data.categories[name]] + [np.nan])
        column = (data.feature_names or ()).index(name)
        X[:, column] = new[np.nan_to_num(X[:, column], nan=-1.0).astype(np.int64)]
    return dataclasses.replace(data, X=X, categories=levels)
