"""The pictures of the documents: well-formed SVG, the same bytes every time, and nothing a name
could break.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from bench.drawing import Series, chart

from tautrank.errors import OptionError

LABELS = {"title": "t", "x_label": "x", "y_label": "y"}


def texts(*series: Series, **options: bool) -> set[str]:
    """The texts of a picture."""
    return {
        "".join(e.itertext())
        for e in ET.fromstring(chart(series, **LABELS, **options)).iter()
        if "text" in e.tag
    }


def test_names_are_escaped_and_points_that_cannot_be_drawn_left_out() -> None:
    series = Series("<script>&", [1.0, np.nan, 2.0, -1.0], [1.0, 1.0, np.inf, 1.0])
    assert {"<script>&", "x", "y"} <= texts(series, log_x=True)
    kept = Series("<script>&", [1.0], [1.0])
    assert chart([series], **LABELS, log_x=True) == chart([kept], **LABELS, log_x=True)


def test_a_short_logarithmic_axis_has_ticks_inside_its_decades() -> None:
    assert {"0.2", "0.5", "1"} <= texts(Series("s", [0.14, 1.0], [1, 2], line=True), log_x=True)
    assert {"0.001", "1", "1000"} <= texts(Series("s", [1e-3, 1e4], [1, 2]), log_x=True)
    assert {"10,000", "1,000,000"} <= texts(Series("s", [1e4, 5e6], [1, 2]), log_x=True)


def test_bad_series_are_refused() -> None:
    with pytest.raises(OptionError, match="series s: found 2 x and 1 y"):
        chart([Series("s", [1, 2], [1])], **LABELS)
    with pytest.raises(OptionError, match="no point that can be drawn"):
        chart([Series("s", [0.0], [1.0])], **LABELS, log_x=True)
