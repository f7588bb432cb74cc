"""The program of Plotly that draws figures in a browser."""

from __future__ import annotations

import re
from typing import Any

from tautrank.errors import require

# Control characters that HTML does not allow, after an even number of backslashes, and perhaps one
# that escapes them. In JavaScript they stand in literals, where an escape means the same.
_CONTROL_CHARACTER = re.compile(r"((?<!\\)(?:\\\\)*)\\?([\x01-\x08\x0b\x0e-\x1f\x7f-\x9f])")


def require_plotly() -> Any:
    """Return Plotly's graph objects, or raise an error that says how to install it."""
    return require("plotly.graph_objects", "figures in a page need Plotly", "report")


def plotly_javascript() -> str:
    """Return the program that draws the figures in a browser, ready to be part of the page."""
    require_plotly()
    from plotly.offline import get_plotlyjs

    # A browser sees line ends as \n whatever the file has, and the page names the hash of what the
    # browser sees.
    text = str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")
    return _CONTROL_CHARACTER.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """Return a control character as an escape of JavaScript, after the backslashes before it."""
    backslashes, character = match.groups()
    return f"{backslashes}\\x{ord(character):02x}"
