"""Frames of all libraries mean the same, and so do their types of numbers and categories."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import duckdb
import ibis
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tautrank as tr
from tautrank.data.frames import as_frame, column_numbers
from tautrank.errors import DataError

DOCUMENTS = pa.table(
    {
        "qid": ["a", "a", "b", "b", "b"],
        "label": [1, 0, 2, 0, 1],
        "sku": ["p1", "p2", "p1", "p3", "p4"],
        "price": [3.5, None, 2.0, 16777217.0, 0.1],
        "stock": [True, False, True, True, False],
        "sold": [1, 2, None, 4, 5],
        "colour": ["red", "blue", "red", None, "green"],
    }
)


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "Arrow table": lambda table: table,
    "Arrow record batch": lambda table: table.combine_chunks().to_batches()[0],
    "pandas": lambda table: table.to_pandas(),
    "pandas of nullable types": lambda table: table.to_pandas().convert_dtypes(),
    "pandas of Arrow types": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": pl.from_arrow,
    "Polars, lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "DuckDB": lambda table: duckdb.from_arrow(table),
    "Ibis": lambda table: ibis.memtable(table),
    "narwhals": lambda table: nw.from_native(table),
}


@pytest.fixture(params=FRAMES.values(), ids=FRAMES.keys())
def made(request: pytest.FixtureRequest) -> Callable[[pa.Table], Any]:
    """Make a frame of a library out of an Arrow table."""
    return request.param


def test_from_frame_reads_the_same_from_every_library(made: Callable[[pa.Table], Any]) -> None:
    data = tr.RankingData.from_frame(made(DOCUMENTS), doc_id="sku", categorical=["colour"])

    assert data.feature_names == ("price", "stock", "sold", "colour")
    assert data.categories == {"colour": ("blue", "green", "red")}
    assert data.qids.tolist() == ["a", "b"]
    assert data.sizes.tolist() == [2, 3]
    assert data.labels.tolist() == [1, 0, 2, 0, 1]
    assert data.document_names.tolist() == ["p1", "p2", "p1", "p3", "p4"]
    nan = np.nan
    np.testing.assert_array_equal(
        data.X,
        [
            [3.5, 1, 1, 2],
            [nan, 0, 2, 0],
            [2.0, 1, nan, 2],
            # Float32 would change this price, so that the column is one of doubles ...
            [16777217.0, 1, 4, nan],
            # ... whose other values are those of float32.
            [np.float32(0.1), 0, 5, 1],
        ],
    )


def test_fit_and_predict_take_frames_of_every_library(made: Callable[[pa.Table], Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    columns = pa.table({"price": X[:, 0], "stock": X[:, 1]})
    labels, group = rng.integers(3, size=200), [10] * 20
    ranker = tr.Ranker("lambdarank", n_estimators=3, n_jobs=1, early_stopping_rounds=None)

    expected = ranker.fit(X, labels, group=group).predict(X)
    scores = ranker.fit(made(columns), labels, group=group).predict(made(columns))

    assert scores.tolist() == expected.tolist()
    assert list(ranker.feature_names_in_) == ["price", "stock"]


def test_rows_without_columns_or_columns_of_one_name_are_refused() -> None:
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    for frame in (twice, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(
            DataError, match=r"^X: found two columns 'a'; expected every name once$"
        ):
            tr.RankingData.from_arrays(frame, [1], group=[1])
    with pytest.raises(DataError, match=r"^X: found a frame without columns"):
        tr.RankingData.from_arrays(pd.DataFrame(index=[0]), [1], group=[1])


NUMBERS = {
    "pandas, whole": pd.Series([1, 0, 1]),
    "pandas, whole with a gap": pd.Series([1, None, 1], dtype="Int64"),
    "pandas, small floats": pd.Series([1, 0, np.nan], dtype=np.float16),
    "pandas, truth": pd.Series([True, False, True]),
    "pandas, truth with a gap": pd.Series([True, None, True], dtype="boolean"),
    "pandas, sparse": pd.Series(pd.arrays.SparseArray([1.0, 0.0, np.nan])),
    "pandas, Arrow's": pd.Series([1, None, 0], dtype="double[pyarrow]"),
    "Polars, whole with a gap": pl.Series([1, None, 0]),
    "Polars, truth with a gap": pl.Series([True, None, False]),
    "Polars, decimal": pl.Series([1, None, 0]).cast(pl.Decimal(10, 2)),
    "Arrow, decimal": pa.chunked_array([[decimal.Decimal("1.5"), None]]),
    "Arrow, small floats": pa.chunked_array([pa.array([1.5, None], pa.float16())]),
    "Arrow, truth with a gap": pa.chunked_array([[True, None]]),
    "Arrow, nothing but nulls": pa.chunked_array([pa.nulls(2)]),
}


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS.keys())
def test_columns_of_numbers_become_doubles(values: Any) -> None:
    is_arrow = isinstance(values, pa.ChunkedArray)
    frame = pa.table({"a": values}) if is_arrow else type(values.to_frame("a"))({"a": values})
    listed = values.to_pylist() if is_arrow else values.to_list()
    expected = [np.nan if value is None or value is pd.NA else float(value) for value in listed]

    column = column_numbers(as_frame(frame, "X")["a"], "column 'a'")

    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, expected)


NOT_NUMBERS = {
    "object": pd.DataFrame({"a": [object()]}),
    "datetime64[us]": pd.DataFrame({"a": pd.to_datetime(["2024-01-01"]).as_unit("us")}),
    "category": pd.DataFrame({"a": pd.Categorical(["red"])}),
    "String": pl.DataFrame({"a": ["red"]}),
    "date32[day]": pa.table({"a": pa.array([1], pa.date32())}),
    "string": pa.table({"a": ["red"]}),
}


@pytest.mark.parametrize(("written_type", "frame"), NOT_NUMBERS.items(), ids=NOT_NUMBERS.keys())
def test_the_error_names_the_type_as_its_library_does(written_type: str, frame: Any) -> None:
    with pytest.raises(DataError) as raised:
        column_numbers(as_frame(frame, "X")["a"], "X: column 'a'")

    assert str(raised.value) == f"X: column 'a' has the type {written_type}; expected numbers"


@pytest.mark.parametrize("library", ["pandas", "pandas of nullable types", "Polars", "Arrow table"])
def test_values_do_not_depend_on_the_number_of_rows(library: str) -> None:
    """Frames of few rows are read in one go, others column by column."""
    columns = DOCUMENTS.select(["price", "stock", "sold"])
    n_copies = 3000
    few, many = FRAMES[library](columns), FRAMES[library](pa.concat_tables([columns] * n_copies))

    one = tr.RankingData.from_arrays(few, [1] * 5, group=[5])
    repeated = tr.RankingData.from_arrays(many, [1] * 5 * n_copies, group=[5] * n_copies)

    assert repeated.X.dtype == one.X.dtype
    np.testing.assert_array_equal(repeated.X, np.tile(one.X, (n_copies, 1)))
