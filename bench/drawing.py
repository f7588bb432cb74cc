"""The pictures of the documents, drawn by Matplotlib as SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from bench.data_sets import ROOT
from tautrank.errors import OptionError
from tautrank.files import write_whole

# Colour-blind readers can tell them apart, also in grey.
_COLOURS = ("#2290fa", "#cc7e07", "#047966", "#e237ac", "#491ebe", "#623e00")
# Text stays text, and the same numbers give the same bytes.
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tautrank",
    "font.size": 10,
    "axes.edgecolor": "#e3e6ea",
}
_TICKS, _FEW_DECADES = 6, 2.5
# Single points must be found among clouds of hundreds.
_FEW_POINTS, _LARGE, _SMALL = 50, 6, 3


@dataclass(frozen=True, eq=False)
class Series:
    """Points or a line of a chart.

    Args:
        name: the name in the legend.
        x: one number per point.
        y: one number per point; points that are not finite are left out.
        line: whether to join the points, instead of marking each.

    >>> Series("twice", [1, 2], [2, 4]).line
    False
    """

    name: str
    x: ArrayLike
    y: ArrayLike
    line: bool = False


def chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    log_y: bool = False,
) -> str:
    """Return a chart of several series as SVG text, on white, with the legend below it.

    Args:
        series: the series, drawn in this order, each in its colour.
        title: the title in the metadata of the picture; not drawn.
        x_label, y_label: the text beside the axes.
        log_x, log_y: whether the axis is logarithmic; numbers of 0 and below are then left out.

    >>> text = chart([Series("a line", [0, 1], [0, 1], line=True)], title="t", x_label="x", y_label="y")
    >>> "</svg>" in text, ">a line</text>" in text
    (True, True)
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 4.2 + 0.2 * len(series)), layout="constrained")
        axes = figure.subplots()
        total = 0
        for i, one in enumerate(series):
            x, y = np.ravel(one.x).astype(np.float64), np.ravel(one.y).astype(np.float64)
            if x.size != y.size:
                raise OptionError(
                    f"series {one.name}: found {x.size} x and {y.size} y; expected as many of both"
                )
            kept = (
                np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log_x)) & ((y > 0) | (not log_y))
            )
            total += int(kept.sum())
            size = _LARGE if x.size <= _FEW_POINTS else _SMALL
            marks: dict[str, Any] = {"linewidth": 2}
            if not one.line:
                marks = {
                    "marker": "o",
                    "linestyle": "",
                    "markersize": size,
                    "markeredgewidth": 0,
                    "alpha": 0.6,
                }
            axes.plot(x[kept], y[kept], color=_COLOURS[i % len(_COLOURS)], label=one.name, **marks)
        if not total:
            raise OptionError("series: found no point that can be drawn; expected at least one")
        for name, log in (("x", log_x), ("y", log_y)):
            axis = getattr(axes, f"{name}axis")
            if not log:
                axis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 5, 10]))
                continue
            axes.set(**{f"{name}scale": "log"})
            low, high = getattr(axes, f"get_{name}lim")()
            axis.set_major_locator(
                LogLocator(subs=(1, 2, 5) if high / low < 10**_FEW_DECADES else (1,))
            )
            axis.set_major_formatter(
                FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10_000 else f"{value:g}")
            )
            axis.set_minor_locator(NullLocator())
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.grid(color="#e3e6ea")
        axes.set_axisbelow(True)
        axes.tick_params(color="#e3e6ea")
        figure.legend(loc="outside lower left", frameon=False)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return out.getvalue()


def write_picture(name: str, series: Sequence[Series], **options: Any) -> None:
    """Draw a chart and put it where the documents look for it.

    Args:
        name: the name of the file in docs/pictures.
        series, options: the arguments of `chart`.
    """
    folder = ROOT / "docs" / "pictures"
    folder.mkdir(exist_ok=True)
    write_whole(folder / name, chart(series, **options))
