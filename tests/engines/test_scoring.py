"""Scores of the library's own loops: the same bits as the tools', and as a walk through the trees
by hand.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import lightgbm
import numpy as np
import pytest
import scipy.sparse
from bench.random_models import FEATURES, different, random_lightgbm, rows

import tautrank as tr
from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.scoring import Scorer
from tautrank.engines.trees import Tree
from tautrank.errors import DataError
from tautrank.kernels.threads import small_shares


def by_hand(trees: list[Tree], row: np.ndarray) -> float:
    """Walk one document through the trees, as LightGBM describes it."""
    total = 0.0
    for tree in trees:
        node = tree.root
        while node >= 0:
            value = float(row[tree.feature[node]])
            value = 0.0 if abs(value) <= np.float32(1e-35) else value
            if node in tree.categories:
                left = math.isfinite(value) and value > -1 and int(value) in tree.categories[node]
            elif math.isnan(value) or (value == 0 and tree.zero_is_missing[node]):
                left = bool(tree.missing_left[node])
            else:
                left = value <= tree.threshold[node]
            node = int((tree.left if left else tree.right)[node])
        total += float(tree.leaf[~node])
    return total


@pytest.mark.uncompiled
def test_a_walk_by_hand():
    """More leaves than the bits of a vector, all kinds of splits, few and many documents."""
    rng = np.random.default_rng(1)
    leaves = 300
    inner = np.arange(leaves - 1)
    chain = Tree.of(  # as deep as it can be
        rng.integers(0, 3, leaves - 1),
        rng.choice([-0.5, 0.0, 0.5], leaves - 1),
        rng.random(leaves - 1) < 0.5,
        ~inner,
        np.append(inner[1:], ~(leaves - 1)),
        rng.standard_normal(leaves),
        zero_is_missing=rng.random(leaves - 1) < 0.5,
        categories={5: np.array([0, 2, 33])},
    )
    stump = Tree.of([1], [0.5], [False], [~0], [~1], [-1.0, 1.0])
    trees = [Tree.constant(0.25), chain, stump, stump.times(0.1)]
    X = rng.choice([-1.0, -0.5, 0.0, 1e-36, 0.4, 2.0, 33.0, 64.0, np.nan, np.inf], (17, 3)).astype(
        np.float32
    )
    scorer = Scorer.of(trees)
    assert scorer is not None
    expected = [by_hand(trees, row) for row in X]
    with np.errstate(over="ignore"):  # what compiled whole numbers do silently
        assert scorer.scores(X).tolist() == expected
        assert scorer.scores(X[:2]).tolist() == expected[:2]
        single = Scorer.of(trees, single=True).scores(np.abs(X))
    assert (single == single.astype(np.float32)).all()


@pytest.mark.parametrize("tool", ["lightgbm", "xgboost"])
def test_random_models_have_the_bits_of_the_tool(tool):
    """`python -m bench.random_models` does the same for 10 million rows."""
    assert [different(tool, seed, 400) for seed in range(12)] == [0] * 12


def test_neither_threads_nor_the_number_of_rows_change_a_bit():
    rng = np.random.default_rng(3)
    model, met = random_lightgbm(rng)
    X = rows(rng, 1_000, met, infinite=True)
    expected = model.predict(X, 1)
    with small_shares():
        assert np.array_equal(model.scorer.scores(X, 2), expected)
    for n in (1, 11, 12, 13, 16, 17, 127, 128, 129):
        assert np.array_equal(model.predict(X[:n], 1), expected[:n])
    assert np.array_equal(model.predict(np.asfortranarray(X)), expected)
    with ThreadPoolExecutor(8) as pool:
        parts = list(
            pool.map(lambda first: model.predict(X[first : first + 5]), range(0, 1_000, 5))
        )
    assert np.array_equal(np.concatenate(parts), expected)


def trained(**parameters):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 5)).astype(np.float32)
    X[:, 3] = rng.integers(0, 30, 600)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 4] = np.maximum(np.nan_to_num(X[:, 4]), 0)
    y = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 3]) % 7 + X[:, 4]
    given = {
        "verbosity": -1,
        "num_threads": 1,
        "num_leaves": 40,
        "min_data_in_leaf": 3,
        **parameters,
    }
    data = lightgbm.Dataset(X, y, params={"verbosity": -1}, categorical_feature=[3])
    return LightGBMModel(lightgbm.train(given, data, 15)), X


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"boosting": "dart"},
        {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
        {"extra_trees": True, "max_bin": 15},
        {"min_gain_to_split": 1e9},  # no split at all
    ],
    ids=str,
)
def test_trained_models(parameters):
    model, X = trained(**parameters)
    assert model.scorer is not None
    assert np.array_equal(model.predict(X), model.unscaled.predict(X, raw_score=True))
    model.scale = 0.5
    assert np.array_equal(model.predict(X), 0.5 * model.unscaled.predict(X, raw_score=True))


def test_the_tool_scores_what_the_loops_do_not_cover():
    model, X = trained(linear_tree=True)
    assert model.scorer is None
    assert np.array_equal(model.predict(X), model.unscaled.predict(X, raw_score=True))
    model, X = trained()
    doubles = X.astype(np.float64) * (1 + 2.0**-40)
    assert np.array_equal(model.predict(doubles), model.unscaled.predict(doubles, raw_score=True))
    sparse = scipy.sparse.csr_matrix(np.nan_to_num(X))
    assert np.array_equal(model.predict(sparse), model.unscaled.predict(sparse, raw_score=True))
    assert Scorer.of([Tree.of([0], [np.inf], [True], [~0], [~1], [0.0, 1.0])]) is None
    assert Scorer.of([]) is None
    n = 33_000
    inner = np.arange(n)
    assert (
        Scorer.of(
            [
                Tree.of(
                    inner * 0, inner, inner < 0, ~inner, np.append(inner[1:], ~n), np.zeros(n + 1)
                )
            ]
        )
        is None
    )


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "rank:ndcg"])
def test_xgboost_starts_from_the_score_of_its_objective(objective):
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).standard_normal((300, 3)).astype(np.float32)
    data = xgboost.DMatrix(
        X, label=(X[:, 0] > 0).astype(int), group=[10] * 30 if objective == "rank:ndcg" else None
    )
    booster = xgboost.train({"objective": objective, "base_score": 0.3, "nthread": 1}, data, 5)
    ranker = tr.Ranker.load(booster)
    assert ranker.model_.scorer is not None
    expected = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert np.array_equal(ranker.predict(X), expected.astype(np.float64))


@pytest.fixture(scope="module")
def ranker():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, FEATURES)).astype(np.float32)
    return tr.Ranker(n_estimators=10, verbose=0).fit(
        X, (X[:, 0] > 0) + 1 * (X[:, 1] > 0), group=[20] * 20
    )


def test_plain_arrays_take_the_short_way_to_the_same_scores(ranker):
    """A frame goes through every check; arrays of numbers have the same scores."""
    import pandas as pd

    X = np.random.default_rng(1).standard_normal((50, FEATURES))
    X[::3, 2] = np.nan
    expected = ranker.predict(pd.DataFrame(X))
    single = X.astype(np.float32)
    frozen = single.copy()
    frozen.flags.writeable = False
    twice = np.repeat(single, 2, axis=1)[:, ::2]
    for given in (
        X,
        single,
        X.tolist(),
        np.asfortranarray(single),
        frozen,
        twice,
        single.astype(">f4"),
    ):
        assert np.array_equal(ranker.predict(given), expected)
    assert ranker.predict(single[:0]).shape == (0,)
    large = np.full((1, FEATURES), 2.0**24 + 1)
    assert np.array_equal(ranker.predict(large), ranker.predict(pd.DataFrame(large)))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_plain_arrays_are_still_checked(ranker, kind):
    X = np.zeros((2, FEATURES), kind)
    X[1, 3] = np.inf
    with pytest.raises(DataError, match="row 1, column 3 has the value inf"):
        ranker.predict(X)
    with pytest.raises(DataError, match=f"found 3 features; expected {FEATURES}"):
        ranker.predict(X[:, :3])
    with pytest.raises(DataError, match="found 1 dimension; expected 2"):
        ranker.predict(X[0])
    with pytest.raises(DataError, match="too large for float32"):
        ranker.predict(np.full((1, FEATURES), 1e300))
