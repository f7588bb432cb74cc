"""The test for repeated training runs: its formula, its limits, and its error rate under no difference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tautrank.errors import DataError, OptionError
from tautrank.significance.paired import corrected_resampled_t_test, paired_t_test
from tautrank.significance.repeated import repeated_runs_test


def test_formula_by_hand():
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 7)), rng.random((3, 7))
    d = a - b
    by_query = d.mean(0).var(ddof=1) / 7
    by_run = d.mean(1).var(ddof=1) * (1 / 3 + 0.25)
    result = repeated_runs_test(a, b, overlap=0.25)
    assert result.statistic == pytest.approx(d.mean() / math.sqrt(by_query + by_run))
    t_queries, t_runs = stats.t.isf(result.p_value / 2, [6, 2])
    assert d.mean() ** 2 == pytest.approx(by_query * t_queries**2 + by_run * t_runs**2)
    toward = "greater" if d.mean() > 0 else "less"
    away = "less" if d.mean() > 0 else "greater"
    assert repeated_runs_test(a, b, overlap=0.25, alternative=toward).p_value == pytest.approx(result.p_value / 2)
    assert repeated_runs_test(a, b, overlap=0.25, alternative=away).p_value == pytest.approx(1 - result.p_value / 2)


def test_one_run_is_the_paired_t_test():
    rng = np.random.default_rng(1)
    a, b = rng.random((1, 30)), rng.random((1, 30))
    assert repeated_runs_test(a, b).p_value == pytest.approx(paired_t_test(a[0], b[0]).p_value)


def test_without_query_variance_it_is_the_resampled_t_test():
    runs = np.array([0.01, 0.03, 0.02, 0.05])
    a = np.tile(runs[:, None], (1, 50))
    result = repeated_runs_test(a, np.zeros_like(a), overlap=0.2)
    by_split = corrected_resampled_t_test(runs, n_train=5, n_test=1)
    assert result.statistic == pytest.approx(by_split.statistic)
    assert result.p_value == pytest.approx(by_split.p_value)


def test_skipped_queries_are_left_out_and_must_agree():
    a = np.array([[0.1, np.nan, 0.3], [0.2, np.nan, 0.5]])
    b = np.array([[0.0, np.nan, 0.1], [0.1, np.nan, 0.2]])
    assert repeated_runs_test(a, b).n == 2
    with pytest.raises(DataError, match="queries that only some runs or systems skipped"):
        repeated_runs_test(a, np.nan_to_num(b))


def test_equal_systems_and_constant_differences():
    a = np.random.default_rng(2).random((3, 10))
    assert repeated_runs_test(a, a).p_value == 1.0
    assert repeated_runs_test(a + 1, a).p_value == 0.0


def test_bad_arguments():
    with pytest.raises(DataError, match=r"expected two of \[runs, queries\], equal"):
        repeated_runs_test([0.1, 0.2], [0.1, 0.2])
    with pytest.raises(DataError, match="found 1 runs of 1 queries; expected at least 1 of 2"):
        repeated_runs_test([[0.1]], [[0.2]])
    with pytest.raises(OptionError, match="overlap: found -1; expected a number of at least 0"):
        repeated_runs_test([[0.1, 0.2]], [[0.2, 0.1]], overlap=-1)
    with pytest.raises(OptionError, match="unknown alternative 'larger'"):
        repeated_runs_test([[0.1, 0.2]], [[0.2, 0.1]], alternative="larger")


@pytest.mark.parametrize(("run_sd", "cell_sd"), [(0.0, 0.1), (0.01, 0.1), (0.05, 0.1), (0.02, 0.0)])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_methods_that_do_not_differ_are_called_different_no_more_often_than_the_level(run_sd, cell_sd, runs):
    """Two systems with the same expected quality: shared query effects, own run effects, own noise in every cell.

    The plain test over the queries of one run is shown beside it: it rejects far too often once runs differ.
    """
    rng = np.random.default_rng(3)
    queries, trials, level = 60, 1500, 0.05
    ours = plain = 0
    for _ in range(trials):
        query = rng.normal(0, 0.2, queries)

        def system(query=query):
            return query + rng.normal(0, run_sd, (runs, 1)) + rng.normal(0, cell_sd, (runs, queries)) + 0.5

        a, b = system(), system()
        ours += repeated_runs_test(a, b).p_value < level
        plain += paired_t_test(a[0], b[0]).p_value < level
    bound = stats.binom.ppf(0.999, trials, level) / trials
    assert ours / trials <= bound
    if run_sd >= 0.05:
        assert plain / trials > 3 * level


def test_a_real_difference_is_found():
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(200):
        query = rng.normal(0, 0.2, 150)
        a, b = (query + rng.normal(0, 0.003, (5, 1)) + rng.normal(0, 0.05, (5, 150)) for _ in range(2))
        found += repeated_runs_test(a + 0.02, b).p_value < 0.05
    assert found / 200 > 0.8
