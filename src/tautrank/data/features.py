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
_EXACT_BELOW = 2.0**24
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
    """Check a feature matrix given by a user, and return it dense in C order or as CSR, with the
    names of its columns and the levels (distinct values) of columns of categories.

    The matrix is float32, unless that would change a value above 2^24, such as a time stamp. Then
    it is float64, with such values unchanged and all others rounded to float32: so a value is the
    same number in all data, and its prediction is too.

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
    # The user's names replace those of the frame, also as keys of the levels.
    renamed = _with_names(features.X, names)
    new_name_of = dict(zip(features.names or (), renamed.names or (), strict=True))
    levels = {}
    for name_in_frame, levels_of_column in features.levels.items():
        levels[new_name_of[name_in_frame]] = levels_of_column
    return renamed._replace(levels=levels)


def _is_sparse(X: Any) -> bool:
    """Return whether `X` is a sparse matrix of SciPy, without importing SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def frame_features(
    frame: Frame, columns: Sequence[Any], *, categorical: Collection[Any] = ()
) -> Features:
    """Return columns of a data frame as one matrix of numbers; a category becomes the number of its
    level (distinct value).

    Args:
        frame: the frame.
        columns: names of the columns to take, in this order.
        categorical: names of columns that hold categories whatever their type.
    """
    if not columns:
        raise DataError("X: found a frame without columns; expected at least one feature")
    matrix = np.empty((len(frame), len(columns)), np.float32)
    levels = {}
    types = frame.schema
    plain_positions = []  # columns of a small frame that are read by one call
    for position, name in enumerate(columns):
        if name in categorical or is_type_of_categories(types[name]):
            codes, levels_of_column = coded(frame.get_column(name))
            matrix[:, position] = codes
            levels[str(name)] = levels_of_column
        elif matrix.size <= _FEW_VALUES and is_plain_number(types[name]):
            plain_positions.append(position)
        else:
            values = column_numbers(frame.get_column(name), f"X: column '{name}'")
            matrix = _fill_columns(matrix, position, values)
    if plain_positions:
        plain_columns = [columns[position] for position in plain_positions]
        values = frame_numbers(frame, plain_columns)
        matrix = _fill_columns(matrix, plain_positions, values)

    def value_at(row: int, position: int) -> Any:
        return column_numbers(frame.get_column(columns[position]), "X")[row]

    _check_finite(matrix, value_at)
    return _with_names(matrix, columns)._replace(levels=levels)


def _fill_columns(matrix: Array, positions: int | list[int], values: Array) -> Array:
    """Write values into columns of a float32 matrix, in place, and return it; if float32 would
    change one of the values, return a float64 copy with them instead.
    """
    values = _as_single(values)  # float32, or float64 where that would change a value
    if values.dtype == np.float64:
        matrix = matrix.astype(np.float64, copy=False)
    matrix[:, positions] = values
    return matrix


