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
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    Args:
        export: the model to write, with the names in the feature set.
    """
    if export.directions or export.model.tool == "xgboost":
        trees = ",\n".join(_xgboost_json(tree, export.names) for tree in export.trees)
        kind, definition = "model/xgboost+json", f"[{trees}]"
        effect = _VERSIONS_DIFFER
    else:
        # Indentation is for readers, and two bytes per tab inside JSON.
        kind, definition = "model/ranklib", ranklib_text(export.trees).replace("\t", "")
        effect = f"{export.format} takes them for 0"
    if not export.directions:
        export.warn_of_missing(f"and {effect}")

    model = {"type": kind, "definition": definition}
    body = {"model": {"name": export.name, "model": model}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def _xgboost_json(tree: Tree, names: Sequence[str]) -> str:
    """Return a tree as XGBoost dumps it: a document goes to ``yes`` if its float32 value is below
    the condition.

    Args:
        tree: the tree.
        names: the names of the features.

    >>> _xgboost_json(Tree.constant(0.5), [])
    '{"nodeid": 0, "leaf": 0.5}'
    """
    conditions = _conditions(tree)
    leaves = float32_leaves(tree.leaf)

    def node_number(child: int) -> int:
        return child if child >= 0 else tree.feature.size + ~child

    # All digits of the float32: the plugins read numbers as doubles and round those.
    def split(node: int, depth: int) -> dict[str, Any]:
        yes = node_number(int(tree.left[node]))
        no = node_number(int(tree.right[node]))
        return {
            "nodeid": node,
            "depth": depth,
            "split": names[tree.feature[node]],
            "split_condition": float(conditions[node]),
            "yes": yes,
            "no": no,
            "missing": yes if tree.missing_left[node] else no,
        }

    def leaf(number: int) -> dict[str, Any]:
        return {"nodeid": node_number(~number), "leaf": float(leaves[number])}

    return nested_json(tree, _BRACKETS, split, leaf)


def _conditions(tree: Tree) -> F32:
    """Return the next float32 above each threshold, but for infinities, which JSON does not have."""
    largest = np.finfo(np.float32).max
    next_above = np.nextafter(greatest_float32(tree.threshold), np.float32(math.inf))
    return np.clip(next_above, -largest, largest)
