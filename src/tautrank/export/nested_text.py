"""A tree as nested text, the form that most systems read."""

from __future__ import annotations

from collections.abc import Callable

from tautrank.engines.trees import Tree


def nested_text(tree: Tree, split: Callable[[int, int], tuple[str, str, str]], leaf: Callable[[int, int], str]) -> str:
    """Write a tree as text in which every split encloses its children.

    Without recursion: LightGBM's trees may be deeper than Python's stack.

    Args:
        tree: the tree to write.
        split: from a split and its depth to the texts before the left child, between the children, and after the right
            one.
        leaf: from the number of a leaf and its depth to its text.

    >>> tree = Tree.of([0], [0.5], [True], [~0], [~1], [-1.0, 1.0])
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
        before, between, after = split(node, depth)
        written.append(before)
        waiting += [after, (int(tree.right[node]), depth + 1), between, (int(tree.left[node]), depth + 1)]
    return "".join(written)
