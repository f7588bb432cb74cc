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
# How many numbers are tried in each direction for one that is right after Solr's rounded addition.
_NEIGHBOURS_TRIED = 3


def solr_model(export: Export) -> str:
    """Return a fitted model of trees as JSON for Solr's model store, a MultipleAdditiveTreesModel.

    Warns of missing values, which need a new version of Solr, and of thresholds that Solr moves.

    Args:
        export: the model to write, with the names in Solr's feature store.
    """
    has_missing = bool(export.features_with_missing)
    export.warn_of_missing(
        'which needs Solr 9.2 or newer, and "defaultValue": "NaN" in the definition of these '
        "features"
    )
    _warn_of_moved_thresholds(export)

    head: dict[str, Any] = {"class": _MODEL, "name": export.name}
    if export.store is not None:
        head["store"] = export.store
    head["features"] = [{"name": name} for name in _names_in_use(export)]
    # The closing brace follows after the parameters: trees may be nested too deeply for json.
    head_without_brace = json.dumps(head, ensure_ascii=False)[:-1]

    # By default Solr takes a missing value for 0.
    option = '"isNullSameAsZero": false, ' if has_missing else ""
    trees = []
    for tree in export.trees:
        root = _tree_json(tree, export.names, has_missing)
        trees.append(f'{{"weight": "1", "root": {root}}}')
    tree_lines = ",\n".join(trees)
    return f'{head_without_brace}, "params": {{{option}"trees": [\n{tree_lines}\n]}}}}\n'


def _names_in_use(export: Export) -> list[str]:
    """Return the names of the features that the trees of a model split by, in the order of the
    columns; of all features if there is no split. Solr computes only these.
    """
    columns: set[int] = set()
    for tree in export.trees:
        columns.update(tree.feature.tolist())
    if not columns:
        return list(export.names)
    return [export.names[column] for column in sorted(columns)]


def _tree_json(tree: Tree, names: Sequence[str], has_missing: bool) -> str:
    """Return a decision tree as Solr's nested JSON.

    Args:
        tree: the tree.
        names: the names of the features, in the order of the columns.
        has_missing: whether splits say where missing values go.
    """
    # Solr adds 1e-6 to what is written before it compares: lower thresholds are written.
    written_thresholds, _compared = solr_thresholds(tree.threshold)
    leaf_values = float32_leaves(tree.leaf)

    def describe_split(split: int, depth: int) -> dict[str, Any]:
        description: dict[str, Any] = {
            "feature": names[tree.feature[split]],
            "threshold": float32_text(written_thresholds[split]),
        }
        # Solr fails at a missing value if a split does not say where it goes.
        if has_missing:
            description["missing"] = "left" if tree.missing_left[split] else "right"
        return description

    def describe_leaf(leaf: int) -> dict[str, Any]:
        return {"value": float32_text(leaf_values[leaf])}

    return nested_json(tree, _BRACKETS, describe_split, describe_leaf)


def solr_thresholds(thresholds: F64) -> tuple[F32, F32]:
    """Return the thresholds to write into a Solr model, and those that Solr then compares values
    with: Solr adds `SOLR_SLACK` (1e-6) to what is written, in float32.

    A threshold to compare with is the greatest float32 that is no more than the model's threshold,
    so that all float32 values stay on their sides. Near 0 and below powers of two no float32 plus
    the slack gives that number; there it is the next one below that can be reached. 0 can be
    reached, so it stays on its side of every threshold.

    Args:
        thresholds: the thresholds of a model, as doubles.

    >>> written, compared = solr_thresholds(np.array([0.5, 0.0]))
    >>> written, compared
    (array([ 4.99999e-01, -1.00000e-06], dtype=float32), array([0.5, 0. ], dtype=float32))
    """
    goals = greatest_float32(thresholds)
    best_written = np.full_like(goals, -math.inf)
    best_compared = np.full_like(goals, -math.inf)
    # The difference is rounded: the best number to write may be one of its neighbours.
    difference = goals - SOLR_SLACK
    with np.errstate(over="ignore"):
        for direction in (math.inf, -math.inf):
            written = difference
            for _neighbour in range(_NEIGHBOURS_TRIED):
                compared = written + SOLR_SLACK
                is_better = (compared <= goals) & (compared > best_compared)
                best_written = np.where(is_better, written, best_written)
                best_compared = np.where(is_better, compared, best_compared)
                written = np.nextafter(written, np.float32(direction))
    return best_written, best_compared


def _warn_of_moved_thresholds(export: Export) -> None:
    """Warn if Solr compares with lower thresholds than the model to be written: Solr adds 1e-6 to
    thresholds, and some float32 numbers are no such sum.
    """
    thresholds = np.concatenate([tree.threshold for tree in export.trees])
    goals = greatest_float32(thresholds)
    _written, compared = solr_thresholds(thresholds)
    is_moved = (compared < goals) & (np.abs(goals) > _NEXT_TO_ZERO)
    n_moved = int(is_moved.sum())
    if n_moved == 0:
        return
    moves = goals[is_moved].astype(np.float64) - compared[is_moved]
    largest_move = float(np.max(moves))
    export.warn(
        f"adds 1e-6 to thresholds in float32, so {n_moved} of {thresholds.size} come "
        f"out lower than the model's, by {largest_move:.1g} at most; "
        "only documents with values in between are scored otherwise"
    )
