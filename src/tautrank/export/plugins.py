"""The learning to rank plugins of Elasticsearch and OpenSearch.

A model is the body of a ``_createmodel`` request. The plugins read two kinds of trees.
``model/ranklib`` tests ``value <= threshold`` and reads a missing value as 0, in every version: this
is what LightGBM does. ``model/xgboost+json`` tests ``value < threshold``; what it does with a
missing value has changed from version to version. So each tool's trees are written as the kind that
works as the tool does. OpenSearch's plugin sends missing values where each split says since July
2026 (opensearch-learning-to-rank-base#379): with ``directions`` all trees are written for that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tautrank.arrays import F32
from tautrank.engines.trees import Tree, greatest_float32
from tautrank.export.formats import Brackets, Export, float32_leaves, nested_json
from tautrank.export.ranklib import ranklib_text

_BRACKETS = Brackets(', "children": [', ", ", "]}")
_VERSIONS_DIFFER = (
    "versions of the plugin differ: some take them for 0, some send them right, some where XGBoost "
    "does"
)


def plugin_model(export: Export) -> str:
    """Return a fitted model as the JSON that creates it in the learning to rank plugin of
    Elasticsearch or OpenSearch: the body of ``POST _ltr/_featureset/SET/_createmodel``.

    Warns if the plugin does not send missing values where the model does.

    Args:
        export: the model to write, with the names in the feature set.
    """
    if export.directions or export.model.tool == "xgboost":
        model_type = "model/xgboost+json"
        trees = [_xgboost_json(tree, export.names) for tree in export.trees]
        definition = "[" + ",\n".join(trees) + "]"
        effect_on_missing = _VERSIONS_DIFFER
    else:
        model_type = "model/ranklib"
        # Indentation is for readers, and two bytes per tab inside JSON.
        definition = ranklib_text(export.trees).replace("\t", "")
        effect_on_missing = f"{export.format} takes them for 0"
    if not export.directions:
        export.warn_of_missing(f"and {effect_on_missing}")

    model = {"type": model_type, "definition": definition}
    body = {"model": {"name": export.name, "model": model}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def _xgboost_json(tree: Tree, names: Sequence[str]) -> str:
    """Return a decision tree as JSON in the form of XGBoost's dumps: a document goes to the node
    ``yes`` if its float32 value is below the condition, else to ``no``.

    Args:
        tree: the tree; a child is the number of a split, or ``~leaf``, which is negative.
        names: the names of the features, in the order of the columns.

    >>> _xgboost_json(Tree.constant(0.5), [])
    '{"nodeid": 0, "leaf": 0.5}'
    """
    conditions = _split_conditions(tree)
    leaf_values = float32_leaves(tree.leaf)
    n_splits = tree.feature.size

    # XGBoost's numbers of nodes: splits, then leaves.
    def number_of_child(child: int) -> int:
        return child if child >= 0 else n_splits + ~child

    # All digits of the float32: the plugins read numbers as doubles and round those.
    def describe_split(split: int, depth: int) -> dict[str, Any]:
        yes = number_of_child(int(tree.left[split]))
        no = number_of_child(int(tree.right[split]))
        return {
            "nodeid": split,
            "depth": depth,
            "split": names[tree.feature[split]],
            "split_condition": float(conditions[split]),
            "yes": yes,
            "no": no,
            "missing": yes if tree.missing_left[split] else no,
        }

    def describe_leaf(leaf: int) -> dict[str, Any]:
        return {"nodeid": n_splits + leaf, "leaf": float(leaf_values[leaf])}

    return nested_json(tree, _BRACKETS, describe_split, describe_leaf)


def _split_conditions(tree: Tree) -> F32:
    """Return the number that each split of a tree compares with by ``value < condition``: the next
    float32 above its threshold, or the largest float32 instead of infinity, which JSON lacks.
    """
    largest = np.finfo(np.float32).max
    # The tree compares by ``value <= threshold``; so does the greatest float32 below or equal to it,
    # for float32 values.
    thresholds = greatest_float32(tree.threshold)
    next_above = np.nextafter(thresholds, np.float32(math.inf))
    return np.clip(next_above, -largest, largest)
