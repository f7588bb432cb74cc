"""Other tools' own objectives: trained as the tool trains them, judged by this library."""

from __future__ import annotations

import pickle
import sys
from functools import partial

import numpy as np
import pytest
from scipy import sparse

import tautrank as tr
from tautrank.ranker.estimator import Ranker
from tests.ranker_examples import ranker as quick_ranker
from tests.ranker_examples import synthetic

TRAIN, VALID = (synthetic(documents=15, features=5, seed=seed) for seed in (0, 1))
PEERS = (
    "lightgbm:lambdarank",
    "lightgbm:rank_xendcg",
    "lightgbm:regression",
    "xgboost:rank:ndcg",
    "xgboost:rank:pairwise",
    "xgboost:reg:squarederror",
    "catboost:YetiRank",
    "catboost:YetiRankPairwise",
    "catboost:StochasticRank",
    "catboost:QueryRMSE",
    "catboost:YetiRank:mode=NDCG;top=5",
)
TOOLS = ("lightgbm:lambdarank", "xgboost:rank:ndcg", "catboost:QueryRMSE")


ranker = partial(quick_ranker, n_estimators=8, num_leaves=7)


@pytest.fixture(autouse=True)
def _needs_the_tool(request):
    if "loss" in request.fixturenames:
        pytest.importorskip(request.getfixturevalue("loss").partition(":")[0])


@pytest.mark.parametrize("loss", PEERS)
def test_peers_learn_are_judged_stop_and_survive_a_file(loss, tmp_path):
    settings = {
        "n_estimators": 60,
        "learning_rate": 0.5,
        "early_stopping_rounds": 4,
        "eval_train": True,
    }
    fitted = ranker(loss, metric="ndcg@5", **settings).fit(TRAIN, VALID)
    values = fitted.evals_result_["valid"]["ndcg@5"]
    best = int(np.argmax(values))
    assert len(values) == len(fitted.evals_result_["train"]["ndcg@5"]) == min(60, best + 5)
    assert fitted.n_trees_ == fitted.best_iteration_ == best + 1
    assert fitted.score(VALID) == fitted.best_score_ == values[best] > 0.7
    assert fitted.score(TRAIN) == fitted.evals_result_["train"]["ndcg@5"][best]
    assert fitted.feature_importances_.argmax() == 0
    assert fitted.feature_importances_.sum() == pytest.approx(1)

    fitted.save(tmp_path / "one.taut")
    loaded = Ranker.load(tmp_path / "one.taut")
    for copy in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(copy.predict(VALID), fitted.predict(VALID))
    assert loaded.loss == loss
    assert loaded.evals_result_ == fitted.evals_result_
    loaded.save(tmp_path / "two.taut")
    assert (tmp_path / "one.taut").read_bytes() == (tmp_path / "two.taut").read_bytes()


@pytest.mark.parametrize("loss", PEERS)
def test_peers_give_the_same_bits_again(loss):
    first = ranker(loss).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ranker(loss).fit(TRAIN, VALID).predict(VALID), first)


@pytest.mark.parametrize("loss", TOOLS)
def test_peers_go_on_from_a_model(loss):
    start = ranker(loss, n_estimators=3).fit(TRAIN)
    more = ranker(loss, n_estimators=5).fit(TRAIN, VALID, init_model=start)
    assert more.n_trees_ == 8
    assert more.score(TRAIN) > start.score(TRAIN)
    if not loss.startswith("catboost"):  # which draws its trees at random
        np.testing.assert_array_equal(more.predict(VALID), ranker(loss).fit(TRAIN).predict(VALID))
    other = "xgboost:rank:ndcg" if not loss.startswith("xgboost") else "lightgbm:lambdarank"
    with pytest.raises(
        tr.OptionError, match=r"init_model: was trained by \w+; expected a model of \w+"
    ):
        ranker(other).fit(TRAIN, init_model=start)


@pytest.mark.parametrize("loss", [*TOOLS, "xgboost:reg:squarederror"])
def test_peers_weigh_queries(loss):
    first = np.arange(TRAIN.n_queries) < 5
    weighed = ranker(loss).fit(TRAIN, weights=np.where(first, 1.0, 1e-4))
    plain = ranker(loss).fit(TRAIN)
    assert not np.allclose(weighed.predict(VALID), plain.predict(VALID))


@pytest.mark.parametrize("loss", TOOLS)
def test_peers_read_sparse_zeros_as_zeros(loss):
    X = np.where(TRAIN.X > 0.5, TRAIN.X, 0)
    fitted = ranker(loss).fit(sparse.csr_matrix(X), TRAIN.labels, group=TRAIN.sizes)
    np.testing.assert_array_equal(fitted.predict(sparse.csr_matrix(X)), fitted.predict(X))
    np.testing.assert_array_equal(
        fitted.predict(X), ranker(loss).fit(X, TRAIN.labels, group=TRAIN.sizes).predict(X)
    )


