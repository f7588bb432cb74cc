"""One self-contained HTML page made of sections: it needs no network, and suits phones, dark
screens and paper.
"""

from __future__ import annotations

import abc
import base64
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple, TypeAlias

from tautrank.errors import DataError, OptionError, counted
from tautrank.files import PathLike, also_written
from tautrank.report.plotly_script import plotly_javascript
from tautrank.tables import Cell, Column, Table, is_missing

_LONG_TEXT = 30  # from this length on, the text of a cell is a sentence rather than a name


@dataclass(frozen=True)
class Section(abc.ABC):
    """A part of a page: a title, and a body in valid HTML with all text escaped.

    Args:
        title: the heading.
    """

    title: str

    @abc.abstractmethod
    def body(self, name: str, level: int) -> str:
        """Return the HTML below the heading.

        Args:
            name: the id of the section; ids inside it start with it.
            level: the level of the section's heading, 2 for a section directly on the page.
        """

    def scripts(self) -> tuple[str, ...]:
        """Return the programs that the section needs besides that of every page."""
        return ()


@dataclass(frozen=True)
class Text(Section):
    """Paragraphs of plain text.

    Args:
        title: the heading.
        paragraphs: plain text, one string per paragraph.

    >>> Text("Why", ["a < b"]).body("section-1", 2)
    '<p>a &lt; b</p>'
    """

    paragraphs: Sequence[str]

    def body(self, name: str, level: int) -> str:
        """Return the paragraphs."""
        return "\n".join(f"<p>{html.escape(paragraph)}</p>" for paragraph in self.paragraphs)


@dataclass(frozen=True)
class TableSection(Section):
    """A table that scrolls in its box, sorts by a click on a heading, and is also there as CSV and
    LaTeX.

    Args:
        title: the heading.
        table: the cells.
        folded: whether the table is closed at first; for long tables beside the point.

    >>> "<td" in TableSection("Sizes", Table.of(["part", "queries"], [["train", 60]])).body("section-1", 2)
    True
    """

    table: Table
    folded: bool = False

    def body(self, name: str, level: int) -> str:
        """Return the HTML of the table, of its note, and of its text as CSV and LaTeX, which a click
        unfolds.
        """
        table = self._table_element(name)
        if self.table.note:
            table += f'<p class="note" id="{name}-note">{html.escape(self.table.note)}</p>\n'
        if self.folded:
            n_rows = counted(len(self.table.rows), "row")
            table = f"<details><summary>Show {n_rows}</summary>\n{table}</details>\n"
        csv = _preformatted(self.table.to_csv())
        latex = _preformatted(self.table.to_latex())
        return (
            f'{table}<details class="forms"><summary>This table as CSV and LaTeX</summary>\n'
            f"<p>CSV</p>\n{csv}\n<p>LaTeX</p>\n{latex}\n</details>"
        )

    def _table_element(self, name: str) -> str:
        """Return the HTML of the table in a box that scrolls.

        Args:
            name: the id of the section; the heading and the note have ids that start with it, by
                which screen readers find them.
        """
        columns = self.table.columns
        head = "".join(_heading_cell(column) for column in columns)
        lines = []
        for row in self.table.rows:
            cells = [_body_cell(column, cell) for column, cell in zip(columns, row, strict=True)]
            lines.append(f"<tr>{''.join(cells)}</tr>")
        body = "\n".join(lines)
        description = f' aria-describedby="{name}-note"' if self.table.note else ""
        return (
            f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}-title">\n'
            f'<table class="sortable" aria-labelledby="{name}-title"{description}>\n'
            f"<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody></table></div>\n"
        )


