"""Figures of a page, drawn by Plotly: curves with bands, clouds of points, and intervals."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, Floats, numbers
from tautrank.errors import DataError, OptionError
from tautrank.json_values import or_none
from tautrank.report.page import Styles, SystemStyle, band_colour, system_styles
from tautrank.report.plotly_script import require_plotly

MOST_POINTS = 50_000
"""Most points of a cloud figure; a browser draws each of them as a shape of its own."""

_MANY_POINTS = 200  # from here on points are small
_LONGEST_TITLE = 34  # letters that fit the width of a phone


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band around it, or a cloud of points.

    Args:
        name: the name of the system.
        x: the places; for a line in increasing order.
        mean: one value per place; NaN leaves a gap.
        low, high: the band, one value per place each; leave both out for no band.

    >>> Curve("mse", [0.0, 0.1], [0.45, 0.43], [0.44, 0.42], [0.46, 0.44]).mean.tolist()
    [0.45, 0.43]
    """

    name: str
    x: Any
    mean: Any
    low: Any = None
    high: Any = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise OptionError(
                f"low, high: found one of them for {self.name!r}; expected both or neither"
            )
        # A place is a point of the x axis: every array has one number for each.
        n_places = np.size(self.x)
        for field in ("x", "mean", "low", "high"):
            values = getattr(self, field)
            if values is not None:
                checked = numbers(f"{field} of {self.name!r}", values, "place", n_places)
                object.__setattr__(self, field, checked)


class Intervals(NamedTuple):
    """Points and the intervals around them; NaN leaves a gap.

    Args:
        low: the lower ends.
        middle: the points.
        high: the upper ends.
    """

    low: F64
    middle: F64
    high: F64


def curve_figure(
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    styles: Styles | None = None,
    mode: str = "lines+markers",
) -> Any:
    """Draw lines with bands over a condition (noise, a cutoff, the size of the data), or clouds of
    points.

    Args:
        curves: one curve per system.
        x_title: the condition.
        y_title: what is measured.
        styles: the styles of all systems of the page, see `system_styles`; by default those of the
            curves.
        mode: ``"lines"`` joins the values by lines, ``"lines+markers"`` marks them too, and
            ``"markers"`` draws clouds of at most `MOST_POINTS` points.

    >>> noise = [0.0, 0.1, 0.2]
    >>> figure = curve_figure(
    ...     [Curve("mse", noise, [0.45, 0.43, 0.40], [0.44, 0.41, 0.38], [0.46, 0.45, 0.42])],
    ...     x_title="share of noisy labels", y_title="ndcg@5")
    >>> [trace.name for trace in figure.data]
    ['mse', 'mse']
    """
    n_points = sum(curve.x.size for curve in curves)
    if mode == "markers" and n_points > MOST_POINTS:
        raise DataError(
            f"curves: found {n_points:,} points; expected at most {MOST_POINTS:,},"
            " such as a sample of them"
        )
    # Colour, dashes and shape of points by name of the system.
    styles = styles or system_styles([curve.name for curve in curves])
    figure = require_plotly().Figure()
    # All bands lie behind all lines.
    for curve in curves:
        if curve.low is not None:
            figure.add_scatter(**_band_trace(curve, styles[curve.name]))
    for curve in curves:
        style = styles[curve.name]
        if mode == "markers":
            trace = _cloud_trace(curve, style, n_points)
        else:
            trace = _line_trace(curve, style, mode)
        figure.add_scatter(**trace)
    return with_axes(figure, x_title, y_title, {"type": "linear"})


def _band_trace(curve: Curve, style: SystemStyle) -> dict[str, Any]:
    """Return Plotly's settings for the translucent band around a curve.

    The outline of the band goes along its upper edge from left to right, and back along its lower
    edge; places where the band is NaN are left out.
    """
    is_known = ~(np.isnan(curve.low) | np.isnan(curve.high))
    x = curve.x[is_known]
    low = curve.low[is_known]
    high = curve.high[is_known]
    outline_x = np.concatenate([x, x[::-1]])
    outline_y = np.concatenate([high, low[::-1]])
    return {
        "x": plain_numbers(outline_x),
        "y": plain_numbers(outline_y),
        # The area inside of the outline is filled.
        "fill": "toself",
        "fillcolor": band_colour(style.colour),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
        **trace_name(curve.name),
    }


def _line_trace(curve: Curve, style: SystemStyle, mode: str) -> dict[str, Any]:
    """Return Plotly's settings for a line through the mean values of a curve.

    Args:
        curve: the values.
        style: the colour, dashes and shape of points of the system.
        mode: ``"lines"``, or ``"lines+markers"`` to mark the values too.
    """
    return {
        "x": plain_numbers(curve.x),
        "y": plain_numbers(curve.mean),
        "mode": mode,
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 8},
        "hovertemplate": "%{y:.4f} at %{x}",
        **trace_name(curve.name),
    }


