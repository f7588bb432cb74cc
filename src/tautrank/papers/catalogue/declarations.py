"""What declarations of studies are made of: their texts, and what papers print, numbers in percent and parameters."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeAlias, TypeVar

from tautrank.experiments.plan import PLAIN
from tautrank.papers.study import OTHER_DATA, Printed, Recipe, Study

Number: TypeAlias = float | tuple[float, float]
"""A value in percent, or a value and the number after ±."""

_T = TypeVar("_T")


def declared(name: str, **fields: Any) -> Study:
    """Return a study whose texts stand in `texts.md`: paper, title, claim and note.

    Args:
        name: its name, a heading there below that of its paper.
        **fields: its other fields.

    >>> from tautrank.experiments.plan import System
    >>> declared("xe-table1", systems=(System("xendcg"),), metrics=("ndcg@5",)).paper
    'Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020, Table 1'
    """
    paper, heading, claim, open_points = _texts()[name]
    place, title = heading.split(": ", 1)
    note = re.sub(r"\{(.*?)\}", lambda found: _texts()[found[1]][1], open_points)
    return Study(name=name, title=title, paper=f"{paper}, {place}", claim=claim, note=note, **fields)


@functools.cache
def _texts() -> dict[str, list[str]]:
    """The heading above and the paragraphs below each heading."""
    text, found = files("tautrank.papers.catalogue").joinpath("texts.md").read_text(encoding="utf-8"), {}
    for chapter in text.split("\n# ")[1:]:
        paper, *sections = chapter.split("\n## ")
        for paragraphs in (section.strip().split("\n\n") for section in sections):
            found[paragraphs[0]] = [paper.strip(), *(" ".join(each.split()) for each in paragraphs[1:])]
    return found


def leaves(num_leaves: int, hessian: float, documents: int) -> dict[str, Any]:
    """Return LightGBM's parameters for leaves.

    Args:
        num_leaves: the number of leaves.
        hessian: the least sum of hessians in a leaf.
        documents: the least number of documents in a leaf.
    """
    return {"num_leaves": num_leaves, "min_sum_hessian_in_leaf": hessian, "min_child_samples": documents}


# Hessians of the papers' data sets add up to far more than those of a small one, which could not be split at all.
OTHERS = Recipe(OTHER_DATA, "LightGBM's defaults for leaves, since this is not the paper's data", leaves(31, 1e-3, 20))


def recipes(titles: Mapping[str, str], **fields: Mapping[str, Any]) -> tuple[Recipe, ...]:
    """Return one recipe per data set.

    Args:
        titles: the paper's names for the data sets, by name of the data set.
        **fields: fields of `Recipe`, each by name of the data set.

    >>> recipes({"web30k": "Web30K"}, parameters={"web30k": leaves(31, 1e-3, 20)})[0].parameters["num_leaves"]
    31
    """
    return tuple(
        Recipe(data, title, **{name: values[data] for name, values in fields.items()}) for data, title in titles.items()
    )


def by_data_set(data_sets: Sequence[str], rows: Mapping[str, Sequence[_T]]) -> dict[str, dict[str, _T]]:
    """Turn a table with one row per system and one column per data set into the columns that recipes take.

    Args:
        data_sets: the data sets of the columns.
        rows: the values on each data set, by the name of the system.

    >>> by_data_set(["web30k", "yahoo1"], {"listnet": (46.72, 72.90), "lambdamart": (49.20, 74.16)})["yahoo1"]
    {'listnet': 72.9, 'lambdamart': 74.16}
    """
    return {data: {system: row[place] for system, row in rows.items()} for place, data in enumerate(data_sets)}


def in_percent(
    rows: Mapping[str, Sequence[Number]],
    metrics: Sequence[str],
    parts: Sequence[str] = ("test",),
    condition: str = PLAIN,
) -> tuple[Printed, ...]:
    """Return the numbers of a table whose columns are metrics, and for each metric parts of the data.

    Args:
        rows: one number per column, by the name of the system.
        metrics: the metrics of the columns.
        parts: the parts of the columns.
        condition: the condition of the numbers.

    >>> in_percent({"xendcg": (48.23, 50.27)}, ("ndcg@5", "ndcg@10"))[1]
    Printed(system='xendcg', metric='ndcg@10', value=0.5027, condition='plain', part='test', spread=None)
    """
    columns = [(name, part) for name in metrics for part in parts]
    printed = []
    for system, numbers in rows.items():
        for (name, part), number in zip(columns, numbers, strict=True):
            value, spread = number if isinstance(number, tuple) else (number, None)
            # Rounded, since 48.23 / 100 is not the float that 0.4823 is.
            share = None if spread is None else round(spread / 100, 6)
            printed.append(Printed(system, name, round(value / 100, 6), condition, part, share))
    return tuple(printed)


def printed_tables(
    data_sets: Sequence[str],
    rows: Mapping[str, Sequence[Sequence[Number]]],
    metrics: Sequence[str],
    parts: Sequence[str] = ("test",),
) -> dict[str, tuple[Printed, ...]]:
    """Return the numbers of a table that has one column per data set, each divided into metrics and parts.

    Args:
        data_sets: the data sets of the columns.
        rows: the numbers on each data set, by the name of the system.
        metrics, parts: as those of `in_percent`.
    """
    return {data: in_percent(column, metrics, parts) for data, column in by_data_set(data_sets, rows).items()}
