"""Scoring compared with LightGBM's own `predict`, ONNX Runtime and lleaves, on one thread; one row;
the first call.

What is timed is the processor time of the calling thread, in which all of them work: a busy machine
does not count.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import KEPT
from bench.side_by_side import Claims, alone, interleaved

FORESTS = ((300, 31), (300, 64), (1_000, 255))
ROWS = (100, 1_000)
_LEAST, _MOST_MICROSECONDS, _MOST_SECONDS = 6.0, 15.0, 0.7
_ROUNDS = 15
# lleaves compiles one model to machine code; the larger ones take it many minutes.
_COMPILED_BY_LLEAVES = 300 * 31


def claims() -> Claims:
    data = tr.simulate.simulate_web_search(170, like="mslr", seed=0)
    for trees, leaves in FORESTS:
        file = _forest(data, trees, leaves)
        scorers = _scorers(file, trees * leaves)
        for n in ROWS:
            X = np.ascontiguousarray(data.X[:n])
            expected = scorers["LightGBM"](X)
            assert np.array_equal(scorers["tautrank"](X), expected)
            times = interleaved(
                {name: (lambda score=score, X=X: score(X)) for name, score in scorers.items()},
                _ROUNDS,
                settle=True,
                clock=time.thread_time,
            )
            for peer in scorers:
                if peer != "tautrank":
                    least = _LEAST if peer == "LightGBM" else None
                    yield _faster(f"{trees:,} x {leaves} leaves, {n:,} rows", peer, times, least)
        rows = [np.ascontiguousarray(data.X[row : row + 1]) for row in range(100)]
        one = interleaved(
            {
                name: (lambda score=score, rows=rows: [score(row) for row in rows])
                for name, score in scorers.items()
            },
            _ROUNDS,
            clock=time.thread_time,
        )
        said = ", ".join(
            f"{name} {seconds * 1e4:.0f}" for name, seconds in one.items() if name != "tautrank"
        )
        measured = one["tautrank"] / len(rows) * 1e6
        asked = leaves <= 64
        yield (
            f"{trees:,} x {leaves} leaves, one row ({said})",
            f"{measured:.1f} us",
            f"at most {_MOST_MICROSECONDS:g} us" if asked else "reported",
            not asked or measured <= _MOST_MICROSECONDS,
        )
    first = min(
        alone("-m", "bench.scoring_speed", str(_forest(data, *FORESTS[0]))) for _ in range(3)
    )
    yield (
        "first call in a process, processor time",
        f"{first:.2f} s",
        f"under {_MOST_SECONDS} s",
        first < _MOST_SECONDS,
    )


def _faster(
    what: str, peer: str, times: dict[str, float], least: float | None
) -> tuple[str, str, str, bool]:
    ratio = times[peer] / times["tautrank"]
    asked, holds = ("reported", True) if least is None else (f"{least:g}x", ratio >= least)
    return (
        f"{what}, {peer} ({times['tautrank'] * 1e3:.2f} ms / {times[peer] * 1e3:.2f} ms)",
        f"{ratio:.1f}x",
        asked,
        holds,
    )


def _forest(data: tr.RankingData, trees: int, leaves: int) -> Path:
    """A LightGBM model whose trees all have this many leaves; trained once and kept."""
    import lightgbm

    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"forest-{trees}x{leaves}.txt"
    if not file.exists():
        parameters = {
            "objective": "regression",
            "num_leaves": leaves,
            "learning_rate": 0.05,
            "min_data_in_leaf": 5,
            "min_sum_hessian_in_leaf": 0.0,
            "feature_fraction": 0.3,
            "max_bin": 127,
            "verbosity": -1,
        }
        binned = lightgbm.Dataset(data.X, data.labels)
        lightgbm.train(parameters, binned, trees).save_model(file)
    return file


def _scorers(file: Path, size: int) -> dict[str, Callable[[Any], Any]]:
    """The ways to score a model of LightGBM, each on one thread."""
    import lightgbm

    ranker = tr.Ranker.load(file).set_params(n_jobs=1)
    booster = lightgbm.Booster(model_file=file)
    found: dict[str, Callable[[Any], Any]] = {
        "tautrank": ranker.predict,
        "LightGBM": lambda X: booster.predict(X, raw_score=True, num_threads=1),
    }
    with contextlib.suppress(ImportError), tempfile.TemporaryDirectory() as folder:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tr.export_model(ranker, Path(folder) / "model.onnx", "onnx")
        session = onnxruntime.InferenceSession(
            (Path(folder) / "model.onnx").read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        name = session.get_inputs()[0].name
        found["ONNX Runtime"] = lambda X: session.run(None, {name: X})[0]
    if size <= _COMPILED_BY_LLEAVES:
        with contextlib.suppress(ImportError):
            import lleaves

            compiled = lleaves.Model(model_file=str(file))
            compiled.compile()
            found["lleaves"] = lambda X: compiled.predict(X.astype(np.float64), n_jobs=1)
    return found


if __name__ == "__main__":
    loaded = tr.Ranker.load(sys.argv[1])
    X = np.zeros((100, loaded.n_features_in_), np.float32)
    start = time.process_time()
    loaded.predict(X)
    print(json.dumps(time.process_time() - start))
