"""Ranking data from tables with named columns: frames, and Parquet and CSV files."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.data.arrays import arrow_numbers, checked_features, checked_ids, checked_labels, series_numbers
from tautrank.data.categories import is_categorical
from tautrank.data.grouping import gathered, runs_of
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import ending, finite_number, require_files
from tautrank.errors import DataError, MissingDependencyError, OptionError, TautrankWarning, require, unknown

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
    return frame_data(table, str(path), **columns)


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
    return frame_data(_read_table(Path(path), read, mark), str(path), **columns)


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


def frame_data(
    frame: Any,
    where: str,
    *,
    label: str = "label",
    qid: str = "qid",
    doc_id: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    unlabelled: bool = False,
) -> RankingData:
    """Return the ranking data of a table; columns without numbers that nobody asked for are left out with a warning.

    Args:
        frame: a pandas or Polars frame, or an Arrow table.
        where: what it is called in errors.
        label, qid, doc_id, features, drop, categorical: names of columns.
        unlabelled: whether the column of labels may be missing.
    """
    frame = frame.collect() if hasattr(frame, "collect") else frame  # a LazyFrame of Polars
    known = column_names(frame, where)
    has_labels = not unlabelled or label in known
    special = {"label": label} if has_labels else {}
    special |= {"qid": qid} | ({} if doc_id is None else {"doc_id": doc_id})
    asked = [*special.items(), *(("features", name) for name in features or ())]
    asked += [("categorical", name) for name in categorical]
    for kind, name in asked + ([] if unlabelled else [("drop", name) for name in drop]):
        if name not in known:
            raise DataError(f"{where}: {kind}: {unknown('column', name, known)}")
    rows = len(frame)
    if rows == 0:
        raise DataError(f"{where}: found no rows; expected one row per document")
    for kind, name in special.items():
        if empty := _empty_cells(frame[name]):
            what = {"label": "a label", "qid": "a query id", "doc_id": "a document id"}[kind]
            cells = "empty cell" if empty == 1 else "empty cells"
            raise DataError(f"{where}: column '{name}' has {empty} {cells}; expected {what} in every row")
    numbers_of = arrow_numbers if hasattr(frame, "column_names") else series_numbers
    names, others = list(features or ()), list[str]()
    if features is None:
        for name in (name for name in known if name not in (label, qid, doc_id, *drop)):
            as_it_is = name in categorical or is_categorical(frame[name]) or is_numeric(frame[name], numbers_of)
            (names if as_it_is else others).append(name)
    if others:
        listed = ", ".join(f"'{name}'" for name in others)
        warnings.warn(f"{where}: left out {listed}, without numbers", TautrankWarning, stacklevel=3)
    if not names:
        raise DataError(f"{where}: found no feature columns besides '{label}' and '{qid}'; expected at least one")
    try:
        chosen = frame.select(names) if hasattr(frame, "select") else frame[names]
        X, feature_names, levels = checked_features(chosen, categorical=categorical)
        y = numbers_of(frame[label], f"column '{label}'") if has_labels else np.zeros(rows)
        ids = checked_ids(frame[qid], rows)
        named = None if doc_id is None else checked_ids(frame[doc_id], rows, name="doc_id").astype(str)
        labels = checked_labels(y, rows, f"column '{label}'")
    except DataError as error:
        raise DataError(f"{where}: {str(error).removeprefix('X: ')}") from None
    queries = gathered(*runs_of(ids), rows, where)
    return RankingData.of_queries(X, labels, queries, feature_names=feature_names, doc_ids=named, categories=levels)


def scan_parquet(path: Path, **columns: Any) -> RankingData:
    """Read all of a Parquet file but its features; their names are there, and the first column of them.

    Args:
        path: the file.
        **columns: as in `read_parquet`.
    """
    file = _read_table(path, _pyarrow("pyarrow.parquet").ParquetFile)
    row = _pyarrow("pyarrow").Table.from_batches(list(itertools.islice(file.iter_batches(1), 1)), file.schema_arrow)
    first = frame_data(row, str(path), **columns)
    names = first.feature_names or ()
    if first.categories:
        raise DataError(
            f"{path}: column '{min(first.categories)}' holds categories; expected numbers, or data in memory"
        )
    kept = {"label": "label", "qid": "qid", **columns}
    read = [name for name in (kept["label"], kept["qid"], names[0]) if name in file.schema_arrow.names]
    rest = frame_data(file.read(columns=read), str(path), **{**columns, "features": names[:1], "drop": ()})
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


def column_names(frame: Any, where: str) -> list[str]:
    """Return the names of the columns of a pandas or Polars frame, or an Arrow table, each of them once."""
    if not hasattr(frame, "columns"):
        raise DataError(f"{where}: found {type(frame).__name__}; expected a pandas or Polars frame, or an Arrow table")
    names = list(getattr(frame, "column_names", None) or frame.columns)
    for name, times in Counter(names).items():
        if times > 1:
            raise DataError(f"{where}: found two columns '{name}'; expected every name once")
    return names


def _empty_cells(column: Any) -> int:
    found = column.null_count if hasattr(column, "null_count") else column.isna().sum
    return int(found() if callable(found) else found)


def is_numeric(column: Any, numbers_of: Callable[[Any, str], Any]) -> bool:
    """Return whether a column holds numbers."""
    try:
        numbers_of(column[:1], "")
    except DataError:
        return False
    return True


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
