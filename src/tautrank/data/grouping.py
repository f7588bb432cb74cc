"""Group documents into queries, from ids or from sizes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tautrank.arrays import I64, Array
from tautrank.data.text_source import read_lines
from tautrank.errors import DataError

_INTEGER = re.compile(rb"-?(0|[1-9]\d{0,17})")
# LightGBM's and XGBoost's names for a file of group sizes beside the data.
_SIDE_SUFFIXES = (".query", ".group")


def offsets_from_sizes(sizes: I64) -> I64:
    """Return the starts of queries of the given sizes, and the number of documents at the end.

    >>> offsets_from_sizes(np.array([2, 3]))
    array([0, 2, 5])
    """
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def offsets_from_runs(runs: list[tuple[int, bytes]], rows: int) -> tuple[I64, I64, Array]:
    """Turn (first row, qid token) runs into (query of each run, run boundaries, ids in order of appearance)."""
    starts = np.fromiter((row for row, _ in runs), np.int64, len(runs))
    number: dict[bytes, int] = {}
    codes = np.fromiter((number.setdefault(token, len(number)) for _, token in runs), np.int64, len(runs))
    return codes, np.append(starts, rows), _typed_ids(list(number))


def _typed_ids(tokens: list[bytes]) -> Array:
    """Return integers if every token is one; otherwise text, so that '007' and '7' stay different."""
    if all(_INTEGER.fullmatch(token) for token in tokens):
        return np.array([int(token) for token in tokens], np.int64)
    return np.array([token.decode("utf-8", "replace") for token in tokens])


def codes_by_appearance(ids: Array) -> tuple[I64, I64, Array]:
    """The same as `offsets_from_runs`, for one id per row: runs of equal ids, numbered by first appearance."""
    if ids.size == 0:
        return np.zeros(0, np.int64), np.zeros(1, np.int64), ids
    change = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    boundaries = np.concatenate([[0], change, [ids.size]]).astype(np.int64)
    heads = ids[boundaries[:-1]]
    unique, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
    appearance = np.argsort(first, kind="stable")
    rank = np.empty(appearance.size, np.int64)
    rank[appearance] = np.arange(appearance.size)
    return rank[inverse], boundaries, unique[appearance]


def gather_scattered(codes: I64, boundaries: I64, n_queries: int) -> tuple[I64, I64 | None, int]:
    """Return offsets, the row order that makes queries adjacent (None if they are), and how many were scattered."""
    lengths = np.diff(boundaries)
    sizes = np.bincount(codes, weights=lengths, minlength=n_queries).astype(np.int64)
    offsets = offsets_from_sizes(sizes)
    if codes.size == n_queries:  # one run per query, and queries are numbered by appearance
        return offsets, None, 0
    order = np.argsort(np.repeat(codes, lengths), kind="stable")
    scattered = int(np.count_nonzero(np.bincount(codes, minlength=n_queries) > 1))
    return offsets, order, scattered


def side_file(file: Path) -> Path | None:
    """Return the group-size file that belongs to a data file, if there is one: ``FILE.query`` or ``FILE.group``."""
    for suffix in _SIDE_SUFFIXES:
        side = file.with_name(file.name + suffix)
        if side.is_file():
            return side
    return None


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
