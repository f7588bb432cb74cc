"""Models that LightGBM or XGBoost trained without this library, recognised by their content.

LightGBM's text and XGBoost's JSON and UBJSON hold the trees, the objective and the names of the
features. The metric, the training history and most parameters are in neither: the ranker has
defaults for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tautrank.arrays import I64
from tautrank.data.frames import Levels, level_text
from tautrank.data.ranking_data import Names
from tautrank.engines import FittedModel, NativeLoss, Record
from tautrank.engines.choosing import read_model
from tautrank.engines.lightgbm_text import text_for_float32, tree_sizes
from tautrank.engines.packages import package
from tautrank.engines.registry import engine_named
from tautrank.errors import DataError, MissingDependencyError
from tautrank.ranker.damage import DAMAGE, DamagedModelError
from tautrank.ranker.fitted import Fitted
from tautrank.ranker.ubjson import from_ubjson

# XGBoost's UBJSON begins with an object whose first key has its length in 8 bytes.
_UBJSON_START = b"{L"
_JSON_START = re.compile(rb'\{\s*"(learner|version|Config)"')
_LIGHTGBM_START = re.compile(rb"tree\r?\n")

# The numbers of a tree in LightGBM's text: one per split, one per inner node, one per leaf, others.
_PER_SPLIT = (
    "split_feature",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "split_gain",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
_PER_TREE = ("num_cat", "cat_boundaries", "cat_threshold", "shrinkage", "is_linear")
_FIELDS_OF_NUMBERS = (*_PER_SPLIT, *_PER_LEAF, *_PER_TREE)


class OtherModel(NamedTuple):
    """A model of another tool.

    Args:
        model: the trees.
        objective: the tool's name of the objective they were trained with.
        feature_names: names of the features; None if they have none.
        categories: levels of the columns that held categories, by name.
    """

    model: FittedModel
    objective: str
    feature_names: Names
    categories: Levels


def tool_of(content: bytes) -> str | None:
    """Return the tool that wrote a model; None if it is neither LightGBM nor XGBoost.

    >>> tool_of(b"tree\\nversion=v4\\n"), tool_of(b'{"learner":{'), tool_of(b"PK")
    ('lightgbm', 'xgboost', None)
    """
    start = content[:400].lstrip()
    if _LIGHTGBM_START.match(start):
        return "lightgbm"
    if start.startswith(_UBJSON_START) or _JSON_START.match(start):
        return "xgboost"
    return None


def model_bytes(source: Any) -> bytes | None:
    """Return the model of a booster or scikit-learn estimator of LightGBM or XGBoost; None for any
    other object.
    """
    tool = type(source).__module__.partition(".")[0]
    if tool == "xgboost":
        booster = source.get_booster() if hasattr(source, "get_booster") else source
        return bytes(booster.save_raw("ubj"))
    if tool == "lightgbm":
        booster = getattr(source, "booster_", source)
        return str(booster.model_to_string()).encode()
    return None


def read_other_model(tool: str, content: bytes) -> tuple[dict[str, Any], Fitted]:
    """Return the parameters of a ranker, and what it has of a training that is unknown.

    Args:
        tool: what `tool_of` returned.
        content: the file's content.
    """
    engine = engine_named(tool)
    reader = _read_lightgbm if tool == "lightgbm" else _read_xgboost
    try:
        model_of_tool = reader(content)
    except (DataError, MissingDependencyError):
        raise
    except DAMAGE + engine.model_class.tool_errors():
        raise DataError(
            f"{engine.display_name} cannot read the model; expected a whole file as {tool} saves it"
        ) from None

    model, objective, feature_names, categories = model_of_tool
    parameters = {"engine": tool}
    if engine.find_objective(objective) is not None:
        parameters["loss"] = str(NativeLoss(tool, objective))
    # Nothing is known of the training but that it grew the trees.
    n_trees = model.n_trees
    record = Record(history={}, best_iteration=n_trees, best_score=None, steps=n_trees, seed=0)
    return parameters, Fitted(model, record, feature_names, None, categories)


def _read_lightgbm(content: bytes) -> OtherModel:
    """Return a model in LightGBM's text, whose trees are checked before LightGBM reads them."""
    text = content.decode().replace("\r\n", "\n").lstrip()
    head = _assignments(text.partition("\nTree=0\n")[0])
    if head["num_tree_per_iteration"] != "1":
        raise DataError(
            f"found a model of {head['num_tree_per_iteration']} classes; "
            "expected one score per document"
        )
    names = tuple(head["feature_names"].split(" "))
    # LightGBM finds the trees by their sizes, and trusts what it finds.
    if head["tree_sizes"] != tree_sizes(text):
        raise DamagedModelError("the trees have other sizes than the file says")
    _check_trees(text, len(names))

    model = read_model("lightgbm", text_for_float32(text).encode(), len(names), scale=1.0)
    categories = _pandas_categories(text, names)
    are_default_names = all(name == f"Column_{column}" for column, name in enumerate(names))
    return OtherModel(
        model=model,
        objective=head.get("objective", "").partition(" ")[0],
        feature_names=None if are_default_names and not categories else names,
        categories=categories,
    )


