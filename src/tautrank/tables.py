"""A table that knows its numbers: the same cells as CSV, LaTeX, Markdown, in a terminal and on an
HTML page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tautrank.errors import DataError
from tautrank.files import csv_text
from tautrank.notebooks import html_table

if TYPE_CHECKING:
    import rich.table
    from rich.console import Console, ConsoleOptions

Value: TypeAlias = str | int | float | None
"""What a cell of a CSV file holds; None is an empty cell."""
Titled: TypeAlias = "tuple[Column, Cell]"
"""A cell with its column, as `Table.of_rows` takes it."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: the heading.
        fields: names of the CSV columns it becomes, where a cell holds several values (a mean, its
            spread, ...); by default one column of the same title.
        words: whether it holds text, which is aligned left; numbers are aligned right.
        high_first: whether the first click on the heading shows the highest values first.

    >>> Column("ndcg@5", ("ndcg@5", "spread")).fields
    ('ndcg@5', 'spread')
    >>> Column("loss", words=True).fields
    ('loss',)
    """

    title: str
    fields: tuple[str, ...] = ()
    words: bool = False
    high_first: bool = False

    def __post_init__(self) -> None:
        if not self.fields:
            object.__setattr__(self, "fields", (self.title,))


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Args:
        text: the text a person reads.
        values: the values in full, one per field of the column; the first one sorts. By default the
            text.
        marks: a superscript after the text.
        style: ``"bold"``, in all forms; ``"green"`` or ``"red"``, in a terminal.

    >>> Cell("0.4512 ±.013", (0.451234, 0.0131, "ac"), marks="ac").values[0]
    0.451234
    """

    text: str
    values: tuple[Value, ...] = ()
    marks: str = ""
    style: str = ""

    def __post_init__(self) -> None:
        if not self.values:
            object.__setattr__(self, "values", (self.text,))


