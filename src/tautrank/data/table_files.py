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

# The module of PyArrow and its function that read a format.
_PYARROW_READERS = {
    PARQUET: ("parquet", "read_table"),
    ARROW: ("feather", "read_table"),
    JSON_LINES: ("json", "read_json"),
}
_FORMAT_BY_FIRST_BYTES = {b"PAR1": PARQUET, b"ARROW1": ARROW}
_ROWS_AT_ONCE = 2**20
SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}
"""What errors call the separators of columns in CSV."""


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
    if file_format not in _PYARROW_READERS:
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
            start = opened.read(6)  # as long as the longest mark of a format
    for first_bytes, file_format in _FORMAT_BY_FIRST_BYTES.items():
        if start.startswith(first_bytes):
            return file_format
    return FORMATS.get(ending(file))


def read_table(
    file: Path, file_format: str, separator: str | None = None, **columns: Any
) -> RankingData:
    """Read ranking data from a table file of a known format, with PyArrow or pandas.

    Args:
        file: the file.
        file_format: its format, such as `CSV`.
        separator: what separates the columns of CSV; default a tab for ``.tsv``, else a comma.
        **columns: as in `read_parquet`.
    """
    if file_format == CSV:
        default_separator = "\t" if ending(file) == ".tsv" else ","
        separator = separator or default_separator
        table = _read_checked(file, _csv_reader(separator), separator)
    else:
        module_name, function_name = _PYARROW_READERS[file_format]
        module = _import_pyarrow(f"pyarrow.{module_name}")
        table = _read_checked(file, getattr(module, function_name))
    return RankingData.from_frame(table, where=str(file), **columns)


def _csv_reader(separator: str) -> Callable[[str], Any]:
    """Return a function that reads CSV: of PyArrow or, if that is not installed, of pandas."""
    if len(separator) != 1:
        raise OptionError(f"separator: found '{separator}'; expected one character")
    try:
        csv = _import_pyarrow("pyarrow.csv")
    except MissingDependencyError:
        pandas = require("pandas", "reading CSV needs PyArrow or pandas", "parquet")
        return functools.partial(pandas.read_csv, sep=separator)
    options = csv.ParseOptions(delimiter=separator)
    return functools.partial(csv.read_csv, parse_options=options)


def _import_pyarrow(module: str) -> Any:
    """Import a module of PyArrow; without PyArrow, raise an error that says how to install it."""
    return require(module, "reading Parquet, Arrow or JSON lines needs PyArrow", "parquet")


def _read_checked(file: Path, read: Callable[[str], Any], separator: str = ",") -> Any:
    """Read or open a table file by a function of PyArrow or pandas, and check the names of its
    columns; errors of these libraries become one sentence.

    Args:
        file: the file.
        read: function of PyArrow or pandas that takes a path and returns a table, or an open file.
        separator: what separates the columns of CSV.
    """
    require_files(file)
    try:
        table = read(str(file))
    except (ValueError, NotImplementedError, OSError) as error:
        # PyArrow's and pandas' own errors are subclasses of these.
        first_line = str(error).splitlines()[0]
        raise DataError(f"{file}: cannot be read as a table ({first_line})") from None
    is_read = hasattr(table, "columns")
    # A file that was only opened, to be read in chunks, has a schema: the names of its columns.
    header = table if is_read else _schema(table).empty_table()
    column_names = as_frame(header, str(file)).columns
    _check_header(file, column_names, separator)
    return table


def scan_table(path: Path, **columns: Any) -> RankingData:
    """Read the labels and query ids of a Parquet or Arrow file whose features are read later.

    The result has the names of all features, but only the first feature column as `X`.

    Args:
        path: the file.
        **columns: as in `read_parquet`.
    """
    file = _open_for_chunks(path)
    feature_names = _read_feature_names(file, path, columns)

    label = columns.get("label", "label")
    qid = columns.get("qid", "qid")
    first_feature = feature_names[0]
    names_in_file = _schema(file).names
    names_to_read = [name for name in (label, qid, first_feature) if name in names_in_file]
    batches = _batches(file, names_to_read, _ROWS_AT_ONCE)
    table = _import_pyarrow("pyarrow").Table.from_batches(batches)

    # Only these columns are in the table, so none of the others can be named as features.
    columns |= {"features": (first_feature,), "drop": ()}
    data = RankingData.from_frame(table, where=str(path), **columns)
    return replace(data, feature_names=feature_names)


