"""Scoring by this library's own compiled loops: several times as fast as the tools' own, and the
same bits.

A tree is packed into 8 bytes per node, breadth first, children side by side. Missing values,
LightGBM's zeros that count as missing, and categories become columns of their own, computed once
per document, so that every split is one comparison. LightGBM adds up doubles, XGBoost singles, both
in the order of the trees; so does this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tautrank.arrays import F32, F64, I64, Array
from tautrank.engines import _scoring_kernel as kernel
from tautrank.engines.trees import Tree, greatest_float32
from tautrank.kernels.threads import balanced_ranges, run

# Nodes and columns are numbered in 16 bits; splits by category take a column each, and many of them
# no longer pay.
_MOST_NODES = 2**16
_MOST_COLUMNS = 2**14
# What a tree costs per document, in the pairs that `balanced_ranges` counts in.
_TREE_COST = 20.0


class Scorer:
    """Trees packed for scoring.

    Args:
        model: what `packed` returned.
        single: whether sums are float32, as XGBoost's.
    """

    def __init__(self, model: tuple[Array, ...], single: bool) -> None:
        self._model, self.single = model, single
        self._cost = _TREE_COST * (model[2].shape[0] - 1)
        self.few = int(1e6 / self._cost)
        """Up to this many rows, further threads would not pay."""

    @classmethod
    def of(cls, trees: Sequence[Tree], single: bool = False) -> Scorer | None:
        """Pack trees; None for trees that it does not score: linear ones, very large ones.

        Args:
            trees: the trees, in the order in which they are added up.
            single: whether sums are float32.

        >>> scorer = Scorer.of([Tree.of([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])])
        >>> scorer.scores(np.array([[0.5], [0.6], [np.nan]], np.float32))
        array([-1.,  1., -1.])
        """
        model = packed(trees)
        return None if model is None else cls(model, single)

    def scores(self, X: F32, threads: int = 1) -> F64:
        """Return one score per row; the same for any number of threads, and safe from many threads
        at once.

        Args:
            X: features, float32 in C order.
            threads: the most threads to use.
        """
        n = X.shape[0]
        out = np.empty(n)
        if threads == 1 or n <= self.few:
            kernel.score_rows(X, 0, n, self._model, self.single, out)
            return out

        def score(first: int, last: int) -> None:
            kernel.score_rows(
                X, first * kernel.TILE, min(n, last * kernel.TILE), self._model, self.single, out
            )

        tiles = np.full(-(-n // kernel.TILE), kernel.TILE * self._cost)
        run(score, balanced_ranges(tiles, threads), threads)
        return out


def packed(trees: Sequence[Tree]) -> tuple[Array, ...] | None:
    """Return trees as the arrays that the compiled loops read; None if they do not cover them.

    Args:
        trees: the trees, in the order in which they are added up.
    """
    sizes = np.array([tree.feature.size for tree in trees], np.int64)
    if not trees or any(tree.linear for tree in trees) or 2 * sizes.max() + 1 > _MOST_NODES:
        return None
    threshold = np.concatenate([tree.threshold for tree in trees])
    found = _columns(trees, threshold)
    if found is None or not np.isfinite(threshold).all():
        return None
    columns, bits, column, threshold = found

    # Splits of all trees are numbered through, then their leaves.
    splits, owner = int(sizes.sum()), np.repeat(np.arange(len(trees)), sizes)
    first_split = np.cumsum(sizes) - sizes
    first_leaf = splits + first_split + np.arange(len(trees))
    given = np.array(
        [np.concatenate([getattr(tree, side) for tree in trees]) for side in ("left", "right")]
    )
    left, right = np.where(given >= 0, given + first_split[owner], first_leaf[owner] + ~given)
    tree_of = np.concatenate((owner, np.repeat(np.arange(len(trees)), sizes + 1)))

    levels, inner_levels = [np.where(sizes > 0, first_split, first_leaf)], []
    while levels[-1].size:
        inner = levels[-1][levels[-1] < splits]
        inner_levels.append(inner)
        levels.append(np.stack((left[inner], right[inner]), axis=1).ravel())
    layout = np.concatenate(levels)
    layout = layout[np.argsort(tree_of[layout], kind="stable")]
    place = np.empty(layout.size, np.int64)
    place[layout] = np.arange(layout.size)
    root = first_split * 2 + np.arange(len(trees))

    height = np.zeros(layout.size, np.int64)
    for inner in reversed(inner_levels):
        height[inner] = 1 + np.maximum(height[left[inner]], height[right[inner]])
    # The highest splits are the top of a tree: a split is higher than its children.
    order = np.lexsort((-height[:splits], owner))
    in_top = np.zeros(splits, np.bool_)
    in_top[order[np.arange(splits) - first_split[owner] < kernel.EXITS - 1]] = True
    # How many exits each split of the top has, and the number of the first of them.
    exits, first_exit = np.ones(layout.size, np.int64), np.zeros(layout.size, np.int64)
    for inner in reversed(inner_levels):
        top = inner[in_top[inner]]
        exits[top] = exits[left[top]] + exits[right[top]]
    for inner in inner_levels:
        top = inner[in_top[inner]]
        first_exit[left[top]] = first_exit[top]
        first_exit[right[top]] = first_exit[top] + exits[left[top]]

    top = np.flatnonzero(in_top)
    # Each split clears the exits to its left: one entry for each word that they have bits in, the
    # highest word first.
    begin, end = first_exit[top], first_exit[top] + exits[left[top]]
    entries = (end - 1) // kernel.WORD - begin // kernel.WORD + 1
    of = np.repeat(np.arange(top.size), entries)
    word = begin[of] // kernel.WORD + np.arange(of.size) - (np.cumsum(entries) - entries)[of]
    first_word = np.append(0, np.cumsum(-(-exits[levels[0]] // kernel.WORD)))
    slot = first_word[owner[top[of]] + 1] - 1 - word
    order = np.argsort(slot, kind="stable")
    of, start = of[order], kernel.WORD * word[order]
    top_columns, top_thresholds = column[top[of]].astype(np.uint16), threshold[top[of]]
    cleared = (1 << np.minimum(end[of] - start, kernel.WORD)) - (
        1 << np.maximum(begin[of] - start, 0)
    )
    top_masks = (2**kernel.WORD - 1 - cleared).astype(np.uint32)
    ends = np.append(0, np.cumsum(np.bincount(slot, minlength=first_word[-1])))

    below = np.setdiff1d(
        np.concatenate((levels[0], left[top], right[top])), top, assume_unique=True
    )
    first_of_tree = np.append(0, np.cumsum(exits[levels[0]]))
    exit_nodes = below[np.argsort(first_of_tree[tree_of[below]] + first_exit[below])]
    rest = np.zeros(len(trees), np.int64)
    np.maximum.at(rest, tree_of[below], height[below])

    is_split = layout < splits
    split = layout[is_split]
    thresholds = np.full(layout.size, np.inf, np.float32)
    links = np.zeros((layout.size, 2), np.uint16)  # column, and steps to the left child
    values = np.zeros(layout.size)
    thresholds[is_split], links[is_split, 0] = threshold[split], column[split]
    links[is_split, 1] = place[left[split]] - place[split]
    values[~is_split] = np.concatenate([tree.leaf for tree in trees])[layout[~is_split] - splits]
    exit_values = values[place[exit_nodes]]
    exit_nodes = (place[exit_nodes] - root[tree_of[exit_nodes]]).astype(np.uint16)
    of_trees = (np.append(each, 0) for each in (root, rest, height[levels[0]]))
    table = np.column_stack((first_of_tree, first_word, *of_trees))
    tops = top_columns, top_thresholds, top_masks, ends, exit_nodes, exit_values
    arrays = columns, bits, table, thresholds, links.ravel(), values, *tops
    return tuple(np.ascontiguousarray(array) for array in arrays)


def _columns(trees: Sequence[Tree], threshold: F64) -> tuple[Array, Array, I64, F32] | None:
    """Return the columns that the splits compare, their sets of categories, and each split's column
    and threshold.
    """
    feature = np.concatenate([tree.feature for tree in trees])
    left = np.concatenate([tree.missing_left for tree in trees])
    zero = np.concatenate([tree.zero_is_missing for tree in trees])
    aside = np.where(zero, kernel.ZERO_LEFT, kernel.NAN_LEFT) + ~left
    # Where a missing value goes the way of 0, it can be taken for 0.
    rule = np.where(left == (threshold >= 0.0), kernel.NAN_AS_ZERO, aside)
    single = greatest_float32(threshold)
    sets: dict[bytes, int] = {}
    number = np.full(feature.size, -1)
    start = 0
    for tree in trees:
        for split, codes in tree.categories.items():
            at = start + split
            rule[at] = kernel.CATEGORY_NAN_LEFT + (not left[at])
            number[at] = sets.setdefault(np.asarray(codes, np.int64).tobytes(), len(sets))
            single[at] = 0.5
        start += tree.feature.size
    keys, column = np.unique((number + 1) << 40 | feature << 3 | rule, return_inverse=True)
    if keys.size > _MOST_COLUMNS:
        return None
    words = [_bits(np.frombuffer(codes, np.int64)) for codes in sets]
    starts = np.cumsum([0] + [each.size for each in words])
    of = keys >> 40  # 0 for no set
    first, count = starts[of - 1] * (of > 0), np.diff(starts, prepend=0)[of]
    columns = np.column_stack((keys >> 3 & 2**37 - 1, keys & 7, first, count))
    return (
        columns.astype(np.int32),
        np.concatenate([*words, np.zeros(1, np.uint32)]),
        column,
        single,
    )


def _bits(codes: I64) -> Array:
    """Return a set of whole numbers as bits of 32-bit words."""
    words = np.zeros(int(codes.max(initial=-1)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, codes // 32, (1 << (codes % 32)).astype(np.uint32))
    return words
