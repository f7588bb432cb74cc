"""Ranking data whose features stay in files: every pass reads them again in chunks of rows, never
as a whole.
"""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arguments import job_count
from tautrank.arrays import I64, Array, query_of
from tautrank.data.letor_blocks import letor_chunks, parse_letor
from tautrank.data.letor_options import LetorOptions
from tautrank.data.parsed_files import ParsedArrays, joined_files, name_of_files
from tautrank.data.queries import Queries
from tautrank.data.ranking_data import Names, RankingData
from tautrank.data.table_files import IN_CHUNKS, format_of_table, scan_table, table_chunks
from tautrank.data.text_source import ending
from tautrank.errors import DataError, OptionError, counted
from tautrank.files import PathLike, paths_of

# Numbers in a chunk: dense float32 rows of 32 MiB.
_CHUNK = 2**23
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass
class StreamedRows:
    """Features in files, in place of the array `RankingData.X`; it is sent and pickled as a few
    paths and numbers.

    Args:
        pieces: path, first row, and one past the last row, in order.
        width: number of columns.
        names: names of the columns, for tables.
        options: options of the reader of text.
        memory: bytes that a training may use; None for no limit.
    """

    pieces: tuple[tuple[str, int, int], ...]
    width: int
    names: Names = None
    options: Mapping[str, Any] = field(default_factory=dict)
    memory: int | None = None
    dtype = np.dtype(np.float32)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents and of features."""
        return sum(last - first for _, first, last in self.pieces), self.width

    def chunks(self, n_jobs: int | None = None) -> Iterator[Array]:
        """Read all rows in order, some at a time.

        Args:
            n_jobs: threads that parse text.
        """
        n_rows = max(1, _CHUNK // max(1, self.width))
        for path, first, last in self.pieces:
            yield from self._rows_of_file(path, first, last, self._chunks_of(path, n_rows, n_jobs))

    def _chunks_of(self, path: str, n_rows: int, n_jobs: int | None) -> Iterator[Array]:
        """Read all rows of a file, about so many at a time."""
        file = Path(path)
        if format_of_table(file) in IN_CHUNKS:
            return table_chunks(file, self.names or (), n_rows)
        options = {**self.options, "n_features": self.width, "sparse": False}
        return letor_chunks(file, LetorOptions(**options), job_count(n_jobs), n_rows)

    def _rows_of_file(
        self, path: str, first: int, last: int, chunks: Iterator[Array]
    ) -> Iterator[Array]:
        """Yield a range of the rows of a file.

        Args:
            path: the file.
            first: the first row to yield.
            last: the row after the last one to yield.
            chunks: all rows of the file.
        """
        n_read = 0
        for chunk in chunks:
            rows = chunk[max(0, first - n_read) : max(0, last - n_read)]
            n_read += len(chunk)
            if len(rows):
                yield rows
            if n_read >= last:
                return
        raise DataError(
            f"{path}: found {counted(n_read, 'document')}; expected {last}, as there were before"
        )

    def take(self, rows: I64, n_jobs: int | None = None) -> Array:
        """Return some rows.

        Args:
            rows: their numbers, ascending.
            n_jobs: threads that parse text.
        """
        parts = [np.empty((0, self.width), np.float32)]
        n_read = 0
        for chunk in self.chunks(n_jobs):
            first, last = np.searchsorted(rows, (n_read, n_read + len(chunk)))
            parts.append(chunk[rows[first:last] - n_read])
            n_read += len(chunk)
        return np.concatenate(parts)

    def read(self) -> Array:
        """Return all rows as one array."""
        return np.concatenate([np.empty((0, self.width), np.float32), *self.chunks()])

    def __getitem__(self, key: Any) -> StreamedRows:
        if isinstance(key, tuple) and self.names is not None:  # columns in another order
            names = tuple(self.names[column] for column in key[1])
            return replace(self, names=names, width=len(names))
        if not isinstance(key, slice):
            raise OptionError(
                "queries: data in files is read in order; "
                "expected a range of queries, or data in memory"
            )
        start, stop, _ = key.indices(self.shape[0])
        pieces = []
        n_before = 0  # rows of the pieces before this one
        for path, first, last in self.pieces:
            first_kept = max(first, first + start - n_before)
            last_kept = min(last, first + stop - n_before)
            if first_kept < last_kept:
                pieces.append((path, first_kept, last_kept))
            n_before += last - first
        return replace(self, pieces=tuple(pieces))

    def copy(self) -> StreamedRows:
        """Return the same rows, to be resized."""
        return replace(self)

    def resize(self, rows: int, width: int) -> None:
        """Add columns of zeros, as to a sparse matrix.

        Args:
            rows: the number of rows there are.
            width: number of columns.
        """
        self.width = width


def read_streamed(
    paths: PathLike | Sequence[PathLike], *, memory: Any = None, **options: Any
) -> RankingData:
    """Read data that does not fit in memory: labels and queries now, features in chunks whenever
    they are needed.

    `Ranker.fit` puts the features chunk by chunk into LightGBM's bins (one byte per number),
    `predict` and `score` read them chunk by chunk. Trees and scores are the same bits as for data
    in memory. Documents of a query must stand next to each other. Other uses of the features
    (`explain`, list features, other engines) need the data in memory.

    Args:
        paths: LETOR text, compressed or not, Parquet or Arrow IPC files: a path, a pattern such as
            ``"part-*.parquet"``, or several.
        memory: what a training may use, in bytes or as ``"3G"``: too little is an error before it
            begins.
        **options: for text as in `read_letor` (``zero_based``, ``allow_nan``, ``max_features``),
            for tables as in `read_parquet` (``label``, ``qid``, ``features``, ``drop``,
            ``unlabelled``).

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = file.write_text("2 qid:7 1:0.5 3:1\\n0 qid:7 2:0.25\\n1 qid:8 1:1\\n")
    >>> data = read_streamed(file, memory="1G")
    >>> data
    RankingData(2 queries, 3 documents, 3 features)
    >>> [chunk.tolist() for chunk in data.X.chunks()]
    [[[0.5, 0.0, 1.0], [0.0, 0.25, 0.0], [1.0, 0.0, 0.0]]]
    """
    files = files_of(paths)
    limit = None if memory is None else n_bytes(memory)
    scans = [scan(file, options) for file in files]
    return joined(scans, files, options, limit)


def n_bytes(memory: Any) -> int:
    """Return a size in bytes.

    Args:
        memory: a number of bytes, or text such as ``3G``, ``1.5G`` or ``500M``, in units of 1024.

    >>> n_bytes("3G") == 3 * 2**30
    True
    """
    size = re.fullmatch(r"(\d+\.?\d*) *([KMGT]?)(i?B)?", str(memory).strip(), re.I)
    if size is None:
        raise OptionError(f"memory: found '{memory}'; expected a size such as 3G or 500M")
    number, unit, _ = size.groups()
    return int(float(number) * 2 ** _UNITS[unit.upper()])


def files_of(paths: PathLike | Sequence[PathLike]) -> list[str]:
    """Return the files that paths and patterns name, each pattern's in the order of their names.

    Args:
        paths: one or several.
    """
    files: list[str] = []
    for path in paths_of(paths):
        files += _matching_files(str(path))
    for file in files:
        file_format = format_of_table(Path(file))
        if file_format is not None and file_format not in IN_CHUNKS:
            kind = ending(Path(file)).removeprefix(".").upper()
            raise DataError(
                f"{file}: {kind} is not read in chunks; expected Parquet, Arrow or LETOR text"
            )
    return files


def _matching_files(path: str) -> list[str]:
    """Return the files that a path or pattern names, in the order of their names."""
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    files = sorted(glob.glob(path))
    if not files:
        raise DataError(f"{path}: no file has such a name; expected at least one")
    return files


def scan(path: str, options: Mapping[str, Any]) -> ParsedArrays:
    """Read a file once, all but its features.

    Args:
        path: the file.
        options: options of its reader.
    """
    file = Path(path)
    if format_of_table(file) in IN_CHUNKS:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* scattered ")
            table = scan_table(file, **options)
        _check_adjacent(path, Queries(table.offsets, table.qids, table.source_rows))
        names = table.feature_names or ()
        return ParsedArrays(
            labels=table.labels,
            starts=table.offsets[:-1],
            tokens=table.qids,
            width=len(names),
            names=names,
        )
    parsed = parse_letor(file, LetorOptions(**options), job_count(None))
    if not parsed.tokens:
        raise DataError(f"{file}:1: no 'qid:' in the file; expected one in every line")
    return replace(parsed, ids=None)


def joined(
    scans: Sequence[ParsedArrays],
    files: Sequence[str],
    options: Mapping[str, Any],
    memory: int | None = None,
) -> RankingData:
    """Return the data of files, one after the other; a query may go on from one file to the next.

    Args:
        scans: what each file holds.
        files: their paths.
        options: options of the readers.
        memory: bytes that a training may use.
    """
    for parsed, file in zip(scans, files, strict=True):
        _check_same_columns(parsed, scans[0], file, files[0])
    labels, queries = joined_files(scans, None)
    _check_adjacent(name_of_files(files), queries)

    names = scans[0].names
    is_text = not names
    rows = StreamedRows(
        pieces=tuple(
            (os.path.abspath(file), 0, parsed.labels.size)
            for file, parsed in zip(files, scans, strict=True)
        ),
        width=max(parsed.width for parsed in scans),
        names=names,
        options=options if is_text else {},
        memory=memory,
    )
    return RankingData(rows, labels, queries.offsets, queries.qids, names)


def _check_same_columns(
    parsed: ParsedArrays, first: ParsedArrays, file: str, first_file: str
) -> None:
    """Raise an error about a file that has other columns than the first one.

    Args:
        parsed, first: what the two files hold.
        file, first_file: their paths.
    """
    if (parsed.names is None) != (first.names is None):
        raise DataError(
            f"{file}: found another kind of file than {first_file}; "
            "expected all text, or all tables"
        )
    if parsed.names == first.names:
        return
    in_one = sorted(set(parsed.names or ()) ^ set(first.names or ()))
    difference = "the same columns in another order"
    if in_one:
        difference = f"column '{in_one[0]}' in only one of the two"
    raise DataError(
        f"{file}: found {difference}, this file and {first_file}; "
        "expected the same columns in all files"
    )


def _check_adjacent(where: str, queries: Queries) -> None:
    """Raise an error about queries whose rows are scattered.

    Args:
        where: what has the rows, for the error.
        queries: the queries.
    """
    if queries.order is None:
        return
    query_of_row = query_of(queries.offsets)
    is_same_query = np.diff(query_of_row) == 0
    is_gap = is_same_query & (np.diff(queries.order) != 1)
    if not is_gap.any():
        return
    scattered = queries.qids[np.unique(query_of_row[1:][is_gap])]
    listed = ", ".join(str(qid) for qid in scattered[:5])
    if scattered.size > 5:
        listed += ", ..."
    raise DataError(
        f"{where}: documents of {counted(scattered.size, 'query')} are scattered (qid {listed}); "
        "expected those of a query next to each other "
        "(it may go on at the start of the next file)"
    )
