"""Sentences about what is wrong with LETOR text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tautrank.data.letor_options import LetorOptions
from tautrank.errors import DataError

_LONGEST_TOKEN = 40
# As much of a line is looked at as an error needs: a line may be as long as the file.
_BYTES_AFTER_STOP = 2**16


class Stop(NamedTuple):
    """Where and why the compiled loop stopped in a block of lines.

    Attributes:
        file: the file.
        n_lines_before: number of lines before the block.
        text: the block.
        status: a constant of `_letor_kernel` that says why.
        position: the byte of the block at which it stopped.
        has_rows: whether a document was read.
        has_qid: whether a document with a query id was read.
    """

    file: Path
    n_lines_before: int
    text: bytes
    status: int
    position: int
    has_rows: bool
    has_qid: bool


def check_stop(stop: Stop, options: LetorOptions, lines_before_have_qid: bool | None) -> None:
    """Raise an error with file and line if the compiled parser stopped inside a block of text.

    Args:
        stop: where and why the parser stopped; its status is OK if it read the whole block.
        options: how the file is read.
        lines_before_have_qid: whether the lines before the block have query ids; None if there are
            no such lines.
    """
    from tautrank.data import _letor_kernel as kernel

    stop = _check_qid_like_before(stop, lines_before_have_qid)
    if stop.status == kernel.OK:
        return
    # Lines count from 1; `position` is the byte of the block at which the parser stopped.
    line_number = stop.n_lines_before + stop.text.count(b"\n", 0, stop.position) + 1
    file_and_line = f"{stop.file}:{line_number}"
    line_start = stop.text.rfind(b"\n", 0, stop.position) + 1
    text_from_line_start = stop.text[line_start : stop.position + _BYTES_AFTER_STOP]
    line = text_from_line_start.split(b"\n", maxsplit=1)[0]
    if _is_binary(line):
        raise DataError(
            f"{file_and_line}: found binary data; expected LETOR text such as '2 qid:1 1:0.5'"
        )

    position_in_line = stop.position - line_start
    # What the parser had read of the line, and the word that it could not read.
    read_part = line[:position_in_line]
    wrong_word = _first_word(line[position_in_line:])
    problem = _describe_problem(stop.status, wrong_word, read_part, options)
    raise DataError(f"{file_and_line}: {problem}")


def _check_qid_like_before(stop: Stop, lines_before_have_qid: bool | None) -> Stop:
    """Return a stop at the block's first document if only the block or only the lines before it
    have query ids: a file has them on all lines or on none. Otherwise return `stop` unchanged.
    """
    from tautrank.data import _letor_kernel as kernel

    # Without a document there are no query ids to compare; a bad label is reported as such.
    if not stop.has_rows or stop.status == kernel.BAD_LABEL:
        return stop
    if lines_before_have_qid is None or lines_before_have_qid == stop.has_qid:
        return stop
    status = kernel.MISSING_QID if lines_before_have_qid else kernel.UNEXPECTED_QID
    # The first line that is neither blank nor a comment.
    first_document = re.search(rb"^[ \t\r]*[^ \t\r\n#]", stop.text, re.MULTILINE)
    position = first_document.start() if first_document else 0
    return stop._replace(status=status, position=position)


def _is_binary(line: bytes) -> bool:
    """Return whether a line holds a zero byte or several control characters, unlike any text."""
    # Below 32 are the control characters; 9 to 13 are the tab and the ends of lines and pages.
    n_control_bytes = sum(byte < 9 or 13 < byte < 32 for byte in line)
    return b"\0" in line or n_control_bytes > 2


def _first_word(text: bytes) -> str:
    """Return the first word of some text, shortened to fit in an error."""
    word = re.split(rb"[ \t\r#]", text, maxsplit=1)[0].decode("utf-8", "replace")
    if len(word) > _LONGEST_TOKEN:
        return word[: _LONGEST_TOKEN - 3] + "..."
    return word


def _describe_problem(status: int, token: str, before: bytes, options: LetorOptions) -> str:
    """Return what was found in a line of LETOR text, and what was expected there.

    Args:
        status: the constant of the compiled parser that says why it stopped.
        token: the word at which it stopped, such as '3:abc'.
        before: the line before that word.
        options: how the file is read.
    """
    from tautrank.data import _letor_kernel as kernel

    index, _colon, value = token.partition(":")
    # An index that is not larger than the one before was either there already or comes too late.
    same_index_before = rb"[ \t]" + re.escape(index.encode()) + rb":"
    mistake_of_order = "repeated" if re.search(same_index_before, before) else "out of order"
    limit_name = "n_features" if options.n_features else "max_features"
    limit = options.n_features or options.max_features
    problem_by_status = {
        kernel.BAD_LABEL: _describe_bad_label(token),
        kernel.BAD_QID: "found 'qid:' without an id; expected 'qid:' and the query's id "
        "without a space",
        kernel.MISSING_QID: "found no 'qid:' after the label; expected one, as on the lines before",
        kernel.UNEXPECTED_QID: "found a 'qid:', but the lines before have none; "
        "expected it on all lines or none",
        kernel.BAD_INDEX: f"found '{token}' where a feature belongs; "
        "expected 'index:value' such as '3:0.5'",
        kernel.INDEX_TOO_SMALL: f"found feature index {index}; "
        f"expected indices from {options.first_index} on "
        "(zero_based=True if the file counts from 0)",
        kernel.INDEX_NOT_ASCENDING: f"feature index {index} is {mistake_of_order}; "
        "expected ascending indices, each once",
        kernel.INDEX_TOO_LARGE: f"found feature index {index}; "
        f"expected at most {options.last_index} ({limit_name}={limit})",
        kernel.BAD_VALUE: _describe_bad_value(index, value),
        kernel.VALUE_OVERFLOW: f"feature {index} has the value '{value}', "
        "too large for float32; expected at most 3.4e38",
    }
    return problem_by_status[status]


def _describe_bad_label(token: str) -> str:
    """Return what is wrong with a word that stands where a label belongs."""
    if token.startswith("qid:") or re.fullmatch(r"\d+:.*", token):
        return f"the line starts with '{token}'; expected a label first"
    return f"found label '{token}'; expected a finite number of at least 0"


def _describe_bad_value(index: str, value: str) -> str:
    """Return what is wrong with the value of a feature that is no finite number."""
    word = value.lower().lstrip("+-")
    if word not in {"nan", "inf", "infinity"}:
        return f"feature {index} has the value '{value}'; expected a number"
    hint = ""
    if word == "nan":
        hint = "; allow_nan=True (--allow-nan) reads it as a missing value"
    return f"feature {index} has the value '{value}'; expected a finite number{hint}"
