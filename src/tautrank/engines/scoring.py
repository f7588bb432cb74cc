"""Scoring by this library's own compiled loops: several times as fast as the tools' own, and the
same bits.

A tree is packed into 8 bytes per node, breadth first, children side by side. Missing values,
LightGBM's zeros that count as missing, and categories become columns of their own, computed once
per document, so that every split is one comparison. LightGBM adds up doubles, XGBoost singles, both
in the order of the trees; so does this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tautrank.arrays import F32, F64, I64, Array, Bools
from tautrank.engines import _scoring_kernel as kernel
from tautrank.engines.trees import Tree, greatest_float32
from tautrank.kernels.threads import balanced_ranges, run

# Nodes and columns are numbered in 16 bits; splits by category take a column each, and many of them
# no longer pay.
_MOST_NODES = 2**16
_MOST_COLUMNS = 2**14
# What a tree costs per document, in the pairs that `balanced_ranges` counts in.
_TREE_COST = 20.0
# A column is told apart by its feature, its rule and its set of categories, in one number.
_RULE_BITS = 3
_FEATURE_BITS = 37


class Scorer:
    """Trees packed for scoring.

    Args:
        trees: what `packed` returned.
        single: whether sums are float32, as XGBoost's.
    """

    def __init__(self, trees: kernel.PackedTrees, single: bool) -> None:
        # The compiled function takes a plain tuple: Numba would convert a named one at each call.
        self._arrays = tuple(trees)
        self.single = single
        self._cost_of_row = _TREE_COST * (trees.trees.shape[0] - 1)
        self.few = int(1e6 / self._cost_of_row)
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
        packed_trees = packed(trees)
        return None if packed_trees is None else cls(packed_trees, single)

    def scores(self, X: F32, threads: int = 1) -> F64:
        """Return one score per row; the same for any number of threads, and safe from many threads
        at once.

        Args:
            X: features, float32 in C order.
            threads: the most threads to use.
        """
        n = X.shape[0]
        scores = np.empty(n)
        if threads == 1 or n <= self.few:
            kernel.score_rows(X, 0, n, self._arrays, self.single, scores)
            return scores

        def score_tiles(first: int, last: int) -> None:
            first_row = first * kernel.TILE
            end = min(n, last * kernel.TILE)
            kernel.score_rows(X, first_row, end, self._arrays, self.single, scores)

        n_tiles = -(-n // kernel.TILE)
        costs = np.full(n_tiles, kernel.TILE * self._cost_of_row)
        run(score_tiles, balanced_ranges(costs, threads), threads)
        return scores


def packed(trees: Sequence[Tree]) -> kernel.PackedTrees | None:
    """Return trees as the arrays that the compiled loops read; None if these do not cover them.

    Args:
        trees: the trees, in the order in which they are added up.
    """
    if not trees or any(tree.linear for tree in trees):
        return None
    n_splits = np.array([tree.feature.size for tree in trees], np.int64)
    threshold = np.concatenate([tree.threshold for tree in trees])
    if 2 * n_splits.max() + 1 > _MOST_NODES or not np.isfinite(threshold).all():
        return None
    compared = _columns(trees, threshold)
    if compared is None:
        return None

    forest = _forest(trees, n_splits)
    tops = _tops(forest)
    masks = _exit_masks(forest, tops)
    nodes = _nodes(forest, compared)
    top_splits = tops.splits[masks.split]
    exit_nodes = _exit_nodes(forest, tops)
    levels_below = np.zeros(n_splits.size, np.int64)
    np.maximum.at(levels_below, forest.tree[exit_nodes], forest.height[exit_nodes])

    exit_positions = forest.position[exit_nodes]
    exits_in_tree = exit_positions - forest.root[forest.tree[exit_nodes]]
    arrays = kernel.PackedTrees(
        columns=compared.columns,
        category_bits=compared.category_bits,
        trees=_tree_table(forest, tops, masks, levels_below),
        thresholds=nodes.thresholds,
        links=nodes.links,
        values=nodes.values,
        top_columns=compared.column[top_splits].astype(np.uint16),
        top_thresholds=compared.threshold[top_splits],
        top_masks=masks.bits,
        word_ends=masks.word_ends,
        exit_nodes=exits_in_tree.astype(np.uint16),
        exit_values=nodes.values[exit_positions],
    )
    return kernel.PackedTrees(*map(np.ascontiguousarray, arrays))


class _Compared(NamedTuple):
    """What the splits compare."""

    columns: Array
    """Feature, rule, first word and number of words of the set of categories of each column."""
    category_bits: Array
    """The sets of categories, 32 categories to a word."""
    column: I64
    """The column of each split."""
    threshold: F32
    """The threshold of each split."""


def _columns(trees: Sequence[Tree], thresholds: F64) -> _Compared | None:
    """Return the columns that the splits of all trees compare; None if there are too many."""
    feature = np.concatenate([tree.feature for tree in trees])
    missing_left = np.concatenate([tree.missing_left for tree in trees])
    zero_is_missing = np.concatenate([tree.zero_is_missing for tree in trees])
    rule = _rules(thresholds, missing_left, zero_is_missing)
    threshold = greatest_float32(thresholds)

    set_numbers: dict[bytes, int] = {}
    category_set = np.full(feature.size, -1)
    first_split = 0
    for tree in trees:
        for split_of_tree, codes in tree.categories.items():
            split = first_split + split_of_tree
            key = np.asarray(codes, np.int64).tobytes()
            category_set[split] = set_numbers.setdefault(key, len(set_numbers))
            rule[split] = kernel.CATEGORY_NAN_LEFT + (not missing_left[split])
            threshold[split] = 0.5  # between inside and outside of the set, 0 and 1
        first_split += tree.feature.size

    set_of_feature = (category_set + 1) << (_FEATURE_BITS + _RULE_BITS)
    keys, column = np.unique(
        set_of_feature | feature << _RULE_BITS | rule,
        return_inverse=True,
    )
    if keys.size > _MOST_COLUMNS:
        return None
    words = [_bits(np.frombuffer(key, np.int64)) for key in set_numbers]
    return _Compared(
        columns=_column_table(keys, words),
        category_bits=np.concatenate([*words, np.zeros(1, np.uint32)]),
        column=column,
        threshold=threshold,
    )


def _rules(threshold: F64, missing_left: Bools, zero_is_missing: Bools) -> I64:
    """Return what the column of each split makes of missing values."""
    left_rule = np.where(zero_is_missing, kernel.ZERO_LEFT, kernel.NAN_LEFT)
    aside = left_rule + ~missing_left
    # Where a missing value goes the way of 0, it can be taken for 0.
    goes_as_zero = missing_left == (threshold >= 0.0)
    return np.where(goes_as_zero, kernel.NAN_AS_ZERO, aside)


def _column_table(keys: I64, words: Sequence[Array]) -> Array:
    """Return feature, rule, first word and number of words of the columns with these keys."""
    n_words = np.array([0] + [bits.size for bits in words])
    set_number = keys >> (_FEATURE_BITS + _RULE_BITS)  # from 1; 0 for none
    first_word = (np.cumsum(n_words) - n_words)[set_number]
    feature = keys >> _RULE_BITS & 2**_FEATURE_BITS - 1
    rule = keys & 2**_RULE_BITS - 1
    return np.column_stack((feature, rule, first_word, n_words[set_number])).astype(np.int32)


def _bits(codes: I64) -> Array:
    """Return a set of whole numbers as bits of 32-bit words."""
    words = np.zeros(int(codes.max(initial=-1)) // 32 + 1, np.uint32)
    np.bitwise_or.at(words, codes // 32, (1 << (codes % 32)).astype(np.uint32))
    return words


class _Forest(NamedTuple):
    """All trees as one: their splits are numbered through, then their leaves."""

    n_splits: int
    """Splits of all trees; nodes from this number on are leaves."""
    leaf_values: F64
    """Value of each leaf."""
    left: I64
    """Left child of each split."""
    right: I64
    """Right child of each split."""
    tree: I64
    """Tree of each node."""
    levels: list[I64]
    """The nodes of each level, the roots first."""
    inner_levels: list[I64]
    """The splits of each level."""
    height: I64
    """Levels below each node."""
    layout: I64
    """The nodes in the order in which they are kept: tree by tree, breadth first."""
    position: I64
    """Place of each node in the layout."""
    root: I64
    """Place of each tree's root."""


