"""Compare systems whose training was repeated: which differences are real, and how small a one
would have been found.

SciPy is imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64, Bools, check_each, numbers
from tautrank.errors import DataError
from tautrank.significance.paired import fraction, holm

ONE_RUN = "one run each: this compares two models, not two methods"
POWER = 0.8
_FEWEST_RUNS_OF_TWO = 5
_ROUNDING = 1e-14  # of the largest value: what is below counts as equal


@dataclass(frozen=True, eq=False, repr=False)
class SystemsTest:
    """The result of `systems_test`: every pair of systems, as arrays ``[systems, systems]`` with
    NaN on the diagonal.

    Attributes:
        differences: mean of the first system (row) minus mean of the second (column).
        standard_errors: their standard errors.
        degrees: degrees of freedom of each.
        p_values: two-sided, of one comparison.
        adjusted: the same after Holm's correction over the pairs that are compared; NaN for all
            others.
        low, high: ends of the confidence intervals of the differences, at 1 - ``level``, each for
            one comparison.
        detectable: the smallest true difference found with 80 % power, in the compared pair where
            it is largest.
        detectable_adjusted: the same if the pair has to pass the first step of Holm's correction.
        runs: number of runs (or trials) of each system.
        queries: number of queries with a value.
        level: level of the tests.
        baseline: index of the system that the others are compared with; None if all pairs are
            compared.
        note: what a reader of the p-values has to know, or ``""``.
    """

    differences: F64
    standard_errors: F64
    degrees: F64
    p_values: F64
    adjusted: F64
    low: F64
    high: F64
    detectable: float
    detectable_adjusted: float
    runs: int
    queries: int
    level: float
    baseline: int | None
    note: str

    def __repr__(self) -> str:
        # `adjusted` has the p-values of all pairs, adjusted by Holm, NaN for pairs not compared. Each
        # pair counts once, above the diagonal.
        is_compared = np.triu(~np.isnan(self.adjusted))
        n_pairs = int(is_compared.sum())
        n_different = int(np.count_nonzero(self.adjusted[is_compared] <= self.level))
        outcome = f"{n_different} of {n_pairs} pairs differ at {self.level:g} after Holm"
        size = f"{self.runs} runs, {self.queries} queries"
        text = f"{outcome}; {size}, detectable difference {self.detectable:.3g}"
        if self.note:
            text += f"; {self.note}"
        return f"<systems test: {text}>"


def systems_test(
    values: ArrayLike, overlap: float = 0.0, *, baseline: int | None = None, level: float = 0.05
) -> SystemsTest:
    """Test which systems differ, given repeated trainings of each on the same queries.

    A test over the queries of one training asks whether these two *models* differ. Whether the
    *methods* differ also depends on what another seed or another split would have given. Three
    sources of chance make a mean difference vary: the queries, the runs, and how each query fares
    in each run. The last one is by far the largest and must be counted once. With d = X[a] - X[b]
    over R runs and Q queries, and the mean squares of an analysis of variance of all S systems,
    MS_sr (system x run) and MS_srq (system x run x query):

        v_q = var_q(mean_r d) / Q                               queries, and queries x runs
        s2  = max(0, 2 (MS_sr - MS_srq) / Q)                    runs alone
        v   = v_q + s2 (1/R + overlap)                          variance of the mean of d
        df  = v^2 / (v_q^2 / (Q - 1) + ((2 MS_sr / Q) (1/R + overlap))^2 / ((S - 1) (R - 1)))

    and t = mean(d) / sqrt(v) has about df degrees of freedom. The variance of runs is taken from
    all systems together: two systems tell little about it. A large overlap would multiply the doubt
    about s2 even where s2 is 0, so df is then at least the smaller of Q - 1 and (S - 1)(R - 1), as
    for any sum of variances. With one run the test is the paired t-test. Two systems alone need at
    least 5 runs. For them, with A = 2 MS_sr / Q and B = 2 MS_srq / Q, which are then the mean
    squares of d itself,

        v   = max(v_q, B/R) + (A - B)/R + overlap max(0, A - B)

    because with so few degrees of freedom a negative A - B that is set to 0 makes v too large: v_q
    already holds B/R.

    The smallest difference found with 80 % power is ``sqrt(v) (t_df(1 - level / 2) + t_df(.8))``
    (Bloom, "Minimum detectable effects", Evaluation Review 19, 1995).

    Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics
    Bulletin 2, 1946; Searle, Casella and McCulloch, "Variance components", 1992, ch. 4. ``overlap``
    is the term of Nadeau and Bengio, "Inference for the generalization error", Machine Learning 52,
    2003, here on the net variance of runs only.

    Args:
        values: ``[systems, runs, queries]``; run r of all systems belongs together (the same split,
            the same seed). NaN where the metric skips a query, in all systems and runs.
        overlap: what runs have in common counts as this many more runs' variance: 0 for seeds on
            the same data, held-out over training size for repeated splits of one data set.
        baseline: index of the system to compare the others with; by default all pairs are compared.
        level: level of the tests, and 1 - confidence of the intervals.

    >>> import numpy as np
    >>> query, run = np.linspace(0.2, 0.8, 40), np.array([[-0.01], [0.0], [0.01]])
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (3, 3, 40))
    >>> result = systems_test(query + run + noise + [[[0.0]], [[0.0]], [[0.05]]], baseline=0)
    >>> result
    <systems test: 1 of 2 pairs differ at 0.05 after Holm; 3 runs, 40 queries, detectable difference 0.0316>
    >>> [round(float(each[2, 0]), 3) for each in (result.differences, result.low, result.high)]
    [0.043, 0.019, 0.068]
    """
    checked = _checked_values(values, "runs")
    is_tested = ~np.isnan(checked[0])  # [runs, queries], the same for all systems
    is_in_some_runs_only = is_tested.any(0) & ~is_tested.all(0)
    if is_in_some_runs_only.any():
        raise DataError(
            f"values: found a value of query {np.argmax(is_in_some_runs_only)} in some runs only; expected"
            " the same queries in all (resampled_systems_test takes trials that test different"
            " queries)"
        )
    return parts_test(parts_of(checked), overlap, baseline, level)


def resampled_systems_test(
    values: ArrayLike, overlap: float = 0.0, *, baseline: int | None = None, level: float = 0.05
) -> SystemsTest:
    """Test which systems differ, given trials that each test a part of the queries, drawn anew.

    Each query is averaged over the trials that tested it, the queries are compared, and the net
    variance of trials is added. With n_q the number of trials that tested query q, k_t the number
    of queries of trial t, N the [trials, queries] matrix of ones where t tested q, w_t =
    mean_q(N_tq / n_q), d = X[a] - X[b] and m_q the mean of d over the trials of q:

        C   = diag(k) - N diag(1/n) N'                          trials, less the means of their queries
        MS_t = r' C^+ r / rank(C),  r_t = sum_q N_tq (d_tq - m_q)
        MS_e = (sum_tq (d_tq - m_q)^2 - r' C^+ r) / (sum(n) - Q - rank(C))
        s2  = max(0, (MS_t - MS_e) rank(C) / tr(C))             trials alone
        v   = var_q(m_q) / Q + s2 (sum(w^2) - (mean(1/n) - sum(w^2)) / (Q - 1) + overlap)

    with MS_t and MS_e pooled over all systems as in `systems_test`, which is the special case of
    trials that test all queries (then C = Q (I - 1/R), and the factor of s2 is 1/R + overlap). This
    is the analysis of unbalanced data by Henderson, "Estimation of variance and covariance
    components", Biometrics 9, 1953, method 3. The expectation of v is the variance of mean_q(m_q):
    var_q(m_q) already holds a little of the trials' variance, which the last term takes out again.

    Args:
        values: ``[systems, trials, queries]``; NaN where a trial did not test the query, in all
            systems.
        overlap: as in `systems_test`.
        baseline: index of the system to compare the others with; by default all pairs are compared.
        level: level of the tests, and 1 - confidence of the intervals.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(0, 0.05, (3, 20, 100)) + [[[0.0]], [[0.0]], [[0.05]]]
    >>> resampled_systems_test(np.where(rng.random((20, 100)) < 0.2, values, np.nan), baseline=0)
    <systems test: 1 of 2 pairs differ at 0.05 after Holm; 20 runs, 100 queries, detectable difference 0.0121>
    """
    return parts_test(parts_of(_checked_values(values, "trials")), overlap, baseline, level)


@dataclass(frozen=True)
class Combined:
    """The result of `combined_test`: one difference over several data sets.

    Attributes:
        difference: the weighted mean difference.
        standard_error: its standard error.
        degrees: its degrees of freedom.
        p_value: two-sided.
        low, high: ends of its confidence interval, at 1 - level.
        detectable: the smallest true difference found with 80 % power.
    """

    difference: float
    standard_error: float
    degrees: float
    p_value: float
    low: float
    high: float
    detectable: float


def combined_test(
    differences: ArrayLike, standard_errors: ArrayLike, degrees: ArrayLike, level: float = 0.05
) -> Combined:
    """Test the mean difference of two systems over several data sets, the surest of them weighted
    most.

    With weights w_i = 1 / se_i^2 and W their sum, the difference is sum(w d) / W, its variance (1 +
    m) / W and its degrees of freedom W^2 / sum(w^2 / df) (Satterthwaite). m = 4 sum(w/W (1 - w/W) /
    df) accounts for weights that are themselves estimated (Meier, "Variance of a weighted mean",
    Biometrics 9, 1953). The question is the average over these data sets, not whether another data
    set would agree.

    Args:
        differences: one per data set, as `SystemsTest.differences` has them for one pair.
        standard_errors: their standard errors, all above 0.
        degrees: their degrees of freedom.
        level: level of the test, and 1 - confidence of the interval.

    >>> both = combined_test([0.02, 0.01], [0.01, 0.01], [400, 400])
    >>> round(both.difference, 4), round(both.standard_error, 4), round(both.p_value, 3)
    (0.015, 0.0071, 0.035)
    """
    level = fraction("level", level)
    d = numbers("differences", differences, "data set")
    se = numbers("standard_errors", standard_errors, "data set", d.size)
    df = numbers("degrees", degrees, "data set", d.size)
    if not d.size:
        raise DataError("differences: found none; expected one per data set")
    check_each("differences", d, np.isfinite(d), "a finite number")
    check_each("standard_errors", se, (se > 0) & (se < np.inf), "a finite number above 0")
    check_each("degrees", df, df > 0, "a number above 0")
    # Relative to the largest weight, so that no weight 1 / se^2 overflows.
    smallest = se.min()
    relative_weights = (smallest / se) ** 2
    sum_of_weights = relative_weights.sum()
    weights = relative_weights / sum_of_weights
    mean = np.asarray(weights @ d)

    m = 4 * np.sum(weights * (1 - weights) / df)  # for weights that are themselves estimated
    error = smallest * np.sqrt((1 + m) / sum_of_weights)
    freedom = 1 / np.sum(weights**2 / df)
    student = _student(mean, error, freedom, level)
    return Combined(
        difference=float(mean),
        standard_error=float(error),
        degrees=float(freedom),
        p_value=float(student.p_values),
        low=float(mean - student.half_widths),
        high=float(mean + student.half_widths),
        detectable=float(student.detectable),
    )


@dataclass(frozen=True, eq=False)
class Parts:
    """What the test needs to know of the values; the names are those of `systems_test`.

    Args:
        means: of the systems, ``[systems]``.
        v_q: ``[systems, systems]``.
        gross, noise: 2 MS_sr / Q and 2 MS_srq / Q.
        freedom: degrees of freedom of `gross`; 0 if it is unknown.
        share: the part of the variance of one run in that of the mean, 1/R if all runs test all
            queries.
        runs, queries: how many there are.
        largest: the largest absolute value.
    """

    means: F64
    v_q: F64
    gross: float
    noise: float
    freedom: int
    share: float
    runs: int
    queries: int
    largest: float


def parts_of(x: F64) -> Parts:
    """Return the statistics of metric values that a test of systems needs: means, variances between
    queries, and variances between runs.

    Args:
        x: checked values ``[systems, runs, queries]``, NaN where a run did not test the query.

    >>> parts = parts_of(np.array([[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]]))
    >>> parts.means.tolist(), parts.share, round(parts.gross, 9), round(parts.noise, 9)  # runs differ by 2
    ([2.5, 0.0], 0.5, 2.0, 0.0)
    """
    is_tested = ~np.isnan(x[0])  # [runs, queries], the same for all systems
    if not is_tested.all():
        # Leave out queries that no run tested; sums take 0 for what is missing.
        has_value = is_tested.any(0)
        is_tested = is_tested[:, has_value]
        x = np.where(is_tested, x[:, :, has_value], 0.0)
    runs, queries = is_tested.shape
    if queries < 2:
        raise DataError(f"values: found {queries} queries with a value; expected at least 2")

    runs_per_query = is_tested.sum(0)
    query_means = x.sum(1) / runs_per_query  # [systems, queries]
    variances_of_differences = []
    for means_of_system in query_means:
        differences = query_means - means_of_system
        variances_of_differences.append(differences.var(axis=1, ddof=1))

    run_variance = _run_variance(x, is_tested, runs_per_query)
    return Parts(
        means=query_means.mean(1),
        v_q=np.array(variances_of_differences) / queries,
        gross=run_variance.gross,
        noise=run_variance.noise,
        freedom=run_variance.freedom,
        share=_share_of_runs(is_tested, runs_per_query),
        runs=runs,
        queries=queries,
        largest=float(np.abs(x).max()),
    )


def _share_of_runs(is_tested: Bools, runs_per_query: I64) -> float:
    """Return the factor by which the variance between runs (repeated trainings) enters the variance
    of a system's mean over runs and queries: 1/R if each of R runs tests all queries.

    With n_q the number of runs that tested query q, and w_t the mean over queries of 1 / n_q where
    run t tested q, else 0, the factor is sum(w^2) - (mean(1/n) - sum(w^2)) / (queries - 1). The
    last term is what the variance between queries already holds of the runs' variance.

    Args:
        is_tested: whether each run tested each query, ``[runs, queries]``.
        runs_per_query: number of runs that tested each query.
    """
    run_weights = (is_tested / runs_per_query).mean(1)  # w_t above
    sum_of_squares = float(np.square(run_weights).sum())
    mean_inverse = float((1 / runs_per_query).mean())
    already_counted = (mean_inverse - sum_of_squares) / (runs_per_query.size - 1)
    return sum_of_squares - already_counted


class StandardErrors(NamedTuple):
    """The standard errors of all differences, and their degrees of freedom.

    Attributes:
        errors: ``[systems, systems]``.
        degrees: ``[systems, systems]``.
    """

    errors: F64
    degrees: F64


def errors_of(parts: Parts, overlap: float = 0.0) -> StandardErrors:
    """Return the standard errors of the differences between all systems' means, ``[systems,
    systems]``, and their degrees of freedom.

    The variance of a difference is that between queries plus the net variance between runs, what
    the noise of single values does not explain. Degrees of freedom are Satterthwaite's.

    Args:
        parts: variances between queries and between runs.
        overlap: what runs have in common counts as this many more runs' variance.

    >>> errors, degrees = errors_of(parts_of(np.array([[[1.0, 3.0]], [[0.0, 0.0]]])))  # one run: d = 1, 3
    >>> float(errors[0, 1]), float(degrees[0, 1])
    (1.0, 1.0)
    """
    share = parts.share
    signed_net = parts.gross - parts.noise
    net = max(0.0, signed_net)
    if parts.means.size > 2 or parts.runs < _FEWEST_RUNS_OF_TWO:
        variances = parts.v_q + net * (share + overlap)
    else:  # variances that are right on average, since few runs would often leave net at 0
        variances = np.maximum(parts.v_q, parts.noise * share)
        variances = variances + signed_net * share
        variances = variances + net * overlap
    # Differences that are all equal up to rounding leave no spread to measure a mean against.
    rounding = _ROUNDING * max(1.0, parts.largest)
    varies = variances > rounding**2

    # Satterthwaite: v^2 over the sum of each variance squared over its own degrees of freedom.
    query_freedom = parts.queries - 1
    divisors = parts.v_q**2 / query_freedom
    if parts.freedom:
        gross_variance_of_runs = parts.gross * (share + overlap)
        divisors = divisors + gross_variance_of_runs**2 / parts.freedom
    with np.errstate(invalid="ignore"):
        degrees = np.where(varies, variances**2 / divisors, float(query_freedom))
    if overlap:
        # A sum of variances has no fewer degrees of freedom than the least of its terms.
        run_freedom = parts.freedom if parts.freedom else query_freedom
        degrees = np.maximum(degrees, min(query_freedom, run_freedom))

    errors = np.where(varies, np.sqrt(np.maximum(variances, 0.0)), 0.0)
    return StandardErrors(errors, degrees)


def parts_test(
    parts: Parts, overlap: float = 0.0, baseline: int | None = None, level: float = 0.05
) -> SystemsTest:
    """Test which systems differ, given the means and variances of their metric values; compared are
    all pairs, or all systems with a baseline.

    Args:
        parts: what `parts_of` returned for the values.
        overlap: what runs have in common counts as this many more runs' variance.
        baseline: index of the system to compare the others with.
        level: level of the tests, and 1 - confidence of the intervals.

    >>> values = np.random.default_rng(0).normal(size=(2, 5, 9))
    >>> bool(parts_test(parts_of(values)).p_values[0, 1] == systems_test(values).p_values[0, 1])
    True
    """
    level = fraction("level", level)
    n_systems = parts.means.size
    if baseline is not None:
        baseline = whole("baseline", baseline, 0, n_systems - 1)
    errors, degrees = errors_of(parts, real("overlap", overlap))
    differences = np.subtract.outer(parts.means, parts.means)
    # Without any spread, a difference of rounding errors would count as infinitely sure.
    rounding = _ROUNDING * max(1.0, parts.largest)
    is_rounding = (errors == 0) & (np.abs(differences) <= rounding)
    differences = np.where(is_rounding, 0.0, differences)

    student = _student(differences, errors, degrees, level)
    is_compared = _compared_pairs(n_systems, baseline)
    adjusted = np.full((n_systems, n_systems), np.nan)
    adjusted[is_compared] = holm(student.p_values[is_compared])
    # Holm's first step divides the level by the number of comparisons.
    level_of_first_step = level / int(is_compared.sum())
    first_step = _student(differences, errors, degrees, level_of_first_step)

    # Added to a matrix, it makes its diagonal NaN: no system is compared with itself.
    on_diagonal = np.where(np.eye(n_systems, dtype=bool), np.nan, 0.0)
    return SystemsTest(
        differences=differences,
        standard_errors=errors + on_diagonal,
        degrees=degrees + on_diagonal,
        p_values=student.p_values + on_diagonal,
        adjusted=np.fmax(adjusted, adjusted.T),
        low=differences - student.half_widths + on_diagonal,
        high=differences + student.half_widths + on_diagonal,
        detectable=float(student.detectable[is_compared].max()),
        detectable_adjusted=float(first_step.detectable[is_compared].max()),
        runs=parts.runs,
        queries=parts.queries,
        level=level,
        baseline=baseline,
        note=_note(n_systems, parts.runs, parts.freedom),
    )


def _compared_pairs(n_systems: int, baseline: int | None) -> Bools:
    """Return a mask ``[systems, systems]`` of the pairs of systems to compare: all pairs, or only
    those with the baseline. It is true above the diagonal only, so that each pair is there once.
    """
    is_compared = np.triu(np.ones((n_systems, n_systems), bool), 1)
    if baseline is not None:
        is_baseline = np.arange(n_systems) == baseline
        # A pair stays if its column or its row is the baseline.
        is_compared &= is_baseline | is_baseline[:, None]
    return is_compared


class _RunVariance(NamedTuple):
    """The variance of runs; the names are those of `Parts`."""

    gross: float
    noise: float
    freedom: int


def _run_variance(x: F64, is_tested: Bools, runs_per_query: I64) -> _RunVariance:
    """Return the mean squares of an analysis of variance: how much values vary between the runs of
    a system, and how much within a run.

    Henderson's method 3 for runs that test different queries. With N = `is_tested`, k_t the number
    of queries of run t, n_q the number of runs of query q, and r_t the sum of run t's residuals
    after means of queries are taken out, the runs explain the sum of squares r' C^+ r, where
    C = diag(k) - N diag(1/n) N' and C^+ is its pseudo-inverse.

    Args:
        x: ``[systems, runs, queries]``, 0 where a run did not test the query.
        is_tested: whether each run tested each query, ``[runs, queries]``.
        runs_per_query: number of runs that tested each query.
    """
    n_systems = x.shape[0]
    n_queries = x.shape[2]
    queries_per_run = is_tested.sum(1).astype(np.float64)
    C = np.diag(queries_per_run) - (is_tested / runs_per_query) @ is_tested.T
    eigenvalues, eigenvectors = np.linalg.eigh(C)
    is_positive = eigenvalues > 1e-9 * n_queries  # up to rounding
    rank = int(is_positive.sum())
    if rank == 0:
        return _RunVariance(gross=0.0, noise=0.0, freedom=0)
    eigenvalues = eigenvalues[is_positive]

    # What neither the mean of the systems nor that of the query's runs explains.
    residuals = x - x.mean(0)
    residual_means = residuals.sum(1) / runs_per_query
    residuals -= residual_means[:, None]
    residuals *= is_tested
    # The pseudo-inverse of C divides by its positive eigenvalues.
    r = residuals.sum(2) @ eigenvectors[:, is_positive]
    explained_by_runs = float(np.sum(r**2 / eigenvalues))
    sum_of_squares = float(np.vdot(residuals, residuals))
    unexplained = max(0.0, sum_of_squares - explained_by_runs)

    freedom = (n_systems - 1) * rank
    ms_run = explained_by_runs / freedom
    # Where runs and queries use up all values, no noise can be told from the runs' variance, and
    # none is taken out.
    n_values_left = max(1, int(runs_per_query.sum()) - n_queries - rank)
    ms_noise = unexplained / ((n_systems - 1) * n_values_left)
    # From a mean square to the variance of a difference of two systems, hence the 2.
    scale = 2 * rank / float(eigenvalues.sum())
    return _RunVariance(gross=scale * ms_run, noise=scale * ms_noise, freedom=freedom)


class _Student(NamedTuple):
    """Tests of mean differences by Student's t.

    Attributes:
        p_values: two-sided.
        half_widths: half the widths of the confidence intervals.
        detectable: the smallest differences found with 80 % power.
    """

    p_values: F64
    half_widths: F64
    detectable: F64


def _student(mean: F64, error: F64, degrees: F64, level: float) -> _Student:
    """Test by Student's t which mean differences are not 0: return p-values, confidence intervals,
    and the differences that would be detected with 80 % power.

    Args:
        mean: the mean differences.
        error: their standard errors.
        degrees: their degrees of freedom.
        level: level of the tests, and 1 - confidence of the intervals.
    """
    from scipy.special import stdtr, stdtrit  # Student's distribution function and its inverse

    # A mean of 0 has t = 0 even with a standard error of 0; both branches are computed, so 0 / 0 must
    # not warn.
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, np.abs(mean) / error)
    critical_t = np.asarray(stdtrit(degrees, 1 - level / 2), np.float64)
    t_of_power = np.asarray(stdtrit(degrees, POWER), np.float64)
    tail_probability = np.asarray(stdtr(degrees, -t), np.float64)
    # A difference is detected with chance POWER if it is so many standard errors above the critical
    # value. The tests are two-sided: a tail counts twice.
    return _Student(
        p_values=2 * tail_probability,
        half_widths=critical_t * error,
        detectable=(critical_t + t_of_power) * error,
    )


def _note(n_systems: int, runs: int, freedom: int) -> str:
    """Return a warning for readers of the p-values if there are too few runs (repeated trainings) to
    know how much results vary between them; else an empty text.

    Args:
        n_systems: number of systems that are compared.
        runs: number of runs of each system.
        freedom: degrees of freedom of the variance between runs; 0 if it is unknown.
    """
    if runs == 1:
        return ONE_RUN
    if freedom == 0:
        return (
            "no query was tested in two trials: the variance between trials cannot be seen and is"
            " not counted"
        )
    if n_systems == 2 and runs < _FEWEST_RUNS_OF_TWO:
        return (
            f"{runs} runs of two systems say too little about the variance between runs: compare at"
            f" least {_FEWEST_RUNS_OF_TWO} runs, or more systems together"
        )
    return ""


def _checked_values(values: ArrayLike, repeats: str) -> F64:
    """Return metric values as a float64 array ``[systems, runs, queries]``; refuse fewer than two
    systems, infinite values, and queries that are NaN (skipped) in some of the systems only.

    Args:
        values: what the user gave.
        repeats: what errors call the second index: runs or trials.
    """
    expected = f"numbers of shape [systems, {repeats}, queries]"
    try:
        x = np.asarray(values)
    except ValueError:
        raise DataError(f"values: found lists of different lengths; expected {expected}") from None
    if x.ndim != 3 or x.dtype.kind not in "biuf":
        raise DataError(
            f"values: found an array of shape {x.shape} and type {x.dtype}; expected {expected}"
        )
    n_systems, n_repeats, _ = x.shape
    if n_systems < 2 or n_repeats < 1:
        raise DataError(
            f"values: found {n_systems} system(s) of {n_repeats} {repeats}; expected at least 2"
            " systems of 1"
        )
    x = x.astype(np.float64, copy=False)
    is_infinite = np.isinf(x)
    if is_infinite.any():
        index = tuple(np.argwhere(is_infinite)[0].tolist())
        raise DataError(
            f"values{list(index)}: found {x[index]:g}; expected a finite number, or NaN for a"
            " skipped query"
        )
    is_missing = np.isnan(x)
    differs = is_missing != is_missing[0]
    if differs.any():
        system, run, query = np.argwhere(differs)[0].tolist()
        raise DataError(
            f"values: found a value of query {query} in run {run} for only one of systems 0 and"
            f" {system}; expected the same queries in all systems"
        )
    return x
