"""The speed of this version beside another one's: python -m bench.against OTHER/src.

Gradients, scoring and the start of every command are measured in pairs of processes, one of each
version after the other, in processor time; the ratio is the median over the pairs. Kernels are
compiled before the first pair.

    python -m bench.against OTHER/src [--pairs 5] [--only gradients scoring commands]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tautrank as tr
from bench.golden_results import COMMANDS
from tautrank.data import write_letor

HERE = str(Path(tr.__file__).parents[1])
LOSSES = (
    "lambdarank(k=none)",
    "lambdarank(k=30)",
    "ndcg-loss2++(k=none)",
    "xendcg",
    "listnet",
    "softrank",
    "softrank(k=10)",
    "stochasticrank",
    "yetiloss",
    "plrank",
    "approxndcg",
    "neuralndcg",
)
REPEATS = 7
TIMED_SECONDS = 0.02
Seconds = dict[str, float]


def gradients(_: Path) -> Seconds:
    """Time the gradients of losses on 300 lists of about 100 documents."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(60, 140, 300)
    labels = rng.choice(5, sizes.sum(), p=[0.5, 0.2, 0.15, 0.1, 0.05])
    scores = rng.normal(size=labels.size).astype(np.float32)
    offsets = np.append(0, np.cumsum(sizes))
    seconds = {}
    for name in LOSSES:
        objective = tr.loss(name).bind(labels, offsets, n_jobs=1)
        seconds[f"gradients of {name}"] = _fastest(lambda o=objective: o.gradients(scores))
    return seconds


def scoring(folder: Path) -> Seconds:
    """Time the scores of one row and of many."""
    ranker = tr.Ranker.load(folder / "model.txt")
    X = np.load(folder / "X.npy")
    model = ranker.model_
    rows = [X[row : row + 1] for row in range(200)]
    return {
        "model_.predict, one row": _fastest(lambda: [model.predict(row, 1) for row in rows]) / 200,
        "predict, one row": _fastest(lambda: [ranker.predict(row) for row in rows]) / 200,
        "model_.predict, 20,000 rows": _fastest(lambda: model.predict(X, 1)),
    }


def _fastest(call: Callable[[], Any]) -> float:
    """Return the processor time of one call: the least of several means over 20 ms."""
    call()
    start = time.process_time()
    call()
    n_calls = 1 + int(TIMED_SECONDS / (time.process_time() - start + 1e-6))
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(n_calls):
            call()
        times.append((time.process_time() - start) / n_calls)
    return min(times)


MEASUREMENTS = {"gradients": gradients, "scoring": scoring}


def measured(source: str, name: str, folder: Path) -> Seconds:
    """Return what a process with this version measures."""
    arguments = ["-m", "bench.against", "--measure", name, "--folder", str(folder)]
    printed = subprocess.run(
        [sys.executable, *arguments],
        env=_environment(source, folder),
        stdout=subprocess.PIPE,
        check=True,
    )
    times: Seconds = json.loads(printed.stdout.splitlines()[-1])
    return times


def commands(source: str, folder: Path) -> Seconds:
    """Return the processor time of the help of every command, and of the import."""
    arguments = {
        f"tautrank {command} --help": ["-m", "tautrank", *command.split(), "--help"]
        for command in COMMANDS
    }
    arguments["import tautrank"] = ["-c", "import tautrank"]
    arguments["evaluate"] = [
        *("-m", "tautrank", "evaluate", str(folder / "data.txt")),
        *("--scores", str(folder / "scores.txt")),
    ]
    return {
        name: _processor_time([sys.executable, *words], _environment(source, folder))
        for name, words in arguments.items()
    }


def _processor_time(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of a command, the least of five."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(arguments, env=environment, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def _environment(source: str, folder: Path) -> dict[str, str]:
    # Bytecode is kept in the folder: an installed package has it, a read-only one could not.
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    return {**os.environ, **bytecode, "PYTHONPATH": source, "COLUMNS": "100"}


def write_files(folder: Path) -> None:
    """Write what both versions read: labelled data, its scores, and a model of LightGBM."""
    import lightgbm

    data = tr.simulate.simulate_web_search(300, n_features=40, mean_length=70, seed=0)
    write_letor(data.subset(range(60)), folder / "data.txt")
    n_lines = (folder / "data.txt").read_bytes().count(b"\n")
    (folder / "scores.txt").write_text("".join(f"{line % 97}\n" for line in range(n_lines)))
    X = np.ascontiguousarray(data.X[:20_000])
    np.save(folder / "X.npy", X)
    parameters = {"objective": "regression", "num_leaves": 31, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(parameters, lightgbm.Dataset(data.X, data.labels), 300)
    booster.save_model(folder / "model.txt")


def compare(other: str, n_pairs: int, parts: list[str]) -> None:
    """Print the times of both versions and the ratio of each case."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        for part in parts:
            times: dict[str, list[Seconds]] = {HERE: [], other: []}
            for pair in range(n_pairs + 1):
                # Each version goes first in every other pair; the pair before the first only
                # compiles.
                for source in (HERE, other) if pair % 2 else (other, HERE):
                    seconds = (
                        commands(source, folder)
                        if part == "commands"
                        else measured(source, part, folder)
                    )
                    if pair:
                        times[source].append(seconds)
            print_ratios(times[HERE], times[other])


def print_ratios(here: list[Seconds], there: list[Seconds]) -> None:
    """Print the median ratio of each case, and the least and the greatest."""
    for case in here[0]:
        if case not in there[0]:
            continue
        ratios = [new[case] / old[case] for new, old in zip(here, there, strict=True)]
        ours = statistics.median(seconds[case] for seconds in here)
        theirs = statistics.median(seconds[case] for seconds in there)
        print(
            f"{case:36} {1e3 * ours:10.4f} ms {1e3 * theirs:10.4f} ms"
            f"  {statistics.median(ratios):.3f}x  ({min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.against", description=__doc__)
    parser.add_argument("other", nargs="?", help="the folder that holds the other tautrank/")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=["gradients", "scoring", "commands"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASUREMENTS[options.measure](options.folder)))
    elif options.other is None:
        parser.error("OTHER is missing; expected the source folder of another version")
    else:
        compare(str(Path(options.other).resolve()), options.pairs, options.only)


if __name__ == "__main__":
    main()
