"""Pages: well-formed, self-contained, and nothing in a name or a number can break out of its
place.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
from itertools import pairwise

import pytest

from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.report.page import FigureSection, Page, TableSection, Text
from tautrank.tables import Table
from tests.report.examples import NASTY, SYSTEMS, Reader, page_of_everything


@pytest.fixture(scope="module")
def texts(ran):
    """An interactive page, one without scripts, and that of a study."""
    static = [
        Text(NASTY, [NASTY]),
        TableSection("Table", Table.of([NASTY, "n"], [[NASTY, 2]], NASTY)),
    ]
    return {
        "full": page_of_everything().to_html(),
        "static": Page(NASTY, static, lead=NASTY, interactive=False).to_html(),
        "study": ran("xe-figure1").to_html(),
    }


@pytest.fixture(scope="module")
def read(texts):
    return {kind: Reader(text) for kind, text in texts.items()}


KINDS = ("full", "static", "study")


@pytest.mark.parametrize("kind", KINDS)
def test_html_is_balanced_and_headings_are_in_order(kind, read, texts):
    page = read[kind]
    assert texts[kind].startswith("<!doctype html>\n")
    assert page.elements[0] == ("html", {"lang": "en"})
    levels = [level for level, _ in page.headings]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(text.strip() for _, text in page.headings)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "data-figure"):
            assert attributes.get(name, ids[0]) in ids
        assert (attributes.get("href") or "#" + ids[0])[1:] in ids
    assert not re.search(
        "[\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f-\\x9f\\ufffe\\uffff\\r]", texts[kind]
    )  # forbidden in HTML


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_fetched_and_only_its_own_scripts_run(kind, read, texts):
    page, own = read[kind], texts[kind]
    for tag, attributes in page.elements:
        assert tag not in ("img", "link", "iframe", "object", "embed", "base", "form", "b")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import", page.styles)
    policy = next(
        a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert "default-src 'none'" in policy
    run = [
        text for attributes, text in page.scripts if attributes.get("type") != "application/json"
    ]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in run
    ]
    assert re.search(r"script-src (.*)$", policy).group(1).split() == (hashes or ["'none'"])
    assert len(run) == (0 if kind == "static" else 2)  # Plotly's once, and the page's own
    for script in run:
        own = own.replace(script, "")
    assert "//" not in own.replace("https://example.org", "")


def test_names_are_shown_as_they_are(texts, read):
    page = read["full"]
    assert page.title == f"A page of {NASTY}"
    assert [row["name"]["text"] for row in page.table("Table")] == list(SYSTEMS)
    assert page.code[-1] == NASTY
    assert read["static"].title == NASTY
    for text in texts.values():
        assert "<script >window.hacked" not in text
    figure = page.figure("Curves")
    assert "<" not in figure["layout"]["xaxis"]["title"]["text"]


def test_same_page_same_bytes(texts):
    assert page_of_everything().to_html() == texts["full"]


def test_a_system_has_one_colour_in_all_figures(read):
    seen: dict[str, set[str]] = {}
    titles = ["Curves", f"Gain of each query over {SYSTEMS[0]}", "Gain by difficulty of the query"]
    for trace in (trace for title in titles for trace in read["full"].figure(title)["data"]):
        if "fillcolor" not in trace:
            seen.setdefault(trace["legendgroup"], set()).add(trace["marker"]["color"])
    assert list(seen) == list(SYSTEMS)
    assert [len(colours) for colours in seen.values()] == [1] * 4
    assert len(set.union(*seen.values())) == 4


def test_wrong_pages_are_refused(monkeypatch):
    figure = FigureSection("f", {"data": []}, "", "")
    for page, kind, sentence in (
        (
            Page("t", [figure], interactive=False),
            OptionError,
            "interactive: found False for a page with figures",
        ),
        (Page("t", [FigureSection("f", 3, "", "")]), DataError, "figure: found int"),
        (
            Page("t", [FigureSection("f", {"data": [{"y": [math.inf]}]}, "", "")]),
            DataError,
            "figure: found NaN or infinity; expected finite numbers, or None",
        ),
    ):
        with pytest.raises(kind) as caught:
            page.to_html()
        assert str(caught.value).startswith(sentence)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(MissingDependencyError, match="pip install 'tautrank\\[report\\]'"):
        Page("t", [figure]).to_html()
