"""ONNX: a TreeEnsembleRegressor over float32 features, or a network, behind the nodes that make list features.

onnxmltools converts LightGBM models too, but only of losses that LightGBM has, and it rounds thresholds to the nearest
float32, which sends some documents the other way.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tautrank.engines.torch import TorchModel
from tautrank.engines.trees import Tree
from tautrank.errors import require
from tautrank.export.base import Export
from tautrank.export.numbers import float32_leaves, greatest_float32
from tautrank.export.onnx_lists import OPSET, Nodes, list_nodes
from tautrank.export.onnx_network import OPSET as NETWORK_OPSET
from tautrank.export.onnx_network import network_nodes

# Old enough for every runtime of recent years; the node is one of version 1.
_IR_VERSION = 8
_OPSETS = {"": 15, "ai.onnx.ml": 1}


def onnx_model(export: Export) -> bytes:
    """Return a model from ``features`` (float32, documents by columns) to ``scores`` (documents by 1).

    Args:
        export: the model to write; the names of its features are kept as metadata. If it has list features or
            self-attention, the documents are those of one list.
    """
    require("onnx", "format 'onnx' needs ONNX", "onnx")
    from onnx import TensorProto, helper

    made, opsets = Nodes(), dict(_OPSETS)
    columns = "features"
    if export.lists is not None:
        columns, opsets[""] = list_nodes(export.lists, made), OPSET
    if isinstance(export.model, TorchModel):
        opsets[""] = NETWORK_OPSET
        node = helper.make_node("Identity", [network_nodes(export.model, made, columns)], ["scores"])
    else:
        # Flat lists over all trees.
        parts = [_columns(number, tree) for number, tree in enumerate(export.trees)]
        node = helper.make_node(
            "TreeEnsembleRegressor",
            [columns],
            ["scores"],
            domain="ai.onnx.ml",
            n_targets=1,
            aggregate_function="SUM",
            post_transform="NONE",
            **{column: np.concatenate([part[column] for part in parts]).tolist() for column in parts[0]},
        )
    graph = helper.make_graph(
        [*made.nodes, node],
        export.name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, len(export.names)])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 1])],
        made.constants,
    )
    model = helper.make_model(
        graph,
        ir_version=_IR_VERSION,
        producer_name="tautrank",
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
    )
    properties = {"feature_names": list(export.names)}
    if export.lists is not None:
        properties["list_features"] = list(export.lists.names(export.names))
    helper.set_model_props(model, {key: json.dumps(names, ensure_ascii=False) for key, names in properties.items()})
    return bytes(model.SerializeToString(deterministic=True))


def _columns(number: int, tree: Tree) -> dict[str, Any]:
    """Return what one tree adds to the node's lists: its splits, then its leaves, as nodes of one numbering."""
    splits, leaves = tree.feature.size, tree.leaf.size
    none = np.zeros(leaves, np.int64)
    ids = np.arange(splits + leaves)
    return {
        "nodes_treeids": np.full(splits + leaves, number),
        "nodes_nodeids": ids,
        "nodes_featureids": np.concatenate([tree.feature, none]),
        "nodes_values": np.concatenate([greatest_float32(tree.threshold), np.zeros(leaves, np.float32)]),
        "nodes_modes": ["BRANCH_LEQ"] * splits + ["LEAF"] * leaves,
        "nodes_truenodeids": np.concatenate([np.where(tree.left >= 0, tree.left, splits + ~tree.left), none]),
        "nodes_falsenodeids": np.concatenate([np.where(tree.right >= 0, tree.right, splits + ~tree.right), none]),
        "nodes_missing_value_tracks_true": np.concatenate([tree.missing_left.astype(np.int64), none]),
        "target_treeids": np.full(leaves, number),
        "target_nodeids": ids[splits:],
        "target_ids": none,
        "target_weights": float32_leaves(tree.leaf),
    }
