"""Check arrays and frames given by users (features, labels, ids, sizes), and group documents into
queries.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tautrank.arrays import F32, I64, Array, check_each, check_offsets
from tautrank.data.frames import (
    check_different,
    coded,
    column_numbers,
    frame_numbers,
    frame_or_none,
    is_plain_number,
    is_type_of_categories,
)
from tautrank.errors import DataError, TautrankWarning, counted

if TYPE_CHECKING:
    from tautrank.data.frames import Frame

# From here on float32 cannot tell neighbouring whole numbers apart.
_LARGE = 2.0**24
# Of frames with fewer values, a call per column would take longer than the values.
_FEW_VALUES = 2**15
_INTEGER = re.compile(rb"0|-?[1-9]\d{0,17}")

Queries = tuple[I64, Array, I64 | None]
"""Offsets, ids, and the order that gathers scattered rows (None if adjacent)."""


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
    return frame_features(frame, frame.columns, names=names)


def frame_features(
    frame: Frame,
    columns: Sequence[str],
    *,
    categorical: Collection[str] = (),
    names: Sequence[str] | None = None,
) -> Features:
    """Return columns of a frame as features; see `checked_features`.

    Args:
        frame: the frame.
        columns: the columns to take.
        categorical: names of columns that hold categories whatever their type.
        names: what to call the columns; default as in the frame.
    """
    if not columns:
        raise DataError("X: found a frame without columns; expected at least one feature")
    matrix = np.empty((len(frame), len(columns)), np.float32)
    levels_by_position = {}
    types = frame.schema
    at_once = []
    for position, name in enumerate(columns):
        if name in categorical or is_type_of_categories(types[name]):
            column = frame.get_column(name)
            matrix[:, position], levels_by_position[position] = coded(column)
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
    features = _with_names(matrix, columns if names is None else names)
    assert features.names is not None
    levels = {features.names[position]: levels for position, levels in levels_by_position.items()}
    return features._replace(levels=levels)


def _filled(matrix: Array, positions: int | list[int], values: Array) -> Array:
    """Return the matrix with values in its columns; as one of doubles, if float32 would change
    them.
    """
    values = _unmerged(values)
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


def _is_sparse(X: Any) -> bool:
    """Return whether `X` is a sparse matrix of SciPy, without importing SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def _unmerged(values: Array) -> Array:
    """Return numbers as float32; as float64 with those above 2^24 unchanged, if float32 would
    change one of them.

    >>> _unmerged(np.array([2.0**24 + 1, 0.5])).tolist(), _unmerged(np.array([2.0**24, 0.5])).dtype
    ([16777217.0, 0.5], dtype('float32'))
    """
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(values, np.float32)
    if values.size == 0 or np.can_cast(values.dtype, np.float32):
        return single
    if max(np.fmax.reduce(single, axis=None), -np.fmin.reduce(single, axis=None)) < _LARGE:
        return single
    large = np.abs(values) > _LARGE
    if np.array_equal(single[large], values[large]) or np.isinf(single).any():
        return single
    double = single.astype(np.float64)
    double[large] = values[large]
    return double


def _dense_values(X: Any) -> Array:
    values = _numbers("X", X)
    if values.ndim != 2:
        raise DataError(
            f"X: found {counted(values.ndim, 'dimension')}; expected 2, documents by features"
        )
    kept = _unmerged(values)
    _check_finite(kept, lambda row, column: values[row, column])
    return kept


def _check_finite(single: Array, found_at: Callable[[int, int], Any]) -> None:
    # Summing is one pass without temporaries: only a sum that is not finite asks for a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(single.sum(dtype=np.float64))
    if suspicious and np.isinf(single).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(single))[0])
        raise _infinite(row, column, found_at(row, column))


def _infinite(row: int, column: int, found: Any) -> DataError:
    reason = ", too large for float32; expected at most 3.4e38"
    if np.isinf(found):
        reason = "; expected a finite number or NaN for missing"
    return DataError(f"X: row {row}, column {column} has the value {found}{reason}")


