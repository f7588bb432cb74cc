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
    """Return the name of the tool that wrote a model, by how the bytes of its file begin; None if it
    is neither LightGBM nor XGBoost.

    >>> tool_of(b"tree\\nversion=v4\\n"), tool_of(b'{"learner":{'), tool_of(b"PK")
    ('lightgbm', 'xgboost', None)
    """
    # The beginning of the file is enough.
    start = content[:400].lstrip()
    if _LIGHTGBM_START.match(start):
        return "lightgbm"
    if start.startswith(_UBJSON_START) or _JSON_START.match(start):
        return "xgboost"
    return None


def model_bytes(source: Any) -> bytes | None:
    """Return the model of a booster or scikit-learn estimator of LightGBM or XGBoost as the bytes of
    its file; None for any other object.
    """
    # Known by the package of its class, so that neither tool has to be imported.
    tool = type(source).__module__.partition(".")[0]
    if tool == "xgboost":
        booster = source.get_booster() if hasattr(source, "get_booster") else source
        return bytes(booster.save_raw("ubj"))
    if tool == "lightgbm":
        booster = getattr(source, "booster_", source)
        return str(booster.model_to_string()).encode()
    return None


def read_other_model(tool: str, content: bytes) -> tuple[dict[str, Any], Fitted]:
    """Return a model that LightGBM or XGBoost saved as the parameters of a ranker, and what a ranker
    has after training; the history of the training is empty.

    Args:
        tool: ``"lightgbm"`` or ``"xgboost"``.
        content: the file's content.
    """
    engine = engine_named(tool)
    reader = _read_lightgbm if tool == "lightgbm" else _read_xgboost
    try:
        model_of_tool = reader(content)
    # These say already what is wrong; any other error comes from a damaged file.
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
    # None: models of these tools have no list features.
    return parameters, Fitted(model, record, feature_names, None, categories)


def _read_lightgbm(content: bytes) -> OtherModel:
    """Return the trees, objective, feature names and categories of a model from the bytes of
    LightGBM's text; raise an error if it is damaged or gives several scores per document.
    """
    text = content.decode().replace("\r\n", "\n").lstrip()
    # Lines ``name=value`` before the first tree describe the whole model.
    text_of_head, _begin, _trees = text.partition("\nTree=0\n")
    head = _assignments(text_of_head)
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
    # LightGBM's own names for features without names.
    are_default_names = all(name == f"Column_{column}" for column, name in enumerate(names))
    return OtherModel(
        model=model,
        objective=head.get("objective", "").partition(" ")[0],
        feature_names=None if are_default_names and not categories else names,
        categories=categories,
    )


def _assignments(text: str) -> dict[str, str]:
    """Return the values of all lines ``name=value`` of a text as a dictionary by name; lines without
    ``=`` are left out.
    """
    value_by_name = {}
    for line in text.split("\n"):
        if "=" in line:
            name, value = line.split("=", 1)
            value_by_name[name] = value
    return value_by_name


def _pandas_categories(text: str, names: tuple[str, ...]) -> Levels:
    """Return the levels (known categories) of each categorical column of the pandas frame that a
    LightGBM model was trained on, by name of the column; empty if the model has none.

    LightGBM's text has the levels in one line, and the numbers of their columns in another.

    Args:
        text: the model in LightGBM's text.
        names: the names of all columns.
    """
    line_of_levels = re.search(r"^pandas_categorical:(\[.*\])$", text, re.M)
    line_of_columns = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.M)
    if not line_of_levels or not line_of_columns:
        return {}
    column_numbers = line_of_columns[1].split(",")
    column_names = [names[int(number)] for number in column_numbers]
    levels_of_columns = json.loads(line_of_levels[1])
    # If the two do not match, nothing says which levels belong to which column.
    if len(column_names) != len(levels_of_columns):
        return {}
    levels_by_name = {}
    for name, levels in zip(column_names, levels_of_columns, strict=True):
        levels_by_name[name] = tuple(level_text(level) for level in levels)
    return levels_by_name


