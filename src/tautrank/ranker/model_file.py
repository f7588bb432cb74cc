"""The model file: a zip archive with ``meta.json`` and the trees in their engine's own format.

Nothing in it is code. Reading parses JSON, looks the engine up in a fixed table and passes the trees to that engine;
members are read into memory up to a limit and never unpacked to disk. The same model gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import zipfile
import zlib
from contextlib import nullcontext
from typing import IO, Any, TypeAlias

from tautrank.data.columns import Levels
from tautrank.engines import FittedModel, Record
from tautrank.engines.base import read_model
from tautrank.engines.langevin import Langevin
from tautrank.errors import DataError, OptionError
from tautrank.files import atomic_write, opened
from tautrank.json_values import or_nan, to_json
from tautrank.ranker.inputs import Names
from tautrank.ranker.list_features import ListFeatures, read_list_features
from tautrank.ranker.other_models import model_bytes, read_other_model, tool_of

FORMAT_VERSION = 4

_Read: TypeAlias = tuple[dict[str, Any], FittedModel, Record, Names, ListFeatures | None, Levels]

_FORMAT = "tautrank model"
_META = "meta.json"
# Parameters of a ranker that are objects, written as their fields.
_OBJECTS: dict[str, type[Any]] = {"langevin": Langevin, "list_features": ListFeatures}
_ZIP_START = b"PK\x03\x04"
# An archive made to fill the memory expands a thousandfold; trees as text shrink to a third or so.
_ALWAYS_FINE = 256 * 2**20
_LARGEST_RATIO = 100


def write_ranker(
    path: str | os.PathLike[str] | IO[bytes],
    parameters: dict[str, Any],
    model: FittedModel,
    record: Record,
    names: Names,
    lists: ListFeatures | None = None,
    levels: Levels | None = None,
) -> None:
    """Write a ranker in one step: a reader sees the whole new file or what was there before.

    Args:
        path: file to write, or a binary file that is open for writing.
        parameters: all parameters of the ranker.
        model: the trees.
        record: what happened during training.
        names: names of the features of the data, if there are any.
        lists: the list features of the model, if it has any.
        levels: the levels of columns of categories, by name.
    """
    import tautrank

    content = model.to_bytes()
    parameters = {**parameters, "loss": str(parameters["loss"]), "metric": str(parameters["metric"])}
    for name, kind in _OBJECTS.items():
        if isinstance(parameters[name], kind):
            parameters[name] = dataclasses.asdict(parameters[name])
    meta = {
        "format": _FORMAT,
        # Readers of version 1 do not know of a scale, and would predict without it; those of 2 of no list features;
        # those of 3 of no categories.
        "format_version": 4 if levels else 3 if lists is not None else 1 if model.scale == 1 else 2,
        "tautrank_version": tautrank.__version__,
        "engine": model.tool,
        "engine_version": model.version(),
        "loss": parameters["loss"],
        "metric": parameters["metric"],
        "parameters": parameters,
        "n_features": model.n_features - (0 if lists is None else lists.width),
        "feature_names": names,
        "list_features": None if lists is None else {**dataclasses.asdict(lists), "names": lists.names(names)},
        **({"categories": levels} if levels else {}),
        "training": {
            "seed": record.seed,
            "steps": record.steps,
            "n_trees": model.n_trees,
            "best_iteration": record.best_iteration,
            "best_score": record.best_score,
            "history": record.history,
            "scale": model.scale,
        },
        "model": {"member": model.member, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()},
    }
    text = json.dumps(to_json(meta, "model"), indent=1, ensure_ascii=False, allow_nan=False)
    opened = atomic_write(path) if isinstance(path, str | os.PathLike) else nullcontext(path)
    with opened as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in ((_META, text.encode("utf-8", "surrogatepass")), (model.member, content)):
            # The oldest date zip knows, and fixed permissions: bytes depend on the model alone.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)


def read_ranker(source: Any) -> _Read:
    """Read what `write_ranker` wrote; every type is checked, so that no file can surprise what uses it.

    Args:
        source: a path, bytes or a binary file, also of a model that LightGBM or XGBoost saved; or a booster.
    """
    content, target = _content(source)
    tool = tool_of(content)
    try:
        if tool is not None:
            return read_other_model(tool, content)
        return _described(*_members(content, target))
    except (DataError, OptionError) as error:
        raise DataError(str(error) if str(error).startswith(target) else f"{target}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise DataError(
            f"{target}: meta.json lacks what describes a model; expected a file written by Ranker.save"
        ) from None


def check_model(source: Any) -> None:
    """Refuse a file that is no model by how it starts, without reading the trees.

    Args:
        source: as in `read_ranker`.
    """
    content, target = _content(source)
    if tool_of(content) is None and not content.startswith(_ZIP_START):
        _members(content, target)


def _content(source: Any) -> tuple[bytes, str]:
    """Return the bytes of a model, and what to call them in a sentence."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "model"
    if isinstance(source, str | os.PathLike):
        with opened(source, "a model saved by tautrank") as file:
            return file.read(), os.fspath(source)
    found = source.read() if hasattr(source, "read") else model_bytes(source)
    if not isinstance(found, bytes):
        what = "text instead of bytes" if isinstance(found, str) else f"an object of {type(source).__name__}"
        raise DataError(f"model: found {what}; expected a path, bytes, a binary file, or a booster")
    return found, str(getattr(source, "name", "model"))


