"""Scores written by any tool: a text file with one number a line."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tautrank.data.text_source import read_lines
from tautrank.errors import DataError


def read_scores(path: str | os.PathLike[str]) -> npt.NDArray[np.float64]:
    """Read one finite score a line; compressed files too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.txt"
    >>> _ = file.write_text("0.5\\n-1e3\\n")
    >>> read_scores(file).tolist()
    [0.5, -1000.0]
    """
    file = Path(path)
    lines = read_lines(file)
    if not lines:
        raise DataError(f"{file}: found an empty file; expected one score a line")
    try:
        scores = np.fromiter(map(float, lines), np.float64, len(lines))
        if np.isfinite(scores).all() and not any("_" in line for line in lines):
            return scores
    except ValueError:
        pass
    for number, line in enumerate(lines, 1):
        if not _is_finite_number(line):
            columns = len(line.split())
            found = (
                "a blank line" if columns == 0 else f"'{line.strip()[:40]}'" if columns == 1 else f"{columns} columns"
            )
            raise DataError(f"{file}:{number}: found {found}; expected one finite score a line")
    return scores


def _is_finite_number(text: str) -> bool:
    try:
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False
