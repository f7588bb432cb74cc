"""Every file and module that the public workflow and the Makefile name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
PROGRAMS = [*sorted((TOP / ".github" / "workflows").glob("*.yml")), TOP / "Makefile"]


def named_paths(program: str) -> set[str]:
    """Return the paths below tests, src, bench and docs, and the modules that `python -m` runs."""
    paths = set(re.findall(r"(?<![\w./-])(?:tests|src|bench|docs)/[\w./-]*\w", program))
    modules = re.findall(r"-m (bench[\w.]*)", program)
    return paths | {module.replace(".", "/") for module in modules}


def exists(path: str) -> bool:
    return any((TOP / path).with_suffix(suffix).exists() for suffix in (Path(path).suffix, ".py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_named_paths_exist(program: Path) -> None:
    paths = named_paths(program.read_text())

    missing = sorted(path for path in paths if not exists(path))

    assert paths
    assert not missing


def test_a_wrong_path_is_found() -> None:
    paths = named_paths("pytest --ignore tests/engines/test_fast.py src/tautrank/metrics -m bench")

    assert paths == {"tests/engines/test_fast.py", "src/tautrank/metrics", "bench"}
    assert [path for path in sorted(paths) if not exists(path)] == ["tests/engines/test_fast.py"]
