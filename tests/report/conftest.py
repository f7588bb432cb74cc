"""The fixture of the tests of pages: a browser."""

from __future__ import annotations

import os
import shutil

import pytest


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
