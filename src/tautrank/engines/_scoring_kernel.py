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
_EVERY = 2**WORD - 1
EXITS = 256
"""Exits of the top of a tree, one bit each."""
FEW = 6
"""Up to this many documents, trees are interleaved instead of documents."""
LANES = 32
"""Documents whose bit vectors are in registers at a time."""
U0, U1, U2, U3, U4, U5, U6, U7 = np.arange(8, dtype=np.uint64)
_WIDE = 1_000  # columns of which a tile of 128 documents takes half a MiB

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
    """Write the columns of ``n`` documents from ``row`` on; document ``l`` of column ``c`` to
    ``x[c * stride + l]``.
    """
    # LightGBM takes tiny numbers for 0 before it looks at a tree.
    tiny = np.float32(0.0 if single else 1e-35)
    for c in range(columns.shape[0]):
        feature, rule = columns[c, _FEATURE], columns[c, _RULE]
        first, words = columns[c, _FIRST_CATEGORY_WORD], columns[c, _CATEGORY_WORDS]
        place = c * stride
        if rule < CATEGORY_NAN_LEFT:
            missing = np.float32(0.0)
            if rule != NAN_AS_ZERO:
                missing = np.float32(-np.inf if rule in (NAN_LEFT, ZERO_LEFT) else np.inf)
            zero = missing if rule >= ZERO_LEFT else np.float32(0.0)
            for i in range(n):
                value = X[row + i, feature]
                if not abs(value) > tiny:
                    value = zero if value == value else missing
                x[place + i] = value
        else:
            for i in range(n):
                outside = _outside(X[row + i, feature], bits, first, words, rule, single)
                x[place + i] = outside


@njit(error_model="numpy", inline="always")
def _outside(value: float, bits: Array, first: int, words: int, rule: int, single: bool) -> float:
    """Return 1 if a value is in none of a column's categories, else 0."""
    least = np.float32(-1e-45) if single else np.float32(-1.0)
    if value != value:
        return np.float32(rule - CATEGORY_NAN_LEFT)
    if value < np.float32(32 * words) and value > least:
        code = np.int64(value)
        return np.float32(1 - ((np.int64(bits[first + (code >> 5)]) >> (code & 31)) & 1))
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
    """Write the exits that ``LANES`` documents from ``lane`` on take.

    Args:
        x: the columns.
        columns, thresholds, masks: the splits, and the bits that they leave, word by word, the
            highest word first.
        ends: of each word, the first split, followed by that of the next word.
        first, last: the first word of the tree, and one past the last.
        lane: the first document.
        out: receives the number of an exit per document.
    """
    found = np.zeros(LANES, np.uint32)
    for word in range(first, last):
        left = np.full(LANES, _EVERY, np.uint32)
        for k in range(ends[word], ends[word + 1]):
            at = TILE * int(columns[k]) + lane
            left &= np.where(x[at : at + LANES] > thresholds[k], masks[k], np.uint32(_EVERY))
        lowest = np.log2(np.maximum(left & -left.astype(np.int64), 1)).astype(np.uint32)
        found = np.where(left > 0, lowest, found + WORD)
    out[lane : lane + LANES] = found


@code_of(_exits, LANES)
def _found_exits(loop: Loop) -> None:
    build = loop.builder
    (x, columns, thresholds, masks, ends, out), (first, last, lane) = loop.arrays, loop.numbers
    index, bit = lane.type, ir.IntType(1)
    none, every, word = (loop.constant([number]) for number in (0, _EVERY, WORD))
    kind = ir.FunctionType(none.type, [none.type, bit])
    lowest_bit = build.module.declare_intrinsic(f"llvm.cttz.v{LANES}i32", (), kind)
    found, left = cgutils.alloca_once_value(build, none), cgutils.alloca_once_value(build, every)
    with loop.over(first, last) as at_word:
        build.store(every, left)
        with loop.over(loop.at(ends, at_word), loop.at(ends, build.add(at_word, index(1)))) as k:
            column = build.shl(build.zext(loop.at(columns, k), index), index(_TILE_BITS))
            values = build.load(loop.vector(x, build.add(column, lane)), align=4)
            yes = build.fcmp_ordered(">", values, loop.spread(loop.at(thresholds, k)))
            kept = build.select(yes, loop.spread(loop.at(masks, k)), every)
            build.store(build.and_(build.load(left), kept), left)
        has_bit = build.icmp_unsigned("!=", build.load(left), none)
        here = build.call(lowest_bit, [build.load(left), bit(0)])
        build.store(build.select(has_bit, here, build.add(build.load(found), word)), found)
    build.store(build.load(found), loop.vector(out, lane), align=4)


