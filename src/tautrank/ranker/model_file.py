"""The model file: a zip archive with ``meta.json`` and the trees in their engine's own format.

Nothing in it is code. Reading parses JSON, looks the engine up in a fixed table and passes the
trees to that engine. The same model gives the same bytes. Models that LightGBM or XGBoost trained
without this library are read too, see `tautrank.ranker.other_tools`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from typing import IO, Any, NamedTuple

from tautrank.data.frames import Levels
from tautrank.data.ranking_data import Names
from tautrank.engines import Record
from tautrank.engines.choosing import read_model
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, OptionError
from tautrank.files import atomic_write, opened
from tautrank.json_values import or_nan, to_json
from tautrank.ranker.damage import DAMAGE, DamagedModelError
from tautrank.ranker.fitted import Fitted
from tautrank.ranker.list_features import ListFeatures, read_list_features
from tautrank.ranker.model_archive import (
    FORMAT,
    ZIP_START,
    not_a_model,
    read_archive,
    write_archive,
)
from tautrank.ranker.other_tools import model_bytes, read_other_model, tool_of
from tautrank.ranker.stored_names import with_present_names

# Parameters of a ranker that are objects, written as their fields.
_OBJECTS: dict[str, type[Any]] = {"langevin": Langevin, "list_features": ListFeatures}


def write_ranker(
    path: str | os.PathLike[str] | IO[bytes], parameters: dict[str, Any], fitted: Fitted
) -> None:
    """Write a ranker in one step: a reader sees the whole new file or what was there before.

    Args:
        path: file to write, or a binary file that is open for writing.
        parameters: all parameters of the ranker.
        fitted: what it has after training.
    """
    trees = fitted.model.to_bytes()
    meta = to_json(_description(parameters, fitted, trees), "model")
    if hasattr(path, "write"):
        write_archive(path, meta, trees)
        return
    with atomic_write(path) as file:
        write_archive(file, meta, trees)


def _description(parameters: dict[str, Any], fitted: Fitted, trees: bytes) -> dict[str, Any]:
    """Return the content of ``meta.json`` in a model file: format, versions, parameters, features,
    the training, and a checksum of the trees.

    Args:
        parameters: all parameters of the ranker.
        fitted: what it has after training.
        trees: the trees in their engine's own format.
    """
    import tautrank

    model = fitted.model
    parameters = _plain_parameters(parameters)
    description = {
        "format": FORMAT,
        "format_version": _format_version(fitted),
        "tautrank_version": tautrank.__version__,
        "engine": model.tool,
        "engine_version": model.version(),
        "loss": parameters["loss"],
        "metric": parameters["metric"],
        "parameters": parameters,
        "n_features": fitted.n_features,
        "feature_names": fitted.feature_names,
        "list_features": _described_list_features(fitted),
    }
    if fitted.categories:
        description["categories"] = fitted.categories
    description["training"] = _described_training(fitted)
    description["model"] = {
        "member": model.member,
        "bytes": len(trees),
        "sha256": hashlib.sha256(trees).hexdigest(),
    }
    return description


def _plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a ranker as values that JSON can hold: loss and metric as text, other
    objects as dictionaries of their fields.
    """
    plain = dict(parameters)
    plain["loss"] = str(parameters["loss"])
    plain["metric"] = str(parameters["metric"])
    for name, object_class in _OBJECTS.items():
        if isinstance(plain[name], object_class):
            plain[name] = dataclasses.asdict(plain[name])
    return plain


def _format_version(fitted: Fitted) -> int:
    """Return the oldest version of the model file's format that has all that a model needs, so that
    old versions of this library read it if they can.

    Version 2 added a scale of the scores, version 3 list features, version 4 categories; older
    readers would predict without them.
    """
    if fitted.categories:
        return 4
    if fitted.list_features is not None:
        return 3
    return 1 if fitted.model.scale == 1 else 2


def _described_list_features(fitted: Fitted) -> dict[str, Any] | None:
    """Return the list features of a model (columns that compare a document with its list) for its
    file, with the names of these columns; None if it has none.
    """
    if fitted.list_features is None:
        return None
    description = dataclasses.asdict(fitted.list_features)
    description["names"] = fitted.list_features.names(fitted.feature_names)
    return description


def _described_training(fitted: Fitted) -> dict[str, Any]:
    """Return what a model file says about the training: seed, number of trees, scores by tree."""
    record = fitted.record
    return {
        "seed": record.seed,
        "steps": record.steps,
        "n_trees": fitted.model.n_trees,
        "best_iteration": record.best_iteration,
        "best_score": record.best_score,
        "history": record.history,
        "scale": fitted.model.scale,
    }


class _ModelContent(NamedTuple):
    """The bytes of a model, and what a sentence calls them: the path, if they are from a file."""

    content: bytes
    label: str


def read_ranker(source: Any) -> tuple[dict[str, Any], Fitted]:
    """Return a saved model as the parameters of a ranker, and what a ranker has after training: the
    model, its history, and the names and categories of the columns.

    Every type is checked, so that no file can surprise what uses it.

    Args:
        source: a path, bytes or a binary file, also of a model that LightGBM or XGBoost saved; or a
            booster.
    """
    content, label = _model_content(source)
    # "lightgbm" or "xgboost"; None for a file of this library.
    tool = tool_of(content)
    try:
        if tool is not None:
            return read_other_model(tool, content)
        meta, trees = read_archive(content)
        return _read_description(meta, trees)
    except (DataError, OptionError) as error:
        raise DataError(f"{label}: {error}") from None
    except DAMAGE:
        raise not_a_model(f"{label}: meta.json lacks what describes a model") from None


