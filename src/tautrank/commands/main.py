"""The command line: parses, calls the library, prints. Every error is one sentence and exit code 2."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tautrank import __version__
from tautrank.commands import options
from tautrank.commands.output import ERR, OUT, print_json, reading_bar, trainings_bar
from tautrank.commands.study import study_app
from tautrank.errors import OptionError, TautrankError, TautrankWarning


class _Commands(TyperGroup):
    """The commands in the order in which one meets them; Ctrl-C ends each with a word."""

    _order = ("demo", "data", "train", "evaluate", "rank", "export", "compare", "tune", "study", "theory")

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=self._order.index)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # Typer would end without a word
            ERR.print("stopped")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    help="Learning to rank that optimises the ranking metric itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at ranking data.", no_args_is_help=True)
app.add_typer(data_app, name="data")
theory_app = typer.Typer(help="Check what the papers prove, on your data and your losses.", no_args_is_help=True)
app.add_typer(theory_app, name="theory")
app.add_typer(study_app, name="study")

_DEFAULT_METRICS = "ndcg@5,ndcg@10,map,mrr"


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        OUT.print(f"tautrank {__version__}")
        raise typer.Exit


@data_app.command("info")
@options.reads_files
def data_info(
    *,
    paths: Annotated[list[Path], typer.Argument(help="Files, or a data set's folder.", show_default=False)],
    fold: Annotated[int, typer.Option(help="Which fold of a folder.")] = 1,
    reading: options.Reading,
    as_json: options.AsJson = False,
) -> None:
    """Count queries, documents, features, labels, list lengths, empty and constant queries, duplicate rows.

    Example: [bold]tautrank data info train.txt test.txt.gz[/bold]
    """
    from tautrank.report.terminal import summary_table

    summaries = {}
    for path in paths:
        if path.is_dir():
            for name, part in reading.folder(path, fold)._asdict().items():
                if part is not None:
                    summaries[f"{path.name or path}/{name}"] = part.describe()
        else:
            summaries[str(path) if str(path) not in summaries else f"{path} again"] = reading.file(path).describe()
    if as_json:
        print_json({name: summary.to_dict() for name, summary in summaries.items()})
    else:
        OUT.print(summary_table(list(summaries), list(summaries.values())))


@app.command()
@options.reads_files
def evaluate(
    *,
    data: Annotated[
        Path, typer.Argument(help="Labelled data (LETOR, Parquet, CSV), or TREC qrels.", show_default=False)
    ],
    scores: Annotated[Path | None, typer.Option("--scores", help="One score a line, or a TREC run for qrels.")] = None,
    model: Annotated[Path | None, typer.Option("--model", help="A model to score the documents with instead.")] = None,
    metrics: Annotated[
        list[str], typer.Option("--metrics", "-m", help="Metrics, separated by commas; may be repeated.")
    ] = [_DEFAULT_METRICS],  # noqa: B006 - Typer reads the default, nobody changes it
    ties: Annotated[str | None, typer.Option(help="worst (default), expected, best or input.")] = None,
    empty: Annotated[str | None, typer.Option(help="skip (default), zero or one.")] = None,
    per_query: Annotated[Path | None, typer.Option(help="Also write every query's values to this CSV file.")] = None,
    reading: options.Reading,
    as_json: options.AsJson = False,
) -> None:
    """Judge scores from any tool by metrics that say how they treat ties and empty queries.

    Example: [bold]tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err,map --ties expected[/bold]
    """
    from tautrank.data import Judged
    from tautrank.metrics import metric
    from tautrank.metrics.evaluation import evaluate as judge
    from tautrank.ranker.estimator import Ranker
    from tautrank.report.terminal import evaluation_table

    given = {name: value for name, value in (("ties", ties), ("empty", empty)) if value is not None}
    chosen = [metric(name, **given) for name in options.names_of(metrics, "--metrics")]
    if scores is not None and model is None:
        judged = reading.scored(scores, data)
    elif model is not None and scores is None:
        ranker = Ranker.load(model)
        documents = reading.for_ranker(ranker, data)
        judged = Judged(ranker.predict(documents), documents.labels, documents.offsets, documents.qids)
    else:
        found = "neither" if scores is None else "both"
        raise OptionError(f"--scores, --model: found {found}; expected one of them")
    result = judge(chosen, judged.scores, judged.labels, judged.offsets, qids=judged.qids)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in judged.remarks:
        ERR.print(f"note: {remark}", markup=False)
    if as_json:
        print_json({"data": str(data), "scores": str(scores or model), **result.to_dict()})
        return
    OUT.print(f"{scores or model} on {data}: {judged.qids.size:,} queries", markup=False, soft_wrap=True)
    OUT.print(evaluation_table(result))
    if per_query is not None:
        OUT.print(f"Every query's values: {per_query}", markup=False)


@app.command()
@options.reads_files
def train(
    *,
    data: Annotated[Path, typer.Argument(help="Training data (LETOR, Parquet, CSV).", show_default=False)],
    model: Annotated[Path, typer.Option("--model", "-o", help="Where to save the model.", show_default=False)],
    valid: Annotated[Path | None, typer.Option(help="Validation data, for early stopping.")] = None,
    loss: Annotated[str, typer.Option(help="What to optimise, such as 'ndcg-loss2++' or 'xendcg'.")] = "lambdarank",
    imported: options.Imported = None,
    metric: Annotated[str, typer.Option(help="What to judge by, and to stop early by.")] = "ndcg@10",
    trees: options.Trees = 500,
    learning_rate: options.LearningRate = 0.05,
    leaves: options.Leaves = 31,
    early_stopping: options.EarlyStopping = 50,
    langevin_temperature: Annotated[
        float | None,
        typer.Option(help="Langevin boosting: noise on gradients, the less the higher; 1e8 if only the next is given."),
    ] = None,
    langevin_shrink_rate: Annotated[
        float | None,
        typer.Option(help="Langevin boosting: shrinking before each tree; 1e-4 if only the last is given."),
    ] = None,
    param: options.EngineParameters = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    reading: options.Reading,
) -> None:
    """Train a model and save it in one file.

    Example: [bold]tautrank train train.txt --valid vali.txt --loss ndcg-loss2++ --model model.taut[/bold]
    """
    from tautrank.arguments import whole
    from tautrank.engines import engine_for, read_loss
    from tautrank.engines.langevin import Langevin
    from tautrank.files import require_writable
    from tautrank.metrics import metric as metric_of
    from tautrank.ranker.estimator import Ranker

    options.import_losses(imported)
    engine_for("lightgbm", read_loss(loss))  # a wrong name is said before the data is read
    judge = metric_of(metric)
    strengths = {"temperature": langevin_temperature, "shrink_rate": langevin_shrink_rate}
    stated = {name: value for name, value in strengths.items() if value is not None}
    langevin = Langevin(**stated) if stated else None
    whole("--trees", trees, 1)
    require_writable(model)
    parts = reading.files(data, valid)
    given: dict[str, Any] = {"loss": loss, "metric": judge, "n_estimators": trees, "learning_rate": learning_rate}
    given |= {"num_leaves": leaves, "random_state": seed, "n_jobs": jobs, "langevin": langevin}
    given["early_stopping_rounds"] = early_stopping if valid and early_stopping else None
    ranker = Ranker(**given | options.engine_parameters(param)).fit(*parts)
    ranker.save(model)
    told = f"{ranker.n_trees_} {'tree' if ranker.n_trees_ == 1 else 'trees'}"
    if valid is not None:
        told += f", validation {judge} {ranker.best_score_:.4f}"
    OUT.print(f"{model}: {told}", markup=False, soft_wrap=True)


@app.command()
@options.reads_files
def rank(
    *,
    data: Annotated[Path, typer.Argument(help="Documents to rank (LETOR, Parquet, CSV).", show_default=False)],
    model: Annotated[Path, typer.Option("--model", help="A model saved by 'tautrank train'.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.", show_default=False)],
    kind: Annotated[str, typer.Option("--format", help="scores (one a line) or trec (a TREC run).")] = "scores",
    tag: Annotated[str, typer.Option(help="Name of the run, in a TREC run's last column.")] = "tautrank",
    reading: options.Reading,
) -> None:
    """Score documents with a model: one score a line in the order of the file, or a TREC run.

    A table of documents needs no column of labels.

    In a TREC run a document is called d1, d2, ... by its place in the file.

    Example: [bold]tautrank rank --model model.taut test.txt -o run.trec --format trec[/bold]
    """
    import numpy as np

    from tautrank.arguments import choice
    from tautrank.data.score_files import write_scores
    from tautrank.data.trec import write_run
    from tautrank.files import require_writable
    from tautrank.ranker.estimator import Ranker

    choice("format", kind, ("scores", "trec"))
    if kind == "trec" and (not tag or any(c.isspace() for c in tag)):
        raise OptionError(f"--tag: found '{tag}'; expected text without spaces")
    require_writable(output)
    ranker = Ranker.load(model)
    documents = reading.for_ranker(ranker, data, unlabelled=True)
    if kind == "scores":
        write_scores(output, documents.in_source_order(ranker.predict(documents)))
    else:
        ranking = ranker.rank(documents)
        rows = documents.in_document_order(np.arange(documents.n_documents))[ranking.document]
        write_run(output, ranking.qid, rows, ranking.rank, ranking.score, tag)
    OUT.print(f"{output}: {documents.n_documents:,} documents of {documents.n_queries:,} queries", markup=False)


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A model saved by 'tautrank train'.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.", show_default=False)],
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="solr, elasticsearch, opensearch, ranklib, vespa, onnx or lightgbm.",
            show_default=False,
        ),
    ],
    features: Annotated[
        Path | None,
        typer.Option(help="File of feature names in the model's order: one a line, or JSON; default f1, f2, ..."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the model there; default as the file.")] = None,
    store: Annotated[str | None, typer.Option(help="Solr's feature store; default Solr's default one.")] = None,
) -> None:
    """Write a model for Solr, Elasticsearch, OpenSearch, Vespa, RankLib, ONNX or LightGBM.

    Every document goes to the same leaves there as here. docs/export.md says how to upload the file.

    Example: [bold]tautrank export model.taut -o model.json --format solr --features names.txt --store shop[/bold]
    """
    from tautrank.arguments import choice
    from tautrank.export import FORMATS, export_model
    from tautrank.ranker.estimator import Ranker

    choice("format", kind, FORMATS)  # said before the model is read
    ranker = Ranker.load(model)
    export_model(ranker, output, kind, features=features, name=name, store=store)
    OUT.print(f"{output}: {ranker.n_trees_} trees for {kind}", markup=False, soft_wrap=True)


@app.command()
@options.reads_files
def compare(
    *,
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="Training data, or a data set's folder (with its folds).", show_default=False)
    ],
    test: Annotated[Path | None, typer.Option(help="Test data; not for a folder.")] = None,
    valid: Annotated[
        Path | None, typer.Option(help="Validation data; default a fifth of the training queries.")
    ] = None,
    fold: Annotated[str, typer.Option(help="Which folds of a folder: 1, or 1,2,3, or all.")] = "1",
    losses: Annotated[
        list[str] | None,
        typer.Option(
            "--losses",
            "-l",
            help="Losses, separated by commas; may be repeated. Default LightGBM's LambdaRank and some of ours.",
        ),
    ] = None,
    imported: options.Imported = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", "-m", help="Metrics; the first one stops training early. Default ndcg@5,ndcg@10,map."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often to train each loss.")] = 5,
    vary: Annotated[str, typer.Option(help="What changes between repeats: splits or seeds.")] = "splits",
    tune: Annotated[int, typer.Option(help="Random configurations to choose from by validation; 0 for none.")] = 0,
    alpha: Annotated[float, typer.Option(help="Level of significance.")] = 0.05,
    results: Annotated[Path, typer.Option(help="Folder of finished trainings; a re-run goes on from there.")] = Path(
        "tautrank-results"
    ),
    trees: options.Trees = 300,
    learning_rate: options.LearningRate = 0.05,
    leaves: options.Leaves = 31,
    early_stopping: options.EarlyStopping = 50,
    param: options.EngineParameters = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    workers: Annotated[
        int | None, typer.Option(help="Trainings side by side; default by the size of the data.")
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, all numbers in full.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write the table as an HTML page, without scripts.")] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML page with figures; needs pip install 'tautrank\\[report]'."),
    ] = None,
    reading: options.Reading,
    as_json: options.AsJson = False,
) -> None:
    """Train several losses on the same data, repeatedly, and show which wins are real.

    Example: [bold]tautrank compare train.txt --test test.txt --losses lightgbm:lambdarank,ndcg-loss2++,xendcg[/bold]
    """
    from tautrank.arguments import job_count
    from tautrank.experiments.compare import DEFAULT_LOSSES, DEFAULT_METRICS, compare_splits
    from tautrank.experiments.comparison import make_plan
    from tautrank.files import require_writable
    from tautrank.report.figures import require_plotly

    options.import_losses(imported)
    names = options.names_of(losses, "--losses") or list(DEFAULT_LOSSES)
    judges = options.names_of(metrics, "--metrics") or list(DEFAULT_METRICS)
    given: dict[str, Any] = {"n_estimators": trees, "learning_rate": learning_rate, "num_leaves": leaves}
    given["early_stopping_rounds"] = early_stopping or None
    plan: dict[str, Any] = {"repeats": repeats, "vary": vary, "seed": seed, "tune": tune, "n_jobs": jobs}
    plan["parameters"] = given | options.engine_parameters(param)
    make_plan(names, judges, **plan)  # a wrong name is said before the data is read
    if report is not None:
        require_plotly()  # and what is missing before anything is trained
    for page in (html, report):
        if page is not None:
            require_writable(page)
    splits = _splits(data, valid, test, fold, reading)
    if workers is None:  # small data trains faster side by side than on several threads
        small = sum(part.n_documents * part.n_features for part in splits[0] if part is not None) < 5e7
        workers = job_count(jobs) if small else 1
    finished = [0, 0]

    def count(done: int, total: int, what: str) -> None:
        finished[:] = done, total
        progress(done, total, what)

    try:
        with trainings_bar() as progress:
            result = compare_splits(splits, names, judges, alpha, results, count, workers=workers, **plan)
    except KeyboardInterrupt:
        kept = f"{finished[0]} of {finished[1]} trainings are kept in {results}; the same command goes on from there"
        ERR.print(f"stopped: {kept}" if finished[0] else "stopped", markup=False)
        raise typer.Exit(130) from None
    # The command line, ready to paste into a shell; None where it was not `main` that read it.
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
        OUT.print(result.table())
        OUT.print(result.note(), markup=False)
        OUT.print(f"Every training: {results}", markup=False, soft_wrap=True)
        if report is not None:
            OUT.print(f"Report: {report}", markup=False, soft_wrap=True)


@app.command()
@options.reads_files
def tune(
    *,
    data: Annotated[Path, typer.Argument(help="Training data (LETOR, Parquet, CSV).", show_default=False)],
    valid: Annotated[Path, typer.Option(help="Validation data: what decides.", show_default=False)],
    loss: Annotated[
        list[str] | None,
        typer.Option(
            "--loss", "-l", help="What to optimise, default lambdarank; several, separated by commas, to choose from."
        ),
    ] = None,
    imported: options.Imported = None,
    metric: Annotated[str, typer.Option(help="What to judge by, and to stop early by.")] = "ndcg@10",
    trials: Annotated[int, typer.Option(help="Configurations to try, those in the storage included.")] = 50,
    space: Annotated[
        str, typer.Option(help="A JSON file of ranges by name; or default, trees or stochasticrank.")
    ] = "default",
    sampler: Annotated[str, typer.Option(help="random, or tpe, which looks where it was good before.")] = "random",
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="Stop trials that fall behind the others.")] = True,
    storage: Annotated[Path | None, typer.Option(help="File of all trials; the same command goes on from it.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    model: Annotated[Path | None, typer.Option("--model", "-o", help="Where to save the best model.")] = None,
    refit: Annotated[str, typer.Option(help="What the best model learns from: train or train+valid.")] = "train",
    trees: options.Trees = 500,
    early_stopping: options.EarlyStopping = 50,
    param: options.EngineParameters = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    workers: Annotated[int, typer.Option(help="Trainings side by side.")] = 1,
    reading: options.Reading,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all trials as CSV.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Search for the parameters that rank best on validation data, and train the best model. Needs Optuna.

    Example: [bold]tautrank tune train.txt --valid vali.txt --loss lambdarank --storage tune.db --model best.taut[/bold]
    """
    from tautrank.experiments.space import space_named_or_in_file
    from tautrank.experiments.tune import tune as search
    from tautrank.experiments.tune import tuning_plan
    from tautrank.experiments.tuning_search import SearchInterrupted
    from tautrank.files import require_writable
    from tautrank.report.tuning import print_interrupted, print_tuning

    options.import_losses(imported)
    losses = options.names_of(loss, "--loss") or ["lambdarank"]
    asked: dict[str, Any] = {"loss": losses, "metric": metric, "space": space_named_or_in_file(space)}
    asked |= {"sampler": sampler, "prune": prune, "seed": seed, "n_trials": trials, "timeout": timeout}
    asked |= {"n_jobs": jobs, "workers": workers, "storage": storage, "refit": refit if model is not None else None}
    asked |= {"n_estimators": trees, "early_stopping_rounds": early_stopping or None}
    asked |= options.engine_parameters(param)
    tuning_plan(**asked)  # what is wrong is said before the data is read
    if model is not None:
        require_writable(model)
    parts = reading.files(data, valid)
    try:
        with trainings_bar() as progress:
            result = search(*parts, progress=progress, **asked)
    except SearchInterrupted as stopped:
        print_interrupted(ERR, stopped, trials, storage)
        raise typer.Exit(130) from None
    if result.ranker is not None and model is not None:
        result.ranker.save(model)
    if as_json:
        print_json(result.to_dict())
    elif as_csv:
        sys.stdout.write(result.to_csv())
    else:
        again = [word for source in imported or [] for word in ("--import", source)] + reading.as_typed()
        print_tuning(OUT, result, result.train_command(str(data), str(valid), str(model or "best.taut"), again))


