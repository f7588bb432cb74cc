"""LightGBM's model text: its leaves scaled, and its trees read as plain arrays."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tautrank.arrays import F64, I64, Bools
from tautrank.engines.trees import Tree
from tautrank.errors import OptionError

# LightGBM's decision_type of a split: a bit for where missing values go by default, two for what is missing.
_DEFAULT_LEFT = 2
_MISSING = 12
_ZERO_IS_MISSING = 4
_NAN_IS_MISSING = 8


def scaled_text(text: str, scale: float) -> str:
    """Multiply all that the trees of a model text add to a score, and what it says about inner nodes in that unit.

    LightGBM's own reader gives the same bits back, and finds its trees by their lengths.

    Args:
        text: a model as LightGBM writes it.
        scale: the factor.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> scaled_text(text, 0.5).splitlines()[4]
    'leaf_value=0.25 -0.5'
    """
    if scale == 1:
        return text

    def product(line: re.Match[str]) -> str:
        digits = ".17g" if line[1].startswith("leaf") else "g"
        return f"{line[1]}={re.sub(r'[^ ]+', lambda word: f'{float(word[0]) * scale:{digits}}', line[2])}"

    text = re.sub(r"^(leaf_value|leaf_const|leaf_coeff|internal_value|shrinkage)=(.*)$", product, text, flags=re.M)
    return _with_sizes(text)


def joined_text(texts: Sequence[str]) -> str:
    """Join models of the same features to one that adds up all their trees.

    Args:
        texts: models as LightGBM writes them.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> joined_text([text, text]).splitlines()[1], joined_text([text, text]).count("leaf_value")
    ('tree_sizes=27 27', 2)
    """
    head, _, rest = texts[0].partition("\nTree=0\n")
    tail = rest.partition("\nend of trees\n")[2]
    blocks: list[str] = []
    for text in texts:
        trees = text.partition("\nTree=0\n")
        _, *found = re.split(
            r"^Tree=\d+\n", "Tree=0\n" * bool(trees[1]) + trees[2].partition("\nend of trees")[0] + "\n", flags=re.M
        )
        blocks += found
    body = "".join(f"Tree={number}\n{block}" for number, block in enumerate(blocks))
    return _with_sizes(f"{head}\n{body}end of trees\n{tail}")


def _with_sizes(text: str) -> str:
    """Write the lengths of the trees, by which LightGBM finds them, into a model text."""
    starts = [tree.start() for tree in re.finditer(r"^(Tree=\d+|end of trees)$", text, flags=re.M)]
    lengths = " ".join(str(length) for length in np.diff(starts))
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={lengths}", text, count=1, flags=re.M)


def lightgbm_trees(text: str) -> list[Tree]:
    """Read the trees of a LightGBM model text; the sum of their leaves is the raw score, of random forests too.

    Args:
        text: a model as LightGBM writes it.

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
            Tree.of(
                found["split_feature"].split(),
                threshold,
                _missing_left(threshold, np.array(found["decision_type"].split(), np.int64)),
                found["left_child"].split(),
                found["right_child"].split(),
                found["leaf_value"].split(),
            )
        )
    return trees


def _missing_left(threshold: F64, decision: I64) -> Bools:
    default_left = (decision & _DEFAULT_LEFT) != 0
    zero_left = threshold >= 0.0
    kind = decision & _MISSING
    torn = (kind == _ZERO_IS_MISSING) & (default_left != zero_left)
    if torn.any():
        raise OptionError(
            f"format: the model sends 0 aside as a missing value, at the threshold {threshold[torn][0]:g} among others "
            "(zero_as_missing); expected lightgbm, which can do so too"
        )
    # Where no value was missing in training, LightGBM reads a missing one as 0.
    return np.asarray(np.where(kind == _NAN_IS_MISSING, default_left, zero_left))
