"""Random models of LightGBM and XGBoost, and random rows that meet their thresholds: what scoring
is compared on.

`python -m bench.random_models --rows 10000000` compares every score of this library with the tool's
own, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from tautrank.arrays import F32
from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.lightgbm_text import with_sizes
from tautrank.engines.model import FittedModel
from tautrank.engines.packages import package
from tautrank.engines.xgboost import XGBoostModel

FEATURES = 9
_BY_CATEGORY = (7, 8)
_EDGES = [
    0.0,
    -0.0,
    1e-35,
    -1e-35,
    1.1e-35,
    9e-36,
    1e-45,
    -1e-45,
    1e-40,
    1.0,
    3.4e38,
    -3.4e38,
    16777216.0,
]
_ROWS = 10_000


def thresholds(rng: np.random.Generator, n: int) -> Any:
    """Return doubles at float32 numbers, between them, around 0 and past the largest."""
    single = rng.standard_normal(n).astype(np.float32)
    between = np.nextafter(single, np.float32(np.inf)).astype(np.float64)
    edges = rng.choice([*_EDGES, 1e300, -1e300, 1e-300], n)
    choices = [
        single.astype(np.float64),
        (single + between) / 2,
        edges,
        np.round(single.astype(np.float64), 1),
    ]
    return np.choose(rng.integers(0, 4, n), choices)


def rows(rng: np.random.Generator, n: int, met: Any, *, infinite: bool) -> F32:
    """Return rows of values at and next to thresholds, around 0, missing, infinite, and of category
    codes.
    """
    with np.errstate(over="ignore"):
        near = rng.choice(met, (n, FEATURES)).astype(np.float32)
        near = np.clip(near, -3.4e38, 3.4e38)
        beside = np.nextafter(
            near, np.float32(np.inf) * rng.choice([-1, 1], near.shape).astype(np.float32)
        )
    edges = rng.choice(
        [*_EDGES, np.nan, *([np.inf, -np.inf] if infinite else [])], near.shape
    ).astype(np.float32)
    anything = rng.standard_normal(near.shape).astype(np.float32)
    X = np.choose(rng.integers(0, 4, near.shape), [near, beside, edges, anything])
    codes = rng.integers(-2, rng.choice([80, 1300]), (n, len(_BY_CATEGORY))).astype(np.float32)
    codes += rng.choice([0.0, 0.0, 0.5, -0.5], codes.shape).astype(np.float32)
    odd = rng.random(codes.shape) < 0.1
    codes[odd] = rng.choice(
        np.array([np.nan, 1e9, -1e9, 16777216.0, 2147483648.0], np.float32), int(odd.sum())
    )
    X[:, _BY_CATEGORY] = codes
    return np.where(np.isinf(X) & ~infinite, np.float32(0), X)


def structure(rng: np.random.Generator, leaves: int) -> tuple[list[int], list[int]]:
    """Return the children of the splits of a random tree, ``~leaf`` for leaves; some trees are
    deep, some are flat.
    """
    left, right = [0] * (leaves - 1), [0] * (leaves - 1)
    spots: list[tuple[list[int], int]] = []
    recent = rng.random() < 0.3
    for split in range(leaves - 1):
        if spots:
            at = (
                len(spots) - 1 - int(rng.integers(min(2, len(spots))))
                if recent
                else int(rng.integers(len(spots)))
            )
            children, parent = spots.pop(at)
            children[parent] = split
        spots += [(left, split), (right, split)]
    for leaf, (children, parent) in enumerate(spots):
        children[parent] = ~leaf
    return left, right


def random_sizes(rng: np.random.Generator) -> Any:
    """Return the numbers of leaves of the trees of a model: many small ones, or few with hundreds
    or thousands.
    """
    most = int(rng.choice([2, 8, 32, 33, 64, 120, 300, 3_000, 20_000]))
    return rng.integers(1, most + 1, int(rng.integers(1, 30 if most <= 300 else 5)))


def random_lightgbm(rng: np.random.Generator) -> tuple[FittedModel, Any]:
    """Return a model of LightGBM, and the thresholds that it has."""
    met, blocks = [np.zeros(1)], []
    for tree, leaves in enumerate(random_sizes(rng)):
        left, right = structure(rng, leaves)
        feature = rng.integers(0, FEATURES, leaves - 1)
        threshold = thresholds(rng, leaves - 1)
        met.append(threshold.copy())
        decision = rng.choice([0, 2, 4, 6, 8, 10], leaves - 1)
        words, starts = [], [0]
        for split in np.flatnonzero(np.isin(feature, _BY_CATEGORY)):
            words += rng.integers(0, 2**32, int(rng.choice([1, 2, 3, 40]))).tolist()
            threshold[split], decision[split] = len(starts) - 1, rng.choice([1, 3, 5, 9, 11])
            starts.append(len(words))
        fields: dict[str, Any] = {
            "num_leaves": [leaves],
            "num_cat": [len(starts) - 1],
            "split_feature": feature,
            "split_gain": np.ones(leaves - 1),
            "threshold": [f"{each:.17g}" for each in threshold],
            "decision_type": decision,
            "left_child": left,
            "right_child": right,
            "leaf_value": [f"{each:.17g}" for each in rng.standard_normal(leaves)],
            "leaf_weight": np.ones(leaves),
            "leaf_count": np.ones(leaves, int),
            "internal_value": np.zeros(leaves - 1),
            "internal_weight": np.zeros(leaves - 1),
            "internal_count": np.ones(leaves - 1, int),
        }
        if len(starts) > 1:
            fields |= {"cat_boundaries": starts, "cat_threshold": words}
        fields |= {"is_linear": [0], "shrinkage": [1]}
        blocks.append(
            f"Tree={tree}\n"
            + "".join(f"{k}={' '.join(map(str, v))}\n" for k, v in fields.items())
            + "\n\n"
        )
    names = " ".join(f"Column_{column}" for column in range(FEATURES))
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
        f"max_feature_idx={FEATURES - 1}\nobjective=regression\nfeature_names={names}\n"
        f"feature_infos={' '.join(['[-1:1]'] * FEATURES)}\ntree_sizes=\n\n"
    )
    text = with_sizes(
        head
        + "".join(blocks)
        + "end of trees\n\nfeature_importances:\n\nparameters:\nend of parameters\n"
    )
    return LightGBMModel.from_bytes(text.encode(), FEATURES), np.concatenate(met)


def random_xgboost(rng: np.random.Generator) -> tuple[FittedModel, Any]:
    """Return a model of XGBoost, and the thresholds that it has."""
    xgboost = package("xgboost")
    matrix = xgboost.DMatrix(np.zeros((2, FEATURES), np.float32), label=[0.0, 1.0])
    base = float(np.float32(rng.standard_normal()))
    booster = xgboost.train({"base_score": base, "nthread": 1}, matrix, 1)
    described = json.loads(booster.save_raw("json"))
    model = described["learner"]["gradient_booster"]["model"]
    trees, met = [], [np.zeros(1)]
    for number, leaves in enumerate(random_sizes(rng)):
        left, right = structure(rng, leaves)
        splits, nodes = leaves - 1, 2 * leaves - 1
        # XGBoost's nodes: children side by side, after their parent.
        place, order = {0 if splits else ~0: 0}, [0 if splits else ~0]
        for node in order:
            if node >= 0:
                for child in (left[node], right[node]):
                    place[child] = len(order)
                    order.append(child)
        feature, with_categories = np.zeros(nodes, int), []
        condition = rng.standard_normal(nodes).astype(np.float32)
        children = np.full((2, nodes), -1)
        parents = np.full(nodes, 2147483647)
        chosen = np.clip(thresholds(rng, splits), -3.4e38, 3.4e38).astype(np.float32)
        met.append(chosen.astype(np.float64))
        for split in range(splits):
            at = place[split]
            feature[at], condition[at] = rng.integers(0, FEATURES), chosen[split]
            children[:, at] = place[left[split]], place[right[split]]
            parents[children[:, at]] = at
            if feature[at] in _BY_CATEGORY:
                with_categories.append(at)
        with_categories.sort()
        sets = [np.flatnonzero(rng.random(70) < 0.4).tolist() or [1] for _ in with_categories]
        sizes = [len(codes) for codes in sets]
        trees.append(
            {
                "base_weights": [0.0] * nodes,
                "categories": [code for codes in sets for code in codes],
                "categories_nodes": with_categories,
                "categories_segments": (np.cumsum(sizes, dtype=int) - sizes).tolist()
                if sizes
                else [],
                "categories_sizes": sizes,
                "default_left": rng.integers(0, 2, nodes).tolist(),
                "id": number,
                "left_children": children[0].tolist(),
                "loss_changes": [0.0] * nodes,
                "parents": parents.tolist(),
                "right_children": children[1].tolist(),
                "split_conditions": condition.astype(float).tolist(),
                "split_indices": feature.tolist(),
                "split_type": [int(at in with_categories) for at in range(nodes)],
                "sum_hessian": [1.0] * nodes,
                "tree_param": {
                    "num_deleted": "0",
                    "num_feature": str(FEATURES),
                    "num_nodes": str(nodes),
                    "size_leaf_vector": "1",
                },
            }
        )
    model["trees"], model["tree_info"] = trees, [0] * len(trees)
    model["gbtree_model_param"]["num_trees"] = str(len(trees))
    model["iteration_indptr"] = list(range(len(trees) + 1))
    return XGBoostModel.from_bytes(json.dumps(described).encode(), FEATURES), np.concatenate(met)


def different(tool: str, seed: int, n: int) -> int:
    """Return how many scores of a random model on ``n`` random rows differ from the tool's own."""
    rng = np.random.default_rng(seed)
    model, met = (random_lightgbm if tool == "lightgbm" else random_xgboost)(rng)
    assert model.scorer is not None, f"{tool} {seed}: not scored by this library"
    X = rows(rng, n, met, infinite=tool == "lightgbm")
    ours, theirs = model.predict(X, 1), np.asarray(model._scores(X, 1), np.float64)
    few = np.concatenate([model.predict(X[i : i + 3], 1) for i in range(0, min(n, 30), 3)])
    wrong = ours.view(np.int64) != theirs.view(np.int64)
    wrong[: few.size] |= few.view(np.int64) != theirs[: few.size].view(np.int64)
    return int(wrong.sum())


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.random_models", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    wanted = parser.parse_args().rows
    found = 0
    for done in range(0, wanted, 2 * _ROWS):
        for tool in ("lightgbm", "xgboost"):
            wrong = different(tool, done, _ROWS)
            if wrong:
                print(f"{tool}, seed {done}: {wrong} of {_ROWS} scores differ")
                found += wrong
    print(f"{wanted:,} rows scored by random models of LightGBM and XGBoost: {found} scores differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
