"""Figures of a page, drawn by Plotly: curves with bands, clouds of points, and what queries gain
over a baseline.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, I64, numbers
from tautrank.errors import DataError, OptionError
from tautrank.experiments.divide import FixedParts, GivenSplits, OnItself, Protocol
from tautrank.experiments.result import Comparison
from tautrank.json_values import or_none
from tautrank.report.page import FigureSection, Styles, SystemStyle, band_colour, system_styles
from tautrank.report.plotly_script import require_plotly
from tautrank.significance.paired import bootstrap_interval
from tautrank.significance.verdicts import over_trials, win_tie_loss

MOST_POINTS = 50_000
"""Most points of a cloud figure; a browser draws each of them as a shape of its own."""

MOST_BARS = 240
"""Most bars of one panel; more would be narrower than a pixel of a phone."""

_LONGEST_TITLE = 34  # letters that fit the width of a phone
_FEWEST_QUERIES = 10  # fewer queries have no distribution to draw
_PANEL = 130  # pixels
_GROUPS = 5


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


# ---- What queries gain over a baseline: sorted, and by how hard they are for the baseline


@dataclass(frozen=True, eq=False)
class QueryGains:
    """What test queries gain over a baseline.

    Args:
        unit: what is gained: the name of the metric.
        baseline: the name of the baseline.
        values: the baseline's values, one per query; NaN where the query is skipped.
        gains: for each other system one number per query, above 0 where it is better than the
            baseline; NaN where the query is skipped.
        higher_is_better: whether a high value of the baseline means an easy query.
        trial_of: the trial of each query, where trials test on different queries; None where all
            trials test on the same queries, and numbers are means over trials.
        overlap: held-out over training size of the trials, see `interval_over_trials`.
    """

    unit: str
    baseline: str
    values: F64
    gains: Mapping[str, F64]
    higher_is_better: bool = True
    trial_of: I64 | None = None
    overlap: float = 0.0


def same_queries(protocol: Protocol) -> bool:
    """Return whether all trials test on the same queries.

    Args:
        protocol: the protocol of a study.

    >>> same_queries(OnItself())
    True
    """
    return isinstance(protocol, FixedParts | OnItself | GivenSplits)


def query_gains(
    result: Comparison, condition: str, name: str, systems: Sequence[str] = ()
) -> QueryGains | None:
    """Return what each test query gains over the baseline in the trials that all systems have
    finished.

    Trials on the same queries give one number per query, the mean over trials; other trials one
    number per query of each trial.

    Args:
        result: the result of a comparison or a study.
        condition: the name of the condition.
        name: the name of the metric.
        systems: the systems to compare with the baseline; by default all that have finished a
            trial.

    Returns:
        None where no trial can be compared.
    """
    study = result.plan.study
    shown = dict.fromkeys((study.baseline, *(systems or study.system_names)))
    found = {
        system: by_trial
        for system in shown
        if (by_trial := result.by_trial(condition, system, name))
    }
    common = sorted(set.intersection(*map(set, found.values()))) if found else []
    if study.baseline not in found or len(found) < 2 or not common:
        return None
    same = same_queries(study.protocol)
    join: Any = partial(np.mean, axis=0) if same else np.concatenate
    values = {system: join([by_trial[t] for t in common]) for system, by_trial in found.items()}
    baseline = values.pop(study.baseline)
    higher = result.cell(condition, study.baseline, name).higher_is_better
    gains = {system: v - baseline if higher else baseline - v for system, v in values.items()}
    trial_of = (
        None
        if same
        else np.repeat(np.array(common, np.int64), [found[study.baseline][t].size for t in common])
    )
    return QueryGains(name, study.baseline, baseline, gains, higher, trial_of, result.overlap)


def gain_sections(
    found: QueryGains, styles: Styles | None = None, under: str = ""
) -> Iterator[FigureSection]:
    """Draw the gain of each query and the gain by difficulty; nothing where there are fewer than
    ten queries.

    Args:
        found: the gains of at least one system.
        styles: the styles of all systems of the page; by default those of the gains.
        under: the condition, as it follows a title.

    >>> rng = np.random.default_rng(0)
    >>> found = QueryGains("ndcg@5", "mse", rng.random(20), {"xendcg": rng.normal(size=20)})
    >>> [section.title for section in gain_sections(found)]
    ['Gain of each query over mse', 'Gain by difficulty of the query']
    """
    if np.count_nonzero(~np.isnan(found.values)) >= _FEWEST_QUERIES:
        styles = styles or system_styles(list(found.gains))
        yield _bar_section(found, styles, under)
        yield _difficulty_section(found, styles, under)


def sorted_bars(gains: ArrayLike, most: int = MOST_BARS) -> F64:
    """Return gains in increasing order; if there are more than `most`, means of neighbours, as even
    as possible.

    Args:
        gains: one number per query, at least one of them; NaN is left out.
        most: the largest number of bars.

    >>> sorted_bars([3.0, 1.0, 2.0, 6.0], most=2).tolist()
    [1.5, 4.5]
    """
    values = numbers("gains", gains, "query")
    ordered = np.sort(values[~np.isnan(values)])
    return np.array([part.mean() for part in np.array_split(ordered, min(most, ordered.size))])


def _bar_section(found: QueryGains, styles: Styles, under: str) -> FigureSection:
    """A panel per system, a bar per query, sorted."""
    from plotly.subplots import make_subplots

    bars_of = {name: sorted_bars(gains) for name, gains in found.gains.items()}
    panels = len(bars_of)
    titles, spacing = [escaped(shortened(name)) for name in bars_of], 0.27 / panels
    figure = make_subplots(
        panels, 1, shared_xaxes=True, vertical_spacing=spacing, subplot_titles=titles
    )
    # One scale for all panels: a bar twice as high is twice the gain, whatever the system.
    highest = max(float(np.abs(bars).max(initial=0.0)) for bars in bars_of.values()) or 1.0
    for row, (name, bars) in enumerate(bars_of.items(), 1):
        places, width = (
            (np.arange(bars.size) + 0.5) * 100 / max(1, bars.size),
            100 / max(1, bars.size),
        )
        drawn: dict[str, Any] = {
            "x": plain_numbers(places),
            "y": plain_numbers(bars),
            "width": width,
        }
        drawn["marker"] = {"color": styles[name].colour, "line": {"width": 0}}
        figure.add_bar(**drawn, hovertemplate="%{y:+.4f}", row=row, col=1, **trace_name(name))
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(range=[0, 100], showgrid=False)
    figure.update_xaxes(title={"text": "% of queries, from loss to gain"}, row=panels)
    figure.update_yaxes(range=[-1.05 * highest, 1.05 * highest], nticks=5)
    figure.update_yaxes(title={"text": escaped(f"gain in {found.unit}")}, row=(panels + 1) // 2)
    figure.update_layout(height=90 + _PANEL * panels, showlegend=False)
    counts = {name: win_tie_loss(gains) for name, gains in found.gains.items()}
    whose = (
        "each test query, mean over trainings,"
        if found.trial_of is None
        else "each test query of each trial"
    )
    caption = f"What {whose} gains or loses against {found.baseline} in {found.unit}, sorted in each panel."
    together = math.ceil(max(map(sum, counts.values())) / MOST_BARS)
    caption += (
        f" A bar is the mean of up to {together} neighbours in that order." if together > 1 else ""
    )
    summary = [
        f"{name} wins {won}, ties {tied} and loses {lost}"
        for name, (won, tied, lost) in counts.items()
    ]
    title = f"Gain of each query over {found.baseline}{under}"
    return FigureSection(
        title, figure, caption, f"Sorted bars, one per query: {'; '.join(summary)}."
    )


def difficulty_groups(
    baseline: ArrayLike, groups: int = _GROUPS, *, higher_is_better: bool = True
) -> list[I64]:
    """Cut queries at the quantiles of a baseline's values, and return the numbers of each group,
    the hardest first.

    Queries of equal value stay together, so that groups may differ in size, or be fewer.

    Args:
        baseline: one value per query, at least one of them; NaN is left out.
        groups: the number of groups.
        higher_is_better: whether a low value means a hard query.

    >>> [group.tolist() for group in difficulty_groups([0.0, 0.0, 0.0, 0.2, 0.4, 1.0], groups=3)]
    [[0, 1, 2], [3], [4, 5]]
    >>> [group.tolist() for group in difficulty_groups([1.0, 2.0, 3.0, 4.0], groups=2, higher_is_better=False)]
    [[2, 3], [0, 1]]
    """
    values = numbers("baseline", baseline, "query")
    known = np.flatnonzero(~np.isnan(values))
    cuts = np.unique(np.quantile(values[known], np.linspace(0, 1, groups + 1)[1:-1]))
    group_of = np.searchsorted(cuts, values[known], side="left")
    found = [known[group_of == group] for group in np.unique(group_of)]
    return found if higher_is_better else found[::-1]


def _difficulty_section(found: QueryGains, styles: Styles, under: str) -> FigureSection:
    """Mean gain in each group of queries, with intervals over its queries or over trials."""
    figure = require_plotly().Figure()
    groups = difficulty_groups(found.values, higher_is_better=found.higher_is_better)
    drawn_intervals, summary = False, []
    for i, (name, gains) in enumerate(found.gains.items()):
        means = np.array([gains[group].mean() for group in groups])
        low, high = np.array([_group_interval(found, gains, group) for group in groups]).T
        drawn_intervals |= not np.isnan(low).all()
        summary.append(
            f"{name} gains {means[0]:+.4f} on the hardest and {means[-1]:+.4f} on the easiest"
        )
        # Side by side within the middle six tenths of a group's place.
        places = np.arange(len(groups)) + 0.6 * ((i + 0.5) / len(found.gains) - 0.5)
        drawn = interval_points(
            name, styles[name], places, (low, means, high), "y", 9, thickness=1.5, width=3
        )
        figure.add_scatter(**drawn)
    labels = [f"{_format_range(found.values[group])}<br>n = {group.size:,}" for group in groups]
    x_axis = {
        "tickvals": list(range(len(groups))),
        "ticktext": labels,
        "tickangle": 0,
        "tickfont": {"size": 12},
    }
    x_axis |= {"range": [-0.5, len(groups) - 0.5], "showgrid": False, "zeroline": False}
    x_title = f"{found.unit} of {shortened(found.baseline)}, hardest queries first"
    with_axes(figure, x_title, f"mean gain in {found.unit}", x_axis, zeroline=True)
    how = (
        "bootstrap intervals over queries"
        if found.trial_of is None
        else "confidence intervals over trials"
    )
    how += widened(found.overlap) if found.trial_of is not None else ""
    caption = f"Mean gain over {found.baseline} in {found.unit} by how hard a query is for {found.baseline}"
    caption += f", with 95 % {how}" if drawn_intervals else ""
    caption += f". The groups are made from the values of {found.baseline} itself, so part of the gain on the hardest "
    caption += "and of the loss on the easiest queries is regression to the mean."
    return FigureSection(
        f"Gain by difficulty of the query{under}", figure, caption, f"Points: {'; '.join(summary)}."
    )


def widened(overlap: float) -> str:
    """Return the clause that says why intervals over trials are wide, if their training queries
    overlap.

    >>> widened(0.0)
    ''
    """
    return (
        ", widened for the training queries that trials share (Nadeau and Bengio)"
        if overlap
        else ""
    )


def _group_interval(found: QueryGains, gains: F64, queries: I64) -> tuple[float, float]:
    """The interval of a group's mean gain, centred on the mean over queries, which is drawn."""
    gained = gains[queries]
    if found.trial_of is None:
        low, high = bootstrap_interval(gained) if gained.size > 1 else (gained[0], gained[0])
        return float(low), float(high)
    # A query may come up in several trials: a bootstrap over all of them would count it several
    # times.
    trials, place = np.unique(found.trial_of[queries], return_inverse=True)
    by_trial = np.bincount(place, gained, trials.size) / np.bincount(place, minlength=trials.size)
    low, high = interval_over_trials(by_trial, found.overlap)
    shift = float(gained.mean()) - (low + high) / 2
    return low + shift, high + shift


def interval_over_trials(differences: ArrayLike, overlap: float) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean over trials whose training queries overlap; NaN
    for one trial.

    mean ± t(J - 1) sqrt((1/J + overlap) var): what `tautrank.corrected_resampled_t_test` does not
    reject at 5%.

    Args:
        differences: one number per trial.
        overlap: held-out over training size; 0 gives Student's interval.

    >>> low, high = interval_over_trials([1, 2, 3], 1 / 3)
    >>> round(low, 3), round(high, 3)
    (-1.513, 5.513)
    """
    found = over_trials(np.asarray(differences, np.float64), overlap, 0.05)
    return found.low, found.high


def _format_range(values: F64) -> str:
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return (
        low if low == high else f"{low}<br>to {high}"
    )  # on two lines, so that five of them fit a phone
