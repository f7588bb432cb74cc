"""Data of 60 lists of 20 documents, in three parts, as arrays."""

from __future__ import annotations

import numpy as np

import tautrank as tr

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(1200, 5)).astype(np.float32).astype(float)
Y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + _RNG.normal(size=1200) * 0.7, [0.3, 1.2])
GROUP = [20] * 60
QID = np.repeat(np.arange(60), 20)
TRAIN, DEV, TEST = slice(0, 800), slice(800, 1000), slice(1000, 1200)


def ranking_data(rows: slice) -> tr.RankingData:
    """Return the documents of a part."""
    return tr.RankingData.from_arrays(X[rows], Y[rows], qid=QID[rows])
