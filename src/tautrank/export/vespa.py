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
    """Return a file for the ``models`` folder of a Vespa application.

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
    head_without_brace = json.dumps(head, ensure_ascii=False)[:-1]
    trees = ",\n".join(_tree_text(number, tree) for number, tree in enumerate(export.trees))
    return f'{head_without_brace}, "tree_info": [\n{trees}\n]}}\n'


def _tree_text(number: int, tree: Tree) -> str:
    """Return one tree of the dump."""
    # A split on "is missing" has the largest double; JSON has no infinity, which would be next.
    next_above = np.nextafter(tree.threshold, math.inf)
    thresholds = np.minimum(next_above, np.finfo(np.float64).max)

    def split(node: int, _: int) -> dict[str, Any]:
        return {
            "split_feature": int(tree.feature[node]),
            "threshold": float(thresholds[node]),
            "decision_type": "<=",
            "default_left": bool(tree.missing_left[node]),
            "missing_type": "NaN",
        }

    def leaf(number: int) -> dict[str, Any]:
        return {"leaf_value": float(tree.leaf[number])}

    structure = nested_json(tree, _BRACKETS, split, leaf)
    return (
        f'{{"tree_index": {number}, "num_leaves": {tree.leaf.size}, "tree_structure": {structure}}}'
    )
