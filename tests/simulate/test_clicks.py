"""Cascade clicks: frequencies against exact enumeration, the form of impressions, and wrong
input.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tautrank.simulate import simulate_clicks, simulate_position_clicks
from tautrank.simulate import simulate_position_clicks as clicks_of

PAPER = (0.05, 0.3, 0.5, 0.7, 0.95)


def enumerated(
    labels: list[int], probabilities: tuple[float, ...]
) -> dict[tuple[tuple[int, ...], bool], float]:
    """The probability of every impression, (documents read in order, whether the last was clicked),
    by brute force.
    """
    outcomes: Counter[tuple[tuple[int, ...], bool]] = Counter()
    orders = list(itertools.permutations(range(len(labels))))
    for order in orders:
        unread = 1 / len(orders)
        for place, document in enumerate(order):
            click = probabilities[labels[document]]
            outcomes[order[: place + 1], True] += unread * click
            unread *= 1 - click
        outcomes[order, False] += unread
    return dict(outcomes)


def impressions_of(data: tr.RankingData) -> list[tuple[tuple[int, ...], bool]]:
    """The impressions of data whose first feature numbers a list's documents."""
    number = data.X[:, 0].astype(int)
    return [
        (tuple(number[start:end].tolist()), bool(data.labels[end - 1]))
        for start, end in itertools.pairwise(data.offsets.tolist())
    ]


@pytest.mark.parametrize("labels", [[0, 4], [2, 0, 1], [3, 1, 0, 0]])
@pytest.mark.parametrize("keep", [True, False])
def test_impressions_have_the_probabilities_of_the_cascade(labels, keep):
    lists, users = 6000, 3
    X = np.tile(np.arange(len(labels), dtype=np.float32), lists)[:, None]
    data = tr.RankingData.from_arrays(X, labels * lists, group=[len(labels)] * lists)
    clicks = simulate_clicks(data, users, probabilities=PAPER, keep_unclicked=keep, seed=11)
    counts = Counter(impressions_of(clicks))
    expected = enumerated(labels, PAPER)
    assert sum(expected.values()) == pytest.approx(1)
    n = lists * users
    for outcome, probability in expected.items():
        if not keep and not outcome[1]:
            assert outcome not in counts
            continue
        assert (
            abs(counts[outcome] / n - probability)
            < 5 * np.sqrt(probability * (1 - probability) / n) + 1e-9
        )
    assert set(counts) <= set(expected)


def test_two_users_do_not_know_of_each_other():
    lists, labels = 12_000, [0, 3]
    X = np.tile(np.arange(2, dtype=np.float32), lists)[:, None]
    data = tr.RankingData.from_arrays(X, labels * lists, group=[2] * lists)
    impressions = impressions_of(simulate_clicks(data, 2, keep_unclicked=True, seed=5))
    counts = Counter(zip(impressions[::2], impressions[1::2], strict=True))
    expected = enumerated(labels, PAPER)
    for first, second in itertools.product(expected, repeat=2):
        probability = expected[first] * expected[second]
        error = np.sqrt(probability * (1 - probability) / lists)
        assert abs(counts[first, second] / lists - probability) < 5 * error


@st.composite
def judged(draw):
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    n = sum(sizes)
    labels = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    X = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    qids = np.array([f"q{i}" for i in range(len(sizes))])
    return tr.RankingData(X, np.array(labels, np.float32), offsets, qids, ("a", "b"))


impressions_of_random_lists = given(
    judged(), st.integers(1, 4), st.booleans(), st.integers(0, 2**40)
)


@settings(max_examples=40, deadline=None)
@impressions_of_random_lists
def test_the_data_stays_as_it_is(data, users, keep, seed):
    before = copy.deepcopy(data)

    clicks = simulate_clicks(data, users, keep_unclicked=keep, seed=seed)

    for name in ("X", "labels", "offsets", "qids"):
        np.testing.assert_array_equal(getattr(data, name), getattr(before, name))
    assert clicks.feature_names == ("a", "b")
    assert clicks.X.shape == (clicks.n_documents, 2)
    assert clicks.labels.dtype == np.float32


