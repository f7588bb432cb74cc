"""The commands on a real terminal, where bars are drawn: they end well, and leave no traceback."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

import tautrank as tr

COMMANDS = {
    "data info": ["data", "info", "train.txt"],
    "train": ["train", "train.txt", "--valid", "test.txt", "--trees", "3", "--model", "m.taut"],
    "compare": [
        "compare",
        "train.txt",
        "--test",
        "test.txt",
        "-l",
        "mse,listnet",
        "--repeats",
        "1",
        "--trees",
        "3",
    ],
    "study run": [
        "study",
        "run",
        "xe-figure2",
        "--data",
        "train.txt",
        "--repeats",
        "1",
        "--trees",
        "3",
    ],
    "tune": [
        "tune",
        "train.txt",
        "--valid",
        "test.txt",
        "-l",
        "listnet",
        "--trials",
        "2",
        "--trees",
        "3",
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    train, test = tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=1).split(
        [0.6, 0.4]
    )
    tr.data.write_letor(train, folder / "train.txt")
    tr.data.write_letor(test, folder / "test.txt")
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
