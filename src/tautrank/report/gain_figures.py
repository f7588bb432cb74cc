"""Figures of what queries gain over a baseline: sorted, and by how hard they are for the
baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, I64, numbers
from tautrank.report.figures import (
    escaped,
    interval_points,
    plain_numbers,
    shortened,
    trace_name,
    with_axes,
)
from tautrank.report.page import FigureSection, Styles, system_styles
from tautrank.report.plotly_script import require_plotly
from tautrank.significance.paired import bootstrap_interval
from tautrank.significance.verdicts import over_trials, win_tie_loss

MOST_BARS = 240
"""Most bars of one panel; more would be narrower than a pixel of a phone."""

_FEWEST_QUERIES = 10  # fewer queries have no distribution to draw
_PANEL = 130  # pixels
_GROUPS = 5


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

    mean ± t(J - 1) sqrt((1/J + overlap) var): what `tautrank.significance.corrected_resampled_t_test` does not
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
