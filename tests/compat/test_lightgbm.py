"""A ranker that takes LightGBM's spellings: ported scripts, arguments of `fit`, options of
`predict`.
"""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import tautrank as tr
from tautrank.compat import LGBMRanker
from tautrank.errors import OptionError
from tests.compat.examples import DEV, GROUP, QID, TEST, TRAIN, X, Y, ranking_data


def script(make):
    """LightGBM's documented use of its ranker; the line with `make` is the one that changes, beside
    the import.
    """
    model = make(
        n_estimators=20,
        objective="lambdarank",
        min_child_samples=5,
        random_state=1,
        verbose=-1,
        n_jobs=1,
    )
    model.fit(
        X[TRAIN],
        Y[TRAIN],
        group=GROUP[:40],
        eval_set=[(X[DEV], Y[DEV]), (X[TEST], Y[TEST])],
        eval_group=[GROUP[40:50], GROUP[50:]],
        eval_names=["dev", "test"],
        eval_metric="ndcg",
        eval_at=[3, 5],
        feature_name=["a", "b", "c", "d", "e"],
        callbacks=[
            lgb.log_evaluation(0),
            lgb.record_evaluation(recorded := {}),
            lgb.reset_parameter(learning_rate=lambda tree: max(0.01, 0.1 - 0.01 * tree)),
        ],
    )
    return model.predict(X[TEST]), recorded


def test_a_ported_script_gives_the_same_model_with_two_changed_lines():
    theirs, _ = script(
        lambda **parameters: lgb.LGBMRanker(**parameters, deterministic=True, force_row_wise=True)
    )

    ours, recorded = script(LGBMRanker.from_lightgbm)

    assert np.array_equal(ours, theirs)
    assert [*recorded] == ["dev", "test"]
    assert [*recorded["test"]] == ["ndcg(ties=input,empty=one)@5", "ndcg@3", "ndcg@5"]
    assert {len(values) for by_metric in recorded.values() for values in by_metric.values()} == {20}


STOPPING = {"metric": "ndcg@5", "n_estimators": 25, "early_stopping_rounds": 5}


def test_the_first_of_several_validation_sets_decides():
    train, dev, test = map(ranking_data, (TRAIN, DEV, TEST))
    alone = LGBMRanker("lambdarank", **STOPPING).fit(train, dev)

    ranker = LGBMRanker("lambdarank", **STOPPING).fit(train, eval_set=[dev, test])

    assert [*ranker.evals_result_] == ["valid", "valid_1"]
    assert ranker.best_iteration_ == alone.best_iteration_
    assert ranker.best_score_ == alone.best_score_
    assert np.array_equal(ranker.predict(X), alone.predict(X))


def test_every_set_has_the_value_of_every_metric():
    parts = {
        "train": ranking_data(TRAIN),
        "valid": ranking_data(DEV),
        "valid_1": ranking_data(TEST),
    }
    ranker = LGBMRanker("lambdarank", eval_train=True, **STOPPING)

    ranker.fit(
        parts["train"], eval_set=[parts["valid"], parts["valid_1"]], eval_metric=["map", "arp"]
    )

    assert [*ranker.evals_result_] == [*parts]
    for name, part in parts.items():
        assert [*ranker.evals_result_[name]] == ["ndcg@5", "map", "arp"]
        for metric, values in ranker.evals_result_[name].items():
            expected = tr.metric(metric).mean(ranker.predict(part), part)
            assert values[ranker.best_iteration_ - 1] == pytest.approx(expected, abs=1e-12)


def test_a_committee_fits_its_weights_to_the_first_set_alone():
    train, dev, test = map(ranking_data, (TRAIN, DEV, TEST))
    members = {"loss": ["mse", "xendcg"], "n_estimators": 3}
    alone = LGBMRanker(**members).fit(train, dev)

    ranker = LGBMRanker(**members).fit(train, eval_set=[dev, test])

    assert np.array_equal(ranker.predict(X), alone.predict(X))
    assert [*ranker.evals_result_] == ["valid", "valid_1"]


