"""Sentences about what is wrong with LETOR text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tautrank.data.letor_options import LetorOptions
from tautrank.errors import DataError

_LONGEST_TOKEN = 40


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
    """Raise the error for what stopped the compiled loop in a block.

    Args:
        stop: where and why it stopped.
        options: how the file is read.
        lines_before_have_qid: whether the lines before the block have query ids; None if there are
            none.
    """
    from tautrank.data import _letor_kernel as kernel

    stop = _with_qid_checked(stop, lines_before_have_qid)
    if stop.status == kernel.OK:
        return
    line_number = stop.n_lines_before + stop.text.count(b"\n", 0, stop.position) + 1
    place = f"{stop.file}:{line_number}"
    line_start = stop.text.rfind(b"\n", 0, stop.position) + 1
    line = stop.text[line_start : stop.position + 2**16].partition(b"\n")[0]
    if _is_binary(line):
        raise DataError(f"{place}: found binary data; expected LETOR text such as '2 qid:1 1:0.5'")

    before, after = line[: stop.position - line_start], line[stop.position - line_start :]
    raise DataError(f"{place}: {_sentence(stop.status, _token(after), before, options)}")


def _with_qid_checked(stop: Stop, lines_before_have_qid: bool | None) -> Stop:
    """Return the stop at the first document of a block that has a query id where the lines before
    have none, or the other way round; else the stop as it is.
    """
    from tautrank.data import _letor_kernel as kernel

    if not stop.has_rows or stop.status == kernel.BAD_LABEL:
        return stop
    if lines_before_have_qid is None or lines_before_have_qid == stop.has_qid:
        return stop
    status = kernel.MISSING_QID if lines_before_have_qid else kernel.UNEXPECTED_QID
    first_document = re.search(rb"^[ \t\r]*[^ \t\r\n#]", stop.text, re.MULTILINE)
    return stop._replace(status=status, position=first_document.start() if first_document else 0)


def _is_binary(line: bytes) -> bool:
    """Return whether a line has bytes that text has not."""
    n_control_bytes = sum(byte < 9 or 13 < byte < 32 for byte in line)
    return b"\0" in line or n_control_bytes > 2


def _token(text: bytes) -> str:
    """Return the first word of a text, shortened."""
    token = re.split(rb"[ \t\r#]", text, maxsplit=1)[0].decode("utf-8", "replace")
    if len(token) > _LONGEST_TOKEN:
        return token[: _LONGEST_TOKEN - 3] + "..."
    return token


def _sentence(status: int, token: str, before: bytes, options: LetorOptions) -> str:
    """Return what was found and what was expected.

    Args:
        status: why the compiled loop stopped.
        token: the word at which it stopped.
        before: the line before that word.
        options: how the file is read.
    """
    from tautrank.data import _letor_kernel as kernel

    index, _, value = token.partition(":")
    is_repeated = re.search(rb"[ \t]" + re.escape(index.encode()) + rb":", before)
    limit_name = "n_features" if options.n_features else "max_features"
    limit = options.n_features or options.max_features
    sentences = {
        kernel.BAD_LABEL: _bad_label(token),
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
        kernel.INDEX_NOT_ASCENDING: f"feature index {index} is "
        f"{'repeated' if is_repeated else 'out of order'}; expected ascending indices, each once",
        kernel.INDEX_TOO_LARGE: f"found feature index {index}; "
        f"expected at most {options.last_index} ({limit_name}={limit})",
        kernel.BAD_VALUE: _bad_value(index, value),
        kernel.VALUE_OVERFLOW: f"feature {index} has the value '{value}', "
        "too large for float32; expected at most 3.4e38",
    }
    return sentences[status]


def _bad_label(token: str) -> str:
    """Return the sentence about a word that is no label."""
    if token.startswith("qid:") or re.fullmatch(r"\d+:.*", token):
        return f"the line starts with '{token}'; expected a label first"
    return f"found label '{token}'; expected a finite number of at least 0"


def _bad_value(index: str, value: str) -> str:
    """Return the sentence about a word that is no value of a feature."""
    word = value.lower().lstrip("+-")
    if word not in {"nan", "inf", "infinity"}:
        return f"feature {index} has the value '{value}'; expected a number"
    hint = ""
    if word == "nan":
        hint = "; allow_nan=True (--allow-nan) reads it as a missing value"
    return f"feature {index} has the value '{value}'; expected a finite number{hint}"
