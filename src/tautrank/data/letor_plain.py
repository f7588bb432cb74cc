"""Read small LETOR text without the compiler, whose import takes three times as long as all of
`tautrank data info` on a small file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.data.letor_options import LetorOptions
from tautrank.data.parsed_files import ParsedArrays
from tautrank.data.text_source import TextSource

SMALL = 3 * 2**20
"""The largest file, in bytes, that is read without the compiler: in a quarter of a second."""

_MOST_VALUES = 2**24
# Float32 holds whole numbers up to here.
_LARGEST_VALUE = 2**24
# Documents as most tools write them. A float of a word is the nearest double, as the compiled
# reader finds it.
_ROW = re.compile(
    rb"^([0-9]{1,7}(?:\.[0-9]{1,9})?) qid:([^\s#]+)"
    rb"((?: [0-9]{1,9}:-?[0-9]{1,7}(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?)*) ?"
    rb"(?:# ?docid = ([^\s]{1,250})(?: [^\n]*)?)?\r?\n",
    re.MULTILINE,
)


def read_plain(file: Path, options: LetorOptions) -> ParsedArrays | None:
    """Parse a small LETOR file by a regular expression, to the same result as the compiled parser.

    None for a file that only the compiled parser reads, or whose mistakes only it describes.

    Args:
        file: file of at most `SMALL` bytes.
        options: how to read it.
    """
    rows = _match_rows(file)
    if not rows:
        return None
    labels, qids, feature_texts, ids = zip(*rows, strict=True)
    cells = _parse_cells(feature_texts)
    if not _are_regular(cells, options):
        return None

    columns = cells.feature - options.first_index
    n_columns_used = int(columns.max(initial=-1)) + 1
    width = max(options.n_features or 0, n_columns_used)
    if width * len(rows) > _MOST_VALUES:
        return None
    X = np.zeros((len(rows), width), np.float32)
    X[cells.row, columns] = cells.value

    starts = []  # first row of every run of rows with the same query id
    for row, qid in enumerate(qids):
        if row == 0 or qid != qids[row - 1]:
            starts.append(row)
    return ParsedArrays(
        labels=np.array([float(label) for label in labels], np.float32),
        starts=np.array(starts),
        tokens=[qids[row] for row in starts],
        width=width,
        ids=np.array(ids) if all(ids) else None,
        X=X,
    )


def _match_rows(file: Path) -> list[tuple[bytes, ...]]:
    """Return label, query id, features and document id of each line of a small file, as text; an
    empty list if a line does not match the regular expression.
    """
    with TextSource(file) as source:
        text = next(source.blocks(SMALL), b"")  # the first block: normally the whole file
    if len(text) > SMALL or b"\0" in text:
        return []  # a compressed file may be larger than it looks
    rows = _ROW.findall(text)
    # `findall` skips lines that do not match: then there are fewer rows than lines.
    return rows if len(rows) == text.count(b"\n") else []


class _Cells(NamedTuple):
    """The features of all documents, one after the other: row, index in the file, and value."""

    row: I64
    feature: I64
    value: F64


def _parse_cells(feature_texts: tuple[bytes, ...]) -> _Cells:
    """Return the features of all documents, given as text, as three flat arrays: row, feature index
    and value of every feature that a line has (a cell).

    Args:
        feature_texts: the features of each document as text, such as ``b" 1:0.5 3:2"``.
    """
    # Without colons, indices and values alternate.
    text_of_all = b"".join(feature_texts)
    words = text_of_all.replace(b":", b" ").split()
    indices = [int(word) for word in words[::2]]
    values = [float(word) for word in words[1::2]]

    n_features = np.array([text.count(b":") for text in feature_texts])
    return _Cells(
        row=np.repeat(np.arange(n_features.size), n_features),
        feature=np.array(indices, np.int64),
        value=np.array(values),
    )


def _are_regular(cells: _Cells, options: LetorOptions) -> bool:
    """Return whether the features of all documents can be used as they are: indices ascend in each
    document and are within the limits of the options, and values fit a float32.

    Args:
        cells: row, feature index and value of every feature of the file, in its order.
        options: how the file is read: its first and last index.
    """
    if cells.feature.size == 0:
        return True
    is_new_row = np.diff(cells.row) > 0
    is_larger_index = np.diff(cells.feature) > 0
    # Each index is larger than the one before, or the first of its row.
    are_ascending = np.all(is_larger_index | is_new_row)
    are_allowed = (
        cells.feature.min() >= options.first_index and cells.feature.max() <= options.last_index
    )
    fit_float32 = np.all(np.abs(cells.value) <= _LARGEST_VALUE)
    return bool(are_ascending and are_allowed and fit_float32)
