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
    """Read a small, regular file.

    Returns what the compiled reader would; None for what only that one reads, or finds the words
    for.

    Args:
        file: file of at most `SMALL` bytes.
        options: how to read it.
    """
    rows = _matched_rows(file)
    if not rows:
        return None
    labels, qids, feature_texts, ids = zip(*rows, strict=True)
    cells = _cells(feature_texts)
    if not _are_regular(cells, options):
        return None

    last_column = int(cells.feature.max(initial=options.first_index - 1)) - options.first_index
    width = max(options.n_features or 0, last_column + 1)
    if width * len(rows) > _MOST_VALUES:
        return None
    X = np.zeros((len(rows), width), np.float32)
    X[cells.row, cells.feature - options.first_index] = cells.value

    starts = [row for row in range(len(rows)) if row == 0 or qids[row] != qids[row - 1]]
    return ParsedArrays(
        labels=np.array([float(label) for label in labels], np.float32),
        starts=np.array(starts),
        tokens=[qids[row] for row in starts],
        width=width,
        ids=np.array(ids) if all(ids) else None,
        X=X,
    )


def _matched_rows(file: Path) -> list[tuple[bytes, ...]]:
    """Return label, query id, features and document id of each line; nothing if a line is not
    regular.
    """
    with TextSource(file) as source:
        text = next(source.blocks(SMALL), b"")
    if len(text) > SMALL or b"\0" in text:
        return []  # a compressed file may be larger than it looks
    rows = _ROW.findall(text)
    return rows if len(rows) == text.count(b"\n") else []


class _Cells(NamedTuple):
    """The features of all documents, one after the other."""

    row: I64
    feature: I64
    value: F64


def _cells(feature_texts: tuple[bytes, ...]) -> _Cells:
    """Return the features of documents, each written as ``index:value`` words."""
    words = b"".join(feature_texts).replace(b":", b" ").split()
    n_features = np.array([text.count(b":") for text in feature_texts])
    return _Cells(
        row=np.repeat(np.arange(n_features.size), n_features),
        feature=np.array([int(word) for word in words[::2]], np.int64),
        value=np.array([float(word) for word in words[1::2]]),
    )


def _are_regular(cells: _Cells, options: LetorOptions) -> bool:
    """Return whether indices ascend in each document and are allowed, and values fit a float32."""
    if cells.feature.size == 0:
        return True
    is_new_row = np.diff(cells.row) > 0
    are_ascending = np.all((np.diff(cells.feature) > 0) | is_new_row)
    are_allowed = (
        cells.feature.min() >= options.first_index and cells.feature.max() <= options.last_index
    )
    return bool(are_ascending and are_allowed and np.all(np.abs(cells.value) <= _LARGEST_VALUE))
