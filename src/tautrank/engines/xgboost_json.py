"""XGBoost's models as XGBoost describes them in JSON: their trees read, scaled and joined."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.engines.trees import Tree

_REMOVED = 2**31 - 1
"""The feature of a node that pruning (``gamma`` with ``tree_method="exact"``) has removed and left
in its place.
"""


def tree_of(described: Mapping[str, Any]) -> Tree:
    """Read a tree as XGBoost describes it; its numbering, which splits and leaves share, becomes
    two.

    Args:
        described: the tree in JSON.
    """
    left = np.array(described["left_children"], np.int64)
    right = np.array(described["right_children"], np.int64)
    conditions = np.array(described["split_conditions"], np.float32)
    default_left = np.array(described["default_left"], np.int64) != 0
    feature = np.array(described["split_indices"], np.int64)

    is_split = left >= 0
    is_leaf = ~is_split & (feature != _REMOVED)
    split_number = np.cumsum(is_split) - 1
    leaf_number = np.cumsum(is_leaf) - 1
    number = np.where(is_split, split_number, ~leaf_number)

    # The categories of a set go right here, and left in a `Tree`.
    by_category = np.array(described["categories_nodes"], np.int64)
    left[by_category], right[by_category] = right[by_category], left[by_category]
    default_left[by_category] = ~default_left[by_category]
    return Tree.of(
        feature[is_split],
        np.nextafter(conditions[is_split], np.float32(-math.inf)),
        default_left[is_split],
        number[left[is_split]],
        number[right[is_split]],
        conditions[is_leaf],
        categories=_categories(described, number),
    )


def _categories(described: Mapping[str, Any], number: I64) -> dict[int, I64]:
    """Return the sets of categories by the numbers of their splits."""
    codes = np.array(described["categories"], np.int64)
    sets = {}
    for node, first, size in zip(
        described["categories_nodes"],
        described["categories_segments"],
        described["categories_sizes"],
        strict=True,
    ):
        sets[int(number[node])] = codes[first : first + size]
    return sets


def base_score(learner: Mapping[str, Any]) -> float:
    """The score that all documents start from; one number, which XGBoost 3 writes as a list of one.

    It is written as a prediction of the objective: a probability, a mean above 0, or the score
    itself.
    """
    base = np.float32(learner["learner_model_param"]["base_score"].strip("[]"))
    objective = learner["objective"]["name"]
    # Rounded where XGBoost rounds.
    if objective in ("binary:logistic", "reg:logistic"):
        return float(np.float32(-math.log(np.float32(1.0) / base - np.float32(1.0))))
    if objective.startswith(("count:", "survival:", "reg:gamma", "reg:tweedie")):
        return float(np.float32(math.log(base)))
    return float(base)


def kind_of(described: Mapping[str, Any]) -> str:
    """The booster; since XGBoost 3.4 that of trees with weights of their own is called gbtree
    too.
    """
    booster = described["learner"]["gradient_booster"]
    return "dart" if booster.get("model", {}).get("weight_drop") else str(booster["name"])


def trees_in(described: Mapping[str, Any]) -> Any:
    """Return the trees of a model as XGBoost describes it."""
    return described["learner"]["gradient_booster"]["model"]["trees"]


def with_leaves(tree: Mapping[str, Any], changed: Callable[[F64], F64]) -> dict[str, Any]:
    """Return a tree as XGBoost describes it, with what a function makes of its leaves."""
    conditions = np.array(tree["split_conditions"], np.float64)
    is_leaf = np.array(tree["left_children"]) < 0
    conditions[is_leaf] = changed(conditions[is_leaf])
    return {**tree, "split_conditions": conditions.tolist()}


def with_trees(
    described: Mapping[str, Any], trees: list[dict[str, Any]], base: float | None = None
) -> bytes:
    """Return a model as XGBoost describes it, with other trees, and another score to start from."""
    model_parameters = described["learner"]["learner_model_param"]
    if base is not None:
        is_list = model_parameters["base_score"].startswith("[")
        model_parameters["base_score"] = f"[{base!r}]" if is_list else repr(base)
    for number, tree in enumerate(trees):
        tree["id"] = number
    model = described["learner"]["gradient_booster"]["model"]
    model |= {
        "trees": trees,
        "tree_info": [0] * len(trees),
        "iteration_indptr": [*range(len(trees) + 1)],
    }
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    return json.dumps(described).encode()