def _sparse_values(X: Any) -> Any:
    matrix = X.tocsr()
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"X: found a sparse matrix of type {matrix.dtype}; expected numbers")
    from scipy.sparse import csr_matrix

    single = csr_matrix(
        (_unmerged(matrix.data), matrix.indices, matrix.indptr), matrix.shape, copy=False
    )
    if matrix.has_canonical_format is False:
        single = single.copy()
        single.sum_duplicates()
    if np.isinf(single.data).any():
        at = int(np.argmax(np.isinf(single.data)))
        row, column = (
            int(np.searchsorted(single.indptr, at, side="right")) - 1,
            int(single.indices[at]),
        )
        raise _infinite(row, column, matrix[row, column])
    return single


def _numbers(name: str, values: Any) -> Array:
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            words = (
                [i for i, value in enumerate(array) if isinstance(value, str)]
                if array.ndim == 1
                else []
            )
            if words:
                raise DataError(f"{name}: row {words[0]} is '{array[words[0]]}'; expected numbers")
            array = array.astype(np.float64)
    except DataError:  # it is a ValueError too
        raise
    except (TypeError, ValueError):
        expected = "numbers in rows of equal length"
        raise DataError(
            f"{name}: cannot be read as an array of numbers; expected {expected}"
        ) from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name}: found values of type {array.dtype}; expected numbers")
    return array


def checked_labels(y: Any, rows: int, name: str = "y") -> F32:
    """Return labels as float32 after checking that each is a finite number of at least 0."""
    values = _numbers(name, y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    _check_one_per_row(name, values, rows, "label")
    with np.errstate(over="ignore"):
        labels = np.ascontiguousarray(values, np.float32) + np.float32(0)  # -0 becomes 0
    check_each(name, values, np.isfinite(labels) & (labels >= 0), "a finite number of at least 0")
    return labels


def _check_one_per_row(name: str, values: Array, rows: int, what: str, of: str = "X") -> None:
    if values.ndim != 1:
        raise DataError(
            f"{name}: found {values.ndim} dimensions; expected 1, one {what} per document"
        )
    if values.size != rows:
        raise DataError(
            f"{name}: found {values.size} {what}s, but {of} has {rows} rows; expected one {what} per row"
        )


def checked_ids(qid: Any, rows: int, of: str = "X", name: str = "qid") -> Array:
    """Return ids of queries or documents as an array of integers or text, one per row of the
    argument named `of`.
    """
    ids = np.asarray(qid)
    _check_one_per_row(name, ids, rows, "id", of)
    if ids.dtype.kind == "f":
        check_each(name, ids, np.isfinite(ids), "an integer or text")
        if np.all(ids == np.rint(ids)) and np.all(np.abs(ids) < 2**53):
            return ids.astype(np.int64)
    if ids.dtype.kind in "OT":
        missing = [i for i, value in enumerate(ids) if value is None or value != value]
        if missing:
            raise DataError(f"{name}: row {missing[0]} has no id; expected an integer or text")
        if all(isinstance(value, (int, np.integer)) for value in ids):
            return ids.astype(np.int64)
        return ids.astype(str)
    if ids.dtype.kind not in "iufUSb":
        raise DataError(f"{name}: found values of type {ids.dtype}; expected integers or text")
    return ids.astype(str) if ids.dtype.kind == "S" else ids


def checked_sizes(group: Any, rows: int, of: str = "X") -> I64:
    """Return group sizes as int64 after checking that they are positive and sum to the rows of the
    argument `of`.
    """
    sizes = np.asarray(group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iuf" or np.any(sizes != np.rint(sizes)):
        raise DataError(
            "group: expected a list of whole numbers, the number of documents of each query"
        )
    check_each("group", sizes, sizes >= 1, "at least 1 document")
    if int(sizes.sum()) != rows:
        found = f"the sizes sum to {int(sizes.sum())}, but {of} has {rows} rows"
        raise DataError(f"group: {found}; expected the same number")
    return sizes.astype(np.int64)


def checked_queries(
    rows: int, offsets: Any, qid: Any, group: Any, of: str = "labels", where: str | None = "qid"
) -> Queries:
    """Return the queries of rows: offsets, ids, and the order that gathers scattered rows (None if
    adjacent).

    Args:
        rows: number of rows.
        offsets, qid, group: at most one of them; without any, all rows are one query.
        of: what has the rows.
        where: what a warning about scattered rows names; None for no warning.

    >>> checked_queries(3, None, ["b", "a", "a"], None)
    (array([0, 1, 3]), array(['b', 'a'], dtype='<U1'), None)
    """
    given = [
        name
        for name, value in (("offsets", offsets), ("qid", qid), ("group", group))
        if value is not None
    ]
    if len(given) > 1:
        found = "both" if len(given) == 2 else "all of them"
        raise DataError(
            f"{', '.join(given)}: found {found}; expected one, to say which documents belong together"
        )
    if qid is not None:
        return gathered(*runs_of(checked_ids(qid, rows, of)), rows, where)
    if group is not None:
        cuts = offsets_from_sizes(checked_sizes(group, rows, of))
    else:
        cuts = np.array([0, rows]) if offsets is None else check_offsets(offsets, rows)
    return cuts, np.arange(cuts.size - 1), None


def offsets_from_sizes(sizes: I64) -> I64:
    """Return the starts of queries of the given sizes, and the number of documents at the end.

    >>> offsets_from_sizes(np.array([2, 3]))
    array([0, 2, 5])
    """
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def runs_of(ids: Array) -> tuple[I64, Array]:
    """Return the first row and the id of every run of equal ids.

    >>> runs_of(np.array([7, 7, 9, 7]))
    (array([0, 2, 3]), array([7, 9, 7]))
    """
    starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: ids.size])
    return starts, ids[starts]


