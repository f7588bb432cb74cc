"""How the house is built: rooms import to their left only, importing is light, every public name is
documented.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tautrank
from tests.module_graph import Modules, cycles, nodes_at_run_time

SOURCE, TESTS = Path(tautrank.__file__).parent, Path(__file__).parent

# A room of the arrow imports from rooms to its left, from itself, and from the foundation below all
# rooms.
FOUNDATION = {
    "arguments",
    "arrays",
    "errors",
    "files",
    "json_values",
    "names",
    "notebooks",
    "progress",
    "tables",
}
ARROW = [
    "data",
    "metrics",
    "significance",
    "losses",
    "engines",
    "export",
    "ranker",
    "report",
    "experiments",
    "papers",
    "commands",
]
# Rooms beside the arrow: what they may import.
BESIDE = {
    "kernels": set(),
    "simulate": {"kernels", "data", "metrics"},
    "theory": {"kernels", "data", "metrics", "losses"},
    "checks": {"kernels", "data", "metrics", "losses", "theory", "simulate"},
    "compat": {"kernels", "data", "metrics", "losses", "engines", "ranker"},
}
# Who may use a room beside the arrow: this room of the arrow and all to its right.
FIRST_USER = {
    "kernels": "losses",
    "simulate": "experiments",
    "theory": "experiments",
    "checks": "report",
    "compat": "commands",
}
# The public interface stands above all rooms but the command line, which only `python -m tautrank`
# starts.
TOP = {"__init__": {*ARROW, *BESIDE} - {"commands"}, "__main__": {"commands"}}


def allowed_rooms(room: str) -> set[str]:
    if room in {*BESIDE, *TOP}:
        return {**BESIDE, **TOP}[room]
    place = ARROW.index(room)
    return {
        *ARROW[:place],
        *(beside for beside, user in FIRST_USER.items() if ARROW.index(user) <= place),
    }


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


# Modules that name others in strings, and the module that imports what they name.
STRING_READERS = {"tautrank.engines.packages": "tautrank.engines.registry"}
GRAPH = Modules(SOURCE, STRING_READERS).imports()


def imported_modules(file: Path) -> set[str]:
    """The modules of this library that a file imports at run time, anywhere in it."""
    module = ".".join(["tautrank", *file.relative_to(SOURCE).with_suffix("").parts])
    names = set(GRAPH.get(module, ()))
    for node in nodes_at_run_time(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return {name for name in names if name.startswith("tautrank.")}


def imported_rooms(file: Path) -> set[str]:
    return {name.split(".")[1] for name in imported_modules(file)}


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_follow_the_arrows(file):
    room = room_of(file)
    imported = imported_rooms(file) - {room, "__version__"}
    if room in FOUNDATION:
        assert imported <= FOUNDATION
        return
    assert room in {*ARROW, *BESIDE, *TOP}, f"{room} is a new room: say here what it may import"
    assert imported - FOUNDATION <= allowed_rooms(room)


def test_commands_do_not_import_the_program_they_belong_to():
    importers = {file.name for file in FILES if "tautrank.commands.main" in imported_modules(file)}
    assert importers == {"__main__.py"}


def test_no_modules_import_each_other_in_a_circle():
    assert [sorted(circle) for circle in cycles(GRAPH)] == []


PACKAGE = {
    "__init__": "from package.low import LOW",
    "low": "from typing import TYPE_CHECKING\nLOW = 1",
    "high": "from package.low import LOW",
    "reader": "import importlib\ndef find(name): return importlib.import_module(NAMES[name])",
    "names": "NAMES = {}",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"low": "import package.high"}, ["high", "low"]),
        ({"low": "def later():\n    from package.high import HIGH"}, ["high", "low"]),
        ({"low": "from package import high"}, ["high", "low"]),
        ({"low": "if TYPE_CHECKING:\n    import package.high"}, []),
        ({"low": "import package.high", "high": "from package import LOW"}, ["high", "low"]),
        ({"low": "import package.high", "high": "import package\npackage.LOW"}, ["high", "low"]),
        ({"low": 'HIGH = "package.high:Class"'}, ["high", "low"]),
        (
            {"names": 'NAMES = {"high": "package.high"}', "high": "import package.reader"},
            ["high", "reader"],
        ),
        (
            {
                "low": "import package.reader",
                "reader": "from importlib import import_module\nimport_module(f'package.{name}')",
            },
            ["high", "low", "reader"],
        ),
    ],
    ids=[
        "none",
        "import",
        "import in a function",
        "import of the module by name",
        "only for a type checker",
        "name taken through the package",
        "attribute of the package",
        "string",
        "string that another module imports",
        "string with a part that is not known",
    ],
)
def test_circles_of_a_package_are_found(tmp_path, changes, expected):
    folder = tmp_path / "package"
    folder.mkdir()
    for name, code in {**PACKAGE, **changes}.items():
        (folder / f"{name}.py").write_text(code)

    circles = cycles(Modules(folder, {"package.names": "package.reader"}).imports())

    assert [sorted(name.removeprefix("package.") for name in c) for c in circles] == (
        [expected] if expected else []
    )


# Not private: named tuples, a process that ends at once, and what scikit-learn's base class offers
# to its subclasses.
NOT_PRIVATE = {"_replace", "_asdict", "_exit", "_get_param_names"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


def test_private_names_of_other_tools_stay_in_one_module_per_tool():
    """A private name that is used but nowhere defined in this library is another tool's."""
    trees = {file.relative_to(SOURCE).as_posix(): ast.parse(file.read_text()) for file in FILES}
    ours = {*NOT_PRIVATE, *(file.stem for file in FILES)}
    uses = []
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
            elif isinstance(node, ast.Attribute):
                of_self = ast.unparse(node.value) == "self"
                if of_self and isinstance(node.ctx, ast.Store):
                    ours.add(node.attr)
                uses.append((file, node.lineno, node.attr))
            elif isinstance(node, ast.ImportFrom):
                names = [*str(node.module).split("."), *(alias.name for alias in node.names)]
                uses += [(file, node.lineno, name) for name in names]

    others = [
        f"{file}:{line} {name}"
        for file, line, name in uses
        if is_private(name) and name not in ours and not file.endswith("_private.py")
    ]

    assert others == []


