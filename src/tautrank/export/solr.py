"""Solr's MultipleAdditiveTreesModel.

Solr reads thresholds and leaves as float32, adds 1e-6 to every threshold, sends a document left if
its value is at most that sum, and adds the leaves in float32. Since version 9.2 it can distinguish
missing values from 0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tautrank.arrays import F32, F64
from tautrank.engines.trees import Tree, greatest_float32
from tautrank.export.formats import Brackets, Export, float32_leaves, float32_text, nested_json

SOLR_SLACK = np.float32(1e-6)
"""What Solr adds to every threshold, in float32."""

_MODEL = "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
_BRACKETS = Brackets(', "left": ', ', "right": ', "}")
# LightGBM's thresholds next to 0 have this size: no value lies between them and where Solr can put
# them.
_NEXT_TO_ZERO = np.float32(1e-35)


def solr_model(export: Export) -> str:
    """Return the body of a request to Solr's model store.

    Args:
        export: the model to write, with the names in Solr's feature store.
    """
    with_missing = bool(export.features_with_missing)
    export.warn_of_missing(
        'which needs Solr 9.2 or newer, and "defaultValue": "NaN" in the definition of these '
        "features"
    )
    _warn_of_moved_thresholds(export)

    head: dict[str, Any] = {"class": _MODEL, "name": export.name}
    if export.store is not None:
        head["store"] = export.store
    head["features"] = [{"name": name} for name in _names_in_use(export)]
    head_without_brace = json.dumps(head, ensure_ascii=False)[:-1]
    option = '"isNullSameAsZero": false, ' if with_missing else ""
    trees = ",\n".join(
        f'{{"weight": "1", "root": {_root(tree, export.names, with_missing)}}}'
        for tree in export.trees
    )
    return f'{head_without_brace}, "params": {{{option}"trees": [\n{trees}\n]}}}}\n'


def _names_in_use(export: Export) -> list[str]:
    """Return the names of the features that the trees split by, which are all that Solr computes; of
    all features if there is no split.
    """
    columns: set[int] = set()
    for tree in export.trees:
        columns.update(tree.feature.tolist())
    if not columns:
        return list(export.names)
    return [export.names[column] for column in sorted(columns)]


def _root(tree: Tree, names: Sequence[str], with_missing: bool) -> str:
    """Return a tree as nested JSON; `with_missing` if splits say where missing values go."""
    thresholds, _ = solr_thresholds(tree.threshold)
    leaves = float32_leaves(tree.leaf)

    def split(node: int, _: int) -> dict[str, Any]:
        question: dict[str, Any] = {
            "feature": names[tree.feature[node]],
            "threshold": float32_text(thresholds[node]),
        }
        # Solr fails at a missing value if a split does not say where it goes.
        if with_missing:
            question["missing"] = "left" if tree.missing_left[node] else "right"
        return question

    def leaf(number: int) -> dict[str, Any]:
        return {"value": float32_text(leaves[number])}

    return nested_json(tree, _BRACKETS, split, leaf)


def solr_thresholds(thresholds: F64) -> tuple[F32, F32]:
    """Return what to write for Solr, and the thresholds it compares with: the former plus
    `SOLR_SLACK`, in float32.

    They are those of `greatest_float32`, except near 0 and below powers of two, where no float32
    plus the slack gives that number; there it is the next one below that can be reached. 0 can be
    reached, so it stays on its side of every threshold.

    Args:
        thresholds: doubles.

    >>> written, compared = solr_thresholds(np.array([0.5, 0.0]))
    >>> written, compared
    (array([ 4.99999e-01, -1.00000e-06], dtype=float32), array([0.5, 0. ], dtype=float32))
    """
    goal = greatest_float32(thresholds)
    # The subtraction is rounded: the number looked for may be next to it.
    near = goal - SOLR_SLACK
    best, best_sum = np.full_like(goal, -math.inf), np.full_like(goal, -math.inf)
    with np.errstate(over="ignore"):
        for direction in (math.inf, -math.inf):
            candidate = near
            for _ in range(3):
                candidate_sum = candidate + SOLR_SLACK
                is_better = (candidate_sum <= goal) & (candidate_sum > best_sum)
                best = np.where(is_better, candidate, best)
                best_sum = np.where(is_better, candidate_sum, best_sum)
                candidate = np.nextafter(candidate, np.float32(direction))
    return best, best_sum


def _warn_of_moved_thresholds(export: Export) -> None:
    """Warn of thresholds that no float32 plus the slack gives."""
    thresholds = np.concatenate([tree.threshold for tree in export.trees])
    goal = greatest_float32(thresholds)
    _, compared = solr_thresholds(thresholds)
    is_moved = (compared < goal) & (np.abs(goal) > _NEXT_TO_ZERO)
    if not is_moved.any():
        return
    largest_move = float(np.max(goal[is_moved].astype(np.float64) - compared[is_moved]))
    export.warn(
        f"adds 1e-6 to thresholds in float32, so {int(is_moved.sum())} of {thresholds.size} come "
        f"out lower than the model's, by {largest_move:.1g} at most; "
        "only documents with values in between are scored otherwise"
    )
