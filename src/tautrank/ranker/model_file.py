"""The model file: a zip archive with ``meta.json`` and the trees in their engine's own format.

Nothing in it is code. Reading parses JSON, looks the engine up in a fixed table and passes the
trees to that engine; members are read into memory up to a limit and never unpacked to disk. The
same model gives the same bytes.

Models that LightGBM or XGBoost trained without this library are recognised by their content and
read as a ranker. LightGBM's text holds the trees, the objective and the names of the features;
XGBoost's JSON and UBJSON too. The metric, the training history and most parameters are in neither:
the ranker has defaults for them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import zipfile
from contextlib import nullcontext
from typing import IO, Any, NamedTuple

import numpy as np

from tautrank.data.frames import Levels, level_text
from tautrank.data.ranking_data import Names
from tautrank.engines import FittedModel, NativeLoss, Record
from tautrank.engines.choosing import read_model
from tautrank.engines.langevin import Langevin
from tautrank.engines.lightgbm_text import text_for_float32, tree_sizes
from tautrank.engines.packages import package
from tautrank.engines.registry import engine_named
from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.files import atomic_write, opened
from tautrank.json_values import or_nan, to_json
from tautrank.ranker.list_features import ListFeatures, read_list_features
from tautrank.ranker.stored_names import with_present_names
from tautrank.ranker.ubjson import from_ubjson

FORMAT_VERSION = 4

_FORMAT = "tautrank model"
_META = "meta.json"
# Parameters of a ranker that are objects, written as their fields.
_OBJECTS: dict[str, type[Any]] = {"langevin": Langevin, "list_features": ListFeatures}
_ZIP_START = b"PK\x03\x04"
# An archive made to fill the memory expands a thousandfold; trees as text shrink to a third or so.
_ALWAYS_FINE = 256 * 2**20
_LARGEST_RATIO = 100
# XGBoost's UBJSON begins with an object whose first key has its length in 8 bytes.
_UBJSON = b"{L"
# What is raised on the way where a file is not what it should be.
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
# The numbers of a tree in LightGBM's text: of its splits and leaves, and of the whole tree.
_OF_SPLITS = (
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "split_gain",
)
_OF_NODES = (
    "internal_value",
    "internal_weight",
    "internal_count",
    "leaf_value",
    "leaf_weight",
    "leaf_count",
)
_OF_XGBOOST = ("left_children", "right_children", "split_indices", "parents")
_OF_TREES = ("num_cat", "cat_boundaries", "cat_threshold", "shrinkage", "is_linear")


class Fitted(NamedTuple):
    """What training leaves: the model, its record, names of the features, list features, and levels
    of categories.
    """

    model: FittedModel
    record: Record
    names: Names
    lists: ListFeatures | None
    levels: Levels


def write_ranker(
    path: str | os.PathLike[str] | IO[bytes], parameters: dict[str, Any], fitted: Fitted
) -> None:
    """Write a ranker in one step: a reader sees the whole new file or what was there before.

    Args:
        path: file to write, or a binary file that is open for writing.
        parameters: all parameters of the ranker.
        fitted: what it has after training.
    """
    import tautrank

    model, record, names, lists, levels = fitted
    content = model.to_bytes()
    parameters = {
        **parameters,
        "loss": str(parameters["loss"]),
        "metric": str(parameters["metric"]),
    }
    for name, kind in _OBJECTS.items():
        if isinstance(parameters[name], kind):
            parameters[name] = dataclasses.asdict(parameters[name])
    meta = {
        "format": _FORMAT,
        # Readers of version 1 do not know of a scale, and would predict without it; those of 2 of
        # no list features; those of 3 of no categories.
        "format_version": 4 if levels else 3 if lists is not None else 1 if model.scale == 1 else 2,
        "tautrank_version": tautrank.__version__,
        "engine": model.tool,
        "engine_version": model.version(),
        "loss": parameters["loss"],
        "metric": parameters["metric"],
        "parameters": parameters,
        "n_features": model.n_features - (0 if lists is None else lists.width),
        "feature_names": names,
        "list_features": None
        if lists is None
        else {**dataclasses.asdict(lists), "names": lists.names(names)},
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
        "model": {
            "member": model.member,
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
    }
    text = json.dumps(to_json(meta, "model"), indent=1, ensure_ascii=False, allow_nan=False)
    opened: Any = nullcontext(path) if hasattr(path, "write") else atomic_write(path)
    with opened as file, zipfile.ZipFile(file, "w") as archive:
        for name, data in ((_META, text.encode("utf-8", "surrogatepass")), (model.member, content)):
            # The oldest date zip knows, and fixed permissions: bytes depend on the model alone.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 6)


def read_ranker(source: Any) -> tuple[dict[str, Any], Fitted]:
    """Read what `write_ranker` wrote; every type is checked, so that no file can surprise what uses
    it.

    Args:
        source: a path, bytes or a binary file, also of a model that LightGBM or XGBoost saved; or a
            booster.
    """
    content, target = _content(source)
    tool = tool_of(content)
    try:
        return _described(*_members(content)) if tool is None else _read_other_model(tool, content)
    except (DataError, OptionError) as error:
        raise DataError(f"{target}: {error}") from None
    except _DAMAGE:
        raise _not_ours(f"{target}: meta.json lacks what describes a model") from None


def check_model(source: Any) -> None:
    """Refuse a file that is no model by how it starts, without reading the trees.

    Args:
        source: as in `read_ranker`.
    """
    content, _ = _content(source)
    if tool_of(content) is None and not content.startswith(_ZIP_START):
        read_ranker(source)


def _content(source: Any) -> tuple[bytes, str]:
    """Return the bytes of a model, and what to call them in a sentence."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), "model"
    if isinstance(source, str | os.PathLike):
        with opened(source, "a model saved by tautrank") as file:
            return file.read(), os.fspath(source)
    found = source.read() if hasattr(source, "read") else _model_bytes(source)
    if not isinstance(found, bytes):
        what = (
            "text instead of bytes"
            if isinstance(found, str)
            else f"an object of {type(source).__name__}"
        )
        raise DataError(f"model: found {what}; expected a path, bytes, a binary file, or a booster")
    return found, str(getattr(source, "name", "model"))