@dataclass(frozen=True)
class FigureSection(Section):
    """An interactive figure with its caption.

    Args:
        title: the heading.
        figure: a Plotly figure, or a dictionary with its ``data`` and ``layout``.
        caption: what is drawn and how to read it.
        summary: what a reader who cannot see the figure should know about it.

    >>> section = FigureSection("Gains", {"data": [], "layout": {}}, "Gains by query.", "Most queries gain.")
    >>> "<figcaption>Gains by query.</figcaption>" in section.body("section-1", 2)
    True
    """

    figure: Any
    caption: str
    summary: str

    def body(self, name: str, level: int) -> str:
        """Return the HTML of an empty box, which the program of the page draws the figure in, its
        legend and caption, and a script element with its data as JSON.
        """
        legend = (
            f'<div class="legend" id="{name}-legend" role="group"'
            ' aria-label="Systems to show"></div>'
        )
        drawing = (
            f'<div class="drawing" id="{name}-plot" data-figure="{name}-figure" role="img"'
            f' aria-label="{html.escape(self.summary)}"></div>'
        )
        without_scripts = (
            "<noscript><p>This figure is drawn by JavaScript, which is switched off here.</p>"
            "</noscript>"
        )
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>"
        data = data_script(f"{name}-figure", _plain_figure(self.figure))
        return f"<figure>\n{legend}\n{drawing}\n{without_scripts}\n{caption}\n</figure>\n{data}"

    def scripts(self) -> tuple[str, ...]:
        """Return Plotly."""
        return (plotly_javascript(),)


@dataclass(frozen=True)
class Facts(Section):
    """Names and values: settings, versions, seeds.

    Args:
        title: the heading.
        facts: plain text by name.

    >>> Facts("Settings", {"seed": "0"}).body("section-1", 2)
    '<dl>\\n<div><dt>seed</dt><dd>0</dd></div>\\n</dl>'
    """

    facts: Mapping[str, str]

    def body(self, name: str, level: int) -> str:
        """Return the names and values as an HTML description list."""
        lines = []
        for fact_name, fact_text in self.facts.items():
            term = html.escape(fact_name)
            description = html.escape(fact_text)
            lines.append(f"<div><dt>{term}</dt><dd>{description}</dd></div>")
        return "\n".join(["<dl>", *lines, "</dl>"])


@dataclass(frozen=True)
class Code(Section):
    """A command or a program, exactly as it is typed.

    Args:
        title: the heading.
        code: the command or program.
        paragraphs: plain text above it.

    >>> Code("Run it again", "tautrank compare a.txt").body("section-1", 2)
    '<pre><code>tautrank compare a.txt</code></pre>'
    """

    code: str
    paragraphs: Sequence[str] = ()

    def body(self, name: str, level: int) -> str:
        """Return the paragraphs and the code."""
        paragraphs = [f"<p>{html.escape(paragraph)}</p>" for paragraph in self.paragraphs]
        return "\n".join([*paragraphs, _preformatted(self.code)])


@dataclass(frozen=True)
class Group(Section):
    """Sections under one heading.

    Args:
        title: the heading.
        sections: the sections, their headings one level deeper.

    >>> Group("Data", [Text("Source", ["Synthetic."])]).body("section-1", 2).splitlines()[1]
    '<h3 id="section-1-1-title">Source</h3>'
    """

    sections: Sequence[Section]

    def body(self, name: str, level: int) -> str:
        """Return the sections, one after the other."""
        return _section_elements(self.sections, name, level + 1)

    def scripts(self) -> tuple[str, ...]:
        """Return the JavaScript programs that the sections of the group need."""
        scripts: list[str] = []
        for section in self.sections:
            scripts.extend(section.scripts())
        return tuple(scripts)


