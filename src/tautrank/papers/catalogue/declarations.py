"""What declarations of studies are made of: texts, what papers print, parameters of leaves, figures
of measurements.
"""

from __future__ import annotations

import csv
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from tautrank.papers.study import OTHER_DATA, Printed, Recipe, Study

_FOLDER = files("tautrank.papers.catalogue")


def declared(name: str, *, recipes: Iterable[Recipe] = (), **fields: Any) -> Study:
    """Return a study whose texts stand in `texts.md` and the paper's numbers in `printed.csv`.

    Args:
        name: its name, a heading in `texts.md` below that of its paper.
        recipes: its recipes, without the numbers.
        **fields: its other fields.

    >>> from tautrank.experiments.plan import System
    >>> study = declared("xe-table1", systems=(System("xendcg"),), metrics=("ndcg@5",))
    >>> study.paper
    'Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020, Table 1'
    """
    paper, heading, claim, open_points, *axis = texts()[name]
    place, title = heading.split(": ", 1)
    fields["recipes"] = tuple(_with_printed(name, recipe) for recipe in recipes)
    return Study(
        name=name,
        title=title,
        paper=f"{paper}, {place}",
        claim=claim,
        note=re.sub(r"\{(.*?)\}", _quoted_text, open_points),
        axis=" ".join(axis),
        **fields,
    )


def _quoted_text(match: re.Match[str]) -> str:
    """Return the first paragraph below a heading of `texts.md`, for ``{heading}`` in a text."""
    return texts()[match[1]][1]


def _with_printed(study: str, recipe: Recipe) -> Recipe:
    """Return a recipe with the numbers that the paper prints."""
    return replace(recipe, printed=tuple(_printed()[study, recipe.data]))


@functools.cache
def texts() -> dict[str, list[str]]:
    """Return the heading above and the paragraphs below each heading of `texts.md`."""
    paragraphs_by_heading = {}
    text = _FOLDER.joinpath("texts.md").read_text(encoding="utf-8")
    for chapter in text.split("\n# ")[1:]:
        paper, *sections = chapter.split("\n## ")
        for section in sections:
            heading, *paragraphs = section.strip().split("\n\n")
            on_one_line = [" ".join(paragraph.split()) for paragraph in paragraphs]
            paragraphs_by_heading[heading] = [paper.strip(), *on_one_line]
    return paragraphs_by_heading


@functools.cache
def _printed() -> dict[tuple[str, str], list[Printed]]:
    """The numbers of each study on each data set, as shares."""
    text = _FOLDER.joinpath("printed.csv").read_text(encoding="utf-8")
    printed = defaultdict(list)
    for study, data, *cells in csv.reader(text.splitlines()[1:]):
        system, metric, value, condition, part, spread = cells
        number = Printed(
            system=system,
            metric=metric,
            value=float(value),
            condition=condition,
            part=part,
            spread=float(spread) if spread else None,
        )
        printed[study, data].append(number)
    return printed


def leaves(num_leaves: int, hessian: float, documents: int) -> dict[str, Any]:
    """Return LightGBM's parameters for leaves.

    Args:
        num_leaves: the number of leaves.
        hessian: the least sum of hessians in a leaf.
        documents: the least number of documents in a leaf.
    """
    return {
        "num_leaves": num_leaves,
        "min_sum_hessian_in_leaf": hessian,
        "min_child_samples": documents,
    }


# Hessians of the papers' data sets add up to far more than those of a small one, which could not be
# split at all.
OTHERS = Recipe(
    OTHER_DATA,
    "LightGBM's defaults for leaves, since this is not the paper's data",
    leaves(31, 1e-3, 20),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredFigure:
    """How a page draws a measurement.

    Args:
        form: ``"clouds"`` draws the points of the first trial, one cloud per list; ``"curves"``
            draws them over the conditions, one curve per series; ``"rows"`` draws quantities, one
            row per system and one mark per trial.
        title: the heading.
        caption: what is drawn and how to read it.
        series: what is drawn, with its name in the legend; for clouds the two axes, with their
            titles.
        axis: the title of the logarithmic axis of curves and rows.
    """

    form: str
    title: str
    caption: str
    series: Mapping[str, str]
    axis: str = ""


def _figure(kind: str, form: str, series: Mapping[str, str], axis: str = "") -> MeasuredFigure:
    """The figure of a measurement, whose title and caption stand in `texts.md`."""
    _, title, caption = texts()[kind]
    return MeasuredFigure(form=form, title=title, caption=caption, series=series, axis=axis)


_DISTANCES = {
    "distance": "distance, measured",
    "within-bound": "bound of the proof",
    "within-bound-as-stated": "bound as stated",
    "within-bound-by-contests": "bound by contests",
}
_COSTS = {
    "directness": "guarantee: 2 eps1 + eps2",
    "by-means": "guarantee by means",
    "cost": "cost, measured",
}

MEASURED_FIGURES: dict[str, MeasuredFigure] = {
    "jensen-clouds": _figure(
        "jensen-clouds", "clouds", {"losses": "XE-NDCG", "gaps": "Jensen gap"}
    ),
    "softrank-distance": _figure("softrank-distance", "curves", _DISTANCES, "distance from NDCG"),
    "directness": _figure("directness", "rows", _COSTS, "cost in NDCG"),
}
"""The figure of each measurement that has one, by the name of the measurement."""
