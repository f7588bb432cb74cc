"""CatBoost: worst-case ties as here, with its own gain, thresholds, denominators and empty
queries.
"""

from __future__ import annotations

import numpy as np
import pytest
from catboost import CatBoost, Pool
from catboost.utils import eval_metric

import tautrank.metrics as M
from tautrank.errors import DataError

from .lists import LOG2, Lists, agree, one, random_lists

TIED = random_lists(18, tied=True)
SAME = Lists(np.zeros(TIED.scores.size), TIED.labels, TIED.offsets)
CUTOFFS = [1, 3, 5, 100]

# CatBoost keeps labels and weights in 32 bits.
SINGLE = 1e-6


def catboost(
    lists: Lists, metric: str, labels: np.ndarray | None = None, **options: object
) -> float:
    target = lists.labels if labels is None else labels
    values = eval_metric(
        target.astype(float),
        lists.scores.astype(float),
        metric,
        group_id=lists.qids(),
        thread_count=1,
        **options,
    )
    return float(values[0])


def single(metric: str, scores: list[float], labels: list[float]) -> float:
    return catboost(Lists(np.array(scores), np.array(labels), np.array([0, len(labels)])), metric)


def value(lists: Lists, name: str, weights: np.ndarray | None = None, **options: object) -> float:
    return M.metric(name, **options).mean(lists.scores, lists.labels, lists.offsets, weights)


def cut(name: str, k: int | None) -> str:
    return name if k is None else f"{name}@{k}"


def top(name: str, k: int | None, *options: str) -> str:
    all_options = [*options, *([] if k is None else [f"top={k}"])]
    return f"{name}:{';'.join(all_options)}" if all_options else name


# --- where conventions coincide ---


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_ndcg(lists, k):
    # Ties worst first as here; a query without a relevant document is worth 1.
    agree(value(lists, cut("ndcg", k), empty="one"), catboost(lists, top("NDCG", k, "type=Exp")))
    agree(value(lists, cut("ndcg", k), empty="one", gain="linear"), catboost(lists, top("NDCG", k)))
    agree(
        value(lists, cut("ndcg", k), empty="one", discount="reciprocal"),
        catboost(lists, top("NDCG", k, "type=Exp", "denominator=Position")),
    )


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_dcg(lists, k):
    agree(value(lists, cut("dcg", k), empty="zero"), catboost(lists, top("DCG", k, "type=Exp")))
    agree(value(lists, cut("dcg", k), empty="zero", gain="linear"), catboost(lists, top("DCG", k)))


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_err_with_the_stopping_probability_as_label(lists, k):
    # CatBoost's label is the probability itself; ours is (2^y - 1)/2^4.
    chances = (2.0**lists.labels - 1) / 2**4
    agree(
        value(lists, cut("err", k), empty="zero"), catboost(lists, top("ERR", k), chances), SINGLE
    )


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_mrr(lists, k):
    agree(value(lists, cut("mrr", k), empty="zero"), catboost(lists, top("MRR", k)))


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_recall(lists, k):
    agree(value(lists, cut("recall", k), empty="one"), catboost(lists, top("RecallAt", k)))


@pytest.mark.parametrize("k", [None, 1, 3, 5])
def test_precision_within_the_list(k):
    lists = random_lists(19, shortest=5, tied=True)
    agree(value(lists, cut("precision", k), empty="zero"), catboost(lists, top("PrecisionAt", k)))


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_map_with_its_own_denominator(lists, k):
    # min(k, relevant) there, all relevant documents here: the same for whole lists.
    relevant = np.array([(y > 0).sum() for _, y in lists])
    ours = lists.ours(cut("map", k), empty="zero")
    rescaled = ours * np.maximum(relevant, 1) / np.clip(relevant, 1, k)
    agree(rescaled.mean(), catboost(lists, top("MAP", k)))


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
@pytest.mark.parametrize("k", [None, *CUTOFFS])
def test_preset(lists, k):
    ours = {
        "NDCG": "ndcg",
        "DCG": "dcg",
        "MRR": "mrr",
        "MAP": "map",
        "PrecisionAt": "precision",
        "RecallAt": "recall",
    }
    for theirs, name in ours.items():
        agree(value(lists, cut(name, k), like="catboost"), catboost(lists, top(theirs, k)))
    for theirs in ("NDCG", "DCG"):
        agree(
            value(lists, cut(ours[theirs], k), like="catboost", gain="exp2"),
            catboost(lists, top(theirs, k, "type=Exp")),
        )


