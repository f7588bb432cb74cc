"""Read small, regular LETOR text without a compiler, whose import and loading take longer than the reading."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tautrank.data.cache import ParsedArrays
from tautrank.data.text_source import TextSource

SMALL = 3 * 2**20
"""The largest file, in bytes, that is read here: in a quarter of a second."""

_MOST_VALUES = 2**24
# Documents as most tools write them. A float of a word is the nearest double, as the compiled reader finds it.
_ROW = re.compile(
    rb"^([0-9]{1,7}(?:\.[0-9]{1,9})?) qid:([^\s#]+)"
    rb"((?: [0-9]{1,9}:-?[0-9]{1,7}(?:\.[0-9]*)?(?:[eE][-+]?[0-9]{1,2})?)*) ?"
    rb"(?:# ?docid = ([^\s]{1,250})(?: [^\n]*)?)?\r?\n",
    re.MULTILINE,
)


def read_plain(file: Path, first: int, last: int, n_features: int | None) -> ParsedArrays | None:
    """Return what a small file holds, as the compiled reader would; None for what only that one reads or words.

    Args:
        file: file of at most `SMALL` bytes; a compressed one is not for this reader.
        first, last: the smallest and the largest index of a feature.
        n_features: number of columns, if known.
    """
    buffer = bytearray(SMALL + 2)
    with TextSource(file) as source:
        text = bytes(buffer[: source.fill(buffer)])
        rows = _ROW.findall(text) if not source.fill(buffer) and b"\0" not in text else []
    if not rows or len(rows) != text.count(b"\n"):
        return None
    labels, qids, features, ids = zip(*rows, strict=True)
    words = b"".join(features).replace(b":", b" ").split()
    indices = np.array([*map(int, words[::2])], np.int64)
    values = np.array([*map(float, words[1::2])])
    sizes = np.array([part.count(b":") for part in features])
    row = np.repeat(np.arange(sizes.size), sizes)
    ascending = (np.diff(indices) > 0) | (np.diff(row) > 0)
    if indices.size and not (ascending.all() and indices.min() >= first and indices.max() <= last):
        return None
    width = max(n_features or 0, int(indices.max(initial=first - 1)) - first + 1)
    if width * sizes.size > _MOST_VALUES or not np.all(np.abs(values) <= _MOST_VALUES):
        return None
    dense = np.zeros((sizes.size, width), np.float32)
    dense[row, indices - first] = values
    starts = [0] + [at for at in range(1, len(qids)) if qids[at] != qids[at - 1]]
    named = np.array(ids) if all(ids) else None
    found = np.array([*map(float, labels)], np.float32)
    return ParsedArrays(found, np.array(starts), [qids[at] for at in starts], width, named, dense)
