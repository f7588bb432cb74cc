"""Check features and labels given by users: arrays, sparse matrices and frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, Array, check_each
from tautrank.data.frames import (
    check_different,
    coded,
    column_numbers,
    frame_numbers,
    frame_or_none,
    is_plain_number,
    is_type_of_categories,
)
from tautrank.data.queries import check_one_per_row
from tautrank.errors import DataError, counted

if TYPE_CHECKING:
    from tautrank.data.frames import Frame

# From here on float32 cannot tell neighbouring whole numbers apart.
_LARGE = 2.0**24
# Of frames with fewer values, a call per column would take longer than the values.
_FEW_VALUES = 2**15


class Features(NamedTuple):
    """Checked features of documents.

    Attributes:
        X: float32 or float64, dense in C order or CSR.
        names: one name per column, where the source had names.
        levels: the levels of each column of categories, by name; ``X`` has their numbers.
    """

    X: Any
    names: tuple[str, ...] | None
    levels: dict[str, tuple[str, ...]]


def checked_features(X: Any, names: Sequence[str] | None = None) -> Features:
    """Return `X` (dense in C order, or CSR), its column names where there are any, and the levels
    of categories.

    It is float32, unless that would change a value above 2^24, such as a time stamp. It is then
    float64, with such values as they are and all others rounded to float32: a value is the same in
    any data, and so is its prediction.

    Args:
        X: an array, a sparse matrix, or a frame.
        names: names of the columns; default those of the frame.
    """
    if _is_sparse(X):
        return _with_names(_sparse_values(X), names)
    frame = frame_or_none(X, "X")
    if frame is None:
        return _with_names(_dense_values(X), names)
    features = frame_features(frame, frame.columns)
    if names is None:
        return features
    renamed = _with_names(features.X, names)
    name_of_column = dict(zip(features.names or (), renamed.names or (), strict=True))
    levels = {name_of_column[column]: levels for column, levels in features.levels.items()}
    return renamed._replace(levels=levels)


def _is_sparse(X: Any) -> bool:
    """Return whether `X` is a sparse matrix of SciPy, without importing SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def frame_features(
    frame: Frame, columns: Sequence[Any], *, categorical: Collection[Any] = ()
) -> Features:
    """Return columns of a frame as features; see `checked_features`.

    Args:
        frame: the frame.
        columns: the columns to take.
        categorical: names of columns that hold categories whatever their type.
    """
    if not columns:
        raise DataError("X: found a frame without columns; expected at least one feature")
    matrix = np.empty((len(frame), len(columns)), np.float32)
    levels = {}
    types = frame.schema
    at_once = []
    for position, name in enumerate(columns):
        if name in categorical or is_type_of_categories(types[name]):
            column = frame.get_column(name)
            matrix[:, position], levels[str(name)] = coded(column)
        elif matrix.size <= _FEW_VALUES and is_plain_number(types[name]):
            at_once.append(position)
        else:
            values = column_numbers(frame.get_column(name), f"X: column '{name}'")
            matrix = _filled(matrix, position, values)
    if at_once:
        values = frame_numbers(frame, [columns[position] for position in at_once])
        matrix = _filled(matrix, at_once, values)

    def value_at(row: int, position: int) -> Any:
        return column_numbers(frame.get_column(columns[position]), "X")[row]

    _check_finite(matrix, value_at)
    return _with_names(matrix, columns)._replace(levels=levels)


def _filled(matrix: Array, positions: int | list[int], values: Array) -> Array:
    """Return the matrix with values in its columns; as one of doubles, if float32 would change
    them.
    """
    values = _as_single(values)
    if values.dtype == np.float64:
        matrix = matrix.astype(np.float64, copy=False)
    matrix[:, positions] = values
    return matrix


def _with_names(matrix: Any, names: Sequence[str] | None) -> Features:
    """Return features without categories, after checking that every column has a name of its own.

    Args:
        matrix: the features, dense or CSR.
        names: one name per column; None for none.
    """
    if names is None:
        return Features(matrix, None, {})
    n_columns = matrix.shape[1]
    if len(names) != n_columns:
        raise DataError(
            f"feature_names: found {len(names)} names; expected {n_columns}, one per column of X"
        )
    texts = tuple(str(name) for name in names)
    check_different(texts, "feature_names: found two columns")
    return Features(matrix, texts, {})


