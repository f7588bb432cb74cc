"""Tests of the significance tests: closed forms, SciPy, and their error rates when nothing is there
to find."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from tautrank.errors import DataError, OptionError
from tautrank.significance import paired as S

ALTERNATIVES = ["two-sided", "greater", "less"]
OPPOSITE = {"two-sided": "two-sided", "greater": "less", "less": "greater"}
PAIRED = [
    S.paired_t_test,
    lambda a, b, **options: S.randomisation_test(a, b, resamples=200, **options),
]

# Dyadic values: their sums and differences are exact in binary, so laws hold to the last bit.
dyadic = st.integers(-64, 64).map(lambda i: i / 64)
pairs = st.lists(st.tuples(dyadic, dyadic), min_size=2, max_size=24).map(
    lambda v: np.array(v, dtype=float).T
)


@pytest.fixture(autouse=True)
def _no_warnings():
    """Nothing in this module may warn: degenerate data are handled, not divided by."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def systems(n: int, gap: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.beta(2, 2, n)
    return a, np.clip(a + rng.normal(gap, 0.1, n), 0, 1)


# --- paired t-test ---


def test_t_test_closed_form():
    # d = (1, 2, 3): mean 2, variance 1, t = 2 / sqrt(1/3) = 2 sqrt 3. With 2 degrees of freedom the
    # distribution function is 1/2 + t / (2 sqrt(2 + t^2)), and t^2 = 12, so the upper tail is 1/2 -
    # sqrt(12/14) / 2.
    upper = 0.5 - math.sqrt(12 / 14) / 2
    for alternative, p in [("two-sided", 2 * upper), ("greater", upper), ("less", 1 - upper)]:
        result = S.paired_t_test([2, 4, 6], [1, 2, 3], alternative)
        assert result.statistic == pytest.approx(2 * math.sqrt(3), rel=1e-14)
        assert result.p_value == pytest.approx(p, rel=1e-12)
        assert (result.difference, result.n, result.alternative) == (2.0, 3, alternative)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n", [2, 3, 30, 800])
def test_t_test_agrees_with_scipy(n, alternative):
    a, b = systems(n, 0.01, seed=n)
    expected = scipy.stats.ttest_rel(a, b, alternative=alternative)
    result = S.paired_t_test(a, b, alternative)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-10)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("test", [S.paired_t_test, S.randomisation_test])
def test_equal_systems_give_p_one(test, alternative):
    a = np.linspace(0.1, 0.9, 50)
    result = test(a, a, alternative=alternative)
    assert (result.statistic, result.p_value, result.difference, result.n) == (0.0, 1.0, 0.0, 50)


def test_constant_difference_is_an_infinite_t():
    # No variation between queries: the t-test is certain, and says so without a warning or NaN.
    b = np.arange(8) / 8
    assert S.paired_t_test(b + 0.5, b).statistic == math.inf
    assert S.paired_t_test(b + 0.5, b).p_value == 0.0
    assert S.paired_t_test(b, b + 0.5).statistic == -math.inf
    assert S.paired_t_test(b, b + 0.5, "greater").p_value == 1.0
    assert S.paired_t_test(b, b + 0.5, "less").p_value == 0.0
    # The randomisation test is not: 8 equal wins out of 8 happen by chance with probability 2 /
    # 2^8.
    assert S.randomisation_test(b + 0.5, b).p_value == 2 / 2**8
    # 0.1 is not a binary fraction, so these differences vary in their last bits.
    assert S.paired_t_test(b + 0.1, b).p_value < 1e-60


# --- randomisation test ---


def brute_force(d: np.ndarray, alternative: str) -> float:
    sums = [
        sum(s * x for s, x in zip(signs, d, strict=True))
        for signs in itertools.product((1, -1), repeat=d.size)
    ]
    observed = d.sum()
    extreme = {
        "two-sided": [abs(t) >= abs(observed) for t in sums],
        "greater": [t >= observed for t in sums],
        "less": [t <= observed for t in sums],
    }
    return float(np.mean(extreme[alternative]))


@given(pairs.filter(lambda ab: ab.shape[1] <= 9), st.sampled_from(ALTERNATIVES))
@settings(max_examples=60, deadline=None)
def test_exact_randomisation_agrees_with_brute_force(ab, alternative):
    a, b = ab
    assert S.randomisation_test(a, b, alternative=alternative).p_value == brute_force(
        a - b, alternative
    )


