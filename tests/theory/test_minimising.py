"""Minimising: cross entropy's Hessian against dense linear algebra; EM on scores: what falls, and
what need not.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from tautrank.losses import loss
from tautrank.metrics import metric
from tautrank.theory import (
    descends,
    lambdaloss_bound,
    majorise_minimise,
    smallest_eigenvalue,
    spectral_gap,
)
from tautrank.theory.minimising import DampedSoftmax
from tests.theory_lists import Scored, lists, make_lists


def dense(scores: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """rho, the Hessian and S of one query, as the paper writes them."""
    e = np.exp(scores)
    rho = e / (e.sum() + epsilon)
    s = rho[np.newaxis, :] / (1 - rho[:, np.newaxis])
    np.fill_diagonal(s, 0.0)
    return rho, np.diag(rho) - np.outer(rho, rho), s


CASES = [
    (seed, scale, epsilon)
    for seed in range(5)
    for scale in (0.1, 1.0, 3.0)
    for epsilon in (1e-3, 1.0, 50.0)
]


@pytest.mark.parametrize(("seed", "scale", "epsilon"), CASES)
def test_eigenvalues_are_those_of_the_matrices(seed: int, scale: float, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 12, 8))))
    scores = scale * rng.normal(size=offsets[-1])
    smallest, gap = (
        smallest_eigenvalue(scores, offsets, epsilon),
        spectral_gap(scores, offsets, epsilon),
    )
    for query, (start, stop) in enumerate(itertools.pairwise(offsets)):
        _, hessian, s = dense(scores[start:stop], epsilon)
        assert smallest[query] == pytest.approx(np.linalg.eigvalsh(hessian)[0], rel=1e-6, abs=1e-14)
        assert 1 - gap[query] == pytest.approx(np.abs(np.linalg.eigvals(s)).max(), abs=1e-10)


@pytest.mark.parametrize("lead", [40.0, 299.0, 301.0, 740.0, 900.0, 1e6])
def test_however_far_the_best_document_leads_the_gap_has_a_limit(lead: float) -> None:
    # Two documents far below the best: 2 x / (1 - x) + x (2 + epsilon) = epsilon, whatever the
    # lead.
    assert spectral_gap([0.0, lead, 0.0], [0, 3], 2.0) == pytest.approx(1 - np.sqrt(0.5), rel=1e-12)
    assert spectral_gap([0.0, lead, 0.0], [0, 3], 1e-10) == pytest.approx(2.5e-11, rel=1e-9, abs=0)
    # One document: S is 0. Two equal ones: S has rho / (1 - rho) beside the diagonal.
    gap = spectral_gap([lead, -lead, lead, lead], [0, 1, 2, 2, 4], 1.0)
    assert gap[:2].tolist() == [1.0, 1.0]
    assert np.isnan(gap[2])
    assert gap[3] == pytest.approx(np.exp(-lead) / (1 + np.exp(-lead)), rel=1e-9, abs=1e-300)


def test_of_two_documents_the_series_goes_twice_as_far_as_newton() -> None:
    # On their difference S is -1: 1 - 1 + 1 stands for 1/(1 + 1).
    phi = np.array([0.9, 0.1])
    rho, _, s = dense(np.array([0.4, -0.3]), 1e-12)
    series = (np.eye(2) + s + s @ s) @ ((rho - phi) / (rho * (1 - rho)))
    assert np.diff(series)[0] == pytest.approx(2 * np.diff(-phi / rho)[0], rel=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lists(longest=20), st.sampled_from([1e-10, 1e-3, 1.0]))
def test_claims_1_and_2(data: Scored, epsilon: float) -> None:
    scores, lists = data
    damped = DampedSoftmax.of(scores, lists.offsets, epsilon)
    smallest, gap = (
        smallest_eigenvalue(scores, lists.offsets, epsilon),
        spectral_gap(scores, lists.offsets, epsilon),
    )
    for query, (start, stop) in enumerate(itertools.pairwise(lists.offsets)):
        if start == stop:
            assert np.isnan(smallest[query])
            assert np.isnan(gap[query])
            continue
        rho, not_rho = damped.rho[start:stop], damped.rest[start:stop]
        floor = rho.min() * damped.missing[query]
        # Positive definite, by at least Gershgorin's circles, where floats can hold the number.
        assert floor * (1 - 1e-9) <= smallest[query] <= rho.min()
        assert smallest[query] > 0 or floor < 1e-300
        # Below 1, between the smallest and the largest row sum of S (Perron and Frobenius), where
        # floats can hold them.
        assert 0.0 <= gap[query] <= 1.0
        if damped.missing[query] > 1e-300:
            rows = damped.missing[query] / not_rho
            assert rows.min() * (1 - 1e-9) <= gap[query] <= rows.max() * (1 + 1e-9)


def test_far_scores_lose_no_digits() -> None:
    scores = np.array([0.0, 40.0, -0.5])
    damped = DampedSoftmax.of(scores, [0, 3], 1e-300)
    tail = np.exp(-40.0) + np.exp(-40.5)
    assert damped.rest[1] == pytest.approx(tail / (1 + tail), rel=1e-12)
    far = DampedSoftmax.of([-800.0, -801.0], [0, 2], 1.0)
    assert far.rho.tolist() == [0.0, 0.0]
    assert far.missing.tolist() == [1.0]
    assert np.isfinite(spectral_gap([-800.0, -801.0], [0, 2], 1.0)).all()


DESCENDING = [
    "ranknet",
    "arp-loss1",
    "arp-loss2",
    "listnet",
    "xendcg(gamma=0.5)",
    "xendcg(gamma=tight)",
    "mse",
]
OTHERS = [
    "lambdarank(k=none)",
    "ndcg-loss1(k=none)",
    "ndcg-loss2(k=none)",
    "ndcg-loss2++(k=none)",
    "ranknet(k=2)",
    "lambdarank(k=none,assignment=soft)",
    "xendcg",
]
few = settings(max_examples=25, deadline=None, derandomize=True)


@few
@given(lists(longest=6), st.sampled_from(DESCENDING + OTHERS), st.integers(1, 3))
def test_the_held_loss_never_rises(data: Scored, text: str, steps: int) -> None:
    trace = majorise_minimise(text, *data, iterations=2, steps=steps)
    assert (np.diff(trace.frozen, axis=1) <= 0.0).all()
    # What is held starts where the loss is.
    np.testing.assert_array_equal(trace.frozen[0, 0], trace.objective[0])


@few
@given(lists(longest=6), st.sampled_from(DESCENDING), st.integers(1, 3))
def test_the_loss_itself_never_rises_where_it_is_said_not_to(
    data: Scored, text: str, steps: int
) -> None:
    assert descends(loss(text))
    trace = majorise_minimise(text, *data, iterations=3, steps=steps)
    # The tight gamma is found up to a part in 10^12.
    assert (np.diff(trace.objective, axis=0) <= 1e-11 * (1 + trace.objective[:-1])).all()
    assert not any(descends(loss(nearby)) for nearby in OTHERS)


@pytest.mark.parametrize(
    ("text", "scores", "labels", "steps", "before", "after"),
    [
        ("lambdarank(k=none)", [-1.0, -1.0, -2.0, -2.0, 1.0], [2, 1, 1, 1, 2], 1, 0.1172, 0.1206),
        ("ndcg-loss1(k=none)", [0.0, 0.0, 0.0], [1, 2, 2], 1, 1.6291, 1.7268),
        ("ndcg-loss2(k=none)", [2.0, 2.0, -2.0], [1, 2, 2], 1, 0.4184, 0.6708),
        ("arp-loss1(k=1)", [-1.0, 0.0, 0.0], [2, 1, 0], 3, 4.7893, 6.6127),
    ],
)
def test_the_loss_may_rise_while_every_m_step_falls(
    text: str, scores: list[float], labels: list[float], steps: int, before: float, after: float
) -> None:
    # After the M-step the ranking is another one, and so are the weights: EM's argument does not
    # cover that.
    trace = majorise_minimise(text, scores, labels, iterations=1, steps=steps)
    assert (np.diff(trace.frozen[0, :, 0]) < 0).all()
    assert trace.objective[:, 0] == pytest.approx([before, after], abs=1e-3)
    assert trace.objective[1, 0] > trace.objective[0, 0] + 1e-3


def test_loss_and_metric_may_get_worse_together() -> None:
    trace = majorise_minimise(
        "ndcg-loss2++(k=none)", [1.0, -3.0, 2.0, 0.0], [2, 0, 1, 0], iterations=6, steps=1
    )
    assert (np.diff(trace.frozen, axis=1) < 0).all()
    assert trace.metric[1, 0] > trace.metric[2, 0]
    assert trace.objective[1, 0] < trace.objective[2, 0]
    assert trace.metric[-1, 0] == 1.0


@few
@given(
    lists(("graded", "binary"), longest=6),
    st.sampled_from(["arp-loss2", "ndcg-loss2", "lambdarank"]),
)
def test_the_bound_holds_at_the_end_of_every_run(data: Scored, name: str) -> None:
    _, lists = data
    subject = loss(name, k=None)
    trace = majorise_minimise(subject, *data, iterations=2, steps=1)
    bound = lambdaloss_bound(trace.scores, lists, subject)
    assert bound.holds()
    kept = ~np.isnan(bound.upper)
    constants = sum(bound.constants.values())
    np.testing.assert_allclose(
        trace.objective[-1][kept], (bound.upper - constants)[kept], rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "text", ["lambdarank(k=none)", "ndcg-loss2(k=none)", "ndcg-loss2++(k=none)"]
)
@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_on_the_whole_it_converges_as_figure_5_shows(text: str, assignment: str) -> None:
    scores, lists = make_lists(0, "normal", "graded", queries=100, longest=8)
    subject = loss(text, assignment=assignment)
    trace = majorise_minimise(subject, scores, lists, iterations=6, steps=3)
    assert np.nanmean(trace.metric[0]) == pytest.approx(metric("ndcg").mean(scores, lists))
    assert np.nanmean(trace.metric[0]) < 0.8
    assert np.nanmean(trace.metric[-1]) > 0.999
    assert trace.objective[-1].mean() < 0.01 * trace.objective[0].mean()


def test_the_trace_does_not_depend_on_the_other_queries() -> None:
    scores, lists = make_lists(2, "tied", "graded", queries=10, longest=5)
    together = majorise_minimise("ndcg-loss2(k=none)", scores, lists, iterations=3)
    for query in range(10):
        rows = slice(lists.offsets[query], lists.offsets[query + 1])
        alone = majorise_minimise(
            "ndcg-loss2(k=none)",
            scores[rows],
            lists.labels[rows],
            iterations=3,
        )
        np.testing.assert_allclose(
            alone.objective[:, 0], together.objective[:, query], rtol=1e-9, atol=1e-12
        )


def test_no_iterations_say_where_one_is() -> None:
    trace = majorise_minimise("lambdarank", [1.0, 0.0], [0, 1], iterations=0)
    assert (trace.objective.shape, trace.frozen.shape) == ((1, 1), (0, 6, 1))


def pair_weights(name: str, ranks: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The weight of each pair (i, j) on a full list, from the table of the paper."""
    n = labels.size
    discount = 1 / np.log2(np.arange(2, n + 3))
    gains = 2**labels - 1
    gains = gains / (np.sort(gains)[::-1] @ discount[:n])
    at, apart = discount[ranks], np.abs(ranks[:, None] - ranks)
    delta = np.where(apart > 0, discount[apart - 1] - discount[apart], 0)
    rho = np.abs(at[:, None] - at)
    by_rank = {
        "lambdarank": rho,
        "ndcg-loss2": delta,
        "ndcg-loss2++": rho + 5 * delta,
        "ranknet": np.ones((n, n)),
    }
    if name == "ndcg-loss1":
        return np.repeat((gains * at)[:, None], n, axis=1) * ~np.eye(n, dtype=bool)
    difference = 1.0 if name == "ranknet" else np.abs(gains[:, None] - gains)
    return by_rank[name] * difference * (labels[:, None] > labels)


