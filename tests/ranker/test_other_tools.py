"""Models of LightGBM and XGBoost as rankers, files in memory, damaged files."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time

import lightgbm
import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, TautrankError
from tautrank.export import FORMATS
from tests.command_line import run
from tests.export.examples import exported
from tests.export.interpreters import INTERPRETERS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(800, 5)).astype(np.float32)
Y = np.clip((X[:, 0] + X[:, 1] * X[:, 2] + RNG.normal(size=800)).round(), 0, 4)
GROUP = [20] * 40
NAMES = list("abcde")


def lightgbm_model(objective="lambdarank", names=NAMES, labels=Y):
    data = lightgbm.Dataset(X, labels, group=GROUP, feature_name=names or "auto")
    return lightgbm.train(
        {"objective": objective, "verbosity": -1, "num_leaves": 8, "num_threads": 1}, data, 10
    )


def xgboost_model(objective="rank:ndcg", labels=Y):
    xgboost = pytest.importorskip("xgboost")
    group = GROUP if objective.startswith("rank") else None
    data = xgboost.DMatrix(X, labels, group=group, feature_names=NAMES)
    return xgboost.train({"objective": objective, "max_depth": 3, "nthread": 1}, data, 10)


@pytest.mark.parametrize("format", FORMATS)
def test_lightgbm_text_is_exported_to_every_format(format, tmp_path):
    booster = lightgbm_model()
    booster.save_model(tmp_path / "anything.bin")  # the content says what it is
    ranker = tr.Ranker.load(tmp_path / "anything.bin")
    assert (ranker.loss, ranker.feature_names_in_.tolist(), ranker.n_trees_) == (
        "lightgbm:lambdarank",
        NAMES,
        10,
    )
    found = INTERPRETERS[format](exported(ranker, tmp_path, format), X[:100], NAMES)
    np.testing.assert_allclose(found, booster.predict(X[:100]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("format", FORMATS)
def test_lightgbm_models_of_decimals_keep_their_scores(format, tmp_path):
    # Splits lie in the middle between two values, and there are values for which float32 has a
    # larger number.
    values = np.round(RNG.random((800, 5)), 2)
    trained = values * 50 // 1 / 50  # 0, 0.02, 0.04, ...: the others lie in the middle
    booster = lightgbm.train(
        {"objective": "lambdarank", "verbosity": -1, "min_data_in_leaf": 2, "num_threads": 1},
        lightgbm.Dataset(trained, Y, group=GROUP, feature_name=NAMES),
        20,
    )
    scores = booster.predict(values)
    assert np.count_nonzero(booster.predict(values.astype(np.float32)) != scores) > 10
    for ranker in (tr.Ranker.load(booster), tr.Ranker.load(tr.Ranker.load(booster).model_.booster)):
        np.testing.assert_array_equal(ranker.predict(values), scores)
        np.testing.assert_array_equal(ranker.predict(values.astype(np.float32)), scores)
    found = INTERPRETERS[format](
        exported(ranker, tmp_path, format), values.astype(np.float32), NAMES
    )
    np.testing.assert_allclose(found, scores, rtol=0, atol=1e-5)


def test_lightgbm_models_of_float32_data_keep_their_thresholds():
    booster = lightgbm_model()
    kept = tr.Ranker.load(booster).model_.booster
    assert kept.trees_to_dataframe().threshold.equals(booster.trees_to_dataframe().threshold)
    # Time stamps, which float32 cannot hold, are compared as doubles.
    large = 1.7e9 + RNG.integers(0, 40, (800, 1)) + 0.125
    booster = lightgbm.train(
        {"objective": "lambdarank", "verbosity": -1}, lightgbm.Dataset(large, Y, group=GROUP), 5
    )
    np.testing.assert_array_equal(tr.Ranker.load(booster).predict(large), booster.predict(large))


def test_a_lightgbm_model_without_a_split_is_read():
    data, how = lightgbm.Dataset(X, Y, group=GROUP), {"objective": "lambdarank", "verbosity": -1}
    booster = lightgbm.train({**how, "min_gain_to_split": 1e9}, data, 3)
    ranker = tr.Ranker.load(booster.model_to_string().encode())
    np.testing.assert_array_equal(ranker.predict(X), booster.predict(X))
    assert ranker.explain(X[:3]).contributions.tolist() == [[0.0] * 5] * 3


@pytest.mark.parametrize(
    "objective", ["rank:ndcg", "binary:logistic", "count:poisson", "reg:squarederror"]
)
@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_xgboost_files_keep_their_scores(objective, kind, tmp_path):
    booster = xgboost_model(objective, Y > 1 if "logistic" in objective else Y)
    ranker = tr.Ranker.load(bytes(booster.save_raw(kind)))
    assert ranker.feature_names_in_.tolist() == NAMES
    matrix = pytest.importorskip("xgboost").DMatrix(X[:100], feature_names=NAMES)
    scores = booster.predict(matrix, output_margin=True)
    np.testing.assert_array_equal(ranker.predict(X[:100]), scores)
    vespa = INTERPRETERS["vespa"](exported(ranker, tmp_path, "vespa"), X[:100], NAMES)
    np.testing.assert_allclose(vespa, scores, rtol=0, atol=2e-6)


@pytest.mark.parametrize("gamma", [0.3, 1e9])
def test_pruned_trees_of_xgboost_keep_their_scores(gamma, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(X, Y, group=GROUP, feature_names=NAMES)
    how = {"objective": "rank:ndcg", "tree_method": "exact", "gamma": gamma, "nthread": 1}
    booster = xgboost.train(how, data, 10)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    assert any(int(tree["tree_param"]["num_deleted"]) for tree in trees)
    ranker, scores = (
        tr.Ranker.load(bytes(booster.save_raw("ubj"))),
        booster.predict(data, output_margin=True),
    )
    np.testing.assert_array_equal(ranker.predict(X), scores)
    vespa = INTERPRETERS["vespa"](exported(ranker, tmp_path, "vespa"), X[:100], NAMES)
    np.testing.assert_allclose(vespa, scores[:100], rtol=0, atol=1e-5)


def test_boosters_are_continued():
    booster = lightgbm_model(names=None)
    ranker = tr.Ranker("xendcg", n_estimators=2).fit(X, Y, group=GROUP, init_model=booster)
    assert ranker.n_trees_ == 12
    assert not hasattr(tr.Ranker.load(booster), "feature_names_in_")
    np.testing.assert_array_equal(
        ranker.model_.booster.predict(X, num_iteration=10), booster.predict(X)
    )
    model = xgboost_model()
    model.feature_names = None
    ranker = tr.Ranker("xendcg", engine="xgboost", n_estimators=2).fit(
        X, Y, group=GROUP, init_model=model
    )
    assert ranker.n_trees_ == 12


def test_a_tree_of_one_leaf_is_read():
    few = {"verbosity": -1, "num_threads": 1, "min_gain_to_split": 1e9}
    booster = lightgbm.train(few, lightgbm.Dataset(X, Y), 3)
    assert "num_leaves=1" in booster.model_to_string()
    np.testing.assert_array_equal(
        tr.Ranker.load(booster).predict(X), booster.predict(X, raw_score=True)
    )


def test_what_is_no_model_of_one_score_is_refused(tmp_path):
    many = lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbosity": -1},
        lightgbm.Dataset(X, Y.clip(0, 2)),
        2,
    )
    with pytest.raises(DataError, match="model: found a model of 3 classes; expected one score"):
        tr.Ranker.load(many)
    text = lightgbm_model().model_to_string()
    for damaged in (
        text[: len(text) // 2],
        text.replace("Tree=3", "Tree=4"),
        text.replace("tree_sizes=", "tree_sizes=1"),
        text.replace("Tree=0\n", "Tree=0\v"),  # a line end for Python, but not for LightGBM
    ):
        with pytest.raises(DataError):
            tr.Ranker.load(damaged.encode())
    with pytest.raises(DataError, match="XGBoost cannot read the model"):
        tr.Ranker.load(b'{"learner":{}}')
    with pytest.raises(DataError, match="found an object of int"):
        tr.Ranker.load(3)


# A node that is not there ends the process inside XGBoost, and a loop never ends.
_DAMAGED_NODES = {
    "left_children": [7, 999, -2, 0],
    "right_children": [-1, 1],
    "parents": [-5, 2**31 - 2],
    "split_indices": [5],
    "categories_nodes": [-1, 999],
}


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize(
    ("name", "value"), [(name, each) for name, some in _DAMAGED_NODES.items() for each in some]
)
def test_damaged_nodes_of_xgboost_are_refused(name, value, kind):
    content = bytes(xgboost_model().save_raw(kind))
    tree = json.loads(xgboost_model().save_raw("json"))["learner"]["gradient_booster"]["model"][
        "trees"
    ][0]
    numbers = tree[name]
    at = 1 if numbers else 0
    changed = [*numbers[:at], value, *numbers[at + 1 :]]
    if kind == "json":
        found, damaged = (
            f'"{name}":{json.dumps(each, separators=(",", ":"))}'.encode()
            for each in (numbers, changed)
        )
    else:
        key = b"L" + len(name).to_bytes(8, "big") + name.encode() + b"[$l#L"
        found, damaged = (
            key + len(each).to_bytes(8, "big") + np.array(each, ">i4").tobytes()
            for each in (numbers, changed)
        )
    assert found in content
    with pytest.raises(DataError, match="XGBoost cannot read the model; expected a whole file"):
        tr.Ranker.load(content.replace(found, damaged, 1))


@pytest.mark.parametrize("end", [*range(0, 4000, 97)])
def test_ubjson_that_ends_too_early_is_refused(end):
    with pytest.raises(DataError):
        tr.Ranker.load(bytes(xgboost_model().save_raw("ubj"))[:end])


def test_trees_of_xgboost_that_were_pruned_keep_their_scores(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    how = {"objective": "reg:squarederror", "tree_method": "exact", "gamma": 1.0, "nthread": 1}
    booster = xgboost.train(how, xgboost.DMatrix(X, Y, feature_names=NAMES), 8)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    assert any(tree["tree_param"]["num_deleted"] != "0" for tree in trees)
    ranker = tr.Ranker.load(booster)
    expected = booster.predict(xgboost.DMatrix(X, feature_names=NAMES))
    np.testing.assert_array_equal(ranker.predict(X), expected)
    found = INTERPRETERS["vespa"](exported(ranker, tmp_path, "vespa"), X[:100], NAMES)
    np.testing.assert_allclose(found, expected[:100], rtol=0, atol=1e-6)
    how = {"tree_method": "exact", "gamma": 1.0, "max_depth": 6}
    trained = tr.Ranker(engine="xgboost", n_estimators=4, **how).fit(X, Y, group=GROUP)
    assert trained.predict(X).shape == Y.shape


@pytest.mark.parametrize("kind", ["json", "ubj"])
def test_trees_of_xgboost_that_lead_nowhere_are_refused(kind):
    xgboost, model = pytest.importorskip("xgboost"), json.loads(xgboost_model().save_raw("json"))
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    for name, node, value in (
        ("left_children", 1, 0),  # back to the root, for ever
        ("right_children", 0, 2**20),  # far outside
        ("right_children", 0, tree["left_children"][0]),  # two ways to one node, none to another
        ("split_indices", 0, 77),
    ):
        kept, tree[name][node] = tree[name][node], value
        content = json.dumps(model).encode()
        if kind == "ubj" and name != "right_children":
            content = bytes(xgboost.Booster(model_file=bytearray(content)).save_raw("ubj"))
        with pytest.raises(DataError, match="XGBoost cannot read the model"):
            tr.Ranker.load(content)
        tree[name][node] = kept
    np.testing.assert_array_equal(
        tr.Ranker.load(json.dumps(model).encode()).predict(X).shape, Y.shape
    )


def test_file_objects_bytes_and_every_damaged_byte():
    ranker = tr.Ranker(n_estimators=1, num_leaves=2).fit(X, Y, group=GROUP)
    buffer = io.BytesIO()
    ranker.save(buffer)
    content = buffer.getvalue()
    buffer.seek(0)
    np.testing.assert_array_equal(tr.Ranker.load(buffer).predict(X), ranker.predict(X))
    np.testing.assert_array_equal(tr.Ranker.load(content).predict(X), ranker.predict(X))
    refused = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 255
        try:
            tr.Ranker.load(damaged)
        except TautrankError:
            refused += 1
    assert refused > 0.9 * len(content)


def test_a_split_on_missing_is_valid_json_for_vespa(tmp_path):
    x, y = np.arange(400.0).reshape(-1, 1) % 7, np.tile([0, 1], 200)
    x[y == 1] = np.nan
    ranker = tr.Ranker(n_estimators=2).fit(x, y, group=[20] * 20)
    content = exported(ranker, tmp_path, "vespa")
    json.loads(content, parse_constant=lambda name: pytest.fail(name))
    found = INTERPRETERS["vespa"](content, x.astype(np.float32), ["f1"])
    np.testing.assert_array_equal(found, ranker.predict(x))


def test_an_export_goes_to_standard_output(tmp_path, capsys):
    lightgbm_model().save_model(tmp_path / "lgb.txt")
    code, out, err = run(capsys, "export -o - --format solr", tmp_path / "lgb.txt")
    assert (code, err) == (0, "")
    assert json.loads(out)["name"] == "model"


def test_commands_take_a_lightgbm_model(tmp_path, capsys):
    booster = lightgbm_model()
    model, data = tmp_path / "lgb.txt", tmp_path / "data.txt"
    booster.save_model(model)
    rows = [" ".join(f"{column}:{value}" for column, value in enumerate(x, 1)) for x in X]
    data.write_text(
        "".join(
            f"{y:g} qid:{i // 20} {row}\n" for i, (row, y) in enumerate(zip(rows, Y, strict=True))
        )
    )
    code, shown, _ = run(capsys, "model info", model)
    assert code == 0
    assert "10 trees of lightgbm" in shown
    assert "have their defaults" in shown
    assert json.loads(run(capsys, "model info --json", model)[1])["trees"] == 10
    assert run(capsys, "evaluate", data, "--model", model)[0] == 0
    assert run(capsys, "rank", data, "--model", model, "-o", tmp_path / "s.txt")[0] == 0
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s.txt"), booster.predict(X), atol=1e-6)
    assert "every score starts" in run(capsys, "explain --qid 3", model, data)[1]
    order = np.argsort(-booster.predict(X[60:80]))
    words = ("--above", order[0], "--below", order[-1])
    why = json.loads(run(capsys, "explain --qid 3 --json", model, data, *words)[1])
    assert abs(sum(why["differences"]) - (why["score_above"] - why["score_below"])) < 1e-6
    assert "difference" in run(capsys, "explain --qid 3", model, data, *words)[1]
    assert run(capsys, "explain --qid 999", model, data)[0] == 2
    assert run(capsys, "explain --qid 3 --above 1", model, data)[0] == 2
    assert (
        run(capsys, "train --trees 2", data, "--init-model", model, "-o", tmp_path / "more.taut")[0]
        == 0
    )
    assert tr.Ranker.load(tmp_path / "more.taut").n_trees_ == 12


def test_an_interrupted_training_keeps_its_trees(tmp_path, capsys):
    data, model = tmp_path / "data.txt", tmp_path / "model.taut"
    tr.data.write_letor(tr.RankingData.from_arrays(X, Y, group=GROUP), data)
    before = signal.getsignal(signal.SIGINT)

    def press_ctrl_c():
        while signal.getsignal(signal.SIGINT) is before:  # until training begins
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    press = threading.Thread(target=press_ctrl_c, daemon=True)
    press.start()
    code, _, errors = run(capsys, "train --trees 1000000 -j 1", data, "-o", model)
    press.join()
    assert code == 130
    assert "has the trees so far" in errors
    assert 0 < tr.Ranker.load(model).n_trees_ < 1_000_000
    assert signal.getsignal(signal.SIGINT) is before
