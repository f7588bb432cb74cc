"""LightGBM: the ndcg and map that training prints, against ours on the model's own predictions."""

from __future__ import annotations

from dataclasses import dataclass

import lightgbm
import numpy as np
import pytest

import tautrank.metrics as M

from .lists import LOG2, Lists, agree, one, random_lists

CUTOFFS = [1, 3, 5, 10, 100]


@dataclass(frozen=True)
class Trained:
    """A model's predictions on its own training data, and what LightGBM said about them, after each
    tree.
    """

    rounds: list[Lists]
    reported: dict[str, list[float]]


def train(
    labels: np.ndarray,
    offsets: np.ndarray,
    *,
    features: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    rounds: int = 3,
    cutoffs: list[int] = CUTOFFS,
    **options: object,
) -> Trained:
    """Fit a few small trees. Few leaves give many equal scores, so that the treatment of ties is
    seen.
    """
    if features is None:
        rng = np.random.default_rng(0)
        features = np.column_stack(
            [labels + rng.normal(0, 2, labels.size), rng.normal(size=(labels.size, 3))]
        )
    data = lightgbm.Dataset(
        features,
        labels,
        group=np.diff(offsets),
        weight=weights,
        params={"verbosity": -1},
        free_raw_data=False,
    )
    reported: dict[str, dict[str, list[float]]] = {}
    fixed = {
        "objective": "lambdarank",
        "num_threads": 1,
        "verbosity": -1,
        "num_leaves": 4,
        "min_data_in_leaf": 1,
    }
    model = lightgbm.train(
        {**fixed, "metric": ["ndcg", "map"], "eval_at": cutoffs, **options},
        data,
        rounds,
        valid_sets=[data],
        valid_names=["data"],
        callbacks=[lightgbm.record_evaluation(reported)],
    )
    scores = [model.predict(features, raw_score=True, num_iteration=i + 1) for i in range(rounds)]
    return Trained([Lists(np.asarray(s), labels, offsets) for s in scores], reported["data"])


def check(
    trained: Trained, reported: str, ours: M.Metric, weights: np.ndarray | None = None
) -> None:
    means = [ours.mean(r.scores, r.labels, r.offsets, weights) for r in trained.rounds]
    # LightGBM keeps weights in 32 bits.
    agree(means, trained.reported[reported], 1e-9 if weights is None else 1e-6)


@pytest.fixture(scope="module")
def trained() -> Trained:
    lists = random_lists(8)
    result = train(lists.labels, lists.offsets)
    assert all(np.unique(r.scores).size < 100 for r in result.rounds), "ties are what this is about"
    return result


# --- where conventions coincide ---


@pytest.mark.parametrize("k", CUTOFFS)
def test_reported_ndcg(trained, k):
    # Gain 2^y - 1, ties in row order, a query without a relevant document worth 1.
    check(trained, f"ndcg@{k}", M.metric(f"ndcg@{k}", ties="input", empty="one"))


def test_reported_ndcg_is_none_of_the_other_tie_policies(trained):
    for ties in ("worst", "expected", "best"):
        last = trained.rounds[-1]
        value = M.metric("ndcg@5", ties=ties, empty="one").mean(
            last.scores, last.labels, last.offsets
        )
        assert abs(value - trained.reported["ndcg@5"][-1]) > 1e-3


def test_reported_map_of_whole_lists(trained):
    check(trained, "map@100", M.metric("map@100", ties="input", empty="one"))


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_reported_map_with_its_own_denominator(trained, k):
    # There the sum is divided by min(k, relevant), here by all relevant documents, as trec_eval
    # does.
    for lists, reported in zip(trained.rounds, trained.reported[f"map@{k}"], strict=True):
        relevant = np.array([(y > 0).sum() for _, y in lists])
        ours = lists.ours(f"map@{k}", ties="input", empty="one")
        agree((ours * np.maximum(relevant, 1) / np.clip(relevant, 1, k)).mean(), reported, 1e-9)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", ["ndcg", "map"])
def test_preset(trained, name, k):
    check(trained, f"{name}@{k}", M.metric(f"{name}@{k}", like="lightgbm"))


def test_gain_table():
    lists = random_lists(9)
    table = (0, 1, 2, 5, 6.5)
    result = train(lists.labels, lists.offsets, label_gain=list(table))
    check(result, "ndcg@5", M.metric("ndcg@5", like="lightgbm", gain=table))


def test_query_weights_without_empty_queries():
    lists = random_lists(10, empty=False)
    per_query = np.random.default_rng(0).uniform(0.1, 3, lists.offsets.size - 1)
    result = train(
        lists.labels, lists.offsets, weights=np.repeat(per_query, np.diff(lists.offsets))
    )
    check(result, "ndcg@5", M.metric("ndcg@5", ties="input"), per_query)
    check(result, "map@100", M.metric("map", ties="input"), per_query)


# --- where they do not ---


def test_map_denominator():
    # Three relevant documents, ranked first to third: perfect at 1 there, a third of what there is
    # here.
    labels, features = np.array([1, 1, 1, 0]), np.array([[1.0], [1.0], [1.0], [0.0]])
    result = train(labels, np.array([0, 4]), features=features, rounds=1, cutoffs=[1])
    assert list(result.rounds[0].scores.argsort()[:1]) == [3]
    agree(result.reported["map@1"], [1.0])
    agree(result.rounds[0].ours("map@1"), [1 / 3])