def _described(meta: dict[str, Any], content: bytes) -> tuple[dict[str, Any], Fitted]:
    training, parameters = meta["training"], _typed(meta["parameters"], dict)
    for name, kind in _OBJECTS.items():
        given = parameters.get(name)
        if isinstance(given, dict) and {*given} == {
            field.name for field in dataclasses.fields(kind)
        }:
            parameters[name] = kind(**given)
        elif isinstance(given, dict) or (name == "langevin" and given is not None):
            raise ValueError
    read_list_features(parameters.get("list_features"))
    best = training["best_score"]
    record = Record(
        history={
            part: {
                name: [or_nan(value) for value in _typed(values, list)]
                for name, values in by_metric.items()
            }
            for part, by_metric in training["history"].items()
        },
        best_iteration=_typed(training["best_iteration"], int),
        best_score=None if best is None else float(best),
        steps=_typed(training["steps"], int),
        seed=_typed(training["seed"], int),
    )
    n_features, names, described = (
        _typed(meta["n_features"], int),
        meta["feature_names"],
        meta.get("list_features"),
    )
    names = None if names is None else tuple(_typed(name, str) for name in _typed(names, list))
    lists = (
        None
        if described is None
        else ListFeatures(**{n: v for n, v in described.items() if n != "names"})
    )
    levels = {
        name: tuple(_typed(level, str) for level in _typed(of_column, list))
        for name, of_column in _typed(meta.get("categories", {}), dict).items()
    }
    # Version 0.1.0 wrote the leaves of a shrunk model with their scale in them.
    scale = _typed(training.get("scale", 1.0), float)
    fits = (
        "self" not in parameters  # no name that a ranker can be given
        and (names is None or len(names) == n_features)
        and (lists is None or all(_typed(column, int) < n_features for column in lists.columns))
        and {*levels} <= {*(names or ())}
        and 0 < scale <= 1
    )
    if not fits:
        raise ValueError
    width = n_features + (0 if lists is None else lists.width)
    model = read_model(_typed(meta["engine"], str), content, width, scale)
    return with_present_names(parameters), Fitted(model, record, names, lists, levels)


def _typed(value: Any, kind: type[Any]) -> Any:
    if (
        not isinstance(value, kind)
        or isinstance(value, bool)
        or (isinstance(value, int) and value < 0)
    ):
        raise ValueError
    return value


