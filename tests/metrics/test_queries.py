"""Queries by offsets, ids, sizes, or none at all; judged documents: exact values and exact
sentences.
"""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Lists
from tautrank.errors import DataError, TautrankWarning
from tautrank.metrics import METRICS, metric, rank_order

SCORES, LABELS = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0], [0, 2, 1, 0, 1, 3]
OFFSETS, GROUP, QID = [0, 3, 5, 6], [3, 2, 1], ["b", "b", "b", "a", "a", "c"]
JUDGED = [True, False, True, True, False, True]


@pytest.mark.parametrize("name", METRICS)
def test_three_ways_to_say_which_documents_belong_together(name):
    m = metric(name)
    expected = m.per_query(SCORES, LABELS, OFFSETS)
    for way in (
        {"qid": QID},
        {"group": GROUP},
        {"qid": [7, 7, 7, 3, 3, 9]},
        {"qid": np.array(QID)},
    ):
        np.testing.assert_array_equal(m.per_query(SCORES, LABELS, **way), expected)
        np.testing.assert_array_equal(m.bind(LABELS, **way).per_query(SCORES), expected)
        assert m.mean(SCORES, LABELS, weights=[1, 2, 0], **way) == m.mean(
            SCORES, LABELS, OFFSETS, [1, 2, 0]
        )
    np.testing.assert_array_equal(m.per_query(SCORES, LABELS), m.per_query(SCORES, LABELS, [0, 6]))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("ties", ["worst", "input"])
def test_scattered_rows_are_gathered_as_ranking_data_does(name, ties):
    # Documents keep their order inside a query; queries come in order of first appearance: a, b, c.
    order = np.array([3, 0, 5, 1, 4, 2])
    m = metric(name, ties=ties)
    scores, labels, qid = np.zeros(6)[order], np.array(LABELS)[order], np.array(QID)[order]
    sentence = "qid: rows of 2 queries are scattered \\(the first is qid a\\); gathered, in the order they appear"
    with pytest.warns(TautrankWarning, match=sentence):
        bound_metric = m.bind(labels, qid=qid)
    expected = m.per_query(np.zeros(6), LABELS, OFFSETS)[[1, 0, 2]]
    np.testing.assert_array_equal(bound_metric.per_query(scores), expected)
    with pytest.warns(TautrankWarning, match=sentence):
        data = tr.RankingData.from_arrays(np.zeros((6, 1)), labels, qid)
    np.testing.assert_array_equal(
        m.per_query(data.in_document_order(scores), data.labels, data.offsets), expected
    )


def test_evaluate_gathers_once():
    with pytest.warns(TautrankWarning) as caught:
        evaluation = tr.evaluate(
            ["mrr", "judged"], SCORES, LABELS, qid=["b", "a", "b", "a", "b", "c"], judged=JUDGED
        )
    assert len(caught) == 1
    assert evaluation.qids.tolist() == ["b", "a", "c"]
    # b: scores 3, 2, 4 with labels 0, 1, 1; a: 1, 5 with 2, 0; c: one relevant document.
    np.testing.assert_array_equal(evaluation.values, [[1, 1 / 2, 1], [2 / 3, 1 / 2, 1]])


