"""A model as plain arrays, whatever trained it: what every format is written from.

LightGBM asks ``value <= threshold`` of doubles, XGBoost ``value < threshold`` of floats. Both are kept as the former;
documents have float32 features here, so that the one becomes the other without loss.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tautrank.engines import FittedModel
from tautrank.errors import OptionError

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# LightGBM's decision_type of a split: a bit for where missing values go by default, two for what is missing.
_DEFAULT_LEFT = 2
_MISSING = 12
_ZERO_IS_MISSING = 4
_NAN_IS_MISSING = 8


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree: a document goes left where its value is at most the threshold.

    Args:
        feature: the column that each split asks for.
        threshold: of each split.
        missing_left: whether a missing value (NaN) goes left at each split.
        left, right: the children of each split: a split, or ``~leaf``.
        leaf: what each leaf adds to the score.

    >>> tree = Tree(*(np.array(a) for a in ([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])))
    >>> tree.root, tree.depends_on_missing
    (0, array([False]))
    >>> Tree(*(np.array(a) for a in ([], [], [], [], [], [3.0]))).root == ~0
    True
    """

    feature: I64
    threshold: F64
    missing_left: NDArray[np.bool_]
    left: I64
    right: I64
    leaf: F64

    @property
    def root(self) -> int:
        """Where a document starts: split 0, or the only leaf."""
        return 0 if self.feature.size else ~0

    @property
    def depends_on_missing(self) -> NDArray[np.bool_]:
        """Which splits send a missing value elsewhere than 0; systems that know no missing values take them for 0."""
        return np.asarray(self.missing_left != (self.threshold >= 0.0))


def trees_of(model: FittedModel) -> list[Tree]:
    """The trees of a fitted model; a sentence where they do not fit the mould.

    Args:
        model: trained by LightGBM or XGBoost.
    """
    if model.tool == "lightgbm":
        trees = lightgbm_trees(model.to_bytes().decode())
    elif model.tool == "xgboost":
        trees = xgboost_trees(bytes(model.booster.save_raw("json")))  # type: ignore[attr-defined]
    else:
        raise OptionError(
            f"format: found a model trained by {model.tool}, which can only be saved; expected one trained by lightgbm "
            "or xgboost"
        )
    # No system reads a model without trees.
    return trees or [_tree([], [], [], [], [], [0.0])]


def lightgbm_trees(text: str) -> list[Tree]:
    """The trees of a LightGBM model text; the sum of their leaves is LightGBM's raw score, of random forests too.

    Args:
        text: as LightGBM writes it.

    >>> text = "tree\\n\\nTree=0\\nnum_cat=0\\nsplit_feature=2\\nthreshold=0.5\\ndecision_type=2\\nleft_child=-1\\n"
    >>> text += "right_child=-2\\nleaf_value=-1 1\\nis_linear=0\\n\\n\\nend of trees\\n"
    >>> lightgbm_trees(text)[0].leaf
    array([-1.,  1.])
    """
    _, *blocks = re.split(r"^Tree=\d+$", text.partition("\nend of trees")[0], flags=re.MULTILINE)
    trees = []
    for block in blocks:
        found = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if found.get("is_linear", "0") != "0":
            raise OptionError("format: the model has linear trees (linear_tree); expected lightgbm, which has them too")
        if int(found["num_cat"]):
            raise OptionError(
                "format: the model splits by category (categorical_feature); expected lightgbm, which has such splits"
            )
        threshold = np.array(found["threshold"].split(), np.float64)
        trees.append(
            _tree(
                found["split_feature"].split(),
                threshold,
                _missing_left(threshold, np.array(found["decision_type"].split(), np.int64)),
                found["left_child"].split(),
                found["right_child"].split(),
                found["leaf_value"].split(),
            )
        )
    return trees


def _missing_left(threshold: F64, decision: I64) -> NDArray[np.bool_]:
    default_left = (decision & _DEFAULT_LEFT) != 0
    zero_left = threshold >= 0.0
    kind = decision & _MISSING
    torn = (kind == _ZERO_IS_MISSING) & (default_left != zero_left)
    if torn.any():
        raise OptionError(
            f"format: the model sends 0 aside as a missing value, at the threshold {threshold[torn][0]:g} among others "
            "(zero_as_missing); expected lightgbm, which can do so too"
        )
    # Where no document lacked a value in training, LightGBM takes a missing one for 0.
    return np.asarray(np.where(kind == _NAN_IS_MISSING, default_left, zero_left))


def xgboost_trees(content: bytes) -> list[Tree]:
    """The trees of an XGBoost model, and a tree of one leaf for the score they start from.

    Args:
        content: the model as XGBoost's JSON.
    """
    learner = json.loads(content)["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise OptionError(f"format: found XGBoost's booster {booster['name']}; expected gbtree")
    # One number, which XGBoost 3 writes as a list of one.
    trees = [_tree([], [], [], [], [], [float(learner["learner_model_param"]["base_score"].strip("[]"))])]
    for described in booster["model"]["trees"]:
        left, right = (np.array(described[name], np.int64) for name in ("left_children", "right_children"))
        numbers = np.array(described["split_conditions"], np.float32)
        inner = left >= 0
        if np.array(described["split_type"], np.int64)[inner].any():
            raise OptionError(
                "format: the model splits by category (categorical_feature); expected a model without such splits"
            )
        # Splits and leaves share one numbering in XGBoost.
        place = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))
        trees.append(
            _tree(
                np.array(described["split_indices"], np.int64)[inner],
                np.nextafter(numbers[inner], np.float32(-math.inf)),
                np.array(described["default_left"], np.int64)[inner] != 0,
                place[left[inner]],
                place[right[inner]],
                numbers[~inner],
            )
        )
    return trees


def _tree(*fields: object) -> Tree:
    """A tree of anything that becomes its arrays."""
    kinds = (np.int64, np.float64, np.bool_, np.int64, np.int64, np.float64)
    return Tree(*(np.array(values, kind) for values, kind in zip(fields, kinds, strict=True)))


def nested_text(tree: Tree, split: Callable[[int, int], tuple[str, str, str]], leaf: Callable[[int, int], str]) -> str:
    """Write a tree as text in which every split encloses its children.

    Without recursion: LightGBM's trees may be deeper than Python's stack.

    Args:
        tree: what to write.
        split: the text before the left child, between the children, and behind the right one; of a split and its depth.
        leaf: the text of a leaf, of its number and its depth.

    >>> tree = Tree(*(np.array(a) for a in ([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])))
    >>> nested_text(tree, lambda n, _: (f"x <= {tree.threshold[n]} ? ", " : ", ""), lambda n, _: str(tree.leaf[n]))
    'x <= 0.5 ? -1.0 : 1.0'
    """
    written: list[str] = []
    waiting: list[str | tuple[int, int]] = [(tree.root, 0)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            written.append(item)
            continue
        node, depth = item
        if node < 0:
            written.append(leaf(~node, depth))
            continue
        before, between, behind = split(node, depth)
        written.append(before)
        waiting += [behind, (int(tree.right[node]), depth + 1), between, (int(tree.left[node]), depth + 1)]
    return "".join(written)
