"""The model file: whole or not at all, the same bits back, and a sentence for every way a file can
be wrong.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tautrank as tr
from tautrank.engines.lightgbm import LightGBMModel
from tautrank.ranker import model_archive
from tautrank.ranker.estimator import Ranker
from tests.ranker_examples import ranker as quick_ranker

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
Y = np.clip(np.round(X[:, 0] + 0.5 * RNG.normal(size=600)), 0, 4)
DATA = tr.RankingData.from_arrays(X, Y, group=[15] * 40)


ranker = partial(quick_ranker, n_estimators=6, num_leaves=7)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.taut"
    ranker(metric="ndcg@5", eval_train=True).fit(DATA, DATA).save(path)
    return path


def rewritten(source: Path, target: Path, change=lambda meta: None, **members):
    """The same archive with its description changed by a function; or with other members, None for
    none.
    """
    with zipfile.ZipFile(source) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(content["meta.json"])
    if members.get("trees") is not None:
        meta["model"]["sha256"] = hashlib.sha256(members["trees"]).hexdigest()
    change(meta)
    content["meta.json"] = members.get("meta", json.dumps(meta).encode())
    content["model.txt"] = members.get("trees", content["model.txt"])
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (name for name in content if content[name] is not None):
            archive.writestr(name, content[name])
    return target


def test_everything_comes_back(tmp_path):
    loss = tr.losses.NDCGLoss2PP(k=5)
    more = {
        "min_data_in_leaf": 3,
        "categorical_feature": ("d",),
        "langevin": tr.Langevin(1e5, 0.1),
        "eval_train": True,
    }
    fitted = ranker(loss, metric=tr.metric("err@5"), **more)
    frame = pd.DataFrame(
        np.column_stack([X[:, :3], np.abs(X[:, 3]).round()]), columns=["a", "ü {", "c,\n", "d"]
    )
    fitted.fit(frame, Y, group=[15] * 40, eval_set=(frame, Y, np.repeat(np.arange(40), 15)))
    fitted.save(tmp_path / "model.taut")
    loaded = Ranker.load(tmp_path / "model.taut")
    np.testing.assert_array_equal(loaded.predict(frame), fitted.predict(frame))
    expected = fitted.get_params()
    expected |= {"loss": "ndcg-loss2++(k=5)", "metric": "err@5", "categorical_feature": ["d"]}
    assert loaded.get_params() == expected
    for name in ("evals_result_", "best_iteration_", "best_score_", "n_trees_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(fitted, name)
    assert loaded.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(loaded.feature_importances_, fitted.feature_importances_)
    assert loaded.score(frame, Y, group=[15] * 40) == fitted.score(frame, Y, group=[15] * 40)
    np.testing.assert_array_equal(
        loaded.fit(frame, Y, group=[15] * 40).predict(frame), fitted.predict(frame)
    )


def test_the_same_model_gives_the_same_bytes(saved, tmp_path):
    Ranker.load(saved).save(tmp_path / "again.taut")
    assert (tmp_path / "again.taut").read_bytes() == saved.read_bytes()
    ranker(metric="ndcg@5", eval_train=True).fit(DATA, DATA).save(tmp_path / "other.taut")
    assert (tmp_path / "other.taut").read_bytes() == saved.read_bytes()


def test_the_file_is_json_and_the_engines_text(saved):
    with zipfile.ZipFile(saved) as archive:
        assert archive.namelist() == ["meta.json", "model.txt"]
        meta = json.loads(archive.read("meta.json"))
        assert archive.read("model.txt").startswith(b"tree\n")
    assert meta["format_version"] == 1
    assert meta["tautrank_version"] == tr.__version__
    assert (meta["engine"], meta["loss"], meta["metric"]) == ("lightgbm", "lambdarank", "ndcg@5")
    assert len(meta["training"]["history"]["valid"]["ndcg@5"]) == 6


def test_lightgbm_itself_reads_the_trees(saved):
    import lightgbm

    with zipfile.ZipFile(saved) as archive:
        booster = lightgbm.Booster(model_str=archive.read("model.txt").decode())
    np.testing.assert_array_equal(
        booster.predict(X.astype(np.float32)), Ranker.load(saved).predict(X)
    )


def test_values_that_are_skipped_survive(tmp_path):
    fitted = ranker().fit(DATA.X, DATA.labels, group=DATA.sizes, eval_set=(X, Y * 0, np.zeros(600)))
    fitted.save(tmp_path / "model.taut")
    assert np.isnan(Ranker.load(tmp_path / "model.taut").evals_result_["valid"]["ndcg@10"]).all()


def test_a_drawn_seed_is_kept(tmp_path):
    fitted = ranker("xendcg", random_state=np.random.default_rng(0)).fit(DATA)
    fitted.save(tmp_path / "model.taut")
    loaded = Ranker.load(tmp_path / "model.taut")
    np.testing.assert_array_equal(loaded.fit(DATA).predict(X), fitted.predict(X))


def test_a_loss_that_is_no_longer_known_still_predicts(saved, tmp_path):
    renamed = rewritten(
        saved, tmp_path / "m", lambda meta: meta["parameters"].update(loss="my-own-loss(k=3)")
    )
    loaded = Ranker.load(renamed)
    np.testing.assert_array_equal(loaded.predict(X), Ranker.load(saved).predict(X))
    with pytest.raises(tr.OptionError, match="unknown loss 'my-own-loss'"):
        loaded.fit(DATA)


def test_a_parameter_that_no_file_can_hold(tmp_path):
    fitted = ranker().fit(DATA).set_params(monotone_constraints=object())
    with pytest.raises(tr.OptionError, match="monotone_constraints: found <object object"):
        fitted.save(tmp_path / "model.taut")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path = tmp_path / "model.taut"
    path.write_bytes(b"old")

    def broken(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", broken)
    with pytest.raises(OSError, match="No space left"):
        Ranker.load(saved).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.taut"]
    assert path.read_bytes() == b"old"


def test_a_folder_that_is_not_there(saved, tmp_path):
    with pytest.raises(
        tr.DataError, match=r"nowhere/model\.taut: cannot be written \(No such file or directory\)"
    ):
        Ranker.load(saved).save(tmp_path / "nowhere" / "model.taut")


def fails(path, sentence):
    with pytest.raises(tr.DataError) as caught:
        Ranker.load(path)
    assert str(caught.value) == f"{path}: {sentence}"


def test_no_such_file(tmp_path):
    fails(
        tmp_path / "none.taut",
        "cannot be read (No such file or directory); expected a model saved by tautrank",
    )
    fails(tmp_path, "cannot be read (Is a directory); expected a model saved by tautrank")


def test_every_truncation_is_noticed(saved, tmp_path):
    content = saved.read_bytes()
    path = tmp_path / "cut.taut"
    path.write_bytes(b"")
    fails(path, "is empty; expected a model saved by tautrank")
    for size in {1, 3, 4, 30, 100, len(content) // 2, len(content) - 22, len(content) - 1}:
        path.write_bytes(content[:size])
        fails(path, "is cut off or damaged at its end; expected a whole model file")


@pytest.mark.parametrize(
    "content",
    [b"1 qid:1 1:0.5\n", b"{}", pickle.dumps({"a": 1}), b"\x00" * 100],
    ids=["letor", "json", "pickle", "zeros"],
)
def test_foreign_content(content, tmp_path):
    path = tmp_path / "foreign.taut"
    path.write_bytes(content)
    start = content[:4]
    fails(
        path,
        f"is not a tautrank model (it starts with {start!r}); expected a file written by Ranker.save",
    )


def test_foreign_archives(saved, tmp_path):
    path = tmp_path / "foreign.taut"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("document.xml", "<a/>")
    sentence = "is not a tautrank model ({}); expected a file written by Ranker.save"
    fails(path, sentence.format("a zip archive without meta.json"))
    for text in ("[]", '{"format": "else"}', "3", "null"):
        rewritten(saved, path, meta=text.encode())
        fails(path, sentence.format("meta.json does not say so"))
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000):
        rewritten(saved, path, meta=content)
        fails(path, "meta.json is not JSON; expected a file written by Ranker.save")


def test_damage_is_noticed_wherever_it_is(saved, tmp_path):
    content = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
    for name, entry in entries.items():
        damaged = content.copy()
        start = entry.header_offset + 30 + len(name)
        for at in range(start + entry.compress_size // 2, start + entry.compress_size // 2 + 3):
            damaged[at] ^= 0xFF
        path = tmp_path / "damaged.taut"
        path.write_bytes(damaged)
        fails(path, f"'{name}' is damaged (it fails its checksum); expected a whole model file")


def test_any_flipped_byte_gives_the_same_model_or_a_sentence(saved, tmp_path):
    """Dates and the like do not matter to the model; nothing else may pass unnoticed, or escape as
    another error.
    """
    content = saved.read_bytes()
    expected = Ranker.load(saved).predict(X)
    path = tmp_path / "flipped.taut"
    for at in np.random.default_rng(0).choice(len(content), 60, replace=False):
        damaged = bytearray(content)
        damaged[at] ^= 1 << int(at) % 8
        path.write_bytes(damaged)
        try:
            scores = Ranker.load(path).predict(X)
        except tr.DataError as error:
            sentence = str(error)
        else:
            sentence = str(path)
            np.testing.assert_array_equal(scores, expected)
        assert sentence.startswith(str(path))


def test_a_newer_format(saved, tmp_path):
    path = tmp_path / "model.taut"
    rewritten(saved, path, lambda meta: meta.update(format_version=5, tautrank_version="9.1.0"))
    fails(
        path,
        "has the format version 5, written by tautrank 9.1.0; expected at most 4 (pip install --upgrade tautrank)",
    )
    for version in ("1", None, True, 0, -3, 1.5):
        rewritten(saved, path, lambda meta, version=version: meta.update(format_version=version))
        fails(path, f"has the format version {version!r}; expected 4")


def test_missing_exchanged_and_unreadable_trees(saved, tmp_path):
    path = tmp_path / "model.taut"
    with zipfile.ZipFile(saved) as archive:
        text = archive.read("model.txt")
    fails(rewritten(saved, path, trees=None), "has no member 'model.txt'; expected the trees there")
    fails(
        rewritten(saved, path, lambda meta: meta["model"].update(sha256="0"), trees=b"tree\n"),
        "'model.txt' is not what meta.json describes; expected the trees it was saved with",
    )
    fails(
        rewritten(saved, path, lambda meta: meta.pop("model")),
        "meta.json does not say where the trees are; expected a file written by Ranker.save",
    )
    for trees in (b"garbage", text[: len(text) // 2]):
        fails(
            rewritten(saved, path, trees=trees), "found something else than a LightGBM model text"
        )
    fails(
        rewritten(saved, path, lambda meta: meta.update(n_features=5)),
        "found LightGBM's model of 4 features; expected 5",
    )
    for tool, written in (("xgboost", "XGBoost"), ("catboost", "CatBoost")):
        pytest.importorskip(tool)
        rewritten(saved, path, lambda meta, tool=tool: meta.update(engine=tool))
        fails(path, f"{written} cannot read the model; expected the trees as {tool} saves them")
    rewritten(saved, path, lambda meta: meta.update(engine="os.system"))
    fails(path, "unknown engine 'os.system' (known: catboost, lightgbm, torch, xgboost)")


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.pop("training"),
        lambda meta: meta.pop("engine"),
        lambda meta: meta.update(engine=3),
        lambda meta: meta.update(parameters=[1]),
        lambda meta: meta.update(n_features="4"),
        lambda meta: meta.update(n_features=-4),
        lambda meta: meta.update(feature_names=["a"]),
        lambda meta: meta.update(feature_names=[1, 2, 3, 4]),
        lambda meta: meta.update(training=[]),
        lambda meta: meta["training"].update(history=[]),
        lambda meta: meta["training"].update(history={"valid": {"a": ["x"]}}),
        lambda meta: meta["training"].update(steps=None),
        lambda meta: meta["training"].update(steps=1.5),
        lambda meta: meta["training"].update(best_score={}),
        lambda meta: meta["training"].update(scale=0.0),
        lambda meta: meta["training"].update(scale=1.5),
        lambda meta: meta["training"].update(scale="half"),
        lambda meta: meta["parameters"].update(langevin={"temperature": 1e3}),
        lambda meta: meta["parameters"].update(self=1),
        lambda meta: meta["parameters"].update(langevin=[1, 2]),
        lambda meta: meta["parameters"].update(langevin="os.system"),
        lambda meta: meta["parameters"].update(list_features={"columns": "all"}),
        lambda meta: meta.update(list_features={"columns": "all"}),
        lambda meta: meta.update(list_features={"columns": [4]}),
        lambda meta: meta.update(list_features={"columns": [0], "os": "system"}),
    ],
)
def test_a_description_that_does_not_fit(saved, tmp_path, change):
    fails(
        rewritten(saved, tmp_path / "model.taut", change),
        "meta.json lacks what describes a model; expected a file written by Ranker.save",
    )


def test_a_langevin_that_cannot_be(saved, tmp_path):
    for given, sentence in (
        ({"temperature": 0, "shrink_rate": 1}, "temperature: found 0; expected a number above 0"),
        (
            {"temperature": 1, "shrink_rate": "x"},
            "shrink_rate: found 'x'; expected a number of at least 0",
        ),
    ):
        path = rewritten(
            saved,
            tmp_path / "m",
            lambda meta, given=given: meta["parameters"].update(langevin=given),
        )
        fails(path, sentence)


LANGEVIN = tr.Langevin(1e4, 0.5)


def test_files_of_version_0_1_0_still_load(tmp_path):
    """It wrote the shrunk leaves themselves, and beside them what their rounding lost."""
    fitted = ranker("mse", langevin=LANGEVIN).fit(DATA)
    folded = fitted.model_.booster.predict(X.astype(np.float32), raw_score=True)
    fitted.model_ = LightGBMModel(fitted.model_.booster)
    fitted.save(tmp_path / "new.taut")

    def as_it_was(meta):
        del meta["training"]["scale"]
        meta["training"]["shrunk"] = {"factor": 0.95, "since": 0, "lost": "0" * 42}

    loaded = Ranker.load(rewritten(tmp_path / "new.taut", tmp_path / "old.taut", as_it_was))
    np.testing.assert_array_equal(loaded.predict(X), folded)
    more = ranker("mse", langevin=LANGEVIN).fit(DATA, init_model=loaded)
    whole = ranker("mse", langevin=LANGEVIN, n_estimators=12).fit(DATA)
    np.testing.assert_allclose(more.predict(X), whole.predict(X), rtol=1e-9, atol=1e-15)


def test_version_0_1_0_refuses_a_file_with_a_scale(saved, tmp_path):
    """It would predict without the scale. Files without one stay readable."""
    ranker(langevin=LANGEVIN).fit(DATA).save(tmp_path / "scaled.taut")
    for path, version in ((saved, 1), (tmp_path / "scaled.taut", 2)):
        with zipfile.ZipFile(path) as archive:
            assert json.loads(archive.read("meta.json"))["format_version"] == version


def test_parameters_from_a_file_are_only_kept(saved, tmp_path):
    strange = {"__class__": "os.system", "predict": "x", "_record": 1, "self_": 2}
    loaded = Ranker.load(
        rewritten(saved, tmp_path / "m", lambda meta: meta["parameters"].update(strange))
    )
    assert type(loaded) is Ranker
    np.testing.assert_array_equal(loaded.predict(X), Ranker.load(saved).predict(X))


def test_archives_that_would_fill_the_memory_are_refused(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(model_archive, "_SIZE_NEVER_REFUSED", 20_000)
    path = tmp_path / "bomb.taut"
    rewritten(saved, path, meta=b" " * 1_000_000)
    fails(path, "'meta.json' would take 1,000,000 bytes; expected at most 20,000")
    rewritten(saved, path, trees=b" " * 10_000_000)
    with pytest.raises(
        tr.DataError, match=r"'model\.txt' would take 10,000,000 bytes; expected at most"
    ):
        Ranker.load(path)
    # The list of members says 10 bytes; the data say otherwise.
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", b" " * 1_000_000)
    path.write_bytes(
        raw.getvalue().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    with pytest.raises(tr.DataError):
        Ranker.load(path)


def test_nothing_is_unpacked_and_nothing_runs(saved, tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("loading must not do this")

    monkeypatch.setattr(pickle, "loads", forbidden)
    monkeypatch.setattr(pickle, "Unpickler", forbidden)
    monkeypatch.setattr(zipfile.ZipFile, "extract", forbidden)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", forbidden)
    monkeypatch.setattr("builtins.eval", forbidden)
    monkeypatch.setattr("builtins.exec", forbidden)
    Ranker.load(saved)
    room = Path(model_archive.__file__).parent
    source = "".join(file.read_text() for file in room.glob("*.py"))
    assert not re.search(
        r"\b(import pickle|from pickle|eval\(|exec\(|__import__|import_module|import joblib)",
        source,
    )
