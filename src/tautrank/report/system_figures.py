"""Figures that the pages of a comparison and of a study share: trainings tree by tree, and what queries gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tautrank.report.figures import MOST_BARS, DifficultyGroup, difficulty_figure, query_gain_figure
from tautrank.report.page import FigureSection
from tautrank.report.palette import SystemStyle

FEWEST_QUERIES = 10
"""For groups by difficulty: fewer say nothing."""


def over_trainings(trainings: int, called: str = "trainings") -> str:
    """What lines and bands of curves by trees are; nothing for one training, which has no band.

    Args:
        trainings: how many a line is made of.
        called: what they are.

    >>> over_trainings(3)[:70]
    ' Lines are means and bands standard deviations over 3 trainings; a lin'
    """
    if trainings == 1:
        return ""
    return (
        f" Lines are means and bands standard deviations over {trainings} {called}; a line ends where the first of its "
        "trainings stopped."
    )


def query_gain_section(
    gains: Mapping[str, NDArray[np.float64]],
    caption: str,
    told: str,
    *,
    unit: str,
    baseline: str,
    styles: Mapping[str, SystemStyle],
    under: str = "",
) -> FigureSection:
    """What every query gains or loses against a baseline, sorted.

    Args:
        gains: for each system, one number a query; NaN where the query is skipped.
        caption: what a bar is.
        told: the figure in words.
        unit: what is gained.
        baseline: what the baseline is called.
        styles: of all systems of the page.
        under: the condition, as it stands behind a title.
    """
    counted = max(np.count_nonzero(~np.isnan(values)) for values in gains.values())
    if counted > MOST_BARS:
        caption += f" A bar is the mean of about {counted / MOST_BARS:.0f} neighbours in that order."
    figure = query_gain_figure(gains, unit=unit, styles=styles)
    return FigureSection(f"Gain of each query over {baseline}{under}", figure, caption, told)


def difficulty_section(
    gains: Mapping[str, NDArray[np.float64]],
    groups: Sequence[DifficultyGroup],
    *,
    unit: str,
    baseline: str,
    styles: Mapping[str, SystemStyle],
    under: str = "",
    how: str = "bootstrap intervals over queries",
    intervals: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> FigureSection:
    """Mean gain over a baseline by how hard queries are for it.

    Args:
        gains: for each system, one number a query; NaN where the query is skipped.
        groups: of the queries, the hardest first.
        unit: what is gained.
        baseline: what the baseline is called.
        styles: of all systems of the page.
        under: the condition, as it stands behind a title.
        how: what the intervals are.
        intervals: for each system, one a group, in place of bootstrap intervals; NaN draws none.
    """
    figure = difficulty_figure(gains, groups, unit=unit, baseline=baseline, styles=styles, intervals=intervals)
    with_intervals = intervals is None or not np.isnan(list(intervals.values())).all()
    caption = (
        f"Mean gain over {baseline} in {unit} by how hard a query is for {baseline}"
        + (f", with 95% {how}" if with_intervals else "")
        + f". The groups are made of {baseline}'s own values, so part of a gain on the hardest and of a loss on the "
        "easiest queries is its own chance evening out."
    )
    told = "; ".join(
        f"{name} gains {np.nanmean(values[groups[0].queries]):+.4f} on the hardest and "
        f"{np.nanmean(values[groups[-1].queries]):+.4f} on the easiest"
        for name, values in gains.items()
    )
    return FigureSection(f"Gain by difficulty of the query{under}", figure, caption, f"Points with intervals: {told}.")
