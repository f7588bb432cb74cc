"""Where the trials of a search are kept and drawn: an Optuna study, in memory or in a file.

This is the one module that knows Optuna. One process at a time has the file (its worker processes report to it), so
whatever a file calls running when it is opened was interrupted, and is run again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.experiments.configuration import Configuration
from tautrank.experiments.run_lock import RunLock
from tautrank.experiments.space import Choice, Dimension, WholeNumber
from tautrank.experiments.tuning_plan import TuningPlan
from tautrank.experiments.tuning_trial import DONE, FAILED, PRUNED, Outcome, TrialRecord

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial, TrialState

_NAME = "tautrank"
_SPEC, _DRAWN, _OUTCOME = "tautrank", "drawn", "outcome"
_JOURNALS = (".journal", ".jsonl", ".log")
# Of the first trials none is pruned: a median of fewer says little.
_FIRST = 5


def require_optuna() -> None:
    """Say how to install Optuna if it is not there."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MissingDependencyError("tune needs Optuna; install it with: pip install 'tautrank[tune]'") from None


def checked_path(path: str | os.PathLike[str] | None) -> Path | None:
    """A file a search can be kept in, or a sentence that says why not.

    Args:
        path: what the user gave; None is none.

    >>> checked_path("sqlite:///tune.db")
    Traceback (most recent call last):
    tautrank.errors.OptionError: storage: found the address 'sqlite:///tune.db'; expected a file, such as tune.db
    """
    if path is None:
        return None
    if "://" in os.fspath(path):
        raise OptionError(f"storage: found the address '{os.fspath(path)}'; expected a file, such as tune.db")
    found = Path(path)
    if found.is_dir() or not found.absolute().parent.is_dir():
        what = "is a folder" if found.is_dir() else "is in a folder that is not there"
        raise OptionError(f"storage: {found} {what}; expected a file, such as tune.db")
    return found


class TuningStore:
    """The trials of one search; a context manager that holds the file while it is used.

    Args:
        path: a file that is made if it is not there: a journal of text where it ends in ``.journal``, ``.jsonl`` or
            ``.log``, else an SQLite database. None keeps everything in memory.
        plan: the search.
        spec: what its results depend on, in plain values; a file of another search is refused.
    """

    def __init__(self, path: str | os.PathLike[str] | None, plan: TuningPlan, spec: Mapping[str, Any]) -> None:
        require_optuna()
        self._path = checked_path(path)
        self._plan = plan
        self._spec = dict(spec)
        self._exit = contextlib.ExitStack()
        self._study: Study
        self._running: dict[int, Trial] = {}

    def __enter__(self) -> TuningStore:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_silence())
            if self._path is not None:
                stack.enter_context(RunLock(self._path))
            self._study = self._open(stack)
            self._exit = stack.pop_all()
        self._give_up_running()
        return self

    def __exit__(self, *error: Any) -> None:
        self._give_up_running()
        self._exit.close()

    def finished(self) -> list[TrialRecord]:
        """Every trial that has ended, by number; one that was interrupted has not."""
        records = {}
        for trial in self._study.get_trials(deepcopy=False):
            outcome = _outcome(trial)
            if outcome is not None:
                drawn = trial.user_attrs[_DRAWN]
                configuration = Configuration(drawn["loss"], dict(drawn["values"]))
                records[drawn["number"]] = TrialRecord(drawn["number"], configuration, outcome)
        return [records[number] for number in sorted(records)]

    def draw(self, number: int) -> Configuration:
        """Draw the configuration of a trial: by chance, a function of seed and number alone.

        Args:
            number: of the trial, from 0.
        """
        self._study.sampler = _sampler(self._plan.sampler, self._plan.seed, number)
        trial = self._running[number] = self._study.ask()
        loss = self._plan.losses[0]
        if len(self._plan.losses) > 1:
            loss = str(trial.suggest_categorical("loss", self._plan.losses))
        values = {
            name: _suggested(trial, self._plan.key(loss, name), given) for name, given in self._plan.space(loss).items()
        }
        trial.set_user_attr(_DRAWN, {"number": number, "loss": loss, "values": values})
        return Configuration(loss, values)

    def is_hopeless(self, number: int, trees: int, best: float) -> bool:
        """Take note of a trial's best value after some trees; True if others were better by then.

        Args:
            number: of the trial.
            trees: how many it has.
            best: its best validation value so far.
        """
        trial = self._running[number]
        trial.report(best, trees)
        # What is nearly there may as well finish.
        return trees < self._plan.most_trees and trial.should_prune()

    def end(self, number: int, outcome: Outcome) -> None:
        """Keep what came of a trial; an unfinished one counts as not begun.

        Args:
            number: of the trial.
            outcome: of it.
        """
        trial = self._running.pop(number)
        if outcome.state in (DONE, PRUNED, FAILED):
            trial.set_user_attr(_OUTCOME, dataclasses.asdict(outcome))
        if outcome.state == DONE and self._plan.prune:
            # A training that stopped early has found its best: that is its curve from there on.
            assert outcome.score is not None
            for trees in self._plan.checkpoints():
                if trees > outcome.grown:
                    trial.report(outcome.score, trees)
        self._study.tell(trial, outcome.score if outcome.state == DONE else None, _state(outcome))

    def _open(self, stack: contextlib.ExitStack) -> Study:
        import optuna

        storage = None if self._path is None else _storage(self._path, stack)
        direction = "maximize" if self._plan.metric.higher_is_better else "minimize"
        options: dict[str, Any] = {"direction": direction, "pruner": _pruner(self._plan)}
        names = [] if storage is None else [study.study_name for study in storage.get_all_studies()]
        if names and _NAME not in names:
            raise DataError(
                f"{self._path}: holds the Optuna study '{names[0]}'; expected a search of tautrank tune, or a new file"
            )
        study = optuna.create_study(storage=storage, study_name=_NAME, load_if_exists=True, **options)
        found = study.user_attrs.get(_SPEC)
        if found is None:
            study.set_user_attr(_SPEC, self._spec)
        elif found != self._spec:
            raise DataError(f"{self._path}: holds another search, {_difference(found, self._spec)}")
        return study

    def _give_up_running(self) -> None:
        from optuna.trial import TrialState

        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self._study.tell(trial.number, state=TrialState.FAIL)