@pytest.mark.parametrize("lists", [TIED, SAME], ids=["tied", "constant"])
def test_preset_of_auc(lists):
    binary = Lists(lists.scores, (lists.labels > 1).astype(int), lists.offsets)
    agree(value(binary, "auc", like="catboost"), catboost(binary, "QueryAUC"))


@pytest.mark.parametrize("name", ["mrr", "recall@3", "map"])
def test_border_is_a_strict_threshold(name):
    # Above 1 there is at least 2 here.
    theirs = {"mrr": "MRR:border=1", "recall@3": "RecallAt:top=3;border=1", "map": "MAP:border=1"}[
        name
    ]
    empty = "one" if name == "recall@3" else "zero"
    agree(value(TIED, name, relevant=2, empty=empty), catboost(TIED, theirs))


@pytest.mark.parametrize(
    ("theirs", "ours", "empty"),
    [("NDCG:type=Exp;top=5", "ndcg@5", "one"), ("ERR", "err", "zero"), ("MRR", "mrr", "zero")],
)
def test_query_weights(theirs, ours, empty):
    # Also with empty queries, where LightGBM and XGBoost go wrong.
    weights = np.random.default_rng(0).uniform(0.01, 0.2, TIED.offsets.size - 1)
    labels = (2.0**TIED.labels - 1) / 2**4 if theirs == "ERR" else TIED.labels
    theirs_weighted = catboost(
        TIED, theirs, labels, group_weight=np.repeat(weights, np.diff(TIED.offsets))
    )
    agree(value(TIED, ours, weights, empty=empty), theirs_weighted, SINGLE)


def test_what_training_reports():
    rng = np.random.default_rng(0)
    noisy = TIED.labels + rng.normal(0, 2, TIED.labels.size)
    features = np.column_stack([noisy, np.arange(TIED.labels.size) % 3])
    data = Pool(features, TIED.labels, group_id=TIED.qids())
    model = CatBoost(
        {
            "loss_function": "QueryRMSE",
            "custom_metric": ["NDCG:type=Exp;top=5", "MRR"],
            "iterations": 3,
            "depth": 2,
            "thread_count": 1,
            "allow_writing_files": False,
            "logging_level": "Silent",
        }
    )
    model.fit(data, eval_set=data)
    reported = model.get_evals_result()["validation"]
    lists = Lists(model.predict(data), TIED.labels, TIED.offsets)
    assert np.unique(lists.scores).size < 50
    agree(value(lists, "ndcg@5", empty="one"), reported["NDCG:top=5;type=Exp"][-1], 1e-9)
    agree(value(lists, "mrr", empty="zero"), reported["MRR"][-1], 1e-9)


# --- where they do not ---


def test_ndcg_without_a_type_has_the_linear_gain():
    y, s = [2, 1], [1.0, 2.0]
    agree(single("NDCG", s, y), (1 + 2 * LOG2[1]) / (2 + 1 * LOG2[1]))
    agree(single("NDCG:type=Exp", s, y), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))
    agree(one("ndcg", s, y), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))


def test_empty_queries_differ_from_metric_to_metric():
    values = {
        m: single(m, [1.0, 2.0], [0, 0])
        for m in ("NDCG", "DCG", "ERR", "MRR", "MAP", "PrecisionAt", "RecallAt")
    }
    assert values == {
        "NDCG": 1,
        "DCG": 0,
        "ERR": 0,
        "MRR": 0,
        "MAP": 0,
        "PrecisionAt": 0,
        "RecallAt": 1,
    }
    for name in ("ndcg", "dcg", "err", "mrr", "map", "precision", "recall"):
        assert np.isnan(one(name, [1.0, 2.0], [0, 0]))


