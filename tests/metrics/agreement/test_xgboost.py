"""XGBoost: the ndcg, map and pre that training prints, against ours on the model's own
predictions.
"""

from __future__ import annotations

import numpy as np
import pytest
import xgboost

import tautrank.metrics as M

from .lists import LOG2, Lists, agree, one, random_lists

CUTOFFS = [1, 3, 5, 100]


def train(
    lists: Lists,
    metrics: list[str],
    *,
    features: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    **options: object,
) -> tuple[Lists, dict[str, float]]:
    """Fit two small trees; return their predictions and what XGBoost said about them."""
    if features is None:
        rng = np.random.default_rng(0)
        noisy = lists.labels + rng.normal(0, 2, lists.labels.size)
        features = np.column_stack([noisy, rng.normal(size=(lists.labels.size, 3))])
    data = xgboost.DMatrix(features, lists.labels)
    data.set_group(np.diff(lists.offsets))
    if weights is not None:
        data.set_weight(weights)  # one per query
    reported: dict[str, dict[str, list[float]]] = {}
    fixed = {
        "objective": "rank:ndcg",
        "nthread": 1,
        "verbosity": 0,
        "max_depth": 2,
        "min_child_weight": 0,
    }
    model = xgboost.train(
        {**fixed, "eval_metric": metrics, **options},
        data,
        2,
        evals=[(data, "data")],
        evals_result=reported,
        verbose_eval=False,
    )
    scores = model.predict(data, output_margin=True)
    return Lists(scores, lists.labels, lists.offsets), {
        m: v[-1] for m, v in reported["data"].items()
    }


def unscored(labels: list[float], sizes: list[int]) -> Lists:
    return Lists(np.zeros(len(labels)), np.array(labels), np.r_[0, np.cumsum(sizes)])


def binary(lists: Lists) -> Lists:
    return Lists(lists.scores, (lists.labels > 1).astype(int), lists.offsets)


def value(lists: Lists, name: str, weights: np.ndarray | None = None, **options: object) -> float:
    return M.metric(name, ties="input", **options).mean(
        lists.scores, lists.labels, lists.offsets, weights
    )


# --- where conventions coincide ---


def test_reported_ndcg():
    # Gain 2^y - 1, ties in row order; a query without a relevant document is worth 1, or 0 with "-"
    # at the end.
    names = [f"ndcg@{k}" for k in CUTOFFS]
    lists, reported = train(
        random_lists(12), [*names, *(name + "-" for name in names), "ndcg", "ndcg-"]
    )
    assert np.unique(lists.scores).size < 50
    for name in [*names, "ndcg"]:
        agree(value(lists, name, empty="one"), reported[name], 1e-6)
        agree(value(lists, name, empty="zero"), reported[name + "-"], 1e-6)
    for ties in ("worst", "expected", "best"):
        assert (
            abs(np.mean(lists.ours("ndcg@5", ties=ties, empty="one")) - reported["ndcg@5"]) > 1e-3
        )


def test_reported_ndcg_with_linear_gain():
    lists, reported = train(random_lists(13), ["ndcg@3", "ndcg"], ndcg_exp_gain=False)
    for name in ("ndcg@3", "ndcg"):
        agree(value(lists, name, empty="one", gain="linear"), reported[name], 1e-6)


def test_reported_map():
    names = [f"map@{k}" for k in CUTOFFS]
    lists, reported = train(binary(random_lists(14)), [*names, "map", "map-"], objective="rank:map")
    agree(value(lists, "map", empty="one"), reported["map"], 1e-6)
    agree(value(lists, "map", empty="zero"), reported["map-"], 1e-6)
    # With a cut-off the sum is divided by min(k, relevant) there, by all relevant documents here.
    relevant = np.array([y.sum() for _, y in lists])
    for k in CUTOFFS:
        ours = lists.ours(f"map@{k}", ties="input", empty="one")
        agree(
            (ours * np.maximum(relevant, 1) / np.clip(relevant, 1, k)).mean(),
            reported[f"map@{k}"],
            1e-6,
        )


def test_reported_precision():
    lists, reported = train(
        binary(random_lists(15, shortest=5)),
        ["pre@1", "pre@3", "pre@5", "pre@100"],
        objective="rank:map",
    )
    for k in (1, 3, 5):
        agree(value(lists, f"precision@{k}", empty="zero"), reported[f"pre@{k}"], 1e-6)
    # Past the end of a list it divides by the length there, by k here.
    agree(value(lists, "precision", empty="zero"), reported["pre@100"], 1e-6)
    assert value(lists, "precision@100", empty="zero") < 0.2 < reported["pre@100"]


