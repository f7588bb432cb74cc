"""Declarations as JSON and back: a store holds the study it belongs to, a trial goes to its worker as text."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from tautrank.engines.langevin import Langevin
from tautrank.experiments import space
from tautrank.json_values import from_json, to_json

_CLASSES: dict[str, type[Any]] = {"Langevin": Langevin}


def declare(module: str) -> None:
    """Make the dataclasses of a module known here, so that a new kind of claim or protocol needs no other code.

    Args:
        module: its name.
    """
    for cls in list(vars(sys.modules[module]).values()):
        if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module:
            _CLASSES[cls.__name__] = cls


declare(space.__name__)


def to_plain(value: Any) -> Any:
    """Turn declarations into what JSON can hold.

    Args:
        value: a declaration, or anything made of numbers, text, sequences and mappings.

    >>> to_plain(space.Choice((1, 2)))
    {'=': 'Choice', 'values': [1, 2]}
    """
    return to_json(value, "plan", _CLASSES)


def from_plain(value: Any) -> Any:
    """Undo `to_plain`; sequences come back as tuples.

    Args:
        value: the result of `to_plain`, perhaps by way of JSON.

    >>> from_plain({"=": "Choice", "values": [1, 2]})
    Choice(values=(1, 2))
    """
    return from_json(value, _CLASSES)
