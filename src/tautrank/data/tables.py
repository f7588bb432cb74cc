"""Read ranking data from Parquet and CSV tables with named columns; needs the `parquet` extra (PyArrow)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.data.arrays import arrow_numbers, checked_features, checked_ids, checked_labels
from tautrank.data.grouping import runs_of
from tautrank.data.ranking_data import RankingData
from tautrank.data.text_source import ending, finite_number
from tautrank.errors import DataError, require, unknown

PathLike = str | os.PathLike[str]
_SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}


def read_parquet(
    path: PathLike,
    *,
    label: str = "label",
    qid: str = "qid",
    features: Sequence[str] | None = None,
    unlabelled: bool = False,
) -> RankingData:
    """Read ranking data from a Parquet file (or a folder of them) with one row per document.

    Needs ``pip install 'tautrank[parquet]'``.

    Args:
        path: the file.
        label: name of the column of labels.
        qid: name of the column of query ids, integers or text.
        features: names of the feature columns; default every other column. Nulls are missing values.
        unlabelled: take a table without the column of labels too, for documents to rank: every label is 0.
    """
    table = _read_table(Path(path), _pyarrow("pyarrow.parquet").read_table)
    return _ranking_data(Path(path), table, label, qid, features, unlabelled)


def read_csv(
    path: PathLike,
    *,
    label: str = "label",
    qid: str = "qid",
    features: Sequence[str] | None = None,
    unlabelled: bool = False,
) -> RankingData:
    """Read ranking data from a CSV file with a header line and one row per document (.gz and .bz2 too).

    Columns are separated by commas, or by tabs where the file's name ends in ``.tsv``.

    Needs ``pip install 'tautrank[parquet]'``. Arguments as in :func:`read_parquet`; an empty cell is a missing value.
    """
    csv = _pyarrow("pyarrow.csv")
    separator = "\t" if ending(Path(path)) == ".tsv" else ","
    read = functools.partial(csv.read_csv, parse_options=csv.ParseOptions(delimiter=separator))
    return _ranking_data(Path(path), _read_table(Path(path), read, separator), label, qid, features, unlabelled)


def _pyarrow(module: str) -> Any:
    return require(module, "reading Parquet or CSV needs PyArrow", "parquet")


def _read_table(file: Path, read: Callable[[str], Any], separator: str = ",") -> Any:
    if not file.exists():
        raise DataError(f"{file}: no such file")
    arrow = _pyarrow("pyarrow")
    try:
        table = read(str(file))
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as a table ({str(error).splitlines()[0]})") from None
    _check_header(file, table.column_names, separator)
    return table


def _ranking_data(
    file: Path, table: Any, label: str, qid: str, features: Sequence[str] | None, unlabelled: bool
) -> RankingData:
    has_labels = not unlabelled or label in table.column_names
    filled = {"label": label, "qid": qid} if has_labels else {"qid": qid}
    for kind, name in [*filled.items(), *(("features", name) for name in features or ())]:
        if name not in table.column_names:
            raise DataError(f"{file}: {kind}: {unknown('column', name, table.column_names)}")
    names = list(features) if features is not None else [n for n in table.column_names if n not in (label, qid)]
    if table.num_rows == 0:
        raise DataError(f"{file}: found no rows; expected one row per document")
    if not names:
        raise DataError(f"{file}: found no feature columns besides '{label}' and '{qid}'; expected at least one")
    for kind, name in filled.items():
        if empty := table.column(name).null_count:
            what = {"label": "a label", "qid": "a query id"}[kind]
            raise DataError(f"{file}: column '{name}' has {empty} empty cells; expected {what} in every row")
    try:
        X, feature_names = checked_features(table.select(names))
        y = arrow_numbers(table.column(label), f"column '{label}'") if has_labels else np.zeros(table.num_rows)
        ids = checked_ids(table.column(qid), table.num_rows)
        labels = checked_labels(y, table.num_rows, f"column '{label}'")
    except DataError as error:
        raise DataError(f"{file}: {str(error).removeprefix('X: ')}") from None
    return RankingData._from_runs(X, labels, *runs_of(ids), where=str(file), names=feature_names)


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
        if name in names[:i]:
            raise DataError(f"{file}: found two columns '{name}'; expected every name once")
