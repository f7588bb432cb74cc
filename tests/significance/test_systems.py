"""The test of systems: its formula by brute force, its special cases, and how often it errs and
finds.
"""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.stats
from scipy.special import stdtrit

from tautrank.errors import DataError, OptionError
from tautrank.significance.paired import holm
from tautrank.significance.systems import (
    combined_test,
    parts_of,
    resampled_systems_test,
    systems_test,
)

# Standard deviations of the difference of two losses on MQ2008: over queries, and over queries x
# runs.
QUERY_SD, CELL_SD = 0.06, 0.17


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def values_of(systems, runs, queries, run_sd=0.005, shared=0.0, query_sd=QUERY_SD, rng=0):
    """Normal values of systems that do not differ; the sds are those of a difference between
    two.
    """
    rng = np.random.default_rng(rng)
    effects = math.sqrt(1 - shared) * rng.normal(size=(systems, runs, 1))
    effects += math.sqrt(shared) * rng.normal(size=(systems, 1, 1))
    values = query_sd * rng.normal(size=(systems, 1, queries)) + CELL_SD * rng.normal(
        size=(systems, runs, queries)
    )
    return (values + run_sd * effects) / math.sqrt(2)


def mean_squares(x):
    """MS_sr and MS_srq by their definitions, one cell at a time."""
    systems, runs, queries = x.shape
    run = rest = 0.0
    for s, r in itertools.product(range(systems), range(runs)):
        run += (x[s, r].mean() - x[s].mean() - x[:, r].mean() + x.mean()) ** 2
        for q in range(queries):
            pairs = x[s, r].mean() + x[s, :, q].mean() + x[:, r, q].mean()
            rest += (
                x[s, r, q] - pairs + x[s].mean() + x[:, r].mean() + x[:, :, q].mean() - x.mean()
            ) ** 2
    freedom = (systems - 1) * (runs - 1)
    return queries * run / freedom, rest / (freedom * (queries - 1))


LEVEL = 0.1
WITH_AND_WITHOUT_RUN_VARIANCE = pytest.mark.parametrize(
    ("run_sd", "overlap"), [(0.0, 0.0), (0.0, 0.25), (0.1, 0.0), (0.1, 0.25)]
)


def three_systems(run_sd: float) -> np.ndarray:
    """Values of three systems in four runs on six queries."""
    return values_of(3, 4, 6, run_sd, rng=2) + np.arange(3)[:, None, None] * 0.05


@WITH_AND_WITHOUT_RUN_VARIANCE
@pytest.mark.parametrize(("a", "b"), list(itertools.permutations(range(3), 2)))
def test_formula_by_hand(run_sd, overlap, a, b):
    x = three_systems(run_sd)
    R, Q = 4, 6
    ms_sr, ms_srq = mean_squares(x)
    assert (ms_sr > ms_srq) == (run_sd > 0)  # so that both sides of the maximum are tested

    result = systems_test(x, overlap, level=LEVEL)

    d = x[a] - x[b]
    v_q = d.mean(0).var(ddof=1) / Q
    s2 = max(0.0, 2 * (ms_sr - ms_srq) / Q)
    v = v_q + s2 * (1 / R + overlap)
    of_runs = 2 * ms_sr / Q * (1 / R + overlap)
    df = v**2 / (v_q**2 / (Q - 1) + of_runs**2 / (2 * (R - 1)))
    if overlap:
        df = max(df, Q - 1)
    t = scipy.stats.t(df)
    half = t.isf(LEVEL / 2) * math.sqrt(v)
    p_value = 2 * t.sf(abs(d.mean()) / math.sqrt(v))
    assert result.differences[a, b] == pytest.approx(d.mean(), rel=1e-12)
    assert result.standard_errors[a, b] == pytest.approx(math.sqrt(v), rel=1e-12)
    assert result.degrees[a, b] == pytest.approx(df, rel=1e-10)
    assert result.p_values[a, b] == pytest.approx(p_value, rel=1e-9)
    assert result.low[a, b] == pytest.approx(d.mean() - half, rel=1e-10)
    assert result.high[a, b] == pytest.approx(d.mean() + half, rel=1e-10)


