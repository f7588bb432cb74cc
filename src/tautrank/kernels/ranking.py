"""Ranks of the documents of a query: the start of every loss that looks at ranks.

A separate kernel, because every kernel that contained this code would compile it again. Numba's
cache watches only the file of the cached kernel: after editing a function that a kernel in another
file calls, remove ``__pycache__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils

from tautrank.arrays import I32, I64, Array
from tautrank.kernels.lanes import Loop, code_of

COUNT_UP_TO = 256
"""Comparing every pair vectorises so well that it beats any sort up to about this many
documents.
"""

LANES = 16
"""Arrays that inner loops run over are padded to a multiple of this: no loop has a scalar
remainder.
"""

# A helper that may reorder or fuse is compiled with ``forceinline``: on its own and inside a kernel
# it would come out in two versions, and a process that compiles would meet another one than a
# process that loads from the cache.
REORDER = {"reassoc", "nsz", "arcp", "contract"}
"""Sums may be reordered and products fused, which is what vectorising a sum needs; NaN and infinity
keep their meaning, because padding relies on it."""


@njit(nogil=True, cache=True, error_model="numpy")
def rank_queries(
    scores: Array, arrangement: I64, offsets: I64, first: int, last: int, ranks: I32
) -> None:
    """Rank the documents of each query by their scores, highest first, and write the 0-based ranks
    in the order of the arrangement, which also decides between equal scores.

    Args:
        scores: one per document.
        arrangement: flat indices of the documents in the order that equal scores are to have.
        offsets: start of each query.
        first, last: the first query, and one past the last.
        ranks: receives one rank per document: ``ranks[p]`` belongs to the document
            ``arrangement[p]``.
    """
    longest = longest_list(offsets, first, last)
    # Documents are ranked LANES at a time: the arrays are longer, for a vector beyond the end.
    arranged = np.empty(longest + 2 * LANES, scores.dtype)
    counts = np.empty(longest + 2 * LANES, np.int32)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        for p in range(n):
            arranged[p] = scores[arrangement[start + p]]
        rank_documents(arranged, n, counts)
        for p in range(n):
            ranks[start + p] = counts[p]


@njit(error_model="numpy", inline="always")
def longest_list(offsets: I64, first: int, last: int) -> int:
    """Return the number of documents of the longest list among the queries ``first`` to ``last``
    (excluded); ``offsets`` says where the documents of each query begin.
    """
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    return longest


@njit(error_model="numpy", inline="always")
def rank_documents(scores: Array, n: int, ranks: I32) -> None:
    """Write the 0-based rank of each of the first ``n`` scores, highest first; equal scores keep
    their order.

    Args:
        scores: at least ``n + LANES`` long.
        n: how many documents.
        ranks: at least ``n + LANES`` long.
    """
    # Counting what comes before each document is quadratic: only short lists gain by it.
    if n > COUNT_UP_TO:
        _sort_by_digits(scores, n, ranks)
        return
    # LANES documents at a time, of which ``lane`` is the first; the two ends of their range make
    # the order stable.
    for lane in range(0, n, LANES):
        count_before(scores, n, lane, lane, min(lane + LANES, n), ranks)


def count_before(scores: Array, n: int, lane: int, begin: int, end: int, counts: I32) -> None:
    """Count for each of ``LANES`` documents from ``lane`` on how many of ``n`` documents come
    before it.

    Those are the documents with a higher score, and of those with the same score: all before
    ``begin``, and from ``begin`` to ``end`` as many as the place of its lane.

    Args:
        scores: at least ``lane + LANES`` long.
        n: how many documents.
        lane: the first document to count for.
        begin, end: 0 and 0 to leave out equal scores; ``lane`` and one past the last document for a
            stable order.
        counts: receives one number per document, at least ``lane + LANES`` long.
    """
    for p in range(lane, min(lane + LANES, scores.size)):
        # Documents before p, of which those with the same score come before it.
        equal = np.arange(n) < (p if end > begin else 0)
        counts[p] = np.count_nonzero((scores[:n] > scores[p]) | (equal & (scores[:n] == scores[p])))


@code_of(count_before, LANES)
def _counted_before(loop: Loop) -> None:
    """Generate `count_before`: the scores of the lanes stay in a register, one other score after
    the other is compared with all of them.
    """
    build = loop.builder
    scores, counts = loop.arrays
    n, lane, begin, end = loop.numbers
    lane_scores = build.load(loop.vector(scores, lane), align=4)
    lane_numbers = loop.constant(list(range(LANES)))
    total = cgutils.alloca_once_value(build, loop.constant([0]))

    # Generates a loop over the documents i from ``first`` up to ``last`` that adds to the total of
    # each lane whether document i comes before the lane's document.
    def count(first: Any, last: Any, comes_before: Callable[[Any, Any], Any]) -> None:
        with loop.over(first, last) as i:
            score = loop.spread(loop.element(scores, i))
            is_before = comes_before(score, i)
            # Counted by twos: ones would be rewritten into a form with one more instruction.
            total_before = build.load(total)
            total_after = build.add(total_before, loop.constant([2]))
            build.store(build.select(is_before, total_after, build.load(total)), total)

    def is_higher(score: Any, _: Any) -> Any:
        return build.fcmp_ordered(">", score, lane_scores)

    def is_higher_or_equal(score: Any, _: Any) -> Any:
        return build.fcmp_ordered(">=", score, lane_scores)

    # Whether document i comes before the document of each lane: by its score, or with the same
    # score by its place, counted from ``begin``, where the lanes begin.
    def is_higher_or_equal_and_earlier(score: Any, i: Any) -> Any:
        place = build.trunc(build.sub(i, begin), ir.IntType(32))
        is_earlier = build.icmp_signed("<", loop.spread(place), lane_numbers)
        is_equal = build.fcmp_ordered("==", score, lane_scores)
        return build.or_(is_higher(score, i), build.and_(is_equal, is_earlier))

    count(begin.type(0), begin, is_higher_or_equal)
    count(begin, end, is_higher_or_equal_and_earlier)
    count(end, n, is_higher)
    halved = build.lshr(build.load(total), loop.constant([1]))
    build.store(halved, loop.vector(counts, lane), align=4)


@njit(error_model="numpy", inline="always")
def _sort_by_digits(scores: Array, n: int, ranks: I32) -> None:
    """Write the ranks of ``n`` scores by a stable radix sort of their bits, one byte at a time."""
    keys = np.empty(n, np.uint64)
    order = np.empty(n, np.int32)
    next_order = np.empty(n, np.int32)

    # Keys whose whole numbers ascend where the scores descend, and the bits in which they differ.
    sign = np.uint64(1) << np.uint64(63)
    differing = np.uint64(0)
    for i in range(n):
        order[i] = i
        # Adding 0.0 turns -0.0 into 0.0: they are equal scores.
        bits = np.float64(scores[i] + 0.0).view(np.uint64)
        # The bits of floats order like integers once negatives are inverted; here so that high
        # scores come first.
        keys[i] = bits if bits & sign else (~bits) & ~sign
        differing |= keys[i] ^ keys[0]

    ends = np.empty(256, np.int64)
    for byte in range(8):
        shift = np.uint64(8 * byte)
        if (differing >> shift) & np.uint64(255) == np.uint64(0):
            continue

        # Where the documents with each value of this byte begin.
        ends[:] = 0
        for i in range(n):
            ends[np.int64((keys[i] >> shift) & np.uint64(255))] += 1
        begin = 0
        for digit in range(256):
            count = ends[digit]
            ends[digit] = begin
            begin += count

        # Move the documents there, in the order that they have.
        for i in range(n):
            key_digit = np.int64((keys[order[i]] >> shift) & np.uint64(255))
            next_order[ends[key_digit]] = order[i]
            ends[key_digit] += 1
        order, next_order = next_order, order

    for rank in range(n):
        ranks[order[rank]] = rank
