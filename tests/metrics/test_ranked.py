"""Metrics of one's own: ties, cutoffs, training, files, worker processes and the command line."""

from dataclasses import dataclass

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import OptionError
from tautrank.metrics import METRICS, ListMetric, register
from tests.command_line import run

FILE = """
from dataclasses import dataclass
import numpy as np
from tautrank.metrics import ListMetric, register

@register("own-ndcg")
@dataclass(frozen=True)
class OwnNDCG(ListMetric):
    base: float = 2.0

    @staticmethod
    def one_list(labels, k, base):
        gains = base**labels - 1
        worth = 1 / np.log2(np.arange(2, gains.size + 2))
        return (gains[:k] * worth[:k]).sum() / (np.sort(gains)[::-1][:k] * worth[:k]).sum()
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The folder with own.py, which registers own-ndcg."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FILE)
    yield tmp_path
    METRICS.pop("own-ndcg", None)


def test_it_is_the_metric_it_writes_down(own):
    exec(compile(FILE, "own", "exec"), {"__name__": __name__})
    rng = np.random.default_rng(0)
    labels, scores = (
        rng.integers(0, 3, 200),
        rng.integers(0, 4, 200).astype(float),
    )  # many ties, and some empty queries
    scores[::17] = -np.inf
    offsets = np.arange(0, 201, 4)
    for ties in ("worst", "best", "input"):
        for k in (None, 2):
            options, names = {"k": k, "ties": ties, "empty": "zero"}, ("own-ndcg", "ndcg")
            ours, theirs = (
                tr.metric(name, **options).per_query(np.maximum(scores, -9), labels, offsets)
                for name in names
            )
            assert np.allclose(ours, theirs)
    assert np.array_equal(
        tr.metric("own-ndcg").per_query(scores, labels, offsets),
        tr.metric("own-ndcg").per_query(np.maximum(scores, -9), labels, offsets),
        equal_nan=True,
    )
    data = tr.RankingData.from_arrays(np.c_[labels + rng.normal(size=200)], labels, group=[4] * 50)
    train, valid = data.split([0.5, 0.5])
    ours, theirs = (
        tr.Ranker(metric=name, n_estimators=8).fit(train, valid)
        for name in ("own-ndcg@3", "ndcg@3")
    )
    assert np.allclose(
        ours.evals_result_["valid"]["own-ndcg@3"], theirs.evals_result_["valid"]["ndcg@3"]
    )
    assert ours.n_trees_ == theirs.n_trees_


def test_on_the_command_line_and_in_worker_processes(own, capsys):
    (own / "test.txt").write_text(
        "2 qid:a 1:3\n0 qid:a 1:2\n1 qid:a 1:1\n1 qid:c 1:1\n0 qid:c 1:2\n"
    )
    (own / "scores.txt").write_text("1\n2\n3\n1\n1\n")
    code, out, _ = run(
        capsys, "evaluate --scores scores.txt test.txt --import own.py -m own-ndcg@2,ndcg@2 --json"
    )
    assert code == 0
    one, two = (line.split()[-1] for line in out.splitlines() if '"mean"' in line)
    assert float(one.strip(",")) == pytest.approx(float(two.strip(",")))
    data = tr.simulate.simulate_web_search(30, n_features=16, mean_length=8)
    options = {
        "losses": ["mse", "xendcg"],
        "metrics": ["own-ndcg@5", "ndcg@5"],
        "repeats": 1,
        "n_estimators": 3,
    }
    result = tr.compare(*data.split([0.4, 0.3, 0.3]), workers=2, **options)
    cells = result.to_dict()["cells"]
    means = {
        name: [cell["mean"] for cell in cells if cell["metric"] == name]
        for name in options["metrics"]
    }
    assert means["own-ndcg@5"] == pytest.approx(means["ndcg@5"])
    METRICS.pop("own-ndcg")
    code, _, err = run(capsys, "evaluate --scores scores.txt test.txt -m own-ndcg@2")
    assert (code, "unknown metric 'own-ndcg'" in err) == (2, True)


def test_wrong_metrics_are_one_sentence():
    @register("own-wrong")
    @dataclass(frozen=True)
    class Wrong(ListMetric):
        @staticmethod
        def one_list(labels):
            return labels[7]

    try:
        with pytest.raises(
            OptionError, match=r"one_list: .*one_list stopped with IndexError: .* expected a number"
        ):
            tr.metric("own-wrong").mean([1.0, 2.0], [1, 0])
        with pytest.raises(
            OptionError, match=r"ties: found expected, .* expected worst, best or input"
        ):
            tr.metric("own-wrong", ties="expected")
        with pytest.raises(
            OptionError, match="metric: found a function; expected a name, or a ListMetric"
        ):
            tr.Ranker(metric=lambda labels: 1.0).fit([[1.0], [2.0]], [0, 1], group=[2])
    finally:
        del METRICS["own-wrong"]


def test_a_function_that_cannot_be_called_is_one_sentence(own):
    for wrong in (
        FILE.replace("    @staticmethod\n", ""),
        FILE.replace("k, base", "k, bsae"),
        FILE.partition("    @st")[0],
    ):
        exec(compile(wrong, "own", "exec"), {"__name__": __name__})
        with pytest.raises(
            OptionError,
            match=r"one_list: OwnNDCG has no one_list\(labels, ...\) .* \(k, ties, empty, base\)",
        ):
            tr.metric("own-ndcg")
        del METRICS["own-ndcg"]
