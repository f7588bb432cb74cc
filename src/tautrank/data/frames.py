"""Frames of any library that narwhals knows (pandas, Polars, PyArrow, DuckDB, Ibis, Modin, ...):
their columns as numbers, or as codes and levels of categories.

narwhals is imported when the first object arrives that is neither an array nor a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.errors import DataError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

    Frame: TypeAlias = nw.DataFrame[Any]
    Column: TypeAlias = nw.Series[Any]

Levels = Mapping[str, tuple[str, ...]]
"""The levels of each column of categories; level number ``i`` has the code ``i``."""


def as_frame(table: Any, where: str) -> Frame:
    """Return a table as a frame of narwhals, or raise an error that names what was found instead.

    Args:
        table: a frame of any library that narwhals knows; a lazy one is collected.
        where: what errors call it.
    """
    frame = frame_or_none(table, where)
    if frame is None:
        raise DataError(
            f"{where}: found {type(table).__name__}; "
            "expected a pandas or Polars frame, or an Arrow table"
        )
    return frame


def frame_or_none(table: Any, where: str) -> Frame | None:
    """Return a table of any library as a frame of narwhals (which wraps them all); None for arrays,
    lists and other things that are no table.

    >>> import pandas as pd
    >>> frame_or_none(pd.DataFrame({"a": [1]}), "X").columns, frame_or_none([[1]], "X")
    (['a'], None)
    """
    if isinstance(table, (np.ndarray, list, tuple)):
        return None
    import narwhals.stable.v2 as nw

    try:
        # pass_through: what narwhals does not know comes back unchanged.
        frame: Any = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError:
        check_different(_native_names(table), f"{where}: found two columns")
        raise
    if isinstance(frame, nw.LazyFrame):  # a query that has not been run yet
        return frame.collect()
    if isinstance(frame, nw.DataFrame):
        return frame
    if _is_arrow_batch(table):
        return nw.from_arrow(table, backend="pyarrow")
    return None


def _native_names(table: Any) -> list[Any]:
    """Return the names of the columns of a frame that narwhals refuses."""
    # `columns` of an Arrow table are the columns themselves.
    return list(getattr(table, "column_names", table.columns))


def _is_arrow_batch(table: Any) -> bool:
    """Return whether a table is a record batch of Arrow, which narwhals takes by another function.

    Arrow's arrays offer the same stream, but have no schema.
    """
    return hasattr(table, "__arrow_c_stream__") and hasattr(table, "schema")


def check_different(names: Sequence[Any], problem: str) -> None:
    """Raise an error about the first name that occurs more than once.

    Args:
        names: the names.
        problem: how the error begins.
    """
    count_by_name = Counter(names)
    repeated = [name for name, count in count_by_name.items() if count > 1]
    if repeated:
        raise DataError(f"{problem} '{repeated[0]}'; expected every name once")


def is_type_of_categories(dtype: Any) -> bool:
    """Return whether a type of narwhals is one of categories."""
    import narwhals.stable.v2 as nw

    return isinstance(dtype, (nw.Categorical, nw.Enum))


def is_plain_number(dtype: Any) -> bool:
    """Return whether a type of narwhals is one of floats or integers."""
    return bool(dtype.is_float() or dtype.is_integer())


def is_numeric(column: Column) -> bool:
    """Return whether a column holds numbers, truth values or categories, or no value at all."""
    import narwhals.stable.v2 as nw

    dtype = column.dtype
    if dtype.is_numeric() or dtype == nw.Boolean or is_type_of_categories(dtype):
        return True
    # narwhals does not know the type of every column: then the values decide.
    return dtype == nw.Unknown and _has_numbers_inside(column)


def _has_numbers_inside(column: Column) -> bool:
    """Return whether a column of a type that narwhals does not know can be read as numbers."""
    if column.null_count() == len(column):
        return True  # Arrow's column of nulls
    # For example a sparse column of pandas.
    return column.to_numpy().dtype.kind in "fiub"


def frame_numbers(frame: Frame, names: Sequence[str]) -> Array:
    """Return columns of floats or integers of a frame as one matrix, NaN where a value is missing.

    Args:
        frame: the frame.
        names: names of the columns, in the order of the matrix.
    """
    if list(names) != frame.columns:
        # By position, since names of columns may be numbers in pandas.
        positions = [frame.columns.index(name) for name in names]
        frame = frame[:, positions]
    values = frame.to_numpy()
    # Objects: numbers with None for missing values, which becomes NaN.
    return values.astype(np.float64) if values.dtype == object else values


def column_numbers(column: Column, where: str) -> F64:
    """Return a column of numbers as doubles, NaN where a value is missing; raise an error for text,
    dates and categories.

    Args:
        column: the column.
        where: what errors call the column.
    """
    import narwhals.stable.v2 as nw

    dtype = column.dtype
    if is_plain_number(dtype):
        return np.asarray(column.to_numpy(), np.float64)
    if is_type_of_categories(dtype) or not is_numeric(column):
        raise DataError(f"{where} has the type {_native_type(column)}; expected numbers")
    if dtype == nw.Unknown:
        return np.array(column.to_list(), np.float64)  # None becomes NaN
    return np.asarray(column.cast(nw.Float64).to_numpy(), np.float64)


def _native_type(column: Column) -> str:
    """Return the type of a column as its own library writes it."""
    native = column.to_native()
    return str(native.type if column.implementation.is_pyarrow() else native.dtype)


def coded(column: Column) -> tuple[F64, tuple[str, ...]]:
    """Turn a column of categories into numbers: return the code of each value, and the levels, the
    distinct values as text; a value of code ``i`` is level number ``i``.

    The code is NaN where a value is missing or empty text. A category of pandas keeps its levels in
    their order, as in LightGBM; any other column has the values that occur, sorted.

    >>> import pandas as pd
    >>> frame = as_frame(pd.DataFrame({"a": ["b", None, "a"], "b": pd.Categorical([2, 1, 2])}), "X")
    >>> coded(frame["a"]), coded(frame["b"])
    ((array([ 1., nan,  0.]), ('a', 'b')), (array([1., 0., 1.]), ('1', '2')))
    """
    native = column.to_native()
    is_pandas = column.implementation.is_pandas_like()
    if is_pandas and str(native.dtype) == "category":
        codes = np.array(native.cat.codes, np.float64)
        codes[codes < 0] = np.nan  # pandas writes a missing value as -1
        levels = tuple(level_text(level) for level in native.cat.categories.tolist())
        return codes, levels

    texts = _cell_texts(column)
    distinct_texts = {text for text in texts if text is not None}
    levels = tuple(sorted(distinct_texts))
    code_by_text: dict[str | None, float] = {level: code for code, level in enumerate(levels)}
    code_by_text[None] = np.nan
    codes = np.array([code_by_text[text] for text in texts], np.float64)
    return codes, levels


def _cell_texts(column: Column) -> list[str | None]:
    """Return the values of a column as text, None where a value is missing, NaN or empty text."""
    texts: list[str | None] = []
    null_flags = column.is_null().to_list()
    for value, is_null in zip(column.to_list(), null_flags, strict=True):
        is_nan = value != value  # only NaN differs from itself
        if is_null or value == "" or is_nan:
            texts.append(None)
        else:
            texts.append(level_text(value))  # the text by which a category is known
    return texts


def level_text(level: Any) -> str:
    """Write a level as text: the same for a number in a file, in a frame and in a model.

    >>> level_text(3.0), level_text("red")
    ('3', 'red')
    """
    # A column of whole numbers with a gap becomes one of floats: 3.0 is the level 3.
    if isinstance(level, float) and level.is_integer():
        return str(int(level))
    return str(level)
