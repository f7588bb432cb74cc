"""Gains of labels and discounts of ranks.

Both are given by a name or as a table, so that an option prints, parses back and hashes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice
from tautrank.arrays import F64, Numbers, check_each, check_labels
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
    if isinstance(gain, str):
        return choice("gain", gain, GAINS)
    table = _checked_table("gain", gain, GAINS)  # finite numbers of at least 0
    for i, (before, value) in enumerate(itertools.pairwise(table), 1):
        if value < before:
            fall = f"{value:g}, below entry {i - 1} ({before:g})"
            raise OptionError(
                f"gain: entry {i} of the table is {fall};"
                " expected gains that never fall as the label rises"
            )
    return table


def check_discount(discount: Discount) -> Discount:
    """Return ``discount`` as a hashable value, or raise an error.

    A table is a discount when it is finite, non-negative and non-increasing: a worse rank never
    earns more.

    Args:
        discount: ``"log2"``, ``"reciprocal"``, or a sequence of numbers, the first one for rank 1.

    >>> check_discount([1, 0.5])
    (1.0, 0.5)
    """
    if isinstance(discount, str):
        return choice("discount", discount, DISCOUNTS)
    table = _checked_table("discount", discount, DISCOUNTS)
    for i, (before, value) in enumerate(itertools.pairwise(table), 1):
        if value > before:
            rise = f"{value:g}, above entry {i - 1} ({before:g})"
            raise OptionError(
                f"discount: entry {i} of the table is {rise};"
                " expected discounts that never rise with the rank"
            )
    if table[0] == 0:
        raise OptionError(
            "discount: entry 0 of the table is 0; expected the first rank to be worth something"
        )
    return table


def _checked_table(name: str, table: Sequence[float], words: tuple[str, ...]) -> tuple[float, ...]:
    """Return a user's table of gains or discounts as a tuple of floats; raise an error if it is
    empty or has an entry that is no finite number of at least 0.

    Args:
        name: name of the user's argument, for errors.
        table: the argument.
        words: texts that the argument may be instead of a table, such as ``"linear"``, for errors.
    """
    try:
        values = tuple(float(value) for value in table)
    except (TypeError, ValueError):
        expected = ", ".join(map(repr, words))
        raise OptionError(
            f"{name}: found {table!r}; expected {expected} or a table of numbers"
        ) from None
    if not values:
        raise OptionError(f"{name}: found an empty table; expected at least one number")
    for i, value in enumerate(values):
        if not (math.isfinite(value) and value >= 0):
            raise OptionError(
                f"{name}: entry {i} of the table is {value:g};"
                " expected a finite number of at least 0"
            )
    return values


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
    labels = check_labels(labels)
    gain = check_gain(gain)
    if labels.size == 0:
        return np.zeros(0)
    if gain == "linear":
        return labels.astype(np.float64)
    if isinstance(gain, str):
        return _exponential_gains(labels)
    table = np.asarray(gain)  # indexed by label, so labels have to be indices of it
    expected = (
        f"an integer from 0 to {table.size - 1}, since the gain table has {table.size} entries"
    )
    is_whole = labels == np.floor(labels)
    is_entry = is_whole & (labels < table.size)
    check_each("labels", labels, is_entry, expected)
    return np.asarray(table[labels.astype(np.int64)])


def _exponential_gains(labels: Numbers) -> F64:
    """Return the gain ``2^y - 1`` of each label y; raise an error about labels so large that it
    would overflow.

    Args:
        labels: finite numbers of at least 0, mostly whole ones.
    """
    check_each(
        "labels",
        labels,
        labels <= _LARGEST_EXP2_LABEL,
        f"at most {_LARGEST_EXP2_LABEL} for the gain 2^y - 1, or gain='linear' or a gain table",
    )
    # Labels are few different small integers almost always: a lookup is several times faster than
    # exp2. Labels that are not whole get their gain at the end.
    whole_labels = labels.astype(np.int64)
    all_labels = np.arange(int(whole_labels.max()) + 1, dtype=np.float64)
    table = np.exp2(all_labels) - 1.0
    gains: F64 = table[whole_labels]

    fractional = np.flatnonzero(whole_labels != labels)
    if fractional.size:
        exponents = labels[fractional].astype(np.float64) * math.log(2.0)
        # expm1 keeps the digits of a label near 0, where 2^y - 1 would cancel.
        gains[fractional] = np.expm1(exponents)
    return gains


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
        values[: len(discount)] = discount[:n]  # the shorter of table and ranks decides
    if k is not None:
        values[k:] = 0.0
    return values
