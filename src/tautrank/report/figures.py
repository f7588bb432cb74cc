"""Figures of a page, drawn by Plotly: curves with bands, and clouds of points."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, numbers
from tautrank.errors import DataError, OptionError, require
from tautrank.json_values import or_none
from tautrank.report.page import FigureSection
from tautrank.report.palette import Styles, SystemStyle, band_colour, system_styles

MOST_POINTS = 50_000
"""Most points of a cloud figure; a browser draws each of them as a shape of its own."""

# Control characters that HTML does not allow; in JavaScript they stand in literals, where an escape means the same.
_FORBIDDEN = re.compile(r"((?<!\\)(?:\\\\)*)\\?([\x01-\x08\x0b\x0e-\x1f\x7f-\x9f])")

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
            raise OptionError(f"low, high: found one of them for {self.name!r}; expected both or neither")
        size = None
        for field in ("x", "mean", "low", "high"):
            if getattr(self, field) is not None:
                vector = numbers(f"{field} of {self.name!r}", getattr(self, field), "place", size)
                object.__setattr__(self, field, vector)
                size = vector.size


def require_plotly() -> Any:
    """Return Plotly's graph objects, or raise an error that says how to install it."""
    return require("plotly.graph_objects", "figures in a page need Plotly", "report")


def plotly_javascript() -> str:
    """Return the program that draws the figures in a browser, ready to be part of the page."""
    require_plotly()
    from plotly.offline import get_plotlyjs

    # A browser sees line ends as \n whatever the file has, and the page names the hash of what the browser sees.
    text = str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")
    return _FORBIDDEN.sub(lambda found: f"{found[1]}\\x{ord(found[2]):02x}", text)


def curve_figure(
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    styles: Styles | None = None,
    lines: bool = True,
    points: bool = True,
    log_x: bool = False,
) -> Any:
    """Draw lines with bands over a condition (noise, a cutoff, the size of the data), or clouds of points.

    Args:
        curves: one curve per system.
        x_title: the condition.
        y_title: what is measured.
        styles: the styles of all systems of the page, see `system_styles`; by default those of the curves.
        lines: whether to join the values by lines; clouds have none, and at most `MOST_POINTS` points.
        points: whether to mark the values, if there are few.
        log_x: whether the horizontal axis is logarithmic.

    >>> noise = [0.0, 0.1, 0.2]
    >>> figure = curve_figure(
    ...     [Curve("mse", noise, [0.45, 0.43, 0.40], [0.44, 0.41, 0.38], [0.46, 0.45, 0.42])],
    ...     x_title="share of noisy labels", y_title="ndcg@5")
    >>> [trace.name for trace in figure.data]
    ['mse', 'mse']
    """
    go = require_plotly()
    total = sum(curve.x.size for curve in curves)
    if not lines and total > MOST_POINTS:
        raise DataError(f"curves: found {total:,} points; expected at most {MOST_POINTS:,}, such as a sample of them")
    styles = styles_for([curve.name for curve in curves], styles)
    figure = go.Figure()
    # All bands lie behind all lines.
    for curve in curves:
        if curve.low is not None:
            known = ~(np.isnan(curve.low) | np.isnan(curve.high))
            figure.add_scatter(
                x=plain_numbers(np.concatenate([curve.x[known], curve.x[known][::-1]])),
                y=plain_numbers(np.concatenate([curve.high[known], curve.low[known][::-1]])),
                fill="toself",
                fillcolor=band_colour(styles[curve.name].colour),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                **trace_name(curve.name),
            )
    marks: dict[str, Any] = {"size": 8} if lines else {"size": 6, "opacity": 0.6}
    for curve in curves:
        style = styles[curve.name]
        figure.add_scatter(
            x=plain_numbers(curve.x),
            y=plain_numbers(curve.mean),
            mode="+".join(["lines"] * lines + ["markers"] * points),
            line={"color": style.colour, "dash": style.dash, "width": 2} if lines else None,
            marker={"color": style.colour, "symbol": style.symbol, **marks},
            hovertemplate="%{y:.4f} at %{x}" if lines else "(%{x:.4g}, %{y:.4g})",
            **trace_name(curve.name),
        )
    return with_axes(figure, x_title, y_title, {"type": "log" if log_x else "linear"})


