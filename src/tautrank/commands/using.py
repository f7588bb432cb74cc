"""The commands that train nothing: data info, evaluate, rank, explain, model info, export and
theory check.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.arguments import choice
from tautrank.commands import options
from tautrank.commands.options import argument, flag, option, several
from tautrank.commands.output import ERR, OUT, print_json, say, say_written, show_reading
from tautrank.data import Judged, Lists
from tautrank.data.queries import offsets_from_sizes
from tautrank.data.trec import csv_lines, run_lines
from tautrank.errors import OptionError, counted
from tautrank.files import require_writable, write_whole
from tautrank.metrics import METRICS, TOOLS
from tautrank.tables import Cell, Column, Table

data_app = options.group("Inspect ranking data.")
model_app = options.group("Inspect models.")
theory_app = options.group("Check what the papers prove, on your data and your losses.")

_DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")
_DEFAULTS = ", ".join(_DEFAULT_METRICS)
_KNOWN = f"{', '.join(METRICS)}, and what others call them, such as P@10 or ndcg_cut_10"
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_MOST_FEATURES = 10


@data_app.command("info")
@options.takes_groups
def data_info(
    *,
    paths: list[Path] = argument("Files, or the folder of a data set; - for standard input."),
    fold: int = option("Fold to read from a folder.", 1),
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Count queries, documents, features, labels and irregularities.

    Example: tautrank data info train.txt test.txt.gz
    """
    from tautrank.report.terminal import summary_table

    summaries = {}
    for path in paths:
        for name, part in reading.parts(path, fold).items():
            summaries[name if name not in summaries else f"{name} again"] = part.describe()
    if as_json:
        print_json({name: summary.to_dict() for name, summary in summaries.items()})
    else:
        OUT.print(summary_table(list(summaries), list(summaries.values())))


