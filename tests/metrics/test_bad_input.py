"""Scores, labels, offsets and weights that cannot be used: the exact sentence for each."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tautrank.arrays import check_weights
from tautrank.errors import DataError, OptionError
from tautrank.metrics import METRICS, discount_values, gain_values, metric, rank_order
from tautrank.metrics.base import evaluate

# NumPy's warnings are unfinished thoughts: a division or a cast that was not looked at.
pytestmark = pytest.mark.filterwarnings("error")

S, Y, CUTS = [1.0, 2.0, 3.0], [0, 1, 2], [0, 1, 3]
SCORE = "expected a finite number, or -inf for a document not retrieved"
LABEL = "expected a finite number of at least 0"


@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "sentence"),
    [
        ([1.0] * 12, [0] * 10, [0, 10], "scores: found length 12; expected 10, one per document"),
        (
            [[1.0, 2.0, 3.0]],
            Y,
            CUTS,
            "scores: found an array of shape (1, 3); expected one number per document (1-D)",
        ),
        (
            [[1.0], [2.0, 3.0]],
            Y,
            CUTS,
            "scores: found lists of different lengths; expected one number per document (1-D)",
        ),
        (
            5.0,
            Y,
            CUTS,
            "scores: found an array of shape (); expected one number per document (1-D)",
        ),
        (
            ["a", "b", "c"],
            Y,
            CUTS,
            "scores: found values of type <U1; expected numbers, one per document",
        ),
        (
            [1j, 2, 3],
            Y,
            CUTS,
            "scores: found values of type complex128; expected numbers, one per document",
        ),
        (
            [None, 1, 2],
            Y,
            CUTS,
            "scores: found values of type object; expected numbers, one per document",
        ),
        ([1, math.nan, 2], Y, CUTS, f"scores[1] (query 1, document 0): found nan; {SCORE}"),
        ([math.inf, 1, 2], Y, CUTS, f"scores[0] (query 0, document 0): found inf; {SCORE}"),
        (
            [-math.inf, 1, math.nan],
            Y,
            [0, 1, 1, 3],
            f"scores[2] (query 2, document 1): found nan; {SCORE}",
        ),
        (
            np.array([1, 2, math.inf], np.float32),
            Y,
            CUTS,
            f"scores[2] (query 1, document 1): found inf; {SCORE}",
        ),
        (S, [0, -1, 2], CUTS, f"labels[1] (query 1, document 0): found -1; {LABEL}"),
        (S, [0, 1, math.nan], CUTS, f"labels[2] (query 1, document 1): found nan; {LABEL}"),
        (S, [math.inf, 1, math.nan], CUTS, f"labels[0] (query 0, document 0): found inf; {LABEL}"),
        (S, [-0.5, 1, math.nan], CUTS, f"labels[0] (query 0, document 0): found -0.5; {LABEL}"),
        (
            S,
            [[0, 1, 2]],
            CUTS,
            "labels: found an array of shape (1, 3); expected one number per document (1-D)",
        ),
        (
            S,
            [[0], [1, 2]],
            CUTS,
            "labels: found lists of different lengths; expected one number per document (1-D)",
        ),
        (
            S,
            ["0", "1", "2"],
            CUTS,
            "labels: found values of type <U1; expected numbers, one per document",
        ),
        (S, Y, [], "offsets: found no value; expected 0, then the end of every list"),
        (
            S,
            Y,
            [[0, 3]],
            "offsets: found an array of shape (1, 2); expected one integer per query and one more (1-D)",
        ),
        (S, Y, [0.0, 3.0], "offsets: found values of type float64; expected integers"),
        (S, Y, [1, 3], "offsets: found 1 first; expected 0"),
        (
            S,
            Y,
            [1, 2],
            "offsets: found 1 first; expected 0 (these look like the sizes of the lists: "
            "offsets are their running sum, from 0)",
        ),
        (S, Y, [0, 2, 1, 3], "offsets[2]: found 1 after 2; expected values that never fall"),
        (S, Y, [0, 1, 2], "offsets: found 2 last; expected 3, the number of documents"),
        (S, Y, [0, 1, 4], "offsets: found 4 last; expected 3, the number of documents"),
    ],
)
@pytest.mark.parametrize("name", ["ndcg", "map", "err", "dcg-rr", "arp"])
def test_arrays_refused_with_one_sentence(name, scores, labels, offsets, sentence):
    for call in (metric(name).per_query, metric(name).mean, rank_order):
        with pytest.raises(DataError) as caught:
            call(scores, labels, offsets)
        assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([1.0], "weights: found length 1; expected 2, one per query"),
        ([1.0, -1.0], "weights[1]: found -1; expected a finite number of at least 0"),
        ([math.nan, 1.0], "weights[0]: found nan; expected a finite number of at least 0"),
        ([math.inf, 1.0], "weights[0]: found inf; expected a finite number of at least 0"),
        (["a", "b"], "weights: found values of type <U1; expected numbers, one per query"),
        (3.0, "weights: found an array of shape (); expected one number per query (1-D)"),
    ],
)
def test_weights_refused_with_one_sentence(weights, sentence):
    with pytest.raises(DataError) as caught:
        metric("ndcg").mean(S, Y, CUTS, weights=weights)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "labels", "sentence"),
    [
        (
            "ndcg",
            [0, 1, 1001],
            "labels[2]: found 1001; expected at most 1000 for the gain 2^y - 1, or gain='linear' or a gain table",
        ),
        (
            "ndcg(gain=0/1/3)",
            [0, 3, 1],
            "labels[1]: found 3; expected an integer from 0 to 2, since the gain table has 3 entries",
        ),
        (
            "ndcg(gain=0/1/3)",
            [0, 0.5, 1],
            "labels[1]: found 0.5; expected an integer from 0 to 2, since the gain table has 3 entries",
        ),
        (
            "err",
            [0, 5, 1],
            "labels[1]: found 5; expected at most err's max_label = 4, the highest label of the scale",
        ),
    ],
)
def test_labels_beyond_a_metric_refused_with_one_sentence(name, labels, sentence):
    with pytest.raises(DataError) as caught:
        metric(name).mean(S, labels, CUTS)
    assert str(caught.value) == sentence


def test_expected_is_no_order():
    with pytest.raises(OptionError) as caught:
        rank_order(S, Y, CUTS, ties="expected")
    assert str(caught.value) == (
        "ties: found 'expected', which is not an order; expected 'worst', 'best' or 'input'"
    )
    with pytest.raises(OptionError, match="unknown ties 'worse'; did you mean 'worst'"):
        rank_order(S, Y, CUTS, ties="worse")


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda v: np.array(v, np.float32),
        lambda v: np.array(v, np.float16),
        lambda v: np.array(v, np.uint8),
        lambda v: np.array(v, np.int64)[::-1][::-1],
        lambda v: np.repeat(v, 2)[::2],
    ],
)
def test_lists_and_any_number_type_are_accepted(name, make):
    expected = metric(name).per_query(np.array(S), np.array(Y, float), np.array(CUTS))
    for offsets in (CUTS, tuple(CUTS), np.array(CUTS, np.int32), np.array(CUTS, np.uint64)):
        np.testing.assert_array_equal(metric(name).per_query(make(S), make(Y), offsets), expected)


def test_boolean_labels_and_scores():
    assert metric("mrr").mean([True, False], [False, True], [0, 2]) == 0.5


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("ties", ["worst", "expected", "best", "input"])
def test_no_queries_and_no_documents(name, ties):
    m = metric(name, ties=ties)
    assert m.per_query([], [], [0]).shape == (0,)
    assert math.isnan(m.mean([], [], [0]))
    assert np.isnan(m.per_query([], [], [0, 0, 0])).all()
    assert math.isnan(m.mean([], [], [0, 0], weights=[2]))
    assert metric(m, empty="one").mean([], [], [0, 0]) == 1
    assert rank_order([], [], [0, 0]).tolist() == []


def test_inputs_are_left_alone():
    scores, labels, offsets = np.array(S), np.array(Y, float), np.array(CUTS)
    for array in (scores, labels, offsets):
        array.setflags(write=False)
    for name in METRICS:
        for ties in ("worst", "expected"):
            metric(name, ties=ties).mean(scores, labels, offsets)


def test_gains_and_discounts():
    assert gain_values([0, 1, 40]).tolist() == [0, 1, 2**40 - 1]
    np.testing.assert_allclose(
        gain_values([0.5, 1e-12]), [math.sqrt(2) - 1, 1e-12 * math.log(2)], rtol=1e-12
    )
    assert gain_values([], (0, 1)).size == 0
    assert gain_values([2000.0], tuple(range(2001))).tolist() == [2000]
    assert gain_values(np.array([3, 0], np.uint8), "linear").tolist() == [3, 0]
    assert discount_values(0).size == 0
    assert discount_values(2, (1.0, 0.5, 0.25)).tolist() == [1, 0.5]
    np.testing.assert_array_equal(
        discount_values(3), [1 / math.log2(2), 1 / math.log2(3), 1 / math.log2(4)]
    )


def test_evaluation_refuses_and_writes(tmp_path):
    lists = [3.0, 2.0, 1.0], [0, 1, 0], [0, 2, 3]
    with pytest.raises(
        OptionError, match=r"^metrics: found none; expected at least one, such as 'ndcg@10'$"
    ):
        evaluate([], *lists)
    with pytest.raises(DataError, match=r"^qids: found 3 ids; expected 2, one per query$"):
        evaluate(["mrr"], *lists, qids=[1, 2, 3])
    evaluation = evaluate(["mrr", "arp"], *lists, qids=["a", "b"])
    assert (evaluation.mean(0), evaluation.skipped(0)) == (0.5, 1)
    assert np.isnan(evaluation.standard_error(0))
    evaluation.write_per_query(tmp_path / "values.csv")
    assert (tmp_path / "values.csv").read_text() == "qid,mrr,arp\na,0.5,2.0\nb,,\n"
    assert evaluation.to_dict()["metrics"]["mrr"]["standard_error"] is None


def test_a_plain_name_finds_a_metric_that_has_options_only_if_it_is_the_only_one():
    evaluation = evaluate(
        ["ndcg@1", metric("ndcg@1", gain="linear"), "P@1"], [2.0, 1.0], [0, 1], like="ranx"
    )
    assert evaluation.mean("P@1") == evaluation.mean("precision@1") == 0
    for name in ("ndcg", "precision(ties=expected)@1"):
        with pytest.raises(OptionError, match="expected one of ndcg"):
            evaluation.mean(name)
    both = evaluate(
        [metric("ndcg@1", ties=ties) for ties in ("best", "expected")], [2.0, 1.0], [0, 1]
    )
    with pytest.raises(OptionError, match="found ndcg@1; expected one of"):
        both.mean("ndcg@1")


def test_a_function_is_told_of_list_metrics():
    with pytest.raises(
        OptionError, match="metric: found a function; expected a name, or a ListMetric for a metric"
    ):
        metric(lambda scores, labels: 0.0)


def test_no_weights_for_no_queries():
    assert check_weights([], 0).size == 0