def _forest(trees: Sequence[Tree], n_splits: I64) -> _Forest:
    """Number the nodes of all trees, and find their levels, heights and places."""
    n_all = int(n_splits.sum())
    tree_numbers = np.arange(len(trees))
    tree_of_split = np.repeat(tree_numbers, n_splits)
    tree = np.concatenate((tree_of_split, np.repeat(tree_numbers, n_splits + 1)))
    first_split = _starts(n_splits)
    first_leaf = n_all + first_split + tree_numbers

    def numbered(children: Sequence[I64]) -> I64:
        """Number children through: a split of its tree, or ``~leaf``."""
        child = np.concatenate(children)
        split = child + first_split[tree_of_split]
        leaf = first_leaf[tree_of_split] + ~child
        return np.where(child >= 0, split, leaf)

    left = numbered([tree.left for tree in trees])
    right = numbered([tree.right for tree in trees])

    levels, inner_levels = _levels(np.where(n_splits > 0, first_split, first_leaf), left, right)
    height = np.zeros(tree.size, np.int64)
    for inner in reversed(inner_levels):
        height[inner] = 1 + np.maximum(height[left[inner]], height[right[inner]])

    breadth_first = np.concatenate(levels)
    layout = breadth_first[np.argsort(tree[breadth_first], kind="stable")]
    position = np.empty(layout.size, np.int64)
    position[layout] = np.arange(layout.size)
    return _Forest(
        n_splits=n_all,
        leaf_values=np.concatenate([tree.leaf for tree in trees]),
        left=left,
        right=right,
        tree=tree,
        levels=levels,
        inner_levels=inner_levels,
        height=height,
        layout=layout,
        position=position,
        root=first_split * 2 + tree_numbers,
    )


