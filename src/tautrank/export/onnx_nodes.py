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
        """Add a node, and return the name of its first result."""
        name = result or f"{kind}{len(self.nodes)}"
        results = [name, *further_results]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), results, **attributes))
        return name

    def constant(self, value: Any, dtype: Any) -> str:
        """Add an array, and return its name."""
        name = f"constant{len(self.constants)}"
        self.constants.append(self.tensor(name, np.asarray(value, dtype)))
        return name

    def tensor(self, name: str, values: Array) -> Any:
        """Return an array in ONNX's own form."""
        return self.onnx.numpy_helper.from_array(values, name)

    def cast(self, kind: str, name: str) -> str:
        """Return a value as another type of number."""
        return self.put("Cast", name, to=self.onnx.TensorProto.DataType.Value(kind))

    def over_list(self, kind: str, name: str) -> str:
        """Reduce the documents to one row; the axes of a sum are an input since version 13."""
        if kind == "Sum":
            return self.put("ReduceSum", name, self.constant([0], np.int64))
        return self.put(f"Reduce{kind}", name, axes=[0])

    def below_minus_above(self, values: str, n_known: str) -> str:
        """Return for each value how many of its column are below it, less how many are above.

        Args:
            values: the values, documents by columns, -inf where they are missing.
            n_known: number of values of each column that are not missing.
        """
        end = self.constant([_END], np.int64)
        zero, one, minus_one = (self.constant([index], np.int64) for index in (0, 1, -1))
        shape = self.put("Shape", values)

        # Each column from the greatest value to the least, and the row that each comes from.
        n_rows = self.put("Slice", shape, zero, one)
        ordered = self.put("TopK", values, n_rows, further_results=("places",), axis=0)

        # Equal values are one group: counted, and found again by its number.
        upper = self.put("Slice", ordered, zero, minus_one, zero)
        lower = self.put("Slice", ordered, one, end, zero)
        is_new = self.cast("INT64", self.put("Not", self.put("Equal", upper, lower)))
        first_group = self.put("Mul", self.put("Slice", "places", zero, one, zero), zero)
        joined = self.put("Concat", first_group, is_new, axis=0)
        group = self.put("CumSum", joined, self.constant(0, np.int64))

        zeros, ones = self.put("Expand", zero, shape), self.put("Expand", one, shape)
        sizes = self.put("ScatterElements", zeros, group, ones, reduction="add", axis=0)
        starts = self.put("CumSum", sizes, self.constant(0, np.int64), exclusive=1)
        n_equal = self.put("GatherElements", sizes, group, axis=0)
        n_above = self.put("GatherElements", starts, group, axis=0)

        # n_known - n_equal - n_above are below; those above are taken off once more.
        taken_off = self.put("Add", self.put("Add", n_equal, n_above), n_above)
        in_place = self.put("ScatterElements", zeros, "places", taken_off, axis=0)
        return self.put("Sub", n_known, self.cast("DOUBLE", in_place))
