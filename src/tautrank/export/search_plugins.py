"""The learning to rank plugins of Elasticsearch and OpenSearch: the body of a ``_createmodel`` request.

They read two kinds of trees. ``model/ranklib`` tests ``value <= threshold`` and reads a missing value as 0, in every
version: this is what LightGBM does. ``model/xgboost+json`` tests ``value < threshold``; what it does with a missing
value has changed from version to version. So each tool's trees are written as the kind that works as the tool does.
OpenSearch's plugin sends missing values where each split says since July 2026 (opensearch-learning-to-rank-base#379):
with ``directions`` all trees are written for that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.export.base import Export
from tautrank.export.numbers import float32_leaves, greatest_float32
from tautrank.export.ranklib import ranklib_text


def plugin_model(export: Export) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    Args:
        export: the model to write, with the names in the feature set.
    """
    if export.directions:
        does, kind, definition = "", "model/xgboost+json", xgboost_json(export.trees, export.names)
    elif export.model.tool == "xgboost":
        does = "versions of the plugin differ: some take them for 0, some send them right, some where XGBoost does"
        kind, definition = "model/xgboost+json", xgboost_json(export.trees, export.names)
    else:
        does = f"{export.format} takes them for 0"
        # Indentation is for readers, and two bytes per tab inside JSON.
        kind, definition = "model/ranklib", ranklib_text(export.trees).replace("\t", "")
    if does:
        export.warn_of_missing(f"and {does}")
    body = {"model": {"name": export.name, "model": {"type": kind, "definition": definition}}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def xgboost_json(trees: Sequence[Tree], names: Sequence[str]) -> str:
    """Return trees as XGBoost dumps them: a document goes to ``yes`` if its float32 value is below the condition.

    Args:
        trees: the trees of a model.
        names: the names of its features.

    >>> xgboost_json([Tree.constant(0.5)], [])
    '[{"nodeid": 0, "leaf": 0.5}]'
    """
    return "[" + ",\n".join(_dumped(tree, names) for tree in trees) + "]"


def _dumped(tree: Tree, names: Sequence[str]) -> str:
    # JSON has no infinity.
    most = np.finfo(np.float32).max
    conditions = np.clip(np.nextafter(greatest_float32(tree.threshold), np.float32(math.inf)), -most, most)
    leaves = float32_leaves(tree.leaf)

    def number(child: int) -> int:
        return child if child >= 0 else tree.feature.size + ~child

    # All digits of the float32: the plugins read numbers as doubles and round those.
    def split(node: int, depth: int) -> tuple[str, str, str]:
        yes, no = number(int(tree.left[node])), number(int(tree.right[node]))
        feature = json.dumps(names[tree.feature[node]], ensure_ascii=False)
        before = (
            f'{{"nodeid": {node}, "depth": {depth}, "split": {feature}, '
            f'"split_condition": {float(conditions[node])!r}, "yes": {yes}, '
            f'"no": {no}, "missing": {yes if tree.missing_left[node] else no}, "children": ['
        )
        return before, ", ", "]}"

    return tree.nested_text(
        split, lambda leaf, _: f'{{"nodeid": {number(~leaf)}, "leaf": {float(leaves[leaf])!r}}}'
    )  # fmt: skip
