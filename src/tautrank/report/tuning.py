"""The result of a search as a person reads it: a table of trials, CSV, and the command that trains the best model."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console

from tautrank.engines.langevin import Langevin
from tautrank.experiments.propose import DONE, FAILED, PRUNED
from tautrank.experiments.tune import TunedTrial, Tuning
from tautrank.files import handed_out
from tautrank.report.table import Cell, Column, ReportTable
from tautrank.report.terminal import as_text

# The parameters that are options of `tautrank train`; all others are a --param.
_OPTIONS = {
    "loss": "--loss",
    "engine": "--engine",
    "metric": "--metric",
    "n_estimators": "--trees",
    "learning_rate": "--learning-rate",
    "num_leaves": "--leaves",
    "random_state": "--seed",
}


def trials_csv(tuning: Tuning, path: str | os.PathLike[str] | None = None) -> str:
    """Return all trials as CSV: number, state, score, trees, seconds, and every value that was searched.

    Args:
        tuning: The search.
        path: A file to write to as well.
    """
    names = _searched_names(tuning.trials)
    titles = ["trial", "state", str(tuning.metric), "trees", "grown", "seconds", *names, "error"]
    rows = []
    for t in tuning.trials:
        searched = [_format_full(t.configuration[name]) if name in t.configuration else "" for name in names]
        rows.append([t.number, t.state, t.score, t.trees, t.grown, t.seconds, *searched, t.error])
    return handed_out(ReportTable.of(titles, rows).to_csv(), path)


def trials_table(tuning: Tuning, n: int = 10, width: int | None = None) -> ReportTable:
    """Return the best trials as a table.

    Args:
        tuning: The search.
        n: The number of trials.
        width: The width of the terminal; if one column per parameter does not fit, one column has them all.
    """
    trials = tuning.ranked()[:n]
    names = _searched_names(trials)
    titles = ["trial", str(tuning.metric), "trees"]
    rows = [[str(t.number), _format_score(t), str(t.trees)] for t in trials]
    values = [
        [_format_short(c[name]) if name in c else "" for name in names] for c in (t.configuration for t in trials)
    ]
    full = [titles + names, *(a + b for a, b in zip(rows, values, strict=True))]
    if width is not None and sum(2 + max(map(len, column)) for column in zip(*full, strict=True)) > width:
        names, values = ["configuration"], [[_format_configuration(t, names)] for t in trials]
    columns = [Column(title, words=title in ("loss", "configuration")) for title in titles + names]
    cells = (tuple(map(Cell, a + b)) for a, b in zip(rows, values, strict=True))
    return ReportTable(tuple(columns), tuple(cells))


def tuning_text(tuning: Tuning) -> str:
    """Return the summary and the table as text."""
    table = trials_table(tuning)
    return as_text(_summary(tuning), table, width=max(100, 16 * len(table.columns)))


def train_command(tuning: Tuning, train: str, valid: str, model: str, options: Sequence[str] = ()) -> str:
    """Return the `tautrank train` command that trains the best model, for a shell.

    Args:
        tuning: The search.
        train, valid: The files the search was given.
        model: The file to save the model in.
        options: The options to read the files with, such as ``--zero-based``.
    """
    words = ["tautrank", "train", train, "--valid", valid, *options]
    for name, value in tuning.best_params.items():
        words += _option(name, value)
    return shlex.join([*words, "--early-stopping", "0", "--model", model])


def print_tuning(console: Console, tuning: Tuning, command: str) -> None:
    """Print the best configuration, the best trials, and the command that trains the best model.

    Args:
        console: The console.
        tuning: The search.
        command: The result of `train_command`.
    """
    say = partial(console.print, markup=False, soft_wrap=True)
    say(_summary(tuning))
    say(f"best: {_format_best(tuning)}")
    console.print(trials_table(tuning, width=console.width))
    say(f"The best of {len(tuning.trials)} scores is too optimistic: judge the model on test data.")
    say(f"The same model: {command}")


def print_interrupted(console: Console, tuning: Tuning) -> None:
    """Print what a search had found when it was stopped by hand, and how to continue it.

    Args:
        console: The console.
        tuning: The search with the trials that had ended.
    """
    if tuning.has_best:
        console.print(f"best so far: {_format_best(tuning)}", markup=False)
        console.print(trials_table(tuning, width=console.width))
    how = "nothing is kept (with --storage FILE the same command would continue)"
    if tuning.plan.storage is not None:
        how = f"the same command continues from {os.fspath(tuning.plan.storage)}"
    console.print(f"stopped after {len(tuning.trials)} of {tuning.plan.n_trials} trials; {how}", markup=False)


def _summary(tuning: Tuning) -> str:
    states = Counter(trial.state for trial in tuning.trials)
    text = f"{len(tuning.trials)} trials: {states[DONE]} trained to the end, {states[PRUNED]} pruned"
    text += f", {states[FAILED]} failed" if states[FAILED] else ""
    return f"{text}; best validation {tuning.metric} {tuning.best_score:.4f} in trial {tuning.best.number}"


def _searched_names(trials: Sequence[TunedTrial]) -> list[str]:
    """Return the names of what was searched, the loss included if there was a choice."""
    names = {name: None for trial in trials for name in trial.configuration if name != "loss"}
    several = len({trial.configuration["loss"] for trial in trials}) > 1
    return [*(["loss"] if several else []), *sorted(names, key=lambda name: ("." in name, name))]


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, Langevin):
        temperature, shrink_rate = repr(value.temperature), repr(value.shrink_rate)
        return ["--langevin-temperature", temperature, "--langevin-shrink-rate", shrink_rate]
    if name in ("early_stopping_rounds", "verbose", "langevin"):
        return []
    if name in _OPTIONS:
        return [_OPTIONS[name], str(value)]
    return ["--param", f"{name}={_format_full(value)}"]


def _format_best(tuning: Tuning) -> str:
    return _format_configuration(tuning.best, ["loss", *_searched_names([tuning.best])])


def _format_configuration(trial: TunedTrial, names: Sequence[str]) -> str:
    values = trial.configuration
    return " ".join(f"{name}={_format_short(values[name])}" for name in names if name in values)


def _format_score(trial: TunedTrial) -> str:
    score = "failed" if trial.score is None else f"{trial.score:.4f}"
    return f"{score} pruned" if trial.state == PRUNED else score


def _format_full(value: Any) -> str:
    """Return a value as `--param` reads it back: JSON, or the text itself."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _format_short(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else _format_full(value)
