"""ONNX: a TreeEnsembleRegressor that compares and adds doubles, or a network, behind the nodes of
list features.

With list features, or a network with self-attention, the input is the documents of one list.

onnxmltools converts LightGBM models too, but only of losses that LightGBM has, and it rounds
thresholds to the nearest float32, which sends some documents the other way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tautrank.arrays import I64
from tautrank.engines.trees import Tree
from tautrank.export.formats import Export
from tautrank.export.onnx_list_features import put_list_features
from tautrank.export.onnx_network import put_network
from tautrank.export.onnx_nodes import Nodes

if TYPE_CHECKING:
    from tautrank.engines.torch import TorchModel

# Old enough for every runtime of recent years; trees have doubles since version 3.
_IR_VERSION = 8
# ONNX calls its standard set of operators by the empty name, and that of trees "ai.onnx.ml".
_STANDARD_OPERATORS = ""
_OPERATOR_VERSIONS = {_STANDARD_OPERATORS: 15, "ai.onnx.ml": 3}
# The first standard operators with a ScatterElements that adds, and with LayerNormalization.
_VERSION_WITH_SCATTER_ADD = 16
_VERSION_WITH_LAYER_NORMALIZATION = 17


def onnx_model(export: Export) -> bytes:
    """Return a fitted ranking model as the bytes of an ONNX file: trees or a network, behind the
    nodes that compute list features if the model has any.

    The input ``features`` is float32, documents by columns; the output ``scores`` documents by 1.

    Args:
        export: the model to write; the names of its features are kept as metadata. If it has list
            features or self-attention, the documents are those of one list.
    """
    graph = Nodes()
    operator_versions = dict(_OPERATOR_VERSIONS)
    model_input = "features"
    if export.list_features is not None:
        model_input = put_list_features(export.list_features, graph)
        operator_versions[_STANDARD_OPERATORS] = _VERSION_WITH_SCATTER_ADD

    if export.model.tool == "torch":
        network = cast("TorchModel", export.model)
        network_scores = put_network(network, graph, model_input)
        # A node that copies, for the name of the output.
        graph.put("Identity", network_scores, result="scores")
        operator_versions[_STANDARD_OPERATORS] = _VERSION_WITH_LAYER_NORMALIZATION
    else:
        _put_trees(export.trees, graph, model_input)

    model = _assemble_model(export, graph, operator_versions)
    return bytes(model.SerializeToString(deterministic=True))


def _assemble_model(export: Export, graph: Nodes, operator_versions: Mapping[str, int]) -> Any:
    """Return a graph as an ONNX model with its input, its output, metadata and the versions of the
    sets of operators that it needs.
    """
    helper = graph.onnx.helper
    float32 = graph.onnx.TensorProto.FLOAT
    # None: any number of documents.
    features = helper.make_tensor_value_info("features", float32, [None, len(export.names)])
    scores = helper.make_tensor_value_info("scores", float32, [None, 1])
    onnx_graph = helper.make_graph(graph.nodes, export.name, [features], [scores], graph.constants)
    operator_sets = []
    for name, version in operator_versions.items():
        operator_sets.append(helper.make_opsetid(name, version))

    model = helper.make_model(
        onnx_graph,
        ir_version=_IR_VERSION,
        producer_name="tautrank",
        opset_imports=operator_sets,
    )
    helper.set_model_props(model, _metadata(export))
    return model


def _metadata(export: Export) -> dict[str, str]:
    """Return the metadata of an ONNX model: the names of its features, and those of its list
    features if it has any, as JSON text.
    """
    names = {"feature_names": list(export.names)}
    if export.list_features is not None:
        names["list_features"] = list(export.list_features.names(export.names))
    return {key: json.dumps(value, ensure_ascii=False) for key, value in names.items()}


def _put_trees(trees: Sequence[Tree], graph: Nodes, model_input: str) -> None:
    """Add a sum of decision trees to an ONNX graph, as one node ``TreeEnsembleRegressor``.

    ONNX describes all trees by attributes of this node, lists with an entry for each split and leaf
    of the first tree, then of the second, ...

    Args:
        trees: the trees.
        graph: receives the node, whose result is ``scores``.
        model_input: the name of the features in the graph.
    """
    attributes_of_trees = [_tree_attributes(number, tree) for number, tree in enumerate(trees)]
    attributes: dict[str, Any] = {}
    for name in attributes_of_trees[0]:
        values = np.concatenate([of_tree[name] for of_tree in attributes_of_trees])
        # ONNX takes doubles as tensors only: thresholds and leaves.
        if name.endswith("_as_tensor"):
            attributes[name] = graph.tensor(name, values)
        else:
            attributes[name] = values.tolist()
    attributes |= {
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
        "domain": "ai.onnx.ml",
    }
    # One score per document (target), the plain sum of its leaves. Values are compared as doubles,
    # as thresholds are.
    doubles = graph.cast("DOUBLE", model_input)
    graph.put("TreeEnsembleRegressor", doubles, result="scores", **attributes)


def _tree_attributes(tree_number: int, tree: Tree) -> dict[str, Any]:
    """Return one decision tree as attributes of ONNX's ``TreeEnsembleRegressor``: lists with one
    entry per node (``nodes_...``: the splits, then the leaves) or per leaf (``target_...``).
    """
    n_splits, n_leaves = tree.feature.size, tree.leaf.size
    node_ids = np.arange(n_splits + n_leaves)
    left_ids = _child_ids(tree.left, n_splits)
    right_ids = _child_ids(tree.right, n_splits)
    missing_goes_left = tree.missing_left.astype(np.int64)
    # A child of a tree is the number of a split, or ``~leaf``; here leaves are numbered after splits.
    # Leaves have no feature, threshold or children: zeros stand for them.
    zeros = np.zeros(n_leaves, np.int64)
    return {
        "nodes_treeids": np.full(n_splits + n_leaves, tree_number),
        "nodes_nodeids": node_ids,
        "nodes_featureids": np.concatenate([tree.feature, zeros]),
        "nodes_values_as_tensor": np.concatenate([tree.threshold, np.zeros(n_leaves)]),
        "nodes_modes": ["BRANCH_LEQ"] * n_splits + ["LEAF"] * n_leaves,
        "nodes_truenodeids": np.concatenate([left_ids, zeros]),
        "nodes_falsenodeids": np.concatenate([right_ids, zeros]),
        "nodes_missing_value_tracks_true": np.concatenate([missing_goes_left, zeros]),
        "target_treeids": np.full(n_leaves, tree_number),
        "target_nodeids": node_ids[n_splits:],
        "target_ids": zeros,
        "target_weights_as_tensor": tree.leaf,
    }


def _child_ids(children: I64, n_splits: int) -> I64:
    """Return the numbers of the children of splits, where leaves are numbered behind the splits.

    Args:
        children: for each split its child: the number of a split, or ``~leaf``, which is negative.
        n_splits: the number of splits of the tree.
    """
    return np.where(children >= 0, children, n_splits + ~children)