@dataclass(frozen=True)
class Page:
    """A page: a title, a question it answers, and sections in the order they are read.

    Args:
        title: the title of the page and of the browser's tab.
        sections: `Text`, `TableSection`, `FigureSection`, `Facts`, `Code`, `Group`, or any other
            `Section`.
        lead: the question the page answers, or the claim it makes.
        interactive: whether tables sort and figures are drawn. If not, the page has no script, and
            figures are refused.

    >>> page = Page(
    ...     "Noise in the labels",
    ...     lead="Does xendcg lose less than lambdarank when labels are noisy?",
    ...     sections=[
    ...         Text("Answer", ["At 20% noise it loses half as much."]),
    ...         TableSection("NDCG@5", Table.of(["noise", "xendcg"], [[0.0, 0.45], [0.2, 0.43]])),
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

    def to_html(self, path: PathLike | None = None) -> str:
        """Return the page as one file that contains all it needs and forbids the browser to fetch
        anything.

        Only the scripts added by this method run: the content security policy names their hashes,
        so that a script that came in with somebody's data does not run.

        Args:
            path: a file to write the page to as well.

        >>> Page("a <b>", interactive=False).to_html().count("a &lt;b&gt;")
        2
        """
        scripts = self._scripts()
        # In the form in which a content security policy names scripts.
        hashes = [f"'sha256-{_script_hash(script)}'" for script in scripts]
        lead = f'<p class="lead">{html.escape(self.lead)}</p>\n' if self.lead else ""
        # Sections get ids that start with "section", and headings h2, below the title's h1.
        sections = _section_elements(self.sections, "section", 2)
        template = Template(packaged("page.html"))
        text = template.substitute(
            allowed=" ".join(hashes) or "'none'",
            title=html.escape(self.title),
            style=packaged("page.css"),
            lead=lead,
            contents=self._contents(),
            sections=sections,
            scripts=_script_elements(scripts),
        )
        return also_written(text, path)

    def _scripts(self) -> list[str]:
        """Return the JavaScript programs that the page needs: those of its sections, each once, and
        the one that sorts tables; none for a page that is not interactive.
        """
        section_scripts: list[str] = []
        for section in self.sections:
            for script in section.scripts():
                if script not in section_scripts:
                    section_scripts.append(script)
        if not self.interactive:
            if section_scripts:
                raise OptionError("interactive: found False for a page with figures; expected True")
            return []
        return [*section_scripts, packaged("page.js")]

    def _contents(self) -> str:
        """Return an HTML list of links to the sections; nothing for two sections or fewer."""
        if len(self.sections) <= 2:
            return ""
        links = []
        for number, section in enumerate(self.sections, 1):
            links.append(f'<li><a href="#section-{number}">{html.escape(section.title)}</a></li>')
        return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>\n'


def _script_hash(script: str) -> str:
    """Return the base64 text of a script's SHA-256 hash, by which a page's content security policy
    allows the script to run.
    """
    hash_bytes = hashlib.sha256(script.encode()).digest()
    return base64.b64encode(hash_bytes).decode()


def _script_elements(scripts: Sequence[str]) -> str:
    """Return JavaScript programs as HTML script elements, after an element with the colours for
    dark screens, which the programs read.
    """
    if not scripts:
        return ""
    elements = [data_script("dark-colours", dark_counterparts())]
    elements += [f"<script>{script}</script>" for script in scripts]
    return "".join(f"{element}\n" for element in elements)


def _section_elements(sections: Sequence[Section], id_prefix: str, level: int) -> str:
    """Return the HTML of sections, each with its heading and its body.

    Args:
        sections: the sections of a page, or of a group in it.
        id_prefix: what the ids of the sections start with; a number follows.
        level: the level of their headings, 2 for ``<h2>``.
    """
    elements = []
    for number, section in enumerate(sections, 1):
        section_id = f"{id_prefix}-{number}"
        title = html.escape(section.title)
        heading = f'<h{level} id="{section_id}-title">{title}</h{level}>'
        body = section.body(section_id, level)
        opening = f'<section id="{section_id}" aria-labelledby="{section_id}-title">'
        elements.append(f"{opening}\n{heading}\n{body}\n</section>")
    return "\n".join(elements)


def _preformatted(text: str) -> str:
    """Return the HTML of a text that keeps its line ends and spaces, such as a command."""
    return f"<pre><code>{html.escape(text)}</code></pre>"


def _heading_cell(column: Column) -> str:
    """Return the HTML of the heading of a table's column."""
    words = ' class="words"' if column.words else ""
    # Attributes that the script reads: sort from high to low on the first click.
    high_first = " data-high-first" if column.high_first else ""
    title = html.escape(column.title or column.fields[0])
    return f'<th scope="col"{words}{high_first}>{title}</th>'


def _body_cell(column: Column, cell: Cell) -> str:
    """Return the HTML of a cell of a table.

    Its attribute ``data-key`` is the value by which a click on the heading sorts rows; rows without
    one come last.
    """
    attributes = ""
    if column.words:
        is_long = len(cell.text) > _LONG_TEXT
        classes = "words long" if is_long else "words"
        attributes += f' class="{classes}"'
    # The number behind the text: "1,000" sorts as 1000.
    sort_key = cell.values[0]
    if not is_missing(sort_key):
        attributes += f' data-key="{html.escape(str(sort_key))}"'
    text = html.escape(cell.text)
    if cell.style == "bold":
        text = f"<strong>{text}</strong>"
    if cell.marks:
        text += f"<sup>{html.escape(cell.marks)}</sup>"
    return f"<td{attributes}>{text}</td>"