def _as_single(values: Array) -> Array:
    """Return numbers as float32; as float64 with those above 2^24 unchanged, if float32 would
    change one of them.

    >>> _as_single(np.array([2.0**24 + 1, 0.5])).tolist()
    [16777217.0, 0.5]
    >>> _as_single(np.array([2.0**24, 0.5])).dtype
    dtype('float32')
    """
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, np.float32)
    if values.size == 0 or np.can_cast(values.dtype, np.float32):
        return single
    highest, lowest = np.fmax.reduce(single, axis=None), np.fmin.reduce(single, axis=None)
    if max(highest, -lowest) < _LARGE:
        return single

    is_large = np.abs(values) > _LARGE
    is_unchanged = np.array_equal(single[is_large], values[is_large])
    if is_unchanged or np.isinf(single).any():
        return single
    double = single.astype(np.float64)
    double[is_large] = values[is_large]
    return double


def _dense_values(X: Any) -> Array:
    """Return an array of numbers, two-dimensional and finite or missing."""
    values = _numbers("X", X)
    if values.ndim != 2:
        raise DataError(
            f"X: found {counted(values.ndim, 'dimension')}; expected 2, documents by features"
        )
    matrix = _as_single(values)
    _check_finite(matrix, lambda row, column: values[row, column])
    return matrix


def _check_finite(matrix: Array, value_at: Callable[[int, int], Any]) -> None:
    """Raise an error about the first value that is infinite, or too large for float32.

    Args:
        matrix: the values as they are kept.
        value_at: function that returns the value given at a row and a column.
    """
    # Summing is one pass without temporaries: only a sum that is not finite asks for a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(matrix.sum(dtype=np.float64))
    if not is_finite and np.isinf(matrix).any():
        row, column = np.argwhere(np.isinf(matrix))[0].tolist()
        raise _infinite(row, column, value_at(row, column))


def _infinite(row: int, column: int, value: Any) -> DataError:
    """Return the error about a value that float32 cannot hold."""
    reason = ", too large for float32; expected at most 3.4e38"
    if np.isinf(value):
        reason = "; expected a finite number or NaN for missing"
    return DataError(f"X: row {row}, column {column} has the value {value}{reason}")


def _sparse_values(X: Any) -> Any:
    """Return a sparse matrix as CSR of finite numbers, each stored once."""
    matrix = X.tocsr()
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"X: found a sparse matrix of type {matrix.dtype}; expected numbers")
    from scipy.sparse import csr_matrix

    arrays = _as_single(matrix.data), matrix.indices, matrix.indptr
    single = csr_matrix(arrays, matrix.shape, copy=False)
    if matrix.has_canonical_format is False:
        single = single.copy()
        single.sum_duplicates()

    is_infinite = np.isinf(single.data)
    if is_infinite.any():
        entry = int(np.argmax(is_infinite))
        row = int(np.searchsorted(single.indptr, entry, side="right")) - 1
        column = int(single.indices[entry])
        raise _infinite(row, column, matrix[row, column])
    return single


def _numbers(name: str, values: Any) -> Array:
    """Return an array of numbers of their own type.

    Args:
        name: the argument's name.
        values: the argument; objects are read as doubles.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            _refuse_words(name, array)
            array = array.astype(np.float64)
    except DataError:  # it is a ValueError too
        raise
    except (TypeError, ValueError):
        raise DataError(
            f"{name}: cannot be read as an array of numbers; "
            "expected numbers in rows of equal length"
        ) from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: found values of type {array.dtype}; expected numbers")
    return array


def _refuse_words(name: str, objects: Array) -> None:
    """Raise an error about the first row that is text, so that text such as '1' is no number."""
    if objects.ndim != 1:
        return
    for row, value in enumerate(objects):
        if isinstance(value, str):
            raise DataError(f"{name}: row {row} is '{value}'; expected numbers")


def checked_labels(y: Any, n_rows: int, name: str = "y") -> F32:
    """Return labels as float32 after checking that each is a finite number of at least 0.

    Args:
        y: the argument.
        n_rows: number of rows of `X`.
        name: what errors call the labels.
    """
    values = _numbers(name, y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    check_one_per_row(name, values, n_rows, "label")
    with np.errstate(over="ignore"):
        labels = np.ascontiguousarray(values, np.float32) + np.float32(0)  # -0 becomes 0
    is_label = np.isfinite(labels) & (labels >= 0)
    check_each(name, values, is_label, "a finite number of at least 0")
    return labels
