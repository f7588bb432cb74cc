"""Read ranking data from a file of any format, found by its content and the ending of its name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import F64
from tautrank.data.letor import read_letor
from tautrank.data.ranking_data import RankingData
from tautrank.data.table_files import (
    CSV,
    JSON_LINES,
    SEPARATORS,
    format_of_table,
    read_table,
)
from tautrank.data.text_source import ending, finite_number, first_line, read_lines
from tautrank.errors import DataError, OptionError, unknown
from tautrank.files import PathLike, path_of

LETOR = "LETOR text"
# As the published data sets are called.
_LETOR_ENDING = ".txt"


def read(
    path: PathLike,
    *,
    label: str = "label",
    qid: str = "qid",
    doc_id: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    unlabelled: bool = False,
    separator: str | None = None,
    **letor_options: Any,
) -> RankingData:
    """Read ranking data from a table with one row per document, or from LETOR text.

    The ending of the file's name says what it holds: ``.parquet``, ``.pq``, ``.feather``,
    ``.arrow``, ``.csv``, ``.tsv``, ``.jsonl`` and ``.ndjson`` are tables, ``.txt`` is LETOR text.
    With any other ending, and where Parquet or Arrow has the name of another table, the content
    says it: the first bytes, or a first line that names the columns of labels and query ids. All
    else is LETOR text. Compressed text is read directly.

    Args:
        path: the file.
        label, qid, doc_id: names of the columns of a table that hold labels, query ids and document
            ids.
        features: names of the feature columns of a table; default every other column of numbers.
        drop: names of columns to leave out.
        categorical: names of feature columns that hold categories whatever their type.
        unlabelled: whether the column of labels may be missing, which makes all labels 0.
        separator: what separates the columns of CSV; with it, any file is CSV.
        **letor_options: options of `read_letor`, for LETOR text.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = file.write_text("query,sku,grade,price\\n7,a,1,3.5\\n7,b,0,2.0\\n")
    >>> data = read(file, label="grade", qid="query", doc_id="sku")
    >>> data.feature_names, data.doc_ids.tolist()
    (('price',), ['a', 'b'])
    """
    _check_letor_options(letor_options)  # an error about a name that is no option
    file = path_of(path)
    file_format = CSV if separator is not None else format_of(file, label=label, qid=qid)
    columns: dict[str, Any] = {
        "doc_id": doc_id,
        "features": features or None,
        "drop": drop,
        "categorical": categorical,
    }
    if file_format == LETOR:
        _check_no_columns(file, columns)
        return read_letor(file, **letor_options)

    columns |= {"label": label, "qid": qid, "unlabelled": unlabelled}
    if not separator:
        separator = _recognise_separator(file, label, qid)
    return read_table(file, file_format, separator, **columns)


def _check_letor_options(options: dict[str, Any]) -> None:
    """Raise an error about an option that `read_letor` does not have."""
    parameters = inspect.signature(read_letor).parameters
    names = list(parameters)[1:]  # without the path
    for name in options:
        if name not in names:
            raise unknown("option", name, names)


def _check_no_columns(file: Path, columns: dict[str, Any]) -> None:
    """Raise an error if options name columns for LETOR text, whose columns have no names.

    Args:
        file: the file, for the error.
        columns: options that are for tables only, by name.
    """
    for name, value in columns.items():
        if value:
            raise OptionError(
                f"{name}: found with {file}, which is read as LETOR text; expected a table"
            )


def format_of(file: Path, *, label: str = "label", qid: str = "qid") -> str:
    """Return the format of a file: one of the formats of tables, or LETOR text.

    Args:
        file: the file; a pipe, which can be read only once, counts as LETOR text.
        label, qid: names of the columns that show, in a first line, that a file is CSV.
    """
    if ending(file) == _LETOR_ENDING:
        return LETOR
    table_format = format_of_table(file)
    if table_format is not None:
        return table_format
    if not file.is_file():
        return LETOR
    line = first_line(file)
    if line.startswith("{"):  # one JSON object per line
        return JSON_LINES
    if _find_separator(line, label, qid) is not None:
        return CSV
    return LETOR


def _recognise_separator(file: Path, label: str, qid: str) -> str | None:
    """Return the separator that the first line of a CSV file shows; None if the file's name says
    that it is a table, and so also what separates its columns.
    """
    if format_of_table(file) is not None:
        return None
    return _find_separator(first_line(file), label, qid)


def _find_separator(line: str, label: str, qid: str) -> str | None:
    """Return the separator (comma, semicolon, tab or bar) that splits a line into names of columns,
    among them those of labels and query ids; None if none does.
    """
    for separator in SEPARATORS:
        names = [name.strip().strip('"') for name in line.split(separator)]
        if label in names and qid in names:
            return separator
    return None


def read_scores(path: PathLike) -> F64:
    """Read one finite score per line; compressed files too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.txt"
    >>> _ = file.write_text("0.5\\n-1e3\\n")
    >>> read_scores(file).tolist()
    [0.5, -1000.0]
    """
    file = path_of(path)
    lines = read_lines(file)
    if not lines:
        raise DataError(f"{file}: found an empty file; expected one score per line")
    scores = np.empty(len(lines), np.float64)
    for row, line in enumerate(lines):
        score = finite_number(line)
        if score is None:
            raise DataError(
                f"{file}:{row + 1}: found {_content_of(line)}; expected one finite score per line"
            )
        scores[row] = score
    return scores


def _content_of(line: str) -> str:
    """Return in words what a line holds instead of one finite score."""
    words = line.split()
    if not words:
        return "a blank line"
    if len(words) > 1:
        return f"{len(words)} columns"
    return f"'{words[0][:40]}'"
