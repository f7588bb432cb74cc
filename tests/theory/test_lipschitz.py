"""Lipschitz constants, measured against proven; the generalisation bound as stated and as proven."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.errors import OptionError
from tautrank.losses import loss
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import query_sums
from tautrank.theory import (
    generalisation_error,
    generalisation_probability,
    generalisation_probability_as_stated,
    lipschitz,
    log_box_covering,
    steepest_secant,
)
from tautrank.theory.derivatives import differences
from tautrank.theory.lipschitz import measured_constant, proven_constant
from tests.theory_lists import LABELS, Scored, lists, make_lists

FAMILY = ["ranknet", "arp-loss1", "arp-loss2", "ndcg-loss1", "ndcg-loss2", "ndcg-loss2++", "lambdarank"]
SOFTMAX = ["listnet", "listnet(target=softmax)", "xendcg(hessian=diagonal)", "xendcg(gamma=tight,hessian=exact)"]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(lists(), st.sampled_from([*FAMILY, *SOFTMAX]), st.sampled_from([None, 2]), st.sampled_from([0.5, 3.0]))
def test_no_slope_is_above_what_is_proven(data: Scored, text: str, k: int | None, sigma: float) -> None:
    scores, labels, offsets = data
    subject = loss(text, k=k, sigma=sigma) if text in FAMILY else loss(text)
    grad, _ = subject.bind(labels, offsets).gradients(scores)
    steepness = query_sums(np.abs(grad), offsets)
    proven = proven_constant(subject, Lists.of(labels, offsets, None))
    assert (steepness <= proven * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("kind", LABELS)
def test_the_papers_constants_are_never_passed(kind: str) -> None:
    _, labels, offsets = make_lists(0, "normal", kind)
    for text in ("lambdarank(k=none)", "lambdarank(k=none,sigma=3)", *SOFTMAX):
        found = lipschitz(text, labels, offsets, draws=3)
        assert (found.measured <= found.paper * (1 + 1e-9)).all()
        assert (found.measured <= found.proven * (1 + 1e-9)).all()


def test_cross_entropy_reaches_2() -> None:
    # All of the probability on a document without any of the target.
    found = lipschitz("xendcg(gamma=1)", [1, 0, 0], [0, 3])
    assert found.measured[0] == pytest.approx(2.0, abs=1e-6)
    # Where every document has some of the target it stays below.
    found = lipschitz("listnet", [1, 1], [0, 2])
    assert found.measured[0] == pytest.approx(1.0, abs=1e-6)


def test_ranknet_reaches_what_is_proven_with_binary_labels() -> None:
    # Upside down and far apart, every pair pulls with all its might, and no document both ways.
    found = lipschitz("ranknet(k=none)", [1, 0, 0, 1], [0, 4], draws=2)
    assert found.proven[0] == pytest.approx(2 / math.log(2) * 4)
    assert found.measured[0] == pytest.approx(found.proven[0], rel=1e-6)


def test_lambdarank_grows_with_the_list_and_cross_entropy_does_not() -> None:
    steep = {}
    for size in (10, 40):
        labels = (np.arange(size) < size // 5).astype(float)
        for text in ("lambdarank(k=none)", "xendcg(gamma=1,hessian=diagonal)"):
            steep[text, size] = lipschitz(text, labels, [0, size], draws=2).measured[0]
    assert steep["lambdarank(k=none)", 40] > 2.5 * steep["lambdarank(k=none)", 10]
    assert steep["xendcg(gamma=1,hessian=diagonal)", 40] == pytest.approx(2.0)
    # The paper's m^2 is far from what happens.
    assert steep["lambdarank(k=none)", 40] < 0.02 * 40**2 / math.log(2)


def test_the_derivative_of_a_direction_is_taken_by_differences() -> None:
    direction, derivative = (
        lipschitz(f"xendcg(gamma=0.5,hessian={hessian})", [2, 0, 1], [0, 3]) for hessian in ("neumann", "diagonal")
    )
    assert direction.measured[0] == pytest.approx(derivative.measured[0], rel=1e-6)


def test_the_secant_of_lambdarank_is_a_jump_and_that_of_cross_entropy_a_slope() -> None:
    scores, labels, offsets = [0.0, 0.0, -3.0], [0, 1, 2], [0, 3]
    narrow, wide = (steepest_secant("lambdarank(k=none)", scores, labels, offsets, width=w) for w in (1e-9, 1e-6))
    assert narrow[0] > 100 * wide[0] > 1e5
    for text in ("xendcg(gamma=1)", "ranknet(k=none)", "arp-loss2(k=none)"):
        proven = lipschitz(text, labels, offsets, draws=1).proven
        assert steepest_secant(text, scores, labels, offsets, width=1e-6)[0] <= proven[0]


def test_mse_has_no_constant() -> None:
    found = lipschitz("mse", [1, 0], [0, 2])
    assert found.proven[0] == math.inf
    assert np.isnan(found.paper[0])


def test_differences_of_a_quadratic_are_exact() -> None:
    offsets = np.array([0, 3, 3, 5])
    scores = np.arange(5.0)

    def function(s: np.ndarray) -> np.ndarray:
        return query_sums(s * s, offsets)

    np.testing.assert_allclose(differences(function, scores, offsets), 2 * scores, atol=1e-9)
    some = differences(function, scores, offsets, places=[1])
    assert np.isnan(some[[0, 2, 3]]).all()
    np.testing.assert_allclose(some[[1, 4]], 2 * scores[[1, 4]], atol=1e-9)


# Generalisation


def test_the_proof_of_theorem_2_gives_a_quarter_of_the_exponent() -> None:
    # McDiarmid's inequality is used at epsilon/2; the statement keeps epsilon.
    for epsilon, n, steep, covering in ((0.3, 500, 2.0, 1.0), (0.1, 10_000, 2.0, 3.0)):
        stated = generalisation_probability_as_stated(epsilon, n, steep, covering)
        proven = generalisation_probability(epsilon, n, steep, covering)
        assert 1 - stated == pytest.approx(2 * math.exp(covering - 2 * n * epsilon**2 / steep**2), rel=1e-9)
        assert 1 - proven == pytest.approx(min(1.0, 2 * math.exp(covering - n * epsilon**2 / (2 * steep**2))), rel=1e-9)
        assert proven <= stated
        assert generalisation_probability(2 * epsilon, n, steep, covering) == stated


def test_one_function_deviates_as_the_bound_allows() -> None:
    # Cross entropy of fixed scores in [0, 1] over random labels: the deviation of a mean from its expectation.
    rng = np.random.default_rng(0)
    n, repeats, m = 50, 400, 10
    scores = np.tile(rng.random(m), n * repeats)
    labels = rng.integers(0, 3, n * repeats * m).astype(float)
    labels[::m] = 1.0
    values = loss("listnet").bind(labels, np.arange(n * repeats + 1) * m).values(scores)
    deviations = values.mean() - values.reshape(repeats, n).mean(axis=1)
    for epsilon in (0.01, 0.05, 0.2, 0.6):
        assert (deviations <= epsilon).mean() >= generalisation_probability(epsilon, n, 2.0, 0.0)
    # A query changes the loss by less than the constant, whatever its labels: the assumption of the proof.
    assert np.ptp(values) < 2


def test_a_large_class_needs_a_wide_search() -> None:
    # Without queries to speak of the answer is many Lipschitz constants: 2 N exp(-epsilon^2 / 2) = 1 - confidence.
    error = generalisation_error(1, 1.0, lambda r: 1e4, confidence=0.5)
    assert math.log(4) + 1e4 == pytest.approx(error**2 / 2, rel=1e-9)


def test_generalisation_error_solves_the_bound() -> None:
    def covering(radius: float) -> float:
        return log_box_covering(radius, 5)

    for steep in (2.0, 50.0):
        epsilon = generalisation_error(2000, steep, covering, confidence=0.9)
        radius = epsilon / (4 * steep)
        # The covering number jumps with the radius; just above epsilon the bound holds.
        above = epsilon * (1 + 1e-9)
        assert generalisation_probability(above, 2000, steep, covering(above / (4 * steep))) >= 0.9 - 1e-6
        assert generalisation_probability(0.98 * epsilon, 2000, steep, covering(0.98 * radius)) < 0.9
    few, many = (generalisation_error(n, 2.0, covering) for n in (1000, 100_000))
    assert few > 5 * many


def test_covering_a_box() -> None:
    assert log_box_covering(0.5, 7) == 0.0
    assert log_box_covering(0.1, 2) == pytest.approx(2 * math.log(5))
    assert log_box_covering(0.3, 1) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: generalisation_probability(0, 1, 2.0, 0.0), "epsilon: found 0; expected a number above 0"),
        (
            lambda: generalisation_error(10, 2.0, lambda r: 0.0, 1.0),
            "confidence: found 1; expected a number above 0 and",
        ),
        (lambda: generalisation_error(10, 2.0, lambda r: math.inf), "log_covering: found inf; expected a number of at"),
        (lambda: generalisation_error(10, 2.0, lambda r: 1e9 * r * r), "log_covering: found a number that grows with"),
        (lambda: measured_constant(loss("mse"), Lists.of([1], [0, 1], None), 1, 0, (0.0,)), "scales: found (0.0,);"),
        (lambda: lipschitz("listnet", [1], [0, 1], draws=0), "draws: found 0; expected a whole number of at least 1"),
    ],
)
def test_bad_options_are_named(call: object, sentence: str) -> None:
    with pytest.raises(OptionError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(sentence)