@WITH_AND_WITHOUT_RUN_VARIANCE
def test_detectable_differences_by_hand(run_sd, overlap):
    result = systems_test(three_systems(run_sd), overlap, level=LEVEL)

    pairs = np.triu_indices(3, 1)
    degrees, errors = result.degrees[pairs], result.standard_errors[pairs]
    power = scipy.stats.t.ppf(0.8, degrees)
    alone = scipy.stats.t.isf(LEVEL / 2, degrees)
    first_of_three = scipy.stats.t.isf(LEVEL / 3 / 2, degrees)
    assert result.detectable == pytest.approx(max((alone + power) * errors), rel=1e-9)
    assert result.detectable_adjusted == pytest.approx(
        max((first_of_three + power) * errors), rel=1e-9
    )


@WITH_AND_WITHOUT_RUN_VARIANCE
def test_what_the_result_says_of_itself(run_sd, overlap):
    result = systems_test(three_systems(run_sd), overlap, level=LEVEL)

    pairs = np.triu_indices(3, 1)
    assert result.adjusted[pairs] == pytest.approx(holm(result.p_values[pairs]))
    assert (result.runs, result.queries, result.level) == (4, 6, LEVEL)
    assert (result.baseline, result.note) == (None, "")
    for name in ("p_values", "adjusted", "low", "high", "degrees", "standard_errors"):
        array = getattr(result, name)
        assert np.isnan(np.diag(array)).all(), name
        assert not np.isnan(array[pairs]).any(), name


@WITH_AND_WITHOUT_RUN_VARIANCE
def test_two_systems_by_hand(run_sd, overlap):
    x = values_of(2, 5, 30, run_sd, rng=4)
    d = x[0] - x[1]
    gross = d.mean(1).var(ddof=1)
    noise = np.sum((d - d.mean(0) - d.mean(1, keepdims=True) + d.mean()) ** 2) / (4 * 29) / 30
    assert (gross > noise) == (run_sd > 0)
    v_q = d.mean(0).var(ddof=1) / 30
    v = v_q + (gross - noise) / 5 + overlap * max(0.0, gross - noise)
    df = max(4 if overlap else 0, v**2 / (v_q**2 / 29 + (gross * (1 / 5 + overlap)) ** 2 / 4))
    result = systems_test(x, overlap)
    assert result.standard_errors[0, 1] == pytest.approx(math.sqrt(v), rel=1e-10)
    assert result.degrees[0, 1] == pytest.approx(df, rel=1e-10)


def test_one_run_is_the_paired_t_test():
    x = values_of(3, 1, 40)
    result = systems_test(x, 0.5)
    assert result.note == "one run each: this compares two models, not two methods"
    for a, b in itertools.combinations(range(3), 2):
        assert result.p_values[a, b] == pytest.approx(
            scipy.stats.ttest_rel(x[a, 0], x[b, 0]).pvalue, rel=1e-9
        )
    assert result.degrees[0, 1] == pytest.approx(39)


def test_without_query_and_cell_variance_it_is_a_t_test_over_runs():
    runs = np.array([[0.01, 0.03, 0.02, 0.05, 0.01], [0.0] * 5])[:, :, None]
    result = systems_test(np.repeat(runs, 50, axis=2))
    assert result.degrees[0, 1] == pytest.approx(4)
    assert result.p_values[0, 1] == pytest.approx(
        scipy.stats.ttest_1samp(runs[0, :, 0], 0).pvalue, rel=1e-9
    )


def test_only_differences_between_systems_count():
    x, rng = values_of(4, 3, 20), np.random.default_rng(5)
    moved = x + rng.normal(size=(1, 3, 20))  # the same for all systems
    order = [2, 0, 3, 1]
    for renumbered in (systems_test(moved), systems_test(x[:, ::-1, ::-1])):
        np.testing.assert_allclose(renumbered.p_values, systems_test(x).p_values, rtol=1e-9)
    np.testing.assert_allclose(
        systems_test(x[order]).p_values, systems_test(x).p_values[np.ix_(order, order)]
    )
    result = systems_test(x)
    np.testing.assert_allclose(result.differences, -result.differences.T)
    np.testing.assert_allclose(result.low, -result.high.T)
    off = ~np.eye(4, dtype=bool)
    assert np.array_equal((result.low * result.high > 0)[off], (result.p_values < 0.05)[off])


