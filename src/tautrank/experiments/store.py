"""The store of finished trials: one SQLite file that a trial enters in one step, by the hash of its
specification.

Table ``meta`` says what the file belongs to, table ``trials`` has one row per finished trial.
Anyone with SQLite can read it. Comparisons, searches and studies all use it. One process at a time
runs trials: it holds a lock that the operating system releases when its process ends, however it
ends.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tautrank
from tautrank.errors import DataError
from tautrank.json_values import canonical

_AnyStore = TypeVar("_AnyStore", bound="Store")
DONE, FAILED, IMPOSSIBLE = "done", "failed", "impossible"

FORMAT = 1
_APPLICATION = 0x74617574  # "taut", which `file` shows too
_HINT_ABOUT_OLD_FILES = "(a search that version 0.1.0 stored has to start again in another file)"
_SECONDS_TO_WAIT = 30.0  # for another process's transaction
_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE trials (
        key TEXT PRIMARY KEY, number INTEGER NOT NULL, spec TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')), result TEXT, error TEXT,
        seconds REAL NOT NULL, host TEXT NOT NULL, finished TEXT NOT NULL
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {FORMAT}",
)

_INSERT_TRIAL = """INSERT OR REPLACE INTO trials SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?
    WHERE NOT EXISTS (SELECT 1 FROM trials WHERE key = ? AND status = 'done')"""


@dataclass(frozen=True)
class Trial:
    """Something to run once.

    Args:
        number: its place in the plan.
        key: the hash of the specification: trials with the same key have the same result.
        spec: everything the result depends on, as plain values.
        title: a few words to show while it runs.
    """

    number: int
    key: str
    spec: dict[str, Any]
    title: str = ""


@dataclass(frozen=True)
class TrialOutcome:
    """What became of a trial.

    Args:
        status: ``done``; ``failed`` if the trial itself raised an error; ``impossible`` if this
            machine cannot run it (no data, other data, another version), which says nothing about
            the trial.
        result: JSON text, if it is done.
        error: one sentence, if it is not.
        seconds: how long it took.
        host: the machine it ran on.
        is_option: whether the error is an `OptionError`, about what the user asked for.
    """

    status: str
    result: str = ""
    error: str = ""
    seconds: float = 0.0
    host: str = ""
    is_option: bool = False


class Store:
    """Finished trials by the hash of their specification.

    Args:
        path: the file, made if it does not exist; None keeps everything in memory for as long as
            the object lives.
        meta: what a new file says about itself; the version of tautrank and the date are added.
        kind: what its trials belong to; a file of another kind is refused.

    >>> store = Store(None)
    >>> store.record(Trial(0, "a1", {"seed": 1}), TrialOutcome("done", result='{"score": 0.5}'))
    True
    >>> store.statuses()
    {'a1': 'done'}
    """

    def __init__(
        self, path: Path | None, meta: Mapping[str, str] | None = None, *, kind: str = ""
    ) -> None:
        self.path = path
        if path is not None:
            _check_path(path)
        # No path: a store in memory. An empty file may be one that the caller made.
        is_new = path is None or not path.exists() or path.stat().st_size == 0
        with _sqlite_errors_naming(path):
            self._connection = sqlite3.connect(
                path or ":memory:",
                timeout=_SECONDS_TO_WAIT,  # for a file that another process has locked
                isolation_level=None,  # begin no transactions but those that are asked for
            )
        try:
            if is_new:
                origin = {"kind": kind, "tautrank": tautrank.__version__, "created": _now()}
                self._create_tables({**(meta or {}), **origin})
            self._check_format_and_kind(kind)
        except DataError:
            self.close()
            raise

    def _create_tables(self, meta: Mapping[str, str]) -> None:
        """Write the tables of a new store, and what it says about itself, in one transaction.

        Args:
            meta: the values of the table ``meta`` by name, such as the version of tautrank.
        """
        with _sqlite_errors_naming(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            # Another process may have written the tables since the file was found to be empty.
            if self._pragma("application_id") == _APPLICATION:
                return
            for statement in _SCHEMA:
                self._connection.execute(statement)
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())

    def _check_format_and_kind(self, kind: str) -> None:
        """Raise an error unless the file is a store of trials, in the format of this version and of
        the wanted kind.

        Args:
            kind: ``"search"``, ``"study"``, ...; empty for a store of any kind.
        """
        with _sqlite_errors_naming(self.path):
            # SQLite files carry the number of the program that made them.
            if self._pragma("application_id") != _APPLICATION:
                raise DataError(
                    f"{self.path}: is not a store of trials;"
                    f" expected one that tautrank made {_HINT_ABOUT_OLD_FILES}"
                )
            # Each format of the tables has a number.
            version = self._pragma("user_version")
            if version != FORMAT:
                raise DataError(f"{self.path}: is a store of format {version}; expected {FORMAT}")

        # Old stores of studies name their study, but no kind.
        meta = self.meta
        default_kind = "study" if "study" in meta else ""
        stored_kind = meta.get("kind", default_kind)
        if kind and stored_kind != kind:
            raise DataError(
                f"{self.path}: is the store of a {stored_kind or 'different kind'};"
                f" expected one of a {kind}"
            )

    def _pragma(self, name: str) -> Any:
        """Return the value of one of SQLite's pragmas, its settings of a file."""
        (value,) = self._connection.execute(f"PRAGMA {name}").fetchone()
        return value

    @property
    def meta(self) -> dict[str, str]:
        """What the store says about itself."""
        return dict(self._rows("SELECT name, value FROM meta ORDER BY name"))

    def set_meta(self, meta: Mapping[str, str]) -> None:
        """Change what the store says about itself; refused while another process runs its trials.

        Args:
            meta: the values to set, by name.
        """
        with self.running(), _sqlite_errors_naming(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the store while trials are run in this block: a second process that wants to run
        trials is refused, while others can read the store without waiting.

        Meanwhile SQLite writes to a log beside the file (its WAL mode).
        """
        if self.path is None:
            yield
            return
        with run_lock(self.path):
            with _sqlite_errors_naming(self.path):
                # Readers see the file as it was while the log grows; FULL: survives a loss of
                # power.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            try:
                yield
            finally:
                self._merge_log()

    def _merge_log(self) -> None:
        """Merge SQLite's log into the file, so that one ordinary file is left, to be copied and read
        anywhere.

        If another process is just reading, the log stays, and the next run merges it.
        """
        with suppress(sqlite3.Error):
            # Do not wait for readers; the error that follows is ignored.
            self._connection.execute("PRAGMA busy_timeout = 0")
            self._connection.execute("PRAGMA journal_mode = DELETE")
        milliseconds = int(1000 * _SECONDS_TO_WAIT)
        with suppress(sqlite3.Error):
            self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")

    def statuses(self) -> dict[str, str]:
        """The status of every finished trial, by its key."""
        return dict(self._rows("SELECT key, status FROM trials"))

    def record(self, trial: Trial, outcome: TrialOutcome) -> bool:
        """Store a finished trial, in one step; a trial that is done already stays as it is.

        Args:
            trial: the trial.
            outcome: its outcome, ``done`` or ``failed``.

        Returns:
            Whether it was new.
        """
        row = (
            trial.key,
            trial.number,
            canonical(trial.spec),
            outcome.status,
            # An empty text is stored as NULL.
            outcome.result or None,
            outcome.error or None,
            outcome.seconds,
            outcome.host,
            _now(),
        )
        # The statement has the key once more, to leave a trial alone that is done already.
        values = (*row, trial.key)
        with _sqlite_errors_naming(self.path):
            cursor = self._connection.execute(_INSERT_TRIAL, values)
            # The number of rows that were written: 0 if the trial was done already.
            return cursor.rowcount > 0

    def finished(self) -> Iterator[tuple[Trial, TrialOutcome]]:
        """Every finished trial, in the order of its number."""
        query = (
            "SELECT number, key, spec, status, result, error, seconds, host"
            " FROM trials ORDER BY number"
        )
        for number, key, spec, status, result, error, seconds, host in self._rows(query):
            trial = Trial(number, key, json.loads(spec))
            # A result or an error that there was not is stored as NULL.
            yield trial, TrialOutcome(status, result or "", error or "", seconds, host)

    def _rows(self, query: str) -> Iterator[Any]:
        """Yield the rows that an SQL query selects."""
        with _sqlite_errors_naming(self.path):
            yield from self._connection.execute(query)

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def __enter__(self: _AnyStore) -> _AnyStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _check_path(path: Path) -> None:
    """Raise an error if the path of a store is a folder, or lies in a folder that does not exist."""
    if path.is_dir():
        raise DataError(
            f"{path}: found a folder, as earlier versions kept finished trainings in;"
            " expected a file, such as tautrank-results.db"
        )
    if not path.parent.is_dir():
        raise DataError(f"{path}: its folder does not exist; expected a folder that does")


@contextmanager
def _sqlite_errors_naming(path: Path | None) -> Iterator[None]:
    """Turn the errors that SQLite raises in this block into a `DataError` that names the file.

    Args:
        path: the file; None for a store in memory.
    """
    try:
        yield
    except sqlite3.Error as error:
        explanation = _explain_sqlite_message(str(error))
        raise DataError(f"{path or 'the store in memory'}: {explanation}") from None


def _explain_sqlite_message(message: str) -> str:
    """Return what an error message of SQLite means for the user, such as a full disk."""
    if "full" in message:
        return "the disk is full; expected room for one more trial (every finished trial is kept)"
    if "not a database" in message or "malformed" in message:
        return (
            f"is not a whole SQLite file ({message});"
            f" expected a store of trials {_HINT_ABOUT_OLD_FILES}"
        )
    if "locked" in message:
        return f"was in use by another process for {_SECONDS_TO_WAIT:g} s; expected it free"
    return f"cannot be read or written ({message})"


def _now() -> str:
    """Return the local date and time as text, with its distance from UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


@contextmanager
def run_lock(store: Path) -> Iterator[None]:
    """Hold the lock of the process that runs trials: a file next to the store, removed when the run
    ends.

    The file alone means nothing: what counts is the lock on it, which ends with its process, so a
    file left by a killed runner is taken over.

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
    from filelock import FileLock, Timeout  # takes longer to import than a command to start

    path = _lock_file(store)
    # 0: do not wait for the other run to end.
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        owner = owner_of(store) or "of a process unknown"
        raise DataError(
            f"{store}: found another run of it ({owner}); expected one at a time"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be made ({error.strerror})") from None
    owner_now = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    try:
        # Only a courtesy to others: Windows may refuse to write to a locked file.
        with suppress(OSError):
            path.write_text(json.dumps(owner_now))
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def owner_of(store: Path) -> str:
    """Return which process runs trials of a store, in words; empty if none does, as far as this
    machine can see.

    Args:
        store: the store's file.

    >>> owner_of(Path("no-such-store.db"))
    ''
    """
    try:
        owner = json.loads(_lock_file(store).read_text())
        with suppress(PermissionError):  # somebody else's process, but alive
            if owner["host"] == socket.gethostname():
                # Signal 0 does nothing, but raises an OSError if there is no such process.
                os.kill(int(owner["pid"]), 0)
        return f"process {owner['pid']} on {owner['host']}, since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        # No file, or one that a process left half-written.
        return ""


def _lock_file(store: Path) -> Path:
    """Return the path of the lock next to the file of a store."""
    return store.with_name(store.name + ".lock")
