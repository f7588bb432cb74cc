"""LightGBM's model text: its trees read, scaled and joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tautrank.arrays import F64, I64, Array
from tautrank.engines.trees import Tree, greatest_float32

_END_OF_TREES = "\nend of trees\n"
_TREE_LINE = re.compile(r"^Tree=\d+\n", re.M)
# From this number on float32 skips whole numbers.
_FIRST_INEXACT = 2**24

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

    def scaled_line(line: re.Match[str]) -> str:
        name, numbers = line.groups()
        number_format = ".17g" if name.startswith("leaf") else "g"
        # In linear trees a leaf may have no coefficients: two spaces then follow each other.
        words = numbers.split(" ")
        products = [f"{float(word) * scale:{number_format}}" if word else "" for word in words]
        return f"{name}=" + " ".join(products)

    scaled_names = "leaf_value|leaf_const|leaf_coeff|internal_value|shrinkage"
    return with_sizes(re.sub(rf"^({scaled_names})=(.*)$", scaled_line, text, flags=re.M))


def text_for_float32(text: str) -> str:
    """Move thresholds that LightGBM found in doubles to where float32 values go as the doubles that
    they stand for.

    Between 0.71 and 0.73 LightGBM splits just above 0.72. The float32 nearest to 0.72 is larger
    still, and so is the threshold that this returns. Thresholds found in float32 data, whose means
    have few digits, stay as they are.

    Args:
        text: a model as LightGBM writes it.

    >>> text = "tree_sizes=\\n\\nTree=0\\nthreshold=0.72000000000000008 0.5000000000000001\\n"
    >>> text_for_float32(text + "end of trees\\n").splitlines()[3]
    'threshold=0.72000002861022949 0.50000000000000011'
    """

    def moved_line(line: re.Match[str]) -> str:
        thresholds = numbers_in(line[1], np.float64)
        below = greatest_float32(thresholds)
        with np.errstate(over="ignore"):
            above = np.nextafter(below, np.float32(np.inf))
        # The number just below a threshold found in float32 data has few digits.
        last_bits = np.nextafter(thresholds, -np.inf).view(np.int64) % 2**12
        is_nearer_above = above - thresholds < thresholds - below
        moves_up = (last_bits != 0) & is_nearer_above & (abs(thresholds) < _FIRST_INEXACT)
        return "threshold=" + text_of(np.where(moves_up, above, thresholds))

    return with_sizes(re.sub(r"^threshold=(.+)$", moved_line, text, flags=re.M))


def joined_text(texts: Sequence[str]) -> str:
    """Join models of the same features to one that adds up all their trees.

    Args:
        texts: models as LightGBM writes them.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> joined_text([text, text]).splitlines()[1], joined_text([text, text]).count("leaf_value")
    ('tree_sizes=27 27', 2)
    """
    head = ""
    blocks: list[str] = []
    for text in texts:
        head_and_trees, _, _ = text.partition(_END_OF_TREES)
        head_of_text, *blocks_of_text = _TREE_LINE.split(head_and_trees + "\n")
        head = head or head_of_text
        blocks += blocks_of_text
    trees = [f"Tree={number}\n{block}" for number, block in enumerate(blocks)]
    _, _, tail = texts[0].partition(_END_OF_TREES)
    return with_sizes(head + "".join(trees) + "end of trees\n" + tail)


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
    first_lines = re.finditer(r"^(Tree=\d+|end of trees)$", text, flags=re.M)
    starts = [line.start() for line in first_lines]
    return " ".join(map(str, np.diff(starts)))


def lightgbm_trees(text: str) -> list[Tree]:
    """Read the trees of a LightGBM model text; the sum of their leaves is the raw score, of random
    forests too.

    Args:
        text: a model as LightGBM writes it.

    >>> text = "tree\\n\\nTree=0\\nnum_cat=0\\nsplit_feature=2\\nthreshold=0.5\\ndecision_type=2\\n"
    >>> text += "left_child=-1\\nright_child=-2\\nleaf_value=-1 1\\nis_linear=0\\n\\n\\n"
    >>> text += "end of trees\\n"
    >>> lightgbm_trees(text)[0].leaf
    array([-1.,  1.])
    """
    trees_text = text.partition("\nend of trees")[0]
    return [_tree(block) for block in trees_text.split("\nTree=")[1:]]


def _tree(block: str) -> Tree:
    """Read the lines of one tree."""
    values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    threshold = numbers_in(values["threshold"], np.float64)
    decision = numbers_in(values["decision_type"], np.int64)
    missing = decision & _MISSING
    is_by_category = decision & _BY_CATEGORY != 0

    # Where no value was missing in training, LightGBM reads a missing one as 0.
    missing_as_zero = threshold >= 0.0
    missing_by_default = decision & _DEFAULT_LEFT != 0
    missing_left = np.where(missing == 0, missing_as_zero, missing_by_default)
    missing_left[is_by_category] = False
    return Tree.of(
        numbers_in(values["split_feature"], np.int64),
        threshold,
        missing_left,
        numbers_in(values["left_child"], np.int64),
        numbers_in(values["right_child"], np.int64),
        numbers_in(values["leaf_value"], np.float64),
        zero_is_missing=(missing == _ZERO_IS_MISSING) & ~is_by_category,
        categories=_categories(values, threshold, np.flatnonzero(is_by_category)),
        linear=values.get("is_linear", "0") != "0",
    )


def text_of(numbers: Array) -> str:
    """Return numbers as text from which the same bits are read, with spaces between them.

    Args:
        numbers: doubles.
    """
    return " ".join(f"{number:.17g}" for number in numbers)


def numbers_in(text: str, kind: type[np.generic]) -> Array:
    """Return the numbers of a text with spaces between them.

    Args:
        text: perhaps empty.
        kind: their type.
    """
    return np.fromstring(text, kind, sep=" ") if text else np.zeros(0, kind)


def _categories(values: Mapping[str, str], threshold: F64, splits: I64) -> dict[int, I64]:
    """Return the categories that go left, by split: the threshold of such a split is the number of
    its set of bits.
    """
    if not splits.size:
        return {}
    boundaries = numbers_in(values["cat_boundaries"], np.int64)
    words = numbers_in(values["cat_threshold"], np.int64)
    sets = []
    for first, end in pairwise(boundaries):
        bits = words[first:end, np.newaxis] >> np.arange(32) & 1
        sets.append(np.flatnonzero(bits))
    return {int(split): sets[int(threshold[split])] for split in splits}
