"""A search as a person reads it: the best configuration, a table of trials, CSV, plain values, a command line."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rich.console import Console

from tautrank.engines.langevin import Langevin
from tautrank.experiments.tuning_plan import TuningPlan
from tautrank.experiments.tuning_search import SearchInterrupted, best_of, best_parameters
from tautrank.experiments.tuning_trial import DONE, PRUNED, TrialRecord
from tautrank.files import handed_out
from tautrank.metrics import Metric
from tautrank.ranker.estimator import Ranker
from tautrank.report.table import Cell, Column, ReportTable
from tautrank.report.terminal import as_text

_SHOWN = 10
# What `tautrank train` has options for; everything else is a --param.
_OPTIONS = {
    "loss": "--loss",
    "metric": "--metric",
    "n_estimators": "--trees",
    "learning_rate": "--learning-rate",
    "num_leaves": "--leaves",
    "random_state": "--seed",
}


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a search found.

    Args:
        plan: what was searched, and how.
        trials: all that have ended, by number.
        ranker: the best configuration's model; None where none was asked for.
    """

    plan: TuningPlan
    trials: tuple[TrialRecord, ...]
    ranker: Ranker | None = None

    @property
    def metric(self) -> Metric:
        """What was optimised."""
        return self.plan.metric

    @property
    def best(self) -> TrialRecord:
        """The trial with the best validation value."""
        found = best_of(self.plan, list(self.trials))
        assert found is not None, "a search without a trial that is done has no result"
        return found

    @property
    def best_score(self) -> float:
        """The best validation value. It is the best of many, so it flatters: judge the model on test data."""
        assert self.best.outcome.score is not None
        return self.best.outcome.score

    @property
    def best_configuration(self) -> dict[str, Any]:
        """The values that were searched, by their names in the space, and the loss."""
        return _configuration(self.best)

    @property
    def best_params(self) -> dict[str, Any]:
        """What `Ranker` takes to train the best model, what was fixed included."""
        return best_parameters(self.plan, self.best)

    def ranked(self) -> list[TrialRecord]:
        """The trials from the best to the worst; those that were pruned come behind, and then those that failed."""
        sign = -1.0 if self.metric.higher_is_better else 1.0
        states = (DONE, PRUNED)

        def place(record: TrialRecord) -> tuple[int, float, int]:
            state, score = record.outcome.state, record.outcome.score
            return states.index(state) if state in states else 2, sign * (score or 0.0), record.number

        return sorted(self.trials, key=place)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values, ready for JSON."""
        return {
            "metric": str(self.metric),
            "sampler": self.plan.sampler,
            "seed": self.plan.seed,
            "best_trial": self.best.number,
            "best_score": self.best_score,
            "best_configuration": self.best_configuration,
            "best_params": _plain(self.best_params),
            "trials": [
                {
                    "trial": record.number,
                    "state": record.outcome.state,
                    "score": record.outcome.score,
                    "trees": record.outcome.trees,
                    "grown": record.outcome.grown,
                    "seconds": record.outcome.seconds,
                    "configuration": _configuration(record),
                    **({"error": record.outcome.error} if record.outcome.error else {}),
                }
                for record in self.trials
            ],
        }

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """A line a trial: number, state, score, trees, seconds, and every value that was searched.

        Args:
            path: a file to write it to, too.
        """
        names = _searched_names(self.trials)
        titles = ["trial", "state", str(self.metric), "trees", "grown", "seconds", *names, "error"]
        rows = []
        for record in self.trials:
            o, values = record.outcome, _configuration(record)
            searched = [_written(values[name]) if name in values else "" for name in names]
            rows.append([record.number, o.state, o.score, o.trees, o.grown, o.seconds, *searched, o.error])
        return handed_out(ReportTable.of(titles, rows).to_csv(), path)

    def table(self, n: int = _SHOWN, width: int | None = None) -> ReportTable:
        """The best trials as a table that `rich.print` prints.

        Args:
            n: how many.
            width: of the terminal; where a column a parameter does not fit, one column has them all.
        """
        trials = self.ranked()[:n]
        names = _searched_names(trials)
        titles = ["trial", str(self.metric), "trees"]
        rows = [[str(t.number), _scored(t), str(t.outcome.trees)] for t in trials]
        values = [[_short(c[name]) if name in c else "" for name in names] for c in map(_configuration, trials)]
        full = [titles + names, *(a + b for a, b in zip(rows, values, strict=True))]
        if width is not None and sum(2 + max(map(len, column)) for column in zip(*full, strict=True)) > width:
            names, values = ["configuration"], [[_in_a_line(t, names)] for t in trials]
        columns = [Column(title, words=title in ("loss", "configuration")) for title in titles + names]
        cells = (tuple(map(Cell, a + b)) for a, b in zip(rows, values, strict=True))
        return ReportTable(tuple(columns), tuple(cells))

    def best_in_words(self) -> str:
        """The best configuration in a line."""
        return _in_a_line(self.best, ["loss", *_searched_names([self.best])])

    def summary(self) -> str:
        """How many trials there were, and what became of them, in a sentence."""
        counts = {state: sum(t.outcome.state == state for t in self.trials) for state in (DONE, PRUNED)}
        failed = len(self.trials) - sum(counts.values())
        said = f"{len(self.trials)} trials: {counts[DONE]} trained to the end, {counts[PRUNED]} pruned"
        said += f", {failed} failed" if failed else ""
        return f"{said}; best validation {self.metric} {self.best_score:.4f} in trial {self.best.number}"

    def train_command(self, train: str, valid: str, model: str, options: Sequence[str] = ()) -> str:
        """The `tautrank train` that gives the best model, to be typed in a shell.

        Args:
            train, valid: the files the search was given.
            model: where to save the model.
            options: how to read the files, such as ``--zero-based``.
        """
        words = ["tautrank", "train", train, "--valid", valid, *options]
        # The command has other defaults than `Ranker`.
        defaults = {name: value for name, value in Ranker().get_params().items() if name in _OPTIONS}
        for name, value in {**defaults, **self.best_params}.items():
            words += _option(name, value)
        return shlex.join([*words, "--early-stopping", "0", "--model", model])

    def __str__(self) -> str:
        table = self.table()
        return as_text(self.summary(), table, width=max(100, 16 * len(table.columns)))

    __repr__ = __str__


def _searched_names(trials: Sequence[TrialRecord]) -> list[str]:
    """The names of what was searched; the loss among them if there was a choice of it."""
    names = list(dict.fromkeys(name for record in trials for name in record.configuration.values))
    several = len({record.configuration.loss for record in trials}) > 1
    return [*(["loss"] if several else []), *sorted(names, key=lambda name: ("." in name, name))]


def _configuration(record: TrialRecord) -> dict[str, Any]:
    return {"loss": record.configuration.loss, **record.configuration.values}


def _scored(record: TrialRecord) -> str:
    outcome = record.outcome
    score = "failed" if outcome.score is None else f"{outcome.score:.4f}"
    return f"{score} pruned" if outcome.state == PRUNED else score


def _in_a_line(record: TrialRecord, names: Sequence[str]) -> str:
    values = _configuration(record)
    return " ".join(f"{name}={_short(values[name])}" for name in names if name in values)


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, Langevin):
        return [
            *("--langevin-temperature", repr(value.temperature)),
            *("--langevin-shrink-rate", repr(value.shrink_rate)),
        ]
    if name in ("early_stopping_rounds", "verbose", "langevin"):
        return []
    if name in _OPTIONS:
        return [_OPTIONS[name], str(value)]
    return ["--param", f"{name}={_written(value)}"]


def _written(value: Any) -> str:
    """As `--param` reads it back: JSON, or text as it is."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _plain(value: Any) -> Any:
    """As JSON can hold it."""
    return json.loads(json.dumps(value, default=lambda v: asdict(v) if isinstance(v, Langevin) else str(v)))


