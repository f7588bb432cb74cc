"""Group documents into queries, from ids or from sizes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import I64, Array
from tautrank.data.text_source import first_file, read_lines
from tautrank.errors import DataError, TautrankWarning

_INTEGER = re.compile(rb"0|-?[1-9]\d{0,17}")
# LightGBM's and XGBoost's names for a file of group sizes beside the data.
_SIDE_SUFFIXES = (".query", ".group")


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


def gathered(starts: I64, ids: Array, rows: int, where: str | None) -> tuple[I64, Array, I64 | None]:
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


def side_file(file: Path) -> Path | None:
    """Return the group-size file that belongs to a data file, if there is one: ``FILE.query`` or ``FILE.group``."""
    return first_file(file.with_name(file.name + suffix) for suffix in _SIDE_SUFFIXES)


def read_group_sizes(side: Path, file: Path, rows: int) -> I64:
    """Read one group size per line and check that they add up to the rows of `file`."""
    sizes = []
    for number, line in enumerate(read_lines(side), 1):
        token = line.strip()
        if not token:
            continue
        if not re.fullmatch(r"[0-9]{1,15}", token) or int(token) == 0:
            raise DataError(
                f"{side}:{number}: found '{token[:40]}'; expected the number of documents of a query, at least 1"
            )
        sizes.append(int(token))
    if sum(sizes) != rows:
        raise DataError(
            f"{side}: the group sizes add up to {sum(sizes)}, but {file.name} has {rows} documents; "
            "expected the same number"
        )
    return np.array(sizes, np.int64)
