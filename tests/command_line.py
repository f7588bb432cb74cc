"""Running a command as its user does, in this process."""

from __future__ import annotations

import shlex

import pytest

from tautrank.commands.main import main


def run(capsys: pytest.CaptureFixture[str], command: str, *arguments: object) -> tuple[int, str, str]:
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
