"""What a page says of how it was made: parameters, versions, and the call that makes it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import tautrank


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters in a line.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def written_with() -> str:
    """This library, Python and NumPy, with their versions."""
    return f"tautrank {tautrank.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"


def call_text(function: str, data: str, options: Mapping[str, str]) -> str:
    """A call in Python, an option a line.

    Args:
        function: what is called.
        data: the first arguments.
        options: the others by name, as they are written.

    >>> print(call_text("tr.compare", "train, valid, test", {"seed": "0"}))
    tr.compare(
        train, valid, test,
        seed=0,
    )
    """
    lines = "".join(f"    {name}={value},\n" for name, value in options.items())
    return f"{function}(\n    {data},\n{lines})"
