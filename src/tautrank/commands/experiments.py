"""The commands that train many models: `tautrank compare` and `tautrank tune`."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tautrank.commands import options
from tautrank.commands.options import argument, option
from tautrank.commands.output import ERR, OUT, print_json, say, trainings_bar
from tautrank.data import Splits, list_folds
from tautrank.data.text_source import require_files
from tautrank.errors import OptionError
from tautrank.files import require_writable
from tautrank.names import split_at_commas


@options.takes_groups
def compare(
    *,
    context: typer.Context,
    data: list[str] = argument(
        "Training data, or the folder of a data set with its folds; with --runs the runs to compare: FILE or NAME=FILE."
    ),
    runs: bool = option(
        False, "Compare existing TREC runs, or files of one score per line; nothing is trained.", "--runs"
    ),
    qrels: Path | None = option(None, "What judges --runs: TREC qrels, or labelled data for files of scores."),
    like: str | None = options.LIKE,
    test: Path | None = option(None, "Test data; a folder has its own."),
    valid: Path | None = option(None, "Validation data; default a fifth of the training queries."),
    fold: str = option("1", "Folds to use from a folder: 1, or 1,2,3, or all."),
    losses: list[str] | None = option(
        None,
        "Losses, separated by commas; may be repeated. Default LightGBM's LambdaRank and several of ours.",
        "--losses",
        "-l",
    ),
    metrics: list[str] | None = option(
        None, "Metrics; the first one stops training early. Default ndcg@5,ndcg@10,map.", "--metrics", "-m"
    ),
    repeats: int = option(5, "Number of trainings per loss."),
    vary: str = option("splits", "What differs between repeats: splits or seeds."),
    tune: int = option(0, "Number of random configurations to choose from on validation data; 0 for no tuning."),
    alpha: float = option(0.05, "Significance level."),
    baseline: str = option("", "System that the others are compared with; default the first loss."),
    all_pairs: bool = option(False, "Compare every two systems, not only each with the baseline.", "--all-pairs"),
    results: Path = option(
        Path("tautrank-results.db"), "File for finished trainings; running the command again continues from there."
    ),
    training: options.Training,
    learning_rate: float = options.LEARNING_RATE,
    leaves: int = options.LEAVES,
    workers: int | None = option(None, "Number of trainings to run in parallel; default by the size of the data."),
    latex: bool = option(False, "Print a LaTeX table.", "--latex"),
    as_csv: bool = option(False, "Print CSV with all digits.", "--csv"),
    html: Path | None = option(None, "Also write the table as an HTML page without scripts."),
    report: Path | None = option(None, "Also write an HTML page with figures; needs pip install 'tautrank[report]'."),
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Train several losses on the same data, repeatedly, and test which differences are significant.

    Example: tautrank compare train.txt --test test.txt --losses lightgbm:lambdarank,ndcg-loss2++,xendcg

    Existing runs: tautrank compare --runs bm25.trec dense.trec --qrels qrels.txt
    """
    from tautrank.experiments.compare import DEFAULT_LOSSES, DEFAULT_METRICS, compare_splits, comparison
    from tautrank.experiments.runs import compare_runs
    from tautrank.report.figures import require_plotly
    from tautrank.report.result_page import answer

    judges = options.metrics_of(metrics, DEFAULT_METRICS, like=like)
    tested: dict[str, Any] = {"alpha": alpha, "pairs": "all" if all_pairs else "baseline"}
    if report is not None:
        require_plotly()  # before any training
    for written in filter(None, (html, report)):
        require_writable(written)
    if runs:
        _refuse_training(context)
        if qrels is None:
            raise OptionError("--qrels: found none; expected relevance judgments for --runs")
        # `like` again: one tool also has an order of its own for tied documents.
        tested |= {"like": like, "baseline": baseline}
        result = compare_runs(_named(data), qrels, judges, **tested, **reading.given())
    elif qrels is not None:
        raise OptionError("--qrels: found without --runs; expected both, or neither")
    elif len(data) > 1:
        raise OptionError(f"DATA: found {len(data)}; expected one file or folder (several are compared with --runs)")
    else:
        names = options.names_of(losses, "--losses") or list(DEFAULT_LOSSES)
        given = training.parameters(names, learning_rate=learning_rate, num_leaves=leaves)
        declared = comparison(names, judges, repeats=repeats, vary=vary, tune=tune, baseline=baseline, parameters=given)
        splits = _splits(Path(data[0]), valid, test, fold, reading)
        how: dict[str, Any] = {"seed": training.seed, "store": results, "n_jobs": training.jobs, **tested}
        with trainings_bar(f" in {results}; the same command continues from there") as progress:
            result = compare_splits(declared, splits, **how, workers=workers, progress=progress)
    # The command line, ready to paste into a shell; None if `main` did not start it.
    command = shlex.join(["tautrank", *context.obj]) if context.obj else None
    for page, figures in ((html, False), (report, True)):
        if page is not None:
            result.to_html(page, figures=figures, command=command)
    if as_json:
        print_json(result.to_dict())
    elif latex:
        sys.stdout.write(result.to_latex())
    elif as_csv:
        sys.stdout.write(result.to_csv())
    else:
        OUT.print(*result.tables(), result.note(), markup=False)
        for sentence in answer(result):
            OUT.print(sentence, style="bold", markup=False)
        if not runs:
            say(f"All trainings: {results}")
        if report is not None:
            say(f"Report: {report}")


def _refuse_training(context: typer.Context) -> None:
    """Refuse options of trainings that are given with --runs."""
    allowed = {"data", "runs", "qrels", "like", "metrics", "alpha", "latex", "as_csv", "html", "report", "as_json"}
    allowed |= {"baseline", "all_pairs"} | {field.name for field in dataclasses.fields(options.Reading)}
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise OptionError(f"{parameter.opts[0]}: found with --runs; expected it without, nothing is trained")


def _named(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the runs of each system, by its name or that of its file; one that is named again has another run."""
    pairs = [text.rpartition("=") if not Path(text).exists() else ("", "", text) for text in texts]
    names = [name or Path(path).name.partition(".")[0] or path for name, _, path in pairs]
    found: dict[str, list[str]] = {}
    for (name, _, path), short in zip(pairs, names, strict=True):
        found.setdefault(name or (path if names.count(short) > 1 else short), []).append(path)
    return found


def _splits(data: Path, valid: Path | None, test: Path | None, fold: str, reading: options.Reading) -> list[Splits]:
    if not data.is_dir():
        if test is None:
            raise OptionError("--test: found none; expected test data (only a folder brings its own)")
        parts = reading.files(data, valid, test)
        return [Splits(parts[0], parts[1] if valid else None, parts[-1])]
    if test is not None or valid is not None:
        raise OptionError(f"--test, --valid: found with the folder {data}; expected a folder's own parts")
    numbers = [str(number) for number in list_folds(data) or [1]] if fold == "all" else split_at_commas(fold)
    if not numbers or not all(number.isdecimal() for number in numbers):
        raise OptionError(f"--fold: found '{fold}'; expected numbers such as 1 or 1,2, or all")
    return [reading.folder(data, int(number)) for number in numbers]


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

    Example: tautrank tune train.txt --valid vali.txt --loss lambdarank --storage tune.db --model best.taut
    """
    from tautrank.experiments.search_plan import plan_search
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import SearchInterrupted, run_search
    from tautrank.report.tuning import print_interrupted, print_tuning, train_command

    require_files(data, valid)
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
