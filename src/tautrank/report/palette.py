"""Colours of a page and of its systems: told apart by colour-blind readers, on paper and on a dark screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LIGHT_THEME = {
    "paper": "#ffffff",
    "ink": "#1c1f24",
    "quiet": "#565d66",
    "line": "#d5d9df",
    "shade": "#f3f5f8",
    "accent": "#1258a8",
}
"""Colours of a page by what they are for, on a light screen and in print."""

DARK_THEME = {
    "paper": "#14171c",
    "ink": "#e8eaee",
    "quiet": "#a3abb6",
    "line": "#39404a",
    "shade": "#1e232a",
    "accent": "#8ab8ff",
}
"""The same on a dark screen."""

# Chosen by search: far apart for normal, red-blind, green-blind and blue-blind eyes, and against the paper. The hue
# of a place is the same in both, so that "the blue one" stays the blue one.
LIGHT_COLOURS = ("#2290fa", "#cc7e07", "#047966", "#e237ac", "#1a080a", "#623e00", "#491ebe")
DARK_COLOURS = ("#72a7ff", "#f38924", "#21dcc8", "#bc5ca0", "#ffffff", "#ffdc2b", "#7e54ff")

# Colour is never the only sign: lines differ in their dashes and points in their shapes.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star")

BAND_OPACITY = 0.13


@dataclass(frozen=True)
class SystemStyle:
    """How one system is drawn, in every figure of a page.

    Args:
        colour: on a light background; a page exchanges it on a dark one.
        dash: of its lines.
        symbol: of its points.
    """

    colour: str
    dash: str
    symbol: str


def system_styles(names: Sequence[str]) -> dict[str, SystemStyle]:
    """One style a system, by its place: a page that gives all its figures the same names draws a system alike in all.

    Colours repeat after seven systems, with other dashes and shapes.

    Args:
        names: of all systems of the page, in the order of its table.

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
    """A colour that lets what lies behind it through, for bands around lines.

    Args:
        colour: as ``#rrggbb``.

    >>> band_colour("#2290fa")
    'rgba(34,144,250,0.13)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{BAND_OPACITY})"


def dark_counterparts() -> dict[str, str]:
    """For every colour of a system on a light background, the one on a dark background, bands included.

    >>> dark_counterparts()["#2290fa"]
    '#72a7ff'
    """
    pairs = dict(zip(LIGHT_COLOURS, DARK_COLOURS, strict=True))
    return pairs | {band_colour(light): band_colour(dark) for light, dark in pairs.items()}
