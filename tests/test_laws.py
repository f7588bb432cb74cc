"""The laws every loss obeys (docs: DESIGN section 5), over every loss in the registry and its variants."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest

from tautrank.losses import REGISTRY, Loss, Objective, SmoothedLoss, loss, parallel

# One parameter at a time is moved off its default, in every loss that has it: a new loss is covered as soon as it is
# registered, and a new parameter as soon as it is listed here.
VARIATIONS: dict[str, list[object]] = {
    "k": [None, 2],
    "sigma": [0.5],
    "mu": [0.0],
    "assignment": ["soft"],
    "norm": ["lightgbm", "xgboost"],
    "gain": ["linear", (0, 1, 3, 3, 10)],
    "discount": ["reciprocal", (1.0, 0.5, 0.25)],
    "target": ["softmax"],
    "gamma": [0.0, 1.0, "tight"],
    "hessian": ["diagonal", "neumann", "exact"],
    "metric": ["ndcg", "dcg(gain=linear)@3", "err@4", "mrr", "dcg-rr"],
    "sfa": [True, False],
    "estimator": ["ccs"],
    "scale": ["plain"],
    "noise": ["gumbel"],
}


def variants() -> list[Loss]:
    found: list[Loss] = []
    for name, cls in REGISTRY.items():
        found.append(loss(name))
        for field in dataclasses.fields(cls):
            found.extend(loss(name, **{field.name: value}) for value in VARIATIONS.get(field.name, []))
    return list(dict.fromkeys(found))


every_loss = pytest.mark.parametrize("subject", variants(), ids=str)
every_name = pytest.mark.parametrize("name", sorted(REGISTRY))

SIZES = np.array([5, 1, 12, 3, 0, 8])
OFFSETS = np.concatenate(([0], np.cumsum(SIZES)))


def example(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties (multiples of 1/8, so that shifts are exact) and labels; query 3 has nothing relevant."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, OFFSETS[-1]).astype(np.float64)
    labels[OFFSETS[3] : OFFSETS[4]] = 0.0
    labels[OFFSETS[1]] = 2.0
    return rng.integers(-12, 12, OFFSETS[-1]) / 8.0, labels


def bound(subject: Loss, **arguments: object) -> Objective:
    return subject.bind(example()[1], OFFSETS, seed=7, **arguments)  # type: ignore[arg-type]


@every_loss
def test_gradients_are_the_derivative_of_the_frozen_values(subject: Loss) -> None:
    if not subject.gradient_is_derivative:
        pytest.skip("its gradient is the numerator of a Newton step, or an estimate of the derivative of a mean")
    scores, _ = example()
    objective = bound(subject)
    frozen = objective.frozen(scores, step=3)
    grad, _ = objective.gradients(scores, step=3)
    h = 1e-5
    for document in range(scores.size):
        step = np.zeros_like(scores)
        step[document] = h
        slope = (frozen.values(scores + step).sum() - frozen.values(scores - step).sum()) / (2 * h)
        assert grad[document] == pytest.approx(slope, rel=1e-6, abs=1e-8)


@every_loss
def test_frozen_values_start_at_the_values(subject: Loss) -> None:
    scores, _ = example()
    objective = bound(subject)
    np.testing.assert_array_equal(objective.frozen(scores, 2).values(scores), objective.values(scores, 2))


@every_loss
def test_hessians_are_not_negative_and_everything_is_finite(subject: Loss) -> None:
    grad, hess = bound(subject).gradients(example()[0])
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
    assert (hess >= 0).all()


@every_loss
def test_a_query_without_a_relevant_document_counts_nothing(subject: Loss) -> None:
    scores, _ = example()
    objective = bound(subject)
    grad, hess = objective.gradients(scores)
    rows = slice(OFFSETS[3], OFFSETS[4])
    assert (grad[rows] == 0).all()
    assert (hess[rows] == 0).all()
    values = objective.values(scores)
    assert values[3] == 0  # nothing relevant
    assert values[4] == 0  # no documents


@every_loss
def test_queries_are_independent(subject: Loss) -> None:
    scores, labels = example()
    other_scores, other_labels = example(seed=1)
    rows = slice(OFFSETS[2], OFFSETS[3])
    other_scores[rows], other_labels[rows] = scores[rows], labels[rows]
    objective = bound(subject)
    other = subject.bind(other_labels, OFFSETS, seed=7)
    for mine, theirs in zip(objective.gradients(scores), other.gradients(other_scores), strict=True):
        np.testing.assert_array_equal(mine[rows], theirs[rows])
    assert objective.values(scores)[2] == other.values(other_scores)[2]


@every_loss
def test_permuting_documents_permutes_the_result(subject: Loss) -> None:
    if isinstance(subject, SmoothedLoss):
        pytest.skip("it is nothing without its noise, which stays where it is; its mean is permuted in its own tests")
    if subject.is_random:
        subject = dataclasses.replace(
            subject,
            noise=None,
            **{"assignment": "hard"} if hasattr(subject, "assignment") else {},
            **{"gamma": 0.5} if hasattr(subject, "gamma") else {},
            **{"estimator": "exact"} if hasattr(subject, "estimator") else {},
        )
    scores, labels = example()
    rng = np.random.default_rng(5)
    order = np.concatenate([start + rng.permutation(stop - start) for start, stop in itertools.pairwise(OFFSETS)])
    grad, hess = subject.bind(labels, OFFSETS).gradients(scores)
    moved_grad, moved_hess = subject.bind(labels[order], OFFSETS).gradients(scores[order])
    query = np.repeat(np.arange(SIZES.size), SIZES)

    def sort(g: np.ndarray, h: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
        # Documents with the same score and label are the same document: their results may change places.
        return np.column_stack((g, h))[np.lexsort((g.round(9), y, s, query))]

    np.testing.assert_allclose(
        sort(moved_grad, moved_hess, scores[order], labels[order]),
        sort(grad, hess, scores, labels),
        rtol=1e-9,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        subject.bind(labels[order], OFFSETS).values(scores[order]),
        subject.bind(labels, OFFSETS).values(scores),
        rtol=1e-12,
    )


@every_loss
def test_a_constant_added_to_a_query_changes_nothing(subject: Loss) -> None:
    if not subject.ignores_shifts:
        pytest.skip("it estimates the label itself, or compares scores with 0")
    scores, _ = example()
    shift = np.repeat([3.0, -8.0, 0.5, 4.0, 0.0, -2.0], SIZES)
    objective = bound(subject)
    for shifted, plain in zip(
        (*objective.gradients(scores + shift, 1), objective.values(scores + shift, 1)),
        (*objective.gradients(scores, 1), objective.values(scores, 1)),
        strict=True,
    ):
        np.testing.assert_allclose(shifted, plain, rtol=1e-9, atol=1e-12)


@every_loss
def test_gradients_of_a_query_sum_to_0(subject: Loss) -> None:
    if not (subject.gradient_is_derivative and subject.ignores_shifts):
        pytest.skip("only derivatives of a loss that ignores shifts do")
    grad, _ = bound(subject).gradients(example()[0])
    for start, stop in itertools.pairwise(OFFSETS):
        assert grad[start:stop].sum() == pytest.approx(0.0, abs=1e-12)


@every_loss
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(subject: Loss, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SMALLEST_SHARE", 1)  # so that even this small example is shared out
    scores = example()[0].astype(kind)
    one = bound(subject, n_jobs=1)
    for threads in (2, 3):
        several = bound(subject, n_jobs=threads)
        assert len(several._ranges) > 1
        for a, b in zip(several.gradients(scores, 4), one.gradients(scores, 4), strict=True):
            assert a.dtype == kind
            assert a.tobytes() == b.tobytes()
        assert several.values(scores, 4).tobytes() == one.values(scores, 4).tobytes()


@every_loss
def test_the_same_bits_after_other_calls_and_after_pickling(subject: Loss) -> None:
    scores, _ = example()
    objective = bound(subject)
    first = objective.gradients(scores, 5)
    objective.gradients(scores[::-1].copy(), 6)
    copy = pickle.loads(pickle.dumps(objective))
    for again in (objective.gradients(scores, 5), copy.gradients(scores, 5)):
        for a, b in zip(again, first, strict=True):
            assert a.tobytes() == b.tobytes()


@every_loss
def test_step_and_seed_matter_exactly_where_the_loss_is_random(subject: Loss) -> None:
    scores, labels = example()
    # The rankings of a soft assignment differ from the hard one only where scores are near each other.
    if hasattr(subject, "spread"):
        subject = dataclasses.replace(subject, spread=1.0)
    grad = subject.bind(labels, OFFSETS, seed=7).gradients(scores, 0)[0]
    for other in (
        subject.bind(labels, OFFSETS, seed=7).gradients(scores, 1)[0],
        subject.bind(labels, OFFSETS, seed=8).gradients(scores, 0)[0],
    ):
        assert (grad.tobytes() != other.tobytes()) == subject.is_random


@every_loss
def test_float32_scores_give_float32_results_near_the_float64_ones(subject: Loss) -> None:
    # Without ties in the noise a rounding of the scores does not change the ranking.
    scores, _ = example()
    objective = bound(subject)
    for narrow, wide in zip(objective.gradients(scores.astype(np.float32)), objective.gradients(scores), strict=True):
        assert narrow.dtype == np.float32
        assert wide.dtype == np.float64
        np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=2e-6)


@every_loss
def test_query_weights_scale_everything(subject: Loss) -> None:
    scores, labels = example()
    weights = np.array([2.0, 1.0, 0.0, 1.0, 1.0, 0.5])
    plain = subject.bind(labels, OFFSETS, seed=7)
    weighted = subject.bind(labels, OFFSETS, weights, seed=7)
    each = np.repeat(weights, SIZES)
    for a, b in zip(weighted.gradients(scores), plain.gradients(scores), strict=True):
        np.testing.assert_allclose(a, each * b, rtol=1e-12)
    np.testing.assert_allclose(weighted.values(scores), weights * plain.values(scores), rtol=1e-12)


@every_loss
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([1e6, 0.0, -1e6, 5e5, 2e6], [0, 1, 2, 0, 3]),
        ([-1e6, 0.0, 1e6, -5e5, 2e6], [0, 1, 2, 0, 3]),
        ([1e6, 1e6, 0.0, 0.0, 0.0], [1, 0, 4, 0, 3]),
        ([0.0, 0.0, 0.0, 0.0], [3, 0, 1, 1]),
        ([0.5, -1.0, 2.0], [2, 2, 2]),
        ([300.0, -250.0, 100.0, 41.0, 39.0, -41.0, 0.0], [0, 1, 2, 3, 4, 1, 0]),
        ([3.0], [4]),
        ([3.0], [0]),
    ],
    ids=["far-apart", "far-apart-reversed", "two-cliffs", "equal-scores", "equal-labels", "wide", "single", "bare"],
)
def test_extremes_are_finite_and_right(subject: Loss, kind: type, scores: list[float], labels: list[float]) -> None:
    s = np.array(scores, dtype=kind)
    objective = subject.bind(labels, [0, s.size])
    grad, hess = objective.gradients(s)
    values = objective.values(s)
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
    assert (hess >= 0).all()
    assert np.isfinite(values).all()
    if not any(labels):
        assert (grad == 0).all()
        assert values[0] == 0
    if subject.noise is not None and kind is np.float32:
        return  # next to 1e6 a float32 rounds the noise itself
    # The wide windows of float64 and the narrow ones of float32 are the same mathematics.
    wide_grad, wide_hess = objective.gradients(s.astype(np.float64))
    scale = max(1.0, float(np.abs(wide_grad).max()))
    np.testing.assert_allclose(grad, wide_grad, rtol=1e-4, atol=1e-5 * scale)
    np.testing.assert_allclose(hess, wide_hess, rtol=1e-4, atol=1e-5 * scale)


@every_name
@pytest.mark.parametrize("top", [32, 100, 1000])
def test_labels_above_31_are_right(name: str, top: int) -> None:
    # Next to a label of 32 or more nothing else has any gain left: what matters is where that one document is.
    subjects = [loss(name)]
    if isinstance(subjects[0], SmoothedLoss):
        # A shift by such a label takes the document out of reach of the others, and one draw may have any sign.
        subjects.append(dataclasses.replace(subjects[0], mu=0.0, samples=64))
    scores = np.array([0.0, 0.0, 0.0])
    for subject in subjects:
        objective = subject.bind([0, top, 0], [0, 3])
        grad, hess = objective.gradients(scores)
        assert np.isfinite(grad).all()
        assert np.isfinite(hess).all()
        assert np.isfinite(objective.values(scores)).all()
    assert grad[1] < 0
    if name not in {"mse", "arp-loss1", "arp-loss2"}:  # there the label itself counts
        near = subject.bind([0, 31, 0], [0, 3]).gradients(scores)[0]
        np.testing.assert_allclose(grad, near, rtol=1e-6, atol=1e-6)


@every_name
def test_a_list_of_50000_documents_needs_no_square_memory(name: str) -> None:
    n = 50_000
    rng = np.random.default_rng(0)
    labels = rng.choice(5, n, p=[0.9, 0.05, 0.03, 0.01, 0.01])
    scores = rng.normal(size=n).astype(np.float32)
    subject = loss(name)
    grad, hess = subject.bind(labels, [0, n]).gradients(scores)
    assert np.isfinite(grad).all()
    assert np.isfinite(hess).all()
    assert (grad != 0).any()
    if subject.gradient_is_derivative and subject.ignores_shifts:
        assert abs(grad.sum(dtype=np.float64)) < 1e-3 * np.abs(grad).sum(dtype=np.float64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ranknet(k=none)", 6.0501452),
        ("lambdarank(k=none)", 1.0718194),
        ("ndcg-loss2(k=none)", 0.8460206),
        ("ndcg-loss2++(k=none,mu=10)", 9.5320258),
    ],
)
def test_check_values(text: str, expected: float) -> None:
    value = loss(text).bind([0, 0, 1, 2], [0, 4]).values([0.0, 3.0, 1.0, 2.0])
    assert value[0] == pytest.approx(expected, abs=5e-8)


def average(subject: Loss, labels: list[float], scores: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean over many steps of the gradient of one query, and its standard error."""
    objective = subject.bind(labels, [0, scores.size], seed=11)
    grads = np.array([objective.gradients(scores, step)[0] for step in range(steps)])
    return grads.mean(axis=0), grads.std(axis=0) / np.sqrt(steps)


