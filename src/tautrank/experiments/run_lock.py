"""One runner per store: a lock that the operating system releases when its process ends, however it ends."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tautrank.errors import DataError


@contextmanager
def run_lock(store: Path) -> Iterator[None]:
    """Hold the lock of the process that runs trials: a file next to the store, removed when the run ends.

    The file alone means nothing: what counts is the lock on it, which ends with its process, so a file left by a killed
    runner is taken over.

    Args:
        store: the store's file.

    >>> import tempfile
    >>> store = Path(tempfile.mkdtemp()) / "study.db"
    >>> with run_lock(store):
    ...     sorted(p.name for p in store.parent.iterdir())
    ['study.db.lock']
    >>> list(store.parent.iterdir())
    []
    """
    path = _lock_file(store)
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise DataError(f"{path}: cannot be made ({error.strerror})") from None
        if not _locked(descriptor):
            os.close(descriptor)
            owner = owner_of(store)
            who = f" ({owner})" if owner else ""
            raise DataError(f"{store}: found another run of it{who}; expected one at a time")
        # The last owner may have removed the file between our opening and locking it: then it locks nothing.
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                break
        os.close(descriptor)
    try:
        content = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(content).encode())
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def owner_of(store: Path) -> str:
    """Return who is running a store, in words; empty if nobody is, as far as this machine can see.

    Args:
        store: the store's file.

    >>> owner_of(Path("no-such-store.db"))
    ''
    """
    try:
        content = json.loads(_lock_file(store).read_text())
        with suppress(PermissionError):  # somebody else's process, but alive
            if content["host"] == socket.gethostname():
                os.kill(int(content["pid"]), 0)
        return f"process {content['pid']} on {content['host']}, since {content['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _lock_file(store: Path) -> Path:
    return store.with_name(store.name + ".lock")


def _locked(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
