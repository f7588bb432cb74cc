"""The commands that use data and models: data info, evaluate, rank and explain."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import tautrank as tr
from tautrank.arguments import choice
from tautrank.commands import options
from tautrank.commands.options import argument, option, several
from tautrank.commands.output import ERR, OUT, print_json, say, say_written
from tautrank.data import JudgedRun, Lists
from tautrank.data.trec import csv_lines, run_lines
from tautrank.errors import OptionError, counted
from tautrank.files import require_writable, write_whole
from tautrank.metrics import METRICS, TOOLS, Metric

if TYPE_CHECKING:
    from tautrank.ranker.estimator import Ranker

data_app = options.group("Inspect ranking data.")

_DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "map", "mrr")
_DEFAULTS = ", ".join(_DEFAULT_METRICS)
_KNOWN = f"{', '.join(METRICS)}, and what others call them, such as P@10 or ndcg_cut_10"


@data_app.command("info")
@options.takes_groups
def data_info(
    *,
    paths: list[Path] = argument("Files, or the folder of a data set; - for standard input."),
    fold: int = option("Fold to read from a folder.", 1),
    reader: options.ReaderOptions,
    as_json: bool = options.AS_JSON,
) -> None:
    """Count queries, documents, features, labels and irregularities.

    Example: tautrank data info train.txt test.txt.gz
    """
    from tautrank.report.terminal import summary_table

    summaries = {}
    for path in paths:
        for name, part in reader.parts(path, fold).items():
            key = name if name not in summaries else f"{name} again"
            summaries[key] = part.describe()
    if as_json:
        print_json({name: summary.to_dict() for name, summary in summaries.items()})
    else:
        OUT.print(summary_table(list(summaries), list(summaries.values())))


@dataclasses.dataclass(frozen=True)
class _Metrics:
    """The options that say which metrics are computed, and by which rules."""

    metrics: list[str] | None = several(
        f"Metrics; default {_DEFAULTS}. Known: {_KNOWN}.", "--metrics", "-m"
    )
    ties: str | None = option("Order of tied documents: worst (default), expected, best or input.")
    empty: str | None = option(
        "Value of queries without relevant documents: skip (default), zero or one."
    )
    like: str | None = option(f"Tool whose rules the metrics follow: {', '.join(TOOLS)}.")

    def to_compute(self) -> list[Metric]:
        """Return the metrics."""
        return options.metrics_of(
            self.metrics, _DEFAULT_METRICS, ties=self.ties, empty=self.empty, like=self.like
        )


def evaluate(
    *,
    data: Path = argument(
        "Labelled data (LETOR text or a table), or TREC qrels; - for standard input."
    ),
    scores: list[Path] | None = option(
        "Scores, one per line, or a TREC run; - for standard input."
    ),
    model: Path | None = option("Model to score the documents with, instead of --scores."),
    rules: _Metrics,
    imported: list[str] | None = options.IMPORTED,
    per_query: Path | None = option("Also write the values of every query to this CSV file."),
    memory: str | None = options.MEMORY,
    reader: options.ReaderOptions,
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
    metrics = rules.to_compute()
    source = _source_of_scores(scores, model)
    if model is None:
        judged = reader.scored(source, data)
    else:
        ranker = options.load_ranker(model, data)
        documents = reader.for_ranker(ranker, data, memory=memory)
        judged = JudgedRun(ranker.predict(documents), Lists.of(documents))
    remarks = judged.remarks
    if rules.like == "trec_eval":
        judged = judged.for_trec_eval()
        remarks += _remarks_on_ties(judged)

    result = tr.evaluate(metrics, judged.scores, judged.lists)
    if per_query is not None:
        result.write_per_query(per_query)
    for remark in remarks:
        ERR.print(f"note: {remark}")
    if as_json:
        print_json({"data": str(data), "scores": str(source), **result.to_dict()})
        return
    say(f"{source} on {data}: {counted(judged.lists.n_queries, 'query')}")
    OUT.print(evaluation_table(result))
    if per_query is not None:
        say(f"Values of every query: {per_query}")


def _source_of_scores(scores: list[Path] | None, model: Path | None) -> Path:
    """Return the file that evaluated scores come from, a score file or a model; raise an error
    unless exactly one of --scores and --model was given, and one file of scores.
    """
    if scores and len(scores) > 1:
        raise OptionError(
            f"--scores: found {len(scores)} files; "
            "expected one (tautrank compare-runs takes several)"
        )
    if scores and model is None:
        return scores[0]
    if model is not None and not scores:
        return model
    both_or_neither = "both" if scores else "neither"
    raise OptionError(f"--scores, --model: found {both_or_neither}; expected one of them")


def _remarks_on_ties(judged: JudgedRun) -> list[str]:
    """Return a remark for the user if documents of a query have equal scores but no names, by which
    trec_eval would order them; else nothing.
    """
    if judged.names is not None:
        return []
    # Fewer distinct pairs of query and score than documents: some documents are tied.
    query_and_score = np.array([judged.lists.query, judged.scores])
    n_distinct_pairs = np.unique(query_and_score, axis=1).shape[1]
    has_ties = n_distinct_pairs < judged.scores.size
    if not has_ties:
        return []
    return [
        "trec_eval ranks equal scores by document name; "
        "these documents have none and keep their order"
    ]


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
    reader: options.ReaderOptions,
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
    is_one_word = bool(tag) and not any(character.isspace() for character in tag)
    if kind == "trec" and not is_one_word:
        raise OptionError(f"--tag: found '{tag}'; expected text without spaces")
    require_writable(output)
    ranker = options.load_ranker(model, data)
    documents = reader.for_ranker(ranker, data, unlabelled=True, memory=memory)
    if kind == "scores":
        scores = documents.in_source_order(ranker.predict(documents))
        text = "".join(f"{score!r}\n" for score in scores.tolist())
    else:
        ranking = ranker.rank(documents)
        names = documents.document_names[ranking.document]
        columns = ranking.qid, names, ranking.rank, ranking.score
        text = run_lines(*columns, tag) if kind == "trec" else csv_lines(*columns)
    write_whole(output, text)
    n_documents = counted(documents.n_documents, "document")
    say_written(output, f"{n_documents} of {counted(documents.n_queries, 'query')}")


@dataclasses.dataclass(frozen=True)
class _ReaderOptions(options.ReaderOptions):
    """The options of every command, with another name for the column where --qid is a query."""

    qid: str = option("Query id column of a table.", "qid", "--qid-column")


@dataclasses.dataclass(frozen=True)
class _Against:
    """The options of a page that shows two models side by side."""

    against: Path | None = option(
        "Another model, for a page with both rankings of all queries (--report)."
    )
    report: Path | None = option("With --against: file to write the page in.")
    metric: str = option("With --against: metric that says what a query gains or loses.", "ndcg@10")


def explain(
    *,
    model: Path = options.MODEL,
    data: Path = argument("Documents (LETOR text or a table)."),
    query: str | None = option("The query to explain.", None, "--qid"),
    above: str | None = option("A document of the query, with --below: why is it above the other?"),
    below: str | None = option("The document below it."),
    comparison: _Against,
    reader: _ReaderOptions,
    as_json: bool = options.AS_JSON,
) -> None:
    """Explain the scores of a query, or show two models side by side.

    Documents are called by their ids, or by their numbers within the query, from 0.

    Example: tautrank explain model.taut test.txt --qid 17 --above 3 --below 5

    Example: tautrank explain model.taut test.txt --against old.taut --report moves.html
    """
    _check_both_or_neither("--against, --report", comparison.against, comparison.report)
    _check_both_or_neither("--above, --below", above, below)
    if (query is None) == (comparison.against is None):
        raise OptionError(
            "--qid, --against: found both or none; "
            "expected --qid QUERY or --against MODEL --report PAGE"
        )
    ranker = options.load_ranker(model, data)
    if comparison.against is not None:
        _write_side_by_side(ranker, model, comparison, reader.for_ranker(ranker, data))
        return
    documents = reader.for_ranker(ranker, data, unlabelled=True)
    explanation = ranker.explain(documents, qid=query)
    answer = explanation if above is None else explanation.why(above, below)
    if as_json:
        print_json(answer.to_dict())
    elif above is not None:
        say(str(answer))
    else:
        n_documents = explanation.scores.size
        say(
            f"{data}, query {query}: {n_documents} documents; "
            f"every score starts from {explanation.base:.4f}",
            "bold",
        )
        say(explanation.to_text())


def _check_both_or_neither(names: str, first: object, second: object) -> None:
    """Raise an error if one of two options was given without the other."""
    if (first is None) != (second is None):
        raise OptionError(f"{names}: found one of them; expected both, or neither")


def _write_side_by_side(
    ranker: Ranker, model: Path, comparison: _Against, documents: tr.RankingData
) -> None:
    """Write an HTML page that shows the rankings of two models side by side, and print its lead.

    Args:
        ranker: the model.
        model: file of the model.
        comparison: options with the file of the other model and where to write the page.
        documents: the documents that both models rank.
    """
    from tautrank.report.side_by_side import side_by_side

    other_model = comparison.against
    assert other_model is not None  # the caller has checked both options
    assert comparison.report is not None
    # What the page calls the models.
    names = [other_model.name, model.name]
    if other_model.name == model.name:  # files of the same name in two folders
        names = [str(other_model), str(model)]
    page = side_by_side(
        options.load_ranker(other_model),
        ranker,
        documents,
        metric=comparison.metric,
        names=names,
    )
    page.to_html(comparison.report)
    say(page.lead)
    say(f"wrote {comparison.report}")
