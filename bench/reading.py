"""Reading LETOR text compared with scikit-learn: speed, and peak memory relative to the arrays
returned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tautrank as tr
from bench.data_sets import KEPT
from bench.side_by_side import Claims, alone, interleaved
from tautrank.commands.output import ERR
from tautrank.files import atomic_write

BYTES, FEATURES, ROUNDS = 320 * 10**6, 136, 3
_SPEED = 10
_MEMORY = 1.5

# Run in a process of its own, since the peak is a property of a process. The compiled reader is
# loaded before, by a file that is large enough for it, as it is in any training.
_MEASURE = """
import json, sys, tautrank as tr
from bench.side_by_side import peak_memory
tr.read_letor(sys.argv[1], cache=False)
before = peak_memory()
data = tr.read_letor(sys.argv[2], cache=False)
arrays = data.X.nbytes + data.labels.nbytes + data.offsets.nbytes + data.qids.nbytes
print(json.dumps([peak_memory() - before, arrays]))
"""


def generated_file() -> Path:
    """A file of at least 300 MB, made once: 136 dense features, qid, a comment on every line."""
    path = KEPT / "web-search.txt"
    if path.exists() and path.stat().st_size >= BYTES:
        return path
    ERR.print(f"writing {BYTES // 10**6} MB of LETOR text to {path} (once) ...", style="dim")
    KEPT.mkdir(exist_ok=True)
    row = (
        "%d qid:%d "
        + " ".join(f"{i + 1}:%.6f" for i in range(FEATURES))
        + " #docid = GX%03d-%02d-%07d inc = 1\n"
    )
    data = tr.simulate.simulate_web_search(1000, n_features=FEATURES, seed=0)
    X, labels, query = (
        data.X.tolist(),
        data.labels.astype(int).tolist(),
        data.qid_of_document.tolist(),
    )
    with atomic_write(path) as file:
        written = 0
        while written < BYTES:
            for i, values in enumerate(X):
                line = row % (labels[i], query[i] + written, *values, i % 1000, i % 100, i)
                file.write(line.encode())
            written = file.tell()
    return path


def claims() -> Claims:
    from sklearn.datasets import load_svmlight_file

    path = generated_file()
    size = path.stat().st_size / 1e6
    small = KEPT / "small.txt"
    small.write_text("1 qid:1 1:0.5\n" * 300_000)
    tr.read_letor(small)  # compiles

    ERR.print(f"scikit-learn takes about half a minute a round, {ROUNDS} rounds ...", style="dim")
    results = {}

    def ours() -> None:
        results["ours"] = tr.read_letor(path, cache=False)

    def theirs() -> None:
        results["theirs"] = load_svmlight_file(str(path), query_id=True)

    times = interleaved({"tautrank": ours, "sklearn": theirs}, ROUNDS)
    X, y, qid = results["theirs"]
    data = results["ours"]
    assert np.array_equal(data.labels, y)
    assert np.array_equal(data.qid_of_document, qid)
    assert np.array_equal(data.X[:2000], X[:2000].toarray().astype(np.float32))
    results.clear()
    del X, y, qid, data
    ratio = times["sklearn"] / times["tautrank"]
    speeds = " / ".join(f"{size / times[name]:.0f} MB/s" for name in ("tautrank", "sklearn"))
    yield (
        f"read_letor, {size:.0f} MB compared with load_svmlight_file ({speeds})",
        f"{ratio:.0f}x",
        f"{_SPEED}x",
        ratio >= _SPEED,
    )

    peak, arrays = alone("-c", _MEASURE, str(small), str(path))
    yield (
        f"peak memory of reading it ({peak / 1e6:.0f} MB for {arrays / 1e6:.0f} MB of arrays)",
        f"{peak / arrays:.2f}x",
        f"at most {_MEMORY}x",
        peak <= _MEMORY * arrays,
    )

    cached = KEPT / "web-search.txt.tautcache"
    cached.unlink(missing_ok=True)
    tr.read_letor(path, cache=True)
    times = interleaved(
        {
            "parsed": lambda: tr.read_letor(path, cache=False),
            "cached": lambda: tr.read_letor(path, cache=True),
        },
        5,
    )
    ratio = times["parsed"] / times["cached"]
    yield (
        f"reading it again from the cache ({times['parsed']:.2f} s / {times['cached']:.2f} s)",
        f"{ratio:.1f}x",
        "reported",
        True,
    )
    cached.unlink(missing_ok=True)
