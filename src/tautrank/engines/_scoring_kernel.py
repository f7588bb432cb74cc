"""The compiled loops of `scoring`: trees walked for many documents at once, to the bits of the tool
that trained them.

Every split asks ``column > threshold`` on float32 numbers without NaN, and every document goes
through a tree in two stages. The top of the tree, at most 256 exits, is a bit vector per document
(Lucchese et al., *QuickScorer*, SIGIR 2015): each split whose answer is yes clears the bits of the
exits to its left, and the lowest bit that is left is the exit. There are no branches, and documents
are the lanes of vector instructions. A vector of more than 32 bits is done word by word: most
splits have exits in one word only. What lies below an exit that is no leaf is walked by eight
documents in turn, so that the processor always has seven others to go on with. A leaf is its own
child: a walk may go on past it, and ends when nobody has moved.

Few documents leave lanes empty: they take eight trees in turn instead. Sums run in the order of the
trees either way.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from tautrank.arrays import F32, F64, I32, I64, Array
from tautrank.kernels.lanes import Loop, code_of

Unsigned: TypeAlias = Any
"""A np.uint64; numbers without a sign spare the check for negative indices, and with it half of the
instructions.
"""

_TILE_BITS = 7
TILE = 2**_TILE_BITS
"""Documents that go through a tree together: as many as their columns leave room for in a core's
cache.
"""
WORD = 32
"""Exits of one word of a bit vector."""
_ALL_BITS = 2**WORD - 1
EXITS = 256
"""Exits of the top of a tree, one bit each."""
FEW = 6
"""Up to this many documents, trees are interleaved instead of documents."""
LANES = 32
"""Documents whose bit vectors are in registers at a time."""
U0, U1, U2, U3, U4, U5, U6, U7 = np.arange(8, dtype=np.uint64)
# Columns of which a tile of 128 documents takes half a MiB; of more, a tile has fewer documents.
_MOST_COLUMNS_OF_A_TILE = 1_000

NAN_AS_ZERO, NAN_LEFT, NAN_RIGHT, ZERO_LEFT, ZERO_RIGHT, CATEGORY_NAN_LEFT, CATEGORY_NAN_RIGHT = (
    range(7)
)
"""What a column makes of a feature: where missing values (in two kinds also zeros) go, or whether a
category is outside of a set."""

_FEATURE, _RULE, _FIRST_CATEGORY_WORD, _CATEGORY_WORDS = range(4)  # of `PackedTrees.columns`
_FIRST_EXIT, _FIRST_WORD, _ROOT, _LEVELS_BELOW_TOP, _LEVELS = range(5)  # of `PackedTrees.trees`


class PackedTrees(NamedTuple):
    """Trees as `scoring.packed` lays them out. Tops are the highest splits of the trees, one bit
    vector per tree; exits are the nodes just below them.
    """

    columns: I32
    """Of each column: feature, rule for missing values, first word and number of words of its
    categories."""
    category_bits: Array
    """Sets of categories, 32 categories to a word."""
    trees: I64
    """Of each tree: first exit, first word, root, levels below the top, all levels; at the end the
    numbers of exits and words."""
    thresholds: F32
    """Of each node; infinite for a leaf."""
    links: Array
    """Of each node: column, and steps to the left child."""
    values: F64
    """Of each node: the value of a leaf."""
    top_columns: Array
    """Column of each entry: a split of a top and a word that it clears bits of."""
    top_thresholds: F32
    """Threshold of each entry."""
    top_masks: Array
    """Bits that each entry leaves."""
    word_ends: I64
    """First entry of each word, and the number of entries at the end."""
    exit_nodes: Array
    """Node of each exit, counted from its tree's root."""
    exit_values: F64
    """Value of each exit that is a leaf."""


def _readonly(kind: str, n_dimensions: int = 1) -> Any:
    """Return the type of an array in C order that is only read."""
    return types.Array(getattr(types, kind), n_dimensions, "C", readonly=True)


