"""Vespa's import of LightGBM models: ``lightgbm("model.json")`` in a rank profile.

Vespa reads the JSON that LightGBM dumps, but tests ``value < threshold`` where LightGBM tests ``<=``, sends every
missing value where ``default_left`` says, and requires an objective. So thresholds are the next doubles above the
model's, and ``default_left`` says where LightGBM sends missing values. Vespa computes with doubles.
"""

from __future__ import annotations

import json
import math
import re

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.errors import OptionError
from tautrank.export.base import Export

_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*(\([^()]*(\([^()]*\)[^()]*)*\))?(\.\w+)*")


def vespa_model(export: Export) -> str:
    """Return a file for the ``models`` folder of a Vespa application.

    Args:
        export: the model to write; its features are rank features, or functions of the rank profile.
    """
    for name in export.names:
        if not _RANK_FEATURE.fullmatch(name):
            raise OptionError(
                f"features: found '{name}', which is not a rank feature of Vespa; expected names such as bm25(title), "
                "attribute(price) or the name of a function"
            )
    head = {
        "name": "tree",
        "version": "v4",
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "max_feature_idx": len(export.names) - 1,
        # Among those Vespa knows, one that leaves the sum of the leaves as it is.
        "objective": "lambdarank",
        "feature_names": list(export.names),
        "feature_infos": {},
        "pandas_categorical": [],
    }
    texts = [
        f'{{"tree_index": {number}, "num_leaves": {tree.leaf.size}, "tree_structure": {_structure(tree)}}}'
        for number, tree in enumerate(export.trees)
    ]
    return json.dumps(head, ensure_ascii=False)[:-1] + ', "tree_info": [\n' + ",\n".join(texts) + "\n]}\n"


def _structure(tree: Tree) -> str:
    # A split on "is missing" has the largest double; JSON has no infinity, which would be next.
    thresholds = np.minimum(np.nextafter(tree.threshold, math.inf), np.finfo(np.float64).max)

    def split(node: int, _: int) -> tuple[str, str, str]:
        side = "true" if tree.missing_left[node] else "false"
        before = (
            f'{{"split_feature": {tree.feature[node]}, "threshold": {float(thresholds[node])!r}, '
            f'"decision_type": "<=", "default_left": {side}, "missing_type": "NaN", "left_child": '
        )
        return before, ', "right_child": ', "}"

    return tree.nested_text(split, lambda leaf, _: f'{{"leaf_value": {float(tree.leaf[leaf])!r}}}')
