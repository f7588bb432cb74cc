"""The commands on a real terminal, where bars are drawn: they end well, and leave no traceback; and narrow tables."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

import tautrank as tr
from tautrank.report.table import Cell, Column, ReportTable
from tautrank.report.terminal import as_text

COMMANDS = {
    "data info": ["data", "info", "train.txt"],
    "train": ["train", "train.txt", "--valid", "test.txt", "--trees", "3", "--model", "m.taut"],
    "compare": ["compare", "train.txt", "--test", "test.txt", "-l", "mse,listnet", "--repeats", "1", "--trees", "3"],
    "study run": ["study", "run", "xe-figure2", "--data", "train.txt", "--trials", "1", "--trees", "3"],
    "tune": ["tune", "train.txt", "--valid", "test.txt", "-l", "listnet", "--trials", "2", "--trees", "3"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    train, test = tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=1).split([0.6, 0.4])
    tr.write_letor(train, folder / "train.txt")
    tr.write_letor(test, folder / "test.txt")
    return folder


def on_a_terminal(command: list[str], folder) -> tuple[int, str]:
    """Run a command with all three streams on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tautrank.commands.main", *command],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # the other end is closed: the command has ended
        pass
    os.close(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_draw_on_a_terminal(command, folder):
    code, seen = on_a_terminal(command, folder)
    assert "Traceback" not in seen
    assert code == 0, seen
    if command[0] != "data":
        assert "━" in seen  # a bar


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_table_loses_no_number_and_breaks_no_name(width):
    names = ("lightgbm:lambdarank", "ndcg-loss2++") if width > 40 else ("lambdarank", "ndcg-loss2++")
    titles = ("ndcg@5", "ndcg@10 (lower is better)", "map", "w/t/l", "trees", "sec.")
    columns = (Column("", ("row",), words=True), Column("loss", words=True), *map(Column, titles))
    rows = [[letter, name] for letter, name in zip("ab", names, strict=True)]
    numbers = [[f"0.{i}{j}12 ±.0{i}{j}" for j in range(len(titles))] for i in range(2)]
    cells = tuple(tuple(map(Cell, words + row)) for words, row in zip(rows, numbers, strict=True))
    lines = as_text(ReportTable(columns, cells), width=width).splitlines()
    assert max(map(len, lines)) <= width
    for name, row in zip(names, numbers, strict=True):
        found = [line for line in lines if name in line]
        assert [number for line in found for number in row if number in line] == row
    in_each = [sum(number in line for number in numbers[0]) for line in lines if names[0] in line]
    assert len(set(in_each)) == 1  # no column is left over alone
    assert (len(in_each) == 1) == (width == 120)


def test_the_longest_sentences_fold_first():
    columns = (Column("claim", words=True), Column("test", words=True), Column("trials"))
    row = (Cell("xendcg is better than lambdamart on ndcg@10"), Cell("not decidable, p .0223"), Cell("6"))
    printed = as_text(ReportTable(columns, (row,)), width=60)
    assert "not decidable, p .0223" in printed
    assert "xendcg is better than" in printed
    assert "xendcg is better than lambdamart on ndcg@10" not in printed
    evenly = as_text(ReportTable(columns, (row,)), width=46).splitlines()[3:6]
    assert [line.split("  ")[0].strip() for line in evenly] == ["xendcg is better", "than lambdamart", "on ndcg@10"]
