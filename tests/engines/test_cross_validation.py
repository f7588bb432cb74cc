"""Trees chosen by cross-validation and refitted, against the same thing done by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.cross_validation import FOLDS
from tautrank.errors import DataError, OptionError
from tests.ranker_examples import synthetic

TRAIN, VALID = synthetic(40, seed=1), synthetic(16, seed=2)
FEW = {
    "n_estimators": 25,
    "num_leaves": 7,
    "learning_rate": 0.3,
    "metric": "ndcg@3",
    "early_stopping_rounds": 4,
}


@pytest.fixture(scope="module")
def refitted() -> tr.Ranker:
    return tr.Ranker("xendcg", cross_validate_trees=True, eval_train=True, **FEW).fit(TRAIN, VALID)


def by_hand(data: tr.RankingData) -> tuple[int, list[float]]:
    """Return the best number of trees, and the curve up to where it has not improved for four
    trees.
    """
    order = np.random.default_rng(0).permutation(data.n_queries)
    whole = tr.Ranker("xendcg", **{**FEW, "early_stopping_rounds": None})
    judge, staged = tr.metric("ndcg@3"), []
    for part in np.array_split(order, FOLDS):
        rest = np.setdiff1d(order, part)
        booster = tr.Ranker(**whole.get_params()).fit(data.subset(rest)).model_.booster
        held_out = data.subset(part)
        scores = [
            booster.predict(held_out.X, raw_score=True, num_iteration=tree) for tree in range(1, 26)
        ]
        staged.append([judge.per_query(each, held_out.labels, held_out.offsets) for each in scores])
    curve = np.nanmean(np.concatenate(staged, axis=1), axis=1)
    best = 0
    for tree, value in enumerate(curve):
        best = tree if value > curve[best] else best
        if tree - best == 4:
            break
    return best + 1, curve[: tree + 1].tolist()


def test_it_is_the_model_that_cross_validation_by_hand_gives(refitted: tr.Ranker) -> None:
    both = tr.RankingData.concat([TRAIN, VALID], repeated="separate")
    trees, curve = by_hand(both)
    assert 1 < trees < 25
    assert refitted.n_trees_ == refitted.best_iteration_ == trees
    np.testing.assert_allclose(refitted.evals_result_["valid"]["ndcg@3"], curve, rtol=1e-12)
    assert refitted.best_score_ == pytest.approx(max(curve))
    assert len(refitted.evals_result_["train"]["ndcg@3"]) == trees
    alone = tr.Ranker("xendcg", **{**FEW, "n_estimators": trees}).fit(both)
    np.testing.assert_array_equal(refitted.predict(VALID), alone.predict(VALID))


def test_all_queries_may_be_training_data_with_weights(refitted: tr.Ranker) -> None:
    both = tr.RankingData.concat([TRAIN, VALID], repeated="separate")
    ones = np.ones(both.n_queries)
    for jobs in (1, 2):
        same = tr.Ranker("xendcg", cross_validate_trees=True, n_jobs=jobs, **FEW).fit(
            both, weights=ones
        )
        np.testing.assert_array_equal(same.predict(VALID), refitted.predict(VALID))
    heavy = tr.Ranker("xendcg", cross_validate_trees=True, **FEW).fit(
        both, weights=ones + np.arange(ones.size) % 3
    )
    assert not np.array_equal(heavy.predict(VALID), refitted.predict(VALID))


def test_a_callback_sees_the_mean_of_all_folds_and_may_stop() -> None:
    seen = []
    ranker = tr.Ranker("mse", cross_validate_trees=True, **FEW)
    ranker.fit(TRAIN, callbacks=[lambda step: seen.append(step.valid) or len(seen) == 3])
    assert ranker.evals_result_["valid"]["ndcg@3"] == seen
    assert ranker.n_trees_ == 1 + int(np.argmax(seen))


def test_members_of_a_committee_and_other_tools_are_refitted(tmp_path: object) -> None:
    for given in (["mse", "xendcg"], "xgboost:rank:ndcg", "lightgbm:lambdarank"):
        ranker = tr.Ranker(given, cross_validate_trees=True, **{**FEW, "n_estimators": 4}).fit(
            TRAIN, VALID
        )
        assert ranker.n_trees_ >= 1
        ranker.save(f"{tmp_path}/model.taut")
        assert tr.Ranker.load(f"{tmp_path}/model.taut").cross_validate_trees is True
    assert ranker.best_score_ > 0.5


def interrupted(step: object) -> None:
    raise KeyboardInterrupt


WRONG = {
    "value": (
        {"cross_validate_trees": "yes"},
        {},
        "cross_validate_trees: found 'yes'; expected True or False",
    ),
    "weights": (
        {},
        {"weights": np.ones(40)},
        "cross_validate_trees: found weights or propensities, which the validation data does",
    ),
    "parameter": ({"min_dta": 5}, {}, "unknown parameter of lightgbm 'min_dta'"),
    "network": ({"engine": "torch"}, {}, "cross_validate_trees: a network has no use for it"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_one_sentence(case: str) -> None:
    given, beside, sentence = WRONG[case]
    if case == "network":
        pytest.importorskip("torch")
    with pytest.raises(OptionError, match=sentence):
        tr.Ranker("mse", **{**FEW, "cross_validate_trees": True, **given}).fit(
            TRAIN, VALID, **beside
        )


def test_few_queries_other_models_and_interrupts(refitted: tr.Ranker) -> None:
    with pytest.raises(
        DataError,
        match="cross_validate_trees: found 3 queries; expected at least 4, for cross-validation",
    ):
        tr.Ranker("mse", cross_validate_trees=True, **FEW).fit(TRAIN.subset([0, 1, 2]))
    with pytest.raises(
        OptionError, match="cross_validate_trees: found init_model, which may have seen every query"
    ):
        tr.Ranker("xendcg", cross_validate_trees=True, **FEW).fit(TRAIN, init_model=refitted)
    with pytest.raises(
        OptionError,
        match="cross_validate_trees: found 2 validation sets; expected one, to learn from as well",
    ):
        tr.Ranker("mse", cross_validate_trees=True, **FEW).fit(
            TRAIN, eval_set={"a": VALID, "b": VALID}
        )
    with pytest.raises(KeyboardInterrupt):
        tr.Ranker("mse", cross_validate_trees=True, **FEW).fit(TRAIN, callbacks=[interrupted])
