"""Which module of the library imports which, wherever in the file, and where imports go in circles.

Imports inside functions count, and so do modules that are named in a string for
`importlib.import_module`. A name that is taken from a room counts as an import of the module that
defines it. What only a type checker reads does not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Graph = dict[str, set[str]]


class Modules:
    """The modules of a package, by their full names.

    Args:
        root: the folder of the package.
        string_readers: for modules that only hold the names of modules in strings, the module
            that imports these.
    """

    def __init__(self, root: Path, string_readers: dict[str, str] | None = None) -> None:
        self.root = root
        self._string_readers = string_readers or {}
        self._trees: dict[str, ast.Module] = {}
        self._packages: dict[str, dict[str, str]] = {}
        for file in sorted(root.rglob("*.py")):
            parts = [root.name, *file.relative_to(root).with_suffix("").parts]
            tree = ast.parse(file.read_text(encoding="utf-8"))
            if parts[-1] == "__init__":
                self._packages[".".join(parts[:-1])] = _exported_names(tree)
            else:
                self._trees[".".join(parts)] = tree

    def imports(self) -> Graph:
        """Return the modules that each module imports.

        The `__init__` of a package is not among them: it gathers names, and Python runs it before
        all that is inside the package.
        """
        graph: Graph = {module: set() for module in self._trees}
        for module, tree in self._trees.items():
            graph[module] |= set(self._imports_of(tree))
            reader = self._string_readers.get(module, module)
            graph[reader] |= set(self._imports_by_string(tree))
        return {module: imported - {module} for module, imported in graph.items()}

    def _imports_of(self, tree: ast.Module) -> Iterator[str]:
        for node in nodes_at_run_time(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, "a relative import hides the room it is from"
                for alias in node.names:
                    yield from self._defining_module(str(node.module), alias.name)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self._trees)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from self._defining_module(node.value.id, node.attr)

    def _imports_by_string(self, tree: ast.Module) -> Iterator[str]:
        for node in nodes_at_run_time(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                module = node.value.partition(":")[0]
                if module in self._trees:
                    yield module
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                # f"tautrank.commands.{name}" may be any module of the room.
                prefix = re.match(r"f'([\w.]+\.)\{", ast.unparse(node.args[0]))
                if prefix:
                    yield from (name for name in self._trees if name.startswith(prefix[1]))

    def _defining_module(self, module: str, name: str) -> Iterator[str]:
        """Yield the module that a name comes from, if it is one of this package."""
        if module in self._trees:
            yield module
        elif f"{module}.{name}" in self._trees:
            yield f"{module}.{name}"
        elif f"{module}.{name}" not in self._packages and name in self._packages.get(module, ()):
            yield from self._defining_module(self._packages[module][name], name)


def _exported_names(tree: ast.Module) -> dict[str, str]:
    """Return where the names come from that the `__init__` of a package gathers.

    Those under `if TYPE_CHECKING` are included: there, a lazy `__init__` says where they are.
    """
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        alias.asname or alias.name: str(node.module) for node in imports for alias in node.names
    }


def nodes_at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without the blocks that only a type checker reads."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield from nodes_at_run_time(child)


def cycles(graph: Graph) -> list[set[str]]:
    """Return the groups of modules that reach each other by imports (Kosaraju's two passes)."""
    order = [module for modules in _searched(graph, list(graph)) for module in modules]
    importers: Graph = {module: set() for module in graph}
    for module, imported in graph.items():
        for name in imported:
            importers[name].add(module)
    return [set(group) for group in _searched(importers, order[::-1]) if len(group) > 1]


def _searched(graph: Graph, roots: Iterable[str]) -> Iterator[list[str]]:
    """Yield the modules that each root reaches first, in the order in which a depth-first search
    leaves them.
    """
    visited: set[str] = set()
    for root in roots:
        if root in visited:
            continue
        visited.add(root)
        finished: list[str] = []
        path = [(root, iter(sorted(graph[root])))]
        while path:
            module, imported = path[-1]
            name = next((name for name in imported if name not in visited), None)
            if name is None:
                finished.append(module)
                path.pop()
            else:
                visited.add(name)
                path.append((name, iter(sorted(graph[name]))))
        yield finished
