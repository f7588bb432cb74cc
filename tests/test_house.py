"""The picture of the house in CONTRIBUTING shows the imports that there are."""

from __future__ import annotations

from bench.house import PICTURE, ROOT, boxes, draw, drawn_house, nearest

USES = {
    "foundation": set(),
    "data": {"foundation"},
    "metrics": {"data", "foundation"},
    "losses": {"metrics", "data", "foundation"},
}


def test_the_picture_is_what_the_imports_say() -> None:
    assert PICTURE.read_text() == drawn_house(), "draw it again: python -m bench.house"
    assert "](docs/pictures/house.svg)" in (ROOT / "CONTRIBUTING.md").read_text()


def test_arrows_that_follow_from_others_are_left_out() -> None:
    assert nearest(USES) == {
        "foundation": set(),
        "data": {"foundation"},
        "metrics": {"data"},
        "losses": {"metrics"},
    }


def test_a_room_stands_to_the_right_of_all_that_it_uses() -> None:
    placed = boxes(USES)

    for room, used in USES.items():
        assert all(placed[other].x < placed[room].x for other in used)


def test_every_room_and_arrow_is_drawn() -> None:
    picture = draw(USES)

    assert [f">{room}</text>" in picture for room in USES] == [True] * len(USES)
    assert picture.count("<path") == 1 + 3  # the tip of arrows, and an arrow per room


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) < 1500
