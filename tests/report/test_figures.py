"""Figures: what curves draw, and whether every reader can tell systems apart."""

from __future__ import annotations

import math
import re
from importlib.resources import files

import numpy as np
import pytest

from tautrank.errors import DataError, OptionError
from tautrank.report import page
from tautrank.report.figures import Curve, curve_figure, validation_curves

TITLES = {"x_title": "x", "y_title": "y"}


def test_validation_curves_are_means_and_deviations_over_trainings():
    rng = np.random.default_rng(0)
    histories = {
        "a": [rng.random(7), rng.random(5), rng.random(9)],
        "b": [rng.random(4)],
        "c": [],
        "one": [[0.5]],
    }
    several, one = validation_curves(histories)
    values = np.array([history[:5] for history in histories["a"]])
    assert several.x.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(several.mean, values.mean(axis=0))
    np.testing.assert_allclose(several.high - several.mean, values.std(axis=0, ddof=1))
    np.testing.assert_allclose(several.mean - several.low, values.std(axis=0, ddof=1))
    assert (one.name, one.low) == ("b", None)


def test_curves_draw_what_they_are_given():
    curve = Curve("a", [1, 2, 3], [0.3, math.nan, 0.1], [0.2, math.nan, 0.0], [0.4, math.nan, 0.2])
    band, line = curve_figure([curve], **TITLES).data
    assert line.y == (0.3, None, 0.1)
    assert (band.x, band.y) == ((1.0, 3.0, 3.0, 1.0), (0.4, 0.2, 0.0, 0.2))


@pytest.mark.parametrize(
    ("values", "error", "sentence"),
    [
        (
            {"x": [1, 2], "mean": [1]},
            DataError,
            "mean of 'a': found length 1; expected 2, one per place",
        ),
        (
            {"x": [1], "mean": [1], "low": [0]},
            OptionError,
            "low, high: found one of them for 'a'; expected both or neither",
        ),
        (
            {"x": ["x"], "mean": [1]},
            DataError,
            "x of 'a': found values of type <U1; expected numbers",
        ),
        ({"x": [[1]], "mean": [1]}, DataError, "x of 'a': found an array of shape (1, 1)"),
    ],
    ids=["too few means", "a band without an end", "no numbers", "a table of numbers"],
)
def test_a_wrong_curve_is_refused(values, error, sentence):
    with pytest.raises(error) as caught:
        Curve("a", **values)
    assert str(caught.value).startswith(sentence)


def test_more_points_than_a_browser_draws_are_refused():
    many = Curve("a", np.zeros(50_001), np.zeros(50_001))
    with pytest.raises(DataError, match="curves: found 50,001 points; expected at most 50,000"):
        curve_figure([many], **TITLES, mode="markers")


# ---- Colours

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision
# deficiency, 2009.
EYES = {
    "normal": np.eye(3),
    "no red": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no green": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no blue": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
TO_CONES.append([0.0883024619, 0.2817188376, 0.6299787005])
TO_OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
]
TO_OKLAB.append([0.0259040371, 0.7827717662, -0.8086757660])


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("colours", [page.LIGHT_COLOURS, page.DARK_COLOURS], ids=["light", "dark"])
def test_systems_are_told_apart_by_every_kind_of_eyes(colours, eyes):
    """Distances in OKLab; the closest two of the Okabe-Ito palette are 0.076 apart for red-blind
    readers.
    """
    seen = np.clip([linear(colour) @ np.transpose(EYES[eyes]) for colour in colours], 0, 1)
    oklab = np.cbrt(seen @ np.transpose(TO_CONES)) @ np.transpose(TO_OKLAB)
    distances = np.linalg.norm(oklab[:, None] - oklab[None], axis=-1)[
        np.triu_indices(len(colours), 1)
    ]
    assert distances.min() > 0.085


CSS = files("tautrank.report").joinpath("page.css").read_text()
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#\w+);", block)) for block in CSS.split("@media")[:2])


def test_everything_stands_out_from_its_background():
    for theme, colours in ((LIGHT, page.LIGHT_COLOURS), (DARK, page.DARK_COLOURS)):
        assert min(contrast(colour, theme["paper"]) for colour in colours) > 3
        for background in ("paper", "shade"):
            assert (
                min(contrast(theme[text], theme[background]) for text in ("ink", "quiet", "accent"))
                > 4.5
            )


def test_styles_differ_beyond_the_colours():
    styles = page.system_styles([str(i) for i in range(40)])
    assert len({(style.colour, style.dash) for style in styles.values()}) == 40
    assert len({(style.colour, style.symbol) for style in styles.values()}) == 40
