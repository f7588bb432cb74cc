"""A graph of ONNX that is built node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

from tautrank.arrays import Array
from tautrank.errors import require

_END = np.iinfo(np.int64).max


class Nodes:
    """Nodes that are put one behind the other; every value is known by its name."""

    def __init__(self) -> None:
        self.onnx = require("onnx", "format 'onnx' needs ONNX", "onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def put(
        self,
        kind: str,
        *inputs: str,
        result: str = "",
        further_results: tuple[str, ...] = (),
        **attributes: Any,
    ) -> str:
        """Add a node to the ONNX graph, and return the name of its first result.

        Args:
            kind: ONNX's name of the operator.
            *inputs: names of the values that it takes.
            result: the name of its first result; by default kind and number of the node.
            further_results: names of its other results.
            **attributes: the operator's attributes.
        """
        name = result or f"{kind}{len(self.nodes)}"
        results = [name, *further_results]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), results, **attributes))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """Add an array to the ONNX graph, and return its name."""
        name = f"constant{len(self.constants)}"
        self.constants.append(self.tensor(name, np.asarray(value, dtype)))
        return name

    def tensor(self, name: str, values: Array) -> Any:
        """Return an array in ONNX's own form."""
        return self.onnx.numpy_helper.from_array(values, name)

    def cast(self, number_type: str, name: str) -> str:
        """Add a node that converts a value to a type of number such as ``"DOUBLE"``, and return the
        name of its result.
        """
        type_code = self.onnx.TensorProto.DataType.Value(number_type)
        return self.put("Cast", name, to=type_code)

    def over_list(self, reduction: str, name: str) -> str:
        """Add a node to the ONNX graph that reduces the rows of a value (the documents of a list) to
        one row, by ``"Sum"``, ``"Max"`` or ``"Min"``, and return the name of its result.

        Args:
            reduction: one of these three.
            name: the name of the value.
        """
        # Since version 13 of ONNX's operators the axes of a sum are an input, those of others not.
        if reduction == "Sum":
            return self.put("ReduceSum", name, self.constant([0], np.int64))
        return self.put(f"Reduce{reduction}", name, axes=[0])

    def below_minus_above(self, values: str, n_known: str) -> str:
        """Add nodes that count, for each value, the values of its column below it less those above
        it, and return the name of their result.

        Each column is sorted; its groups of equal values are numbered from the greatest value, and
        counted. What is above a value are the groups before its own.

        Args:
            values: the values, documents by columns, -inf where they are missing.
            n_known: number of values of each column that are not missing.
        """
        end = self.constant([_END], np.int64)
        zero = self.constant([0], np.int64)
        one = self.constant([1], np.int64)
        minus_one = self.constant([-1], np.int64)
        shape = self.put("Shape", values)

        # Each column from the greatest value to the least, and the row that each value comes from.
        rows = "places"
        n_rows = self.put("Slice", shape, zero, one)
        ordered = self.put("TopK", values, n_rows, further_results=(rows,), axis=0)

        # A group begins where a value differs from the one before; the first row is group 0.
        without_last = self.put("Slice", ordered, zero, minus_one, zero)
        without_first = self.put("Slice", ordered, one, end, zero)
        is_equal = self.put("Equal", without_last, without_first)
        begins_group = self.cast("INT64", self.put("Not", is_equal))
        first_row = self.put("Slice", rows, zero, one, zero)
        row_of_zeros = self.put("Mul", first_row, zero)
        group_steps = self.put("Concat", row_of_zeros, begins_group, axis=0)
        group_numbers = self.put("CumSum", group_steps, self.constant(0, np.int64))

        # Ones are added at the number of each value's group: the sizes of the groups.
        zeros = self.put("Expand", zero, shape)
        ones = self.put("Expand", one, shape)
        group_sizes = self.put(
            "ScatterElements", zeros, group_numbers, ones, reduction="add", axis=0
        )
        values_before_group = self.put(
            "CumSum", group_sizes, self.constant(0, np.int64), exclusive=1
        )
        n_equal = self.put("GatherElements", group_sizes, group_numbers, axis=0)
        n_above = self.put("GatherElements", values_before_group, group_numbers, axis=0)

        # n_known - (n_equal + n_above) values are below, and n_above are subtracted once more.
        n_not_below = self.put("Add", n_equal, n_above)
        subtracted = self.put("Add", n_not_below, n_above)
        subtracted_by_row = self.put("ScatterElements", zeros, rows, subtracted, axis=0)
        return self.put("Sub", n_known, self.cast("DOUBLE", subtracted_by_row))
