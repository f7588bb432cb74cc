"""The softmax family against formulas written with matrices, and its tight gamma against a linear
programme.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, special

from tautrank.errors import DataError
from tautrank.kernels.randomness import fill_uniform
from tautrank.kernels.streams import GAMMA_STREAM
from tautrank.losses import ListNet, loss

pytestmark = pytest.mark.uncompiled

LABELS = np.array([0.0, 3.0, 1.0, 0.0, 2.0, 1.0])
SCORES = np.array([0.5, -0.25, 1.5, 0.0, 0.25, -2.0])


def uniform_gamma(n: int, seed: int, step: int, query: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_uniform(out, np.uint64(seed), step, query, GAMMA_STREAM)
    return out


def expected(scores: np.ndarray, phi: np.ndarray, hessian: str) -> tuple[np.ndarray, np.ndarray]:
    rho = special.softmax(scores)
    if hessian == "exact":
        return rho - phi, rho
    diagonal = rho * (1 - rho)
    if hessian == "diagonal":
        return rho - phi, diagonal
    s = rho[np.newaxis, :] / (1 - rho[:, np.newaxis])
    np.fill_diagonal(s, 0.0)
    series = np.eye(rho.size) + s + s @ s
    return diagonal * (series @ ((rho - phi) / diagonal)), diagonal


@pytest.mark.parametrize("hessian", ["diagonal", "neumann", "exact"])
@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("listnet", LABELS),
        ("listnet(target=softmax)", np.exp(LABELS)),
        ("xendcg(gamma=0.25)", 2**LABELS - 0.25),
        ("xendcg(gamma=0)", 2**LABELS),
        ("xendcg(gamma=1)", 2**LABELS - 1),
        ("xendcg", 2**LABELS - uniform_gamma(6, seed=3, step=5)),
    ],
)
def test_it_is_what_the_papers_say(text: str, target: np.ndarray, hessian: str) -> None:
    name, _, options = text.rstrip(")").partition("(")
    subject = loss(f"{name}({options + ',' if options else ''}hessian={hessian})")
    objective = subject.bind(LABELS, [0, 6], seed=3)
    phi = target / target.sum()
    for kind, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        grad, hess = objective.gradients(SCORES.astype(kind), 5)
        for got, want in zip((grad, hess), expected(SCORES, phi, hessian), strict=True):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    assert objective.values(SCORES, 5)[0] == pytest.approx(
        -phi @ special.log_softmax(SCORES), rel=1e-12
    )


def test_the_exact_newton_step_differs_from_the_full_one_by_a_constant() -> None:
    # H + eps 11' is invertible; its Newton step is 1 - phi/rho up to a constant per query.
    grad, hess = loss("xendcg", gamma=0.5, hessian="exact").bind(LABELS, [0, 6]).gradients(SCORES)
    rho = special.softmax(SCORES)
    full = np.linalg.pinv(np.diag(rho) - np.outer(rho, rho)) @ grad
    assert np.ptp(grad / hess - full) < 1e-10


@pytest.mark.parametrize("lead", [20.0, 40.0, 1e3, 1e6])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_neumann_stays_finite_as_one_document_takes_all(lead: float, kind: type) -> None:
    scores = np.array([0.0, lead, -0.5, 0.25], dtype=kind)
    labels = np.array([1.0, 0.0, 2.0, 0.0])
    grad, hess = loss("xendcg", gamma=0.5).bind(labels, [0, 4]).gradients(scores)
    phi = 2**labels - 0.5
    phi /= phi.sum()
    # The limit: the others see a softmax among themselves, q, and all their rho vanish.
    q = special.softmax([0.0, -0.5, 0.25])
    losers = np.array([0, 2, 3])
    first = 1 - phi[1]
    second = -phi[losers].sum()
    np.testing.assert_allclose(
        grad[losers], -phi[losers] + q * first + q * second, rtol=1e-5, atol=1e-6
    )
    assert grad[1] == pytest.approx(first + second + (q * first).sum(), abs=1e-5)
    assert np.isfinite(hess).all()
    assert (hess >= 0).all()


def lowest(scores: np.ndarray, base: np.ndarray) -> float:
    """The smallest mean cost over all gammas, by the Charnes-Cooper linear programme."""
    cost = -special.log_softmax(scores)
    n = scores.size
    # Variables t (scaled targets) and z (the scale): sum t = 1, base z <= t <= (base + 1) z.
    over = np.hstack((np.eye(n), -(base + 1)[:, np.newaxis]))
    under = np.hstack((-np.eye(n), base[:, np.newaxis]))
    result = optimize.linprog(
        np.append(cost, 0.0),
        A_ub=np.vstack((over, under)),
        b_ub=np.zeros(2 * n),
        A_eq=[[1.0] * n + [0.0]],
        b_eq=[1.0],
    )
    return float(result.fun)


@pytest.mark.parametrize("n", [2, 5, 30, 300])
def test_tight_gamma_is_the_minimum(n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(5):
        scores = rng.normal(size=n) * rng.choice([0.1, 1.0, 5.0])
        labels = rng.choice(4, n, p=[0.6, 0.2, 0.1, 0.1]).astype(float)
        labels[0] = 1.0
        tight = loss("xendcg", gamma="tight").bind(labels, [0, n]).values(scores)[0]
        assert tight == pytest.approx(lowest(scores, 2**labels - 1), rel=1e-8)
        for gamma in (0.0, 0.3, 1.0, "uniform"):
            assert (
                tight <= loss("xendcg", gamma=gamma).bind(labels, [0, n]).values(scores)[0] + 1e-12
            )


def test_tight_gamma_against_every_corner() -> None:
    scores, labels = np.array([0.3, -1.0, 0.8, 0.1]), np.array([0.0, 2.0, 0.0, 1.0])
    cost = -special.log_softmax(scores)
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    targets = 2**labels - corners
    best = (targets @ cost / targets.sum(axis=1)).min()
    assert loss("xendcg", gamma="tight").bind(labels, [0, 4]).values(scores)[0] == pytest.approx(
        best, rel=1e-14
    )


def test_tight_gamma_with_equal_scores_treats_equal_documents_alike() -> None:
    grad, _ = (
        loss("xendcg", gamma="tight", hessian="diagonal")
        .bind([0, 1, 0, 1], [0, 4])
        .gradients(np.zeros(4))
    )
    assert grad[0] == grad[2]
    assert grad[1] == grad[3]


def test_gammas_are_fresh_for_every_step_and_query() -> None:
    objective = loss("xendcg", hessian="diagonal").bind(np.tile(LABELS, 2), [0, 6, 12])
    scores = np.tile(SCORES, 2)
    first, second = objective.gradients(scores, 0)[0], objective.gradients(scores, 1)[0]
    assert not np.isclose(first, second).any()
    assert not np.isclose(first[:6], first[6:]).any()


SEEN = np.array([1.0, 0.5, 0.25, 0.1, 0.9, 1e-3])


@pytest.mark.parametrize(
    ("text", "earned", "rest"),
    [
        ("listnet", LABELS, 0.0),
        ("listnet(target=softmax)", np.exp(LABELS) - 1, 1.0),
        ("xendcg(gamma=0.25,hessian=diagonal)", 2**LABELS - 1, 0.75),
        ("xendcg(hessian=diagonal)", 2**LABELS - 1, 1 - uniform_gamma(6, seed=0, step=0)),
    ],
)
def test_propensities_divide_what_a_label_earns(
    text: str, earned: np.ndarray, rest: np.ndarray
) -> None:
    # A second query, with one label of 3: the constant is the mean of what the labels of both earn.
    earned_by_second_query = {"listnet": 3.0, "listnet(target=softmax)": np.exp(3) - 1}.get(
        text, 7.0
    )
    objective = loss(text).bind([*LABELS, 3, 0], [0, 6, 8], propensities=[*SEEN, 0.5, 0.5])
    rho, t = special.softmax(SCORES), earned / SEEN + rest
    constant = (earned.sum() + earned_by_second_query) / 2
    grad, hess = objective.gradients([*SCORES, 0, 0])
    np.testing.assert_allclose(grad[:6], (t.sum() * rho - t) / constant, rtol=1e-12)
    np.testing.assert_allclose(hess[:6], t.sum() * rho * (1 - rho) / constant, rtol=1e-12)
    assert objective.values([*SCORES, 0, 0])[0] == pytest.approx(
        -(t * np.log(rho)).sum() / constant, rel=1e-12
    )


def test_tight_gamma_with_propensities_is_the_minimum() -> None:
    earned = (2**LABELS - 1) / SEEN
    cost = -special.log_softmax(SCORES)
    threshold = np.argmin(
        [(earned @ cost + cost[cost <= c].sum()) / (earned.sum() + (cost <= c).sum()) for c in cost]
    )
    t = earned + (cost <= cost[threshold])
    assert t @ cost / t.sum() == pytest.approx(lowest(SCORES, earned), rel=1e-8)
    value = loss("xendcg", gamma="tight").bind(LABELS, [0, 6], propensities=SEEN).values(SCORES)[0]
    assert value == pytest.approx(t @ cost / (2**LABELS - 1).sum(), rel=1e-8)


def test_labels_that_overflow_as_gains_keep_their_ratios() -> None:
    for text, base in (("xendcg(gamma=1)", 2.0), ("listnet(target=softmax)", np.e)):
        weight = (
            loss(text)
            .bind([2000, 0, 1998, 0], [0, 2, 4], propensities=[0.5, 1, 0.25, 1])
            .values(np.zeros(4))
        )
        assert weight == pytest.approx(
            2 * np.log(2) / (1 + base**-2) * np.array([2.0, 4 * base**-2]), rel=1e-12
        )


def test_without_any_click_only_shares_without_a_label_are_left() -> None:
    for text, share in (
        ("listnet", 0.0),
        ("xendcg(gamma=1)", 0.0),
        ("xendcg(gamma=tight)", 0.0),
        ("xendcg(gamma=0)", 1.0),
    ):
        objective = loss(text).bind(np.zeros(2), [0, 2], propensities=[0.5, 0.5])
        assert objective.values([0.0, 0.0])[0] == pytest.approx(share * 2 * np.log(2))
        assert not np.isnan(objective.gradients([0.0, 9.0])).any()
    assert (
        loss("xendcg(gamma=0)").bind(np.zeros(2), [0, 2]).values([0.0, 0.0]) == 0
    )  # an empty query, not clicks


def patterns(relevance: np.ndarray, propensities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every set of documents that a user may look at: the labels they leave, and the
    probability.
    """
    is_examined = np.array(list(itertools.product([False, True], repeat=relevance.size)))
    return is_examined * relevance, np.where(is_examined, propensities, 1 - propensities).prod(
        axis=1
    )


