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
        self._kept: dict[str, Any] = {}  # the last one used at the end
        # Trainings run side by side: the first one bins the data, the others wait for it.
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Any], files: Any = None) -> Any:
        """Return binned data, from memory, from a file, or made now.

        Args:
            key: what decides the bins; see `content_key`.
            make: bins the data.
            files: ``write(binned, path)`` and ``read(path)``, whose file names begin with the path;
                None for no files.
        """
        with self._lock:
            if key not in self._kept:
                while len(self._kept) >= _MOST_IN_MEMORY:
                    del self._kept[next(iter(self._kept))]
                folder = None if files is None else self._folder
                self._kept[key] = make() if folder is None else _in_file(folder, key, make, files)
            self._kept[key] = self._kept.pop(key)
            return self._kept[key]


def _in_file(folder: Path, key: str, make: Callable[[], Any], files: Any) -> Any:
    """Return binned data from a file, or made now and written to one."""
    from filelock import FileLock

    path = folder / key
    marker = folder / f"{key}.done"
    with FileLock(folder / f"{key}.lock"):
        if marker.exists():
            # Another process may just have removed it, as too old.
            with contextlib.suppress(Exception):
                return files.read(path)
        binned = make()
        # On a full disk each process bins its own.
        with contextlib.suppress(Exception):
            files.write(binned, path)
            marker.touch()
            _remove_old_files(folder)
        return binned


def _remove_old_files(folder: Path) -> None:
    """Leave the binned data that was written last."""
    newest_last = sorted(folder.glob("*.done"), key=lambda file: file.stat().st_mtime)
    for marker in newest_last[:-_MOST_FILES]:
        for file in folder.glob(f"{marker.stem}*"):
            file.unlink(missing_ok=True)


def content_key(parts: Iterable[RankingData | None], *values: Any) -> str:
    """Return a hash of everything in some data, and of what else decides its bins, 32 hexadecimal
    digits.

    Args:
        parts: the data.
        *values: arrays, and values that print as what they are.
    """
    digest = hashlib.sha256()
    for part in parts:
        if part is None:
            digest.update(b"none")
            continue
        arrays: list[Any] = [part.labels, part.offsets, *_arrays_of(part.X)]
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    for value in values:
        is_array = isinstance(value, np.ndarray)
        digest.update(value.tobytes() if is_array else repr(value).encode())
    return digest.hexdigest()[:32]


def _arrays_of(X: Any) -> list[Array]:
    """Return the arrays that dense or sparse features consist of."""
    return [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]


_bins: ContextVar[Bins | None] = ContextVar("bins", default=None)
_of_folders: dict[str, Bins] = {}


@contextlib.contextmanager
def sharing_bins(folder: str = "") -> Iterator[None]:
    """Within the block, trainings on the same data share its bins, until `forget_bins`.

    Args:
        folder: where processes share them too; empty for this process alone.
    """
    new_bins = Bins(Path(folder) if folder else None)
    token = _bins.set(_of_folders.setdefault(folder, new_bins))
    try:
        yield
    finally:
        _bins.reset(token)


def shared_bins() -> Bins | None:
    """Return the bins that trainings share here; None where each has its own."""
    return _bins.get()


def forget_bins() -> None:
    """Free the memory of all bins that trainings shared."""
    _of_folders.clear()