def evaluate(
    *,
    data: Path = argument(
        "Labelled data (LETOR text or a table), or TREC qrels; - for standard input."
    ),
    scores: list[Path] | None = option(
        "Scores, one per line, or a TREC run; - for standard input."
    ),
    model: Path | None = option("Model to score the documents with, instead of --scores."),
    metrics: list[str] | None = several(
        f"Metrics; default {_DEFAULTS}. Known: {_KNOWN}.", "--metrics", "-m"
    ),
    ties: str | None = option("Order of tied documents: worst (default), expected, best or input."),
    empty: str | None = option(
        "Value of queries without relevant documents: skip (default), zero or one."
    ),
    like: str | None = option(f"Tool whose rules the metrics follow: {', '.join(TOOLS)}."),
    imported: list[str] | None = options.IMPORTED,
    per_query: Path | None = option("Also write the values of every query to this CSV file."),
    memory: str | None = options.MEMORY,
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Evaluate scores or a model by metrics. Rules for ties and for queries without relevant
    documents are explicit.

    Example: tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err,map --ties
    expected

    As another tool: tautrank evaluate --scores bm25.trec qrels.txt --metrics P@10,bpref --like
    trec_eval
    """
    from tautrank.report.terminal import evaluation_table

    options.register_own_losses(imported)
    chosen = options.metrics_of(metrics, _DEFAULT_METRICS, ties=ties, empty=empty, like=like)
    if scores and len(scores) > 1:
        raise OptionError(
            f"--scores: found {len(scores)} files; expected one (tautrank compare-runs takes several)"
        )
    if scores and model is None:
        judged = reading.scored(scores[0], data)
    elif model is not None and not scores:
        ranker = options.load_ranker(model, data)
        documents = reading.for_ranker(ranker, data, memory=memory)
        judged = Judged(ranker.predict(documents), Lists.of(documents))
    else:
        found = "both" if scores else "neither"
        raise OptionError(f"--scores, --model: found {found}; expected one of them")
    remarks = judged.remarks
    if like == "trec_eval":
        judged = judged.for_trec_eval()
        placed = np.unique([judged.lists.query, judged.scores], axis=1)
        if judged.names is None and placed.shape[1] < judged.scores.size:
            remarks += [
                "trec_eval ranks equal scores by document name; these documents have none and keep their order"
            ]
    result = tr.evaluate(chosen, judged.scores, judged.lists)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in remarks:
        ERR.print(f"note: {remark}")
    source = scores[0] if scores else model
    if as_json:
        print_json({"data": str(data), "scores": str(source), **result.to_dict()})
        return
    say(f"{source} on {data}: {counted(judged.lists.n_queries, 'query')}")
    OUT.print(evaluation_table(result))
    if per_query is not None:
        say(f"Values of every query: {per_query}")


def rank(
    *,
    data: Path = argument("Documents to rank (LETOR text or a table)."),
    model: Path = option("Model of 'tautrank train', LightGBM or XGBoost.", ...),
    output: Path = option("File to write; - for standard output.", ..., "--output", "-o"),
    kind: str = option(
        "scores (one per line), a trec run, or csv (qid, doc, rank, score).", "scores", "--format"
    ),
    tag: str = option("Run name for the last column of a TREC run.", "tautrank"),
    memory: str | None = options.MEMORY,
    reading: options.Reading,
) -> None:
    """Score documents with a model. Write one score per line in the order of the file, a TREC run,
    or CSV.

    A table of documents does not need a label column.

    Documents are named by their ids ('#docid = ...' in LETOR text), or d1, d2, ... by their
    position in the file; 'tautrank evaluate --scores run.trec test.txt' judges a run by the labels
    of the same file.

    Example: tautrank rank --model model.taut test.txt -o run.trec --format trec
    """
    choice("format", kind, ("scores", "trec", "csv"))
    if kind == "trec" and (not tag or any(c.isspace() for c in tag)):
        raise OptionError(f"--tag: found '{tag}'; expected text without spaces")
    require_writable(output)
    ranker = options.load_ranker(model, data)
    documents = reading.for_ranker(ranker, data, unlabelled=True, memory=memory)
    if kind == "scores":
        text = "".join(
            f"{score!r}\n"
            for score in documents.in_source_order(ranker.predict(documents)).tolist()
        )
    else:
        ranking = ranker.rank(documents)
        columns = (
            ranking.qid,
            documents.document_names[ranking.document],
            ranking.rank,
            ranking.score,
        )
        text = run_lines(*columns, tag) if kind == "trec" else csv_lines(*columns)
    write_whole(output, text)
    say_written(
        output,
        f"{counted(documents.n_documents, 'document')} of {counted(documents.n_queries, 'query')}",
    )


@dataclasses.dataclass(frozen=True)
class _Reading(options.Reading):
    """The options of every command, with another name for the column where --qid is a query."""

    qid: str = option("Query id column of a table.", "qid", "--qid-column")


def explain(
    *,
    model: Path = options.MODEL,
    data: Path = argument("Documents (LETOR text or a table)."),
    query: str | None = option("The query to explain.", None, "--qid"),
    above: str | None = option("A document of the query, with --below: why is it above the other?"),
    below: str | None = option("The document below it."),
    against: Path | None = option(
        "Another model, for a page with both rankings of all queries (--report)."
    ),
    report: Path | None = option("With --against: file to write the page in."),
    metric: str = option(
        "With --against: metric that says what a query gains or loses.", "ndcg@10"
    ),
    reading: _Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Explain the scores of a query, or show two models side by side.

    Documents are called by their ids, or by their numbers within the query, from 0.

    Example: tautrank explain model.taut test.txt --qid 17 --above 3 --below 5

    Example: tautrank explain model.taut test.txt --against old.taut --report moves.html
    """
    for names, given in {
        "--against, --report": (against, report),
        "--above, --below": (above, below),
    }.items():
        if given.count(None) == 1:
            raise OptionError(f"{names}: found one of them; expected both, or neither")
    if (query is None) == (against is None):
        raise OptionError(
            "--qid, --against: found both or none; expected --qid QUERY or --against MODEL --report PAGE"
        )
    ranker = options.load_ranker(model, data)
    if against is not None:
        from tautrank.report.side_by_side import side_by_side

        called = [
            path.name if model.name != against.name else str(path) for path in (against, model)
        ]
        other = options.load_ranker(against, data)
        page = side_by_side(
            other, ranker, reading.for_ranker(ranker, data), metric=metric, names=called
        )
        page.to_html(report)
        say(page.lead)
        say(f"wrote {report}")
        return
    explained = ranker.explain(reading.for_ranker(ranker, data, unlabelled=True), qid=query)
    answer = explained if above is None else explained.why(above, below)
    if as_json:
        print_json(answer.to_dict())
    elif above is not None:
        say(str(answer))
    else:
        documents = (
            f"{explained.scores.size} documents; every score starts from {explained.base:.4f}"
        )
        say(f"{data}, query {query}: {documents}", "bold")
        say(explained.to_text())


@model_app.command("info")
def model_info(model: Path = options.MODEL, as_json: bool = options.AS_JSON) -> None:
    """Show parameters, training history and top features of a model.

    Example: tautrank model info model.taut
    """
    ranker = options.load_ranker(model)
    from tautrank.ranker.other_tools import tool_of

    top = top_features(ranker)
    parameters = {name: value for name, value in ranker.get_params().items() if value is not None}
    if as_json:
        plain = {
            name: value if isinstance(value, int | float) else str(value)
            for name, value in parameters.items()
        }
        facts = {
            "engine": ranker.model_.tool,
            "trees": ranker.n_trees_,
            "features": ranker.n_features_in_,
        }
        print_json(
            {**facts, "parameters": plain, "history": ranker.evals_result_, "gain": dict(top)}
        )
        return
    say(
        f"{model}: {size_of(ranker)} of {ranker.model_.tool} over {ranker.n_features_in_} features",
        "bold",
    )
    say(f"loss {parameters.pop('loss')}, metric {parameters.pop('metric')}")
    if tool_of(model.read_bytes()[:400]) is not None:
        say(
            "(saved by another tool: metric and parameters are not in the file, and have their defaults)"
        )
    else:
        OUT.print(", ".join(f"{name}={value}" for name, value in parameters.items()), markup=False)
    for part, by_metric in ranker.evals_result_.items():
        for name, values in by_metric.items():
            if values:
                say(f"{part} {name}  {sparkline(values)}  {values[0]:.4f} to {values[-1]:.4f}")
    if ranker.best_score_ is not None:
        say(f"validation value {ranker.best_score_:.4f} with {ranker.best_iteration_} trees")
    for line in _feature_lines(top[:_MOST_FEATURES]):
        say(f"  {line}")
    if len(top) > _MOST_FEATURES:
        say(f"  and {len(top) - _MOST_FEATURES} more features")


def _feature_lines(gains: Sequence[tuple[str, float]]) -> list[str]:
    """Return a line per feature, the one with the largest gain first: its gain, and a bar."""
    rows = []
    for name, gain in gains:
        bar = "█" * round(40 * gain / gains[0][1])
        rows.append((Cell(name), Cell(f"{gain:.1%}"), Cell(bar)))
    columns = (Column("feature", words=True), Column("gain", width=6), Column("", words=True))
    return Table(columns, tuple(rows)).to_text(titles=False).splitlines()


def size_of(ranker: Any) -> str:
    """Return how many trees a model has, in words; a network has none.

    Args:
        ranker: a fitted ranker.
    """
    return counted(ranker.n_trees_, "tree") if ranker.n_trees_ else "a network"


def top_features(ranker: Any) -> list[tuple[str, float]]:
    """Return the features that the model uses with their shares of the gain, the largest first.

    Args:
        ranker: a fitted ranker.
    """
    gains = ranker.feature_importances_
    names = getattr(
        ranker, "feature_names_in_", [f"f{column}" for column in range(1, gains.size + 1)]
    )
    return [
        (str(names[at]), float(gains[at]))
        for at in (-gains).argsort(kind="stable")
        if gains[at] > 0
    ]


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as bars, at most 60 of them.

    Args:
        values: the numbers; NaN is a gap.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    step = max(1, math.ceil(len(values) / _WIDTH))
    shown = [*values[::step]]
    known = [value for value in shown if not math.isnan(value)]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    most = len(_BARS) - 1
    return "".join(
        " " if math.isnan(v) else _BARS[round(most * (v - low) / span) if span else 0]
        for v in shown
    )


def export(
    model: Path = options.MODEL,
    output: Path = option("File to write; - for standard output.", ..., "--output", "-o"),
    kind: str = option(
        "solr, elasticsearch, opensearch, ranklib, vespa, onnx or lightgbm.", ..., "--format", "-f"
    ),
    features: Path | None = option(
        "File of feature names in the model's order: lines, or JSON; default f1, f2, ..."
    ),
    name: str | None = option(
        "Name of the model in the search engine; default the name of the file."
    ),
    store: str | None = option("Feature store in Solr; default Solr's own default."),
    directions: bool = flag(
        "OpenSearch from July 2026: missing values go where each split says.", "--directions"
    ),
) -> None:
    """Convert a model for Solr, Elasticsearch, Vespa, ONNX and others.

    Every document reaches the same leaves there as here. docs/export.md explains how to upload the
    file.

    Example: tautrank export model.taut -o model.json --format solr --features names.txt --store
    shop
    """
    from tautrank.export import FORMATS

    choice("format", kind, FORMATS)  # refuse a wrong name before reading the model
    ranker = options.load_ranker(model)
    tr.export_model(
        ranker, output, kind, features=features, name=name, store=store, directions=directions
    )
    say_written(output, f"{size_of(ranker)} for {kind}")


@theory_app.command("check")
@options.takes_groups
def theory_check(
    *,
    data: Path | None = argument(
        "Labelled data, or the folder of a data set; default synthetic lists.", None
    ),
    loss: list[str] | None = several("Losses; default every loss.", "--loss", "-l"),
    scores: Path | None = option("Scores to check at, one per line; default random scores."),
    imported: list[str] | None = options.IMPORTED,
    checks: list[str] | None = several("Checks; default all.", "--checks", "-c"),
    queries: int = option("Maximum number of queries to check, spread over the data.", 1000),
    strict: bool = flag(
        "Exit with code 1 if a law or a theorem is broken, for continuous integration.", "--strict"
    ),
    reasons: bool = flag("Also list the checks that do not apply, and why.", "--reasons"),
    fold: int = option("Fold to read from a folder; all of its parts are used.", 1),
    seed: int = options.SEED,
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Check a loss, also your own, against laws and theorems.

    A law holds or is broken; a theorem holds for the losses that it is about; a measurement is a
    number. Laws are checked on synthetic lists, some of them on the data as well. A broken law is a
    result, not an error: the exit code is 0, or 1 with --strict.
    With --import and no --loss, the losses that were registered are checked. Their code is run:
    import only what you trust.

    Example: tautrank theory check train.txt --loss 'lambdarank(k=none)'

    Example: tautrank theory check --import my_loss.py
    """
    own = options.register_own_losses(imported)
    names = options.names_of(loss, "--loss")
    if imported and not own and not names:
        raise OptionError(
            f"--import: found no loss registered by {', '.join(imported)}; expected one with @register"
        )
    chosen = [
        tr.loss(name) for name in names or own
    ] or None  # refuse a wrong name before reading the data
    chosen_checks = options.names_of(checks, "--checks") or None
    if scores is not None:
        if data is None or data.is_dir():
            raise OptionError(
                f"--scores: found with {data or 'no data'}; expected the file of data they belong to"
            )
        judged = reading.scored(scores, data)
        labels, offsets, given = judged.lists.labels, judged.lists.offsets, judged.scores
    else:
        synthetic = tr.simulate.simulate_web_search(200, n_features=16, mean_length=20, seed=seed)
        parts = [synthetic] if data is None else list(reading.parts(data, fold).values())
        labels, given = np.concatenate([part.labels for part in parts]), None
        offsets = offsets_from_sizes(np.concatenate([part.sizes for part in parts]))
    with show_reading("checking") as progress:
        how: dict[str, Any] = {"progress": progress}
        how |= {"scores": given, "names": chosen_checks, "queries": queries, "seed": seed}
        reports = tr.checks.check_losses(chosen, labels, offsets, **how)
    count, source = len(offsets) - 1, str(data or "synthetic lists")
    if as_json:
        found = {"data": source, "queries": count, "looked_at": min(count, queries)}
        print_json({**found, "losses": {str(each.loss): each.to_dict() for each in reports}})
    else:
        kept = "" if count <= queries else f", {queries:,} of them checked"
        from tautrank.report.theory import check_table

        say(f"{source}: {count:,} queries{kept}")
        for each in reports:
            say(f"\n{each.summary}")
            OUT.print(check_table(each, reasons))
    if strict and not all(each.holds for each in reports):
        raise typer.Exit(1)
