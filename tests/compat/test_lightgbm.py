"""What users of LightGBM and scikit-learn try: ported scripts, several validation sets, callbacks,
`predict`.
"""

from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tautrank as tr
from tautrank.compat import LGBMRanker
from tautrank.errors import OptionError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 5)).astype(np.float32).astype(float)
Y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + RNG.normal(size=1200) * 0.7, [0.3, 1.2])
GROUP = [20] * 60
QID = np.repeat(np.arange(60), 20)
TRAIN, DEV, TEST = slice(0, 800), slice(800, 1000), slice(1000, 1200)


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


FIFTEEN = {
    "objective": "lambdarank",
    "metric": "ndcg",
    "eval_at": [10],
    "num_boost_round": 15,
    "eta": 0.2,
    "max_leaf": 7,
    "min_child_samples": 5,
    "reg_lambda": 1.0,
    "feature_fraction": 0.9,
    "max_bin": 63,
    "lambdarank_truncation_level": 12,
    "label_gain": [0, 1, 5],
    "seed": 4,
    "num_threads": 1,
    "verbosity": -1,
}


def test_a_dictionary_of_fifteen_names_is_ported_in_one_go():
    ranker = LGBMRanker.from_lightgbm(FIFTEEN).fit(X, Y, qid=QID)
    fixed = {
        "deterministic": True,
        "force_row_wise": True,
        "data_random_seed": 4,
        "feature_pre_filter": False,
    }
    booster = lgb.train({**FIFTEEN, **fixed}, lgb.Dataset(X, Y, group=GROUP))
    assert np.array_equal(ranker.predict(X), booster.predict(X))
    assert ranker.get_params()["lambdarank_truncation_level"] == 12
    assert (
        LGBMRanker.from_lightgbm(lgb.LGBMRanker(num_leaves=5, subsample=0.5)).get_params()[
            "bagging_fraction"
        ]
        == 0.5
    )
    ours = LGBMRanker.from_lightgbm(FIFTEEN, loss="lambdarank", sigmoid=2.0, lambdarank_norm=True)
    assert str(ours.loss) == "lambdarank(k=12,sigma=2,norm=lightgbm,gain=0/1/5)"
    ours.fit(X, Y, qid=QID)


def test_all_wrong_names_are_told_at_once():
    with pytest.raises(OptionError) as caught:
        LGBMRanker(
            objective="lambdarank", eval_at=[5], seed=1, num_thread=2, label_gain=[0, 1], typo=1
        ).fit(X, Y, qid=QID)
    assert [part.split(":")[0].split(" '")[0] for part in str(caught.value).split(". ")] == [
        "objective", "eval_at", "seed", "num_thread", "label_gain", "unknown parameter of lightgbm",
    ]  # fmt: skip
    with pytest.raises(OptionError, match=r"'typo'.* task: is for LightGBM's command line"):
        LGBMRanker.from_lightgbm({"typo": 1, "task": "train"})


def test_several_validation_sets_and_metrics():
    parts = [
        tr.RankingData.from_arrays(X[part], Y[part], qid=QID[part]) for part in (TRAIN, DEV, TEST)
    ]
    ranker = LGBMRanker(
        "lambdarank", metric="ndcg@5", n_estimators=25, early_stopping_rounds=5, eval_train=True
    )
    ranker.fit(parts[0], eval_set=parts[1:], eval_metric=["map", "arp"])
    assert [*ranker.evals_result_] == ["train", "valid", "valid_1"]
    assert [*ranker.evals_result_["valid_1"]] == ["ndcg@5", "map", "arp"]
    alone = LGBMRanker("lambdarank", metric="ndcg@5", n_estimators=25, early_stopping_rounds=5).fit(
        *parts[:2]
    )
    assert (ranker.best_iteration_, ranker.best_score_) == (
        alone.best_iteration_,
        alone.best_score_,
    )
    assert np.array_equal(ranker.predict(X), alone.predict(X))
    for name, part in (("train", parts[0]), ("valid", parts[1]), ("valid_1", parts[2])):
        for judge, values in ranker.evals_result_[name].items():
            expected = tr.metric(judge).mean(ranker.predict(part), part.labels, part.offsets)
            assert values[ranker.best_iteration_ - 1] == pytest.approx(expected, abs=1e-12)
    # A committee fits its weights to the first set alone.
    members = {"loss": ["mse", "xendcg"], "n_estimators": 3}
    both = LGBMRanker(**members).fit(parts[0], eval_set=parts[1:])
    assert np.array_equal(both.predict(X), LGBMRanker(**members).fit(*parts[:2]).predict(X))
    assert [*both.evals_result_] == ["valid", "valid_1"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"eval_group": [GROUP[40:50]]},
            "eval_group: found something else; expected a list of 2, one per eval_set",
        ),
        (
            {"eval_group": [GROUP[40:50], GROUP[50:]], "eval_names": ["a"]},
            "eval_names: found ['a']; expected 2 different",
        ),
        (
            {"eval_group": [GROUP[40:50], GROUP[50:]], "eval_names": ["a", "train"]},
            "none of them 'train'",
        ),
        (
            {"eval_metric": lambda y, s: ("mine", 1.0, True)},
            "metric: found a function; expected a name, or a ListM",
        ),
        (
            {"init_score": Y},
            "init_score: has no counterpart here; expected init_model=, a model to add trees to",
        ),
        (
            {"position": Y},
            "expected propensities=, the probability that a user looked at each document",
        ),
        (
            {"early_stopping_rounds": 5},
            "is a parameter of the ranker; expected Ranker(early_stopping_rounds=5)",
        ),
        (
            {"weights": Y, "sample_weight": Y},
            "weights, sample_weight: found both; expected one of them",
        ),
        (
            {"callbacks": [lgb.early_stopping(5, min_delta=0.1)]},
            "callbacks: found EarlyStoppingCallback of lightgbm",
        ),
        (
            {"callbacks": [lgb.reset_parameter(learning_rate=[0.1])]},
            "learning_rate: found 1 of them; expected 500, one per tree",
        ),
        (
            {"callbacks": [lgb.reset_parameter(max_depth=[1])]},
            "with options that have no counterpart",
        ),
    ],
)
def test_what_went_elsewhere_is_one_sentence(given, sentence):
    sets = [(X[DEV], Y[DEV]), (X[TEST], Y[TEST])] if "eval_group" in given else None
    with pytest.raises(OptionError if "eval_group:" not in sentence else ValueError) as caught:
        LGBMRanker(verbose=0).fit(X, Y, qid=QID, eval_set=sets, **given)
    assert sentence in str(caught.value)


