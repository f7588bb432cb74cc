"""The commands for one model: train, evaluate, rank, export."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer

import tautrank as tr
from tautrank.arguments import choice
from tautrank.commands import options
from tautrank.commands.model import top_features
from tautrank.commands.options import argument, option
from tautrank.commands.output import ERR, OUT, duration_text, print_json, say
from tautrank.data import Judged
from tautrank.data.text_source import STANDARD
from tautrank.data.trec import csv_lines, run_lines
from tautrank.errors import OptionError, counted
from tautrank.files import require_writable, write_whole
from tautrank.metrics import METRICS
from tautrank.ranker.model_file import check_model
from tautrank.report.terminal import evaluation_table

_TOP = 5
_DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")


@options.takes_groups
def train(
    *,
    data: Path = argument("Training data (LETOR, Parquet, CSV); several as 'part-*.parquet' with --workers."),
    model: Path = option(..., "File to save the model in.", "--model", "-o"),
    valid: Path | None = option(None, "Validation data, for early stopping."),
    loss: str = option("lambdarank", "Loss to optimise, such as 'ndcg-loss2++' or 'xendcg'."),
    metric: str = options.METRIC,
    refit: bool = option(False, "Choose the trees by cross-validation, and train as many on all queries.", "--refit"),
    training: options.Training,
    learning_rate: float = options.LEARNING_RATE,
    leaves: int = options.LEAVES,
    langevin_temperature: float | None = option(
        None,
        "Langevin boosting: inverse temperature of the gradient noise (higher is less noise). "
        "Default 1e8 if --langevin-shrink-rate is given.",
    ),
    langevin_shrink_rate: float | None = option(
        None,
        "Langevin boosting: shrinkage of the model before each tree. Default 1e-4 if --langevin-temperature is given.",
    ),
    weights: str | None = option(None, "Column of a table with the weight of each row's query."),
    propensity: str | None = option(None, "Column of a table with the probability that a user looked at the document."),
    init_model: Path | None = option(None, "Model to add trees to, also one of LightGBM or XGBoost."),
    memory: str | None = options.MEMORY,
    cluster: str | None = option(None, "Train on a Dask cluster: the address of its scheduler, or its scheduler file."),
    workers: int | None = option(None, "Train in this many worker processes of this machine."),
    reading: options.Reading,
) -> None:
    """Train a model and save it in one file. Ctrl-C ends the training and keeps the trees so far.

    Example: tautrank train train.txt --valid vali.txt --loss ndcg-loss2++ --model model.taut
    """
    given = training.parameters([loss], learning_rate=learning_rate, num_leaves=leaves)
    judge = tr.metric(metric)  # refuse a wrong name before reading the data
    strengths = {"temperature": langevin_temperature, "shrink_rate": langevin_shrink_rate}
    given_strengths = {name: value for name, value in strengths.items() if value is not None}
    langevin = tr.Langevin(**given_strengths) if given_strengths else None
    require_writable(model)
    if init_model is not None:
        check_model(init_model)
    how: dict[str, Any] = {"langevin": langevin, "refit": refit, "random_state": training.seed, "n_jobs": training.jobs}
    with ExitStack() as stack:
        if memory is None and cluster is None and workers is None:
            parts, aside = reading.training(data, valid, weights=weights, propensities=propensity)
        elif weights or propensity:
            raise OptionError("--weights, --propensity: need the data in memory; expected neither")
        else:
            where = {"memory": memory, "cluster": cluster, "workers": workers}
            parts, aside = options.in_files(stack, reading, data, valid, **where), {}  # type: ignore[arg-type]
        interrupts = stack.enter_context(_interrupted())
        start = time.perf_counter()
        ranker = tr.Ranker(**{"loss": loss, "metric": judge, **how, **given})
        ranker.fit(*parts, **aside, init_model=init_model, callbacks=[lambda step: bool(interrupts)])
    ranker.save(model)
    summary = f"{ranker.n_trees_} {'tree' if ranker.n_trees_ == 1 else 'trees'}"
    if ranker.best_score_ is not None:
        summary += f", validation {judge} {ranker.best_score_:.4f}"
    say(f"{model}: {summary}")
    say(_how_it_went(ranker, time.perf_counter() - start))
    if interrupts:
        ERR.print(f"stopped: {model} has the trees so far")
        raise typer.Exit(130)


def _how_it_went(ranker: Any, seconds: float) -> str:
    """How long it took, why it stopped, and which features count."""
    told = f"trained in {duration_text(seconds)}"
    grown = len(next(iter(ranker.evals_result_.get("valid", {}).values()), ()))
    if grown > ranker.n_trees_ == ranker.best_iteration_:
        told += f" to tree {grown}; the best validation value came with tree {ranker.n_trees_}"
    top = ", ".join(f"{name} {share:.0%}" for name, share in top_features(ranker)[:_TOP])
    return f"{told}; top features by gain: {top}" if top else told


@contextmanager
def _interrupted() -> Iterator[list[int]]:
    """Note Ctrl-C instead of raising, so that training ends after the current tree; a second one stops at once."""
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        ERR.print("stopping after this tree; Ctrl-C again stops at once, without a model")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


@options.takes_groups
def evaluate(
    *,
    data: Path = argument("Labelled data (LETOR, Parquet, CSV), or TREC qrels; - for standard input."),
    scores: list[Path] | None = option(None, "Scores, one per line, or a TREC run; - for standard input.", "--scores"),
    model: Path | None = option(None, "Model to score the documents with, instead of --scores.", "--model"),
    metrics: list[str] | None = option(
        None,
        f"Metrics, separated by commas; may be repeated. Default {', '.join(_DEFAULT_METRICS)}. "
        f"Known: {', '.join(METRICS)}, and what others call them, such as P@10 or ndcg_cut_10.",
        "--metrics",
        "-m",
    ),
    ties: str | None = option(None, "Order of tied documents: worst (default), expected, best or input."),
    empty: str | None = option(None, "Value of queries without relevant documents: skip (default), zero or one."),
    like: str | None = options.LIKE,
    imported: list[str] | None = options.IMPORTED,
    per_query: Path | None = option(None, "Also write the values of every query to this CSV file."),
    memory: str | None = options.MEMORY,
    reading: options.Reading,
    as_json: bool = options.AS_JSON,
) -> None:
    """Evaluate scores from any tool, with explicit rules for ties and for queries without relevant documents.

    Example: tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err,map --ties expected

    As another tool: tautrank evaluate --scores bm25.trec qrels.txt --metrics P@10,bpref --like trec_eval
    """
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
        if judged.names is None and _has_ties(judged):
            remarks += ["trec_eval ranks equal scores by document name; these documents have none and keep their order"]
    lists = (judged.scores, judged.labels, judged.offsets)
    result = tr.evaluate(chosen, *lists, judged=judged.judged, qids=judged.qids)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in remarks:
        ERR.print(f"note: {remark}")
    if as_json:
        print_json({"data": str(data), "scores": str(scores[0] if scores else model), **result.to_dict()})
        return
    say(f"{scores[0] if scores else model} on {data}: {counted(judged.qids.size, 'query')}")
    OUT.print(evaluation_table(result))
    if per_query is not None:
        say(f"Values of every query: {per_query}")


def _has_ties(judged: Judged) -> bool:
    query = np.repeat(np.arange(judged.qids.size), np.diff(judged.offsets))
    order = np.lexsort((judged.scores, query))
    scores, query = judged.scores[order], query[order]
    return bool(np.any((scores[1:] == scores[:-1]) & (query[1:] == query[:-1])))


@options.takes_groups
def rank(
    *,
    data: Path = argument("Documents to rank (LETOR, Parquet, CSV)."),
    model: Path = option(..., "Model of 'tautrank train', LightGBM or XGBoost.", "--model"),
    output: Path = option(..., "File to write; - for standard output.", "--output", "-o"),
    kind: str = option(
        "scores", "scores (one per line), trec (a TREC run) or csv (qid, doc, rank, score).", "--format"
    ),
    tag: str = option("tautrank", "Run name for the last column of a TREC run."),
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
    if str(output) != STANDARD:
        require_writable(output)
    ranker = options.load_ranker(model, data)
    documents = reading.for_ranker(ranker, data, unlabelled=True, memory=memory)
    if kind == "scores":
        text = "".join(f"{score!r}\n" for score in documents.in_source_order(ranker.predict(documents)).tolist())
    else:
        ranking = ranker.rank(documents)
        columns = ranking.qid, documents.document_names[ranking.document], ranking.rank, ranking.score
        text = run_lines(*columns, tag) if kind == "trec" else csv_lines(*columns)
    if str(output) == STANDARD:
        sys.stdout.write(text)
        return
    write_whole(output, text)
    say(f"{output}: {counted(documents.n_documents, 'document')} of {counted(documents.n_queries, 'query')}")


def export(
    model: Path = argument("Model of 'tautrank train', LightGBM or XGBoost."),
    output: Path = option(..., "File to write.", "--output", "-o"),
    kind: str = option(..., "solr, elasticsearch, opensearch, ranklib, vespa, onnx or lightgbm.", "--format", "-f"),
    features: Path | None = option(
        None, "File with the feature names in the model's order: one per line, or JSON; default f1, f2, ..."
    ),
    name: str | None = option(None, "Name of the model in the search engine; default the name of the file."),
    store: str | None = option(None, "Feature store in Solr; default Solr's own default."),
    directions: bool = option(
        False, "OpenSearch (since July 2026): send missing values where each split says, not as 0.", "--directions"
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
