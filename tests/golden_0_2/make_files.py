"""Write the files of this folder: PYTHONPATH=the source of version 0.2.0 python make_files.py.

Models of every kind with their scores, and stores of finished trainings. Later versions read them
in `tests/test_version_0_2.py`; this file is run by version 0.2.0 alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tautrank as tr
from tautrank.data import write_letor
from tautrank.papers import Budget, find_study, run_study

HERE = Path(__file__).parent
SMALL = {"n_estimators": 6, "num_leaves": 5, "min_data_in_leaf": 5, "verbose": 0, "n_jobs": 1}
PLAIN = {"n_estimators": 5, "verbose": 0, "n_jobs": 1}


def main() -> None:
    """Write data, models, scores and stores, in this order."""
    assert tr.__version__ == "0.2.0"
    os.chdir(HERE)
    Path("models").mkdir(exist_ok=True)
    write_data()
    write_models()
    write_stores()


def write_data() -> None:
    """Write labelled lists of six features, the fourth a category code, and rows to score."""
    rng = np.random.default_rng(0)
    n_queries, length = 60, 6
    X = np.round(rng.normal(size=(n_queries * length, 6)), 3).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    X[:, 3] = rng.integers(0, 6, len(X))
    relevance = X[:, 0] + X[:, 1] * X[:, 2] + np.isin(X[:, 3], [1, 4])
    labels = np.clip(np.round(relevance + rng.normal(size=len(X)) / 2), 0, 4)
    data = tr.RankingData.from_arrays(X, labels, group=np.full(n_queries, length))
    write_letor(data, Path("data.txt"))

    rows = X[:200].copy()
    odd_values = np.array([0.0, -0.0, np.nan, 1e-36, 1e9, -1e9, -1.0, 0.5, 5.0, 7.0], np.float32)
    rows[::3, rng.permutation(6)] = rng.choice(odd_values, (len(rows[::3]), 6))
    np.save("rows.npy", rows)


def write_models() -> None:
    """Write models of every kind, and the scores that they give to the rows."""
    data = tr.read_letor("data.txt")
    train, valid = data.subset(range(45)), data.subset(range(45, 60))
    langevin = tr.Langevin(temperature=1e4, shrink_rate=1e-3)
    xgboost = {"engine": "xgboost", "num_leaves": 5, **PLAIN}
    rankers = {
        "lightgbm": tr.Ranker("lambdarank", **SMALL),
        "lightgbm-categories": tr.Ranker(
            "xendcg", categorical_feature=[3], min_data_per_group=5, **SMALL
        ),
        "lightgbm-own-objective": tr.Ranker("lightgbm:lambdarank", **SMALL),
        "lightgbm-linear-trees": tr.Ranker("mse", linear_tree=True, **SMALL),
        "fast": tr.Ranker("lambdarank", speed="fast", **SMALL),
        "langevin": tr.Ranker("xendcg", langevin=langevin, **SMALL),
        "committee": tr.Ranker(["lambdarank", "listnet"], members=2, **SMALL),
        "list-features": tr.Ranker("lambdarank", list_features=[0, 2], **SMALL),
        "cross-validated": tr.Ranker("listnet", refit=True, **SMALL),
        "xgboost": tr.Ranker("lambdarank", **xgboost),
        "xgboost-own-objective": tr.Ranker("xgboost:rank:ndcg", **xgboost),
        "catboost": tr.Ranker("catboost:YetiRank", engine="catboost", depth=3, **PLAIN),
        "torch": tr.Ranker("lambdarank", engine="torch", hidden=(4,), **PLAIN),
    }
    for name, ranker in rankers.items():
        ranker.fit(train, valid)
        ranker.save(f"models/{name}.taut")
    rankers["frame-of-categories"] = frame_ranker(train)
    rankers["frame-of-categories"].save("models/frame-of-categories.taut")

    rankers["lightgbm"].model_.booster.save_model("models/lightgbm.txt")
    rankers["xgboost"].model_.booster.save_model("models/xgboost.json")
    rankers["xgboost"].model_.booster.save_model("models/xgboost.ubj")
    rows = np.load("rows.npy")
    files = sorted(Path("models").iterdir())
    np.savez_compressed("scores.npz", **{file.name: scores(file, rows) for file in files})


def frame_ranker(train: tr.RankingData) -> tr.Ranker:
    """Return a ranker fitted on a frame with a column of categories."""
    qid = np.repeat(np.arange(train.n_queries), np.diff(train.offsets))
    return tr.Ranker("lambdarank", **SMALL).fit(as_frame(train.X), train.labels, qid=qid)


def as_frame(rows: Any) -> pd.DataFrame:
    """Return rows as a frame whose fourth column holds categories by name."""
    frame = pd.DataFrame(rows, columns=["a", "b", "c", "d", "e", "f"])
    names = [f"kind {code:g}" for code in rows[:, 3]]
    return frame.assign(d=pd.Categorical(names))


def scores(file: Path, rows: Any) -> Any:
    """Return the scores that the model in a file gives to the rows, ten of them in each query."""
    ranker = tr.Ranker.load(file)
    table = as_frame(rows) if ranker.categories_ else rows
    if not ranker.list_features_:
        return ranker.predict(table)
    return ranker.predict(table, qid=np.arange(len(rows)) // 10)


def write_stores() -> None:
    """Write the stores of a comparison, a search and a study."""
    for store in ("comparison.db", "search.db", "study.db"):
        Path(store).unlink(missing_ok=True)
    data = tr.read_letor("data.txt")
    train, valid, test = (data.subset(range(*part)) for part in ((0, 30), (30, 45), (45, 60)))
    tr.compare(
        train,
        valid,
        test,
        losses=["mse", "listnet"],
        metrics=["ndcg@5"],
        repeats=2,
        n_estimators=3,
        num_leaves=4,
        min_data_in_leaf=5,
        store="comparison.db",
    )
    tr.tune(
        train,
        valid,
        metric="ndcg@5",
        n_trials=3,
        space={"num_leaves": ("int", 2, 9), "loss.k": ("choice", 5, 30)},
        storage="search.db",
        refit=None,
        seed=3,
        n_jobs=1,
        n_estimators=3,
        min_data_in_leaf=5,
    )
    run_study(
        find_study("xe-table1"), "data.txt", store="study.db", budget=Budget(trials=1, trees=2)
    )


if __name__ == "__main__":
    main()
