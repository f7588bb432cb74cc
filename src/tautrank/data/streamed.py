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

_NUMBERS_PER_CHUNK = 2**23  # dense float32 rows of 32 MiB
_POWER_OF_TWO_BY_UNIT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


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
        n_documents = sum(end - first for _path, first, end in self.pieces)
        return n_documents, self.width

    def chunks(self, n_jobs: int | None = None) -> Iterator[Array]:
        """Read the features of all rows from their files in order, and yield them as matrices of
        some rows each.

        Args:
            n_jobs: threads that parse text.
        """
        rows_per_chunk = max(1, _NUMBERS_PER_CHUNK // max(1, self.width))
        # A piece is a file with its first row to read and the row behind the last one.
        for path, first, end in self.pieces:
            chunks = self._read_in_chunks(path, rows_per_chunk, n_jobs)
            yield from self._cut_rows(path, first, end, chunks)

    def _read_in_chunks(
        self, path: str, rows_per_chunk: int, n_jobs: int | None
    ) -> Iterator[Array]:
        """Return an iterator over the features of all rows of a table or text file, as matrices of
        about `rows_per_chunk` rows.

        Args:
            path: the file.
            rows_per_chunk: number of rows of a matrix.
            n_jobs: threads that parse text.
        """
        file = Path(path)
        if format_of_table(file) in IN_CHUNKS:
            return table_chunks(file, self.names or (), rows_per_chunk)
        options = {**self.options, "n_features": self.width, "sparse": False}
        return letor_chunks(file, LetorOptions(**options), job_count(n_jobs), rows_per_chunk)

    def _cut_rows(
        self, path: str, first: int, end: int, chunks: Iterator[Array]
    ) -> Iterator[Array]:
        """Yield the rows `first` to `end - 1` of a file, from chunks that hold all of its rows.

        Args:
            path: the file, for an error if it has become shorter.
            first: the first row to yield.
            end: the row after the last one to yield.
            chunks: all rows of the file, in order.
        """
        n_read = 0
        for chunk in chunks:
            # A row of the file minus the rows read before is a row of the chunk; slices end at the
            # end of the chunk, so an end beyond it does no harm.
            start_in_chunk = max(0, first - n_read)
            end_in_chunk = max(0, end - n_read)
            rows = chunk[start_in_chunk:end_in_chunk]
            n_read += len(chunk)
            if len(rows):
                yield rows
            if n_read >= end:
                return
        raise DataError(
            f"{path}: found {counted(n_read, 'document')}; expected {end}, as there were before"
        )

    def take(self, rows: I64, n_jobs: int | None = None) -> Array:
        """Return the features of some rows as one array, by one pass over the files.

        Args:
            rows: numbers of the rows, ascending.
            n_jobs: threads that parse text.
        """
        # So that there is something to concatenate where no rows are asked for.
        no_rows = np.empty((0, self.width), np.float32)
        parts = [no_rows]
        n_read = 0
        for chunk in self.chunks(n_jobs):
            n_read_after = n_read + len(chunk)
            # Which of the rows asked for are in this chunk: a range, since they ascend.
            first, end = np.searchsorted(rows, (n_read, n_read_after))
            rows_in_chunk = rows[first:end] - n_read
            parts.append(chunk[rows_in_chunk])
            n_read = n_read_after
        return np.concatenate(parts)

    def read(self) -> Array:
        """Return all rows as one array."""
        return np.concatenate([np.empty((0, self.width), np.float32), *self.chunks()])

    def __getitem__(self, key: Any) -> StreamedRows:
        """Return a range of rows (``X[10:20]``), or some columns of tables (``X[:, [2, 0]]``).

        Nothing is read: the result names other pieces of the files, or other columns.
        """
        if isinstance(key, tuple) and self.names is not None:
            _all_rows, columns = key
            names = tuple(self.names[column] for column in columns)
            return replace(self, names=names, width=len(names))
        if not isinstance(key, slice):
            raise OptionError(
                "queries: data in files is read in order; "
                "expected a range of queries, or data in memory"
            )
        n_rows, _n_columns = self.shape
        start, stop, _step = key.indices(n_rows)
        # A piece is a file with its first row and the row behind its last one.
        pieces = []
        n_before = 0  # rows of the pieces before this one
        for path, first, end in self.pieces:
            # Row r of all rows is row `first + r - n_before` of this piece's file.
            first_kept = max(first, first + start - n_before)
            end_kept = min(end, first + stop - n_before)
            if first_kept < end_kept:
                pieces.append((path, first_kept, end_kept))
            n_before += end - first
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
    """Return the number of bytes that a memory size such as ``"3G"`` means.

    Args:
        memory: a number of bytes, or text such as ``3G``, ``1.5G`` or ``500M``, in units of 1024.

    >>> n_bytes("3G") == 3 * 2**30
    True
    """
    # A number, a unit or none, and perhaps the "B" of bytes ("iB" in GiB).
    size = re.fullmatch(r"(\d+\.?\d*) *([KMGT]?)(i?B)?", str(memory).strip(), re.I)
    if size is None:
        raise OptionError(f"memory: found '{memory}'; expected a size such as 3G or 500M")
    number, unit = size[1], size[2].upper()
    bytes_per_unit = 2 ** _POWER_OF_TWO_BY_UNIT[unit]
    return int(float(number) * bytes_per_unit)


def files_of(paths: PathLike | Sequence[PathLike]) -> list[str]:
    """Return all files that paths and patterns (``part-*.txt``) name, after checking that each has
    a format that can be read in chunks.

    Args:
        paths: one or several; the files of a pattern are sorted by name.
    """
    files: list[str] = []
    for path in paths_of(paths):
        files += _matching_files(str(path))
    for file in files:
        # None for text; IN_CHUNKS has the formats of tables that are read some rows at a time.
        table_format = format_of_table(Path(file))
        is_text = table_format is None
        if not is_text and table_format not in IN_CHUNKS:
            # Such as "CSV", the ending without its dot.
            extension = ending(Path(file)).removeprefix(".").upper()
            raise DataError(
                f"{file}: {extension} is not read in chunks; expected Parquet, Arrow or LETOR text"
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
    """Read labels, query ids and the number of columns of a file, but not its features.

    Args:
        path: LETOR text, or a Parquet or Arrow file; its queries must not be scattered.
        options: options of `read_letor` or of `read_parquet`.
    """
    file = Path(path)
    if format_of_table(file) in IN_CHUNKS:
        # Scattered queries are an error here: the reader's warning would say they are gathered.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* scattered ")
            table = scan_table(file, **options)
        # The table's rows were gathered by query: `source_rows` has their places in the file.
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
    """Return several scanned files as one data set whose features stay in the files.

    A query may go on from one file to the next.

    Args:
        scans: the labels and query ids of each file, as `scan` returns them.
        files: paths of the files.
        options: options with which the features of text are read later.
        memory: bytes that a training may use.
    """
    for parsed, file in zip(scans, files, strict=True):
        _check_same_columns(parsed, scans[0], file, files[0])
    labels, queries = joined_files(scans, None)  # None: no warning, scattered ones are refused
    _check_adjacent(name_of_files(files), queries)

    names = scans[0].names
    is_text = not names  # columns of LETOR text have no names
    # A piece is a file with its first row and the row behind its last one: here the whole file.
    pieces = []
    for file, parsed in zip(files, scans, strict=True):
        n_rows = parsed.labels.size
        pieces.append((os.path.abspath(file), 0, n_rows))
    rows = StreamedRows(
        pieces=tuple(pieces),
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
    # ^: columns that are in one of the two files but not in both.
    in_only_one = sorted(set(parsed.names or ()) ^ set(first.names or ()))
    difference = "the same columns in another order"
    if in_only_one:
        difference = f"column '{in_only_one[0]}' in only one of the two"
    raise DataError(
        f"{file}: found {difference}, this file and {first_file}; "
        "expected the same columns in all files"
    )


def _check_adjacent(where: str, queries: Queries) -> None:
    """Raise an error that lists the queries whose documents do not stand next to each other.

    Args:
        where: name of the file or files, for the error.
        queries: the queries, gathered: `order` has the row in the file of each gathered document.
    """
    if queries.order is None:
        return
    query_of_row = query_of(queries.offsets)  # the number of each gathered row's query
    # A query is scattered if two of its rows that are neighbours now were not in the file.
    continues_query = np.diff(query_of_row) == 0
    follows_in_file = np.diff(queries.order) == 1
    is_after_gap = continues_query & ~follows_in_file
    if not is_after_gap.any():
        return
    scattered_queries = np.unique(query_of_row[1:][is_after_gap])
    scattered = queries.qids[scattered_queries]
    listed = ", ".join(str(qid) for qid in scattered[:5])
    if scattered.size > 5:
        listed += ", ..."
    raise DataError(
        f"{where}: documents of {counted(scattered.size, 'query')} are scattered (qid {listed}); "
        "expected those of a query next to each other "
        "(it may go on at the start of the next file)"
    )
