"""One runner per store: a lock that the operating system releases when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from tautrank.errors import DataError


class RunLock:
    """A lock held by the process that runs trials: a file next to the store, removed when the run ends.

    The file alone means nothing: what counts is the lock on it, which ends with its process, so a file left by a killed
    runner is taken over.

    Args:
        store: the store's file.

    >>> import tempfile
    >>> store = Path(tempfile.mkdtemp()) / "study.db"
    >>> with RunLock(store):
    ...     sorted(p.name for p in store.parent.iterdir())
    ['study.db.lock']
    >>> list(store.parent.iterdir())
    []
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._path = store.with_name(store.name + ".lock")
        self._descriptor: int | None = None

    def __enter__(self) -> RunLock:
        while True:
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise DataError(f"{self._path}: cannot be made ({error.strerror})") from None
            if not _locked(descriptor):
                os.close(descriptor)
                owner = owner_of(self._store)
                who = f" ({owner})" if owner else ""
                raise DataError(f"{self._store}: found another run of it{who}; expected one at a time")
            # The last owner may have removed the file between our opening and locking it: then it locks nothing.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    break
            os.close(descriptor)
        content = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(content).encode())
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: Any) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._descriptor)
            self._descriptor = None


def owner_of(store: Path) -> str:
    """Return who is running a store, in words; empty if nobody is, as far as this machine can see.

    Args:
        store: the store's file.

    >>> owner_of(Path("no-such-store.db"))
    ''
    """
    try:
        content = json.loads(store.with_name(store.name + ".lock").read_text())
        if content["host"] == socket.gethostname():
            os.kill(int(content["pid"]), 0)
    except PermissionError:  # somebody else's process, but alive
        pass
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f"process {content['pid']} on {content['host']}, since {content['since']}"


def _locked(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
