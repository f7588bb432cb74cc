"""Verdicts on what should be positive: a test as plain numbers, and whether the claim holds, fails
or is undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from tautrank.arrays import F64
from tautrank.significance.systems import Combined, SystemsTest, combined_test

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


@dataclass(frozen=True)
class TestOutcome:
    """The outcome of a test; a number that is not known is NaN.

    Args:
        test: its name.
        difference: the mean that is tested against 0.
        p_value: two-sided, of this test alone.
        adjusted: the same after Holm's correction over what is tested together.
        verdict: ``holds``, ``fails`` or ``undecided``, by the adjusted p-value.
        standard_error, degrees: of the difference.
        low, high: its confidence interval, at 1 - the level of the test.
        detectable: the smallest true difference that this test alone finds with 80 % power.
        note: what a reader of the p-value has to know.
    """

    # pytest would otherwise try to collect the class from every test module that imports it.
    __test__: ClassVar[bool] = False

    test: str
    difference: float = math.nan
    p_value: float = math.nan
    adjusted: float = math.nan
    verdict: str = UNDECIDED
    standard_error: float = math.nan
    degrees: float = math.nan
    low: float = math.nan
    high: float = math.nan
    detectable: float = math.nan
    note: str = ""

    @classmethod
    def of(
        cls,
        test: str,
        difference: float,
        error: float,
        degrees: float,
        level: float,
        note: str = "",
    ) -> TestOutcome:
        """Return the outcome of Student's t-test of a mean difference: p-value and confidence
        interval, without a verdict.

        Args:
            test: the name of the test.
            difference: the mean difference, which is tested against 0.
            error: its standard error.
            degrees: the degrees of freedom of the standard error.
            level: the level of the test.
            note: what a reader of the p-value has to know.

        >>> outcome = TestOutcome.of("t-test over trials", 0.02, 0.01, 9, 0.05)
        >>> round(outcome.p_value, 4), round(outcome.low, 4), round(outcome.detectable, 4)
        (0.0766, -0.0026, 0.0315)
        """
        if error > 0:
            result = combined_test([difference], [error], [degrees], level)
        else:
            # If all numbers are equal, nothing is left to chance: p is 1 for no difference, else 0.
            p_value = float(difference == 0)
            result = Combined(
                difference=difference,
                standard_error=error,
                degrees=degrees,
                p_value=p_value,
                low=difference,
                high=difference,
                detectable=0.0,
            )
        # All fields of the result of the test are fields of an outcome too. One test alone needs no
        # adjustment of its p-value.
        return cls(test, **vars(result), adjusted=result.p_value, note=note)

    @classmethod
    def of_pair(cls, tested: SystemsTest, a: int, b: int) -> TestOutcome:
        """Return the outcome of the test of system a minus system b; its p-value is not adjusted
        for other comparisons, and there is no verdict.

        Args:
            tested: the test of all pairs of systems.
            a, b: indices of the two systems.
        """
        return cls.of(
            "test over queries and trials",
            difference=float(tested.differences[a, b]),
            error=float(tested.standard_errors[a, b]),
            degrees=float(tested.degrees[a, b]),
            level=tested.level,
            note=tested.note,
        )

    def with_verdict(self, adjusted: float, level: float, sign: int = 1) -> TestOutcome:
        """Return the outcome with a verdict on the claim that its difference is positive (or
        negative, with sign -1).

        Args:
            adjusted: the p-value after Holm's correction for several comparisons.
            level: the level of the test.
            sign: 1 where more is better; -1 for a cost.
        """
        verdict = verdict_of(adjusted, sign * self.difference, level)
        return replace(self, adjusted=adjusted, verdict=verdict)


def over_trials(d: F64, overlap: float, level: float) -> TestOutcome:
    """Test whether the mean of one number per trial differs from 0, by a t-test over the trials.

    Trials that draw their training queries again have some in common; Nadeau and Bengio's term
    makes the variance of the mean larger for it: (1/n + overlap) var(d).

    Args:
        d: one number per trial, such as the difference between two systems.
        overlap: number of held-out queries over that of the others if trials draw their training
            data again, else 0.
        level: the significance level.

    >>> round(over_trials(np.array([1.0, 2.0, 3.0]), 1 / 3, 0.05).p_value, 3)
    0.134
    """
    name = "t-test over trials"
    if overlap:
        name += ", which share training queries (Nadeau and Bengio)"
    if d.size < 2:
        mean = float(d.mean()) if d.size else math.nan
        return TestOutcome(name, mean, note="too few trials")
    variance = float(d.var(ddof=1))
    # Equal numbers have a variance of a few rounding errors: it counts as 0.
    rounding = 1e-14 * np.abs(d).max()
    standard_error = 0.0
    if variance > rounding**2:
        standard_error = math.sqrt((1 / d.size + overlap) * variance)
    return TestOutcome.of(name, float(d.mean()), standard_error, d.size - 1, level)


def verdict_of(p: float, mean: float, level: float) -> str:
    """Return the verdict of a two-sided test on the claim that a mean is positive.

    It holds or fails by the sign of the mean if the p-value is at most the level, else it is
    undecided.

    >>> verdict_of(0.01, -2.0, 0.05)
    'fails'
    """
    is_significant = p <= level  # false for NaN
    if not is_significant or mean == 0:
        return UNDECIDED
    return HOLDS if mean > 0 else FAILS


class WinTieLoss(NamedTuple):
    """How many queries gain, stay the same, and lose."""

    wins: int
    ties: int
    losses: int


def win_tie_loss(gains: F64) -> WinTieLoss:
    """Count the queries that gain, stay the same, and lose; a rounding error is no difference.

    Args:
        gains: one number per query, above 0 if it is better; NaN is left out.

    >>> win_tie_loss(np.array([0.2, 1e-15, -0.1, 0.3, math.nan]))
    WinTieLoss(wins=2, ties=1, losses=1)
    """
    rounding = 1e-12  # far below any gain of a metric, far above errors of float64
    return WinTieLoss(
        wins=int((gains >= rounding).sum()),
        ties=int((np.abs(gains) < rounding).sum()),
        losses=int((gains <= -rounding).sum()),
    )
