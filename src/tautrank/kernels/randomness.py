"""Random numbers as a pure function of (seed, step, query, document): Philox4x32-10.

A counter-based generator has no state to carry, so results depend neither on the number of threads,
nor on the order of calls, nor on a restart. The counter holds (block of four documents, query,
step, stream), the key holds the seed.

Salmon, Moraes, Dror and Shaw, *Parallel Random Numbers: As Easy as 1, 2, 3*, SC 2011.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import I64, Array
from tautrank.kernels.ranking import longest_list
from tautrank.kernels.streams import GUMBEL_STREAM

_Word = np.uint64
_U = np.uintp
LOW_WORD = np.uint64(0xFFFFFFFF)
"""The 32 bits of a word of the counter, in a uint64."""

HALF_WORD = np.uint64(32)
"""What brings the high word of a uint64 down to the low one."""

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint64(0x9E3779B9)
_WEYL_1 = np.uint64(0xBB67AE85)
_UNIT = 2.0**-32
_TWO_PI = 2.0 * math.pi


@njit(error_model="numpy", forceinline=True)
def _two_rounds(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Two rounds of Philox4x32, as in `philox`: the counter, then the key of the next round.

    A round multiplies the words 0 and 2, mixes the high halves of the products with the key and
    the words 1 and 3, and keeps the low halves.
    """
    p0 = _MULTIPLIER_0 * c0
    p1 = _MULTIPLIER_1 * c2
    c0 = (p1 >> HALF_WORD) ^ c1 ^ k0
    c1 = p1 & LOW_WORD
    c2 = (p0 >> HALF_WORD) ^ c3 ^ k1
    c3 = p0 & LOW_WORD
    k0 = (k0 + _WEYL_0) & LOW_WORD
    k1 = (k1 + _WEYL_1) & LOW_WORD

    p0 = _MULTIPLIER_0 * c0
    p1 = _MULTIPLIER_1 * c2
    c0 = (p1 >> HALF_WORD) ^ c1 ^ k0
    c1 = p1 & LOW_WORD
    c2 = (p0 >> HALF_WORD) ^ c3 ^ k1
    c3 = p0 & LOW_WORD
    k0 = (k0 + _WEYL_0) & LOW_WORD
    k1 = (k1 + _WEYL_1) & LOW_WORD
    return c0, c1, c2, c3, k0, k1


