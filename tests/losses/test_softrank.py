"""SoftRank against its definition, written as the recursion over contests in the plainest way."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from tautrank.errors import OptionError
from tautrank.losses import SoftRank, StochasticRank, loss
from tautrank.losses import _softrank_kernel as kernel
from tautrank.losses.softrank import discount_powers, power_tables
from tautrank.metrics import NDCG, metric
from tautrank.metrics.gains import discount_values, gain_values

CHECK = ([0.0, 3.0, 1.0, 2.0], [0, 0, 1, 2])


def soft_ndcg(
    scores: np.ndarray,
    labels: np.ndarray,
    sigma: float,
    k: int | None = None,
    gain: str = "exp2",
    discount: str = "log2",
) -> float:
    by_rank = discount_values(scores.size, discount)
    by_rank[scores.size if k is None else k :] = 0.0
    return value_of_contests(contests(scores, sigma), gain_values(labels, gain), by_rank)


def contests(scores: np.ndarray, sigma: float) -> np.ndarray:
    """The chance that the document of the row stands above that of the column."""
    return (1 + special.erf((scores[:, np.newaxis] - scores) / (2 * sigma))) / 2


def value_of_contests(beaten: np.ndarray, gains: np.ndarray, by_rank: np.ndarray) -> float:
    n = gains.size
    total = 0.0
    for j in range(n):
        p = np.zeros(n + 1)
        p[0] = 1.0
        for m in range(n):
            if m != j:
                p[1:] = p[1:] * (1 - beaten[m, j]) + p[:-1] * beaten[m, j]
                p[0] *= 1 - beaten[m, j]
        total += gains[j] * (p[:n] @ by_rank)
    return total / (np.sort(gains)[::-1] @ by_rank)


def a_list(n: int, seed: int, relevant: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties, and labels with a share of relevant documents."""
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random(n) < relevant, rng.integers(1, 5, n), 0)
    labels[rng.integers(n)] = 2
    return rng.integers(-10, 10, n) / 4.0, labels


@pytest.mark.parametrize(
    ("sigma", "expected"), [(0.5, 0.67430413), (1.0, 0.69089171), (2.0, 0.68567990)]
)
@pytest.mark.parametrize("k", [None, 4, 10])
def test_check_values(sigma: float, expected: float, k: int | None) -> None:
    scores, labels = CHECK
    value = loss("softrank", k=k, sigma=sigma).bind(labels, [0, 4]).values(scores)[0]
    assert 1 - value == pytest.approx(expected, abs=5e-9)


def test_two_documents_in_closed_form() -> None:
    d, sigma = 0.75, 0.6
    lower = 1 / np.log2(3)
    wins = (1 + special.erf(d / (2 * sigma))) / 2
    slope = (1 - lower) * np.exp(-(d**2) / (4 * sigma**2)) / (2 * sigma * np.sqrt(np.pi))
    objective = loss("softrank", sigma=sigma).bind([1, 0], [0, 2])
    assert objective.values([d, 0.0])[0] == pytest.approx(1 - (wins + (1 - wins) * lower), rel=1e-9)
    grad, hess = objective.gradients([d, 0.0])
    np.testing.assert_allclose(grad, [-slope, slope], rtol=1e-8)
    np.testing.assert_allclose(hess, [slope / sigma, slope / sigma], rtol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 5, 15, 16, 17, 31, 32, 33, 48, 64, 65, 66, 97])
@pytest.mark.parametrize("k", [None, 1, 5, 6, 10, 70])
def test_values_and_gradients_follow_the_recursion_over_contests(n: int, k: int | None) -> None:
    # Sizes around blocks of 16 documents, groups of 5 ranks, segments of 32 contests and tables of
    # powers for 64.
    scores, labels = a_list(n, seed=n)
    for sigma in (0.2, 1.0):
        objective = loss("softrank", k=k, sigma=sigma).bind(labels, [0, n])
        assert objective.values(scores)[0] == pytest.approx(
            1 - soft_ndcg(scores, labels, sigma, k), abs=1e-11
        )
        grad, _ = objective.gradients(scores)
        for document in np.random.default_rng(n).choice(n, min(n, 3), replace=False):
            step = np.zeros(n)
            step[document] = 1e-5
            slope = (objective.values(scores + step)[0] - objective.values(scores - step)[0]) / 2e-5
            assert grad[document] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "text", ["gain=linear", "discount=reciprocal", "discount=reciprocal,k=3", "gain=linear,k=7"]
)
def test_gain_and_discount_are_those_of_the_metric(text: str) -> None:
    scores, labels = a_list(20, seed=3)
    subject = loss(f"softrank({text})")
    assert isinstance(subject, SoftRank)
    expected = soft_ndcg(scores, labels, 1.0, subject.k, str(subject.gain), str(subject.discount))
    assert 1 - subject.bind(labels, [0, 20]).values(scores)[0] == pytest.approx(expected, abs=1e-11)


