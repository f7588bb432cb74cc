"""The command `tautrank tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from tautrank.commands import options
from tautrank.commands.options import argument, option
from tautrank.commands.output import ERR, OUT, print_json, trainings_bar
from tautrank.files import require_writable


@options.takes_groups
def tune(
    *,
    data: Path = argument("Training data (LETOR, Parquet, CSV)."),
    valid: Path = option(..., "Validation data, by which configurations are chosen."),
    loss: list[str] | None = option(
        None, "Loss to optimise, default lambdarank; or several to choose from, separated by commas.", "--loss", "-l"
    ),
    metric: str = options.METRIC,
    trials: int = option(50, "Number of configurations to try, including those in the storage."),
    space: str = option(
        "default", "Search space: default, trees, stochasticrank, or a JSON file of ranges by parameter name."
    ),
    sampler: str = option("random", "random, or tpe, which samples near good earlier trials."),
    prune: bool = option(True, "Stop trials early that are worse than the others.", "--prune/--no-prune"),
    storage: Path | None = option(None, "File that stores all trials; running the command again continues from it."),
    timeout: float | None = option(None, "Time limit in seconds."),
    model: Path | None = option(None, "File to save the best model in.", "--model", "-o"),
    refit: str = option("train", "Data for the final training of the best model: train or train+valid."),
    training: options.Training,
    workers: int = option(1, "Number of trainings to run in parallel."),
    reading: options.Reading,
    as_csv: bool = option(False, "Print all trials as CSV.", "--csv"),
    as_json: bool = options.AS_JSON,
) -> None:
    """Search for the parameters that rank best on validation data and train the best model. Needs Optuna.

    Example: [bold]tautrank tune train.txt --valid vali.txt --loss lambdarank --storage tune.db --model best.taut[/bold]
    """
    from tautrank.experiments.search_plan import plan_search
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import SearchInterrupted, run_search
    from tautrank.report.tuning import print_interrupted, print_tuning, train_command

    losses = options.names_of(loss, "--loss") or ["lambdarank"]
    fixed = training.parameters(losses)
    how: dict[str, Any] = {"sampler": sampler, "prune": prune, "n_trials": trials, "timeout": timeout}
    how |= {"seed": training.seed, "n_jobs": training.jobs, "workers": workers, "storage": storage}
    how["refit"] = refit if model is not None else None
    plan = plan_search(losses, metric, space_named_or_in_file(space), fixed, **how)
    if model is not None:
        require_writable(model)
    train_part, valid_part = reading.files(data, valid)
    try:
        with trainings_bar() as progress:
            result = run_search(plan, train_part, valid_part, progress)
    except SearchInterrupted as stopped:
        print_interrupted(ERR, stopped.result)
        raise typer.Exit(130) from None
    if result.ranker is not None and model is not None:
        result.ranker.save(model)
    if as_json:
        print_json(result.to_dict())
    elif as_csv:
        sys.stdout.write(result.to_csv())
    else:
        again = [word for source in training.imported or [] for word in ("--import", source)] + reading.as_typed()
        print_tuning(OUT, result, train_command(result, str(data), str(valid), str(model or "best.taut"), again))
