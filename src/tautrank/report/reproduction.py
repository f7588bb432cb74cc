"""How a page was made: parameters, versions, and the call that makes it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import tautrank


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters in one line.

    >>> parameters_text({"learning_rate": 0.1, "engine": "lightgbm"})
    "learning_rate=0.1, engine='lightgbm'"
    """
    return ", ".join(f"{name}={value!r}" for name, value in parameters.items())


def written_with() -> str:
    """Return the versions of this library, Python and NumPy."""
    return f"tautrank {tautrank.__version__}, Python {platform.python_version()}, NumPy {np.__version__}"


def call_text(function: str, data: str, options: Mapping[str, str]) -> str:
    """Return a call in Python, one option per line.

    Args:
        function: the name of the function.
        data: the positional arguments, as Python code.
        options: the keyword arguments, as Python code.

    >>> print(call_text("tr.compare", "train, valid, test", {"seed": "0"}))
    tr.compare(
        train, valid, test,
        seed=0,
    )
    """
    lines = "".join(f"    {name}={value},\n" for name, value in options.items())
    return f"{function}(\n    {data},\n{lines})"
