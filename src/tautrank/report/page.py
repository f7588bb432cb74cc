"""One self-contained HTML page made of sections: it needs no network, fits a phone, the dark and paper."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Protocol

from tautrank.errors import DataError, OptionError
from tautrank.files import handed_out
from tautrank.report.palette import DARK_THEME, LIGHT_THEME, dark_counterparts
from tautrank.report.table import Cell, Column, ReportTable

_DEEPEST_HEADING = 6
_LONG_TEXT = 30  # letters of a cell that is a sentence rather than a name


class Section(Protocol):
    """A part of a page: a title, and a body that is valid HTML with everything from outside escaped."""

    @property
    def title(self) -> str:
        """Its heading."""

    def body(self, name: str, level: int) -> str:
        """The HTML below the heading.

        Args:
            name: the id of the section; ids inside it start with it.
            level: of the section's heading, 2 for one that stands in the page itself.
        """


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text.

    Args:
        title: the heading.
        paragraphs: plain text; a blank line has no meaning, every string is a paragraph.

    >>> Text("Why", ["a < b"]).body("section-1", 2)
    '<p>a &lt; b</p>'
    """

    title: str
    paragraphs: Sequence[str]

    def body(self, name: str, level: int) -> str:
        """The paragraphs."""
        return _paragraphs(self.paragraphs)


@dataclass(frozen=True)
class TableSection:
    """A table that scrolls in its box, sorts by a click on a heading, and is there as CSV and LaTeX too.

    Args:
        title: the heading.
        table: the cells.
        folded: whether a reader opens it first; for long tables beside the point.

    >>> "<td" in TableSection("Sizes", ReportTable.of(["part", "queries"], [["train", 60]])).body("section-1", 2)
    True
    """

    title: str
    table: ReportTable
    folded: bool = False

    def body(self, name: str, level: int) -> str:
        """The table, its note, and its other forms."""
        note = f'<p class="note" id="{name}-note">{html.escape(self.table.note)}</p>\n' if self.table.note else ""
        described = f' aria-describedby="{name}-note"' if note else ""
        head = "".join(_heading_cell(column) for column in self.table.columns)
        body = "\n".join(
            "<tr>" + "".join(map(_body_cell, self.table.columns, row)) + "</tr>" for row in self.table.rows
        )
        table = (
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-title">\n'
            f'<table class="sortable" aria-labelledby="{name}-title"{described}>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{note}"
        )
        forms = (
            '<details class="forms"><summary>This table as CSV and LaTeX</summary>\n'
            f"<p>CSV</p>\n{_preformatted(self.table.to_csv())}\n<p>LaTeX</p>\n{_preformatted(self.table.to_latex())}\n"
            "</details>"
        )
        if self.folded:
            rows = len(self.table.rows)
            table = f"<details><summary>Show {rows} {'row' if rows == 1 else 'rows'}</summary>\n{table}</details>\n"
        return table + forms


@dataclass(frozen=True)
class FigureSection:
    """An interactive figure with its caption.

    Args:
        title: the heading.
        figure: a Plotly figure, or a dictionary with its ``data`` and ``layout``.
        caption: what is drawn and how to read it.
        summary: what a reader who cannot see the figure should know of it, in place of the picture.

    >>> section = FigureSection("Gains", {"data": [], "layout": {}}, "Gains by query.", "Most queries gain.")
    >>> "<figcaption>Gains by query.</figcaption>" in section.body("section-1", 2)
    True
    """

    title: str
    figure: Any
    caption: str
    summary: str

    def body(self, name: str, level: int) -> str:
        """The place of the figure, its caption, and its data."""
        return (
            f'<figure>\n<div class="legend" id="{name}-legend" role="group" aria-label="Systems to show"></div>\n'
            f'<div class="drawing" id="{name}-plot" data-figure="{name}-figure" role="img" '
            f'aria-label="{html.escape(self.summary)}"></div>\n'
            "<noscript><p>This figure is drawn by JavaScript, which is switched off here.</p></noscript>\n"
            f"<figcaption>{html.escape(self.caption)}</figcaption>\n</figure>\n"
            f'<script type="application/json" id="{name}-figure">{_json(_plain_figure(self.figure))}</script>'
        )