# Numba converts no named tuple to a declared signature: `score_rows` takes the fields as a plain
# one.
_PACKED_TREES: Any = types.Tuple(
    [
        _readonly("int32", 2),
        _readonly("uint32"),
        _readonly("int64", 2),
        _readonly("float32"),
        _readonly("uint16"),
        _readonly("float64"),
        _readonly("uint16"),
        _readonly("float32"),
        _readonly("uint32"),
        _readonly("int64"),
        _readonly("uint16"),
        _readonly("float64"),
    ]
)
_ROWS = _readonly("float32", 2)


@njit(error_model="numpy")
def _fill(
    X: F32, row: int, n: int, columns: I32, bits: Array, single: bool, x: F32, stride: int
) -> None:
    """Prepare features for the splits of trees: write the columns of ``n`` documents from ``row`` on,
    document ``l`` of column ``c`` to ``x[c * stride + l]``.

    A column is a feature under one rule for missing values, which become infinite or 0, so that
    every split is ``column > threshold``; a set of categories is a column of 0 (inside) and 1.

    Args:
        X: features, one row per document.
        row, n: the first document and the number of documents.
        columns: feature, rule and category words of each column.
        bits: the sets of categories, 32 to a word.
        single: whether the trees are XGBoost's.
        x: receives the columns.
        stride: distance of two columns in ``x``.
    """
    # LightGBM takes tiny numbers for 0 before it looks at a tree.
    tiny = np.float32(0.0 if single else 1e-35)
    for c in range(columns.shape[0]):
        feature = columns[c, _FEATURE]
        rule = columns[c, _RULE]
        first_word = columns[c, _FIRST_CATEGORY_WORD]
        n_words = columns[c, _CATEGORY_WORDS]
        start = c * stride

        if rule < CATEGORY_NAN_LEFT:
            # Infinite values go left or right at every split.
            missing = np.float32(0.0)
            if rule != NAN_AS_ZERO:
                missing = np.float32(-np.inf if rule in (NAN_LEFT, ZERO_LEFT) else np.inf)
            zero = missing if rule >= ZERO_LEFT else np.float32(0.0)
            for i in range(n):
                value = X[row + i, feature]
                if not abs(value) > tiny:
                    value = zero if value == value else missing
                x[start + i] = value
        else:
            for i in range(n):
                value = X[row + i, feature]
                x[start + i] = _outside(value, bits, first_word, n_words, rule, single)


@njit(error_model="numpy", inline="always")
def _outside(
    value: float, bits: Array, first_word: int, n_words: int, rule: int, single: bool
) -> np.float32:
    """Return 1 if a feature value is in none of a column's set of categories, else 0; for NaN what
    the rule of the column says.

    Args:
        value: the code of a category, or NaN.
        bits: sets of categories, 32 categories to a word; a bit is 1 for a member.
        first_word, n_words: the words of this column's set.
        rule: ``CATEGORY_NAN_LEFT`` or ``CATEGORY_NAN_RIGHT``.
        single: whether the trees are XGBoost's.
    """
    # LightGBM cuts off the fraction of a number before it looks at its sign, XGBoost does not.
    lower_limit = np.float32(-1e-45) if single else np.float32(-1.0)
    if value != value:
        return np.float32(rule - CATEGORY_NAN_LEFT)
    if value < np.float32(32 * n_words) and value > lower_limit:
        code = np.int64(value)
        word = np.int64(bits[first_word + (code >> 5)])
        return np.float32(1 - ((word >> (code & 31)) & 1))
    return np.float32(1.0)