def _plain_figure(figure: Any) -> dict[str, Any]:
    """Return the data and the layout of a Plotly figure as plain values, without its template.

    The template has colours for background, text and grid; the page has its own.

    Args:
        figure: a Plotly figure, or a dictionary with its ``data`` and ``layout``.
    """
    plain_figure: Any = figure
    if hasattr(figure, "to_json"):
        plain_figure = json.loads(figure.to_json())
    if not isinstance(plain_figure, Mapping) or "data" not in plain_figure:
        raise DataError(
            f"figure: found {type(figure).__name__};"
            " expected a Plotly figure, or its data and layout"
        )
    layout = dict(plain_figure.get("layout", {}))
    layout.pop("template", None)
    return {"data": plain_figure["data"], "layout": layout}


def data_script(name: str, value: Any) -> str:
    """Return a script element with JSON in which no HTML parser sees the end of a script or the
    start of a comment.

    Args:
        name: the id of the element.
        value: plain values; no NaN.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise DataError(
            "figure: found NaN or infinity; expected finite numbers, or None for a gap"
        ) from None
    # JSON reads these escapes back as the same characters.
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return f'<script type="application/json" id="{name}">{text}</script>'


def packaged(name: str) -> str:
    """Return a file of this room: a style or a program of pages.

    Args:
        name: its name.
    """
    return files("tautrank.report").joinpath(name).read_text(encoding="utf-8")


# ---- Colours, dashes and shapes of systems: colour-blind readers can tell them apart, on paper and
# on a dark screen

# Chosen by search: far apart for normal, red-blind, green-blind and blue-blind eyes, and against
# the background. Both have the same hue in the same place, so that "the blue one" stays the blue
# one.
LIGHT_COLOURS = (
    "#2290fa",
    "#cc7e07",
    "#047966",
    "#e237ac",
    "#1a080a",
    "#623e00",
    "#491ebe",
    "#171961",
    "#411f09",
    "#7f01fb",
    "#94570c",
)
DARK_COLOURS = (
    "#72a7ff",
    "#f38924",
    "#21dcc8",
    "#bc5ca0",
    "#ffffff",
    "#ffdc2b",
    "#7e54ff",
    "#97a4bf",
    "#e01609",
    "#933fbc",
    "#a38b6f",
)

# Colour is never the only sign: lines differ in their dashes and points in their shapes.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star")


class SystemStyle(NamedTuple):
    """How one system is drawn, in every figure of a page.

    Args:
        colour: the colour on a light background; the page replaces it on a dark one.
        dash: the dashes of lines.
        symbol: the shape of points.
    """

    colour: str
    dash: str
    symbol: str


Styles: TypeAlias = Mapping[str, SystemStyle]
"""The styles of all systems of a page, by name."""


def system_styles(names: Sequence[str]) -> dict[str, SystemStyle]:
    """Return one style per system, by position, so that a system looks the same in all figures of a
    page.

    Colours repeat after eleven systems, with other dashes and shapes.

    Args:
        names: all systems of the page, in the order of its table.

    >>> styles = system_styles(["mse", "xendcg"])
    >>> styles["xendcg"].colour, styles["xendcg"].dash
    ('#cc7e07', 'dash')
    """
    styles = {}
    for number, name in enumerate(names):
        repetition, colour_index = divmod(number, len(LIGHT_COLOURS))
        # Where colours repeat, dashes and shapes are shifted by one.
        shape_index = colour_index + repetition
        styles[name] = SystemStyle(
            colour=LIGHT_COLOURS[colour_index],
            dash=DASHES[shape_index % len(DASHES)],
            symbol=SYMBOLS[shape_index % len(SYMBOLS)],
        )
    return styles


def band_colour(colour: str) -> str:
    """Return a translucent version of a colour, for bands around lines.

    Args:
        colour: a colour as ``#rrggbb``.

    >>> band_colour("#2290fa")
    'rgba(34,144,250,0.13)'
    """
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return f"rgba({red},{green},{blue},0.13)"


def dark_counterparts() -> dict[str, str]:
    """Map every colour of systems and bands on a light background to its counterpart on a dark
    background.

    >>> dark_counterparts()["#2290fa"]
    '#72a7ff'
    """
    dark_by_light = dict(zip(LIGHT_COLOURS, DARK_COLOURS, strict=True))
    for light, dark in zip(LIGHT_COLOURS, DARK_COLOURS, strict=True):
        # Bands have the colour of their line, but translucent.
        dark_by_light[band_colour(light)] = band_colour(dark)
    return dark_by_light