def exact_m_step(weights: np.ndarray, X: np.ndarray, start: np.ndarray) -> np.ndarray | None:
    """The linear ranker that minimises the loss with these weights, by Newton's method; None if it
    has no minimum.
    """
    pairs = X[:, None, :] - X[None, :, :]

    def value(w: np.ndarray) -> float:
        return float((weights * np.logaddexp(0, -pairs @ w)).sum())

    w = start
    for _ in range(100):
        p = special.expit(-pairs @ w)
        slope = -np.einsum("ij,ijd->d", weights * p, pairs)
        if np.abs(slope).max() < 1e-10:
            return w
        if np.abs(w).max() > 100:
            return None
        curvature = np.einsum(
            "ij,ijd,ije->de", weights * p * (1 - p), pairs, pairs
        ) + 1e-12 * np.eye(w.size)
        step = -np.linalg.solve(curvature, slope)
        while value(w + step) > value(w) + 1e-4 * slope @ step and np.abs(step).max() > 1e-12:
            step = step / 2
        w = w + step
    return None


def share_of_rises(name: str, lists: int) -> tuple[float, float]:
    """In how many lists exact M-steps of a linear ranker raise the loss, and in how many they never
    settle, as shares.

    Lists of 5 documents with labels 0 to 2 and two features of N(0, 1), from a random ranker until
    the ranking stays, for at most 20 iterations; lists whose labels a linear ranker separates have
    no minimum and are left out.
    """
    rng = np.random.default_rng(0)
    rises, endless = [], []
    while len(rises) < lists:
        X, y, w = rng.normal(size=(5, 2)), rng.integers(0, 3, 5).astype(float), rng.normal(size=2)
        if np.ptp(y) == 0:
            continue
        objective, values, ranks = loss(name, k=None).bind(y, [0, 5]), [], None
        minimum: np.ndarray | None = w
        while minimum is not None and len(values) < 21:
            values.append(objective.values(X @ minimum)[0])
            before, ranks = ranks, np.argsort(np.argsort(-X @ minimum))
            if np.array_equal(before, ranks):
                break
            minimum = exact_m_step(pair_weights(name, ranks, y), X, minimum)
        if minimum is not None:
            rises.append((np.diff(values) > 1e-9).any())
            endless.append(len(values) == 21)
    return float(np.mean(rises)), float(np.mean(endless))


