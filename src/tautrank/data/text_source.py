"""Opening text that may be compressed, and cutting it into blocks of whole lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from tautrank.errors import DataError

# The formats are told by their first bytes, not by the file's name: names lie.
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive; expected text (unpack it first)",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; expected plain text, .gz, .bz2 or .xz (unpack it first)",
    b"PAR1": "a Parquet file; expected LETOR text (tautrank.read_parquet reads it)",
    b"\xff\xfe": "UTF-16 text; expected UTF-8 or ASCII",
    b"\xfe\xff": "UTF-16 text; expected UTF-8 or ASCII",
}
_MAGIC_LENGTH = 6
_BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 256 * 2**20
_COMPRESSED: dict[bytes, tuple[str, Callable[[BinaryIO], Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
}
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz")


def ending(path: Path) -> str:
    """What a file's name ends in, in lower case, without the ending of a compression.

    >>> ending(Path("train.CSV.gz"))
    '.csv'
    """
    endings = [suffix.lower() for suffix in path.suffixes]
    return next((suffix for suffix in reversed(endings) if suffix not in COMPRESSED_ENDINGS), "")


class TextSource:
    """A readable file whose compression has been undone; its errors name the file in one sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.compression: str | None = None
        try:
            # Unbuffered: blocks are large, a second copy through Python's buffer would only cost time.
            self._raw: BinaryIO = cast(BinaryIO, open(path, "rb", buffering=0))  # noqa: SIM115 - closed in __exit__
        except FileNotFoundError:
            raise DataError(f"{path}: no such file") from None
        except IsADirectoryError:
            raise DataError(
                f"{path}: is a directory; expected a file (tautrank.read_folder reads a data set's folder)"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be opened ({error.strerror})") from None
        try:
            self._stream = self._sniff()
        except BaseException:
            self._raw.close()
            raise

    def _sniff(self) -> BinaryIO:
        head = b""
        while len(head) < _MAGIC_LENGTH and (more := self._raw.read(_MAGIC_LENGTH - len(head))):
            head += more
        for magic, what in _UNREADABLE.items():
            if head.startswith(magic):
                raise DataError(f"{self.path}: is {what}")
        if self._raw.seekable():
            self._raw.seek(0)
            stream = self._raw
        else:  # a pipe: give back what was looked at
            stream = cast(BinaryIO, _Prefixed(head, self._raw))
        for magic, (name, opener) in _COMPRESSED.items():
            if head.startswith(magic):
                self.compression = name
                return cast(BinaryIO, opener(stream))
        return stream

    def __enter__(self) -> TextSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def position(self) -> int:
        """Bytes of the file taken so far, before decompression; 0 for a pipe."""
        return self._raw.tell() if self._raw.seekable() else 0

    def readinto(self, target: memoryview) -> int:
        """Fill `target` from the text; 0 means the end. Damaged compression becomes a `DataError`."""
        try:
            return self._stream.readinto(target)  # type: ignore[attr-defined,no-any-return]
        except EOFError:
            raise DataError(
                f"{self.path}: the {self.compression} data ends too early; expected a complete file (is it truncated?)"
            ) from None
        except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, OSError) as error:
            if self.compression is None:
                raise DataError(f"{self.path}: cannot be read ({error})") from None
            raise DataError(f"{self.path}: the {self.compression} data is damaged ({error})") from None


class _Prefixed(io.RawIOBase):
    """Bytes already taken from a stream, followed by the rest of it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        if self._head:
            n = min(len(self._head), len(target))
            target[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        return int(self._rest.readinto(target))  # type: ignore[attr-defined]


def line_blocks(source: TextSource, take: Callable[[], bytearray]) -> Iterator[tuple[bytearray, int, int]]:
    """Cut a source into blocks of whole lines, each ending with a newline.

    `take` hands out a buffer to fill; the consumer owns it afterwards. Yields (buffer, first byte, end): a UTF-8
    byte-order mark is stepped over, a last line without a newline gets one, and a line longer than the buffer makes the
    buffer grow, up to `LONGEST_LINE`.
    """
    carry = b""
    first = True
    ended = False
    while not ended:
        buffer = take()
        filled = len(carry)
        if filled >= len(buffer) - 1:
            buffer.extend(bytes(filled))
        buffer[:filled] = carry
        newline = -1
        while True:
            got = source.readinto(memoryview(buffer)[filled:-1])  # the last byte is kept for a closing newline
            filled += got
            if got == 0:
                ended = True
                break
            if filled < len(buffer) - 1:
                continue
            newline = buffer.rfind(b"\n", 0, filled)
            if newline >= 0:
                break
            if len(buffer) >= LONGEST_LINE:
                raise DataError(
                    f"{source.path}: a line is longer than {LONGEST_LINE // 2**20} MiB; "
                    "expected lines of text (is this a binary file?)"
                )
            buffer.extend(bytes(len(buffer)))
        if ended:
            if filled and buffer[filled - 1] != 0x0A:
                buffer[filled] = 0x0A
                filled += 1
            end = filled
            carry = b""
        else:
            end = newline + 1
            carry = bytes(memoryview(buffer)[end:filled])
        start = 0
        if first and buffer.startswith(_BOM):
            start = len(_BOM)
        first = False
        yield buffer, start, end


def file_size(path: Path) -> int:
    """Size in bytes, or 0 where it cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def read_lines(path: Path) -> list[str]:
    """Read a small text file whole: its lines without their ends; bytes that are not UTF-8 are an error."""
    with TextSource(path) as source:
        text = b"".join(
            bytes(memoryview(b)[start:end]) for b, start, end in line_blocks(source, lambda: bytearray(2**18))
        )
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: found bytes that are not UTF-8; expected text (is this a binary file?)"
        ) from None
    if "\0" in decoded:
        line = decoded.count("\n", 0, decoded.index("\0")) + 1
        raise DataError(f"{path}:{line}: found binary data; expected text")
    lines = decoded.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def finite_number(text: str) -> float | None:
    """The finite number that a text is; None for other texts, also for Python's own ``1_000``.

    >>> finite_number("-1e3"), finite_number("nan"), finite_number("1_000")
    (-1000.0, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
