"""Data sets as they are unpacked, tables of all kinds, TREC files."""

from __future__ import annotations

import builtins
import contextlib
import gzip
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tautrank as tr
from tautrank.data.files import read_data
from tautrank.data.trec import read_judged_scores
from tautrank.errors import DataError, MissingDependencyError
from tests.command_line import run


def lines(first_qid: int, queries: int, width: int) -> str:
    return "".join(f"{q % 3} qid:{first_qid + q} {width}:1\n" for q in range(queries))


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        (["Fold2/train.txt", "Fold2/vali.txt", "Fold2/test.txt"], (3, 1, 2)),
        (["MSLR-WEB10K/Fold2/train.txt", "MSLR-WEB10K/Fold2/vali.txt", "MSLR-WEB10K/Fold2/test.txt"], (3, 1, 2)),
        (["set2.train.txt", "set2.valid.txt", "set2.test.txt"], (3, 1, 2)),
        (["Fold2/train.txt.gz", "Fold2/vali.txt.gz", "Fold2/test.txt.gz"], (3, 1, 2)),
    ],
)
def test_published_layouts(tmp_path, names, sizes):
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = lines(10 * i, size, width=3 - i).encode()
        file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    splits = tr.read_folder(tmp_path, fold=2)
    assert tuple(part.n_queries for part in splits) == sizes
    assert [part.n_features for part in splits] == [3, 3, 3]  # the widest decides
    assert tr.list_folds(tmp_path) == [2]


def test_istella_full_has_no_validation_part(tmp_path):
    (tmp_path / "train.txt").write_text(lines(0, 3, 2))
    (tmp_path / "test.txt").write_text(lines(5, 2, 2))
    splits = tr.read_folder(tmp_path)
    assert splits.valid is None
    assert (splits.train.n_queries, splits.test.n_queries) == (3, 2)


def test_letor_parts_make_the_published_folds(tmp_path):
    for i in range(1, 6):
        (tmp_path / f"S{i}.txt").write_text(f"1 qid:{i} 1:1\n")
    for fold, (train, valid, test) in {1: ([1, 2, 3], [4], [5]), 4: ([4, 5, 1], [2], [3])}.items():
        splits = tr.read_folder(tmp_path, fold)
        assert [part.qids.tolist() for part in splits] == [train, valid, test]
    assert tr.list_folds(tmp_path) == [1, 2, 3, 4, 5]


def test_folder_errors(tmp_path):
    with pytest.raises(DataError, match=r"absent: cannot be listed \(No such file or directory\); expected Fold1/"):
        tr.read_folder(tmp_path / "absent")
    with pytest.raises(DataError, match=r"found no known data set; expected Fold1/"):
        tr.read_folder(tmp_path)
    (tmp_path / "Fold1").mkdir()
    (tmp_path / "Fold1" / "train.txt").write_text("1 qid:1 1:1\n")
    (tmp_path / "Fold1" / "test.txt").write_text("1 qid:2 1:1\n")
    with pytest.raises(DataError, match=r"found no complete fold 7; expected one of: 1"):
        tr.read_folder(tmp_path, 7)


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "qid": ["a", "a", "b"],
            "bm25": [1.5, None, 3.0],
            "label": [2, 0, 1],
            "clicks": [7, 8, 9],
            "spam": [True, False, True],
        }
    )


