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
    """Add nodes to an ONNX graph that compute list features (z-score, rank, difference to the
    largest: a document's values relative to its list); return the name of the features with the
    list features behind them.

    Sums are in doubles, ranks by sorting each column.

    Args:
        list_features: the list features, with columns by number.
        graph: receives the nodes.
    """
    values = _put_list_values(list_features, graph)
    kinds = []
    if list_features.z_score:
        kinds.append(_put_z_score(values, graph))
    if list_features.rank:
        kinds.append(_put_rank(values, graph))
    if list_features.difference:
        kinds.append(_put_difference(values, graph))

    # All kinds are 0 where the values of a column are equal, and missing where a value is.
    nan, zero = graph.constant(np.nan, np.float32), graph.constant(0, np.float64)
    added_columns = []
    for kind in kinds:
        zero_if_equal = graph.put("Where", values.varies, kind, zero)
        rounded = graph.cast("FLOAT", zero_if_equal)
        added_columns.append(graph.put("Where", values.missing, nan, rounded))
    return graph.put("Concat", "features", *added_columns, axis=1)


def _put_list_values(list_features: ListFeatures, graph: Nodes) -> _ListValues:
    """Add nodes to an ONNX graph for what several kinds of list features need of the columns they
    describe: which values are missing, how many are known, the largest, whether they differ.

    Every variable is the name of a value in the graph, over the documents of one list.
    """
    numbers_of_columns = graph.constant(list_features.columns, np.int64)
    columns = graph.put("Gather", "features", numbers_of_columns, axis=1)
    missing = graph.put("IsNaN", columns)
    is_known = graph.cast("DOUBLE", graph.put("Not", missing))
    n_known = graph.over_list("Sum", is_known)

    # Missing values are replaced by one that decides neither the largest nor the least value.
    minus_infinity = graph.constant(-np.inf, np.float32)
    filled = graph.put("Where", missing, minus_infinity, columns)
    highest = graph.over_list("Max", filled)
    filled_with_highest = graph.put("Where", missing, highest, columns)
    lowest = graph.over_list("Min", filled_with_highest)
    varies = graph.put("Less", lowest, highest)

    zero = graph.constant(0, np.float32)
    without_missing = graph.put("Where", missing, zero, columns)
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
    """Add nodes for z-scores to an ONNX graph, and return the name of their result:
    ``(value - mean) / standard deviation`` over the known values of a list.

    Where all values are equal, the divisor is 1 instead of 0.
    """
    divisor = graph.put("Max", values.n_known, values.one)
    total = graph.over_list("Sum", values.exact)
    mean = graph.put("Div", total, divisor)
    difference = graph.put("Sub", values.exact, mean)
    # 0 for missing values, which then add nothing to the variance.
    deviation = graph.put("Mul", difference, values.is_known)
    square = graph.put("Mul", deviation, deviation)
    variance = graph.put("Div", graph.over_list("Sum", square), divisor)
    variance_or_one = graph.put("Where", values.varies, variance, values.one)
    standard_deviation = graph.put("Sqrt", variance_or_one)
    return graph.put("Div", deviation, standard_deviation)


def _put_rank(values: _ListValues, graph: Nodes) -> str:
    """Add nodes for relative ranks to an ONNX graph, and return the name of their result:
    ``(values below - values above) / (values - 1)`` over the known values of a list.
    """
    n_others = graph.put("Sub", values.n_known, values.one)
    divisor = graph.put("Max", n_others, values.one)
    below_minus_above = graph.below_minus_above(values.filled, values.n_known)
    return graph.put("Div", below_minus_above, divisor)


def _put_difference(values: _ListValues, graph: Nodes) -> str:
    """Add nodes to an ONNX graph for the difference of each value to the largest of its list, and
    return the name of their result; it is no lower than the lowest float32.
    """
    lowest_float32 = graph.constant(np.finfo(np.float32).min, np.float64)
    highest = graph.cast("DOUBLE", values.highest)
    difference = graph.put("Sub", values.exact, highest)
    return graph.put("Max", difference, lowest_float32)
