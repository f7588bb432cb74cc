"""Ranking data from tables with named columns: frames, and Parquet and CSV files."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tautrank.arrays import Array
from tautrank.data.arrays import checked_features
from tautrank.data.columns import column_names
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import ending, finite_number, require_files
from tautrank.errors import DataError, MissingDependencyError, OptionError, require

PathLike = str | os.PathLike[str]
_SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}


def read_parquet(path: PathLike, **columns: Any) -> RankingData:
    """Read ranking data from a Parquet file (or a folder of them) with one row per document.

    Needs ``pip install 'tautrank[parquet]'``.

    Args:
        path: the file.
        **columns: `label`, `qid`, `doc_id`, `features`, `drop`, `categorical` as in :meth:`RankingData.from_frame`; for
            documents to rank also ``unlabelled=True``: the column of labels may be missing, and every label is then 0.
    """
    table = _read_table(Path(path), _pyarrow("pyarrow.parquet").read_table)
    return RankingData.from_frame(table, where=str(path), **columns)


def read_csv(path: PathLike, *, separator: str | None = None, **columns: Any) -> RankingData:
    """Read ranking data from a CSV file with a header line and one row per document (.gz and .bz2 too).

    Needs PyArrow (``pip install 'tautrank[parquet]'``) or pandas.

    Args:
        path: the file.
        separator: what separates the columns; by default a comma, or a tab if the file's name ends in ``.tsv``.
        **columns: as in :func:`read_parquet`; an empty cell is a missing value.
    """
    mark = separator or ("\t" if ending(Path(path)) == ".tsv" else ",")
    if len(mark) != 1:
        raise OptionError(f"separator: found '{mark}'; expected one character")
    try:
        csv = _pyarrow("pyarrow.csv")
        read = functools.partial(csv.read_csv, parse_options=csv.ParseOptions(delimiter=mark))
    except MissingDependencyError:
        try:
            read = functools.partial(importlib.import_module("pandas").read_csv, sep=mark)
        except ImportError:
            raise MissingDependencyError(
                "reading CSV needs PyArrow or pandas; install one with: pip install 'tautrank[parquet]'"
            ) from None
    return RankingData.from_frame(_read_table(Path(path), read, mark), where=str(path), **columns)


def _pyarrow(module: str) -> Any:
    return require(module, "reading Parquet needs PyArrow", "parquet")


def _read_table(file: Path, read: Callable[[str], Any], separator: str = ",") -> Any:
    require_files(file)
    try:
        table = read(str(file))
    except (ValueError, NotImplementedError, OSError) as error:  # PyArrow's and pandas' own errors are such
        raise DataError(f"{file}: cannot be read as a table ({str(error).splitlines()[0]})") from None
    schema = getattr(table, "schema_arrow", None)
    _check_header(file, column_names(table if schema is None else schema.empty_table(), str(file)), separator)
    return table


def scan_parquet(path: Path, **columns: Any) -> RankingData:
    """Read all of a Parquet file but its features; their names are there, and the first column of them.

    Args:
        path: the file.
        **columns: as in `read_parquet`.
    """
    file = _read_table(path, _pyarrow("pyarrow.parquet").ParquetFile)
    row = _pyarrow("pyarrow").Table.from_batches(list(itertools.islice(file.iter_batches(1), 1)), file.schema_arrow)
    first = RankingData.from_frame(row, where=str(path), **columns)
    names = first.feature_names or ()
    if first.categories:
        raise DataError(
            f"{path}: column '{min(first.categories)}' holds categories; expected numbers, or data in memory"
        )
    kept = {"label": "label", "qid": "qid", **columns}
    read = [name for name in (kept["label"], kept["qid"], names[0]) if name in file.schema_arrow.names]
    columns |= {"features": names[:1], "drop": ()}
    rest = RankingData.from_frame(file.read(columns=read), where=str(path), **columns)
    return replace(rest, feature_names=names)


def parquet_chunks(path: Path, names: Sequence[str], rows: int) -> Iterator[Array]:
    """Yield the features of a Parquet file in order.

    Args:
        path: the file.
        names: names of the columns.
        rows: number of rows to yield at a time, at most.
    """
    file = _read_table(path, functools.partial(_pyarrow("pyarrow.parquet").ParquetFile, pre_buffer=False))
    for group in range(file.num_row_groups):  # one after the other: PyArrow keeps what it has read for one iterator
        for batch in file.iter_batches(rows, [group], list(names)):
            yield checked_features(_pyarrow("pyarrow").Table.from_batches([batch]).select(list(names)))[0]


def _check_header(file: Path, names: Sequence[str], separator: str) -> None:
    """Raise an error if the first line cannot be the names of columns."""
    for mark, called in _SEPARATORS.items():
        if len(names) == 1 and mark in names[0] and mark != separator:
            raise DataError(f"{file}: found columns separated by {called}; expected {_SEPARATORS[separator]}")
    if names and all(finite_number(name) is not None for name in names):
        raise DataError(f"{file}: found numbers in the first line; expected the names of the columns")
    for i, name in enumerate(names):
        if not name.strip():
            raise DataError(
                f"{file}: column {i + 1} has no name; expected one for every column (pandas writes its index so: "
                "leave it out with to_csv(..., index=False))"
            )
