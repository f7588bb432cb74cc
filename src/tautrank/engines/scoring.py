"""Scoring by this library's own compiled loops: several times as fast as the tools' own, and the
same bits.

A tree is packed into 8 bytes per node, breadth first, children side by side. Missing values,
LightGBM's zeros that count as missing, and categories become columns of their own, computed once
per document, so that every split is one comparison. LightGBM adds up doubles, XGBoost singles, both
in the order of the trees; so does this.
"""

from __future__ import annotations

import math
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
# Below so many pairs, starting threads takes longer than they save.
_FEWEST_COSTS_FOR_THREADS = 1e6
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
        self.single = single  # whether scores are added up in float32
        n_trees = trees.trees.shape[0] - 1  # the table of trees has a row more, for the end
        self._cost_of_row = _TREE_COST * n_trees
        self.few = int(_FEWEST_COSTS_FOR_THREADS / self._cost_of_row)
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
        n_rows = X.shape[0]
        scores = np.empty(n_rows)
        if threads == 1 or n_rows <= self.few:
            kernel.score_rows(X, 0, n_rows, self._arrays, self.single, scores)
            return scores

        # `run` gives each thread a range of tiles; each writes the scores of its own rows.
        # Threads share the rows in tiles, blocks of as many rows as the kernel scores at a time.
        def score_tiles(first_tile: int, end_tile: int) -> None:
            first_row = first_tile * kernel.TILE
            end_row = min(n_rows, end_tile * kernel.TILE)
            kernel.score_rows(X, first_row, end_row, self._arrays, self.single, scores)

        n_tiles = math.ceil(n_rows / kernel.TILE)
        costs = np.full(n_tiles, kernel.TILE * self._cost_of_row)
        run(score_tiles, balanced_ranges(costs, threads), threads)
        return scores


def packed(trees: Sequence[Tree]) -> kernel.PackedTrees | None:
    """Return trees as the arrays that the compiled scoring reads; None for trees that it cannot
    score: linear ones, and trees with too many nodes or infinite thresholds.

    The highest splits of a tree, its top, are handled apart. A document's way through the top is
    found without jumps, by clearing bits: one bit stands for each exit, a node just below the top.

    Args:
        trees: the trees, in the order in which they are added up.
    """
    if not trees or any(tree.linear for tree in trees):
        return None
    n_splits = np.array([tree.feature.size for tree in trees], np.int64)
    threshold = np.concatenate([tree.threshold for tree in trees])
    if 2 * n_splits.max() + 1 > _MOST_NODES or not np.isfinite(threshold).all():
        return None
    compared = _find_columns(trees, threshold)
    if compared is None:
        return None

    forest = _number_nodes(trees, n_splits)
    tops = _find_tops(forest)
    masks = _make_exit_masks(forest, tops)
    nodes = _lay_out_nodes(forest, compared)
    split_of_mask = tops.splits[masks.split]

    # Below the top, a document goes down at most as many levels as the highest exit of its tree.
    exit_nodes = _find_exit_nodes(forest, tops)
    tree_of_exit = forest.tree[exit_nodes]
    levels_below_top = np.zeros(n_splits.size, np.int64)
    np.maximum.at(levels_below_top, tree_of_exit, forest.height[exit_nodes])

    exit_positions = forest.position[exit_nodes]
    steps_from_root = exit_positions - forest.root[tree_of_exit]
    arrays = kernel.PackedTrees(
        columns=compared.columns,
        category_bits=compared.category_bits,
        trees=_make_tree_table(forest, tops, masks, levels_below_top),
        thresholds=nodes.thresholds,
        links=nodes.links,
        values=nodes.values,
        top_columns=compared.column[split_of_mask].astype(np.uint16),
        top_thresholds=compared.threshold[split_of_mask],
        top_masks=masks.bits,
        word_ends=masks.word_ends,
        exit_nodes=steps_from_root.astype(np.uint16),
        exit_values=nodes.values[exit_positions],
    )
    # The compiled code wants arrays in C order.
    return kernel.PackedTrees(*map(np.ascontiguousarray, arrays))


