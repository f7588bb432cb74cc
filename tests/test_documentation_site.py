"""`make docs`: the site is built without a warning, needs no network, and describes every public
name.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Attributes by which a browser fetches something while it shows a page; a link is fetched when it
# is clicked.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
}
PUBLIC = ("tautrank", "tautrank.data", "tautrank.losses", "tautrank.metrics", "tautrank.simulate")
PUBLIC += ("tautrank.theory", "tautrank.checks", "tautrank.ranker", "tautrank.experiments")
PUBLIC += ("tautrank.significance", "tautrank.compat")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-E",
        "-q",
        "-d",
        str(folder / "doctrees"),
    ]
    built = subprocess.run(
        [*command, str(DOCS), str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
        cwd=DOCS.parent,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


class Fetches(HTMLParser):
    """Everything a page makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if (tag, name) in FETCHED and value]


def test_every_page_is_there(site):
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert pages
    assert [page for page in sorted(pages) if not (site / page).is_file()] == []


def test_nothing_is_fetched_from_a_network(site):
    for page in site.rglob("*.html"):
        for fetched in Fetches(page.read_text()).found:
            assert not re.match(r"(https?:)?//", fetched), f"{page.name}: {fetched}"
            if not fetched.startswith("data:"):
                assert (page.parent / fetched.split("?")[0].split("#")[0]).exists(), (
                    f"{page.name}: {fetched}"
                )
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import ['\"]?http", style.read_text()), (
            style.name
        )


def test_formulas_are_drawn_without_a_script(site):
    page = (site / "losses.html").read_text()
    assert page.count("<math") > 40
    for text in (page, (site / "metrics.html").read_text()):
        assert not re.search(r"\\(frac|sum|rho|sigma|mathrm|lvert)\b", text), (
            "a formula was left as it was typed"
        )


def test_every_public_name_is_described(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    described = {
        name for kind, names in inventory.items() if kind.startswith("py:") for name in names
    }
    last_words = {name.rsplit(".", 1)[-1] for name in described}
    for module in PUBLIC:
        public = importlib.import_module(module)
        for name in getattr(public, "__all__", dir(public)):
            value = getattr(public, name)
            is_module = getattr(value, "__spec__", None) is not None
            # What is public in two modules is described once.
            private = name.startswith("_")
            assert private or is_module or name in last_words, (
                f"{module}.{name} has no place in docs/reference"
            )