def test_exact_randomisation_by_hand():
    # d = (3, 2, 1, -1): sum 5. Of the 16 assignments the sums 7 (+++ +), 5 (+++ - and ++- +) reach
    # 5.
    result = S.randomisation_test([3, 2, 1, 0], [0, 0, 0, 1], alternative="greater")
    assert result.p_value == 3 / 16
    assert result.test == "randomisation test (exact)"
    assert S.randomisation_test([3, 2, 1, 0], [0, 0, 0, 1]).p_value == 6 / 16
    assert S.randomisation_test([3, 2, 1, 0], [0, 0, 0, 1], alternative="less").p_value == 15 / 16


def test_sums_that_differ_by_rounding_are_ties():
    # 0.1 + 0.2 != 0.3 in binary; (0.1, 0.2, -0.3) sums to 0 in any order, so every assignment is as
    # extreme.
    a, b = [0.1, 0.2, 0.0], [0.0, 0.0, 0.3]
    assert S.randomisation_test(a, b).p_value == 1.0
    # The eight sums are +-.6, +-.4, +-.2 and 0 twice: five are at least 0, whichever way the last
    # bit rounds.
    assert S.randomisation_test(a, b, alternative="greater").p_value == 5 / 8
    assert S.randomisation_test(b, a, alternative="greater").p_value == 5 / 8
    assert S.randomisation_test(a, b, alternative="less").p_value == 5 / 8
    assert S.randomisation_test(b, a, alternative="less").p_value == 5 / 8


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_exact_randomisation_agrees_with_scipy(alternative):
    a, b = systems(12, 0.03, seed=3)
    expected = scipy.stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
        alternative=alternative,
    )
    result = S.randomisation_test(a, b, alternative=alternative)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-12)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_sampled_randomisation_agrees_with_scipy_and_the_t_test(alternative):
    a, b = systems(150, 0.012, seed=5)
    expected = scipy.stats.permutation_test(
        (a, b),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        batch=1000,
        alternative=alternative,
        rng=np.random.default_rng(0),
    ).pvalue
    p = S.randomisation_test(a, b, resamples=50_000, alternative=alternative).p_value
    # Two independent samples of one probability: five standard errors of their difference
    # (two-sided SciPy doubles the smaller tail, so its error is up to twice that of a proportion).
    error = math.sqrt(p * (1 - p) * (1 / 50_000 + 4 / 20_000))
    assert p == pytest.approx(expected, abs=5 * error)
    assert p == pytest.approx(S.paired_t_test(a, b, alternative).p_value, abs=0.02)


def test_sampled_and_exact_agree():
    a, b = systems(14, 0.05, seed=1)
    exact = S.randomisation_test(a, b, resamples=2**14)
    sampled = S.randomisation_test(a, b, resamples=2**14 - 1)
    assert exact.test == "randomisation test (exact)"
    assert sampled.test == "randomisation test (16383 resamples)"
    error = math.sqrt(exact.p_value * (1 - exact.p_value) / 2**14)
    assert sampled.p_value == pytest.approx(exact.p_value, abs=5 * error)


def test_plus_one_correction():
    # 200 wins in 200 queries: no assignment of 999 reaches that, and p is 1/1000, never 0.
    a, b = np.ones(200), np.linspace(0, 0.5, 200)
    assert S.randomisation_test(a, b, resamples=999).p_value == 1 / 1000
    assert S.randomisation_test(a, b, resamples=999, alternative="greater").p_value == 1 / 1000
    assert S.randomisation_test(a, b, resamples=999, alternative="less").p_value == 1.0


@pytest.mark.parametrize("n", [5, 64, 65, 1000])
def test_randomisation_is_seeded_and_independent_of_the_batch(n, monkeypatch):
    a, b = systems(n, 0.005, seed=n)
    first = S.randomisation_test(a, b, resamples=1000, seed=4)
    assert S.randomisation_test(a, b, resamples=1000, seed=4) == first
    for size in (1, 1000, 1 << 30):
        monkeypatch.setattr(S, "_BATCH_BYTES", size)
        assert S.randomisation_test(a, b, resamples=1000, seed=4) == first
    if n > 11:
        assert S.randomisation_test(a, b, resamples=1000, seed=5) != first


