"""RankingData from arrays and frames, and its parts."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tautrank as tr
from tautrank.errors import TautrankWarning

X = np.arange(12, dtype=np.float64).reshape(6, 2)
Y = [0, 1, 2, 0, 1, 2]
QID = [5, 5, 3, 3, 3, 9]


def dense(matrix: Any) -> Any:
    """The features as an array, whatever their layout."""
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


def documents(data: tr.RankingData) -> dict[Any, list[tuple[list[float], float]]]:
    """Features and label of each document by query id: what the data means, whatever its layout."""
    features, labels = dense(data.X).tolist(), data.labels.tolist()
    by_query = {}
    for qid, (begin, end) in zip(data.qids.tolist(), pairwise(data.offsets), strict=True):
        by_query[qid] = list(zip(features[begin:end], labels[begin:end], strict=True))
    return by_query


def with_every_entry_in_two_parts(matrix: Any) -> Any:
    """A CSR matrix that gives each index twice; SciPy adds such entries up."""
    n_rows, n_columns = matrix.shape
    halves = np.repeat(matrix.ravel() / 2, 2)
    columns = np.tile(np.repeat(np.arange(n_columns), 2), n_rows)
    row_ends = np.arange(n_rows + 1) * 2 * n_columns
    return sparse.csr_matrix((halves, columns, row_ends), shape=matrix.shape)


MATRICES = {
    "float64": X,
    "lists": X.tolist(),
    "float32": X.astype(np.float32),
    "int64": X.astype(np.int64),
    "objects": X.astype(object),
    "columns first": np.asfortranarray(X),
    "CSR": sparse.csr_matrix(X),
    "CSC": sparse.csc_array(X),
    "COO": sparse.coo_matrix(X),
    "entries that add up": with_every_entry_in_two_parts(X),
}
FRAMES = {
    "pandas": pd.DataFrame(X, columns=["a", "b"]),
    "pandas, nullable": pd.DataFrame(
        {"a": pd.array(X[:, 0].astype(int), dtype="Int64"), "b": X[:, 1].astype(np.float32)}
    ),
    "Polars": pl.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(np.int32)}),
    "Arrow table": pa.table({"a": X[:, 0].astype(np.int8), "b": X[:, 1]}),
    "Arrow batch": pa.record_batch({"a": X[:, 0], "b": X[:, 1].astype(np.float32)}),
}


@pytest.mark.parametrize("name", [*MATRICES, *FRAMES])
def test_every_kind_of_matrix_gives_the_same_data(name):
    data = tr.RankingData.from_arrays({**MATRICES, **FRAMES}[name], Y, qid=QID)

    np.testing.assert_array_equal(dense(data.X), X.astype(np.float32))
    assert data.X.dtype == data.labels.dtype == np.float32
    assert data.offsets.dtype == np.int64
    assert data.offsets.tolist() == [0, 2, 5, 6]
    assert data.qids.tolist() == [5, 3, 9]
    assert data.feature_names == (("a", "b") if name in FRAMES else None)


@pytest.mark.parametrize(
    "qid", [np.array([5, 5, 3, 3, 3, 9], object), pd.Series(QID), np.array(QID, float)]
)
def test_every_kind_of_whole_ids_gives_the_same_data(qid):
    data = tr.RankingData.from_arrays(X, np.array(Y)[:, np.newaxis], qid=qid)
    assert data.qids.dtype == np.int64
    assert data.qids.tolist() == [5, 3, 9]
    assert data.labels.tolist() == Y


def test_labels_and_ids_may_be_series():
    for frame in (pd, pl):
        data = tr.RankingData.from_arrays(
            X, frame.Series(Y), qid=frame.Series([str(q) for q in QID])
        )
        assert data.qids.tolist() == ["5", "3", "9"]
        assert data.labels.tolist() == Y


def test_group_sizes_and_ids_agree():
    by_group = tr.RankingData.from_arrays(X, Y, group=[2, 3, 1])
    assert by_group.offsets.tolist() == [0, 2, 5, 6]
    assert by_group.qids.tolist() == [0, 1, 2]


def test_no_rows_are_no_queries():
    for grouped in ({"qid": []}, {"group": []}):
        data = tr.RankingData.from_arrays(np.zeros((0, 2)), [], **grouped)
        assert (data.n_queries, data.n_documents, data.n_features) == (0, 0, 2)
        assert data.offsets.tolist() == [0]
        assert data.describe().documents == 0


def test_missing_values_of_frames_become_nan():
    made = {"a": [1, None]}
    for frame in (pd.DataFrame(made), pl.DataFrame(made), pa.table(made), pa.record_batch(made)):
        assert np.isnan(tr.RankingData.from_arrays(frame, [0, 1], group=[2]).X[1, 0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_scattered_rows_are_gathered_in_order(qid):
    rows = np.arange(len(qid), dtype=float)
    n_runs = 1 + sum(first != second for first, second in pairwise(qid))
    are_scattered = n_runs > len(set(qid))
    expects_warning = (
        pytest.warns(TautrankWarning, match="qid: rows of .* scattered")
        if are_scattered
        else nullcontext()
    )

    with expects_warning:
        data = tr.RankingData.from_arrays(rows[:, None], qid, qid=qid)

    expected = {}
    for row, query in enumerate(qid):
        expected.setdefault(query, []).append(([float(row)], float(query)))
    assert documents(data) == expected
    assert data.qids.tolist() == list(expected)
    np.testing.assert_array_equal(data.in_document_order(rows), data.X[:, 0])
    np.testing.assert_array_equal(data.in_source_order(data.X[:, 0]), rows)


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix], ids=["dense", "CSR"])
@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12), draw=st.data())
def test_subset_takes_whole_queries_in_the_order_given(make, sizes, draw):
    n = sum(sizes)
    rows, labels = np.arange(n)[:, None], np.arange(n) % 3
    data = tr.RankingData.from_arrays(make(rows), labels, group=sizes)
    positions = draw.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=8))

    part = data.subset(positions)

    assert part.qids.tolist() == positions
    assert part.sizes.tolist() == [sizes[position] for position in positions]
    rows_of_query = np.split(np.arange(n), data.offsets[1:-1])
    expected = [row for position in positions for row in rows_of_query[position]]
    assert dense(part.X)[:, 0].tolist() == expected
    assert part.labels.tolist() == [labels[row] for row in expected]


def test_subset_takes_a_mask():
    data = tr.RankingData.from_arrays(X, Y, qid=QID)

    assert data.subset([True, False, True]).qids.tolist() == [5, 9]


def test_split_is_by_query_complete_and_repeatable():
    data = tr.RankingData.from_arrays(np.arange(300)[:, None], np.arange(300) % 3, group=[3] * 100)
    fractions = [0.6, 0.2, 0.2]

    parts = data.split(fractions, seed=0)

    ids = [part.qids.tolist() for part in parts]
    assert [len(part_ids) for part_ids in ids] == [60, 20, 20]
    assert np.sort(np.concatenate(ids)).tolist() == list(range(100))
    assert all(part_ids == sorted(part_ids) for part_ids in ids)
    assert [part.qids.tolist() for part in data.split(fractions, seed=0)] == ids
    assert data.split(fractions, seed=1)[0].qids.tolist() != ids[0]
    for part in parts:
        first_rows = 3 * part.qids
        np.testing.assert_array_equal(part.X.reshape(-1, 3)[:, 0], first_rows)
        np.testing.assert_array_equal(part.X.reshape(-1, 3)[:, 2], first_rows + 2)


def test_folds_divide_the_queries():
    data = tr.RankingData.from_arrays(np.zeros((10, 1)), np.ones(10), group=[1] * 10)
    tests = []
    for train, test in data.folds(4, seed=3):
        assert not set(train.qids.tolist()) & set(test.qids.tolist())
        assert train.n_queries + test.n_queries == 10
        tests += test.qids.tolist()
    assert sorted(tests) == list(range(10))


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix], ids=["dense", "CSR"])
def test_concat_undoes_split(make):
    data = tr.RankingData.from_arrays(make(X), Y, qid=QID)

    parts = data.split([0.34, 0.33, 0.33], seed=1)

    assert documents(tr.RankingData.concat(parts)) == documents(data)


def test_concat_keeps_repeated_queries_apart_if_asked():
    data = tr.RankingData.from_arrays(X, Y, qid=QID)

    assert tr.RankingData.concat([data, data], repeated="separate").n_queries == 6


def test_describe_counts_what_it_says():
    rows = [[1, 0, 5], [1, 0, 5], [1, 0, 5], [2, 0, 5], [2, 0, 5], [np.nan, 0, 5]]
    labels = [0, 0, 3, 1, 1, 0]
    for make in (np.array, sparse.csr_matrix):
        summary = tr.RankingData.from_arrays(make(rows), labels, group=[3, 2, 1]).describe()
        assert (summary.queries, summary.documents, summary.features) == (3, 6, 3)
        assert summary.labels == {0.0: 3, 1.0: 2, 3.0: 1}
        assert summary.list_length == (1, 2.0, 2.0, 3)
        assert summary.empty_queries == 1
        assert summary.constant_queries == 2
        assert summary.duplicate_rows == 3
        assert summary.contradicting_rows == 1
        assert summary.missing_values == 1
        assert summary.constant_features == 2
        assert "queries" in str(summary)
        assert summary.to_dict()["labels"] == {"0": 3, "1": 2, "3": 1}


@pytest.mark.parametrize(
    ("values", "group", "n_duplicates"),
    [([1.0, 1.0], [2], 1), ([1.0, 1.0], [1, 1], 0), ([0.0, -0.0], [2], 1)],
    ids=["in a query", "in two queries", "zeros of either sign"],
)
def test_duplicates_are_rows_of_one_query(values, group, n_duplicates):
    data = tr.RankingData.from_arrays(np.array(values)[:, None], [0, 1], group=group)

    assert data.describe().duplicate_rows == n_duplicates


def test_many_distinct_labels_are_given_as_a_range():
    data = tr.RankingData.from_arrays(np.zeros((50, 1)), np.linspace(0, 1, 50), group=[50])
    assert data.describe().labels is None
    assert "0 to 1" in str(data.describe())


def test_wider_data_gets_zero_columns():
    for make in (np.array, sparse.csr_matrix):
        wide = tr.RankingData.from_arrays(make([[1.0, 2.0]]), [0], group=[1]).with_n_features(4)
        assert dense(wide.X).tolist() == [[1, 2, 0, 0]]


def test_simulated_web_search_has_the_habits_it_promises():
    data = tr.simulate.simulate_web_search(300, seed=0)
    again = tr.simulate.simulate_web_search(300, seed=0)
    np.testing.assert_array_equal(data.X, again.X)
    np.testing.assert_array_equal(data.labels, again.labels)
    summary = data.describe()
    shares = np.array(list(summary.labels.values())) / summary.documents
    np.testing.assert_allclose(shares, tr.simulate.shapes.LABEL_SHARES, atol=0.002)
    assert (
        summary.list_length[3] > 3 * summary.list_length[1]
    )  # some lists are far longer than the median
    assert summary.empty_queries > 0
    assert np.isfinite(data.X).all()
    deviations = (data.X - data.X.mean(0)) / data.X.std(0)
    assert (deviations.max(0) > 10).sum() > 20  # heavy tails in many columns
