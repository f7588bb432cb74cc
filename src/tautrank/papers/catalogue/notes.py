"""The notes of the studies, which are prose and stand in `notes.md`."""

from __future__ import annotations

import functools
import re
from importlib.resources import files


def note(study: str) -> str:
    """Return what a paper leaves open and how the study settles it, as one paragraph.

    Args:
        study: its name, a heading of `notes.md`. A heading in braces stands for the text below that heading.

    >>> note("ties")
    'Ties count as the worst case here; RankLib and LightGBM take the order of the rows.'
    """
    return re.sub(r"\{(.*?)\}", lambda found: note(found[1]), _paragraphs()[study])


@functools.cache
def _paragraphs() -> dict[str, str]:
    text = files("tautrank.papers.catalogue").joinpath("notes.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^##? (.*)", text, flags=re.MULTILINE)
    return {name: " ".join(content.split()) for name, content in zip(parts[::2], parts[1::2], strict=True)}
