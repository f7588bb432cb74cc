"""The command `tautrank tune`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tautrank.commands import options
from tautrank.commands.output import ERR, OUT, print_json, trainings_bar
from tautrank.engines import Settings


@options.reads_files
def tune(
    *,
    data: Annotated[Path, typer.Argument(help="Training data (LETOR, Parquet, CSV).", show_default=False)],
    valid: Annotated[
        Path, typer.Option(help="Validation data, by which configurations are chosen.", show_default=False)
    ],
    loss: Annotated[
        list[str] | None,
        typer.Option(
            "--loss", "-l", help="Loss to optimise, default lambdarank; or several to choose from, separated by commas."
        ),
    ] = None,
    imported: options.Imported = None,
    metric: Annotated[str, typer.Option(help="Metric for validation and early stopping.")] = "ndcg@10",
    trials: Annotated[int, typer.Option(help="Number of configurations to try, including those in the storage.")] = 50,
    space: Annotated[
        str,
        typer.Option(help="Search space: default, trees, stochasticrank, or a JSON file of ranges by parameter name."),
    ] = "default",
    sampler: Annotated[str, typer.Option(help="random, or tpe, which samples near good earlier trials.")] = "random",
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Stop trials early that are worse than the others.")
    ] = True,
    storage: Annotated[
        Path | None, typer.Option(help="File that stores all trials; running the command again continues from it.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Time limit in seconds.")] = None,
    model: Annotated[Path | None, typer.Option("--model", "-o", help="File to save the best model in.")] = None,
    refit: Annotated[
        str, typer.Option(help="Data for the final training of the best model: train or train+valid.")
    ] = "train",
    trees: options.Trees = Settings.n_estimators,
    early_stopping: options.EarlyStopping = Settings.early_stopping_rounds or 0,
    param: options.EngineParameters = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    workers: Annotated[int, typer.Option(help="Number of trainings to run in parallel.")] = 1,
    reading: options.Reading,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all trials as CSV.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Search for the parameters that rank best on validation data and train the best model. Needs Optuna.

    Example: [bold]tautrank tune train.txt --valid vali.txt --loss lambdarank --storage tune.db --model best.taut[/bold]
    """
    from tautrank.experiments.search_plan import plan_search
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import SearchInterrupted, run_search
    from tautrank.files import require_writable
    from tautrank.report.tuning import print_interrupted, print_tuning, train_command

    options.import_losses(imported)
    losses = options.names_of(loss, "--loss") or ["lambdarank"]
    fixed = {"n_estimators": trees, "early_stopping_rounds": early_stopping or None, **options.engine_parameters(param)}
    how: dict[str, Any] = {"sampler": sampler, "prune": prune, "seed": seed, "n_trials": trials, "timeout": timeout}
    how |= {"n_jobs": jobs, "workers": workers, "storage": storage, "refit": refit if model is not None else None}
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
        again = [word for source in imported or [] for word in ("--import", source)] + reading.as_typed()
        print_tuning(OUT, result, train_command(result, str(data), str(valid), str(model or "best.taut"), again))
