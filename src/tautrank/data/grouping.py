"""Group documents into queries, from ids or from sizes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tautrank.arrays import I64, Array
from tautrank.errors import DataError, TautrankWarning

_INTEGER = re.compile(rb"0|-?[1-9]\d{0,17}")

Queries = tuple[I64, Array, I64 | None]
"""Offsets, ids, and the order that gathers scattered rows (None if adjacent)."""


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
        found, first = "rows of 1 query" if scattered.size == 1 else f"rows of {scattered.size} queries", scattered[0]
        warnings.warn(
            f"{where}: {found} are scattered (the first is qid {qids[first]}); gathered, in the order they appear",
            TautrankWarning,
            stacklevel=4,
        )
    return offsets, qids, np.argsort(np.repeat(codes, lengths), kind="stable")


def joined_ids(parts: Sequence[Array]) -> Array:
    """Return ids one after the other: as text, if some are text and some integers."""
    kinds = {ids.dtype.kind for ids in parts}
    return np.concatenate([ids.astype(str) if len(kinds) > 1 else ids for ids in parts])


def typed_ids(tokens: list[bytes]) -> Array:
    """Return integers if every token is one; otherwise text, so that '007' and '7' stay different."""
    if all(_INTEGER.fullmatch(token) for token in tokens):
        return np.array([int(token) for token in tokens], np.int64)
    return np.array([token.decode("utf-8", "backslashreplace") for token in tokens])


def check_words(what: str, ids: Array | None) -> None:
    """Raise an error if an id is not one word, for files whose columns are separated by spaces.

    Args:
        what: what the ids are, for the error.
        ids: the ids; None for none.
    """
    for name in () if ids is None or ids.dtype.kind != "U" else np.unique(ids).tolist():
        if name.split() != [name]:
            raise DataError(f"{what} '{name}' cannot be written; expected text without spaces")
