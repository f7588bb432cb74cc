"""Models in other systems: each format is read back by a small interpreter that follows that
system's own rules.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys

import lightgbm
import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.lightgbm_text import lightgbm_trees
from tautrank.engines.trees import more_than_comparisons
from tautrank.errors import MissingDependencyError, OptionError, TautrankWarning
from tautrank.export import FORMATS
from tests.export.examples import (
    NAMES,
    SMALL,
    at_the_thresholds,
    data,
    exported,
    float32_sum,
    lightgbm_ranker,
)
from tests.export.interpreters import (
    INTERPRETERS,
    f32,
    onnx_scores,
    plugin_scores,
    vespa_scores,
)


@pytest.mark.parametrize("format", FORMATS)
def test_every_document_goes_to_the_same_leaves(format, tmp_path):
    ranker, X = lightgbm_ranker()
    X = np.concatenate([X[:60], at_the_thresholds(ranker, X)])
    found = INTERPRETERS[format](exported(ranker, tmp_path, format), X, NAMES)
    if format in ("vespa", "lightgbm"):
        np.testing.assert_array_equal(found, ranker.predict(X))
    elif format == "onnx":  # which adds doubles in an order of its own
        np.testing.assert_allclose(found, ranker.predict(X), rtol=1e-7)
    else:
        np.testing.assert_array_equal(found, float32_sum(ranker, X))
    np.testing.assert_allclose(found, ranker.predict(X), rtol=0, atol=1e-6)


@functools.cache
def their_model():
    """A model that LightGBM trained and saved without this library, and documents at its
    thresholds.
    """
    train = data()
    theirs = lightgbm.LGBMRanker(n_estimators=8, num_leaves=10, min_child_samples=5, verbose=-1)
    theirs.fit(
        np.array(train.X, float),
        train.labels,
        group=train.sizes,
        feature_name=[f"f{i}" for i in range(1, 17)],
    )
    ranker = tr.Ranker.load(theirs.booster_.model_to_string().encode())
    return (
        theirs,
        ranker,
        np.concatenate([np.array(train.X)[:40], at_the_thresholds(ranker, np.array(train.X))]),
    )


@pytest.mark.parametrize("format", FORMATS)
def test_a_model_of_lightgbm_has_the_same_scores_in_every_format(format, tmp_path):
    theirs, ranker, X = their_model()
    found = INTERPRETERS[format](exported(ranker, tmp_path, format), X, NAMES)
    np.testing.assert_allclose(found, theirs.booster_.predict(X), rtol=0, atol=1e-6)


def test_opensearch_follows_the_directions_of_missing_values(tmp_path):
    ranker, X = lightgbm_ranker(missing=True)
    X = np.concatenate([X[:60], at_the_thresholds(ranker, np.nan_to_num(X, nan=0.5))])
    assert np.isnan(X).any()
    content = exported(
        ranker, tmp_path, "opensearch", directions=True
    )  # a warning would be an error
    np.testing.assert_array_equal(plugin_scores(content, X, NAMES), float32_sum(ranker, X))
    with pytest.raises(
        OptionError,
        match="directions: found 'True' with the format solr; expected it with opensearch",
    ):
        exported(ranker, tmp_path, "solr", directions=True)


def test_documents_at_thresholds_are_told_apart():
    """So the test above sees thresholds that are off by one float32."""
    ranker, X = lightgbm_ranker()
    scores = ranker.predict(at_the_thresholds(ranker, X)).reshape(-1, 3)
    assert (scores[:, 0] != scores[:, 1]).sum() >= 3
    assert (scores[:, 0] != scores[:, 2]).sum() >= 3


def test_vespa_takes_doubles_at_a_threshold_where_lightgbm_does(tmp_path):
    ranker, X = lightgbm_ranker()
    documents = at_the_thresholds(ranker, X[:1], np.float64)
    expected = ranker.model_.booster.predict(documents, raw_score=True)
    assert len(set(expected)) > 3
    np.testing.assert_array_equal(
        vespa_scores(exported(ranker, tmp_path, "vespa"), documents, NAMES), expected
    )


@pytest.mark.parametrize("format", FORMATS)
def test_missing_values(format, tmp_path):
    """The model tells them from 0; Solr from 9.2, Vespa, ONNX and LightGBM can too, the others say
    that they cannot.
    """
    ranker, X = lightgbm_ranker(missing=True)
    X = np.concatenate([X[:60], at_the_thresholds(ranker, X)])
    assert any(tree.depends_on_missing.any() for tree in ranker.model_.trees())
    if format in ("vespa", "onnx", "lightgbm"):
        content = exported(ranker, tmp_path, format)
    else:
        sentence = (
            "needs Solr 9.2"
            if format == "solr"
            else f"^{format}: the model tells missing values of 'f"
        )
        with pytest.warns(TautrankWarning, match=sentence):
            content = exported(ranker, tmp_path, format)
    if format in ("ranklib", "elasticsearch", "opensearch"):
        filled = np.nan_to_num(X, nan=0.0)
        np.testing.assert_array_equal(
            INTERPRETERS[format](content, X, NAMES), float32_sum(ranker, filled)
        )
    else:
        np.testing.assert_allclose(
            INTERPRETERS[format](content, X, NAMES), ranker.predict(X), rtol=0, atol=2e-6
        )


@pytest.mark.parametrize("format", FORMATS)
def test_missing_values_that_training_never_met_are_zeros_everywhere(format, tmp_path):
    ranker, X = lightgbm_ranker()
    holes = X[:60].copy()
    holes[np.random.default_rng(3).random(holes.shape) < 0.3] = np.nan
    found = INTERPRETERS[format](
        exported(ranker, tmp_path, format), holes, NAMES
    )  # a warning would be an error
    np.testing.assert_allclose(found, ranker.predict(holes), rtol=0, atol=2e-6)
    np.testing.assert_array_equal(
        ranker.predict(holes), ranker.predict(np.nan_to_num(holes, nan=0.0))
    )


KINDS = {
    "langevin": {"langevin": tr.Langevin(1e6, 0.5)},
    "rf": {
        "loss": "lightgbm:lambdarank",
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
    },
    "dart": {"boosting": "dart"},
    "start above 0": {"loss": "lightgbm:regression"},
    "trees of one leaf": {"loss": "lightgbm:regression", "min_data_in_leaf": 10**6},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore:loss lightgbm.regression. no tree could be split")
def test_leaves_of_other_kinds_of_boosting(format, kind, tmp_path):
    ranker, X = lightgbm_ranker(**KINDS[kind])
    found = INTERPRETERS[format](exported(ranker, tmp_path, format), X[:60], NAMES)
    assert ranker.predict(X)[0] != 0
    np.testing.assert_allclose(found, ranker.predict(X[:60]), rtol=1e-6, atol=2e-6)


def test_early_stopping_ships_the_trees_up_to_the_best(tmp_path):
    train, valid = data(60).split([0.6, 0.4], seed=0)
    ranker = tr.Ranker(
        "lambdarank", n_estimators=60, num_leaves=31, early_stopping_rounds=5, min_data_in_leaf=2
    )
    ranker.fit(train, valid)
    assert len(ranker.evals_result_["valid"]["ndcg@10"]) > ranker.best_iteration_
    for format, trees in (("ranklib", b"<tree id="), ("vespa", b'"tree_index"')):
        content = exported(ranker, tmp_path, format)
        assert content.count(trees) == ranker.best_iteration_
        found = INTERPRETERS[format](content, np.array(valid.X), NAMES)
        np.testing.assert_allclose(found, ranker.predict(valid), rtol=0, atol=3e-6)


@pytest.mark.parametrize("format", [format for format in FORMATS if format != "lightgbm"])
@pytest.mark.filterwarnings("ignore::tautrank.errors.TautrankWarning")
def test_models_of_xgboost(format, tmp_path):
    pytest.importorskip("xgboost")
    ranker = tr.Ranker("xgboost:rank:ndcg", n_estimators=8, num_leaves=12).fit(data(missing=True))
    X = np.array(data(missing=format != "ranklib").X)[:60]
    X = np.concatenate([X, at_the_thresholds(ranker, X)])
    content = exported(ranker, tmp_path, format)
    if format in ("elasticsearch", "opensearch"):
        assert json.loads(content)["model"]["model"]["type"] == "model/xgboost+json"
    np.testing.assert_allclose(
        INTERPRETERS[format](content, X, NAMES), ranker.predict(X), rtol=0, atol=2e-6
    )


COMMITTEES = {
    "one engine": {"loss": ["lambdarank", "ndcg-loss2++", "xendcg", "mse", "stochasticrank"]},
    "of XGBoost": {"loss": ["lambdarank", "xendcg", "xgboost:rank:ndcg"], "engine": "xgboost"},
    "two engines": {"loss": ["lambdarank", "xgboost:rank:ndcg"]},
}


@functools.cache
def committee(kind):
    train = data()
    few = {
        name: value
        for name, value in SMALL.items()
        if kind == "one engine" or name != "min_data_in_leaf"
    }
    return tr.Ranker(**{**few, **COMMITTEES[kind]}).fit(train), np.array(train.X)


@pytest.mark.parametrize("kind", COMMITTEES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.filterwarnings("ignore::tautrank.errors.TautrankWarning")
def test_committees_score_the_same_in_every_format(format, kind, tmp_path):
    ranker, X = committee(kind)
    X = np.concatenate([X[:60], at_the_thresholds(ranker, X)[::5]])
    if format == "lightgbm" and kind != "one engine":
        with pytest.raises(OptionError, match="format: found lightgbm for a model trained by"):
            exported(ranker, tmp_path, format)
        return
    # Float32 adds the leaves of a committee without rounding.
    np.testing.assert_array_equal(
        INTERPRETERS[format](exported(ranker, tmp_path, format), X, NAMES), ranker.predict(X)
    )


@pytest.mark.parametrize(
    ("columns", "loss"), [("all", "xendcg"), ([3, 1], ["xendcg", "mse"])], ids=str
)
def test_onnx_scores_one_list_with_list_features(columns, loss, tmp_path):
    chosen = tr.ListFeatures(columns, difference=True)
    documents = data(missing=True)
    ranker = tr.Ranker(loss, n_estimators=20, num_leaves=7, list_features=chosen, n_jobs=1).fit(
        documents
    )
    content = exported(ranker, tmp_path, "onnx")
    rng = np.random.default_rng(0)
    lists = [documents.X[start:end] for start, end in itertools.pairwise(documents.offsets)]
    lists += [
        np.round(rng.normal(size=(n, documents.n_features)) * 3).astype(f32) for n in (1, 2, 300)
    ]
    lists += [
        np.ones((4, documents.n_features), f32),
        np.full((4, documents.n_features), np.nan, f32),
    ]
    for X in lists:
        np.testing.assert_allclose(
            onnx_scores(content, X, None), ranker.predict(X), rtol=1e-6, atol=1e-6
        )
    onnx = pytest.importorskip("onnx")
    properties = {
        entry.key: json.loads(entry.value)
        for entry in onnx.load_from_string(content).metadata_props
    }
    assert properties["list_features"][-1].endswith(" (difference in list)")


def test_servers_that_score_documents_one_by_one_refuse_list_features(tmp_path):
    ranker = tr.Ranker("mse", n_estimators=2, list_features=[0]).fit(data())
    for format in {*FORMATS} - {"onnx"}:
        reason = (
            "LightGBM's text has no formula for them"
            if format == "lightgbm"
            else f"{format} scores documents one"
        )
        with pytest.raises(OptionError) as caught:
            tr.export_model(ranker, tmp_path / "model", format)
        assert str(caught.value).startswith(
            f"format: found '{format}' for a model with list features, but {reason}"
        )
        assert str(caught.value).endswith("expected onnx, or a model trained without list_features")
    assert not [*tmp_path.iterdir()]


def test_a_saved_model_ships_the_same_bytes(tmp_path):
    ranker, _ = lightgbm_ranker()
    ranker.save(tmp_path / "model.taut")
    loaded = tr.Ranker.load(tmp_path / "model.taut")
    for format in FORMATS:
        assert exported(ranker, tmp_path, format) == exported(loaded, tmp_path, format)


REFUSED = {
    "linear": ({"linear_tree": True}, "format: the model has linear trees"),
    "categories": ({"categorical_feature": [2]}, "format: the model splits by category"),
    "zeros": ({"zero_as_missing": True}, "format: the model sends 0 aside as a missing value"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_only_lightgbm_evaluates(case, tmp_path):
    parameters, sentence = REFUSED[case]
    train = data()
    X = np.array(train.X)
    X[:, 2] = train.labels * 2 + np.arange(len(X)) % 2  # categories that tell
    train = tr.RankingData.from_arrays(X, train.labels, group=train.sizes)
    ranker = tr.Ranker(
        "xendcg", **SMALL | {"min_data_per_group": 2, "cat_smooth": 1.0} | parameters
    ).fit(train)
    for format in FORMATS:
        if format == "lightgbm":
            found = INTERPRETERS[format](exported(ranker, tmp_path, format), X, NAMES)
            np.testing.assert_array_equal(found, ranker.predict(X))
            continue
        with pytest.raises(OptionError, match=sentence):
            tr.export_model(ranker, tmp_path / "refused", format)
    assert not (tmp_path / "refused").exists()


def test_zeros_that_are_missing_are_shipped_where_they_go_with_their_neighbours(tmp_path):
    """With positive values alone, 0 left is where it would go anyway; only 0 right cannot be
    said.
    """
    text = (
        "tree\nversion=v4\n\nTree=0\nnum_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=0.5\ndecision_type={}\n"
        "left_child=-1\nright_child=-2\nleaf_value=-1 1\nis_linear=0\n\n\nend of trees\n"
    )
    assert lightgbm_trees(text.format(4 + 2))[0].missing_left.tolist() == [True]
    assert more_than_comparisons(lightgbm_trees(text.format(4 + 2))) is None
    assert "zero_as_missing" in more_than_comparisons(lightgbm_trees(text.format(4)))
    assert lightgbm_trees(text.format(8))[0].missing_left.tolist() == [False]
    assert lightgbm_trees(text.format(8))[0].depends_on_missing.tolist() == [True]
    assert lightgbm_trees(text.format(0))[0].depends_on_missing.tolist() == [False]


def test_models_of_other_tools(tmp_path):
    pytest.importorskip("catboost")
    ranker = tr.Ranker("catboost:QueryRMSE", n_estimators=2, num_leaves=4).fit(data(10))
    for format in FORMATS:
        with pytest.raises(OptionError, match=r"^format: found .*catboost.*; expected"):
            tr.export_model(ranker, tmp_path / "m", format)
    xgboost = pytest.importorskip("xgboost")
    with pytest.raises(OptionError, match="format: found lightgbm for a model trained by xgboost"):
        tr.export_model(
            tr.Ranker("xgboost:rank:ndcg", n_estimators=2).fit(data(10)), tmp_path / "m", "lightgbm"
        )
    dart = tr.Ranker(
        "xgboost:rank:ndcg", n_estimators=4, booster="dart", rate_drop=0.9, one_drop=True
    ).fit(data(10))
    scores = dart.model_.booster.predict(xgboost.DMatrix(np.array(data(10).X)), output_margin=True)
    np.testing.assert_array_equal(dart.predict(data(10)), scores)
    with pytest.raises(OptionError, match="format: found XGBoost's booster dart; expected gbtree"):
        tr.export_model(dart, tmp_path / "m", "solr")


def test_onnx_that_is_not_installed(tmp_path, monkeypatch):
    ranker, _ = lightgbm_ranker(n_estimators=2)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        MissingDependencyError, match=r"needs ONNX; install it with: pip install 'tautrank\[onnx\]'"
    ):
        tr.export_model(ranker, tmp_path / "m.onnx", "onnx")
    assert list(tmp_path.iterdir()) == []
