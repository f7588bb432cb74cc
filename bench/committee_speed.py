"""What a committee costs: training, scoring, loading and shipping it, list features, and the losses
made for it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tautrank as tr
from bench.data_sets import data_folder, folds_of
from bench.loss_speed import gradient, labels_and_offsets
from bench.side_by_side import Claims, interleaved
from tautrank.arrays import F64
from tautrank.ranker.list_features import ListFeatures

LOSSES = (
    "lambdarank",
    "ndcg-loss2++",
    "ndcg-loss1",
    "ranknet",
    "xendcg",
    "listnet",
    "stochasticrank",
    "mse",
)
ROUNDS = 3
LARGE = 250  # queries
MANY_TREES = 300


def claims() -> Claims:
    yield from _trainings()
    yield from _models()
    yield from _list_features()
    yield from _gradients()


def _trainings() -> Claims:
    large = tr.simulate.simulate_web_search(LARGE, like="mslr", seed=1)
    ratio, binning, one = _against_members(large, n_estimators=15, n_jobs=2)
    shape = f"{large.n_documents:,} x {large.n_features}"
    yield (
        f"committee of 8 over one member ({one:.2f} s), less the binning ({binning:.2f} s), {shape}",
        f"{ratio:.1f}x",
        "at most 8x",
        ratio <= 8,
    )
    if (data_folder() / "mq2008").is_dir():
        small = folds_of("mq2008", 1)[0].train
        ratio, _, one = _against_members(small, n_estimators=50)
        what = f"committee of 8 over one member ({one:.2f} s), a fold of MQ2008, both on two cores"
        yield what, f"{ratio:.1f}x", "at most 4.5x", ratio <= 4.5


def _against_members(data: tr.RankingData, **parameters: Any) -> tuple[float, float, float]:
    """How many times one member's time a committee takes, both less the binning; that, and one
    member's time.
    """
    import lightgbm

    fixed = {"threads": 2, "verbosity": -1, "data_random_seed": 0}

    def training(loss: Any, **more: Any) -> Callable[[], Any]:
        return lambda: tr.Ranker(loss, verbose=0, **parameters, **more).fit(data)

    def binned() -> Any:
        return lightgbm.Dataset(data.X, data.labels, group=data.sizes, params=fixed).construct()

    members = {loss: training(loss, members=1) for loss in LOSSES}
    for run in members.values():
        run()  # compiles
    times = interleaved({"committee": training([*LOSSES]), "binning": binned, **members}, ROUNDS)
    one = statistics.mean(times[loss] for loss in LOSSES)
    return (times["committee"] - times["binning"]) / (one - times["binning"]), times["binning"], one


def _models() -> Claims:
    data = tr.simulate.simulate_web_search(300, n_features=46, mean_length=20, seed=2)
    committee = tr.Ranker([*LOSSES], n_estimators=MANY_TREES, verbose=0).fit(data)
    single = tr.Ranker("xendcg", n_estimators=committee.n_trees_, verbose=0).fit(data)
    times = interleaved(
        {"committee": lambda: committee.predict(data), "single": lambda: single.predict(data)},
        15,
        settle=True,
    )
    ratio = times["committee"] / times["single"]
    trees = f"{committee.n_trees_:,} trees"
    yield (
        f"scoring by a committee over one model, {trees} each",
        f"{ratio:.2f}x",
        "at most 1.2x",
        ratio <= 1.2,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.taut"
        committee.save(path)
        seconds = interleaved({"load": lambda: tr.Ranker.load(path)}, 5)["load"]
        megabytes = path.stat().st_size / 2**20
    yield (
        f"loading a committee of {trees} ({megabytes:.1f} MB)",
        f"{seconds:.2f} s",
        "under 1 s",
        seconds < 1,
    )
    scores = committee.predict(data)
    for what, found in (
        ("ONNX Runtime", _by_onnx(committee, data)),
        ("a server that adds in float32", _leaves_added(committee, data)),
    ):
        worst = float(np.abs(found - scores).max())
        yield (
            f"scores of {trees} by {what}: largest error",
            f"{worst:.1e}",
            "at most 1e-6",
            worst <= 1e-6,
        )


def _by_onnx(ranker: tr.Ranker, data: tr.RankingData) -> F64:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        tr.export_model(ranker, f"{folder}/model.onnx", "onnx")
        session = onnxruntime.InferenceSession(
            f"{folder}/model.onnx", providers=["CPUExecutionProvider"]
        )
    found: F64 = session.run(["scores"], {"features": data.X})[0][:, 0].astype(np.float64)
    return found


def _leaves_added(ranker: tr.Ranker, data: tr.RankingData) -> F64:
    """What servers get that read leaves as float32, and add them one by one."""
    leaves = ranker.model_.leaves(data.X)
    total = np.zeros(data.n_documents, np.float32)
    for number, tree in enumerate(ranker.model_.trees()):
        total += tree.leaf.astype(np.float32)[leaves[:, number]]
    return total.astype(np.float64)


def _list_features() -> Claims:
    rng = np.random.default_rng(0)
    offsets = np.arange(6001, dtype=np.int64) * 120
    X = rng.standard_normal((720_000, 136), dtype=np.float32)
    lists = ListFeatures(range(136))
    lists.transform(X[:120], offsets[:2])  # compiles
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        lists.transform(X, offsets, threads=2)
        seconds.append((time.process_time() - start) / 2)
    taken = statistics.median(seconds)
    what = "list features of 720,000 x 136, processor seconds on each of two cores"
    yield what, f"{taken:.2f} s", "under 1.5 s", taken < 1.5


def _gradients() -> Claims:
    """With equal numbers of drawn rankings, and with the defaults, which are 10 against 1."""
    labels, offsets = labels_and_offsets()
    base, ours = "stochasticrank", ("yetiloss", "plrank")
    for samples in (10, None):
        more = {} if samples is None else {"samples": samples}
        times = interleaved(
            {name: gradient(name, labels, offsets, **more) for name in (base, *ours)},
            7,
            settle=True,
        )
        for name in ours:
            ratio = times[name] / times[base]
            what = f"gradient of {name} over {base}'s"
            if samples is None:
                yield f"{what}, 10 samples and 1, the defaults", f"{ratio:.2f}x", "reported", True
            else:
                yield f"{what}, {samples} samples each", f"{ratio:.2f}x", "at most 2x", ratio <= 2