def check_model(source: Any) -> None:
    """Raise an error if this is not a model by its first bytes; the trees are not read.

    Args:
        source: as in `read_ranker`.
    """
    content, _ = _model_content(source)
    if tool_of(content) is None and not content.startswith(ZIP_START):
        read_ranker(source)


def _model_content(source: Any) -> _ModelContent:
    """Return the bytes of a model from a path, bytes, a binary file, or a booster of LightGBM or
    XGBoost, and a label for error sentences (the path, or "model").
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _ModelContent(bytes(source), "model")
    if isinstance(source, str | os.PathLike):
        with opened(source, "a model saved by tautrank") as file:
            return _ModelContent(file.read(), os.fspath(source))

    content = source.read() if hasattr(source, "read") else model_bytes(source)
    if isinstance(content, bytes):
        return _ModelContent(content, str(getattr(source, "name", "model")))
    kind = f"an object of {type(source).__name__}"
    if isinstance(content, str):
        kind = "text instead of bytes"
    raise DataError(f"model: found {kind}; expected a path, bytes, a binary file, or a booster")


def _read_description(meta: dict[str, Any], trees: bytes) -> tuple[dict[str, Any], Fitted]:
    """Return the content of a model file as the parameters of a ranker, and what it has after
    training.

    Args:
        meta: the content of ``meta.json``; a wrong type in it raises one of `DAMAGE`.
        trees: the trees in their engine's own format.
    """
    stored_parameters = _typed(meta["parameters"], dict)
    parameters = _read_parameters(stored_parameters)
    record = _read_record(meta["training"])
    n_features = _typed(meta["n_features"], int)
    feature_names = _read_names(meta["feature_names"], n_features)
    list_features = _read_stored_list_features(meta.get("list_features"), n_features)
    categories = _read_categories(meta.get("categories", {}), feature_names)
    # Version 0.1.0 wrote no scale: it is in the leaves already.
    scale = _typed(meta["training"].get("scale", 1.0), float)
    if not 0 < scale <= 1:
        raise DamagedModelError(f"the scale {scale}")

    n_columns = n_features
    if list_features is not None:
        n_columns += list_features.width
    engine_name = _typed(meta["engine"], str)
    model = read_model(engine_name, trees, n_columns, scale)
    return parameters, Fitted(model, record, feature_names, list_features, categories)


def _read_parameters(stored_parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a ranker from a model file, where objects are written as dictionaries
    of their fields; raise an error if one is not what the ranker can have.
    """
    parameters = dict(stored_parameters)
    for name, object_class in _OBJECTS.items():
        stored_fields = parameters.get(name)
        if isinstance(stored_fields, dict):
            names_of_fields = {field.name for field in dataclasses.fields(object_class)}
            if set(stored_fields) != names_of_fields:
                raise DamagedModelError(f"the fields of {name}")
            parameters[name] = object_class(**stored_fields)
    if not isinstance(parameters.get("langevin"), Langevin | None):
        raise DamagedModelError("langevin")
    # `Ranker(self=...)` would be no sentence but a TypeError.
    if "self" in parameters:
        raise DamagedModelError("a parameter called self")
    read_list_features(parameters.get("list_features"))  # an error if it is none
    return with_present_names(parameters)


def _read_record(training: dict[str, Any]) -> Record:
    """Return the history of a training from the object ``training`` of a model file.

    A value that a metric did not have (NaN) is null in the file.
    """
    history: dict[str, dict[str, list[float]]] = {}
    for set_name, values_by_metric in training["history"].items():
        history[set_name] = {}
        for metric, values in values_by_metric.items():
            history[set_name][metric] = [or_nan(value) for value in _typed(values, list)]
    best_score = training["best_score"]
    if best_score is not None:
        best_score = float(best_score)
    return Record(
        history=history,
        best_iteration=_typed(training["best_iteration"], int),
        best_score=best_score,
        steps=_typed(training["steps"], int),
        seed=_typed(training["seed"], int),
    )


def _read_names(names: Any, n_features: int) -> Names:
    """Return the names of the features; None if they have none."""
    if names is None:
        return None
    if len(_typed(names, list)) != n_features:
        raise DamagedModelError("the number of names")
    return _texts(names)


def _read_stored_list_features(description: Any, n_features: int) -> ListFeatures | None:
    """Return the list features of a model from the description in its file; None if there is none.

    Args:
        description: the fields of `ListFeatures`, columns by number, and the names of the columns.
        n_features: the number of features of the data.
    """
    if description is None:
        return None
    # The names are for readers of the file.
    fields = {name: value for name, value in description.items() if name != "names"}
    list_features = ListFeatures(**fields)
    for column in list_features.columns:
        if _typed(column, int) >= n_features:
            raise DamagedModelError(f"list features of column {column}")
    return list_features


def _read_categories(categories: Any, feature_names: Names) -> Levels:
    """Return the levels (known categories) of each column that held categories, by name of the
    column, from a model file; raise an error if there is no such column.
    """
    levels_by_column = {}
    for name, levels in _typed(categories, dict).items():
        if feature_names is None or name not in feature_names:
            raise DamagedModelError(f"categories of {name}")
        levels_by_column[name] = _texts(_typed(levels, list))
    return levels_by_column


def _texts(values: list[Any]) -> tuple[str, ...]:
    """Return a list of texts as a tuple; raise an error if one is no text."""
    return tuple(_typed(value, str) for value in values)


def _typed(value: Any, kind: type[Any]) -> Any:
    """Return a value from JSON unchanged; raise an error if it is of another type, or a negative
    whole number.
    """
    # To Python True is a number.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DamagedModelError(f"{value!r} is no {kind.__name__}")
    if isinstance(value, int) and value < 0:
        raise DamagedModelError(f"{value} is negative")
    return value
