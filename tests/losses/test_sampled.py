"""YetiLoss against its definition by recomputed metrics, PL-Rank against sums over all rankings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special

import tautrank as tr
from tautrank.errors import OptionError
from tautrank.kernels.normal import GROUP, fill_long_tailed, fill_noise, fill_words
from tautrank.kernels.streams import NEIGHBOUR_STREAM, POLICY_STREAM
from tautrank.losses._sampled_kernel import policy_gradients
from tautrank.losses._smoothing_kernel import Draws
from tautrank.metrics.gains import discount_values

pytestmark = pytest.mark.uncompiled

METRICS = [
    "ndcg",
    "ndcg@3",
    "dcg(gain=linear)@4",
    "err@5",
    "mrr",
    "mrr@2",
    "map",
    "map@3",
    "rbp",
    "success@2",
]


def query(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05]).astype(float)
    labels[rng.integers(n)] = 2.0
    return rng.integers(-20, 20, n) / 16.0, labels


def drawn_order(
    subject: tr.losses.YetiLoss,
    scores: np.ndarray,
    labels: np.ndarray,
    seed: int,
    step: int,
    sample: int,
) -> np.ndarray:
    noise = np.empty(-(-scores.size // GROUP) * GROUP)
    stream = NEIGHBOUR_STREAM + 256 * sample
    if subject.distribution == "normal":
        fill_noise(noise, np.uint64(seed), step, 0, stream)
    else:
        fill_long_tailed(noise, subject.distribution == "gumbel", np.uint64(seed), step, 0, stream)
    return np.lexsort(
        (np.arange(scores.size), labels, -(scores + subject.spread * noise[: scores.size]))
    )


def yeti_reference(
    subject: tr.losses.YetiLoss, scores: np.ndarray, labels: np.ndarray, seed: int, step: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and hessian: every neighbouring pair is swapped, and the metric is computed
    again.
    """
    n = scores.size
    value, grad, hess = 0.0, np.zeros(n), np.zeros(n)
    metric = tr.metric(subject.metric, empty="zero")
    places = -np.arange(n, dtype=float)
    for sample in range(subject.samples):
        order = drawn_order(subject, scores, labels, seed, step, sample)
        plain = metric.per_query(places, labels[order], [0, n])[0]
        for rank in range(n - 1):
            swapped = order.copy()
            swapped[[rank, rank + 1]] = order[[rank + 1, rank]]
            change = plain - metric.per_query(places, labels[swapped], [0, n])[0]
            if abs(change) < 1e-14:
                continue
            i, j = order[rank : rank + 2] if change > 0 else swapped[rank : rank + 2]
            w = abs(change) / subject.samples
            if subject.decay is not None:
                w = subject.decay**rank * abs(labels[i] - labels[j]) / subject.samples
            p = special.expit(scores[j] - scores[i])
            value += w * np.logaddexp(0.0, scores[j] - scores[i])
            grad[i] -= w * p
            grad[j] += w * p
            hess[[i, j]] += w * p * (1 - p)
    return value, grad, hess


def check_yeti(subject: tr.losses.Loss, n: int, seed: int) -> None:
    scores, labels = query(n, seed)
    objective = subject.bind(labels, [0, n], seed=seed)
    value, grad, hess = yeti_reference(subject, scores, labels, seed, step=4)
    got = objective.gradients(scores, 4)
    np.testing.assert_allclose(objective.values(scores, 4), [value], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(got[0], grad, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(got[1], hess, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("metric", METRICS)
def test_yetiloss_weighs_neighbours_by_the_change_of_the_metric(metric: str) -> None:
    for n, seed in ((1, 0), (2, 1), (7, 2), (12, 3)):
        check_yeti(tr.loss("yetiloss", metric=metric, samples=3), n, seed)


@pytest.mark.parametrize(
    "parameters",
    [
        {"distribution": "gumbel"},
        {"distribution": "normal", "spread": 0.3},
        {"spread": 0.0},
        {"samples": 1},
    ],
    ids=str,
)
def test_yetiloss_by_its_noise(parameters: dict[str, object]) -> None:
    for seed in range(3):
        check_yeti(tr.loss("yetiloss", metric="ndcg@5", **parameters), 9, seed)
    check_yeti(tr.loss("yetiloss", metric="ndcg@5", **parameters), 150, 0)


def test_a_decay_makes_it_yetirank() -> None:
    for seed in range(3):
        check_yeti(tr.loss("yetiloss", metric="dcg(gain=linear)", decay=0.85), 9, seed)


def test_noise_by_its_quantiles() -> None:
    words, noise = np.empty(4 * GROUP), np.empty(4 * GROUP)
    fill_words(words, np.uint64(3), 1, 2, 9)
    u = (words + 0.5) / 2.0**32
    fill_long_tailed(noise, True, np.uint64(3), 1, 2, 9)
    np.testing.assert_allclose(noise, -np.log(-np.log(u)), atol=2e-10)
    fill_long_tailed(noise, False, np.uint64(3), 1, 2, 9)
    np.testing.assert_allclose(noise, special.logit(u), atol=2e-10)


# PL-Rank


def expected_metric(f: np.ndarray, gains: np.ndarray, weights: np.ndarray) -> float:
    """The mean over all rankings of the first documents, by their Plackett-Luce chances."""
    total = 0.0
    for order in itertools.permutations(range(f.size), min(weights.size, f.size)):
        left, chance = np.exp(f - f.max()), 1.0
        for d in order:
            chance *= left[d] / left.sum()
            left[d] = 0.0
        total += chance * float(weights[: len(order)] @ gains[list(order)])
    return total


def expected_slopes(
    f: np.ndarray, gains: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    steps = 1e-3 * np.eye(f.size)
    low, mid, high = (
        np.array([expected_metric(f + c * e, gains, weights) for e in steps]) for c in (-1, 0, 1)
    )
    return -(high - low) / 2e-3, -(high - 2 * mid + low) / 1e-6


def estimates(
    f: np.ndarray, gains: np.ndarray, weights: np.ndarray, step: int, samples: int
) -> tuple[np.ndarray, ...]:
    n = f.size
    draws = Draws(f, np.arange(n), gains, np.array([0, n]), np.ones(1), samples, np.uint64(1), step)
    grad, hess, values = np.zeros(n), np.zeros(n), np.zeros(1)
    policy_gradients(draws, weights, 0, 1, grad, hess, values)
    return grad, hess, values


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (4, 2), (4, 4), (5, 3)])
def test_plrank_is_unbiased_in_both_derivatives(n: int, k: int) -> None:
    rng = np.random.default_rng(n + 10 * k)
    f, gains, weights = rng.normal(size=n), rng.random(n), discount_values(k, "log2")
    all_estimates = [estimates(f, gains, weights, step, 50) for step in range(200)]
    for part, expected in enumerate(
        (*expected_slopes(f, gains, weights), [-expected_metric(f, gains, weights)])
    ):
        draws = np.array([estimate[part] for estimate in all_estimates])
        error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - expected) <= 5 * error + 2e-6).all(), part