@dataclass(frozen=True)
class Facts:
    """Names and values: settings, versions, seeds.

    Args:
        title: the heading.
        facts: plain text by name.

    >>> Facts("Settings", {"seed": "0"}).body("section-1", 2)
    '<dl>\\n<div><dt>seed</dt><dd>0</dd></div>\\n</dl>'
    """

    title: str
    facts: Mapping[str, str]

    def body(self, name: str, level: int) -> str:
        """A list of descriptions."""
        pairs = (f"<div><dt>{html.escape(n)}</dt><dd>{html.escape(v)}</dd></div>" for n, v in self.facts.items())
        return "<dl>\n" + "\n".join(pairs) + "\n</dl>"


@dataclass(frozen=True)
class Code:
    """A command or a program, set as it is typed.

    Args:
        title: the heading.
        code: the text.
        paragraphs: what stands above it.

    >>> Code("Run it again", "tautrank compare a.txt").body("section-1", 2)
    '<pre><code>tautrank compare a.txt</code></pre>'
    """

    title: str
    code: str
    paragraphs: Sequence[str] = ()

    def body(self, name: str, level: int) -> str:
        """The paragraphs and the code."""
        above = _paragraphs(self.paragraphs)
        return (above + "\n" if above else "") + _preformatted(self.code)


@dataclass(frozen=True)
class Group:
    """Sections under one heading.

    Args:
        title: the heading.
        sections: theirs are one level deeper.

    >>> Group("Data", [Text("Source", ["Made up."])]).body("section-1", 2).splitlines()[1]
    '<h3 id="section-1-1-title">Source</h3>'
    """

    title: str
    sections: Sequence[Section]

    def body(self, name: str, level: int) -> str:
        """The sections, one after the other."""
        return _sections(self.sections, name, level + 1)


