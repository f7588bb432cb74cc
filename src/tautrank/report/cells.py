"""Cells that several tables have: text, numbers, means with deviations, p-values."""

from __future__ import annotations

import re

from tautrank.report.table import Cell, Column, Titled, Value, missing


def text_cell(title: str, text: str) -> Titled:
    """Return a cell of a column of text.

    Args:
        title: the heading.
        text: the text.
    """
    return Column(title, words=True), Cell(text)


def number_cell(title: str, value: float, text: str, *, high_first: bool = True) -> Titled:
    """Return a cell of a column of numbers.

    Args:
        title: the heading.
        value: the number in full.
        text: the number as a person reads it.
        high_first: whether the first click on the heading shows the highest values first.
    """
    return Column(title, high_first=high_first), Cell(text, (value,))


def p_cell(title: str, p: float, text: str | None = None) -> Titled:
    """Return a cell with a p-value.

    Args:
        title: the heading.
        p: the p-value.
        text: what to show in its place.
    """
    return number_cell(title, p, p_text(p) if text is None else text, high_first=False)


def p_text(p: float) -> str:
    """Format a p-value for a table.

    >>> p_text(0.01234), p_text(3e-5), p_text(float("nan"))
    ('.0123', '<.0001', '-')
    """
    return "<.0001" if p < 1e-4 else _without_zero(f"{p:.4f}", p)


def difference_text(value: float) -> str:
    """Format a difference for a table.

    >>> difference_text(0.0123), difference_text(-1.5), difference_text(float("nan"))
    ('+.0123', '-1.5000', '-')
    """
    return _without_zero(f"{value:+.4f}", value)


def mean_text(mean: Value, spread: Value) -> str:
    """Format a mean and its standard deviation for a table.

    >>> mean_text(0.5, 0.0123), mean_text(0.5, float("nan")), mean_text(None, None)
    ('0.5000 ±.0123', '0.5000', '-')
    """
    if missing(mean):
        return "-"
    return f"{mean:.4f}" + ("" if missing(spread) else _without_zero(f" ±{spread:.4f}", spread))


def _without_zero(text: str, value: Value) -> str:
    """Drop the zero before the decimal point, which every share has."""
    return "-" if missing(value) else re.sub(r"^( ±|[+-])?0\.", r"\1.", text)