def test_err_takes_the_label_as_probability():
    # A relevant document at rank 2. Certain to stop there: 1/2. Here label 1 of 1 stops with chance
    # 1/2: 1/4.
    y, s = [0, 1], [2.0, 1.0]
    agree(single("ERR", s, y), 1 / 2)
    agree(one("err", s, y, max_label=1), 1 / 4)
    # Graded labels are no probabilities: label 2 at rank 2 "stops" with chance 2, which gives 2/2.
    agree(single("ERR", s, [0, 2]), 1.0)
    agree(one("err", s, [0, 2]), 3 / 16 / 2)


def test_a_label_is_relevant_above_a_half_there_and_above_zero_here():
    y, s = [0.4, 0.6], [2.0, 1.0]
    agree(single("MRR", s, y), 1 / 2)
    agree(one("mrr", s, y), 1.0)
    agree(one("mrr", s, y, relevant=0.5), 1 / 2)
    agree(single("MRR:border=0", s, y), 1.0)


def test_map_denominator():
    # Three relevant documents, ranked first to third: perfect at 1 there, a third of what there is
    # here.
    agree(single("MAP:top=1", [4.0, 3, 2, 1], [1, 1, 1, 0]), 1.0)
    agree(one("map@1", [4.0, 3, 2, 1], [1, 1, 1, 0]), 1 / 3)


def test_precision_beyond_the_list():
    # Two documents, one relevant: one of two there, one of the ten asked for here (as in
    # trec_eval).
    agree(single("PrecisionAt:top=10", [2.0, 1.0], [1, 0]), 1 / 2)
    agree(one("precision@10", [2.0, 1.0], [1, 0]), 1 / 10)


def test_map_precision_and_recall_ignore_query_weights_there():
    # Weights 1 : 3; both relevant documents stand first in one query and second in the other.
    lists = Lists(np.array([2.0, 1, 1, 2]), np.array([1, 0, 1, 0]), np.array([0, 2, 4]))
    per_document, per_query = np.array([1.0, 1, 3, 3]), np.array([1.0, 3])
    for theirs, ours, second in [
        ("MAP", "map", 1 / 2),
        ("PrecisionAt:top=1", "precision@1", 0),
        ("RecallAt:top=1", "recall@1", 0),
    ]:
        agree(catboost(lists, theirs, group_weight=per_document), (1 + second) / 2)
        agree(value(lists, ours, per_query), (1 + 3 * second) / 4)


def test_document_weights_do_nothing_there():
    lists = Lists(np.array([1.0, 2, 2, 1]), np.array([0, 1, 0, 1]), np.array([0, 2, 4]))
    # A perfect query and one with its relevant document second; 1 : 3 only as group_weight.
    weights = np.array([1.0, 1, 3, 3])
    agree(catboost(lists, "NDCG:type=Exp", weight=weights), (1 + LOG2[1]) / 2)
    agree(catboost(lists, "NDCG:type=Exp", group_weight=weights), (1 + 3 * LOG2[1]) / 4)


def test_labels_too_large_for_the_gain():
    # 2^1100 is no double: NaN there, a sentence here.
    assert np.isnan(single("NDCG:type=Exp", [1.0, 2.0], [1100, 0]))
    with pytest.raises(DataError, match="expected at most 1000"):
        one("ndcg", [1.0, 2.0], [1100, 0])
    assert one("ndcg", [1.0, 2.0], [1100, 0], gain="linear") == LOG2[1]


def test_negative_labels_are_accepted_there_and_refused_here():
    # Gains -1/2, 0 and 1, ranked by label.
    agree(single("NDCG:type=Exp", [1.0, 2.0, 3.0], [-1, 0, 1]), 1.0)
    with pytest.raises(DataError, match="labels"):
        one("ndcg", [1.0, 2.0, 3.0], [-1, 0, 1])
