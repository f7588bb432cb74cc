"""A network as nodes of an ONNX graph; with self-attention its input is the documents of one list."""

from __future__ import annotations

import numpy as np

from tautrank.engines.torch import TorchModel
from tautrank.export.onnx_lists import Nodes

OPSET = 17
"""The version of ONNX's operators that has the normalisation of layers."""


def network_nodes(model: TorchModel, graph: Nodes, x: str) -> str:
    """Put the nodes of a network into a graph, and return the name of its scores, documents by 1.

    Args:
        model: the network.
        graph: receives the nodes.
        x: the name of the features.
    """
    put = graph.put

    def weights(name: str) -> str:
        return graph.constant(model.weights[name], np.float32)

    def linear(x: str, name: str) -> str:
        return put("Gemm", x, weights(f"{name}.weight"), weights(f"{name}.bias"), transB=1)

    def normed(x: str, name: str) -> str:
        return put("LayerNormalization", x, weights(f"{name}.weight"), weights(f"{name}.bias"), epsilon=1e-5)

    x = put("Mul", put("Sign", x), put("Log", put("Add", put("Abs", x), graph.constant(1.0, np.float32))))
    x = put("Div", put("Sub", x, weights("mean")), weights("spread"))
    x = put("Where", put("IsNaN", x), graph.constant(0.0, np.float32), x)
    for layer in range(len(model.hidden)):
        x = put("Relu", normed(linear(x, f"layers.{4 * layer}"), f"layers.{4 * layer + 1}"))
    if model.attention:
        units = model.hidden[-1] // model.attention
        shape = graph.constant([-1, 3, model.attention, units], np.int64)
        heads = put("Transpose", put("Reshape", linear(x, "mixed"), shape), perm=[1, 2, 0, 3])
        q, k, v = (put("Gather", heads, graph.constant(part, np.int64), axis=0) for part in range(3))
        logits = put(
            "MatMul", put("Mul", q, graph.constant(units**-0.5, np.float32)), put("Transpose", k, perm=[0, 2, 1])
        )
        found = put("Transpose", put("MatMul", put("Softmax", logits, axis=-1), v), perm=[1, 0, 2])
        found = put("Reshape", found, graph.constant([-1, model.hidden[-1]], np.int64))
        x = normed(put("Add", x, linear(found, "joined")), "norm")
    return linear(x, f"layers.{4 * len(model.hidden)}")