@pytest.mark.parametrize("plain", ["lambdarank", "listnet", "mse"])
def test_noisy_gradients_are_unbiased(plain: str) -> None:
    labels, scores, strength = [0.0, 2.0, 1.0, 0.0], np.array([0.3, -0.2, 0.1, 0.6]), 0.7
    mean, error = average(loss(plain, noise="gumbel", strength=strength), labels, scores, 4000)
    draws = 4000
    noisy = scores + strength * np.random.default_rng(3).gumbel(size=(draws, scores.size))
    offsets = np.arange(draws + 1) * scores.size
    expected = loss(plain).bind(np.tile(labels, draws), offsets).gradients(noisy.ravel())[0].reshape(draws, -1)
    spread = np.hypot(error, expected.std(axis=0) / np.sqrt(draws))
    assert (np.abs(mean - expected.mean(axis=0)) < 5 * spread + 1e-12).all()


def test_gradients_with_uniform_gamma_are_unbiased() -> None:
    labels, scores = [0.0, 2.0, 1.0, 0.0, 0.0], np.array([0.3, -0.2, 0.1, 0.6, 0.0])
    mean, error = average(loss("xendcg", hessian="diagonal"), labels, scores, 4000)
    targets = 2.0 ** np.array(labels) - np.random.default_rng(4).uniform(size=(200_000, scores.size))
    phi = (targets / targets.sum(axis=1, keepdims=True)).mean(axis=0)
    rho = np.exp(scores) / np.exp(scores).sum()
    assert (np.abs(mean - (rho - phi)) < 5 * error).all()


def test_gradients_with_sampled_rankings_are_unbiased() -> None:
    # A soft assignment averages gradients over the rankings it draws: one of 4000 rankings is 4000 of one.
    labels, scores = [0.0, 2.0, 1.0, 0.0, 1.0], np.array([0.3, -0.2, 0.1, 0.6, 0.0])
    subject = loss("ndcg-loss2++", assignment="soft", samples=1, spread=0.5)
    mean, error = average(subject, labels, scores, 4000)
    many = dataclasses.replace(subject, samples=4000).bind(labels, [0, 5], seed=12).gradients(scores)[0]
    assert (np.abs(mean - many) < 5 * np.sqrt(2) * error).all()
