"""Tables of all kinds, read by the ending of their names, and what people get wrong in them."""

from __future__ import annotations

import builtins
import contextlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tautrank as tr
from tautrank.data import read
from tautrank.data.trec import read_judged_scores
from tautrank.errors import DataError, MissingDependencyError
from tests.command_line import run


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
    for data in (
        tr.data.read_parquet(tmp_path / "t.parquet"),
        tr.data.read_csv(tmp_path / "t.csv"),
    ):
        assert data.feature_names == ("bm25", "clicks", "spam")
        np.testing.assert_array_equal(
            data.X, np.array([[1.5, 7, 1], [np.nan, 8, 0], [3, 9, 1]], np.float32)
        )
        assert data.labels.tolist() == [2, 0, 1]
        assert data.qids.tolist() == ["a", "b"]
    chosen = tr.data.read_parquet(tmp_path / "t.parquet", label="clicks", features=["bm25"])
    assert chosen.labels.tolist() == [7, 8, 9]
    assert chosen.X.shape == (3, 1)
    (tmp_path / "scores.txt").write_text("3\n2\n1\n")
    assert read_judged_scores(
        tmp_path / "scores.txt", tmp_path / "t.parquet"
    ).lists.labels.tolist() == [
        2,
        0,
        1,
    ]


def arrow(frame, path):
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, pa.Table.from_pandas(frame).schema) as writer,
    ):
        writer.write_table(pa.Table.from_pandas(frame), max_chunksize=2)


WRITERS = {
    ".feather": lambda frame, path: frame.to_feather(path),
    ".arrow": arrow,
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".ndjson": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".jsonl.gz": lambda frame, path: frame.to_json(
        path, orient="records", lines=True, compression="gzip"
    ),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_arrow_and_json_tables_are_read_as_parquet_is(tmp_path, frame, kind, capsys):
    frame = frame.assign(title="words")
    file, parquet = tmp_path / f"t{kind}", tmp_path / "t.parquet"
    WRITERS[kind](frame, file)
    frame.to_parquet(parquet)
    options = {"label": "clicks", "doc_id": "title", "drop": ["label"], "categorical": ["spam"]}
    for asked in ({}, options):
        with (
            pytest.warns(tr.TautrankWarning, match="left out 'title'")
            if not asked
            else contextlib.nullcontext()
        ):
            found, same = (
                tr.data.read_parquet(file, **asked),
                tr.data.read_parquet(parquet, **asked),
            )
        np.testing.assert_array_equal(found.X, same.X)
        np.testing.assert_array_equal(found.labels, same.labels)
        assert found.qids.tolist() == same.qids.tolist()
        assert (found.feature_names, found.categories) == (same.feature_names, same.categories)
    (tmp_path / "scores.txt").write_text("3\n2\n1\n")
    with pytest.warns(tr.TautrankWarning, match="left out 'title'"):
        assert read_judged_scores(tmp_path / "scores.txt", file).lists.labels.tolist() == [2, 0, 1]
    code, out, _ = run(capsys, "data info --drop title", file)
    assert (code, "documents" in out) == (0, True)


@pytest.mark.parametrize("kind", [".feather", ".arrow", ".jsonl", ".ndjson"])
def test_errors_of_arrow_and_json_tables(tmp_path, frame, kind):
    file = tmp_path / f"t{kind}"
    with pytest.raises(DataError, match="no such file"):
        tr.data.read_parquet(file)
    file.write_bytes(b"not a table")
    with pytest.raises(DataError, match=rf"t\{kind}: cannot be read as a table \("):
        read(file)
    WRITERS[kind](frame.assign(label=[1, None, 2]), file)
    with pytest.raises(
        DataError, match="column 'label' has 1 empty cell; expected a label in every row"
    ):
        tr.data.read_parquet(file)
    with pytest.raises(DataError, match="label: unknown column 'lable'; did you mean 'label'"):
        tr.data.read_parquet(file, label="lable")


def test_an_arrow_file_under_another_name(tmp_path, frame):
    frame.to_feather(tmp_path / "t.txt")
    with pytest.raises(
        DataError,
        match=r"t\.txt: is an Arrow file; expected LETOR text \(tautrank.data.read_parquet",
    ):
        tr.read_letor(tmp_path / "t.txt")


def test_a_table_whose_name_ends_in_tsv_is_separated_by_tabs(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.tsv", "t.TSV.gz"):
        frame.to_csv(tmp_path / name, index=False, sep="\t")
        data, same = read(tmp_path / name), read(tmp_path / "t.csv")
        assert data.feature_names == same.feature_names
        np.testing.assert_array_equal(data.X, same.X)
        assert data.qids.tolist() == ["a", "b"]
    frame.to_csv(tmp_path / "t.tsv", index=False)
    with pytest.raises(DataError, match=r"t.tsv: found columns separated by commas; expected tabs"):
        tr.data.read_csv(tmp_path / "t.tsv")


def test_the_files_of_a_study_find_their_columns_by_name(tmp_path, frame):
    from tautrank.experiments.data_source import read_source

    frame.to_csv(tmp_path / "train.csv", index=False)
    frame[["spam", "label", "clicks", "qid", "bm25"]].to_csv(
        tmp_path / "test.tsv", index=False, sep="\t"
    )
    splits = read_source([str(tmp_path / "train.csv"), str(tmp_path / "test.tsv")]).read()
    assert splits.test.feature_names == splits.train.feature_names == ("bm25", "clicks", "spam")
    np.testing.assert_array_equal(splits.test.X, splits.train.X)


def test_a_column_without_any_value_is_missing(tmp_path, frame):
    frame.assign(bm25=None).to_parquet(tmp_path / "t.parquet")
    assert np.isnan(tr.data.read_parquet(tmp_path / "t.parquet").X[:, 0]).all()


def test_table_errors(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        DataError, match=r"t.parquet: label: unknown column 'lable'; did you mean 'label'\?"
    ):
        tr.data.read_parquet(tmp_path / "t.parquet", label="lable")
    with pytest.raises(DataError, match=r"no such file"):
        tr.data.read_parquet(tmp_path / "absent.parquet")
    frame.assign(url="x").to_parquet(tmp_path / "u.parquet")
    with pytest.raises(
        DataError, match=r"column 'url' has the type (large_)?string; expected numbers"
    ):
        tr.data.read_parquet(tmp_path / "u.parquet", features=["url"])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"cannot be read as a table"):
        tr.data.read_parquet(tmp_path / "bad.parquet")
    frame.assign(label=[1, None, 2]).to_parquet(tmp_path / "n.parquet")
    with pytest.raises(
        DataError, match=r"column 'label' has 1 empty cell; expected a label in every row"
    ):
        tr.data.read_parquet(tmp_path / "n.parquet")
    frame.assign(qid=["a", None, "b"]).to_parquet(tmp_path / "q.parquet")
    with pytest.raises(
        DataError, match=r"column 'qid' has 1 empty cell; expected a query id in every row"
    ):
        tr.data.read_parquet(tmp_path / "q.parquet")
    frame[:0].to_parquet(tmp_path / "e.parquet")
    with pytest.raises(DataError, match=r"e.parquet: found no rows; expected one row per document"):
        tr.data.read_parquet(tmp_path / "e.parquet")
    frame[["label", "qid"]].to_parquet(tmp_path / "f.parquet")
    with pytest.raises(
        DataError,
        match=r"found no feature columns besides 'label' and 'qid'; expected at least one",
    ):
        tr.data.read_parquet(tmp_path / "f.parquet")
    frame.assign(label=[1, -1, 2]).to_parquet(tmp_path / "m.parquet")
    with pytest.raises(
        DataError, match=r"m.parquet: column 'label'\[1\]: found -1; expected a finite number"
    ):
        tr.data.read_parquet(tmp_path / "m.parquet")


HEADERS = {
    "semicolons": ("label;qid;f\n1;2;3\n", "found columns separated by ';'; expected commas"),
    "tabs": ("label\tqid\tf\n1\t2\t3\n", "found columns separated by tabs; expected commas"),
    "no header": (
        "1,2,0.5\n0,2,0.25\n",
        "found numbers in the first line; expected the names of the columns",
    ),
    "pandas' index": (
        ",label,qid,f\n0,1,2,3\n",
        "column 1 has no name; expected one for every column",
    ),
    "twice": ("label,qid,f,f\n1,2,3,4\n", "found two columns 'f'; expected every name once"),
    "labels as text": (
        "label,qid,f\ngood,2,3\n",
        "column 'label' has the type string; expected numbers",
    ),
}


@pytest.mark.parametrize("case", HEADERS)
def test_what_people_get_wrong_in_a_csv_file_is_named(tmp_path, case):
    text, sentence = HEADERS[case]
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError) as caught:
        tr.data.read_csv(tmp_path / "t.csv")
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: {sentence}")