def _exits(
    x: F32,
    columns: Array,
    thresholds: F32,
    masks: Array,
    ends: I64,
    first: int,
    last: int,
    lane: int,
    out: I64,
) -> None:
    """Write by which exit each of ``LANES`` documents from ``lane`` on leaves the top of a tree.

    Exits are numbered from left to right, one bit each. A document that goes right at a split
    clears the bits of the exits to its left; its exit is the lowest bit that is left, in the lowest
    word that has one. This is the meaning of the machine code that `_exits_in_registers` generates.

    Args:
        x: the columns, ``TILE`` documents each.
        columns, thresholds, masks: the splits, and the bits that they leave, word by word, the
            highest word first.
        ends: of each word, the first split, followed by that of the next word.
        first, last: the first word of the tree, and one past the last.
        lane: the first document.
        out: receives the number of an exit per document.
    """
    exits = np.zeros(LANES, np.uint32)
    for word in range(first, last):
        remaining = np.full(LANES, _ALL_BITS, np.uint32)
        for k in range(ends[word], ends[word + 1]):
            start = TILE * int(columns[k]) + lane
            goes_right = x[start : start + LANES] > thresholds[k]
            remaining &= np.where(goes_right, masks[k], np.uint32(_ALL_BITS))
        lowest_power = remaining & -remaining.astype(np.int64)
        lowest_bit = np.log2(np.maximum(lowest_power, 1)).astype(np.uint32)
        exits = np.where(remaining > 0, lowest_bit, exits + WORD)
    out[lane : lane + LANES] = exits


@code_of(_exits, LANES)
def _exits_in_registers(loop: Loop) -> None:
    """Generate the machine code of `_exits`, which finds the exits of many documents from the top of
    a tree: the bits that remain and the exits of the documents stay in vector registers.

    Word by word, the highest first, the masks of all splits at which a document goes right are
    combined by "and"; if a bit is left, its number is the exit so far, else the exit found in
    higher words moves on by one word.
    """
    build = loop.builder
    x, columns, thresholds, masks, ends, out = loop.arrays
    first, last, lane = loop.numbers
    index = lane.type
    bit = ir.IntType(1)
    no_bits = loop.constant([0])
    all_bits = loop.constant([_ALL_BITS])
    word_size = loop.constant([WORD])
    kind = ir.FunctionType(no_bits.type, [no_bits.type, bit])
    count_trailing_zeros = build.module.declare_intrinsic(f"llvm.cttz.v{LANES}i32", (), kind)

    exits = cgutils.alloca_once_value(build, no_bits)
    remaining = cgutils.alloca_once_value(build, all_bits)
    with loop.over(first, last) as word:
        build.store(all_bits, remaining)
        first_entry = loop.element(ends, word)
        end_of_entries = loop.element(ends, build.add(word, index(1)))
        with loop.over(first_entry, end_of_entries) as k:
            column = build.zext(loop.element(columns, k), index)
            start = build.add(build.shl(column, index(_TILE_BITS)), lane)
            values = build.load(loop.vector(x, start), align=4)
            threshold = loop.spread(loop.element(thresholds, k))
            goes_right = build.fcmp_ordered(">", values, threshold)
            mask = loop.spread(loop.element(masks, k))
            cleared = build.select(goes_right, mask, all_bits)
            build.store(build.and_(build.load(remaining), cleared), remaining)

        has_bit = build.icmp_unsigned("!=", build.load(remaining), no_bits)
        lowest_bit = build.call(count_trailing_zeros, [build.load(remaining), bit(0)])
        further_exits = build.add(build.load(exits), word_size)
        build.store(build.select(has_bit, lowest_bit, further_exits), exits)
    build.store(build.load(exits), loop.vector(out, lane), align=4)


@njit(error_model="numpy", inline="always")
def _descend(
    thresholds: F32, links: Array, x: F32, stride: Unsigned, node: Unsigned, lane: Unsigned
) -> tuple[Unsigned, Unsigned]:
    """Return the node that a document reaches two levels below a node of a tree, and the step to it
    on the second level, 0 if the document was at a leaf by then.

    A leaf is its own child: its threshold is infinite and its step to the left child 0.

    Args:
        thresholds: threshold of each node.
        links: column and step to the left child of each node; the right child is the next one.
        x: the columns of the documents.
        stride: two to this power is the distance of two columns.
        node: where the document is.
        lane: number of the document.
    """
    link = U2 * node
    value = x[(np.uint64(links[link]) << stride) + lane]
    goes_right = np.uint64(value > thresholds[node])
    child = node + np.uint64(links[link + U1]) + goes_right

    link = U2 * child
    value = x[(np.uint64(links[link]) << stride) + lane]
    goes_right = np.uint64(value > thresholds[child])
    step = np.uint64(links[link + U1]) + goes_right
    return child + step, step