def test_a_table_of_discounts_is_a_cutoff_of_its_own() -> None:
    scores, labels = a_list(30, seed=4)
    table = tuple(discount_values(7))
    objective = loss("softrank", discount=table).bind(labels, [0, 30])
    expected = loss("softrank", k=7).bind(labels, [0, 30])
    np.testing.assert_allclose(objective.gradients(scores), expected.gradients(scores), rtol=1e-12)
    assert objective.values(scores)[0] == pytest.approx(expected.values(scores)[0], rel=1e-12)


def test_soft_ndcg_may_exceed_1() -> None:
    # Each of four equal documents has the rank of three coins: the four together fill the first
    # three ranks more than once, which no ranking does.
    discount = discount_values(3)
    expected = 4 * (discount @ np.array([1, 3, 3]) / 8) / discount.sum()
    value = loss("softrank", k=3).bind([2, 2, 2, 2], [0, 4]).values(np.zeros(4))[0]
    assert expected > 1.03
    assert value == pytest.approx(1 - expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 4)), min_size=1, max_size=40),
    st.sampled_from([None, 1, 3, 10]),
    st.sampled_from([0.1, 0.7, 3.0]),
)
def test_gradients_are_bounded_by_sigma_times_the_curvature(
    documents: list[tuple[int, int]], k: int | None, sigma: float
) -> None:
    scores, labels = np.array(documents, dtype=np.float64).T
    objective = loss("softrank", k=k, sigma=sigma).bind(labels, [0, scores.size])
    assert objective.values(scores)[0] <= 1 + 1e-12
    for kind, room in ((np.float64, 1e-12), (np.float32, 1e-6)):
        grad, hess = objective.gradients(scores.astype(kind))
        assert (np.abs(grad) <= sigma * hess * (1 + room) + room).all()


