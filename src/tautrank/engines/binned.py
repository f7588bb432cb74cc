"""Binned data for several trainings on the same data: kept in memory, and in files for other
processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.data import RankingData

_MOST_IN_MEMORY = 2
_MOST_FILES = 8


class Bins:
    """The binned data of the last trainings, for the next ones on the same data.

    Args:
        folder: where binned data is kept for other processes; None for nowhere.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._in_memory: dict[str, Any] = {}  # by key, the last one used at the end
        # Trainings run side by side: the first one bins the data, the others wait for it.
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Any], files: Any = None) -> Any:
        """Return the binned data of a key, from memory or a file where it is there, or else made
        now.

        What was used last stays in memory; what was not used for the longest time is dropped.

        Args:
            key: a text that is the same for the same bins; see `content_key`.
            make: bins the data.
            files: an object with ``write(binned, path)`` and ``read(path)``, whose file names begin
                with the path; None for no files.
        """
        with self._lock:
            if key in self._in_memory:
                binned = self._in_memory.pop(key)
            else:
                # Memory is freed before the new data is made. The dictionary keeps the order of
                # last use, since whatever is asked for is taken out and put in again at the end.
                while len(self._in_memory) >= _MOST_IN_MEMORY:
                    least_recent_key = next(iter(self._in_memory))
                    del self._in_memory[least_recent_key]
                if files is None or self._folder is None:
                    binned = make()
                else:
                    binned = _read_or_make(self._folder, key, make, files)
            self._in_memory[key] = binned
            return binned


def _read_or_make(folder: Path, key: str, make: Callable[[], Any], files: Any) -> Any:
    """Return the binned data that files in a folder hold; or make it, and write it there for other
    processes.

    A file that ends in ``.done`` says that the data has been written. A lock lets one process make
    the data while others wait for it.

    Args:
        folder: where the files are.
        key: how the names of the files begin.
        make: bins the data.
        files: an object with ``write(binned, path)`` and ``read(path)``.
    """
    from filelock import FileLock

    path = folder / key
    marker = folder / f"{key}.done"
    with FileLock(folder / f"{key}.lock"):
        if marker.exists():
            # Another process may just have removed the data, as too old: reading then fails, and
            # the data is made again below.
            with contextlib.suppress(Exception):
                return files.read(path)
        binned = make()
        # Files only save time: where they cannot be written (a full disk), the error is ignored.
        with contextlib.suppress(Exception):
            files.write(binned, path)
            marker.touch()
            _remove_old_files(folder)
        return binned


def _remove_old_files(folder: Path) -> None:
    """Remove the files of binned data from a folder, but keep the newest `_MOST_FILES` of them.

    Each binned data set has a marker file ``KEY.done``, written last, whose time says how old it is.
    """
    markers = sorted(folder.glob("*.done"), key=lambda file: file.stat().st_mtime)
    old_markers = markers[:-_MOST_FILES]
    for marker in old_markers:
        # The names of the data's files begin with the same key.
        for file in folder.glob(f"{marker.stem}*"):
            file.unlink(missing_ok=True)


def content_key(parts: Iterable[RankingData | None], *values: Any) -> str:
    """Return a text that is the same for the same data and options of binning: a hash of 32
    hexadecimal digits.

    Args:
        parts: training and validation data; None for none.
        *values: what else the bins depend on: arrays, and values whose ``repr`` says what they are.
    """
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
            continue
        arrays: list[Any] = [part.labels, part.offsets, *_arrays_of(part.X)]
        for array in arrays:
            # Type and shape too: arrays may differ in them and have the same bytes.
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            # The bytes of the array, hashed where they are, without a copy.
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(value.tobytes())
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()[:32]


def _arrays_of(X: Any) -> list[Array]:
    """Return the arrays that features consist of: one if they are dense, three if they are sparse
    (compressed rows).
    """
    if isinstance(X, np.ndarray):
        return [X]
    return [X.data, X.indices, X.indptr]


_current_bins: ContextVar[Bins | None] = ContextVar("bins", default=None)
_bins_by_folder: dict[str, Bins] = {}


@contextlib.contextmanager
def sharing_bins(folder: str = "") -> Iterator[None]:
    """Let trainings within a ``with`` block share binned data, so that the same data is binned once.

    Binned data stays in memory after the block, until `forget_bins`.

    Args:
        folder: where processes share binned data too; empty for this process alone.
    """
    new_bins = Bins(Path(folder) if folder else None)
    bins = _bins_by_folder.setdefault(folder, new_bins)
    # A context variable says which bins trainings share; the token restores what it was before.
    token = _current_bins.set(bins)
    try:
        yield
    finally:
        _current_bins.reset(token)


def shared_bins() -> Bins | None:
    """Return the bins that trainings share within `sharing_bins`; None outside of it, where each
    bins its own data.
    """
    return _current_bins.get()


def forget_bins() -> None:
    """Free the memory of all bins that trainings shared."""
    _bins_by_folder.clear()