def test_tables_with_named_columns(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for data in (tr.read_parquet(tmp_path / "t.parquet"), tr.read_csv(tmp_path / "t.csv")):
        assert data.feature_names == ("bm25", "clicks", "spam")
        np.testing.assert_array_equal(data.X, np.array([[1.5, 7, 1], [np.nan, 8, 0], [3, 9, 1]], np.float32))
        assert data.labels.tolist() == [2, 0, 1]
        assert data.qids.tolist() == ["a", "b"]
    chosen = tr.read_parquet(tmp_path / "t.parquet", label="clicks", features=["bm25"])
    assert chosen.labels.tolist() == [7, 8, 9]
    assert chosen.X.shape == (3, 1)
    (tmp_path / "scores.txt").write_text("3\n2\n1\n")
    assert read_judged_scores(tmp_path / "scores.txt", tmp_path / "t.parquet").labels.tolist() == [2, 0, 1]


def arrow(frame, path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.Table.from_pandas(frame).schema) as writer:
        writer.write_table(pa.Table.from_pandas(frame), max_chunksize=2)


WRITERS = {
    ".feather": lambda frame, path: frame.to_feather(path),
    ".arrow": arrow,
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".ndjson": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".jsonl.gz": lambda frame, path: frame.to_json(path, orient="records", lines=True, compression="gzip"),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_arrow_and_json_tables_are_read_as_parquet_is(tmp_path, frame, kind, capsys):
    frame = frame.assign(title="words")
    file, parquet = tmp_path / f"t{kind}", tmp_path / "t.parquet"
    WRITERS[kind](frame, file)
    frame.to_parquet(parquet)
    options = {"label": "clicks", "doc_id": "title", "drop": ["label"], "categorical": ["spam"]}
    for asked in ({}, options):
        with pytest.warns(tr.TautrankWarning, match="left out 'title'") if not asked else contextlib.nullcontext():
            found, same = tr.read_parquet(file, **asked), tr.read_parquet(parquet, **asked)
        np.testing.assert_array_equal(found.X, same.X)
        np.testing.assert_array_equal(found.labels, same.labels)
        assert found.qids.tolist() == same.qids.tolist()
        assert (found.feature_names, found.categories) == (same.feature_names, same.categories)
    (tmp_path / "scores.txt").write_text("3\n2\n1\n")
    with pytest.warns(tr.TautrankWarning, match="left out 'title'"):
        assert read_judged_scores(tmp_path / "scores.txt", file).labels.tolist() == [2, 0, 1]
    code, out, _ = run(capsys, "data info --drop title", file)
    assert (code, "documents" in out) == (0, True)


@pytest.mark.parametrize("kind", [".feather", ".arrow", ".jsonl", ".ndjson"])
def test_errors_of_arrow_and_json_tables(tmp_path, frame, kind):
    file = tmp_path / f"t{kind}"
    with pytest.raises(DataError, match="no such file"):
        tr.read_parquet(file)
    file.write_bytes(b"not a table")
    with pytest.raises(DataError, match=rf"t\{kind}: cannot be read as a table \("):
        read_data(file)
    WRITERS[kind](frame.assign(label=[1, None, 2]), file)
    with pytest.raises(DataError, match="column 'label' has 1 empty cell; expected a label in every row"):
        tr.read_parquet(file)
    with pytest.raises(DataError, match="label: unknown column 'lable'; did you mean 'label'"):
        tr.read_parquet(file, label="lable")


def test_an_arrow_file_under_another_name(tmp_path, frame):
    frame.to_feather(tmp_path / "t.txt")
    with pytest.raises(DataError, match=r"t\.txt: is an Arrow file; expected LETOR text \(tautrank.read_parquet"):
        tr.read_letor(tmp_path / "t.txt")


def test_a_table_whose_name_ends_in_tsv_is_separated_by_tabs(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.tsv", "t.TSV.gz"):
        frame.to_csv(tmp_path / name, index=False, sep="\t")
        data, same = read_data(tmp_path / name), read_data(tmp_path / "t.csv")
        assert data.feature_names == same.feature_names
        np.testing.assert_array_equal(data.X, same.X)
        assert data.qids.tolist() == ["a", "b"]
    frame.to_csv(tmp_path / "t.tsv", index=False)
    with pytest.raises(DataError, match=r"t.tsv: found columns separated by commas; expected tabs"):
        tr.read_csv(tmp_path / "t.tsv")


def test_the_files_of_a_study_find_their_columns_by_name(tmp_path, frame):
    from tautrank.experiments.data_source import read_source

    frame.to_csv(tmp_path / "train.csv", index=False)
    frame[["spam", "label", "clicks", "qid", "bm25"]].to_csv(tmp_path / "test.tsv", index=False, sep="\t")
    splits = read_source([str(tmp_path / "train.csv"), str(tmp_path / "test.tsv")]).read()
    assert splits.test.feature_names == splits.train.feature_names == ("bm25", "clicks", "spam")
    np.testing.assert_array_equal(splits.test.X, splits.train.X)


def test_a_column_without_any_value_is_missing(tmp_path, frame):
    frame.assign(bm25=None).to_parquet(tmp_path / "t.parquet")
    assert np.isnan(tr.read_parquet(tmp_path / "t.parquet").X[:, 0]).all()


def test_table_errors(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t.parquet: label: unknown column 'lable'; did you mean 'label'\?"):
        tr.read_parquet(tmp_path / "t.parquet", label="lable")
    with pytest.raises(DataError, match=r"no such file"):
        tr.read_parquet(tmp_path / "absent.parquet")
    frame.assign(url="x").to_parquet(tmp_path / "u.parquet")
    with pytest.raises(DataError, match=r"column 'url' has the type (large_)?string; expected numbers"):
        tr.read_parquet(tmp_path / "u.parquet", features=["url"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"cannot be read as a table"):
        tr.read_parquet(tmp_path / "bad.parquet")
    frame.assign(label=[1, None, 2]).to_parquet(tmp_path / "n.parquet")
    with pytest.raises(DataError, match=r"column 'label' has 1 empty cell; expected a label in every row"):
        tr.read_parquet(tmp_path / "n.parquet")
    frame.assign(qid=["a", None, "b"]).to_parquet(tmp_path / "q.parquet")
    with pytest.raises(DataError, match=r"column 'qid' has 1 empty cell; expected a query id in every row"):
        tr.read_parquet(tmp_path / "q.parquet")
    frame[:0].to_parquet(tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e.parquet: found no rows; expected one row per document"):
        tr.read_parquet(tmp_path / "e.parquet")
    frame[["label", "qid"]].to_parquet(tmp_path / "f.parquet")
    with pytest.raises(DataError, match=r"found no feature columns besides 'label' and 'qid'; expected at least one"):
        tr.read_parquet(tmp_path / "f.parquet")
    frame.assign(label=[1, -1, 2]).to_parquet(tmp_path / "m.parquet")
    with pytest.raises(DataError, match=r"m.parquet: column 'label'\[1\]: found -1; expected a finite number"):
        tr.read_parquet(tmp_path / "m.parquet")


HEADERS = {
    "semicolons": ("label;qid;f\n1;2;3\n", "found columns separated by ';'; expected commas"),
    "tabs": ("label\tqid\tf\n1\t2\t3\n", "found columns separated by tabs; expected commas"),
    "no header": ("1,2,0.5\n0,2,0.25\n", "found numbers in the first line; expected the names of the columns"),
    "pandas' index": (",label,qid,f\n0,1,2,3\n", "column 1 has no name; expected one for every column"),
    "twice": ("label,qid,f,f\n1,2,3,4\n", "found two columns 'f'; expected every name once"),
    "labels as text": ("label,qid,f\ngood,2,3\n", "column 'label' has the type string; expected numbers"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_what_people_get_wrong_in_a_csv_file_is_named(tmp_path, case):
    text, sentence = HEADERS[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        tr.read_csv(tmp_path / "t.csv")
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: {sentence}")


def test_documents_to_rank_need_no_labels(tmp_path, frame):
    frame.drop(columns="label").to_csv(tmp_path / "t.csv", index=False)
    data = tr.read_csv(tmp_path / "t.csv", unlabelled=True)
    assert data.labels.tolist() == [0, 0, 0]
    assert data.feature_names == ("bm25", "clicks", "spam")
    with pytest.raises(DataError, match="label: unknown column 'label'"):
        tr.read_csv(tmp_path / "t.csv")


def test_a_table_with_scattered_queries_names_its_file(tmp_path):
    (tmp_path / "t.csv").write_text("label,qid,f\n1,a,3\n0,b,2\n0,a,1\n")
    with pytest.warns(tr.TautrankWarning, match=r"t\.csv: rows of 1 query are scattered \(the first is qid a\)"):
        assert tr.read_csv(tmp_path / "t.csv").sizes.tolist() == [2, 1]


def test_missing_pyarrow_is_one_sentence(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "t.csv", index=False)
    original = builtins.__import__

    def no_arrow(name, *args, **kwargs):
        if name.startswith(("pyarrow", "pandas")):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    import importlib

    read_csv = tr.read_csv  # a name that is imported when it is asked for
    monkeypatch.setattr(importlib, "import_module", no_arrow)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tautrank\[parquet\]'"):
        read_csv(tmp_path / "t.csv")


def test_blank_lines_of_a_run_are_passed_over_and_an_empty_one_is_refused(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("\nq1 Q0 d1 1 9.5 me\n \nq1 Q0 d2 2 8 me\n")
    assert tr.data.read_run(file) == {"q1": {"d1": 9.5, "d2": 8.0}}
    file.write_text("\n\n")
    with pytest.raises(DataError, match=r"run.txt: found an empty file; expected lines of 6 columns"):
        tr.data.read_run(file)


def test_side_files_may_end_in_blank_lines_and_hold_no_binary_data(tmp_path):
    (tmp_path / "a.txt").write_text("1 1:1\n0 1:2\n")
    (tmp_path / "a.txt.group").write_text("1\n\n1\n")
    assert tr.read_letor(tmp_path / "a.txt").sizes.tolist() == [1, 1]
    (tmp_path / "a.txt.group").write_bytes(b"1\n\0\n")
    with pytest.raises(DataError, match=r"a.txt.group:2: found binary data; expected text"):
        tr.read_letor(tmp_path / "a.txt")


def test_a_name_too_long_for_the_system_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r": cannot be opened \("):
        tr.read_letor(tmp_path / ("x" * 5000))


def test_the_folds_of_a_folder(tmp_path):
    assert tr.data.list_folds(tmp_path) == []
    (tmp_path / "train.txt").write_text("1 qid:1 1:1\n")
    assert tr.data.list_folds(tmp_path) == [1]
    for part in range(1, 6):
        (tmp_path / f"part{part}.txt").write_text(f"1 qid:{part} 1:1\n")
    assert tr.data.list_folds(tmp_path) == [1, 2, 3, 4, 5]
    with pytest.raises(DataError, match=r"absent: cannot be listed \("):
        tr.data.list_folds(tmp_path / "absent")


def test_a_run_under_judgments():
    run = {"q1": {"d1": 3.0, "d2": 2.0}, "q3": {"d1": 1.0}}
    qrels = {"q1": {"d2": 1.0, "d7": 2.0, "d8": -2.0}, "q2": {"d5": 1.0}}
    judged = tr.judge_run(run, qrels)
    assert judged.qids.tolist() == ["q1", "q2"]
    assert judged.offsets.tolist() == [0, 4, 5]
    assert judged.scores.tolist() == [3.0, 2.0, -math.inf, -math.inf, -math.inf]
    assert judged.labels.tolist() == [0, 1, 2, 0, 1]
    assert (judged.not_in_run, judged.not_judged) == (1, 1)
    recall = tr.metric("recall@10").per_query(judged.scores, judged.labels, judged.offsets)
    assert recall.tolist() == [0.5, 0.0]


def test_a_run_scores_as_trec_eval_scores_it():
    import pytrec_eval

    rng = np.random.default_rng(4)
    qrels = {f"q{q}": {f"d{d}": int(rng.integers(0, 3)) for d in rng.choice(60, 25, False)} for q in range(30)}
    run = {
        q: {f"d{d}": float(s) for d, s in zip(rng.choice(60, 20, False), rng.random(20), strict=True)} for q in qrels
    }
    names = {"ndcg_cut_10": "ndcg(gain=linear)@10", "map": "map", "recip_rank": "mrr", "recall_10": "recall@10"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    judged = tr.judge_run(run, {q: {d: float(v) for d, v in docs.items()} for q, docs in qrels.items()})
    for trec, ours in names.items():
        values = tr.metric(ours, empty="zero").per_query(judged.scores, judged.labels, judged.offsets)
        np.testing.assert_allclose(values, [theirs[q][trec] for q in judged.qids], atol=1e-12)
