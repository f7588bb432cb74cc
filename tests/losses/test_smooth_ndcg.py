"""ApproxNDCG and NeuralNDCG against their formulas written with whole matrices, and derivatives in
closed form.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import tautrank as tr
from tautrank.errors import OptionError

pytestmark = pytest.mark.uncompiled


def ideal(labels: np.ndarray, k: int | None) -> float:
    return float(tr.metric("dcg", k=k).per_query(labels, labels, [0, labels.size])[0])


def approx_ndcg(s: np.ndarray, y: np.ndarray, temperature: float) -> float:
    above = special.expit((s[np.newaxis] - s[:, np.newaxis]) / temperature)
    np.fill_diagonal(above, 0.0)
    return float(np.sum((2.0**y - 1) / np.log2(2.0 + above.sum(axis=1))) / ideal(y, None))


def neural_ndcg(s: np.ndarray, y: np.ndarray, temperature: float, k: int | None) -> float:
    n = s.size
    distances = np.abs(s[:, np.newaxis] - s).sum(axis=1)
    logits = ((n + 1 - 2 * np.arange(1, n + 1))[:, np.newaxis] * s - distances) / temperature
    gains = special.softmax(logits, axis=1) @ (2.0**y - 1)
    return float(np.sum((gains / np.log2(np.arange(2, n + 2)))[:k]) / ideal(y, k))


def query(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n).astype(float)
    labels[0] = 2.0
    return rng.normal(size=n), labels


def check(subject: tr.losses.Loss, s: np.ndarray, y: np.ndarray, value) -> None:
    """Value by the formula, gradient by differences of the formula, and hessian by the bound it
    stands for.
    """
    objective = subject.bind(y, [0, s.size])
    np.testing.assert_allclose(objective.values(s), [1.0 - value(s)], rtol=1e-11, atol=1e-11)
    grad, hess = objective.gradients(s)
    steps = 1e-5 * np.eye(s.size)
    slopes = np.array([(value(s - e) - value(s + e)) / 2e-5 for e in steps])
    np.testing.assert_allclose(grad, slopes, rtol=1e-6, atol=1e-8)
    assert (np.abs(grad) <= subject.temperature * hess + 1e-15).all()


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_approxndcg_is_its_formula(n: int, temperature: float) -> None:
    s, y = query(n, n)
    check(
        tr.loss("approxndcg", temperature=temperature),
        s,
        y,
        lambda z: approx_ndcg(z, y, temperature),
    )


@pytest.mark.parametrize("temperature", [0.3, 1.0, 8.0])
@pytest.mark.parametrize(("n", "k"), [(1, 30), (2, 1), (9, None), (9, 4), (40, 30)])
def test_neuralndcg_is_its_formula(n: int, k: int | None, temperature: float) -> None:
    s, y = query(n, n)
    check(
        tr.loss("neuralndcg", temperature=temperature, k=k),
        s,
        y,
        lambda z: neural_ndcg(z, y, temperature, k),
    )


def test_the_sizes_of_the_terms_are_the_hessian() -> None:
    s, y = query(7, 3)
    n, t = s.size, 0.7
    above = special.expit((s[np.newaxis] - s[:, np.newaxis]) / t)
    np.fill_diagonal(above, 0.0)
    rank = 1 + above.sum(axis=1)
    slope = (2.0**y - 1) / ideal(y, None) * np.log(2) / (np.log(1 + rank) ** 2 * (1 + rank))
    terms = slope[:, np.newaxis] * above * (1 - above) / t
    hess = tr.loss("approxndcg", temperature=t).bind(y, [0, n]).gradients(s)[1]
    np.testing.assert_allclose(hess, (terms.sum(axis=0) + terms.sum(axis=1)) / t, rtol=1e-12)


@pytest.mark.parametrize("name", ["approxndcg", "neuralndcg"])
def test_far_apart_it_is_the_metric_and_the_temperature_is_a_unit(name: str) -> None:
    s, y = query(20, 4)
    metric = tr.metric("ndcg").per_query(s, y, [0, 20])
    np.testing.assert_allclose(
        1 - tr.loss(name).bind(y, [0, 20]).values(1e6 * s), metric, atol=1e-9
    )
    one, two = (tr.loss(name, temperature=t).bind(y, [0, 20]) for t in (1.0, 2.0))
    np.testing.assert_allclose(two.values(2 * s), one.values(s), rtol=1e-13)
    (g1, h1), (g2, h2) = one.gradients(s), two.gradients(2 * s)
    np.testing.assert_allclose(2 * g2, g1, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(4 * h2, h1, rtol=1e-11)
    plain = tr.loss(name, scale="plain").bind(y, [0, 20], weights=[3.0]).gradients(s)
    np.testing.assert_allclose(plain[0], 3 * g1, rtol=1e-12)
    np.testing.assert_array_equal(plain[1], np.full(20, 3.0))


def test_bad_parameters_are_one_sentence() -> None:
    with pytest.raises(OptionError, match="k: found 5 with approxndcg; expected None"):
        tr.loss("approxndcg", k=5)
    with pytest.raises(OptionError, match="temperature: found 0; expected a number above 0"):
        tr.loss("neuralndcg", temperature=0)
