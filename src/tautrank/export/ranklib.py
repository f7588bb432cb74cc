"""RankLib's LambdaMART.

RankLib reads thresholds and leaves as float32, sends a document left if its value is at most the
threshold, reads a missing value as 0, and adds the leaves in float32. Features have numbers, from
1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tautrank.engines.trees import Tree, greatest_float32
from tautrank.export.formats import Export, float32_leaves, float32_text


def ranklib_model(export: Export) -> str:
    """Return the model file of RankLib's LambdaMART."""
    export.warn_of_missing("and RankLib takes them for 0")
    return ranklib_text(export.trees)


def ranklib_text(trees: Sequence[Tree]) -> str:
    """Return trees in RankLib's text."""
    n_leaves = max(tree.leaf.size for tree in trees)
    # RankLib finds the kind of model in the first line, and reads no other comment.
    header = (
        f"## LambdaMART\n## No. of trees = {len(trees)}\n"
        f"## No. of leaves = {n_leaves}\n## Learning rate = 1.0\n\n"
    )
    elements = [
        f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n{_splits(tree)}\t\t</split>\n\t</tree>\n'
        for number, tree in enumerate(trees, 1)
    ]
    return f"{header}<ensemble>\n{''.join(elements)}</ensemble>\n"


def _splits(tree: Tree) -> str:
    """Return the elements of a tree, each on a line of its own.

    RankLib joins the lines, and reads white space between elements as a child.
    """
    thresholds, leaves = greatest_float32(tree.threshold), float32_leaves(tree.leaf)

    def texts_of_split(node: int, depth: int) -> tuple[str, str, str]:
        indent = "\t" * (depth + 3)
        feature = f"{indent}<feature> {tree.feature[node] + 1} </feature>\n"
        threshold = f"{indent}<threshold> {float32_text(thresholds[node])} </threshold>\n"
        left, right = f'{indent}<split pos="left">\n', f'{indent}<split pos="right">\n'
        end = f"{indent}</split>\n"
        return feature + threshold + left, end + right, end

    def text_of_leaf(leaf: int, depth: int) -> str:
        indent = "\t" * (depth + 3)
        return f"{indent}<output> {float32_text(leaves[leaf])} </output>\n"

    return tree.nested_text(texts_of_split, text_of_leaf)