# Tests that are about a whole room, or several modules of it, rather than about one module.
OF_A_ROOM = {
    "data": {"bad_input", "document_ids", "large_values"},
    "engines": {"native_objectives"},
    "export": {"export"},
    "losses": {"agreement", "first_run_bits", "spellings", "uncompiled_kernels"},
    "metrics": {"bad_input", "brute_force", "documented", "extremes", "laws", "names", "queries"},
    "ranker": {"serving"},
    "report": {"in_browser"},
    "theory": {"bad_input"},
    # Each command by its name, and what all of them promise.
    "commands": {
        "columns",
        "compare",
        "compare_runs",
        "documented_commands",
        "documented_errors",
        "start_up",
        "train",
        "tune",
    },
}


@pytest.mark.parametrize("room", [*ARROW, *BESIDE])
def test_tests_mirror_the_rooms(room):
    """A test file is called as the module it tests, perhaps with a topic behind the name."""
    files = [*(SOURCE / room).rglob("*.py")]
    modules = {path.stem.lstrip("_") for path in files} | {
        path.parent.name for path in files if path.parent.name != room
    }
    found = {path.stem.removeprefix("test_") for path in (TESTS / room).glob("test_*.py")}
    strange = {
        name
        for name in found
        if not any(name == known or name.startswith(f"{known}_") for known in modules)
    }
    assert found
    assert strange == OF_A_ROOM.get(room, set())


def test_import_is_light():
    """No JIT, no SciPy, no optional dependency: counted in modules, since wall-clock time is no
    test.
    """
    code = "import sys, json, tautrank, tautrank.theory; print(json.dumps(sorted(sys.modules)))"
    loaded = set(
        json.loads(
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        )
    )
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
    """Every function and class that the library and its rooms offer, each once."""
    found = {}
    for module in map(
        importlib.import_module, ["tautrank", *(f"tautrank.{room}" for room in (*ARROW, *BESIDE))]
    ):
        for name in dir(module):
            thing = getattr(module, name)
            if not name.startswith("_") and (inspect.isclass(thing) or inspect.isfunction(thing)):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return [pytest.param(thing, id=name) for name, thing in sorted(found.items())]


@pytest.mark.parametrize("thing", public_objects())
def test_public_names_are_documented(thing):
    assert thing.__doc__
    assert not thing.__doc__.startswith(f"{thing.__name__}("), (
        "no docstring but the one that a dataclass gets"
    )


@pytest.mark.parametrize("thing", [p for p in public_objects() if "Args:" in p.values[0].__doc__])
def test_no_parameter_is_missing_from_a_list_of_them(thing):
    text = (
        "".join(parent.__doc__ or "" for parent in inspect.getmro(thing))
        if inspect.isclass(thing)
        else thing.__doc__
    )
    missing = [
        name for name in inspect.signature(thing).parameters if not re.search(rf"\b{name}\b", text)
    ]
    assert not missing


@pytest.mark.parametrize("metric", tautrank.metrics.METRICS.values(), ids=tautrank.metrics.METRICS)
def test_metrics_state_their_formula_cite_and_show_an_example(metric):
    text, _, example = metric.__doc__.partition(">>>")
    assert re.search(r"``[^`]*( = |sum_)[^`]*``", text.partition("Args:")[0]), "no formula"
    assert re.search(r"\b(19|20)\d\d\b", text), "no year of a citation"
    assert example.strip().startswith(metric.__name__), "no example of the metric itself"


def test_module_names_say_what_a_module_holds():
    vague = {
        "base_utils",
        "common",
        "core",
        "helper",
        "helpers",
        "lib",
        "manager",
        "misc",
        "shared",
        "tools",
        "util",
        "utils",
    }
    assert not vague & {file.stem for file in FILES}


@pytest.mark.parametrize(
    "file",
    sorted((Path(__file__).parents[1] / "bench").glob("[a-z]*.py")),
    ids=lambda file: file.stem,
)
def test_the_programs_that_measure_import_what_there_is(file):
    importlib.import_module(f"bench.{file.stem}")
