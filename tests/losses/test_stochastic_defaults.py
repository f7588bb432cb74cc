"""With every other parameter at its default, smoothed metrics train as well as lambdarank on real
data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Splits

FOLDS = 5
NDCG_5 = tr.metric("ndcg@5")


def folds(data: str, folder: Path) -> list[Splits]:
    if data == "mq2008":
        return [tr.data.read_folder(folder / data, fold) for fold in range(1, FOLDS + 1)]
    parts = [
        tr.read_letor(folder / data / f"part{i}.txt", n_features=42) for i in range(1, FOLDS + 1)
    ]
    around = [[parts[(i + step) % FOLDS] for step in range(FOLDS)] for i in range(FOLDS)]
    return [Splits(tr.RankingData.concat(after[2:]), after[1], after[0]) for after in around]


def validation(loss: str, splits: list[Splits]) -> np.ndarray:
    """NDCG@5 of every validation query of all folds, after the trees that are best for its fold."""
    values_of_folds = []
    for fold in splits:
        valid = fold.valid
        assert valid is not None
        trees = {"n_estimators": 100, "learning_rate": 0.1, "early_stopping_rounds": None}
        ranker = tr.Ranker(loss=loss, metric=NDCG_5, verbose=0, n_jobs=1, **trees).fit(
            fold.train, valid
        )
        scores = ranker.model_.booster.predict(
            valid.X, raw_score=True, num_iteration=ranker.best_iteration_
        )
        values_of_folds.append(NDCG_5.per_query(scores, valid))
    values = np.concatenate(values_of_folds)
    return values[~np.isnan(values)]


@pytest.mark.parametrize("data", ["mq2008", "clueweb09"])
def test_stochasticrank_and_softrank_keep_up_with_lambdarank(data: str, shared_data: Path) -> None:
    splits = folds(data, shared_data)
    base = validation("lambdarank", splits)
    error = base.std(ddof=1) / np.sqrt(base.size)
    for loss in ("stochasticrank", "softrank"):
        assert validation(loss, splits).mean() > base.mean() - error, loss
