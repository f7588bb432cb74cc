"""The README's first snippet runs and prints what the README says it prints, near the top of the
page.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_first_snippet_prints_what_it_says():
    code, printed = re.search(
        r"```python\n(.*?)```\n```\n(.*?)```", README.read_text(), re.DOTALL
    ).groups()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "README.md", "exec"), {})
    assert out.getvalue() == printed


def test_what_it_is_the_commands_and_the_snippet_come_first():
    head = "\n".join(README.read_text().splitlines()[:30])
    assert "make demo" in head
    assert "make test" in head
    assert re.search(r"```python\n.*?```\n```\n.*?```", head, re.DOTALL)


def test_every_link_leads_somewhere():
    for file in [README, *README.parent.glob("docs/**/*.md"), README.parent / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text()):
            if not link.startswith("http"):
                assert (file.parent / link).exists(), f"{file.name}: {link}"
