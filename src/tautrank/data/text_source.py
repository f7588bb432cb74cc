"""Open text that may be compressed, and read it in blocks of whole lines."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import math
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from tautrank.errors import DataError
from tautrank.files import STANDARD

# Formats are recognised by their first bytes: names lie.
_UNREADABLE = {
    b"PK\x03\x04": "a zip archive; expected text (unpack it first)",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; expected plain text, .gz, .bz2 or .xz (unpack it first)",
    b"PAR1": "a Parquet file; expected LETOR text (tautrank.data.read_parquet reads it)",
    b"ARROW1": "an Arrow file; expected LETOR text (tautrank.data.read_parquet reads it)",
    b"\xff\xfe": "UTF-16 text; expected UTF-8 or ASCII",
    b"\xfe\xff": "UTF-16 text; expected UTF-8 or ASCII",
}
_LONGEST_FIRST_BYTES = 6
_BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 256 * 2**20
_COMPRESSED: dict[bytes, tuple[str, Callable[[BinaryIO], Any]]] = {
    b"\x1f\x8b": ("gzip", gzip.open),
    b"BZh": ("bzip2", bz2.open),
    b"\xfd7zXZ\x00": ("xz", lzma.open),
}
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz")


def ending(path: Path) -> str:
    """Return what a file's name ends in, in lower case, without the ending of a compression.

    >>> ending(Path("train.CSV.gz"))
    '.csv'
    """
    for suffix in reversed(path.suffixes):
        suffix_in_lower_case = suffix.lower()
        if suffix_in_lower_case not in COMPRESSED_ENDINGS:
            return suffix_in_lower_case
    return ""


class TextSource:
    """A readable file whose compression has been undone; its errors name the file in one
    sentence.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; its first bytes, not its name, say how it is compressed.

        Args:
            path: the file; one that cannot be text, such as a zip archive, is an error.
        """
        self.path = path
        try:
            self._raw = _open_file_or_pipe(path)
            self._start = self._raw.read(_LONGEST_FIRST_BYTES)
        except OSError as error:
            raise DataError(f"{path}: {_reason_in_words(error)}") from None
        for first_bytes, content in _UNREADABLE.items():
            if self._start.startswith(first_bytes):
                self._raw.close()
                raise DataError(f"{path}: is {content}")
        self._compression: str | None = None
        self._stream: Any = self._raw
        for first_bytes, (name, opener) in _COMPRESSED.items():
            if self._start.startswith(first_bytes):
                self._compression = name
                self._stream = opener(self._rewind())
                return
        if self._raw.seekable():
            self._rewind()
        # A pipe cannot go back: `blocks` begins with the bytes in `_start`.

    def _rewind(self) -> BinaryIO:
        """Return the raw file from its first byte on, of which the first few have been read."""
        start = self._start
        self._start = b""
        if self._raw.seekable():
            self._raw.seek(0)
            return self._raw
        return io.BytesIO(start + self._raw.read())

    def __enter__(self) -> TextSource:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def position(self) -> int:
        """Return the number of bytes of the file taken so far, before decompression; 0 for a
        pipe.
        """
        return self._raw.tell() if self._raw.seekable() else 0

    def blocks(self, size: int) -> Iterator[bytes]:
        """Yield the text in blocks of whole lines: `size` bytes and the rest of the last line.

        The last line gets a newline if it has none, and a UTF-8 byte-order mark is left out.
        """
        text = (self._start + self._read(size)).removeprefix(_BOM)
        while text:
            yield text if text.endswith(b"\n") else text + b"\n"
            text = self._read(size)

    def _read(self, size: int) -> bytes:
        """Read the next `size` bytes of decompressed text and the rest of the last line; errors of
        decompression become one sentence.
        """
        try:
            text = self._stream.read(size)
            rest_of_line = self._stream.readline(LONGEST_LINE)
        except EOFError:
            raise DataError(
                f"{self.path}: the {self._compression} data ends too early; "
                "expected a complete file (is it truncated?)"
            ) from None
        except (zlib.error, lzma.LZMAError, OSError) as error:
            if self._compression is None:
                raise DataError(f"{self.path}: cannot be read ({error})") from None
            raise DataError(
                f"{self.path}: the {self._compression} data is damaged ({error})"
            ) from None
        if len(rest_of_line) == LONGEST_LINE:
            raise DataError(
                f"{self.path}: a line is longer than {LONGEST_LINE // 2**20} MiB; "
                "expected lines of text (is this a binary file?)"
            )
        return bytes(text + rest_of_line)


def _open_file_or_pipe(path: Path) -> BinaryIO:
    """Open a file for reading bytes; the content of standard input or of a shell's pipe is read
    whole and kept in memory, since it comes only once.
    """
    if str(path) == STANDARD:
        return io.BytesIO(_read_pipe(STANDARD, 0))
    # A pipe of the shell, such as `<(zcat run.gz)`; one with a name of its own is another at each
    # opening.
    is_in_shell = str(path).startswith(("/dev/", "/proc/"))
    if is_in_shell and path.is_fifo():
        # The number tells pipes apart, since the shell gives a later one the same path.
        pipe_number = path.stat().st_ino
        return io.BytesIO(_read_pipe(str(path), pipe_number))
    return open(path, "rb")


@functools.lru_cache(maxsize=4)
def _read_pipe(path: str, pipe_number: int) -> bytes:
    """Return all bytes of a pipe, and the same bytes again when asked again: a pipe can be read
    only once, but a file is opened several times, first to see what it is.

    Args:
        path: path of the pipe, or ``-`` for standard input.
        pipe_number: tells pipes apart that have the same path one after the other (for the cache).
    """
    with nullcontext(sys.stdin.buffer) if path == STANDARD else open(path, "rb") as file:
        return file.read()


def _reason_in_words(error: OSError) -> str:
    """Return in words why a file could not be opened."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, IsADirectoryError):
        return (
            "is a directory; expected a file (tautrank.data.read_folder reads a data set's folder)"
        )
    return f"cannot be opened ({error.strerror})"


