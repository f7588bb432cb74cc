"""Data in files: the same rows in chunks, the same trees and scores as in memory."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import tautrank as tr
from tautrank.data import streamed
from tautrank.engines.lightgbm_binning import sampled_rows
from tautrank.errors import DataError, OptionError
from tests.command_line import run

pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

QUERIES, LENGTH = 200, 10
TRAINED = {
    "n_estimators": 4,
    "num_leaves": 7,
    "early_stopping_rounds": None,
    "verbose": 0,
    "metric": "ndcg@5",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same documents as text, compressed text and Parquet, with zeros, missing values and a
    constant feature.
    """
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(QUERIES * LENGTH, 6)), 3).astype(np.float32)
    X[:, 2] = np.round(X[:, 2])
    X[rng.random(len(X)) < 0.7, 3] = 0
    X[:, 4] = 1
    labels = np.clip(np.round(X[:, 0] + X[:, 2] + rng.normal(size=len(X))), 0, 4)
    qid = np.repeat(np.arange(QUERIES), LENGTH)
    folder = tmp_path_factory.mktemp("files")
    tr.data.write_letor(tr.RankingData.from_arrays(X, labels, qid), folder / "all.txt")
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(label=labels, qid=qid, title="none")
    frame.loc[::7, "a"] = np.nan
    frame.to_parquet(folder / "all.parquet", row_group_size=300)
    frame.to_feather(folder / "all.feather", chunksize=700, compression="lz4")
    frame.to_feather(folder / "all.arrow", compression="uncompressed")
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streamed, "_NUMBERS_PER_CHUNK", 6 * 128)


@pytest.mark.parametrize("name", ["all.txt", "all.parquet", "all.feather", "all.arrow"])
@pytest.mark.filterwarnings("ignore:.*left out 'title'")
def test_the_trees_and_scores_of_data_in_memory(files, name):
    read = tr.read_letor if name == "all.txt" else tr.data.read_parquet
    held, data = read(files / name), tr.data.read_streamed(files / name)
    assert (
        sum(1 for _ in data.X.chunks()) > 1 or name == "all.txt"
    )  # a block of text is one chunk here
    np.testing.assert_array_equal(data.X.read(), held.X)
    np.testing.assert_array_equal(data.offsets, held.offsets)
    ours, theirs = (
        tr.Ranker(**TRAINED).fit(part, part.subset(range(50, 90))) for part in (data, held)
    )
    assert ours.model_.to_text() == theirs.model_.to_text()
    assert ours.evals_result_ == theirs.evals_result_
    np.testing.assert_array_equal(ours.predict(data), theirs.predict(held))
    assert ours.score(data) == theirs.score(held)
    half = tr.Ranker(**{**TRAINED, "n_estimators": 2})
    on = clone(half).fit(data, init_model=half.fit(data))
    assert on.model_.to_text() == theirs.model_.to_text()
    np.testing.assert_array_equal(
        ours.explain(data, qid=3).scores, theirs.explain(held, qid=3).scores
    )


def test_rows_are_found_wherever_chunks_end(files):
    data = tr.data.read_streamed(files / "all.txt")
    everything = data.X.read()
    for first, last in ((0, 1), (127, 129), (700, 1999)):
        np.testing.assert_array_equal(data.X[first:last].read(), everything[first:last])
    rows = np.array([0, 5, 127, 128, 1999])
    np.testing.assert_array_equal(data.X.take(rows), everything[rows])
    assert data.X[5:5].shape == (0, 6)


def test_bins_are_found_from_the_rows_that_lightgbm_draws():
    rows = sampled_rows(1000, {"bin_construct_sample_cnt": 50, "data_random_seed": 3})
    assert rows.size == 50
    assert (np.diff(rows) > 0).all()


