"""A tree as plain arrays, whatever trained it: what every export is written from.

LightGBM tests ``value <= threshold`` on doubles, XGBoost ``value < threshold`` on floats. Both are
kept in the first form; documents have float32 features here, so that one becomes the other without
loss.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tautrank.arrays import F32, F64, I64, Bools


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: a document goes left where its value is at most the threshold.

    Args:
        feature: column that each split tests.
        threshold: threshold of each split.
        missing_left: whether a missing value (NaN) goes left at each split.
        left, right: children of each split: a split, or ``~leaf``.
        leaf: what each leaf adds to the score.
        zero_is_missing: whether 0 also counts as missing at each split (LightGBM's
            ``zero_as_missing``).
        categories: the codes that go left, for splits by category; all others go right.
        linear: whether leaves are linear functions, which `leaf` does not hold.

    >>> tree = Tree.of([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])
    >>> tree.root, tree.depends_on_missing
    (0, array([False]))
    >>> Tree.constant(3.0).root == ~0
    True
    """

    feature: I64
    threshold: F64
    missing_left: Bools
    left: I64
    right: I64
    leaf: F64
    zero_is_missing: Bools
    categories: Mapping[int, I64] = field(default_factory=dict)
    linear: bool = False

    @property
    def root(self) -> int:
        """Where a document starts: split 0, or the only leaf."""
        return 0 if self.feature.size else ~0

    @property
    def depends_on_missing(self) -> Bools:
        """Which splits send a missing value elsewhere than 0; systems without missing values read
        them as 0.
        """
        return np.asarray(self.missing_left != (self.threshold >= 0.0))

    @classmethod
    def of(cls, *fields: object, zero_is_missing: object = False, **others: Any) -> Tree:
        """Make a tree of anything that NumPy turns into its arrays.

        Args:
            *fields: the first six fields of a tree, in their order.
            zero_is_missing: one for each split, or one for all.
            **others: the other fields.
        """
        kinds = (np.int64, np.float64, np.bool_, np.int64, np.int64, np.float64)
        arrays: list[Any] = []
        for values, kind in zip(fields, kinds, strict=True):
            arrays.append(np.array(values, kind))
        n_splits = arrays[0].size
        arrays.append(np.full(n_splits, zero_is_missing))
        return cls(*arrays, **others)

    @classmethod
    def constant(cls, value: float) -> Tree:
        """Make a tree of one leaf.

        Args:
            value: what it adds to the score.
        """
        return cls.of([], [], [], [], [], [value])

    def times(self, factor: float) -> Tree:
        """Return the tree with all its leaves multiplied by a number.

        Args:
            factor: the number.
        """
        return dataclasses.replace(self, leaf=self.leaf * factor)

    def nested_text(
        self, split: Callable[[int, int], tuple[str, str, str]], leaf: Callable[[int, int], str]
    ) -> str:
        """Write the tree as text in which every split encloses its children, the form that most
        systems read.

        Without recursion: LightGBM's trees may be deeper than Python's stack.

        Args:
            split: from a split and its depth to the texts before the left child, between the
                children, and after the right one.
            leaf: from the number of a leaf and its depth to its text.

        >>> tree = Tree.of([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])
        >>> def split(node: int, depth: int) -> tuple[str, str, str]:
        ...     return f"x <= {tree.threshold[node]} ? ", " : ", ""
        >>> tree.nested_text(split, lambda leaf, depth: str(tree.leaf[leaf]))
        'x <= 0.5 ? -1.0 : 1.0'
        """
        texts: list[str] = []
        waiting: list[str | tuple[int, int]] = [(self.root, 0)]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                texts.append(item)
                continue
            node, depth = item
            if node < 0:
                texts.append(leaf(~node, depth))
                continue
            before, between, after = split(node, depth)
            left = int(self.left[node]), depth + 1
            right = int(self.right[node]), depth + 1
            waiting += [after, right, between, left, before]  # the last one comes first
        return "".join(texts)


def more_than_comparisons(trees: Sequence[Tree]) -> str | None:
    """Return what trees have besides comparisons with thresholds, in words; None if there is
    nothing.

    Args:
        trees: the trees of a model.

    >>> more_than_comparisons([Tree.constant(3.0)])
    """
    for tree in trees:
        if tree.linear:
            return "has linear trees (linear_tree)"
        if tree.categories:
            return "splits by category (categorical_feature)"
        thresholds = tree.threshold[tree.zero_is_missing & tree.depends_on_missing]
        if thresholds.size:
            return (
                f"sends 0 aside as a missing value, at the threshold {thresholds[0]:g} among "
                "others (zero_as_missing)"
            )
    return None


def exact_unit(trees: Sequence[Tree]) -> float:
    """Return a power of two whose multiples float32 adds up exactly, in any order, if leaves are
    rounded to them.

    Float32 holds every multiple up to ``2^24`` times the unit, and no document's sum is larger than
    that of the largest leaves of all trees.

    Args:
        trees: the trees of a model.

    >>> exact_unit([Tree.constant(3.0), Tree.constant(-0.5)]) * 2**24
    4.0
    """
    largest_sum = sum(float(np.abs(tree.leaf).max(initial=0.0)) for tree in trees)
    if largest_sum == 0:
        return 1.0
    largest_sum *= 1 + len(trees) * 2.0**-23  # rounding may make leaves larger
    exponent = math.ceil(math.log2(largest_sum)) - 24
    return float(2.0**exponent)


def greatest_float32(thresholds: F64) -> F32:
    """Return the greatest float32 not above each threshold: for float32 values ``<=`` means the
    same with either.

    Rounding to the nearest could send a value left that lies between the two.

    Args:
        thresholds: doubles.

    >>> low = greatest_float32(np.array([0.1, 0.5, 1e300]))
    >>> low[0] < np.float32(0.1), low[1], low[2] == np.finfo(np.float32).max
    (np.True_, np.float32(0.5), np.True_)
    """
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    return np.where(nearest > thresholds, np.nextafter(nearest, np.float32(-np.inf)), nearest)
