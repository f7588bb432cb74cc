"""The LambdaLoss family against a slow reference that follows the paper word by word."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from tautrank.errors import OptionError
from tautrank.kernels.normal import GROUP, fill_words
from tautrank.kernels.randomness import fill_normal
from tautrank.kernels.ranking import LANES, rank_documents
from tautrank.kernels.streams import RANKING_STREAM, TIES_STREAM
from tautrank.losses import LambdaLoss, loss
from tautrank.metrics.gains import discount_values, gain_values

pytestmark = pytest.mark.uncompiled

NAMES = [
    "ranknet",
    "lambdarank",
    "arp-loss1",
    "arp-loss2",
    "ndcg-loss1",
    "ndcg-loss2",
    "ndcg-loss2++",
]


def ranks_of(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """1-based ranks: by score, equal scores by label from the lowest, then by input order."""
    ranks = np.empty(scores.size, dtype=int)
    ranks[np.lexsort((np.arange(scores.size), labels, -scores))] = np.arange(1, scores.size + 1)
    return ranks


def reference(
    subject: LambdaLoss, scores: np.ndarray, labels: np.ndarray, seed: int = 0, step: int = 0
) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and hessian of one query, pair by pair."""
    n = scores.size
    grad, hess = np.zeros(n), np.zeros(n)
    if not (labels > 0).any():
        return 0.0, grad, hess
    rank = ranks_of(scores, labels)
    k = n if subject.k is None else subject.k
    sigma, name = subject.sigma, subject.name
    gains = [np.zeros(n)]
    discount = discount_values(n + 2, getattr(subject, "discount", "log2"))

    def inverse(r: int) -> float:
        return float(discount[r - 1])

    if hasattr(subject, "gain"):
        gain = gain_values(labels, subject.gain)
        best = sum(g * inverse(r) for r, g in enumerate(sorted(gain, reverse=True), 1) if r <= k)
        gains = [gain / best]
        if subject.assignment == "soft":
            gains = [
                gain / best * scale_of_sample(subject, scores, labels, rank, sample, seed, step)
                for sample in range(subject.samples)
            ]

    ideal = (
        ideal_top(labels, k, subject.extend, seed, step)
        if subject.extend and subject.k
        else np.zeros(n, bool)
    )

    def weight(i: int, j: int, big_g: np.ndarray) -> float:
        if not (rank[i] <= k or rank[j] <= k or ideal[i] or ideal[j]):
            return 0.0
        if name == "arp-loss1":
            return labels[i]
        if name == "ndcg-loss1":
            return big_g[i] * inverse(rank[i])
        if not labels[i] > labels[j]:
            return 0.0
        distance = abs(rank[i] - rank[j])
        rho = abs(inverse(rank[i]) - inverse(rank[j]))
        delta = abs(inverse(distance) - inverse(distance + 1))
        difference = abs(big_g[i] - big_g[j])
        return {
            "ranknet": 1.0,
            "arp-loss2": abs(labels[i] - labels[j]),
            "lambdarank": rho * difference,
            "ndcg-loss2": delta * difference,
            "ndcg-loss2++": (rho + getattr(subject, "mu", 0.0) * delta) * difference,
        }[name]

    value, total = 0.0, 0.0
    apart = scores.max() != scores.min()
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            w = float(np.mean([weight(i, j, big_g) for big_g in gains]))
            d = scores[i] - scores[j]
            if subject.norm and apart:
                w /= 0.01 + abs(d)
            p = special.expit(-sigma * d)
            value += w * np.logaddexp(0.0, -sigma * d) / math.log(2)
            grad[i] -= w * sigma * p / math.log(2)
            grad[j] += w * sigma * p / math.log(2)
            hess[i] += w * sigma**2 * p * (1 - p) / math.log(2)
            hess[j] += w * sigma**2 * p * (1 - p) / math.log(2)
            total += 2 * w * sigma * p
    factor = math.log2(1 + total) / total if subject.norm and total > 0 else 1.0
    return value * factor, grad * factor, hess * factor * (2 if subject.norm == "xgboost" else 1)


