"""The compiled inner loops of TREC files: lines into columns, and documents found by their names.

Imported only when they are needed, since they need Numba. A name is a place in the text: where it starts and how many
bytes it has. Names are found by their hash and compared byte by byte, so that two names with one hash stay two.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from tautrank.data._letor_kernel import POWERS, decimal, same_bytes

_NEWLINE, _SPACE = 10, 32
_MAX_EXACT = 2**53
_SPLIT = 2.0**27 + 1.0
# Multiplying a hash of 55 bits by a number below 256 does not overflow, so that plain Python computes the same.
_HASH_BITS = np.int64(2**55 - 1)


@nb.njit(inline="always", cache=True)
def _ends_word(c: Any) -> Any:
    return c == _SPACE or (c >= 9 and c <= 13)


@nb.njit(inline="always", cache=True)
def _quotient(number: Any, power: Any) -> Any:
    """Return (whether it is the nearest double, ``number / power``), for a number of at most 18 digits.

    The quotient of the nearest double is corrected by what it leaves over, which Dekker's product gives exactly. The
    sum is right unless it is so near the middle between two doubles that the error of the correction matters.
    """
    high = float(number)
    low = float(number - np.int64(high))
    quotient = high / power
    product = quotient * power
    a = quotient * _SPLIT
    a_high = a - (a - quotient)
    a_low = quotient - a_high
    b = power * _SPLIT
    b_high = b - (b - power)
    b_low = power - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    correction = (((high - product) - error) + low) / power
    slack = correction * 2.0**-48
    value = quotient + correction
    return quotient + (correction - slack) == value and quotient + (correction + slack) == value, value


@nb.njit(inline="always", cache=True)
def _double(buf: Any, start: Any) -> Any:
    """Read a decimal number: (whether it is the double nearest to the text, the number, where it ends).

    What is not known here, Python reads.
    """
    digits, negative, number, left_out, exponent, pos = decimal(buf, start)
    known = digits > 0 and left_out == 0 and -22 <= exponent <= 22
    value = float(number)
    if known and exponent > 0:
        known = number <= _MAX_EXACT
        value *= POWERS[exponent]
    elif known and exponent < 0:
        if number <= _MAX_EXACT:
            value /= POWERS[-exponent]
        else:
            known, value = _quotient(number, POWERS[-exponent])
    return known, (-value if negative else value), pos


@nb.njit(cache=True, nogil=True)
def parse_lines(buf: Any, columns: Any, value_column: Any, out: Any) -> Any:
    """Read lines of words: the query first, the document third, a number in `value_column`; blank lines are left out.

    `out` holds (starts, lengths, values, runs, slow). `runs` gets a row (first row, start, length) wherever the query
    changes; `slow` gets (row, start, end) for each number that Python must read. `buf` ends with a newline.

    Returns (where the first line with another number of columns starts, or the end of `buf`; rows, runs, slow numbers).
    """
    starts, lengths, values, runs, slow = out
    pos = 0
    row = 0
    n_runs = 0
    n_slow = 0
    qid_start = 0
    qid_length = -1
    while pos < buf.size:
        line = pos
        column = 0
        while True:
            while buf[pos] != _NEWLINE and _ends_word(buf[pos]):
                pos += 1
            if buf[pos] == _NEWLINE:
                break
            start = pos
            while not _ends_word(buf[pos]):
                pos += 1
            if column == 0:
                if pos - start != qid_length or not same_bytes(buf, start, buf, qid_start, qid_length):
                    runs[n_runs] = row, start, pos - start
                    n_runs += 1
                qid_start = start
                qid_length = pos - start
            elif column == 2:
                starts[row] = start
                lengths[row] = pos - start
            elif column == value_column:
                known, value, end = _double(buf, start)
                values[row] = value
                if not known or end != pos:
                    slow[n_slow] = row, start, pos
                    n_slow += 1
            column += 1
        pos += 1
        if column == 0:
            continue
        if column != columns:
            return line, row, n_runs, n_slow
        row += 1
    return pos, row, n_runs, n_slow


@nb.njit(inline="always", cache=True)
def _hash(text: Any, start: Any, length: Any) -> Any:
    found = np.int64(length)
    for i in range(start, start + length):
        found = (found * 131 + np.int64(text[i])) & _HASH_BITS
    return found ^ (found >> 27)


@nb.njit(inline="always", cache=True)
def _find(names: Any, table: Any, mask: Any, text: Any, start: Any, length: Any) -> Any:
    """Return where a name's place in the table is: that of an equal name, or a free one (-1)."""
    its_text, starts, lengths = names
    slot = _hash(text, start, length) & mask
    while table[slot] >= 0:
        other = table[slot]
        if lengths[other] == length and same_bytes(its_text, starts[other], text, start, length):
            break
        slot = (slot + 1) & mask
    return slot


@nb.njit(inline="always", cache=True)
def _room(n: Any) -> Any:
    """The last slot of a table for `n` names: twice as many, a power of two."""
    size = 2
    while size < 2 * n:
        size *= 2
    return size - 1


@nb.njit(cache=True, nogil=True)
def first_repeated(names: Any, offsets: Any) -> Any:
    """Return the first document whose query has its name already; -1 if there is none.

    Args:
        names: (text, starts, lengths), one name per document.
        offsets: where each query's documents start.
    """
    text, starts, lengths = names
    table = np.empty(_room(np.max(np.diff(offsets))) + 1, np.int64)
    for query in range(offsets.size - 1):
        first, last = offsets[query], offsets[query + 1]
        mask = _room(last - first)
        table[: mask + 1] = -1
        for i in range(first, last):
            slot = _find(names, table, mask, text, starts[i], lengths[i])
            if table[slot] >= 0:
                return i
            table[slot] = i
    return -1


@nb.njit(cache=True, nogil=True)
def join(run: Any, run_offsets: Any, judged: Any, judged_offsets: Any, at: Any, out: Any) -> Any:
    """Lay the documents of every judged query out: those of the run, then those that only the judgments have.

    Args:
        run, judged: (text, starts, lengths) of both, one name per document.
        run_offsets, judged_offsets: where each query's documents start.
        at: per judged query its place in the run; -1 if it is not there.
        out: (of_run, of_judged, sizes): per document laid out its index in the run and in the judgments, -1 where it
            is not there; and the number of documents of each query.

    Returns:
        The number of documents laid out.
    """
    of_run, of_judged, sizes = out
    text, starts, lengths = run
    _, judged_starts, judged_lengths = judged
    table = np.empty(_room(np.max(np.diff(judged_offsets))) + 1, np.int64)
    n = 0
    for query in range(judged_offsets.size - 1):
        first, last = judged_offsets[query], judged_offsets[query + 1]
        mask = _room(last - first)
        table[: mask + 1] = -1
        for i in range(first, last):
            table[_find(judged, table, mask, judged[0], judged_starts[i], judged_lengths[i])] = i
        begin = n
        if at[query] >= 0:
            for i in range(run_offsets[at[query]], run_offsets[at[query] + 1]):
                slot = _find(judged, table, mask, text, starts[i], lengths[i])
                of_run[n] = i
                of_judged[n] = table[slot]
                n += 1
        # A judged document is in the run at most once: what is not marked is not there.
        table[: last - first] = 0
        for i in range(begin, n):
            if of_judged[i] >= 0:
                table[of_judged[i] - first] = 1
        for i in range(first, last):
            if table[i - first] == 0:
                of_run[n] = -1
                of_judged[n] = i
                n += 1
        sizes[query] = n - begin
    return n
