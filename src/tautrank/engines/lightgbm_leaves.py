"""The numbers at the leaves of a LightGBM model text: read, and exchanged for others.

LightGBM writes leaves with all their digits, and its own reader gives the same bits back.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

_LEAVES = re.compile(r"^(leaf_value|leaf_const|leaf_coeff)=(.*)$", re.MULTILINE)
# What is told beside the leaves, in the same unit, and plays no part in a score.
_REMARKS = re.compile(r"^(internal_value|shrinkage)=(.*)$", re.MULTILINE)
_TREE = re.compile(r"^(Tree=\d+|end of trees)$", re.MULTILINE)
_SIZES = re.compile(r"^tree_sizes=.*$", re.MULTILINE)
_WORD = re.compile(r"\S+")


def leaf_numbers(text: str) -> F64:
    """What the trees add to a score: the values of all leaves, and the coefficients where leaves are linear.

    Args:
        text: as LightGBM writes it.

    >>> leaf_numbers("tree\\ntree_sizes=25\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n")
    array([ 0.5, -1. ])
    """
    return np.array([float(word) for line in _LEAVES.finditer(text) for word in line[2].split()], np.float64)


def with_leaf_numbers(text: str, numbers: F64, scale: float) -> str:
    """The same model with other numbers at its leaves.

    Args:
        text: as LightGBM writes it.
        numbers: in the order of `leaf_numbers`.
        scale: how much larger they are than those before, for what LightGBM tells of inner nodes.

    >>> text = "tree\\ntree_sizes=27\\n\\nTree=0\\nleaf_value=0.5 -1\\n\\n\\nend of trees\\n"
    >>> with_leaf_numbers(text, np.array([0.25, -0.5]), 0.5).splitlines()[4]
    'leaf_value=0.25 -0.5'
    """
    rest = iter(numbers.tolist())

    def exchanged(line: re.Match[str]) -> str:
        return f"{line[1]}={_WORD.sub(lambda _: f'{next(rest):.17g}', line[2])}"

    def scaled(line: re.Match[str]) -> str:
        return f"{line[1]}={_WORD.sub(lambda word: f'{float(word[0]) * scale:g}', line[2])}"

    text = _REMARKS.sub(scaled, _LEAVES.sub(exchanged, text))
    # LightGBM finds its trees by their lengths.
    starts = [tree.start() for tree in _TREE.finditer(text)]
    lengths = " ".join(str(length) for length in np.diff(starts))
    return _SIZES.sub(f"tree_sizes={lengths}", text, count=1)
