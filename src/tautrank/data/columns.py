"""Columns of tables: their numbers or categories, and the same columns in several files.

The codes of categories stand in the features, their levels are kept by column name. Tables are
aligned by name, LETOR text by padding with zeros.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.errors import DataError, TautrankWarning, counted, unknown

if TYPE_CHECKING:
    from tautrank.data.ranking_data import RankingData

Levels = Mapping[str, tuple[str, ...]]
"""The levels of each column of categories; level number ``i`` has the code ``i``."""

_KINDS = ("category", "Categorical", "Enum", "dictionary")


def is_categorical(column: Any) -> bool:
    """Return whether a column of pandas, Polars or Arrow has a type of categories."""
    return str(getattr(column, "dtype", getattr(column, "type", ""))).startswith(_KINDS)


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


def with_levels(data: RankingData, levels: Levels, where: str) -> RankingData:
    """Return the same documents with the codes of other levels; values that are not among them
    become missing.

    Args:
        data: the documents.
        levels: the levels of the same columns.
        where: what the data is called in errors.
    """
    if data.categories == levels:
        return data
    for name in sorted({*levels} ^ {*data.categories}):
        kinds = ("numbers", "categories") if name in levels else ("categories", "numbers")
        raise DataError(
            f"{where}: column '{name}' holds {kinds[0]}; expected {kinds[1]}, as in the training data"
        )
    X = data.X.copy()
    for name, known in levels.items():
        codes = {level: code for code, level in enumerate(known)}
        # The last one is for missing values.
        new = np.array([codes.get(level, np.nan) for level in data.categories[name]] + [np.nan])
        column = (data.feature_names or ()).index(name)
        X[:, column] = new[np.nan_to_num(X[:, column], nan=-1.0).astype(np.int64)]
    return dataclasses.replace(data, X=X, categories=levels)


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


def empty_cells(column: Any) -> int:
    """Return how many values of a column of pandas, Polars or PyArrow are missing."""
    found = column.null_count if hasattr(column, "null_count") else column.isna().sum
    return int(found() if callable(found) else found)


def is_numeric(column: Any) -> bool:
    """Return whether a column of pandas, Polars or PyArrow holds numbers, or has a type of
    categories.
    """
    try:
        return is_categorical(column) or column_numbers(column[:1], "") is not None
    except DataError:
        return False


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


def with_columns(data: RankingData, names: Sequence[str], path: Path) -> RankingData:
    """Return the same documents with these columns in this order, found by name; a warning names
    columns left out.

    Args:
        data: data from a table.
        names: names of the features that were trained on.
        path: the table's path, for errors.
    """
    found = list(data.feature_names or ())
    if found == list(names):
        return data
    missing = [name for name in names if name not in found]
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise DataError(
            f"{path}: found no column '{missing[0]}'{more}; expected every feature that was trained on"
        )
    extra = [name for name in found if name not in set(names)]
    if extra:
        listed = ", ".join(f"'{name}'" for name in extra[:3]) + (", ..." if len(extra) > 3 else "")
        warnings.warn(
            f"{path}: left out {listed}, which was not trained on", TautrankWarning, stacklevel=2
        )
    columns = [found.index(name) for name in names]
    levels = {name: data.categories[name] for name in names if name in data.categories}
    return dataclasses.replace(
        data, X=data.X[:, columns], feature_names=tuple(names), categories=levels
    )


def set_aside(data: RankingData, name: str, where: str) -> tuple[RankingData, Array]:
    """Return data without a column, and the column: one number per row of the source.

    Args:
        data: data from a table.
        name: name of the column.
        where: what is wrong if there is no such column.

    >>> from tautrank.data import RankingData
    >>> data = RankingData.from_arrays([[1.0, 0.5], [2.0, 0.5]], [0, 1], group=[2], feature_names=["a", "w"])
    >>> rest, weights = set_aside(data, "w", "--weights")
    >>> rest.feature_names, weights.tolist()
    (('a',), [0.5, 0.5])
    """
    names = data.feature_names or ()
    if name not in names:
        raise DataError(
            f"{where}: {unknown('column of numbers', name, names) if names else 'expected a table'}"
        )
    at = names.index(name)
    kept = [column for column in range(len(names)) if column != at]
    rest = dataclasses.replace(
        data, X=data.X[:, kept], feature_names=tuple(names[column] for column in kept)
    )
    return rest, data.in_source_order(data.X[:, at])


def same_columns(parts: Sequence[RankingData], paths: Sequence[Path]) -> list[RankingData]:
    """Give all files of a data set the columns of the first, or the width of the widest where there
    are no names.

    Args:
        parts: the data of the files, the training data first.
        paths: the files' paths, for errors.
    """
    names, width = parts[0].feature_names, max(part.n_features for part in parts)
    return [
        (with_columns(part, names, path) if names else part)
        if part.feature_names
        else part.with_n_features(width)
        for part, path in zip(parts, paths, strict=True)
    ]


def columns_of_model(
    data: RankingData, n_features: int, names: Sequence[str] | None, path: Path
) -> RankingData:
    """Return data with the columns that a model was trained on.

    Args:
        data: the data of the file.
        n_features: number of features of the model.
        names: names of the model's features, where it has names.
        path: the file's path, for errors.
    """
    if data.feature_names:
        return data if names is None else with_columns(data, names, path)
    if data.n_features > n_features:
        raise DataError(
            f"{path}: found {counted(data.n_features, 'feature')}; expected {n_features}, as in fit"
        )
    if data.n_features < n_features:
        note = f"found {counted(data.n_features, 'feature')}, the model has {n_features}; the others are taken as 0"
        warnings.warn(f"{path}: {note}", TautrankWarning, stacklevel=2)
    return data.with_n_features(n_features)
