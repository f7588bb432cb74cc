"""Write a fitted ranker to a file that another system reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tautrank.arguments import choice
from tautrank.errors import OptionError
from tautrank.export.base import Export
from tautrank.export.lightgbm_text import lightgbm_text
from tautrank.export.names import feature_names
from tautrank.export.onnx_graph import onnx_model
from tautrank.export.ranklib import ranklib_model
from tautrank.export.search_plugins import plugin_model
from tautrank.export.solr import solr_model
from tautrank.export.vespa import vespa_model
from tautrank.files import write_whole
from tautrank.ranker.estimator import Ranker, UnfittedError

FORMATS: dict[str, Callable[[Export], str | bytes]] = {
    "solr": solr_model,
    "elasticsearch": plugin_model,
    "opensearch": plugin_model,
    "ranklib": ranklib_model,
    "vespa": vespa_model,
    "onnx": onnx_model,
    "lightgbm": lightgbm_text,
}
"""The formats that a model can be written in: functions from an `Export` to the content of the file."""

# The formats that have a use for an option.
_WITH = {"name": ("solr", "elasticsearch", "opensearch", "onnx"), "store": ("solr",)}


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
    add leaves in float32, so that scores agree to about seven digits; Vespa and LightGBM give the same bits (with
    Langevin boosting they agree to about 15 digits). What a format cannot express is refused, or warned about where it
    concerns missing values only.

    Args:
        ranker: a ranker fitted by LightGBM or by XGBoost's own objectives.
        path: file to write.
        format: ``"solr"`` (a MultipleAdditiveTreesModel), ``"elasticsearch"`` or ``"opensearch"`` (a request to the
            learning to rank plugin), ``"ranklib"`` (LambdaMART), ``"vespa"`` (a LightGBM dump as Vespa reads it),
            ``"onnx"`` (needs ONNX) or ``"lightgbm"`` (LightGBM's own text).
        features: names of the features in that system, in the order of the columns; or a file of names, one per line,
            a JSON list, or Solr's own definition of features. By default the names the ranker was fitted with, else
            ``f1``, ``f2``, ...
        name: name of the model in Solr, Elasticsearch, OpenSearch or ONNX; by default that of the file.
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
    choice("format", format, tuple(FORMATS))
    if not hasattr(ranker, "model_"):
        raise UnfittedError("export_model: this Ranker is not fitted; expected a call of fit before")
    for option, value in (("name", name), ("store", store)):
        if value is not None and format not in _WITH[option]:
            able = " or ".join(_WITH[option])
            raise OptionError(f"{option}: found '{value}' with the format {format}; expected it with {able}")
        if value is not None and not (value.strip() and value.isprintable()):
            raise OptionError(f"{option}: found {value!r}; expected text on one line")
    names, named = feature_names(ranker, features)
    export = Export(format, ranker.model_, names, named, name or Path(path).stem, store)
    write_whole(path, FORMATS[format](export))