def _cloud_trace(curve: Curve, style: SystemStyle, n_points: int) -> dict[str, Any]:
    """Return Plotly's settings for a cloud of points that no line joins; the points are smaller if
    the figure has many (``n_points``, those of all clouds).
    """
    size_in_pixels = 10 if n_points < _MANY_POINTS else 6
    marker = {
        "color": style.colour,
        "symbol": style.symbol,
        "size": size_in_pixels,
        "opacity": 0.6,
    }
    return {
        "x": plain_numbers(curve.x),
        "y": plain_numbers(curve.mean),
        "mode": "markers",
        "line": None,
        "marker": marker,
        "hovertemplate": "(%{x:.4g}, %{y:.4g})",
        **trace_name(curve.name),
    }


def interval_points(
    name: str,
    style: SystemStyle,
    rows: Floats,
    intervals: Intervals,
    axis: str,
    *,
    size: int,
    **bars: Any,
) -> dict[str, Any]:
    """Return Plotly's settings for points with confidence intervals around them, as
    `figure.add_scatter` takes them.

    Args:
        name: the system whose values are drawn.
        style: the colour and shape of its points.
        rows: the position of each interval on the other axis.
        intervals: the points and the ends of their intervals.
        axis: the axis along which intervals extend, ``"x"`` or ``"y"``.
        size: the size of the points, in pixels.
        bars: more of Plotly's settings for the intervals.
    """
    other_axis = "y" if axis == "x" else "x"
    error_bars = {
        "type": "data",
        # Bars of different lengths up and down, given as distances from the point.
        "symmetric": False,
        "array": plain_numbers(intervals.high - intervals.middle),
        "arrayminus": plain_numbers(intervals.middle - intervals.low),
        "color": style.colour,
        **bars,
    }
    return {
        axis: plain_numbers(intervals.middle),
        other_axis: plain_numbers(rows),
        f"error_{axis}": error_bars,
        "marker": {"color": style.colour, "symbol": style.symbol, "size": size},
        "mode": "markers",
        "hovertemplate": f"%{{{axis}:+.4f}}",
        **trace_name(name),
    }


def validation_curves(histories: Mapping[str, Sequence[ArrayLike]]) -> list[Curve]:
    """Return one learning curve per system: the validation value after each tree, its mean and
    spread over several trainings.

    The band is one standard deviation over the trainings to either side. A curve ends with the
    shortest of its trainings: a mean over those that went on would jump where one stopped. One
    value is no curve.

    Args:
        histories: for each system, one list per training with one validation value per tree.

    >>> [curve] = validation_curves({"mse": [[0.1, 0.3, 0.4], [0.3, 0.5]]})
    >>> curve.x.tolist(), curve.mean.tolist(), curve.low.round(3).tolist()
    ([1.0, 2.0], [0.2, 0.4], [0.059, 0.259])
    """
    curves = []
    for name, trainings in histories.items():
        arrays = [np.asarray(training, np.float64) for training in trainings]
        fewest_trees = min((array.size for array in arrays), default=0)
        if fewest_trees < 2:
            continue
        # The table is [trainings, trees].
        values = np.array([array[:fewest_trees] for array in arrays])
        tree_numbers = np.arange(1, fewest_trees + 1)
        mean = values.mean(axis=0)
        if len(arrays) == 1:
            curves.append(Curve(name, tree_numbers, mean))
        else:
            # ddof=1: the standard deviation of a sample.
            deviation = values.std(axis=0, ddof=1)
            low, high = mean - deviation, mean + deviation
            curves.append(Curve(name, tree_numbers, mean, low, high))
    return curves


def with_axes(
    figure: Any, x_title: str, y_title: str, x_axis: Mapping[str, Any] | None = None, **y_axis: Any
) -> Any:
    """Give a figure its axes and their titles, and return it.

    Args:
        figure: a Plotly figure.
        x_title, y_title: plain text beside the axes.
        x_axis, y_axis: more of Plotly's settings for the axes.
    """
    return figure.update_layout(
        xaxis={"title": {"text": escaped(x_title)}, **(x_axis or {})},
        yaxis={"title": {"text": escaped(y_title)}, **y_axis},
    )


def trace_name(name: str) -> dict[str, str]:
    """Return the name of a trace: Plotly reads it as a kind of HTML, the page's legend takes the
    group as plain text.

    >>> trace_name("a<b")
    {'name': 'a&lt;b', 'legendgroup': 'a<b'}
    """
    return {"name": escaped(name), "legendgroup": name}


def escaped(text: str) -> str:
    """Return text as Plotly, which reads a kind of HTML, shows it unchanged.

    >>> escaped("a<b")
    'a&lt;b'
    """
    return html.escape(text, quote=False)


def shortened(name: str) -> str:
    """Return a name that fits the width of a phone.

    >>> shortened("ndcg-loss2++(k=5,mu=2,assignment=soft)")
    'ndcg-loss2++(k=5,mu=2,assignment=…'
    """
    if len(name) <= _LONGEST_TITLE:
        return name
    return name[: _LONGEST_TITLE - 1] + "…"


def plain_numbers(values: Floats) -> list[float | None]:
    """Return numbers as JSON has them: a list that can be read in the page's source, with null for
    NaN.

    >>> plain_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    return [or_none(value) for value in values.tolist()]