def _assignments(text: str) -> dict[str, str]:
    """Return the lines ``name=value`` of a text."""
    return dict(line.split("=", 1) for line in text.split("\n") if "=" in line)


def _pandas_categories(text: str, names: tuple[str, ...]) -> Levels:
    """Return the levels of a frame's categories, which stand in the columns that the parameters
    name.
    """
    written = re.search(r"^pandas_categorical:(\[.*\])$", text, re.M)
    columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.M)
    if not written or not columns:
        return {}
    names_of_columns = [names[int(column)] for column in columns[1].split(",")]
    levels_of_columns = json.loads(written[1])
    if len(names_of_columns) != len(levels_of_columns):
        return {}
    return {
        name: tuple(level_text(level) for level in levels)
        for name, levels in zip(names_of_columns, levels_of_columns, strict=True)
    }


def _check_trees(text: str, n_features: int) -> None:
    """Raise an error if a tree in LightGBM's text is damaged: LightGBM trusts trees, and may end
    the process.
    """
    parameters = text.partition("\nparameters:\n")[2].partition("\nend of parameters")[0]
    for line in parameters.split("\n"):
        if line and not re.fullmatch(r"\[\w+: [^\]]*\]", line):
            raise DamagedModelError(f"the parameter {line}")

    trees = text[: text.index("\nend of trees\n")]
    for number, block in enumerate(re.split(r"^(?=Tree=)", trees, flags=re.M)[1:]):
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)
        if fields["Tree"] != str(number) or not _is_whole_tree(fields, n_features):
            raise DamagedModelError(f"tree {number}")


def _is_whole_tree(fields: Mapping[str, str], n_features: int) -> bool:
    """Whether the fields of a tree of LightGBM fit each other and the features."""
    numbers = {
        name: [float(number) for number in fields.get(name, "").split()]
        for name in _FIELDS_OF_NUMBERS
    }
    n_leaves = int(fields["num_leaves"])
    if not _has_sizes(fields, numbers, n_leaves) or not _is_binary_tree(numbers, n_leaves):
        return False
    if not all(feature in range(n_features) for feature in numbers["split_feature"]):
        return False
    if any(numbers["is_linear"]) and "leaf_const" not in fields:
        return False
    return bool(numbers["shrinkage"]) and _has_categories(numbers)


def _has_sizes(
    fields: Mapping[str, str], numbers: Mapping[str, list[float]], n_leaves: int
) -> bool:
    """Whether a tree has a number for each split and leaf; one of a single leaf may leave out all but
    the leaf's value.
    """
    expected_size = dict.fromkeys(_PER_SPLIT, n_leaves - 1)
    expected_size.update(dict.fromkeys(_PER_LEAF, n_leaves))
    for name, size in expected_size.items():
        is_needed = n_leaves > 1 or fields.get(name)
        if is_needed and len(numbers[name]) != size:
            return False
    return len(numbers["leaf_value"]) == n_leaves


def _has_categories(numbers: Mapping[str, list[float]]) -> bool:
    """Whether a tree has as many sets of categories, and words of them, as it says."""
    boundaries = numbers["cat_boundaries"] or [0]
    n_sets, n_words = len(boundaries) - 1, boundaries[-1]
    return numbers["num_cat"] == [n_sets] and len(numbers["cat_threshold"]) == n_words


