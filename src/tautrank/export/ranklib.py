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
    """Return a sum of decision trees as the text of a LambdaMART model of RankLib: comments that
    name the kind of model, then XML.
    """
    n_leaves = max(tree.leaf.size for tree in trees)
    # RankLib finds the kind of model in the first line, and reads no other comment.
    header = (
        f"## LambdaMART\n## No. of trees = {len(trees)}\n"
        f"## No. of leaves = {n_leaves}\n## Learning rate = 1.0\n\n"
    )
    elements = []
    for number, tree in enumerate(trees, 1):
        begin = f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n'
        end = "\t\t</split>\n\t</tree>\n"
        elements.append(begin + _tree_xml(tree) + end)
    return f"{header}<ensemble>\n{''.join(elements)}</ensemble>\n"


def _tree_xml(tree: Tree) -> str:
    """Return a decision tree as nested XML elements of RankLib, each on a line of its own.

    RankLib joins the lines, and reads white space between elements as a child.
    """
    thresholds = greatest_float32(tree.threshold)
    leaf_values = float32_leaves(tree.leaf)

    def indentation(depth: int) -> str:
        # The root stands in <ensemble>, <tree> and <split>.
        return "\t" * (depth + 3)

    # What stands before the left child of a split, between its children, and after the right one.
    def texts_of_split(split: int, depth: int) -> tuple[str, str, str]:
        indent = indentation(depth)
        number = tree.feature[split] + 1  # RankLib counts features from 1
        feature = f"{indent}<feature> {number} </feature>\n"
        threshold = f"{indent}<threshold> {float32_text(thresholds[split])} </threshold>\n"
        begin_left = f'{indent}<split pos="left">\n'
        begin_right = f'{indent}<split pos="right">\n'
        end = f"{indent}</split>\n"
        return feature + threshold + begin_left, end + begin_right, end

    def text_of_leaf(leaf: int, depth: int) -> str:
        return f"{indentation(depth)}<output> {float32_text(leaf_values[leaf])} </output>\n"

    return tree.nested_text(texts_of_split, text_of_leaf)