def _check_trees(text: str, n_features: int) -> None:
    """Raise an error if a tree or a parameter in LightGBM's text is damaged: LightGBM does not check
    them, and may end the process.

    Args:
        text: the model in LightGBM's text.
        n_features: the number of features that it may split by.
    """
    _before, _begin, after_begin = text.partition("\nparameters:\n")
    parameters, _end, _after = after_begin.partition("\nend of parameters")
    for line in parameters.split("\n"):
        # Such as "[num_leaves: 31]".
        is_parameter = re.fullmatch(r"\[\w+: [^\]]*\]", line)
        if line and not is_parameter:
            raise DamagedModelError(f"the parameter {line}")

    text_of_trees = text[: text.index("\nend of trees\n")]
    # Split before each line "Tree=...", which stays in its block; the first block is the head.
    _head, *blocks = re.split(r"^(?=Tree=)", text_of_trees, flags=re.M)
    for number, block in enumerate(blocks):
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)
        # Trees are numbered from 0, in order.
        if fields["Tree"] != str(number) or not _is_whole_tree(fields, n_features):
            raise DamagedModelError(f"tree {number}")


def _is_whole_tree(fields: Mapping[str, str], n_features: int) -> bool:
    """Whether the fields of a tree in LightGBM's text fit each other: lists as long as the tree needs,
    children that form a tree, features that exist, and categories.

    Args:
        fields: the text of each field, by name.
        n_features: the number of features of the model.
    """
    numbers_of_fields = {}
    for name in _FIELDS_OF_NUMBERS:
        words = fields.get(name, "").split()
        numbers_of_fields[name] = [float(word) for word in words]
    n_leaves = int(fields["num_leaves"])
    if not _has_sizes(fields, numbers_of_fields, n_leaves):
        return False
    if not _is_binary_tree(numbers_of_fields, n_leaves):
        return False
    for feature in numbers_of_fields["split_feature"]:
        if feature not in range(n_features):
            return False
    # A linear tree has a formula in each leaf instead of a number.
    is_linear = any(numbers_of_fields["is_linear"])
    if is_linear and "leaf_const" not in fields:
        return False
    # The learning rate of the tree, which every tree has.
    has_shrinkage = bool(numbers_of_fields["shrinkage"])
    return has_shrinkage and _has_categories(numbers_of_fields)


def _has_sizes(
    fields: Mapping[str, str], numbers_of_fields: Mapping[str, list[float]], n_leaves: int
) -> bool:
    """Whether the fields of a tree in LightGBM's text have a number for each split or leaf; a tree of
    a single leaf may leave out all but the leaf's value.

    Args:
        fields: the text of each field, by name.
        numbers_of_fields: the numbers of each field, by name.
        n_leaves: the number of leaves of the tree.
    """
    expected_size = dict.fromkeys(_PER_SPLIT, n_leaves - 1)
    expected_size.update(dict.fromkeys(_PER_LEAF, n_leaves))
    for name, size in expected_size.items():
        is_needed = n_leaves > 1 or bool(fields.get(name))
        if is_needed and len(numbers_of_fields[name]) != size:
            return False
    return len(numbers_of_fields["leaf_value"]) == n_leaves


def _has_categories(numbers_of_fields: Mapping[str, list[float]]) -> bool:
    """Whether a tree in LightGBM's text has as many sets of categories as it says, one per split by
    category, and as many numbers for them as the boundaries between the sets say.
    """
    # A set is a run of the 32-bit numbers in `cat_threshold`, whose bits are categories. Run i goes
    # from boundary i to boundary i + 1, so there is one boundary more than there are sets.
    boundaries = numbers_of_fields["cat_boundaries"] or [0]
    n_sets = len(boundaries) - 1
    n_words = boundaries[-1]
    if numbers_of_fields["num_cat"] != [n_sets]:
        return False
    return len(numbers_of_fields["cat_threshold"]) == n_words


def _is_binary_tree(numbers_of_fields: Mapping[str, list[float]], n_leaves: int) -> bool:
    """Whether every leaf, and every split but the root, of a tree in LightGBM's text is the child of
    exactly one split.

    LightGBM numbers splits from 0, the root, and leaves from -1 downwards.
    """
    if n_leaves == 1:
        return True
    # n leaves need n - 1 splits, of which all but the root are a child.
    children = sorted(numbers_of_fields["left_child"] + numbers_of_fields["right_child"])
    leaves = range(-n_leaves, 0)
    splits_below_root = range(1, n_leaves - 1)
    return children == [*leaves, *splits_below_root]


