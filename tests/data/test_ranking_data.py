"""RankingData from arrays and frames, and its parts."""

from __future__ import annotations

from itertools import pairwise

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


def documents(data: tr.RankingData) -> dict:
    """Query id -> list of (features, label): what the data means, whatever its layout."""
    dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    return {
        qid: [(tuple(dense[i].tolist()), float(data.labels[i])) for i in range(begin, end)]
        for qid, begin, end in zip(
            data.qids.tolist(), data.offsets[:-1], data.offsets[1:], strict=True
        )
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda: X,
        lambda: X.tolist(),
        lambda: X.astype(np.float32),
        lambda: X.astype(np.int64),
        lambda: np.asfortranarray(X),
        lambda: pd.DataFrame(X, columns=["a", "b"]),
        lambda: pd.DataFrame(
            {"a": pd.array(X[:, 0].astype(int), dtype="Int64"), "b": X[:, 1].astype(np.float32)}
        ),
        lambda: pl.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(np.int32)}),
        lambda: pa.table({"a": X[:, 0].astype(np.int8), "b": X[:, 1]}),
        lambda: pa.record_batch({"a": X[:, 0], "b": X[:, 1].astype(np.float32)}),
        lambda: sparse.csr_matrix(X),
        lambda: sparse.csc_array(X),
        lambda: sparse.coo_matrix(X),
        lambda: X.astype(object),
        # Entries that add up, as SciPy understands an index that is given twice.
        lambda: sparse.csr_matrix(
            (
                np.r_[X.ravel() - 1, np.ones(12)][
                    np.argsort(np.tile(np.arange(12), 2), kind="stable")
                ],
                np.tile(np.repeat([0, 1], 2), 6),
                np.arange(7) * 4,
            ),
            shape=X.shape,
        ),
    ],
    ids=lambda make: "",
)
def test_every_kind_of_matrix_gives_the_same_data(make):
    data = tr.RankingData.from_arrays(make(), Y, qid=QID)
    dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    np.testing.assert_array_equal(dense, X.astype(np.float32))
    assert data.X.dtype == data.labels.dtype == np.float32
    assert data.offsets.dtype == np.int64
    assert data.offsets.tolist() == [0, 2, 5, 6]
    assert data.qids.tolist() == [5, 3, 9]
    if hasattr(make(), "columns"):
        assert data.feature_names == ("a", "b")


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
    rows = np.arange(len(qid), dtype=float)[:, None]
    runs = 1 + sum(a != b for a, b in pairwise(qid))
    if runs > len(set(qid)):
        with pytest.warns(TautrankWarning, match="qid: rows of .* scattered"):
            data = tr.RankingData.from_arrays(rows, qid, qid=qid)
    else:
        data = tr.RankingData.from_arrays(rows, qid, qid=qid)
    assert data.qids.tolist() == list(dict.fromkeys(qid))
    expected = {
        q: [((float(i),), float(q)) for i, v in enumerate(qid) if v == q]
        for q in dict.fromkeys(qid)
    }
    assert documents(data) == expected
    np.testing.assert_array_equal(data.in_document_order(rows[:, 0]), data.X[:, 0])
    np.testing.assert_array_equal(data.in_source_order(data.X[:, 0]), rows[:, 0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.data())
def test_subset_takes_whole_queries_in_the_order_given(sizes, data):
    n = sum(sizes)
    everything = tr.RankingData.from_arrays(np.arange(n)[:, None], np.arange(n) % 3, group=sizes)
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=8))
    for source in (
        everything,
        tr.RankingData.from_arrays(sparse.csr_matrix(everything.X), everything.labels, group=sizes),
    ):
        part = source.subset(chosen)
        assert part.qids.tolist() == chosen
        expected = [documents(everything)[q] for q in chosen]
        got = [
            [
                (tuple(np.asarray(row).ravel().tolist()), label)
                for row, label in zip(rows, labels, strict=True)
            ]
            for rows, labels in zip(
                np.split(
                    part.X if isinstance(part.X, np.ndarray) else part.X.toarray(),
                    part.offsets[1:-1],
                ),
                np.split(part.labels, part.offsets[1:-1]),
                strict=True,
            )
        ]
        if chosen:
            assert got == expected
    mask = np.isin(np.arange(len(sizes)), chosen)
    assert everything.subset(mask).qids.tolist() == sorted(set(chosen))


def test_split_is_by_query_complete_and_repeatable():
    data = tr.RankingData.from_arrays(np.arange(300)[:, None], np.arange(300) % 3, group=[3] * 100)
    parts = data.split([0.6, 0.2, 0.2], seed=0)
    assert [p.n_queries for p in parts] == [60, 20, 20]
    assert sorted(q for p in parts for q in p.qids.tolist()) == list(range(100))
    assert all(p.qids.tolist() == sorted(p.qids.tolist()) for p in parts)
    again = data.split([0.6, 0.2, 0.2], seed=0)
    assert [p.qids.tolist() for p in parts] == [p.qids.tolist() for p in again]
    assert data.split([0.6, 0.2, 0.2], seed=1)[0].qids.tolist() != parts[0].qids.tolist()
    for part in parts:
        for query, rows in documents(part).items():
            assert [x[0] for x, _ in rows] == [3 * query, 3 * query + 1, 3 * query + 2]


def test_folds_divide_the_queries():
    data = tr.RankingData.from_arrays(np.zeros((10, 1)), np.ones(10), group=[1] * 10)
    tests = []
    for train, test in data.folds(4, seed=3):
        assert not set(train.qids.tolist()) & set(test.qids.tolist())
        assert train.n_queries + test.n_queries == 10
        tests += test.qids.tolist()
    assert sorted(tests) == list(range(10))


def test_concat_undoes_split():
    data = tr.RankingData.from_arrays(X, Y, qid=QID)
    for make in (lambda m: m, sparse.csr_matrix):
        whole = tr.RankingData.from_arrays(make(X), Y, qid=QID)
        parts = whole.split([0.34, 0.33, 0.33], seed=1)
        assert documents(tr.RankingData.concat(parts)) == documents(data)
    both = tr.RankingData.concat([data, data], repeated="separate")
    assert both.n_queries == 6


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


def test_describe_does_not_take_a_row_of_another_query_for_a_duplicate():
    assert (
        tr.RankingData.from_arrays([[1.0], [1.0]], [0, 1], group=[1, 1]).describe().duplicate_rows
        == 0
    )
    assert (
        tr.RankingData.from_arrays([[0.0], [-0.0]], [0, 1], group=[2]).describe().duplicate_rows
        == 1
    )


def test_many_distinct_labels_are_given_as_a_range():
    data = tr.RankingData.from_arrays(np.zeros((50, 1)), np.linspace(0, 1, 50), group=[50])
    assert data.describe().labels is None
    assert "0 to 1" in str(data.describe())


def test_wider_data_gets_zero_columns():
    for make in (np.array, sparse.csr_matrix):
        wide = tr.RankingData.from_arrays(make([[1.0, 2.0]]), [0], group=[1]).with_n_features(4)
        dense = wide.X if isinstance(wide.X, np.ndarray) else wide.X.toarray()
        assert dense.tolist() == [[1, 2, 0, 0]]


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
