"""Write ranking data as LETOR text."""

from __future__ import annotations

import bz2
import gzip
import itertools
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
_TEXT_OF_NUMBER = "U32"


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
    first_index = 0 if zero_based else 1
    with atomic_write(path) as raw, _open_compressor(path_of(path), raw) as file:
        for lines in _lines_of_queries(data, first_index):
            file.write(lines)


def _open_compressor(path: Path, raw: BinaryIO) -> AbstractContextManager[Any]:
    """Return a file object that compresses into `raw` by gzip, bzip2 or xz, as the ending of `path`
    says; without such an ending, `raw` itself.
    """
    suffix = path.suffix.lower()
    if suffix == ".gz":
        # No name and no time inside, so that the same data gives the same bytes.
        return gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0, compresslevel=6)
    if suffix == ".bz2":
        return bz2.BZ2File(raw, "wb")
    if suffix == ".xz":
        return lzma.LZMAFile(raw, "wb")
    return nullcontext(raw)


def _lines_of_queries(data: RankingData, first_index: int) -> Iterator[bytes]:
    """Yield the LETOR lines of the documents of one query at a time, encoded.

    Args:
        data: what to write.
        first_index: number that the file gives to the first feature, 0 or 1.
    """
    features: _DenseText = _SparseText(data, first_index)
    if isinstance(data.X, np.ndarray):
        features = _DenseText(data, first_index)
    for query, qid in enumerate(data.qids):
        start, end = data.offsets[query : query + 2].tolist()
        labels = data.labels[start:end].tolist()
        feature_texts = features.of_rows(start, end)
        lines = []
        for label, feature_text in zip(labels, feature_texts, strict=True):
            lines.append(f"{label:.9g} qid:{qid}{feature_text}")
        if data.doc_ids is not None:
            ids = data.doc_ids[start:end].tolist()
            lines = [f"{line} #docid = {doc_id}" for line, doc_id in zip(lines, ids, strict=True)]
        yield "".join(f"{line}\n" for line in lines).encode()


class _DenseText:
    """The features of dense data as text."""

    def __init__(self, data: RankingData, first_index: int) -> None:
        """Prepare to write the features of some data.

        Args:
            data: the data.
            first_index: number that the file gives to the first feature, 0 or 1.
        """
        self._X = data.X
        self._first_index = first_index
        indices = range(first_index, first_index + data.n_features)
        # ' 1:%s 2:%s ...', to be filled with the values of a row.
        self._template = "".join(f" {index}:%s" for index in indices)

    def of_rows(self, start: int, end: int) -> list[str]:
        """Return the features of the rows `start` to `end - 1` as text: `` index:value`` words."""
        # NumPy writes numbers as text with as few digits as name them exactly; `_template` is
        # ' 1:%s 2:%s ...', a place for each feature.
        rows = self._X[start:end].astype(_TEXT_OF_NUMBER).tolist()
        return [self._template % tuple(row) for row in rows]


class _SparseText(_DenseText):
    """The stored features of CSR data as text."""

    def of_rows(self, start: int, end: int) -> list[str]:
        """Return the stored features of the rows `start` to `end - 1` as text, one string of
        `` index:value`` words per row.
        """
        rows = self._X[start:end]
        n_columns = rows.shape[1]
        bounds = rows.indptr.tolist()  # entries bounds[i] to bounds[i + 1] - 1 belong to row i
        columns = rows.indices.tolist()
        values = rows.data.astype(_TEXT_OF_NUMBER).tolist()
        texts = []
        for row, (first, end_of_row) in enumerate(itertools.pairwise(bounds)):
            columns_of_row = columns[first:end_of_row]
            values_of_row = values[first:end_of_row]
            value_by_column = dict(zip(columns_of_row, values_of_row, strict=True))
            is_first_line = start + row == 0
            if is_first_line and n_columns > 0:
                # The first line names the last feature, so that the number of columns is known.
                value_by_column.setdefault(n_columns - 1, "0.0")
            words = []
            for column, value in sorted(value_by_column.items()):
                words.append(f" {column + self._first_index}:{value}")
            texts.append("".join(words))
        return texts
