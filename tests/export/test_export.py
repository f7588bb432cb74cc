"""Models in other systems: each format is read back by a small interpreter that follows that
system's own rules.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import lightgbm
import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.lightgbm_text import lightgbm_trees
from tautrank.engines.trees import Tree, greatest_float32, more_than_comparisons
from tautrank.errors import DataError, MissingDependencyError, OptionError, TautrankWarning
from tautrank.export import FORMATS
from tautrank.export.formats import float32_text
from tautrank.export.solr import SOLR_SLACK, solr_thresholds
from tests.command_line import run

f32 = np.float32
read = functools.cache(np.float32)


# ---------------------------------------------------------------- interpreters: (content,
# documents, names) -> scores


def summed(trees, documents, step, value, kind=f32):
    """Walk each document down each tree, by `step(node, document)` until it gives None, and add the
    leaves.
    """
    scores = []
    for document in documents:
        total = kind(0)
        for node in trees:
            while (child := step(node, document)) is not None:
                node = child
            total += value(node)
        scores.append(total)
    return np.array(scores)


def solr_scores(content, X, names):
    """MultipleAdditiveTreesModel: float32, 1e-6 on every threshold, `<=`; NaN as `missing` says, or
    0.
    """
    model = json.loads(content)
    assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
    assert {tree["weight"] for tree in model["params"]["trees"]} == {"1"}
    column = {entry["name"]: names.index(entry["name"]) for entry in model["features"]}
    tells_missing = model["params"].get("isNullSameAsZero", True) is False

    def step(node, values):
        if "feature" not in node:
            return None
        value = values[column[node["feature"]]]
        if np.isnan(value):
            return node[node["missing"]]
        return node["left" if value <= read(node["threshold"]) + f32(1e-6) else "right"]

    roots = [tree["root"] for tree in model["params"]["trees"]]
    X = X if tells_missing else np.nan_to_num(X, nan=0.0)
    return summed(roots, X, step, lambda leaf: read(leaf["value"]))


def ranklib_scores(content, X, names=None):
    """LambdaMART: lines without `##` are joined, children have fixed places; float32, NaN is 0,
    `<=`.
    """
    lines = [
        line.strip()
        for line in (content if isinstance(content, str) else content.decode()).splitlines()
    ]
    assert lines[0] == "## LambdaMART"
    ensemble = ElementTree.fromstring("".join(line for line in lines if not line.startswith("##")))
    assert ensemble.tag == "ensemble"
    assert [(tree.get("id"), tree.get("weight")) for tree in ensemble] == [
        (str(i + 1), "1.0") for i in range(len(ensemble))
    ]

    def step(node, document):
        if node[0].tag == "output":
            return None
        assert [child.tag for child in node] == ["feature", "threshold", "split", "split"]
        assert [child.get("pos") for child in node[2:]] == ["left", "right"]
        return node[2 if document[int(node[0].text) - 1] <= read(node[1].text.strip()) else 3]

    roots = [tree[0] for tree in ensemble]
    return summed(roots, np.nan_to_num(X, nan=0.0), step, lambda leaf: read(leaf[0].text.strip()))


def plugin_scores(content, X, names):
    """RankLib's text; or model/xgboost+json: float32, `<` to the first child, NaN where `missing`
    points.
    """
    described = json.loads(content)["model"]
    assert set(described) == {"name", "model"}
    body = described["model"]
    if body["type"] == "model/ranklib":
        return ranklib_scores(body["definition"], X)
    assert body["type"] == "model/xgboost+json"

    def step(node, document):
        if "leaf" in node:
            return None
        assert [node["yes"], node["no"]] == [child["nodeid"] for child in node["children"]]
        value = document[names.index(node["split"])]
        goes_left = (
            node["missing"] == node["yes"]
            if np.isnan(value)
            else f32(node["split_condition"]) > value
        )
        return node["children"][0 if goes_left else 1]

    return summed(json.loads(body["definition"]), X, step, lambda leaf: f32(leaf["leaf"]))


def vespa_scores(content, X, names):
    """`!(x >= t)` where default_left, else `x < t`, in doubles; the objective must be there, and be
    an identity.
    """
    model = json.loads(content)
    assert model["objective"] not in ("binary", "cross_entropy", "poisson", "gamma", "tweedie")
    assert list(model["pandas_categorical"]) == []
    assert model["feature_names"] == list(names)

    def step(node, document):
        if "left_child" not in node:
            return None
        assert node["decision_type"] == "<="
        value, threshold = document[node["split_feature"]], float(node["threshold"])
        goes_left = not value >= threshold if node["default_left"] else value < threshold
        return node["left_child" if goes_left else "right_child"]

    roots = [tree["tree_structure"] for tree in model["tree_info"]]
    return summed(roots, X.astype(np.float64), step, lambda leaf: leaf["leaf_value"], float)


def onnx_scores(content, X, names):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"features": X})[0][:, 0]


def lightgbm_scores(content, X, names):
    return lightgbm.Booster(model_str=content.decode()).predict(X, raw_score=True)


INTERPRETERS = {
    "solr": solr_scores,
    "ranklib": ranklib_scores,
    "elasticsearch": plugin_scores,
    "opensearch": plugin_scores,
    "vespa": vespa_scores,
    "onnx": onnx_scores,
    "lightgbm": lightgbm_scores,
}


# ---------------------------------------------------------------- models and documents


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


# ---------------------------------------------------------------- the same scores


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


# ---------------------------------------------------------------- what cannot be said


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


# ---------------------------------------------------------------- numbers


def test_float32_thresholds_mean_the_same_for_every_float32():
    rng = np.random.default_rng(0)
    thresholds = np.concatenate(
        [rng.normal(size=2000) * 10.0 ** rng.integers(-30, 30, 2000), [0, 1e300, -1e300, 1e-50]]
    )
    low = greatest_float32(thresholds)
    assert (low <= thresholds).all()
    with np.errstate(over="ignore"):
        assert (np.nextafter(low, f32(math.inf)) > thresholds).all()


def test_solr_thresholds_are_the_best_there_are():
    rng = np.random.default_rng(0)
    edges = [
        side * 2.0**e * (1 - d)
        for side in (1, -1)
        for e in range(-30, 3)
        for d in (0, 2.0**-24, 2.0**-22)
    ]
    usual = rng.normal(size=1500) * 10.0 ** rng.integers(-9, 9, 1500)
    thresholds = np.concatenate([usual, edges, [0.0, 1e-35, -1e-35, 1e300, -1e300]])
    written, reached = solr_thresholds(thresholds)
    wanted = greatest_float32(thresholds)
    np.testing.assert_array_equal(written + SOLR_SLACK, reached)
    assert (reached <= wanted).all()
    # Brute force: every float32 around what was written.
    steps = np.arange(-60, 61)
    finite = np.isfinite(written) & (np.abs(written) > 1e-30)
    around = (written[finite].view(np.int32)[:, None] + steps).view(f32)
    with np.errstate(invalid="ignore"):
        sums = around + SOLR_SLACK
    best = np.where(sums <= wanted[finite][:, None], sums, -np.inf).max(axis=1)
    np.testing.assert_array_equal(best, reached[finite])
    # Away from 0 and from powers of two they are exact, and 0 never changes sides.
    ordinary = np.abs(thresholds) > 1e-3
    assert (reached == wanted)[ordinary & (thresholds > 0)].all()
    np.testing.assert_array_equal(reached >= 0, thresholds >= 0)


def test_solr_says_which_thresholds_it_moves(tmp_path):
    X = np.linspace(-5e-7, -1e-7, 400, dtype=f32)[:, None]
    y = (np.arange(400) // 7) % 3
    ranker = tr.Ranker("mse", n_estimators=3, min_data_in_leaf=2).fit(X, y, group=[10] * 40)
    with pytest.warns(
        TautrankWarning,
        match=r"^solr: adds 1e-6 to thresholds in float32, so \d+ of \d+ come out lower",
    ):
        content = exported(ranker, tmp_path, "solr")
    assert np.corrcoef(solr_scores(content, X, ["f1"]), ranker.predict(X))[0, 1] > 0.99


def test_numbers_read_back_as_the_same_bits():
    rng = np.random.default_rng(0)
    for number in (rng.normal(size=500) * 10.0 ** rng.integers(-40, 38, 500)).astype(f32):
        assert f32(float32_text(number)) == number
    assert float32_text(f32("inf")) == "Infinity"


def test_trees_deeper_than_the_stack(tmp_path):
    depth = 20_000
    inner = np.arange(depth)
    right = np.append(inner[1:], ~depth)
    leaves = np.zeros(depth + 1)
    tree = Tree.of(inner * 0, inner * 1.0, inner >= 0, ~inner, right, leaves)
    text = tree.nested_text(lambda _, __: ("(", ",", ")"), lambda _, __: "x")
    assert text == "(x," * depth + "x" + ")" * depth


# ---------------------------------------------------------------- names


def named_ranker():
    X = np.random.default_rng(0).normal(size=(200, 3))
    return tr.Ranker("mse", n_estimators=3).fit(
        X, (X[:, 0] > 0) + (X[:, 2] > 0), group=[10] * 20
    ), X.astype(f32)


def test_names_from_the_data_a_list_and_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    ranker, X = named_ranker()
    y = (X[:, 0] > 0) + 1 * (X[:, 2] > 0)
    with_names = tr.Ranker("mse", n_estimators=3).fit(
        pandas.DataFrame(X, columns=["a", "b", "c"]), y, group=[10] * 20
    )
    assert json.loads(exported(with_names, tmp_path, "solr"))["features"] == [
        {"name": "a"},
        {"name": "c"},
    ]
    (tmp_path / "names.txt").write_text("\ufeffx\n\ny \r\nz\n", encoding="utf-8")
    (tmp_path / "names.json").write_text('["x", "y", "z"]')
    (tmp_path / "features.json").write_text(
        json.dumps([{"name": n, "class": "SolrFeature", "params": {}} for n in "xyz"])
    )
    for given in ("names.txt", "names.json", "features.json"):
        model = json.loads(exported(with_names, tmp_path, "solr", features=tmp_path / given))
        assert model["features"] == [{"name": "x"}, {"name": "z"}]
    quoted = ['say "hi"', "ü", "\\"]
    content = exported(ranker, tmp_path, "solr", features=quoted, name='a "model"', store="s")
    assert (json.loads(content)["name"], json.loads(content)["store"]) == ('a "model"', "s")
    np.testing.assert_array_equal(solr_scores(content, X, quoted), float32_sum(ranker, X))


def test_vespa_takes_rank_features(tmp_path):
    ranker, X = named_ranker()
    names = ["bm25(title)", "fieldTermMatch(body, 0).firstPosition", "freshness"]
    content = exported(ranker, tmp_path, "vespa", features=names)
    np.testing.assert_array_equal(vespa_scores(content, X, names), ranker.predict(X))
    for wrong in ("title score", "1st", "a+b", "bm25(title"):
        with pytest.raises(OptionError, match="not a rank feature of Vespa"):
            tr.export_model(ranker, tmp_path / "m", "vespa", features=["a", "b", wrong])


def test_lightgbm_text_carries_the_names(tmp_path):
    ranker, X = named_ranker()
    assert exported(ranker, tmp_path, "lightgbm") == ranker.model_.to_bytes()
    text = exported(ranker, tmp_path, "lightgbm", features=["bm25(title)", "b", "c"]).decode()
    booster = lightgbm.Booster(model_str=text)
    assert booster.feature_name() == ["bm25(title)", "b", "c"]
    np.testing.assert_array_equal(booster.predict(X, raw_score=True), ranker.predict(X))
    assert "Column_" not in text
    with pytest.raises(
        OptionError, match="LightGBM cannot read the name 'a b'; expected names without ' '"
    ):
        tr.export_model(ranker, tmp_path / "m", "lightgbm", features=["a b", "b", "c"])


def test_onnx_carries_the_names(tmp_path):
    onnx = pytest.importorskip("onnx")
    ranker, _ = named_ranker()
    model = onnx.load_from_string(
        exported(ranker, tmp_path, "onnx", features=["a", "b", "ü"], name="shop")
    )
    onnx.checker.check_model(model)
    assert model.graph.name == "shop"
    assert json.loads({p.key: p.value for p in model.metadata_props}["feature_names"]) == [
        "a",
        "b",
        "ü",
    ]


WRONG = {
    "count": ({"features": ["a"]}, DataError, r"^features: found 1 name; expected 3, one per feature of the model$"),
    "twice": ({"features": ["a", "b", "a"]}, DataError, "^features: found the name 'a' twice; expected"),
    "empty": ({"features": ["a", " ", "c"]}, DataError, "^features: the name of feature 2 is ' '; expected text"),
    "number": ({"features": ["a", 5, "c"]}, DataError, "^features: the name of feature 2 is 5; expected text"),
    "store": ({"format": "vespa", "store": "s"}, OptionError, "^store: found 's' with the format vespa; expected it"),
    "name": ({"format": "ranklib", "name": "m"}, OptionError, "^name: found 'm' with the format ranklib; expected it"),
    "blank name": ({"name": ""}, OptionError, "^name: found ''; expected text on one line$"),
    "format": ({"format": "elasticsaerch"}, OptionError, "^unknown format .*; did you mean 'elasticsearch'?"),
    "no file": ({"features": "absent.txt"}, DataError, r"^absent.txt: no such file$"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_one_sentence_and_leave_nothing(case, tmp_path):
    options, kind, sentence = WRONG[case]
    ranker, _ = named_ranker()
    with pytest.raises(kind, match=sentence):
        tr.export_model(ranker, tmp_path / "m", **{"format": "solr"} | options)
    assert list(tmp_path.iterdir()) == []


def test_files_of_names_that_are_none(tmp_path):
    ranker, _ = named_ranker()
    for content, sentence in (
        (b'["a", "b"', "found broken JSON"),
        (b"[[1], 2, 3]", "the name of feature 1 is "),
        (b"\xff\xfe", "is UTF-16 text; expected UTF-8 or ASCII"),
        (b"caf\xe9", "found bytes that are not UTF-8; expected text"),
        (b"[" * 100_000, "found broken JSON"),
    ):
        (tmp_path / "names").write_bytes(content)
        with pytest.raises(DataError, match=sentence):
            tr.export_model(ranker, tmp_path / "m", "solr", features=tmp_path / "names")


def test_an_unfitted_ranker_and_an_absent_folder(tmp_path):
    with pytest.raises(OptionError, match="ranker: found a int; expected a fitted Ranker"):
        tr.export_model(3, tmp_path / "m", "solr")
    with pytest.raises(tr.TautrankError, match="export_model: this Ranker is not fitted"):
        tr.export_model(tr.Ranker(), tmp_path / "m", "solr")
    with pytest.raises(DataError, match="cannot be written"):
        tr.export_model(named_ranker()[0], tmp_path / "absent" / "m", "solr")


# ---------------------------------------------------------------- command line


def test_the_command_writes_what_the_function_does(tmp_path, capsys):
    ranker, _ = named_ranker()
    ranker.save(tmp_path / "model.taut")
    (tmp_path / "names.txt").write_text("a\nb\nc\n")
    arguments = [
        "export",
        tmp_path / "model.taut",
        "-o",
        tmp_path / "shop.json",
        "--format",
        "solr",
    ]
    code, out, err = run(capsys, *arguments, "--features", tmp_path / "names.txt", "--store", "s")
    assert (code, out, err) == (0, f"{tmp_path}/shop.json: 3 trees for solr\n", "")
    tr.export_model(
        ranker, tmp_path / "again.json", "solr", features=["a", "b", "c"], store="s", name="shop"
    )
    assert (tmp_path / "shop.json").read_bytes() == (tmp_path / "again.json").read_bytes()


def test_wrong_commands_are_one_sentence(tmp_path, capsys):
    named_ranker()[0].save(tmp_path / "model.taut")
    (tmp_path / "names.txt").write_text("a\n")
    before = sorted(tmp_path.iterdir())
    model, output = tmp_path / "model.taut", tmp_path / "o"
    for arguments, sentence in (
        ([model, "--format", "vesper"], "unknown format 'vesper'; did you mean 'vespa'?"),
        ([tmp_path / "absent", "--format", "solr"], f"{tmp_path}/absent: "),
        ([tmp_path / "names.txt", "--format", "solr"], f"{tmp_path}/names.txt: is not a tautrank model"),
        ([model, "--format", "solr", "--features", tmp_path / "names.txt"], f"{tmp_path}/names.txt: found 1 name"),
        ([model, "--format", "onnx", "--store", "s"], "store: found 's' with the format onnx; expected it with solr"),
    ):  # fmt: skip
        code, out, err = run(capsys, "export", *arguments, "-o", output)
        assert (code, out) == (2, "")
        assert err.startswith("error: " + sentence)
        assert err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_warnings_are_notes_on_the_command_line(tmp_path, capsys):
    ranker, _ = lightgbm_ranker(missing=True)
    ranker.save(tmp_path / "model.taut")
    code, _, err = run(
        capsys, "export", tmp_path / "model.taut", "-o", tmp_path / "m.txt", "--format", "ranklib"
    )
    assert code == 0
    assert err.startswith("note: ranklib: the model tells missing values of 'f4', 'f5', 'f6' and ")
    assert err.count("\n") == 1


def test_solr_needs_nothing_of_pytorch(tmp_path):
    ranker, _ = lightgbm_ranker()
    ranker.save(tmp_path / "model.taut")
    code = f"""
import sys, tautrank
ranker = tautrank.Ranker.load({str(tmp_path / "model.taut")!r})
tautrank.export_model(ranker, {str(tmp_path / "model.json")!r}, "solr")
print(*[name for name in sys.modules if "torch" in name])
"""

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )

    assert printed.stdout.split() == []