def test_the_curvature_sets_both_sides_of_a_contest_off_against_each_other() -> None:
    # Where only the difference of a pair matters, w_im is what the gradient itself is made of: move
    # the two alone.
    scores, labels = a_list(9, seed=6)
    sigma, n = 0.8, 9
    pairs = np.zeros((n, n))

    def value(of: np.ndarray) -> float:
        return value_of_contests(of, gain_values(labels), discount_values(n))

    chances = contests(scores, sigma)
    for i in range(n):
        for m in range(n):
            if i != m:
                step = np.zeros((n, n))
                step[i, m], step[m, i] = 1e-5, -1e-5
                pairs[i, m] = (value(chances + step) - value(chances - step)) / 2e-5
    density = np.exp(-((scores[:, np.newaxis] - scores) ** 2) / (4 * sigma**2)) / (
        2 * sigma * np.sqrt(np.pi)
    )
    grad, hess = loss("softrank", sigma=sigma).bind(labels, [0, n]).gradients(scores)
    np.testing.assert_allclose(grad, -(pairs * density).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(hess, (np.abs(pairs) * density).sum(axis=1) / sigma, atol=1e-9)


def test_plain_hessians_are_the_weights() -> None:
    scores, labels = a_list(12, seed=8)
    labels[8:] = 0
    subject = loss("softrank", scale="plain")
    grad, hess = subject.bind(labels, [0, 8, 12], weights=[0.5, 2.0]).gradients(scores)
    np.testing.assert_array_equal(hess, [0.5] * 8 + [0.0] * 4)
    np.testing.assert_array_equal(
        grad, loss("softrank").bind(labels, [0, 8, 12], weights=[0.5, 2]).gradients(scores)[0]
    )


def test_a_query_whose_labels_have_no_gain_counts_nothing() -> None:
    objective = loss("softrank", gain=(0, 0, 1)).bind([1, 1, 0], [0, 3])
    assert objective.values([1.0, 2.0, 3.0])[0] == 0
    assert not np.any(objective.gradients([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("k", [None, 3, 10])
def test_without_noise_it_is_the_metric(k: int | None) -> None:
    _, labels = a_list(40, seed=9)
    scores = np.random.default_rng(9).permutation(40) * 0.1  # no ties
    ndcg = NDCG(k=k).mean(scores, labels, [0, 40])
    gaps = [
        abs(1 - loss("softrank", k=k, sigma=sigma).bind(labels, [0, 40]).values(scores)[0] - ndcg)
        for sigma in (0.5, 0.1, 0.02, 0.005)
    ]
    assert gaps[0] > 1e-3
    assert gaps[-1] < 1e-9


def test_it_is_near_the_expected_metric_and_not_the_same() -> None:
    # The contests of a document share its score; SoftRank takes them as independent.
    scores, labels = CHECK
    draws = 200_000
    differences, errors = [], []
    for sigma in (0.5, 1.0, 2.0):
        noisy = np.array(scores) + sigma * np.random.default_rng(2).standard_normal((draws, 4))
        sampled = metric("ndcg").per_query(
            noisy.ravel(), np.tile(labels, draws), np.arange(draws + 1) * 4
        )
        soft = 1 - loss("softrank", sigma=sigma).bind(labels, [0, 4]).values(scores)[0]
        differences.append(abs(soft - sampled.mean()))
        errors.append(sampled.std() / np.sqrt(draws))
    assert max(np.array(differences) / errors) > 5
    assert max(differences) < 0.05


def test_equal_scores_leave_a_cutoff_without_a_gradient() -> None:
    # Every rank is Binomial(119, 1/2), seldom below 30: what the documentation of `k` warns of.
    labels = np.arange(120) % 3
    full, _ = loss("softrank").bind(labels, [0, 120]).gradients(np.zeros(120, np.float32))
    cut, _ = loss("softrank", k=10).bind(labels, [0, 120]).gradients(np.zeros(120, np.float32))
    assert (full[labels == 2] < -1e-5).all()
    assert (full[labels == 0] > 1e-5).all()
    assert np.abs(cut).max() < 1e-15


@pytest.mark.parametrize("k", [None, 4, 10, 50])
@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0, 1000.0])
def test_float32_lanes_agree_with_float64(k: int | None, spread: float) -> None:
    rng = np.random.default_rng(7)
    sizes = np.array([130, 3, 300, 41])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.choice(5, sizes.sum(), p=[0.5, 0.3, 0.1, 0.05, 0.05])
    scores = (spread * rng.standard_normal(sizes.sum())).astype(np.float32)
    objective = loss("softrank", k=k).bind(labels, offsets)
    for narrow, wide in zip(
        objective.gradients(scores), objective.gradients(scores.astype(np.float64)), strict=True
    ):
        np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=1e-6)


def test_the_probabilities_of_float32_lanes_are_as_good_as_float32_can_say() -> None:
    sigma = 0.7
    all_scores = np.linspace(-7.0, 7.0, kernel.LANES * 500, dtype=np.float32).reshape(
        -1, kernel.LANES
    )
    opponents = np.array([0.1, -0.4], dtype=np.float32)
    nowhere = np.full(kernel.LANES, -1, dtype=np.int32)
    for scores in all_scores:
        beaten, density = np.empty((2, 2 * kernel.LANES), dtype=np.float32)
        kernel.contests(
            kernel.Block(
                opponents, scores, nowhere, sigma, False, 0.0, beaten, density, *[opponents] * 5
            ),
            0,
            2,
        )
        x = ((opponents[:, np.newaxis].astype(np.float64) - scores) / (2 * sigma)).ravel()
        np.testing.assert_allclose(beaten, special.erfc(-x) / 2, rtol=0, atol=2.5e-7)
        height = 1 / (2 * sigma * np.sqrt(np.pi))
        np.testing.assert_allclose(density, height * np.exp(-x * x), rtol=4e-6, atol=2e-11)
        assert (beaten >= 0).all()
        assert (beaten <= 1).all()


@pytest.mark.parametrize("discount", ["log2", "reciprocal"])
@pytest.mark.parametrize("tolerance", [2e-6, 1e-9])
def test_a_discount_is_a_sum_of_powers(discount: str, tolerance: float) -> None:
    for n in (64, 256, 1024, 4096):
        gaps, coefficients = discount_powers(n, discount, tolerance, 4)
        assert gaps.size % 4 == 0
        assert gaps.size <= 36
        by_rank = discount_values(n + 1, discount)
        powers = (1 - gaps) ** np.arange(n + 1)[:, np.newaxis] @ coefficients
        np.testing.assert_allclose(powers[:n], by_rank[:n], rtol=tolerance)
        np.testing.assert_allclose(
            np.diff(powers), np.diff(by_rank), rtol=1.5 * tolerance, atol=1e-14
        )


@pytest.mark.parametrize(("n", "terms"), [(64, 12), (256, 12), (1024, 16)])
def test_few_fitted_powers_do_for_float32(n: int, terms: int) -> None:
    gaps, coefficients = discount_powers(n, "log2", 2e-6, 4)
    assert gaps.size == terms
    assert (coefficients > 0).all()  # as in the mixture that they stand for: nothing cancels


def test_powers_depend_on_the_length_of_the_own_list_alone() -> None:
    short = power_tables(100, "log2", 1e-6, 4)
    long = power_tables(5000, "log2", 1e-6, 4)
    for row in range(2):
        terms = short[2][row]
        assert long[2][row] == terms
        np.testing.assert_array_equal(short[0][row, :terms], long[0][row, :terms])
        np.testing.assert_array_equal(short[1][row, :terms], long[1][row, :terms])


@pytest.mark.parametrize("k", [None, 10])
def test_many_documents_with_a_gain_keep_the_gradient_and_the_bound(k: int | None) -> None:
    # Beyond the size of the table of contests their two sides are added up instead of set off.
    n = kernel.MOST_NET + 40
    rng = np.random.default_rng(5)
    scores = (2.0 * rng.standard_normal(n)).astype(np.float32)
    labels = rng.integers(1, 5, n)
    objective = loss("softrank", k=k, sigma=0.3).bind(labels, [0, n])
    grad, hess = objective.gradients(scores)
    assert (np.abs(grad) <= 0.3 * hess * (1 + 1e-5) + 1e-9).all()
    wide, _ = objective.gradients(scores.astype(np.float64))
    np.testing.assert_allclose(grad, wide, rtol=1e-4, atol=1e-6)
    assert abs(wide.sum()) < 1e-9


LONG_LIST = """
import resource
import numpy as np
from tautrank.losses import loss

n = 50_000
rng = np.random.default_rng(1)
labels = np.zeros(n)
labels[rng.choice(n, 60, replace=False)] = rng.integers(1, 5, 60)
scores = (labels + rng.standard_normal(n)).astype(np.float32)
for k in (None, 10):
    subject = loss("softrank", k=k, sigma=0.1)
    subject.bind(labels[:9] + 1, [0, 9]).gradients(scores[:9])
    objective = subject.bind(labels, [0, n], n_jobs=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grad, hess = objective.gradients(scores)
    assert np.isfinite(grad).all() and np.isfinite(hess).all() and (grad != 0).any()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss differs")
def test_long_lists_take_little_memory() -> None:
    # Three arrays of 16 float32 a document for the contests of a block are 10 MB; n^2 would be 10
    # GB.
    grown = subprocess.run(
        [sys.executable, "-c", LONG_LIST], check=True, capture_output=True, text=True
    ).stdout.split()
    assert len(grown) == 2
    assert all(int(kilobytes) < 40_000 for kilobytes in grown)


@pytest.mark.parametrize("k", [None, 3])
def test_sampling_is_stochasticrank_without_its_shift_and_acceleration(k: int | None) -> None:
    scores, labels = a_list(20, seed=10)
    subject = loss("softrank", k=k, sigma=0.7, estimator="ccs", samples=3)
    assert subject.is_random
    assert not subject.gradient_is_derivative
    objective = subject.bind(labels, [0, 12, 20], weights=[2.0, 1.0], seed=4)
    stochasticrank = StochasticRank(metric=NDCG(k=k), sigma=0.7, mu=0.0, sfa=False, samples=3).bind(
        labels, [0, 12, 20], weights=[2.0, 1.0], seed=4
    )
    for mine, theirs in zip(
        objective.gradients(scores, 2), stochasticrank.gradients(scores, 2), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(
        objective.values(scores, 2),
        np.array([2.0, 1.0]) + stochasticrank.values(scores, 2),
        rtol=1e-12,
    )


def test_sampled_values_are_one_minus_the_metric_and_0_without_a_relevant_document() -> None:
    objective = loss("softrank", estimator="ccs", samples=500).bind([0, 0, 1, 2, 0, 0], [0, 4, 6])
    values = objective.values([*CHECK[0], 1.0, 2.0])
    noisy = np.array(CHECK[0]) + np.random.default_rng(1).standard_normal((20_000, 4))
    sampled = metric("ndcg").per_query(
        noisy.ravel(), np.tile(CHECK[1], 20_000), np.arange(20_001) * 4
    )
    assert values[0] == pytest.approx(1 - sampled.mean(), abs=5 * sampled.std() / np.sqrt(500))
    assert values[1] == 0


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"sigma": 0}, "sigma: found 0; expected a number above 0"),
        ({"k": 0}, "k: found 0; expected a whole number of at least 1"),
        ({"samples": 0}, "samples: found 0; expected a whole number of at least 1"),
        ({"estimator": "exat"}, "unknown estimator 'exat'; did you mean 'exact'?"),
        ({"scale": "curved"}, "unknown scale 'curved'"),
        ({"gain": "exp"}, "unknown gain 'exp'; did you mean 'exp2'?"),
        ({"discount": []}, "discount: found an empty table"),
    ],
)
def test_bad_parameters_are_one_clear_sentence(
    parameters: dict[str, object], sentence: str
) -> None:
    with pytest.raises(OptionError, match=sentence.replace("?", r"\?")):
        loss("softrank", **parameters)


@pytest.mark.parametrize(
    "text",
    ["softrank", "softrank(k=10,sigma=0.5)", "softrank(estimator=ccs,samples=4,scale=plain)"],
)
def test_what_is_printed_parses_back(text: str) -> None:
    assert str(loss(text)) == text
    assert loss(str(loss(text))) == loss(text)
