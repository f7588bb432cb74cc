"""How long the first things take: importing the library, and the first file ever read."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.side_by_side import Claims

_IMPORT_SECONDS = 0.5
_READ = "import tautrank, sys; tautrank.read_letor(sys.argv[1])"


def _seconds(*arguments: str, **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, env=os.environ | environment)
    return time.perf_counter() - start


def claims() -> Claims:
    _seconds("-c", "import tautrank")
    importing = statistics.median(_seconds("-c", "import tautrank") for _ in range(7))
    yield (
        "import tautrank, warm, whole process",
        f"{importing:.2f} s",
        f"under {_IMPORT_SECONDS} s",
        importing < _IMPORT_SECONDS,
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.txt"
        file.write_text("1 qid:1 1:0.5\n")
        first = _seconds("-c", _READ, str(file), NUMBA_CACHE_DIR=folder)
        later = statistics.median(_seconds("-c", _READ, str(file), NUMBA_CACHE_DIR=folder) for _ in range(3))
    yield "first file ever read (compiles the reader)", f"{first:.2f} s", "reported", True
    yield "first file read by a later process", f"{later:.2f} s", "reported", True
