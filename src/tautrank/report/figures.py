"""Figures of a page, drawn by Plotly: curves with bands, gains of queries, gains by difficulty, clouds of points."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.errors import DataError, MissingDependencyError, OptionError
from tautrank.json_values import or_none
from tautrank.report.palette import SystemStyle, band_colour, system_styles
from tautrank.significance.paired import bootstrap_interval

F64: TypeAlias = NDArray[np.float64]

MOST_BARS = 240
"""Bars of one panel; more are narrower than a pixel of a phone."""

MOST_POINTS = 50_000
"""Points of one figure; a browser draws each of them as a shape of its own."""

# Control characters that HTML does not allow; in JavaScript they stand in literals, where an escape says the same.
_FORBIDDEN = re.compile(r"((?<!\\)(?:\\\\)*)\\?([\x01-\x08\x0b\x0e-\x1f\x7f-\x9f])")

_HEIGHT = 420
_PANEL = 130
_GROUPS = 5
_LONGEST_TITLE = 34  # letters that fit a phone's width


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band around it.

    Args:
        name: of the system.
        x: where it is known, in increasing order.
        mean: the line, one value for each of `x`; NaN leaves a gap.
        low, high: the band, likewise; leave both out for none.

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
        for field in ("x", "mean", "low", "high"):
            if getattr(self, field) is not None:
                object.__setattr__(self, field, _vector(field, getattr(self, field), self.name))
        sizes = {v.size for v in (self.x, self.mean, self.low, self.high) if v is not None}
        if len(sizes) != 1:
            raise DataError(f"curve {self.name!r}: found {sorted(sizes)} values; expected as many of each as of x")


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points that belong together.

    Args:
        name: of the system, or of the example.
        x, y: one value a point.

    >>> Cloud("mse", [1, 2], [3, 4]).y.tolist()
    [3.0, 4.0]
    """

    name: str
    x: Any
    y: Any

    def __post_init__(self) -> None:
        for field in ("x", "y"):
            object.__setattr__(self, field, _vector(field, getattr(self, field), self.name))
        if self.x.size != self.y.size:
            raise DataError(f"cloud {self.name!r}: found {self.x.size} x and {self.y.size} y; expected as many of each")


def require_plotly() -> Any:
    """Return Plotly's graph objects; where it is not installed, say how to get it."""
    try:
        import plotly.graph_objects
    except ImportError:
        raise MissingDependencyError(
            "figures in a page need Plotly; install it with: pip install 'tautrank[report]'"
        ) from None
    return plotly.graph_objects


def plotly_javascript() -> str:
    """What draws the figures in a browser, to stand in the page itself."""
    require_plotly()
    from plotly.offline import get_plotlyjs

    # A browser sees line ends as \n whatever the file has, and the page names the hash of what it sees.
    text = str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")
    return _FORBIDDEN.sub(lambda found: f"{found[1]}\\x{ord(found[2]):02x}", text)


def curve_figure(
    curves: Sequence[Curve],
    *,
    x_title: str,
    y_title: str,
    styles: Mapping[str, SystemStyle] | None = None,
    points: bool = True,
    log_x: bool = False,
) -> Any:
    """Lines with bands over a condition: how robust each system is to noise, to a cutoff, to the size of the data.

    Args:
        curves: one a system.
        x_title: the condition.
        y_title: what is measured.
        styles: of all systems of the page, see `system_styles`; by default those of the curves.
        points: whether to mark the values; for few of them.
        log_x: whether the condition grows by factors.

    >>> noise = [0.0, 0.1, 0.2]
    >>> figure = curve_figure(
    ...     [Curve("mse", noise, [0.45, 0.43, 0.40], [0.44, 0.41, 0.38], [0.46, 0.45, 0.42])],
    ...     x_title="share of noisy labels", y_title="ndcg@5")
    >>> [trace.name for trace in figure.data]
    ['mse', 'mse']
    """
    go = require_plotly()
    styles = system_styles([curve.name for curve in curves]) if styles is None else styles
    figure = go.Figure()
    # All bands lie behind all lines.
    for curve in curves:
        if curve.low is not None:
            known = ~(np.isnan(curve.low) | np.isnan(curve.high))
            figure.add_scatter(
                x=_plain(np.concatenate([curve.x[known], curve.x[known][::-1]])),
                y=_plain(np.concatenate([curve.high[known], curve.low[known][::-1]])),
                fill="toself",
                fillcolor=band_colour(_style(styles, curve.name).colour),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                **_named(curve.name),
            )
    for curve in curves:
        style = _style(styles, curve.name)
        figure.add_scatter(
            x=_plain(curve.x),
            y=_plain(curve.mean),
            mode="lines+markers" if points else "lines",
            line={"color": style.colour, "dash": style.dash, "width": 2},
            marker={"color": style.colour, "symbol": style.symbol, "size": 8},
            hovertemplate="%{y:.4f} at %{x}",
            **_named(curve.name),
        )
    return _with_axes(figure, x_title, y_title, {"type": "log" if log_x else "linear"})


