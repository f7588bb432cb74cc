"""Declarations as JSON and back: a store holds the study it belongs to, a trial travels to its worker as text."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError
from tautrank.experiments import perturb, search_space
from tautrank.experiments.comparison import System
from tautrank.papers import claims, measurements, study

_MARK = "="
# Whatever these modules declare, so that a new kind of claim or protocol travels as it is written.
_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for module in (perturb, claims, measurements, search_space, study)
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = type(value).__name__
        if _CLASSES.get(name) is not type(value):
            raise DataError(f"found a {name} in a study; expected what tautrank.studies declares")
        return {_MARK: name, **{f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}}
    if isinstance(value, Mapping):
        return {str(name): to_plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise DataError(f"found a {type(value).__name__} in a study; expected numbers, text, and what can be written down")


def from_plain(value: Any) -> Any:
    """Undo `to_plain`; sequences come back as tuples.

    Args:
        value: what `to_plain` gave, perhaps by way of JSON.

    >>> from_plain({"=": "Choice", "values": [1, 2]})
    Choice(values=(1, 2))
    """
    if isinstance(value, dict):
        content = {name: from_plain(item) for name, item in value.items()}
        kind = content.pop(_MARK, None)
        if kind is None:
            return content
        cls = _CLASSES.get(str(kind))
        if cls is None or not set(content) <= {f.name for f in dataclasses.fields(cls)}:
            raise DataError(f"found the declaration '{kind}'; expected one that this version of tautrank knows")
        return cls(**content)
    return tuple(from_plain(item) for item in value) if isinstance(value, list) else value


def canonical(value: Any) -> str:
    """JSON that is the same text for the same content.

    Args:
        value: plain values.

    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """A hash of plain values: 32 hexadecimal digits.

    Args:
        value: plain values.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]
