"""What readers find in a file, and several files as one data set."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import F32, I64, Array
from tautrank.data.queries import Queries, gathered, joined_ids, offsets_from_sizes, typed_ids


@dataclass
class ParsedArrays:
    """One parsed file.

    Attributes:
        labels: one per row.
        starts: the first row of every run of rows with the same query id.
        tokens: the query id of every run, as bytes or as in a table; empty if the file has none.
        width: number of columns.
        ids: the documents' ids as bytes; None if not every document has one.
        X: the features, where they are not in a store; dense, or CSR.
        names: names of the columns, where the file has them.
    """

    labels: F32
    starts: I64
    tokens: Any
    width: int
    ids: Array | None = None
    X: Any = None
    names: tuple[str, ...] | None = None


def joined_files(parts: Sequence[ParsedArrays], where: str | None) -> tuple[F32, Queries]:
    """Concatenate the labels of several parsed files, and group all of their rows into queries.

    Args:
        parts: the files, in order; they have query ids in all of them or in none.
        where: what a warning about scattered rows names; None for no warning.
    """
    # `starts` has the first row of every run of rows with the same query id, in one file: the rows
    # of the files before are added.
    rows_per_file = np.array([part.labels.size for part in parts])
    first_rows = offsets_from_sizes(rows_per_file)[:-1]
    starts_of_files = []
    for first_row, part in zip(first_rows, parts, strict=True):
        starts_of_files.append(first_row + part.starts)
    starts = np.concatenate(starts_of_files)
    labels = np.concatenate([part.labels for part in parts])
    ids = _join_query_ids(parts)
    if ids.size == 0:
        ids = np.arange(starts.size)  # every run is a query
    # Runs with the same id are brought together, also across files.
    return labels, gathered(starts, ids, labels.size, where)


def _join_query_ids(parts: Sequence[ParsedArrays]) -> Array:
    """Return the query id of every run of rows of several files, as integers or text."""
    # A run is a sequence of rows with the same id; `tokens` has the id of each run: typed already
    # in tables, bytes in LETOR text.
    ids_of_files = [part.tokens for part in parts]
    is_table = parts[0].names is not None
    if is_table:
        return joined_ids(ids_of_files)
    tokens = list(itertools.chain(*ids_of_files))
    return typed_ids(tokens)


def name_of_files(files: Sequence[Path | str]) -> str:
    """Return what to call several files in a sentence."""
    if len(files) == 1:
        return str(files[0])
    return f"{files[0]} and {len(files) - 1} more"