@njit(error_model="numpy")
def _walk(
    thresholds: F32,
    links: Array,
    x: F32,
    stride: Unsigned,
    nodes: Array,
    first: Unsigned,
    apart: Unsigned,
    levels: int,
) -> None:
    """Walk eight nodes down their trees to leaves, side by side; ``nodes[first : first + 8]`` are
    replaced by the leaves.

    Eight walks in turn keep the processor busy while each waits for memory.

    Args:
        thresholds, links: the nodes of all trees.
        x: the columns.
        stride: two to this power is the distance of two columns.
        nodes: one per lane.
        first: the first lane.
        apart: 1 if every lane has its own document, 0 if all have the same.
        levels: the most levels to go down.
    """
    lane0 = first * apart
    lane1 = lane0 + apart
    lane2 = lane0 + U2 * apart
    lane3 = lane0 + U3 * apart
    lane4 = lane0 + U4 * apart
    lane5 = lane0 + U5 * apart
    lane6 = lane0 + U6 * apart
    lane7 = lane0 + U7 * apart
    node0 = nodes[first]
    node1 = nodes[first + U1]
    node2 = nodes[first + U2]
    node3 = nodes[first + U3]
    node4 = nodes[first + U4]
    node5 = nodes[first + U5]
    node6 = nodes[first + U6]
    node7 = nodes[first + U7]
    while levels > 0:
        node0, step0 = _descend(thresholds, links, x, stride, node0, lane0)
        node1, step1 = _descend(thresholds, links, x, stride, node1, lane1)
        node2, step2 = _descend(thresholds, links, x, stride, node2, lane2)
        node3, step3 = _descend(thresholds, links, x, stride, node3, lane3)
        node4, step4 = _descend(thresholds, links, x, stride, node4, lane4)
        node5, step5 = _descend(thresholds, links, x, stride, node5, lane5)
        node6, step6 = _descend(thresholds, links, x, stride, node6, lane6)
        node7, step7 = _descend(thresholds, links, x, stride, node7, lane7)
        moved = step0 | step1 | step2 | step3 | step4 | step5 | step6 | step7
        # Checking costs a branch misprediction, which is more than two levels save.
        levels = levels - 2 if moved or levels <= 4 else 0
    nodes[first] = node0
    nodes[first + U1] = node1
    nodes[first + U2] = node2
    nodes[first + U3] = node3
    nodes[first + U4] = node4
    nodes[first + U5] = node5
    nodes[first + U6] = node6
    nodes[first + U7] = node7


@njit(error_model="numpy")
def _score_few(X: F32, first: int, last: int, packed: PackedTrees, single: bool, out: F64) -> None:
    """Write the scores of a few documents, one by one: each walks through eight trees side by side.

    Args:
        X: features.
        first, last: the first row, and one past the last.
        packed: the trees.
        single: whether sums are rounded to float32 after each tree.
        out: receives one score per row.
    """
    # Arrays are read from the named tuple before the loop: in it, each reading costs.
    columns, bits, trees = packed.columns, packed.category_bits, packed.trees
    thresholds, links, values = packed.thresholds, packed.links, packed.values
    x = np.empty(columns.shape[0] + 1, np.float32)
    nodes = np.zeros(8, np.uint64)
    n_trees = trees.shape[0] - 1
    for row in range(first, last):
        _fill(X, row, 1, columns, bits, single, x, 1)
        total = 0.0
        for tree in range(0, n_trees, 8):
            n = min(8, n_trees - tree)
            levels = 0
            for k in range(n):
                nodes[k] = trees[tree + k, _ROOT]
                levels = max(levels, trees[tree + k, _LEVELS])
            _walk(thresholds, links, x, U0, nodes, U0, U0, levels)
            for k in range(n):
                total += values[nodes[k]]
                if single:
                    total = np.float64(np.float32(total))
        out[row] = total


