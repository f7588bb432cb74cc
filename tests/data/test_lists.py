"""Labelled lists: every spelling of the same lists is the same lists, and they are checked once."""

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Lists
from tautrank.errors import DataError, TautrankWarning

LABELS = [0, 2, 1, 0, 1]
OFFSETS = [0, 2, 5]

ADJACENT_SPELLINGS = {
    "offsets": {"offsets": OFFSETS},
    "qid": {"qid": ["a", "a", "b", "b", "b"]},
    "group": {"group": [2, 3]},
}


@pytest.mark.parametrize("queries", ADJACENT_SPELLINGS.values(), ids=ADJACENT_SPELLINGS)
def test_offsets_query_ids_and_group_sizes_describe_the_same_lists(queries):
    lists = Lists.of(LABELS, **queries)

    assert lists.labels.tolist() == LABELS
    assert lists.offsets.tolist() == OFFSETS
    assert lists.sizes.tolist() == [2, 3]
    assert lists.query.tolist() == [0, 0, 1, 1, 1]
    assert (lists.n_queries, lists.n_documents, lists.longest) == (2, 5, 3)
    assert lists.order is None


def test_without_queries_all_documents_are_one_list():
    assert Lists.of(LABELS).offsets.tolist() == [0, 5]


def test_lists_without_queries_have_no_longest_list():
    assert Lists.of([], [0]).longest == 0


def test_ranking_data_bring_their_labels_and_queries():
    data = tr.RankingData.from_arrays(np.ones((5, 1)), LABELS, qid=[7, 7, 9, 9, 9])

    lists = Lists.of(data)

    assert lists.labels is data.labels
    assert lists.offsets.tolist() == OFFSETS
    assert lists.qids.tolist() == [7, 9]


def test_lists_come_back_as_they_are():
    lists = Lists.of(LABELS, OFFSETS)
    assert Lists.of(lists) is lists


def test_scattered_rows_are_gathered_with_a_warning():
    with pytest.warns(TautrankWarning, match="qid: rows of 1 query are scattered"):
        lists = Lists.of([0, 1, 2], qid=["b", "a", "b"], judged=[True, False, True])

    assert lists.qids.tolist() == ["b", "a"]
    assert lists.labels.tolist() == [0, 2, 1]
    assert lists.judged.tolist() == [True, True, False]
    assert lists.in_list_order(np.array([10, 20, 30])).tolist() == [10, 30, 20]


def test_judgments_can_be_added_to_lists():
    lists = Lists.of(Lists.of([0, 1], [0, 2]), judged=[False, True])
    assert lists.judged.tolist() == [False, True]


@pytest.mark.parametrize("name", ["offsets", "qid", "group"])
@pytest.mark.parametrize("kind", ["RankingData", "Lists"])
def test_data_with_queries_take_no_others(kind, name):
    data = tr.RankingData.from_arrays([[1.0]], [1], group=[1])
    with_queries = data if kind == "RankingData" else Lists.of(data)

    with pytest.raises(DataError, match=f"{name}: found both {kind} and {name}; expected one"):
        Lists.of(with_queries, **{name: [0, 1]})


def test_labels_are_checked_and_the_error_names_the_query():
    expected = r"labels\[4\] \(query 1, document 2\): found -1; expected a finite number"
    with pytest.raises(DataError, match=expected):
        Lists.of([0, 2, 1, 0, -1], OFFSETS)
