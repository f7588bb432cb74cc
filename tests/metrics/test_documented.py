"""docs/metrics.md runs, and every metric text in it is one that parses and prints as written."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tautrank.metrics import METRICS, metric

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_examples_run():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_its_line(name):
    assert re.search(rf"^\| `{name}` \|", TEXT, re.MULTILINE)


def test_what_to_type_parses():
    table = TEXT[TEXT.index("To reproduce another tool's number") :]
    typed = re.findall(r"`([a-z-]+\([a-z0-9=,/]+\)(?:@\d+)?)`", table)
    assert len(typed) > 10
    assert [str(metric(text)) for text in typed] == typed
