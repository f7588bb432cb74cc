"""The papers' own tests: intervals that touch, and one-sided tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tautrank.papers.evidence import Advantage, judge_as_paper
from tautrank.papers.study import PaperTest


def test_intervals_touch_exactly_at_the_p_value():
    """At the level p the two confidence intervals end at the same number."""
    rng = np.random.default_rng(0)
    a, b = 0.52 + 0.01 * rng.standard_normal(5), 0.50 + 0.02 * rng.standard_normal(5)
    p = judge_as_paper(Advantage(a - b, sides=(a, b)), PaperTest("intervals")).p_value
    low_of_a = stats.t.interval(1 - p, 4, a.mean(), stats.sem(a))[0]
    high_of_b = stats.t.interval(1 - p, 4, b.mean(), stats.sem(b))[1]
    assert low_of_a == pytest.approx(high_of_b, abs=1e-12)


@pytest.mark.parametrize(
    ("difference", "verdict", "p_value"),
    [(0.0, "undecided", 1), (-0.1, "fails", 1), (0.1, "holds", 0)],
    ids=["no difference", "the other way", "as claimed"],
)
def test_a_one_sided_test_of_equal_differences(difference, verdict, p_value):
    outcome = judge_as_paper(Advantage(np.full(5, difference)), PaperTest(one_sided=True))
    assert (outcome.verdict, outcome.p_value) == (verdict, p_value)


@pytest.mark.parametrize("trials", [[], [0.3]], ids=["no trial", "one trial"])
def test_too_few_trials_are_undecided(trials):
    outcome = judge_as_paper(Advantage(np.array(trials)), PaperTest())
    assert outcome.verdict == "undecided"
    assert np.isnan(outcome.p_value)