def _state(outcome: Outcome) -> TrialState:
    from optuna.trial import TrialState

    return {DONE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED}.get(outcome.state, TrialState.FAIL)


def _outcome(trial: FrozenTrial) -> Outcome | None:
    if _DRAWN not in trial.user_attrs or _OUTCOME not in trial.user_attrs:
        return None
    outcome = Outcome(**trial.user_attrs[_OUTCOME])
    # Interrupted after the one was written, before the other, a trial has not ended.
    return outcome if trial.state == _state(outcome) else None


def _suggested(trial: Trial, key: str, given: Dimension) -> Any:
    if isinstance(given, Choice):
        return trial.suggest_categorical(key, given.values)
    if isinstance(given, WholeNumber):
        return trial.suggest_int(key, given.low, given.high, log=given.log)
    return trial.suggest_float(key, given.low, given.high, log=given.log)


def _sampler(name: str, seed: int, number: int) -> Any:
    """A sampler for one trial, so that a search that goes on draws what it would have drawn in one go."""
    import optuna

    own = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
    return optuna.samplers.TPESampler(seed=own) if name == "tpe" else optuna.samplers.RandomSampler(seed=own)


def _pruner(plan: TuningPlan) -> Any:
    import optuna

    if not plan.prune:
        return optuna.pruners.NopPruner()
    return optuna.pruners.MedianPruner(n_startup_trials=_FIRST, n_warmup_steps=plan.warm_up, n_min_trials=_FIRST)


def _storage(path: Path, stack: contextlib.ExitStack) -> BaseStorage:
    import optuna
    from optuna.storages.journal import JournalFileBackend

    if path.suffix.lower() in _JOURNALS:
        _mend(path)
        # No lock: the file is ours already, and one of Optuna's would outlive a killed process.
        unlocked: Any = SimpleNamespace(acquire=lambda: True, release=lambda: None)
        try:
            return optuna.storages.JournalStorage(JournalFileBackend(str(path), lock_obj=unlocked))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise DataError(f"{path}: is no journal of Optuna's; expected a search, or a new file") from None
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import StaticPool

    # An address could not hold every name a file can have. One connection, since Optuna writes often.
    options = {"creator": lambda: _connection(path), "poolclass": StaticPool}
    try:
        storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs=options)
    except (SQLAlchemyError, sqlite3.Error, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"{path}: is no storage of Optuna's ({reason}); expected a search, or a new file") from None
    stack.callback(storage.engine.dispose)
    stack.callback(storage.remove_session)
    return storage


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    # A killed process loses nothing this way either, and writing takes a tenth of the time.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def _mend(path: Path) -> None:
    """Cut off a last line that was torn by the end of its process: what is appended would run into it."""
    if not path.exists():
        return
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(content.rfind(b"\n") + 1)


def _difference(found: Any, expected: Mapping[str, Any]) -> str:
    """Where two specifications part, for a person."""
    if not isinstance(found, dict):
        return "not of tautrank tune's; expected another file"
    for name, value in expected.items():
        old = found.get(name)
        if old != value and name == "data":
            return "of other data; expected the same data, or another file"
        if old != value and isinstance(old, dict) and isinstance(value, dict):
            inner = next(key for key in sorted({*old, *value}) if old.get(key) != value.get(key))
            name, old, value = f"{name} {inner}", old.get(inner), value.get(inner)
        if old != value:
            return f"with {name} {_shown(old)}; found {_shown(value)}, expected the same, or another file"
    return "of another version of tautrank; expected another file"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep Optuna's own talk off the user's screen; what it says to others is left as it was."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
