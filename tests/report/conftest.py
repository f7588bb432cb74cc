"""Fixtures of the tests of pages: a browser, small studies, and pages without Plotly's five
megabytes.
"""

from __future__ import annotations

import os
import shutil

import pytest

from tautrank.experiments.plan import Budget
from tautrank.papers.catalogue import find_study
from tautrank.papers.run import run_study

QUERIES = "simulated:mslr:60,mean_length=6"


@pytest.fixture
def without_drawing(monkeypatch):
    """Pages without the program that draws: a hundredth of the size, and quick to read."""
    monkeypatch.setattr("tautrank.report.page.plotly_javascript", lambda: "// draws")


@pytest.fixture(scope="session")
def ran():
    """Studies of the catalogue with the smallest budget, each run once."""
    done = {}

    def run(name):
        if name not in done:
            study = find_study(name)
            data = "" if study.data in ("none", "five-documents") else QUERIES
            done[name] = run_study(study, data, budget=Budget(trials=2, configurations=0, trees=2))
        return done[name]

    return run


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, driven by Playwright."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    program = os.environ.get("TAUTRANK_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )
    if program is None:
        pytest.skip(
            "no Chromium found: install one (Debian: apt-get install chromium) or set TAUTRANK_CHROMIUM to it"
        )
    quiet = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
    ]
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=[*quiet, "--disable-sync", "--no-first-run"]
        )
        yield started
        started.close()
