"""Our gradients against those inside LightGBM and XGBoost.

Neither shows its gradients, but both can refit the leaves of a tree that is already there. A tree
with one document a leaf then holds ``-grad / (hess + lambda)`` of each document, and two values of
lambda give both.
"""

from __future__ import annotations

import itertools
import math

import lightgbm
import numpy as np
import pytest

from tautrank.losses import _softmax_kernel, loss

SIZES = np.array([9, 7, 12])
OFFSETS = np.concatenate(([0], np.cumsum(SIZES)))
N = int(OFFSETS[-1])
ROWS = np.arange(N, dtype=np.float64)[:, np.newaxis]


def example(seed: int) -> tuple[np.ndarray, np.ndarray]:
    # No ties: LightGBM and XGBoost rank them by input order.
    rng = np.random.default_rng(seed)
    return rng.normal(size=N).astype(np.float32).astype(np.float64), rng.integers(0, 4, N).astype(
        np.float64
    )


def apart(leaves: np.ndarray, lighter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and hessian from the leaves without and with a lambda of 1; 0 where a leaf is 0."""
    has_leaf = leaves != 0
    hess = np.divide(lighter, leaves - lighter, out=np.zeros(N), where=has_leaf)
    return -leaves * hess, hess


def from_lightgbm(
    scores: np.ndarray, labels: np.ndarray, **parameters: object
) -> tuple[np.ndarray, np.ndarray]:
    grow: dict[str, object] = {
        "objective": "regression",
        "boost_from_average": False,
        "num_leaves": N,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "min_sum_hessian_in_leaf": 0,
        "max_bin": 4 * N,
        "learning_rate": 1.0,
        "num_threads": 1,
        "verbose": -1,
    }
    leaves = []
    for penalty in (0.0, 1.0):
        tree = lightgbm.train(grow, lightgbm.Dataset(ROWS, np.arange(N) ** 2.0, params=grow), 1)
        assert np.unique(tree.predict(ROWS, pred_leaf=True)).size == N
        tree.params = {**grow, "lambda_l2": penalty, **parameters}
        refitted = tree.refit(ROWS, labels, decay_rate=0.0, group=SIZES, init_score=scores)
        leaves.append(refitted.predict(ROWS, raw_score=True))
    return apart(*leaves)


def from_xgboost(
    scores: np.ndarray, labels: np.ndarray, **parameters: object
) -> tuple[np.ndarray, np.ndarray]:
    xgboost = pytest.importorskip("xgboost")
    grow = {
        "objective": "reg:squarederror",
        "eta": 1.0,
        "reg_lambda": 0.0,
        "max_depth": 64,
        "tree_method": "exact",
    }
    common = {"min_child_weight": 0.0, "nthread": 1, "base_score": 0.0, "verbosity": 0}
    refit = {
        "process_type": "update",
        "updater": "refresh",
        "refresh_leaf": True,
        "objective": "rank:ndcg",
        "eta": 1.0,
    }
    data = xgboost.DMatrix(ROWS, labels, base_margin=scores)
    data.set_group(SIZES)
    bare = xgboost.DMatrix(ROWS, base_margin=np.zeros(N))
    leaves = []
    for penalty in (0.0, 1.0):
        tree = xgboost.train({**grow, **common}, xgboost.DMatrix(ROWS, np.arange(N) ** 2.0), 1)
        assert np.unique(tree.predict(bare, pred_leaf=True)).size == N
        settings = {
            **refit,
            **common,
            "reg_lambda": penalty,
            "lambdarank_pair_method": "topk",
            **parameters,
        }
        refitted = xgboost.train(settings, data, 1, xgb_model=tree)
        leaves.append(refitted.predict(bare, output_margin=True).astype(np.float64))
    return apart(*leaves)


def assert_same(
    ours: tuple[np.ndarray, np.ndarray], theirs: tuple[np.ndarray, np.ndarray], twice: bool
) -> None:
    # They leave out the 1/ln 2 of log2; XGBoost doubles its hessian.
    np.testing.assert_allclose(
        ours[0] * math.log(2), theirs[0], atol=1e-4 * np.abs(theirs[0]).max()
    )
    hess = ours[1] * math.log(2) * (2 if twice else 1)
    np.testing.assert_allclose(hess, theirs[1], atol=1e-4 * np.abs(theirs[1]).max())
    assert np.abs(theirs[0]).max() > 0.1


@pytest.mark.parametrize("k", [3, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_lambdarank_is_lightgbms(k: int, seed: int) -> None:
    scores, labels = example(seed)
    theirs = from_lightgbm(
        scores, labels, objective="lambdarank", lambdarank_norm=False, lambdarank_truncation_level=k
    )
    ours = loss("lambdarank", k=k).bind(labels, OFFSETS).gradients(scores)
    assert_same(ours, theirs, twice=False)


def test_a_steeper_sigmoid_is_lightgbms() -> None:
    scores, labels = example(2)
    theirs = from_lightgbm(
        scores, labels, objective="lambdarank", lambdarank_norm=False, sigmoid=2.0
    )
    assert_same(
        loss("lambdarank", sigma=2.0).bind(labels, OFFSETS).gradients(scores), theirs, twice=False
    )


def test_the_lightgbm_norm_is_lightgbms() -> None:
    scores, labels = example(3)
    theirs = from_lightgbm(scores, labels, objective="lambdarank", lambdarank_norm=True)
    ours = loss("lambdarank", norm="lightgbm").bind(labels, OFFSETS).gradients(scores)
    assert_same(ours, theirs, twice=False)


@pytest.mark.parametrize("k", [3, 30])
def test_lambdarank_is_xgboosts(k: int) -> None:
    scores, labels = example(4)
    theirs = from_xgboost(
        scores,
        labels,
        lambdarank_num_pair_per_sample=k,
        lambdarank_normalization=False,
        lambdarank_score_normalization=False,
    )
    assert_same(loss("lambdarank", k=k).bind(labels, OFFSETS).gradients(scores), theirs, twice=True)


def test_the_xgboost_norm_is_xgboosts() -> None:
    scores, labels = example(5)
    theirs = from_xgboost(scores, labels, lambdarank_num_pair_per_sample=30)
    ours = loss("lambdarank", norm="xgboost").bind(labels, OFFSETS).gradients(scores)
    assert_same(ours, theirs, twice=False)


def lightgbm_gammas(seed: int, n: int) -> np.ndarray:
    """LightGBM draws gamma with the linear congruential generator of Microsoft's C runtime."""
    state, drawn = seed, []
    for _ in range(n):
        state = (214013 * state + 2531011) % 2**32
        drawn.append((state >> 16 & 0x7FFF) / 32768)
    return np.array(drawn)


def test_neumann_xendcg_is_lightgbms_given_its_gammas() -> None:
    scores, labels = example(6)
    theirs = from_lightgbm(scores, labels, objective="rank_xendcg", objective_seed=5)
    grad, hess = np.empty(N), np.empty(N)
    for query, (start, stop) in enumerate(itertools.pairwise(OFFSETS)):
        target = 2 ** labels[start:stop] - lightgbm_gammas(5 + query, stop - start)
        grad[start:stop] = target / target.sum()
    _softmax_kernel.softmax_gradients(
        scores, OFFSETS, np.ones(3), _softmax_kernel.NEUMANN, 0, 3, grad, hess
    )
    np.testing.assert_allclose(grad, theirs[0], atol=1e-6)
    np.testing.assert_allclose(hess, theirs[1], atol=1e-6)