def interval_points(
    name: str, style: SystemStyle, places: Any, ends: Sequence[F64], along: str, size: int, **bars: Any
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
    error = {"array": plain_numbers(high - mean), "arrayminus": plain_numbers(mean - low), "color": style.colour}
    return {
        **{axis: plain_numbers(mean if axis == along else places) for axis in "xy"},
        f"error_{along}": {"type": "data", "symmetric": False, **error, **bars},
        "mode": "markers",
        "marker": {"color": style.colour, "symbol": style.symbol, "size": size},
        "hovertemplate": f"%{{{along}:+.4f}}",
        **trace_name(name),
    }


def validation_curves(histories: Mapping[str, Sequence[ArrayLike]]) -> list[Curve]:
    """Return one curve per system: mean and spread over several trainings of the value after each tree.

    The band is one standard deviation over the trainings to either side. A curve ends with the shortest of its
    trainings: a mean over those that went on would jump where one stopped.

    Args:
        histories: for each system, one list per training with one validation value per tree.

    >>> [curve] = validation_curves({"mse": [[0.1, 0.3, 0.4], [0.3, 0.5]]})
    >>> curve.x.tolist(), curve.mean.tolist(), curve.low.round(3).tolist()
    ([1.0, 2.0], [0.2, 0.4], [0.059, 0.259])
    """
    curves = []
    for name, trainings in histories.items():
        shortest = min((np.asarray(training).size for training in trainings), default=0)
        if shortest:
            values = np.array([np.asarray(training, np.float64)[:shortest] for training in trainings])
            mean, spread = values.mean(axis=0), values.std(axis=0, ddof=1) if len(trainings) > 1 else None
            band = () if spread is None else (mean - spread, mean + spread)
            curves.append(Curve(name, np.arange(1, shortest + 1), mean, *band))
    return curves


def training_sections(
    histories: Mapping[str, Sequence[ArrayLike]], metric: str, queries: str, styles: Styles, under: str = "",
    remark: str = "",
) -> Iterator[FigureSection]:  # fmt: skip
    """Draw a metric after each tree; nothing where no history was kept.

    Args:
        histories: for each system, one list per training with one value per tree.
        metric: the name of the metric.
        queries: ``"validation"`` or ``"training"``.
        styles: the styles of all systems of the page.
        under: the condition, as it follows a title.
        remark: a sentence to end the caption with.

    >>> [section] = training_sections({"mse": [[0.1, 0.3]]}, "ndcg@5", "validation", system_styles(["mse"]))
    >>> section.caption
    'ndcg@5 on the validation queries after each tree.'
    """
    curves = validation_curves(histories)
    if not curves:
        return
    caption = f"{metric} on the {queries} queries after each tree."
    most = max(map(len, histories.values()))
    if most > 1:
        caption += f" Lines are means and bands standard deviations over {most} trainings; a line ends where the first "
        caption += "of its trainings stopped."
    ends = "; ".join(
        f"{c.name} has {c.mean[max(math.ceil(c.mean.size / 10), 1) - 1]:.4f} after a tenth and {c.mean[-1]:.4f} at the "
        f"end of {c.mean.size} trees"
        for c in curves
    )
    figure = curve_figure(curves, x_title="trees", y_title=f"{queries} {metric}", styles=styles, points=False)
    title = f"{queries.capitalize()} by number of trees{under}"
    yield FigureSection(title, figure, f"{caption} {remark}".strip(), f"Lines: {ends}.")


def with_axes(figure: Any, x_title: str, y_title: str, x_axis: Mapping[str, Any] | None = None, **y_axis: Any) -> Any:
    """Give a figure its axes and their titles, and return it.

    Args:
        figure: a Plotly figure.
        x_title, y_title: plain text beside the axes.
        x_axis, y_axis: more of Plotly's settings for the axes.
    """
    titled = {"title": {"text": escaped(x_title)}, **(x_axis or {})}
    return figure.update_layout(xaxis=titled, yaxis={"title": {"text": escaped(y_title)}, **y_axis})


def trace_name(name: str) -> dict[str, str]:
    """Return the name of a trace: Plotly reads it as a kind of HTML, the page's legend takes the group as plain text.

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


def styles_for(names: Sequence[str], styles: Styles | None) -> Styles:
    """Return styles that cover all systems of a figure.

    Args:
        names: the systems.
        styles: the styles of all systems of the page; None gives each system of the figure a style of its own.
    """
    if styles is None:
        return system_styles(names)
    missing = [name for name in names if name not in styles]
    if missing:
        raise OptionError(f"styles: found none for {missing[0]!r}; expected one for every system of the figure")
    return styles


def plain_numbers(values: F64) -> list[float | None]:
    """Return numbers as JSON has them: a list that can be read in the page's source, with null for NaN.

    >>> plain_numbers(np.array([0.5, np.nan]))
    [0.5, None]
    """
    return [or_none(value) for value in values.tolist()]
