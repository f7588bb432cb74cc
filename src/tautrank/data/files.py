"""Files that a user names: read by their ending or their content, and written as LETOR text."""

from __future__ import annotations

import bz2
import functools
import gzip
import itertools
import lzma
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tautrank.arrays import F64, Array
from tautrank.data.arrays import check_words, checked_features
from tautrank.data.frames import as_frame
from tautrank.data.letor import read_letor
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.data.text_source import ending, finite_number, read_lines, require_files
from tautrank.errors import DataError, MissingDependencyError, OptionError, require
from tautrank.files import PathLike, atomic_write, path_of
from tautrank.progress import Progress

_OFTABLES = ("label", "qid", "doc", "features", "drop", "categorical", "unlabelled")
# Modules and functions of PyArrow; any other ending is Parquet.
_FEATHER, _JSON = ("feather", "read_table"), ("json", "read_json")
_READERS = {".feather": _FEATHER, ".arrow": _FEATHER, ".jsonl": _JSON, ".ndjson": _JSON}
_SEPARATORS = {",": "commas", ";": "';'", "\t": "tabs", "|": "'|'"}
# NumPy prints the fewest digits that read back as the same float32; versions before 2 take up to 19
# characters.
_TEXT = "U32"


def read_parquet(path: PathLike, **columns: Any) -> RankingData:
    """Read ranking data from a table with one row per document: Parquet, Arrow IPC (Feather) or
    JSON lines.

    The file's name says which: ``.feather`` or ``.arrow``, ``.jsonl`` or ``.ndjson``, and Parquet
    for any other, which may be a folder too. Needs ``pip install 'tautrank[parquet]'``.

    Args:
        path: the file.
        **columns: `label`, `qid`, `doc_id`, `features`, `drop`, `categorical` as in
            :meth:`RankingData.from_frame`; for documents to rank also ``unlabelled=True``: the
            column of labels may be missing, and every label is then 0.
    """
    module, name = _READERS.get(ending(path_of(path)), ("parquet", "read_table"))
    table = _read_table(path_of(path), getattr(_pyarrow(f"pyarrow.{module}"), name))
    return RankingData.from_frame(table, where=str(path), **columns)


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
    mark = separator or ("\t" if ending(path_of(path)) == ".tsv" else ",")
    if len(mark) != 1:
        raise OptionError(f"separator: found '{mark}'; expected one character")
    try:
        csv = _pyarrow("pyarrow.csv")
        read = functools.partial(csv.read_csv, parse_options=csv.ParseOptions(delimiter=mark))
    except MissingDependencyError:
        pandas = require("pandas", "reading CSV needs PyArrow or pandas", "parquet")
        read = functools.partial(pandas.read_csv, sep=mark)
    return RankingData.from_frame(
        _read_table(path_of(path), read, mark), where=str(path), **columns
    )


def _pyarrow(module: str) -> Any:
    return require(module, "reading Parquet, Arrow or JSON lines needs PyArrow", "parquet")


def _read_table(file: Path, read: Callable[[str], Any], separator: str = ",") -> Any:
    require_files(file)
    try:
        table = read(str(file))
    except (
        ValueError,
        NotImplementedError,
        OSError,
    ) as error:  # PyArrow's and pandas' own errors are such
        raise DataError(
            f"{file}: cannot be read as a table ({str(error).splitlines()[0]})"
        ) from None
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
    if ending(path) in _READERS:
        return _read_table(path, _pyarrow("pyarrow.ipc").open_file)
    return _read_table(
        path, functools.partial(_pyarrow("pyarrow.parquet").ParquetFile, pre_buffer=False)
    )


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
    for mark, called in _SEPARATORS.items():
        if len(names) == 1 and mark in names[0] and mark != separator:
            raise DataError(
                f"{file}: found columns separated by {called}; expected {_SEPARATORS[separator]}"
            )
    if names and all(finite_number(name) is not None for name in names):
        raise DataError(
            f"{file}: found numbers in the first line; expected the names of the columns"
        )
    for i, name in enumerate(names):
        if not name.strip():
            hint = "pandas writes its index so: leave it out with to_csv(..., index=False)"
            raise DataError(
                f"{file}: column {i + 1} has no name; expected one for every column ({hint})"
            )


IN_CHUNKS = (".parquet", ".pq", ".feather", ".arrow")
TABLES = {
    **dict.fromkeys((*IN_CHUNKS, *_READERS), read_parquet),
    ".csv": read_csv,
    ".tsv": read_csv,
}


