"""The learning to rank plugins of Elasticsearch and OpenSearch: the body of a ``_createmodel`` request.

They read two kinds of trees. ``model/ranklib`` asks ``value <= threshold`` and takes a missing value for 0, in every
version: this is what LightGBM does. ``model/xgboost+json`` asks ``value < threshold``; what it does with a missing
value has changed from version to version. So each tool's trees are written as the kind that works as the tool does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from tautrank.export.missing import warn_of_missing
from tautrank.export.numbers import float32_leaves, greatest_float32
from tautrank.export.ranklib import ranklib_model
from tautrank.export.trees import Tree, nested_text


def plugin_model(trees: Sequence[Tree], names: Sequence[str], name: str, tool: str, system: str) -> str:
    """The body of ``POST _ltr/_featureset/SET/_createmodel``.

    Args:
        trees: of the model.
        names: of its features, as in the feature set.
        name: of the model.
        tool: what trained it, ``lightgbm`` or ``xgboost``.
        system: ``elasticsearch`` or ``opensearch``.
    """
    if tool == "xgboost":
        does = "versions of the plugin differ: some take them for 0, some send them right, some where XGBoost does"
        kind, definition = "model/xgboost+json", xgboost_json(trees, names)
    else:
        does = f"{system} takes them for 0"
        # Indentation is for readers, and two bytes a tab inside JSON.
        kind, definition = "model/ranklib", ranklib_model(trees).replace("\t", "")
    warn_of_missing(trees, names, system, does)
    body = {"model": {"name": name, "model": {"type": kind, "definition": definition}}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def xgboost_json(trees: Sequence[Tree], names: Sequence[str]) -> str:
    """Trees as XGBoost dumps them: a document goes to ``yes`` where its float32 value is below the condition.

    Args:
        trees: of the model.
        names: of its features.

    >>> tree = Tree(*(np.array(a) for a in ([], [], [], [], [], [0.5])))
    >>> xgboost_json([tree], [])
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

    return nested_text(
        tree, split, lambda leaf, _: f'{{"nodeid": {number(~leaf)}, "leaf": {float(leaves[leaf])!r}}}'
    )  # fmt: skip
