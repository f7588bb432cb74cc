"""A network as nodes of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tautrank.export.onnx_nodes import Nodes

if TYPE_CHECKING:
    from tautrank.engines.torch import TorchModel


# A hidden layer is four modules in PyTorch, which number the weights: the linear layer, layer
# normalisation, ReLU, and dropout, which only training has.
_MODULES_PER_LAYER = 4


def put_network(model: TorchModel, graph: Nodes, features: str) -> str:
    """Add the layers of a neural network to an ONNX graph, and return the name of its scores,
    documents by 1.

    Args:
        model: the network.
        graph: receives the nodes.
        features: the name of the features.
    """
    layers = _Layers(model, graph)
    outputs = layers.scaled(features)
    # Torch numbers the modules of the network: linear, normalisation, ... of the first layer, then
    # those of the next; weights are called by these numbers.
    module = 0
    for _ in model.hidden:
        linear = layers.linear(outputs, f"layers.{module}")
        normalised = layers.normalised(linear, f"layers.{module + 1}")
        outputs = graph.put("Relu", normalised)
        module += _MODULES_PER_LAYER
    if model.attention:
        outputs = layers.attended(outputs)
    return layers.linear(outputs, f"layers.{module}")


class _Layers:
    """Adds layers of a PyTorch network to an ONNX graph; layers have the names of their weights."""

    def __init__(self, model: TorchModel, graph: Nodes) -> None:
        self._model = model
        self._graph = graph

    def linear(self, inputs: str, layer: str) -> str:
        """Add a linear layer of the network to the ONNX graph, and return the name of its result.

        Args:
            inputs: the name of its input, documents by columns.
            layer: the name of the layer in the network, by which its weights are called.
        """
        weight = self._put_weights(f"{layer}.weight")
        bias = self._put_weights(f"{layer}.bias")
        # Torch stores weights as outputs by inputs: `transB` transposes them.
        return self._graph.put("Gemm", inputs, weight, bias, transB=1)

    def normalised(self, inputs: str, layer: str) -> str:
        """Add a layer normalisation of the network (each document's values to mean 0 and variance 1,
        then weighted) to the ONNX graph, and return the name of its result.

        Args:
            inputs: the name of its input, documents by columns.
            layer: the name of the layer in the network, by which its weights are called.
        """
        weight = self._put_weights(f"{layer}.weight")
        bias = self._put_weights(f"{layer}.bias")
        # Torch's own epsilon, which keeps the divisor above 0.
        return self._graph.put("LayerNormalization", inputs, weight, bias, epsilon=1e-5)

    def scaled(self, features: str) -> str:
        """Add nodes that map features x to ``sign(x) log(1 + |x|)``, standardised by the mean and
        spread in training, and to 0 where they are missing; return the name of their result.
        """
        put, constant = self._graph.put, self._graph.constant
        sign = put("Sign", features)
        one_plus_size = put("Add", put("Abs", features), constant(1.0, np.float32))
        logarithm = put("Mul", sign, put("Log", one_plus_size))

        centred = put("Sub", logarithm, self._put_weights("mean"))
        standardised = put("Div", centred, self._put_weights("spread"))
        # A missing value is NaN, and every result of it.
        is_missing = put("IsNaN", standardised)
        return put("Where", is_missing, constant(0.0, np.float32), standardised)

    def attended(self, inputs: str) -> str:
        """Add multi-head self-attention over the documents of a list, and return the name of its
        result, documents by units.

        Each head computes ``softmax(Q K^T / sqrt(units of a head)) V`` of queries Q, keys K and
        values V, which one linear layer makes from the inputs. The joined heads are added to the
        inputs, and normalised.
        """
        put, constant = self._graph.put, self._graph.constant
        n_heads, width = self._model.attention, self._model.hidden[-1]
        head_width = width // n_heads

        # From documents by (Q, K, V) by heads by units to (Q, K, V) by heads by documents by units.
        shape = constant([-1, 3, n_heads, head_width], np.int64)
        by_document = put("Reshape", self.linear(inputs, "mixed"), shape)
        by_head = put("Transpose", by_document, perm=[1, 2, 0, 3])
        queries = put("Gather", by_head, constant(0, np.int64), axis=0)
        keys = put("Gather", by_head, constant(1, np.int64), axis=0)
        values = put("Gather", by_head, constant(2, np.int64), axis=0)

        scaled_queries = put("Mul", queries, constant(head_width**-0.5, np.float32))
        transposed_keys = put("Transpose", keys, perm=[0, 2, 1])
        similarities = put("MatMul", scaled_queries, transposed_keys)
        shares = put("Softmax", similarities, axis=-1)
        attended_by_head = put("MatMul", shares, values)

        # Back to documents by the units of all heads.
        attended = put("Transpose", attended_by_head, perm=[1, 0, 2])
        joined_heads = put("Reshape", attended, constant([-1, width], np.int64))
        sums = put("Add", inputs, self.linear(joined_heads, "joined"))
        return self.normalised(sums, "norm")

    def _put_weights(self, name: str) -> str:
        """Add weights of the network to the graph as a constant, and return its name."""
        return self._graph.constant(self._model.weights[name], np.float32)
