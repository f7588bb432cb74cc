"""The command line: parses, calls the library, prints. Every error is one sentence and exit code 2."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tautrank import __version__
from tautrank.errors import OptionError, TautrankError, TautrankWarning

app = typer.Typer(
    help="Learning to rank that optimises the ranking metric itself.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Look at ranking data.", no_args_is_help=True)
app.add_typer(data_app, name="data")

_out = Console(highlight=False, soft_wrap=False)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

_DEFAULT_METRICS = "ndcg@5,ndcg@10,map,mrr"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="Feature indices in the text start at 0.")]
AllowNan = Annotated[bool, typer.Option("--allow-nan", help="Read 'nan' as a missing value.")]
Cache = Annotated[
    bool | None,
    typer.Option("--cache/--no-cache", help="Keep the parsed data beside the file; by default for 64 MiB and more."),
]
LabelColumn = Annotated[str, typer.Option("--label", help="Column of labels in Parquet and CSV.")]
QidColumn = Annotated[str, typer.Option("--qid", help="Column of query ids in Parquet and CSV.")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        _out.print(f"tautrank {__version__}")
        raise typer.Exit


@data_app.command("info")
def data_info(
    paths: Annotated[list[Path], typer.Argument(help="Files, or a data set's folder.", show_default=False)],
    fold: Annotated[int, typer.Option(help="Which fold of a folder.")] = 1,
    zero_based: ZeroBased = False,
    allow_nan: AllowNan = False,
    cache: Cache = None,
    label: LabelColumn = "label",
    qid: QidColumn = "qid",
    as_json: AsJson = False,
) -> None:
    """Count queries, documents, features, labels, list lengths, empty and constant queries, duplicate rows.

    Example: [bold]tautrank data info train.txt test.txt.gz[/bold]
    """
    from tautrank.data import read_folder
    from tautrank.judged_files import read_data
    from tautrank.report.terminal import summary_table

    options: dict[str, Any] = {"zero_based": zero_based, "allow_nan": allow_nan, "cache": cache}
    summaries = {}
    for path in paths:
        if path.is_dir():
            with _progress(f"reading {path}"):
                splits = read_folder(path, fold, **options)
            for name, part in zip(splits._fields, splits, strict=True):
                if part is not None:
                    summaries[f"{path.name or path}/{name}"] = part.describe()
        else:
            with _progress(f"reading {path.name}") as report:
                data = read_data(path, label=label, qid=qid, progress=report, **options)
            summaries[str(path) if str(path) not in summaries else f"{path} again"] = data.describe()
    if as_json:
        _print_json({name: summary.to_dict() for name, summary in summaries.items()})
    else:
        _out.print(summary_table(list(summaries), list(summaries.values())))


@app.command()
def evaluate(
    data: Annotated[
        Path, typer.Argument(help="Labelled data (LETOR, Parquet, CSV), or TREC qrels.", show_default=False)
    ],
    scores: Annotated[
        Path, typer.Option("--scores", help="One score a line, or a TREC run for qrels.", show_default=False)
    ],
    metrics: Annotated[
        list[str], typer.Option("--metrics", "-m", help="Metrics, separated by commas; may be repeated.")
    ] = [_DEFAULT_METRICS],  # noqa: B006 - Typer reads the default, nobody changes it
    ties: Annotated[str | None, typer.Option(help="worst (default), expected, best or input.")] = None,
    empty: Annotated[str | None, typer.Option(help="skip (default), zero or one.")] = None,
    per_query: Annotated[Path | None, typer.Option(help="Also write every query's values to this CSV file.")] = None,
    zero_based: ZeroBased = False,
    allow_nan: AllowNan = False,
    cache: Cache = None,
    label: LabelColumn = "label",
    qid: QidColumn = "qid",
    as_json: AsJson = False,
) -> None:
    """Judge scores from any tool by metrics that say how they treat ties and empty queries.

    Example: [bold]tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err,map --ties expected[/bold]
    """
    from tautrank.judged_files import read_judged_scores
    from tautrank.metrics import metric
    from tautrank.metrics.evaluation import evaluate as judge
    from tautrank.report.terminal import evaluation_table

    given = {name: value for name, value in (("ties", ties), ("empty", empty)) if value is not None}
    chosen = [metric(name, **given) for text in metrics for name in _split_names(text)]
    with _progress(f"reading {data.name}") as report:
        judged = read_judged_scores(
            scores,
            data,
            label=label,
            qid=qid,
            progress=report,
            zero_based=zero_based,
            allow_nan=allow_nan,
            cache=cache,
        )
    result = judge(chosen, judged.scores, judged.labels, judged.offsets, qids=judged.qids)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in judged.remarks:
        _err.print(f"note: {remark}", markup=False)
    if as_json:
        _print_json({"data": str(data), "scores": str(scores), **result.to_dict()})
        return
    _out.print(f"{scores} on {data}: {judged.qids.size:,} queries", markup=False, soft_wrap=True)
    _out.print(evaluation_table(result))
    if per_query is not None:
        _out.print(f"Every query's values: {per_query}", markup=False)


@app.command()
def demo(seed: Annotated[int, typer.Option(help="Another seed, other data.")] = 0) -> None:
    """Make a small web-search data set and show what ties and empty queries do to a number."""
    from tautrank.demo import run_demo

    run_demo(_out, seed)


def _split_names(text: str) -> list[str]:
    """Cut 'ndcg@10,err(max_label=2)@5' at the commas outside parentheses."""
    names, depth, start = [], 0, 0
    for i, character in enumerate(text + ","):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            names.append(text[start:i].strip())
            start = i + 1
    names = [name for name in names if name]
    if not names:
        raise OptionError("--metrics: found no name; expected metrics such as 'ndcg@10,map'")
    return names


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")


@contextmanager
def _progress(what: str) -> Iterator[Any]:
    """A bar on standard error while something is read; nothing where nobody watches."""
    if not _err.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=_err, transient=True) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; the console script `tautrank`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", TautrankWarning)
            warnings.showwarning = _show_warning
            app(args=arguments, prog_name="tautrank")
    except TautrankError as error:
        _err.print(f"error: {error}", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        _err.print("stopped")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, TautrankWarning):
        _err.print(f"note: {message}", markup=False)


if __name__ == "__main__":
    main()