@theory_app.command("check")
@options.reads_files
def theory_check(
    *,
    data: Annotated[
        Path | None,
        typer.Argument(help="Labelled data, or a data set's folder; default lists made up here.", show_default=False),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option("--loss", "-l", help="Losses, separated by commas; may be repeated. Default every loss."),
    ] = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", help="One score a line, to check at; default scores drawn here.")
    ] = None,
    imported: options.Imported = None,
    claims: Annotated[
        list[str] | None, typer.Option("--claims", "-c", help="Claims, separated by commas; default all, and the laws.")
    ] = None,
    queries: Annotated[int, typer.Option(help="Look at no more than so many queries, spread over the data.")] = 1000,
    reasons: Annotated[bool, typer.Option("--reasons", help="Also say why claims do not apply.")] = False,
    fold: Annotated[int, typer.Option(help="Which fold of a folder; all of its parts are taken.")] = 1,
    seed: options.Seed = 0,
    reading: options.Reading,
    as_json: options.AsJson = False,
) -> None:
    """Check a loss, yours included, by laws and by all that is claimed of it: the papers' theorems, measurements.

    Laws are for every loss, and are checked on lists made for the purpose.
    Claims are checked on the data; a margin says how far one is from failing.
    That a law or a claim fails is an answer, not an error: the exit code is 0.
    With --import and no --loss the losses that were registered are checked.
    Their code is run: import what you trust.

    Example: [bold]tautrank theory check train.txt --loss 'lambdarank(k=none)'[/bold]

    Example: [bold]tautrank theory check --import my_loss.py[/bold]
    """
    from tautrank.checks import check_losses
    from tautrank.checks.laws import check_laws
    from tautrank.losses import loss as loss_named
    from tautrank.report.theory import checks_to_dict, laws_to_dict, print_checks

    own = options.import_losses(imported)
    names = options.names_of(loss, "--loss")
    if imported and not own and not names:
        raise OptionError(f"--import: found no loss registered by {', '.join(imported)}; expected one with @register")
    chosen = [loss_named(name) for name in names or own] or None  # a wrong name is said before the data is read
    wanted = options.names_of(claims, "--claims") or None
    labels, offsets, given = _labelled_lists(data, scores, fold, seed, reading)
    with reading_bar("checking") as report:
        checks = check_losses(
            labels,
            offsets,
            chosen,
            scores=given,
            names=wanted,
            queries=queries,
            seed=seed,
            progress=report and (lambda done, total, what: report(done / max(total, 1))),
        )
    laws = [check_laws(check.loss) for check in checks] if wanted is None else []
    count, source = len(offsets) - 1, str(data or "lists made up here")
    if as_json:
        found = {"data": source, "queries": count, "looked_at": min(count, queries)}
        print_json({**found, "laws": laws_to_dict(laws), "losses": checks_to_dict(checks)})
        return
    kept = "" if count <= queries else f", {queries:,} of them looked at"
    OUT.print(f"{source}: {count:,} queries{kept}", markup=False, soft_wrap=True)
    print_checks(OUT, checks, laws, reasons=reasons)


