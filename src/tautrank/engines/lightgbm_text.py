"""LightGBM's model text: its trees read, scaled and joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.engines.trees import Tree, greatest_float32

# LightGBM's decision_type of a split: a bit for categories, one for where missing values go, two
# for what is missing.
_BY_CATEGORY = 1


_DEFAULT_LEFT = 2


_MISSING = 12


_ZERO_IS_MISSING = 4


def scaled_text(text: str, scale: float) -> str:
    """Multiply all that the trees of a model text add to a score, and what it says about inner
    nodes in that unit.

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

    text = re.sub(
        r"^(leaf_value|leaf_const|leaf_coeff|internal_value|shrinkage)=(.*)$",
        product,
        text,
        flags=re.M,
    )
    return with_sizes(text)


def text_for_float32(text: str) -> str:
    """Move thresholds that LightGBM found in doubles to where float32 values go as the doubles that
    they stand for.

    Between 0.71 and 0.73 LightGBM splits just above 0.72. The float32 nearest to 0.72 is larger
    still, and so is the threshold that this returns. Thresholds found in float32 data, whose means
    have few digits, stay as they are.

    Args:
        text: a model as LightGBM writes it.

    >>> text_for_float32("tree_sizes=\\n\\nTree=0\\nthreshold=0.72000000000000008 0.5000000000000001\\nend of trees\\n")
    'tree_sizes=57\\n\\nTree=0\\nthreshold=0.72000002861022949 0.50000000000000011\\nend of trees\\n'
    """

    def moved(line: re.Match[str]) -> str:
        given = numbers_in(line[1], np.float64)
        below = greatest_float32(given)
        with np.errstate(over="ignore"):
            above = np.nextafter(below, np.float32(np.inf))
        in_doubles = np.nextafter(given, -np.inf).view(np.int64) % 2**12 != 0
        up = in_doubles & (above - given < given - below) & (abs(given) < 2**24)
        return "threshold=" + " ".join(f"{number:.17g}" for number in np.where(up, above, given))

    return with_sizes(re.sub(r"^threshold=(.+)$", moved, text, flags=re.M))


def joined_text(texts: Sequence[str]) -> str:
    """Join models of the same features to one that adds up all their trees.

    Args:
        texts: models as LightGBM writes them.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> joined_text([text, text]).splitlines()[1], joined_text([text, text]).count("leaf_value")
    ('tree_sizes=27 27', 2)
    """
    tail = texts[0].partition("\nend of trees\n")[2]
    parts = [
        re.split(r"^Tree=\d+\n", text.partition("\nend of trees\n")[0] + "\n", flags=re.M)
        for text in texts
    ]
    blocks = enumerate(block for _, *found in parts for block in found)
    body = "".join(f"Tree={number}\n{block}" for number, block in blocks)
    return with_sizes(f"{parts[0][0]}{body}end of trees\n{tail}")


def with_sizes(text: str) -> str:
    """Write the lengths of the trees, by which LightGBM finds them, into a model text.

    Args:
        text: a model as LightGBM writes it, but for the lengths.
    """
    return re.sub(r"^tree_sizes=.*$", f"tree_sizes={tree_sizes(text)}", text, count=1, flags=re.M)


def tree_sizes(text: str) -> str:
    """Return the lengths of the trees of a model text, with spaces between them.

    Args:
        text: a model as LightGBM writes it.
    """
    starts = [tree.start() for tree in re.finditer(r"^(Tree=\d+|end of trees)$", text, flags=re.M)]
    return " ".join(str(length) for length in np.diff(starts))


def lightgbm_trees(text: str) -> list[Tree]:
    """Read the trees of a LightGBM model text; the sum of their leaves is the raw score, of random
    forests too.

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
        threshold, decision = (
            numbers_in(found["threshold"], np.float64),
            numbers_in(found["decision_type"], np.int64),
        )
        missing = decision & _MISSING
        # Where no value was missing in training, LightGBM reads a missing one as 0.
        missing_left = np.where(missing == 0, threshold >= 0.0, (decision & _DEFAULT_LEFT) != 0)
        splits = np.flatnonzero(decision & _BY_CATEGORY)
        missing_left[splits] = False
        feature = numbers_in(found["split_feature"], np.int64)
        left, right = (numbers_in(found[name], np.int64) for name in ("left_child", "right_child"))
        zero_is_missing = (missing == _ZERO_IS_MISSING) & (decision & _BY_CATEGORY == 0)
        more = {
            "zero_is_missing": zero_is_missing,
            "categories": _categories(found, threshold, splits),
        }
        leaf, linear = (
            numbers_in(found["leaf_value"], np.float64),
            found.get("is_linear", "0") != "0",
        )
        trees.append(
            Tree.of(feature, threshold, missing_left, left, right, leaf, linear=linear, **more)
        )
    return trees


def numbers_in(text: str, kind: type[np.generic]) -> Array:
    """Return the numbers of a text with spaces between them.

    Args:
        text: perhaps empty.
        kind: their type.
    """
    return np.fromstring(text, kind, sep=" ") if text else np.zeros(0, kind)


def _categories(found: Mapping[str, str], threshold: F64, splits: I64) -> dict[int, I64]:
    """Return the categories that go left, by split: the threshold of such a split is the number of
    its set of bits.
    """
    if not splits.size:
        return {}
    starts, words = (
        numbers_in(found[name], np.int64) for name in ("cat_boundaries", "cat_threshold")
    )
    sets = [
        np.flatnonzero(words[first:last, np.newaxis] >> np.arange(32) & 1)
        for first, last in pairwise(starts)
    ]
    return {int(split): sets[int(threshold[split])] for split in splits}
