"""List features as nodes of ONNX, which follow the formulas of `tautrank.ranker.list_features`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tautrank.export.onnx_nodes import Nodes

if TYPE_CHECKING:
    from tautrank.ranker.list_features import ListFeatures


class _ListValues(NamedTuple):
    """Names of values of the columns that list features describe, documents by columns.

    Args:
        missing: whether a value is missing.
        is_known: 1 where a value is not missing, else 0.
        n_known: number of values of each column that are not missing.
        filled: the values, -inf where they are missing.
        highest: the largest value of each column.
        varies: whether the values of a column differ.
        exact: the values as doubles, 0 where they are missing.
        one: the number 1.
    """

    missing: str
    is_known: str
    n_known: str
    filled: str
    highest: str
    varies: str
    exact: str
    one: str


def put_list_features(list_features: ListFeatures, graph: Nodes) -> str:
    """Put the nodes that add list features to ``features`` into a graph, and return the name of the
    result.

    Sums are in doubles, ranks by sorting each column.

    Args:
        list_features: the list features, with columns by number.
        graph: receives the nodes.
    """
    values = _put_values(list_features, graph)
    blocks = []
    if list_features.z_score:
        blocks.append(_put_z_score(values, graph))
    if list_features.rank:
        blocks.append(_put_rank(values, graph))
    if list_features.difference:
        blocks.append(_put_difference(values, graph))

    nan, zero = graph.constant(np.nan, np.float32), graph.constant(0, np.float64)
    columns = []
    for block in blocks:
        where_varied = graph.put("Where", values.varies, block, zero)
        columns.append(graph.put("Where", values.missing, nan, graph.cast("FLOAT", where_varied)))
    return graph.put("Concat", "features", *columns, axis=1)


def _put_values(list_features: ListFeatures, graph: Nodes) -> _ListValues:
    """Put the values of the columns into a graph, and what several kinds of list features need."""
    x = graph.put("Gather", "features", graph.constant(list_features.columns, np.int64), axis=1)
    missing = graph.put("IsNaN", x)
    is_known = graph.cast("DOUBLE", graph.put("Not", missing))
    n_known = graph.over_list("Sum", is_known)
    filled = graph.put("Where", missing, graph.constant(-np.inf, np.float32), x)
    highest = graph.over_list("Max", filled)
    lowest = graph.over_list("Min", graph.put("Where", missing, highest, x))
    varies = graph.put("Less", lowest, highest)
    without_missing = graph.put("Where", missing, graph.constant(0, np.float32), x)
    return _ListValues(
        missing=missing,
        is_known=is_known,
        n_known=n_known,
        filled=filled,
        highest=highest,
        varies=varies,
        exact=graph.cast("DOUBLE", without_missing),
        one=graph.constant(1, np.float64),
    )


def _put_z_score(values: _ListValues, graph: Nodes) -> str:
    """Put ``(x - mean) / sd`` into a graph, with 1 in the place of a variance of 0."""
    n = graph.put("Max", values.n_known, values.one)
    mean = graph.put("Div", graph.over_list("Sum", values.exact), n)
    deviation = graph.put("Mul", graph.put("Sub", values.exact, mean), values.is_known)
    squares = graph.over_list("Sum", graph.put("Mul", deviation, deviation))
    variance = graph.put("Div", squares, n)
    variance_or_one = graph.put("Where", values.varies, variance, values.one)
    return graph.put("Div", deviation, graph.put("Sqrt", variance_or_one))


def _put_rank(values: _ListValues, graph: Nodes) -> str:
    """Put ``(number below - number above) / (n - 1)`` into a graph."""
    n_others = graph.put("Max", graph.put("Sub", values.n_known, values.one), values.one)
    return graph.put("Div", graph.below_minus_above(values.filled, values.n_known), n_others)


def _put_difference(values: _ListValues, graph: Nodes) -> str:
    """Put ``x - max`` into a graph, at least the lowest float32."""
    lowest_float32 = graph.constant(np.finfo(np.float32).min, np.float64)
    difference = graph.put("Sub", values.exact, graph.cast("DOUBLE", values.highest))
    return graph.put("Max", difference, lowest_float32)
