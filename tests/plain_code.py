"""How much a reader has to follow at once: what `test_plain_code` measures in each room.

Line breaks and formatting change none of these numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DENSE = 12
"""Nodes of a thought; in Optuna, attrs, httpx, skrub and scikit-learn 2 to 4 % of the statements
have one above."""

LONG = 250
"""Nodes of a function: about 30 statements."""

WIDE = 7
"""Parameters of a function."""

BANNED = frozenset(
    """
    chosen done each found given how known more most own others part_of read rest said same seen
    shown so some such taken that these they things those used wanted what where which whole whose
    other another
    """.split()  # noqa: SIM905
)
"""Names that say what happened to a thing, or point at it, but not what it is."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef

# Constants and marks of loading and storing say nothing about how hard code is to read.
_ASIDE = (ast.expr_context, ast.Constant)


class Measures(NamedTuple):
    """What is measured in the files of a room.

    dense: per cent of the statements that have a thought of more than `DENSE` nodes.
    largest: nodes of the largest thought.
    long: number of functions of more than `LONG` nodes.
    wide: number of functions with more than `WIDE` parameters.
    banned: number of local names that are `BANNED`, each counted once per function.
    """

    dense: float
    largest: int
    long: int
    wide: int
    banned: int


class Room(NamedTuple):
    """The sizes of the statements of some files, each with its place; and the functions, each with
    the name of its file.
    """

    thoughts: list[tuple[str, int]]
    functions: list[tuple[str, Function]]

    @classmethod
    def of(cls, files: list[Path]) -> Room:
        """Read files."""
        room = cls([], [])
        for file in files:
            room.add(file.name, file.read_text(encoding="utf-8"))
        return room

    def add(self, name: str, text: str) -> None:
        """Add the statements and functions of a file."""
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom):
                sizes = [count_nodes(thought) for thought in thoughts(node)]
                self.thoughts.append((f"{name}:{node.lineno}", max(sizes, default=0)))
            if isinstance(node, FUNCTIONS):
                self.functions.append((name, node))

    def measures(self, may_be_wide: frozenset[str] = frozenset()) -> Measures:
        """Return the numbers of the room; `may_be_wide` names functions of many parameters."""
        sizes = [size for _, size in self.thoughts]
        n_dense = sum(size > DENSE for size in sizes)
        return Measures(
            dense=round(100 * n_dense / max(len(sizes), 1), 1),
            largest=max(sizes, default=0),
            long=len(self.long()),
            wide=len(self.wide(may_be_wide)),
            banned=sum(len(BANNED & local_names(function)) for _, function in self.functions),
        )

    def long(self) -> list[str]:
        """Return the functions that are too long."""
        return [
            f"{file} {function.name}"
            for file, function in self.functions
            if count_nodes(function) > LONG
        ]

    def wide(self, may_be_wide: frozenset[str] = frozenset()) -> list[str]:
        """Return the functions with too many parameters."""
        names = [
            f"{file} {function.name}"
            for file, function in self.functions
            if len(parameters(function)) > WIDE
        ]
        return [name for name in names if name not in may_be_wide]

    def worst(self) -> str:
        """Return the places to look at first."""
        largest = sorted(self.thoughts, key=lambda thought: -thought[1])[:5]
        banned = [
            f"{file}:{function.lineno} {', '.join(sorted(names))}"
            for file, function in self.functions
            if (names := BANNED & local_names(function))
        ]
        return (
            f"largest thoughts: {largest}\nlong: {self.long()}\nwide: {self.wide()}\n"
            f"banned: {banned[:20]}"
        )


def count_nodes(tree: ast.AST) -> int:
    """Count the nodes that a reader has to follow."""
    return sum(not isinstance(node, _ASIDE) for node in ast.walk(tree))


def thoughts(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are read one after the other.

    The items of a display and the arguments of a call stand on lines of their own where they are
    long, so that each is a thought; all else is followed as a whole. A signature is no thought: its
    parameters are counted apart.
    """
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case | ast.arguments):
            yield from _expressions(child)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call):
        items = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = node.elts
    elif isinstance(node, ast.Dict):
        items = [*(key for key in node.keys if key is not None), *node.values]
    else:
        yield node
        return
    for item in items:
        yield from _expressions(item)


def parameters(function: Function) -> list[str]:
    """Return the names of the parameters but self and cls."""
    arguments = function.args
    names = [
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    return [name for name in names if name not in ("self", "cls")]


def local_names(function: ast.AST) -> set[str]:
    """Return the names that a function assigns."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def is_compiled(file: Path) -> bool:
    """Return whether a file holds kernels."""
    return file.name.endswith("_kernel.py") or not {"kernels", "device"}.isdisjoint(file.parts)