def test_randomisation_signs_are_fair_and_independent():
    # Flip sums of unit vectors: each query's sign is a fair coin, and no two queries share one.
    flips = np.random.PCG64(0).random_raw(4000 * 3).reshape(-1, 3).astype("<u8")
    signs = np.stack([S._flipped_sums(np.eye(150)[i], flips) for i in range(150)], axis=1)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    # |mean| and |correlation| of 4000 fair signs stay below 5.5 standard errors over ~11,000 of
    # them.
    together = np.abs(signs.T @ np.hstack([signs, np.ones((4000, 1))]) / 4000)
    np.fill_diagonal(together, 0)
    assert together.max() < 5.5 / math.sqrt(4000)


def test_randomisation_of_many_queries_takes_little_memory():
    code = (
        "import resource, numpy as np, tautrank.significance.paired as S\n"
        "rng = np.random.default_rng(0); a = rng.random(6000); b = a + rng.normal(0, .1, 6000)\n"
        "S.randomisation_test(a[:70], b[:70], resamples=10); S.bootstrap_interval(a[:70], resamples=10)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "S.randomisation_test(a, b); S.bootstrap_interval(a, b)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    if sys.platform != "linux":
        pytest.skip("ru_maxrss is in other units elsewhere")
    grown = int(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout
    )
    # A matrix of all signs would take 600 MB at one byte each; all bootstrap indices 480 MB.
    assert grown < 100_000  # KiB


# --- laws of the paired tests ---


each_paired_test = pytest.mark.parametrize("test", PAIRED)
alternatives = st.sampled_from(ALTERNATIVES)


@each_paired_test
@given(ab=pairs, alternative=alternatives)
@settings(max_examples=30, deadline=None)
def test_a_p_value_is_a_probability_and_the_difference_a_mean(test, ab, alternative):
    a, b = ab
    result = test(a, b, alternative=alternative)
    assert 0 <= result.p_value <= 1
    assert result.difference == (a - b).mean()


@each_paired_test
@given(ab=pairs, alternative=alternatives)
@settings(max_examples=30, deadline=None)
def test_swapping_the_systems_swaps_the_alternatives(test, ab, alternative):
    a, b = ab
    result = test(a, b, alternative=alternative)
    swapped = test(b, a, alternative=OPPOSITE[alternative])
    assert (swapped.difference, swapped.statistic) == (-result.difference, -result.statistic)
    assert swapped.p_value == result.p_value


@each_paired_test
@given(ab=pairs, shift=dyadic, alternative=alternatives)
@settings(max_examples=30, deadline=None)
def test_a_constant_added_to_both_systems_changes_nothing(test, ab, shift, alternative):
    a, b = ab
    result = test(a, b, alternative=alternative)
    assert test(a + shift, b + shift, alternative=alternative) == result
    of_first_query = np.zeros_like(a)
    of_first_query[0] = shift
    assert test(a + of_first_query, b + of_first_query, alternative=alternative) == result


@each_paired_test
@given(ab=pairs, alternative=alternatives)
@settings(max_examples=30, deadline=None)
def test_neither_scale_nor_skipped_queries_matter(test, ab, alternative):
    a, b = ab
    result = test(a, b, alternative=alternative)
    assert test(4 * a, 4 * b, alternative=alternative).p_value == result.p_value
    skipped = np.array([np.nan])
    with_skipped = np.r_[skipped, a, skipped], np.r_[skipped, b, skipped]
    assert test(*with_skipped, alternative=alternative) == result


@each_paired_test
@given(ab=pairs, alternative=alternatives)
@settings(max_examples=30, deadline=None)
def test_the_difference_rises_with_the_first_system(test, ab, alternative):
    a, b = ab
    result = test(a, b, alternative=alternative)
    better = test(a + 1.0, b, alternative=alternative)
    assert better.difference == pytest.approx(result.difference + 1.0, abs=1e-12)


@given(pairs)
@settings(max_examples=30, deadline=None)
def test_a_better_first_system_speaks_for_it(ab):
    a, b = ab
    p_value = S.paired_t_test(a, b, "greater").p_value
    assert S.paired_t_test(a + 1.0, b, "greater").p_value <= p_value


@given(pairs)
@settings(max_examples=60, deadline=None)
def test_one_sided_p_values_add_up(ab):
    a, b = ab
    greater, less = (S.paired_t_test(a, b, side).p_value for side in ("greater", "less"))
    if (a != b).any():
        assert greater + less == pytest.approx(1.0)
        assert S.paired_t_test(a, b).p_value == pytest.approx(2 * min(greater, less))


def rejections(p_values: np.ndarray, alpha: float = 0.05) -> tuple[int, int, int]:
    low, high = scipy.stats.binom.ppf([0.0005, 0.9995], p_values.size, alpha)
    return int(low), int((p_values <= alpha).sum()), int(high)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize(
    "test",
    [S.paired_t_test, lambda a, b, **options: S.randomisation_test(a, b, resamples=999, **options)],
)
def test_p_values_are_uniform_when_the_systems_are_equal(test, alternative):
    # Two systems drawn from one distribution, 1,500 times over: 5% of the p-values are at most .05.
    rng = np.random.default_rng(11)
    p = np.array(
        [test(*rng.beta(2, 3, (2, 40)), alternative=alternative).p_value for _ in range(1500)]
    )
    low, rate, high = rejections(p)
    assert low <= rate <= high
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


# --- bootstrap ---


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
@pytest.mark.parametrize("paired", [False, True])
def test_bootstrap_agrees_with_scipy(method, paired):
    a, b = systems(60, 0.02, seed=2)
    x = a - b if paired else a**4  # skewed, so that bca has something to correct
    expected = scipy.stats.bootstrap(
        (x,),
        np.mean,
        n_resamples=2000,
        method=method,
        confidence_level=0.9,
        rng=np.random.default_rng(7),
    ).confidence_interval
    result = S.bootstrap_interval(
        *((a, b) if paired else (x,)), confidence=0.9, resamples=2000, seed=7, method=method
    )
    assert tuple(result) == pytest.approx(tuple(expected), rel=1e-9)
    assert result.estimate == pytest.approx(x.mean())
    assert (result.n, result.confidence, result.method) == (60, 0.9, method)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_bootstrap_of_constant_values_has_no_width(method):
    assert tuple(S.bootstrap_interval([0.1] * 7, method=method)) == (0.1, 0.1)
    assert tuple(S.bootstrap_interval([0.5, 0.25], [0.25, 0.0], method=method)) == (0.25, 0.25)
    low, high = S.bootstrap_interval([0.0, 0.0, 1.0], resamples=2, method=method)
    assert math.isfinite(low)
    assert math.isfinite(high)


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_bootstrap_is_seeded_and_independent_of_the_batch(method, monkeypatch):
    a, b = systems(50, 0.02, seed=2)
    first = S.bootstrap_interval(a, b, resamples=500, seed=1, method=method)
    monkeypatch.setattr(S, "_BATCH_BYTES", 1)
    assert S.bootstrap_interval(a, b, resamples=500, seed=1, method=method) == first
    assert S.bootstrap_interval(a, b, resamples=500, seed=2, method=method) != first


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_bootstrap_intervals_cover_the_truth(method):
    rng = np.random.default_rng(3)
    covered = 0
    for seed in range(300):
        low, high = S.bootstrap_interval(
            rng.beta(2, 3, 80), resamples=400, seed=seed, method=method, confidence=0.9
        )
        covered += low <= 0.4 <= high
    # Bootstrap intervals undercover slightly at n = 80; outside four standard errors of .9
    # something is wrong.
    assert abs(covered / 300 - 0.9) < 4 * math.sqrt(0.9 * 0.1 / 300)


@given(st.lists(dyadic, min_size=2, max_size=20), dyadic)
@settings(max_examples=40, deadline=None)
def test_bootstrap_moves_with_the_data(x, shift):
    base = S.bootstrap_interval(x, resamples=50)
    moved = S.bootstrap_interval(np.add(x, shift), resamples=50)
    mirrored = S.bootstrap_interval(np.negative(x), resamples=50)
    assert base.low <= base.high
    assert tuple(moved) == pytest.approx((base.low + shift, base.high + shift), abs=1e-12)
    assert tuple(mirrored) == pytest.approx((-base.high, -base.low), abs=1e-12)


# --- corrected resampled t-test ---


def test_corrected_t_test_by_hand():
    # d = (1, 2, 3, 4, 5): mean 3, variance 2.5, J = 5, a tenth held out: n_test/n_train = 1/9,
    # t = 3 / sqrt((1/5 + 1/9) 2.5) = 3 / sqrt(7/9) = 9 / sqrt 7.
    result = S.corrected_resampled_t_test([1, 2, 3, 4, 5], test_fraction=0.1)
    assert result.statistic == pytest.approx(9 / math.sqrt(7), rel=1e-14)
    assert result.p_value == pytest.approx(2 * scipy.stats.t.sf(9 / math.sqrt(7), 4), rel=1e-12)
    assert (result.n, result.difference) == (5, 3.0)
    sized = S.corrected_resampled_t_test([1, 2, 3, 4, 5], n_train=90, n_test=10)
    assert sized.statistic == pytest.approx(result.statistic, rel=1e-14)
    negated = S.corrected_resampled_t_test(
        [-1, -2, -3, -4, -5], test_fraction=0.1, alternative="less"
    )
    assert negated.p_value == pytest.approx(result.p_value / 2, rel=1e-12)


def test_corrected_t_test_of_constant_differences():
    assert S.corrected_resampled_t_test([0, 0, 0], test_fraction=0.5).p_value == 1.0
    assert S.corrected_resampled_t_test([0.1, 0.1, 0.1], test_fraction=0.5).p_value == 0.0


def test_plain_t_test_over_overlapping_splits_rejects_too_often_and_the_corrected_one_does_not():
    # Two equally good learners, each predicting by the mean of its own feature over the training
    # part; J = 20 random splits of the same 100 points. The splits overlap, so their differences
    # are correlated.
    rng = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(300):
        y, z = rng.normal(size=(2, 100))
        d = []
        for _ in range(20):
            order = rng.permutation(100)
            test, train = order[:20], order[20:]
            d.append(((y[test] - y[train].mean()) ** 2 - (z[test] - z[train].mean()) ** 2).mean())
        plain.append(S.paired_t_test(d, np.zeros(20)).p_value)
        corrected.append(S.corrected_resampled_t_test(d, test_fraction=0.2).p_value)
    _, rate, high = rejections(np.array(plain))
    assert rate > 4 * high  # about half of the comparisons of equal learners are "significant"
    _, rate, high = rejections(np.array(corrected))
    assert rate <= high


# --- Holm ---


def closed_testing(p: np.ndarray) -> np.ndarray:
    """Adjust by definition: a hypothesis falls when every intersection holding it falls by
    Bonferroni.
    """
    m = p.size
    adjusted = np.zeros(m)
    for mask in range(1, 2**m):
        members = [i for i in range(m) if mask >> i & 1]
        bonferroni = min(1.0, len(members) * p[members].min())
        for i in members:
            adjusted[i] = max(adjusted[i], bonferroni)
    return adjusted


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
@settings(max_examples=80, deadline=None)
def test_holm_is_the_closed_test_of_bonferroni(p):
    np.testing.assert_array_equal(S.holm(p), closed_testing(np.array(p)))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.randoms())
