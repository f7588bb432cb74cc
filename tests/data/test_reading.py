"""`read` finds the format of a file by its content and by the ending of its name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tautrank as tr
from tautrank.data import read
from tautrank.data.reading import format_of
from tautrank.errors import DataError, OptionError

TABLE = pd.DataFrame(
    {
        "query": ["a", "a", "b"],
        "sku": ["p1", "p2", "p3"],
        "grade": [2, 0, 1],
        "price": [1.5, np.nan, 3.0],
    }
)
COLUMNS: dict[str, Any] = {"label": "grade", "qid": "query", "doc_id": "sku"}


def _write_json_lines(path: Path) -> None:
    TABLE.to_json(path, orient="records", lines=True)


WRITERS = {
    "Parquet": TABLE.to_parquet,
    "Arrow": TABLE.to_feather,
    "JSON lines": _write_json_lines,
    "CSV": lambda path: TABLE.to_csv(path, index=False),
}
ENDINGS = {
    "Parquet": [".parquet", ".pq", ".data", ".csv", ""],
    "Arrow": [".feather", ".arrow", ".data", ".parquet", ""],
    "JSON lines": [".jsonl", ".ndjson", ".data", ""],
    "CSV": [".csv", ".CSV", ".data", ""],
}


@pytest.mark.parametrize(
    ("file_format", "ending"),
    [(file_format, ending) for file_format in ENDINGS for ending in ENDINGS[file_format]],
)
def test_a_table_is_read_whatever_its_name(file_format: str, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"train{ending}"
    WRITERS[file_format](file)

    data = read(file, **COLUMNS)

    assert format_of(file, label="grade", qid="query") == file_format
    assert data.document_names.tolist() == ["p1", "p2", "p3"]
    assert data.labels.tolist() == [2, 0, 1]
    np.testing.assert_array_equal(data.X, [[1.5], [np.nan], [3.0]])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_first_line_shows_what_separates_columns(separator: str, tmp_path: Path) -> None:
    file = tmp_path / "train.data.gz"
    file.write_bytes(gzip.compress(TABLE.to_csv(sep=separator, index=False).encode()))

    assert read(file, **COLUMNS).labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize("name", ["train.txt", "train", "train.svm"])
def test_all_else_is_letor_text(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("# label,qid\n2 qid:7 1:0.5 # a\n0 qid:7 0:0.25 # b\n")

    data = read(file, zero_based=True)

    assert format_of(file) == "LETOR text"
    assert data.n_features == 2
    assert data.labels.tolist() == [2, 0]


@pytest.mark.parametrize("name", ["train.txt", "train"])
def test_other_columns_do_not_make_a_table(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("grade,query,price\n1,7,0.5\n")

    with pytest.raises(DataError, match=rf"{name}:1: found label 'grade,query,price'; expected"):
        read(file)


@pytest.mark.parametrize(
    "columns", [{"doc_id": "sku"}, {"features": ["a"]}, {"drop": ["a"]}, {"categorical": ["a"]}]
)
def test_names_of_columns_are_refused_with_letor_text(
    columns: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "train.txt"
    file.write_text("2 qid:7 1:0.5\n")

    with pytest.raises(OptionError) as raised:
        read(file, **columns)

    (name,) = columns
    expected = f"{name}: found with {file}, which is read as LETOR text; expected a table"
    assert str(raised.value) == expected


def test_unknown_options_are_refused_for_every_format(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("2 qid:7 1:0.5\n")
    TABLE.to_csv(tmp_path / "train.csv", index=False)
    for name in ("train.txt", "train.csv"):
        with pytest.raises(OptionError, match="unknown option 'zero_base'; did you mean 'zero_b"):
            read(tmp_path / name, zero_base=True)


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a directory; .*tautrank.data.read_folder"):
        read(tmp_path)
    for name in ("train.txt", "train.csv", "train.parquet"):
        with pytest.raises(DataError, match=f"{name}: no such file"):
            read(tmp_path / name)


def test_a_parquet_file_of_another_name_is_streamed(tmp_path: Path) -> None:
    TABLE.to_parquet(tmp_path / "train")

    data = tr.data.read_streamed(tmp_path / "train", label="grade", qid="query", drop=["sku"])

    np.testing.assert_array_equal(np.concatenate(list(data.X.chunks())), [[1.5], [np.nan], [3.0]])
