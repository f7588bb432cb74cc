"""From a fitted ranker to a file that another system reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tautrank.arguments import choice
from tautrank.errors import OptionError
from tautrank.export.lightgbm_text import lightgbm_text
from tautrank.export.missing import warn_of_missing
from tautrank.export.names import feature_names
from tautrank.export.onnx_graph import onnx_model
from tautrank.export.ranklib import ranklib_model
from tautrank.export.search_plugins import plugin_model
from tautrank.export.solr import solr_model
from tautrank.export.trees import trees_of
from tautrank.export.vespa import vespa_model
from tautrank.files import write_whole
from tautrank.ranker.estimator import Ranker, UnfittedError

FORMATS: tuple[str, ...] = ("solr", "elasticsearch", "opensearch", "ranklib", "vespa", "onnx", "lightgbm")
"""What a model can be shipped as."""

_NAMED = ("solr", "elasticsearch", "opensearch", "onnx")


def export_model(
    ranker: Ranker,
    path: str | os.PathLike[str],
    format: str,
    *,
    features: Sequence[str] | str | os.PathLike[str] | None = None,
    name: str | None = None,
    store: str | None = None,
) -> None:
    """Write a fitted ranker as another system's model, in one step.

    Every document goes to the same leaves as in `Ranker.predict`, values at a threshold included: thresholds are the
    numbers that mean the same under that system's comparison and precision. Solr, RankLib, the search plugins and ONNX
    add leaves in float32, so that scores agree to about seven digits; Vespa and LightGBM give the same bits. What a
    format has no way to say is refused, or warned of where it concerns missing values alone.

    Args:
        ranker: fitted, by LightGBM or by XGBoost's own objectives.
        path: where to.
        format: ``"solr"`` (a MultipleAdditiveTreesModel), ``"elasticsearch"`` or ``"opensearch"`` (a request to the
            learning to rank plugin), ``"ranklib"`` (LambdaMART), ``"vespa"`` (a LightGBM dump as Vespa reads it),
            ``"onnx"`` (needs ONNX) or ``"lightgbm"`` (LightGBM's own text).
        features: what the system calls the features, in the order of the columns; or a file of names, one a line, a
            JSON list, or Solr's own definition of features. By default the names the ranker was fitted with, else
            ``f1``, ``f2``, ...
        name: of the model in Solr, Elasticsearch, OpenSearch or ONNX; by default that of the file.
        store: Solr's feature store; by default Solr's default one.

    >>> import json, tempfile
    >>> from tautrank.data import RankingData
    >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
    >>> ranker = Ranker(n_estimators=3).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(ranker, folder + "/shop.json", "solr", features=["clicks"])
    ...     model = json.loads(Path(folder, "shop.json").read_text())
    >>> model["name"], model["features"], len(model["params"]["trees"])
    ('shop', [{'name': 'clicks'}], 3)
    """
    choice("format", format, FORMATS)
    if not hasattr(ranker, "model_"):
        raise UnfittedError("export_model: this Ranker is not fitted; expected a call of fit before")
    for option, value, takers in (("name", name, _NAMED), ("store", store, ("solr",))):
        if value is not None and format not in takers:
            raise OptionError(f"{option}: found '{value}' with the format {format}; expected it with {_listed(takers)}")
        if value is not None and not (value.strip() and value.isprintable()):
            raise OptionError(f"{option}: found {value!r}; expected text on one line")
    names, known = feature_names(ranker, features)
    content = _content(ranker, format, names, known, name or Path(path).stem, store)
    write_whole(path, content)


def _content(
    ranker: Ranker, format: str, names: tuple[str, ...], known: bool, name: str, store: str | None
) -> str | bytes:
    if format == "lightgbm":
        return lightgbm_text(ranker, names if known else None)
    trees = trees_of(ranker.model_)
    if format == "solr":
        return solr_model(trees, names, name, store)
    if format == "vespa":
        return vespa_model(trees, names)
    if format == "onnx":
        return onnx_model(trees, names, name)
    if format == "ranklib":
        warn_of_missing(trees, names, "ranklib", "RankLib takes them for 0")
        return ranklib_model(trees)
    return plugin_model(trees, names, name, ranker.model_.tool, format)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