def _levels(roots: I64, left: I64, right: I64) -> tuple[list[I64], list[I64]]:
    """Return the nodes of each level, and the splits among them; the last level is empty."""
    levels = [roots]
    inner_levels = []
    while levels[-1].size:
        inner = levels[-1][levels[-1] < left.size]
        inner_levels.append(inner)
        levels.append(np.stack((left[inner], right[inner]), axis=1).ravel())
    return levels, inner_levels


class _Tops(NamedTuple):
    """The tops of the trees, whose splits are bits of a vector, and the exits below them."""

    splits: I64
    """The splits of all tops."""
    exits: I64
    """Exits below each node: 1 for what is not in a top."""
    first_exit: I64
    """Number of the first exit below each node, from 0 in each tree."""
    first_exit_of_tree: I64
    """Number of each tree's first exit, from 0 in all; at the end the number of exits."""


def _tops(forest: _Forest) -> _Tops:
    """Return the tops: the highest splits of each tree, as many as have one bit per exit."""
    tree_of_split = forest.tree[: forest.n_splits]
    # A split is higher than its children, so that these splits are joined to the root.
    highest_first = np.lexsort((-forest.height[: forest.n_splits], tree_of_split))
    rank = np.arange(forest.n_splits) - _first_places(tree_of_split)
    is_in_top = np.zeros(forest.n_splits, np.bool_)
    is_in_top[highest_first[rank < kernel.EXITS - 1]] = True

    exits = np.ones(forest.layout.size, np.int64)
    for inner in reversed(forest.inner_levels):
        top = inner[is_in_top[inner]]
        exits[top] = exits[forest.left[top]] + exits[forest.right[top]]
    first_exit = np.zeros(forest.layout.size, np.int64)
    for inner in forest.inner_levels:
        top = inner[is_in_top[inner]]
        first_exit[forest.left[top]] = first_exit[top]
        first_exit[forest.right[top]] = first_exit[top] + exits[forest.left[top]]
    first_exit_of_tree = np.append(0, np.cumsum(exits[forest.levels[0]]))
    return _Tops(np.flatnonzero(is_in_top), exits, first_exit, first_exit_of_tree)


class _ExitMasks(NamedTuple):
    """Which exits are left when a document goes right at a split: one entry for each word of a bit
    vector that the split clears bits of.
    """

    split: I64
    """Place of the entry's split among those of all tops."""
    bits: Array
    """The bits that are left."""
    word_ends: I64
    """First entry of each word, and the number of entries at the end."""
    first_word_of_tree: I64
    """Number of each tree's first word; at the end the number of words."""


