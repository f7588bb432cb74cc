"""Read tables with one row per document: Parquet, Arrow IPC (Feather), JSON lines and CSV."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tautrank.arrays import Array
from tautrank.data.features import checked_features
from tautrank.data.frames import as_frame
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import ending, finite_number, require_files
from tautrank.errors import DataError, MissingDependencyError, OptionError, require
from tautrank.files import PathLike, path_of

PARQUET, ARROW, JSON_LINES, CSV = "Parquet", "Arrow", "JSON lines", "CSV"
FORMATS = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".feather": ARROW,
    ".arrow": ARROW,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".csv": CSV,
    ".tsv": CSV,
}
"""The format of a table by the ending of its file's name."""

IN_CHUNKS = (PARQUET, ARROW)
"""The formats whose features can be read some rows at a time."""

# Modules and functions of PyArrow.
_READERS = {
    PARQUET: ("parquet", "read_table"),
    ARROW: ("feather", "read_table"),
    JSON_LINES: ("json", "read_json"),
}
_FIRST_BYTES = {b"PAR1": PARQUET, b"ARROW1": ARROW}
SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}


def read_parquet(path: PathLike, **columns: Any) -> RankingData:
    """Read ranking data from a table with one row per document: Parquet, Arrow IPC (Feather) or
    JSON lines.

    The file's first bytes or its name say which: ``.feather`` or ``.arrow``, ``.jsonl`` or
    ``.ndjson``, and Parquet for any other, which may be a folder too. Needs
    ``pip install 'tautrank[parquet]'``.

    Args:
        path: the file.
        **columns: `label`, `qid`, `doc_id`, `features`, `drop`, `categorical` as in
            :meth:`RankingData.from_frame`; for documents to rank also ``unlabelled=True``: the
            column of labels may be missing, and every label is then 0.
    """
    file = path_of(path)
    file_format = format_of_table(file)
    if file_format not in _READERS:
        file_format = PARQUET
    return read_table(file, file_format, **columns)


def read_csv(path: PathLike, *, separator: str | None = None, **columns: Any) -> RankingData:
    """Read ranking data from a CSV file with a header line and one row per document (.gz and .bz2
    too).

    Needs PyArrow (``pip install 'tautrank[parquet]'``) or pandas.

    Args:
        path: the file.
        separator: what separates the columns; by default a comma, or a tab if the file's name ends
            in ``.tsv``.
        **columns: as in :func:`read_parquet`; an empty cell is a missing value.
    """
    return read_table(path_of(path), CSV, separator, **columns)


def format_of_table(file: Path) -> str | None:
    """Return the format of a table by the first bytes or the name of its file, None for other
    files.

    >>> format_of_table(Path("train.CSV.gz"))
    'CSV'
    """
    start = b""
    if file.is_file():
        with file.open("rb") as opened:
            start = opened.read(6)
    for first_bytes, file_format in _FIRST_BYTES.items():
        if start.startswith(first_bytes):
            return file_format
    return FORMATS.get(ending(file))


def read_table(
    file: Path, file_format: str, separator: str | None = None, **columns: Any
) -> RankingData:
    """Read ranking data from a table.

    Args:
        file: the file.
        file_format: its format, such as `CSV`.
        separator: what separates the columns of CSV; default by the file's name.
        **columns: as in `read_parquet`.
    """
    if file_format == CSV:
        separator = separator or ("\t" if ending(file) == ".tsv" else ",")
        table = _opened_table(file, _csv_reader(separator), separator)
    else:
        module, function = _READERS[file_format]
        table = _opened_table(file, getattr(_pyarrow(f"pyarrow.{module}"), function))
    return RankingData.from_frame(table, where=str(file), **columns)


def _csv_reader(separator: str) -> Callable[[str], Any]:
    """Return the function of PyArrow, or else of pandas, that reads CSV."""
    if len(separator) != 1:
        raise OptionError(f"separator: found '{separator}'; expected one character")
    try:
        csv = _pyarrow("pyarrow.csv")
    except MissingDependencyError:
        pandas = require("pandas", "reading CSV needs PyArrow or pandas", "parquet")
        return functools.partial(pandas.read_csv, sep=separator)
    options = csv.ParseOptions(delimiter=separator)
    return functools.partial(csv.read_csv, parse_options=options)