def test_arguments_of_fit_that_are_ours_under_another_name():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        LGBMRanker().fit(X, Y, qid=QID, nonsense=1)
    weights = np.repeat(1.0 + np.arange(60) % 2, 20)
    one = LGBMRanker(n_estimators=3).fit(X, Y, qid=QID, sample_weight=weights)
    assert np.array_equal(
        one.predict(X), LGBMRanker(n_estimators=3).fit(X, Y, qid=QID, weights=weights).predict(X)
    )
    stopping = [lgb.early_stopping(2, verbose=False)]
    few = LGBMRanker(n_estimators=200).fit(
        X, Y, qid=QID, eval_set=(X[DEV], Y[DEV], QID[DEV]), callbacks=stopping
    )
    same = LGBMRanker(n_estimators=200, early_stopping_rounds=2).fit(
        X, Y, qid=QID, eval_set=(X[DEV], Y[DEV], QID[DEV])
    )
    assert few.n_trees_ == same.n_trees_ < 200


def test_constraints_of_another_length_and_hessians_of_0_are_one_sentence(capfd):
    for given in ([1], 1, np.array([1])):
        with pytest.raises(
            OptionError, match="monotone_constraints: found 1; expected 5, one per feature"
        ):
            LGBMRanker(monotone_constraints=given).fit(X, Y, qid=QID)
    assert "Fatal" not in "".join(capfd.readouterr())

    @tr.losses.register("flat")
    @dataclass(frozen=True)
    class Flat(tr.losses.ListLoss):
        @staticmethod
        def one_list(scores, labels, grad, hess):
            for i in range(scores.size):
                grad[i] = scores[i] - labels[i]
            return 0.0

    try:
        with pytest.raises(
            tr.DataError, match="loss flat: all hessians are 0, so no leaf has a value"
        ):
            LGBMRanker("flat", n_estimators=1).fit(X, Y, qid=QID)
    finally:
        del tr.losses.REGISTRY["flat"]


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_options_of_predict(engine):
    ranker = LGBMRanker(engine=engine, n_estimators=6).fit(X, Y, qid=QID)
    few = LGBMRanker(engine=engine, n_estimators=2).fit(X, Y, qid=QID)
    assert np.array_equal(ranker.predict(X, num_iteration=2), few.predict(X))
    assert np.array_equal(ranker.predict(pd.DataFrame(X), num_iteration=2), few.predict(X))
    assert np.array_equal(ranker.predict(X, num_iteration=-1), ranker.predict(X))
    with pytest.raises(OptionError, match=r"num_iteration: found .*3.*; expected a whole number"):
        ranker.predict(X, num_iteration="3")
    parts = ranker.predict(X, pred_contrib=True)
    assert parts.shape == (1200, 6)
    assert np.allclose(parts.sum(axis=1), ranker.predict(X), atol=1e-6)
    leaves = ranker.predict(X, pred_leaf=True)
    assert leaves.shape == (1200, 6)
    # Documents that share all leaves share the score.
    _, first, group = np.unique(leaves, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(ranker.predict(X)[first][group.ravel()], ranker.predict(X))


def test_scikit_learn_passes_queries_on():
    with sklearn.config_context(enable_metadata_routing=True):
        folds = GroupKFold(3)
        few = LGBMRanker(n_estimators=3, metric="ndcg@5")
        values = cross_val_score(few, X, Y, cv=folds, params={"qid": QID, "groups": QID})
        by_hand = [
            LGBMRanker(n_estimators=3, metric="ndcg@5")
            .fit(X[a], Y[a], qid=QID[a])
            .score(X[b], Y[b], qid=QID[b])
            for a, b in folds.split(X, Y, QID)
        ]
        assert values.tolist() == by_hand
        search = GridSearchCV(few, {"num_leaves": [3, 7]}, cv=folds).fit(X, Y, qid=QID, groups=QID)
        assert search.cv_results_["mean_test_score"].min() > 0.5
        pipeline = make_pipeline(StandardScaler(), few).fit(X, Y, qid=QID)
        assert pipeline.score(X, Y, qid=QID) > 0.5
    with pytest.raises(ValueError, match=r"sklearn.set_config\(enable_metadata_routing=True\)"):
        GridSearchCV(LGBMRanker(n_estimators=3), {"num_leaves": [3]}, error_score="raise").fit(X, Y)
