"""Gradients, trainings and first calls compared with LightGBM's own objectives: 6,000 queries of
120 documents.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import tautrank as tr
from bench.side_by_side import Claims, alone, interleaved, speedup
from tautrank.commands.output import ERR
from tautrank.engines.gradients import Gradients

QUERIES, DOCUMENTS, FEATURES, THREADS = 6000, 120, 136, 2
ROUNDS = 7


def labels_and_offsets() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    labels = rng.choice(5, QUERIES * DOCUMENTS, p=tr.simulate.shapes.LABEL_SHARES).astype(
        np.float32
    )
    return labels, np.arange(QUERIES + 1, dtype=np.int64) * DOCUMENTS


def features_of(labels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    X = np.random.default_rng(3).standard_normal((labels.size, FEATURES)).astype(np.float32)
    X[:, :10] += 0.3 * labels[:, None]
    return X


def gradient(
    name: str,
    labels: npt.NDArray[Any],
    offsets: npt.NDArray[Any],
    threads: int = THREADS,
    **parameters: Any,
) -> Any:
    """A function that takes the next gradient of a loss, at random scores."""
    objective = tr.loss(name, **parameters).bind(labels, offsets, n_jobs=threads)
    scores = np.random.default_rng(2).standard_normal(labels.size).astype(np.float32)
    objective.gradients(scores, 0)  # compiles
    steps = iter(range(1, 10**6))
    return lambda: objective.gradients(scores, next(steps))


def _booster(labels: npt.NDArray[np.float32], objective: str, **parameters: Any) -> Any:
    """LightGBM on one trivial feature with two leaves: what is left of its time is the
    objective's.
    """
    import lightgbm as lgb

    x = np.random.default_rng(1).random((labels.size, 1))
    group = None if objective == "regression" else np.full(QUERIES, DOCUMENTS)
    fixed = {"num_leaves": 2, "max_bin": 3, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 1}
    booster = lgb.Booster(
        {"objective": objective, **fixed, **parameters}, lgb.Dataset(x, labels, group=group)
    )
    booster.update()
    return booster


def claims() -> Claims:
    yield from _gradients()
    yield from _long_list()
    yield from _first_starts()


def _gradients() -> Claims:
    """On one thread, by its processor time: a busy machine does not count."""
    labels, offsets = labels_and_offsets()
    plain = {"lambdarank_norm": False}
    peers = {
        "regression": _booster(labels, "regression"),
        "lgb full": _booster(labels, "lambdarank", lambdarank_truncation_level=DOCUMENTS, **plain),
        "lgb k=30": _booster(labels, "lambdarank", lambdarank_truncation_level=30, **plain),
        "lgb xendcg": _booster(labels, "rank_xendcg"),
    }
    times = interleaved(
        {name: booster.update for name, booster in peers.items()}
        | {
            "full": gradient("lambdarank", labels, offsets, 1, k=None),
            "k=30": gradient("lambdarank", labels, offsets, 1),
            "++ full": gradient("ndcg-loss2++", labels, offsets, 1, k=None),
            "++ k=30": gradient("ndcg-loss2++", labels, offsets, 1),
            "xendcg": gradient("xendcg", labels, offsets, 1),
            **{
                how: gradient("lambdarank", labels, offsets, 1, extend=how)
                for how in ("static", "random", "all")
            },
        },
        ROUNDS,
        settle=True,
        clock=time.thread_time,
    )
    for what, mine, theirs, asked in (
        ("lambdarank gradient, full lists", "full", "lgb full", 12.0),
        ("lambdarank gradient, k=30", "k=30", "lgb k=30", 6.0),
        ("xendcg gradient", "xendcg", "lgb xendcg", 2.5),
    ):
        yield speedup(
            f"{what} compared with LightGBM's",
            times[mine],
            times[theirs] - times["regression"],
            asked,
        )
    for how in ("static", "random", "all"):
        ratio = times[how] / times["k=30"]
        yield (
            f"time of lambdarank, k=30, extend={how} over without",
            f"{ratio:.2f}x",
            "at most 1.5x",
            ratio <= 1.5,
        )
    for what, mine, base in (("full lists", "++ full", "full"), ("k=30", "++ k=30", "k=30")):
        ratio = times[mine] / times[base]
        yield (
            f"time of ndcg-loss2++ over lambdarank, {what}",
            f"{ratio:.2f}x",
            "at most 1.5x",
            ratio <= 1.5,
        )


_LONG = """
import json, time, numpy as np, tautrank as tr
from bench.side_by_side import peak_memory
rng = np.random.default_rng(0)
n = 50_000
labels, scores = rng.choice(5, n).astype(np.float32), rng.standard_normal(n).astype(np.float32)
warm = tr.loss("lambdarank", k=None).bind(labels[:100], [0, 100])
warm.gradients(scores[:100], 0)
before = peak_memory()
objective = tr.loss("lambdarank", k=None).bind(labels, [0, n])
start = time.perf_counter()
objective.gradients(scores, 0)
print(json.dumps([time.perf_counter() - start, (peak_memory() - before) / 2**20]))
"""


def _long_list() -> Claims:
    seconds, megabytes = alone("-c", _LONG)
    yield (
        f"memory of a gradient over one list of 50,000, full ({seconds:.2f} s)",
        f"{megabytes:.0f} MB",
        "no n x n (10,000 MB)",
        megabytes < 200,
    )


_FIRST = """
import time, numpy as np
start = time.process_time()
import tautrank as tr, sys
objective = tr.loss(sys.argv[1]).bind(np.array([0, 1, 2], np.float32), [0, 3])
objective.gradients(np.zeros(3, np.float32), 0)
print(time.process_time() - start)
"""


def _first_starts() -> Claims:
    """By the processor, as the gradients."""
    for name in ("lambdarank", "ndcg-loss2++", "xendcg", "listnet", "lambdarank(assignment=soft)"):
        with tempfile.TemporaryDirectory() as folder:
            first, *others = (alone("-c", _FIRST, name, NUMBA_CACHE_DIR=folder) for _ in range(4))
        later = statistics.median(others)
        yield f"first gradient ever of {name}, compiling", f"{first:.1f} s", "under 6 s", first < 6
        yield (
            f"first gradient of {name} in a later process",
            f"{later:.2f} s",
            "under 1 s",
            later < 1,
        )


TRAINED = tuple(tr.losses.REGISTRY)
_FAST = ", fast"


def training_claims() -> Claims:
    """100 trees of 255 leaves on 136 features: every loss in `Ranker` compared with LightGBM's own
    lambdarank.

    Of a training that is slower than asked, the time without gradients shows what no loss could be
    faster than: bins, and the trees that these gradients lead to.
    """
    labels, offsets = labels_and_offsets()
    data = tr.RankingData(features_of(labels), labels, offsets, np.arange(QUERIES))
    runs = [(name, speed) for speed in ("exact", "fast") for name in TRAINED]
    peer = [_their_training(data)]
    seconds: dict[str, tuple[float, float]] = {}
    for i, (name, speed) in enumerate(runs):
        title = name + _FAST * (speed == "fast")
        seconds[title] = _our_training(data, name, speed)
        ERR.print(f"  {title}: {seconds[title][0]:.0f} s", style="dim")
        if i in (len(runs) // 4, len(runs) // 2 - 1, len(runs) - 1):
            peer.append(_their_training(data))
    reference = statistics.median(peer)
    for title, (own, gradients) in seconds.items():
        limit = 1.0 if title.startswith("softrank") else 0.8
        yield (
            f"100 trees with {title}, over LightGBM's lambdarank ({own:.0f} s / {reference:.0f} s; "
            f"without gradients {(own - gradients) / reference:.2f}x)",
            f"{own / reference:.2f}x",
            f"at most {limit:g}x",
            own <= limit * reference,
        )
    fast, _ = _our_training(data, "lightgbm:lambdarank", "fast")
    yield (
        f"100 trees with LightGBM's lambdarank{_FAST} ({fast:.0f} s)",
        f"{fast / reference:.2f}x",
        "reported",
        True,
    )


def _their_training(data: tr.RankingData) -> float:
    import lightgbm as lgb

    start = time.perf_counter()
    dataset = lgb.Dataset(data.X, data.labels, group=data.sizes)
    fixed = {"objective": "lambdarank", "num_leaves": 255, "num_threads": THREADS, "verbose": -1}
    lgb.train(fixed, dataset, 100)
    return time.perf_counter() - start


def _our_training(data: tr.RankingData, loss: str, speed: str) -> tuple[float, float]:
    """Seconds of a training, and of its gradients."""
    computed, spent = Gradients.__call__, []

    def timed(*given: Any, **named: Any) -> Any:
        start = time.perf_counter()
        found = computed(*given, **named)
        spent.append(time.perf_counter() - start)
        return found

    small = {
        "n_estimators": 100,
        "learning_rate": 0.1,
        "num_leaves": 255,
        "n_jobs": THREADS,
        "verbose": 0,
    }
    start = time.perf_counter()
    with patch.object(Gradients, "__call__", timed):
        tr.Ranker(loss=loss, speed=speed, **small).fit(data)
    return time.perf_counter() - start, sum(spent)