@njit(error_model="numpy")
def _score_many(X: F32, first: int, last: int, packed: PackedTrees, single: bool, out: F64) -> None:
    """Write the scores of many documents in tiles of up to 128, which go through one tree after the
    other together.

    Through the top of a tree documents go by bit vectors, below it node by node.

    Args:
        X: features.
        first, last: the first row, and one past the last.
        packed: the trees.
        single: whether sums are rounded to float32 after each tree.
        out: receives one score per row.
    """
    columns, bits, trees = packed.columns, packed.category_bits, packed.trees
    thresholds, links, values = packed.thresholds, packed.links, packed.values
    tops, top_thresholds, top_masks = packed.top_columns, packed.top_thresholds, packed.top_masks
    ends, exits, exit_values = packed.word_ends, packed.exit_nodes, packed.exit_values
    x = np.zeros((columns.shape[0] + 1) * TILE, np.float32)
    taken_exits = np.empty(TILE, np.uint32)
    nodes = np.empty(TILE, np.uint64)
    sums = np.empty(TILE, np.float64)
    tile = TILE if columns.shape[0] <= _MOST_COLUMNS_OF_A_TILE else LANES
    for row in range(first, last, tile):
        n = min(tile, last - row)
        width = (n + LANES - 1) // LANES * LANES
        _fill(X, row, n, columns, bits, single, x, TILE)
        sums[:] = 0.0
        for tree in range(trees.shape[0] - 1):
            first_exit = trees[tree, _FIRST_EXIT]
            first_word = trees[tree, _FIRST_WORD]
            end_of_words = trees[tree + 1, _FIRST_WORD]
            root = trees[tree, _ROOT]
            levels_below = trees[tree, _LEVELS_BELOW_TOP]

            # The top of the tree, by its bits.
            for lane in range(0, width, LANES):
                _exits(
                    x,
                    tops,
                    top_thresholds,
                    top_masks,
                    ends,
                    first_word,
                    end_of_words,
                    lane,
                    taken_exits,
                )

            # What lies below the top, if any exit is no leaf, node by node.
            if levels_below > 0:
                stride = np.uint64(_TILE_BITS)
                for i in range(width):
                    exit_node = exits[first_exit + np.int64(taken_exits[i])]
                    nodes[i] = root + np.int64(exit_node)
                for i in range(0, width, 8):
                    _walk(thresholds, links, x, stride, nodes, np.uint64(i), U1, levels_below)
                for i in range(width):
                    total = sums[i] + values[nodes[i]]
                    sums[i] = np.float64(np.float32(total)) if single else total
            else:
                for i in range(width):
                    exit_value = exit_values[np.uint64(first_exit) + np.uint64(taken_exits[i])]
                    total = sums[i] + exit_value
                    sums[i] = np.float64(np.float32(total)) if single else total
        for i in range(n):
            out[row + i] = sums[i]


@njit(
    types.void(_ROWS, types.int64, types.int64, _PACKED_TREES, types.boolean, types.float64[::1]),
    nogil=True,
    cache=True,
    error_model="numpy",
)
def score_rows(X: F32, first: int, last: int, arrays: Any, single: bool, out: F64) -> None:
    """Write the scores that trees give to the documents in rows ``first`` to ``last``, without the
    latter.

    Args:
        X: features.
        first, last: the first row, and one past the last.
        arrays: the fields of `PackedTrees`.
        single: whether sums are rounded to float32 after each tree, as XGBoost's are; categories
            below 0 are then unknown, where LightGBM cuts off fractions first.
        out: receives one score per row.
    """
    packed = PackedTrees(*arrays)
    if last - first <= FEW:
        _score_few(X, first, last, packed, single, out)
    else:
        _score_many(X, first, last, packed, single, out)
