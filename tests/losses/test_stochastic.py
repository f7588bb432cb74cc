"""StochasticRank and REINFORCE: draws against brute force, means against exact derivatives, and the
user's hook.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle

import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from tautrank.errors import DataError, OptionError
from tautrank.kernels.normal import GROUP, fill_noise
from tautrank.kernels.randomness import philox
from tautrank.kernels.streams import SMOOTHING_STREAM
from tautrank.losses import (
    REGISTRY,
    Objective,
    Reinforce,
    ScaleFreeMetric,
    SmoothedLoss,
    StochasticRank,
    loss,
)
from tautrank.losses._smoothing_kernel import first_documents
from tautrank.metrics import DCGRR, NDCG, Metric, metric
from tautrank.metrics.ranked import reader_parts

METRICS = [
    "dcg", "dcg@2", "ndcg", "ndcg@3", "ndcg@20", "ndcg(gain=linear,discount=reciprocal)@4",
    "ndcg(gain=0/1/1/5/5,discount=1/0.5/0.5)", "err", "err@3", "err(max_label=3)", "mrr", "mrr@2", "mrr(relevant=2)@4",
    "success@1", "success(relevant=2)@3", "rbp", "rbp(p=0.5,graded=true)@3",
    "dcg-rr", "dcg-rr(gain=exp2)@2",
]  # fmt: skip


def noise(n: int, seed: int = 0, step: int = 0, query: int = 0, sample: int = 0) -> np.ndarray:
    """The draw of one query, as the losses make it."""
    out = np.empty((n + GROUP - 1) // GROUP * GROUP)
    fill_noise(out, np.uint64(seed), step, query, SMOOTHING_STREAM + 256 * sample)
    return out[:n]


def worth(subject: Metric, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The metric of many scorings (rows) of the same documents; 0 where it skips the list."""
    rows, n = scores.shape
    return np.nan_to_num(
        subject.per_query(scores.ravel(), np.tile(labels, rows), np.arange(rows + 1) * n)
    )


def terms_by_brute_force(
    subject: SmoothedLoss, z: np.ndarray, y: np.ndarray, e: np.ndarray
) -> np.ndarray:
    """The terms of each document's estimate (a row), each jump the difference of two evaluations of
    the metric.
    """
    smoothed = subject.metric
    assert isinstance(smoothed, Metric)
    n, sigma, mu = z.size, subject.sigma, subject._shift_by_label
    t = z + sigma * (e - mu * y)
    if isinstance(subject, Reinforce):
        gap = worth(smoothed, z[np.newaxis], y) - worth(smoothed, t[np.newaxis], y)
        return (gap * e / sigma)[:, np.newaxis]
    points = (
        np.zeros((n, 1))
        if smoothed.name == "dcg-rr"
        else np.array([np.delete(t, j) for j in range(n)])
    )
    sides = []
    for side in (1.0, -1.0):
        placed = np.broadcast_to(t, (*points.shape, n)).copy()
        for j in range(n):
            placed[j, :, j] = points[j] + side * 1e-9
        sides.append(
            -worth(smoothed, placed.reshape(-1, n), y).reshape(points.shape)
            if points.size
            else points
        )
    return (
        (sides[0] - sides[1])
        * stats.norm.pdf((points - z[:, np.newaxis]) / sigma + mu * y[:, np.newaxis])
        / sigma
    )


