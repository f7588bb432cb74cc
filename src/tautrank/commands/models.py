"""The commands about a model: model info and export."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tautrank as tr
from tautrank.arguments import choice
from tautrank.commands import options
from tautrank.commands.options import flag, option
from tautrank.commands.output import OUT, print_json, say, say_written
from tautrank.errors import counted
from tautrank.tables import Cell, Column, Table

model_app = options.group("Inspect models.")

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 60
_MOST_FEATURES = 10
_LONGEST_BAR = 40
_START_OF_FILE = 400  # bytes that show which tool has written a model


@model_app.command("info")
def model_info(model: Path = options.MODEL, as_json: bool = options.AS_JSON) -> None:
    """Show parameters, training history and top features of a model.

    Example: tautrank model info model.taut
    """
    ranker = options.load_ranker(model)
    if as_json:
        print_json(_model_summary(ranker))
        return
    from tautrank.ranker.other_tools import tool_of

    n_features = ranker.n_features_in_
    say(f"{model}: {size_of(ranker)} of {ranker.model_.tool} over {n_features} features", "bold")
    parameters = _given_parameters(ranker)
    say(f"loss {parameters.pop('loss')}, metric {parameters.pop('metric')}")
    start_of_file = model.read_bytes()[:_START_OF_FILE]
    is_of_other_tool = tool_of(start_of_file) is not None
    if is_of_other_tool:
        say(
            "(saved by another tool: metric and parameters are not in the file, "
            "and have their defaults)"
        )
    else:
        listed = ", ".join(f"{name}={value}" for name, value in parameters.items())
        OUT.print(listed, markup=False)
    _say_history(ranker)
    _say_features(top_features(ranker))


def _given_parameters(ranker: Any) -> dict[str, Any]:
    """Return the parameters of a ranker by name, without those that are None."""
    parameters = ranker.get_params()
    return {name: value for name, value in parameters.items() if value is not None}


def _model_summary(ranker: Any) -> dict[str, Any]:
    """Return engine, size, parameters, training history and feature gains of a model as plain
    values for JSON.
    """
    parameters = {}
    for name, value in _given_parameters(ranker).items():
        parameters[name] = value if isinstance(value, int | float) else str(value)
    return {
        "engine": ranker.model_.tool,
        "trees": ranker.n_trees_,
        "features": ranker.n_features_in_,
        "parameters": parameters,
        "history": ranker.evals_result_,
        "gain": dict(top_features(ranker)),
    }


def _say_history(ranker: Any) -> None:
    """Print how metrics developed during the training of a fitted ranker: a row of bars per data
    set and metric, and the best validation value. A bar stands for a tree; of many trees, every
    second, third ... one has a bar.
    """
    for part, values_by_metric in ranker.evals_result_.items():
        for name, values in values_by_metric.items():
            if values:
                bars = sparkline(values)
                say(f"{part} {name}  {bars}  {values[0]:.4f} to {values[-1]:.4f}")
    if ranker.best_score_ is not None:
        say(f"validation value {ranker.best_score_:.4f} with {ranker.best_iteration_} trees")


def _say_features(gains: Sequence[tuple[str, float]]) -> None:
    """Print the most important features of a model: name, share of the gain, and a bar.

    Args:
        gains: name and share of the gain of each feature, the largest first.
    """
    rows = []
    largest_gain = gains[0][1] if gains else 0.0
    for name, gain in gains[:_MOST_FEATURES]:
        # The largest gain has the longest bar.
        bar = "█" * round(_LONGEST_BAR * gain / largest_gain)
        rows.append((Cell(name), Cell(f"{gain:.1%}"), Cell(bar)))
    columns = (Column("feature", words=True), Column("gain", width=6), Column("", words=True))
    for line in Table(columns, tuple(rows)).to_text(titles=False).splitlines():
        say(f"  {line}")
    if len(gains) > _MOST_FEATURES:
        say(f"  and {len(gains) - _MOST_FEATURES} more features")


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
    names = getattr(ranker, "feature_names_in_", None)
    if names is None:
        names = [f"f{number}" for number in range(1, gains.size + 1)]
    # Stable: features of the same gain keep the order of the columns.
    by_falling_gain = (-gains).argsort(kind="stable")
    shares = []
    for column in by_falling_gain:
        if gains[column] > 0:
            shares.append((str(names[column]), float(gains[column])))
    return shares


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as bars, at most 60 of them.

    Args:
        values: the numbers; NaN is a gap.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    # Of many values, every second, third ... one is drawn.
    step = max(1, math.ceil(len(values) / _MOST_BARS))
    values_to_draw = list(values[::step])
    numbers = [value for value in values_to_draw if not math.isnan(value)]
    lowest = min(numbers, default=0.0)
    # Bars are scaled so that the lowest value has the lowest bar and the highest the highest.
    span = max(numbers, default=0.0) - lowest
    highest_bar = len(_BARS) - 1
    bars = []
    for value in values_to_draw:
        if math.isnan(value):
            bars.append(" ")
        elif span == 0:
            bars.append(_BARS[0])
        else:
            height = highest_bar * (value - lowest) / span
            bars.append(_BARS[round(height)])
    return "".join(bars)


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
