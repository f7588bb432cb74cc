"""What the tests of pages share: a reader of HTML, a page of all kinds of sections, and names that
try to break out.
"""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import numpy as np

from tautrank.report.figures import Curve, curve_figure
from tautrank.report.gain_figures import QueryGains, gain_sections
from tautrank.report.page import (
    Code,
    Facts,
    FigureSection,
    Group,
    Page,
    TableSection,
    Text,
    system_styles,
)
from tautrank.tables import Cell, Column, Table

NASTY = "<b>bold</b> <!-- <script >window.hacked = 1</script> & \"quoted\" <a href='https://example.org'>x</a>"
SYSTEMS = (
    "lightgbm:lambdarank",
    NASTY,
    "xendcg",
    "ndcg-loss2++(k=5,mu=2,assignment=soft,samples=10)",
)

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}

VOID = {"meta", "br", "img", "hr", "link", "input"}


class Reader(HTMLParser):
    """Reads a page and insists on balanced tags; keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: list[list[list[dict[str, str | None]]]] = []
        self.code: list[str] = []
        self.title = self.styles = ""
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        elif tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append({**dict(attrs), "text": "", "marks": ""})
        elif tag == "code":
            self.code.append("")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, text):
        inside = set(self.open)
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings[-1] = (self.headings[-1][0], self.headings[-1][1] + text)
        if "script" in inside:
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + text)
        if inside & {"td", "th"}:
            self.tables[-1][-1][-1]["marks" if "sup" in inside else "text"] += text
        if "code" in inside:
            self.code[-1] += text
        if "title" in inside:
            self.title += text
        if "style" in inside:
            self.styles += text

    def titles(self, level: int) -> list[str]:
        """The headings of a level."""
        return [text for depth, text in self.headings if depth == level]

    def place(self, title: str) -> str:
        """The id of the section of that title."""
        ids = [
            a["id"].removesuffix("-title")
            for tag, a in self.elements
            if re.fullmatch("h[2-6]", tag)
        ]
        return ids[[text for _, text in self.headings[1:]].index(title)]

    def table(self, title: str) -> list[dict[str, dict[str, str | None]]]:
        """The rows of the table of that section, by heading."""
        labels = [
            attributes["aria-labelledby"] for tag, attributes in self.elements if tag == "table"
        ]
        head, *rows = self.tables[labels.index(f"{self.place(title)}-title")]
        return [dict(zip([cell["text"] for cell in head], row, strict=True)) for row in rows]

    def figure(self, title: str) -> dict:
        """The data of the figure of that section."""
        name = f"{self.place(title)}-figure"
        return json.loads(
            next(text for attributes, text in self.scripts if attributes.get("id") == name)
        )


def key(cell) -> float | None:
    """The number that sorts a cell."""
    return None if cell.get("data-key") is None else float(cell["data-key"])


def lines(figure) -> dict:
    """The lines, points or bars of a figure, by system."""
    return {
        trace["legendgroup"]: trace for trace in figure["data"] if trace.get("fill") != "toself"
    }


def bands(figure) -> dict:
    """Low and high ends of the bands of a figure, by system."""
    found = {}
    for trace in figure["data"]:
        if trace.get("fill") == "toself":
            half = len(trace["y"]) // 2
            found[trace["legendgroup"]] = (trace["y"][half:][::-1], trace["y"][:half])
    return found


def page_of_everything() -> Page:
    """Tables, figures and text of every kind, with names that HTML, JSON and Plotly would read as
    something else.
    """
    rng = np.random.default_rng(1)
    styles = system_styles(SYSTEMS)
    x = np.arange(1, 31)
    courses = [0.1 * i - np.exp(-x / 9) for i in range(4)]
    curves = [
        Curve(name, x, y, y - 0.01, y + 0.01) for name, y in zip(SYSTEMS, courses, strict=True)
    ]
    drawn = curve_figure(
        curves, x_title=f"trees {NASTY}", y_title="validation ndcg@5", styles=styles, mode="lines"
    )
    gains = {name: rng.normal(0.1 * i, 0.1, 80) for i, name in enumerate(SYSTEMS[1:])}
    clouds = [Curve(f"list {i}", rng.random(20) + i, rng.random(20)) for i in range(9)]
    names = Column("name", words=True)
    cells = zip(SYSTEMS, (0.3, 0.1, None, 0.2), (9, 10, 2, math.nan), strict=True)
    rows = [[(names, Cell(name)), (Column("mean", high_first=True), Cell(f"{mean} ±.01", (mean,), "a")),
             (Column("n"), Cell(str(n), (n,)))] for name, mean, n in cells]  # fmt: skip
    return Page(
        f"A page of {NASTY}",
        [
            Text("Claim", [f"{NASTY} holds."]),
            TableSection("Table", Table.of_rows(rows, NASTY)),
            TableSection(
                "Folded",
                Table.of(["text"], [["a sentence that needs several lines"]]),
                folded=True,
            ),
            FigureSection("Curves", drawn, NASTY, NASTY),
            Group(
                "Gains",
                list(
                    gain_sections(QueryGains("ndcg@5", SYSTEMS[0], rng.random(80), gains), styles)
                ),
            ),
            FigureSection(
                "Clouds",
                curve_figure(clouds, x_title="loss", y_title="gap", mode="markers"),
                "c",
                "s",
            ),
            Facts("Settings", {NASTY: NASTY}),
            Code("Run it again", NASTY, [NASTY]),
        ],
        lead=NASTY,
    )