def test_no_documents():
    assert metric("ndcg").per_query([], []).size == 1
    assert metric("ndcg").per_query([], [], qid=[]).size == 0
    assert metric("auc").per_query([], [], group=[]).size == 0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"qid": QID, "group": GROUP},
            "qid, group: found both; expected one, to say which documents belong together",
        ),
        (
            {"offsets": OFFSETS, "qid": QID, "group": GROUP},
            "offsets, qid, group: found all of them; expected one, to say which documents belong together",
        ),
        ({"qid": QID[1:]}, "qid: found 5 ids, but labels has 6 rows; expected one id per row"),
        ({"qid": [1.0, 2.0, np.nan, 1, 1, 1]}, "qid[2]: found nan; expected an integer or text"),
        (
            {"group": [3, 2]},
            "group: the sizes sum to 5, but labels has 6 rows; expected the same number",
        ),
        ({"group": [6, 0]}, "group[1]: found 0; expected at least 1 document"),
        ({"judged": [True] * 5}, "judged: found length 5; expected 6, one per document"),
        (
            {"judged": [1, 0, 1, 0, 1, 0]},
            "judged: found values of type int64; expected true or false, one per document",
        ),
    ],
)
def test_refused_with_one_sentence(given, sentence):
    for call in (
        metric("bpref").per_query,
        metric("ndcg").mean,
        lambda *a, **k: tr.evaluate(["map"], *a, **k),
    ):
        with pytest.raises(DataError) as caught:
            call(SCORES, LABELS, **given)
        assert str(caught.value) == sentence


@pytest.mark.filterwarnings("ignore::tautrank.errors.TautrankWarning")
def test_errors_about_scattered_rows_name_the_row_given():
    qid = ["b", "a", "b", "a", "b", "c"]
    with pytest.raises(DataError, match=r"^labels\[2\]: found -1; expected"):
        metric("ndcg").mean(SCORES, [0, 1, -1, 0, 0, 0], qid=qid)
    with pytest.raises(DataError, match=r"^scores\[4\]: found nan; expected"):
        metric("ndcg").mean([1, 2, 3, 4, np.nan, 6], LABELS, qid=qid)


def test_an_unjudged_label_is_not_looked_at():
    judged = [True, True, False, True, False, True]
    for label in (0, 3):
        labels = np.where(judged, LABELS, label)
        np.testing.assert_array_equal(
            metric("bpref").per_query(SCORES, labels, OFFSETS, judged=judged),
            metric("bpref").per_query(SCORES, np.where(judged, LABELS, 0), OFFSETS, judged=judged),
        )


LISTS_OF_THREE_SPELLINGS = {
    "offsets": lambda labels: (labels, [0, 3, 5]),
    "RankingData": lambda labels: (
        tr.RankingData.from_arrays(np.ones((5, 1)), labels, group=[3, 2]),
    ),
    "Lists": lambda labels: (Lists.of(labels, [0, 3, 5]),),
}


@pytest.mark.parametrize("name", ["ndcg@2", "map", "err", "auc(ties=expected)", "arp", "bpref"])
@pytest.mark.parametrize(
    "spelling", LISTS_OF_THREE_SPELLINGS.values(), ids=LISTS_OF_THREE_SPELLINGS
)
def test_arrays_ranking_data_and_lists_give_the_same_bits(spelling, name):
    scores = [0.5, 0.5, 2.0, -1.0, 3.0]
    labels = np.array([2, 0, 1, 1, 0], np.float32)
    lists = spelling(labels)
    metric = tr.metric(name)
    expected = metric.per_query(scores, labels, qid=[0, 0, 0, 1, 1])

    assert metric.per_query(scores, *lists).tolist() == expected.tolist()
    assert metric.bind(*lists).per_query(scores).tolist() == expected.tolist()
    assert metric.mean(scores, *lists, weights=[1, 3]) == (expected @ [1, 3]) / 4
    assert tr.evaluate([name], scores, *lists).of(name).tolist() == expected.tolist()


def test_an_evaluation_of_ranking_data_has_their_query_ids():
    data = tr.RankingData.from_arrays([[1.0], [2.0]], [1, 0], qid=["x", "y"])
    assert tr.evaluate(["mrr"], [1.0, 2.0], data).qids.tolist() == ["x", "y"]


def test_rank_order_takes_scattered_rows_of_queries_as_lists():
    with pytest.warns(TautrankWarning):
        lists = Lists.of([0, 0, 0], qid=["b", "a", "b"])
    assert rank_order([1.0, 5.0, 2.0], lists).tolist() == [2, 0, 1]