@dataclass(frozen=True)
class Page:
    """A page: a title, a question it answers, and sections in the order they are read.

    Args:
        title: of the page and of the browser's tab.
        sections: `Text`, `TableSection`, `FigureSection`, `Facts`, `Code`, `Group`, or any other `Section`.
        lead: the question the page answers, or the claim it makes.
        interactive: whether tables sort and figures are drawn; if not, there is no script in the page, and a page with
            a figure is refused.

    >>> page = Page(
    ...     "Noise in the labels",
    ...     lead="Does xendcg lose less than lambdarank when labels are noisy?",
    ...     sections=[
    ...         Text("Answer", ["At 20% noise it loses half as much."]),
    ...         TableSection("NDCG@5", ReportTable.of(["noise", "xendcg"], [[0.0, 0.45], [0.2, 0.43]])),
    ...         Facts("Settings", {"seed": "0", "repeats": "5"}),
    ...         Code("Run it again", "tautrank study run label-noise"),
    ...     ],
    ... )
    >>> text = page.to_html()
    >>> text.splitlines()[0], "<h2 id=\\"section-1-title\\">Answer</h2>" in text
    ('<!doctype html>', True)
    """

    title: str
    sections: Sequence[Section] = field(default_factory=tuple)
    lead: str = ""
    interactive: bool = True

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page as the text of one file: all it needs is inside, and it forbids the browser to fetch anything.

        Only the scripts put there by this method run: the page names their hashes in its content security policy, so
        that a script that came in with somebody's data would not.

        Args:
            path: a file to write the page to, too.

        >>> Page("a <b>", interactive=False).to_html().count("a &lt;b&gt;")
        2
        """
        with_figures = _has_figure(self.sections)
        if with_figures and not self.interactive:
            raise OptionError("interactive: found False for a page with figures; expected True")
        scripts = _scripts(with_figures) if self.interactive else []
        allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
        policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {allowed}"
        settings = {"themes": {"light": LIGHT_THEME, "dark": DARK_THEME}, "darkColours": dark_counterparts()}
        data = f'<script type="application/json" id="page-settings">{_json(settings)}</script>\n' if scripts else ""
        title = html.escape(self.title)
        lead = f'<p class="lead">{html.escape(self.lead)}</p>\n' if self.lead else ""
        links = "".join(
            f'<li><a href="#section-{i}">{html.escape(section.title)}</a></li>'
            for i, section in enumerate(self.sections, 1)
        )
        contents = f'<nav aria-label="Contents"><ul>{links}</ul></nav>\n' if len(self.sections) > 2 else ""
        text = (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
            f"<header>\n<h1>{title}</h1>\n{lead}{contents}</header>\n"
            f"<main>\n{_sections(self.sections, 'section', 2)}\n</main>\n{data}"
            + "".join(f"<script>{script}</script>\n" for script in scripts)
            + "</body>\n</html>\n"
        )
        return handed_out(text, path)


def _sections(sections: Sequence[Section], name: str, level: int) -> str:
    if level > _DEEPEST_HEADING:
        raise OptionError(f"sections: found groups inside groups to level {level}; expected at most {_DEEPEST_HEADING}")
    return "\n".join(
        f'<section id="{name}-{i}" aria-labelledby="{name}-{i}-title">\n'
        f'<h{level} id="{name}-{i}-title">{html.escape(section.title)}</h{level}>\n'
        f"{section.body(f'{name}-{i}', level)}\n</section>"
        for i, section in enumerate(sections, 1)
    )


def _has_figure(sections: Sequence[Section]) -> bool:
    return any(
        isinstance(section, FigureSection) or (isinstance(section, Group) and _has_figure(section.sections))
        for section in sections
    )


def _paragraphs(paragraphs: Sequence[str]) -> str:
    return "\n".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in paragraphs)


def _preformatted(text: str) -> str:
    return f"<pre><code>{html.escape(text)}</code></pre>"


def _heading_cell(column: Column) -> str:
    words = ' class="words"' if column.words else ""
    high_first = " data-high-first" if column.high_first else ""
    return f'<th scope="col"{words}{high_first}>{html.escape(column.title or column.fields[0])}</th>'


def _body_cell(column: Column, cell: Cell) -> str:
    words = ' class="words"' if column.words else ""
    if column.words and len(cell.text) > _LONG_TEXT:
        words = ' class="words long"'
    key = "" if cell.sort_key is None else f' data-key="{html.escape(str(cell.sort_key))}"'
    marks = f"<sup>{html.escape(cell.marks)}</sup>" if cell.marks else ""
    return f"<td{words}{key}>{html.escape(cell.text)}{marks}</td>"


def _plain_figure(figure: Any) -> dict[str, Any]:
    """Data and layout alone: the page brings colours of its own for paper, ink and grid."""
    plain: Any = json.loads(figure.to_json()) if hasattr(figure, "to_json") else figure
    if not isinstance(plain, Mapping) or "data" not in plain:
        raise DataError(f"figure: found {type(figure).__name__}; expected a Plotly figure, or its data and layout")
    layout = {name: value for name, value in plain.get("layout", {}).items() if name != "template"}
    return {"data": plain["data"], "layout": layout}


def _json(value: Any) -> str:
    """JSON that no HTML parser takes for the end of a script or the start of a comment."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise DataError("figure: found NaN or infinity; expected finite numbers, or None for a gap") from None
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _scripts(with_figures: bool) -> list[str]:
    own = _file("page.js")
    if not with_figures:
        return [own]
    from tautrank.report.figures import plotly_javascript

    return [plotly_javascript(), own]


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _style() -> str:
    light, dark = (
        "".join(f"--{name}: {colour}; " for name, colour in theme.items()) for theme in (LIGHT_THEME, DARK_THEME)
    )
    # Paper is never dark: a printed page keeps the light colours whatever the screen has.
    return (
        f":root {{ color-scheme: light dark; {light}}}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n" + _file("page.css")
    )


def _file(name: str) -> str:
    return files("tautrank.report").joinpath(name).read_text(encoding="utf-8")
