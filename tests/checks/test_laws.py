"""The laws every loss obeys (docs: DESIGN section 5), over every loss in the registry and its variants."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tautrank.checks.laws import DOES_NOT_APPLY, HOLDS, LAWS, check_laws
from tautrank.losses import REGISTRY, Loss, SmoothedLoss, loss

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

# Long lists and large labels are looked at by name: variants share their kernels, and tables of gains end at 4.
BY_NAME = ("large-labels", "long-list")
every_law = pytest.mark.parametrize("law", [law for law in LAWS if law not in BY_NAME])


def assert_obeys(subject: Loss, law: str) -> None:
    outcome = check_laws(subject, [law]).outcomes[0]
    assert outcome.law == law, outcome
    if outcome.status == DOES_NOT_APPLY:
        pytest.skip(outcome.detail)
    assert outcome.status == HOLDS, outcome


@every_loss
@every_law
def test_every_loss_obeys_every_law(subject: Loss, law: str) -> None:
    assert_obeys(subject, law)


@every_name
@pytest.mark.parametrize("law", BY_NAME)
def test_long_lists_and_large_labels(name: str, law: str) -> None:
    assert_obeys(loss(name), law)


def test_laws_do_not_excuse_themselves() -> None:
    # Which laws speak of a loss follows from what it says of itself, and from nothing else.
    for subject in variants():
        silent = {law.name for law in LAWS.values() if law.silent_on(subject) is not None}
        expected = set() if subject.ignores_shifts else {"shift"}
        expected |= set() if subject.gradient_is_derivative else {"derivative"}
        expected |= {"zero-sum"} if expected else set()
        expected |= {"order"} if isinstance(subject, SmoothedLoss) else set()
        assert silent == expected, subject


@every_name
@pytest.mark.parametrize("top", [32, 100, 1000])
def test_next_to_a_label_of_32_nothing_else_has_a_gain_left(name: str, top: int) -> None:
    if name in {"mse", "arp-loss1", "arp-loss2"}:
        pytest.skip("there the label itself counts")
    subject = loss(name)
    if isinstance(subject, SmoothedLoss):
        subject = dataclasses.replace(subject, mu=0.0, samples=64)
    scores = np.zeros(3)
    grad, near = (subject.bind([0, label, 0], [0, 3]).gradients(scores)[0] for label in (top, 31))
    np.testing.assert_allclose(grad, near, rtol=1e-6, atol=1e-6)


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
