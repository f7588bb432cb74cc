"""Draw the rooms of the library and which uses which, as their imports say: `python -m bench.house`.

The picture stands in CONTRIBUTING.md; a test compares it with what this program draws.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.module_graph import Modules

import tautrank

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "house.svg"

FOUNDATION = "foundation"
_MAIN_PROGRAM = "tautrank.__main__"

_WIDTH, _HEIGHT = 84, 30  # of a box
_COLUMN, _ROW = 112, 52  # from one box to the next
_MARGIN = 12

Uses = dict[str, set[str]]
"""The rooms that each room imports from."""


def rooms_used(source: Path) -> Uses:
    """Return the rooms that each room of the library imports from, lazy imports counted."""
    uses: Uses = {FOUNDATION: set()}
    for module, imported in Modules(source).imports().items():
        if module == _MAIN_PROGRAM:
            continue
        room = _room_of(module)
        used = {_room_of(name) for name in imported}
        uses.setdefault(room, set()).update(used - {room})
    return uses


def _room_of(module: str) -> str:
    """Return the room of a module, named in full; modules beside all rooms are the foundation."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 else FOUNDATION


def nearest(uses: Uses) -> Uses:
    """Return the rooms that each room uses, without those that one of them uses as well."""
    direct = {}
    for room, used in uses.items():
        behind = set()
        for other in used:
            behind |= _all_behind(other, uses)
        direct[room] = used - behind
    return direct


def _all_behind(room: str, uses: Uses) -> set[str]:
    """Return all rooms that a room uses, itself or through others."""
    behind: set[str] = set()
    waiting = [room]
    while waiting:
        for used in uses[waiting.pop()]:
            if used not in behind:
                behind.add(used)
                waiting.append(used)
    return behind


class Box(NamedTuple):
    """Where a room is drawn: its left upper corner."""

    x: int
    y: int


def boxes(uses: Uses) -> dict[str, Box]:
    """Return where rooms are drawn: each to the right of all that it uses."""
    placed: dict[str, Box] = {}
    n_in_column: dict[int, int] = {}
    for room in sorted(uses, key=lambda room: (_column(room, uses), room)):
        column = _column(room, uses)
        row = n_in_column.get(column, 0)
        n_in_column[column] = row + 1
        # Every second column is lower, so that arrows do not run through boxes.
        lowered = _ROW // 2 if column % 2 else 0
        placed[room] = Box(_MARGIN + column * _COLUMN, _MARGIN + row * _ROW + lowered)
    return placed


def _column(room: str, uses: Uses) -> int:
    """Return the length of the longest way from a room to the foundation."""
    return max((_column(used, uses) + 1 for used in uses[room]), default=0)


def draw(uses: Uses) -> str:
    """Return the picture as SVG: boxes with the names of rooms, arrows to what they use."""
    placed = boxes(uses)
    width = max(box.x for box in placed.values()) + _WIDTH + _MARGIN
    height = max(box.y for box in placed.values()) + _HEIGHT + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        "<title>The rooms of tautrank; an arrow leads to a room that is imported from</title>",
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#888"/></marker>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for room, used in sorted(nearest(uses).items()):
        for other in sorted(used):
            lines.append(_arrow(placed[room], placed[other]))
    for room, box in sorted(placed.items()):
        lines.append(_labelled(room, box))
    return "\n".join([*lines, "</svg>\n"])


def _arrow(start: Box, end: Box) -> str:
    """Return an arrow from the left side of a box to the right side of another."""
    x, y = start.x, start.y + _HEIGHT // 2
    to_x, to_y = end.x + _WIDTH, end.y + _HEIGHT // 2
    bend = (x - to_x) // 2
    path = f"M{x} {y}C{x - bend} {y} {to_x + bend} {to_y} {to_x} {to_y}"
    return f'<path d="{path}" fill="none" stroke="#888" marker-end="url(#tip)"/>'


def _labelled(room: str, box: Box) -> str:
    """Return a box with the name of a room."""
    x, y = box.x + _WIDTH // 2, box.y + _HEIGHT // 2 + 4
    return (
        f'<rect x="{box.x}" y="{box.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
        f'fill="#eef3fa" stroke="#4a6fa5"/>'
        f'<text x="{x}" y="{y}" text-anchor="middle">{room}</text>'
    )


def drawn_house() -> str:
    """Return the picture of the library as it is."""
    return draw(rooms_used(Path(tautrank.__file__).parent))


if __name__ == "__main__":
    PICTURE.write_text(drawn_house(), encoding="utf-8")
    print(f"wrote {PICTURE}")
