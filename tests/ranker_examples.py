"""Data that a few small trees learn, and rankers that train quickly."""

from __future__ import annotations

import numpy as np

import tautrank as tr
from tautrank.ranker.estimator import Ranker


def made_up(queries=60, documents=20, features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, features)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=X.shape[0])), 0, 4)
    return tr.RankingData.from_arrays(X, y, group=[documents] * queries)


TRAIN, VALID = made_up(), made_up(seed=1)


def ranker(loss="lambdarank", **parameters):
    return Ranker(loss, **{"n_estimators": 12, "num_leaves": 15, "n_jobs": 1, "verbose": 0, **parameters})
