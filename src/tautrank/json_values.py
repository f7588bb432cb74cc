"""Values as JSON can hold them, and back: numbers, arrays, dataclasses; one text for one
content.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tautrank.errors import DataError, OptionError

_CLASS = "="
_STORED_NAME = "stored name"
_CLASSES: dict[str, type[Any]] = {}


def or_none(value: float) -> float | None:
    """Return a number, or None for NaN and the infinities, which JSON does not have.

    >>> or_none(0.5), or_none(math.nan), or_none(math.inf)
    (0.5, None, None)
    """
    return float(value) if math.isfinite(value) else None


def or_nan(value: float | None) -> float:
    """Undo `or_none`.

    >>> or_nan(0.5), or_nan(None)
    (0.5, nan)
    """
    return math.nan if value is None else float(value)


def declare(module: str) -> None:
    """Register the dataclasses of a module, so that `to_json` writes and `from_json` reads their
    instances; JSON has the name of the class with the fields.

    Args:
        module: the name of the module, which calls this after its dataclasses.
    """
    contents = list(vars(sys.modules[module]).values())
    for value in contents:
        is_dataclass = isinstance(value, type) and dataclasses.is_dataclass(value)
        # A module also holds the classes that it imports.
        if is_dataclass and value.__module__ == module:
            _CLASSES[value.__name__] = value


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a dataclass's field that files have under another name.

    Args:
        name: the name in files.
    """
    return {_STORED_NAME: name}


def to_json(value: Any, name: str = "value") -> Any:
    """Turn a value into what JSON can hold: NaN becomes null, arrays and tuples become lists.

    Args:
        value: numbers, text, None, lists, tuples, arrays and mappings of them; dataclasses that are
            declared.
        name: the value's name, for the error.

    >>> to_json({"a": (1, float("nan"))})
    {'a': [1, None]}
    >>> to_json({"a": print}, "parameters")
    Traceback (most recent call last):
    tautrank.errors.OptionError: parameters.a: found <built-in function print>; expected what a file
    can hold: numbers, text, None, lists
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _json_number(value, name)
    if isinstance(value, list | tuple):
        return [to_json(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): to_json(item, f"{name}.{key}") for key, item in value.items()}
    class_name = type(value).__name__
    if _CLASSES.get(class_name) is not type(value):
        raise OptionError(
            f"{name}: found {value!r}; expected what a file can hold: numbers, text, None, lists"
        )
    content = {_CLASS: class_name}
    for field_name, stored_name in _stored_names(type(value)).items():
        content[stored_name] = to_json(getattr(value, field_name), f"{name}.{field_name}")
    return content


def _stored_names(cls: type[Any]) -> dict[str, str]:
    """Return the names under which files store the fields of a dataclass, by name of the field."""
    fields = dataclasses.fields(cls)
    return {field.name: field.metadata.get(_STORED_NAME, field.name) for field in fields}


def _json_number(value: float, name: str) -> float | None:
    """Return a number, None for NaN; refuse the infinities."""
    if math.isinf(value):
        raise OptionError(f"{name}: found {value}; expected what a file can hold: finite numbers")
    return None if math.isnan(value) else value


def from_json(value: Any) -> Any:
    """Undo `to_json`; lists come back as tuples.

    Args:
        value: what `to_json` returned, perhaps read from a file.

    >>> from tautrank.experiments import Choice
    >>> from_json(to_json([1, Choice((2, 3))]))
    (1, Choice(values=(2, 3)))
    """
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    content = {name: from_json(item) for name, item in value.items()}
    # An object was written as its fields, with the name of its class under this key.
    class_name = content.pop(_CLASS, None)
    if class_name is None:
        return content
    cls = _CLASSES.get(str(class_name))
    # The names that fields have in files, which may differ from those in the class.
    stored_names = _stored_names(cls) if cls is not None else {}
    if cls is None or not set(content) <= set(stored_names.values()):
        raise DataError(
            f"found the declaration '{class_name}'; "
            "expected one that this version of tautrank knows"
        )
    fields = {}
    for field_name, stored_name in stored_names.items():
        if stored_name in content:
            fields[field_name] = content[stored_name]
    return cls(**fields)


def canonical(value: Any) -> str:
    """Write JSON that is the same text for the same content.

    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return a hash of JSON values, 32 hexadecimal digits.

    >>> digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})
    True
    """
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]
