"""Training on worker processes and out of memory: bits, memory and quality, on synthetic data.

`python -m bench.large_data simulate FOLDER PREFIX DOCUMENTS FILES` writes Parquet files without
holding them in memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.side_by_side import Claims, peak_memory

COLUMNS, LENGTH = 136, 120
_ROWS = LENGTH * 1000
# WEB30K's training part.
DOCUMENTS = 18_919 * LENGTH
TRAINED: dict[str, Any] = {"num_leaves": 31, "early_stopping_rounds": None, "verbose": 0}


def simulate(folder: str, prefix: str, documents: str, files: str) -> None:
    """Write queries of 120 documents with 136 features, of which ten say something about the
    label.
    """
    import pyarrow
    import pyarrow.parquet

    names = [f"f{column}" for column in range(COLUMNS)]
    per_file = int(documents) // int(files) // LENGTH * LENGTH
    for number in range(int(files)):
        writer = None
        for first in range(0, per_file, _ROWS):
            rng = np.random.default_rng((number, first))
            rows = min(_ROWS, per_file - first)
            X = rng.random((rows, COLUMNS), np.float32)
            X[:, 100:] = np.where(X[:, 100:] < 0.6, 0, np.round(8 * X[:, 100:]))  # counts
            said = X[:, :10].sum(axis=1) - 5 + rng.normal(0, 0.6, rows).astype(np.float32)
            columns = [pyarrow.array(X[:, column]) for column in range(COLUMNS)]
            columns += [pyarrow.array(np.clip(np.floor(1 + said), 0, 4).astype(np.float32))]
            columns += [pyarrow.array((number * per_file + first + np.arange(rows)) // LENGTH)]
            table = pyarrow.table(columns, [*names, "label", "qid"])
            if writer is None:
                path = Path(folder) / f"{prefix}-{number}.parquet"
                writer = pyarrow.parquet.ParquetWriter(
                    path, table.schema, use_dictionary=False, compression="none"
                )
            writer.write_table(table)
        if writer is not None:
            writer.close()


def streamed(path: str, trees: str, memory: str) -> None:
    """Train out of memory; print the peak, the seconds, and a hash of the trees."""
    import tautrank as tr

    start = time.perf_counter()
    data = tr.data.read_streamed(path, memory=memory or None)
    ranker = tr.Ranker(n_estimators=int(trees), **TRAINED).fit(data)
    _print(ranker, time.perf_counter() - start)


def held(path: str, trees: str) -> None:
    """The same with the data in memory."""
    import glob

    import tautrank as tr

    start = time.perf_counter()
    data = tr.RankingData.concat([tr.data.read_parquet(each) for each in sorted(glob.glob(path))])
    ranker = tr.Ranker(n_estimators=int(trees), **TRAINED).fit(data)
    _print(ranker, time.perf_counter() - start)


def clustered(path: str, workers: str, trees: str, kill: str) -> None:
    """Train in worker processes; print the largest peak of a worker too."""
    import distributed

    import tautrank as tr

    quiet = {"dashboard_address": None, "silence_logs": 50}
    local = distributed.LocalCluster(
        n_workers=int(workers), threads_per_worker=1, memory_limit=None, **quiet
    )
    with local as cluster, distributed.Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        def lose(step: tr.engines.Step) -> None:  # type: ignore[name-defined]
            if kill and step.step == int(trees) // 2:
                os.kill(pids[0], signal.SIGKILL)

        start = time.perf_counter()
        data = tr.read_distributed(path, client=client)
        ranker = tr.Ranker(n_estimators=int(trees), **TRAINED).fit(data, callbacks=[lose])
        seconds = time.perf_counter() - start
        peaks = client.run(peak_memory)
    _print(ranker, seconds, max(peaks.values()))


def _print(ranker: Any, seconds: float, peak: int | None = None) -> None:
    import hashlib

    trees = ranker.model_.to_text().partition("end of trees")[0]
    found = {
        "trees": hashlib.sha256(trees.encode()).hexdigest(),
        "peak": (peak or peak_memory()) / 2**30,
        "seconds": seconds,
        "n": ranker.n_trees_,
    }
    sys.stdout.write("\n" + json.dumps(found))


def _run(*words: object) -> dict[str, Any]:
    """Run a part alone; LightGBM announces its network on standard output before the result."""
    command = [sys.executable, "-m", "bench.large_data", *map(str, words)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, Any] = json.loads(printed.rpartition(b"\n")[2])
    return found


def _same(what: str, first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str, str, bool]:
    same = first["trees"] == second["trees"]
    return f"trees {what}", "the same" if same else "others", "the same", same


def claims() -> Claims:
    with tempfile.TemporaryDirectory() as folder:
        simulate(folder, "small", str(100 * LENGTH * 10), "4")
        small = f"{folder}/small-*.parquet"
        one, two, four = (_run("clustered", small, n, 20, "") for n in (1, 2, 4))
        yield _same("of 2 and 4 worker processes", two, four)
        yield _same("of 1 and 2 worker processes", one, two)
        yield _same(
            "of 2 worker processes, one of them killed half-way",
            _run("clustered", small, 2, 20, "kill"),
            two,
        )
        yield _same(
            "out of memory and in memory",
            _run("streamed", small, 20, "2G"),
            _run("held", small, 20),
        )
        simulate(folder, "web30k", str(DOCUMENTS), "4")
        whole, part = (
            _run("held", f"{folder}/web30k-*.parquet", 10),
            _run("clustered", f"{folder}/web30k-*", 2, 10, ""),
        )
        ratio = part["peak"] / whole["peak"]
        what = f"memory of one of two workers, {DOCUMENTS / 1e6:.2f} M documents (one machine: {whole['peak']:.2f} GiB)"
        yield what, f"{ratio:.2f}x", "0.6x", ratio <= 0.6
    with tempfile.TemporaryDirectory() as folder:
        simulate(folder, "big", "8000000", "1")
        found = _run("streamed", f"{folder}/big-0.parquet", 20, "3G")
        what = f"20 trees of 8 M documents x {COLUMNS} features out of memory ({found['seconds']:.0f} s): peak"
        yield what, f"{found['peak']:.2f} GiB", "3 GiB", found["peak"] <= 3 and found["n"] == 20


if __name__ == "__main__":
    {"simulate": simulate, "streamed": streamed, "held": held, "clustered": clustered}[sys.argv[1]](
        *sys.argv[2:]
    )
