"""The commands that show what data and models hold: `tautrank data info`, `tautrank model info` and `explain`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tautrank.commands import options
from tautrank.commands.options import argument, option
from tautrank.commands.output import OUT, print_json, say
from tautrank.errors import OptionError

data_app = options.group("Inspect ranking data.")
model_app = options.group("Inspect models.")

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
    """Count queries, documents, features and labels, list lengths, irregular queries and duplicate rows.

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


@model_app.command("info")
def model_info(model: Path = options.MODEL, as_json: bool = options.AS_JSON) -> None:
    """Show the loss, metric, engine and parameters of a model, its training history and its top features.

    Example: tautrank model info model.taut
    """
    ranker = options.load_ranker(model)
    from tautrank.ranker.model_file import tool_of

    top = top_features(ranker)
    parameters = {name: value for name, value in ranker.get_params().items() if value is not None}
    if as_json:
        plain = {name: value if isinstance(value, int | float) else str(value) for name, value in parameters.items()}
        facts = {"engine": ranker.model_.tool, "trees": ranker.n_trees_, "features": ranker.n_features_in_}
        print_json({**facts, "parameters": plain, "history": ranker.evals_result_, "gain": dict(top)})
        return
    say(f"{model}: {ranker.n_trees_} trees of {ranker.model_.tool} over {ranker.n_features_in_} features", "bold")
    say(f"loss {parameters.pop('loss')}, metric {parameters.pop('metric')}")
    if tool_of(model.read_bytes()[:400]) is not None:
        say("(saved by another tool: metric and parameters are not in the file, and have their defaults)")
    else:
        say(", ".join(f"{name}={value}" for name, value in parameters.items()))
    for part, by_metric in ranker.evals_result_.items():
        for name, values in by_metric.items():
            if values:
                say(f"{part} {name}  {sparkline(values)}  {values[0]:.4f} to {values[-1]:.4f}")
    if ranker.best_score_ is not None:
        say(f"best validation value {ranker.best_score_:.4f} with {ranker.best_iteration_} trees")
    width = max((len(name) for name, _ in top[:_MOST_FEATURES]), default=0)
    for name, gain in top[:_MOST_FEATURES]:
        say(f"  {name:<{width}}  {gain:6.1%}  {'█' * round(40 * gain / top[0][1])}")
    if len(top) > _MOST_FEATURES:
        say(f"  and {len(top) - _MOST_FEATURES} more features")


def top_features(ranker: Any) -> list[tuple[str, float]]:
    """Return the features that the model uses with their shares of the gain, the largest first.

    Args:
        ranker: a fitted ranker.
    """
    gains = ranker.feature_importances_
    names = getattr(ranker, "feature_names_in_", [f"f{column}" for column in range(1, gains.size + 1)])
    return [(str(names[at]), float(gains[at])) for at in (-gains).argsort(kind="stable") if gains[at] > 0]


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
    return "".join(
        " " if math.isnan(v) else _BARS[round((len(_BARS) - 1) * (v - low) / span) if span else 0] for v in shown
    )


def explain(
    model: Path = options.MODEL,
    data: Path = argument("Documents (LETOR, Parquet, CSV)."),
    qid: str | None = option("The query to explain."),
    above: str | None = option("A document of the query, with --below: why is it above the other?"),
    below: str | None = option("The document below it."),
    against: Path | None = option("Another model, for a page with both rankings of all queries (--report)."),
    report: Path | None = option("With --against: the page to write."),
    metric: str = option("With --against: what a query gains or loses by.", "ndcg@10"),
    zero_based: bool = options.ZERO_BASED,
    allow_nan: bool = options.ALLOW_NAN,
    qid_column: str = option("Query id column of Parquet and CSV files.", "qid"),
    as_json: bool = options.AS_JSON,
) -> None:
    """Explain the scores of one query, or write a page with the rankings of two models side by side.

    Documents are called by their ids, or by their numbers within the query, from 0.

    Example: tautrank explain model.taut test.txt --qid 17 --above 3 --below 5

    Example: tautrank explain model.taut test.txt --against old.taut --report moves.html
    """
    for names, given in {"--against, --report": (against, report), "--above, --below": (above, below)}.items():
        if given.count(None) == 1:
            raise OptionError(f"{names}: found one of them; expected both, or neither")
    if (qid is None) == (against is None):
        raise OptionError(
            "--qid, --against: found both or none; expected --qid QUERY, or --against MODEL --report PAGE"
        )
    ranker = options.load_ranker(model, data)
    reading = options.Reading.as_usual(zero_based=zero_based, allow_nan=allow_nan, qid=qid_column)
    if against is not None:
        from tautrank.report.side_by_side import side_by_side

        called = [path.name if model.name != against.name else str(path) for path in (against, model)]
        other = options.load_ranker(against, data)
        page = side_by_side(other, ranker, reading.for_ranker(ranker, data), metric=metric, names=called)
        page.to_html(report)
        say(page.lead)
        say(f"wrote {report}")
        return
    explained = ranker.explain(reading.for_ranker(ranker, data, unlabelled=True), qid=qid)
    told = explained if above is None else explained.why(above, below)
    if as_json:
        print_json(told.to_dict())
    elif above is not None:
        say(str(told))
    else:
        documents = f"{explained.scores.size} documents; every score starts from {explained.base:.4f}"
        say(f"{data}, query {qid}: {documents}", "bold")
        for row in (-explained.scores).argsort(kind="stable"):
            parts = explained.contributions[row]
            largest = [at for at in (-abs(parts)).argsort(kind="stable")[:4] if parts[at]]
            why = ", ".join(f"{explained.features[at]} {parts[at]:+.4f}" for at in largest)
            say(f"{explained.documents[row]!s:>8}  {explained.scores[row]:+.4f}  {why}")
