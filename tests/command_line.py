"""Running a command as its user does, in this process."""

from __future__ import annotations

import pytest

from tautrank.commands.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """The exit code, and what was written to standard output and to standard error."""
    try:
        main([str(argument) for argument in arguments])
        code = 0
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 0
    captured = capsys.readouterr()
    return code, captured.out, captured.err
