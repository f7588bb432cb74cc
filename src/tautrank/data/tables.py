"""Ranking data from Parquet and CSV tables with named columns; needs the `parquet` extra (PyArrow)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.data.ranking_data import RankingData
from tautrank.errors import DataError, MissingDependencyError, unknown

PathLike = str | os.PathLike[str]


def read_parquet(
    path: PathLike, *, label: str = "label", qid: str = "qid", features: Sequence[str] | None = None
) -> RankingData:
    """Read ranking data from a Parquet file (or a folder of them) with one row a document.

    Needs ``pip install 'tautrank[parquet]'``.

    Args:
        path: the file.
        label: name of the column of labels.
        qid: name of the column of query ids, integers or text.
        features: names of the feature columns; default every other column. Nulls are missing values.
    """
    parquet = _pyarrow("pyarrow.parquet")
    return _from_table(path, lambda p: parquet.read_table(p), label, qid, features)


def read_csv(
    path: PathLike, *, label: str = "label", qid: str = "qid", features: Sequence[str] | None = None
) -> RankingData:
    """Read ranking data from a CSV file with a header line and one row a document (.gz and .bz2 too).

    Needs ``pip install 'tautrank[parquet]'``. Arguments as in :func:`read_parquet`; an empty cell is a missing value.
    """
    csv = _pyarrow("pyarrow.csv")
    return _from_table(path, lambda p: csv.read_csv(p), label, qid, features)


def _pyarrow(module: str) -> Any:
    try:
        import importlib

        return importlib.import_module(module)
    except ImportError:
        raise MissingDependencyError(
            "reading Parquet or CSV needs PyArrow; install it with: pip install 'tautrank[parquet]'"
        ) from None


def _from_table(path: PathLike, read: Any, label: str, qid: str, features: Sequence[str] | None) -> RankingData:
    file = Path(path)
    if not file.exists():
        raise DataError(f"{file}: no such file")
    arrow = _pyarrow("pyarrow")
    try:
        table = read(str(file))
    except (arrow.ArrowInvalid, arrow.ArrowNotImplementedError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as a table ({str(error).splitlines()[0]})") from None
    for kind, name in (("label", label), ("qid", qid), *(("features", name) for name in features or ())):
        if name not in table.column_names:
            raise DataError(f"{file}: {kind}: {unknown('column', name, table.column_names)}")
    names = list(features) if features is not None else [n for n in table.column_names if n not in (label, qid)]
    if table.num_rows == 0:
        raise DataError(f"{file}: found no rows; expected one row a document")
    if not names:
        raise DataError(f"{file}: found no feature columns beside '{label}' and '{qid}'; expected at least one")
    X = np.empty((table.num_rows, len(names)), np.float32)
    for i, name in enumerate(names):
        column = table.column(name)
        kind = column.type
        if not (arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)):
            if arrow.types.is_null(kind):
                X[:, i] = np.nan
                continue
            raise DataError(f"{file}: column '{name}' has the type {kind}; expected numbers")
        X[:, i] = column.cast(arrow.float64()).to_numpy()
    labels = table.column(label)
    if labels.null_count:
        raise DataError(f"{file}: column '{label}' has {labels.null_count} empty cells; expected a label in every row")
    ids = table.column(qid)
    if ids.null_count:
        raise DataError(f"{file}: column '{qid}' has {ids.null_count} empty cells; expected a query id in every row")
    try:
        return RankingData.from_arrays(X, labels.to_numpy(), qid=ids.to_numpy(), feature_names=names)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
