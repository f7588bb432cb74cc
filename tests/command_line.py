"""Running a command as its user does, in this process or interrupted in another."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from tautrank.commands.main import main


def run(
    capsys: pytest.CaptureFixture[str], command: str, *arguments: object
) -> tuple[int, str, str]:
    """Return the exit code, and what was written to standard output and to standard error.

    Args:
        capsys: pytest's fixture.
        command: what stands after `tautrank`, split as a shell splits it.
        arguments: further words, taken as they are.
    """
    try:
        main([*shlex.split(command), *map(str, arguments)])
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def interrupt(command: str, line: str) -> str:
    """Start the real command, interrupt it and its workers as a terminal does, and return its
    standard error.

    Args:
        command: what stands after `tautrank`, split as a shell splits it.
        line: how the line of standard error begins after which to press Ctrl-C.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tautrank", *shlex.split(command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    seen = ""
    for written in process.stderr or ():
        seen += written
        if written.startswith(line):
            os.killpg(process.pid, signal.SIGINT)
            break
    seen += process.stderr.read() if process.stderr else ""
    assert process.wait() == 130, seen
    assert "Traceback" not in seen
    return seen
