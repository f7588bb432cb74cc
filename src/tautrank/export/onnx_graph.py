"""ONNX: a TreeEnsembleRegressor that compares and adds doubles, or a network, behind the nodes of
list features.

With list features, or a network with self-attention, the input is the documents of one list.

onnxmltools converts LightGBM models too, but only of losses that LightGBM has, and it rounds
thresholds to the nearest float32, which sends some documents the other way.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tautrank.arrays import Array
from tautrank.engines.trees import Tree
from tautrank.errors import require
from tautrank.export.formats import Export

if TYPE_CHECKING:
    from tautrank.engines.torch import TorchModel
    from tautrank.ranker.list_features import ListFeatures

# Old enough for every runtime of recent years; trees have doubles since version 3.
_IR_VERSION = 8
_OPSETS = {"": 15, "ai.onnx.ml": 3}
_ADDING, _NORMALISING = (
    16,
    17,
)  # the first versions whose ScatterElements adds up, and that normalise layers


def onnx_model(export: Export) -> bytes:
    """Return a model from ``features`` (float32, documents by columns) to ``scores`` (documents by
    1).

    Args:
        export: the model to write; the names of its features are kept as metadata. If it has list
            features or self-attention, the documents are those of one list.
    """
    made, opsets = Nodes(), dict(_OPSETS)
    helper, single = made.onnx.helper, made.onnx.TensorProto.FLOAT
    columns = "features"
    if export.lists is not None:
        columns, opsets[""] = _list_nodes(export.lists, made), _ADDING
    if export.model.tool == "torch":
        opsets[""] = _NORMALISING
        network = cast("TorchModel", export.model)
        made.put("Identity", _network_nodes(network, made, columns), result="scores")
    else:
        # Flat lists over all trees.
        parts = [_columns(number, tree) for number, tree in enumerate(export.trees)]
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        given: dict[str, Any] = {
            key: made.tensor(key, values) if key.endswith("_as_tensor") else values.tolist()
            for key, values in joined.items()
        }
        given |= {
            "n_targets": 1,
            "aggregate_function": "SUM",
            "post_transform": "NONE",
            "domain": "ai.onnx.ml",
        }
        made.put("TreeEnsembleRegressor", made.cast("DOUBLE", columns), result="scores", **given)
    features = helper.make_tensor_value_info("features", single, [None, len(export.names)])
    scores = helper.make_tensor_value_info("scores", single, [None, 1])
    graph = helper.make_graph(made.nodes, export.name, [features], [scores], made.constants)
    needs = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(
        graph, ir_version=_IR_VERSION, producer_name="tautrank", opset_imports=needs
    )
    properties = {"feature_names": list(export.names)}
    if export.lists is not None:
        properties["list_features"] = list(export.lists.names(export.names))
    helper.set_model_props(
        model, {key: json.dumps(names, ensure_ascii=False) for key, names in properties.items()}
    )
    return bytes(model.SerializeToString(deterministic=True))


def _columns(number: int, tree: Tree) -> dict[str, Any]:
    """Return what one tree adds to the node's lists: its splits, then its leaves, as nodes of one
    numbering.
    """
    splits, leaves = tree.feature.size, tree.leaf.size
    none = np.zeros(leaves, np.int64)
    ids = np.arange(splits + leaves)
    return {
        "nodes_treeids": np.full(splits + leaves, number),
        "nodes_nodeids": ids,
        "nodes_featureids": np.concatenate([tree.feature, none]),
        "nodes_values_as_tensor": np.concatenate([tree.threshold, np.zeros(leaves)]),
        "nodes_modes": ["BRANCH_LEQ"] * splits + ["LEAF"] * leaves,
        "nodes_truenodeids": np.concatenate(
            [np.where(tree.left >= 0, tree.left, splits + ~tree.left), none]
        ),
        "nodes_falsenodeids": np.concatenate(
            [np.where(tree.right >= 0, tree.right, splits + ~tree.right), none]
        ),
        "nodes_missing_value_tracks_true": np.concatenate(
            [tree.missing_left.astype(np.int64), none]
        ),
        "target_treeids": np.full(leaves, number),
        "target_nodeids": ids[splits:],
        "target_ids": none,
        "target_weights_as_tensor": tree.leaf,
    }


def _list_nodes(lists: ListFeatures, graph: Nodes) -> str:
    """Put the nodes that add list features to ``features`` into a graph, and return the name of the
    result.

    They follow the formulas of `tautrank.ranker.list_features`: sums in doubles, ranks by sorting
    each column.

    Args:
        lists: the list features, with columns by number.
        graph: receives the nodes.
    """
    put, number = graph.put, graph.constant
    x = put("Gather", "features", number(lists.columns, np.int64), axis=1)
    missing = put("IsNaN", x)
    there = graph.cast("DOUBLE", put("Not", missing))
    n = graph.over_list("Sum", there)
    filled = put("Where", missing, number(-np.inf, np.float32), x)
    highest = graph.over_list("Max", filled)
    varies = put("Less", graph.over_list("Min", put("Where", missing, highest, x)), highest)
    exact = graph.cast("DOUBLE", put("Where", missing, number(0, np.float32), x))
    one = number(1, np.float64)
    blocks = []
    if lists.z_score:
        documents = put("Max", n, one)
        away = put(
            "Mul", put("Sub", exact, put("Div", graph.over_list("Sum", exact), documents)), there
        )
        variance = put("Div", graph.over_list("Sum", put("Mul", away, away)), documents)
        blocks.append(put("Div", away, put("Sqrt", put("Where", varies, variance, one))))
    if lists.rank:
        others = put("Max", put("Sub", n, one), one)
        blocks.append(put("Div", graph.below_minus_above(filled, n), others))
    if lists.difference:
        least = number(np.finfo(np.float32).min, np.float64)
        blocks.append(put("Max", put("Sub", exact, graph.cast("DOUBLE", highest)), least))
    nan, zero = number(np.nan, np.float32), number(0, np.float64)
    columns = [
        put("Where", missing, nan, graph.cast("FLOAT", put("Where", varies, block, zero)))
        for block in blocks
    ]
    return put("Concat", "features", *columns, axis=1)


def _network_nodes(model: TorchModel, graph: Nodes, x: str) -> str:
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
        return put(
            "LayerNormalization",
            x,
            weights(f"{name}.weight"),
            weights(f"{name}.bias"),
            epsilon=1e-5,
        )

    x = put(
        "Mul",
        put("Sign", x),
        put("Log", put("Add", put("Abs", x), graph.constant(1.0, np.float32))),
    )
    x = put("Div", put("Sub", x, weights("mean")), weights("spread"))
    x = put("Where", put("IsNaN", x), graph.constant(0.0, np.float32), x)
    for layer in range(len(model.hidden)):
        x = put("Relu", normed(linear(x, f"layers.{4 * layer}"), f"layers.{4 * layer + 1}"))
    if model.attention:
        units = model.hidden[-1] // model.attention
        shape = graph.constant([-1, 3, model.attention, units], np.int64)
        heads = put("Transpose", put("Reshape", linear(x, "mixed"), shape), perm=[1, 2, 0, 3])
        q, k, v = (
            put("Gather", heads, graph.constant(part, np.int64), axis=0) for part in range(3)
        )
        q, k = (
            put("Mul", q, graph.constant(units**-0.5, np.float32)),
            put("Transpose", k, perm=[0, 2, 1]),
        )
        found = put(
            "Transpose",
            put("MatMul", put("Softmax", put("MatMul", q, k), axis=-1), v),
            perm=[1, 0, 2],
        )
        found = put("Reshape", found, graph.constant([-1, model.hidden[-1]], np.int64))
        x = normed(put("Add", x, linear(found, "joined")), "norm")
    return linear(x, f"layers.{4 * len(model.hidden)}")


class Nodes:
    """Nodes that are put one behind the other; every value is known by its name."""

    def __init__(self) -> None:
        self.onnx = require("onnx", "format 'onnx' needs ONNX", "onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def put(
        self,
        kind: str,
        *given: str,
        result: str = "",
        more: tuple[str, ...] = (),
        **attributes: Any,
    ) -> str:
        """Add a node, and return the name of its first result."""
        name = result or f"{kind}{len(self.nodes)}"
        self.nodes.append(
            self.onnx.helper.make_node(kind, list(given), [name, *more], **attributes)
        )
        return name

    def constant(self, value: Any, kind: Any) -> str:
        """Add an array, and return its name."""
        name = f"constant{len(self.constants)}"
        self.constants.append(self.tensor(name, np.asarray(value, kind)))
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

    def below_minus_above(self, filled: str, n: str) -> str:
        """Return for each value how many of its column are below it, less how many are above.

        Args:
            filled: the values, -inf where they are missing.
            n: number of values that are not missing.
        """
        put, ends = self.put, self.constant([np.iinfo(np.int64).max], np.int64)
        first, second, last = (self.constant([at], np.int64) for at in (0, 1, -1))
        shape = put("Shape", filled)
        ordered = put("TopK", filled, put("Slice", shape, first, second), more=("places",), axis=0)
        earlier, later = (
            put("Slice", ordered, first, last, first),
            put("Slice", ordered, second, ends, first),
        )
        is_new = self.cast("INT64", put("Not", put("Equal", earlier, later)))
        none = put("Mul", put("Slice", "places", first, second, first), first)
        # Equal values are one group: counted, and found again by its number.
        group = put("CumSum", put("Concat", none, is_new, axis=0), self.constant(0, np.int64))
        zeros, ones = put("Expand", first, shape), put("Expand", second, shape)
        sizes = put("ScatterElements", zeros, group, ones, reduction="add", axis=0)
        starts = put("CumSum", sizes, self.constant(0, np.int64), exclusive=1)
        ties, above = (put("GatherElements", table, group, axis=0) for table in (sizes, starts))
        known = put("Add", put("Add", ties, above), above)
        in_place = put("ScatterElements", zeros, "places", known, axis=0)
        return put("Sub", n, self.cast("DOUBLE", in_place))