def _members(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the description and the trees, which are what it describes."""
    if not content:
        raise DataError("is empty; expected a model saved by tautrank")
    start = content[:4]
    if start != _ZIP_START[: len(start)]:
        raise _not_ours(f"is not a tautrank model (it starts with {start!r})")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _read(archive)
    except DataError:
        raise
    except Exception:  # what zipfile makes of damaged bytes, it does not say; most is a BadZipFile
        # The list of members stands at the end, and is the first thing to go.
        raise DataError("is cut off or damaged at its end; expected a whole model file") from None


def _not_ours(what: str) -> DataError:
    return DataError(f"{what}; expected a file written by Ranker.save")


def _read(archive: zipfile.ZipFile) -> tuple[dict[str, Any], bytes]:
    if _META not in archive.namelist():
        raise _not_ours(f"is not a tautrank model (a zip archive without {_META})")
    text = _member(archive, _META)
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_ours(f"{_META} is not JSON") from None
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise _not_ours(f"is not a tautrank model ({_META} does not say so)")
    version = meta.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DataError(f"has the format version {version!r}; expected {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        writer = meta.get("tautrank_version", "a newer one")
        expected = f"at most {FORMAT_VERSION} (pip install --upgrade tautrank)"
        raise DataError(
            f"has the format version {version}, written by tautrank {writer}; expected {expected}"
        )
    model = meta.get("model")
    member = model.get("member") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(member, str):
        raise _not_ours(f"{_META} does not say where the trees are")
    if member not in archive.namelist():
        raise DataError(f"has no member '{member}'; expected the trees there")
    content = _member(archive, member)
    if hashlib.sha256(content).hexdigest() != model.get("sha256"):
        raise DataError(
            f"'{member}' is not what {_META} describes; expected the trees it was saved with"
        )
    return meta, content


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    entry = archive.getinfo(name)
    limit = (
        _ALWAYS_FINE if name == _META else max(_ALWAYS_FINE, _LARGEST_RATIO * entry.compress_size)
    )
    if entry.file_size > limit:
        raise DataError(
            f"'{name}' would take {entry.file_size:,} bytes; expected at most {limit:,}"
        )
    try:
        with archive.open(entry) as file:
            # The archive may lie about the size: no more than that is ever unpacked, and then fails
            # its checksum.
            return file.read(entry.file_size)
    except Exception:  # damaged bytes raise many kinds of errors in zipfile and zlib
        raise DataError(
            f"'{name}' is damaged (it fails its checksum); expected a whole model file"
        ) from None


def _model_bytes(given: Any) -> bytes | None:
    """Return the model of a `lightgbm.Booster`, an `xgboost.Booster`, or of the tool's scikit-learn
    estimator.

    Args:
        given: the object; None is returned for any other.
    """
    tool = type(given).__module__.partition(".")[0]
    if tool == "xgboost":
        booster = given.get_booster() if hasattr(given, "get_booster") else given
        return bytes(booster.save_raw("ubj"))
    return (
        str(getattr(given, "booster_", given).model_to_string()).encode()
        if tool == "lightgbm"
        else None
    )


def tool_of(content: bytes) -> str | None:
    """Return the tool that wrote a model; None if it is neither LightGBM nor XGBoost.

    Args:
        content: the file's content.

    >>> tool_of(b"tree\\nversion=v4\\n"), tool_of(b'{"learner":{'), tool_of(b"PK")
    ('lightgbm', 'xgboost', None)
    """
    start = content[:400].lstrip()
    if re.match(rb"tree\r?\n", start):
        return "lightgbm"
    found = start.startswith(_UBJSON) or re.match(rb'\{\s*"(learner|version|Config)"', start)
    return "xgboost" if found else None


def _read_other_model(tool: str, content: bytes) -> tuple[dict[str, Any], Fitted]:
    """Read a model as parameters of a ranker, trees, a record of a training that is unknown, names
    and levels.

    Args:
        tool: what `tool_of` returned.
        content: the file's content.
    """
    engine = engine_named(tool)
    try:
        model, objective, names, levels = (_lightgbm if tool == "lightgbm" else _xgboost)(content)
    except (DataError, MissingDependencyError):
        raise
    except _DAMAGE + engine.model_class.tool_errors():
        raise DataError(
            f"{engine.display_name} cannot read the model; expected a whole file as {tool} saves it"
        ) from None
    parameters: dict[str, Any] = {"engine": tool}
    if engine.find_objective(objective) is not None:
        parameters["loss"] = str(NativeLoss(tool, objective))
    return parameters, Fitted(
        model, Record({}, model.n_trees, None, model.n_trees, 0), names, None, levels
    )


def _lightgbm(content: bytes) -> tuple[FittedModel, str, Names, Levels]:
    text = content.decode().replace("\r\n", "\n").lstrip()
    head = dict(
        line.split("=", 1) for line in text.partition("\nTree=0\n")[0].split("\n") if "=" in line
    )
    if head["num_tree_per_iteration"] != "1":
        raise DataError(
            f"found a model of {head['num_tree_per_iteration']} classes; expected one score per document"
        )
    names = tuple(head["feature_names"].split(" "))
    unnamed = all(name == f"Column_{column}" for column, name in enumerate(names))
    if head["tree_sizes"] != tree_sizes(
        text
    ):  # by which LightGBM finds the trees, and trusts what it finds
        raise ValueError
    _check_trees(text, len(names))
    model = read_model("lightgbm", text_for_float32(text).encode(), len(names), scale=1.0)
    # The levels of a frame's categories, which stand in the columns that the parameters name.
    written = re.search(r"^pandas_categorical:(\[.*\])$", text, re.M)
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.M)
    levels = {}
    if written and columns:
        of_columns = [names[int(column)] for column in columns[1].split(",")]
        if len(of_columns) == len(found := json.loads(written[1])):
            levels = {
                name: tuple(map(level_text, each))
                for name, each in zip(of_columns, found, strict=True)
            }
    return (
        model,
        head.get("objective", "").partition(" ")[0],
        None if unnamed and not levels else names,
        levels,
    )


def _check_trees(text: str, n_features: int) -> None:
    """Refuse damaged trees: LightGBM trusts them, and may end the process."""
    blocks = re.split(r"^(?=Tree=)", text[: text.index("\nend of trees\n")], flags=re.M)[1:]
    parameters = text.partition("\nparameters:\n")[2].partition("\nend of parameters")[0]
    if not all(re.fullmatch(r"\[\w+: [^\]]*\]", line) for line in parameters.split("\n") if line):
        raise ValueError
    for number, block in enumerate(blocks):
        found = dict(line.split("=", 1) for line in block.split("\n") if line)
        numbers = {
            name: [*map(float, found.get(name, "").split())]
            for name in (*_OF_SPLITS, *_OF_NODES, *_OF_TREES)
        }
        leaves, categories = int(found["num_leaves"]), numbers["cat_boundaries"] or [0]
        # A tree of one leaf may leave its fields empty.
        given = {
            name: len(numbers[name])
            for name in (*_OF_SPLITS, *_OF_NODES)
            if found.get(name) or leaves > 1
        }
        # Every leaf and every split but the first is somebody's child.
        children = sorted(numbers["left_child"] + numbers["right_child"]) if leaves > 1 else [-1]
        whole = (
            all(size == leaves - (not name.startswith("leaf")) for name, size in given.items())
            and all(feature in range(n_features) for feature in numbers["split_feature"])
            and children == [*range(-leaves, 0), *range(1, leaves - 1)]
            and numbers["num_cat"] == [len(categories) - 1]
            and (len(numbers["cat_threshold"]), len(numbers["leaf_value"]))
            == (categories[-1], leaves)
            and (not any(numbers["is_linear"]) or "leaf_const" in found)
            and numbers["shrinkage"]
            and found["Tree"] == str(number)
        )
        if not whole:
            raise ValueError


def _check_nodes(model: dict[str, Any]) -> None:
    """Refuse damaged trees of XGBoost, which trusts them too, and does not survive a node that is
    not there.
    """
    if any(model["tree_info"]):  # the number of the output that a tree is for
        raise ValueError
    for tree in model["trees"]:
        left, right, feature, parents = (np.array(tree[name], np.int64) for name in _OF_XGBOOST)
        sets = (
            np.array(tree.get(f"categories{name}", []), np.int64)
            for name in ("", "_nodes", "_segments", "_sizes")
        )
        codes, nodes, segments, sizes = sets
        links = np.concatenate([left, right, nodes, parents[1:]])
        if (
            links.min() < -1
            or links.max() >= left.size
            or np.concatenate([nodes, segments, sizes]).min(initial=0) < 0
        ):
            raise ValueError
        children = np.sort(np.concatenate([left[left >= 0], right[right >= 0]]))
        whole = (
            # Every node but the first is somebody's child, unless pruning has removed it.
            children.size == left.size - 1 - int(tree["tree_param"]["num_deleted"])
            and np.all(np.diff(children, prepend=0) > 0)
            and np.array_equal(left < 0, right < 0)
            and feature[left >= 0].max(initial=0) < int(tree["tree_param"]["num_feature"])
            and (segments + sizes).max(initial=0) <= codes.size
        )
        if not whole:
            raise ValueError


def _xgboost(content: bytes) -> tuple[FittedModel, str, Names, Levels]:
    given = (from_ubjson if content.startswith(_UBJSON) else json.loads)(content)["learner"]
    shape, trees = given["learner_model_param"], given["gradient_booster"]
    is_linear = trees["name"] == "gblinear"
    if is_linear or max(int(shape["num_class"]), int(shape.get("num_target", "1"))) > 1:
        found = "gblinear, a linear model" if is_linear else "a model of several classes or targets"
        raise DataError(f"found {found}; expected trees with one score per document")
    _check_nodes(trees.get("gbtree", trees)["model"])
    booster = package("xgboost").Booster(model_file=bytearray(content))
    names = booster.feature_names
    best = booster.attr("best_iteration")  # XGBRanker predicts with the trees up to it
    kept = booster if best is None else booster[: int(best) + 1]
    model = engine_named("xgboost").model_class.from_bytes(
        bytes(kept.save_raw("ubj")), booster.num_features()
    )
    return model, given["objective"]["name"], None if names is None else tuple(names), {}