@njit(error_model="numpy", forceinline=True)
def philox(
    c0: np.uint64, c1: np.uint64, c2: np.uint64, c3: np.uint64, k0: np.uint64, k1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Ten rounds of Philox4x32: four 32-bit words (each in a uint64) from a 128-bit counter and a
    64-bit key.

    It is compiled into the loop that calls it, and written out, since a loop of rounds would not
    vectorise.

    Args:
        c0: the counter's words, lowest first; each below 2^32, as are all arguments.
        c1: second word.
        c2: third word.
        c3: fourth word.
        k0: the key's low word.
        k1: the key's high word.

    >>> words = philox(*(np.uint64(0),) * 6)  # the known answer for counter 0 and key 0
    >>> [format(int(word), "08x") for word in words]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3, k0, k1 = _two_rounds(c0, c1, c2, c3, k0, k1)
    return c0, c1, c2, c3


@njit(nogil=True, cache=True)
def fill_uniform(out: Array, seed: np.uint64, step: int, query: int, stream: int) -> None:
    """Fill ``out`` with uniform numbers of the open interval (0, 1), one per document.

    Args:
        out: float64, one value per document of the query.
        seed: below 2^64.
        step: below 2^32.
        query: index of the query, below 2^32.
        stream: what the numbers are for, below 2^32.

    >>> out = np.empty(2)
    >>> fill_uniform(out, np.uint64(0), 0, 0, stream=0)
    >>> out.round(4)
    array([0.399 , 0.8805])
    """
    k0 = _Word(seed) & LOW_WORD
    k1 = _Word(seed) >> HALF_WORD
    word1 = _Word(query) & LOW_WORD
    word2 = _Word(step) & LOW_WORD
    word3 = _Word(stream) & LOW_WORD
    n = out.shape[0]
    n_blocks = n // 4

    for block in range(n_blocks):
        w0, w1, w2, w3 = philox(_Word(block) & LOW_WORD, word1, word2, word3, k0, k1)
        i = _U(4) * _U(block)
        # Half a unit keeps 0 and 1 out, where the logarithms of the other distributions end.
        out[i] = (np.float64(w0) + 0.5) * _UNIT
        out[i + _U(1)] = (np.float64(w1) + 0.5) * _UNIT
        out[i + _U(2)] = (np.float64(w2) + 0.5) * _UNIT
        out[i + _U(3)] = (np.float64(w3) + 0.5) * _UNIT

    # The documents of the last block, if it is not full.
    if 4 * n_blocks < n:
        words = philox(_Word(n_blocks), word1, word2, word3, k0, k1)
        for word in range(n - 4 * n_blocks):
            out[4 * n_blocks + word] = (np.float64(words[word]) + 0.5) * _UNIT


@njit(nogil=True, cache=True)
def fill_gumbel(out: Array, seed: np.uint64, step: int, query: int, stream: int) -> None:
    """Fill ``out`` with standard Gumbel numbers ``-log(-log u)``; arguments as in `fill_uniform`.

    >>> out = np.empty(2)
    >>> fill_gumbel(out, np.uint64(0), 0, 0, GUMBEL_STREAM)
    >>> bool((out < 5).all())
    True
    """
    # The uniform numbers u of the documents are replaced one by one.
    fill_uniform(out, seed, step, query, stream)
    for document in range(out.shape[0]):
        out[document] = -math.log(-math.log(out[document]))


@njit(nogil=True, cache=True)
def fill_normal(out: Array, seed: np.uint64, step: int, query: int, stream: int) -> None:
    """Fill ``out`` with standard normal numbers (Box-Muller); arguments as in `fill_uniform`.

    Documents are served in pairs from the same two uniforms, so ``out`` needs an even length.

    >>> out = np.empty(2)
    >>> fill_normal(out, np.uint64(0), 0, 0, stream=2)
    >>> bool((abs(out) < 7).all())
    True
    """
    fill_uniform(out, seed, step, query, stream)
    for pair in range(out.shape[0] // 2):
        # A point of the plane with this radius and angle has two independent normal coordinates.
        radius = math.sqrt(-2.0 * math.log(out[2 * pair]))
        angle = _TWO_PI * out[2 * pair + 1]
        out[2 * pair] = radius * math.cos(angle)
        out[2 * pair + 1] = radius * math.sin(angle)


@njit(nogil=True, cache=True)
def add_noise(
    scores: Array,
    offsets: I64,
    size: float,
    seed: np.uint64,
    step: int,
    stream: int,
    first: int,
    last: int,
    out: Array,
) -> None:
    """Write ``scores + size * noise`` to ``out`` for the queries ``first`` to ``last``.

    The noise is Gumbel for the stream `GUMBEL_STREAM`, and normal for all others.

    Args:
        scores: one per document.
        offsets: start of each query.
        size: scale of the noise.
        seed, step, stream: as in `fill_uniform`.
        first, last: the first query, and one past the last.
        out: receives the noisy scores, of the type of ``scores``.

    >>> out = np.empty(2)
    >>> add_noise(np.zeros(2), np.array([0, 2]), 0.0, np.uint64(0), 0, GUMBEL_STREAM, 0, 1, out)
    >>> bool((out == 0).all())
    True
    """
    # One longer than the longest list: normal numbers come in pairs, also for an odd length.
    noise = np.empty(longest_list(offsets, first, last) + 1)
    for query in range(first, last):
        start = offsets[query]
        n = offsets[query + 1] - start
        if stream == GUMBEL_STREAM:
            fill_gumbel(noise[:n], seed, step, query, stream)
        else:
            fill_normal(noise[: n + n % 2], seed, step, query, stream)
        for document in range(n):
            out[start + document] = scores[start + document] + size * noise[document]
