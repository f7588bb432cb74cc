"""How results look in a notebook, and as pandas frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from tautrank.errors import require


def html_table(titles: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a table in HTML.

    Args:
        titles: the headings; none for a table without.
        rows: one value per column in each row.
        note: a sentence to put below.

    >>> html_table(["loss"], [["a < b"]])
    '<table><thead><tr><th>loss</th></tr></thead><tbody><tr><td>a &lt; b</td></tr></tbody></table>'
    """

    head = f"<thead>{_html_row(titles, 'th')}</thead>" if titles else ""
    body = "".join(_html_row(row, "td") for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{below}"


def _html_row(cells: Sequence[object], tag: str) -> str:
    """Return a row of cells of one kind."""
    texts = [f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells]
    return f"<tr>{''.join(texts)}</tr>"


def pandas() -> Any:
    """Return pandas, or raise the error that says how to install it."""
    return require("pandas", "to_frame needs pandas", "pandas")
