"""Models to export, and documents at their thresholds."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import tautrank as tr
from tests.export.interpreters import f32


def exported(ranker, folder, format, **options):
    if format == "onnx":
        pytest.importorskip("onnx")
    path = folder / f"model.{format}"
    tr.export_model(ranker, path, format, **options)
    return path.read_bytes()


def data(n_queries=50, missing=False, seed=1):
    made = tr.simulate.simulate_web_search(n_queries, n_features=16, mean_length=12, seed=seed)
    X = np.array(made.X)
    X[:, 1] -= np.median(X[:, 1])  # thresholds on both sides of 0, and at it
    X[::4, 1] = 0
    X[:, 4] = -np.abs(X[:, 4]) * 1e-3
    if missing:
        rng = np.random.default_rng(seed)
        X[rng.random(X.shape) < 0.2] = np.nan
    return tr.RankingData.from_arrays(X, made.labels, group=made.sizes)


SMALL = {"n_estimators": 8, "learning_rate": 0.1, "num_leaves": 10, "min_data_in_leaf": 5}


def at_the_thresholds(ranker, X, kind=f32):
    """For every split a document three times: its value the threshold as a float32, and one float32
    beside it.

    LightGBM's thresholds beside 0 are of the size 1e-35, which no value has: there documents are on
    both sides of 0.
    """
    rng = np.random.default_rng(0)
    rows = []
    for tree in ranker.model_.trees():
        for feature, threshold in zip(tree.feature, tree.threshold, strict=True):
            near = kind(threshold)
            values = near, np.nextafter(near, kind(-math.inf)), np.nextafter(near, kind(math.inf))
            row = X[rng.integers(len(X))].astype(kind)
            for value in (
                values
                if kind is np.float64 or abs(threshold) > 1e-30
                else (f32(0), f32(-1e-12), f32(1e-12))
            ):
                rows.append(row.copy())
                rows[-1][feature] = value
    return np.array(rows)


def float32_sum(ranker, X):
    """What a system gives that sends documents where LightGBM itself says, and adds float32 leaves
    one by one.
    """
    booster = ranker.model_.booster
    places = np.asarray(booster.predict(X, pred_leaf=True)).reshape(len(X), -1)
    total = np.zeros(len(X), f32)
    for tree, leaves in enumerate(places.T):
        values = [booster.get_leaf_output(tree, leaf) for leaf in range(leaves.max() + 1)]
        total += np.array(values, f32)[leaves]
    return total


@functools.cache
def lightgbm_ranker(loss="xendcg", missing=False, **parameters):
    train = data(missing=missing)
    return tr.Ranker(loss, **SMALL | parameters).fit(train), np.array(train.X)


NAMES = [f"f{i}" for i in range(1, 17)]


def named_ranker():
    X = np.random.default_rng(0).normal(size=(200, 3))
    return tr.Ranker("mse", n_estimators=3).fit(
        X, (X[:, 0] > 0) + (X[:, 2] > 0), group=[10] * 20
    ), X.astype(f32)