EXPECTED = ["listnet", "listnet(target=softmax)", "xendcg", "xendcg(gamma=1)", "xendcg(gamma=0.3)"]


@pytest.mark.parametrize("hessian", ["diagonal", "neumann", "exact"])
@pytest.mark.parametrize(
    "relevance", [[1, 0, 1, 0, 1], [0, 0, 0, 1, 0], [2, 0, 1, 3, 0], [0, 0, 0, 0, 0]], ids=str
)
@pytest.mark.parametrize("name", EXPECTED)
def test_expected_over_clicks_is_the_gradient_of_the_relevance(
    name: str, relevance: list[float], hessian: str
) -> None:
    rng = np.random.default_rng(5)
    y, subject = np.array(relevance, float), loss(name, hessian=hessian)
    for propensities in (rng.uniform(1e-3, 1, 5), 1 / np.arange(1, 6), np.full(5, 0.01)):
        scores = rng.normal(size=5) * 2
        expectation = np.zeros((2, 5))
        value = 0.0
        for labels, chance in zip(*patterns(y, propensities), strict=True):
            # A second list fixes the mean of what labels earn in all patterns: its own label makes
            # up for the others.
            spare = _rest(name, labels)
            objective = subject.bind(
                [*labels, spare, 0], [0, 5, 7], propensities=[*propensities, 1, 1]
            )
            expectation += chance * np.array(objective.gradients([*scores, 0, 0], step=3))[:, :5]
            value += chance * objective.values([*scores, 0, 0], step=3)[0]
        truth = subject.bind([*y, _rest(name, y), 0], [0, 5, 7], propensities=np.ones(7))
        np.testing.assert_allclose(
            expectation, np.array(truth.gradients([*scores, 0, 0], step=3))[:, :5], atol=1e-10
        )
        assert value == pytest.approx(truth.values([*scores, 0, 0], step=3)[0], abs=1e-10)
        if y.any():
            # And up to the weight of a query it is the gradient of the loss without propensities.
            plain = subject.bind(y, [0, 5]).gradients(scores, step=3)[0]
            np.testing.assert_allclose(
                expectation[0] / np.abs(expectation[0]).sum(),
                plain / np.abs(plain).sum(),
                atol=1e-10,
            )