def test_baseline_compares_and_corrects_its_pairs_only():
    x = values_of(4, 3, 50)
    every, one = systems_test(x), systems_test(x, baseline=2)
    np.testing.assert_array_equal(one.p_values, every.p_values)
    other_systems = [0, 1, 3]
    np.testing.assert_allclose(
        one.adjusted[2, other_systems], holm(every.p_values[2, other_systems])
    )
    np.testing.assert_array_equal(one.adjusted, one.adjusted.T)
    assert np.isnan(one.adjusted[np.ix_(other_systems, other_systems)]).all()
    assert one.detectable <= every.detectable
    assert one.detectable_adjusted < every.detectable_adjusted
    assert repr(one).startswith(
        "<systems test: 0 of 3 pairs differ at 0.05 after Holm; 3 runs, 50 queries, "
    )


def test_equal_systems_and_constant_differences():
    x = values_of(1, 5, 10)[0]
    for other_systems in ([], [x + 0.1 * values_of(1, 5, 10, rng=1)[0]]):
        assert systems_test([x, x, *other_systems]).p_values[0, 1] == 1.0
    equal, shifted = systems_test([x, x]), systems_test([x + 1, x])
    assert (equal.low[0, 1], equal.high[0, 1], equal.detectable) == (0, 0, 0)
    assert (shifted.p_values[0, 1], shifted.differences[0, 1]) == (0.0, pytest.approx(1.0))
    assert systems_test(np.zeros((2, 1, 3))).p_values[0, 1] == 1.0


def test_skipped_queries_are_left_out():
    x = values_of(3, 4, 12)
    x[:, :, [2, 7]] = np.nan
    result = systems_test(x)
    assert result.queries == 10
    np.testing.assert_array_equal(
        result.p_values, systems_test(np.delete(x, [2, 7], axis=2)).p_values
    )


def test_degrees_are_never_fewer_than_those_of_the_poorest_part():
    result = systems_test(values_of(3, 5, 60, 0.0, query_sd=0.0, rng=1), 1.0)
    assert np.nanmin(result.degrees) == 8


def test_few_runs_of_two_systems_are_noted():
    assert "4 runs of two systems say too little" in systems_test(values_of(2, 4, 20)).note
    assert systems_test(values_of(2, 5, 20)).note == systems_test(values_of(3, 2, 20)).note == ""


def with_value(at, value):
    x = np.zeros((3, 2, 4))
    x[at] = value
    return x


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            [[0.1, 0.2]],
            r"found an array of shape \(1, 2\) and type float64; expected numbers of shape \[sys",
        ),
        ([[[0.1, 0.2], [0.1]]], "found lists of different lengths"),
        ([[["a", "b"]], [["a", "b"]]], "type <U1"),
        ([[[0.1, 0.2]]], r"found 1 system\(s\) of 1 runs; expected at least 2 systems of 1"),
        (np.zeros((2, 0, 4)), r"found 2 system\(s\) of 0 runs"),
        (np.zeros((2, 3, 1)), "found 1 queries with a value; expected at least 2"),
        (np.full((2, 3, 5), np.nan), "found 0 queries with a value"),
        (
            with_value((1, 0, 2), np.inf),
            r"values\[1, 0, 2\]: found inf; expected a finite number, or NaN for",
        ),
        (
            with_value((2, 1, 3), np.nan),
            "value of query 3 in run 1 for only one of systems 0 and 2; expected the same",
        ),
        (
            with_value((slice(None), 1, 3), np.nan),
            "value of query 3 in some runs only; expected the same",
        ),
    ],
)
def test_bad_values(values, sentence):
    with pytest.raises(DataError, match=sentence):
        systems_test(values)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"overlap": -0.1}, "overlap: found -0.1; expected a number of at least 0"),
        ({"baseline": 3}, "baseline: found 3; expected a whole number of at least 0 and at most 2"),
        ({"level": 0}, "level: found 0; expected a number above 0"),
        ({"level": 1}, "level: found 1; expected a number between 0 and 1"),
    ],
)
def test_bad_options(options, sentence):
    for test in (systems_test, resampled_systems_test):
        with pytest.raises(OptionError, match=sentence):
            test(np.zeros((3, 2, 4)), **options)


# --- trials that test a part of the queries ---


def parts_tested(trials, queries, rng, share=0.2):
    return np.argsort(rng.random((trials, queries)), axis=1) < share * queries


def test_trials_that_test_everything_are_runs():
    x = values_of(4, 6, 30, 0.05)
    a, b = systems_test(x, 0.2, baseline=1), resampled_systems_test(x, 0.2, baseline=1)
    np.testing.assert_array_equal(a.p_values, b.p_values)
    np.testing.assert_array_equal(a.adjusted, b.adjusted)


