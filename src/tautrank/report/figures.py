"""Figures of a page, drawn by Plotly: curves with bands, clouds of points, and intervals."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, numbers
from tautrank.errors import DataError, OptionError
from tautrank.json_values import or_none
from tautrank.report.page import Styles, SystemStyle, band_colour, system_styles
from tautrank.report.plotly_script import require_plotly

MOST_POINTS = 50_000
"""Most points of a cloud figure; a browser draws each of them as a shape of its own."""

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
        for field in ("x", "mean", "low", "high"):
            given = getattr(self, field)
            if given is not None:
                object.__setattr__(
                    self,
                    field,
                    numbers(f"{field} of {self.name!r}", given, "place", np.size(self.x)),
                )


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
    lines, total = "lines" in mode, sum(curve.x.size for curve in curves)
    if not lines and total > MOST_POINTS:
        raise DataError(
            f"curves: found {total:,} points; expected at most {MOST_POINTS:,}, such as a sample of them"
        )
    styles = styles or system_styles([curve.name for curve in curves])
    figure = require_plotly().Figure()
    # All bands lie behind all lines.
    for curve in curves:
        if curve.low is not None:
            known = ~(np.isnan(curve.low) | np.isnan(curve.high))
            there, back = (
                (curve.x[known], curve.high[known]),
                (curve.x[known][::-1], curve.low[known][::-1]),
            )
            x, y = (plain_numbers(np.concatenate(ends)) for ends in zip(there, back, strict=True))
            area = {
                "fill": "toself",
                "fillcolor": band_colour(styles[curve.name].colour),
                "line": {"width": 0},
            }
            hidden = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
            figure.add_scatter(x=x, y=y, **area, **hidden, **trace_name(curve.name))
    marks: dict[str, Any] = (
        {"size": 8} if lines else {"size": 10 if total < 200 else 6, "opacity": 0.6}
    )
    for curve in curves:
        style = styles[curve.name]
        drawn: dict[str, Any] = {
            "x": plain_numbers(curve.x),
            "y": plain_numbers(curve.mean),
            "mode": mode,
        }
        drawn["line"] = {"color": style.colour, "dash": style.dash, "width": 2} if lines else None
        drawn["marker"] = {"color": style.colour, "symbol": style.symbol, **marks}
        drawn["hovertemplate"] = "%{y:.4f} at %{x}" if lines else "(%{x:.4g}, %{y:.4g})"
        figure.add_scatter(**drawn, **trace_name(curve.name))
    return with_axes(figure, x_title, y_title, {"type": "linear"})


def interval_points(
    name: str,
    style: SystemStyle,
    places: Any,
    ends: Sequence[F64],
    along: str,
    size: int,
    **bars: Any,
) -> dict[str, Any]:
    """Return points with intervals around them, as `figure.add_scatter` takes them.

    Args:
        name: what the points are of.
        style: how to draw them.
        places: where they are on the other axis.
        ends: the lower ends of the intervals, the points and the upper ends; NaN leaves a gap.
        along: the axis of the points, ``"x"`` or ``"y"``.
        size: size of the points.
        bars: more of Plotly's settings for the intervals.
    """
    low, mean, high = ends
    error = {
        "array": plain_numbers(high - mean),
        "arrayminus": plain_numbers(mean - low),
        "color": style.colour,
    }
    drawn: dict[str, Any] = {
        axis: plain_numbers(mean if axis == along else places) for axis in "xy"
    }
    drawn[f"error_{along}"] = {"type": "data", "symmetric": False, **error, **bars}
    drawn["marker"] = {"color": style.colour, "symbol": style.symbol, "size": size}
    return {**drawn, "mode": "markers", "hovertemplate": f"%{{{along}:+.4f}}", **trace_name(name)}


def validation_curves(histories: Mapping[str, Sequence[ArrayLike]]) -> list[Curve]:
    """Return one curve per system: mean and spread over several trainings of the value after each
    tree.

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
        shortest = min((np.asarray(training).size for training in trainings), default=0)
        if shortest > 1:
            values = np.array(
                [np.asarray(training, np.float64)[:shortest] for training in trainings]
            )
            mean, spread = (
                values.mean(axis=0),
                values.std(axis=0, ddof=1) if len(trainings) > 1 else None,
            )
            band = () if spread is None else (mean - spread, mean + spread)
            curves.append(Curve(name, np.arange(1, shortest + 1), mean, *band))
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
    titled = {"title": {"text": escaped(x_title)}, **(x_axis or {})}
    return figure.update_layout(xaxis=titled, yaxis={"title": {"text": escaped(y_title)}, **y_axis})


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
    return name if len(name) <= _LONGEST_TITLE else name[: _LONGEST_TITLE - 1] + "…"


def plain_numbers(values: F64) -> list[float | None]:
    """Return numbers as JSON has them: a list that can be read in the page's source, with null for
    NaN.

    >>> plain_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    return [or_none(value) for value in values.tolist()]