def gathered(starts: I64, ids: Array, rows: int, where: str | None) -> Queries:
    """Return the offsets and the ids of queries made of runs of rows, in order of first appearance.

    Runs of one query are brought together, rows in the order they have, and a warning says so.

    Args:
        starts, ids: the first row and the query id of each run.
        rows: number of rows.
        where: what the warning names; None for no warning.

    Returns:
        Offsets, ids, and the order that brings the rows together; None if they already are.

    >>> gathered(*runs_of(np.array([7, 7, 9])), 3, "qid")
    (array([0, 2, 3]), array([7, 9]), None)
    """
    number: dict[Any, int] = {}
    codes = np.array([number.setdefault(qid, len(number)) for qid in ids.tolist()], np.int64)
    qids = np.array(list(number), ids.dtype)
    lengths = np.diff(starts, append=rows)
    offsets = offsets_from_sizes(np.bincount(codes, lengths, len(number)).astype(np.int64))
    if codes.size == qids.size:
        return offsets, qids, None
    if where is not None:
        scattered = np.flatnonzero(np.bincount(codes) > 1)
        found = f"rows of {counted(scattered.size, 'query')} are scattered (the first is qid {qids[scattered[0]]})"
        warnings.warn(
            f"{where}: {found}; gathered, in the order they appear", TautrankWarning, stacklevel=4
        )
    return offsets, qids, np.argsort(np.repeat(codes, lengths), kind="stable")


def joined_ids(parts: Sequence[Array]) -> Array:
    """Return ids one after the other: as text, if some are text and some integers."""
    kinds = {ids.dtype.kind for ids in parts}
    return np.concatenate([ids.astype(str) if len(kinds) > 1 else ids for ids in parts])


def typed_ids(tokens: list[bytes]) -> Array:
    """Return integers if every token is one; otherwise text, so that '007' and '7' stay
    different.
    """
    if all(_INTEGER.fullmatch(token) for token in tokens):
        return np.array([int(token) for token in tokens], np.int64)
    return np.array([token.decode("utf-8", "backslashreplace") for token in tokens])


def check_words(what: str, ids: Array | None, without: str = "spaces") -> None:
    """Raise an error if an id is not one word, for files whose columns are separated by spaces.

    Args:
        what: what the ids are, for the error.
        ids: the ids; None for none.
        without: what they may not have, for the error; with a ``#`` in it, that neither.
    """
    for name in () if ids is None or ids.dtype.kind != "U" else np.unique(ids).tolist():
        if name.split() != [name] or ("#" in name and "#" in without):
            raise DataError(f"{what} '{name}' cannot be written; expected text without {without}")