def residuals_of(values: np.ndarray, design: np.ndarray) -> np.ndarray:
    """What least squares leave of values."""
    coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
    return values - design @ coefficients


def test_mean_squares_of_trials_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    tested = parts_tested(6, 40, rng, 0.4)
    tested = tested[:, tested.any(0)]
    n_trials, n_queries = tested.shape
    x = rng.normal(size=(3, n_trials, n_queries))

    parts = parts_of(np.where(tested, x, np.nan))

    trial, query = np.nonzero(tested)
    by_query, by_trial = np.eye(n_queries)[query], np.eye(n_trials)[trial]
    by_both = np.hstack([by_query, by_trial])
    rank = np.linalg.matrix_rank(by_both) - n_queries
    effects = (x - x.mean(0))[:, trial, query]
    left_by_queries = sum(np.sum(residuals_of(effect, by_query) ** 2) for effect in effects)
    left_by_both = sum(np.sum(residuals_of(effect, by_both) ** 2) for effect in effects)
    ms_trial = (left_by_queries - left_by_both) / (2 * rank)
    ms_noise = left_by_both / (2 * (trial.size - n_queries - rank))
    # How much a trial effect of variance 1 adds to the sum of squares: the part of it that queries
    # do not explain.
    scale = 2 * rank / np.sum(residuals_of(by_trial, by_query) ** 2)
    assert parts.freedom == 2 * rank == 10
    assert parts.gross == pytest.approx(scale * ms_trial)
    assert parts.noise == pytest.approx(scale * ms_noise)


def test_variance_of_resampled_trials_is_right_on_average():
    """v is quadratic in the values: its mean over independent effects of variance 1 is a sum over
    unit effects.
    """
    tested = parts_tested(7, 20, np.random.default_rng(3), 0.5)
    tested = tested[:, tested.any(0)]
    trials, queries = tested.shape
    n = tested.sum(0)

    def v(effect):
        first = np.where(tested, effect, np.nan)
        error = resampled_systems_test([first, np.where(tested, 0.0, np.nan)]).standard_errors[0, 1]
        return error**2

    weights = (tested / n).mean(1)
    assert sum(v(unit[:, None] * np.ones(queries)) for unit in np.eye(trials)) == pytest.approx(
        np.sum(weights**2)
    )
    assert sum(v(np.ones((trials, 1)) * unit) for unit in np.eye(queries)) == pytest.approx(
        1 / queries
    )
    gross = noise = 0.0
    for trial, query in np.argwhere(tested):
        x = np.where(tested, np.zeros((2, trials, queries)), np.nan)
        x[0, trial, query] = 1
        parts = parts_of(x)
        gross += parts.gross
        noise += parts.noise
    assert gross == pytest.approx(noise)


def test_trials_without_a_common_query_are_noted():
    x = values_of(3, 2, 6)
    x[:, 0, :3] = x[:, 1, 3:] = np.nan
    result = resampled_systems_test(x)
    assert "no query was tested in two trials" in result.note
    means = np.nanmean(x, axis=1)
    assert result.p_values[0, 1] == pytest.approx(scipy.stats.ttest_rel(means[0], means[1]).pvalue)


# --- several data sets ---


def test_one_data_set_is_its_own_test():
    one = systems_test(values_of(3, 5, 40))
    result = combined_test(
        *([each[0, 1]] for each in (one.differences, one.standard_errors, one.degrees))
    )
    assert result.p_value == pytest.approx(one.p_values[0, 1])
    assert (result.low, result.high) == pytest.approx((one.low[0, 1], one.high[0, 1]))
    assert result.degrees == pytest.approx(one.degrees[0, 1])


def test_data_sets_are_weighted_by_their_precision():
    d = np.array([0.03, 0.01, -0.02])
    se = np.array([0.01, 0.02, 0.05])
    df = np.array([500.0, 60.0, 9.0])
    w = 1 / se**2
    share = w / w.sum()
    variance = (1 + 4 * np.sum(share * (1 - share) / df)) / w.sum()
    freedom = w.sum() ** 2 / np.sum(w**2 / df)
    t = scipy.stats.t(freedom)
    result = combined_test(d, se, df, level=0.1)
    assert result.difference == pytest.approx(np.sum(w * d) / w.sum())
    assert result.standard_error == pytest.approx(math.sqrt(variance))
    assert result.degrees == pytest.approx(freedom)
    assert result.p_value == pytest.approx(2 * t.sf(result.difference / math.sqrt(variance)))
    assert result.high - result.low == pytest.approx(2 * t.isf(0.05) * math.sqrt(variance))
    assert result.detectable == pytest.approx((t.isf(0.05) + t.ppf(0.8)) * math.sqrt(variance))