def test_weighted_ndcg_exceeds_one_where_queries_are_empty():
    # Two queries of weight .1, one ranked perfectly, one empty. LightGBM adds a whole 1 for the
    # empty query where it should add its weight: (.1 * 1 + 1) / (.1 + .1) = 5.5.
    labels, features = np.array([0, 1, 0, 0]), np.array([[0.0], [1.0], [0.0], [1.0]])
    weights = np.array([0.1, 0.1])
    result = train(
        labels,
        np.array([0, 2, 4]),
        features=features,
        weights=np.repeat(weights, 2),
        rounds=1,
        cutoffs=[2],
    )
    agree(result.reported["ndcg@2"], [5.5], 1e-6)
    agree(result.reported["map@2"], [1.0], 1e-6)  # its map weighs empty queries as it should
    lists = result.rounds[0]
    for empty in ("skip", "one"):
        agree(
            M.metric("ndcg@2", empty=empty).mean(lists.scores, labels, lists.offsets, weights), 1.0
        )
    agree(M.metric("ndcg@2", empty="zero").mean(lists.scores, labels, lists.offsets, weights), 0.5)


def test_weighted_ndcg_with_empty_queries_in_general():
    lists = random_lists(11)
    per_query = np.random.default_rng(1).uniform(0.01, 0.2, lists.offsets.size - 1)
    result = train(
        lists.labels, lists.offsets, weights=np.repeat(per_query, np.diff(lists.offsets))
    )
    for trained_lists, reported in zip(result.rounds, result.reported["ndcg@5"], strict=True):
        values = trained_lists.ours("ndcg@5", ties="input", empty="zero")
        n_empty = sum(y.max() == 0 for _, y in trained_lists)
        agree(reported, (per_query @ values + n_empty) / per_query.sum(), 1e-6)
        assert reported > 1
        for empty in ("skip", "zero", "one"):
            ours = M.metric("ndcg@5", ties="input", empty=empty)
            assert 0 <= ours.mean(lists.scores, lists.labels, lists.offsets, per_query) <= 1


@pytest.mark.parametrize(("labels", "reported"), [([2, 1, 0, 0], 1.0), ([0, 0, 1, 2], 0.0)])
def test_a_constant_score_earns_what_the_row_order_gives(labels, reported):
    # One constant feature, so one score for all: LightGBM's number is that of the rows as they lie.
    y = np.array(labels)
    result = train(y, np.array([0, 4]), features=np.zeros((4, 1)), rounds=1, cutoffs=[2])
    assert np.unique(result.rounds[0].scores).size == 1
    agree(result.reported["ndcg@2"], [reported])
    # Here a constant score is worth the worst of its orders, whatever the rows: nothing relevant in
    # the first two.
    assert result.rounds[0].ours("ndcg@2") == [0.0]
    # Or the mean of them: each document is in each of the first two ranks with chance 1/4.
    mean = (3 + 1) / 4 * (1 + LOG2[1]) / (3 + LOG2[1])
    agree(result.rounds[0].ours("ndcg@2", ties="expected"), [mean])


def test_a_constant_score_looks_good_where_rows_correlate_with_labels():
    # Lists sorted by a noisy copy of the label, as an export of last week's ranking would be.
    rng = np.random.default_rng(2)
    labels = []
    for _ in range(200):
        y = rng.binomial(4, 0.2, 20)
        labels.append(y[np.argsort(-(y + rng.normal(0, 1, 20)))])
    y, offsets = np.concatenate(labels), np.arange(0, 4001, 20)
    result = train(y, offsets, features=np.zeros((4000, 1)), rounds=1, cutoffs=[5])
    lists, reported = result.rounds[0], result.reported["ndcg@5"][0]
    worst, expected = (
        M.metric("ndcg@5", ties=t).mean(lists.scores, y, offsets) for t in ("worst", "expected")
    )
    assert reported > 0.65
    assert expected < 0.35
    assert worst < 0.05


def test_labels_above_30_are_fatal_there():
    y = np.array([31, 0, 1, 0])
    with pytest.raises(lightgbm.basic.LightGBMError, match="Label 31 is not less than"):
        train(y, np.array([0, 4]))
    # Ranked 0 31 1 0.
    high = 2**31 - 1
    agree(
        one("ndcg", [1.0, 2.0, 0.0, -1.0], [31, 0, 1, 0]),
        (high * LOG2[1] + LOG2[2]) / (high + LOG2[1]),
    )
    assert one("ndcg", [3.0, 2.0, 1.0], [40, 31, 0]) == 1.0


def test_fractional_labels_are_fatal_there():
    with pytest.raises(lightgbm.basic.LightGBMError, match="label should be int type"):
        train(np.array([0.5, 0, 1, 0]), np.array([0, 4]))
    # Gains sqrt(2) - 1 and 1, in the wrong order.
    low = np.sqrt(2) - 1
    agree(one("ndcg", [2.0, 1.0], [0.5, 1]), (low + LOG2[1]) / (1 + low * LOG2[1]))


def test_lists_above_10000_documents_are_fatal_there():
    y = np.zeros(10_001)
    y[0] = 1
    with pytest.raises(lightgbm.basic.LightGBMError, match="exceeds upper limit of 10000"):
        train(y, np.array([0, 10_001]))
    # The relevant document last.
    assert one("mrr", list(range(10_001)), list(y)) == 1 / 10_001