def _rest(name: str, labels: np.ndarray) -> float:
    """The label that earns what is missing from 100 in all."""
    if name == "listnet":
        return float(100 - labels.sum())
    power = np.exp if "softmax" in name else np.exp2
    left = 101 - (power(labels) - 1).sum()
    return float(np.log(left) if "softmax" in name else np.log2(left))


@pytest.mark.parametrize("name", ["listnet", "xendcg(hessian=diagonal)"])
def test_equally_relevant_documents_end_at_equal_scores(name: str) -> None:
    # Examined with probability 1 and .2: every click pattern a list, as often as it happens.
    propensities = np.array([1.0, 0.2, 0.5])
    labels, chance = patterns(np.array([1.0, 1.0, 0.0]), propensities)
    lists = (labels.ravel(), np.arange(0, labels.size + 1, 3), chance)

    def end(**told: np.ndarray) -> np.ndarray:
        objective, scores = loss(name).bind(*lists, **told), np.zeros(3)
        for step in range(3000):
            grad = (
                objective.gradients(np.tile(scores, len(labels)), step)[0]
                .reshape(-1, 3)
                .sum(axis=0)
            )
            scores -= (2 if name == "listnet" else 50 / (50 + step)) * grad
        return scores

    corrected, plain = end(propensities=np.tile(propensities, len(labels))), end()
    assert abs(corrected[0] - corrected[1]) < (1e-6 if name == "listnet" else 0.05)
    assert corrected[0] > corrected[2] + 0.5
    assert plain[0] > plain[1] + 0.5


def test_propensities_of_1_and_equal_sums_change_nothing() -> None:
    plain = ListNet().bind(LABELS, [0, 6]).gradients(SCORES)
    for a, b in zip(
        ListNet().bind(LABELS, [0, 6], propensities=np.ones(6)).gradients(SCORES),
        plain,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("propensities", "sentence"),
    [
        (
            [1, 1, 1, 0, 1, 1],
            "propensities[3] (query 1, document 1): found 0; expected a number above 0 and at most 1",
        ),
        (
            [1, 1, 1, 1, 1, 1.5],
            "propensities[5] (query 1, document 3): found 1.5; expected a number above 0 and at most 1",
        ),
        ([1, np.nan, 1, 1, 1, 1], "propensities[1] (query 0, document 1): found nan; expected"),
        ([1, 1], "propensities: found length 2; expected 6, one per document"),
    ],
)
def test_bad_propensities_are_named(propensities: list[float], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        ListNet().bind(LABELS, [0, 2, 6], propensities=propensities)
    assert str(caught.value).startswith(sentence)
