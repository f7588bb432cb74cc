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
from tautrank.export.formats import Export
from tautrank.export.lightgbm import lightgbm_text
from tautrank.export.onnx_model import onnx_model
from tautrank.export.plugins import plugin_model
from tautrank.export.ranklib import ranklib_model
from tautrank.export.solr import solr_model
from tautrank.export.vespa import vespa_model
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

_FORMATS_WITH_OPTION = {
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
    # An option that is None was not given; `directions` is not given if it is False.
    for option, value in (("name", name), ("store", store), ("directions", directions or None)):
        _check_option(option, value, format)
    _check_model(ranker, format)

    if name is None:
        name = Path("model" if str(path) == STANDARD else path).stem
    has_known_names = features is not None or hasattr(ranker, "feature_names_in_")
    export = Export(
        format=format,
        model=ranker.model_,
        names=_feature_names(ranker, features),
        has_known_names=has_known_names,
        name=name,
        store=store,
        list_features=ranker.list_features_,
        directions=directions,
    )
    # The function of the format returns the whole model as text or bytes.
    content = FORMATS[format](export)
    write_whole(path, content)


def _check_option(option: str, value: Any, format: str) -> None:
    """Raise an error if an option of `export_model` is given with a format that does not use it, or
    is text of several lines.
    """
    if value is None:
        return
    formats = _FORMATS_WITH_OPTION[option]
    if format not in formats:
        raise OptionError(
            f"{option}: found '{value}' with the format {format}; "
            f"expected it with {' or '.join(formats)}"
        )
    if isinstance(value, str) and not _is_one_line(value):
        raise OptionError(f"{option}: found {value!r}; expected text on one line")


def _is_one_line(text: str) -> bool:
    """Whether a text has characters, and none that ends the line or cannot be printed."""
    return bool(text.strip()) and text.isprintable()


def _check_model(ranker: Ranker, format: str) -> None:
    """Raise an error if a format cannot express a fitted ranker: only ONNX can express networks, and
    list features, which depend on all documents of a list.
    """
    if format == "onnx":
        return
    if ranker.model_.tool == "torch":
        raise OptionError(
            f"format: found '{format}' for a network, which is not a sum of trees; expected onnx"
        )
    if ranker.list_features_ is not None:
        reason = f"{format} scores documents one by one"
        if format == "lightgbm":
            reason = "LightGBM's text has no formula for them"
        raise OptionError(
            f"format: found '{format}' for a model with list features, but {reason}; "
            "expected onnx, or a model trained without list_features"
        )


def _feature_names(ranker: Ranker, features: Names | None) -> tuple[str, ...]:
    """Return the name of each feature for an exported model: those of `features`, else those the
    ranker was fitted with, else ``f1, f2, ...``.

    Args:
        ranker: a fitted ranker.
        features: the names, or a file that holds them.
    """
    n_features = ranker.n_features_in_
    if isinstance(features, str | os.PathLike):
        names = _read_names(Path(features))
        return _checked_names(names, n_features, source=os.fspath(features))
    if features is not None:
        return _checked_names(list(features), n_features, source="features")
    if hasattr(ranker, "feature_names_in_"):
        return _checked_names(list(ranker.feature_names_in_), n_features, source="features")
    return tuple(f"f{number}" for number in range(1, n_features + 1))


def _checked_names(names: Sequence[Any], n_features: int, source: str) -> tuple[str, ...]:
    """Return names of features as a tuple; raise an error unless there is one per feature, each on
    one line, and all differ.

    Args:
        names: the names.
        n_features: the number of features.
        source: the argument or file they come from, for the error.
    """
    if len(names) != n_features:
        raise DataError(
            f"{source}: found {counted(len(names), 'name')}; "
            f"expected {n_features}, one per feature of the model"
        )
    known_names: set[str] = set()
    for number, name in enumerate(names, 1):
        if not isinstance(name, str) or not _is_one_line(name):
            raise DataError(
                f"{source}: the name of feature {number} is {name!r}; expected text on one line"
            )
        if name in known_names:
            raise DataError(f"{source}: found the name '{name}' twice; expected names that differ")
        known_names.add(name)
    return tuple(names)


def _read_names(path: Path) -> list[Any]:
    """Return the names of features that a file lists: one per line, a JSON list of names, or Solr's
    definition of features (a JSON list of objects with a ``name``). They are not checked.
    """
    text = read_text(path).decode()
    is_json = text.lstrip().startswith("[")
    if not is_json:
        lines = [line.strip() for line in text.splitlines()]
        return [line for line in lines if line]

    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: found broken JSON ({error}); expected a list of names") from None
    names = []
    for entry in entries:
        if isinstance(entry, dict):
            names.append(entry.get("name"))
        else:
            names.append(entry)
    return names