def validation_curves(histories: Mapping[str, Sequence[ArrayLike]]) -> list[Curve]:
    """Mean and spread over several trainings of what each tree brought: a curve for each system.

    The band is one standard deviation over the trainings to either side. A curve ends with the shortest of its
    trainings: a mean over those that went on would jump where one stopped.

    Args:
        histories: for each system, one list a training with a validation value a tree.

    >>> [curve] = validation_curves({"mse": [[0.1, 0.3, 0.4], [0.3, 0.5]]})
    >>> curve.x.tolist(), curve.mean.tolist(), curve.low.round(3).tolist()
    ([1.0, 2.0], [0.2, 0.4], [0.059, 0.259])
    """
    curves = []
    for name, trainings in histories.items():
        shortest = min((np.asarray(training).size for training in trainings), default=0)
        if not shortest:
            continue
        values = np.array([np.asarray(training, np.float64)[:shortest] for training in trainings])
        mean, trees = values.mean(axis=0), np.arange(1, shortest + 1)
        if len(trainings) == 1:
            curves.append(Curve(name, trees, mean))
        else:
            spread = values.std(axis=0, ddof=1)
            curves.append(Curve(name, trees, mean, mean - spread, mean + spread))
    return curves


def query_gain_figure(
    gains: Mapping[str, ArrayLike], *, unit: str, styles: Mapping[str, SystemStyle] | None = None
) -> Any:
    """What every query gains or loses against a baseline, sorted: a panel for each system, a bar for each query.

    Where there are more queries than `MOST_BARS`, a bar is the mean of neighbours in the sorted order.

    Args:
        gains: for each system, one number a query, above 0 where the system is better; NaN is left out.
        unit: what is gained, such as the name of the metric.
        styles: of all systems of the page; by default those of the gains.

    >>> figure = query_gain_figure({"mse": [0.1, -0.2, 0.0]}, unit="ndcg@5")
    >>> figure.data[0].y
    (-0.2, 0.0, 0.1)
    """
    require_plotly()
    from plotly.subplots import make_subplots

    if not gains:
        raise DataError("gains: found none; expected at least one system beside the baseline")
    styles = system_styles(list(gains)) if styles is None else styles
    values = {name: _without_nan(_vector("gains", given, name)) for name, given in gains.items()}
    titles = [_text(_shortened(name)) for name in values]
    room = 0.045 * 6 / max(6, len(gains))
    figure = make_subplots(rows=len(gains), cols=1, shared_xaxes=True, vertical_spacing=room, subplot_titles=titles)
    bars_of = {name: sorted_bars(v) for name, v in values.items()}
    # One scale for all panels: a bar twice as high is twice the gain, whatever the system.
    highest = max(float(np.abs(bars).max(initial=0.0)) for bars in bars_of.values()) or 1.0
    for row, (name, bars) in enumerate(bars_of.items(), 1):
        share = (np.arange(bars.size) + 0.5) * 100 / max(1, bars.size)
        figure.add_bar(
            x=_plain(share),
            y=_plain(bars),
            width=100 / max(1, bars.size),
            marker={"color": _style(styles, name).colour, "line": {"width": 0}},
            hovertemplate="%{y:+.4f}",
            row=row,
            col=1,
            **_named(name),
        )
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(range=[0, 100], showgrid=False)
    figure.update_xaxes(title={"text": "% of queries, from loss to gain"}, row=len(gains))
    figure.update_yaxes(range=[-1.05 * highest, 1.05 * highest], nticks=5)
    figure.update_yaxes(title={"text": _text(f"gain in {unit}")}, row=(len(gains) + 1) // 2)
    figure.update_layout(
        height=90 + _PANEL * len(gains),
        margin={"l": 10, "r": 20, "t": 40, "b": 10},
        bargap=0,
        barmode="overlay",
        showlegend=False,
        hovermode="closest",
    )
    return figure


def sorted_bars(gains: ArrayLike, most: int = MOST_BARS) -> F64:
    """Gains in increasing order; where there are more than `most`, means of neighbours, as even as can be.

    Args:
        gains: one number a query.
        most: how many bars at most.

    >>> sorted_bars([3.0, 1.0, 2.0, 6.0], most=2).tolist()
    [1.5, 4.5]
    """
    ordered = np.sort(np.asarray(gains, np.float64))
    if ordered.size <= most:
        return ordered
    return np.array([part.mean() for part in np.array_split(ordered, most)])


@dataclass(frozen=True, eq=False)
class DifficultyGroup:
    """Queries that the baseline finds about equally hard.

    Args:
        lowest, highest: the baseline's values in it.
        queries: which queries, by number.

    >>> difficulty_groups([0.1, 0.9, 0.5, 0.3], groups=2)[0].queries.tolist()
    [0, 3]
    """

    lowest: float
    highest: float
    queries: NDArray[np.int64]


def difficulty_groups(
    baseline: ArrayLike, groups: int = _GROUPS, *, higher_is_better: bool = True
) -> list[DifficultyGroup]:
    """Cut queries at the quantiles of a baseline's values, the hardest first.

    Queries of equal value are never cut apart, so that groups may differ in size, or be fewer.

    Args:
        baseline: one value a query; NaN is left out.
        groups: how many.
        higher_is_better: whether a low value is a hard query.

    >>> [group.queries.size for group in difficulty_groups([0.0, 0.0, 0.0, 0.2, 0.4, 1.0], groups=3)]
    [3, 1, 2]
    >>> [group.lowest for group in difficulty_groups([1.0, 2.0, 3.0, 4.0], groups=2, higher_is_better=False)]
    [3.0, 1.0]
    """
    values = _vector("baseline", baseline, "baseline")
    known = np.flatnonzero(~np.isnan(values))
    if not known.size:
        return []
    cuts = np.unique(np.quantile(values[known], np.linspace(0, 1, groups + 1)[1:-1]))
    group_of = np.searchsorted(cuts, values[known], side="left")
    found = []
    for group in np.unique(group_of):
        queries = known[group_of == group]
        found.append(DifficultyGroup(float(values[queries].min()), float(values[queries].max()), queries))
    return found if higher_is_better else found[::-1]


def difficulty_figure(
    gains: Mapping[str, ArrayLike],
    groups: Sequence[DifficultyGroup],
    *,
    unit: str,
    baseline: str,
    styles: Mapping[str, SystemStyle] | None = None,
    intervals: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Any:
    """Mean gain in each group of queries, with 95% bootstrap intervals over its queries, or with other intervals.

    Args:
        gains: for each system, one number a query, above 0 where the system is better.
        groups: as `difficulty_groups` makes them, the hardest first.
        unit: what is gained.
        baseline: what the baseline is called.
        styles: of all systems of the page; by default those of the gains.
        intervals: for each system, one a group, where queries are no sample to draw from again; NaN draws none.

    >>> baseline = [0.1, 0.2, 0.8, 0.9]
    >>> figure = difficulty_figure(
    ...     {"mse": [0.3, 0.1, 0.0, -0.1]}, difficulty_groups(baseline, 2), unit="ndcg@5", baseline="lambdarank")
    >>> [round(y, 3) for y in figure.data[0].y]
    [0.2, -0.05]
    """
    go = require_plotly()
    styles = system_styles(list(gains)) if styles is None else styles
    figure = go.Figure()
    for i, (name, given) in enumerate(gains.items()):
        values, style = _vector("gains", given, name), _style(styles, name)
        parts = [_without_nan(values[group.queries]) for group in groups]
        means = [part.mean() if part.size else math.nan for part in parts]
        # Side by side within the middle six tenths of a group's place.
        beside = 0.6 * ((i + 0.5) / len(gains) - 0.5)
        reach = [_bootstrapped(part) for part in parts] if intervals is None else intervals[name]
        figure.add_scatter(
            x=[place + beside for place in range(len(groups))],
            y=[or_none(mean) for mean in means],
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [or_none(high - mean) for (_, high), mean in zip(reach, means, strict=True)],
                "arrayminus": [or_none(mean - low) for (low, _), mean in zip(reach, means, strict=True)],
                "color": style.colour,
                "thickness": 1.5,
                "width": 3,
            },
            mode="markers",
            marker={"color": style.colour, "symbol": style.symbol, "size": 9},
            hovertemplate="%{y:+.4f}",
            **_named(name),
        )
    labels = [f"{_range(group)}<br>n = {group.queries.size:,}" for group in groups]
    x_axis = {
        "tickvals": list(range(len(groups))),
        "ticktext": labels,
        "tickangle": 0,
        "tickfont": {"size": 12},
        "range": [-0.5, len(groups) - 0.5],
        "showgrid": False,
        "zeroline": False,
    }
    x_title = f"{unit} of {_shortened(baseline)}, hardest queries first"
    return _with_axes(figure, x_title, f"mean gain in {unit}", x_axis, zeroline=True)


def cloud_figure(
    clouds: Sequence[Cloud],
    *,
    x_title: str,
    y_title: str,
    diagonal: bool = False,
    styles: Mapping[str, SystemStyle] | None = None,
) -> Any:
    """Clouds of points: the Jensen gap of many gammas for each of several lists, a bound against what it bounds, ...

    Args:
        clouds: at most `MOST_POINTS` points in all.
        x_title, y_title: what the axes show.
        diagonal: whether to draw where x and y are equal.
        styles: of all systems of the page; by default those of the clouds.

    >>> figure = cloud_figure([Cloud("list 1", [0.1, 0.2], [0.3, 0.1])], x_title="loss", y_title="Jensen gap")
    >>> figure.data[0].mode
    'markers'
    """
    go = require_plotly()
    total = sum(cloud.x.size for cloud in clouds)
    if total > MOST_POINTS:
        raise DataError(f"clouds: found {total:,} points; expected at most {MOST_POINTS:,}, such as a sample of them")
    styles = system_styles([cloud.name for cloud in clouds]) if styles is None else styles
    figure = go.Figure()
    if diagonal and total:
        both = np.concatenate([np.concatenate([cloud.x, cloud.y]) for cloud in clouds])
        ends = [or_none(float(np.nanmin(both))), or_none(float(np.nanmax(both)))]
        figure.add_shape(
            type="line", x0=ends[0], y0=ends[0], x1=ends[1], y1=ends[1], line={"color": "#888888", "dash": "dot"}
        )
    for cloud in clouds:
        style = _style(styles, cloud.name)
        figure.add_scatter(
            x=_plain(cloud.x),
            y=_plain(cloud.y),
            mode="markers",
            marker={"color": style.colour, "symbol": style.symbol, "size": 6, "opacity": 0.6},
            hovertemplate="(%{x:.4g}, %{y:.4g})",
            **_named(cloud.name),
        )
    return _with_axes(figure, x_title, y_title)


def _with_axes(figure: Any, x_title: str, y_title: str, x_axis: Mapping[str, Any] | None = None, **y_axis: Any) -> Any:
    figure.update_layout(
        height=_HEIGHT,
        margin={"l": 10, "r": 20, "t": 30, "b": 10},
        xaxis={"title": {"text": _text(x_title)}, **(x_axis or {})},
        yaxis={"title": {"text": _text(y_title)}, **y_axis},
        hovermode="closest",
    )
    return figure


def _named(name: str) -> dict[str, str]:
    """Plotly reads a trace's name as a kind of HTML; the page's legend takes the group, which is plain text."""
    return {"name": _text(name), "legendgroup": name}


def _text(text: str) -> str:
    return html.escape(text, quote=False)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_TITLE else name[: _LONGEST_TITLE - 1] + "…"


def _range(group: DifficultyGroup) -> str:
    low, high = f"{group.lowest:.3g}", f"{group.highest:.3g}"
    return low if low == high else f"{low}<br>to {high}"  # on two lines, so that five of them fit a phone


def _style(styles: Mapping[str, SystemStyle], name: str) -> SystemStyle:
    try:
        return styles[name]
    except KeyError:
        raise OptionError(f"styles: found none for {name!r}; expected one for every system of the figure") from None


def _vector(field: str, values: Any, name: str) -> F64:
    try:
        vector = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{field} of {name!r}: found {values!r}; expected numbers") from None
    if vector.ndim != 1:
        raise DataError(f"{field} of {name!r}: found {vector.ndim} dimensions; expected 1")
    return vector


def _bootstrapped(gains: F64) -> tuple[float, float]:
    if gains.size < 2:  # one query has a value but no spread
        return (float(gains[0]), float(gains[0])) if gains.size else (math.nan, math.nan)
    low, high = bootstrap_interval(gains)
    return low, high


def _without_nan(values: F64) -> F64:
    known: F64 = values[~np.isnan(values)]
    return known


def _plain(values: F64) -> list[float | None]:
    """Numbers as JSON has them: lists that a reader of the page's source can read, and null for NaN."""
    return [or_none(value) for value in values.tolist()]
