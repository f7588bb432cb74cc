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

# A room may import from the rooms named for it, from itself, and from the foundation modules.
FOUNDATION = {"arguments", "errors", "atomic", "report_table"}
ROOMS = {
    "data": set(),
    "metrics": {"data"},
    "losses": {"data", "metrics"},
    "simulate": {"data", "metrics"},
    "theory": {"data", "metrics", "losses"},
    "engines": {"data", "metrics", "losses"},
    "ranker": {"data", "metrics", "losses", "engines"},
    "export": {"data", "metrics", "losses", "engines", "ranker"},
    "studies": {"data", "metrics", "losses", "engines", "ranker", "simulate", "theory"},
    "report": {"data", "metrics", "losses", "engines", "ranker", "studies", "theory"},
}
# What a user starts, above all rooms.
TOP = {
    "__init__",
    "cli",
    "command_options",
    "command_output",
    "comparing",
    "demo",
    "study_commands",
    "tuning",
}


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
    assert room in ROOMS or room in FOUNDATION, f"{room} is a new room: say here what it may import"
    allowed = FOUNDATION | ROOMS.get(room, set()) | {room}
    assert imported_rooms(file) <= allowed


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
