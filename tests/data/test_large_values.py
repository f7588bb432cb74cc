"""Values that float32 cannot tell apart: time stamps and ids above 2^24."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import tautrank as tr


def test_time_stamps_are_not_merged() -> None:
    rng = np.random.default_rng(0)
    seconds = 1_700_000_000 + rng.integers(0, 100, 4000).astype(float)
    X, qid = np.c_[seconds, rng.normal(size=4000)], np.repeat(np.arange(200), 20)
    y = np.digitize(seconds - 1_700_000_000, [50, 80, 95])
    ranker = tr.Ranker("lightgbm:lambdarank", n_estimators=30, n_jobs=1).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) == pytest.approx(1.0)
    # One row alone, and the same values in another container, have the same score.
    scores = ranker.predict(X)
    assert [ranker.predict(X[i : i + 1])[0] for i in range(20)] == scores[:20].tolist()
    assert (ranker.predict(pd.DataFrame(X)) == scores).all()
    assert (ranker.predict(csr_matrix(X)) == scores).all()


def test_only_large_values_are_doubles() -> None:
    data = tr.RankingData.from_arrays([[2.0**24 + 1, 0.1], [1.0, 0.2]], [0, 1], group=[2])
    assert data.X.dtype == np.float64
    assert data.X.tolist() == [[2.0**24 + 1, float(np.float32(0.1))], [1.0, float(np.float32(0.2))]]
    assert tr.RankingData.from_arrays([[2.0**24], [0.1]], [0, 1], group=[2]).X.dtype == np.float32
    assert data.with_n_features(3).X.dtype == np.float64
    assert data.describe().duplicate_rows == 0


def test_text_warns_of_a_rounded_feature(tmp_path: Path) -> None:
    file = tmp_path / "data.txt"
    file.write_text("1 qid:1 1:0.1 7:1700000049\n0 qid:1 1:2 7:1\n")
    with pytest.warns(tr.TautrankWarning, match="feature 7 has values of more than nine digits"):
        tr.read_letor(file)


def test_text_that_was_float32_gives_no_warning(tmp_path: Path) -> None:
    X = np.geomspace(1e7, 1e30, 300).astype(np.float32)[:, np.newaxis]
    tr.data.write_letor(
        tr.RankingData.from_arrays(X, np.zeros(300), group=[300]), tmp_path / "data.txt"
    )
    assert (tr.read_letor(tmp_path / "data.txt").X == X).all()


def test_langevin_boosting_takes_them() -> None:
    X, qid, y = (
        np.tile(2.0**24 + np.arange(1.0, 41, 2), 20)[:, np.newaxis],
        np.repeat(np.arange(20), 20),
        np.arange(400) % 20 // 5,
    )
    ranker = tr.Ranker(
        n_estimators=30, langevin=tr.Langevin(temperature=1e12, shrink_rate=0.0)
    ).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid=qid) == pytest.approx(1.0)
