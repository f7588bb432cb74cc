"""ONNX: a TreeEnsembleRegressor that compares and adds doubles, or a network, behind the nodes of
list features.

With list features, or a network with self-attention, the input is the documents of one list.

onnxmltools converts LightGBM models too, but only of losses that LightGBM has, and it rounds
thresholds to the nearest float32, which sends some documents the other way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tautrank.engines.trees import Tree
from tautrank.export.formats import Export
from tautrank.export.onnx_list_features import put_list_features
from tautrank.export.onnx_network import put_network
from tautrank.export.onnx_nodes import Nodes

if TYPE_CHECKING:
    from tautrank.engines.torch import TorchModel

# Old enough for every runtime of recent years; trees have doubles since version 3.
_IR_VERSION = 8
_OPSETS = {"": 15, "ai.onnx.ml": 3}
# The first versions whose ScatterElements adds up, and that normalise layers.
_OPSET_THAT_ADDS = 16
_OPSET_THAT_NORMALISES = 17


def onnx_model(export: Export) -> bytes:
    """Return a model from ``features`` (float32, documents by columns) to ``scores`` (documents by
    1).

    Args:
        export: the model to write; the names of its features are kept as metadata. If it has list
            features or self-attention, the documents are those of one list.
    """
    graph, opsets = Nodes(), dict(_OPSETS)
    columns = "features"
    if export.list_features is not None:
        columns = put_list_features(export.list_features, graph)
        opsets[""] = _OPSET_THAT_ADDS
    if export.model.tool == "torch":
        network = cast("TorchModel", export.model)
        graph.put("Identity", put_network(network, graph, columns), result="scores")
        opsets[""] = _OPSET_THAT_NORMALISES
    else:
        _put_trees(export.trees, graph, columns)

    helper, single = graph.onnx.helper, graph.onnx.TensorProto.FLOAT
    features = helper.make_tensor_value_info("features", single, [None, len(export.names)])
    scores = helper.make_tensor_value_info("scores", single, [None, 1])
    model = helper.make_model(
        helper.make_graph(graph.nodes, export.name, [features], [scores], graph.constants),
        ir_version=_IR_VERSION,
        producer_name="tautrank",
        opset_imports=[helper.make_opsetid(*opset) for opset in opsets.items()],
    )
    helper.set_model_props(model, _properties(export))
    return bytes(model.SerializeToString(deterministic=True))


def _properties(export: Export) -> dict[str, str]:
    """Return the metadata of a model: names of features, and of list features, as JSON."""
    names = {"feature_names": list(export.names)}
    if export.list_features is not None:
        names["list_features"] = list(export.list_features.names(export.names))
    return {key: json.dumps(value, ensure_ascii=False) for key, value in names.items()}


def _put_trees(trees: Sequence[Tree], graph: Nodes, columns: str) -> None:
    """Put the sum of trees into a graph; its lists run over all trees."""
    lists_of_trees = [_node_lists(number, tree) for number, tree in enumerate(trees)]
    attributes: dict[str, Any] = {}
    for key in lists_of_trees[0]:
        values = np.concatenate([lists[key] for lists in lists_of_trees])
        attributes[key] = values.tolist()
        if key.endswith("_as_tensor"):
            attributes[key] = graph.tensor(key, values)
    attributes |= {
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "domain": "ai.onnx.ml",
    }
    doubles = graph.cast("DOUBLE", columns)
    graph.put("TreeEnsembleRegressor", doubles, result="scores", **attributes)


def _node_lists(number: int, tree: Tree) -> dict[str, Any]:
    """Return what one tree adds to the node's lists: its splits, then its leaves, as nodes of one
    numbering.
    """
    n_splits, n_leaves = tree.feature.size, tree.leaf.size
    node_ids = np.arange(n_splits + n_leaves)
    left = np.where(tree.left >= 0, tree.left, n_splits + ~tree.left)
    right = np.where(tree.right >= 0, tree.right, n_splits + ~tree.right)
    zeros = np.zeros(n_leaves, np.int64)
    return {
        "nodes_treeids": np.full(n_splits + n_leaves, number),
        "nodes_nodeids": node_ids,
        "nodes_featureids": np.concatenate([tree.feature, zeros]),
        "nodes_values_as_tensor": np.concatenate([tree.threshold, np.zeros(n_leaves)]),
        "nodes_modes": ["BRANCH_LEQ"] * n_splits + ["LEAF"] * n_leaves,
        "nodes_truenodeids": np.concatenate([left, zeros]),
        "nodes_falsenodeids": np.concatenate([right, zeros]),
        "nodes_missing_value_tracks_true": np.concatenate(
            [tree.missing_left.astype(np.int64), zeros]
        ),
        "target_treeids": np.full(n_leaves, number),
        "target_nodeids": node_ids[n_splits:],
        "target_ids": zeros,
        "target_weights_as_tensor": tree.leaf,
    }
