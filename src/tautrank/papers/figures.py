"""The figures of measurements, declared: what the page of a study draws from their points and quantities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """How a page draws a measurement.

    Args:
        form: ``"clouds"`` draws the points of the first trial, one cloud per list; ``"curves"`` draws them over the
            conditions, one curve per series; ``"rows"`` draws quantities, one row per system and one mark per trial.
        title: the heading.
        caption: what is drawn and how to read it.
        series: what is drawn, with its name in the legend; for clouds the two axes, with their titles.
        axis: the title of the logarithmic axis of curves and rows.
    """

    form: Literal["clouds", "curves", "rows"]
    title: str
    caption: str
    series: Mapping[str, str]
    axis: str = ""


MEASURED_FIGURES: dict[str, MeasuredFigure] = {
    "jensen-clouds": MeasuredFigure(
        form="clouds",
        title="The gap of many gammas",
        caption="The Jensen gap against the loss in the first trial: one cloud per list, one point per random gamma. "
        "The taller a cloud, the more gamma decides how tight the bound is.",
        series={"losses": "XE-NDCG", "gaps": "Jensen gap"},
    ),
    "softrank-distance": MeasuredFigure(
        form="curves",
        title="Distance from NDCG and its bounds",
        caption="How far SoftNDCG is from NDCG, mean over the lists of the first trial, and the bounds on it. A bound "
        "is missing where it says nothing. Above 1 a bound says nothing either: no two values of NDCG are further "
        "apart.",
        series={
            "distance": "distance, measured",
            "within-bound": "bound of the proof",
            "within-bound-as-stated": "bound as stated",
            "within-bound-by-contests": "bound by contests",
        },
        axis="distance from NDCG",
    ),
    "directness": MeasuredFigure(
        form="rows",
        title="How direct each loss is",
        caption="How much NDCG the ranker that is best by a loss may lose against the best ranker: by the theorem, by "
        "the same argument with means over queries, and as measured. One mark per trial. Further left is more direct.",
        series={"directness": "guarantee: 2 eps1 + eps2", "by-means": "guarantee by means", "cost": "cost, measured"},
        axis="cost in NDCG",
    ),
}
"""The figure of each measurement that has one, by the name of the measurement."""
