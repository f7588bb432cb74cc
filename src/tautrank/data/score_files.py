"""Scores written by any tool: a text file with one number per line."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tautrank.arrays import F64
from tautrank.data.text_source import finite_number, read_lines
from tautrank.errors import DataError


def read_scores(path: str | os.PathLike[str]) -> F64:
    """Read one finite score per line; compressed files too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.txt"
    >>> _ = file.write_text("0.5\\n-1e3\\n")
    >>> read_scores(file).tolist()
    [0.5, -1000.0]
    """
    file = Path(path)
    lines = read_lines(file)
    if not lines:
        raise DataError(f"{file}: found an empty file; expected one score per line")
    scores = [finite_number(line) for line in lines]
    if None in scores:
        number = scores.index(None)
        words = lines[number].split()
        found = f"'{words[0][:40]}'" if len(words) == 1 else f"{len(words)} columns" if words else "a blank line"
        raise DataError(f"{file}:{number + 1}: found {found}; expected one finite score per line")
    return np.array(scores, np.float64)
