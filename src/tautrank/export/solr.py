"""Solr's learning to rank module: a MultipleAdditiveTreesModel.

Solr reads thresholds and leaves as float32, adds 1e-6 to every threshold, sends a document left if its value is at most
that sum, and adds the leaves in float32. Since version 9.2 it can distinguish missing values from 0.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.export.base import Export, float32_leaves, float32_text, greatest_float32, solr_thresholds

# LightGBM's thresholds next to 0 have this size: no value lies between them and where Solr can put them.
_ZERO = np.float32(1e-35)


def solr_model(export: Export) -> str:
    """Return the body of a request to Solr's model store.

    Args:
        export: the model to write, with the names in Solr's feature store.
    """
    trees, names, missing = export.trees, export.names, bool(export.depends_on_missing)
    export.warn_of_missing(
        'which needs Solr 9.2 or newer, and "defaultValue": "NaN" in the definition of these features'
    )
    _warn_of_moved_thresholds(export)
    # Solr computes every feature that a model lists.
    used = sorted({int(column) for tree in trees for column in tree.feature}) or range(len(names))
    head: dict[str, object] = {"class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel", "name": export.name}
    if export.store is not None:
        head["store"] = export.store
    head["features"] = [{"name": names[column]} for column in used]
    texts = [f'{{"weight": "1", "root": {_root(tree, names, missing)}}}' for tree in trees]
    null = '"isNullSameAsZero": false, ' if missing else ""
    opening = json.dumps(head, ensure_ascii=False)[:-1]
    return f'{opening}, "params": {{{null}"trees": [\n' + ",\n".join(texts) + "\n]}}\n"


def _root(tree: Tree, names: Sequence[str], with_missing: bool) -> str:
    thresholds, _ = solr_thresholds(tree.threshold)
    leaves = float32_leaves(tree.leaf)

    def split(node: int, _: int) -> tuple[str, str, str]:
        feature = json.dumps(names[tree.feature[node]], ensure_ascii=False)
        # Solr fails at a missing value if a split does not say where it goes.
        side = f', "missing": "{"left" if tree.missing_left[node] else "right"}"' if with_missing else ""
        threshold = float32_text(thresholds[node])
        return f'{{"feature": {feature}, "threshold": "{threshold}"{side}, "left": ', ', "right": ', "}"

    return tree.nested_text(split, lambda leaf, _: f'{{"value": "{float32_text(leaves[leaf])}"}}')


def _warn_of_moved_thresholds(export: Export) -> None:
    thresholds = np.concatenate([tree.threshold for tree in export.trees])
    wanted, (_, reached) = greatest_float32(thresholds), solr_thresholds(thresholds)
    moved = (reached < wanted) & (np.abs(wanted) > _ZERO)
    if moved.any():
        far = float(np.max(wanted[moved].astype(np.float64) - reached[moved]))
        export.warn(
            f"adds 1e-6 to thresholds in float32, so {int(moved.sum())} of {thresholds.size} come out lower than "
            f"the model's, by {far:.1g} at most; only documents with values in between are scored otherwise"
        )