def _is_binary_tree(numbers: Mapping[str, list[float]], n_leaves: int) -> bool:
    """Whether every leaf, and every split but the first, is the child of one split."""
    if n_leaves == 1:
        return True
    children = sorted(numbers["left_child"] + numbers["right_child"])
    leaves, splits = range(-n_leaves, 0), range(1, n_leaves - 1)
    return children == [*leaves, *splits]


def _read_xgboost(content: bytes) -> OtherModel:
    """Return a model in XGBoost's JSON or UBJSON, whose trees are checked before XGBoost reads them."""
    read_json = from_ubjson if content.startswith(_UBJSON_START) else json.loads
    learner = read_json(content)["learner"]
    _check_kind(learner)
    booster_content = learner["gradient_booster"]
    trees = booster_content.get("gbtree", booster_content)
    _check_nodes(trees["model"])

    booster = package("xgboost").Booster(model_file=bytearray(content))
    names = booster.feature_names
    # XGBRanker predicts with the trees up to the best iteration.
    best_iteration = booster.attr("best_iteration")
    trees_in_use = booster if best_iteration is None else booster[: int(best_iteration) + 1]
    model = engine_named("xgboost").model_class.from_bytes(
        bytes(trees_in_use.save_raw("ubj")), booster.num_features()
    )
    return OtherModel(
        model=model,
        objective=learner["objective"]["name"],
        feature_names=None if names is None else tuple(names),
        categories={},
    )


def _check_kind(learner: Mapping[str, Any]) -> None:
    """Raise an error if a model of XGBoost is no trees, or has several scores per document."""
    shape = learner["learner_model_param"]
    n_scores = max(int(shape["num_class"]), int(shape.get("num_target", "1")))
    kind = "a model of several classes or targets" if n_scores > 1 else ""
    if learner["gradient_booster"]["name"] == "gblinear":
        kind = "gblinear, a linear model"
    if kind:
        raise DataError(f"found {kind}; expected trees with one score per document")


def _check_nodes(model: Mapping[str, Any]) -> None:
    """Raise an error if a tree of XGBoost is damaged: XGBoost trusts trees too, and does not survive
    a node that is not there.
    """
    # Which of several outputs each tree is for.
    if any(model["tree_info"]):
        raise DamagedModelError("a tree is for a second output")
    for number, tree in enumerate(model["trees"]):
        if not (_has_known_nodes(tree) and _has_all_nodes(tree)):
            raise DamagedModelError(f"tree {number}")


def _numbers(values: list[int]) -> I64:
    """Return a list of whole numbers as an array."""
    return np.array(values, np.int64)


def _has_known_nodes(tree: Mapping[str, Any]) -> bool:
    """Whether all that a tree of XGBoost refers to is there: nodes, features and categories."""
    left, right = _numbers(tree["left_children"]), _numbers(tree["right_children"])
    features, parents = _numbers(tree["split_indices"]), _numbers(tree["parents"])
    codes = _numbers(tree.get("categories", []))
    nodes = _numbers(tree.get("categories_nodes", []))
    segments = _numbers(tree.get("categories_segments", []))
    sizes = _numbers(tree.get("categories_sizes", []))

    # A child of -1 is none; the parent of the root is no node.
    links = np.concatenate([left, right, nodes, parents[1:]])
    if links.min() < -1 or links.max() >= left.size:
        return False
    if np.concatenate([nodes, segments, sizes]).min(initial=0) < 0:
        return False
    n_features = int(tree["tree_param"]["num_feature"])
    features_of_splits = features[left >= 0]
    if features_of_splits.max(initial=0) >= n_features:
        return False
    ends_of_segments = segments + sizes
    return bool(ends_of_segments.max(initial=0) <= codes.size)


def _has_all_nodes(tree: Mapping[str, Any]) -> bool:
    """Whether every node of XGBoost's but the first is the child of one node, or pruned."""
    left, right = _numbers(tree["left_children"]), _numbers(tree["right_children"])
    children = np.sort(np.concatenate([left[left >= 0], right[right >= 0]]))
    n_pruned = int(tree["tree_param"]["num_deleted"])
    if children.size != left.size - 1 - n_pruned:
        return False
    are_different = np.all(np.diff(children, prepend=0) > 0)
    return bool(are_different) and np.array_equal(left < 0, right < 0)
