"""Lipschitz constants, measured against proven; the generalisation bound as stated and as
proven.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.losses import loss
from tautrank.metrics.ordering import query_sums
from tautrank.theory import generalisation_error, lipschitz, log_box_covering
from tautrank.theory.lipschitz import differences, proven_constant
from tests.theory_lists import LABELS, Scored, lists, make_lists

FAMILY = [
    "ranknet",
    "arp-loss1",
    "arp-loss2",
    "ndcg-loss1",
    "ndcg-loss2",
    "ndcg-loss2++",
    "lambdarank",
]
SOFTMAX = [
    "listnet",
    "listnet(target=softmax)",
    "xendcg(hessian=diagonal)",
    "xendcg(gamma=tight,hessian=exact)",
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    lists(),
    st.sampled_from([*FAMILY, *SOFTMAX]),
    st.sampled_from([None, 2]),
    st.sampled_from([0.5, 3.0]),
)
def test_no_slope_is_above_what_is_proven(
    data: Scored, text: str, k: int | None, sigma: float
) -> None:
    scores, lists = data
    subject = loss(text, k=k, sigma=sigma) if text in FAMILY else loss(text)
    grad, _ = subject.bind(lists).gradients(scores)
    steepness = query_sums(np.abs(grad), lists.offsets)
    proven = proven_constant(subject, lists)
    assert (steepness <= proven * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("kind", LABELS)
def test_the_papers_constants_are_never_passed(kind: str) -> None:
    _, lists = make_lists(0, "normal", kind)
    for text in ("lambdarank(k=none)", "lambdarank(k=none,sigma=3)", *SOFTMAX):
        constants = lipschitz(text, lists, draws=3)
        assert (constants.measured <= constants.paper * (1 + 1e-9)).all()
        assert (constants.measured <= constants.proven * (1 + 1e-9)).all()


def test_cross_entropy_reaches_2_and_ranknet_what_is_proven() -> None:
    # All of the probability on a document without any of the target.
    constants = lipschitz("xendcg(gamma=1)", [1, 0, 0])
    assert constants.measured[0] == pytest.approx(2.0, abs=1e-6)
    # Where every document has some of the target it stays below.
    constants = lipschitz("listnet", [1, 1])
    assert constants.measured[0] == pytest.approx(1.0, abs=1e-6)
    # RankNet with binary labels: upside down and far apart, every pair pulls fully, and no document
    # both ways.
    constants = lipschitz("ranknet(k=none)", [1, 0, 0, 1], draws=2)
    assert constants.proven[0] == pytest.approx(2 / math.log(2) * 4)
    assert constants.measured[0] == pytest.approx(constants.proven[0], rel=1e-6)
    constants = lipschitz("mse", [1, 0])
    assert constants.proven[0] == math.inf
    assert np.isnan(constants.paper[0])


def test_lambdarank_grows_with_the_list_and_cross_entropy_does_not() -> None:
    steep = {}
    for size in (10, 40):
        labels = (np.arange(size) < size // 5).astype(float)
        for text in ("lambdarank(k=none)", "xendcg(gamma=1,hessian=diagonal)"):
            steep[text, size] = lipschitz(text, labels, draws=2).measured[0]
    assert steep["lambdarank(k=none)", 40] > 2.5 * steep["lambdarank(k=none)", 10]
    assert steep["xendcg(gamma=1,hessian=diagonal)", 40] == pytest.approx(2.0)
    # The paper's m^2 is far from what happens.
    assert steep["lambdarank(k=none)", 40] < 0.02 * 40**2 / math.log(2)


def test_the_derivative_of_a_direction_is_taken_by_differences() -> None:
    direction, derivative = (
        lipschitz(f"xendcg(gamma=0.5,hessian={hessian})", [2, 0, 1])
        for hessian in ("neumann", "diagonal")
    )
    assert direction.measured[0] == pytest.approx(derivative.measured[0], rel=1e-6)


def test_lambdarank_jumps_where_documents_change_places() -> None:
    # So the whole loss has no constant; what is bounded is the loss with its weights held fixed.
    objective = loss("lambdarank(k=none)").bind([0, 1, 2], [0, 3])
    below, above = (objective.values([gap, 0.0, -3.0])[0] for gap in (-1e-9, 1e-9))
    assert abs(above - below) > 0.01


def test_differences_of_a_quadratic_are_exact() -> None:
    offsets = np.array([0, 3, 3, 5])
    scores = np.arange(5.0)

    def function(s: np.ndarray) -> np.ndarray:
        return query_sums(s * s, offsets)

    np.testing.assert_allclose(differences(function, scores, offsets), 2 * scores, atol=1e-9)
    second_of_each = differences(function, scores, offsets, places=[1])
    assert np.isnan(second_of_each[[0, 2, 3]]).all()
    np.testing.assert_allclose(second_of_each[[1, 4]], 2 * scores[[1, 4]], atol=1e-9)


# Generalisation


def test_the_error_solves_the_bound_with_the_proofs_exponent() -> None:
    # McDiarmid's inequality is used at epsilon/2, so the exponent is a quarter of the one that the
    # paper states.
    for steep, difference in ((2.0, None), (50.0, None), (2.0, 5.0)):
        error = generalisation_error(
            2000, steep, lambda radius: 3.0, confidence=0.9, difference=difference
        )
        assert 2 * math.exp(
            3.0 - 2000 * error**2 / (2 * (difference or steep) ** 2)
        ) == pytest.approx(0.1, rel=1e-6)
    # The covering number is taken at epsilon / (4 L).
    radii = []
    error = generalisation_error(2000, 2.0, lambda radius: radii.append(radius) or 3.0)
    assert radii[-1] == pytest.approx(error / 8.0, rel=1e-6)
    # Without queries to speak of the answer is many Lipschitz constants.
    assert generalisation_error(1, 1.0, lambda r: 1e4, confidence=0.5) ** 2 / 2 == pytest.approx(
        math.log(4) + 1e4
    )


def test_one_function_deviates_as_the_bound_allows() -> None:
    # Cross entropy of fixed scores in [0, 1] over random labels: the deviation of a mean from its
    # expectation.
    rng = np.random.default_rng(0)
    n, repeats, m = 50, 400, 10
    scores = np.tile(rng.random(m), n * repeats)
    labels = rng.integers(0, 3, n * repeats * m).astype(float)
    labels[::m] = 1.0
    values = loss("listnet").bind(labels, np.arange(n * repeats + 1) * m).values(scores)
    deviations = values.mean() - values.reshape(repeats, n).mean(axis=1)
    for confidence in (0.1, 0.5, 0.95):
        assert (
            deviations <= generalisation_error(n, 2.0, lambda r: 0.0, confidence)
        ).mean() >= confidence
    # A query changes the loss by less than the constant, whatever its labels: the assumption of the
    # proof.
    assert np.ptp(values) < 2


def test_covering_a_box() -> None:
    assert log_box_covering(0.5, 7) == 0.0
    assert log_box_covering(0.1, 2) == pytest.approx(2 * math.log(5))
    assert log_box_covering(0.3, 1) == pytest.approx(math.log(2))