@pytest.mark.filterwarnings("ignore:.*left out")
def test_what_cannot_be_read_in_chunks(files, tmp_path):
    (tmp_path / "a.csv").write_text("label,qid,a\n1,2,3\n")
    (tmp_path / "a.jsonl").write_text('{"label": 1, "qid": 2, "a": 3}\n')
    (tmp_path / "b.txt").write_text("1 qid:3 1:1\n0 qid:4 1:2\n1 qid:3 1:1\n")
    (tmp_path / "c.txt").write_text("1 1:1\n")
    pd.DataFrame({"label": [1, 0, 1], "qid": [3, 4, 3], "a": 1.0}).to_parquet(
        tmp_path / "d.parquet"
    )
    pd.DataFrame({"label": [1, 0], "qid": 3, "a": pd.Categorical(["x", "y"])}).to_parquet(
        tmp_path / "e.parquet"
    )
    pd.DataFrame({"label": [], "qid": [], "a": []}).to_feather(tmp_path / "f.feather")
    sentences = {
        "a.csv": "CSV is not read in chunks; expected Parquet, Arrow or LETOR text",
        "a.jsonl": "JSONL is not read in chunks",
        "b.txt": r"documents of 1 query are scattered \(qid 3\); expected those of a query next to each other",
        "c.txt": "no 'qid:' in the file",
        "d.parquet": r"documents of 1 query are scattered \(qid 3\)",
        "e.parquet": "column 'a' holds categories",
        "f.feather": "found no rows; expected one row per document",
    }
    for name, sentence in sentences.items():
        with pytest.raises(DataError, match=sentence):
            tr.data.read_streamed(tmp_path / name)
    with pytest.raises(DataError, match="another kind of file"):
        tr.data.read_streamed([files / "all.txt", files / "all.parquet"])
    with pytest.raises(OptionError, match="memory: found 'much'; expected a size such as 3G"):
        tr.data.read_streamed(files / "all.txt", memory="much")
    data = tr.data.read_streamed(files / "all.txt", memory="100M")
    with pytest.raises(
        OptionError,
        match=r"memory: found 0\.10G; expected at least 0\.\d+G, of which 0\.00G are the",
    ):
        tr.Ranker(**TRAINED).fit(data)
    with pytest.raises(OptionError, match="read in order; expected a range of queries"):
        data.subset([1, 5])
    with pytest.raises(OptionError, match="loss lightgbm:lambdarank: needs features in memory"):
        tr.Ranker(loss="lightgbm:lambdarank", **TRAINED).fit(data)
    held = tr.read_letor(files / "all.txt")
    with pytest.raises(OptionError, match="eval_set: its features are in files"):
        tr.Ranker(**TRAINED).fit(held, data)
    (tmp_path / "short.txt").write_text("1 qid:3 1:1\n0 qid:3 1:2\n")
    short = tr.data.read_streamed(tmp_path / "short.txt")
    (tmp_path / "short.txt").write_text("1 qid:3 1:1\n")
    with pytest.raises(
        DataError, match=r"short\.txt: found 1 document; expected 2, as there were before"
    ):
        short.X.read()


def test_commands_stream(files, tmp_path, capsys):
    data, shown = files / "all.txt", []
    for name, memory in (("here", ()), ("streamed", ("--memory", "2G"))):
        model, scores = tmp_path / f"{name}.taut", tmp_path / f"{name}.scores"
        train = "train --trees 3 --leaves 7 --early-stopping 0 --valid"
        for command in (
            (train, data, data, "-o", model),
            ("rank", data, "--model", model, "-o", scores),
        ):
            assert run(capsys, *command, *memory)[0] == 0
        code, out, _ = run(capsys, "evaluate --json", data, "--model", model, *memory)
        assert code == 0
        shown.append((out.replace(name, ""), scores.read_bytes()))
    assert shown[0] == shown[1]
    code, _, sentence = run(
        capsys, "train --memory 2G --workers 2", data, "-o", tmp_path / "no.taut"
    )
    assert code == 2
    assert "--memory, --cluster, --workers: found more than one" in sentence
    assert not (tmp_path / "no.taut").exists()
