"""Colours, dashes and shapes of systems: colour-blind readers can tell them apart, on paper and on a dark screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

# Chosen by search: far apart for normal, red-blind, green-blind and blue-blind eyes, and against the background. Both
# have the same hue in the same place, so that "the blue one" stays the blue one.
LIGHT_COLOURS = (
    "#2290fa", "#cc7e07", "#047966", "#e237ac", "#1a080a", "#623e00", "#491ebe",
    "#171961", "#411f09", "#7f01fb", "#94570c",
)  # fmt: skip
DARK_COLOURS = (
    "#72a7ff", "#f38924", "#21dcc8", "#bc5ca0", "#ffffff", "#ffdc2b", "#7e54ff",
    "#97a4bf", "#e01609", "#933fbc", "#a38b6f",
)  # fmt: skip

# Colour is never the only sign: lines differ in their dashes and points in their shapes.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star")

BAND_OPACITY = 0.13


@dataclass(frozen=True)
class SystemStyle:
    """How one system is drawn, in every figure of a page.

    Args:
        colour: the colour on a light background; the page replaces it on a dark one.
        dash: the dashes of lines.
        symbol: the shape of points.
    """

    colour: str
    dash: str
    symbol: str


Styles: TypeAlias = Mapping[str, SystemStyle]
"""The styles of all systems of a page, by name."""


def system_styles(names: Sequence[str]) -> dict[str, SystemStyle]:
    """Return one style per system, by position, so that a system looks the same in all figures of a page.

    Colours repeat after eleven systems, with other dashes and shapes.

    Args:
        names: all systems of the page, in the order of its table.

    >>> styles = system_styles(["mse", "xendcg"])
    >>> styles["xendcg"].colour, styles["xendcg"].dash
    ('#cc7e07', 'dash')
    """
    styles = {}
    for i, name in enumerate(names):
        again, place = divmod(i, len(LIGHT_COLOURS))
        dash, symbol = (place + again) % len(DASHES), (place + again) % len(SYMBOLS)
        styles[name] = SystemStyle(LIGHT_COLOURS[place], DASHES[dash], SYMBOLS[symbol])
    return styles


def band_colour(colour: str) -> str:
    """Return a translucent version of a colour, for bands around lines.

    Args:
        colour: a colour as ``#rrggbb``.

    >>> band_colour("#2290fa")
    'rgba(34,144,250,0.13)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{BAND_OPACITY})"


def dark_counterparts() -> dict[str, str]:
    """Map every colour of systems and bands on a light background to its counterpart on a dark background.

    >>> dark_counterparts()["#2290fa"]
    '#72a7ff'
    """
    pairs = dict(zip(LIGHT_COLOURS, DARK_COLOURS, strict=True))
    return pairs | {band_colour(light): band_colour(dark) for light, dark in pairs.items()}
