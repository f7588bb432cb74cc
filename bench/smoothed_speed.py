"""Gradients of smoothed metrics: StochasticRank compared with CatBoost's, SoftRank with a tree, and
how both scale.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

import tautrank as tr
from bench.loss_speed import (
    DOCUMENTS,
    FEATURES,
    QUERIES,
    THREADS,
    features_of,
    gradient,
    labels_and_offsets,
)
from bench.side_by_side import Claims, interleaved, speedup

CUTOFF, ROUNDS = 10, 5
LENGTHS = (100, 1_000, 10_000, 50_000)
# Fewer documents than this leave a cache or a thread idle, and the curve would show that instead.
CURVE_DOCUMENTS = 500_000


def claims() -> Claims:
    yield from _against_catboost()
    yield from _sampled()
    yield from _against_a_tree()
    yield from _by_queries()
    yield from _by_length()


def _catboost_tree(objective: str) -> Any:
    """A function that returns the seconds one of CatBoost's trees of depth 1 on one feature takes,
    set-up taken off.
    """
    import catboost

    labels, _ = labels_and_offsets()
    x = np.random.default_rng(1).random((labels.size, 1))
    pool = catboost.Pool(x, labels, group_id=np.repeat(np.arange(QUERIES), DOCUMENTS))

    def fit(trees: int) -> float:
        quiet = {"logging_level": "Silent", "metric_period": 10**6, "allow_writing_files": False}
        fixed = {"depth": 1, "bootstrap_type": "No", "random_strength": 0, "thread_count": THREADS}
        start = time.perf_counter()
        catboost.train(pool, {"loss_function": objective, "iterations": trees, **quiet, **fixed})
        return time.perf_counter() - start

    return lambda: (fit(13) - fit(3)) / 10


def _against_catboost() -> Claims:
    labels, offsets = labels_and_offsets()
    theirs = _catboost_tree(f"StochasticRank:metric=NDCG;top={CUTOFF}")
    nothing = _catboost_tree("RMSE")
    ours = gradient("stochasticrank", labels, offsets, metric=f"ndcg@{CUTOFF}")
    mine, peer, plain = [], [], []
    for _ in range(ROUNDS):
        mine.append(interleaved({"ours": ours}, 1, settle=True)["ours"])
        peer.append(theirs())
        plain.append(nothing())
    seconds, whole = float(np.median(mine)), float(np.median(peer) - np.median(plain))
    yield speedup(
        f"stochasticrank gradient, ndcg@{CUTOFF} compared with CatBoost's", seconds, whole, 5
    )


def _sampled() -> Claims:
    labels, offsets = labels_and_offsets()
    names = ("stochasticrank", "yetiloss", "plrank")
    more = {"metric": f"ndcg@{CUTOFF}", "samples": 10}
    times = interleaved(
        {name: gradient(name, labels, offsets, **more) for name in names}, ROUNDS, settle=True
    )
    for name in names[1:]:
        ratio = times[name] / times["stochasticrank"]
        yield (
            f"{name} gradient over stochasticrank's, 10 samples",
            f"{ratio:.2f}x",
            "at most 2x",
            ratio <= 2,
        )


def _against_a_tree() -> Claims:
    import lightgbm as lgb

    labels, offsets = labels_and_offsets()
    fixed = {"objective": "regression", "num_leaves": 255, "num_threads": THREADS, "verbose": -1}
    booster = lgb.Booster(fixed, lgb.Dataset(features_of(labels), labels))
    booster.update()
    cut, full = (gradient("softrank", labels, offsets, k=k) for k in (CUTOFF, None))
    times = interleaved({"tree": booster.update, f"k={CUTOFF}": cut, "full lists": full}, 11)
    for what in (f"k={CUTOFF}", "full lists"):
        ratio = times[what] / times["tree"]
        yield (
            f"exact softrank gradient, {what}, over one LightGBM tree of {FEATURES} features and 255 leaves "
            f"({times[what] * 1e3:.0f} ms / {times['tree'] * 1e3:.0f} ms)",
            f"{ratio:.2f}x",
            "at most 1.0x",
            ratio <= 1,
        )


def _by_queries() -> Claims:
    labels, offsets = labels_and_offsets()
    quarter = QUERIES // 4
    for name in ("stochasticrank", "softrank"):
        few = gradient(name, labels[: quarter * DOCUMENTS], offsets[: quarter + 1])
        many = gradient(name, labels, offsets)
        times = interleaved({"few": few, "many": many}, ROUNDS, settle=True)
        ratio = times["many"] / times["few"]
        yield (
            f"{name} gradient, {QUERIES} queries over {quarter}",
            f"{ratio:.1f}x",
            "4x, at most 5x",
            ratio <= 5,
        )


def _by_length() -> Claims:
    """Nanoseconds a document, over what k + log2(n) predicts from the shortest lists."""
    rng = np.random.default_rng(4)
    runs = {}
    for n in LENGTHS:
        queries = CURVE_DOCUMENTS // n
        labels = rng.choice(5, queries * n, p=tr.simulate.shapes.LABEL_SHARES).astype(np.float32)
        offsets = np.arange(queries + 1) * n
        runs[n] = gradient("stochasticrank", labels, offsets, metric=f"ndcg@{CUTOFF}")
    times = interleaved({str(n): run for n, run in runs.items()}, ROUNDS, settle=True)
    first = LENGTHS[0]
    for n in LENGTHS:
        documents = CURVE_DOCUMENTS // n * n
        each = times[str(n)] / documents * 1e9
        base = times[str(first)] / (CURVE_DOCUMENTS // first * first) * 1e9
        expected = base * (CUTOFF + math.log2(n)) / (CUTOFF + math.log2(first))
        yield (
            f"stochasticrank gradient, lists of {n:,}: nanoseconds per document ({expected:.0f} by k + log2 n)",
            f"{each:.0f}",
            f"at most {2 * expected:.0f}",
            each <= 2 * expected,
        )