def _read_xgboost(content: bytes) -> OtherModel:
    """Return the trees, objective and feature names of a model from the bytes of XGBoost's JSON or
    UBJSON (binary JSON); its trees are checked before XGBoost reads them, which trusts them.
    """
    read_json = from_ubjson if content.startswith(_UBJSON_START) else json.loads
    learner = read_json(content)["learner"]
    _check_kind(learner)
    booster_content = learner["gradient_booster"]
    # A booster that drops trees ("dart") holds the plain trees in an object "gbtree" of its own.
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
    """Raise an error if a model of XGBoost does not consist of trees, or gives several scores per
    document.

    Args:
        learner: the object ``learner`` of XGBoost's JSON.
    """
    unsupported_kind = ""
    parameters = learner["learner_model_param"]
    n_classes = int(parameters["num_class"])
    n_targets = int(parameters.get("num_target", "1"))
    if n_classes > 1 or n_targets > 1:
        unsupported_kind = "a model of several classes or targets"
    if learner["gradient_booster"]["name"] == "gblinear":
        unsupported_kind = "gblinear, a linear model"
    if unsupported_kind:
        raise DataError(f"found {unsupported_kind}; expected trees with one score per document")


def _check_nodes(model: Mapping[str, Any]) -> None:
    """Raise an error if a tree of a model of XGBoost is damaged: XGBoost does not check them, and
    does not survive a node that is not there.

    Args:
        model: the object ``model`` of XGBoost's JSON, which has the trees.
    """
    # For each tree the output that it adds to; 0 is the only one of a ranking model.
    if any(model["tree_info"]):
        raise DamagedModelError("a tree is for a second output")
    for number, tree in enumerate(model["trees"]):
        if not (_has_known_nodes(tree) and _has_all_nodes(tree)):
            raise DamagedModelError(f"tree {number}")


def _as_integers(values: list[int]) -> I64:
    """Return a list of whole numbers as an array of 64-bit integers."""
    return np.array(values, np.int64)


def _has_known_nodes(tree: Mapping[str, Any]) -> bool:
    """Whether all nodes, features and categories that a tree of XGBoost refers to are there.

    Args:
        tree: an object of XGBoost's JSON: lists with an entry per node, and the sets of categories
            as runs (begin and size) of the list ``categories``.
    """
    # Entry i belongs to node i; node 0 is the root.
    left = _as_integers(tree["left_children"])
    right = _as_integers(tree["right_children"])
    features = _as_integers(tree["split_indices"])
    parents = _as_integers(tree["parents"])
    categories = _as_integers(tree.get("categories", []))
    # Each set of categories belongs to one node, and is the run of `categories` from its begin on.
    nodes_of_sets = _as_integers(tree.get("categories_nodes", []))
    begins_of_sets = _as_integers(tree.get("categories_segments", []))
    sizes_of_sets = _as_integers(tree.get("categories_sizes", []))

    # -1 stands for no child. The first parent is left out: the root has none.
    nodes_in_use = np.concatenate([left, right, nodes_of_sets, parents[1:]])
    if nodes_in_use.min() < -1 or nodes_in_use.max() >= left.size:
        return False
    # Unlike a child, these may not be -1; `initial=0` allows for a tree without sets.
    never_negative = np.concatenate([nodes_of_sets, begins_of_sets, sizes_of_sets])
    if never_negative.min(initial=0) < 0:
        return False

    n_features = int(tree["tree_param"]["num_feature"])
    is_split = left >= 0
    if features[is_split].max(initial=0) >= n_features:
        return False
    ends_of_sets = begins_of_sets + sizes_of_sets
    return bool(ends_of_sets.max(initial=0) <= categories.size)


def _has_all_nodes(tree: Mapping[str, Any]) -> bool:
    """Whether every node of a tree of XGBoost but the root is the child of exactly one node, or
    pruned, and every node has two children or none.

    Args:
        tree: an object of XGBoost's JSON; -1 stands for no child.
    """
    left = _as_integers(tree["left_children"])
    right = _as_integers(tree["right_children"])
    # Entry i has the children of node i; node 0 is the root.
    children = np.sort(np.concatenate([left[left >= 0], right[right >= 0]]))
    n_pruned = int(tree["tree_param"]["num_deleted"])
    n_nodes_below_root = left.size - 1 - n_pruned
    if children.size != n_nodes_below_root:
        return False
    # Sorted children that all differ have positive differences; with a 0 put before them, the first
    # difference also says that none of them is 0, the root.
    are_different = bool(np.all(np.diff(children, prepend=0) > 0))
    have_two_or_none = np.array_equal(left < 0, right < 0)
    return are_different and have_two_or_none