class _ComparedColumns(NamedTuple):
    """The columns that scoring computes from the features of a document, and what each split of the
    trees compares: a column, with a threshold.
    """

    columns: Array
    """Feature, rule, first word and number of words of the set of categories of each column."""
    category_bits: Array
    """The sets of categories, 32 categories to a word."""
    column: I64
    """The column of each split."""
    threshold: F32
    """The threshold of each split."""


def _find_columns(trees: Sequence[Tree], thresholds: F64) -> _ComparedColumns | None:
    """Return the columns that the splits of all trees compare; None if there are too many.

    Splits compare the same column if they have the same feature, the same rule for missing values
    and the same set of categories, if any. These three make one number, the key of the column.

    Args:
        trees: the trees.
        thresholds: the thresholds of all splits, tree by tree.
    """
    feature = np.concatenate([tree.feature for tree in trees])
    missing_left = np.concatenate([tree.missing_left for tree in trees])
    zero_is_missing = np.concatenate([tree.zero_is_missing for tree in trees])
    rule = _missing_rules(thresholds, missing_left, zero_is_missing)
    threshold = greatest_float32(thresholds)

    # Each set of categories has a number, from 1; 0 stands for a split without categories.
    number_of_set: dict[bytes, int] = {}
    set_of_split = np.zeros(feature.size, np.int64)
    first_split = 0
    for tree in trees:
        for split_in_tree, codes in tree.categories.items():
            split = first_split + split_in_tree
            code_bytes = np.asarray(codes, np.int64).tobytes()
            set_of_split[split] = number_of_set.setdefault(code_bytes, len(number_of_set) + 1)
            rule[split] = kernel.CATEGORY_NAN_LEFT + (not missing_left[split])
            threshold[split] = 0.5  # the column is 0 inside the set, 1 outside
        first_split += tree.feature.size

    set_bits = set_of_split << (_FEATURE_BITS + _RULE_BITS)
    key_of_split = set_bits | feature << _RULE_BITS | rule
    keys, column = np.unique(key_of_split, return_inverse=True)
    if keys.size > _MOST_COLUMNS:
        return None
    words = [_bit_words(np.frombuffer(code_bytes, np.int64)) for code_bytes in number_of_set]
    return _ComparedColumns(
        columns=_make_column_table(keys, words),
        # The word at the end keeps the array from being empty.
        category_bits=np.concatenate([*words, np.zeros(1, np.uint32)]),
        column=column,
        threshold=threshold,
    )


def _missing_rules(threshold: F64, missing_left: Bools, zero_is_missing: Bools) -> I64:
    """Return, for each split, the kernel's number of the rule by which missing values (NaN, or 0 too)
    go left or right; any other value goes left if it is at most the threshold.

    Args:
        threshold: the threshold of each split.
        missing_left: whether missing values go left.
        zero_is_missing: whether 0 counts as missing besides NaN.
    """
    rule_to_left = np.where(zero_is_missing, kernel.ZERO_LEFT, kernel.NAN_LEFT)
    # The rule to the right has the next number. `~` is "not": true counts as 1.
    rule = rule_to_left + ~missing_left
    # 0 goes left where the threshold is 0 or above. Where a missing value goes the way of 0, it can
    # be taken for 0, which needs no rule of its own.
    goes_as_zero = missing_left == (threshold >= 0.0)
    return np.where(goes_as_zero, kernel.NAN_AS_ZERO, rule)