def test_documents_to_rank_need_no_labels(tmp_path, frame):
    frame.drop(columns="label").to_csv(tmp_path / "t.csv", index=False)
    data = tr.data.read_csv(tmp_path / "t.csv", unlabelled=True)
    assert data.labels.tolist() == [0, 0, 0]
    assert data.feature_names == ("bm25", "clicks", "spam")
    with pytest.raises(DataError, match="label: unknown column 'label'"):
        tr.data.read_csv(tmp_path / "t.csv")


def test_a_table_with_scattered_queries_names_its_file(tmp_path):
    (tmp_path / "t.csv").write_text("label,qid,f\n1,a,3\n0,b,2\n0,a,1\n")
    with pytest.warns(
        tr.TautrankWarning, match=r"t\.csv: rows of 1 query are scattered \(the first is qid a\)"
    ):
        assert tr.data.read_csv(tmp_path / "t.csv").sizes.tolist() == [2, 1]


def test_missing_pyarrow_is_one_sentence(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "t.csv", index=False)
    original = builtins.__import__

    def no_arrow(name, *args, **kwargs):
        if name.startswith(("pyarrow", "pandas")):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    import importlib

    read_csv = tr.data.read_csv  # a name that is imported when it is asked for
    monkeypatch.setattr(importlib, "import_module", no_arrow)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tautrank\[parquet\]'"):
        read_csv(tmp_path / "t.csv")


def test_a_name_too_long_for_the_system_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r": cannot be opened \("):
        tr.read_letor(tmp_path / ("x" * 5000))
