"""Comparing two systems whose training was repeated: queries vary, and so do training runs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real
from tautrank.arrays import F64
from tautrank.errors import DataError
from tautrank.significance.paired import Alternative, TestResult, check_alternative

_SMALLEST_P = 1e-60  # below it a p-value is given as 0


def repeated_runs_test(
    a: ArrayLike, b: ArrayLike, *, overlap: float = 0.0, alternative: Alternative = "two-sided"
) -> TestResult:
    """Test two systems on the same queries over several training runs, counting both sources of chance.

    A test over the queries of one run asks whether *these two models* differ. Whether the two *methods* differ also
    depends on what another seed or another split would have given. With ``d_rq`` the difference in run r on query q,
    ``m_q`` its mean over runs and ``m_r`` its mean over queries, the mean difference has the variance

        v_q + v_r,  v_q = var(m_q) / Q,  v_r = var(m_r) (1/R + overlap)

    in a model with random queries and random runs (the query-by-run part is counted twice, which is on the safe side).
    The p-value is the level alpha at which ``mean(d)^2 = v_q t_(Q-1)^2 + v_r t_(R-1)^2``, t the two-sided critical
    values at alpha: Banerjee's interval, which never rejects more often than its level, however few runs there are.
    (Satterthwaite's approximate degrees of freedom do, with two or three runs.) ``overlap`` is Nadeau and Bengio's
    correction for runs that share training data: 0 for seeds on the same data, held-out over training size for repeated
    splits. One run gives the paired t-test.

    Banerjee, Expressions for the lower bound to confidence coefficients (1960); Nadeau and Bengio, Inference for the
    generalization error (2003).

    Args:
        a, b: ``[runs, queries]`` per-query values; run r of both belongs together. NaN where the metric skips a query.
        overlap: what is added to 1/R.
        alternative: ``"two-sided"``, ``"greater"`` (a above b) or ``"less"``.

    >>> a = [[0.5, 0.6, 0.7, 0.4], [0.6, 0.7, 0.7, 0.5]]
    >>> b = [[0.4, 0.6, 0.6, 0.4], [0.4, 0.6, 0.6, 0.3]]
    >>> repeated_runs_test(a, b)
    <repeated runs: difference +0.1, statistic 1.852, p = 0.304 (two-sided), n = 4>
    """
    check_alternative(alternative)
    overlap = real("overlap", overlap)
    differences = _differences(a, b)
    runs, queries = differences.shape
    mean = float(differences.mean())
    parts = [(float(np.var(differences.mean(axis=0), ddof=1)) / queries, queries - 1)]
    if runs > 1:
        parts.append((float(np.var(differences.mean(axis=1), ddof=1)) * (1 / runs + overlap), runs - 1))
    variance = sum(part for part, _ in parts)
    # Differences that are all equal up to rounding leave no spread to measure a mean against.
    negligible = (1e-14 * max(1.0, float(np.abs(differences).max()))) ** 2
    if variance > negligible:
        statistic = mean / math.sqrt(variance)
        both_sides = _banerjee(mean, parts)
    elif abs(mean) <= math.sqrt(negligible):
        return TestResult(0.0, 1.0, mean, queries, "repeated runs", alternative)
    else:
        statistic, both_sides = math.copysign(math.inf, mean), 0.0
    if alternative == "two-sided":
        p_value = both_sides
    else:
        p_value = both_sides / 2 if (mean > 0) == (alternative == "greater") else 1 - both_sides / 2
    return TestResult(statistic, p_value, mean, queries, "repeated runs", alternative)


def _banerjee(mean: float, parts: list[tuple[float, int]]) -> float:
    """The two-sided level at which the interval of half width sqrt(sum of variance * t^2) just reaches `mean`."""
    from scipy.optimize import brentq
    from scipy.special import stdtrit

    def excess(log_level: float) -> float:
        level = math.exp(log_level)
        return math.hypot(*(math.sqrt(v) * float(stdtrit(freedom, level / 2)) for v, freedom in parts)) - abs(mean)

    smallest = math.log(_SMALLEST_P)
    if mean == 0 or excess(smallest) <= 0:
        return 1.0 if mean == 0 else 0.0
    return math.exp(float(brentq(excess, smallest, 0.0, xtol=1e-13, rtol=1e-13)))


def _differences(a: ArrayLike, b: ArrayLike) -> F64:
    first, second = (np.asarray(values, np.float64) for values in (a, b))
    if first.ndim != 2 or first.shape != second.shape:
        raise DataError(f"a, b: found shapes {first.shape} and {second.shape}; expected two of [runs, queries], equal")
    skipped = np.isnan(first)
    if not np.array_equal(skipped, np.isnan(second)) or np.any(skipped != skipped[:1]):
        raise DataError("a, b: found queries that only some runs or systems skipped; expected the same queries in all")
    differences = (first - second)[:, ~skipped[0]] if first.shape[0] else first
    if differences.shape[0] < 1 or differences.shape[1] < 2:
        raise DataError(
            f"a, b: found {differences.shape[0]} runs of {differences.shape[1]} queries; expected at least 1 of 2"
        )
    return differences