TWO_SETS = {"eval_set": [(X[DEV], Y[DEV]), (X[TEST], Y[TEST])]}
BOTH_GROUPS = [GROUP[40:50], GROUP[50:]]
WRONG_ARGUMENTS = {
    "groups of one set of two": (
        {**TWO_SETS, "eval_group": BOTH_GROUPS[:1]},
        "eval_group: found something else; expected a list of 2, one per eval_set",
    ),
    "name of one set of two": (
        {**TWO_SETS, "eval_group": BOTH_GROUPS, "eval_names": ["a"]},
        "eval_names: found ['a']; expected 2 different",
    ),
    "name of the training data": (
        {**TWO_SETS, "eval_group": BOTH_GROUPS, "eval_names": ["a", "train"]},
        "none of them 'train'",
    ),
    "function as metric": (
        {"eval_metric": lambda y, scores: ("mine", 1.0, True)},
        "metric: found a function; expected a name, or a ListM",
    ),
    "scores to start from": (
        {"init_score": Y},
        "init_score: has no counterpart here; expected init_model=, a model to add trees to",
    ),
    "positions": (
        {"position": Y},
        "expected propensities=, the probability that a user looked at each document",
    ),
    "parameter of the ranker": (
        {"early_stopping_rounds": 5},
        "is a parameter of the ranker; expected Ranker(early_stopping_rounds=5)",
    ),
    "weights twice": (
        {"weights": Y, "sample_weight": Y},
        "weights, sample_weight: found both; expected one of them",
    ),
}


@pytest.mark.parametrize(
    ("arguments", "sentence"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS.keys()
)
def test_wrong_arguments_of_fit_are_one_sentence(arguments, sentence):
    with pytest.raises(tr.TautrankError) as caught:
        LGBMRanker(verbose=0).fit(X, Y, qid=QID, **arguments)

    assert sentence in str(caught.value)


def test_an_argument_of_no_tool_is_a_type_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        LGBMRanker().fit(X, Y, qid=QID, nonsense=1)


def test_sample_weight_is_weights():
    weights = np.repeat(1.0 + np.arange(60) % 2, 20)
    expected = LGBMRanker(n_estimators=3).fit(X, Y, qid=QID, weights=weights)

    ranker = LGBMRanker(n_estimators=3).fit(X, Y, qid=QID, sample_weight=weights)

    assert np.array_equal(ranker.predict(X), expected.predict(X))


def test_categorical_feature_of_fit_goes_before_that_of_the_ranker():
    codes = np.abs(np.round(X))
    expected = LGBMRanker(n_estimators=3, categorical_feature=[1]).fit(codes, Y, qid=QID)

    ranker = LGBMRanker(n_estimators=3, categorical_feature=[0])
    ranker.fit(codes, Y, qid=QID, categorical_feature=[1])

    assert np.array_equal(ranker.predict(codes), expected.predict(codes))
    assert ranker.get_params()["categorical_feature"] == [0]


def test_files_of_either_class_are_read_by_the_other(tmp_path):
    ranker = LGBMRanker(n_estimators=3).fit(X, Y, qid=QID)
    ranker.save(tmp_path / "model.taut")

    for cls in (tr.Ranker, LGBMRanker):
        loaded = cls.load(tmp_path / "model.taut")
        assert type(loaded) is cls
        assert np.array_equal(loaded.predict(X), ranker.predict(X))


@pytest.fixture(scope="module", params=["lightgbm", "xgboost"])
def fitted(request):
    return LGBMRanker(engine=request.param, n_estimators=6).fit(X, Y, qid=QID)


def test_num_iteration_predicts_with_the_first_trees(fitted):
    few = LGBMRanker(engine=fitted.engine, n_estimators=2).fit(X, Y, qid=QID)

    assert np.array_equal(fitted.predict(X, num_iteration=2), few.predict(X))
    assert np.array_equal(fitted.predict(pd.DataFrame(X), num_iteration=2), few.predict(X))
    assert np.array_equal(fitted.predict(X, num_iteration=-1), fitted.predict(X))
    with pytest.raises(OptionError, match=r"num_iteration: found .*3.*; expected a whole number"):
        fitted.predict(X, num_iteration="3")


def test_pred_contrib_sums_to_the_scores(fitted):
    contributions = fitted.predict(X, pred_contrib=True)

    assert contributions.shape == (1200, 5 + 1)
    assert np.allclose(contributions.sum(axis=1), fitted.predict(X), atol=1e-6)


def test_documents_that_share_all_leaves_share_the_score(fitted):
    leaves = fitted.predict(X, pred_leaf=True)

    assert leaves.shape == (1200, 6)
    _, first, group = np.unique(leaves, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(fitted.predict(X)[first][group.ravel()], fitted.predict(X))
