"""The compiled inner loop of the LETOR reader. Imported only when a file is read, since it needs
Numba.

The kernel walks one block of whole lines. It never raises: it returns a status and the place it
stopped at, and :mod:`tautrank.data.letor_errors` turns that into a sentence. Every block ends with
a newline, and no loop below steps over a newline except the line loop itself, so no index leaves
the block.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

# What stopped the kernel; `letor_errors` words each of them.
(
    OK,
    BAD_LABEL,
    BAD_QID,
    MISSING_QID,
    UNEXPECTED_QID,
    BAD_INDEX,
    INDEX_TOO_SMALL,
    INDEX_TOO_LARGE,
    INDEX_NOT_ASCENDING,
    BAD_VALUE,
    VALUE_OVERFLOW,
) = range(11)

# Bytes of text.
_NEWLINE = 10
_SPACE = 32
_TAB = 9
_RETURN = 13
_HASH = 35
_PLUS = 43
_MINUS = 45
_POINT = 46
_ZERO = 48
_COLON = 58
_EQUALS = 61
_A = 97
_D = 100
_E = 101
_I = 105
_N = 110
_Q = 113
_TO_LOWER_CASE = 32  # a letter with this bit is in lower case
_MAX_EXACT = 2**53
# Decimal powers that a double holds exactly, and the wider range used with an error bound.
_POWERS = np.array([10.0**e for e in range(301)])
# From here on further digits are left out: the number has 18, more than a double holds, and 20 do
# not fit an int64.
_MANTISSA_LIMIT = np.int64(10**17)
_EXPONENT_LIMIT = np.int64(100_000)
_INDEX_LIMIT = np.int64(10**12)

_NUMBER_OK, _NUMBER_BAD, _NUMBER_SLOW = 0, 1, 2

# Beyond it float32 does not hold every whole number.
_LARGE = 2.0**24
_DOCID = np.frombuffer(b"docid", np.uint8)
_LONGEST_ID = 250


@nb.njit(inline="always", cache=True)
def _is_space(c: Any) -> Any:
    """Return whether a byte is white space within a line."""
    return c == _SPACE or c == _TAB or c == _RETURN


@nb.njit(inline="always", cache=True)
def _ends_token(c: Any) -> Any:
    """Return whether a byte ends a label, a query id or a feature."""
    return _is_space(c) or c == _NEWLINE or c == _HASH


@nb.njit(inline="always", cache=True)
def _same_bytes(buf: Any, start: Any, other: Any, length: Any) -> Any:
    """Return whether two pieces of text of the same length are equal."""
    i = 0
    while i < length and buf[start + i] == buf[other + i]:
        i += 1
    return i == length


@nb.njit(inline="always", cache=True)
def _digits(buf: Any, pos: Any, number: Any, limit: Any) -> Any:
    """Read digits at `pos` behind those of `number`, while it is below `limit`: (number, digits
    left out, end).
    """
    left_out = 0
    while True:
        digit = np.int64(buf[pos]) - _ZERO
        if digit < 0 or digit > 9:
            break
        if number < limit:
            number = number * 10 + digit
        else:
            left_out += 1
        pos += 1
    return number, left_out, pos


@nb.njit(inline="always", cache=True)
def _number(buf: Any, start: Any) -> Any:
    """Read a decimal number at `start`: (status, double, end).

    `_NUMBER_SLOW` means that the float32 nearest to the text could not be proven; the caller
    re-reads the token in Python. The proof: with at most 2^53 and an exact power of ten, one
    division or multiplication rounds once, as strtod does. Otherwise the double is off by at most 4
    units in the last place, and rounding to float32 is monotone, so if both ends of that interval
    round to the same float32, so does the true value.
    """
    # Sign, digits, and digits behind a point: mantissa times 10 to the exponent.
    pos = start
    c = np.int64(buf[pos])
    is_negative = c == _MINUS
    if is_negative or c == _PLUS:
        pos += 1
    body = pos
    mantissa, exponent, pos = _digits(buf, pos, np.int64(0), _MANTISSA_LIMIT)
    n_digits = pos - body
    if buf[pos] == _POINT:
        pos += 1
        fraction = pos
        mantissa, left_out, pos = _digits(buf, pos, mantissa, _MANTISSA_LIMIT)
        exponent += left_out + fraction - pos
        n_digits += pos - fraction

    # An exponent of the text's own.
    if (buf[pos] | _TO_LOWER_CASE) == _E:
        pos += 1
        c = np.int64(buf[pos])
        is_negative_power = c == _MINUS
        if is_negative_power or c == _PLUS:
            pos += 1
        first = pos
        power, _, pos = _digits(buf, pos, np.int64(0), _EXPONENT_LIMIT)
        n_digits = 0 if pos == first else n_digits
        exponent += -power if is_negative_power else power
    if n_digits == 0:
        return _NUMBER_BAD, 0.0, pos

    status = _NUMBER_OK
    value = float(mantissa)
    if mantissa != 0 and exponent != 0:
        if -300 <= exponent <= 300:
            value = value / _POWERS[-exponent] if exponent < 0 else value * _POWERS[exponent]
            is_exact = -22 <= exponent <= 22 and mantissa <= _MAX_EXACT
            slack = abs(value) * 4.0 * 2.0**-53
            if not is_exact and np.float32(value - slack) != np.float32(value + slack):
                status = _NUMBER_SLOW
        else:
            status = _NUMBER_SLOW
    elif mantissa > _MAX_EXACT:
        status = _NUMBER_SLOW
    return status, (-value if is_negative else value), pos


@nb.njit(cache=True)
def _has_many_digits(value: Any) -> Any:
    """Return whether a number has more digits than name any float32: nine, and zeros behind
    them.
    """
    while value % 10 == 0:
        value /= 10
    return value >= 1e9 or value != np.floor(value)


@nb.njit(cache=True)
def _document_id(buf: Any, pos: Any) -> Any:
    """Find the document's id in a comment: (start, end, end of the line); no id has no length.

    It is what follows ``docid =`` or ``docid:``, or else the only word of the comment.
    """
    pos += 1
    while _is_space(buf[pos]) or buf[pos] == _HASH:
        pos += 1

    # Step over `docid =`, or back to where the word begins.
    start = pos
    has_name = True
    for i in range(_DOCID.size):
        has_name = has_name and (buf[pos] | _TO_LOWER_CASE) == _DOCID[i]
        pos += has_name
    if has_name:
        while _is_space(buf[pos]):
            pos += 1
        has_name = buf[pos] == _EQUALS or buf[pos] == _COLON
    pos = pos + 1 if has_name else start
    while has_name and _is_space(buf[pos]):
        pos += 1

    # The id is the next word.
    start = pos
    while not _is_space(buf[pos]) and buf[pos] != _NEWLINE:
        pos += 1
    end = pos
    while _is_space(buf[pos]):
        pos += 1
    is_alone = buf[pos] == _NEWLINE
    if end - start > _LONGEST_ID or not (has_name or is_alone):
        end = start
    while buf[pos] != _NEWLINE:
        pos += 1
    return start, end, pos


@nb.njit(cache=True, nogil=True)
def parse_block(buf: Any, first_index: Any, last_index: Any, allow_nan: Any, out: Any) -> Any:
    """Parse the lines of `buf`, which ends with a newline, into the caller's arrays (labels,
    indptr, ..., slow).

    `indptr`, `indices` (counted from 0) and `values` hold the features as compressed rows. `runs`
    gets a row (first row, token start, token length) wherever the qid token changes. `slow` gets
    (slot, start, end) for each number to re-read in Python; slot -1 - row is a label, any other
    slot a feature value. `ids` gets the document ids of the comments one behind the other, and
    `id_ends` where each row's ends. `out_rounded` gets the index of a feature with a number above
    2^24 that has more digits than a float32.

    Returns (status, where it stopped, lines read, rows, values stored, runs, slow numbers, largest
    index + 1).
    """
    labels, indptr, indices, values, runs, slow, ids, id_ends, out_rounded = out
    pos = lines = row = stored = n_ids = n_runs = n_slow = 0
    width = np.int64(0)
    qid_start = qid_length = -1
    indptr[0] = 0
    while pos < buf.size:
        # Lines of white space and comments have no document.
        while _is_space(buf[pos]):
            pos += 1
        c = buf[pos]
        if c == _HASH:
            while buf[pos] != _NEWLINE:
                pos += 1
            c = buf[pos]
        if c == _NEWLINE:
            pos += 1
            lines += 1
            continue

        # The label.
        start = pos
        status, value, pos = _number(buf, pos)
        label = np.float32(value)
        if status == _NUMBER_BAD or not _ends_token(buf[pos]) or value < 0 or np.isinf(label):
            return BAD_LABEL, start, lines, row, stored, n_runs, n_slow, width
        if status == _NUMBER_SLOW:
            slow[n_slow] = -1 - row, start, pos
            n_slow += 1
        labels[row] = label + np.float32(0)  # -0 becomes 0

        # The query, on all lines or on none.
        while _is_space(buf[pos]):
            pos += 1
        if buf[pos] == _Q and buf[pos + 1] == _I and buf[pos + 2] == _D and buf[pos + 3] == _COLON:
            if row > 0 and qid_start < 0:
                return UNEXPECTED_QID, pos, lines, row, stored, n_runs, n_slow, width
            pos += 4
            start = pos
            while not _ends_token(buf[pos]):
                pos += 1
            length = pos - start
            if length == 0:
                return BAD_QID, start, lines, row, stored, n_runs, n_slow, width
            if length != qid_length or not _same_bytes(buf, start, qid_start, length):
                runs[n_runs] = row, start, length
                n_runs += 1
            qid_start = start
            qid_length = length
            while _is_space(buf[pos]):
                pos += 1
        elif qid_start >= 0:
            return MISSING_QID, pos, lines, row, stored, n_runs, n_slow, width

        # The features, in ascending order.
        previous = first_index - 1
        while True:
            c = buf[pos]
            if c == _NEWLINE or c == _HASH:
                break
            start = pos
            index, _, pos = _digits(buf, pos, np.int64(0), _INDEX_LIMIT)
            if pos == start or buf[pos] != _COLON:
                return BAD_INDEX, start, lines, row, stored, n_runs, n_slow, width
            if index <= previous:
                code = INDEX_TOO_SMALL if index < first_index else INDEX_NOT_ASCENDING
                return code, start, lines, row, stored, n_runs, n_slow, width
            if index > last_index:
                return INDEX_TOO_LARGE, start, lines, row, stored, n_runs, n_slow, width
            previous = index
            pos += 1

            token = pos
            status, value, pos = _number(buf, pos)
            if status == _NUMBER_BAD or not _ends_token(buf[pos]):
                # A missing value: `nan` in any case.
                is_nan = (
                    (buf[token] | _TO_LOWER_CASE) == _N
                    and (buf[token + 1] | _TO_LOWER_CASE) == _A
                    and (buf[token + 2] | _TO_LOWER_CASE) == _N
                )
                if not (allow_nan and is_nan and _ends_token(buf[token + 3])):
                    return BAD_VALUE, start, lines, row, stored, n_runs, n_slow, width
                value = np.nan
                pos = token + 3
            elif status == _NUMBER_SLOW:
                slow[n_slow] = stored, token, pos
                n_slow += 1

            single = np.float32(value)
            if np.isinf(single):
                return VALUE_OVERFLOW, start, lines, row, stored, n_runs, n_slow, width
            is_large = _LARGE < abs(value) < _MAX_EXACT
            if is_large and value != single and _has_many_digits(abs(value)):
                out_rounded[0] = index
            indices[stored] = index - first_index
            values[stored] = single
            stored += 1
            while _is_space(buf[pos]):
                pos += 1
        width = max(width, previous - first_index + 1)

        # The document's id, in the comment at the end of the line.
        if buf[pos] == _HASH:
            start, end, pos = _document_id(buf, pos)
            for i in range(start, end):
                ids[n_ids] = buf[i]
                n_ids += 1
        id_ends[row] = n_ids
        pos += 1
        lines += 1
        row += 1
        indptr[row] = stored
    return OK, pos, lines, row, stored, n_runs, n_slow, width


@nb.njit(cache=True, nogil=True)
def scatter_rows(indptr: Any, indices: Any, values: Any, out: Any) -> None:
    """Write compressed rows into an array of zeros."""
    for row in range(indptr.size - 1):
        for j in range(indptr[row], indptr[row + 1]):
            out[row, indices[j]] = values[j]
