"""Charts as SVG: well-formed, every point in its place, nothing a name could break."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from bench.drawing import Series, chart

from tautrank.errors import OptionError

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*series: Series, **options: bool) -> ET.Element:
    return ET.fromstring(chart(series, title="t", x_label="x", y_label="y", **options))


def test_points_stand_in_their_order() -> None:
    picture = drawn(Series("s", [0, 1, 2], [0, 10, 20]))
    marks = picture.findall(f"{SVG}circle")[:3]
    across = [float(mark.get("cx", "nan")) for mark in marks]
    up = [float(mark.get("cy", "nan")) for mark in marks]
    assert across[1] - across[0] == pytest.approx(across[2] - across[1], abs=0.2)
    assert up[0] > up[1] > up[2]  # SVG counts down the page


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios() -> None:
    line = drawn(Series("s", [1, 10, 100], [1, 1, 2], line=True), log_x=True).find(f"{SVG}polyline")
    assert line is not None
    x = [float(point.split(",")[0]) for point in line.get("points", "").split()]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)


def test_a_short_logarithmic_axis_has_ticks_inside_its_decades() -> None:
    texts = [text.text for text in drawn(Series("s", [0.14, 1.0], [1, 2]), log_x=True).findall(f"{SVG}text")]
    assert {"0.2", "0.5", "1"} <= set(texts)


def test_ticks_are_round_numbers_inside_the_picture() -> None:
    picture = drawn(Series("s", np.linspace(0.013, 0.942, 20), np.linspace(-3, 7, 20)))
    texts = [text.text for text in picture.findall(f"{SVG}text")]
    assert {"0.2", "0.4", "0.6", "0.8"} <= set(texts)
    assert {"-2", "0", "2", "4", "6"} <= set(texts)


def test_names_are_escaped_and_points_that_cannot_be_drawn_left_out() -> None:
    picture = drawn(Series("<script>&", [1.0, np.nan, 2.0, -1.0], [1.0, 1.0, np.inf, 1.0]), log_x=True)
    assert "<script>&" in [text.text for text in picture.findall(f"{SVG}text")]
    assert len(picture.findall(f"{SVG}circle")) == 1 + 2  # and two in the legend


def test_bad_series_are_said() -> None:
    with pytest.raises(OptionError, match="series s: found 2 x and 1 y"):
        drawn(Series("s", [1, 2], [1]))
    with pytest.raises(OptionError, match="no point that can be drawn"):
        drawn(Series("s", [0.0], [1.0]), log_x=True)
