"""Tables: narrow terminals, escapes of LaTeX and Markdown, and what is refused."""

from __future__ import annotations

import pytest
from rich.console import Console

from tautrank.errors import DataError
from tautrank.report.page import TableSection
from tautrank.report.terminal import as_text
from tautrank.tables import Cell, Column, Table


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_table_loses_no_number_and_breaks_no_name(width):
    names = (
        ("lightgbm:lambdarank", "ndcg-loss2++") if width > 40 else ("lambdarank", "ndcg-loss2++")
    )
    titles = ("ndcg@5", "ndcg@10 (lower is better)", "map", "w/t/l", "trees", "sec.")
    columns = (Column("", ("row",), words=True), Column("loss", words=True), *map(Column, titles))
    rows = [[letter, name] for letter, name in zip("ab", names, strict=True)]
    numbers = [[f"0.{i}{j}12 ±.0{i}{j}" for j in range(len(titles))] for i in range(2)]
    cells = tuple(tuple(map(Cell, words + row)) for words, row in zip(rows, numbers, strict=True))
    lines = as_text(Table(columns, cells), width=width).splitlines()
    assert max(map(len, lines)) <= width
    for name, row in zip(names, numbers, strict=True):
        found = [line for line in lines if name in line]
        assert [number for line in found for number in row if number in line] == row
    assert (sum(names[0] in line for line in lines) == 1) == (width == 120)


def test_a_table_is_cut_into_as_few_tables_as_fit():
    titles = (
        "system",
        "ndcg@10",
        "minus lightgbm:lambdarank",
        "p",
        "detectable",
        "w/t/l",
        "trees",
        "seconds",
    )
    row = (
        "lightgbm:lambdarank",
        "0.5555 ±.0058",
        "+.0015 [-.01, +.01]",
        "1.0000",
        ".0244",
        "73/1/76",
        "77",
        "9.80",
    )
    columns = tuple(Column(title, words=title == "system") for title in titles)
    table = Table(columns, (tuple(map(Cell, row)),))
    first, second = [
        line.split() for line in as_text(table, width=80).splitlines() if "system" in line
    ]
    assert first == ["system", "ndcg@10", "minus", "lightgbm:lambdarank", "p"]
    assert second == ["system", "detectable", "w/t/l", "trees", "seconds"]


def test_every_part_of_a_table_says_which_row_it_shows():
    numbers = Table.of(["trial", *"abcdef"], [[7, *["1234567"] * 6]])
    words = Table.of(["name", *"abcdef"], [["seven", *["long-words"] * 6]])
    for table, name in ((numbers, "7 "), (words, "seven")):
        lines = [
            line.strip()
            for line in as_text(table, width=40).splitlines()
            if "1234567" in line or "long-" in line
        ]
        assert len(lines) > 1
        assert all(line.startswith(name) for line in lines)


def test_the_longest_sentences_fold_first():
    columns = (Column("claim", words=True), Column("test", words=True), Column("trials"))
    row = (
        Cell("xendcg is better than lambdamart on ndcg@10"),
        Cell("not decidable, p .0223"),
        Cell("6"),
    )
    printed = as_text(Table(columns, (row,)), width=60)
    assert "not decidable, p .0223" in printed
    assert "xendcg is better than" in printed
    assert "xendcg is better than lambdamart on ndcg@10" not in printed


def test_latex_and_markdown_escape_what_they_would_read():
    special = "\\ { } $ & # _ % ~ ^ < > ±"
    latex = Table.of(["name", "n"], [[special, 1.5]]).to_latex()
    assert (
        r"\textbackslash{} \{ \} \$ \& \# \_ \% \textasciitilde{} \textasciicircum{} \textless{} "
        in latex
    )
    assert latex.startswith("\\begin{tabular}{lr}\n")
    assert (
        r"arp-loss1 & $-$.05 [$-$1.0, +2.0] & - \\"
        in Table.of("abc", [["arp-loss1", "-.05 [-1.0, +2.0]", "-"]]).to_latex()
    )
    assert "| \\| &lt;b> &amp; | 2 |" in Table.of(["a", "b"], [["| <b> &", 2]]).to_markdown()


def test_rows_that_do_not_fit_their_columns_are_refused():
    with pytest.raises(DataError) as caught:
        Table.of(["a", "b"], [["x", 1], ["y"]])
    assert str(caught.value) == "rows: found 1 cells in row 1; expected 2, one per column"


def test_the_best_value_is_bold_in_every_form():
    table = Table((Column("mean"),), ((Cell("0.5", style="bold"),), (Cell("0.4"),)))
    assert "**0.5**" in table.to_markdown()
    assert r"\textbf{0.5}" in table.to_latex()
    assert "*" not in table.to_csv()
    assert "<strong>0.5</strong>" in TableSection("T", table).body("s", 2)
    console = Console(width=40, force_terminal=True, color_system="standard", highlight=False)
    with console.capture() as captured:
        console.print(table)
    assert "\x1b[1m 0.5" in captured.get()
