"""XGBoost as an engine: every loss of the library on its trees."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError, TautrankWarning
from tautrank.losses.base import REGISTRY
from tests.ranker_examples import TRAIN, VALID, ranker

pytest.importorskip("xgboost", reason="XGBoost is not installed: pip install 'tautrank[xgboost]'")

LOSSES = sorted(name for name, kind in REGISTRY.items() if kind.__module__.startswith("tautrank."))


def on_xgboost(loss: str = "lambdarank", **parameters: object) -> tr.Ranker:
    return ranker(loss, engine="xgboost", **{"num_leaves": 7, **parameters})


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss: str) -> None:
    fitted = on_xgboost(loss, n_estimators=20).fit(TRAIN, VALID)
    chance = tr.metric("ndcg@10", ties="expected").mean(
        np.zeros(VALID.n_documents), VALID.labels, VALID.offsets
    )
    assert fitted.score(VALID) > chance + 0.1
    assert fitted.model_.n_trees == 20


def test_its_trees_are_those_of_the_gradients() -> None:
    """One leaf holds everything: its value is the Newton step of the loss, mse's here."""
    with pytest.warns(TautrankWarning, match="no tree could be split"):
        one = on_xgboost(
            "mse", n_estimators=1, learning_rate=1.0, max_depth=1, min_split_loss=1e9
        ).fit(TRAIN)
    relevant = np.repeat(np.add.reduceat(TRAIN.labels, TRAIN.offsets[:-1]) > 0, TRAIN.sizes)
    np.testing.assert_allclose(one.predict(TRAIN), TRAIN.labels[relevant].mean(), rtol=1e-6)


@pytest.mark.parametrize("loss", ["lambdarank", "xendcg", "stochasticrank"])
@pytest.mark.parametrize("langevin", [None, tr.Langevin(1e6, 1e-2)], ids=["plain", "langevin"])
def test_the_same_bits_for_threads_files_and_continued_training(
    loss: str, langevin: tr.Langevin | None, tmp_path
) -> None:
    whole = on_xgboost(loss, langevin=langevin).fit(TRAIN)
    threads = on_xgboost(loss, langevin=langevin, n_jobs=2).fit(TRAIN)
    np.testing.assert_array_equal(threads.predict(VALID), whole.predict(VALID))
    whole.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(
        tr.Ranker.load(tmp_path / "model.taut").predict(VALID), whole.predict(VALID)
    )
    half = on_xgboost(loss, langevin=langevin, n_estimators=6).fit(TRAIN)
    half.save(tmp_path / "half.taut")
    continued = on_xgboost(loss, langevin=langevin, n_estimators=6).fit(
        TRAIN, init_model=tmp_path / "half.taut"
    )
    np.testing.assert_allclose(continued.predict(VALID), whole.predict(VALID), rtol=1e-5, atol=1e-6)
    if langevin is None:
        np.testing.assert_array_equal(continued.predict(VALID), whole.predict(VALID))


def test_it_stops_early_by_the_metric_and_keeps_the_history() -> None:
    fitted = on_xgboost(n_estimators=60, early_stopping_rounds=5, learning_rate=0.3).fit(
        TRAIN, VALID
    )
    course = fitted.evals_result_["valid"]["ndcg@10"]
    assert fitted.n_trees_ == fitted.best_iteration_ == int(np.argmax(course)) + 1
    assert fitted.score(VALID) == pytest.approx(max(course), abs=1e-6)
    assert len(course) == fitted.n_trees_ + 5


def test_langevin_scores_are_those_of_the_saved_leaves() -> None:
    fitted = on_xgboost(langevin=tr.Langevin(1e3, 1e-2), n_estimators=8).fit(TRAIN, VALID)
    assert fitted.score(VALID) == pytest.approx(
        fitted.evals_result_["valid"]["ndcg@10"][-1], abs=1e-6
    )


def test_weights_scale_the_loss() -> None:
    weights = np.zeros(TRAIN.n_queries)
    weights[:20] = 1.0
    some = on_xgboost("lambdarank").fit(TRAIN, weights=weights)
    assert not np.array_equal(
        some.predict(VALID), on_xgboost("lambdarank").fit(TRAIN).predict(VALID)
    )


def test_missing_and_categorical_values() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, 400)
    X[::7, 0] = np.nan
    y = (X[:, 1] % 2 == 0) + np.where(np.isnan(X[:, 0]), 2, 0)
    fitted = on_xgboost("lambdarank", categorical_feature=[1]).fit(X, y, group=[20] * 20)
    assert fitted.score(X, y, group=[20] * 20) > 0.95


def test_exported_trees_add_up_to_the_scores() -> None:
    for fitted in (on_xgboost().fit(TRAIN), on_xgboost(langevin=tr.Langevin(1e6, 0.1)).fit(TRAIN)):
        total = np.zeros(TRAIN.n_documents)
        for tree in fitted.model_.trees():
            for row, x in enumerate(TRAIN.X):
                node = tree.root
                while node >= 0:
                    node = int(
                        tree.left[node]
                        if x[tree.feature[node]] <= tree.threshold[node]
                        else tree.right[node]
                    )
                total[row] += tree.leaf[~node]
        np.testing.assert_allclose(total, fitted.predict(TRAIN), atol=1e-5)


def test_a_committee_is_one_booster() -> None:
    committee = on_xgboost(["lambdarank", "xendcg"]).fit(TRAIN, VALID)  # type: ignore[arg-type]
    assert type(committee.model_).__name__ == "XGBoostModel"
    assert committee.model_.booster.num_boosted_rounds() == committee.n_trees_ == 24
    assert committee.score(VALID) == pytest.approx(committee.best_score_)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"min_data_in_leaf": 3}, "unknown parameter of xgboost 'min_data_in_leaf'"),
        ({"eta": 0.1}, "eta: is called learning_rate here"),
        ({"reg_alpha": 1.0, "langevin": tr.Langevin()}, "reg_alpha: found 1.0 with langevin"),
        (
            {"num_parallel_tree": 3, "langevin": tr.Langevin()},
            "num_parallel_tree: found 3 with langevin",
        ),
        ({"reg_lambda": -1.0}, "XGBoost cannot train on this"),
        ({"booster": "gblinear"}, r"unknown booster 'gblinear'.*\(known: dart, gbtree\)"),
        (
            {"booster": "dart"},
            "booster: found dart, which works with XGBoost's own objectives only",
        ),
        (
            {"loss": "xgboost:rank:ndcg", "booster": "dart"},
            "early_stopping_rounds: dart rescales the trees it has",
        ),
    ],
)
def test_bad_parameters_are_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises((OptionError, DataError), match=sentence):
        on_xgboost(**{"early_stopping_rounds": 3, **given}).fit(TRAIN, VALID)
