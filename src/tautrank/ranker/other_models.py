"""Models that LightGBM or XGBoost trained without this library: recognised by their content, read as a ranker.

LightGBM's text holds the trees, the objective and the names of the features; XGBoost's JSON and UBJSON too. The metric,
the training history and most parameters are in neither: the ranker has defaults for them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tautrank.data.columns import Levels, level_text
from tautrank.engines import FittedModel, NativeLoss, Record, engine_named
from tautrank.engines.packages import package
from tautrank.errors import DataError, MissingDependencyError
from tautrank.ranker.inputs import Names

# XGBoost's UBJSON begins with an object whose first key has its length in 8 bytes.
_UBJSON = b"{L"
_DAMAGE: tuple[type[Exception], ...] = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
_WHOLE = ("split_feature", "left_child", "right_child", "decision_type", "leaf_count", "internal_count")
_REAL = ("threshold", "split_gain", "internal_value", "internal_weight", "leaf_value", "leaf_weight")
_BY_CATEGORY = ("num_cat", "cat_boundaries", "cat_threshold")


def model_bytes(given: object) -> bytes | None:
    """Return the model of a `lightgbm.Booster`, an `xgboost.Booster`, or of the tool's scikit-learn estimator.

    Args:
        given: the object; None is returned for any other.
    """
    tool = type(given).__module__.partition(".")[0]
    if tool not in ("lightgbm", "xgboost"):
        return None
    booster: Any = given
    if hasattr(given, "get_booster"):
        booster = given.get_booster()
    elif hasattr(given, "booster_"):
        booster = given.booster_
    return bytes(booster.save_raw("ubj")) if tool == "xgboost" else str(booster.model_to_string()).encode()


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


def read_other_model(tool: str, content: bytes) -> tuple[dict[str, Any], FittedModel, Record, Names, None, Levels]:
    """Read a model as parameters of a ranker, trees, a record of a training that is unknown, names and levels.

    Args:
        tool: what `tool_of` returned.
        content: the file's content.
    """
    engine = engine_named(tool)
    try:
        model, objective, names, levels = (_lightgbm if tool == "lightgbm" else _xgboost)(content)
    except (DataError, MissingDependencyError):
        raise
    except _DAMAGE + engine.errors():
        raise DataError(f"{engine.written} cannot read the model; expected a whole file as {tool} saves it") from None
    parameters: dict[str, Any] = {"engine": tool}
    if engine.find_objective(objective) is not None:
        parameters["loss"] = str(NativeLoss(tool, objective))
    return parameters, model, Record({}, model.n_trees, None, model.n_trees, 0), names, None, levels


def _lightgbm(content: bytes) -> tuple[FittedModel, str, Names, Levels]:
    text = content.decode().replace("\r\n", "\n").lstrip()
    head = dict(line.split("=", 1) for line in text.partition("\nTree=0\n")[0].split("\n") if "=" in line)
    if head["num_tree_per_iteration"] != "1":
        raise DataError(f"found a model of {head['num_tree_per_iteration']} classes; expected one score per document")
    names = tuple(head["feature_names"].split(" "))
    unnamed = all(name == f"Column_{column}" for column, name in enumerate(names))
    _check_trees(text, [int(size) for size in head["tree_sizes"].split()], len(names))
    model = engine_named("lightgbm").model_class.from_bytes(text.encode(), len(names))
    if model.n_features != len(names):
        raise ValueError
    # The levels of a frame's categories, which stand in the columns that the parameters name.
    written = re.search(r"^pandas_categorical:(\[.*\])$", text, re.M)
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.M)
    levels = {}
    if written and columns:
        of_columns = [names[int(column)] for column in columns[1].split(",")]
        if len(of_columns) == len(found := json.loads(written[1])):
            levels = {name: tuple(map(level_text, each)) for name, each in zip(of_columns, found, strict=True)}
    return model, head.get("objective", "").partition(" ")[0], None if unnamed and not levels else names, levels


def _check_trees(text: str, sizes: list[int], n_features: int) -> None:
    """Refuse damaged trees: LightGBM finds them by their lengths, trusts what it finds, and may end the process."""
    starts = [tree.start() for tree in re.finditer(r"^Tree=", text, flags=re.M)]
    ends = [*starts[1:], text.index("\nend of trees\n") + 1]
    parameters = text.partition("\nparameters:\n")[2].partition("\nend of parameters")[0]
    if [end - start for start, end in zip(starts, ends, strict=True)] != sizes:
        raise ValueError
    if not all(re.fullmatch(r"\[\w+: [^\]]*\]", line) for line in parameters.split("\n") if line):
        raise ValueError
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found = dict(line.split("=", 1) for line in text[start:end].split("\n") if line)
        whole: dict[str, Any] = {
            name: [int(word) for word in found.get(name, "").split()] for name in (*_WHOLE, *_BY_CATEGORY)
        }
        real = {
            name: [float(word) for word in found.get(name, "").split()] for name in (*_REAL, "shrinkage", "is_linear")
        }
        leaves, categories = int(found["num_leaves"]), whole["cat_boundaries"]
        given = {name: len((whole | real)[name]) for name in (*_WHOLE, *_REAL) if name in found or leaves > 1}
        wrong = any(size != leaves - (not name.startswith("leaf")) for name, size in given.items())
        wrong = wrong or any(not 0 <= feature < n_features for feature in whole["split_feature"])
        # Every leaf and every split but the first is somebody's child.
        children = sorted(whole["left_child"] + whole["right_child"]) if leaves > 1 else [-1]
        wrong = wrong or children != [*range(-leaves, 0), *range(1, leaves - 1)]
        wrong = wrong or (whole["num_cat"] != [0] and [len(categories) - 1] != whole["num_cat"])
        wrong = wrong or len(whole["cat_threshold"]) != (categories or [0])[-1] or len(real["leaf_value"]) != leaves
        wrong = wrong or (any(real["is_linear"]) and "leaf_const" not in found)
        if wrong or not real["shrinkage"] or found["Tree"] != str(number):
            raise ValueError


def _xgboost(content: bytes) -> tuple[FittedModel, str, Names, Levels]:
    booster = package("xgboost").Booster(model_file=bytearray(content))
    learner = json.loads(booster.save_raw("json"))["learner"]
    kind, classes = learner["gradient_booster"]["name"], int(learner["learner_model_param"]["num_class"])
    if kind == "gblinear" or classes > 1 or int(learner["learner_model_param"].get("num_target", "1")) > 1:
        found = "gblinear, a linear model" if kind == "gblinear" else "a model of several classes or targets"
        raise DataError(f"found {found}; expected trees with one score per document")
    names = booster.feature_names
    best = booster.attr("best_iteration")  # XGBRanker predicts with the trees up to it
    kept = booster if best is None else booster[: int(best) + 1]
    model = engine_named("xgboost").model_class.from_bytes(bytes(kept.save_raw("ubj")), booster.num_features())
    return model, learner["objective"]["name"], None if names is None else tuple(names), {}
