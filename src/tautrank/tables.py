"""A table that knows its numbers: the same cells as plain text, CSV, LaTeX, Markdown and HTML, and
in a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

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
        width: the least number of characters in plain text.

    >>> Column("ndcg@5", ("ndcg@5", "spread")).fields
    ('ndcg@5', 'spread')
    >>> Column("loss", words=True).fields
    ('loss',)
    """

    title: str
    fields: tuple[str, ...] = ()
    words: bool = False
    high_first: bool = False
    width: int = 0

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
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise DataError(
                    f"rows: found {len(row)} cells in row {number};"
                    f" expected {len(self.columns)}, one per column"
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
        columns = []
        for number, title in enumerate(titles):
            # Rows may be shorter than the headings.
            values = [row[number] for row in rows if number < len(row)]
            are_texts = all(isinstance(value, str) for value in values)
            columns.append(Column(title, words=are_texts))

        cells = []
        for row in rows:
            cells.append(tuple(Cell(_format_value(value), (value,)) for value in row))
        return cls(tuple(columns), tuple(cells), note)

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
        # Each row has the same columns, so the first one tells them all.
        columns = tuple(column for column, _cell in rows[0])
        cells = [tuple(cell for _column, cell in row) for row in rows]
        return cls(columns, tuple(cells), note)

    def to_text(self, *, titles: bool = True) -> str:
        """Return the table in plain text, columns two spaces apart, without its note.

        Args:
            titles: whether the first line has the headings.

        >>> print(Table.of(["loss", "trees"], [["mse", 120], ["xendcg", 80]]).to_text())
        loss    trees
        mse       120
        xendcg     80
        """
        lines = [[cell.text + cell.marks for cell in row] for row in self.rows]
        if titles:
            lines.insert(0, [column.title for column in self.columns])
        widths = []
        for number, column in enumerate(self.columns):
            longest = max((len(line[number]) for line in lines), default=0)
            widths.append(max(column.width, longest))
        return "\n".join(self._text_line(line, widths) for line in lines)

    def _text_line(self, texts: Sequence[str], widths: Sequence[int]) -> str:
        """Return one line of plain text."""
        padded = []
        for column, text, width in zip(self.columns, texts, widths, strict=True):
            # Words are aligned left, numbers right.
            padded.append(text.ljust(width) if column.words else text.rjust(width))
        return "  ".join(padded).rstrip()

    def to_csv(self) -> str:
        """Return all values in full, one line per row after a line of headings; a missing value is
        an empty cell.
        """
        # A column may have several fields in CSV, such as a mean and its interval.
        lines: list[list[Value]] = [[field for column in self.columns for field in column.fields]]
        for row in self.rows:
            values = [value for cell in row for value in cell.values]
            lines.append(["" if is_missing(value) else value for value in values])
        return csv_text(lines)

    def to_latex(self) -> str:
        """Return the table for a paper (booktabs), followed by its note as a comment."""
        head, *rows = [
            _with_minus_signs(" & ".join(texts) + r" \\")
            for texts in self._lines(_LATEX_ESCAPES, r"\textbf{{{}}}", "$^{{{}}}$")
        ]
        alignment = "".join("l" if column.words else "r" for column in self.columns)
        lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.note:
            lines.append("% " + " ".join(self.note.split()))
        return "\n".join([*lines, ""])

    def to_html(self, *, titles: bool = True) -> str:
        """Return the table in plain HTML, followed by its note.

        Args:
            titles: whether the first row has the headings.
        """
        head, *rows = self._lines({}, "{}", " {}")
        return html_table(head if titles else (), rows, self.note)

    def to_markdown(self) -> str:
        """Return the table in Markdown, followed by its note."""
        head, *rows = [
            f"| {' | '.join(texts)} |"
            for texts in self._lines(_MARKDOWN_ESCAPES, "**{}**", "<sup>{}</sup>")
        ]
        lines = [head, "|" + "---|" * len(self.columns), *rows, ""]
        if self.note:
            lines += [self.note, ""]
        return "\n".join(lines)

    def _lines(self, escapes: dict[int, str], bold: str, superscript: str) -> Iterator[list[str]]:
        """Yield the headings and the rows as text, marks included.

        Args:
            escapes: what stands for characters that the form would read.
            bold, superscript: a format for each.
        """
        yield [column.title.translate(escapes) for column in self.columns]
        for row in self.rows:
            texts = []
            for cell in row:
                text = cell.text.translate(escapes)
                if cell.style == "bold":
                    text = bold.format(text)
                if cell.marks:
                    text += superscript.format(cell.marks.translate(escapes))
                texts.append(text)
            yield texts

    # ---- In a terminal

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
        bounds = [self._bounds(number, room) for number in range(len(self.columns))]
        leading = self._leading()
        # Parts are lists of column numbers; a column joins the last part while there is room.
        parts = [leading]
        for number in range(len(leading), len(bounds)):
            # A part gets at least one column besides the leading ones, however narrow the terminal.
            wider = [*parts[-1], number]
            least = sum(bounds[member].least for member in wider)
            if parts[-1] == leading or least <= _room_inside(room, len(wider)):
                parts[-1] = wider
            else:
                parts.append([*leading, number])
        for part in parts:
            part_bounds = {number: bounds[number] for number in part}
            yield self._rich(part_bounds, _room_inside(room, len(part)))

    def _leading(self) -> list[int]:
        """Return the columns that every part of a table begins with, so that it says which rows it
        shows.
        """
        n_leading_words = 0
        for column in self.columns:
            if not column.words:
                break
            n_leading_words += 1
        are_all_words = n_leading_words == len(self.columns)
        if n_leading_words == 0 or are_all_words:
            return [0]
        return list(range(n_leading_words))

    def _bounds(self, number: int, room: int) -> _Bounds:
        """Return the least width of a column in a terminal, with its text wrapped between words,
        and its full width, without wrapping.

        Numbers are not wrapped, headings are.

        Args:
            number: the index of the column.
            room: the width of the terminal, in characters.
        """
        column = self.columns[number]
        cells = [row[number] for row in self.rows]
        # A cell may have several lines.
        lines = "\n".join(cell.text + cell.marks for cell in cells).split("\n")
        all_lines = [column.title, *lines]
        full_width = max(len(line) for line in all_lines)

        wrapped_lines = all_lines if column.words else [column.title]
        words = " ".join(wrapped_lines).split()
        longest_word = max((len(word) for word in words), default=0)
        # A very long word is broken: no column of words needs more than a third of the width.
        least_width = min(longest_word, room // 3)
        if not column.words:
            least_width = max(least_width, *(len(line) for line in lines))
        return _Bounds(least_width, full_width)

    def _rich(self, bounds: dict[int, _Bounds], room: int) -> rich.table.Table:
        """Lay out some of the columns, by number, in the room there is for all of them."""
        # Rich takes a tenth of a second to import: not before something is printed with it.
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        widths = _widths(list(bounds.values()), room)
        for number, width in zip(bounds, widths, strict=True):
            column = self.columns[number]
            justify: Literal["left", "right"] = "left" if column.words else "right"
            # `escape`: Rich reads brackets in headings as styles. "fold" breaks words that are too
            # long.
            table.add_column(escape(column.title), justify=justify, width=width, overflow="fold")
        for row in self.rows:
            cells = [row[number] for number in bounds]
            table.add_row(
                *(
                    Text(cell.text + cell.marks.translate(_SUPERSCRIPT), cell.style)
                    for cell in cells
                )
            )
        return table


class _Bounds(NamedTuple):
    """The least and the full width of a column in a terminal, in characters."""

    least: int
    full: int


def _widths(bounds: Sequence[_Bounds], room: int) -> list[int]:
    """Return widths of columns that fit a terminal: columns wider than a limit are wrapped to it,
    and the limit is the largest one with which all columns fit.

    Args:
        bounds: the least and the full width of each column.
        room: the number of characters for all columns together.
    """
    widest_column = max(bound.full for bound in bounds)
    # A column is never narrower than its least width, even if the table then does not fit.
    for limit in range(widest_column, -1, -1):
        widths = [min(bound.full, max(bound.least, limit)) for bound in bounds]
        if sum(widths) <= room:
            break
    return widths


def _room_inside(room: int, n_columns: int) -> int:
    """Return the room for the columns of a table: three characters between them and one on either
    side are taken.
    """
    return room - 3 * n_columns + 1


def _with_minus_signs(text: str) -> str:
    """Return a row in LaTeX with minus signs before numbers, which are no hyphens."""
    return re.sub(r"(?<!\w)-(?=[.\d])", "$-$", text)


def is_missing(value: Value) -> bool:
    """Return whether there is no value: None, or NaN."""
    return value is None or value != value  # NaN is not equal to itself


def _format_value(value: Value) -> str:
    """Return a value as text for a table: four decimals of a float, nothing for a missing value."""
    if is_missing(value):
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return str(value)


_SUPERSCRIPT = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖᵠʳˢᵗᵘᵛʷˣʸᶻ")
_LATEX_NAMES = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
}
_LATEX_ESCAPES = str.maketrans(
    {character: rf"\text{name}{{}}" for character, name in _LATEX_NAMES.items()}
    | {character: rf"\{character}" for character in "&%#_{}$"}
    | {"±": r"$\pm$", "\n": " "}
)
_MARKDOWN_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", "|": r"\|", "\n": " "})


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
    if is_missing(mean):
        return "-"
    text = f"{mean:.4f}"
    if not is_missing(spread):
        text += _without_zero(f" ±{spread:.4f}", spread)
    return text


def _without_zero(text: str, value: Value) -> str:
    """Return the text of a number without the zero before its decimal point, ".5" for "0.5"; a
    hyphen for a missing value.

    Args:
        text: the number as text, perhaps after a sign or " ±".
        value: the number.
    """
    if is_missing(value):
        return "-"
    return re.sub(r"^( ±|[+-])?0\.", r"\1.", text)
