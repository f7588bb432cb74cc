"""Charts as plain SVG text: the pictures of the documents, without a plotting library."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.data_sets import ROOT
from tautrank.errors import OptionError
from tautrank.files import write_whole

F64 = NDArray[np.float64]

# Told apart by colour-blind readers and in grey; a series is also told by its marks.
_COLOURS = ("#2290fa", "#cc7e07", "#047966", "#e237ac", "#491ebe", "#623e00")
_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 20, 55
_LEGEND_LINE = 20
_TICKS = 6
_FEW_DECADES = 2.5
# Single points must be found among clouds of hundreds.
_FEW_POINTS, _LARGE, _SMALL = 50, 4, 2


@dataclass(frozen=True, eq=False)
class Series:
    """Points or a line of a chart.

    Args:
        name: for the legend.
        x: one number a point.
        y: one number a point; points that are not finite are left out.
        line: whether to join the points, instead of marking each.

    >>> Series("twice", [1, 2], [2, 4]).line
    False
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    line: bool = False


def chart(
    series: Sequence[Series], *, title: str, x_label: str, y_label: str, log_x: bool = False, log_y: bool = False
) -> str:
    """A chart of several series as SVG text, readable on light and dark backgrounds.

    Args:
        series: drawn in this order, each in its colour.
        title: read aloud by screen readers; not drawn.
        x_label: below the horizontal axis.
        y_label: beside the vertical axis.
        log_x: a logarithmic horizontal axis; numbers of 0 and below are left out.
        log_y: the same for the vertical one.

    >>> text = chart([Series("a line", [0, 1], [0, 1], line=True)], title="t", x_label="x", y_label="y")
    >>> text.startswith("<svg"), text.count("<polyline")  # the line, and one in the legend
    (True, 2)
    """
    drawn = [(one, *_points(one, log_x, log_y)) for one in series]
    shown = [(x, y) for _, x, y in drawn if x.size]
    if not shown:
        raise OptionError("series: found no point that can be drawn; expected at least one")
    across = _Axis.around(np.concatenate([x for x, _ in shown]), log_x, _LEFT, _WIDTH - _RIGHT)
    bottom = _HEIGHT - _BOTTOM
    up = _Axis.around(np.concatenate([y for _, y in shown]), log_y, bottom, _TOP)
    height = _HEIGHT + _LEGEND_LINE * len(series)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" role="img" aria-label="{html.escape(title, quote=True)}">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for value, at in across.ticks():
        parts.append(f'<line x1="{at:.1f}" y1="{_TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#e3e6ea"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#333">{value}</text>')
    for value, at in up.ticks():
        parts.append(f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}" stroke="#e3e6ea"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#333">{value}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle" fill="#111">{html.escape(x_label)}</text>'
    )
    side = (_TOP + bottom) / 2
    parts.append(
        f'<text x="16" y="{side}" text-anchor="middle" transform="rotate(-90 16 {side})" fill="#111">'
        f"{html.escape(y_label)}</text>"
    )
    for i, (one, x, y) in enumerate(drawn):
        parts += _marks(one, across.places(x), up.places(y), _COLOURS[i % len(_COLOURS)])
    for i, one in enumerate(series):
        at = _HEIGHT + _LEGEND_LINE * i + 6
        parts += _marks(one, np.array([_LEFT, _LEFT + 24.0]), np.array([at, at + 0.0]), _COLOURS[i % len(_COLOURS)])
        parts.append(f'<text x="{_LEFT + 34}" y="{at + 4}" fill="#111">{html.escape(one.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write_picture(name: str, series: Sequence[Series], **options: Any) -> None:
    """Draw a chart and put it where the documents look for it.

    Args:
        name: of the file in docs/pictures.
        series, options: as `chart` takes them.
    """
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    write_whole(folder / name, chart(series, **options))


def _points(one: Series, log_x: bool, log_y: bool) -> tuple[F64, F64]:
    x, y = np.asarray(one.x, np.float64).ravel(), np.asarray(one.y, np.float64).ravel()
    if x.size != y.size:
        raise OptionError(f"series {one.name}: found {x.size} x and {y.size} y; expected as many of both")
    kept = np.isfinite(x) & np.isfinite(y)
    kept &= (x > 0) | (not log_x)
    kept &= (y > 0) | (not log_y)
    return x[kept], y[kept]


def _marks(one: Series, x: F64, y: F64, colour: str) -> list[str]:
    if one.line:
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
        return [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>']
    radius = _LARGE if np.size(one.x) <= _FEW_POINTS else _SMALL
    return [
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius}" fill="{colour}" fill-opacity="0.6"/>'
        for a, b in zip(x, y, strict=True)
    ]


@dataclass(frozen=True)
class _Axis:
    """From numbers to places on the picture."""

    low: float
    high: float
    log: bool
    start: float
    stop: float

    @classmethod
    def around(cls, values: F64, log: bool, start: float, stop: float) -> _Axis:
        """An axis that shows all values with a little room."""
        spread = np.log10(values) if log else values
        low, high = float(spread.min()), float(spread.max())
        room = 0.04 * (high - low) or 0.5
        return cls(low - room, high + room, log, start, stop)

    def places(self, values: F64) -> F64:
        spread = np.log10(values) if self.log else values
        places: F64 = self.start + (spread - self.low) / (self.high - self.low) * (self.stop - self.start)
        return places

    def ticks(self) -> list[tuple[str, float]]:
        """Round numbers along the axis and where they stand."""
        raw = (self.high - self.low) / _TICKS
        if self.log and self.high - self.low < _FEW_DECADES:
            decades = range(math.floor(self.low), math.ceil(self.high))
            numbers = np.array([factor * 10.0**decade for decade in decades for factor in (1, 2, 5, 10)])
            numbers = np.unique(numbers[(np.log10(numbers) >= self.low) & (np.log10(numbers) <= self.high)])
        else:
            step = float(math.ceil(raw))
            if not self.log:
                unit = 10.0 ** math.floor(math.log10(raw))
                step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
            places = [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
            numbers = np.array([10.0**e if self.log else e for e in places])
        return [(f"{number:g}", float(place)) for number, place in zip(numbers, self.places(numbers), strict=True)]
