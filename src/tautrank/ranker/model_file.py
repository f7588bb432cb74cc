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
    """Return all that a model file says beside the trees."""
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
    """Return parameters of a ranker with objects as text or as their fields."""
    plain = dict(parameters)
    plain["loss"] = str(parameters["loss"])
    plain["metric"] = str(parameters["metric"])
    for name, kind in _OBJECTS.items():
        if isinstance(plain[name], kind):
            plain[name] = dataclasses.asdict(plain[name])
    return plain


def _format_version(fitted: Fitted) -> int:
    """Return the oldest version of the format that has all that the model needs.

    Readers of version 1 do not know of a scale, and would predict without it; those of 2 of no list
    features; those of 3 of no categories.
    """
    if fitted.categories:
        return 4
    if fitted.list_features is not None:
        return 3
    return 1 if fitted.model.scale == 1 else 2


def _described_list_features(fitted: Fitted) -> dict[str, Any] | None:
    """Return the list features and the names of their columns, if the model has any."""
    if fitted.list_features is None:
        return None
    names = fitted.list_features.names(fitted.feature_names)
    return {**dataclasses.asdict(fitted.list_features), "names": names}


def _described_training(fitted: Fitted) -> dict[str, Any]:
    """Return what happened in training."""
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
    """Return the parameters of a ranker, and what it has after training.

    Every type is checked, so that no file can surprise what uses it.

    Args:
        source: a path, bytes or a binary file, also of a model that LightGBM or XGBoost saved; or a
            booster.
    """
    content, label = _model_content(source)
    tool = tool_of(content)
    try:
        if tool is not None:
            return read_other_model(tool, content)
        return _read_description(*read_archive(content))
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
    """Return the bytes of a model that is a path, bytes, a binary file or a booster."""
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
    """Return the parameters of a ranker, and what it has after training, from a model file.

    Args:
        meta: the description; a wrong type in it raises one of `DAMAGE`.
        trees: the trees in their engine's own format.
    """
    parameters = _read_parameters(_typed(meta["parameters"], dict))
    record = _read_record(meta["training"])
    n_features = _typed(meta["n_features"], int)
    feature_names = _read_names(meta["feature_names"], n_features)
    list_features = _read_columns(meta.get("list_features"), n_features)
    categories = _read_categories(meta.get("categories", {}), feature_names)
    # Version 0.1.0 wrote the leaves of a shrunk model with their scale in them.
    scale = _typed(meta["training"].get("scale", 1.0), float)
    if not 0 < scale <= 1:
        raise DamagedModelError(f"the scale {scale}")

    n_columns = n_features + (0 if list_features is None else list_features.width)
    model = read_model(_typed(meta["engine"], str), trees, n_columns, scale)
    return parameters, Fitted(model, record, feature_names, list_features, categories)


def _read_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of a ranker, objects made from their fields."""
    for name, kind in _OBJECTS.items():
        value = parameters.get(name)
        if isinstance(value, dict):
            names_of_fields = {field.name for field in dataclasses.fields(kind)}
            if set(value) != names_of_fields:
                raise DamagedModelError(f"the fields of {name}")
            parameters[name] = kind(**value)
    if not isinstance(parameters.get("langevin"), Langevin | None):
        raise DamagedModelError("langevin")
    # `Ranker(self=...)` would be no sentence but a TypeError.
    if "self" in parameters:
        raise DamagedModelError("a parameter called self")
    read_list_features(parameters.get("list_features"))  # an error if it is none
    return with_present_names(parameters)


def _read_record(training: dict[str, Any]) -> Record:
    """Return what happened in training; a value that a metric did not have is null in the file."""
    best_score = training["best_score"]
    history: dict[str, dict[str, list[float]]] = {}
    for part, values_by_metric in training["history"].items():
        history[part] = {}
        for metric, values in values_by_metric.items():
            history[part][metric] = [or_nan(value) for value in _typed(values, list)]
    return Record(
        history=history,
        best_iteration=_typed(training["best_iteration"], int),
        best_score=None if best_score is None else float(best_score),
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


def _read_columns(described: Any, n_features: int) -> ListFeatures | None:
    """Return the list features of a model, with columns by number; None if there are none."""
    if described is None:
        return None
    fields = {name: value for name, value in described.items() if name != "names"}
    list_features = ListFeatures(**fields)
    for column in list_features.columns:
        if _typed(column, int) >= n_features:
            raise DamagedModelError(f"list features of column {column}")
    return list_features


def _read_categories(categories: Any, feature_names: Names) -> Levels:
    """Return the levels of the columns that held categories, by name."""
    levels_by_column = {}
    for name, levels in _typed(categories, dict).items():
        if feature_names is None or name not in feature_names:
            raise DamagedModelError(f"categories of {name}")
        levels_by_column[name] = _texts(_typed(levels, list))
    return levels_by_column


def _texts(values: list[Any]) -> tuple[str, ...]:
    """Return a list of text as a tuple."""
    return tuple(_typed(value, str) for value in values)


def _typed(value: Any, kind: type[Any]) -> Any:
    """Return a value of JSON if it is of this type, and not negative if it is a whole number."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise DamagedModelError(f"{value!r} is no {kind.__name__}")
    if isinstance(value, int) and value < 0:
        raise DamagedModelError(f"{value} is negative")
    return value
