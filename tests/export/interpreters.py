"""Small interpreters of the formats, by the rules of the systems that read them: functions of the
content, documents and names that return scores.
"""

from __future__ import annotations

import functools
import json
import xml.etree.ElementTree as ElementTree

import lightgbm
import numpy as np
import pytest

f32 = np.float32


read = functools.cache(np.float32)


def summed(trees, documents, step, value, kind=f32):
    """Walk each document down each tree, by `step(node, document)` until it gives None, and add the
    leaves.
    """
    scores = []
    for document in documents:
        total = kind(0)
        for node in trees:
            while (child := step(node, document)) is not None:
                node = child
            total += value(node)
        scores.append(total)
    return np.array(scores)


def solr_scores(content, X, names):
    """MultipleAdditiveTreesModel: float32, 1e-6 on every threshold, `<=`; NaN as `missing` says, or
    0.
    """
    model = json.loads(content)
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert {tree["weight"] for tree in model["params"]["trees"]} == {"1"}
    column = {entry["name"]: names.index(entry["name"]) for entry in model["features"]}
    tells_missing = model["params"].get("isNullSameAsZero", True) is False

    def step(node, values):
        if "feature" not in node:
            return None
        value = values[column[node["feature"]]]
        if np.isnan(value):
            return node[node["missing"]]
        return node["left" if value <= read(node["threshold"]) + f32(1e-6) else "right"]

    roots = [tree["root"] for tree in model["params"]["trees"]]
    X = X if tells_missing else np.nan_to_num(X, nan=0.0)
    return summed(roots, X, step, lambda leaf: read(leaf["value"]))


def ranklib_scores(content, X, names=None):
    """LambdaMART: lines without `##` are joined, children have fixed places; float32, NaN is 0,
    `<=`.
    """
    lines = [
        line.strip()
        for line in (content if isinstance(content, str) else content.decode()).splitlines()
    ]
    assert lines[0] == "## LambdaMART"
    ensemble = ElementTree.fromstring("".join(line for line in lines if not line.startswith("##")))
    assert ensemble.tag == "ensemble"
    assert [(tree.get("id"), tree.get("weight")) for tree in ensemble] == [
        (str(i + 1), "1.0") for i in range(len(ensemble))
    ]

    def step(node, document):
        if node[0].tag == "output":
            return None
        assert [child.tag for child in node] == ["feature", "threshold", "split", "split"]
        assert [child.get("pos") for child in node[2:]] == ["left", "right"]
        return node[2 if document[int(node[0].text) - 1] <= read(node[1].text.strip()) else 3]

    roots = [tree[0] for tree in ensemble]
    return summed(roots, np.nan_to_num(X, nan=0.0), step, lambda leaf: read(leaf[0].text.strip()))


def plugin_scores(content, X, names):
    """RankLib's text; or model/xgboost+json: float32, `<` to the first child, NaN where `missing`
    points.
    """
    described = json.loads(content)["model"]
    assert set(described) == {"name", "model"}
    body = described["model"]
    if body["type"] == "model/ranklib":
        return ranklib_scores(body["definition"], X)
    assert body["type"] == "model/xgboost+json"

    def step(node, document):
        if "leaf" in node:
            return None
        assert [node["yes"], node["no"]] == [child["nodeid"] for child in node["children"]]
        value = document[names.index(node["split"])]
        goes_left = (
            node["missing"] == node["yes"]
            if np.isnan(value)
            else f32(node["split_condition"]) > value
        )
        return node["children"][0 if goes_left else 1]

    return summed(json.loads(body["definition"]), X, step, lambda leaf: f32(leaf["leaf"]))


def vespa_scores(content, X, names):
    """`!(x >= t)` where default_left, else `x < t`, in doubles; the objective must be there, and be
    an identity.
    """
    model = json.loads(content)
    assert model["objective"] not in ("binary", "cross_entropy", "poisson", "gamma", "tweedie")
    assert list(model["pandas_categorical"]) == []
    assert model["feature_names"] == list(names)

    def step(node, document):
        if "left_child" not in node:
            return None
        assert node["decision_type"] == "<="
        value, threshold = document[node["split_feature"]], float(node["threshold"])
        goes_left = not value >= threshold if node["default_left"] else value < threshold
        return node["left_child" if goes_left else "right_child"]

    roots = [tree["tree_structure"] for tree in model["tree_info"]]
    return summed(roots, X.astype(np.float64), step, lambda leaf: leaf["leaf_value"], float)


def onnx_scores(content, X, names):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"features": X})[0][:, 0]


def lightgbm_scores(content, X, names):
    return lightgbm.Booster(model_str=content.decode()).predict(X, raw_score=True)


INTERPRETERS = {
    "solr": solr_scores,
    "ranklib": ranklib_scores,
    "elasticsearch": plugin_scores,
    "opensearch": plugin_scores,
    "vespa": vespa_scores,
    "onnx": onnx_scores,
    "lightgbm": lightgbm_scores,
}