def ideal_top(labels: np.ndarray, k: int, extend: str, seed: int, step: int) -> np.ndarray:
    """The relevant documents of the ideal top k, by the meaning of ``extend``; random: by the words
    of its stream.
    """
    n = labels.size
    best = np.lexsort((np.arange(n), labels))[::-1]
    lowest = labels[best[min(k, n) - 1]]
    if extend == "all":
        return (labels >= lowest) & (labels > 0)
    is_ideal = np.zeros(n, bool)
    is_ideal[best[:k]] = True
    if extend == "random":
        ties = np.flatnonzero(labels == lowest)
        left = int(is_ideal[ties].sum())
        words = np.zeros(-(-ties.size // GROUP) * GROUP)
        fill_words(words, np.uint64(seed), step, 0, TIES_STREAM)
        for place, document in enumerate(ties):
            n_candidates = ties.size - place
            is_ideal[document] = (
                left == n_candidates or words[place] * n_candidates < left * 2.0**32
            )
            left -= int(is_ideal[document])
    return is_ideal & (labels > 0)


def scale_of_sample(
    subject: LambdaLoss,
    scores: np.ndarray,
    labels: np.ndarray,
    rank: np.ndarray,
    sample: int,
    seed: int,
    step: int,
) -> np.ndarray:
    """``(1 - 1/D_sampled) / (1 - 1/D_i)`` of each document, 1 where it is not defined."""
    noise = np.empty(scores.size + scores.size % 2)
    fill_normal(noise, np.uint64(seed), step, 0, RANKING_STREAM + 256 * sample)
    drawn = ranks_of(scores + subject.spread * noise[: scores.size], labels)
    discount = discount_values(scores.size, subject.discount)  # type: ignore[attr-defined]
    left = 1 - discount[rank - 1]
    return np.divide(1 - discount[drawn - 1], left, out=np.ones(scores.size), where=left > 0)


def check(
    subject: LambdaLoss, scores: np.ndarray, labels: np.ndarray, seed: int = 0, step: int = 0
) -> None:
    objective = subject.bind(labels, [0, scores.size], seed=seed)
    value, grad, hess = reference(subject, scores, labels, seed, step)
    got_grad, got_hess = objective.gradients(scores, step)
    np.testing.assert_allclose(objective.values(scores, step), [value], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got_grad, grad, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got_hess, hess, rtol=1e-10, atol=1e-12)
    narrow_grad, narrow_hess = objective.gradients(scores.astype(np.float32), step)
    top = max(np.abs(grad).max(), 1e-3)
    np.testing.assert_allclose(narrow_grad, grad, rtol=1e-4, atol=3e-6 * top)
    np.testing.assert_allclose(narrow_hess, hess, rtol=1e-4, atol=3e-6 * max(hess.max(), 1e-3))


def query(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(-20, 20, n) / 16.0, rng.choice(5, n, p=[0.4, 0.25, 0.2, 0.1, 0.05]).astype(
        float
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parameters", [{}, {"k": None}, {"k": 1}, {"k": 4, "sigma": 1.7}], ids=str)
@pytest.mark.parametrize("n", [2, 3, 6, 17, 34])
def test_it_is_what_the_paper_says(name: str, parameters: dict[str, object], n: int) -> None:
    for seed in range(2):
        check(loss(name, **parameters), *query(n, seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("extend", ["static", "random", "all"])
@pytest.mark.parametrize(
    "more", [{}, {"norm": "lightgbm", "sigma": 1.7}, {"assignment": "soft", "samples": 3}], ids=str
)
@pytest.mark.parametrize("name", ["lambdarank", "ndcg-loss2++", "ranknet", "arp-loss2"])
def test_missed_documents_meet_every_document(
    name: str, more: dict[str, object], extend: str
) -> None:
    for n, k in ((3, 1), (17, 1), (34, 5), (9, 9)):
        check(loss(name, k=k, extend=extend, **more), *query(n, n + k), seed=2, step=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("extend", ["static", "random", "all"])
def test_missed_documents_in_a_list_of_far_scores(extend: str) -> None:
    scores, labels = query(40, 5)
    for spread in (60.0, 1e3):
        for name in ("ndcg-loss2++", "lambdarank(norm=lightgbm)"):
            check(loss(name, k=5, extend=extend), np.round(spread * scores), labels, step=1)  # type: ignore[arg-type]


def test_what_extending_means() -> None:
    scores, labels = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0, 0.0])

    def push(**parameters: object) -> np.ndarray:
        return -loss("lambdarank", k=1, **parameters).bind(labels, [0, 5]).gradients(scores)[0]

    # The best document is fourth; cut off at the first rank, it only meets the first document, and
    # after extension the two better than nothing that stand above it.
    assert push(extend="all")[1] < push()[1]
    assert push(extend="all")[3] > push()[3]
    # No ties for the first place.
    np.testing.assert_array_equal(push(extend="all"), push(extend="static"))


def test_extending_refuses_a_loss_of_all_pairs() -> None:
    expected = "extend: found all with ndcg-loss1, which counts pairs of equal labels"
    with pytest.raises(OptionError, match=expected):
        loss("ndcg-loss1", extend="all")


def test_extending_at_random_takes_each_of_the_tied_documents_as_often() -> None:
    # The ideal top 2 are the last document and one of the first three, all of them missed by the
    # first two ranks. Only the one that is taken meets the irrelevant document beside it.
    labels = [1, 1, 1, 2, 0, 0, 0]
    scores = [0.0, 0.0, 0.0, 0.0, 0.0, 5.0, 5.0]
    objective = loss("ranknet", k=2, extend="random").bind(labels, [0, 7])

    pushes = np.array([-objective.gradients(scores, step)[0][:3] for step in range(600)])

    is_taken = pushes > pushes.min(axis=1, keepdims=True) + 1e-6
    np.testing.assert_array_equal(is_taken.sum(axis=1), 1)
    np.testing.assert_allclose(is_taken.mean(axis=0), 1 / 3, atol=0.07)


@pytest.mark.parametrize("name", ["lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"gain": "linear", "discount": "reciprocal"},
        {"gain": (0, 1, 1, 5, 9), "discount": (1.0, 0.4), "k": 3},
    ],
    ids=["mrr-like", "tables"],
)
def test_gain_and_discount_are_the_metrics(name: str, parameters: dict[str, object]) -> None:
    check(loss(name, **parameters), *query(11, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", ["lightgbm", "xgboost"])
def test_norm_is_the_formula_of_its_docstring(name: str, norm: str) -> None:
    check(loss(name, norm=norm, k=5), *query(13, 1))  # type: ignore[arg-type]
    labels = query(13, 1)[1]
    check(loss(name, norm=norm), np.zeros(13), labels)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [None, "lightgbm"])
def test_soft_assignment_averages_over_the_sampled_rankings(name: str, norm: str | None) -> None:
    subject = loss(name, assignment="soft", samples=3, spread=0.5, norm=norm, k=6)
    check(subject, *query(9, 2), seed=5, step=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_soft_assignment_without_spread_is_hard_up_to_ties(name: str) -> None:
    scores, labels = np.array([0.4, -1.0, 2.0, 0.1]), np.array([0.0, 2.0, 1.0, 0.0])
    soft = loss(name, assignment="soft", spread=0).bind(labels, [0, 4]).gradients(scores)
    hard = loss(name).bind(labels, [0, 4]).gradients(scores)
    for a, b in zip(soft, hard, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_mu_0_is_lambdarank_and_mu_adds_ndcg_loss2() -> None:
    scores, labels = query(20, 4)
    parts = [
        loss(text).bind(labels, [0, 20]).gradients(scores)[0]
        for text in ("lambdarank", "ndcg-loss2", "ndcg-loss2++(mu=0)", "ndcg-loss2++(mu=3)")
    ]
    np.testing.assert_allclose(parts[2], parts[0], rtol=1e-12)
    np.testing.assert_allclose(parts[3], parts[0] + 3 * parts[1], rtol=1e-9, atol=1e-14)


def test_equal_scores_are_ranked_with_the_lower_label_first() -> None:
    # G = 1 and the relevant document is ranked last of three, wherever it stands: w = 1 - 1/2 and
    # 1/log2(3) - 1/2.
    for labels in ([1, 0, 0], [0, 1, 0], [0, 0, 1]):
        value = loss("lambdarank").bind(labels, [0, 3]).values([0.0, 0.0, 0.0])
        assert value[0] == pytest.approx(0.5 + (1 / math.log2(3) - 0.5))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_wide_score_ranges_cross_windows_without_a_seam(kind: type) -> None:
    # Ranges far beyond what one pair of factors can hold, with documents on both sides of every
    # window's edge.
    rng = np.random.default_rng(8)
    scores = np.sort(rng.uniform(-2500, 2500, 60)).astype(kind)
    scores[::7] = scores[3]
    labels = rng.integers(0, 4, 60).astype(float)
    for name in NAMES:
        subject = loss(name, k=None)
        grad, hess = subject.bind(labels, [0, 60]).gradients(scores)
        _, wide_grad, wide_hess = reference(subject, scores.astype(float), labels)
        scale = np.abs(wide_grad).max()
        np.testing.assert_allclose(grad, wide_grad, rtol=1e-4, atol=1e-6 * scale)
        np.testing.assert_allclose(hess, wide_hess, rtol=1e-3, atol=1e-6 * scale)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 120, 256, 257, 1000, 5000])
def test_ranks_are_those_of_a_stable_sort(kind: type, n: int) -> None:
    rng = np.random.default_rng(n)
    for values in (
        rng.normal(size=n),
        rng.integers(-3, 3, n) / 2.0,
        np.zeros(n),
        np.where(rng.random(n) < 0.5, -0.0, 0.0),
        rng.normal(size=n) * 10.0 ** rng.integers(-30, 30, n),
    ):
        scores = np.zeros(n + 2 * LANES, dtype=kind)
        scores[:n] = values
        ranks = np.empty(n + 2 * LANES, dtype=np.int32)
        order = np.argsort(-scores[:n], kind="stable")
        rank_documents(scores, n, ranks)
        np.testing.assert_array_equal(ranks[order], np.arange(n))


def test_a_long_list_agrees_with_the_same_list_in_float64() -> None:
    # 300 documents are past the length where ranks are counted and not sorted.
    scores, labels = query(300, 6)
    for name in NAMES:
        objective = loss(name, k=10).bind(labels, [0, 300])
        wide, narrow = objective.gradients(scores), objective.gradients(scores.astype(np.float32))
        for a, b in zip(narrow, wide, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * np.abs(b).max())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_huge_mu_stays_finite(kind: type) -> None:
    # Rows are taken four at a time: the last group of this list is filled up with rows that must
    # add nothing.
    scores, labels = query(6, 3)
    grad, hess = loss("ndcg-loss2++", mu=1e30).bind(labels, [0, 6]).gradients(scores.astype(kind))
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
