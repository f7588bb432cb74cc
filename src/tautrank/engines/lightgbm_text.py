"""LightGBM's model text: its leaves scaled, and its trees read as plain arrays."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.engines.trees import Tree

# LightGBM's decision_type of a split: a bit for categories, one for where missing values go, two for what is missing.
_BY_CATEGORY = 1
_DEFAULT_LEFT = 2
_MISSING = 12
_ZERO_IS_MISSING = 4


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
    trees = []
    for block in text.partition("\nend of trees")[0].split("\nTree=")[1:]:
        found = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        threshold, decision = _numbers(found["threshold"], np.float64), _numbers(found["decision_type"], np.int64)
        missing = decision & _MISSING
        # Where no value was missing in training, LightGBM reads a missing one as 0.
        missing_left = np.where(missing == 0, threshold >= 0.0, (decision & _DEFAULT_LEFT) != 0)
        splits = np.flatnonzero(decision & _BY_CATEGORY)
        missing_left[splits] = False
        trees.append(
            Tree.of(
                _numbers(found["split_feature"], np.int64),
                threshold,
                missing_left,
                _numbers(found["left_child"], np.int64),
                _numbers(found["right_child"], np.int64),
                _numbers(found["leaf_value"], np.float64),
                zero_is_missing=(missing == _ZERO_IS_MISSING) & (decision & _BY_CATEGORY == 0),
                categories=_categories(found, threshold, splits),
                linear=found.get("is_linear", "0") != "0",
            )
        )
    return trees


def _numbers(text: str, kind: type[np.generic]) -> Array:
    return np.fromstring(text, kind, sep=" ") if text else np.zeros(0, kind)


def _categories(found: Mapping[str, str], threshold: F64, splits: I64) -> dict[int, I64]:
    """Return the categories that go left, by split: the threshold of such a split is the number of its set of bits."""
    if not splits.size:
        return {}
    starts, words = (_numbers(found[name], np.int64) for name in ("cat_boundaries", "cat_threshold"))
    sets = [words[first:last] for first, last in itertools.pairwise(starts)]
    return {
        int(split): np.flatnonzero(sets[int(threshold[split])][:, np.newaxis] >> np.arange(32) & 1) for split in splits
    }
