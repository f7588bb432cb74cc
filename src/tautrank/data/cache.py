"""Keep parsed text next to large files, so that the second read takes as long as reading the
arrays.

A cache file is safe to delete at any time, is replaced in one step, and is used only while it was
made by this format version, with the same options, from a file of the same size, modification time
and content (SHA-256 over its segments). It is a NumPy ``.npz`` file of plain arrays with checksums:
loading it executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.data.letor_options import LetorOptions
from tautrank.data.parsed_files import ParsedArrays
from tautrank.data.text_source import file_size
from tautrank.errors import DataError
from tautrank.files import atomic_write

SUFFIX = ".tautcache"
CACHE_FROM_BYTES = 64 * 2**20
_VERSION = 3
_SEGMENT_BYTES = 16 * 2**20


def stamp_of(source: Path, options: LetorOptions, keep: bool | None) -> dict[str, Any] | None:
    """Return the stamp of a text file, by which a stored copy of its parsed arrays (the cache) is
    recognised as still valid: version, reading options, size and time; None if the file is not to
    be cached.

    Args:
        source: the text file.
        options: how it is read.
        keep: whether a cache is wanted; None for files of at least `CACHE_FROM_BYTES`, unless
            ``TAUTRANK_CACHE=0`` is set.
    """
    if keep is None:
        is_large = file_size(source) >= CACHE_FROM_BYTES
        keep = is_large and os.environ.get("TAUTRANK_CACHE", "") != "0"
    if not keep or not os.path.isfile(source):
        return None
    return {
        "version": _VERSION,
        "options": json.dumps(asdict(options), sort_keys=True),
        **_size_and_time(source),
    }


def load(source: Path, stamp: dict[str, Any], jobs: int) -> ParsedArrays | None:
    """Return the parsed arrays that the cache file of a text file holds; None if the cache is
    missing, damaged, or made from another version of the text.

    Args:
        source: the text file.
        stamp: what `stamp_of` returns.
        jobs: number of threads to hash the file with.
    """
    try:
        with np.load(_cache_path(source), allow_pickle=False) as stored:
            header = json.loads(stored["header"].tobytes())
            # The hash reads the whole text, so it is asked for last.
            if header["stamp"] != stamp:
                return None
            if header["content"] != _content_hash(source, jobs):
                return None
            arrays = {name: stored[name] for name in stored.files if name != "header"}
        return ParsedArrays(
            labels=arrays["labels"],
            starts=arrays["starts"],
            # Query ids are bytes; Latin-1 stands for each byte by one character of JSON text.
            tokens=[token.encode("latin-1") for token in header["tokens"]],
            width=header["width"],
            ids=arrays.get("ids"),
            X=_features_of_arrays(arrays, header["width"]),
        )
    except Exception:
        # Unreadable or damaged in any way: as good as absent, and replaced after the next parse.
        return None


def save(source: Path, stamp: dict[str, Any], jobs: int, parsed: ParsedArrays) -> None:
    """Write the cache of a parsed text file: a header with stamp and content hash, and the arrays.

    Where that fails (read-only folder, full disk, changed source), there is no cache and no error.

    Args:
        source: the text file.
        stamp: what `stamp_of` returns.
        jobs: number of threads to hash the file with.
        parsed: what was found in the file.
    """
    try:
        header = {
            "stamp": stamp,
            "content": _content_hash(source, jobs),
            "width": parsed.width,
            # Query ids are bytes; Latin-1 stands for each byte by one character of JSON text.
            "tokens": [token.decode("latin-1") for token in parsed.tokens],
        }
        has_changed = any(stamp[name] != value for name, value in _size_and_time(source).items())
        if has_changed:
            return  # rewritten while it was read: the arrays may belong to neither version
        arrays: dict[str, Any] = {"labels": parsed.labels, "starts": parsed.starts}
        arrays |= _arrays_of_features(parsed.X)
        if parsed.ids is not None:
            arrays["ids"] = parsed.ids
        # The .npz file holds arrays only, so the header is stored as an array of bytes.
        header_bytes = json.dumps(header).encode()
        arrays["header"] = np.frombuffer(header_bytes, np.uint8)
        with atomic_write(_cache_path(source), durable=False) as file:
            np.savez(file, **arrays)
    except (OSError, DataError):
        return


def _cache_path(source: Path) -> Path:
    """Return the path of the cache of a file."""
    return source.with_name(source.name + SUFFIX)


def _size_and_time(source: Path) -> dict[str, int]:
    """Return the size and the time of the last change of a file."""
    status = source.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _content_hash(source: Path, jobs: int) -> str:
    """Return a hash of a file's content: the SHA-256 of its segments' SHA-256 digests.

    Segments of 16 MiB are hashed in parallel by `jobs` threads.
    """

    def hash_segment(start: int) -> bytes:
        with open(source, "rb") as file:
            file.seek(start)
            segment = file.read(_SEGMENT_BYTES)
        return hashlib.sha256(segment).digest()

    starts = range(0, file_size(source), _SEGMENT_BYTES)
    with ThreadPoolExecutor(jobs) as pool:
        digests = b"".join(pool.map(hash_segment, starts))
    return hashlib.sha256(digests).hexdigest()


def _arrays_of_features(X: Any) -> dict[str, Array]:
    """Return features, dense or CSR, as arrays to store."""
    if isinstance(X, np.ndarray):
        return {"dense": X}
    return {"indptr": X.indptr, "indices": X.indices, "values": X.data}


def _features_of_arrays(arrays: dict[str, Array], width: int) -> Any:
    """Return features that were stored as flat arrays as a matrix: dense, or CSR (SciPy's
    compressed sparse rows).

    Args:
        arrays: the stored arrays by name: the entries of a dense matrix, or the three of CSR.
        width: number of columns.
    """
    shape = arrays["labels"].size, width
    if "dense" in arrays:
        return arrays["dense"].reshape(shape)
    from scipy.sparse import csr_matrix

    return csr_matrix((arrays["values"], arrays["indices"], arrays["indptr"]), shape)