def _short(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else _written(value)


def print_tuning(console: Console, tuning: Tuning, command: str) -> None:
    """Print what a search found: the best configuration, the best trials, and the command that trains it again.

    Args:
        console: where to.
        tuning: what was found.
        command: see `Tuning.train_command`.
    """
    say = partial(console.print, markup=False, soft_wrap=True)
    say(tuning.summary())
    say(f"best: {tuning.best_in_words()}")
    console.print(tuning.table(width=console.width))
    say(f"A score that is the best of {len(tuning.trials)} flatters: judge the model on test data.")
    say(f"The same model: {command}")


def print_interrupted(
    console: Console, stopped: SearchInterrupted, n_trials: int, storage: str | os.PathLike[str] | None
) -> None:
    """Print what a search had found when it was stopped by hand, and how it goes on.

    Args:
        console: where to.
        stopped: what ended it.
        n_trials: how many trials it was to have.
        storage: where its trials are kept.
    """
    if best_of(stopped.plan, stopped.trials) is not None:
        tuning = Tuning(stopped.plan, tuple(stopped.trials))
        console.print(f"best so far: {tuning.best_in_words()}", markup=False)
        console.print(tuning.table(width=console.width))
    kept = f"the same command goes on from {os.fspath(storage)}" if storage is not None else "nothing is kept"
    hint = "" if storage is not None else " (with --storage FILE the same command would go on)"
    console.print(f"stopped after {len(stopped.trials)} of {n_trials} trials; {kept}{hint}", markup=False)
