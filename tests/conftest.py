"""What all tests share: repeatable examples, real data, and a word at the end on what could not be
run.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run side by side, each with as many OpenMP threads as there are cores: a thread that waits
# by spinning takes the time of another test's, and a training that takes a second alone takes a
# minute. Read when the first library loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The same examples in every run: what passes here passes there. `--hypothesis-profile default`
# looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A job that a script starts in the background ignores Ctrl-C, and so would every command the tests
# start and interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Fixtures that skip a test where something is not installed. The last lines of every run say
# whether they did.
_REQUIREMENTS = {"browser": "browser tests", "shared_data": "real-data tests"}

_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; not part of the repository."""
    folder = Path(os.environ.get("TAUTRANK_DATA", _BESIDE_THE_PROJECT))
    if not folder.is_dir():
        pytest.skip(
            f"no real data at {folder}: set TAUTRANK_DATA to a folder with mq2008/, clueweb09/, ..."
        )
    return folder


@pytest.fixture
def without_drawing(monkeypatch):
    """Pages without the program that draws: a hundredth of the size, and quick to read."""
    monkeypatch.setattr("tautrank.report.page.plotly_javascript", lambda: "// draws")


@pytest.fixture(scope="session")
def ran():
    """Studies of the catalogue with the smallest budget, each run once."""
    from tautrank.experiments.plan import Budget
    from tautrank.papers import find_study, run_study
    from tests.study_examples import QUERIES

    done = {}

    def run(name):
        if name not in done:
            study = find_study(name)
            data = "" if study.data in ("none", "five-documents") else QUERIES
            done[name] = run_study(study, data, budget=Budget(repeats=2, configurations=0, trees=2))
        return done[name]

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what they require, and the doctests that plain Python runs in reasonable
    time.
    """
    for item in items:
        for fixture in _REQUIREMENTS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(fixture)
        # A ListLoss compiles the user's function: without the compiler there is nothing to run.
        if isinstance(item, pytest.DoctestItem) and not any(
            "ListLoss" in e.source for e in item.dtest.examples
        ):
            item.add_marker("uncompiled")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line per requirement: how many tests ran, or why none did."""
    for fixture, name in _REQUIREMENTS.items():
        skipped = list(_reports(terminalreporter, fixture, "skipped"))
        ran = sum(
            1
            for outcome in ("passed", "failed")
            for _ in _reports(terminalreporter, fixture, outcome)
        )
        if ran:
            terminalreporter.write_line(f"{name}: {ran} run")
        elif skipped:
            reason = skipped[0].longrepr[2].removeprefix("Skipped: ")
            terminalreporter.write_line(
                f"{name}: NOT run, because {reason}", yellow=True, bold=True
            )


def _reports(
    terminalreporter: pytest.TerminalReporter, mark: str, outcome: str
) -> Iterator[pytest.TestReport]:
    # A module that is skipped as a whole has a report without keywords.
    return (
        report
        for report in terminalreporter.getreports(outcome)
        if mark in getattr(report, "keywords", ())
    )
