"""Gains of labels and discounts of ranks.

Both are given by a name or as a table, so that an option prints, parses back and hashes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice
from tautrank.arrays import F64, check_each, check_labels
from tautrank.errors import OptionError

Gain: TypeAlias = str | tuple[float, ...]
"""``"exp2"``, ``"linear"``, or a table whose entry ``y`` is the gain of the integer label ``y``."""

Discount: TypeAlias = str | tuple[float, ...]
"""``"log2"``, ``"reciprocal"``, or a table whose entry ``r - 1`` is the discount of rank ``r``."""

GAINS = ("exp2", "linear")
DISCOUNTS = ("log2", "reciprocal")

# 2**1023 is the largest power a float64 holds; the margin leaves room to add up a list of gains.
_LARGEST_EXP2_LABEL = 1000


def check_gain(gain: Gain) -> Gain:
    """Return ``gain`` as a hashable value, or raise an error.

    A table is a gain when it is finite, non-negative and non-decreasing: a better label never earns
    less.

    Args:
        gain: ``"exp2"``, ``"linear"``, or a sequence of numbers indexed by label.

    >>> check_gain([0, 1, 3])
    (0.0, 1.0, 3.0)
    >>> check_gain("exp")
    Traceback (most recent call last):
    tautrank.errors.OptionError: unknown gain 'exp'; did you mean 'exp2'? (known: exp2, linear)
    """
    return _checked(
        "gain", gain, GAINS, operator.lt, "below", "gains that never fall as the label rises"
    )


def check_discount(discount: Discount) -> Discount:
    """Return ``discount`` as a hashable value, or raise an error.

    A table is a discount when it is finite, non-negative and non-increasing: a worse rank never
    earns more.

    Args:
        discount: ``"log2"``, ``"reciprocal"``, or a sequence of numbers, the first one for rank 1.

    >>> check_discount([1, 0.5])
    (1.0, 0.5)
    """
    checked = _checked(
        "discount",
        discount,
        DISCOUNTS,
        operator.gt,
        "above",
        "discounts that never rise with the rank",
    )
    if checked[0] == 0:
        raise OptionError(
            "discount: entry 0 of the table is 0; expected the first rank to be worth something"
        )
    return checked


def gain_values(labels: ArrayLike, gain: Gain = "exp2") -> F64:
    """Return the gains of the labels.

    ``exp2`` is ``2^y - 1``, ``linear`` is ``y``, and a table gives ``table[y]`` to the integer
    label ``y``.

    The exponential gain is that of Burges et al., *Learning to Rank using Gradient Descent*, ICML
    2005; the linear one that of Järvelin and Kekäläinen, *Cumulated Gain-Based Evaluation of IR
    Techniques*, TOIS 20(4), 2002.

    Args:
        labels: relevance, one finite number of at least 0 per document.
        gain: ``"exp2"``, ``"linear"``, or a table indexed by label.

    >>> gain_values([0, 1, 2, 3])
    array([0., 1., 3., 7.])
    >>> gain_values([0, 0.5, 40], "linear")
    array([ 0. ,  0.5, 40. ])
    >>> gain_values([2, 0, 1], (0, 1, 5))
    array([5., 0., 1.])
    """
    y = check_labels(labels)
    gain = check_gain(gain)
    if y.size == 0:
        return np.zeros(0)
    if gain == "linear":
        return y.astype(np.float64)
    # Labels are few distinct small integers almost always: a lookup is several times faster than
    # exp2.
    if isinstance(gain, str):
        expected = (
            f"at most {_LARGEST_EXP2_LABEL} for the gain 2^y - 1, or gain='linear' or a gain table"
        )
        check_each("labels", y, y <= _LARGEST_EXP2_LABEL, expected)
        whole = y.astype(np.int64)
        values: F64 = (np.exp2(np.arange(int(whole.max()) + 1, dtype=np.float64)) - 1.0)[whole]
        between = np.flatnonzero(whole != y)
        if between.size:
            # expm1 keeps the digits of a label near 0, where 2^y - 1 would cancel.
            values[between] = np.expm1(y[between].astype(np.float64) * math.log(2.0))
        return values
    table = np.asarray(gain)
    expected = (
        f"an integer from 0 to {table.size - 1}, since the gain table has {table.size} entries"
    )
    check_each("labels", y, (y < table.size) & (y == np.floor(y)), expected)
    return np.asarray(table[y.astype(np.int64)])


def discount_values(n: int, discount: Discount = "log2", k: int | None = None) -> F64:
    """Return the discounts of the ranks 1 to ``n``.

    ``log2`` is ``1 / log2(1 + rank)``, ``reciprocal`` is ``1 / rank``, and a table gives its own
    values, 0 beyond its end.

    The logarithmic discount is that of Burges et al., *Learning to Rank using Gradient Descent*,
    ICML 2005.

    Args:
        n: number of ranks.
        discount: ``"log2"``, ``"reciprocal"``, or a table by rank.
        k: the cutoff, behind which it is 0; None for none.

    >>> discount_values(3)
    array([1.        , 0.63092975, 0.5       ])
    >>> discount_values(3, "reciprocal")
    array([1.        , 0.5       , 0.33333333])
    >>> discount_values(3, (1.0, 0.5))
    array([1. , 0.5, 0. ])
    """
    discount = check_discount(discount)
    ranks = np.arange(1, n + 1, dtype=np.float64)
    if discount == "log2":
        values = 1.0 / np.log2(1.0 + ranks)
    elif discount == "reciprocal":
        values = 1.0 / ranks
    else:
        values = np.zeros(n)
        values[: len(discount)] = discount[:n]
    values[n if k is None else k :] = 0.0
    return values


def _checked(
    name: str,
    given: Gain,
    words: tuple[str, ...],
    wrong: Callable[[float, float], bool],
    side: str,
    expected: str,
) -> Gain:
    """Return a word, or a table of numbers none of which is wrong beside the one before it."""
    if isinstance(given, str):
        return choice(name, given, words)
    try:
        table = tuple(float(value) for value in given)
    except (TypeError, ValueError):
        known = ", ".join(map(repr, words))
        raise OptionError(
            f"{name}: found {given!r}; expected {known} or a table of numbers"
        ) from None
    if not table:
        raise OptionError(f"{name}: found an empty table; expected at least one number")
    for at, value in enumerate(table):
        entry = f"{name}: entry {at} of the table is {value:g}"
        if not (math.isfinite(value) and value >= 0):
            raise OptionError(f"{entry}; expected a finite number of at least 0")
        if at > 0 and wrong(value, table[at - 1]):
            raise OptionError(
                f"{entry}, {side} entry {at - 1} ({table[at - 1]:g}); expected {expected}"
            )
    return table
