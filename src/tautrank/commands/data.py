"""The commands `tautrank data ...`."""

from __future__ import annotations

from pathlib import Path

import typer

from tautrank.commands import options
from tautrank.commands.options import argument, option
from tautrank.commands.output import OUT, print_json
from tautrank.report.terminal import summary_table

data_app = typer.Typer(help="Inspect ranking data.", no_args_is_help=True)


@data_app.command("info")
@options.takes_groups
def data_info(
    *,
    paths: list[Path] = argument("Files, or the folder of a data set; - for standard input."),
    fold: int = option(1, "Fold to read from a folder."),
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Count queries, documents, features and labels, list lengths, irregular queries and duplicate rows.

    Example: tautrank data info train.txt test.txt.gz
    """
    summaries = {}
    for path in paths:
        for name, part in reading.parts(path, fold).items():
            summaries[name if name not in summaries else f"{name} again"] = part.describe()
    if as_json:
        print_json({name: summary.to_dict() for name, summary in summaries.items()})
    else:
        OUT.print(summary_table(list(summaries), list(summaries.values())))
