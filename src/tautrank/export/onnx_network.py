"""A network as nodes of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tautrank.export.onnx_nodes import Nodes

if TYPE_CHECKING:
    from tautrank.engines.torch import TorchModel


def put_network(model: TorchModel, graph: Nodes, features: str) -> str:
    """Put the nodes of a network into a graph, and return the name of its scores, documents by 1.

    Args:
        model: the network.
        graph: receives the nodes.
        features: the name of the features.
    """
    layers = _Layers(model, graph)
    x = layers.scaled(features)
    n_hidden = len(model.hidden)
    for layer in range(n_hidden):
        linear = layers.linear(x, f"layers.{4 * layer}")
        x = graph.put("Relu", layers.normed(linear, f"layers.{4 * layer + 1}"))
    if model.attention:
        x = layers.attended(x)
    return layers.linear(x, f"layers.{4 * n_hidden}")


class _Layers:
    """The kinds of layers of a network, with the weights that have their names."""

    def __init__(self, model: TorchModel, graph: Nodes) -> None:
        self._model = model
        self._graph = graph

    def linear(self, x: str, name: str) -> str:
        """Put a linear layer into the graph."""
        weight, bias = self._weights(f"{name}.weight"), self._weights(f"{name}.bias")
        return self._graph.put("Gemm", x, weight, bias, transB=1)

    def normed(self, x: str, name: str) -> str:
        """Put a layer normalisation into the graph."""
        weight, bias = self._weights(f"{name}.weight"), self._weights(f"{name}.bias")
        return self._graph.put("LayerNormalization", x, weight, bias, epsilon=1e-5)

    def scaled(self, x: str) -> str:
        """Put ``sign(x) log(1 + |x|)`` into the graph, standardised, and 0 where a value is missing."""
        put = self._graph.put
        sign = put("Sign", x)
        shifted = put("Add", put("Abs", x), self._graph.constant(1.0, np.float32))
        x = put("Mul", sign, put("Log", shifted))
        x = put("Div", put("Sub", x, self._weights("mean")), self._weights("spread"))
        return put("Where", put("IsNaN", x), self._graph.constant(0.0, np.float32), x)

    def attended(self, x: str) -> str:
        """Put self-attention over the documents into the graph, ``softmax(q k / sqrt(units)) v``."""
        put, constant = self._graph.put, self._graph.constant
        n_heads, width = self._model.attention, self._model.hidden[-1]
        units = width // n_heads

        # Documents by (q, k, v) by heads by units, which become (q, k, v) by heads by documents.
        shape = constant([-1, 3, n_heads, units], np.int64)
        split = put("Reshape", self.linear(x, "mixed"), shape)
        heads = put("Transpose", split, perm=[1, 2, 0, 3])
        q, k, v = (put("Gather", heads, constant(part, np.int64), axis=0) for part in range(3))

        q = put("Mul", q, constant(units**-0.5, np.float32))
        k = put("Transpose", k, perm=[0, 2, 1])
        shares = put("Softmax", put("MatMul", q, k), axis=-1)
        mixed_by_heads = put("Transpose", put("MatMul", shares, v), perm=[1, 0, 2])
        joined = put("Reshape", mixed_by_heads, constant([-1, width], np.int64))
        return self.normed(put("Add", x, self.linear(joined, "joined")), "norm")

    def _weights(self, name: str) -> str:
        """Put weights of the network into the graph, and return their name."""
        return self._graph.constant(self._model.weights[name], np.float32)
