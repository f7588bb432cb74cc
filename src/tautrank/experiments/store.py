"""The store of a study: one SQLite file that a finished trial enters in one step, and never leaves.

Table ``meta`` holds what the store belongs to (study, version, plan and its hash, tautrank's version, data, command
line), table ``trials`` one row a finished trial. Anyone with SQLite can read it.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import tautrank
from tautrank.errors import DataError
from tautrank.experiments.data_source import DataSource
from tautrank.experiments.plan import StudyPlan, Trial, title_of
from tautrank.experiments.run_lock import RunLock
from tautrank.experiments.trial import DONE, FAILED, Outcome
from tautrank.json_values import canonical

FORMAT = 1
_APPLICATION = 0x74617574  # "taut", which `file` shows too
_SECONDS = 30.0  # to wait for another process's transaction
_SCHEMA = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE trials (
        key TEXT PRIMARY KEY, number INTEGER NOT NULL, spec TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')), result TEXT, error TEXT,
        seconds REAL NOT NULL, host TEXT NOT NULL, finished TEXT NOT NULL
    ) WITHOUT ROWID""",
)


class StudyStore:
    """Finished trials of one plan.

    Args:
        path: the file; None keeps everything in memory, for as long as the object lives.
        connection: to it.
        plan: what it holds the trials of.

    >>> from tautrank.papers.catalogue import find_study
    >>> from tautrank.experiments.plan import make_plan
    >>> from tautrank.papers.study import Budget
    >>> plan = make_plan(find_study("xe-table1"), "simulated:mslr:20,mean_length=5", budget=Budget(trials=1))
    >>> store = StudyStore.open_for(None, plan)
    >>> len(store.waiting())
    3
    """

    def __init__(self, path: Path | None, connection: sqlite3.Connection, plan: StudyPlan) -> None:
        self.path = path
        self.plan = plan
        self._connection = connection

    @classmethod
    def open_for(cls, path: Path | None, plan: StudyPlan, command: str = "") -> StudyStore:
        """Open the store of a plan, or make it; a store of anything else is refused.

        A store of the same plan with fewer trials is that of a run one wants more of: it gets the plan, and keeps what
        it has.

        Args:
            path: the file; None for memory.
            plan: the plan.
            command: the command line, for the record.
        """
        if path is not None and path.exists() and path.stat().st_size:
            store = cls.open(path)
            if _is_more_of(store.plan, plan):
                return store._with_plan(plan)
            if store.plan.key != plan.key:
                difference = _difference(store.plan, plan)
                store.close()
                raise DataError(
                    f"{path}: holds {difference}; expected a store of this run (another --store, or 'tautrank study "
                    "resume' to go on with that one)"
                )
            return store
        if path is not None and not path.parent.is_dir():
            raise DataError(f"{path}: its folder does not exist; expected a folder that does")
        meta = {**_plan_meta(plan), "tautrank": tautrank.__version__, "command": command, "created": _now()}
        connection = _connect(path)
        with _saying(path), _transaction(connection):
            # An empty file may be what a killed process left: it is as good as none, but others may be as quick.
            if not _tables(connection):
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        return cls(path, connection, plan)

    @classmethod
    def open(cls, path: Path, *, data: DataSource | None = None) -> StudyStore:
        """Open an existing store, to read it or to go on.

        Args:
            path: the file.
            data: what to read instead of where the data lay.
        """
        if not path.is_file():
            raise DataError(f"{path}: found no such file; expected the store of a study")
        connection = _connect(path)
        try:
            with _saying(path):
                application = connection.execute("PRAGMA application_id").fetchone()[0]
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if application != _APPLICATION or _tables(connection) != {"meta", "trials"}:
                    raise DataError(f"{path}: is not the store of a study; expected one that 'tautrank study run' made")
                if version != FORMAT:
                    raise DataError(f"{path}: is a store of format {version}; expected {FORMAT}")
                meta = dict(connection.execute("SELECT name, value FROM meta"))
            plain = json.loads(meta["plan"])
            if data is not None:
                plain |= {"data": list(data.given), "fold": data.fold}
            return cls(path, connection, StudyPlan.from_plain(plain))
        except (KeyError, ValueError) as error:
            connection.close()
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path}: lacks what says which study it holds; expected a whole store") from None

    def _with_plan(self, plan: StudyPlan) -> StudyStore:
        changed = {**_plan_meta(plan), "command": self.meta["command"]}
        # A runner that is at work has its own list of trials: it must not be left with half of them.
        with self.running(), _saying(self.path), _transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", changed.items())
        return StudyStore(self.path, self._connection, plan)

    @property
    def meta(self) -> dict[str, str]:
        """What the store says of itself."""
        return dict(self._rows("SELECT name, value FROM meta ORDER BY name"))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Held while trials are run: a second runner is refused, and readers do not wait."""
        if self.path is None:
            yield
            return
        with RunLock(self.path):
            with _saying(self.path):
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            try:
                yield
            finally:
                # Leaves one ordinary file, to be copied and read anywhere; a reader just now keeps the log in use,
                # and then the next run merges it.
                with suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA busy_timeout = 0")
                    self._connection.execute("PRAGMA journal_mode = DELETE")
                with suppress(sqlite3.Error):
                    self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * _SECONDS)}")

    def waiting(self, *, retry_failed: bool = False) -> list[Trial]:
        """The trials of the plan that are not finished, in their order.

        Args:
            retry_failed: count failed ones as not finished.
        """
        kept = (DONE,) if retry_failed else (DONE, FAILED)
        finished = {key for key, status in self._rows("SELECT key, status FROM trials") if status in kept}
        return [trial for trial in self.plan.trials() if trial.key not in finished]

    def counts(self) -> dict[str, int]:
        """How many trials are done, failed, and planned in all."""
        found = dict(self._rows("SELECT status, COUNT(*) FROM trials GROUP BY status"))
        return {DONE: found.get(DONE, 0), FAILED: found.get(FAILED, 0), "planned": self.plan.size}

    def failures(self) -> list[str]:
        """A line for each failed trial: which, and its sentence."""
        rows = self._rows("SELECT spec, error FROM trials WHERE status = 'failed' ORDER BY number")
        return [f"{title_of(json.loads(spec))}: {error}" for spec, error in rows]

    def record(self, trial: Trial, outcome: Outcome) -> bool:
        """Keep a finished trial; whole or not at all, and once: what is done stays as it is.

        Args:
            trial: which.
            outcome: what came of it, ``done`` or ``failed``.

        Returns:
            Whether it was new.
        """
        what = (trial.key, trial.number, canonical(trial.spec), outcome.status)
        row = (*what, outcome.result or None, outcome.error or None, outcome.seconds, outcome.host, _now())
        with _saying(self.path), _transaction(self._connection):
            before = self._connection.execute("SELECT status FROM trials WHERE key = ?", (trial.key,)).fetchone()
            if before is not None and before[0] == DONE:
                return False
            self._connection.execute("INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return True

    def finished(self) -> Iterator[tuple[Trial, Outcome]]:
        """Every finished trial, in the order of the plan."""
        rows = self._rows("SELECT number, key, spec, status, result, error, seconds, host FROM trials ORDER BY number")
        for number, key, spec, status, result, error, seconds, host in rows:
            yield Trial(number, key, json.loads(spec)), Outcome(status, result or "", error or "", seconds, host)

    def _rows(self, query: str) -> Iterator[Any]:
        with _saying(self.path):
            yield from self._connection.execute(query)

    def close(self) -> None:
        """Let go of the file."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def __enter__(self) -> StudyStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _connect(path: Path | None) -> sqlite3.Connection:
    with _saying(path):
        return sqlite3.connect(path or ":memory:", timeout=_SECONDS, isolation_level=None)


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have ended the transaction already.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _saying(path: Path | None) -> Iterator[None]:
    """What SQLite says, in a sentence that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        what = str(error)
        where = str(path) if path else "the store in memory"
        if "full" in what:
            raise DataError(
                f"{where}: the disk is full; expected room for one more trial (every finished trial is kept)"
            ) from None
        if "not a database" in what or "malformed" in what:
            raise DataError(f"{where}: is not a whole SQLite file ({what}); expected the store of a study") from None
        if "locked" in what:
            raise DataError(f"{where}: was in use by another process for {_SECONDS:g} s; expected it free") from None
        raise DataError(f"{where}: cannot be read or written ({what})") from None


def _plan_meta(plan: StudyPlan) -> dict[str, str]:
    return {
        "study": plan.study.name,
        "study_version": str(plan.study.version),
        "plan": canonical(plan.to_plain()),
        "plan_hash": plan.key,
        "data": ", ".join(plan.data.given),
        "data_fingerprint": ", ".join(mark for _, mark in plan.fingerprints),
    }


def _is_more_of(found: StudyPlan, wanted: StudyPlan) -> bool:
    """Whether a plan is another one with more trials: those that are there stay what they are."""
    assert found.budget.trials is not None
    assert wanted.budget.trials is not None
    if found.budget.trials >= wanted.budget.trials or not set(found.fingerprints) <= set(wanted.fingerprints):
        return False
    budget = replace(found.budget, trials=wanted.budget.trials)
    return replace(found, budget=budget, fingerprints=wanted.fingerprints).key == wanted.key


def _difference(found: StudyPlan, wanted: StudyPlan) -> str:
    """What distinguishes the plan a store holds from the one that was asked for, in a few words."""
    if found.study.name != wanted.study.name:
        return f"the study '{found.study.name}', not '{wanted.study.name}'"
    if found.study.version != wanted.study.version:
        return f"version {found.study.version} of '{found.study.name}', not {wanted.study.version}"
    if found.codes != wanted.codes:
        return "trials of a loss whose code has changed since"
    if found.fingerprints != wanted.fingerprints:
        return "trials on other data"
    named = [{**vars(p.budget), "seed": p.seed, "recipe": p.recipe, "n_jobs": p.n_jobs} for p in (found, wanted)]
    for name, old in named[0].items():
        if old != named[1][name]:
            return f"a plan with {name} = {old}, not {named[1][name]}"
    return f"'{found.study.name}' declared otherwise"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
