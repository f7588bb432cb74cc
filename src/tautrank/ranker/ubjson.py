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
    reader = _Reader(content)
    return reader.value(reader.marker())


class _Reader:
    """What is left to read of a UBJSON text: each value begins with a marker, one byte, of its
    type.
    """

    def __init__(self, content: bytes) -> None:
        self._file = io.BytesIO(content)

    def marker(self) -> bytes:
        """Read the marker of the next value."""
        return self._file.read(1)

    def value(self, marker: bytes) -> Any:
        """Read and return a UBJSON value whose marker, the byte that tells its type, has been read."""
        if marker == b"{":
            return self._object()
        if marker == b"[":
            return self._array()
        if marker == b"S":
            # The length of a text is a number, which has a marker of its own.
            return self._text(self.marker())
        # Markers that are values by themselves: null, true, false.
        if marker in _WORDS:
            return _WORDS[marker]
        return self._number(marker)

    def _object(self) -> dict[str, Any]:
        """Read and return a UBJSON object, up to its closing brace, as a dictionary.

        A marker is the byte that tells a type. Keys are always text, and have no marker of text: what
        stands before a key is the marker of the number that is its length.
        """
        content = {}
        marker = self.marker()
        while marker != b"}":
            key = self._text(marker)
            content[key] = self.value(self.marker())
            marker = self.marker()
        return content

    def _array(self) -> list[Any]:
        """Read and return a UBJSON array in one of its three forms: numbers of one type (``$``), a
        given number of values (``#``), or values up to a closing bracket.

        A marker is the byte that tells the type of the next value.
        """
        marker = self.marker()
        if marker == b"$":
            type_of_numbers = self.marker()
            self.marker()  # "#", which announces their count
            return self._numbers(type_of_numbers, self._number(self.marker()))
        if marker == b"#":
            count = self._number(self.marker())
            return [self.value(self.marker()) for _ in range(count)]

        items = []
        while marker != b"]":
            items.append(self.value(marker))
            marker = self.marker()
        return items

    def _text(self, marker: bytes) -> str:
        """Read a text; the marker is that of its length."""
        return self._file.read(self._number(marker)).decode()

    def _number(self, marker: bytes) -> Any:
        """Read a number."""
        return self._numbers(marker, 1)[0]

    def _numbers(self, marker: bytes, count: int) -> list[Any]:
        """Read and return `count` numbers of the type that a marker byte denotes."""
        if not count:
            return []
        form = np.dtype(_NUMBERS[marker])
        values = np.frombuffer(self._file.read(form.itemsize * count), form, count)
        return list(values.tolist())
