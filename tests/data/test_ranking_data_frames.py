"""Tables as people have them: with a title, a date and an id among the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tautrank as tr
from tautrank.data import read
from tautrank.errors import DataError, OptionError, TautrankWarning


@pytest.fixture
def frame() -> Any:
    return pd.DataFrame(
        {
            "sku": ["a", "b", "c"],
            "title": ["red", "green", "blue"],
            "day": pd.to_datetime(["2024-01-01"] * 3),
            "qid": [1, 1, 2],
            "price": [1.5, None, 3.0],
            "stock": [True, False, True],
            "label": [2, 0, 1],
        }
    )


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_from_frame(frame: Any, kind: str) -> None:
    made = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "arrow": lambda: pa.table(frame),
    }[kind]()
    with pytest.warns(TautrankWarning, match="frame: left out 'title', 'day', without numbers"):
        data = tr.RankingData.from_frame(made, doc_id="sku")
    assert data.feature_names == ("price", "stock")
    np.testing.assert_array_equal(data.X, np.array([[1.5, 1], [np.nan, 0], [3, 1]], np.float32))
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["a", "b", "c"]
    assert data.qids.tolist() == [1, 2]
    chosen = tr.RankingData.from_frame(made, features=["price"])
    assert chosen.feature_names == ("price",)
    assert chosen.doc_ids is None
    assert tr.RankingData.from_frame(made, drop=["sku", "title", "day", "price"]).feature_names == (
        "stock",
    )
    for options, sentence in {
        "label": ({"label": "lable"}, "frame: label: unknown column 'lable'; did you mean 'label'"),
        "drop": ({"drop": ["titel"]}, "frame: drop: unknown column 'titel'; did you mean 'title'"),
        "title": ({"features": ["title"]}, "frame: column 'title' has the type"),
    }.values():
        with pytest.raises(DataError, match=sentence):
            tr.RankingData.from_frame(made, **options)  # type: ignore[arg-type]


def test_one_column_needs_no_list(frame: Any) -> None:
    assert tr.RankingData.from_frame(frame, features="price").feature_names == ("price",)
    with pytest.warns(TautrankWarning, match="left out 'day', without numbers"):
        data = tr.RankingData.from_frame(frame, drop="title", categorical="sku")
    assert data.feature_names == ("sku", "price", "stock")
    with pytest.raises(
        DataError, match="frame: drop: unknown column 'titel'; did you mean 'title'"
    ):
        tr.RankingData.from_frame(frame, drop="titel")


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(DataError, match="frame: found list; expected a pandas or Polars frame"):
        tr.RankingData.from_frame([1, 2])


@pytest.mark.filterwarnings("ignore:.*left out")
def test_separator_and_ids_of_a_file(frame: Any, tmp_path: Any, monkeypatch: Any) -> None:
    frame.to_csv(tmp_path / "t.txt", sep=";", index=False)
    data = read(tmp_path / "t.txt", separator=";", doc_id="sku", drop=["stock"])
    assert data.feature_names == ("price",)
    assert data.doc_ids is not None
    assert data.doc_ids.tolist() == ["a", "b", "c"]
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.csv", None)
    same = read(tmp_path / "t.txt", separator=";", doc_id="sku", drop=["stock"])
    np.testing.assert_array_equal(same.X, data.X)
    with pytest.raises(OptionError, match="separator: found 'ab'; expected one character"):
        read(tmp_path / "t.txt", separator="ab")
    (tmp_path / "letor.txt").write_text("1 qid:1 1:0.5\n")
    with pytest.raises(
        OptionError, match=r"drop: found with .*letor.txt, which is read as LETOR text"
    ):
        read(tmp_path / "letor.txt", drop=["stock"])