def drawn_ranking(scores: np.ndarray, k: int, *, seed: int, step: int) -> list[int]:
    """The first k documents of the ranking that PLRank draws for the first query in a step."""
    noise = np.empty(GROUP)
    fill_long_tailed(noise, True, np.uint64(seed), step, 0, POLICY_STREAM)
    noisy_scores = scores + noise[: scores.size]
    return list(np.argsort(-noisy_scores, kind="stable")[:k])


def chances_by_rank(scores: np.ndarray, ranking: list[int]) -> np.ndarray:
    """Row x: the chance of each document at rank x, e^f over that of the documents left there."""
    chances = np.zeros((len(ranking), scores.size))
    for x in range(len(ranking)):
        left = np.setdiff1d(np.arange(scores.size), ranking[:x])
        chances[x, left] = special.softmax(scores[left])
    return chances


SCORES_OF_NINE = {
    "near": np.random.default_rng(1).normal(size=9),
    "far": 30 * np.random.default_rng(2).normal(size=9),
    # Further apart than the exponent range: the sums there are those of a shorter list.
    "very far": np.array([2e6, 1e6, 1e6, -1e6, 3.0, 2.0, 1.0, 0.0, -3e6]),
}


@pytest.mark.parametrize("scores", SCORES_OF_NINE.values(), ids=SCORES_OF_NINE)
def test_one_ranking_term_by_term(scores: np.ndarray) -> None:
    n, k = 9, 4
    gains = np.random.default_rng(0).random(n)
    weights = discount_values(k, "log2")
    ranking = drawn_ranking(scores, k, seed=1, step=7)
    earned = weights * gains[ranking]
    reward = np.append(np.cumsum(earned[::-1])[::-1], 0.0)  # R_x, from rank x on
    chances = chances_by_rank(scores, ranking)

    grad, hess, values = estimates(scores, gains, weights, 7, 1)

    assert -values[0] == pytest.approx(reward[0])
    for d in range(n):
        is_drawn = d in ranking
        rank = ranking.index(d) if is_drawn else k - 1
        later_reward = reward[rank + 1] if is_drawn else 0.0  # P_d
        q = chances[: rank + 1, d]
        terms = gains[d] * weights[: rank + 1] - reward[: rank + 1]
        first = later_reward + q @ terms  # P_d + A_d
        second = first * (is_drawn - q.sum()) + q @ terms - (q**2) @ terms
        assert -grad[d] == pytest.approx(first, rel=1e-9, abs=1e-9)
        assert -hess[d] == pytest.approx(second, rel=1e-9, abs=1e-9)


def test_hessians_bound_the_step_of_plrank() -> None:
    scores, labels = query(60, 1)
    grad, hess = tr.loss("plrank").bind(labels, [0, 60]).gradients(scores)
    assert (np.abs(grad) <= hess).all()
    assert (np.abs(grad) < hess).any()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tr.loss("yetiloss", metric="dcg-rr"), "metric: found dcg-rr with yetiloss; expected dcg, ndcg"),
        (lambda: tr.loss("plrank", metric="map"), "metric: found map with plrank; expected dcg, ndcg or rbp"),
        (lambda: tr.loss("plrank", metric="err"), "metric: found err with plrank; expected dcg, ndcg or rbp"),
        (lambda: tr.loss("yetiloss", metric="auc"), "metric: found auc, which cannot be optimised directly; expected"),
        (lambda: tr.loss("yetiloss", distribution="cauchy"), "unknown distribution 'cauchy' (known: gumbel"),
        (lambda: tr.loss("yetiloss", decay=1.5), "decay: found 1.5; expected"),
        (lambda: tr.loss("yetiloss", samples=0), "samples: found 0; expected a whole number of at least 1"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_sentence(call, sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        call()
    assert str(error.value).startswith(sentence)
