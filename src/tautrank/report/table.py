"""A table that knows its numbers: the same cells as CSV, LaTeX, Markdown, in a terminal and, in a page, HTML."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tautrank.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

Value: TypeAlias = str | int | float | None
"""What a cell of a CSV file holds; None is an empty one."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        title: its heading.
        fields: the columns it becomes in CSV, where one cell holds several values (a mean, its spread, ...); by default
            one of the same title.
        words: whether it holds text, which stands on the left; numbers stand on the right.
        high_first: whether a click on the heading shows the highest values first; lowest first if not.

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
        text: what a person reads.
        values: what it says in full, one for each field of its column; the first one sorts. By default the text.
        marks: set as a superscript behind the text.

    >>> Cell("0.4512 ±.013", (0.451234, 0.0131, "ac"), marks="ac").sort_key
    0.451234
    """

    text: str
    values: tuple[Value, ...] = ()
    marks: str = ""

    def __post_init__(self) -> None:
        if not self.values:
            object.__setattr__(self, "values", (self.text,))

    @property
    def sort_key(self) -> Value:
        """What sorts the cell among those of its column; None, for a missing value, comes last."""
        first = self.values[0]
        return None if isinstance(first, float) and math.isnan(first) else first


@dataclass(frozen=True)
class ReportTable:
    """Columns and rows, and how to read them.

    Args:
        columns: one a column.
        rows: cells, as many a row as there are columns, with a value for each of the column's fields.
        note: how to read the table.

    >>> table = ReportTable((Column("loss", words=True), Column("ndcg@5")), ((Cell("a_b"), Cell("0.50", (0.5,), "a")),))
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
            if len(row) != len(self.columns):
                raise DataError(f"rows: found {len(row)} cells in row {i}; expected {len(self.columns)}, one a column")
            for column, cell in zip(self.columns, row, strict=True):
                if len(cell.values) != len(column.fields):
                    raise DataError(
                        f"rows: found {len(cell.values)} values in column '{column.title}' of row {i}; expected "
                        f"{len(column.fields)}, one for each of its fields"
                    )

    @classmethod
    def of(cls, titles: Sequence[str], rows: Sequence[Sequence[Value]], note: str = "") -> ReportTable:
        """Make a table of plain values; a column of nothing but text stands on the left.

        Args:
            titles: the headings.
            rows: one value a column.
            note: how to read the table.

        >>> print(ReportTable.of(["loss", "trees"], [["mse", 120], ["xendcg", None]]).to_csv())
        loss,trees
        mse,120
        xendcg,
        """
        words = [all(isinstance(row[i], str) for row in rows if i < len(row)) for i in range(len(titles))]
        columns = tuple(Column(title, words=word) for title, word in zip(titles, words, strict=True))
        return cls(columns, tuple(tuple(Cell(_shown(value), (value,)) for value in row) for row in rows), note)

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[tuple[Column, Cell]]], note: str = "") -> ReportTable:
        """Make a table of rows that bring their columns along, the same ones in each.

        Args:
            rows: cells with their columns; at least one row.
            note: how to read the table.

        >>> loss, trees = Column("loss", words=True), Column("trees")
        >>> print(ReportTable.of_rows([[(loss, Cell("mse")), (trees, Cell("120"))]]).to_csv())
        loss,trees
        mse,120
        """
        columns = tuple(column for column, _ in rows[0])
        return cls(columns, tuple(tuple(cell for _, cell in row) for row in rows), note)

    def to_csv(self) -> str:
        """All values in full, a line a row, under a line of headings; a missing value is an empty cell."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([field for column in self.columns for field in column.fields])
        for row in self.rows:
            writer.writerow(
                ["" if v is None or v != v else v for cell in row for v in cell.values]  # NaN is not itself
            )
        return out.getvalue()

    def to_latex(self) -> str:
        """The table for a paper (booktabs), its note in a comment behind it."""
        lines = [
            r"\begin{tabular}{" + "".join("l" if column.words else "r" for column in self.columns) + "}",
            r"\toprule",
            " & ".join(_latex(column.title) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = (_latex(cell.text) + (f"$^{{{_latex(cell.marks)}}}$" if cell.marks else "") for cell in row)
            lines.append(" & ".join(cells) + r" \\")
        note = ["% " + " ".join(self.note.split())] if self.note else []
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *note, ""])

    def to_markdown(self) -> str:
        """The table in Markdown, followed by its note."""
        lines = [
            "| " + " | ".join(_markdown(column.title) for column in self.columns) + " |",
            "|" + "---|" * len(self.columns),
        ]
        for row in self.rows:
            cells = (
                _markdown(cell.text) + (f"<sup>{_markdown(cell.marks)}</sup>" if cell.marks else "") for cell in row
            )
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """What `rich.print` prints: sentences take several lines in a narrow terminal, a name or a number does not.

        Columns that find no room follow in tables of their own, behind the words that the rows begin with.
        """
        room, every = options.max_width, range(len(self.columns))
        bounds = [self._widths(i, room) for i in every]
        leading = list(itertools.takewhile(lambda i: self.columns[i].words, every))
        others = every[len(leading) :]
        for tables in range(1, len(others) + 1):
            most = math.ceil(len(others) / tables)
            parts = [[*leading, *others[i : i + most]] for i in range(0, len(others), most)]
            if all(sum(bounds[i][0] for i in part) <= _inside(room, len(part)) for part in parts):
                break
        for part in parts if others else [leading]:
            yield self._rich({i: bounds[i] for i in part}, _inside(room, len(part)))

    def _widths(self, i: int, room: int) -> tuple[int, int]:
        """The least and the full width of a column in a terminal."""
        column, texts = self.columns[i], [row[i].text + row[i].marks for row in self.rows]
        breakable = [column.title, *(texts if column.words else [])]
        words = max(len(word) for text in breakable for word in (text.split() or [""]))
        whole = 0 if column.words else max(map(len, texts), default=0)
        return max(min(words, room // 3), whole), max(map(len, [column.title, *texts]))

    def _rich(self, shown: dict[int, tuple[int, int]], room: int) -> Table:
        """Some of the columns, each with its least and its full width, in so much room for all."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        # The widest columns are the ones to fold, to the same width where several are.
        for most in range(max(full for _, full in shown.values()), -1, -1):
            widths = [min(full, max(least, most)) for least, full in shown.values()]
            if sum(widths) <= room:
                break
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, width in zip(shown, widths, strict=True):
            justify: Literal["left", "right"] = "left" if self.columns[i].words else "right"
            table.add_column(escape(self.columns[i].title), justify=justify, width=width, overflow="fold")
        for row in self.rows:
            table.add_row(*(escape(row[i].text + row[i].marks.translate(_SUPERSCRIPT)) for i in shown))
        return table


def _inside(room: int, columns: int) -> int:
    """What a terminal has for the columns of a table, three characters between them and one on either side."""
    return room - 3 * columns + 1


def _shown(value: Value) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


_SUPERSCRIPT = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖᵠʳˢᵗᵘᵛʷˣʸᶻ")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "\n": " ",
} | {c: "\\" + c for c in "&%#_{}$"}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _markdown(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", r"\|").replace("\n", " ")