@settings(max_examples=60, deadline=None)
def test_laws_of_holm(p, random):
    x = np.array(p)
    adjusted = S.holm(x)
    assert (adjusted >= x).all()
    assert (adjusted <= np.minimum(1, x * x.size)).all()
    order = np.argsort(x, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
    shuffled = list(range(x.size))
    random.shuffle(shuffled)
    np.testing.assert_array_equal(S.holm(x[shuffled]), adjusted[shuffled])
    # Comparisons that were not made do not count.
    with_gaps = S.holm(np.r_[np.nan, x, np.nan])
    assert np.isnan(with_gaps[[0, -1]]).all()
    np.testing.assert_array_equal(with_gaps[1:-1], adjusted)


def test_holm_by_hand():
    # Sorted .01 .02 .03 .04 times 4 3 2 1: .04 .06 .06 .04, made monotone: .04 .06 .06 .06.
    assert S.holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert S.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert S.holm([]).size == 0
    assert np.isnan(S.holm([np.nan])).all()


# --- what is refused, and how ---

REFUSED = [
    (
        lambda: S.paired_t_test([0.5, np.nan, 0.25], [0.5, 0.125, 0.25]),
        "query 1: found NaN in a but 0.125 in b; expected both systems to have a value or both to skip it",
    ),
    (
        lambda: S.randomisation_test([0.5, 0.25, 0.75], [0.5, 0.125, np.nan]),
        "query 2: found NaN in b but 0.75 in a; expected both systems to have a value or both to skip it",
    ),
    (
        lambda: S.paired_t_test([0.5, np.nan], [0.25, np.nan]),
        "a and b: found 1 queries with a value; expected at least 2",
    ),
    (lambda: S.paired_t_test([], []), "a and b: found 0 queries with a value; expected at least 2"),
    (
        lambda: S.bootstrap_interval([1, 2], [1, 2, 3]),
        "a and b: found 2 and 3 values; expected one per query in both",
    ),
    (
        lambda: S.bootstrap_interval([np.nan]),
        "a: found 0 queries with a value; expected at least 2",
    ),
    (lambda: S.paired_t_test([1, np.inf], [1, 2]), "a[1]: found inf; expected a finite number"),
    (
        lambda: S.paired_t_test([1, 2], [[1, 2]]),
        "b: found an array of shape (1, 2); expected one number per query (1-D)",
    ),
    (
        lambda: S.paired_t_test(["x", "y"], [1, 2]),
        "a: found values of type <U1; expected numbers, one per query",
    ),
    (
        lambda: S.corrected_resampled_t_test([1], test_fraction=0.2),
        "differences: found 1 split(s); expected at least 2",
    ),
    (
        lambda: S.corrected_resampled_t_test([1, np.nan], test_fraction=0.2),
        "differences[1]: found nan; expected a finite number",
    ),
    (lambda: S.holm([0.5, 1.5]), "p_values[1]: found 1.5; expected a number from 0 to 1"),
]

MISUSED = [
    (
        lambda: S.paired_t_test([1, 2], [2, 1], "greatr"),
        "unknown alternative 'greatr'; did you mean 'greater'? (known: greater, less, two-sided)",
    ),
    (
        lambda: S.bootstrap_interval([1, 2], method="bcA"),
        "unknown bootstrap method 'bcA'; did you mean 'bca'? (known: basic, bca, percentile)",
    ),
    (
        lambda: S.bootstrap_interval([1, 2], confidence=95),
        "confidence: found 95; expected a number between 0 and 1",
    ),
    (
        lambda: S.randomisation_test([1, 2], [2, 1], resamples=0),
        "resamples: found 0; expected a whole number of at least 1",
    ),
    (
        lambda: S.bootstrap_interval([1, 2], resamples=1),
        "resamples: found 1; expected a whole number of at least 2",
    ),
    (
        lambda: S.randomisation_test([1, 2], [2, 1], resamples=1.5),
        "resamples: found 1.5; expected a whole number of at least 1",
    ),
    (
        lambda: S.randomisation_test([1, 2], [2, 1], seed=-1),
        "seed: found -1; expected a whole number of at least 0",
    ),
    (
        lambda: S.corrected_resampled_t_test([1, 2]),
        "the size of a split: expected either test_fraction, or both n_train and n_test",
    ),
    (
        lambda: S.corrected_resampled_t_test([1, 2], test_fraction=0.5, n_train=1, n_test=1),
        "the size of a split: expected either test_fraction, or both n_train and n_test",
    ),
    (
        lambda: S.corrected_resampled_t_test([1, 2], test_fraction=1.0),
        "test_fraction: found 1.0; expected a number between 0 and 1",
    ),
    (
        lambda: S.corrected_resampled_t_test([1, 2], n_train=0, n_test=5),
        "n_train, n_test: found 0 and 5; expected positive sizes",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_unusable_data_are_refused_in_a_sentence(call, sentence):
    with pytest.raises(DataError) as caught:
        call()
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("call", "sentence"), MISUSED, ids=[sentence for _, sentence in MISUSED])
def test_unusable_options_are_refused_in_a_sentence(call, sentence):
    with pytest.raises(OptionError) as caught:
        call()
    assert str(caught.value) == sentence


def test_importing_stays_light():
    code = "import sys, tautrank.significance.paired; print('scipy.stats' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert result.stdout.strip() == "False"


def test_results_read_as_a_sentence():
    assert repr(S.paired_t_test([2, 4, 6], [1, 2, 3])) == (
        "<paired t-test: difference +2, statistic 3.464, p = 0.0742 (two-sided), n = 3>"
    )
