"""Versions of tautrank that give the same results."""

from __future__ import annotations

import tautrank as tr
from tautrank.experiments.versions import SAME_RESULTS, results_version


def test_this_version_gives_the_results_of_the_first_one_that_did():
    assert tr.__version__ in SAME_RESULTS
    assert results_version(tr.__version__) == SAME_RESULTS[0]


def test_a_version_with_other_results_is_itself():
    assert results_version("99.0") == "99.0"
