"""Results in notebooks and as frames."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tautrank as tr
from tautrank.errors import OptionError
from tautrank.ranker import Ranking

FRAME = pd.DataFrame({
    "qid": [1, 1, 2, 2], "label": np.float32([1, 0, 0, 2]), "price": np.float32([3, 1, 2, 9]),
    "brand": pd.Categorical(["a", None, "<b>", "a"]),
})  # fmt: skip


def test_data_and_rankings_become_frames_and_back():
    data = tr.RankingData.from_frame(FRAME)
    pd.testing.assert_frame_equal(data.to_frame(), FRAME)
    sparse = tr.RankingData.from_arrays(np.eye(2), [0, 1], group=[2], doc_ids=["x", "y"])
    assert [*sparse.to_frame().columns] == ["qid", "label", "doc_id", "f1", "f2"]
    ranking = Ranking(np.repeat([7], 30), np.arange(30), np.arange(1, 31), np.linspace(1, 0, 30))
    assert ranking.to_frame().shape == (30, 4)
    assert ranking._repr_html_().count("<tr>") == 21
    assert "and 10 more" in ranking._repr_html_()
    assert "<td>queries</td><td>2</td>" in data._repr_html_()
    assert "<td>duplicate rows</td>" in data.describe()._repr_html_()


def test_explanations_are_tables_in_a_notebook():
    data = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8)
    explained = tr.Ranker("xendcg", n_estimators=5, verbose=0).fit(data).explain(data)
    html = explained._repr_html_()
    assert html.count("<tr>") == 21
    assert f"; {data.n_documents - 20:,} more are not shown" in html
    best = explained.scores.argmax()
    most = np.abs(explained.contributions[best]).argmax()
    first = f"{explained.features[most]} {explained.contributions[best, most]:+.4f}"
    assert f">{first}" in html
    lines = repr(explained).splitlines()  # what `print` shows, without arrays
    assert len(lines) == 21
    assert lines[0].split()[:2] == [str(best), f"{explained.scores[best]:+.4f}"]
    assert first in lines[0]
    assert len(explained.to_text().splitlines()) == data.n_documents
    why = explained.why(explained.scores.argmax(), explained.scores.argmin())
    html = why._repr_html_()
    assert html.count("<tr>") == 2 + np.count_nonzero(why.differences)
    assert f"<td>{why.features[0]}</td>" in html
    assert str(why).splitlines()[-1] in html


def test_an_evaluation_prints_its_means():
    found = tr.evaluate(["ndcg@10", "mrr"], [3.0, 2.0, 1.0, 1.0], [0, 1, 0, 0], group=[3, 1])
    assert repr(found).splitlines()[1].split() == ["ndcg@10", "0.6309", "nan", "1"]
    assert found.mean("ndcg@10") == found.mean(0) == found.mean(tr.metric("ndcg@10"))
    assert found.to_frame()["mrr"].tolist()[0] == 0.5
    assert found.skipped("mrr") == 1
    assert "<th>std. error</th>" in found._repr_html_()
    with pytest.raises(OptionError, match="metric: found map; expected one of ndcg@10, mrr"):
        found.mean("map")


def test_a_comparison_becomes_a_frame_and_a_table():
    parts = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8).split([0.4, 0.3, 0.3])
    result = tr.compare(
        *parts, losses=["mse", "xendcg"], metrics=["ndcg@5"], repeats=2, n_estimators=3
    )
    frame = result.to_frame()
    assert len(frame) == len(result.to_csv().splitlines()) - 1
    assert {"mse", "xendcg"} <= {str(cell) for cell in frame.to_numpy().ravel()}
    assert result._repr_html_().startswith("<table><thead><tr><th>")


def test_compare_shows_progress_where_somebody_watches():
    """In a pseudo-terminal there is a bar; in a pipe there is none."""
    code = (
        "import pty, os, sys\n"
        "pid, fd = pty.fork()\n"
        "if pid == 0:\n"
        "    import tautrank as tr\n"
        "    parts = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8).split([0.4, 0.3, 0.3])\n"
        "    tr.compare(*parts, losses=['mse'], metrics=['ndcg@5'], repeats=2, n_estimators=2)\n"
        "    os._exit(0)\n"
        "seen = b''\n"
        "try:\n"
        "    while part := os.read(fd, 4096):\n"
        "        seen += part\n"
        "except OSError:\n"
        "    pass\n"
        "os.waitpid(pid, 0)\n"
        "sys.stdout.buffer.write(seen)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=120)
    assert b"trainings" in ran.stdout