def by_brute_force(
    subject: SmoothedLoss, z: np.ndarray, y: np.ndarray, seed: int = 0, step: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and hessian of one query of weight 1."""
    draws = [
        terms_by_brute_force(subject, z, y, noise(z.size, seed, step, 0, sample))
        for sample in range(subject.samples)
    ]
    g = np.mean([terms.sum(axis=1) for terms in draws], axis=0)
    mass = np.mean([np.abs(terms).sum(axis=1) for terms in draws], axis=0)
    taken_off = np.zeros_like(z)
    if subject.accelerates:
        along = z - z.mean() if subject.ignores_shifts else z
        u = along / (np.linalg.norm(along) + subject.nu)
        taken_off = (g @ u) * u
    hess = (
        (mass + np.abs(taken_off)) / subject.sigma if subject.follows_curvature else np.ones_like(z)
    )
    return g - taken_off, hess


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("estimate", ["stochasticrank", "reinforce"])
def test_a_draw_is_what_the_theorem_says(name: str, estimate: str) -> None:
    rng = np.random.default_rng(1)
    options = [
        {},
        {"sigma": 0.5, "scale": "plain", "samples": 3},
        {"sigma": 2.0, "mu": 0.0, "sfa": estimate == "reinforce", "nu": 0.5},
        {"sigma": 0.8, "sfa": True, "scale": "curvature"},
    ]
    if not name.startswith("dcg-rr"):
        options.append({"mu": 0.7})
    for n, parameters in itertools.product((1, 2, 5, 12, 40), options):
        subject = loss(estimate, metric=name, **parameters)
        assert isinstance(subject, SmoothedLoss)
        z, y = rng.normal(size=n), rng.integers(0, 4, n).astype(float)
        y[0] = 3.0
        objective = subject.bind(y, [0, n], seed=9)
        expected = by_brute_force(subject, z, y, 9, 4)
        size = max(1.0, np.abs(expected).max())
        for kind, tolerance in ((np.float64, 1e-13), (np.float32, 1e-6)):
            for got, want in zip(objective.gradients(z.astype(kind), 4), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * size)
        drawn = [
            z + subject.sigma * (noise(n, 9, 4, 0, s) - subject._shift_by_label * y)
            for s in range(subject.samples)
        ]
        smoothed = subject.metric
        assert isinstance(smoothed, Metric)
        assert objective.values(z, 4)[0] == pytest.approx(
            -worth(smoothed, np.array(drawn), y).mean(), abs=1e-13
        )


def jumps_by_removal(
    name: str, z: np.ndarray, y: np.ndarray, sigma: float, e: np.ndarray
) -> np.ndarray:
    """The estimate for a long list, from the formula of neighbours changing places, with document j
    taken out.
    """
    subject = metric(name)
    gains, weights = reader_parts(subject, y, np.array([0, y.size]))
    drops = -np.diff(weights, append=0.0)
    t = z + sigma * e
    order = np.argsort(-t, kind="stable")
    grad = np.zeros_like(z)
    for j in range(z.size):
        opponents = order[order != j]
        reach = np.append(1.0, np.cumprod(1 - gains[opponents])[:-1]) if subject.stops else 1.0
        jumps = reach * (gains[j] - gains[opponents]) * drops[: opponents.size]
        grad[j] = -(jumps * stats.norm.pdf((t[opponents] - z[j]) / sigma)).sum() / sigma
    return grad


@pytest.mark.parametrize(
    "name",
    [
        "ndcg",
        "ndcg@100",
        "ndcg@10",
        "err",
        "err@30",
        "mrr",
        "mrr@7",
        "mrr(relevant=4)",
        "success@5",
        "rbp",
    ],
)
@pytest.mark.parametrize("n", [100, 600])
def test_long_lists(name: str, n: int) -> None:
    rng = np.random.default_rng(2)
    y = rng.choice(5, n, p=[0.8, 0.1, 0.06, 0.03, 0.01]).astype(float)
    z = rng.normal(size=n) - 0.3 * y  # many irrelevant documents stand above the first relevant one
    objective = loss("stochasticrank", metric=name, mu=0, sfa=False).bind(y, [0, n], seed=3)
    expected = jumps_by_removal(name, z, y, 1.0, noise(n, 3, 1))
    np.testing.assert_allclose(objective.gradients(z, 1)[0], expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        objective.gradients(z.astype(np.float32), 1)[0], expected, rtol=0, atol=2e-7
    )


@pytest.mark.uncompiled
def test_a_certain_stop_at_any_rank() -> None:
    rng = np.random.default_rng(9)
    y = np.zeros(60)
    y[[7, 40, 41]] = 1.0
    z = rng.normal(size=60)
    z[y > 0] = 0.4
    objective = StochasticRank(metric="mrr", mu=0, sfa=False).bind(y, [0, 60])
    first = set()
    for step in range(60):
        e = noise(60, step=step)
        first.add(int((z + e > (z + e)[y > 0].max()).sum()))
        np.testing.assert_allclose(
            objective.gradients(z, step)[0],
            jumps_by_removal("mrr", z, y, 1.0, e),
            rtol=0,
            atol=1e-14,
        )
    assert {14, 15, 16} <= first  # on both sides of the end of a vector


def expected_value(name: str, x: np.ndarray, y: np.ndarray) -> float:
    """The exact mean of a metric of scores ``N(x, 1)``, by integrating over the score of each
    document.

    Given the score t of document i, every other document is above it independently, with the chance
    ``Phi(x_j - t)``, and then costs a rank and the readers it stops: a polynomial in the number of
    ranks.
    """
    subject = metric(name)
    n = x.size
    if isinstance(subject, DCGRR):
        gains, chances_to_be_shown = subject.document_values(y), special.ndtr(x)
        before, total = np.array([1.0]), 0.0
        for i in range(n):
            ranks = np.arange(1, before.size + 1)
            total += gains[i] * chances_to_be_shown[i] * (before / ranks)[: subject.k].sum()
            before = np.convolve(before, [1 - chances_to_be_shown[i], chances_to_be_shown[i]])
        return float(total)
    gains, weights = reader_parts(subject, y, np.array([0, n]))
    passed = 1 - gains if subject.stops else np.ones(n)
    total = 0.0
    for i in np.flatnonzero(gains):
        # The trapezoid rule is exact to the last digit for such functions.
        t = np.linspace(x[i] - 9, x[i] + 9, 181)
        ranks = np.zeros((n, t.size))
        ranks[0] = 1.0
        for j in range(n):
            if j != i:
                above = special.ndtr(x[j] - t)
                ranks[1:] = (1 - above) * ranks[1:] + passed[j] * above * ranks[:-1]
                ranks[0] *= 1 - above
        expected_weight = (weights @ ranks @ stats.norm.pdf(t - x[i])) * (t[1] - t[0])
        total += gains[i] * expected_weight
    return float(total)


def exact_derivative(
    name: str, z: np.ndarray, y: np.ndarray, sigma: float, mu: float
) -> np.ndarray:
    """The derivative of the negated mean by each score, by central differences of the exact
    mean.
    """
    h = 1e-4
    steps = np.eye(z.size) * h
    derivative = []
    for step in steps:
        below = expected_value(name, (z - step) / sigma - mu * y, y)
        above = expected_value(name, (z + step) / sigma - mu * y, y)
        derivative.append((below - above) / (2 * h))
    return np.array(derivative)


def copies(
    subject: SmoothedLoss, z: np.ndarray, y: np.ndarray, number: int, step: int = 0
) -> np.ndarray:
    """Gradients of many queries that differ in nothing but their noise, one per row."""
    n = z.size
    objective = subject.bind(np.tile(y, number), np.arange(number + 1) * n, seed=5)
    return objective.gradients(np.tile(z, number), step)[0].reshape(number, n)


def assert_mean(grads: np.ndarray, expected: np.ndarray) -> None:
    error = grads.std(axis=0) / math.sqrt(grads.shape[0])
    assert (np.abs(grads.mean(axis=0) - expected) < 5 * error + 1e-7).all()


EXAMPLES = {
    2: ([0.4, -0.3], [1.0, 2.0]),
    5: ([0.6, 0.0, -0.8, 0.3, 0.0], [0.0, 2.0, 1.0, 0.0, 3.0]),
}
EXAMPLES[12] = (
    np.linspace(-1, 1.2, 12).round(2).tolist(),
    [0.0, 3.0, 1.0, 0.0, 0.0, 2.0, 1.0, 0.0, 4.0, 0.0, 1.0, 0.0],
)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    "name",
    [
        "dcg",
        "dcg@3",
        "ndcg",
        "ndcg@3",
        "err",
        "err@3",
        "mrr",
        "mrr@3",
        "success@2",
        "rbp",
        "dcg-rr",
        "dcg-rr@3",
    ],
)
def test_the_estimate_is_unbiased(name: str, sigma: float) -> None:
    for n, mu in itertools.product(EXAMPLES, (0.0,) if "rr" in name[3:] else (0.0, 0.3)):
        z, y = map(np.array, EXAMPLES[n])
        subject = StochasticRank(metric=name, sigma=sigma, mu=mu, sfa=False)
        assert_mean(copies(subject, z, y, 3000), exact_derivative(name, z, y, sigma, mu))


@pytest.mark.parametrize("name", ["ndcg@3", "err", "mrr", "dcg-rr"])
def test_the_log_derivative_estimate_is_unbiased(name: str) -> None:
    for n, sigma in itertools.product((2, 5), (0.5, 2.0)):
        z, y = map(np.array, EXAMPLES[n])
        mu = 0.0 if name == "dcg-rr" else 0.3
        subject = Reinforce(metric=name, sigma=sigma, mu=mu)
        assert_mean(copies(subject, z, y, 20_000), exact_derivative(name, z, y, sigma, mu))


def test_two_documents_in_closed_form() -> None:
    # The difference of two noisy scores is normal with the variance 2 sigma^2.
    z, y, sigma, mu = np.array([0.4, -0.3]), np.array([1.0, 2.0]), 0.7, 0.3
    jump = (3 - 1) * (1 - 1 / math.log2(3)) / (3 + 1 / math.log2(3))
    distance = z[1] - z[0] - sigma * mu * (y[1] - y[0])
    slope = jump * stats.norm.pdf(distance, scale=sigma * math.sqrt(2))
    np.testing.assert_allclose(
        exact_derivative("ndcg", z, y, sigma, mu), [slope, -slope], rtol=1e-6
    )
    assert_mean(
        copies(StochasticRank(metric="ndcg", sigma=sigma, mu=mu, sfa=False), z, y, 20_000),
        [slope, -slope],
    )


def test_permuting_documents_permutes_the_mean() -> None:
    z, y = map(np.array, EXAMPLES[5])
    order = np.array([3, 0, 4, 2, 1])
    a, b = (
        copies(StochasticRank(), z, y, 20_000),
        copies(StochasticRank(), z[order], y[order], 20_000, step=1),
    )
    assert_mean(a[:, order] - b, np.zeros(5))


@pytest.mark.parametrize("estimate", ["stochasticrank", "reinforce"])
def test_more_samples_have_the_same_mean_and_less_variance(estimate: str) -> None:
    z, y = map(np.array, EXAMPLES[5])
    one, four = (copies(loss(estimate, samples=samples), z, y, 8000, samples) for samples in (1, 4))  # type: ignore[arg-type]
    assert_mean(one - four, np.zeros(5))
    assert one.var(axis=0).sum() / four.var(axis=0).sum() == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("name", ["ndcg@3", "err@3", "mrr", "dcg-rr"])
def test_variance_falls_from_reinforce_to_sampling_to_acceleration(name: str) -> None:
    z, y = map(np.array, EXAMPLES[12])
    plain = StochasticRank(metric=name, sfa=False, scale="plain")
    variances = [
        copies(subject, z, y, 4000).var(axis=0).sum()
        for subject in (
            Reinforce(metric=name, scale="plain"),
            plain,
            dataclasses.replace(plain, sfa=True),
        )
    ]
    assert variances[0] > 2 * variances[1]
    assert variances[1] > variances[2]


@pytest.mark.parametrize("name", ["ndcg@3", "mrr", "dcg-rr"])
@pytest.mark.parametrize("estimate", ["stochasticrank", "reinforce"])
def test_acceleration_leaves_nothing_along_the_scores(name: str, estimate: str) -> None:
    rng = np.random.default_rng(3)
    y = np.array([0.0, 2.0, 1.0, 0.0, 3.0, 1.0])
    z = rng.normal(size=6)
    z += 0.0 if name == "dcg-rr" else 1000.0
    along = z - (0.0 if name == "dcg-rr" else z.mean())
    grads = []
    for sfa in (True, False):
        grad, _ = (
            loss(estimate, metric=name, sfa=sfa, nu=1e-9, samples=8)
            .bind(y, [0, 6], seed=1)
            .gradients(z)
        )
        grads.append(grad)
    assert abs(grads[0] @ along) < 1e-8
    assert abs(grads[1] @ along) > 1e-3
    np.testing.assert_allclose(
        grads[0], grads[1] - (grads[1] @ along) / (along @ along) * along, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("estimate", ["stochasticrank", "reinforce"])
@pytest.mark.parametrize("name", ["dcg@5", "ndcg@5", "ndcg", "err", "mrr", "dcg-rr"])
def test_no_newton_step_exceeds_sigma(name: str, estimate: str, kind: type) -> None:
    rng = np.random.default_rng(4)
    y = rng.integers(0, 5, 400)
    z = rng.normal(size=400).astype(kind)
    for sigma, sfa, samples in ((0.3, True, 1), (1.0, False, 3), (3.0, True, 2)):
        subject = loss(
            estimate, metric=name, sigma=sigma, sfa=sfa, samples=samples, scale="curvature"
        )
        grad, hess = subject.bind(
            y, np.arange(0, 401, 20), weights=np.linspace(0, 3, 20)
        ).gradients(z)
        assert (np.abs(grad) <= sigma * hess * (1 + 1e-5)).all()
        assert np.abs(grad).max() > 0
        plain = dataclasses.replace(subject, scale="plain").bind(
            y, np.arange(0, 401, 20), weights=np.linspace(0, 3, 20)
        )
        np.testing.assert_allclose(plain.gradients(z)[0], grad, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(
            plain.gradients(z)[1], np.repeat(np.linspace(0, 3, 20), 20), rtol=1e-6
        )


def test_smoothing_counts_ties_as_the_metric_does() -> None:
    # Theorem 1 of the paper: a small sigma with a large mu is the worst case; with mu = 0 it is the
    # expectation.
    z, y = np.array([1.0, 0.0, 0.0, 0.0, 0.0, -2.0]), np.array([0.0, 2.0, 1.0, 0.0, 0.0, 4.0])
    number = 20_000
    offsets = np.arange(number + 1) * 6
    for mu, ties in ((8.0, "worst"), (0.0, "expected")):
        for name in ("ndcg", "ndcg@3", "err", "mrr"):
            subject = StochasticRank(metric=name, sigma=1e-3, mu=mu)
            values = subject.bind(np.tile(y, number), offsets).values(np.tile(z, number))
            exact = metric(name, ties=ties).per_query(z, y, [0, 6])[0]
            assert abs(values.mean() + exact) < 5 * values.std() / math.sqrt(number) + 1e-4


@pytest.mark.parametrize("name", ["ndcg@3", "err", "mrr"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_far_from_0_and_far_from_each_other(name: str, kind: type) -> None:
    # Two clusters 2^20 apart: each is the list it would be alone, but for the ranks and readers
    # above it.
    y = np.array([0.0, 2.0, 1.0, 0.0, 2.0, 0.0])
    near = np.array([0.5, 0.25, 0.0, 0.75, 0.25, 0.5])
    objective = StochasticRank(metric=name, sfa=False).bind(y, [0, 6], seed=2)
    top = np.array([1, 1, 1, 0, 0, 0]) * 2.0**20
    grad, hess = objective.gradients((near + top).astype(kind))
    far_grad, far_hess = objective.gradients((near + top - 2.0**20).astype(kind))
    np.testing.assert_allclose(grad, far_grad, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(hess, far_hess, rtol=1e-4, atol=1e-7)
    exact = objective.gradients(near + top)
    np.testing.assert_allclose(grad, exact[0], rtol=1e-5, atol=1e-7)
    assert (np.abs(grad[:2]) > 1e-4).all()
    for scale in (1e30, 3e38):
        for result in objective.gradients((near * scale).astype(kind)):
            assert np.isfinite(result).all()
    accelerated = StochasticRank(metric=name).bind(y, [0, 6])
    for result in accelerated.gradients(near * (1e307 if kind is np.float64 else 1e38)):
        assert np.isfinite(result).all()


def test_a_shift_beyond_all_others_ends_the_gradient() -> None:
    grad, hess = StochasticRank().bind([0, 1000, 0], [0, 3]).gradients([0.0, 0.0, 0.0])
    assert (grad == 0).all()
    assert (hess == 0).all()
    grad, _ = StochasticRank(mu=0).bind([0, 1000, 0], [0, 3]).gradients([0.0, 0.0, 0.0])
    assert grad[1] < 0


@pytest.mark.parametrize(
    "subject", [StochasticRank(metric="mrr(relevant=3)"), Reinforce(metric="ndcg(gain=0/0/0/5)")]
)
def test_a_query_in_which_the_metric_finds_nothing_counts_nothing(subject: SmoothedLoss) -> None:
    objective = subject.bind([0, 2, 1, 3], [0, 3, 4])
    grad, hess = objective.gradients(np.zeros(4))
    assert (grad == 0).all()
    assert (hess[:3] == 0).all()
    assert objective.values(np.zeros(4)).tolist() == [0.0, -1.0]


# --- the hook


@dataclasses.dataclass(frozen=True)
class PlainNDCG(ScaleFreeMetric):
    """NDCG written by a user who knows nothing but Python."""

    k: int = 3

    def document_values(self, labels: np.ndarray) -> np.ndarray:
        return 2.0**labels - 1

    def sums(self, values: np.ndarray, scores: np.ndarray, k: int) -> float:
        assert (np.diff(scores) <= 0).all()
        return float(
            sum(
                gain / math.log2(2 + place)
                for place, gain in enumerate(sorted(values, reverse=True)[:k])
            )
        )

    def moved(self, values: np.ndarray, sums: float, document: int, place: int, k: int) -> float:
        order = [*values[:document], *values[document + 1 :]]
        order.insert(place, values[document])
        return sum(gain / math.log2(2 + place) for place, gain in enumerate(order[:k])) / sums

    def __str__(self) -> str:
        return f"plain-ndcg@{self.k}"


@njit
def native_sums(values: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Per place: what those before it earn in place, one place further down and one further up;
    then the best DCG.
    """
    n = values.size
    sums = np.zeros((4, n + 1))
    best = np.sort(values)[::-1]
    for place in range(n):
        here = 1 / math.log2(2 + place) if place < k else 0.0
        down = 1 / math.log2(3 + place) if place + 1 < k else 0.0
        up = 1 / math.log2(1 + place) if 0 < place <= k else 0.0
        sums[0, place + 1] = sums[0, place] + values[place] * here
        sums[1, place + 1] = sums[1, place] + values[place] * down
        sums[2, place + 1] = sums[2, place] + values[place] * up
        sums[3, 0] += best[place] * here
    return sums


@njit
def native_moved(values: np.ndarray, sums: np.ndarray, document: int, place: int, k: int) -> float:
    value_of_document = values[document] / math.log2(2 + place) if place < k else 0.0
    n = values.size
    if place <= document:
        value_of_opponents = (
            sums[0, place]
            + (sums[1, document] - sums[1, place])
            + (sums[0, n] - sums[0, document + 1])
        )
    else:
        between = sums[2, place + 1] - sums[2, document + 1]
        value_of_opponents = sums[0, document] + between + (sums[0, n] - sums[0, place + 1])
    return (value_of_document + value_of_opponents) / sums[3, 0]


@dataclasses.dataclass(frozen=True)
class NativeNDCG:
    """NDCG written by a user who compiles; it need not be a subclass of anything."""

    k: int | None = 3
    breaks_at = "scores"
    sums = staticmethod(native_sums)
    moved = staticmethod(native_moved)

    def document_values(self, labels: np.ndarray) -> np.ndarray:
        return 2.0**labels - 1


def several_lists() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    offsets = np.array([0, 5, 6, 13, 13, 16])
    labels = rng.integers(0, 4, 16).astype(float)
    labels[13:] = 0.0
    return rng.integers(-8, 8, 16) / 8, labels, offsets


@pytest.mark.parametrize("estimate", ["stochasticrank", "reinforce"])
@pytest.mark.parametrize(
    ("own", "builtin"),
    [(PlainNDCG(), "ndcg@3"), (NativeNDCG(), "ndcg@3"), (NativeNDCG(None), "ndcg")],
)
def test_a_users_ndcg_is_the_librarys(own: ScaleFreeMetric, builtin: str, estimate: str) -> None:
    scores, labels, offsets = several_lists()
    for options in ({}, {"mu": 0.4, "sigma": 0.5, "samples": 3, "sfa": False, "scale": "plain"}):
        mine = loss(estimate, metric=own, **options).bind(
            labels, offsets, weights=[1, 2, 3, 4, 5], seed=8
        )
        theirs = loss(estimate, metric=builtin, **options).bind(
            labels, offsets, weights=[1, 2, 3, 4, 5], seed=8
        )
        for kind, tolerance in ((np.float64, 1e-12), (np.float32, 1e-6)):
            s = scores.astype(kind)
            for a, b in zip(mine.gradients(s, 2), theirs.gradients(s, 2), strict=True):
                assert a.dtype == kind
                np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
        np.testing.assert_allclose(mine.values(scores, 2), theirs.values(scores, 2), rtol=1e-12)


class RankBiasedPrecision(ScaleFreeMetric):
    """``(1 - p) sum_r p^(r-1) y_r``, by sums of what each place earns."""

    def sums(self, values: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
        return np.append(0.0, np.cumsum(values * 0.8 ** np.arange(values.size)))

    def moved(
        self, values: np.ndarray, sums: np.ndarray, document: int, place: int, k: int
    ) -> float:
        total, value = sums[-1], values[document]
        here = sums[document + 1] - sums[document]
        if place <= document:
            change = (sums[document] - sums[place]) * (0.8 - 1)
        else:
            change = (sums[place + 1] - sums[document + 1]) * (1 / 0.8 - 1)
        return 0.2 * (total - here + change + value * 0.8**place)


def test_a_users_metric_is_estimated_without_bias() -> None:
    # With two documents of labels a and b it is 0.2 (a + 0.8 b) or 0.2 (b + 0.8 a): a step at z_1 =
    # z_2.
    z, y, sigma, mu = np.array([0.4, -0.3]), np.array([1.0, 3.0]), 0.8, 0.3
    slope = (
        0.2
        * 0.2
        * (3 - 1)
        * stats.norm.pdf(z[1] - z[0] - sigma * mu * 2, scale=sigma * math.sqrt(2))
    )
    subject = StochasticRank(metric=RankBiasedPrecision(), sigma=sigma, mu=mu, sfa=False)
    assert_mean(copies(subject, z, y, 3000), np.array([slope, -slope]))
    # With five, by the mean of many draws of the log-derivative.
    z, y = map(np.array, EXAMPLES[5])
    e = np.random.default_rng(0).normal(size=(100_000, 5))
    ranks = np.argsort(np.argsort(-(z + e - 0.3 * y), axis=1), axis=1)
    value = -0.2 * (y * 0.8**ranks).sum(axis=1, keepdims=True)
    reference = (value - value.mean()) * e
    grads = copies(StochasticRank(metric=RankBiasedPrecision(), mu=0.3, sfa=False), z, y, 1000)
    error = np.hypot(
        grads.std(axis=0) / math.sqrt(1000), reference.std(axis=0) / math.sqrt(100_000)
    )
    assert (np.abs(grads.mean(axis=0) - reference.mean(axis=0)) < 5 * error).all()


class Balance(ScaleFreeMetric):
    """Relevant documents shown, less irrelevant ones shown: a selection whose documents do not
    touch each other.
    """

    breaks_at = "zero"

    def sums(self, values: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
        return np.append(np.where(scores > 0, np.sign(values - 0.5), 0.0).sum(), scores)

    def moved(
        self, values: np.ndarray, sums: np.ndarray, document: int, place: int, k: int
    ) -> float:
        return float(sums[0] + (place - (sums[1 + document] > 0)) * np.sign(values[document] - 0.5))


@pytest.mark.uncompiled
def test_a_users_selection() -> None:
    z, y = np.array([0.5, -0.2, 1.5]), np.array([1.0, 0.0, 2.0])
    subject = StochasticRank(metric=Balance(), sigma=0.5, sfa=False)
    assert not subject.ignores_shifts
    objective = subject.bind(y, [0, 3])
    expected = -np.sign(y - 0.5) * stats.norm.pdf(
        z, scale=0.5
    )  # the documents are independent: nothing is random
    np.testing.assert_allclose(objective.gradients(z, 3)[0], expected, rtol=1e-12)
    is_shown = z + 0.5 * noise(3, 0, 3) > 0
    assert objective.values(z, 3)[0] == -np.sign(y - 0.5)[is_shown].sum()


def test_a_loss_is_as_hashable_comparable_and_printable_as_its_metric() -> None:
    assert loss("stochasticrank", metric=PlainNDCG(5)) == StochasticRank(metric=PlainNDCG(5))
    assert (
        len(
            {
                StochasticRank(metric=PlainNDCG(5)),
                StochasticRank(metric=PlainNDCG(5)),
                StochasticRank(),
            }
        )
        == 2
    )
    assert (
        str(StochasticRank(metric=PlainNDCG(5), sigma=2))
        == "stochasticrank(metric=plain-ndcg@5,sigma=2)"
    )
    objective = StochasticRank(metric=PlainNDCG(2)).bind([0, 1, 2], [0, 3])
    copy = pickle.loads(pickle.dumps(objective))
    np.testing.assert_array_equal(
        copy.gradients(np.zeros(3))[0], objective.gradients(np.zeros(3))[0]
    )


def test_the_same_bits_for_a_users_metric_and_any_number_of_threads() -> None:
    rng = np.random.default_rng(7)
    labels, scores, offsets = (
        rng.integers(0, 4, 60_000),
        rng.normal(size=60_000).astype(np.float32),
        np.arange(0, 60_001, 60),
    )
    one, two = (
        StochasticRank(metric=NativeNDCG()).bind(labels, offsets, n_jobs=jobs) for jobs in (1, 2)
    )
    assert len(two._ranges) > 1
    for a, b in zip(one.gradients(scores), two.gradients(scores), strict=True):
        assert a.tobytes() == b.tobytes()


# --- names, text, bad input


def same_gradients(one: SmoothedLoss, other: SmoothedLoss) -> None:
    scores, labels, offsets = several_lists()
    for a, b in zip(
        one.bind(labels, offsets).gradients(scores),
        other.bind(labels, offsets).gradients(scores),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_acceleration_alone_is_the_papers_form_and_nothing_the_curvatures() -> None:
    same_gradients(StochasticRank(sfa=True), StochasticRank(scale="plain"))
    same_gradients(StochasticRank(sfa=True), StochasticRank(sfa=True, scale="plain"))
    same_gradients(StochasticRank(), StochasticRank(scale="curvature", sfa=False))
    same_gradients(StochasticRank(), StochasticRank(sfa=False))
    same_gradients(Reinforce(), Reinforce(scale="curvature"))
    assert Reinforce(scale="plain").accelerates is False


@pytest.mark.parametrize("name", METRICS)
def test_sigma_is_the_unit_of_the_scores(name: str) -> None:
    # Scale-freeness: twice the sigma at twice the scores has half the gradient and a quarter of the
    # hessian, so that Newton steps are twice as long. A factor of 2 is exact in floats.
    scores, labels, offsets = several_lists()
    grad, hess = StochasticRank(metric=name).bind(labels, offsets, seed=5).gradients(scores)
    twice = (
        StochasticRank(metric=name, sigma=2.0).bind(labels, offsets, seed=5).gradients(2 * scores)
    )
    np.testing.assert_array_equal(twice[0], grad / 2)
    np.testing.assert_array_equal(twice[1], hess / 4)


@pytest.mark.uncompiled
def test_names_and_defaults() -> None:
    assert REGISTRY["stochasticrank"] is StochasticRank
    assert REGISTRY["reinforce"] is Reinforce
    stochasticrank = loss("stochasticrank", metric="ndcg@10", sigma=1.0, mu=0.1, nu=1e-2, samples=1)
    assert stochasticrank == StochasticRank(mu=0.1)
    same_gradients(stochasticrank, StochasticRank())
    assert StochasticRank(metric="dcg-rr")._shift_by_label == 0
    assert StochasticRank(metric="ndcg(ties=expected)")._shift_by_label == 0
    assert StochasticRank(metric=NDCG(k=5)) == StochasticRank(metric="ndcg@5")


def bound(subject: SmoothedLoss, labels: list[float], offsets: list[int]) -> Objective:
    return subject.bind(labels, offsets)


class WrongShape(RankBiasedPrecision):
    def document_values(self, labels: np.ndarray) -> np.ndarray:
        return labels[:1]


class WrongBreaks(RankBiasedPrecision):
    breaks_at = "scroes"


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: StochasticRank(sigma=0), "sigma: found 0; expected a number above 0"),
        (lambda: StochasticRank(mu=-1), "mu: found -1; expected a number of at least 0"),
        (lambda: StochasticRank(nu=0), "nu: found 0; expected a number above 0"),
        (lambda: StochasticRank(samples=0), "samples: found 0; expected a whole number of at least 1"),
        (lambda: StochasticRank(sfa="yes"), "sfa: found 'yes'; expected true or false"),
        (lambda: StochasticRank(scale="curved"), "unknown scale 'curved'"),
        (lambda: StochasticRank(metric="ndgc@10"), "unknown metric 'ndgc'; did you mean 'ndcg'? (known: dcg, dcg-rr,"),
        (
            lambda: StochasticRank(metric="map@10"),
            "metric: found map@10, which cannot be optimised directly; expected mrr, success, err, dcg, ndcg",
        ),
        (lambda: StochasticRank(metric="hit"), "metric: found success without a cutoff, which no ranking changes; ex"),
        (lambda: Reinforce(metric=3), "metric: found 3; expected mrr, success, err, dcg, ndcg, rbp, dcg-rr, or a"),
        (lambda: StochasticRank(metric=RankBiasedPrecision), "metric: found <class"),
        (lambda: StochasticRank(metric=WrongBreaks()), "unknown breaks_at 'scroes'; did you mean 'scores'?"),
        (lambda: StochasticRank(metric="ndcg@0"), "k: found 0; expected a whole number of at least 1"),
        (lambda: StochasticRank(metric="dcg-rr", mu=0.1), "mu: found 0.1 with the metric dcg-rr, which has no ties"),
        (lambda: StochasticRank(metric=Balance(), mu=0.1), "mu: found 0.1 with the metric"),
        (lambda: StochasticRank(metric="dcg-rr(ties=expected)"), "metric: found dcg-rr(ties=expected); expected no"),
        (lambda: StochasticRank(metric="ndcg(ties=best)"), "metric: found ndcg(ties=best); expected ties=worst, or"),
        (
            lambda: StochasticRank(metric="ndcg(ties=expected)", mu=0.1),
            "mu: found 0.1 with the metric ndcg(ties=expected), which counts the expected value of ties; expected 0",
        ),
    ],
)  # fmt: skip
def test_bad_options_say_what_to_change(call, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(OptionError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.uncompiled
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: StochasticRank(metric="err(max_label=2)").bind([0, 1, 2, 3], [0, 2, 4]),
            "labels[3] (query 1, document 1): found 3; expected at most err's max_label = 2, the highest",
        ),
        (
            lambda: StochasticRank(metric="ndcg(gain=0/1)").bind([0, 1, 0, 2], [0, 2, 4]),
            "labels[3] (query 1, document 1): found 2; expected an integer from 0 to 1, since the gain table has 2",
        ),
        (
            lambda: StochasticRank(metric="dcg-rr(gain=0/1)").bind([0, 1, 0, 2], [0, 2, 4]),
            "labels[3] (query 1, document 1): found 2; expected an integer from 0 to 1, since the gain table has 2",
        ),
        (lambda: StochasticRank().bind([0, 1001], [0, 2]), "labels[1] (query 0, document 1): found 1001; expected"),
        (
            lambda: StochasticRank(metric="dcg").bind([0, 1, 200], [0, 1, 3]),
            "labels[2] (query 1, document 1): found a gain of 1.60694e+60; expected at most 1e+30, or the metric ndcg",
        ),
        (lambda: StochasticRank(metric=WrongShape()).bind([0, 1], [0, 2]), "metric: the document_values of"),
    ],
)  # fmt: skip
def test_bad_data_is_named(call, sentence: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_no_queries_and_no_documents_give_empty_results() -> None:
    for subject in (
        StochasticRank(),
        Reinforce(),
        StochasticRank(metric="dcg-rr"),
        StochasticRank(metric=PlainNDCG()),
    ):
        for labels, offsets in (([], [0]), ([], [0, 0, 0])):
            objective = subject.bind(labels, offsets)
            assert objective.gradients([])[0].size == 0
            assert (objective.values([]) == np.zeros(len(offsets) - 1)).all()


# --- the noise and the first documents


def test_noise_is_the_normal_quantile_of_philox_words() -> None:
    e = noise(128, seed=2**40 + 7, step=3, query=5, sample=1)
    for block in range(32):
        counter = (block, 5, 3, SMOOTHING_STREAM + 256)
        words = philox(
            *(np.uint64(word) for word in (*counter, (2**40 + 7) % 2**32, (2**40 + 7) >> 32))
        )
        group, lane = divmod(block, 16)
        quantiles = special.ndtri((np.array(words, dtype=float) + 0.5) / 2**32)
        np.testing.assert_allclose(
            e[64 * group + lane : 64 * group + 64 : 16], quantiles, rtol=0, atol=4e-8
        )


def test_noise_is_normal_and_unrelated() -> None:
    draws = np.array([noise(200, query=query) for query in range(1000)])
    assert stats.kstest(draws.ravel(), stats.norm.cdf).pvalue > 1e-3
    correlations = np.corrcoef(draws[:, :64].T)[np.triu_indices(64, 1)] * math.sqrt(1000)
    assert stats.kstest(correlations, stats.norm.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(draws[1:].ravel(), draws[:-1].ravel())[0, 1]) < 5 / math.sqrt(199_800)
    np.testing.assert_array_equal(noise(70), noise(200)[:70])


@pytest.mark.uncompiled
def test_the_first_documents_are_found_in_order() -> None:
    rng = np.random.default_rng(8)
    for n, n_first in itertools.product(
        (1, 5, 33, 100, 257, 1000), (1, 2, 11, 16, 17, 40, 300, 1000)
    ):
        if n_first > n:
            continue
        for t in (
            rng.normal(size=n),
            rng.integers(0, 4, n).astype(float),
            np.zeros(n),
            np.arange(n),
            -np.arange(n),
        ):
            padded = np.append(np.asarray(t, dtype=float), np.zeros(32))
            top = np.full(n + 32, -1, np.int32)
            scratch = np.empty(n + 32), np.empty(n + 32, np.int32), np.empty(n + 32, np.int32)
            first_documents(padded, n, n_first, *scratch, top)
            np.testing.assert_array_equal(
                top[:n_first], np.argsort(-np.asarray(t), kind="stable")[:n_first]
            )
