"""How the house is built: rooms import to their left only, importing is light, every public name is documented."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tautrank
import tautrank.theory

SOURCE = Path(tautrank.__file__).parent

# A room of the arrow imports from rooms to its left, from itself, and from the foundation below all rooms.
FOUNDATION = {"arguments", "arrays", "errors", "files", "json_values", "names"}
ARROW = [
    "data",
    "metrics",
    "significance",
    "losses",
    "engines",
    "ranker",
    "experiments",
    "papers",
    "report",
    "commands",
]
# Rooms beside the arrow: what they may import.
BESIDE = {
    "kernels": set(),
    "simulate": {"kernels", "data", "metrics"},
    "theory": {"kernels", "data", "metrics", "losses"},
    "checks": {"kernels", "data", "metrics", "losses", "theory", "simulate"},
    "export": {"kernels", "data", "metrics", "losses", "engines", "ranker"},
}
# Who may use a room beside the arrow: this room of the arrow and all to its right.
FIRST_USER = {
    "kernels": "losses",
    "simulate": "experiments",
    "theory": "experiments",
    "checks": "report",
    "export": "commands",
}
# The public interface stands above all rooms.
TOP = {"__init__", "__main__"}
# Imports that do not follow the arrow yet: (room, what it imports).
NOT_YET = {
    ("experiments", "papers"),
    ("experiments", "report"),
}


def allowed_rooms(room: str) -> set[str]:
    if room in BESIDE:
        return BESIDE[room]
    place = ARROW.index(room)
    return {*ARROW[:place], *(beside for beside, user in FIRST_USER.items() if ARROW.index(user) <= place)}


def imported_rooms(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tautrank":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("tautrank.")}
    return found


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_follow_the_arrows(file):
    room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in TOP:
        return
    imported = imported_rooms(file) - FOUNDATION - {room, "__version__"}
    if room in FOUNDATION:
        assert not imported
        return
    assert room in {*ARROW, *BESIDE}, f"{room} is a new room: say here what it may import"
    assert imported <= allowed_rooms(room) | {right for left, right in NOT_YET if left == room}


def test_import_is_light():
    """No JIT, no SciPy, no optional dependency: counted in modules, since wall-clock time is no test."""
    code = "import sys, json, tautrank, tautrank.theory; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout))
    heavy = {
        "numba",
        "llvmlite",
        "scipy",
        "sklearn",
        "lightgbm",
        "pandas",
        "polars",
        "pyarrow",
        "rich",
        "typer",
        "torch",
        "optuna",
    }
    assert not heavy & {name.split(".")[0] for name in loaded}


def public_objects():
    modules = [tautrank, tautrank.metrics, tautrank.simulate, tautrank.theory]
    for module in modules:
        for name in module.__all__:
            yield pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")


@pytest.mark.parametrize("thing", list(public_objects()))
def test_public_names_are_documented(thing):
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return
    assert inspect.getdoc(thing), f"{thing} has no docstring"


def test_metrics_name_formula_and_run_an_example():
    for metric in tautrank.metrics.METRICS.values():
        text = inspect.getdoc(metric)
        assert ">>>" in text, metric
        assert "=" in text, metric


def test_no_vague_module_names():
    vague = {"utils", "util", "helpers", "common", "manager", "misc"}
    assert not vague & {file.stem for file in FILES}