def origins_of(clicks: tr.RankingData) -> list[tuple[int, int]]:
    """The number of the query that each impression is of, and the number of its user."""
    parts = [qid.removeprefix("q").split(".") for qid in clicks.qids.tolist()]
    return [(int(query), int(user)) for query, user in parts]


@settings(max_examples=40, deadline=None)
@impressions_of_random_lists
def test_impressions_are_queries_in_order(data, users, keep, seed):
    clicks = simulate_clicks(data, users, keep_unclicked=keep, seed=seed)

    origins = origins_of(clicks)
    assert origins == sorted(set(origins))
    assert all(1 <= user <= users for _, user in origins)
    if keep:
        assert clicks.n_queries == users * np.count_nonzero(data.sizes)


@settings(max_examples=80, deadline=None)
@impressions_of_random_lists
def test_an_impression_holds_documents_of_its_list_up_to_the_first_click(data, users, keep, seed):
    clicks = simulate_clicks(data, users, keep_unclicked=keep, seed=seed)

    ranges = itertools.pairwise(clicks.offsets.tolist())
    for (query, _), (start, end) in zip(origins_of(clicks), ranges, strict=True):
        rows = (clicks.X[start:end, 0] / 2).tolist()
        assert len(rows) == len(set(rows))
        assert set(rows) <= set(range(data.offsets[query], data.offsets[query + 1]))
        *above, last = clicks.labels[start:end]
        assert not any(above)
        is_whole_list = len(rows) == data.sizes[query]
        assert last == 1 or (keep and is_whole_list)


def test_certain_clicks_and_no_clicks():
    data = tr.RankingData.from_arrays(np.arange(30.0)[:, None], [0, 1, 2] * 10, group=[6] * 5)
    every = simulate_clicks(data, 4, probabilities=(1, 1, 1))
    np.testing.assert_array_equal(every.sizes, np.ones(20))
    assert every.labels.all()
    never = simulate_clicks(data, 4, probabilities=(0, 0, 0))
    assert (never.n_queries, never.n_documents, never.n_features) == (0, 0, 1)
    assert (
        simulate_clicks(data, 4, probabilities=(0, 0, 0), keep_unclicked=True).n_documents == 4 * 30
    )
    only = simulate_clicks(data, 4, probabilities=(0, 0, 1))
    assert set((only.X[only.labels == 1, 0] % 3).tolist()) == {2.0}


def test_the_first_users_are_the_same_whatever_their_number_and_seeds_differ():
    data = tr.RankingData.from_arrays(np.arange(60.0)[:, None], [0, 1, 4] * 20, group=[6] * 10)
    many, few = simulate_clicks(data, 5, seed=2), simulate_clicks(data, 3, seed=2)
    early = many.subset(np.array([int(qid.split(".")[1]) <= 3 for qid in many.qids.tolist()]))
    np.testing.assert_array_equal(early.qids, few.qids)
    np.testing.assert_array_equal(early.X, few.X)
    np.testing.assert_array_equal(early.labels, few.labels)
    assert not np.array_equal(simulate_clicks(data, 3, seed=3).X, few.X)


def test_impressions_stay_apart_in_a_file(tmp_path):
    data = tr.RankingData.from_arrays(
        np.arange(1.0, 13.0)[:, None], [0, 1, 4] * 4, qid=np.repeat([7, 8], 6)
    )
    clicks = simulate_clicks(data, 4)
    tr.data.write_letor(clicks, tmp_path / "clicks.txt")
    again = tr.read_letor(tmp_path / "clicks.txt")
    np.testing.assert_array_equal(again.qids, clicks.qids)
    np.testing.assert_array_equal(again.offsets, clicks.offsets)


def test_sparse_features():
    X = np.eye(6, dtype=np.float32)
    dense = simulate_clicks(tr.RankingData.from_arrays(X, [0, 4] * 3, group=[3, 3]))
    clicks = simulate_clicks(
        tr.RankingData.from_arrays(sparse.csr_matrix(X), [0, 4] * 3, group=[3, 3])
    )
    assert sparse.issparse(clicks.X)
    np.testing.assert_array_equal(clicks.X.toarray(), dense.X)


