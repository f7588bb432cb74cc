"""The commands that use scores and models: evaluate, rank and export."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tautrank as tr
from tautrank.arguments import choice
from tautrank.commands import options
from tautrank.commands.options import argument, flag, option
from tautrank.commands.output import ERR, OUT, print_json, say
from tautrank.data import Judged
from tautrank.data.text_source import STANDARD
from tautrank.data.trec import csv_lines, run_lines
from tautrank.errors import OptionError, counted
from tautrank.files import require_writable, write_whole
from tautrank.metrics import METRICS, TOOLS

_DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")


@options.takes_groups
def evaluate(
    *,
    data: Path = argument("Labelled data (LETOR, Parquet, CSV), or TREC qrels; - for standard input."),
    scores: list[Path] | None = option("Scores, one per line, or a TREC run; - for standard input."),
    model: Path | None = option("Model to score the documents with, instead of --scores."),
    metrics: list[str] | None = option(
        f"Metrics, separated by commas; may be repeated. Default {', '.join(_DEFAULT_METRICS)}. "
        f"Known: {', '.join(METRICS)}, and what others call them, such as P@10 or ndcg_cut_10.",
        None,
        "--metrics",
        "-m",
    ),
    ties: str | None = option("Order of tied documents: worst (default), expected, best or input."),
    empty: str | None = option("Value of queries without relevant documents: skip (default), zero or one."),
    like: str | None = option(f"Tool whose rules the metrics follow: {', '.join(TOOLS)}."),
    imported: list[str] | None = options.IMPORTED,
    per_query: Path | None = option("Also write the values of every query to this CSV file."),
    memory: str | None = options.MEMORY,
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Evaluate scores from any tool, with explicit rules for ties and for queries without relevant documents.

    Example: tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err,map --ties expected

    As another tool: tautrank evaluate --scores bm25.trec qrels.txt --metrics P@10,bpref --like trec_eval
    """
    from tautrank.report.terminal import evaluation_table

    options.import_losses(imported)
    chosen = options.metrics_of(metrics, _DEFAULT_METRICS, ties=ties, empty=empty, like=like)
    if scores and len(scores) > 1:
        raise OptionError(f"--scores: found {len(scores)} files; expected one (tautrank compare --runs takes several)")
    if scores and model is None:
        judged = reading.scored(scores[0], data)
    elif model is not None and not scores:
        ranker = options.load_ranker(model, data)
        documents = reading.for_ranker(ranker, data, memory=memory)
        judged = Judged(ranker.predict(documents), documents.labels, documents.offsets, documents.qids)
    else:
        found = "both" if scores else "neither"
        raise OptionError(f"--scores, --model: found {found}; expected one of them")
    remarks = judged.remarks
    if like == "trec_eval":
        judged = judged.for_trec_eval()
        query = np.repeat(np.arange(judged.qids.size), np.diff(judged.offsets))
        if judged.names is None and np.unique([query, judged.scores], axis=1).shape[1] < query.size:
            remarks += ["trec_eval ranks equal scores by document name; these documents have none and keep their order"]
    lists = (judged.scores, judged.labels, judged.offsets)
    result = tr.evaluate(chosen, *lists, judged=judged.judged, qids=judged.qids)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in remarks:
        ERR.print(f"note: {remark}")
    source = scores[0] if scores else model
    if as_json:
        print_json({"data": str(data), "scores": str(source), **result.to_dict()})
        return
    say(f"{source} on {data}: {counted(judged.qids.size, 'query')}")
    OUT.print(evaluation_table(result))
    if per_query is not None:
        say(f"Values of every query: {per_query}")


@options.takes_groups
def rank(
    *,
    data: Path = argument("Documents to rank (LETOR, Parquet, CSV)."),
    model: Path = option("Model of 'tautrank train', LightGBM or XGBoost.", ...),
    output: Path = option("File to write; - for standard output.", ..., "--output", "-o"),
    kind: str = option(
        "scores (one per line), trec (a TREC run) or csv (qid, doc, rank, score).", "scores", "--format"
    ),
    tag: str = option("Run name for the last column of a TREC run.", "tautrank"),
    memory: str | None = options.MEMORY,
    reading: options.Reading,
) -> None:
    """Score documents with a model and write one score per line, in the order of the file, a TREC run, or CSV.

    A table of documents does not need a label column.

    Documents are named by their ids ('#docid = ...' in LETOR text), or d1, d2, ... by their position in the file;
    'tautrank evaluate --scores run.trec test.txt' judges a run by the labels of the same file.

    Example: tautrank rank --model model.taut test.txt -o run.trec --format trec
    """
    choice("format", kind, ("scores", "trec", "csv"))
    if kind == "trec" and (not tag or any(c.isspace() for c in tag)):
        raise OptionError(f"--tag: found '{tag}'; expected text without spaces")
    to_screen = str(output) == STANDARD
    if not to_screen:
        require_writable(output)
    ranker = options.load_ranker(model, data)
    documents = reading.for_ranker(ranker, data, unlabelled=True, memory=memory)
    if kind == "scores":
        text = "".join(f"{score!r}\n" for score in documents.in_source_order(ranker.predict(documents)).tolist())
    else:
        ranking = ranker.rank(documents)
        columns = ranking.qid, documents.document_names[ranking.document], ranking.rank, ranking.score
        text = run_lines(*columns, tag) if kind == "trec" else csv_lines(*columns)
    if to_screen:
        sys.stdout.write(text)
        return
    write_whole(output, text)
    say(f"{output}: {counted(documents.n_documents, 'document')} of {counted(documents.n_queries, 'query')}")


def export(
    model: Path = options.MODEL,
    output: Path = option("File to write.", ..., "--output", "-o"),
    kind: str = option("solr, elasticsearch, opensearch, ranklib, vespa, onnx or lightgbm.", ..., "--format", "-f"),
    features: Path | None = option(
        "File with the feature names in the model's order: one per line, or JSON; default f1, f2, ..."
    ),
    name: str | None = option("Name of the model in the search engine; default the name of the file."),
    store: str | None = option("Feature store in Solr; default Solr's own default."),
    directions: bool = flag(
        "OpenSearch (since July 2026): send missing values where each split says, not as 0.", "--directions"
    ),
) -> None:
    """Convert a model for Solr, Elasticsearch, OpenSearch, Vespa, RankLib, ONNX or LightGBM.

    Every document reaches the same leaves there as here. docs/export.md explains how to upload the file.

    Example: tautrank export model.taut -o model.json --format solr --features names.txt --store shop
    """
    from tautrank.export import FORMATS

    choice("format", kind, FORMATS)  # refuse a wrong name before reading the model
    ranker = options.load_ranker(model)
    tr.export_model(ranker, output, kind, features=features, name=name, store=store, directions=directions)
    say(f"{output}: {ranker.n_trees_} trees for {kind}")