def test_preset():
    # Lists of one document too, where `pre` divides by the length. XGBoost keeps no more than 32
    # bits of a score.
    names = [f"{name}@{k}" for name in ("ndcg", "map", "pre") for k in CUTOFFS] + ["ndcg", "map"]
    zero = ["ndcg@3-", "map@3-"]
    lists, reported = train(binary(random_lists(43)), names + zero, objective="rank:map")
    for name in names:
        ours = M.metric(name, like="xgboost").mean(lists.scores, lists.labels, lists.offsets)
        agree(ours, reported[name], 1e-9)
    for name in zero:
        ours = M.metric(name[:-1], like="xgboost", empty="zero").mean(
            lists.scores, lists.labels, lists.offsets
        )
        agree(ours, reported[name], 1e-9)


def test_query_weights_without_empty_queries():
    graded = random_lists(16, empty=False)
    weights = np.random.default_rng(0).uniform(0.1, 3, graded.offsets.size - 1)
    lists, reported = train(graded, ["ndcg@5"], weights=weights)
    agree(value(lists, "ndcg@5", weights), reported["ndcg@5"], 1e-6)


def test_query_weights_with_empty_queries_worth_zero():
    weights = np.random.default_rng(0).uniform(0.1, 3, 80)
    lists, reported = train(random_lists(17), ["ndcg@5-"], weights=weights)
    agree(value(lists, "ndcg@5", weights, empty="zero"), reported["ndcg@5-"], 1e-6)


# --- where they do not ---


def test_map_denominator():
    # Three relevant documents, ranked first to third: perfect at 1 there, a third of what there is
    # here.
    lists, reported = train(
        unscored([1, 1, 1, 0], [4]),
        ["map@1"],
        features=np.array([[1.0], [1], [1], [0]]),
        objective="rank:map",
    )
    agree(reported["map@1"], 1.0)
    agree(value(lists, "map@1"), 1 / 3)


def test_weighted_ndcg_with_empty_queries():
    # A whole 1 is added for an empty query, not its weight.
    weights = np.random.default_rng(0).uniform(1, 3, 80)
    lists, reported = train(random_lists(17), ["ndcg@5"], weights=weights)
    n_empty = sum(y.max() == 0 for _, y in lists)
    wrong = (weights @ lists.ours("ndcg@5", ties="input", empty="zero") + n_empty) / weights.sum()
    agree(reported["ndcg@5"], wrong, 1e-6)
    assert abs(wrong - value(lists, "ndcg@5", weights, empty="one")) > 0.01


def test_small_weights_and_empty_queries_abort_training_there():
    # Two queries of weight .1, one empty and one ranked right: (.1 + 1) / .2 = 5.5, and a check
    # fails.
    labels = unscored([1, 0, 0, 0], [2, 2])
    weights = np.array([0.1, 0.1])
    with pytest.raises(xgboost.core.XGBoostError, match="Invalid output score"):
        train(labels, ["ndcg@2"], features=np.array([[1.0], [0], [1], [0]]), weights=weights)
    for empty in ("skip", "one"):
        agree(
            M.metric("ndcg@2", empty=empty).mean(
                [1.0, 0, 1, 0], labels.labels, labels.offsets, weights
            ),
            1.0,
        )


@pytest.mark.parametrize(("labels", "expected"), [([2, 1, 0, 0], 1.0), ([0, 0, 1, 2], 0.0)])
def test_a_constant_score_earns_what_the_row_order_gives(labels, expected):
    lists, reported = train(unscored(labels, [4]), ["ndcg@2"], features=np.zeros((4, 1)))
    assert np.unique(lists.scores).size == 1
    agree(reported["ndcg@2"], expected)
    assert lists.ours("ndcg@2") == [0.0]
    agree(lists.ours("ndcg@2", ties="expected"), [(3 + 1) / 4 * (1 + LOG2[1]) / (3 + LOG2[1])])


def test_graded_labels_have_no_map_there():
    with pytest.raises(xgboost.core.XGBoostError, match="map can only be used with binary labels"):
        train(unscored([2, 0, 1, 0], [4]), ["map@2"])
    assert one("map@2", [4.0, 3, 2, 1], [2, 0, 1, 0]) == 1 / 2


def test_labels_above_31_are_fatal_there():
    train(unscored([31, 0, 1, 0], [4]), ["ndcg@2"])
    with pytest.raises(xgboost.core.XGBoostError, match="lesser than or equal to 31"):
        train(unscored([32, 0, 1, 0], [4]), ["ndcg@2"])
    agree(one("ndcg@2", [1.0, 2, 0, 0], [32, 0, 0, 0]), LOG2[1])


def test_fractional_labels_are_fatal_there_with_the_exponential_gain():
    with pytest.raises(
        xgboost.core.XGBoostError, match="label must be either 0 or positive integer"
    ):
        train(unscored([0.5, 0, 1, 0], [4]), ["ndcg@2"])
    low = np.sqrt(2) - 1
    agree(one("ndcg", [2.0, 1.0], [0.5, 1]), (low + LOG2[1]) / (1 + low * LOG2[1]))
