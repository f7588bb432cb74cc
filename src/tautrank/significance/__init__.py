"""Whether a difference is real: paired tests, intervals, tests over repeated trainings,
corrections.
"""

from tautrank.significance.paired import (
    Interval,
    TestResult,
    bootstrap_interval,
    corrected_resampled_t_test,
    holm,
    paired_t_test,
    randomisation_test,
)
from tautrank.significance.systems import SystemsTest, systems_test

__all__ = [
    "Interval",
    "SystemsTest",
    "TestResult",
    "bootstrap_interval",
    "corrected_resampled_t_test",
    "holm",
    "paired_t_test",
    "randomisation_test",
    "systems_test",
]