@dataclass(frozen=True)
class Table:
    """Columns and rows, and a note on how to read them.

    Args:
        columns: the columns.
        rows: one cell per column in each row, with one value per field of the column.
        note: how to read the table.

    >>> table = Table((Column("loss", words=True), Column("ndcg@5")), ((Cell("a_b"), Cell("0.50", (0.5,), "a")),))
    >>> print(table.to_csv())
    loss,ndcg@5
    a_b,0.5
    >>> print(table.to_markdown())
    | loss | ndcg@5 |
    |---|---|
    | a_b | 0.50<sup>a</sup> |
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            found, expected = len(row), len(self.columns)
            if found != expected:
                raise DataError(
                    f"rows: found {found} cells in row {i}; expected {expected}, one per column"
                )

    @classmethod
    def of(cls, titles: Sequence[str], rows: Sequence[Sequence[Value]], note: str = "") -> Table:
        """Make a table of plain values; a column of nothing but text is aligned left.

        Args:
            titles: the headings.
            rows: one value per column in each row.
            note: how to read the table.

        >>> print(Table.of(["loss", "trees"], [["mse", 120], ["xendcg", None]]).to_csv())
        loss,trees
        mse,120
        xendcg,
        """
        words = [
            all(isinstance(row[i], str) for row in rows if i < len(row)) for i in range(len(titles))
        ]
        columns = tuple(
            Column(title, words=word) for title, word in zip(titles, words, strict=True)
        )
        return cls(
            columns,
            tuple(tuple(Cell(_format_value(value), (value,)) for value in row) for row in rows),
            note,
        )

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[Titled]], note: str = "") -> Table:
        """Make a table of rows that bring their columns along, the same ones in each.

        Args:
            rows: pairs of column and cell; at least one row.
            note: how to read the table.

        >>> loss, trees = Column("loss", words=True), Column("trees")
        >>> print(Table.of_rows([[(loss, Cell("mse")), (trees, Cell("120"))]]).to_csv())
        loss,trees
        mse,120
        """
        columns = tuple(column for column, _ in rows[0])
        return cls(columns, tuple(tuple(cell for _, cell in row) for row in rows), note)

    def to_csv(self) -> str:
        """Return all values in full, one line per row after a line of headings; a missing value is
        an empty cell.
        """
        head = [field for column in self.columns for field in column.fields]
        rows = (
            ["" if missing(value) else value for cell in row for value in cell.values]
            for row in self.rows
        )
        return csv_text([head, *rows])

    def to_latex(self) -> str:
        """Return the table for a paper (booktabs), followed by its note as a comment."""
        given = (
            " & ".join(row) + r" \\" for row in self._lines(_LATEX, r"\textbf{{{}}}", "$^{{{}}}$")
        )
        head, *rows = (
            re.sub(r"(?<!\w)-(?=[.\d])", "$-$", row) for row in given
        )  # a minus sign is no hyphen
        columns = (
            r"\begin{tabular}{"
            + "".join("l" if column.words else "r" for column in self.columns)
            + "}"
        )
        lines = [columns, r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*lines, *(["% " + " ".join(self.note.split())] if self.note else []), ""])

    def to_html(self) -> str:
        """Return the table in plain HTML, followed by its note."""
        head, *rows = self._lines({}, "{}", " {}")
        return html_table(head, rows, self.note)

    def to_markdown(self) -> str:
        """Return the table in Markdown, followed by its note."""
        head, *rows = (
            "| " + " | ".join(row) + " |"
            for row in self._lines(_MARKDOWN, "**{}**", "<sup>{}</sup>")
        )
        lines = [head, "|" + "---|" * len(self.columns), *rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def _lines(self, escapes: dict[int, str], bold: str, superscript: str) -> Iterator[list[str]]:
        """The headings and the rows as text, marks included."""
        yield [column.title.translate(escapes) for column in self.columns]
        for row in self.rows:
            texts = (
                (bold if c.style == "bold" else "{}").format(c.text.translate(escapes)) for c in row
            )
            marks = (superscript.format(c.marks.translate(escapes)) if c.marks else "" for c in row)
            yield [text + mark for text, mark in zip(texts, marks, strict=True)]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[rich.table.Table]:
        """Print the table with Rich: in a narrow terminal sentences are wrapped, names and numbers
        are not.

        Columns that do not fit follow in tables of their own, each beginning with the columns of
        words that the table begins with; if it begins with numbers, or has nothing but words, with
        the first column.
        """
        room = options.max_width
        bounds = [self._widths(i, room) for i in range(len(self.columns))]
        leading = [*range(len(bounds))][
            : next((i for i, each in enumerate(self.columns) if not each.words), 0) or 1
        ]
        parts = [leading]
        for i in range(len(leading), len(bounds)):
            wider = [*parts[-1], i]
            if parts[-1] == leading or sum(bounds[j][0] for j in wider) <= _inside(
                room, len(wider)
            ):
                parts[-1] = wider
            else:
                parts.append([*leading, i])
        for part in parts:
            yield self._rich({i: bounds[i] for i in part}, _inside(room, len(part)))

    def _widths(self, i: int, room: int) -> tuple[int, int]:
        """The least and the full width of a column in a terminal."""
        column, texts = (
            self.columns[i],
            "\n".join(row[i].text + row[i].marks for row in self.rows).split("\n"),
        )
        breakable = [column.title, *(texts if column.words else [])]
        words = max(len(word) for text in breakable for word in (text.split() or [""]))
        whole = 0 if column.words else max(map(len, texts), default=0)
        return max(min(words, room // 3), whole), max(map(len, [column.title, *texts]))

    def _rich(self, shown: dict[int, tuple[int, int]], room: int) -> rich.table.Table:
        """Lay some of the columns out, given the least and the full width of each, in the room
        there is for all.
        """
        # Rich takes a tenth of a second to import: not before something is printed with it.
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable
        from rich.text import Text

        # The widest columns are wrapped, to the same width where there are several.
        for most in range(max(full for _, full in shown.values()), -1, -1):
            widths = [min(full, max(least, most)) for least, full in shown.values()]
            if sum(widths) <= room:
                break
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, width in zip(shown, widths, strict=True):
            justify: Literal["left", "right"] = "left" if self.columns[i].words else "right"
            table.add_column(
                escape(self.columns[i].title), justify=justify, width=width, overflow="fold"
            )
        for row in self.rows:
            texts = (
                Text(row[i].text + row[i].marks.translate(_SUPERSCRIPT), style=row[i].style)
                for i in shown
            )
            table.add_row(*texts)
        return table


def _inside(room: int, columns: int) -> int:
    """The room for the columns of a table: three characters between them and one on either side are
    taken.
    """
    return room - 3 * columns + 1


def missing(value: Value) -> bool:
    """Return whether there is no value: None, or NaN."""
    return value is None or value != value  # NaN is not equal to itself


def _format_value(value: Value) -> str:
    if missing(value):
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


_SUPERSCRIPT = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖᵠʳˢᵗᵘᵛʷˣʸᶻ")
_TEXT = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater"}
_LATEX = str.maketrans(
    {character: rf"\text{name}{{}}" for character, name in _TEXT.items()}
    | {character: rf"\{character}" for character in "&%#_{}$"}
    | {"±": r"$\pm$", "\n": " "}
)
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", "|": r"\|", "\n": " "})


# ---- Cells that several tables have: text, numbers, means with deviations, p-values


def text_cell(title: str, text: str) -> Titled:
    """Return a cell of a column of text.

    Args:
        title: the heading.
        text: the text.
    """
    return Column(title, words=True), Cell(text)


def number_cell(title: str, value: float, text: str, *, high_first: bool = True) -> Titled:
    """Return a cell of a column of numbers.

    Args:
        title: the heading.
        value: the number in full.
        text: the number as a person reads it.
        high_first: whether the first click on the heading shows the highest values first.
    """
    return Column(title, high_first=high_first), Cell(text, (value,))


def p_cell(title: str, p: float, text: str | None = None) -> Titled:
    """Return a cell with a p-value.

    Args:
        title: the heading.
        p: the p-value.
        text: what to show in its place.
    """
    return number_cell(title, p, p_text(p) if text is None else text, high_first=False)


def p_text(p: float) -> str:
    """Format a p-value for a table.

    >>> p_text(0.01234), p_text(3e-5), p_text(float("nan"))
    ('.0123', '<.0001', '-')
    """
    return "<.0001" if p < 1e-4 else _without_zero(f"{p:.4f}", p)


def difference_text(value: float) -> str:
    """Format a difference for a table.

    >>> difference_text(0.0123), difference_text(-1.5), difference_text(float("nan"))
    ('+.0123', '-1.5000', '-')
    """
    return _without_zero(f"{value:+.4f}", value)


def mean_text(mean: Value, spread: Value) -> str:
    """Format a mean and its standard deviation for a table.

    >>> mean_text(0.5, 0.0123), mean_text(0.5, float("nan")), mean_text(None, None)
    ('0.5000 ±.0123', '0.5000', '-')
    """
    if missing(mean):
        return "-"
    return f"{mean:.4f}" + ("" if missing(spread) else _without_zero(f" ±{spread:.4f}", spread))


def _without_zero(text: str, value: Value) -> str:
    """Drop the zero before the decimal point, which every share has."""
    return "-" if missing(value) else re.sub(r"^( ±|[+-])?0\.", r"\1.", text)
