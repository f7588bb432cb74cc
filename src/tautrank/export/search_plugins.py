"""RankLib's text of a LambdaMART model, and the learning to rank plugins of Elasticsearch and OpenSearch.

RankLib reads thresholds and leaves as float32, sends a document left if its value is at most the threshold, reads a
missing value as 0, and adds the leaves in float32. Features have numbers, from 1.

For the plugins, a model is the body of a ``_createmodel`` request. They read two kinds of trees. ``model/ranklib``
tests ``value <= threshold`` and reads a missing value as 0, in every version: this is what LightGBM does.
``model/xgboost+json`` tests ``value < threshold``; what it does with a missing value has changed from version to
version. So each tool's trees are written as the kind that works as the tool does. OpenSearch's plugin sends missing
values where each split says since July 2026 (opensearch-learning-to-rank-base#379): with ``directions`` all trees are
written for that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.export.base import Export, float32_leaves, float32_text, greatest_float32


def plugin_model(export: Export) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel``.

    Args:
        export: the model to write, with the names in the feature set.
    """
    does = f"{export.format} takes them for 0"
    if export.directions or export.model.tool == "xgboost":
        does = "versions of the plugin differ: some take them for 0, some send them right, some where XGBoost does"
        kind, definition = "model/xgboost+json", _xgboost_json(export.trees, export.names)
    else:
        # Indentation is for readers, and two bytes per tab inside JSON.
        kind, definition = "model/ranklib", _ranklib_text(export.trees).replace("\t", "")
    if not export.directions:
        export.warn_of_missing(f"and {does}")
    body = {"model": {"name": export.name, "model": {"type": kind, "definition": definition}}}
    return json.dumps(body, ensure_ascii=False) + "\n"


def _xgboost_json(trees: Sequence[Tree], names: Sequence[str]) -> str:
    """Return trees as XGBoost dumps them: a document goes to ``yes`` if its float32 value is below the condition.

    Args:
        trees: the trees of a model.
        names: the names of its features.

    >>> _xgboost_json([Tree.constant(0.5)], [])
    '[{"nodeid": 0, "leaf": 0.5}]'
    """
    return "[" + ",\n".join(_xgboost_tree(tree, names) for tree in trees) + "]"


def _xgboost_tree(tree: Tree, names: Sequence[str]) -> str:
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


def ranklib_model(export: Export) -> str:
    """Return the model file of RankLib's LambdaMART.

    Args:
        export: the model to write.
    """
    export.warn_of_missing("and RankLib takes them for 0")
    return _ranklib_text(export.trees)


def _ranklib_text(trees: Sequence[Tree]) -> str:
    """Return trees in RankLib's text.

    Args:
        trees: the trees of a model.
    """
    # RankLib finds the kind of model in the first line, and reads no other comment.
    header = [
        "## LambdaMART",
        f"## No. of trees = {len(trees)}",
        f"## No. of leaves = {max(tree.leaf.size for tree in trees)}",
        "## Learning rate = 1.0",
    ]
    texts = [
        f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n{_ranklib_tree(tree)}\t\t</split>\n\t</tree>\n'
        for number, tree in enumerate(trees, 1)
    ]
    return "\n".join(header) + "\n\n<ensemble>\n" + "".join(texts) + "</ensemble>\n"


def _ranklib_tree(tree: Tree) -> str:
    thresholds, leaves = greatest_float32(tree.threshold), float32_leaves(tree.leaf)

    # One element per line: RankLib joins the lines, and reads white space between elements as a child.
    def split(node: int, depth: int) -> tuple[str, str, str]:
        indent = "\t" * (depth + 3)
        question = (
            f"{indent}<feature> {tree.feature[node] + 1} </feature>\n"
            f"{indent}<threshold> {float32_text(thresholds[node])} </threshold>\n"
        )
        left, right, end = f'{indent}<split pos="left">\n', f'{indent}<split pos="right">\n', f"{indent}</split>\n"
        return question + left, end + right, end

    def output(leaf: int, depth: int) -> str:
        return "\t" * (depth + 3) + f"<output> {float32_text(leaves[leaf])} </output>\n"

    return tree.nested_text(split, output)
