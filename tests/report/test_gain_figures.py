"""Figures of gains: bars and groups of queries hold the gains, and intervals what trials share."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tautrank.report.gain_figures import (
    QueryGains,
    difficulty_groups,
    gain_sections,
    interval_over_trials,
    sorted_bars,
)
from tautrank.significance.paired import corrected_resampled_t_test


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60), st.integers(1, 20))
def test_bars_are_sorted_and_keep_the_mean(values, most):
    bars = sorted_bars(values, most)
    assert bars.size == min(most, len(values))
    assert (np.diff(bars) >= -1e-12).all()
    counts = [part.size for part in np.array_split(np.arange(len(values)), bars.size)]
    np.testing.assert_allclose(np.average(bars, weights=counts), np.mean(values), atol=1e-12)
    assert max(counts) - min(counts) <= 1


@given(
    st.lists(
        st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1)),
        max_size=40,
    ),
    st.integers(1, 6),
    st.booleans(),
)
def test_difficulty_groups_divide_the_queries_and_keep_equals_together(values, most, higher):
    baseline = np.array([*values, 0.5], float)
    groups = difficulty_groups(baseline, most, higher_is_better=higher)
    assert len(groups) <= most
    assert sorted(np.concatenate(groups)) == np.flatnonzero(~np.isnan(baseline)).tolist()
    for harder, easier in itertools.pairwise(groups):
        low, high = (harder, easier) if higher else (easier, harder)
        assert baseline[low].max() < baseline[high].min()


def test_queries_of_different_values_are_divided_evenly():
    values = np.random.default_rng(0).permutation(100)
    assert [group.size for group in difficulty_groups(values)] == [20] * 5


@pytest.fixture(scope="module")
def gains():
    """Gains of a cost over a baseline: two systems, 90 queries, one of them skipped."""
    rng = np.random.default_rng(3)
    skipped = np.where(np.arange(90) == 7, math.nan, 0.0)
    of_systems = {
        "a": rng.normal(0.1, 0.1, 90) + skipped,
        "b": rng.normal(0.0, 0.1, 90) + skipped,
    }
    return QueryGains("arp", "base", rng.random(90) + skipped, of_systems, higher_is_better=False)


def drawn(gains):
    return [section.figure.data for section in gain_sections(gains)]


def test_bars_are_the_gains_of_the_queries(gains):
    bars, _ = drawn(gains)
    for bar, of_system in zip(bars, gains.gains.values(), strict=True):
        np.testing.assert_allclose(bar.y, np.sort(of_system[~np.isnan(of_system)]))


def test_points_are_means_over_groups_the_hardest_first(gains):
    _, points = drawn(gains)
    groups = difficulty_groups(gains.values, higher_is_better=False)
    hardest, easiest = gains.values[groups[0]], gains.values[groups[-1]]
    assert hardest.min() > easiest.max()  # of a cost, high is hard
    for point, of_system in zip(points, gains.gains.values(), strict=True):
        np.testing.assert_allclose(point.y, [of_system[group].mean() for group in groups])


def test_bootstrap_intervals_are_as_wide_as_two_standard_errors(gains):
    _, points = drawn(gains)
    groups = difficulty_groups(gains.values, higher_is_better=False)
    for point, of_system in zip(points, gains.gains.values(), strict=True):
        for number, group in enumerate(groups):
            up, down = point.error_y.array[number], point.error_y.arrayminus[number]
            error = of_system[group].std(ddof=1) / math.sqrt(group.size)
            assert 0.5 * 1.96 * error < min(up, down)
            assert max(up, down) < 1.5 * 1.96 * error


def test_intervals_over_trials_count_what_trials_share(gains):
    trial_of, overlap = np.repeat([0, 1, 3], 30), 0.5
    _, points = drawn(replace(gains, trial_of=trial_of, overlap=overlap))
    for number, group in enumerate(difficulty_groups(gains.values, higher_is_better=False)):
        of_group, trial = gains.gains["a"][group], trial_of[group]
        by_trial = [of_group[trial == number].mean() for number in (0, 1, 3)]
        variance = (1 / 3 + overlap) * np.var(by_trial, ddof=1)
        half_width = stats.t.ppf(0.975, 2) * math.sqrt(variance)
        assert points[0].error_y.array[number] == pytest.approx(half_width)
        assert points[0].error_y.arrayminus[number] == pytest.approx(half_width)


def test_one_trial_has_no_intervals(gains):
    once = replace(gains, trial_of=np.zeros(90, int), overlap=0.5)
    _, section = gain_sections(once)
    assert set(section.figure.data[0].error_y.array) == {None}
    assert "interval" not in section.caption


def test_fewer_than_ten_queries_are_not_drawn():
    assert drawn(QueryGains("ndcg", "base", np.ones(9), {"a": np.ones(9)})) == []


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8, unique=True), st.floats(0.01, 1))
def test_interval_ends_where_the_corrected_test_begins_to_reject(values, overlap):
    differences = np.array(values)
    assume(np.ptp(differences) >= 1e-3)
    for end in interval_over_trials(differences, overlap):
        test = corrected_resampled_t_test(differences - end, n_train=1.0, n_test=overlap)
        assert test.p_value == pytest.approx(0.05)
