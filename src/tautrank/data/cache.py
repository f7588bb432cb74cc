"""Parsed text kept beside large files, so that the second read takes as long as reading the arrays.

A cache file is safe to delete at any time, is replaced in one step, and is used only while it was made by this format
version, with the same options, from a file of the same size, modification time and content (SHA-256 over its segments).
It holds plain arrays behind a JSON header: loading it executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from tautrank.arrays import F32, I32, I64, Array
from tautrank.errors import DataError
from tautrank.files import atomic_write

if TYPE_CHECKING:
    from tautrank.data.letor import LetorOptions

SUFFIX = ".tautcache"
CACHE_FROM_BYTES = 64 * 2**20
_MAGIC = b"tautrank parsed data\n"
_VERSION = 1
_SEGMENT = 16 * 2**20
_HEADER_LENGTH_BYTES = 8
_DTYPES = {"labels": "<f4", "run_rows": "<i8", "dense": "<f4", "indptr": "<i8", "indices": "<i4", "values": "<f4"}


@dataclass(frozen=True)
class CacheKey:
    """Which cache file belongs to a text file, and the state of that file it must have been made from."""

    source: Path
    size: int
    mtime_ns: int
    options: str
    jobs: int

    @property
    def path(self) -> Path:
        """The cache file, beside its source."""
        return self.source.with_name(self.source.name + SUFFIX)

    def stamp(self) -> dict[str, Any]:
        """What can be compared without reading the source."""
        return {"version": _VERSION, "size": self.size, "mtime_ns": self.mtime_ns, "options": self.options}


@dataclass
class ParsedArrays:
    """One parsed file: labels; (first row, qid token) wherever the token changes, None where the file has no qid; and,
    for the cache, the features as a flat dense array or as compressed rows."""

    labels: F32
    runs: list[tuple[int, bytes]] | None
    width: int
    dense: F32 | None = None
    indptr: I64 | None = None
    indices: I32 | None = None
    values: F32 | None = None


def key_for(source: Path, options: LetorOptions, wanted: bool | None, jobs: int) -> CacheKey | None:
    """Return the key of `source`'s cache, or None where caching is not wanted or not possible.

    `wanted` None means: for files of at least `CACHE_FROM_BYTES`, unless ``TAUTRANK_CACHE=0`` is set.
    """
    if wanted is False or (wanted is None and os.environ.get("TAUTRANK_CACHE", "") == "0"):
        return None
    try:
        state = source.stat()
    except OSError:
        return None
    if not source.is_file() or (wanted is None and state.st_size < CACHE_FROM_BYTES):
        return None
    described = json.dumps(asdict(options), sort_keys=True)
    return CacheKey(source, state.st_size, state.st_mtime_ns, described, jobs)


def content_hash(key: CacheKey) -> str:
    """SHA-256 over the SHA-256 of each 16 MiB segment, so that the segments can be hashed side by side."""

    def digest(start: int) -> bytes:
        with open(key.source, "rb") as file:
            file.seek(start)
            return hashlib.sha256(file.read(_SEGMENT)).digest()

    with ThreadPoolExecutor(key.jobs) as pool:
        return hashlib.sha256(b"".join(pool.map(digest, range(0, key.size, _SEGMENT)))).hexdigest()


def _checksum(arrays: list[Array]) -> int:
    """CRC-32 of the arrays' bytes: a damaged index must not become a wrong number, or worse."""
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, total)
    return total


def load(key: CacheKey) -> ParsedArrays | None:
    """Return the cached arrays, or None if there are none for exactly this state of the source."""
    try:
        with open(key.path, "rb") as file:
            return _load(key, file)
    except (OSError, ValueError, KeyError, TypeError):
        return None  # unreadable or damaged: as good as absent, and replaced after the next parse


def _load(key: CacheKey, file: BinaryIO) -> ParsedArrays | None:
    if file.read(len(_MAGIC)) != _MAGIC:
        return None
    total = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(_HEADER_LENGTH_BYTES), "little")
    if length > total:
        return None
    header = json.loads(file.read(length))
    if {name: header[name] for name in key.stamp()} != key.stamp():
        return None
    listed = header["arrays"]
    if any(_DTYPES[name] != dtype for name, dtype, _ in listed):
        return None
    expected = file.tell() + sum(np.dtype(dtype).itemsize * count for _, dtype, count in listed)
    if total != expected or header["content"] != content_hash(key):
        return None
    arrays = {name: np.fromfile(file, dtype, count) for name, dtype, count in listed}
    if header["checksum"] != _checksum(list(arrays.values())):
        return None
    tokens = [token.encode("latin-1") for token in header["tokens"]]
    runs = list(zip(arrays.pop("run_rows").tolist(), tokens, strict=True))
    return ParsedArrays(runs=runs or None, width=int(header["width"]), **arrays)


def save(key: CacheKey, parsed: ParsedArrays) -> None:
    """Write the cache; where that is not possible (read-only folder, full disk, changed source), do without it."""
    runs = parsed.runs or []
    run_rows = np.array([row for row, _ in runs], np.int64)
    arrays = {name: run_rows if name == "run_rows" else getattr(parsed, name) for name in _DTYPES}
    present = {name: array for name, array in arrays.items() if array is not None}
    try:
        header = key.stamp() | {
            "content": content_hash(key),
            "width": parsed.width,
            "tokens": [token.decode("latin-1") for _, token in runs],
            "checksum": _checksum(list(present.values())),
            "arrays": [(name, array.dtype.str, array.size) for name, array in present.items()],
        }
        state = key.source.stat()
        if (state.st_size, state.st_mtime_ns) != (key.size, key.mtime_ns):
            return  # rewritten while it was read: the arrays may belong to neither version
        encoded = json.dumps(header).encode()
        with atomic_write(key.path, durable=False) as file:
            file.write(_MAGIC + len(encoded).to_bytes(_HEADER_LENGTH_BYTES, "little") + encoded)
            for array in present.values():
                np.ascontiguousarray(array).tofile(file)
    except (OSError, DataError):
        return
