"""XGBoost's models as XGBoost describes them in JSON: their trees read, scaled and joined."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import (
    Any,
)

import numpy as np

from tautrank.arrays import F64
from tautrank.engines.trees import Tree

_REMOVED = 2**31 - 1
"""The feature of a node that pruning (``gamma`` with ``tree_method="exact"``) has removed and left
in its place.
"""


def tree_of(described: Mapping[str, Any]) -> Tree:
    """Read a tree as XGBoost describes it; its numbering, which splits and leaves share, becomes
    two.
    """
    left, right = (
        np.array(described[name], np.int64) for name in ("left_children", "right_children")
    )
    numbers = np.array(described["split_conditions"], np.float32)
    default_left = np.array(described["default_left"], np.int64) != 0
    features = np.array(described["split_indices"], np.int64)
    inner = left >= 0
    leaf = ~inner & (features != _REMOVED)
    place = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(leaf) - 1))
    by_category = np.array(described["categories_nodes"], np.int64)
    # The categories of a set go right here, and left in a `Tree`.
    left[by_category], right[by_category] = right[by_category], left[by_category]
    default_left[by_category] = ~default_left[by_category]
    codes = np.array(described["categories"], np.int64)
    parts = zip(
        by_category, described["categories_segments"], described["categories_sizes"], strict=True
    )
    sets = {int(place[node]): codes[first : first + size] for node, first, size in parts}
    threshold = np.nextafter(numbers[inner], np.float32(-math.inf))
    children = place[left[inner]], place[right[inner]]
    return Tree.of(
        features[inner], threshold, default_left[inner], *children, numbers[leaf], categories=sets
    )


def base_score(learner: Mapping[str, Any]) -> float:
    """The score that all documents start from; one number, which XGBoost 3 writes as a list of one.

    It is written as a prediction of the objective: a probability, a mean above 0, or the score
    itself.
    """
    base, objective = (
        np.float32(learner["learner_model_param"]["base_score"].strip("[]")),
        learner["objective"]["name"],
    )
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
    numbers, is_leaf = (
        np.array(tree["split_conditions"], np.float64),
        np.array(tree["left_children"]) < 0,
    )
    numbers[is_leaf] = changed(numbers[is_leaf])
    return {**tree, "split_conditions": numbers.tolist()}


def with_trees(
    described: Mapping[str, Any], trees: list[dict[str, Any]], base: float | None = None
) -> bytes:
    """Return a model as XGBoost describes it, with other trees, and another score to start from."""
    kept = described["learner"]["learner_model_param"]
    if base is not None:
        kept["base_score"] = f"[{base!r}]" if kept["base_score"].startswith("[") else repr(base)
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