def _read_feature_names(file: Any, path: Path, columns: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the feature columns of a Parquet or Arrow file, by reading its first row
    as ranking data; raise an error about a column of categories.

    Args:
        file: the opened file.
        path: its path, for errors.
        columns: arguments that say which columns hold what, as in `read_parquet`.
    """
    schema = _schema(file)
    batches_of_one_row = _batches(file, schema.names, 1)
    first_row = list(itertools.islice(batches_of_one_row, 1))
    table = _import_pyarrow("pyarrow").Table.from_batches(first_row, schema)
    data = RankingData.from_frame(table, where=str(path), **columns)
    if data.categories:
        raise DataError(
            f"{path}: column '{min(data.categories)}' holds categories; "
            "expected numbers, or data in memory"
        )
    return data.feature_names or ()


def table_chunks(path: Path, names: Sequence[str], rows: int) -> Iterator[Array]:
    """Yield the features of a Parquet or Arrow file in order, as matrices of at most `rows` rows.

    Args:
        path: the file.
        names: names of the feature columns.
        rows: largest number of rows of a matrix.
    """
    Table = _import_pyarrow("pyarrow").Table
    file = _open_for_chunks(path)
    for batch in _batches(file, list(names), rows):
        table = Table.from_batches([batch])
        yield checked_features(table).X


def _open_for_chunks(path: Path) -> Any:
    """Open a Parquet or Arrow file, to be read some rows at a time."""
    if format_of_table(path) == ARROW:
        return _read_checked(path, _import_pyarrow("pyarrow.ipc").open_file)
    parquet_file = _import_pyarrow("pyarrow.parquet").ParquetFile
    # pre_buffer would read far ahead, into memory.
    open_unbuffered = functools.partial(parquet_file, pre_buffer=False)
    return _read_checked(path, open_unbuffered)


def _schema(file: Any) -> Any:
    """Return the names and types of the columns of a Parquet or Arrow file."""
    return file.schema_arrow if hasattr(file, "schema_arrow") else file.schema


def _batches(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield some columns of an opened Parquet or Arrow file as record batches of at most `rows`
    rows; the file's own batches may be larger.
    """
    for stored_batch in _stored_batches(file, columns, rows):
        selected = stored_batch.select(columns)
        for start in range(0, stored_batch.num_rows, rows):
            yield selected.slice(start, rows)


def _stored_batches(file: Any, columns: list[str], rows: int) -> Iterator[Any]:
    """Yield the record batches of an Arrow file, which have all columns, or those of each row group
    of a Parquet file.
    """
    is_arrow = hasattr(file, "get_batch")
    if is_arrow:
        for number in range(file.num_record_batches):
            yield file.get_batch(number)
        return
    # A row group is a part of a Parquet file that is read at once. One after the other, each with
    # an iterator of its own: PyArrow keeps what it has read for one iterator.
    for number in range(file.num_row_groups):
        yield from file.iter_batches(rows, [number], columns)


def _check_header(file: Path, names: Sequence[str], separator: str) -> None:
    """Raise an error if the names of a table's columns show that another separator was meant, that
    the first line holds numbers, or that a column has no name.

    Args:
        file: the table's file, for errors.
        names: names of the columns as they were read.
        separator: what was taken as the separator of the columns of CSV.
    """
    for possible_separator, plural in SEPARATORS.items():
        is_separator_missed = len(names) == 1 and possible_separator in names[0]
        if is_separator_missed and possible_separator != separator:
            raise DataError(
                f"{file}: found columns separated by {plural}; expected {SEPARATORS[separator]}"
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