def _pyarrow(module: str) -> Any:
    return require(module, "reading Parquet, Arrow or JSON lines needs PyArrow", "parquet")


def _opened_table(file: Path, read: Callable[[str], Any], separator: str = ",") -> Any:
    """Return what a reader makes of a file, after checking the names of the columns.

    Args:
        file: the file.
        read: function that takes its path.
        separator: what separates the columns of CSV.
    """
    require_files(file)
    try:
        table = read(str(file))
    except (ValueError, NotImplementedError, OSError) as error:
        # PyArrow's and pandas' own errors are such.
        reason = str(error).splitlines()[0]
        raise DataError(f"{file}: cannot be read as a table ({reason})") from None
    # Of a file that is read in chunks only the schema is known.
    header = table if hasattr(table, "columns") else _schema(table).empty_table()
    _check_header(file, as_frame(header, str(file)).columns, separator)
    return table


def scan_table(path: Path, **columns: Any) -> RankingData:
    """Read all of a Parquet or Arrow file but its features; their names are there, and the first
    column of them.

    Args:
        path: the file.
        **columns: as in `read_parquet`.
    """
    Table, file = _pyarrow("pyarrow").Table, _opened(path)
    schema = _schema(file)
    row = Table.from_batches(list(itertools.islice(_batches(file, schema.names, 1), 1)), schema)
    first = RankingData.from_frame(row, where=str(path), **columns)
    names = first.feature_names or ()
    if first.categories:
        found = f"column '{min(first.categories)}' holds categories"
        raise DataError(f"{path}: {found}; expected numbers, or data in memory")
    kept = {"label": "label", "qid": "qid", **columns}
    read = [name for name in (kept["label"], kept["qid"], names[0]) if name in schema.names]
    columns |= {"features": names[:1], "drop": ()}
    rest = RankingData.from_frame(
        Table.from_batches(_batches(file, read, 2**20)), where=str(path), **columns
    )
    return replace(rest, feature_names=names)


def table_chunks(path: Path, names: Sequence[str], rows: int) -> Iterator[Array]:
    """Yield the features of a Parquet or Arrow file in order.

    Args:
        path: the file.
        names: names of the columns.
        rows: number of rows to yield at a time, at most.
    """
    for batch in _batches(_opened(path), list(names), rows):
        yield checked_features(_pyarrow("pyarrow").Table.from_batches([batch]))[0]


def _opened(path: Path) -> Any:
    """Open a Parquet or Arrow file, to be read some rows at a time."""
    if format_of_table(path) == ARROW:
        return _opened_table(path, _pyarrow("pyarrow.ipc").open_file)
    parquet_file = _pyarrow("pyarrow.parquet").ParquetFile
    return _opened_table(path, functools.partial(parquet_file, pre_buffer=False))


def _schema(file: Any) -> Any:
    return getattr(file, "schema_arrow", None) or file.schema


def _batches(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet or Arrow file, at most so many rows at a time."""
    is_arrow = hasattr(file, "get_batch")
    for number in range(file.num_record_batches if is_arrow else file.num_row_groups):
        # One after the other: PyArrow keeps what it has read for one iterator.
        for batch in (
            [file.get_batch(number)] if is_arrow else file.iter_batches(rows, [number], columns)
        ):
            for start in range(0, batch.num_rows, rows):
                yield batch.select(columns).slice(start, rows)


def _check_header(file: Path, names: Sequence[str], separator: str) -> None:
    """Raise an error if the first line cannot be the names of columns."""
    for mark, separators in SEPARATORS.items():
        if len(names) == 1 and mark in names[0] and mark != separator:
            raise DataError(
                f"{file}: found columns separated by {separators}; expected {SEPARATORS[separator]}"
            )
    if names and all(finite_number(name) is not None for name in names):
        raise DataError(
            f"{file}: found numbers in the first line; expected the names of the columns"
        )
    for number, name in enumerate(names, 1):
        if not name.strip():
            hint = "pandas writes its index so: leave it out with to_csv(..., index=False)"
            raise DataError(
                f"{file}: column {number} has no name; expected one for every column ({hint})"
            )
