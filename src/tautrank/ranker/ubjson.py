"""Read UBJSON, the binary form of JSON in which XGBoost saves models."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

_NUMBERS = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
_WORDS = {b"T": True, b"F": False, b"N": None}


def from_ubjson(content: bytes) -> Any:
    """Return the value that UBJSON denotes; what is damaged raises one of many errors.

    Args:
        content: the value as XGBoost writes it (https://ubjson.org).

    >>> from_ubjson(b"{L" + bytes([0, 0, 0, 0, 0, 0, 0, 1]) + b"a[$l#i" + bytes([2, 0, 0, 0, 7, 0, 0, 0, 9]) + b"}")
    {'a': [7, 9]}
    """
    file = io.BytesIO(content)

    def numbers(kind: bytes, count: int = 1) -> list[Any]:
        form = np.dtype(_NUMBERS[kind])
        return (
            np.frombuffer(file.read(form.itemsize * count), form, count).tolist() if count else []
        )

    def text(kind: bytes) -> str:
        return file.read(numbers(kind)[0]).decode()

    def value(kind: bytes) -> Any:
        if kind == b"{":
            return {text(first): value(file.read(1)) for first in iter(lambda: file.read(1), b"}")}
        if kind == b"[":
            first = file.read(1)
            if first == b"$":
                form, _, kind = file.read(1), file.read(1), file.read(1)
                return numbers(form, numbers(kind)[0])
            if first == b"#":
                return [value(file.read(1)) for _ in range(numbers(file.read(1))[0])]
            items = []
            while first != b"]":
                items.append(value(first))
                first = file.read(1)
            return items
        if kind == b"S":
            return text(file.read(1))
        return _WORDS[kind] if kind in _WORDS else numbers(kind)[0]

    return value(file.read(1))