def _described(meta: dict[str, Any], content: bytes) -> _Read:
    training = meta["training"]
    parameters = _typed(meta["parameters"], dict)
    if "self" in parameters:  # no name that a ranker can be given
        raise ValueError
    for name, kind in _OBJECTS.items():
        given = parameters.get(name)
        if isinstance(given, dict) and {*given} == {field.name for field in dataclasses.fields(kind)}:
            parameters[name] = kind(**given)
        elif isinstance(given, dict) or (name == "langevin" and given is not None):
            raise ValueError
    read_list_features(parameters.get("list_features"))
    n_features, names = _typed(meta["n_features"], int), meta["feature_names"]
    if names is not None:
        names = tuple(_typed(name, str) for name in _typed(names, list))
        if len(names) != n_features:
            raise ValueError
    best = training["best_score"]
    record = Record(
        history={
            part: {name: [or_nan(value) for value in _typed(values, list)] for name, values in by_metric.items()}
            for part, by_metric in training["history"].items()
        },
        best_iteration=_typed(training["best_iteration"], int),
        best_score=None if best is None else float(best),
        steps=_typed(training["steps"], int),
        seed=_typed(training["seed"], int),
    )
    # Version 0.1.0 wrote the leaves of a shrunk model with their scale in them.
    scale = _typed(training.get("scale", 1.0), float)
    if not 0 < scale <= 1:
        raise ValueError
    lists, width = None, n_features
    if meta.get("list_features") is not None:
        lists = ListFeatures(**{name: value for name, value in meta["list_features"].items() if name != "names"})
        if any(_typed(column, int) >= n_features for column in lists.columns):
            raise ValueError
        width += lists.width
    levels = {
        name: tuple(_typed(level, str) for level in _typed(of_column, list))
        for name, of_column in _typed(meta.get("categories", {}), dict).items()
    }
    if not {*levels} <= {*(names or ())}:
        raise ValueError
    return parameters, read_model(_typed(meta["engine"], str), content, width, scale), record, names, lists, levels


def _typed(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
        raise ValueError
    return value


def _members(content: bytes, target: str) -> tuple[dict[str, Any], bytes]:
    """Return the description and the trees, which are what it describes."""
    if not content:
        raise DataError(f"{target}: is empty; expected a model saved by tautrank")
    start = content[:4]
    if start != _ZIP_START[: len(start)]:
        raise _not_ours(target, f"is not a tautrank model (it starts with {start!r})")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive, target)
    except DataError:
        raise
    except Exception:  # what zipfile makes of damaged bytes, it does not say; most is a BadZipFile
        # The list of members stands at the end, and is the first thing to go.
        raise DataError(f"{target}: is cut off or damaged at its end; expected a whole model file") from None


def _not_ours(target: str, what: str) -> DataError:
    return DataError(f"{target}: {what}; expected a file written by Ranker.save")


def _read(archive: zipfile.ZipFile, target: str) -> tuple[dict[str, Any], bytes]:
    if _META not in archive.namelist():
        raise _not_ours(target, f"is not a tautrank model (a zip archive without {_META})")
    text = _member(archive, _META, target)
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_ours(target, f"{_META} is not JSON") from None
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise _not_ours(target, f"is not a tautrank model ({_META} does not say so)")
    version = meta.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DataError(f"{target}: has the format version {version!r}; expected {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        writer = meta.get("tautrank_version", "a newer one")
        raise DataError(
            f"{target}: has the format version {version}, written by tautrank {writer}; expected at most "
            f"{FORMAT_VERSION} (pip install --upgrade tautrank)"
        )
    model = meta.get("model")
    member = model.get("member") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(member, str):
        raise _not_ours(target, f"{_META} does not say where the trees are")
    if member not in archive.namelist():
        raise DataError(f"{target}: has no member '{member}'; expected the trees there")
    content = _member(archive, member, target)
    if hashlib.sha256(content).hexdigest() != model.get("sha256"):
        raise DataError(f"{target}: '{member}' is not what {_META} describes; expected the trees it was saved with")
    return meta, content


def _member(archive: zipfile.ZipFile, name: str, target: str) -> bytes:
    entry = archive.getinfo(name)
    limit = _ALWAYS_FINE if name == _META else max(_ALWAYS_FINE, _LARGEST_RATIO * entry.compress_size)
    if entry.file_size > limit:
        raise DataError(f"{target}: '{name}' would take {entry.file_size:,} bytes; expected at most {limit:,}")
    try:
        with archive.open(entry) as file:
            # The archive may lie about the size: no more than that is ever unpacked, and then fails its checksum.
            return file.read(entry.file_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError, ValueError):
        raise DataError(f"{target}: '{name}' is damaged (it fails its checksum); expected a whole model file") from None
