"""Smoothing and ties: its limits against exact sums over orders, the bias that is left, and Theorem
1 with numbers.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tautrank.data import Lists
from tautrank.losses import loss
from tautrank.metrics import METRICS, metric
from tautrank.theory import consistent_smoothing, smoothed_metric, smoothing_limit, ties
from tautrank.theory.softrank_bounds import Noise
from tests.theory_lists import Scored, lists, make_lists

many = settings(max_examples=40, deadline=None, derandomize=True)
RANKINGS = sorted(set(METRICS) - {"dcg-rr"})


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def flipped_pairs(scores, lists: Lists, sigma, mu) -> np.ndarray:
    """The expected number of flipped pairs of each query, for one noise or one per query."""
    noise = Noise(*(np.broadcast_to(np.asarray(x, float), lists.n_queries) for x in (sigma, mu)))
    return ties.flipped_pairs(np.asarray(scores, float), lists, noise)


def tied(seed: int, queries: int = 50, longest: int = 8) -> Scored:
    """Lists of a few distinct scores, so that most documents are tied."""
    _, lists = make_lists(seed, "tied", "graded", queries=queries, longest=longest)
    scores = np.random.default_rng(seed).integers(0, 3, lists.n_documents).astype(np.float64)
    return scores, lists


# The limit, exactly


@many
@given(
    lists(longest=20),
    st.sampled_from(["dcg", "ndcg", "ndcg@3", "ndcg(gain=linear,discount=reciprocal)@5"]),
)
def test_without_shift_ties_count_as_their_expected_value(data: Scored, judge: str) -> None:
    smoothed = smoothing_limit(*data, judge, mu=0.0)
    np.testing.assert_allclose(smoothed.value, smoothed.expected, rtol=1e-10, atol=1e-12)


@many
@given(st.integers(0, 2**32), st.sampled_from(["dcg@2", "ndcg", "ndcg@3"]))
def test_with_a_large_shift_ties_count_as_the_worst_case(seed: int, judge: str) -> None:
    data = tied(seed)
    smoothed = smoothing_limit(
        *data, judge, mu=9.0
    )  # whole labels: a pair flips with probability 1e-10
    np.testing.assert_allclose(smoothed.value, smoothed.worst, rtol=1e-6, atol=1e-7)


@many
@given(st.integers(0, 2**32), st.sampled_from(["ndcg", "dcg@3"]))
def test_in_between_the_bias_falls_with_the_shift(seed: int, judge: str) -> None:
    data = tied(seed)
    shifts = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0]
    biases = np.array([smoothing_limit(*data, judge, mu=mu).bias for mu in shifts])
    assert not (np.diff(biases, axis=0) > 1e-9).any()
    assert not (biases < -1e-9).any()


def order_probabilities(labels: list[float], mu: float) -> dict[tuple[int, ...], float]:
    """The probability of each order of up to three tied documents: a double integral by
    quadrature.
    """
    x, w = np.polynomial.legendre.leggauss(200)
    t, w = 10.0 * x, 10.0 * w
    means = [-mu * label for label in labels]
    smoothed = {}
    for order in itertools.permutations(range(len(labels))):
        # Pr(z_first > z_second > z_third), from the lowest up.
        densities = [stats.norm.pdf(t, means[i] - np.mean(means)) for i in order]
        if len(order) == 1:
            smoothed[order] = 1.0
            continue
        above = 1.0 - stats.norm.cdf(t, means[order[0]] - np.mean(means))
        if len(order) == 2:
            smoothed[order] = float(np.sum(w * densities[1] * above))
            continue
        # Pr(z_first > t) for z_second = t, and z_third below t.
        below = stats.norm.cdf(t, means[order[2]] - np.mean(means))
        smoothed[order] = float(np.sum(w * densities[1] * above * below))
    return smoothed


@pytest.mark.parametrize("labels", [[1, 0], [3, 1], [2, 1, 0], [1, 1, 0], [0, 2, 0], [4, 1, 1]])
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.7])
def test_the_limit_against_every_order_of_a_small_tie(labels: list[float], mu: float) -> None:
    # The tied documents stand between a better and a worse one, so that the discounts are not the
    # first ones.
    s = np.array([1.0, *[0.0] * len(labels), -1.0])
    y = np.array([0.0, *labels, 2.0])
    chances = order_probabilities(labels, mu)
    assert sum(chances.values()) == pytest.approx(1.0, abs=1e-9)
    for judge in ("ndcg", "dcg@2"):
        exact = 0.0
        for order, chance in chances.items():
            ranked = np.array([10.0, *[0.0] * len(labels), -10.0])
            for place, document in enumerate(order):
                ranked[1 + document] = -float(place)
            exact += chance * metric(judge).mean(ranked, y)
        assert smoothing_limit(s, y, judge, mu=mu).value[0] == pytest.approx(exact, abs=1e-8)


def test_the_limit_of_a_pair_in_closed_form() -> None:
    step = 1 - 1 / math.log2(3)
    for mu in (0.0, 0.1, 1.0, 5.0):
        smoothed = smoothing_limit([0.0, 0.0], [1, 0], mu=mu)
        assert smoothed.bias[0] == pytest.approx(step * phi(-mu / math.sqrt(2)), abs=1e-12)
        assert smoothed.share[0] == pytest.approx(2 * phi(-mu / math.sqrt(2)), abs=1e-12)
    # Long ties are as exact.
    y = np.random.default_rng(0).integers(0, 5, 300).astype(float)
    smoothed = smoothing_limit(np.zeros(300), y, mu=0.0)
    assert smoothed.value[0] == pytest.approx(smoothed.expected[0], abs=1e-12)


def test_where_no_tie_matters_there_is_no_share() -> None:
    smoothed = smoothing_limit(
        [2.0, 1.0, 5.0, 5.0, 1.0, 1.0], Lists.of([1, 0, 1, 1, 0, 0], [0, 2, 4, 6]), mu=0.1
    )
    assert np.isnan(smoothed.share).all()
    np.testing.assert_allclose(smoothed.bias, [0.0, 0.0, np.nan], atol=1e-12)
    np.testing.assert_array_equal(smoothed.standard_error, [0.0, 0.0, np.nan])
    assert smoothing_limit([], Lists.of([], [0]), mu=1.0).value.size == 0


# From draws


@pytest.mark.parametrize("name", RANKINGS)
def test_both_limits_for_every_metric(name: str) -> None:
    s, lists = tied(3, queries=40, longest=6)
    judge = metric(name)
    soft = smoothed_metric(s, lists, judge, sigma=0.0, mu=0.0, draws=800)
    kept = ~np.isnan(soft.worst)
    z = (soft.value - soft.expected)[kept] / np.maximum(soft.standard_error[kept], 1e-12)
    close = np.abs((soft.value - soft.expected)[kept]) < 1e-9
    assert (np.abs(z) < 5)[~close].all()
    hard = smoothed_metric(s, lists, judge, sigma=0.0, mu=12.0, draws=100)
    np.testing.assert_allclose(hard.value[kept], hard.worst[kept], atol=1e-12)
    assert (hard.standard_error[kept] <= 1e-9).all()


def test_draws_agree_with_the_exact_limit_and_know_their_error() -> None:
    s, lists = tied(5, queries=300, longest=6)
    for mu in (0.1, 1.0):
        drawn = smoothed_metric(s, lists, sigma=0.0, mu=mu, draws=400, seed=int(10 * mu))
        exact = smoothing_limit(s, lists, mu=mu)
        uncertain = drawn.standard_error > 0
        z = (drawn.value - exact.value)[uncertain] / drawn.standard_error[uncertain]
        assert abs(z.mean()) < 5 / math.sqrt(z.size)
        assert 0.8 < z.std() < 1.25


def test_a_small_sigma_is_near_its_limit_and_a_large_one_is_not() -> None:
    s, lists = tied(6, queries=100, longest=6)
    limit = smoothing_limit(s, lists, mu=0.5)
    for sigma, near in ((1e-3, True), (3.0, False)):
        smoothed = smoothed_metric(s, lists, sigma=sigma, mu=0.5, draws=300)
        difference = np.nanmean(smoothed.value - limit.value)
        error = math.sqrt(np.nansum(smoothed.standard_error**2)) / np.count_nonzero(
            ~np.isnan(smoothed.value)
        )
        assert (abs(difference) < 5 * error) == near


def test_seeds() -> None:
    s, lists = tied(7, queries=2000, longest=9)
    smoothed = [
        smoothed_metric(s, lists, sigma=0.0, mu=0.1, draws=65, seed=seed).value
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(smoothed[0], smoothed[1])
    assert np.nanmax(np.abs(smoothed[0] - smoothed[2])) > 0


def test_the_loss_is_minus_the_smoothed_metric() -> None:
    s, lists = tied(8, queries=60, longest=6)
    values = (
        loss("stochasticrank", metric="ndcg@3", sigma=0.7, mu=0.4, samples=2000)
        .bind(lists)
        .values(s)
    )
    smoothed = smoothed_metric(s, lists, "ndcg@3", sigma=0.7, mu=0.4, draws=2000)
    kept = ~np.isnan(smoothed.value)
    error = np.sqrt(2.0) * smoothed.standard_error[kept]
    z = (-values - smoothed.value)[kept] / np.maximum(error, 1e-12)
    assert (np.abs(z)[error > 1e-9] < 5).all()


def test_softrank_is_no_smoothed_ndcg_where_three_are_tied() -> None:
    # Its contests are independent: three tied documents have the ranks of two coins, not a third
    # each.
    y = [1, 0, 0]
    soft = 1 - loss("softrank", sigma=1e-6).bind(y).values([0.0, 0.0, 0.0])[0]
    discounts = np.array([1.0, 1 / math.log2(3), 0.5])
    assert soft == pytest.approx(np.array([0.25, 0.5, 0.25]) @ discounts, abs=1e-9)
    assert smoothing_limit([0.0] * 3, y, mu=0.0).value[0] == pytest.approx(
        discounts.mean(), abs=1e-12
    )


# How much shift, how much noise


@many
@given(st.integers(0, 2**32), st.floats(0.0, 3.0), st.sampled_from([0.0, 0.1, 1.0]))
def test_flipped_pairs_against_a_double_loop(seed: int, mu: float, sigma: float) -> None:
    s, lists = tied(seed, queries=20)
    flipped = flipped_pairs(s, lists, sigma=sigma, mu=mu)
    for q, (start, stop) in enumerate(itertools.pairwise(lists.offsets)):
        total = 0.0
        for i in range(start, stop):
            for j in range(start, stop):
                # i above j in the worst order
                if lists.labels[i] == lists.labels[j] or not (
                    s[i] > s[j] or (s[i] == s[j] and lists.labels[i] < lists.labels[j])
                ):
                    continue
                if sigma > 0:
                    total += phi(
                        -((s[i] - s[j]) / sigma - mu * (lists.labels[i] - lists.labels[j]))
                        / math.sqrt(2)
                    )
                elif s[i] == s[j]:
                    total += phi(mu * (lists.labels[i] - lists.labels[j]) / math.sqrt(2))
        assert flipped[q] == pytest.approx(total, abs=1e-12)


@many
@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.05, 1e-4]))
def test_theorem_1_with_numbers(seed: int, precision: float) -> None:
    s, lists = tied(seed, queries=20, longest=6)
    mu, sigma = consistent_smoothing(s, lists, precision)
    finite = np.minimum(sigma, 1e6)
    flips = flipped_pairs(s, lists, sigma=finite, mu=mu)
    assert (flips <= precision + 1e-9).all()
    # And at any smaller sigma.
    for share in (0.5, 1e-3):
        assert (flipped_pairs(s, lists, sigma=share * finite, mu=mu) <= precision + 1e-9).all()
    # Neither is smaller than it must be.
    short = (mu > 0) & (flipped_pairs(s, lists, sigma=0.0, mu=0.99 * mu) <= precision / 2)
    assert not short.any()
    wide = np.isfinite(sigma)
    assert (flipped_pairs(s, lists, sigma=1.05 * finite, mu=mu)[wide] > precision / 2).all()


def test_theorem_1_on_the_loss_itself() -> None:
    s, lists = tied(11, queries=40, longest=6)
    mu = float(consistent_smoothing(s, lists, 1e-7).mu.max())
    sigma = float(consistent_smoothing(s, lists, 1e-7, least_mu=mu).sigma.min())
    for name in ("ndcg", "err", "mrr", "dcg@2"):
        near = (
            loss("stochasticrank", metric=name, mu=mu, sigma=sigma, samples=8).bind(lists).values(s)
        )
        worst = metric(name).per_query(s, lists)
        np.testing.assert_allclose(-near[~np.isnan(worst)], worst[~np.isnan(worst)], atol=1e-12)


def test_a_shift_turns_round_what_was_in_order_unless_sigma_is_small() -> None:
    # Theorem 1 needs sigma mu -> 0: scores 1 apart and labels 4 apart flip from sigma mu = 1/4 on.
    s, y = [1.0, 0.0], [4, 0]
    wrong = [flipped_pairs(s, Lists.of(y), sigma=0.1, mu=mu)[0] for mu in (0.0, 2.0, 2.5, 3.0, 9.0)]
    assert wrong[0] < 1e-11
    assert wrong[2] == pytest.approx(0.5)
    assert wrong[4] > 1 - 1e-9
    assert wrong == sorted(wrong)


def test_how_large_mu_must_be() -> None:
    # The default of 0.1 leaves nearly all of the bias of a pair of neighbouring labels.
    assert smoothing_limit([0.0, 0.0], [1, 0], mu=0.1).share[0] == pytest.approx(0.9436, abs=1e-4)
    # A bias of 0.01 for one relevant document tied with n others; a long tie needs less: from the
    # middle of it to its end NDCG changes little.
    pair = -math.sqrt(2) * stats.norm.ppf(0.01 / (1 - 1 / math.log2(3)))
    for n, mu in ((1, pair), (10, 2.1), (100, 1.3)):
        smoothed = smoothing_limit(np.zeros(n + 1), np.r_[1.0, np.zeros(n)], mu=mu)
        assert smoothed.bias[0] == pytest.approx(0.01, abs=1e-9 if n == 1 else 1e-3)
