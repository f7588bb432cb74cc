"""docs/metrics.md has every metric and every preset, and every name in it parses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tautrank.metrics import METRICS, TOOLS, metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_line(name):
    assert re.search(rf"^\| `{name}` \|", TEXT, re.MULTILINE)


def test_every_preset_has_its_line_with_its_metrics():
    for tool, rules in TOOLS.items():
        line = re.search(rf"^\| `{tool}` \| `([a-z0-9 -]+)`", TEXT, re.MULTILINE)
        assert line is not None
        assert set(line[1].split()) == set(rules.always)


def test_names_of_others_parse():
    start = TEXT.index("Names that others use")
    typed = re.findall(r"`([^`]+)`", TEXT[start : TEXT.index("They print as", start)])
    assert len(typed) > 15
    for text in typed:
        metric(text)
