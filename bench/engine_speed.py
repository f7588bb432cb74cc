"""Trainings on XGBoost: this library's lambdarank beside XGBoost's own rank:ndcg, trees of depth 8.

BENCH_QUERIES=1000 measures on fewer queries than 6,000; the row says so.
"""

from __future__ import annotations

import os

import numpy as np

import tautrank as tr
from bench.loss_speed import DOCUMENTS, THREADS, features_of, labels_and_offsets
from bench.side_by_side import Claims, interleaved

TREES, DEPTH, ROUNDS = 100, 8, 3


def claims() -> Claims:
    import xgboost as xgb

    queries = int(os.environ.get("BENCH_QUERIES", 6000))
    labels = labels_and_offsets()[0][: queries * DOCUMENTS]
    X = features_of(labels)
    data = tr.RankingData(
        X, labels, np.arange(queries + 1, dtype=np.int64) * DOCUMENTS, np.arange(queries)
    )
    grown = {"max_depth": DEPTH, "learning_rate": 0.1}

    def theirs() -> None:
        matrix = xgb.DMatrix(X, labels, group=np.full(queries, DOCUMENTS), nthread=THREADS)
        xgb.train(
            {**grown, "objective": "rank:ndcg", "tree_method": "hist", "nthread": THREADS},
            matrix,
            TREES,
        )

    def ours() -> None:
        tr.Ranker(
            "lambdarank", engine="xgboost", n_estimators=TREES, n_jobs=THREADS, verbose=0, **grown
        ).fit(data)

    tr.Ranker("lambdarank", engine="xgboost", n_estimators=1, verbose=0).fit(
        data.subset(np.arange(10))
    )  # compiles
    times = interleaved({"ours": ours, "theirs": theirs}, ROUNDS)
    ratio = times["ours"] / times["theirs"]
    size = f"{labels.size:,} documents, {X.shape[1]} features"
    yield (
        f"{TREES} trees of depth {DEPTH} on XGBoost, lambdarank over rank:ndcg, {size} "
        f"({times['ours']:.0f} s / {times['theirs']:.0f} s)",
        f"{ratio:.2f}x",
        "at most 1.0x",
        ratio <= 1.0,
    )
