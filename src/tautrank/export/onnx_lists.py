"""List features as nodes of an ONNX graph, whose input is the documents of one list.

They follow the formulas of `tautrank.ranker.list_features`: sums in doubles, ranks by sorting each column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tautrank.ranker.list_features import ListFeatures

OPSET = 16
"""The first version whose ScatterElements adds up."""


def list_nodes(lists: ListFeatures, graph: Nodes) -> str:
    """Put the nodes that add list features to ``features`` into a graph, and return the name of the result.

    Args:
        lists: the list features, with columns by number.
        graph: receives the nodes.
    """
    put, number = graph.put, graph.constant
    x = put("Gather", "features", number(lists.columns, np.int64), axis=1)
    missing = put("IsNaN", x)
    there = graph.double(put("Not", missing))
    n = graph.over_list("Sum", there)
    filled = put("Where", missing, number(-np.inf, np.float32), x)
    highest = graph.over_list("Max", filled)
    varies = put("Less", graph.over_list("Min", put("Where", missing, highest, x)), highest)
    exact = graph.double(put("Where", missing, number(0, np.float32), x))
    one = number(1, np.float64)
    blocks = []
    if lists.z_score:
        documents = put("Max", n, one)
        away = put("Mul", put("Sub", exact, put("Div", graph.over_list("Sum", exact), documents)), there)
        variance = put("Div", graph.over_list("Sum", put("Mul", away, away)), documents)
        blocks.append(put("Div", away, put("Sqrt", put("Where", varies, variance, one))))
    if lists.rank:
        others = put("Max", put("Sub", n, one), one)
        blocks.append(put("Div", graph.below_minus_above(filled, n), others))
    if lists.difference:
        least = number(np.finfo(np.float32).min, np.float64)
        blocks.append(put("Max", put("Sub", exact, graph.double(highest)), least))
    nan, zero = number(np.nan, np.float32), number(0, np.float64)
    columns = [put("Where", missing, nan, graph.single(put("Where", varies, block, zero))) for block in blocks]
    return put("Concat", "features", *columns, axis=1)


class Nodes:
    """Nodes that are put one behind the other; every value is known by its name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def put(self, kind: str, *given: str, more: tuple[str, ...] = (), **attributes: Any) -> str:
        """Add a node, and return the name of its first result."""
        from onnx import helper

        name = f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(given), [name, *more], **attributes))
        return name

    def constant(self, value: Any, kind: Any) -> str:
        """Add an array, and return its name."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def double(self, name: str) -> str:
        """Return a value in double precision."""
        from onnx import TensorProto

        return self.put("Cast", name, to=TensorProto.DOUBLE)

    def single(self, name: str) -> str:
        """Return a value in single precision."""
        from onnx import TensorProto

        return self.put("Cast", name, to=TensorProto.FLOAT)

    def over_list(self, kind: str, name: str) -> str:
        """Reduce the documents to one row; the axes of a sum are an input since version 13."""
        if kind == "Sum":
            return self.put("ReduceSum", name, self.constant([0], np.int64))
        return self.put(f"Reduce{kind}", name, axes=[0])

    def below_minus_above(self, filled: str, n: str) -> str:
        """Return for each value how many of its column are below it, less how many are above.

        Args:
            filled: the values, -inf where they are missing.
            n: number of values that are not missing.
        """
        from onnx import TensorProto

        put, ends = self.put, self.constant([np.iinfo(np.int64).max], np.int64)
        first, second, last = (self.constant([at], np.int64) for at in (0, 1, -1))
        shape = put("Shape", filled)
        ordered = put("TopK", filled, put("Slice", shape, first, second), more=("places",), axis=0)
        earlier, later = put("Slice", ordered, first, last, first), put("Slice", ordered, second, ends, first)
        is_new = put("Cast", put("Not", put("Equal", earlier, later)), to=TensorProto.INT64)
        none = put("Mul", put("Slice", "places", first, second, first), first)
        # Equal values are one group: counted, and found again by its number.
        group = put("CumSum", put("Concat", none, is_new, axis=0), self.constant(0, np.int64))
        zeros, ones = put("Expand", first, shape), put("Expand", second, shape)
        sizes = put("ScatterElements", zeros, group, ones, reduction="add", axis=0)
        starts = put("CumSum", sizes, self.constant(0, np.int64), exclusive=1)
        ties, above = (put("GatherElements", table, group, axis=0) for table in (sizes, starts))
        known = put("Add", put("Add", ties, above), above)
        in_place = put("ScatterElements", zeros, "places", known, axis=0)
        return put("Sub", n, self.double(in_place))
