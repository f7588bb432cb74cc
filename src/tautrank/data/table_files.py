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
_ROWS_AT_ONCE = 2**20
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
    file = _opened(path)
    names = _names_of_features(file, path, columns)

    # All rows of the first feature alone: features are read later.
    label, qid = columns.get("label", "label"), columns.get("qid", "qid")
    to_read = [name for name in (label, qid, names[0]) if name in _schema(file).names]
    columns |= {"features": names[:1], "drop": ()}
    table = _pyarrow("pyarrow").Table.from_batches(_batches(file, to_read, _ROWS_AT_ONCE))
    data = RankingData.from_frame(table, where=str(path), **columns)
    return replace(data, feature_names=names)


def _names_of_features(file: Any, path: Path, columns: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the features of a Parquet or Arrow file, found in its first row.

    Args:
        file: the opened file.
        path: its path, for errors.
        columns: as in `read_parquet`.
    """
    schema = _schema(file)
    first_row = list(itertools.islice(_batches(file, schema.names, 1), 1))
    table = _pyarrow("pyarrow").Table.from_batches(first_row, schema)
    data = RankingData.from_frame(table, where=str(path), **columns)
    if data.categories:
        raise DataError(
            f"{path}: column '{min(data.categories)}' holds categories; "
            "expected numbers, or data in memory"
        )
    return data.feature_names or ()


def table_chunks(path: Path, names: Sequence[str], rows: int) -> Iterator[Array]:
    """Yield the features of a Parquet or Arrow file in order.

    Args:
        path: the file.
        names: names of the columns.
        rows: number of rows to yield at a time, at most.
    """
    Table = _pyarrow("pyarrow").Table
    for batch in _batches(_opened(path), list(names), rows):
        yield checked_features(Table.from_batches([batch])).X


def _opened(path: Path) -> Any:
    """Open a Parquet or Arrow file, to be read some rows at a time."""
    if format_of_table(path) == ARROW:
        return _opened_table(path, _pyarrow("pyarrow.ipc").open_file)
    parquet_file = _pyarrow("pyarrow.parquet").ParquetFile
    return _opened_table(path, functools.partial(parquet_file, pre_buffer=False))


def _schema(file: Any) -> Any:
    """Return the names and types of the columns of a Parquet or Arrow file."""
    return file.schema_arrow if hasattr(file, "schema_arrow") else file.schema


def _batches(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of a Parquet or Arrow file, at most so many rows at a time."""
    for part in _parts_of_file(file, columns, rows):
        for start in range(0, part.num_rows, rows):
            yield part.select(columns).slice(start, rows)


def _parts_of_file(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield the record batches of an Arrow file, or those of each row group of a Parquet file."""
    is_arrow = hasattr(file, "get_batch")
    if is_arrow:
        for number in range(file.num_record_batches):
            yield file.get_batch(number)
        return
    # One group after the other: PyArrow keeps what it has read for one iterator.
    for number in range(file.num_row_groups):
        yield from file.iter_batches(rows, [number], columns)


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
