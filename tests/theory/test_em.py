"""EM on scores: what falls for certain, what mostly falls, and pinned cases where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from tautrank.losses import loss
from tautrank.metrics import metric
from tautrank.theory import descends, lambdaloss_bound, majorise_minimise
from tests.theory_lists import Scored, lists, make_lists

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
def test_the_loss_itself_never_rises_where_it_is_said_not_to(data: Scored, text: str, steps: int) -> None:
    assert descends(loss(text))
    trace = majorise_minimise(text, *data, iterations=3, steps=steps)
    # The tight gamma is found up to a part in 10^12.
    assert (np.diff(trace.objective, axis=0) <= 1e-11 * (1 + trace.objective[:-1])).all()
    assert not any(descends(loss(other)) for other in OTHERS)


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
    # After the M-step the ranking is another one, and so are the weights: EM's argument does not cover that.
    trace = majorise_minimise(text, scores, labels, [0, len(scores)], iterations=1, steps=steps)
    assert (np.diff(trace.frozen[0, :, 0]) < 0).all()
    assert trace.objective[:, 0] == pytest.approx([before, after], abs=1e-3)
    assert trace.objective[1, 0] > trace.objective[0, 0] + 1e-3


def test_loss_and_metric_may_get_worse_together() -> None:
    trace = majorise_minimise(
        "ndcg-loss2++(k=none)", [1.0, -3.0, 2.0, 0.0], [2, 0, 1, 0], [0, 4], iterations=6, steps=1
    )
    assert (np.diff(trace.frozen, axis=1) < 0).all()
    assert trace.metric[1, 0] > trace.metric[2, 0]
    assert trace.objective[1, 0] < trace.objective[2, 0]
    assert trace.metric[-1, 0] == 1.0


@few
@given(lists(("graded", "binary"), longest=6), st.sampled_from(["arp-loss2", "ndcg-loss2", "lambdarank"]))
def test_the_bound_holds_at_the_end_of_every_run(data: Scored, name: str) -> None:
    _, labels, offsets = data
    subject = loss(name, k=None)
    trace = majorise_minimise(subject, *data, iterations=2, steps=1)
    bound = lambdaloss_bound(trace.scores, labels, offsets, subject)
    assert bound.holds()
    kept = ~np.isnan(bound.upper)
    constants = sum(bound.constants.values())
    np.testing.assert_allclose(trace.objective[-1][kept], (bound.upper - constants)[kept], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["lambdarank(k=none)", "ndcg-loss2(k=none)", "ndcg-loss2++(k=none)"])
@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_on_the_whole_it_converges_as_figure_5_shows(text: str, assignment: str) -> None:
    scores, labels, offsets = make_lists(0, "normal", "graded", queries=100, longest=8)
    subject = loss(text, assignment=assignment)
    trace = majorise_minimise(subject, scores, labels, offsets, iterations=6, steps=3, judge="ndcg@5")
    assert np.nanmean(trace.metric[0]) == pytest.approx(metric("ndcg@5").mean(scores, labels, offsets))
    assert np.nanmean(trace.metric[0]) < 0.8
    assert np.nanmean(trace.metric[-1]) > 0.999
    assert trace.objective[-1].mean() < 0.01 * trace.objective[0].mean()


def test_the_trace_does_not_depend_on_the_other_queries() -> None:
    scores, labels, offsets = make_lists(2, "tied", "graded", queries=10, longest=5)
    together = majorise_minimise("ndcg-loss2(k=none)", scores, labels, offsets, iterations=3)
    for query in range(10):
        rows = slice(offsets[query], offsets[query + 1])
        size = offsets[query + 1] - offsets[query]
        alone = majorise_minimise("ndcg-loss2(k=none)", scores[rows], labels[rows], [0, size], iterations=3)
        np.testing.assert_allclose(alone.objective[:, 0], together.objective[:, query], rtol=1e-9, atol=1e-12)


def test_no_iterations_say_where_one_is() -> None:
    trace = majorise_minimise("lambdarank", [1.0, 0.0], [0, 1], [0, 2], iterations=0)
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
    by_rank = {"lambdarank": rho, "ndcg-loss2": delta, "ndcg-loss2++": rho + 5 * delta, "ranknet": np.ones((n, n))}
    if name == "ndcg-loss1":
        return np.repeat((gains * at)[:, None], n, axis=1) * ~np.eye(n, dtype=bool)
    difference = 1.0 if name == "ranknet" else np.abs(gains[:, None] - gains)
    return by_rank[name] * difference * (labels[:, None] > labels)


def exact_m_step(weights: np.ndarray, X: np.ndarray, start: np.ndarray) -> np.ndarray | None:
    """The linear ranker that minimises the loss with these weights, by Newton's method; None if it has no minimum."""
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
        curvature = np.einsum("ij,ijd,ije->de", weights * p * (1 - p), pairs, pairs) + 1e-12 * np.eye(w.size)
        step = -np.linalg.solve(curvature, slope)
        while value(w + step) > value(w) + 1e-4 * slope @ step and np.abs(step).max() > 1e-12:
            step = step / 2
        w = w + step
    return None


def share_of_rises(name: str, lists: int) -> tuple[float, float]:
    """In how many lists exact M-steps of a linear ranker raise the loss, and in how many they never settle, as shares.

    Lists of 5 documents with labels 0 to 2 and two features of N(0, 1), from a random ranker until the ranking stays,
    for at most 20 iterations; lists whose labels a linear ranker separates have no minimum and are left out.
    """
    rng = np.random.default_rng(0)
    rises, endless = [], []
    while len(rises) < lists:
        X, y, w = rng.normal(size=(5, 2)), rng.integers(0, 3, 5).astype(float), rng.normal(size=2)
        if np.ptp(y) == 0:
            continue
        objective, values, ranks = loss(name, k=None).bind(y, [0, 5]), [], None
        found: np.ndarray | None = w
        while found is not None and len(values) < 21:
            values.append(objective.values(X @ found)[0])
            before, ranks = ranks, np.argsort(np.argsort(-X @ found))
            if np.array_equal(before, ranks):
                break
            found = exact_m_step(pair_weights(name, ranks, y), X, found)
        if found is not None:
            rises.append((np.diff(values) > 1e-9).any())
            endless.append(len(values) == 21)
    return float(np.mean(rises)), float(np.mean(endless))


@pytest.mark.parametrize("name", ["lambdarank", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++", "ranknet"])
def test_exact_m_steps_raise_every_loss_but_ranknet(name: str) -> None:
    # Of 1,000 lists it rises in .226, .193, .273 and .234, and never settles in .182, .007, .203 and .176.
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
        assert held.values(X @ w)[0] == pytest.approx((weights * np.logaddexp(0, -margins)).sum() / np.log(2))
        found = exact_m_step(weights, X, w)
        assert found is not None
        for other in found + rng.normal(size=(20, 2)) * 0.1:
            assert held.values(X @ found)[0] < held.values(X @ other)[0]