def first_file(candidates: Iterable[Path]) -> Path | None:
    """Return the first of these paths that is a file; None if none of them is."""
    for path in candidates:
        if path.is_file():
            return path
    return None


def require_files(*paths: Path) -> None:
    """Refuse files that are not there, before work that takes time.

    Args:
        paths: the files; ``-`` is standard input.
    """
    for path in paths:
        if str(path) != STANDARD and not path.exists():
            raise DataError(f"{path}: no such file")


def file_size(path: Path) -> int:
    """Return the size in bytes; 0 for a pipe or a file that is not there."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


def read_text(path: Path) -> bytes:
    """Return the content of a text file, decompressed and ending with a newline; bytes that are not
    UTF-8, or zero bytes, are an error that names the line.
    """
    with TextSource(path) as source:
        content = b"".join(source.blocks(2**20))
    if not content.isascii():
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            line = _line_number(content, error.start)
            raise DataError(
                f"{path}:{line}: found bytes that are not UTF-8; "
                "expected text (is this a binary file?)"
            ) from None
    if b"\0" in content:
        line = _line_number(content, content.index(b"\0"))
        raise DataError(f"{path}:{line}: found binary data; expected text")
    return content


def _line_number(content: bytes, position: int) -> int:
    """Return the number of the line that holds a byte."""
    return content.count(b"\n", 0, position) + 1


def first_line(path: Path) -> str:
    """Return the first line of a text file that is not blank; empty text if all are blank."""
    with TextSource(path) as source:
        for block in source.blocks(2**16):
            for line in block.split(b"\n"):
                if line.strip():
                    return line.decode("utf-8", "replace")
    return ""


def read_lines(path: Path) -> list[str]:
    """Read a small text file whole: its lines without their ends; bytes that are not UTF-8 are an
    error.
    """
    text = read_text(path).decode("utf-8").rstrip()
    return text.replace("\r\n", "\n").split("\n") if text else []


def finite_number(text: str) -> float | None:
    """Return the finite number that a text denotes; None for any other text, ``1_000`` included.

    >>> finite_number("-1e3"), finite_number("nan"), finite_number("1_000")
    (-1000.0, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None
