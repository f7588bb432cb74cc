"""Time and memory by the number of documents, beside LightGBM's; `python -m bench.scale --write`
for the documents.

Each tool reads a file of LETOR text, trains ten trees, scores the documents and evaluates the
scores, in a process of its own, with one thread. Seconds are those of the processor. LightGBM bins
while it reads, and reads the file again to score it; text of more than 2 GiB it reads twice
(``two_round``), which takes less memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tautrank as tr
from bench.data_sets import KEPT, ROOT
from bench.drawing import Series, write_picture
from bench.side_by_side import alone, peak_memory
from tautrank.files import atomic_write, write_whole
from tautrank.tables import Table

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
FEATURES, LENGTH, TREES, LEAVES = 136, 100, 10, 31
STEPS = ("reading", "training", "scoring", "evaluation")
TOOLS = ("tautrank", "LightGBM")
_BEGIN, _END = "<!-- scale: written by bench/scale.py -->", "<!-- end of scale -->"


def file_of(documents: int) -> Path:
    """A file of LETOR text with about this many documents, made once; LightGBM reads queries from a
    file beside it.
    """
    path = KEPT / f"scale-{documents}.txt"
    if not path.exists():
        KEPT.mkdir(exist_ok=True)
        block = min(documents, 100_000)
        data = tr.simulate.simulate_web_search(
            block // LENGTH, n_features=FEATURES, mean_length=LENGTH, seed=0
        )
        row = "%d " + " ".join(f"{i + 1}:%.5g" for i in range(FEATURES)) + "\n"
        rows = zip(data.labels.tolist(), data.X.tolist(), strict=True)
        text = "".join(row % (label, *values) for label, values in rows).encode()
        times = documents // block
        write_whole(
            path.with_name(f"{path.name}.query"),
            "".join(f"{size}\n" for size in data.sizes.tolist() * times),
        )
        with atomic_write(path) as file:
            for _ in range(times):
                file.write(text)
    return path


def ours(path: str) -> dict[str, Callable[[], Any]]:
    kept: dict[str, Any] = {}
    judge = tr.metric("ndcg@10")
    ranker = tr.Ranker(
        n_estimators=TREES, num_leaves=LEAVES, early_stopping_rounds=None, n_jobs=1, verbose=0
    )
    return {
        "reading": lambda: kept.update(data=tr.read_letor(path, cache=False, n_jobs=1)),
        "training": lambda: ranker.fit(kept["data"]),
        "scoring": lambda: kept.update(scores=ranker.predict(kept["data"])),
        "evaluation": lambda: judge.mean(kept["scores"], kept["data"].labels, kept["data"].offsets),
    }


def theirs(path: str) -> dict[str, Callable[[], Any]]:
    import lightgbm as lgb

    kept: dict[str, Any] = {}
    how = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [10],
        "num_leaves": LEAVES,
        "learning_rate": 0.05,
    }
    how |= {"num_threads": 1, "verbosity": -1, "two_round": Path(path).stat().st_size > 2**31}

    def train() -> None:
        kept["booster"] = lgb.Booster(how, kept["data"])
        for _ in range(TREES):
            kept["booster"].update()

    return {
        "reading": lambda: kept.update(data=lgb.Dataset(path, params=how).construct()),
        "training": train,
        "scoring": lambda: kept["booster"].predict(path),
        "evaluation": lambda: kept["booster"].eval_train(),
    }


def measured(tool: str, path: str) -> dict[str, tuple[float, int]]:
    """Processor seconds of each step, and the peak memory after it; what is compiled was compiled
    before.
    """
    found = {}
    for step, run in (ours if tool == TOOLS[0] else theirs)(path).items():
        start = time.process_time()
        run()
        found[step] = time.process_time() - start, peak_memory()
    return found


def page(found: dict[str, dict[str, Any]]) -> str:
    """The table: seconds of each step and peak memory, ours / LightGBM's, by the number of
    documents.
    """
    sizes = sorted({int(key.split()[1]) for key in found})
    rows = []
    for size in sizes:
        both = [found[f"{tool} {size}"] for tool in TOOLS]
        cells = [" / ".join(f"{each[step][0]:.2f} s" for each in both) for step in STEPS]
        memory = " / ".join(f"{each[STEPS[-1]][1] / 2**20:,.0f} MiB" for each in both)
        rows.append((f"{size:,}", *cells, memory))
    table = Table.of(("documents", *STEPS, "peak memory"), rows).to_markdown().rstrip()
    for name, at, unit in (
        ("scale-time.svg", 0, "seconds"),
        ("scale-memory.svg", 1, "peak memory, MiB"),
    ):
        lines = [
            Series(
                f"{tool}: {step}",
                sizes,
                [found[f"{tool} {size}"][step][at] / (2**20 if at else 1) for size in sizes],
                True,
            )
            for step in (STEPS[:3] if not at else STEPS[-1:])
            for tool in TOOLS
        ]
        write_picture(
            name, lines, title=name, x_label="documents", y_label=unit, log_x=True, log_y=True
        )
    pictures = "![Seconds by documents](pictures/scale-time.svg)\n\n![Memory by documents](pictures/scale-memory.svg)"
    return f"{table}\n\n{pictures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-2], help="largest number of documents")
    parser.add_argument(
        "--write", action="store_true", help="write table and pictures to docs/performance.md"
    )
    parser.add_argument("--alone", nargs=2, metavar=("TOOL", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        json.dump(measured(*given.alone), sys.stdout)
        return
    found = {}
    measured(TOOLS[0], str(file_of(SIZES[0])))  # compiles
    for size in (size for size in SIZES if size <= given.most):
        for tool in TOOLS:
            found[f"{tool} {size}"] = alone(
                "-m", "bench.scale", "--alone", tool, str(file_of(size))
            )
            print(tool, size, found[f"{tool} {size}"], file=sys.stderr, flush=True)
    text = page(found)
    print(text)
    if given.write:
        target = ROOT / "docs" / "performance.md"
        before, _, rest = target.read_text().partition(_BEGIN)
        write_whole(target, f"{before}{_BEGIN}\n\n{text}\n\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    main()
