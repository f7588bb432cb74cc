"""The command `tautrank export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tautrank.command_output import OUT
from tautrank.errors import unknown


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
    from tautrank.export import FORMATS, export_model
    from tautrank.ranker import Ranker

    if kind not in FORMATS:  # said before the model is read
        raise unknown("format", kind, FORMATS)
    ranker = Ranker.load(model)
    export_model(ranker, output, kind, features=features, name=name, store=store)
    OUT.print(f"{output}: {ranker.n_trees_} trees for {kind}", markup=False, soft_wrap=True)
