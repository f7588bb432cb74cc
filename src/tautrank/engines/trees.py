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

# Binary digits of a float32 number.
_FLOAT32_DIGITS = 24


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
        """Whether each split sends a missing value to the other side than 0. Systems that know no
        missing values, and read them as 0, cannot use such a split.
        """
        zero_goes_left = self.threshold >= 0.0
        return np.asarray(self.missing_left != zero_goes_left)

    @classmethod
    def of(cls, *fields: object, zero_is_missing: object = False, **others: Any) -> Tree:
        """Return a tree whose fields are given as lists or as anything else that NumPy makes arrays
        of.

        Args:
            *fields: feature, threshold, missing_left, left, right and leaf.
            zero_is_missing: one value for each split, or one for all.
            **others: categories and linear.
        """
        # In the order of the fields.
        types = (np.int64, np.float64, np.bool_, np.int64, np.int64, np.float64)
        arrays: list[Any] = []
        for values, field_type in zip(fields, types, strict=True):
            arrays.append(np.array(values, field_type))
        n_splits = arrays[0].size  # the first field is the feature of each split
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
        """Return the tree as text in which every split encloses its children, such as JSON, XML or
        nested conditions.

        What is still to be written is kept on a stack instead of by recursion: LightGBM's trees may
        be deeper than Python's recursion.

        Args:
            split: writes a split, from its number and depth: the texts before its left child,
                between its children, and after the right one.
            leaf: writes a leaf, from its number and depth.

        >>> tree = Tree.of([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])
        >>> def split(node: int, depth: int) -> tuple[str, str, str]:
        ...     return f"x <= {tree.threshold[node]} ? ", " : ", ""
        >>> tree.nested_text(split, lambda leaf, depth: str(tree.leaf[leaf]))
        'x <= 0.5 ? -1.0 : 1.0'
        """
        texts: list[str] = []
        # Texts, and nodes with their depth; the item at the end is written next.
        stack: list[str | tuple[int, int]] = [(self.root, 0)]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                texts.append(item)
                continue
            node, depth = item
            is_leaf = node < 0
            if is_leaf:
                texts.append(leaf(~node, depth))
                continue
            before, between, after = split(node, depth)
            left_child = int(self.left[node]), depth + 1
            right_child = int(self.right[node]), depth + 1
            stack += [after, right_child, between, left_child, before]
        return "".join(texts)


def more_than_comparisons(trees: Sequence[Tree]) -> str | None:
    """Return why trees cannot be written as comparisons of features with thresholds alone, as the
    end of a sentence about the model; None if they can.

    Args:
        trees: the trees of a model.

    >>> more_than_comparisons([Tree.constant(3.0)])
    """
    for tree in trees:
        if tree.linear:
            return "has linear trees (linear_tree)"
        if tree.categories:
            return "splits by category (categorical_feature)"
        # Missing values, and so 0 too, do not go where a comparison would send 0.
        # Both are one truth value per split.
        sends_zero_aside = tree.zero_is_missing & tree.depends_on_missing
        thresholds = tree.threshold[sends_zero_aside]
        if thresholds.size:
            return (
                f"sends 0 aside as a missing value, at the threshold {thresholds[0]:g} among "
                "others (zero_as_missing)"
            )
    return None


def exact_unit(trees: Sequence[Tree]) -> float:
    """Return a unit, a power of two, for rounding the leaves of all trees: float32 then adds up the
    scores exactly, in any order.

    Float32 holds every multiple of the unit up to ``2^24`` units, and no score is larger than the
    sum of the largest leaf of each tree.

    Args:
        trees: the trees of a model.

    >>> exact_unit([Tree.constant(3.0), Tree.constant(-0.5)]) * 2**24
    4.0
    """
    largest_leaves = [float(np.abs(tree.leaf).max(initial=0.0)) for tree in trees]
    largest_score = sum(largest_leaves)
    if largest_score == 0:
        return 1.0
    # Rounding may make each leaf larger by half a unit; a unit is at most 2^-23 of the score.
    largest_score *= 1 + len(trees) * 2.0**-23
    exponent = math.ceil(math.log2(largest_score)) - _FLOAT32_DIGITS
    return float(2.0**exponent)


def greatest_float32(thresholds: F64) -> F32:
    """Return, for each threshold, the greatest float32 that is not above it.

    A float32 value is at most the threshold if and only if it is at most that number. The nearest
    float32 may be above the threshold, and a value equal to it would then go to the wrong side.

    Args:
        thresholds: doubles.

    >>> low = greatest_float32(np.array([0.1, 0.5, 1e300]))
    >>> low[0] < np.float32(0.1), low[1], low[2] == np.finfo(np.float32).max
    (np.True_, np.float32(0.5), np.True_)
    """
    with np.errstate(over="ignore"):
        nearest = thresholds.astype(np.float32)
    # Where rounding went up, the next float32 towards minus infinity is taken.
    next_below = np.nextafter(nearest, np.float32(-np.inf))
    return np.where(nearest > thresholds, next_below, nearest)
