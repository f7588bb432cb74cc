"""Negatives, label noise, binary labels: closed-form frequencies, what must not change, and wrong
input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tautrank.simulate import add_negatives, binarise, perturb_labels


@st.composite
def ranking_data(draw, smallest_list=0):
    """Data whose only feature is the row, so that every document can be traced."""
    sizes = draw(st.lists(st.integers(smallest_list, 6), min_size=2, max_size=8))
    n = sum(sizes)
    labels = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    X = np.arange(n, dtype=np.float32)[:, None]
    return tr.RankingData(
        X, np.array(labels, np.float32), offsets, np.arange(len(sizes)) + 10, ("row",)
    )


def copies(data: tr.RankingData) -> list[np.ndarray]:
    return [data.X.copy(), data.labels.copy(), data.offsets.copy(), data.qids.copy()]


def assert_unchanged(data: tr.RankingData, before: list[np.ndarray]) -> None:
    for now, then in zip((data.X, data.labels, data.offsets, data.qids), before, strict=True):
        np.testing.assert_array_equal(now, then)


lists_and_share = given(ranking_data(smallest_list=1), st.floats(0, 3), st.integers(0, 2**40))


@settings(max_examples=30, deadline=None)
@lists_and_share
def test_negatives_change_neither_the_data_nor_its_names(data, share, seed):
    before = copies(data)

    longer = add_negatives(data, share, seed=seed)

    assert_unchanged(data, before)
    np.testing.assert_array_equal(longer.qids, data.qids)
    assert longer.feature_names == data.feature_names
    assert longer.X.dtype == np.float32


@settings(max_examples=60, deadline=None)
@lists_and_share
def test_negatives_come_after_the_list_from_other_queries(data, share, seed):
    longer = add_negatives(data, share, seed=seed)

    query_of_row = np.repeat(np.arange(data.n_queries), data.sizes)
    for query in range(data.n_queries):
        of_list = slice(*longer.offsets[query : query + 2])
        rows = longer.X[of_list, 0].astype(int)
        labels = longer.labels[of_list]
        size = int(data.sizes[query])
        np.testing.assert_array_equal(rows[:size], np.flatnonzero(query_of_row == query))
        np.testing.assert_array_equal(labels[:size], data.labels[rows[:size]])
        assert (query_of_row[rows[size:]] != query).all()
        assert not labels[size:].any()
        assert rows.size - size in (np.floor(share * size), np.ceil(share * size))


def test_negatives_are_drawn_query_first_then_document():
    # Sizes 1, 3, 2: a document of the list of 3 is drawn for the first query with probability 1/2 *
    # 1/3.
    data = tr.RankingData.from_arrays(np.arange(6.0)[:, None], [1] * 6, group=[1, 3, 2])
    n = 60_000
    longer = add_negatives(data, n, seed=4)
    rows = longer.X[1 : longer.offsets[1], 0].astype(int)
    assert rows.size == n
    expected = np.array([0, 1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4])
    frequencies = np.bincount(rows, minlength=6) / n
    assert (np.abs(frequencies - expected) <= 5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_the_share_is_exact_on_average_even_on_short_lists():
    sizes = np.tile([1, 2, 3, 7], 5000)
    data = tr.RankingData.from_arrays(
        np.zeros((sizes.sum(), 1)), np.zeros(sizes.sum()), group=sizes
    )
    added = add_negatives(data, 0.3, seed=1).sizes - sizes
    for size in (1, 2, 3, 7):
        part = 0.3 * size % 1
        error = np.sqrt(part * (1 - part) / 5000)
        assert abs(added[sizes == size].mean() - 0.3 * size) < 5 * error


def test_queries_without_documents_neither_give_nor_get():
    data = tr.RankingData(
        np.array([[1.0], [2.0]], np.float32),
        np.ones(2, np.float32),
        np.array([0, 0, 1, 1, 2]),
        np.arange(4),
    )
    longer = add_negatives(data, 1.0)
    np.testing.assert_array_equal(longer.sizes, [0, 2, 0, 2])
    np.testing.assert_array_equal(longer.X[:, 0], [1, 2, 2, 1])


def test_sparse_features_stay_sparse():
    X = sparse.csr_matrix(np.eye(6, dtype=np.float32))
    data = tr.RankingData.from_arrays(X, [0, 1] * 3, group=[2, 2, 2])
    longer = add_negatives(data, 0.5, seed=3)
    assert sparse.issparse(longer.X)
    dense = tr.RankingData.from_arrays(np.eye(6, dtype=np.float32), [0, 1] * 3, group=[2, 2, 2])
    np.testing.assert_array_equal(longer.X.toarray(), add_negatives(dense, 0.5, seed=3).X)


def test_scattered_rows_keep_their_way_back_only_where_documents_stay():
    with pytest.warns(tr.errors.TautrankWarning):
        data = tr.RankingData.from_arrays([[0.0], [1.0], [2.0]], [0, 1, 2], qid=[1, 2, 1])
    assert add_negatives(data, 1).source_rows is None
    np.testing.assert_array_equal(perturb_labels(data, 0.5).source_rows, data.source_rows)
    np.testing.assert_array_equal(binarise(data).source_rows, data.source_rows)


@pytest.mark.parametrize("probability", [0.1, 0.6])
def test_label_transitions_have_the_stated_frequencies(probability):
    n = 40_000
    shares = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    for old in range(5):
        data = tr.RankingData.from_arrays(np.zeros((n, 1)), np.full(n, old), group=[n])
        noisy = perturb_labels(data, probability, distribution=shares, seed=old)
        expected = probability * shares + (1 - probability) * (np.arange(5) == old)
        frequencies = np.bincount(noisy.labels.astype(int), minlength=5) / n
        assert (np.abs(frequencies - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()


@pytest.mark.parametrize("highest", [0, 1, 2, 4, 9.5])
def test_new_labels_are_grades_of_the_data(highest):
    n = 40_000
    labels = np.zeros(n)
    labels[:10] = highest
    noisy = perturb_labels(
        tr.RankingData.from_arrays(np.zeros((n, 1)), labels, group=[n]), 1, seed=3
    )
    shares = np.array([0.5, 0.2, 0.15, 0.1, 0.05])[: int(highest) + 1]
    expected = shares / shares.sum()
    frequencies = np.bincount(noisy.labels.astype(int), minlength=expected.size) / n
    assert (np.abs(frequencies - expected) <= 5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_another_distribution_may_have_other_labels():
    data = tr.RankingData.from_arrays(np.zeros((100, 1)), np.full(100, 9.5), group=[100])
    assert set(perturb_labels(data, 1, distribution=(0, 0.5, 0.5)).labels.tolist()) == {1.0, 2.0}


@settings(max_examples=60, deadline=None)
@given(ranking_data(), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**40))
def test_more_noise_keeps_what_less_noise_changed(data, one, other, seed):
    before = copies(data)
    few, many = (
        perturb_labels(data, probability, seed=seed) for probability in sorted((one, other))
    )
    assert_unchanged(data, before)
    changed = few.labels != data.labels
    np.testing.assert_array_equal(many.labels[changed], few.labels[changed])
    np.testing.assert_array_equal(perturb_labels(data, 0, seed=seed).labels, data.labels)
    assert few.X is data.X
    assert few.labels.dtype == np.float32


@settings(max_examples=60, deadline=None)
@given(ranking_data(), st.sampled_from([0, 0.5, 1, 2, 4, 7]))
def test_binary_labels_say_which_are_above_the_threshold(data, threshold):
    before = copies(data)
    binary = binarise(data, threshold)
    assert_unchanged(data, before)
    np.testing.assert_array_equal(
        binary.labels, [1.0 if label > threshold else 0.0 for label in data.labels]
    )
    assert binary.labels.dtype == np.float32
    np.testing.assert_array_equal(binarise(binary).labels, binary.labels)


@pytest.mark.parametrize(
    "change",
    [
        lambda d, seed: add_negatives(d, 0.7, seed=seed),
        lambda d, seed: perturb_labels(d, 0.7, seed=seed),
    ],
)
def test_a_seed_is_a_result(change):
    data = tr.RankingData.from_arrays(
        np.arange(200.0)[:, None], np.tile([0, 4], 100), group=[50] * 4
    )
    one, again, with_other_seed = change(data, 1), change(data, 1), change(data, 2)
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.labels, again.labels)
    assert not (
        np.array_equal(one.X, with_other_seed.X)
        and np.array_equal(one.labels, with_other_seed.labels)
    )


DATA = tr.RankingData.from_arrays([[0.0], [1.0]], [0, 1], group=[1, 1])
ONE = DATA.subset([0])
WRONG = {
    "share": (
        lambda: add_negatives(DATA, -0.1),
        "share: found -0.1; expected a number of at least 0",
    ),
    "share is text": (
        lambda: add_negatives(DATA, "40%"),
        "share: found '40%'; expected a number of at least 0",
    ),
    "share endless": (
        lambda: add_negatives(DATA, np.inf),
        "share: found inf; expected a number of at least 0",
    ),
    "seed": (
        lambda: add_negatives(DATA, 1, seed=True),
        "seed: found True; expected a whole number of at least 0",
    ),
    "probability": (
        lambda: perturb_labels(DATA, 1.2),
        "probability: found 1.2; expected a number of at least 0 and at most 1",
    ),
    "sum": (
        lambda: perturb_labels(DATA, 0.5, distribution=(0.5, 0.6)),
        "distribution: found a sum of 1.1; expected probabilities that sum to 1",
    ),
    "negative": (
        lambda: perturb_labels(DATA, 0.5, distribution=(1.5, -0.5)),
        "distribution: found 1.5 for label 0; expected numbers from 0 to 1, one per label",
    ),
    "nothing": (
        lambda: perturb_labels(DATA, 0.5, distribution=()),
        "distribution: found (); expected numbers from 0 to 1, one per label",
    ),
    "threshold": (
        lambda: binarise(DATA, -1),
        "threshold: found -1; expected a number of at least 0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters(case):
    call, sentence = WRONG[case]
    with pytest.raises(OptionError) as caught:
        call()
    assert str(caught.value) == sentence


def test_wrong_data():
    with pytest.raises(
        DataError, match=r"^data: found 1 query with documents; expected at least 2"
    ):
        add_negatives(ONE, 1)
    assert add_negatives(ONE, 0).n_documents == 1
    for change in (lambda d: add_negatives(d, 1), lambda d: perturb_labels(d, 1), binarise):
        with pytest.raises(DataError, match=r"^data: found list; expected RankingData"):
            change([0, 1])


def test_added_negatives_keep_the_ids_of_the_documents_they_are():
    data = tr.RankingData.from_arrays(
        np.arange(6.0)[:, None], [1, 0, 2, 0, 1, 0], group=[3, 3], doc_ids=list("abcdef")
    )
    longer = add_negatives(data, 1.0)
    assert longer.doc_ids.tolist() == [data.doc_ids[int(row)] for row in longer.X[:, 0]]
