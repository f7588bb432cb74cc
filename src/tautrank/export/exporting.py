"""Write a fitted ranker to a file that another system reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tautrank.arguments import choice
from tautrank.data.text_source import read_text
from tautrank.errors import DataError, OptionError, counted
from tautrank.export.formats import (
    Export,
    lightgbm_text,
    plugin_model,
    ranklib_model,
    solr_model,
    vespa_model,
)
from tautrank.export.onnx_graph import onnx_model
from tautrank.files import STANDARD, write_whole

if TYPE_CHECKING:
    from tautrank.ranker.estimator import Ranker

Names: TypeAlias = "Sequence[str] | str | os.PathLike[str]"
"""Names, or a file of names."""

FORMATS: dict[str, Callable[[Export], str | bytes]] = {
    "solr": solr_model,
    "elasticsearch": plugin_model,
    "opensearch": plugin_model,
    "ranklib": ranklib_model,
    "vespa": vespa_model,
    "onnx": onnx_model,
    "lightgbm": lightgbm_text,
}
"""The formats that a model can be written in: functions from an `Export` to the content of the
file.
"""

# The formats that have a use for an option.
_WITH = {
    "name": ("solr", "elasticsearch", "opensearch", "onnx"),
    "store": ("solr",),
    "directions": ("opensearch",),
}


def export_model(
    ranker: Ranker,
    path: str | os.PathLike[str],
    format: str,
    *,
    features: Names | None = None,
    name: str | None = None,
    store: str | None = None,
    directions: bool = False,
) -> None:
    """Write a fitted ranker as another system's model, in one step.

    Every document goes to the same leaves as in `Ranker.predict`, values at a threshold included:
    thresholds are the numbers that mean the same under that system's comparison and precision.
    Solr, RankLib and the search plugins add leaves in float32, so that scores agree to about seven
    digits, and ONNX rounds the sum to float32. Vespa and LightGBM give the same bits (with Langevin
    boosting they agree to about 15 digits). A committee has the same scores, to the bit, in every
    format. What a format cannot express is an error, or a warning if it concerns only missing
    values. A model with list features can be written as ONNX only: its input is then one list.

    Args:
        ranker: a ranker fitted by LightGBM or XGBoost; or a network, which only ONNX can express.
        path: file to write.
        format: ``"solr"`` (a MultipleAdditiveTreesModel), ``"elasticsearch"`` or ``"opensearch"``
            (a request to the learning to rank plugin), ``"ranklib"`` (LambdaMART), ``"vespa"`` (a
            LightGBM dump as Vespa reads it), ``"onnx"`` (needs ONNX) or ``"lightgbm"`` (LightGBM's
            own text).
        features: names of the features in that system, in the order of the columns; or a file of
            names, one per line, a JSON list, or Solr's own definition of features. By default the
            names the ranker was fitted with, else ``f1``, ``f2``, ...
        name: name of the model in Solr, Elasticsearch, OpenSearch or ONNX; by default that of the
            file.
        store: Solr's feature store; by default Solr's default one.
        directions: whether OpenSearch's plugin sends a missing value where each split says, as it
            does since July 2026; by default it is read as 0, as by all older versions.

    >>> import json, tempfile
    >>> from tautrank.data import RankingData
    >>> data = RankingData.from_arrays([[0.0], [1.0]] * 40, [0, 1] * 40, group=[2] * 40)
    >>> from tautrank import Ranker
    >>> ranker = Ranker(n_estimators=3).fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_model(ranker, folder + "/shop.json", "solr", features=["clicks"])
    ...     model = json.loads(Path(folder, "shop.json").read_text())
    >>> model["name"], model["features"], len(model["params"]["trees"])
    ('shop', [{'name': 'clicks'}], 3)
    """
    choice("format", format, tuple(FORMATS))
    if not hasattr(ranker, "_check_fitted"):
        raise OptionError(f"ranker: found a {type(ranker).__name__}; expected a fitted Ranker")
    ranker._check_fitted("export_model")
    for option, value in (("name", name), ("store", store), ("directions", directions or None)):
        if value is not None and format not in _WITH[option]:
            able = " or ".join(_WITH[option])
            raise OptionError(
                f"{option}: found '{value}' with the format {format}; expected it with {able}"
            )
        if isinstance(value, str) and not (value.strip() and value.isprintable()):
            raise OptionError(f"{option}: found {value!r}; expected text on one line")
    if ranker.model_.tool == "torch" and format != "onnx":
        raise OptionError(
            f"format: found '{format}' for a network, which is not a sum of trees; expected onnx"
        )
    lists = ranker.list_features_
    if lists is not None and format != "onnx":
        is_text = format == "lightgbm"
        reason = (
            "LightGBM's text has no formula for them"
            if is_text
            else f"{format} scores documents one by one"
        )
        found = f"'{format}' for a model with list features, but {reason}"
        raise OptionError(
            f"format: found {found}; expected onnx, or a model trained without list_features"
        )
    names, named = _feature_names(ranker, features)
    name = name or Path("model" if str(path) == STANDARD else path).stem
    export = Export(format, ranker.model_, names, named, name, store, lists, directions)
    write_whole(path, FORMATS[format](export))


def _feature_names(ranker: Ranker, given: Names | None) -> tuple[tuple[str, ...], bool]:
    """Return one name per column, and whether they are known: the given ones, else the ranker's,
    else ``f1, f2, ...``.

    Args:
        ranker: a fitted ranker.
        given: the names, or a file that holds them.
    """
    count = ranker.n_features_in_
    if given is None and not hasattr(ranker, "feature_names_in_"):
        return tuple(f"f{column}" for column in range(1, count + 1)), False
    if isinstance(given, str | os.PathLike):
        where, names = os.fspath(given), _read_names(Path(given))
    else:
        where, names = "features", list(ranker.feature_names_in_ if given is None else given)
    if len(names) != count:
        raise DataError(
            f"{where}: found {counted(len(names), 'name')}; expected {count}, one per feature of the model"
        )
    for column, name in enumerate(names, 1):
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise DataError(
                f"{where}: the name of feature {column} is {name!r}; expected text on one line"
            )
        if name in names[: column - 1]:
            raise DataError(f"{where}: found the name '{name}' twice; expected names that differ")
    return tuple(names), True


def _read_names(target: Path) -> list[Any]:
    """Read names: one per line, a JSON list, or Solr's definition of features (JSON objects with
    ``name``).
    """
    text = read_text(target).decode()
    if not text.lstrip().startswith("["):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{target}: found broken JSON ({error}); expected a list of names"
        ) from None
    return [entry.get("name") if isinstance(entry, dict) else entry for entry in listed]