def _with_names(matrix: Any, names: Sequence[str] | None) -> Features:
    """Return a feature matrix with the names of its columns, after checking that there is one name
    per column and no name twice.

    Args:
        matrix: the features, dense or CSR, without categories.
        names: one name per column; None if they have no names.
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
    # Small integers and half precision fit into float32 whatever their values.
    loses_nothing = np.can_cast(values.dtype, np.float32)
    if values.size == 0 or loses_nothing:
        return single
    highest = np.fmax.reduce(single, axis=None)  # fmax and fmin leave NaN out
    lowest = np.fmin.reduce(single, axis=None)
    if max(highest, -lowest) < _EXACT_BELOW:  # 2^24: whole numbers below are exact in float32
        return single

    is_large = np.abs(values) > _EXACT_BELOW
    are_unchanged = np.array_equal(single[is_large], values[is_large])
    has_infinity = np.isinf(single).any()  # an error in the next check
    if are_unchanged or has_infinity:
        return single
    double = single.astype(np.float64)
    double[is_large] = values[is_large]
    return double


def _dense_values(X: Any) -> Array:
    """Return a feature matrix given as an array or nested lists, after checking that it has two
    dimensions and no infinite value; NaN is a missing value.
    """
    values = _read_numbers("X", X)
    if values.ndim != 2:
        raise DataError(
            f"X: found {counted(values.ndim, 'dimension')}; expected 2, documents by features"
        )
    matrix = _as_single(values)  # float32, or float64 where that would change a value
    _check_finite(matrix, lambda row, column: values[row, column])
    return matrix


def _check_finite(matrix: Array, value_at: Callable[[int, int], Any]) -> None:
    """Raise an error about the first feature that is infinite, or too large for float32.

    Args:
        matrix: the features after conversion, in which values that are too large became infinite.
        value_at: function of a row and a column that returns the value before conversion, for the
            error.
    """
    # Summing is one pass without temporaries: only a sum that is not finite asks for a closer look,
    # since it may come from NaN, which is allowed, as well as from an infinite value.
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(matrix.sum(dtype=np.float64))
    if is_finite:
        return
    infinite_cells = np.argwhere(np.isinf(matrix))
    if infinite_cells.size > 0:
        row, column = infinite_cells[0].tolist()
        raise _error_of_infinite(row, column, value_at(row, column))


def _error_of_infinite(row: int, column: int, value: Any) -> DataError:
    """Return the error about a feature that is infinite, or too large for float32."""
    reason = ", too large for float32; expected at most 3.4e38"
    if np.isinf(value):
        reason = "; expected a finite number or NaN for missing"
    return DataError(f"X: row {row}, column {column} has the value {value}{reason}")


def _sparse_values(X: Any) -> Any:
    """Return a user's sparse feature matrix as CSR (compressed sparse rows) in float32, or float64
    where float32 would change a value above 2^24, after checking that no value is infinite.

    Entries of the same row and column are summed up to one.
    """
    matrix = X.tocsr()
    if matrix.dtype.kind not in "fiub":  # float, integer, unsigned integer, truth value
        raise DataError(f"X: found a sparse matrix of type {matrix.dtype}; expected numbers")
    from scipy.sparse import csr_matrix

    arrays = _as_single(matrix.data), matrix.indices, matrix.indptr
    single = csr_matrix(arrays, matrix.shape, copy=False)
    # Canonical: sorted, and no two entries of the same row and column. The copy keeps the user's
    # matrix, whose arrays are shared, unchanged.
    if matrix.has_canonical_format is False:
        single = single.copy()
        single.sum_duplicates()

    is_infinite = np.isinf(single.data)
    if is_infinite.any():
        entry = int(np.argmax(is_infinite))  # the first one
        # Row r has the entries indptr[r] to indptr[r + 1] - 1.
        row = int(np.searchsorted(single.indptr, entry, side="right")) - 1
        column = int(single.indices[entry])
        raise _error_of_infinite(row, column, matrix[row, column])
    return single


def _read_numbers(name: str, values: Any) -> Array:
    """Return an argument as an array of numbers; raise an error if it holds text or ragged rows.

    Args:
        name: the argument's name.
        values: the argument; Python objects become doubles, other numbers keep their type.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            _check_no_text(name, array)
            array = array.astype(np.float64)
    except DataError:  # a ValueError too, which the next clause would reword
        raise
    except (TypeError, ValueError):
        raise DataError(
            f"{name}: cannot be read as an array of numbers; "
            "expected numbers in rows of equal length"
        ) from None
    if array.dtype.kind not in "fiub":  # float, integer, unsigned integer, truth value
        raise DataError(f"{name}: found values of type {array.dtype}; expected numbers")
    return array


def _check_no_text(name: str, objects: Array) -> None:
    """Raise an error about the first text in a flat array of objects: NumPy would read text such as
    '1' as a number.
    """
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
    values = _read_numbers(name, y)
    is_single_column = values.ndim == 2 and values.shape[1] == 1
    if is_single_column:
        values = values[:, 0]
    check_one_per_row(name, values, n_rows, "label")
    with np.errstate(over="ignore"):
        labels = np.ascontiguousarray(values, np.float32) + np.float32(0)  # -0 becomes 0
    is_label = np.isfinite(labels) & (labels >= 0)
    check_each(name, values, is_label, "a finite number of at least 0")
    return labels
