"""Write ranking data as LETOR text."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tautrank.data.queries import check_words
from tautrank.data.ranking_data import RankingData, checked_data
from tautrank.files import PathLike, atomic_write, path_of

# NumPy prints the fewest digits that read back as the same float32; versions before 2 take up to 19
# characters.
_TEXT = "U32"


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
