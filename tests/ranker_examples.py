"""Data that a few small trees learn, and rankers that train quickly."""

from __future__ import annotations

import numpy as np

import tautrank as tr
from tautrank.ranker.estimator import Ranker


def synthetic(queries=60, documents=20, features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=X.shape[0])), 0, 4)
    return tr.RankingData.from_arrays(X, y, group=[documents] * queries)


TRAIN, VALID = synthetic(), synthetic(seed=1)


QUICK = {
    "n_estimators": 12,
    "learning_rate": 0.1,
    "num_leaves": 15,
    "early_stopping_rounds": None,
    "n_jobs": 1,
    "verbose": 0,
}


def ranker(loss="lambdarank", **parameters):
    return Ranker(loss, **{**QUICK, **parameters})
