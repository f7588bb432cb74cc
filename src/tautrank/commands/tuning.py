"""The command `tautrank tune`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from tautrank.commands import options
from tautrank.commands.options import argument, flag, option, several
from tautrank.commands.output import ERR, OUT, print_json, say, show_trainings
from tautrank.commands.training import METRIC, Training
from tautrank.data.text_source import require_files
from tautrank.files import require_writable

if TYPE_CHECKING:
    from tautrank.experiments.tuning import Tuning


_EXIT_CODE_OF_INTERRUPT = 130


@dataclasses.dataclass(frozen=True)
class _Search:
    """The options that say which configurations are tried, and for how long."""

    trials: int = option("Number of configurations to try, including those in the store.", 50)
    space: str = option(
        "Search space: default, trees, stochasticrank, or a JSON file of ranges.", "default"
    )
    sampler: str = option("random, or tpe, which samples near good earlier trials.", "random")
    prune: bool = option("Stop a trial early if it is worse than the others.", True)
    store: Path | None = option(
        "File that stores all trials; running the command again continues from it."
    )
    timeout: float | None = option("Time limit in seconds.")


def tune(
    *,
    data: Path = argument("Training data (LETOR text or a table)."),
    valid: Path = option("Validation data, to choose a configuration by.", ...),
    loss: list[str] | None = several(
        "Loss, or losses to choose from; default lambdarank.", "--loss", "-l"
    ),
    metric: str = METRIC,
    search: _Search,
    model: Path | None = option("File to save the best model in.", None, "--model", "-o"),
    final_fit: str = option(
        "Data for the final training of the best model: train or train+valid.", "train"
    ),
    training: Training,
    workers: int = option("Number of trainings to run in parallel.", 1),
    reader: options.ReaderOptions,
    as_csv: bool = flag("Print all trials as CSV.", "--csv"),
    as_json: bool = options.AS_JSON,
) -> None:
    """Search for the parameters that rank best on validation data. Needs Optuna.

    Example: tautrank tune train.txt --valid vali.txt --loss lambdarank --store tune.db --model
    best.taut
    """
    from tautrank.experiments.search import SearchOptions, declare_search
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import SearchInterrupted, run_search

    require_files(data, valid)
    losses = options.names_of(loss, "--loss") or ["lambdarank"]
    fixed = training.parameters(losses)
    search_options = SearchOptions(
        sampler=search.sampler,
        prune=search.prune,
        n_trials=search.trials,
        timeout=search.timeout,
        seed=training.seed,
        n_jobs=training.jobs,
        workers=workers,
        store=search.store,
        final_fit=final_fit if model is not None else None,
    )
    space = space_named_or_in_file(search.space)
    declared = declare_search(losses, metric, space, fixed, search_options.seed)
    if model is not None:
        require_writable(model)
    (train_part, valid_part), _ = reader.files(data, valid)
    try:
        with show_trainings() as progress:
            result = run_search(declared, search_options, train_part, valid_part, progress)
    except SearchInterrupted as interrupted:
        _print_and_stop(interrupted.result, search.trials, search.store)
    if result.ranker is not None and model is not None:
        result.ranker.save(model)
    if as_json:
        print_json(result.to_dict())
    elif as_csv:
        sys.stdout.write(result.to_csv())
    else:
        _print_result(result)
        from tautrank.experiments.tuning import train_command

        command = train_command(
            result,
            str(data),
            str(valid),
            str(model or "best.taut"),
            **{"import": training.imported, **reader.changed()},
        )
        # One line, to be copied.
        OUT.print(f"The same model: {command}", markup=False, soft_wrap=True)


def _print_result(result: Tuning) -> None:
    """Print the result of a search for parameters: the best trial, a table of all trials, and a
    caution.
    """
    from tautrank.experiments.tuning import best_text

    say(result.note())
    say(f"best: {best_text(result)}")
    OUT.print(result.table())
    n_trials = len(result.trials)
    say(f"The best of {n_trials} scores is too optimistic: judge the model on test data.")


def _print_and_stop(result: Tuning, n_trials: int, store: Path | None) -> NoReturn:
    """Print what an interrupted search for parameters has found so far and how to continue it, and
    end the command with exit code 130 (interrupted).

    Args:
        result: the trials that are finished.
        n_trials: number of trials asked for.
        store: file that keeps the trials; None for none.
    """
    from tautrank.experiments.tuning import best_text

    if result.has_best:
        ERR.print(f"best so far: {best_text(result)}")
        ERR.print(result.table())
    how_to_continue = "nothing is kept (with --store FILE the same command would continue)"
    if store is not None:
        how_to_continue = f"the same command continues from {store}"
    ERR.print(f"stopped after {len(result.trials)} of {n_trials} trials; {how_to_continue}")
    raise typer.Exit(_EXIT_CODE_OF_INTERRUPT) from None
