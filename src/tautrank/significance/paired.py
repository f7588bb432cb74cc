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
from typing import Any, ClassVar, Literal, TypeAlias, get_args

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
        found = f"difference {self.difference:+.4g}, statistic {self.statistic:.4g}, p = {self.p_value:.3g}"
        return f"<{self.test}: {found} ({self.alternative}), n = {self.n}>"


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
        found = f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"
        return f"<{found}, {100 * self.confidence:g}% {self.method} interval, n = {self.n}>"


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
    d = _paired_differences(a, b)
    t, p = _t_and_p(d, 1 / d.size, alternative)
    return TestResult(t, p, float(d.mean()), d.size, "paired t-test", alternative)


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
    d = _finite_vector(differences, "differences", allow_nan=False)
    if d.size < 2:
        raise DataError(f"differences: found {d.size} split(s); expected at least 2")
    t, p = _t_and_p(d, 1 / d.size + ratio, alternative)
    return TestResult(t, p, float(d.mean()), d.size, "corrected resampled t-test", alternative)


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
    d = _paired_differences(a, b)
    difference = float(d.mean())
    moving = d[d != 0]
    exact = moving.size < 63 and 2**moving.size <= resamples
    total = 2**moving.size if exact else resamples

    # T and T* are compared as sums: n is common to both.
    slack = _ROUNDING * float(np.abs(moving).sum())
    words = max(1, -(-moving.size // 64))  # of 64 bits, one coin flip per query
    extreme = {"two-sided": np.abs, "greater": np.positive, "less": np.negative}[alternative]
    observed = extreme(moving.sum())
    generator = np.random.PCG64(seed)
    hits = 0
    batch = max(1, _BATCH_BYTES // (64 * words))
    for start in range(0, total, batch):
        rows = min(batch, total - start)
        if exact:
            flips = np.arange(start, start + rows, dtype=np.uint64)[:, None]
        else:
            # Each assignment takes the next whole words of one stream, whatever the batch size.
            flips = generator.random_raw(rows * words).reshape(rows, -1)
        sums = _flipped_sums(moving, flips.astype("<u8", copy=False))
        hits += int(np.count_nonzero(extreme(sums) >= observed - slack))
    p = hits / total if exact else (hits + 1) / (total + 1)
    name = f"randomisation test ({'exact' if exact else f'{resamples} resamples'})"
    return TestResult(difference, p, difference, d.size, name, alternative)


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
        x = _finite_vector(a, "a", allow_nan=True)
        x = x[~np.isnan(x)]
        if x.size < 2:
            raise DataError(f"a: found {x.size} queries with a value; expected at least 2")
    else:
        x = _paired_differences(a, b)
    estimate = float(x.mean())
    if np.ptp(x) == 0:
        return Interval(float(x[0]), float(x[0]), float(x[0]), confidence, x.size, method)

    from scipy.stats import bootstrap

    how: dict[str, Any] = {
        "n_resamples": resamples,
        "batch": max(1, _BATCH_BYTES // (8 * x.size)),
        "vectorized": True,
    }
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = bootstrap((x,), np.mean, method="percentile", rng=rng, **how).bootstrap_distribution
    levels = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        levels = _bca_levels(x, drawn, levels)
    low, high = np.quantile(drawn, levels)
    if method == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    return Interval(float(low), float(high), estimate, confidence, x.size, method)


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
    check_each("p_values", p, ~((p < 0) | (p > 1)), "a number from 0 to 1")
    adjusted = np.full(p.size, np.nan)
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    steps = np.arange(order.size, 0, -1)
    adjusted[order] = np.maximum.accumulate(np.minimum(1.0, steps * p[order]))
    return adjusted


def _t_and_p(d: F64, scale: float, alternative: Alternative) -> tuple[float, float]:
    """Return t = mean / sqrt(scale * var) and its p-value with n - 1 degrees of freedom.

    scipy.stats.ttest_rel is the case scale = 1/n, but warns or returns NaN where d hardly varies.
    """
    mean = float(d.mean())
    # Rounding leaves a variance near 1e-34 for equal values: constant data are recognised, not
    # computed.
    spread = 0.0 if np.ptp(d) == 0 else math.sqrt(scale * float(d.var(ddof=1)))
    if spread == 0 and d[0] == 0:
        # No evidence in any direction, not even the half that a one-sided p-value gives to t = 0.
        return 0.0, 1.0
    t = mean / spread if spread > 0 else math.copysign(math.inf, mean)
    return t, t_tail(t, d.size - 1, alternative)


def t_tail(t: float, freedom: float, alternative: Alternative) -> float:
    """The p-value of Student's t with `freedom` degrees of freedom, which need not be whole."""
    from scipy.special import stdtr

    if alternative == "two-sided":
        return min(1.0, 2 * float(stdtr(freedom, -abs(t))))
    return float(stdtr(freedom, -t if alternative == "greater" else t))


def _flipped_sums(d: F64, flips: NDArray[np.uint64]) -> F64:
    """Return sum(+-d) for each row of ``flips``: bit i of the little-endian row set means -d[i].

    Eight flips at a time: a row's sum has one of the 256 signed sums of eight differences per byte.
    """
    octets = flips.view(np.uint8)
    groups = np.zeros((octets.shape[1], 8))
    groups.flat[: d.size] = d
    signs = 1.0 - 2.0 * ((np.arange(256) >> np.arange(8)[:, None]) & 1)
    return np.asarray((groups @ signs)[np.arange(len(groups)), octets].sum(axis=1), np.float64)


def _bca_levels(x: F64, drawn: F64, levels: F64) -> F64:
    """Return the quantile levels that Efron's BCa interval reads instead of the nominal ones.

    SciPy finds the acceleration by leaving out each query in turn, n^2 work; for a mean that has a
    closed form, sum(c^3) / (6 sum(c^2)^(3/2)) with c the centred values.
    """
    from scipy.special import ndtr, ndtri

    c = x - x.mean()
    acceleration = (c**3).sum() / (6 * (c**2).sum() ** 1.5)
    below = (np.count_nonzero(drawn < x.mean()) + np.count_nonzero(drawn <= x.mean())) / (
        2 * drawn.size
    )
    # With few resamples all may fall on one side, and the bias would be infinite.
    bias = ndtri(np.clip(below, 0.5 / drawn.size, 1 - 0.5 / drawn.size))
    z = bias + ndtri(levels)
    return np.asarray(ndtr(bias + z / (1 - acceleration * z)), dtype=np.float64)


def _test_to_train(
    test_fraction: float | None, n_train: float | None, n_test: float | None
) -> float:
    """Return n_test / n_train from whichever of the two descriptions of a split was given."""
    if test_fraction is not None and n_train is None and n_test is None:
        return fraction("test_fraction", test_fraction) / (1 - test_fraction)
    if test_fraction is None and n_train is not None and n_test is not None:
        if not (0 < n_train < math.inf and 0 < n_test < math.inf):
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
    x = numbers(name, values, "query")
    check_each(name, x, ~np.isinf(x) if allow_nan else np.isfinite(x), "a finite number")
    return x


def _paired_differences(a: ArrayLike, b: ArrayLike) -> F64:
    """Return a - b over the queries that both systems have a value for, at least two of them."""
    x = _finite_vector(a, "a", allow_nan=True)
    y = _finite_vector(b, "b", allow_nan=True)
    if x.size != y.size:
        raise DataError(
            f"a and b: found {x.size} and {y.size} values; expected one per query in both"
        )
    missing = np.isnan(x)
    alone = np.flatnonzero(missing != np.isnan(y))
    if alone.size:
        i = int(alone[0])
        found = f"NaN in a but {y[i]:g} in b" if missing[i] else f"NaN in b but {x[i]:g} in a"
        raise DataError(
            f"query {i}: found {found}; expected both systems to have a value or both to skip it"
        )
    d = (x - y)[~missing]
    if d.size < 2:
        raise DataError(f"a and b: found {d.size} queries with a value; expected at least 2")
    return d