@pytest.mark.parametrize("loss", TOOLS)
def test_callbacks_stop_peers_and_errors_come_through(loss):
    assert ranker(loss).fit(TRAIN, callbacks=[lambda step: step.step == 2]).n_trees_ == 3
    with pytest.raises(ZeroDivisionError):
        ranker(loss).fit(TRAIN, VALID, callbacks=[lambda step: 1 / 0])


def test_lightgbm_as_a_peer_is_lightgbm():
    import lightgbm

    data = lightgbm.Dataset(TRAIN.X, TRAIN.labels, group=TRAIN.sizes)
    theirs = lightgbm.train(
        {
            "objective": "lambdarank",
            "num_leaves": 7,
            "verbosity": -1,
            "num_threads": 1,
            "feature_pre_filter": False,
        },
        data,
        num_boost_round=8,
    )
    ours = ranker("lightgbm:lambdarank").fit(TRAIN)
    np.testing.assert_allclose(ours.predict(VALID), theirs.predict(VALID.X), rtol=1e-12)


def test_xgboost_as_a_peer_is_xgboost():
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(TRAIN.X, TRAIN.labels, qid=np.repeat(np.arange(60), 15))
    theirs = xgboost.train(
        {"objective": "rank:ndcg", "max_depth": 3, "eta": 0.1, "nthread": 1},
        data,
        num_boost_round=8,
    )
    ours = ranker("xgboost:rank:ndcg", max_depth=3).fit(TRAIN)
    np.testing.assert_array_equal(ours.predict(VALID), theirs.predict(xgboost.DMatrix(VALID.X)))


def test_catboost_as_a_peer_is_catboost():
    catboost = pytest.importorskip("catboost")
    theirs = catboost.CatBoost(
        {"loss_function": "YetiRank", "iterations": 8, "depth": 3, "learning_rate": 0.1, "random_seed": 0,
         "thread_count": 1, "logging_level": "Silent", "allow_writing_files": False}
    )  # fmt: skip
    theirs.fit(catboost.Pool(TRAIN.X, TRAIN.labels, group_id=np.repeat(np.arange(60), 15)))
    ours = ranker("catboost:YetiRank", num_leaves=8).fit(TRAIN)
    np.testing.assert_array_equal(ours.predict(VALID), theirs.predict(VALID.X))


WRONG = [
    ("xgboost:rank:map", {}, "loss xgboost:rank:map: XGBoost cannot train on this ("),
    ("xgboost:rank:ndcg", {"eta": 0.1}, "eta: is called learning_rate here"),
    (
        "xgboost:rank:ndcg",
        {"langevin": tr.Langevin()},
        "langevin: the gradients of xgboost:rank:ndcg are out of reach",
    ),
    (
        "xgboost:rank:ndcg",
        {"max_depth": "x"},
        "loss xgboost:rank:ndcg: XGBoost cannot train on this (",
    ),
    ("catboost:YetiRank", {"iterations": 1}, "iterations: is called n_estimators here"),
    ("catboost:YetiRank", {"dept": 1}, "loss catboost:YetiRank: CatBoost cannot train on this ("),
    (
        "catboost:YetiRank",
        {"categorical_feature": 0},
        "categorical_feature: CatBoost takes no category codes",
    ),
    (
        "catboost:YetiRank:top",
        {},
        "loss: found 'catboost:YetiRank:top'; expected CatBoost's own spelling",
    ),
    ("lightgbm:lambdarank", {"num_leafs": 3}, "unknown parameter of lightgbm 'num_leafs'"),
    (
        "lightgbm:lambdarank",
        {"label_gain": [0, 1]},
        "loss lightgbm:lambdarank: LightGBM cannot train on this (",
    ),
]


@pytest.mark.parametrize(("loss", "parameters", "sentence"), WRONG)
def test_wrong_parameters(loss, parameters, sentence):
    with pytest.raises(tr.TautrankError) as caught:
        ranker(loss, **parameters).fit(TRAIN, VALID)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tool", ["xgboost", "catboost"])
def test_a_missing_tool_says_what_to_install(tool, monkeypatch, tmp_path):
    loss = {"xgboost": "xgboost:rank:ndcg", "catboost": "catboost:YetiRank"}[tool]
    pytest.importorskip(tool)
    ranker(loss).fit(TRAIN).save(tmp_path / "model.taut")
    monkeypatch.setitem(sys.modules, tool, None)
    sentence = rf"engine '{tool}' needs \w+; install it with: pip install 'tautrank\[{tool}\]'"
    with pytest.raises(tr.MissingDependencyError, match=sentence):
        ranker(loss).fit(TRAIN)
    with pytest.raises(tr.MissingDependencyError, match=sentence):
        Ranker.load(tmp_path / "model.taut")
