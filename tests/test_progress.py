"""What shows how far work is."""

from __future__ import annotations

import io
import sys

import pytest

from tautrank.progress import Lines, PartOf, show_progress
from tests.recorded_progress import RecordedProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def terminal_on_stderr(monkeypatch):
    """Standard error as a terminal; in a fixture pytest would undo it before the test."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return screen


def test_lines_say_what_is_done_and_how_long_it_will_take(capsys):
    lines = Lines("training", "trees")
    lines.update(0, 4, "")
    lines.update(2, 4, "ndcg@10 0.5")
    lines.update(4, 4, "ndcg@10 0.6")
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "training: 0/4 trees"
    assert second.startswith("training: 2/4 trees, ndcg@10 0.5, about 0 s left")
    assert last == "training: 4/4 trees, ndcg@10 0.6"


def test_work_of_an_earlier_run_says_nothing_about_the_time_left(capsys):
    lines = Lines()
    lines.update(5, 10, "continued")
    assert capsys.readouterr().err == "5/10 continued\n"


@pytest.mark.parametrize(("n_lines", "expected"), [(None, 20), (10, 10), (1, 1), (40, 20)])
def test_lines_may_be_limited_in_number(capsys, n_lines, expected):
    lines = Lines("training", "trees", n_lines)
    for done in range(1, 21):
        lines.update(done, 20, "")
    err = capsys.readouterr().err.splitlines()
    assert len(err) == expected
    assert err[-1] == "training: 20/20 trees"


@pytest.mark.parametrize(
    ("verbose", "is_shown"), [(-1, False), (0, False), (None, False), (1, True)]
)
def test_nobody_watches_a_file(capsys, verbose, is_shown):
    with show_progress("training", "trees", verbose=verbose) as progress:
        progress.update(1, 1, "")
    assert bool(capsys.readouterr().err) == is_shown


@pytest.mark.parametrize(
    ("verbose", "is_shown"), [(-1, False), (0, False), (None, True), (1, True)]
)
def test_a_terminal_has_a_bar(monkeypatch, verbose, is_shown):
    terminal = terminal_on_stderr(monkeypatch)
    with show_progress("training [a]", "trees", verbose=verbose) as progress:
        progress.update(1, 3, "ndcg@10 0.5")
    shown = terminal.getvalue()
    assert ("training [a]" in shown) == is_shown
    assert ("1/3" in shown) == is_shown
    assert ("ndcg@10 0.5" in shown) == is_shown


def test_a_bar_inside_a_bar_is_no_error(monkeypatch):
    terminal = terminal_on_stderr(monkeypatch)
    with show_progress("outer") as outer, show_progress("inner") as inner:
        inner.update(1, 2, "")
        outer.update(1, 2, "")
    assert "outer" in terminal.getvalue()


def test_a_part_tells_how_much_of_the_whole_is_done():
    whole = RecordedProgress()
    PartOf(whole, before=10, total=30).update(5, 20, "b.txt")
    assert whole.updates == [(15, 30, "b.txt")]