@njit(error_model="numpy", inline="always")
def _descend(
    thresholds: F32, links: Array, x: F32, stride: Unsigned, node: Unsigned, lane: Unsigned
) -> tuple[Unsigned, Unsigned]:
    """Return where a document is two levels below a node, and 0 if it did not move on the
    second.
    """
    at = U2 * node
    yes = x[(np.uint64(links[at]) << stride) + lane] > thresholds[node]
    child = node + np.uint64(links[at + U1]) + np.uint64(yes)
    at = U2 * child
    yes = x[(np.uint64(links[at]) << stride) + lane] > thresholds[child]
    step = np.uint64(links[at + U1]) + np.uint64(yes)
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
    """Bring the nodes ``first`` to ``first + 7`` down to leaves.

    Args:
        thresholds, links: the nodes of all trees.
        x: the columns.
        stride: two to this power is the distance of two columns.
        nodes: one per lane.
        first: the first lane.
        apart: 1 if every lane has its own document, 0 if all have the same.
        levels: the most levels to go down.
    """
    i = first * apart
    j, k, m, n = i + apart, i + U2 * apart, i + U3 * apart, i + U4 * apart
    o, p, q = i + U5 * apart, i + U6 * apart, i + U7 * apart
    a, b, c, d = nodes[first], nodes[first + U1], nodes[first + U2], nodes[first + U3]
    e, f, g, h = nodes[first + U4], nodes[first + U5], nodes[first + U6], nodes[first + U7]
    while levels > 0:
        a, step_a = _descend(thresholds, links, x, stride, a, i)
        b, step_b = _descend(thresholds, links, x, stride, b, j)
        c, step_c = _descend(thresholds, links, x, stride, c, k)
        d, step_d = _descend(thresholds, links, x, stride, d, m)
        e, step_e = _descend(thresholds, links, x, stride, e, n)
        f, step_f = _descend(thresholds, links, x, stride, f, o)
        g, step_g = _descend(thresholds, links, x, stride, g, p)
        h, step_h = _descend(thresholds, links, x, stride, h, q)
        moved = step_a | step_b | step_c | step_d | step_e | step_f | step_g | step_h
        # A look that could save two levels at most would cost more, by predictions of the processor
        # that fail.
        levels = levels - 2 if moved or levels <= 4 else 0
    nodes[first], nodes[first + U1], nodes[first + U2], nodes[first + U3] = a, b, c, d
    nodes[first + U4], nodes[first + U5], nodes[first + U6], nodes[first + U7] = e, f, g, h


@njit(error_model="numpy")
def _score_few(X: F32, first: int, last: int, packed: PackedTrees, single: bool, out: F64) -> None:
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
    columns, bits, trees = packed.columns, packed.category_bits, packed.trees
    thresholds, links, values = packed.thresholds, packed.links, packed.values
    tops, top_thresholds, top_masks = packed.top_columns, packed.top_thresholds, packed.top_masks
    ends, exits, exit_values = packed.word_ends, packed.exit_nodes, packed.exit_values
    x = np.zeros((columns.shape[0] + 1) * TILE, np.float32)
    found = np.empty(TILE, np.uint32)
    nodes = np.empty(TILE, np.uint64)
    sums = np.empty(TILE, np.float64)
    tile = TILE if columns.shape[0] <= _WIDE else LANES
    for row in range(first, last, tile):
        n = min(tile, last - row)
        width = (n + LANES - 1) // LANES * LANES
        _fill(X, row, n, columns, bits, single, x, TILE)
        sums[:] = 0.0
        for tree in range(trees.shape[0] - 1):
            top, word = trees[tree, _FIRST_EXIT], trees[tree, _FIRST_WORD]
            root, rest = trees[tree, _ROOT], trees[tree, _LEVELS_BELOW_TOP]
            for lane in range(0, width, LANES):
                _exits(
                    x,
                    tops,
                    top_thresholds,
                    top_masks,
                    ends,
                    word,
                    trees[tree + 1, _FIRST_WORD],
                    lane,
                    found,
                )
            if rest > 0:
                for i in range(width):
                    nodes[i] = root + np.int64(exits[top + np.int64(found[i])])
                for i in range(0, width, 8):
                    _walk(
                        thresholds, links, x, np.uint64(_TILE_BITS), nodes, np.uint64(i), U1, rest
                    )
                for i in range(width):
                    total = sums[i] + values[nodes[i]]
                    sums[i] = np.float64(np.float32(total)) if single else total
            else:
                for i in range(width):
                    total = sums[i] + exit_values[np.uint64(top) + np.uint64(found[i])]
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
    """Write the scores of the documents ``first`` to ``last``.

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
