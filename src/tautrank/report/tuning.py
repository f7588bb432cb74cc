"""The result of a search as people read it: a table of trials, CSV, and the command that trains the
best model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tautrank.engines.langevin import Langevin
from tautrank.experiments.search import PRUNED, TunedTrial, Tuning
from tautrank.experiments.store import DONE, FAILED
from tautrank.report.terminal import command_line
from tautrank.tables import Cell, Column, Table

_SHOWN = 10
# The parameters that are options of `tautrank train`; all others are a --param.
_OPTIONS = {name: name for name in ("loss", "metric", "engine", "learning_rate")}
_OPTIONS |= {"n_estimators": "trees", "num_leaves": "leaves", "random_state": "seed"}


def tables(tuning: Tuning) -> dict[str, Table]:
    """Return the table of the best trials, by its title.

    Args:
        tuning: The search.
    """
    return {"Best trials": _table(tuning, tuning.ranked()[:_SHOWN])}


def reading(tuning: Tuning) -> str:
    """Return how many trials there were, what became of them, and the best score, in one sentence.

    Args:
        tuning: The search.
    """
    states = Counter(trial.state for trial in tuning.trials)
    text = (
        f"{len(tuning.trials)} trials: {states[DONE]} trained to the end, {states[PRUNED]} pruned"
    )
    text += f", {states[FAILED]} failed" if states[FAILED] else ""
    return f"{text}; best validation {tuning.metric} {tuning.best_score:.4f} in trial {tuning.best.number}"


def to_dict(tuning: Tuning) -> dict[str, Any]:
    """Return everything as JSON values.

    Args:
        tuning: The search.
    """
    plan, best = tuning.plan, tuning.best
    plain = json.dumps(
        tuning.best_params, default=lambda v: vars(v) if isinstance(v, Langevin) else str(v)
    )
    found = {
        "metric": str(tuning.metric),
        "sampler": plan.sampler,
        "seed": plan.seed,
        "best_trial": best.number,
    }
    found |= {
        "best_score": best.score,
        "best_configuration": best.configuration,
        "best_params": json.loads(plain),
    }
    trials = [
        {"trial" if name == "number" else name: value for name, value in vars(t).items()}
        for t in tuning.trials
    ]
    return {**found, "trials": trials}


def to_csv(tuning: Tuning) -> str:
    """Return all trials, one line per trial, with every value that was searched.

    Args:
        tuning: The search.
    """
    return _table(tuning, tuning.trials).to_csv()


def train_command(tuning: Tuning, train: str, valid: str, model: str, **options: Any) -> str:
    """Return the `tautrank train` command that trains the best model, for a shell.

    Args:
        tuning: The search.
        train, valid: The files the search was given.
        model: The file to save the model in.
        **options: The options to read the files with, such as `zero_based`.
    """
    chosen, parameters = dict[str, Any](), list[str]()
    for name, value in tuning.best_params.items():
        if isinstance(value, Langevin):
            chosen |= {f"langevin_{strength}": number for strength, number in vars(value).items()}
        elif name in _OPTIONS:
            chosen[_OPTIONS[name]] = value
        elif name not in ("early_stopping_rounds", "verbose", "langevin"):
            parameters.append(f"{name}={_format_exactly(value)}")
    chosen |= {"param": parameters, "early_stopping": 0, "model": model}
    return command_line("tautrank", "train", train, valid=valid, **options, **chosen)


def best_text(tuning: Tuning) -> str:
    """Return the best configuration in one line.

    Args:
        tuning: The search.
    """
    best = tuning.best.configuration
    return " ".join(
        f"{name}={_format(best[name])}" for name in ["loss", *_searched_names([tuning.best])]
    )


def _table(tuning: Tuning, trials: Sequence[TunedTrial]) -> Table:
    names = _searched_names(trials)
    metric, spent = str(tuning.metric), ("trees", "grown", "seconds", "error")
    columns = [
        Column("trial"),
        Column(metric, ("state", metric), high_first=tuning.metric.higher_is_better),
    ]
    columns += [Column("trees", spent), *(Column(name, words=name == "loss") for name in names)]
    rows = []
    for t in trials:
        score = "failed" if t.score is None else f"{t.score:.4f}"
        shown = f"{score} pruned" if t.state == PRUNED else score
        row = [Cell(str(t.number)), Cell(shown, (t.state, t.score))]
        row.append(Cell(str(t.trees), tuple(getattr(t, name) for name in spent)))
        searched = {
            name: Cell(_format(value), (_format_exactly(value),))
            for name, value in t.configuration.items()
        }
        rows.append((*row, *(searched.get(name, Cell("", (None,))) for name in names)))
    return Table(tuple(columns), tuple(rows))


def _searched_names(trials: Sequence[TunedTrial]) -> list[str]:
    """Return the names of what was searched, the loss included if there was a choice."""
    names = {name: None for trial in trials for name in trial.configuration if name != "loss"}
    several = len({trial.configuration["loss"] for trial in trials}) > 1
    return [*(["loss"] if several else []), *sorted(names, key=lambda name: ("." in name, name))]


def _format_exactly(value: Any) -> str:
    """Return a value as `--param` reads it back: JSON, or the text itself."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _format(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else _format_exactly(value)
