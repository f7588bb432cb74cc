"""Ranker inside scikit-learn: cloning, searching, pipelines, metadata routing, and scikit-learn's
own checks.
"""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted

import tautrank as tr
from tautrank.compat import LGBMRanker
from tautrank.ranker.estimator import Ranker

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4)) * 50 + 7
Y = np.clip(np.round((X[:, 0] - 7) / 50 + 0.5 * RNG.normal(size=600)), 0, 4)
QID = np.repeat(np.arange(40), 15)
FEW = {"n_estimators": 4, "num_leaves": 7, "n_jobs": 1, "verbose": 0}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_parameters_come_back_as_given():
    loss = tr.losses.LambdaRank(k=5)
    ranker = Ranker(loss, n_estimators=7, min_data_in_leaf=3, categorical_feature=["a"])
    parameters = ranker.get_params()
    assert parameters["loss"] is loss
    assert parameters["min_data_in_leaf"] == 3
    assert parameters["categorical_feature"] == ["a"]
    assert clone(ranker).get_params() == parameters
    assert Ranker(**parameters).get_params() == parameters
    changed = ranker.set_params(n_estimators=8, min_data_in_leaf=4, lambda_l2=1.0)
    assert changed is ranker
    assert changed.get_params() == {
        **parameters,
        "n_estimators": 8,
        "min_data_in_leaf": 4,
        "lambda_l2": 1.0,
    }
    assert clone(ranker).set_params(lambda_l2=9).get_params()["lambda_l2"] == 9
    assert ranker.get_params()["lambda_l2"] == 1.0, "a clone is separate"


def test_a_clone_is_not_fitted_and_repr_shows_what_was_changed():
    fitted = Ranker("xendcg", min_data_in_leaf=3, **FEW).fit(X, Y, QID)
    check_is_fitted(fitted)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(clone(fitted))
    assert "xendcg" in repr(fitted)
    assert "min_data_in_leaf=3" in repr(fitted)


def test_grid_search_by_query_with_routing(routing):
    ranker = Ranker(**FEW).set_fit_request(qid=True, weights=True).set_score_request(qid=True)
    grid = {"loss": ["lambdarank", "xendcg(gamma=0.5)"], "min_data_in_leaf": [5, 150]}
    search = GridSearchCV(ranker, grid, cv=GroupKFold(3), error_score="raise")
    search.fit(X, Y, qid=QID, groups=QID, weights=np.where(QID < 20, 2.0, 1.0))
    assert search.best_params_["min_data_in_leaf"] == 5
    assert search.best_estimator_.n_trees_ == 4
    assert search.score(X, Y, qid=QID) == search.best_estimator_.score(X, Y, qid=QID)
    by_hand = [
        Ranker(search.best_params_["loss"], min_data_in_leaf=5, **FEW)
        .fit(X[train], Y[train], QID[train], weights=np.where(QID[train] < 20, 2.0, 1.0))
        .score(X[test], Y[test], QID[test])
        for train, test in GroupKFold(3).split(X, Y, QID)
    ]
    assert search.best_score_ == np.mean(by_hand)


def test_pipeline_with_routing(routing):
    ranker = Ranker(**FEW).set_fit_request(qid=True).set_score_request(qid=True)
    pipeline = make_pipeline(StandardScaler(), ranker).fit(X, Y, qid=QID)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(
        pipeline.predict(X), Ranker(**FEW).fit(scaled, Y, QID).predict(scaled)
    )
    assert pipeline.score(X, Y, qid=QID) > 0.8


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="scikit-learn passes no qid to a pipeline's score",
)
def test_cross_validation_of_a_pipeline(routing):
    pipeline = make_pipeline(StandardScaler(), Ranker(**FEW))
    scores = cross_val_score(
        pipeline, X, Y, cv=GroupKFold(3), params={"qid": QID, "groups": QID}, error_score="raise"
    )
    assert (scores > 0.7).all()


@pytest.mark.parametrize("estimator", [Ranker, LGBMRanker])
def test_cross_validation_scores_each_fold_as_by_hand(estimator, routing):
    folds = GroupKFold(3)
    expected = []
    for train, held_out in folds.split(X, Y, QID):
        fitted = estimator("xendcg", **FEW).fit(X[train], Y[train], qid=QID[train])
        expected.append(fitted.score(X[held_out], Y[held_out], qid=QID[held_out]))

    values = cross_val_score(
        estimator("xendcg", **FEW), X, Y, cv=folds, params={"qid": QID, "groups": QID}
    )

    assert values.tolist() == expected


@pytest.mark.parametrize("estimator", [Ranker, LGBMRanker])
def test_a_search_without_routing_says_how_to_turn_it_on(estimator):
    search = GridSearchCV(estimator(**FEW), {"num_leaves": [3]}, error_score="raise")

    with pytest.raises(ValueError, match=r"sklearn.set_config\(enable_metadata_routing=True\)"):
        search.fit(X, Y)


def test_pipeline_without_routing():
    pipeline = make_pipeline(StandardScaler(), Ranker(**FEW)).fit(X, Y, ranker__qid=QID)
    assert pipeline.predict(X).shape == Y.shape


def test_tags():
    tags = Ranker().__sklearn_tags__()
    assert tags.input_tags.allow_nan
    assert tags.input_tags.sparse
    assert tags.target_tags.required


UNFITTED_CHECKS = [
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_mixin_order",
    "check_valid_tag_types",
    "check_estimator_tags_renamed",
]


@pytest.mark.parametrize("name", UNFITTED_CHECKS)
def test_scikit_learns_checks_of_parameters(name):
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip("not in this version of scikit-learn")
    check("Ranker", Ranker(n_estimators=20))


class OneQuery(Ranker):
    """All rows are one query, since scikit-learn's checks know of none; labels start at 0."""

    def fit(self, X, y=None):
        if y is not None:
            y = np.asarray(y, dtype=float)
            y = y - y.min() if y.size else y
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        return super().fit(X, y, group=[rows])

    def score(self, X, y=None):
        return super().score(X, y, group=[X.shape[0]])


FITTED_CHECKS = [
    "check_fit_score_takes_y",
    "check_estimators_overwrite_params",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_estimators_unfitted",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
    "check_fit2d_1feature",
    "check_dict_unchanged",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
]


@pytest.mark.filterwarnings("ignore::tautrank.errors.TautrankWarning")
@pytest.mark.parametrize("name", FITTED_CHECKS)
def test_scikit_learns_checks_of_fitting(name):
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip("not in this version of scikit-learn")
    check("OneQuery", OneQuery(n_estimators=2, n_jobs=1, verbose=0))
