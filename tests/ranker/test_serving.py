"""The program of docs/serving.md."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.ranker_examples import TRAIN, ranker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


@pytest.fixture
def program():
    return compile(
        re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1], str(PAGE), "exec"
    )


def test_it_is_python(program):
    assert "rank" in program.co_names


def test_requests_are_ranked_and_errors_are_said(program, tmp_path, monkeypatch):
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    fitted = ranker().fit(TRAIN)
    fitted.save(tmp_path / "model.taut")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "serve"}
    exec(program, names)
    client = testclient.TestClient(names["app"])
    X = TRAIN.X[:5].astype(float)
    X[0, 2] = np.nan
    rows = [[None if np.isnan(value) else value for value in row] for row in X.tolist()]
    answer = client.post("/rank", json={"documents": list("abcde"), "features": rows})
    scores = fitted.predict(X)
    best = np.argsort(-scores, kind="stable")
    assert answer.json() == [{"document": "abcde"[i], "score": scores[i]} for i in best]
    for features, said in (
        ([[1.0, 2.0]], "found 2 features; expected 6"),
        ([[1.0] * 6], "expected 5"),
        ([[1.0], [1.0, 2.0]], "inhomogeneous"),
        ([], "expected 2"),
    ):
        answer = client.post("/rank", json={"documents": list("abcde"), "features": features})
        assert answer.status_code == 422
        assert said in answer.json()["detail"]