def judged_with(label: float) -> tr.RankingData:
    return tr.RankingData.from_arrays([[0.0], [1.0]], [0, label], group=[2])


WRONG = {
    "users": (
        lambda: simulate_clicks(judged_with(1), 0),
        "impressions: found 0; expected a whole number of at least 1",
    ),
    "seed": (
        lambda: simulate_clicks(judged_with(1), seed=0.5),
        "seed: found 0.5; expected a whole number of at least 0",
    ),
    "probability": (
        lambda: simulate_clicks(judged_with(1), probabilities=(0.1, float("nan"))),
        "probabilities: found nan for label 1; expected numbers from 0 to 1, one per label",
    ),
    "probabilities": (
        lambda: simulate_clicks(judged_with(1), probabilities="often"),
        "probabilities: found 'often'; expected numbers from 0 to 1, one per label",
    ),
    "label": (
        lambda: simulate_clicks(judged_with(5)),
        "labels[1] (query 0, document 1): found 5; expected a whole number from 0 to 4, one with a click probability",
    ),
    "half a label": (
        lambda: simulate_clicks(judged_with(1.5), probabilities=(0, 0.5, 1)),
        "labels[1] (query 0, document 1): found 1.5; expected a whole number from 0 to 2, one with a click probability",
    ),
    "data": (
        lambda: simulate_clicks(None),
        "data: found NoneType; expected RankingData (RankingData.from_arrays makes it of arrays)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case):
    call, sentence = WRONG[case]
    with pytest.raises((OptionError, DataError)) as caught:
        call()
    assert str(caught.value) == sentence


class PositionClicks:
    """Four documents per list, shown in the order 2, 1, 3, 0 to four users of each list."""

    shown = (2, 1, 3, 0)
    attention = np.arange(1, 5) ** -1.5
    rates = np.array([0.5, 0.95, 0.3, 0.05]) * attention
    n_lists, n_users = 3000, 4

    def __init__(self) -> None:
        X = np.tile(np.arange(4, dtype=np.float32), self.n_lists)[:, None]
        labels = [0, 4, 2, 1] * self.n_lists
        self.data = tr.RankingData.from_arrays(X, labels, group=[4] * self.n_lists)
        self.scores = [0.1, 0.2, 0.9, 0.2] * self.n_lists

    def simulated(self, **options):
        return simulate_position_clicks(
            self.data, self.scores, self.n_users, severity=1.5, seed=3, **options
        )


@pytest.fixture(scope="module")
def position_clicks() -> PositionClicks:
    return PositionClicks()


def test_positions_have_the_click_rates_of_the_model(position_clicks):
    clicks, propensities = position_clicks.simulated()

    n = position_clicks.n_lists * position_clicks.n_users
    assert clicks.n_queries == n
    assert (clicks.sizes == 4).all()
    shown = clicks.X[:, 0].reshape(n, 4)
    np.testing.assert_array_equal(shown, np.tile(position_clicks.shown, (n, 1)))
    np.testing.assert_allclose(
        propensities.reshape(n, 4), np.tile(position_clicks.attention, (n, 1))
    )
    rates = clicks.labels.reshape(n, 4).mean(axis=0)
    expected = position_clicks.rates
    assert (np.abs(rates - expected) < 5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_places_are_looked_at_independently_of_each_other(position_clicks):
    clicks, _ = position_clicks.simulated()

    of_first_two = clicks.labels.reshape(-1, 4)[:, :2] > 0
    both = of_first_two.all(axis=1).mean()
    first, second, *_ = position_clicks.rates
    assert abs(both - first * second) < 5 * np.sqrt(both / len(of_first_two))


def test_merged_impressions_are_the_means_of_single_ones(position_clicks):
    clicks, propensities = position_clicks.simulated()

    merged, by_rank = position_clicks.simulated(merged=True)

    by_list = (-1, position_clicks.n_users, 4)
    shares = clicks.labels.reshape(by_list).mean(axis=1)
    np.testing.assert_array_equal(merged.labels.reshape(-1, 4), shares)
    first_impressions = clicks.X[:, 0].reshape(by_list)[:, 0]
    np.testing.assert_array_equal(merged.X[:, 0], first_impressions.ravel())
    np.testing.assert_array_equal(by_rank, propensities.reshape(by_list)[:, 0].ravel())
    assert merged.qids is position_clicks.data.qids


@pytest.mark.parametrize(
    ("name", "label"), [("listnet", lambda c: c), ("xendcg(gamma=0.4)", lambda c: np.log2(1 + c))]
)
def test_merged_impressions_have_the_mean_gradient(name, label):
    data = tr.RankingData.from_arrays(
        np.arange(8.0)[:, None], [0, 4, 2, 1, 3, 0, 0, 2], group=[5, 3]
    )
    shown_scores, scores = np.arange(8.0) % 3, np.linspace(-1, 1, 8)
    clicks, propensities = simulate_position_clicks(data, shown_scores, 20, seed=5)
    merged, by_rank = simulate_position_clicks(data, shown_scores, 20, merged=True, seed=5)
    row = dict(zip(data.X[:, 0], scores, strict=True))
    single = tr.loss(name).bind(clicks.labels, clicks.offsets, propensities=propensities)
    grad = single.gradients([row[x] for x in clicks.X[:, 0]])[0]
    mean = np.concatenate(
        [grad[:100].reshape(20, 5).mean(axis=0), grad[100:].reshape(20, 3).mean(axis=0)]
    )
    both = tr.loss(name).bind(
        label(merged.labels.astype(float)), merged.offsets, propensities=by_rank
    )
    np.testing.assert_allclose(
        both.gradients([row[x] for x in merged.X[:, 0]])[0], mean, rtol=1e-6, atol=1e-9
    )


@settings(max_examples=30, deadline=None)
@given(judged(), st.integers(1, 3), st.integers(0, 2**40))
def test_impressions_of_a_ranker_are_whole_lists(data, users, seed):
    scores = np.random.default_rng(seed).integers(0, 3, data.n_documents)

    clicks, propensities = simulate_position_clicks(data, scores, users, severity=0, seed=seed)

    assert (propensities == 1).all()
    assert origins_of(clicks) == [
        (query, user) for query in range(data.n_queries) for user in range(1, users + 1)
    ]
    for index, (query, _) in enumerate(origins_of(clicks)):
        rows = range(data.offsets[query], data.offsets[query + 1])
        in_order = sorted(rows, key=lambda row: (-scores[row], row))
        assert (clicks.subset([index]).X[:, 0] / 2).tolist() == in_order


@settings(max_examples=30, deadline=None)
@given(judged(), st.integers(1, 3), st.integers(0, 2**40))
def test_the_first_impressions_of_a_ranker_stay_the_same_with_one_more_user(data, users, seed):
    scores = np.random.default_rng(seed).integers(0, 3, data.n_documents)

    few, _ = simulate_position_clicks(data, scores, users, seed=seed)
    many, _ = simulate_position_clicks(data, scores, users + 1, seed=seed)

    is_early = np.array([user <= users for _, user in origins_of(many)])
    early = many.subset(is_early)
    np.testing.assert_array_equal(early.qids, few.qids)
    np.testing.assert_array_equal(early.labels, few.labels)
    np.testing.assert_array_equal(early.X, few.X)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda d: clicks_of(d, [1]), "scores: found length 1; expected 2, one per document"),
        (
            lambda d: clicks_of(d, [1, np.nan]),
            "scores[1] (query 0, document 1): found nan; expected",
        ),
        (
            lambda d: clicks_of(d, [1, 2], severity=-1),
            "severity: found -1; expected a number of at least 0",
        ),
        (
            lambda d: clicks_of(d, [1, 2], 0),
            "impressions: found 0; expected a whole number of at least 1",
        ),
        (
            lambda d: clicks_of(d, [1, 2], probabilities=(0.1,)),
            "labels[0] (query 0, document 0): found 1; ",
        ),
    ],
)
def test_bad_input_to_position_clicks_is_one_sentence(call, sentence):
    with pytest.raises((DataError, OptionError)) as caught:
        call(tr.RankingData.from_arrays([[0.0], [1.0]], [1, 0], group=[2]))
    assert str(caught.value).startswith(sentence)
