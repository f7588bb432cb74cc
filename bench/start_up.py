"""How long the first things take: importing the library, and the first file ever read."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.data_sets import data_folder
from bench.side_by_side import Claims
from tautrank.data import write_letor
from tautrank.simulate import simulate_web_search

_IMPORT_SECONDS = 0.5
_EVALUATE, _ANSWER = 0.8, 0.5
_READ = "import tautrank, sys; tautrank.read_letor(sys.argv[1])"


def _seconds(*arguments: str, **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, env=os.environ | environment)
    return time.perf_counter() - start


def _command_seconds(folder: Path, *arguments: str) -> tuple[float, float]:
    """Elapsed seconds and those of the processor of a command: medians of seven processes after one
    more.

    The first one compiles Python's bytecode into the folder, where an installed package has it
    already.
    """
    kept = os.environ | {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    found = []
    for _ in range(8):
        before, start = os.times(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tautrank", *arguments],
            check=False,
            capture_output=True,
            env=kept,
        )
        after, end = os.times(), time.perf_counter()
        busy = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        found.append((end - start, busy))
    return statistics.median(one for one, _ in found[1:]), statistics.median(
        one for _, one in found[1:]
    )


def _commands(folder: Path) -> Claims:
    """Commands that need no training: what they take in all, and how much of it is processor
    time.
    """
    data = data_folder() / "mq2008" / "S5.txt"
    if not data.exists():
        data = folder / "simulated.txt"
        write_letor(simulate_web_search(150, n_features=46, mean_length=20, seed=0), data)
    scores = folder / "scores.txt"
    scores.write_text("".join(f"{line % 97}\n" for line in range(data.read_bytes().count(b"\n"))))
    given, out = str(data), str(folder / "out")
    commands = [
        (
            f"evaluate --scores, {data.parent.name}/{data.name}",
            _EVALUATE,
            ["evaluate", given, "--scores", str(scores)],
        ),
        ("train, a file that is missing", _ANSWER, ["train", "missing.txt", "-o", out]),
        (
            "rank, a model that is missing",
            _ANSWER,
            ["rank", given, "--model", "missing", "-o", out],
        ),
        (
            "compare, an unknown loss",
            _ANSWER,
            ["compare", given, "--test", given, "--losses", "no"],
        ),
    ]
    for what, limit, arguments in commands:
        elapsed, busy = _command_seconds(folder, *arguments)
        measured = f"{elapsed:.2f} s ({busy:.2f} s of the processor)"
        yield f"tautrank {what}", measured, f"at most {limit} s", elapsed <= limit


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
        yield from _commands(Path(folder))
        file = Path(folder) / "a.txt"
        file.write_text("1 qid:1 1:0.5\n")
        first = _seconds("-c", _READ, str(file), NUMBA_CACHE_DIR=folder)
        later = statistics.median(
            _seconds("-c", _READ, str(file), NUMBA_CACHE_DIR=folder) for _ in range(3)
        )
    yield "first small file ever read (without the compiler)", f"{first:.2f} s", "reported", True
    yield "small file read by a later process", f"{later:.2f} s", "reported", True
