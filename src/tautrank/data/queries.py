"""Check query ids and group sizes given by users, and group documents into queries."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import I64, Array, check_each, check_offsets
from tautrank.errors import DataError, TautrankWarning, counted

_INTEGER = re.compile(rb"0|-?[1-9]\d{0,17}")
# Integers below are exact in a float64.
_LARGEST_EXACT_INTEGER = 2**53


class Queries(NamedTuple):
    """Which rows belong together.

    Attributes:
        offsets: where the rows of each query begin, and the number of rows at the end.
        qids: one id per query.
        order: the order that brings scattered rows together; None if they are adjacent.
    """

    offsets: I64
    qids: Array
    order: I64 | None = None


def checked_queries(
    n_rows: int,
    offsets: Any,
    qid: Any,
    group: Any,
    of: str = "labels",
    where: str | None = "qid",
) -> Queries:
    """Group rows into queries by one of three arguments: where queries begin, the query id of each
    row, or the number of rows of each query.

    Args:
        n_rows: number of rows.
        offsets: where the rows of each query begin, and `n_rows` at the end; or
        qid: one query id per row; or
        group: number of rows of each query. Without any of the three, all rows are one query.
        of: what has the rows, for errors.
        where: what a warning about scattered rows names; None for no warning.

    >>> checked_queries(3, None, ["b", "a", "a"], None)
    Queries(offsets=array([0, 1, 3]), qids=array(['b', 'a'], dtype='<U1'), order=None)
    """
    arguments = {"offsets": offsets, "qid": qid, "group": group}
    names = [name for name, argument in arguments.items() if argument is not None]
    if len(names) > 1:
        all_of_them = "both" if len(names) == 2 else "all of them"
        raise DataError(
            f"{', '.join(names)}: found {all_of_them}; "
            "expected one, to say which documents belong together"
        )
    if qid is not None:
        ids = checked_ids(qid, n_rows, of)
        # Runs of rows with the same id; `gathered` brings runs of one query together.
        starts = starts_of_runs(ids)
        return gathered(starts, ids[starts], n_rows, where)
    if group is not None:
        offsets = offsets_from_sizes(checked_sizes(group, n_rows, of))
    elif offsets is not None:
        offsets = check_offsets(offsets, n_rows)
    else:
        offsets = np.array([0, n_rows])
    return Queries(offsets, np.arange(offsets.size - 1))


def checked_ids(values: Any, n_rows: int, of: str = "X", name: str = "qid") -> Array:
    """Check ids of queries or documents, and return them as an array of integers or text; floats
    that are whole numbers become integers.

    Args:
        values: the argument, one id per row.
        n_rows: number of rows.
        of: what has the rows, for errors.
        name: what errors call the ids.
    """
    ids: Array = np.asarray(values)
    check_one_per_row(name, ids, n_rows, "id", of)
    kind = ids.dtype.kind
    if kind == "f":
        check_each(name, ids, np.isfinite(ids), "an integer or text")
        are_whole = np.all(ids == np.rint(ids))
        are_exact = np.all(np.abs(ids) < _LARGEST_EXACT_INTEGER)
        if are_whole and are_exact:
            return ids.astype(np.int64)
    # NumPy's letters: O object, T and U text, S bytes, i and u integer, f float, b truth value.
    if kind in "OT":
        return _ids_of_objects(name, ids)
    if kind not in "iufUSb":
        raise DataError(f"{name}: found values of type {ids.dtype}; expected integers or text")
    return ids.astype(str) if kind == "S" else ids  # bytes become text


def _ids_of_objects(name: str, ids: Array) -> Array:
    """Return an array of Python objects as integer ids if all are integers, else as text; raise an
    error about the first one that is None or NaN.
    """
    for row, value in enumerate(ids):
        is_nan = value != value  # only NaN differs from itself
        if value is None or is_nan:
            raise DataError(f"{name}: row {row} has no id; expected an integer or text")
    if all(isinstance(value, (int, np.integer)) for value in ids):
        return ids.astype(np.int64)
    return ids.astype(str)


def checked_sizes(group: Any, n_rows: int, of: str = "X") -> I64:
    """Return group sizes as int64 after checking that they are positive and sum to the rows.

    Args:
        group: the argument.
        n_rows: number of rows.
        of: what has the rows, for errors.
    """
    sizes = np.asarray(group)
    are_numbers = sizes.ndim == 1 and sizes.dtype.kind in "iuf"
    if not are_numbers or np.any(sizes != np.rint(sizes)):
        raise DataError(
            "group: expected a list of whole numbers, the number of documents of each query"
        )
    check_each("group", sizes, sizes >= 1, "at least 1 document")
    n_grouped = int(sizes.sum())
    if n_grouped != n_rows:
        raise DataError(
            f"group: the sizes sum to {n_grouped}, but {of} has {n_rows} rows; "
            "expected the same number"
        )
    return sizes.astype(np.int64)


def check_one_per_row(name: str, values: Array, n_rows: int, noun: str, of: str = "X") -> None:
    """Raise an error unless an array is flat and has one value per row.

    Args:
        name: name of the checked argument, for errors.
        values: the array.
        n_rows: the number of rows that is expected.
        noun: what a value is, such as ``label``.
        of: name of the argument that has the rows, for errors.
    """
    if values.ndim != 1:
        raise DataError(
            f"{name}: found {values.ndim} dimensions; expected 1, one {noun} per document"
        )
    if values.size != n_rows:
        raise DataError(
            f"{name}: found {values.size} {noun}s, but {of} has {n_rows} rows; "
            f"expected one {noun} per row"
        )


def offsets_from_sizes(sizes: I64) -> I64:
    """Return the starts of queries of the given sizes, and the number of documents at the end.

    >>> offsets_from_sizes(np.array([2, 3]))
    array([0, 2, 5])
    """
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def starts_of_runs(ids: Array) -> I64:
    """Return the first row of every run of equal ids.

    >>> starts_of_runs(np.array([7, 7, 9, 7]))
    array([0, 2, 3])
    """
    if ids.size == 0:
        return np.zeros(0, np.int64)
    is_start = np.append(True, ids[1:] != ids[:-1])  # the first row, and rows with a new id
    return np.flatnonzero(is_start)


def gathered(starts: I64, ids: Array, n_rows: int, where: str | None) -> Queries:
    """Group rows into queries, in order of first appearance; a run is a stretch of adjacent rows
    with the same query id.

    If a query has several runs, its rows are brought together in the order they appear, and a
    warning says so.

    Args:
        starts: the first row of each run.
        ids: the query id of each run.
        n_rows: number of rows.
        where: what the warning names; None for no warning.

    >>> gathered(np.array([0, 2]), np.array([7, 9]), 3, "qid")
    Queries(offsets=array([0, 2, 3]), qids=array([7, 9]), order=None)
    """
    id_of_run = ids.tolist()
    number_by_id: dict[Any, int] = {}  # queries are numbered as they appear
    for qid in id_of_run:
        number_by_id.setdefault(qid, len(number_by_id))
    query_of_run = np.array([number_by_id[qid] for qid in id_of_run], np.int64)
    qids = np.array(list(number_by_id), ids.dtype)

    run_lengths = np.diff(starts, append=n_rows)
    sizes = np.bincount(query_of_run, weights=run_lengths, minlength=qids.size).astype(np.int64)
    offsets = offsets_from_sizes(sizes)
    has_one_run_per_query = query_of_run.size == qids.size
    if has_one_run_per_query:
        return Queries(offsets, qids)

    if where is not None:
        runs_per_query = np.bincount(query_of_run)
        scattered = qids[runs_per_query > 1]
        warnings.warn(
            f"{where}: rows of {counted(scattered.size, 'query')} are scattered "
            f"(the first is qid {scattered[0]}); gathered, in the order they appear",
            TautrankWarning,
            stacklevel=4,
        )
    query_of_row = np.repeat(query_of_run, run_lengths)
    order = np.argsort(query_of_row, kind="stable")
    return Queries(offsets, qids, order)


def joined_ids(parts: Sequence[Array]) -> Array:
    """Concatenate arrays of ids, which are integers or text; if some are text and some integers,
    the result is text.
    """
    kinds = {ids.dtype.kind for ids in parts}  # NumPy's letters: i integer, U text
    if len(kinds) > 1:
        parts = [ids.astype(str) for ids in parts]
    return np.concatenate(parts)


def typed_ids(tokens: list[bytes]) -> Array:
    """Return query ids that were read from a file as bytes as an array of integers if every one is
    an integer without leading zeros; otherwise as text, so that '007' and '7' stay different.
    """
    if all(_INTEGER.fullmatch(token) for token in tokens):
        return np.array([int(token) for token in tokens], np.int64)
    return np.array([token.decode("utf-8", "backslashreplace") for token in tokens])


def check_words(noun: str, ids: Array | None, without: str = "spaces") -> None:
    """Raise an error about the first id that is not one word, and so cannot be written to a file
    whose columns are separated by spaces.

    Args:
        noun: what the ids are, for the error.
        ids: ids of queries or documents; None if there are none.
        without: what ids must not contain, for the error; if this text has a ``#`` (which begins
            a comment in LETOR text), ids must not have one either.
    """
    if ids is None or ids.dtype.kind != "U":
        return  # integers are words
    for text in np.unique(ids).tolist():
        is_one_word = text.split() == [text]
        begins_comment = "#" in text and "#" in without
        if not is_one_word or begins_comment:
            raise DataError(f"{noun} '{text}' cannot be written; expected text without {without}")
