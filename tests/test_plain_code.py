"""Every room is plain: one thought per statement, one idea per function, names that say what a
thing is.

What is counted says where to look; a reader is the judge.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tautrank
from tests.plain_code import Measures, Room, is_compiled

SOURCE = Path(tautrank.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

GOAL = Measures(dense=5.0, largest=35, long=0, wide=0, banned=0)

# Rooms that are not there yet. A line is lowered as its room gets plainer, and removed at the end.
NOT_YET = {}
# Remove when all rooms are plain.
ALL = 8.5

# Public functions whose parameters are typed by keyword, and commands, whose options Typer reads.
WIDE_BY_KEYWORD = frozenset(
    {
        "base.py evaluate",
        "compare.py compare",
        "compare.py compare_splits",
        "estimator.py __init__",
        "estimator.py fit",
        "letor.py read_letor",
        "lightgbm.py fit",
        "ranking_data.py from_frame",
        "reading.py read",
        "run.py run_study",
        "tune.py tune",
        "web_search.py simulate_web_search",
        # commands
        "comparing.py compare",
        "comparing.py compare_runs",
        "study.py resume",
        "study.py run",
        "training.py train",
        "tuning.py tune",
        "using.py evaluate",
        "using.py explain",
        "theory.py theory_check",
    }
)

# A kernel is one loop over a list that must not be cut: its functions may be long and wide.
MANY = 1_000
COMPILED = Measures(dense=7.0, largest=33, long=MANY, wide=MANY, banned=0)


def room_of(file: Path) -> str:
    """Return the room of a file; files beside all rooms are the foundation."""
    folders = file.relative_to(SOURCE).parts[:-1]
    return folders[0] if folders else "foundation"


def files_by_room() -> dict[str, list[Path]]:
    """Return the files of each room, compiled code apart."""
    files: dict[str, list[Path]] = {}
    for file in FILES:
        room = "compiled" if is_compiled(file) else room_of(file)
        files.setdefault(room, []).append(file)
    return files


ROOMS = files_by_room()


@pytest.mark.parametrize("name", ROOMS)
def test_room_is_plain(name: str) -> None:
    room = Room.of(ROOMS[name])
    limits = COMPILED if name == "compiled" else NOT_YET.get(name, GOAL)

    measures = room.measures(WIDE_BY_KEYWORD if name != "compiled" else frozenset())

    above = {
        field: f"{value} instead of at most {limit}"
        for field, value, limit in zip(Measures._fields, measures, limits, strict=True)
        if value > limit
    }
    assert not above, f"{name}: {above}\n{room.worst()}"


def test_library_is_plain() -> None:
    room = Room.of([file for file in FILES if not is_compiled(file)])

    assert room.measures().dense <= ALL


def test_lines_of_rooms_that_are_gone_are_removed() -> None:
    assert set(NOT_YET) <= set(ROOMS)


SQUEEZED = """
def leads(result, names, known=()):
    found = {n: [c for c in result.across(n) if c.means.size and c.tested] for n in names if n in known}
    return max(found.values(), key=lambda cells: cells[0].mean if cells else -cells[0].mean)
"""
PLAIN = """
def leading_cells(result, names):
    cells_by_name = {}
    for name in names:
        cells = result.across(name)
        cells_by_name[name] = [cell for cell in cells if cell.tested]
    return cells_by_name
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (SQUEEZED, Measures(dense=66.7, largest=24, long=0, wide=0, banned=1)),
        (PLAIN, Measures(dense=0.0, largest=7, long=0, wide=0, banned=0)),
        ("def f(a, b, c, d, e, f, g, h): ...", Measures(0.0, 0, 0, 1, 0)),
        ("def f(self, a, b, c, d, e, f, g): ...", Measures(0.0, 0, 0, 0, 0)),
        ("def f():\n" + 90 * "    x = y\n", Measures(0.0, 1, 1, 0, 0)),
        ("x = call(a + b, c + d, e + f, g + h)", Measures(0.0, 4, 0, 0, 0)),
        ("x = a + b + c + d + e + f", Measures(100.0, 16, 0, 0, 0)),
    ],
    ids=["squeezed", "plain", "8 parameters", "7 and self", "long", "arguments", "one sum"],
)
def test_measures_of_an_example(code: str, expected: Measures) -> None:
    room = Room([], [])

    room.add("example.py", code)

    assert room.measures() == expected
