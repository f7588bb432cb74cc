"""Figures of what queries gain over a baseline: sorted, and by how hard they are for the
baseline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import F64, I64, numbers
from tautrank.report.figures import (
    Intervals,
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
_PANEL_HEIGHT = 130  # pixels
_N_GROUPS = 5


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
    query_gains: QueryGains, styles: Styles | None = None, suffix: str = ""
) -> Iterator[FigureSection]:
    """Draw the gain of each query and the gain by difficulty; nothing where there are fewer than
    ten queries.

    Args:
        query_gains: the gains of at least one system.
        styles: the styles of all systems of the page; by default those of the gains.
        suffix: what to add to the titles, such as the condition.

    >>> rng = np.random.default_rng(0)
    >>> gains = QueryGains("ndcg@5", "mse", rng.random(20), {"xendcg": rng.normal(size=20)})
    >>> [section.title for section in gain_sections(gains)]
    ['Gain of each query over mse', 'Gain by difficulty of the query']
    """
    # `values` are those of the baseline; NaN where the metric skips a query.
    n_queries = np.count_nonzero(~np.isnan(query_gains.values))
    if n_queries >= _FEWEST_QUERIES:
        styles = styles or system_styles(list(query_gains.gains))
        yield _bar_section(query_gains, styles, suffix)
        yield _difficulty_section(query_gains, styles, suffix)


# ---- The gain of each query, sorted


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
    sorted_values = np.sort(values[~np.isnan(values)])
    n_bars = min(most, sorted_values.size)
    groups_of_neighbours = np.array_split(sorted_values, n_bars)
    return np.array([neighbours.mean() for neighbours in groups_of_neighbours])


def _bar_section(query_gains: QueryGains, styles: Styles, suffix: str) -> FigureSection:
    """Return the section with sorted bars of the gain of each query over the baseline, one panel
    per system, with a caption and a summary in words.
    """
    counts = [win_tie_loss(system_gains) for system_gains in query_gains.gains.values()]
    # Where trials test on the same queries, a query has its mean gain over them.
    queries = "each test query, mean over trainings,"
    if query_gains.trial_of is not None:
        queries = "each test query of each trial"
    caption = (
        f"What {queries} gains or loses against {query_gains.baseline} in {query_gains.unit},"
        " sorted in each panel."
    )

    n_queries = max(sum(count) for count in counts)
    # Too many queries for bars of their own share bars with their neighbours.
    n_neighbours = math.ceil(n_queries / MOST_BARS)
    if n_neighbours > 1:
        caption += f" A bar is the mean of up to {n_neighbours} neighbours in that order."

    results = []
    for name, (won, tied, lost) in zip(query_gains.gains, counts, strict=True):
        results.append(f"{name} wins {won}, ties {tied} and loses {lost}")
    summary = f"Sorted bars, one per query: {'; '.join(results)}."

    title = f"Gain of each query over {query_gains.baseline}{suffix}"
    return FigureSection(title, _bar_figure(query_gains, styles), caption, summary)


def _bar_figure(query_gains: QueryGains, styles: Styles) -> Any:
    """Draw the gains of each system over the baseline as sorted bars, one panel per system, the
    panels one below the other with the same scale.
    """
    from plotly.subplots import make_subplots

    n_panels = len(query_gains.gains)
    figure = make_subplots(
        n_panels,
        1,
        shared_xaxes=True,
        vertical_spacing=0.27 / n_panels,  # room for the title of a panel
        subplot_titles=[escaped(shortened(name)) for name in query_gains.gains],
    )
    largest_bar = 0.0
    for row, (name, system_gains) in enumerate(query_gains.gains.items(), 1):
        bars = sorted_bars(system_gains)
        largest_bar_of_panel = float(np.abs(bars).max(initial=0.0))
        largest_bar = max(largest_bar, largest_bar_of_panel)
        figure.add_bar(**_bar_trace(name, bars, styles[name].colour), row=row, col=1)

    # One scale for all panels: a bar twice as high is twice the gain, whatever the system. The
    # longest bar ends a little before the edge.
    limit = 1.05 * (largest_bar or 1.0)
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(range=[0, 100], showgrid=False)
    figure.update_xaxes(title={"text": "% of queries, from loss to gain"}, row=n_panels)
    figure.update_yaxes(range=[-limit, limit], nticks=5)
    middle_row = (n_panels + 1) // 2
    figure.update_yaxes(title={"text": escaped(f"gain in {query_gains.unit}")}, row=middle_row)
    return figure.update_layout(height=90 + _PANEL_HEIGHT * n_panels, showlegend=False)


def _bar_trace(name: str, heights: F64, colour: str) -> dict[str, Any]:
    """Return Plotly's settings for bars of given heights that lie side by side and fill a panel from
    0 to 100 % of the queries.

    Args:
        name: the name of the system.
        heights: the heights of the bars, from left to right.
        colour: the colour of the system.
    """
    n_bars = max(1, heights.size)
    # Each bar is 100 / n_bars wide; 0.5 moves from its left edge to its centre.
    centres = (np.arange(heights.size) + 0.5) * 100 / n_bars
    return {
        "x": plain_numbers(centres),
        "y": plain_numbers(heights),
        "width": 100 / n_bars,
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": "%{y:+.4f}",
        **trace_name(name),
    }


# ---- The gain by difficulty


def difficulty_groups(
    baseline: ArrayLike, groups: int = _N_GROUPS, *, higher_is_better: bool = True
) -> list[I64]:
    """Group queries by how hard they are for a baseline, and return the indices of the queries of
    each group, the hardest group first.

    The groups are cut at quantiles of the baseline's metric values. Queries of equal value stay
    together, so that groups may differ in size, or be fewer.

    Args:
        baseline: one value per query, at least one of them; NaN is left out.
        groups: the number of groups.
        higher_is_better: whether a low value means a hard query.

    >>> [group.tolist() for group in difficulty_groups([0.0, 0.0, 0.0, 0.2, 0.4, 1.0], groups=3)]
    [[0, 1, 2], [3], [4, 5]]
    >>> [group.tolist() for group in difficulty_groups([1.0, 2.0, 3.0, 4.0], groups=2, higher_is_better=False)]
    [[2, 3], [0, 1]]
    """
    all_values = numbers("baseline", baseline, "query")
    judged_queries = np.flatnonzero(~np.isnan(all_values))
    values = all_values[judged_queries]

    # Equal groups are cut at the quantiles 1/groups, 2/groups, ..., without 0 and 1.
    inner_shares = np.linspace(0, 1, groups + 1)[1:-1]
    cuts = np.unique(np.quantile(values, inner_shares))
    # The number of cuts below a value is the number of its group.
    group_numbers = np.searchsorted(cuts, values, side="left")

    lowest_value_first = []
    for group_number in np.unique(group_numbers):
        # Back to the indices among all queries, those without a value included.
        lowest_value_first.append(judged_queries[group_numbers == group_number])
    if higher_is_better:
        return lowest_value_first
    return lowest_value_first[::-1]


def _difficulty_section(query_gains: QueryGains, styles: Styles, suffix: str) -> FigureSection:
    """Return the section with the figure of the mean gain over the baseline in each group of
    queries, from the hardest to the easiest, with confidence intervals, caption and summary.
    """
    groups = difficulty_groups(query_gains.values, higher_is_better=query_gains.higher_is_better)
    intervals_by_system = {
        name: _group_intervals(query_gains, name, groups) for name in query_gains.gains
    }
    figure = _difficulty_figure(query_gains, styles, groups, intervals_by_system)

    caption = (
        f"Mean gain over {query_gains.baseline} in {query_gains.unit} by how hard a query is for"
        f" {query_gains.baseline}"
    )
    lows = np.array([intervals.low for intervals in intervals_by_system.values()])
    if not np.isnan(lows).all():
        caption += f", with 95 % {_kind_of_interval(query_gains)}"
    caption += (
        f". The groups are made from the values of {query_gains.baseline} itself, so part of the"
        " gain on the hardest and of the loss on the easiest queries is regression to the mean."
    )

    gains_at_ends = []
    for name, intervals in intervals_by_system.items():
        hardest, easiest = intervals.middle[0], intervals.middle[-1]
        gains_at_ends.append(
            f"{name} gains {hardest:+.4f} on the hardest and {easiest:+.4f} on the easiest"
        )
    summary = f"Points: {'; '.join(gains_at_ends)}."
    title = f"Gain by difficulty of the query{suffix}"
    return FigureSection(title, figure, caption, summary)


def _kind_of_interval(query_gains: QueryGains) -> str:
    """Return in words how the intervals of mean gains are made: over queries or over trials."""
    if query_gains.trial_of is None:
        return "bootstrap intervals over queries"
    return f"confidence intervals over trials{widened(query_gains.overlap)}"


def _difficulty_figure(
    query_gains: QueryGains,
    styles: Styles,
    groups: Sequence[I64],
    intervals_by_system: Mapping[str, Intervals],
) -> Any:
    """Draw the mean gains of systems in groups of queries, with their confidence intervals; the
    points of the systems stand side by side above the label of their group.

    Args:
        query_gains: the values and gains of all queries.
        styles: the colours and shapes of the systems.
        groups: the indices of the queries of each group, the hardest first.
        intervals_by_system: the mean gain and interval of each group, by system.
    """
    figure = require_plotly().Figure()
    n_systems = len(intervals_by_system)
    for number, (name, intervals) in enumerate(intervals_by_system.items()):
        # Labels are 1 apart; the points of a group fill the middle 0.6 around its label.
        shift = 0.6 * ((number + 0.5) / n_systems - 0.5)
        x_positions = np.arange(len(groups)) + shift
        points = interval_points(
            name, styles[name], x_positions, intervals, "y", size=9, thickness=1.5, width=3
        )
        figure.add_scatter(**points)
    x_axis = {
        "tickvals": list(range(len(groups))),
        "ticktext": [_group_label(query_gains.values[group]) for group in groups],
        "tickangle": 0,
        "tickfont": {"size": 12},
        "range": [-0.5, len(groups) - 0.5],
        "showgrid": False,
        "zeroline": False,
    }
    x_title = f"{query_gains.unit} of {shortened(query_gains.baseline)}, hardest queries first"
    return with_axes(figure, x_title, f"mean gain in {query_gains.unit}", x_axis, zeroline=True)


def _group_label(values: F64) -> str:
    """Return the label of a group of queries: the range of their metric values and their number, on
    lines short enough for a phone.
    """
    low = f"{values.min():.3g}"
    high = f"{values.max():.3g}"
    value_range = low if low == high else f"{low}<br>to {high}"
    return f"{value_range}<br>n = {values.size:,}"


def widened(overlap: float) -> str:
    """Return the clause that says why intervals over trials are wide, if their training queries
    overlap.

    >>> widened(0.0)
    ''
    """
    if not overlap:
        return ""
    return ", widened for the training queries that trials share (Nadeau and Bengio)"


def _group_intervals(query_gains: QueryGains, system: str, groups: Sequence[I64]) -> Intervals:
    """Return the mean gain of a system over the baseline in each group of queries, with its 95 %
    confidence interval.
    """
    system_gains = query_gains.gains[system]
    means = np.array([system_gains[group].mean() for group in groups])
    # One row per group: the lower and the upper end.
    low_and_high = np.array(
        [_group_interval(query_gains, system_gains, group) for group in groups],
    )
    return Intervals(low=low_and_high[:, 0], middle=means, high=low_and_high[:, 1])


def _group_interval(
    query_gains: QueryGains, system_gains: F64, queries: I64
) -> tuple[float, float]:
    """Return the 95 % confidence interval of a system's mean gain in a group of queries.

    It is a bootstrap interval over queries, or an interval over trials where trials test on
    different queries; the latter is moved so that its middle is the mean over queries, which the
    figure shows.

    Args:
        query_gains: which trial each query belongs to.
        system_gains: the system's gain on each query.
        queries: the indices of the group's queries.
    """
    group_gains = system_gains[queries]
    if query_gains.trial_of is None:
        if group_gains.size == 1:
            only_gain = float(group_gains[0])
            return only_gain, only_gain
        low, high = bootstrap_interval(group_gains)
        return float(low), float(high)

    # A query may come up in several trials: a bootstrap over all of them would count it several
    # times. So the interval is one over the mean gain of each trial.
    trials, trial_index = np.unique(query_gains.trial_of[queries], return_inverse=True)
    sums_by_trial = np.bincount(trial_index, group_gains, trials.size)
    queries_by_trial = np.bincount(trial_index, minlength=trials.size)
    # `overlap`: trials share training queries, which widens the interval.
    low, high = interval_over_trials(sums_by_trial / queries_by_trial, query_gains.overlap)
    centre = (low + high) / 2
    shift = float(group_gains.mean()) - centre
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
    outcome = over_trials(np.asarray(differences, np.float64), overlap, 0.05)
    return outcome.low, outcome.high
