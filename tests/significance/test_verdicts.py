"""Verdicts: the t-test over trials, what its p-value says, and queries that are won."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tautrank.significance.paired import corrected_resampled_t_test
from tautrank.significance.verdicts import over_trials, verdict_of, win_tie_loss


@pytest.fixture
def differences():
    return np.random.default_rng(1).standard_normal(10) + 0.5


def test_independent_trials_are_tested_by_the_t_test(differences):
    outcome = over_trials(differences, overlap=0.0, level=0.05)
    expected = stats.ttest_1samp(differences, 0)
    assert outcome.p_value == pytest.approx(expected.pvalue)
    assert (outcome.low, outcome.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_trials_that_share_queries_are_tested_by_the_corrected_t_test(differences):
    overlap = 1 / 3
    outcome = over_trials(differences, overlap, level=0.05)
    expected = corrected_resampled_t_test(differences, n_train=3, n_test=1)
    assert outcome.p_value == pytest.approx(expected.p_value)
    error = math.sqrt((0.1 + overlap) * differences.var(ddof=1))
    interval = stats.t.interval(0.95, 9, differences.mean(), error)
    assert (outcome.low, outcome.high) == pytest.approx(interval)


def test_one_trial_decides_nothing():
    outcome = over_trials(np.array([0.3]), overlap=0.0, level=0.05)
    assert math.isnan(outcome.p_value)
    assert (outcome.verdict, outcome.note) == ("undecided", "too few trials")


@pytest.mark.parametrize(
    ("p_value", "mean", "verdict"),
    [
        (0.01, 0.1, "holds"),
        (0.01, -0.1, "fails"),
        (0.06, 0.1, "undecided"),
        (math.nan, 0.1, "undecided"),
        (0.0, 0.0, "undecided"),
    ],
    ids=["positive", "negative", "may be chance", "not tested", "equal"],
)
def test_the_verdict_is_the_sign_of_what_is_significant(p_value, mean, verdict):
    assert verdict_of(p_value, mean, level=0.05) == verdict


def test_a_rounding_error_is_a_tie():
    gains = np.array([0.1, 1e-15, -1e-15, -0.2, -0.3, math.nan])
    assert win_tie_loss(gains) == (1, 2, 2)
