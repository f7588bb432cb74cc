"""Declarations as JSON and back: a store holds the study it belongs to, a trial travels to its worker as text."""

from __future__ import annotations

import dataclasses
from typing import Any

from tautrank.engines.langevin import Langevin
from tautrank.experiments import perturb, space
from tautrank.experiments.comparison import System
from tautrank.json_values import from_json, to_json
from tautrank.papers import claims, measurements, study

# Whatever these modules declare, so that a new kind of claim or protocol travels as it is written.
_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for module in (perturb, claims, measurements, space, study)
    for cls in vars(module).values()
    if isinstance(cls, type) and dataclasses.is_dataclass(cls) and cls.__module__ == module.__name__
} | {cls.__name__: cls for cls in (Langevin, System)}


def to_plain(value: Any) -> Any:
    """Turn declarations into what JSON can hold.

    Args:
        value: a declaration, or anything made of numbers, text, sequences and mappings.

    >>> to_plain(study.FixedParts(fold=2))
    {'=': 'FixedParts', 'fold': 2, 'redivide': False}
    """
    return to_json(value, "study", _CLASSES)


def from_plain(value: Any) -> Any:
    """Undo `to_plain`; sequences come back as tuples.

    Args:
        value: what `to_plain` gave, perhaps by way of JSON.

    >>> from_plain({"=": "Choice", "values": [1, 2]})
    Choice(values=(1, 2))
    """
    return from_json(value, _CLASSES)
