"""RankLib's text of a LambdaMART model, which the learning to rank plugins of Elasticsearch and OpenSearch read too.

RankLib reads thresholds and leaves as float32, sends a document left if its value is at most the threshold, reads a
missing value as 0, and adds the leaves in float32. Features have numbers, from 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tautrank.engines.trees import Tree
from tautrank.export.base import Export
from tautrank.export.numbers import float32_leaves, float32_text, greatest_float32


def ranklib_model(export: Export) -> str:
    """Return the model file of RankLib's LambdaMART.

    Args:
        export: the model to write.
    """
    export.warn_of_missing("and RankLib takes them for 0")
    return ranklib_text(export.trees)


def ranklib_text(trees: Sequence[Tree]) -> str:
    """Return trees in RankLib's text.

    Args:
        trees: the trees of a model.
    """
    # RankLib finds the kind of model in the first line, and reads no other comment.
    header = [
        "## LambdaMART",
        f"## No. of trees = {len(trees)}",
        f"## No. of leaves = {max(tree.leaf.size for tree in trees)}",
        "## Learning rate = 1.0",
    ]
    texts = [
        f'\t<tree id="{number}" weight="1.0">\n\t\t<split>\n{_content(tree)}\t\t</split>\n\t</tree>\n'
        for number, tree in enumerate(trees, 1)
    ]
    return "\n".join(header) + "\n\n<ensemble>\n" + "".join(texts) + "</ensemble>\n"


def _content(tree: Tree) -> str:
    thresholds, leaves = greatest_float32(tree.threshold), float32_leaves(tree.leaf)

    # One element per line: RankLib joins the lines, and reads white space between elements as a child.
    def split(node: int, depth: int) -> tuple[str, str, str]:
        indent = "\t" * (depth + 3)
        question = (
            f"{indent}<feature> {tree.feature[node] + 1} </feature>\n"
            f"{indent}<threshold> {float32_text(thresholds[node])} </threshold>\n"
        )
        left, right, end = f'{indent}<split pos="left">\n', f'{indent}<split pos="right">\n', f"{indent}</split>\n"
        return question + left, end + right, end

    def output(leaf: int, depth: int) -> str:
        return "\t" * (depth + 3) + f"<output> {float32_text(leaves[leaf])} </output>\n"

    return tree.nested_text(split, output)
