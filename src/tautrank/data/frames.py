"""Columns of tables: their names, their numbers, and their categories as codes and levels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tautrank.arrays import F64
from tautrank.errors import DataError

Levels = Mapping[str, tuple[str, ...]]
"""The levels of each column of categories; level number ``i`` has the code ``i``."""

_KINDS = ("category", "Categorical", "Enum", "dictionary")


def column_names(frame: Any, where: str) -> list[str]:
    """Return the names of the columns of a pandas or Polars frame, or an Arrow table, each of them
    once.
    """
    if not hasattr(frame, "columns"):
        raise DataError(
            f"{where}: found {type(frame).__name__}; expected a pandas or Polars frame, or an Arrow table"
        )
    names = list(getattr(frame, "column_names", frame.columns))
    check_different(names, f"{where}: found two columns")
    return names


def check_different(names: Sequence[Any], found: str) -> None:
    """Raise an error, which says what was found, about the first name that is there twice."""
    if repeated := [name for name, times in Counter(names).items() if times > 1]:
        raise DataError(f"{found} '{repeated[0]}'; expected every name once")


def is_numeric(column: Any) -> bool:
    """Return whether a column of pandas, Polars or PyArrow holds numbers, or has a type of
    categories.
    """
    try:
        return is_categorical(column) or column_numbers(column[:1], "") is not None
    except DataError:
        return False


def is_categorical(column: Any) -> bool:
    """Return whether a column of pandas, Polars or Arrow has a type of categories."""
    return str(getattr(column, "dtype", getattr(column, "type", ""))).startswith(_KINDS)


def column_numbers(column: Any, place: str) -> F64:
    """Return a numeric column of pandas, Polars or PyArrow as doubles; null, None and pandas' NA
    become NaN.

    Args:
        column: the column.
        place: where it stands, for errors.
    """
    kind = column.dtype if hasattr(column, "dtype") else str(column.type)
    if isinstance(kind, str):  # PyArrow
        numeric = (
            kind == "null"
            or re.fullmatch(r"u?int\d+|halffloat|float|double|bool", kind) is not None
        )
    elif is_polars := hasattr(kind, "is_numeric"):
        numeric = kind.is_numeric() or str(kind) == "Boolean"
    else:
        numeric = getattr(kind, "kind", "O") in "fiub"
    if not numeric:
        raise DataError(f"{place} has the type {kind}; expected numbers")
    if isinstance(kind, str):
        return (
            np.full(len(column), np.nan)
            if kind == "null"
            else np.asarray(column.cast("double"), np.float64)
        )
    return np.asarray(
        column.to_numpy() if is_polars else column.to_numpy(np.float64, na_value=np.nan), np.float64
    )


def empty_cells(column: Any) -> int:
    """Return how many values of a column of pandas, Polars or PyArrow are missing."""
    found = column.null_count if hasattr(column, "null_count") else column.isna().sum
    return int(found() if callable(found) else found)


def coded(column: Any) -> tuple[F64, tuple[str, ...]]:
    """Return the codes of a column, NaN where it has no value or empty text, and its levels as
    text.

    A category of pandas keeps its levels in their order, as in LightGBM; any other column has those
    that occur, sorted.

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
    texts = [
        None if value in (None, "") or value != value else level_text(value) for value in values
    ]
    levels = tuple(sorted({text for text in texts if text is not None}))
    numbers = {level: code for code, level in enumerate(levels)}
    return np.array(
        [np.nan if text is None else numbers[text] for text in texts], np.float64
    ), levels


def level_text(level: Any) -> str:
    """Write a level as text: the same for a number in a file, in a frame and in a model.

    >>> level_text(3.0), level_text("red")
    ('3', 'red')
    """
    # A column of whole numbers with a gap becomes one of floats: 3.0 is the level 3.
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