def _make_column_table(keys: I64, words_of_sets: Sequence[Array]) -> Array:
    """Return a table with one row per column that splits compare: feature, rule for missing values,
    and first word and number of words of the set of categories.

    A column is a feature as some splits see it: with their rule for missing values, or as 0 inside
    and 1 outside a set of categories. A set is kept as bits of 32-bit words.

    Args:
        keys: the number that each column is told apart by; its bits are, from the highest, the
            number of a set, a feature and a rule.
        words_of_sets: the words of each set of categories.
    """
    # The three numbers are taken out of the bits of the key; 2**n - 1 has the n lowest bits set.
    set_number = keys >> (_FEATURE_BITS + _RULE_BITS)  # from 1; 0 for no categories
    feature = keys >> _RULE_BITS & 2**_FEATURE_BITS - 1
    rule = keys & 2**_RULE_BITS - 1

    # The 0 in front is for set number 0, no categories.
    n_words_of_set = np.array([0] + [words.size for words in words_of_sets])
    # The sets follow each other: each begins after the words of those before.
    first_word_of_set = _starts(n_words_of_set)
    first_word = first_word_of_set[set_number]
    n_words = n_words_of_set[set_number]
    return np.column_stack((feature, rule, first_word, n_words)).astype(np.int32)


def _bit_words(codes: I64) -> Array:
    """Return a set of category codes as 32-bit words, in which the bit of each code is 1."""
    highest_code = int(codes.max(initial=-1))  # -1 for an empty set
    words = np.zeros(highest_code // 32 + 1, np.uint32)
    bits = (1 << (codes % 32)).astype(np.uint32)
    # `at` puts all bits into a word that occurs several times; plain indexing would keep the last.
    np.bitwise_or.at(words, codes // 32, bits)
    return words


class _Forest(NamedTuple):
    """The nodes of all trees, numbered through: first all splits, tree by tree, then all leaves."""

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


def _number_nodes(trees: Sequence[Tree], n_splits: I64) -> _Forest:
    """Return the nodes of all trees, numbered through, with their levels, heights and places.

    Args:
        trees: the trees.
        n_splits: number of splits of each tree; it has one leaf more.
    """
    n_all_splits = int(n_splits.sum())
    tree_numbers = np.arange(len(trees))
    tree_of_split = np.repeat(tree_numbers, n_splits)
    tree_of_leaf = np.repeat(tree_numbers, n_splits + 1)
    tree = np.concatenate((tree_of_split, tree_of_leaf))
    first_split = _starts(n_splits)
    first_leaf = n_all_splits + first_split + tree_numbers

    def number_children(children: Sequence[I64]) -> I64:
        """Return the numbers, among the nodes of all trees, of children: each is given as the number
        of a split of its tree, or, below 0, as ``~leaf`` for a leaf of its tree.
        """
        child = np.concatenate(children)
        split = child + first_split[tree_of_split]
        leaf = first_leaf[tree_of_split] + ~child
        return np.where(child >= 0, split, leaf)

    left = number_children([tree.left for tree in trees])
    right = number_children([tree.right for tree in trees])

    roots = np.where(n_splits > 0, first_split, first_leaf)
    levels, inner_levels = _find_levels(roots, left, right)
    height = _find_heights(tree.size, inner_levels, left, right)

    breadth_first = np.concatenate(levels)
    tree_by_tree = np.argsort(tree[breadth_first], kind="stable")
    layout = breadth_first[tree_by_tree]
    position = np.empty(layout.size, np.int64)
    position[layout] = np.arange(layout.size)
    return _Forest(
        n_splits=n_all_splits,
        leaf_values=np.concatenate([tree.leaf for tree in trees]),
        left=left,
        right=right,
        tree=tree,
        levels=levels,
        inner_levels=inner_levels,
        height=height,
        layout=layout,
        position=position,
        # Each tree before has a leaf more than splits.
        root=first_split * 2 + tree_numbers,
    )


def _find_levels(roots: I64, left: I64, right: I64) -> tuple[list[I64], list[I64]]:
    """Return the nodes of each level of all trees from the roots down, and the splits among them;
    the last level is empty.

    Args:
        roots: the root of each tree.
        left: the left child of each split; nodes from their number on are leaves.
        right: the right child of each split.
    """
    n_splits = left.size  # splits of all trees have the first numbers, leaves the following ones
    levels = [roots]
    splits_of_levels = []
    while levels[-1].size:
        level = levels[-1]
        splits = level[level < n_splits]
        splits_of_levels.append(splits)
        # The two children of a split side by side.
        children = np.stack((left[splits], right[splits]), axis=1)
        levels.append(children.ravel())
    return levels, splits_of_levels


def _find_heights(n_nodes: int, inner_levels: Sequence[I64], left: I64, right: I64) -> I64:
    """Return the height of each node: the number of levels below it, 0 for a leaf.

    Args:
        n_nodes: number of nodes of all trees.
        inner_levels: the splits of each level, the roots first.
        left: the left child of each split.
        right: the right child of each split.
    """
    height = np.zeros(n_nodes, np.int64)  # leaves keep 0
    # From the lowest level up: a split is one higher than its higher child.
    for splits in reversed(inner_levels):
        left_height = height[left[splits]]
        right_height = height[right[splits]]
        height[splits] = 1 + np.maximum(left_height, right_height)
    return height


class _Tops(NamedTuple):
    """The tops of the trees, each the highest splits of a tree, and their exits: the nodes just
    below a top.
    """

    splits: I64
    """The splits of all tops."""
    n_exits: I64
    """Number of exits below each node: 1 for what is not in a top."""
    first_exit: I64
    """Number of the first exit below each node, from 0 in each tree."""
    first_exit_of_tree: I64
    """Number of each tree's first exit, from 0 in all; at the end the number of exits."""


def _find_tops(forest: _Forest) -> _Tops:
    """Return the top of each tree, its highest splits, and number the exits of each top.

    An exit is a node just below the top; a top of n splits has n + 1 exits, numbered from left to
    right. Each exit has a bit, so that `kernel.EXITS` limits their number.
    """
    tree_of_split = forest.tree[: forest.n_splits]
    # A split is higher than its children, so that the highest splits are joined to the root.
    highest_first = np.lexsort((-forest.height[: forest.n_splits], tree_of_split))
    rank_in_tree = np.arange(forest.n_splits) - _first_of_group(tree_of_split)
    is_in_top = np.zeros(forest.n_splits, np.bool_)
    is_in_top[highest_first[rank_in_tree < kernel.EXITS - 1]] = True

    # From the lowest level up: a split of a top has the exits of both its children.
    n_exits = np.ones(forest.layout.size, np.int64)
    for splits in reversed(forest.inner_levels):
        top = splits[is_in_top[splits]]
        n_exits[top] = n_exits[forest.left[top]] + n_exits[forest.right[top]]
    # From the roots down: the exits of a right child follow those of the left child.
    first_exit = np.zeros(forest.layout.size, np.int64)
    for splits in forest.inner_levels:
        top = splits[is_in_top[splits]]
        first_exit[forest.left[top]] = first_exit[top]
        first_exit[forest.right[top]] = first_exit[top] + n_exits[forest.left[top]]
    first_exit_of_tree = np.append(0, np.cumsum(n_exits[forest.levels[0]]))
    return _Tops(np.flatnonzero(is_in_top), n_exits, first_exit, first_exit_of_tree)


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


def _make_exit_masks(forest: _Forest, tops: _Tops) -> _ExitMasks:
    """Return the bits that each split of a top leaves to a document that goes right.

    Each exit of a top (a node just below it) has a bit, and a document may leave by the exits whose
    bits are 1. At a split where it goes right, the exits below the left child are cleared. Their
    bits may lie in several words: there is one entry for each split and word.
    """
    first_cleared = tops.first_exit[tops.splits]
    end_cleared = first_cleared + tops.n_exits[forest.left[tops.splits]]
    first_word = first_cleared // kernel.WORD
    last_word = (end_cleared - 1) // kernel.WORD
    n_words = last_word - first_word + 1

    # One entry for each split and word.
    split = np.repeat(np.arange(tops.splits.size), n_words)
    entry_in_split = np.arange(split.size) - _starts(n_words)[split]
    word = first_word[split] + entry_in_split

    # Words are kept tree by tree, the highest word of a tree first.
    words_of_tree = -(-tops.n_exits[forest.levels[0]] // kernel.WORD)  # rounded up
    first_word_of_tree = np.append(0, np.cumsum(words_of_tree))
    tree = forest.tree[tops.splits[split]]
    position_of_word = first_word_of_tree[tree + 1] - 1 - word
    order = np.argsort(position_of_word, kind="stable")
    split = split[order]

    # Bits from low to high are cleared, high not included.
    first_exit_of_word = kernel.WORD * word[order]
    low = np.maximum(first_cleared[split] - first_exit_of_word, 0)
    high = np.minimum(end_cleared[split] - first_exit_of_word, kernel.WORD)
    cleared = (1 << high) - (1 << low)
    all_bits = 2**kernel.WORD - 1
    entries_of_word = np.bincount(position_of_word, minlength=first_word_of_tree[-1])
    return _ExitMasks(
        split=split,
        bits=(all_bits - cleared).astype(np.uint32),
        word_ends=np.append(0, np.cumsum(entries_of_word)),
        first_word_of_tree=first_word_of_tree,
    )


def _find_exit_nodes(forest: _Forest, tops: _Tops) -> I64:
    """Return the exits, the nodes just below the tops of the trees, in the order of their numbers:
    tree by tree, from left to right.

    The top of a tree are its highest splits, `tops.splits`; `forest` has the nodes of all trees.
    """
    roots = forest.levels[0]
    children = (forest.left[tops.splits], forest.right[tops.splits])
    tops_and_exits = np.concatenate((roots, *children))
    # Roots and children of a top are splits of a top or exits: what is not the one is the other.
    exits = np.setdiff1d(tops_and_exits, tops.splits, assume_unique=True)
    # Within its tree an exit has a number from 0; the tree's first number is added.
    first_number = tops.first_exit_of_tree[forest.tree[exits]]
    exit_number = first_number + tops.first_exit[exits]
    return exits[np.argsort(exit_number)]


def _make_tree_table(forest: _Forest, tops: _Tops, masks: _ExitMasks, levels_below_top: I64) -> I64:
    """Return a row for each tree: first exit, first word of exit bits, place of the root, levels
    below the top, and height. A row at the end holds the numbers of all exits and words.

    The top of a tree are its highest splits. An exit is a node just below the top, and has a bit in
    one of the tree's words. The first two columns already have an entry for the row at the end.
    """
    height_of_tree = forest.height[forest.levels[0]]
    columns = (
        tops.first_exit_of_tree,
        masks.first_word_of_tree,
        np.append(forest.root, 0),
        np.append(levels_below_top, 0),
        np.append(height_of_tree, 0),
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


def _lay_out_nodes(forest: _Forest, compared: _ComparedColumns) -> _Nodes:
    """Return threshold, links and value of all nodes in the order in which they are kept: tree by
    tree, breadth first, so that the right child follows the left one.

    `forest.layout` has the nodes in this order: numbers below `n_splits` are splits, which compare a
    column with a threshold; those from there on are leaves, which have a value.
    """
    is_split = forest.layout < forest.n_splits
    split = forest.layout[is_split]
    leaf = forest.layout[~is_split] - forest.n_splits

    # A leaf has the threshold infinity, and 0 for both links: a document stays there.
    thresholds = np.full(forest.layout.size, np.inf, np.float32)
    thresholds[is_split] = compared.threshold[split]
    links = np.zeros((forest.layout.size, 2), np.uint16)
    # Links of a split: its column, and how many nodes further on its left child is.
    links[is_split, 0] = compared.column[split]
    links[is_split, 1] = forest.position[forest.left[split]] - forest.position[split]
    values = np.zeros(forest.layout.size)
    values[~is_split] = forest.leaf_values[leaf]
    return _Nodes(thresholds, links.ravel(), values)


def _starts(sizes: I64) -> I64:
    """Return the place where each of some parts begins that follow each other, from their sizes."""
    return np.cumsum(sizes) - sizes


def _first_of_group(groups: I64) -> I64:
    """Return, for each entry of ascending group numbers, the place of the first of its group."""
    return np.searchsorted(groups, groups)
