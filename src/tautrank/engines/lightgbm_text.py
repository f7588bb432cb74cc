"""LightGBM's model text: its trees read, scaled and joined."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tautrank.arrays import F64, I64, Array, Bools
from tautrank.engines.trees import Tree, greatest_float32

_END_OF_TREES = "\nend of trees\n"
_TREE_LINE = re.compile(r"^Tree=\d+\n", re.M)
# From this number on float32 skips whole numbers; thresholds above it are not moved.
_LARGEST_MOVED_THRESHOLD = 2**24
# The mean of two float32 numbers, which have 24 binary digits, rarely needs the last 12 of the 53
# that a double has.
_FREE_BITS_OF_FLOAT32_MEAN = 12

# LightGBM's decision_type of a split: a bit for categories, one for where missing values go, two
# for what is missing.
_CATEGORY_BIT = 1
_DEFAULT_LEFT_BIT = 2
_MISSING_BITS = 12
_ZERO_IS_MISSING = 4

# The lines of a tree whose numbers are scores: those of leaves, and of inner nodes; and the factor
# that LightGBM has scaled them by.
_LINES_OF_SCORES = "leaf_value|leaf_const|leaf_coeff|internal_value|shrinkage"


def scaled_text(text: str, scale: float) -> str:
    """Return the text of a LightGBM model whose scores are those of another one times a factor.

    Leaves are written with 17 digits, from which LightGBM reads the same doubles back.

    Args:
        text: a model as LightGBM writes it.
        scale: the factor.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> scaled_text(text, 0.5).splitlines()[4]
    'leaf_value=0.25 -0.5'
    """
    if scale == 1:
        return text

    def scale_line(line: re.Match[str]) -> str:
        """Return a line ``name=numbers`` with each number times `scale`."""
        name, numbers = line.groups()
        # 17 digits for the numbers that scores are made of; LightGBM writes others shorter.
        number_format = ".17g" if name.startswith("leaf") else "g"
        products = []
        for number in numbers.split(" "):
            # In linear trees a leaf may have no coefficients: two spaces then follow each other.
            if number == "":
                products.append("")
            else:
                products.append(f"{float(number) * scale:{number_format}}")
        return f"{name}=" + " ".join(products)

    scaled = re.sub(rf"^({_LINES_OF_SCORES})=(.*)$", scale_line, text, flags=re.M)
    # A line at the top says how long the text of each tree is: it is counted anew.
    return with_sizes(scaled)


def text_for_float32(text: str) -> str:
    """Return the text of a LightGBM model with thresholds for float32 features, of a model that was
    trained on doubles.

    A feature value is rounded to float32 before it meets a threshold, and may be rounded to the
    other side of it. Between 0.71 and 0.73, for example, LightGBM sets the threshold just above
    0.72, so that 0.72 goes left; but the float32 nearest to 0.72 is larger, and would go right. A
    threshold is therefore moved to the next float32 above it where that is nearer than the next one
    below. Thresholds found in float32 data stay as they are.

    Args:
        text: a model as LightGBM writes it.

    >>> text = "tree_sizes=\\n\\nTree=0\\nthreshold=0.72000000000000008 0.5000000000000001\\n"
    >>> text_for_float32(text + "end of trees\\n").splitlines()[3]
    'threshold=0.72000002861022949 0.50000000000000011'
    """

    def move_thresholds(line: re.Match[str]) -> str:
        """Return a line ``threshold=numbers`` with thresholds moved to a float32 above them where
        that is nearer than the one below.
        """
        thresholds = numbers_in(line[1], np.float64)
        below = greatest_float32(thresholds)
        with np.errstate(over="ignore"):  # above the largest float32 is infinity
            above = np.nextafter(below, np.float32(np.inf))
        is_nearer_above = above - thresholds < thresholds - below

        # A threshold between two float32 values, their mean, was found in float32 data: it stays.
        is_small = abs(thresholds) < _LARGEST_MOVED_THRESHOLD
        moves_up = is_nearer_above & is_small & ~_is_mean_of_float32(thresholds)
        return "threshold=" + text_of(np.where(moves_up, above, thresholds))

    moved = re.sub(r"^threshold=(.+)$", move_thresholds, text, flags=re.M)
    return with_sizes(moved)


def _is_mean_of_float32(thresholds: F64) -> Bools:
    """Return which thresholds LightGBM has found in float32 data.

    LightGBM takes the mean of two neighbouring values and then the next double above it. The mean
    of two float32 numbers is recognised by its last binary digits, which are 0.
    """
    means = np.nextafter(thresholds, -np.inf)
    last_bits = means.view(np.int64) % 2**_FREE_BITS_OF_FLOAT32_MEAN
    return np.asarray(last_bits == 0)


def joined_text(texts: Sequence[str]) -> str:
    """Return the text of a LightGBM model with the trees of several models of the same features,
    whose scores it adds up.

    The first model gives the lines before and after the trees.

    Args:
        texts: models as LightGBM writes them.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> joined_text([text, text]).splitlines()[1], joined_text([text, text]).count("leaf_value")
    ('tree_sizes=27 27', 2)
    """
    heads = []
    trees: list[str] = []
    for text in texts:
        head_and_trees = text.split(_END_OF_TREES)[0] + "\n"
        head, *trees_of_text = _TREE_LINE.split(head_and_trees)
        heads.append(head)
        trees += trees_of_text
    # Trees are numbered through, from the first model's first to the last model's last.
    numbered_trees = [f"Tree={number}\n{tree}" for number, tree in enumerate(trees)]
    tail = texts[0].partition(_END_OF_TREES)[2]
    return with_sizes(heads[0] + "".join(numbered_trees) + "end of trees\n" + tail)


def with_sizes(text: str) -> str:
    """Return the text of a LightGBM model with the right lengths of its trees in the line
    ``tree_sizes``, by which LightGBM finds the trees.

    Args:
        text: a model as LightGBM writes it, but for the lengths.
    """
    line = f"tree_sizes={tree_sizes(text)}"
    return re.sub(r"^tree_sizes=.*$", line, text, count=1, flags=re.M)


def tree_sizes(text: str) -> str:
    """Return the lengths in characters of the trees of a LightGBM model text, with spaces between
    them.

    Args:
        text: a model as LightGBM writes it.
    """
    # A tree ends where the next one begins, the last one where the trees end.
    boundary_lines = re.finditer(r"^(Tree=\d+|end of trees)$", text, flags=re.M)
    boundaries = [line.start() for line in boundary_lines]
    return " ".join(map(str, np.diff(boundaries)))


def lightgbm_trees(text: str) -> list[Tree]:
    """Return the trees of a LightGBM model text as arrays; the sum of their leaves is the raw score
    of the model, of a random forest too.

    Args:
        text: a model as LightGBM writes it.

    >>> text = "tree\\n\\nTree=0\\nnum_cat=0\\nsplit_feature=2\\nthreshold=0.5\\ndecision_type=2\\n"
    >>> text += "left_child=-1\\nright_child=-2\\nleaf_value=-1 1\\nis_linear=0\\n\\n\\n"
    >>> text += "end of trees\\n"
    >>> lightgbm_trees(text)[0].leaf
    array([-1.,  1.])
    """
    head_and_trees = text.partition("\nend of trees")[0]
    texts_of_trees = head_and_trees.split("\nTree=")[1:]
    return [_parse_tree(text_of_tree) for text_of_tree in texts_of_trees]


def _parse_tree(text: str) -> Tree:
    """Return one tree of a LightGBM model text, from its lines ``name=numbers``.

    LightGBM's ``decision_type`` packs into the bits of a number whether a split is by category, and
    where missing values go.
    """
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    threshold = numbers_in(fields["threshold"], np.float64)
    decision_type = numbers_in(fields["decision_type"], np.int64)
    is_by_category = decision_type & _CATEGORY_BIT != 0
    kind_of_missing = decision_type & _MISSING_BITS

    # Where no value was missing in training, LightGBM reads a missing one as 0.
    zero_goes_left = threshold >= 0.0
    default_is_left = decision_type & _DEFAULT_LEFT_BIT != 0
    missing_left = np.where(kind_of_missing == 0, zero_goes_left, default_is_left)
    missing_left[is_by_category] = False
    return Tree.of(
        numbers_in(fields["split_feature"], np.int64),
        threshold,
        missing_left,
        numbers_in(fields["left_child"], np.int64),
        numbers_in(fields["right_child"], np.int64),
        numbers_in(fields["leaf_value"], np.float64),
        zero_is_missing=(kind_of_missing == _ZERO_IS_MISSING) & ~is_by_category,
        categories=_parse_categories(fields, threshold, np.flatnonzero(is_by_category)),
        linear=fields.get("is_linear", "0") != "0",
    )


def text_of(numbers: Array) -> str:
    """Return doubles as text from which the same bits are read, with spaces between them.

    Args:
        numbers: doubles.
    """
    return " ".join(f"{number:.17g}" for number in numbers)


def numbers_in(text: str, kind: type[np.generic]) -> Array:
    """Return the numbers of a text that has spaces between them, as an array.

    Args:
        text: perhaps empty.
        kind: type of the numbers.
    """
    if text == "":
        return np.zeros(0, kind)
    return np.fromstring(text, kind, sep=" ")


def _parse_categories(fields: Mapping[str, str], threshold: F64, splits: I64) -> dict[int, I64]:
    """Return the codes of the categories that go left, by the number of the split.

    LightGBM keeps sets of codes as bits of 32-bit words, one set after the other: ``cat_threshold``
    has the words, and ``cat_boundaries`` the first word of each set and the end of the last. The
    threshold of a split by category is the number of its set.

    Args:
        fields: the lines of a tree.
        threshold: the threshold of each split.
        splits: the splits by category.
    """
    if splits.size == 0:
        return {}
    boundaries = numbers_in(fields["cat_boundaries"], np.int64)
    words = numbers_in(fields["cat_threshold"], np.int64)
    sets_of_codes = []
    for first_word, end_word in pairwise(boundaries):
        words_of_set = words[first_word:end_word]
        # One row of 32 bits per word, the lowest bit first.
        bits = words_of_set[:, np.newaxis] >> np.arange(32) & 1
        # The places of the bits, over all words, are the codes.
        sets_of_codes.append(np.flatnonzero(bits))
    codes_by_split = {}
    for split in splits:
        set_number = int(threshold[split])
        codes_by_split[int(split)] = sets_of_codes[set_number]
    return codes_by_split
