"""Names of features, arguments and the command."""

from __future__ import annotations

import json

import lightgbm
import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, OptionError
from tests.command_line import run
from tests.export.examples import (
    exported,
    float32_sum,
    lightgbm_ranker,
    named_ranker,
)
from tests.export.interpreters import (
    solr_scores,
    vespa_scores,
)


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