def _exit_masks(forest: _Forest, tops: _Tops) -> _ExitMasks:
    """Return the masks of the tops: a document that goes right clears the exits to its left."""
    first_cleared = tops.first_exit[tops.splits]
    end_cleared = first_cleared + tops.exits[forest.left[tops.splits]]
    first_word = first_cleared // kernel.WORD
    n_words = (end_cleared - 1) // kernel.WORD - first_word + 1

    split = np.repeat(np.arange(tops.splits.size), n_words)
    entry_of_split = np.arange(split.size) - _starts(n_words)[split]
    word = first_word[split] + entry_of_split

    # Words are kept tree by tree, the highest word of a tree first.
    words_of_tree = -(-tops.exits[forest.levels[0]] // kernel.WORD)
    first_word_of_tree = np.append(0, np.cumsum(words_of_tree))
    tree = forest.tree[tops.splits[split]]
    slot = first_word_of_tree[tree + 1] - 1 - word
    order = np.argsort(slot, kind="stable")
    split = split[order]

    first_exit_of_word = kernel.WORD * word[order]
    low = np.maximum(first_cleared[split] - first_exit_of_word, 0)
    high = np.minimum(end_cleared[split] - first_exit_of_word, kernel.WORD)
    cleared = (1 << high) - (1 << low)
    entries_of_word = np.bincount(slot, minlength=first_word_of_tree[-1])
    return _ExitMasks(
        split=split,
        bits=(2**kernel.WORD - 1 - cleared).astype(np.uint32),
        word_ends=np.append(0, np.cumsum(entries_of_word)),
        first_word_of_tree=first_word_of_tree,
    )


def _exit_nodes(forest: _Forest, tops: _Tops) -> I64:
    """Return the node below each exit, in the order of the exits of all trees."""
    children = (forest.left[tops.splits], forest.right[tops.splits])
    top_and_below = np.concatenate((forest.levels[0], *children))
    below = np.setdiff1d(top_and_below, tops.splits, assume_unique=True)
    exit_number = tops.first_exit_of_tree[forest.tree[below]] + tops.first_exit[below]
    return below[np.argsort(exit_number)]


def _tree_table(forest: _Forest, tops: _Tops, masks: _ExitMasks, levels_below: I64) -> I64:
    """Return a row for each tree, and one with the numbers of exits and words at the end."""
    columns = (
        tops.first_exit_of_tree,
        masks.first_word_of_tree,
        np.append(forest.root, 0),
        np.append(levels_below, 0),
        np.append(forest.height[forest.levels[0]], 0),
    )
    return np.column_stack(columns)


class _Nodes(NamedTuple):
    """The nodes of all trees, in the order of their layout."""

    thresholds: F32
    """Threshold of each split; infinite for a leaf, which is its own child."""
    links: Array
    """Column and steps to the left child of each split, one after the other; 0 for a leaf."""
    values: F64
    """Value of each leaf; 0 for a split."""


def _nodes(forest: _Forest, compared: _Compared) -> _Nodes:
    """Lay the nodes of all trees out."""
    is_split = forest.layout < forest.n_splits
    split = forest.layout[is_split]
    leaf = forest.layout[~is_split] - forest.n_splits

    thresholds = np.full(forest.layout.size, np.inf, np.float32)
    thresholds[is_split] = compared.threshold[split]
    links = np.zeros((forest.layout.size, 2), np.uint16)
    links[is_split, 0] = compared.column[split]
    links[is_split, 1] = forest.position[forest.left[split]] - forest.position[split]
    values = np.zeros(forest.layout.size)
    values[~is_split] = forest.leaf_values[leaf]
    return _Nodes(thresholds, links.ravel(), values)


def _starts(sizes: I64) -> I64:
    """Return where each part begins, given the sizes of parts that follow each other."""
    return np.cumsum(sizes) - sizes


def _first_places(groups: I64) -> I64:
    """Return for each entry the place of the first of its group; groups follow each other."""
    return np.searchsorted(groups, groups)
