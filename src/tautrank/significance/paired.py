"""Is one system really better than another? Paired tests, confidence intervals, multiple
comparisons.

Every function takes plain per-query values, as ``metric.per_query`` returns them, so the same test
serves every metric. A query that the metric skipped (NaN for both systems) is left out; a query
with a value for only one system is an error, because pairing it with nothing would compare
different sets of queries.

SciPy is imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arguments import choice, real, whole
from tautrank.arrays import F64, check_each, numbers
from tautrank.errors import DataError, OptionError

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
BootstrapMethod: TypeAlias = Literal["percentile", "basic", "bca"]

# Sums of the same numbers in another order differ by rounding; two such sums must count as equal,
# or a p-value would depend on the last bit. Relative to the sum of absolute differences, far above
# 64-bit rounding and far below any difference between metrics that means something.
_ROUNDING = 1e-12

# Working memory of the resampling loops, in bytes. It bounds the batch, never the result.
_BATCH_BYTES = 1 << 24


@dataclass(frozen=True, repr=False)
class TestResult:
    """The result of a significance test; ``difference`` is the mean of a - b, positive when a is
    better.

    Attributes:
        statistic: the test's own statistic (t, or the mean difference for a randomisation test).
        p_value: the probability, were the systems equal, of a statistic at least this extreme.
        difference: mean of a - b over the pairs used.
        n: number of pairs (queries, or splits).
        test: name of the test.
        alternative: ``"two-sided"``, ``"greater"`` (a is better than b) or ``"less"``.

    >>> TestResult(2.5, 0.0125, 0.031, 784, "paired t-test", "two-sided")
    <paired t-test: difference +0.031, statistic 2.5, p = 0.0125 (two-sided), n = 784>
    """

    # pytest would otherwise try to collect the class from every test module that imports it.
    __test__: ClassVar[bool] = False

    statistic: float
    p_value: float
    difference: float
    n: int
    test: str
    alternative: Alternative

    def __repr__(self) -> str:
        difference = f"difference {self.difference:+.4g}, statistic {self.statistic:.4g}"
        p_value = f"p = {self.p_value:.3g} ({self.alternative})"
        return f"<{self.test}: {difference}, {p_value}, n = {self.n}>"


@dataclass(frozen=True, repr=False)
class Interval:
    """A confidence interval ``low <= high`` around an ``estimate``; unpacks as ``low, high``.

    Attributes:
        low: lower end.
        high: upper end.
        estimate: the mean (or mean difference) of the data themselves.
        confidence: the probability with which such intervals cover the truth.
        n: number of queries.
        method: method of the interval.

    >>> interval = Interval(0.41, 0.47, 0.44, 0.95, 784, "bca")
    >>> interval
    <0.44 [0.41, 0.47], 95% bca interval, n = 784>
    >>> low, high = interval
    """

    low: float
    high: float
    estimate: float
    confidence: float
    n: int
    method: BootstrapMethod

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __repr__(self) -> str:
        ends = f"[{self.low:.4g}, {self.high:.4g}]"
        kind = f"{100 * self.confidence:g}% {self.method} interval"
        return f"<{self.estimate:.4g} {ends}, {kind}, n = {self.n}>"


def paired_t_test(a: ArrayLike, b: ArrayLike, alternative: Alternative = "two-sided") -> TestResult:
    """Student's t-test on per-query differences: is the mean of a - b zero?

    t = mean(d) / sqrt(var(d) / n) with d = a - b and n - 1 degrees of freedom. With hundreds of
    queries it agrees with the randomisation test (Smucker, Allan and Carterette, "A comparison of
    statistical significance tests for information retrieval evaluation", CIKM 2007) and costs
    nothing. Equal systems give t = 0 and p = 1; a constant difference other than 0 gives an
    infinite t.

    Args:
        a: per-query values of the first system; NaN where the metric skipped the query.
        b: per-query values of the second system, the same queries in the same order.
        alternative: ``"two-sided"``, ``"greater"`` (a is better than b) or ``"less"``.

    >>> paired_t_test([0.5, 0.75, 1.0], [0.25, 0.5, 0.5])
    <paired t-test: difference +0.3333, statistic 4, p = 0.0572 (two-sided), n = 3>
    >>> paired_t_test([0.5, 0.75, 1.0], [0.25, 0.5, 0.5], alternative="greater").p_value  # doctest: +ELLIPSIS
    0.0285...
    """
    choice("alternative", alternative, get_args(Alternative))
    differences = _paired_differences(a, b)
    return _t_test("paired t-test", differences, 1 / differences.size, alternative)


def corrected_resampled_t_test(
    differences: ArrayLike,
    *,
    test_fraction: float | None = None,
    n_train: float | None = None,
    n_test: float | None = None,
    alternative: Alternative = "two-sided",
) -> TestResult:
    """t-test over repeated random splits whose training sets overlap.

    t = mean(d) / sqrt((1/J + n_test/n_train) var(d)) with J - 1 degrees of freedom. Splits of one
    data set share most of their documents, so their results are correlated and the plain t-test,
    which divides the variance by J, rejects far too often; more splits make that worse, not better.
    The added n_test/n_train stands for the correlation (Nadeau and Bengio, "Inference for the
    generalization error", Machine Learning 52, 2003, sec. 3).

    Args:
        differences: one value per split: the metric of the first system minus that of the second.
        test_fraction: the part of the data each split holds out, such as 0.2; or give both of the
            next two.
        n_train: size of a split's training set, in queries.
        n_test: size of a split's test set, in queries.
        alternative: ``"two-sided"``, ``"greater"`` (the first system is better) or ``"less"``.

    With d = 1, 2, 3 and a fifth held out, t = 2 / sqrt(1/3 + 1/4):

    >>> corrected_resampled_t_test([1, 2, 3], test_fraction=0.2)
    <corrected resampled t-test: difference +2, statistic 2.619, p = 0.12 (two-sided), n = 3>
    >>> corrected_resampled_t_test([1, 2, 3], n_train=800, n_test=200).statistic  # doctest: +ELLIPSIS
    2.6186...
    """
    choice("alternative", alternative, get_args(Alternative))
    ratio = _test_to_train(test_fraction, n_train, n_test)
    splits = _finite_vector(differences, "differences", allow_nan=False)
    if splits.size < 2:
        raise DataError(f"differences: found {splits.size} split(s); expected at least 2")
    return _t_test("corrected resampled t-test", splits, 1 / splits.size + ratio, alternative)


def randomisation_test(
    a: ArrayLike,
    b: ArrayLike,
    resamples: int = 100_000,
    seed: int = 0,
    alternative: Alternative = "two-sided",
) -> TestResult:
    """Paired randomisation test: how often does a random exchange of the two systems give as large
    a difference?

    If the systems were equal, each query's a and b could be exchanged, so the sign of each
    difference is a coin flip: p = (1 + #{T* >= T}) / (1 + resamples), T the mean difference and T*
    the same after random flips. The two-sided test compares absolute values. The +1 counts the
    observed assignment itself; without it p could be 0 and the test would reject too often (Fisher,
    "The design of experiments", 1935; Phipson and Smyth, "Permutation p-values should never be
    zero", 2010). Where the m queries that differ have no more than ``resamples`` assignments, 2^m,
    all are enumerated and p is exact (flipping a zero changes nothing, so the other queries need no
    enumeration).

    The result depends on the data and the seed alone, not on how the work is divided or on the
    machine.

    Args:
        a: per-query values of the first system; NaN where the metric skipped the query.
        b: per-query values of the second system, the same queries in the same order.
        resamples: number of random assignments to draw.
        seed: seed of the random assignments; the same seed gives the same p-value.
        alternative: ``"two-sided"``, ``"greater"`` (a is better than b) or ``"less"``.

    Of the 2^3 sign assignments only +++ and --- are as extreme as the three wins seen here:

    >>> randomisation_test([0.5, 0.75, 1.0], [0.25, 0.5, 0.5])
    <randomisation test (exact): difference +0.3333, statistic 0.3333, p = 0.25 (two-sided), n = 3>
    """
    choice("alternative", alternative, get_args(Alternative))
    resamples = whole("resamples", resamples, 1)
    seed = whole("seed", seed, most=math.inf)
    differences = _paired_differences(a, b)
    nonzero = differences[differences != 0]  # flipping a zero changes nothing

    # T and T* are compared as sums: the number of queries is common to both. How far a sum speaks
    # for the alternative: its size, the sum itself (np.positive returns its argument unchanged), or
    # its negative.
    extremity_by_alternative = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}
    extremity_of = extremity_by_alternative[alternative]
    # A flipped sum that equals the observed one but for rounding errors counts as equally extreme,
    # so the threshold is lower by the largest such error.
    rounding = _ROUNDING * float(np.abs(nonzero).sum())
    threshold = extremity_of(nonzero.sum()) - rounding

    # 64 bits hold the number of assignments of fewer than 63 signs.
    is_exact = nonzero.size < 63 and 2**nonzero.size <= resamples
    if is_exact:
        batches_of_flips = _all_flips(nonzero)
    else:
        batches_of_flips = _random_flips(nonzero, resamples, seed)
    n_extreme = 0
    for flips in batches_of_flips:
        flipped_sums = _flipped_sums(nonzero, flips)
        n_extreme += int(np.count_nonzero(extremity_of(flipped_sums) >= threshold))

    # The enumeration contains the observed assignment; random draws do not: 1 is added for it.
    if is_exact:
        name = "randomisation test (exact)"
        p_value = n_extreme / 2**nonzero.size
    else:
        name = f"randomisation test ({resamples} resamples)"
        p_value = (n_extreme + 1) / (resamples + 1)
    difference = float(differences.mean())
    return TestResult(difference, p_value, difference, differences.size, name, alternative)


def _all_flips(differences: F64) -> Iterator[NDArray[np.uint64]]:
    """Yield all 2^n ways to keep or flip the signs of n differences, in batches of rows
    ``[rows, 1]`` of one 64-bit word: bit i of a row says whether the sign of difference i is flipped.

    The rows are simply the binary numbers from 0 to 2^n - 1, in batches that fit into memory.
    """
    for start, end in _batches(2**differences.size, n_words=1):
        assignments = np.arange(start, end, dtype=np.uint64)
        # Little-endian on any machine, since the bits are read byte by byte.
        yield assignments[:, None].astype("<u8", copy=False)


def _random_flips(differences: F64, n_assignments: int, seed: int) -> Iterator[NDArray[np.uint64]]:
    """Yield random choices to keep or flip the sign of each of some differences, in batches of rows
    ``[rows, words]`` of 64-bit words: bit i of a row says whether the sign of difference i is
    flipped.

    Each row takes the next whole words of one random stream, so rows do not depend on the size of
    the batches (which are as large as fits into memory).

    Args:
        differences: one per query.
        n_assignments: number of rows to draw in all.
        seed: seed of the random stream.
    """
    generator = np.random.PCG64(seed)
    n_words = max(1, math.ceil(differences.size / 64))
    for start, end in _batches(n_assignments, n_words):
        words = generator.random_raw((end - start) * n_words)
        # Little-endian on any machine, since the bits are read byte by byte.
        yield words.reshape(-1, n_words).astype("<u8", copy=False)


def _batches(n_rows: int, n_words: int) -> Iterator[tuple[int, int]]:
    """Divide `n_rows` rows into batches whose sums fit into the working memory, and yield the first
    row of each batch and one past its last.

    Args:
        n_rows: number of rows; each says which signs of the differences are flipped.
        n_words: number of 64-bit words of a row.
    """
    # For each of the 8 bytes of a word, a sum of eight differences is looked up: a float64 of 8
    # bytes. So a word needs 8 * 8 = 64 bytes.
    bytes_per_row = 64 * n_words
    rows_per_batch = max(1, _BATCH_BYTES // bytes_per_row)
    for start in range(0, n_rows, rows_per_batch):
        yield start, min(start + rows_per_batch, n_rows)


def bootstrap_interval(
    a: ArrayLike,
    b: ArrayLike | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    method: BootstrapMethod = "percentile",
) -> Interval:
    """Bootstrap confidence interval of a mean, or of a paired mean difference, over queries.

    Queries are drawn with replacement ``resamples`` times; with q the quantiles of the resampled
    means and alpha = 1 - confidence, ``"percentile"`` is [q(alpha/2), q(1 - alpha/2)], ``"basic"``
    mirrors it around the estimate, and ``"bca"`` shifts the two levels for bias and skewness
    (Efron, "Better bootstrap confidence intervals", JASA 82, 1987). Values that are all equal give
    an interval of width 0.

    Args:
        a: per-query values; NaN where the metric skipped the query.
        b: per-query values of a second system; the interval is then of the mean of a - b.
        confidence: between 0 and 1.
        resamples: number of resampled means to draw.
        seed: seed of the resampling; the same seed gives the same interval.
        method: ``"percentile"``, ``"basic"`` or ``"bca"``.

    >>> bootstrap_interval([0.25, 0.5, 0.75, 1.0], [0.25, 0.5, 0.75, 1.0])
    <0 [0, 0], 95% percentile interval, n = 4>
    >>> low, high = bootstrap_interval([0.0, 1.0], confidence=0.9)  # means of two draws: 0, 1/2 or 1
    >>> (low, high)
    (0.0, 1.0)
    """
    choice("bootstrap method", method, get_args(BootstrapMethod))
    confidence = fraction("confidence", confidence)
    resamples = whole("resamples", resamples, 2)
    seed = whole("seed", seed, most=math.inf)
    if b is None:
        values = _finite_vector(a, "a", allow_nan=True)
        values = values[~np.isnan(values)]
        if values.size < 2:
            raise DataError(f"a: found {values.size} queries with a value; expected at least 2")
    else:
        values = _paired_differences(a, b)
    are_all_equal = np.ptp(values) == 0
    if are_all_equal:
        value = float(values[0])
        return Interval(value, value, value, confidence, values.size, method)

    means = _resampled_means(values, resamples, seed)
    levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        levels = _bca_levels(values, means, levels)
    low, high = np.quantile(means, levels)
    estimate = float(values.mean())
    if method == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    return Interval(float(low), float(high), estimate, confidence, values.size, method)


def _resampled_means(values: F64, resamples: int, seed: int) -> F64:
    """Return the mean of each of many bootstrap samples: samples of the same size as the values,
    drawn from them with replacement.
    """
    from scipy.stats import bootstrap

    # Only the resampled means are used, not SciPy's interval: so the method does not matter. The
    # batch says how many samples of 8-byte numbers are in memory at a time.
    result = bootstrap(
        (values,),
        np.mean,
        method="percentile",
        rng=np.random.Generator(np.random.PCG64(seed)),
        n_resamples=resamples,
        batch=max(1, _BATCH_BYTES // (8 * values.size)),
        vectorized=True,
    )
    return np.asarray(result.bootstrap_distribution)


def holm(p_values: ArrayLike) -> F64:
    """Holm's step-down adjustment: p-values of many comparisons, each safe to compare with one
    alpha.

    With p_(1) <= ... <= p_(m), adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)).
    Rejecting where the adjusted value is at most alpha makes one or more false rejections with
    probability at most alpha, whatever the dependence between the tests, and rejects everything
    Bonferroni does and more (Holm, "A simple sequentially rejective multiple test procedure",
    Scandinavian Journal of Statistics 6, 1979).

    Args:
        p_values: one per comparison, in any order; NaN (a comparison that was not made) stays NaN
            and does not count towards m.

    Returns:
        The adjusted p-values in the order given.

    >>> holm([0.04, 0.01, 0.03])
    array([0.06, 0.03, 0.06])
    """
    p = _finite_vector(p_values, "p_values", allow_nan=True)
    is_outside = (p < 0) | (p > 1)  # false for NaN, which is allowed
    check_each("p_values", p, ~is_outside, "a number from 0 to 1")

    made_comparisons = np.flatnonzero(~np.isnan(p))  # NaN: a comparison that was not made
    ascending = made_comparisons[np.argsort(p[made_comparisons], kind="stable")]
    factors = np.arange(ascending.size, 0, -1)  # m, m - 1, ..., 1
    multiplied = np.minimum(1.0, factors * p[ascending])
    adjusted = np.full(p.size, np.nan)
    # The maximum over j <= i; positions in `ascending` put the values back into the order given.
    adjusted[ascending] = np.maximum.accumulate(multiplied)
    return adjusted


def _t_test(name: str, differences: F64, scale: float, alternative: Alternative) -> TestResult:
    """Return the t-test of whether the mean of some differences is 0: t = mean / sqrt(scale * var)
    with n - 1 degrees of freedom.

    scipy.stats.ttest_rel is the case scale = 1/n, but warns or returns NaN where the differences
    hardly vary.

    Args:
        name: name of the test, for its result.
        differences: n values, at least two.
        scale: the variance of the mean as a multiple of the variance of one difference.
        alternative: the side of 0 on which the mean is suspected.
    """
    mean = float(differences.mean())
    is_constant = np.ptp(differences) == 0
    are_all_zero = is_constant and differences[0] == 0
    if are_all_zero:
        # No evidence in any direction, not even the half that a one-sided p-value gives to t = 0.
        return TestResult(0.0, 1.0, mean, differences.size, name, alternative)
    # Rounding leaves a variance near 1e-34 for equal values: constant data are recognised, not
    # computed.
    variance = 0.0 if is_constant else float(differences.var(ddof=1))
    standard_error = math.sqrt(scale * variance)
    if standard_error > 0:
        t = mean / standard_error
    else:
        t = math.copysign(math.inf, mean)  # the same difference everywhere: p is 0 or 1
    p_value = t_tail(t, differences.size - 1, alternative)
    return TestResult(t, p_value, mean, differences.size, name, alternative)


def t_tail(t: float, freedom: float, alternative: Alternative) -> float:
    """Return the p-value of a value of Student's t with `freedom` degrees of freedom, which need not
    be whole.

    By symmetry the chance of a value above t is that of one below -t, which loses no digits for a
    large t.
    """
    from scipy.special import stdtr  # stdtr(freedom, t): the chance of a value below t

    if alternative == "two-sided":
        return min(1.0, 2 * float(stdtr(freedom, -abs(t))))
    if alternative == "greater":
        return float(stdtr(freedom, -t))
    return float(stdtr(freedom, t))


def _flipped_sums(d: F64, flips: NDArray[np.uint64]) -> F64:
    """Return one sum per row of `flips`: the sum of all differences after the signs that this row
    marks are flipped.

    Bytes are looked up in a table: the differences are put in groups of eight, and for each group
    the sums under all 256 ways to flip eight signs are computed once.

    Args:
        d: the differences.
        flips: 64-bit words, ``[rows, words]``; bit i of a little-endian row says that d[i] counts
            negatively.
    """
    bytes_of_flips = flips.view(np.uint8)  # [rows, groups]: a byte has the signs of a group
    n_groups = bytes_of_flips.shape[1]
    groups = np.zeros((n_groups, 8))
    groups.flat[: d.size] = d  # padded with zeros, whose signs do not matter

    byte_values = np.arange(256)
    bit_numbers = np.arange(8)[:, None]
    is_flipped = (byte_values >> bit_numbers) & 1  # bit b of each byte value, [8, 256]
    signs = 1.0 - 2.0 * is_flipped  # [8, 256]
    sum_table = groups @ signs  # [groups, 256]
    # Entry [row, group] is the sum of that group's differences under the row's byte for it.
    sums_of_groups = sum_table[np.arange(n_groups), bytes_of_flips]
    return np.asarray(sums_of_groups.sum(axis=1), np.float64)


def _bca_levels(values: F64, means: F64, levels: F64) -> F64:
    """Return corrected quantile levels for a bootstrap interval of a mean by Efron's BCa
    (bias-corrected and accelerated) method; the quantiles of the resampled means at these levels are
    the ends of the interval.

    BCa corrects the nominal levels for bias, the share of resampled means below the estimate, and
    for skewness by an acceleration. SciPy finds the acceleration by leaving out each query in turn,
    n^2 work; for a mean it has a closed form, sum(c^3) / (6 sum(c^2)^(3/2)) with c the centred
    values.

    Args:
        values: one per query.
        means: the resampled means.
        levels: the nominal levels, such as 0.025 and 0.975.
    """
    from scipy.special import ndtr, ndtri  # the normal distribution function and its inverse

    estimate = values.mean()
    centred = values - estimate
    acceleration = (centred**3).sum() / (6 * (centred**2).sum() ** 1.5)

    # Means equal to the estimate count half.
    n_below = np.count_nonzero(means < estimate)
    n_at_most = np.count_nonzero(means <= estimate)
    share_below = (n_below + n_at_most) / (2 * means.size)
    # With few resamples all may fall on one side, and the bias would be infinite.
    half_a_mean = 0.5 / means.size
    bias = ndtri(np.clip(share_below, half_a_mean, 1 - half_a_mean))

    # BCa works with normal quantiles z: a level of 0.025 is z = -1.96.
    z = bias + ndtri(levels)
    corrected_z = bias + z / (1 - acceleration * z)
    return np.asarray(ndtr(corrected_z), dtype=np.float64)


def _test_to_train(
    test_fraction: float | None, n_train: float | None, n_test: float | None
) -> float:
    """Return the size of a split's test set over the size of its training set.

    A split is described by the fraction of the data that it tests, or by both sizes; anything else
    is refused.
    """
    has_no_size = n_train is None and n_test is None
    # `fraction` checks that the number is between 0 and 1, and returns it.
    if test_fraction is not None and has_no_size:
        return fraction("test_fraction", test_fraction) / (1 - test_fraction)
    if test_fraction is None and n_train is not None and n_test is not None:
        are_sizes = 0 < n_train < math.inf and 0 < n_test < math.inf
        if not are_sizes:
            raise OptionError(
                f"n_train, n_test: found {n_train!r} and {n_test!r}; expected positive sizes"
            )
        return n_test / n_train
    raise OptionError(
        "the size of a split: expected either test_fraction, or both n_train and n_test"
    )


def fraction(name: str, value: float) -> float:
    """Return a number between 0 and 1, neither of them included.

    >>> fraction("level", 1.5)
    Traceback (most recent call last):
    tautrank.errors.OptionError: level: found 1.5; expected a number between 0 and 1
    """
    if real(name, value, above=True) >= 1:
        raise OptionError(f"{name}: found {value!r}; expected a number between 0 and 1")
    return float(value)


def _finite_vector(values: ArrayLike, name: str, *, allow_nan: bool) -> F64:
    """Return values, one per query, as a float64 vector; refuse infinite ones, and NaN unless it is
    allowed.
    """
    vector = numbers(name, values, "query")  # a flat array; "query" is the word for errors
    is_allowed = ~np.isinf(vector) if allow_nan else np.isfinite(vector)
    check_each(name, vector, is_allowed, "a finite number")
    return vector


def _paired_differences(a: ArrayLike, b: ArrayLike) -> F64:
    """Return the differences a - b of two systems' values per query, without the queries that the
    metric skips.

    Refused are values of different numbers of queries, a query skipped for one system only, and
    fewer than two queries with values.

    Args:
        a: values of the first system, one per query; NaN where the metric skips the query.
        b: values of the second system, of the same queries.
    """
    values_a = _finite_vector(a, "a", allow_nan=True)
    values_b = _finite_vector(b, "b", allow_nan=True)
    if values_a.size != values_b.size:
        raise DataError(
            f"a and b: found {values_a.size} and {values_b.size} values; expected one per query in"
            " both"
        )

    is_skipped_a = np.isnan(values_a)
    is_skipped_b = np.isnan(values_b)
    skipped_by_one = np.flatnonzero(is_skipped_a != is_skipped_b)
    if skipped_by_one.size:
        query = int(skipped_by_one[0])
        if is_skipped_a[query]:
            values_found = f"NaN in a but {values_b[query]:g} in b"
        else:
            values_found = f"NaN in b but {values_a[query]:g} in a"
        raise DataError(
            f"query {query}: found {values_found}; expected both systems to have a value or both"
            " to skip it"
        )

    all_differences = values_a - values_b
    # From here on both systems skip the same queries.
    differences = all_differences[~is_skipped_a]
    if differences.size < 2:
        raise DataError(
            f"a and b: found {differences.size} queries with a value; expected at least 2"
        )
    return differences