@app.command()
def demo(seed: Annotated[int, typer.Option(help="Another seed, other data.")] = 0) -> None:
    """Make a web-search data set, compare losses with LightGBM's own LambdaRank on it, and say what to type next.

    Example: [bold]tautrank demo[/bold]
    """
    from tautrank.commands.demo import run_demo

    with trainings_bar() as progress:
        run_demo(OUT, seed, progress)


def _labelled_lists(
    data: Path | None, scores: Path | None, fold: int, seed: int, reading: options.Reading
) -> tuple[Any, ...]:
    """Labels, offsets and scores; None for the scores where no file of them is given."""
    if scores is not None:
        if data is None or data.is_dir():
            raise OptionError(f"--scores: found with {data or 'no data'}; expected the file of data they belong to")
        judged = reading.scored(scores, data)
        return judged.labels, judged.offsets, judged.scores
    import numpy as np

    from tautrank.data.grouping import offsets_from_sizes
    from tautrank.simulate import simulate_web_search

    if data is None:
        parts = [simulate_web_search(200, n_features=16, mean_length=20, seed=seed)]
    elif data.is_dir():
        parts = [part for part in reading.folder(data, fold) if part is not None]
    else:
        parts = [reading.file(data)]
    labels, sizes = (
        np.concatenate(arrays) for arrays in zip(*((part.labels, part.sizes) for part in parts), strict=True)
    )
    return labels, offsets_from_sizes(sizes), None


def _splits(data: Path, valid: Path | None, test: Path | None, fold: str, reading: options.Reading) -> list[Any]:
    from tautrank.data import Splits, list_folds

    if not data.is_dir():
        if test is None:
            raise OptionError("--test: found none; expected test data (only a folder brings its own)")
        parts = reading.files(data, valid, test)
        return [Splits(parts[0], parts[1] if valid else None, parts[-1])]
    if test is not None or valid is not None:
        raise OptionError(f"--test, --valid: found with the folder {data}; expected a folder's own parts")
    if fold == "all":
        return [reading.folder(data, number) for number in list_folds(data) or [1]]
    if not all(number.strip().isdecimal() for number in fold.split(",")):
        raise OptionError(f"--fold: found '{fold}'; expected numbers such as 1 or 1,2, or all")
    return [reading.folder(data, int(number)) for number in fold.split(",")]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the console script `tautrank`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TautrankWarning)
            warnings.showwarning = _show_warning
            app(args=arguments, prog_name="tautrank", obj=sys.argv[1:] if arguments is None else arguments)
    except TautrankError as error:
        ERR.print(f"error: {error}", markup=False)
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, TautrankWarning):
        ERR.print(f"note: {message}", markup=False)


if __name__ == "__main__":
    main()
