"""Document ids: from the comments of LETOR text to a run that is judged by its own data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval

import tautrank as tr
from tautrank.data.trec import judge_given, read_judgments, run_lines
from tautrank.errors import DataError


def read(folder: Path, text: str, **options: object) -> tr.RankingData:
    file = folder / "data.txt"
    file.write_text(text)
    return tr.read_letor(file, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("#docid = GX008-86-4444840 inc = 1 prob = 0.086622", "GX008-86-4444840"),
        ("# docid=A", "A"),
        ("#DocID: doc:7 ", "doc:7"),
        ("# 1A", "1A"),
        ("#é", "é"),
        ("# docid", "docid"),
        ("##x\t", "x"),
        ("# docidx", "docidx"),
        ("# two words", None),
        ("#docid =", None),
        ("#", None),
        ("", None),
        ("# " + "x" * 300, None),
    ],
)
def test_id_in_a_comment(tmp_path: Path, comment: str, name: str | None) -> None:
    data = read(tmp_path, f"1 qid:1 1:1 {comment}\n0 qid:1 1:2 # b{'b' * 20}\n")
    assert (None if data.doc_ids is None else data.doc_ids[0]) == name


def test_ids_follow_their_documents(tmp_path: Path) -> None:
    text = "1 qid:1 1:1 #a\n0 qid:2 1:2 #b\n2 qid:1 1:3 #c\n0 qid:3 1:4 #d\n"
    with pytest.warns(tr.TautrankWarning, match="scattered"):
        data = read(tmp_path, text, cache=True)
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["a", "c", "b", "d"]
    with pytest.warns(tr.TautrankWarning, match="scattered"):
        cached = read(tmp_path, text, cache=True)
    assert cached.doc_ids is not None
    assert cached.doc_ids.tolist() == ["a", "c", "b", "d"]
    assert [part.doc_ids.tolist() for part in (data.subset([2, 0]), data.subset([1, 2]))] == [  # type: ignore[union-attr]
        ["d", "a", "c"],
        ["b", "d"],
    ]
    joined = tr.RankingData.concat([data.subset([2]), data.subset([0])])
    assert joined.doc_ids is not None
    assert joined.doc_ids.tolist() == ["d", "a", "c"]
    assert data.with_n_features(3).doc_ids is data.doc_ids
    tr.data.write_letor(data, tmp_path / "again.txt")
    again = tr.read_letor(tmp_path / "again.txt").doc_ids
    assert again is not None
    assert again.tolist() == data.doc_ids.tolist()


def test_documents_without_ids_are_named_by_their_rows(tmp_path: Path) -> None:
    with pytest.warns(tr.TautrankWarning, match="scattered"):
        data = read(tmp_path, "1 qid:1 1:1\n0 qid:2 1:2\n2 qid:1 1:3\n")
    assert data.doc_ids is None
    assert data.document_names.tolist() == ["d1", "d3", "d2"]


def test_ids_of_arrays() -> None:
    data = tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], group=[2], doc_ids=[7, 8])
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["7", "8"]
    with pytest.raises(DataError, match="doc_ids: found 1 ids, but X has 2 rows"):
        tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], group=[2], doc_ids=[7])


def test_a_run_has_each_document_once() -> None:
    columns = np.array([1, 1]), np.array(["a", "a"]), np.array([1, 2]), np.array([0.5, 0.1])
    with pytest.raises(DataError, match="document 'a' of query '1' is repeated"):
        run_lines(*columns, "me")
    with pytest.raises(DataError, match="'red shoes' cannot be written"):
        run_lines(columns[0], np.array(["red shoes", "b"]), *columns[2:], "me")


def test_a_run_of_other_documents_is_refused() -> None:
    data = tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=["q", "q"])
    with pytest.raises(
        DataError, match="shares no document with judged, which has no document ids"
    ):
        judge_given({"q": {"x": 1.0}}, read_judgments(data))


def test_data_with_a_repeated_id_judges_no_run() -> None:
    data = tr.RankingData.from_arrays([[1.0], [2.0]], [0, 1], qid=["q", "q"], doc_ids=["x", "x"])
    with pytest.raises(
        DataError, match="doc_ids: document 'x' of query 'q' is repeated; expected it once"
    ):
        judge_given({"q": {"x": 1.0}}, read_judgments(data))


def test_mq2008_is_judged_alike_here_and_by_trec_eval(tmp_path: Path, shared_data: Path) -> None:
    data = tr.read_letor(shared_data / "mq2008" / "S1.txt")
    assert data.doc_ids is not None
    assert data.doc_ids[0] == "GX008-86-4444840"
    ranking = tr.Ranker(n_estimators=5, n_jobs=1).fit(data).rank(data)
    assert ranking.doc_id is not None
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    run.write_text(run_lines(ranking.qid, ranking.doc_id, ranking.rank, ranking.score, "me"))
    judgments = zip(data.qid_of_document, data.doc_ids, data.labels, strict=True)
    qrels.write_text("".join(f"{qid} 0 {name} {label:.0f}\n" for qid, name, label in judgments))
    metrics = {"ndcg_cut_10": "ndcg@10", "map": "map", "recip_rank": "mrr", "P_5": "precision@5"}
    with open(run) as lines, open(qrels) as judged:
        theirs = pytrec_eval.RelevanceEvaluator(
            pytrec_eval.parse_qrel(judged), set(metrics)
        ).evaluate(pytrec_eval.parse_run(lines))
    for given in (qrels, shared_data / "mq2008" / "S1.txt"):
        found = judge_given(run, read_judgments(given)).for_trec_eval()
        for name, ours in metrics.items():
            values = tr.metric(ours, like="trec_eval").per_query(found.scores, found.lists)
            expected = [theirs[str(qid)][name] for qid in found.lists.qids]
            np.testing.assert_allclose(values, expected, atol=1e-9)


def test_a_run_through_a_pipe(tmp_path: Path) -> None:
    text = "".join(f"{i % 3} qid:{i // 10} 1:{i % 3 + i / 100} # x{i}\n" for i in range(60))
    data = read(tmp_path, text)
    tr.Ranker(n_estimators=3, min_data_in_leaf=1).fit(data).save(tmp_path / "model.taut")
    python = [sys.executable, "-m", "tautrank"]
    rank = [*python, "rank", "--model", "model.taut", "-", "-o", "-", "--format"]
    trec, csv = (
        subprocess.run(
            [*rank, kind], input=text, text=True, capture_output=True, cwd=tmp_path, check=True
        ).stdout
        for kind in ("trec", "csv")
    )
    assert trec.splitlines()[0].startswith("0 Q0 x2 1 ")
    assert csv.splitlines()[:2] == ["qid,doc,rank,score", f"0,x2,1,{trec.split()[4]}"]
    judge = [*python, "evaluate", "--scores", "-", "data.txt", "--metrics", "ndcg@10", "--json"]
    judged = subprocess.run(
        judge, input=trec, text=True, capture_output=True, cwd=tmp_path, check=True
    ).stdout
    assert json.loads(judged)["metrics"]["ndcg@10"]["mean"] == 1.0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data.txt", "model.taut"]