def test_data_sets_with_tiny_standard_errors():
    certain = combined_test([0.1, 0.2], [1e-200, 1e-200], [9, np.inf])  # 1 / se^2 would be infinite
    assert (certain.difference, certain.degrees) == pytest.approx((0.15, 36))


def test_combined_level():
    rng = np.random.default_rng(0)
    freedom, se = np.array([8, 15, 30]), np.array([0.01, 0.012, 0.02])
    d = rng.normal(0, se, (3000, 3))
    errors = se * np.sqrt(rng.chisquare(freedom, (3000, 3)) / freedom)
    tests = [combined_test(d[i], errors[i], freedom) for i in range(3000)]
    assert 0.04 < np.mean([test.p_value < 0.05 for test in tests]) < 0.06


def test_bad_combinations():
    with pytest.raises(DataError, match="differences: found none"):
        combined_test([], [], [])
    with pytest.raises(
        DataError, match=r"standard_errors\[1\]: found 0; expected a finite number above 0"
    ):
        combined_test([0, 0], [1, 0], [5, 5])
    with pytest.raises(DataError, match="degrees: found length 1; expected 2"):
        combined_test([0, 0], [1, 1], [5])
    with pytest.raises(DataError, match=r"differences\[0\]: found nan"):
        combined_test([math.nan], [1], [5])


# --- how often it errs, and how often it finds ---


def rates(draw, test=systems_test, overlap=0.0, replications=400):
    """Return level, power for a true .02, power at the detectable difference, and the standard
    error of the first.
    """
    shares = []
    for rng in map(np.random.default_rng, range(replications)):
        result = test(draw(rng), overlap)
        pairs = np.triu_indices_from(result.differences, 1)
        se, (critical, power) = (
            result.standard_errors[pairs],
            stdtrit(result.degrees[pairs], [[0.975], [0.8]]),
        )
        detectable = (critical + power) * se
        shares.append(
            [
                np.mean(np.abs(result.differences[pairs] + by) / se > critical)
                for by in (0.0, 0.02, np.mean(detectable))
            ]
        )
    return (
        *np.mean(shares, axis=0),
        np.std([each[0] for each in shares]) / math.sqrt(replications),
    )


@pytest.mark.parametrize(
    ("shape", "run_sd", "power"),
    [
        ((8, 5, 60), 0.0, None),
        ((8, 5, 564), 0.0, 0.99),  # fails where queries x runs are counted twice
        ((8, 5, 564), 0.005, 0.9),
        ((8, 5, 1500), 0.01, 0.9),  # fails where runs are not counted
        ((2, 5, 60), 0.0, None),
        ((2, 5, 60), 0.1, None),  # fails with too many degrees of freedom
        ((2, 20, 200), 0.005, 0.9),
    ],
)
def test_level_and_power(shape, run_sd, power):
    level, found, at_detectable, error = rates(
        lambda rng: values_of(*shape, run_sd, rng=rng), replications=1500 if shape[0] == 2 else 200
    )
    assert 0.03 - error < level < 0.06 + error, (level, error)
    assert power is None or found >= power, found
    if shape[0] > 2:
        assert 0.76 < at_detectable < 0.84, at_detectable


@pytest.mark.parametrize(
    ("shape", "run_sd"), [((8, 5, 564), 0.005), ((8, 20, 564), 0.01), ((2, 20, 400), 0.01)]
)
def test_level_where_runs_share_a_part_of_their_variance(shape, run_sd):
    replications = 800 if shape[0] == 2 else 100
    level, found, _, error = rates(
        lambda rng: values_of(*shape, run_sd, shared=0.15, rng=rng),
        overlap=1 / 3,
        replications=replications,
    )
    assert level < 0.06 + error, (level, error)
    assert found > 0.8, found


@pytest.mark.parametrize(("trials", "power"), [(5, 0.3), (20, 0.9)])
def test_level_and_power_of_resampled_trials(trials, power):
    def draw(rng):
        return np.where(parts_tested(trials, 564, rng), values_of(8, trials, 564, rng=rng), np.nan)

    level, found, _, error = rates(draw, resampled_systems_test, replications=150)
    assert 0.03 - error < level < 0.06 + error, (level, error)
    assert found > power, found
