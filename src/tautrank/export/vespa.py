"""The dump of a LightGBM model as Vespa reads it (``lightgbm("model.json")`` in a rank profile).

Vespa tests ``value < threshold`` where LightGBM tests ``<=``, sends every missing value where
``default_left`` says, and requires an objective. So thresholds are the next doubles above the
model's, and ``default_left`` says where LightGBM sends missing values. Vespa computes with doubles.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.errors import OptionError
from tautrank.export.formats import Brackets, Export, nested_json

_BRACKETS = Brackets(', "left_child": ', ', "right_child": ', "}")
_RANK_FEATURE = re.compile(r"[A-Za-z_]\w*(\([^()]*(\([^()]*\)[^()]*)*\))?(\.\w+)*")


def vespa_model(export: Export) -> str:
    """Return a fitted model as the JSON of a LightGBM dump that Vespa reads: a file for the
    ``models`` folder of an application.

    Args:
        export: the model to write; its features are rank features, or functions of the rank
            profile.
    """
    for name in export.names:
        if not _RANK_FEATURE.fullmatch(name):
            raise OptionError(
                f"features: found '{name}', which is not a rank feature of Vespa; expected names "
                "such as bm25(title), attribute(price) or the name of a function"
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
    # The closing brace follows after the trees.
    head_without_brace = json.dumps(head, ensure_ascii=False)[:-1]
    trees = [_tree_json(number, tree) for number, tree in enumerate(export.trees)]
    tree_lines = ",\n".join(trees)
    return f'{head_without_brace}, "tree_info": [\n{tree_lines}\n]}}\n'


def _tree_json(tree_number: int, tree: Tree) -> str:
    """Return a decision tree as JSON in the form of LightGBM's dumps, as Vespa reads them.

    Vespa sends a document left if its value is below the threshold, although the dump says ``<=``:
    thresholds are the next doubles above the tree's.
    """
    next_above = np.nextafter(tree.threshold, math.inf)
    # A split on "is missing" has the largest double; JSON has no infinity, which would be next.
    thresholds = np.minimum(next_above, np.finfo(np.float64).max)

    def describe_split(split: int, depth: int) -> dict[str, Any]:
        return {
            "split_feature": int(tree.feature[split]),
            "threshold": float(thresholds[split]),
            "decision_type": "<=",
            "default_left": bool(tree.missing_left[split]),
            "missing_type": "NaN",
        }

    def describe_leaf(leaf: int) -> dict[str, Any]:
        return {"leaf_value": float(tree.leaf[leaf])}

    root = nested_json(tree, _BRACKETS, describe_split, describe_leaf)
    return (
        f'{{"tree_index": {tree_number}, "num_leaves": {tree.leaf.size}, "tree_structure": {root}}}'
    )
