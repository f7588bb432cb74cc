"""docs/metrics.md has every metric, and every metric text in it parses and prints as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tautrank.metrics import METRICS, metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_line(name):
    assert re.search(rf"^\| `{name}` \|", TEXT, re.MULTILINE)


def test_what_to_type_parses():
    table = TEXT[TEXT.index("To reproduce another tool's number") :]
    typed = re.findall(r"`([a-z-]+\([a-z0-9=,/]+\)(?:@\d+)?)`", table)
    assert len(typed) > 10
    assert [str(metric(text)) for text in typed] == typed
