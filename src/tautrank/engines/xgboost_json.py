"""XGBoost's models as XGBoost describes them in JSON: their trees read, scaled and joined."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.engines.trees import Tree

_FEATURE_OF_REMOVED_NODE = 2**31 - 1
"""The feature of a node that pruning (``gamma`` with ``tree_method="exact"``) has removed and left
in its place.
"""


def parse_tree(description: Mapping[str, Any]) -> Tree:
    """Return a tree of XGBoost's JSON as arrays.

    XGBoost numbers splits and leaves together, a `Tree` each kind on its own, with ``~leaf`` for a
    leaf as a child. XGBoost goes left where a value is below the condition of a split, a `Tree`
    where it is at most the threshold: the next float32 below.

    Args:
        description: the tree in JSON.
    """
    left = np.array(description["left_children"], np.int64)
    right = np.array(description["right_children"], np.int64)
    # The condition of a leaf is its value.
    conditions = np.array(description["split_conditions"], np.float32)
    missing_left = np.array(description["default_left"], np.int64) != 0
    feature = np.array(description["split_indices"], np.int64)

    is_split = left >= 0
    is_leaf = ~is_split & (feature != _FEATURE_OF_REMOVED_NODE)
    split_number = np.cumsum(is_split) - 1
    leaf_number = np.cumsum(is_leaf) - 1
    new_number = np.where(is_split, split_number, ~leaf_number)

    # The categories of a set go right in XGBoost, and left in a `Tree`.
    by_category = np.array(description["categories_nodes"], np.int64)
    left[by_category], right[by_category] = right[by_category], left[by_category]
    missing_left[by_category] = ~missing_left[by_category]

    thresholds = np.nextafter(conditions[is_split], np.float32(-math.inf))
    return Tree.of(
        feature[is_split],
        thresholds,
        missing_left[is_split],
        new_number[left[is_split]],
        new_number[right[is_split]],
        conditions[is_leaf],
        categories=_parse_categories(description, new_number),
    )


def _parse_categories(description: Mapping[str, Any], split_number: I64) -> dict[int, I64]:
    """Return the set of category codes of each split by category, by the number of the split.

    Args:
        description: a tree in XGBoost's JSON, in which all sets follow each other in one list.
        split_number: the number of the split that each of XGBoost's nodes becomes.
    """
    # The set of each node in `nodes` begins at `starts` in the list, and has `sizes` codes.
    all_codes = np.array(description["categories"], np.int64)
    nodes = description["categories_nodes"]
    starts = description["categories_segments"]
    sizes = description["categories_sizes"]
    codes_by_split = {}
    for node, start, size in zip(nodes, starts, sizes, strict=True):
        split = int(split_number[node])
        codes_by_split[split] = all_codes[start : start + size]
    return codes_by_split


def base_score(learner: Mapping[str, Any]) -> float:
    """Return the score that all documents start from, from the JSON of XGBoost's learner.

    XGBoost writes it as a prediction of the objective: a probability for logistic objectives, whose
    scores are log odds; a mean above 0 for those whose scores are logarithms; otherwise the score
    itself.
    """
    # XGBoost 3 writes the number as a list of one.
    text = learner["learner_model_param"]["base_score"].strip("[]")
    prediction = np.float32(text)
    objective = learner["objective"]["name"]
    # In float32, rounded where XGBoost rounds. The log odds of p are -log(1 / p - 1).
    if objective in ("binary:logistic", "reg:logistic"):
        inverse_odds = np.float32(1.0) / prediction - np.float32(1.0)
        return float(np.float32(-math.log(inverse_odds)))
    if objective.startswith(("count:", "survival:", "reg:gamma", "reg:tweedie")):
        return float(np.float32(math.log(prediction)))
    return float(prediction)


def booster_kind(description: Mapping[str, Any]) -> str:
    """Return the kind of a model's booster, such as gbtree, from XGBoost's JSON of the model.

    It is dart where trees have weights of their own; XGBoost calls that gbtree too since 3.4.
    """
    booster = description["learner"]["gradient_booster"]
    tree_weights = booster.get("model", {}).get("weight_drop")
    return "dart" if tree_weights else str(booster["name"])


def trees_in(description: Mapping[str, Any]) -> Any:
    """Return the list of trees in XGBoost's JSON of a model."""
    return description["learner"]["gradient_booster"]["model"]["trees"]


def with_changed_leaves(
    tree: Mapping[str, Any], change_leaves: Callable[[F64], F64]
) -> dict[str, Any]:
    """Return a copy of a tree of XGBoost's JSON, with other values of the leaves.

    Args:
        tree: the tree in JSON.
        change_leaves: from the values of the leaves to their new values.
    """
    # One condition per node: the threshold of a split, but the value of a leaf.
    conditions = np.array(tree["split_conditions"], np.float64)
    is_leaf = np.array(tree["left_children"]) < 0  # -1 for no child
    conditions[is_leaf] = change_leaves(conditions[is_leaf])
    return {**tree, "split_conditions": conditions.tolist()}


def with_trees(
    description: Mapping[str, Any], trees: list[dict[str, Any]], start_score: float | None = None
) -> bytes:
    """Return XGBoost's JSON of a model with other trees, and perhaps another score that all
    documents start from.

    It changes `description`, and numbers `trees` through.

    Args:
        description: the model in JSON.
        trees: the trees in JSON.
        start_score: None for that of the model.
    """
    model_parameters = description["learner"]["learner_model_param"]
    if start_score is not None:
        # XGBoost 3 writes the number as a list of one.
        is_list = model_parameters["base_score"].startswith("[")
        number = repr(start_score)
        model_parameters["base_score"] = f"[{number}]" if is_list else number

    for tree_number, tree in enumerate(trees):
        tree["id"] = tree_number
    model = description["learner"]["gradient_booster"]["model"]
    model["trees"] = trees
    # Every tree is of the one output, 0, and of a round of its own.
    model["tree_info"] = [0] * len(trees)
    model["iteration_indptr"] = list(range(len(trees) + 1))
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    return json.dumps(description).encode()