def read_data(
    path: Path,
    *,
    separator: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> RankingData:
    """Read a table if the file's name has the ending of one (`TABLES`), else LETOR text.

    Args:
        path: the file, compressed or not.
        separator: what separates the columns of CSV; with it, any file is CSV.
        progress: what is told how many bytes of a text have been read.
        **options: of a table, label, qid, doc, features, drop, categorical and unlabelled, as in
            `RankingData.from_frame`; all others are options of `read_letor`.
    """
    given = {name: value for name in _OFTABLES if (value := options.pop(name, None))}
    reader = TABLES.get(ending(path))
    if reader is None and separator is None:
        if wrong := [name for name in ("doc", "features", "drop", "categorical") if name in given]:
            raise OptionError(
                f"{wrong[0]}: found with {path}, which is read as LETOR text; expected a table"
            )
        return read_letor(path, progress=progress, **options)
    columns = {"doc_id" if name == "doc" else name: value for name, value in given.items()}
    return (
        read_parquet(path, **columns)
        if reader is read_parquet
        else read_csv(path, separator=separator, **columns)
    )


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
    scores = [finite_number(line) for line in lines]
    if None in scores:
        number = scores.index(None)
        words = lines[number].split()
        found = (
            f"'{words[0][:40]}'"
            if len(words) == 1
            else f"{len(words)} columns"
            if words
            else "a blank line"
        )
        raise DataError(f"{file}:{number + 1}: found {found}; expected one finite score per line")
    return np.array(scores, np.float64)


def write_letor(data: RankingData, path: PathLike, *, zero_based: bool = False) -> None:
    """Write ranking data as ``label qid:ID index:value ...`` lines; `read_letor` returns the same
    arrays, bit for bit.

    A path that ends in .gz, .bz2 or .xz is compressed. Dense data writes every feature, CSR data
    its stored ones, and the first line always names the last feature, so that the number of columns
    survives. Ids of documents are written as comments, ``#docid = ID``, numbers with as few digits
    as name them exactly, missing values as ``nan`` (read them with ``allow_nan=True``). The file
    appears only when it is complete.

    Args:
        data: what to write.
        path: where to.
        zero_based: count features from 0 instead of 1.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "out.txt"
    >>> write_letor(RankingData.from_arrays([[0.1, 2.0]], [1], qid=[7]), file)
    >>> print(file.read_text(), end="")
    1 qid:7 1:0.1 2:2.0
    """
    check_words("data: the query id", checked_data("data", data).qids, "spaces or '#'")
    check_words("data: the document id", data.doc_ids)
    first = 0 if zero_based else 1
    with atomic_write(path) as raw, _compressor(path_of(path), raw) as file:
        for lines in _lines(data, first):
            file.write(lines)


def _compressor(path: Path, raw: BinaryIO) -> AbstractContextManager[Any]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        # No name and no time inside, so that the same data gives the same bytes.
        return gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6)
    if suffix == ".bz2":
        return bz2.BZ2File(raw, "wb")
    return lzma.LZMAFile(raw, "wb") if suffix == ".xz" else nullcontext(raw)


def _lines(data: RankingData, first: int) -> Iterator[bytes]:
    """Yield the text of one query at a time."""
    dense = isinstance(data.X, np.ndarray)
    cells = "".join(f" {column + first}:%s" for column in range(data.n_features)) if dense else ""
    for query in range(data.n_queries):
        begin, end = int(data.offsets[query]), int(data.offsets[query + 1])
        rows = data.X[begin:end]
        ids = None if data.doc_ids is None else data.doc_ids[begin:end].tolist()
        heads = [f"{label:.9g} qid:{data.qids[query]}" for label in data.labels[begin:end].tolist()]
        if dense:
            texts = [
                head + cells % tuple(row)
                for head, row in zip(heads, rows.astype(_TEXT).tolist(), strict=True)
            ]
        else:
            texts = [
                head
                + _sparse_cells(rows, i, first, name_last=begin + i == 0 and data.n_features > 0)
                for i, head in enumerate(heads)
            ]
        if ids is not None:
            texts = [f"{text} #docid = {name}" for text, name in zip(texts, ids, strict=True)]
        yield ("\n".join(texts) + "\n").encode() if texts else b""


def _sparse_cells(rows: Any, i: int, first: int, *, name_last: bool) -> str:
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    cells = dict(
        zip(rows.indices[part].tolist(), rows.data[part].astype(_TEXT).tolist(), strict=True)
    )
    if name_last:
        cells.setdefault(rows.shape[1] - 1, "0.0")
    return "".join(f" {column + first}:{text}" for column, text in sorted(cells.items()))