@pytest.mark.parametrize(
    "name", ["lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++", "ranknet"]
)
def test_exact_m_steps_raise_every_loss_but_ranknet(name: str) -> None:
    # Of 1,000 lists it rises in .226, .193, .273 and .234, and never settles in .182, .007, .203
    # and .176.
    raised, endless = share_of_rises(name, 40)
    if name == "ranknet":
        assert raised == endless == 0
    else:
        assert 0.1 < raised < 0.35
        assert endless < raised


def test_the_m_step_has_the_weights_of_the_loss_and_reaches_its_minimum() -> None:
    rng = np.random.default_rng(3)
    X, y, w = rng.normal(size=(5, 2)), np.array([0.0, 2.0, 1.0, 0.0, 1.0]), rng.normal(size=2)
    for name in ("lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++", "ranknet"):
        weights = pair_weights(name, np.argsort(np.argsort(-X @ w)), y)
        held = loss(name, k=None).bind(y, [0, 5]).frozen(X @ w)
        margins = (X[:, None, :] - X[None, :, :]) @ w
        assert held.values(X @ w)[0] == pytest.approx(
            (weights * np.logaddexp(0, -margins)).sum() / np.log(2)
        )
        minimum = exact_m_step(weights, X, w)
        assert minimum is not None
        for nearby in minimum + rng.normal(size=(20, 2)) * 0.1:
            assert held.values(X @ minimum)[0] < held.values(X @ nearby)[0]
