"""The registry of engines: what a new engine takes, and what is said where one is missing or cannot
train a loss.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines import engine_for, read_loss
from tautrank.engines.packages import TOOLS, Tool
from tautrank.engines.registry import engine_named
from tautrank.experiments.space import parameters_of
from tautrank.ranker.estimator import Ranker
from tests.command_line import run
from tests.ranker_examples import TRAIN, VALID, ranker


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(TOOLS, "toy", Tool("tests.engines.toy_engine:Toy", "sklearn", "Toy"))


@pytest.mark.usefixtures("toy")
class TestAnEngineIsOneFileAndOneLine:
    def test_it_takes_fifty_statements(self):
        text = Path(__file__).with_name("toy_engine.py").read_text()
        n_statements = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
        assert n_statements <= 50

    def test_it_trains_is_judged_and_stops_early(self, tmp_path):
        settings = {
            "engine": "toy",
            "metric": "ndcg@5",
            "n_estimators": 40,
            "learning_rate": 0.5,
            "num_leaves": 7,
        }
        fitted = ranker("lambdarank", early_stopping_rounds=3, eval_train=True, **settings).fit(
            TRAIN, VALID
        )
        values = fitted.evals_result_["valid"]["ndcg@5"]
        assert (
            fitted.n_trees_
            == fitted.best_iteration_
            == int(np.argmax(values)) + 1
            == len(values) - 3
        )
        assert fitted.score(VALID) == fitted.best_score_ > 0.7
        fitted.save(tmp_path / "model.taut")
        np.testing.assert_array_equal(
            Ranker.load(tmp_path / "model.taut").predict(VALID), fitted.predict(VALID)
        )

    @pytest.mark.parametrize("langevin", [None, tr.Langevin(1e4, 0.5)], ids=str)
    def test_it_continues_and_shrinks_without_code_of_its_own(self, langevin):
        whole = ranker("mse", engine="toy", langevin=langevin).fit(TRAIN)
        half = ranker("mse", engine="toy", langevin=langevin, n_estimators=5).fit(TRAIN)
        rest = ranker("mse", engine="toy", langevin=langevin, n_estimators=7).fit(
            TRAIN, init_model=half
        )
        np.testing.assert_array_equal(rest.predict(VALID), whole.predict(VALID))
        assert (whole.model_.scale < 1) == (langevin is not None)

    def test_it_is_compared_and_tuned_in_its_own_words(self):
        few = {"losses": ["mse"], "metrics": ["ndcg@5"], "repeats": 1, "n_estimators": 3}
        toy, plain = (
            tr.compare(TRAIN, VALID, VALID, engine=name, **few).systems[0]
            for name in ("toy", "lightgbm")
        )
        assert not np.array_equal(toy.values["ndcg@5"], plain.values["ndcg@5"])
        tried = {"loss": "mse", "subsample": 0.5}
        assert parameters_of(tried, {"engine": "toy"}) == {**tried, "engine": "toy"}
        assert parameters_of(tried, {}) == {**tried, "subsample_freq": 1}

    def test_it_cannot_be_exported_without_trees(self, tmp_path):
        fitted = ranker("mse", engine="toy", n_estimators=2).fit(TRAIN)
        with pytest.raises(
            tr.OptionError, match="format: found a model trained by toy, which can only be saved"
        ):
            tr.export_model(fitted, tmp_path / "m.json", "solr")


def test_engines_are_imported_when_asked_for():
    code = "import sys, json, tautrank.engines; print(json.dumps(sorted(sys.modules)))"
    loaded = set(
        json.loads(
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        )
    )
    assert not {tool.engine.partition(":")[0] for tool in TOOLS.values()} & loaded
    assert not set(TOOLS) & loaded


@pytest.mark.parametrize("name", list(TOOLS))
def test_every_engine_says_who_it_is(name):
    engine = engine_named(name)
    assert engine.name == engine.model_class.tool == name
    for objective in engine.objectives:
        loss = read_loss(f"{name}:{objective.lower()}")
        assert str(loss) == f"{name}:{objective}"
        assert engine_for("lightgbm", loss).name == name


def test_an_engine_that_does_not_take_losses():
    with pytest.raises(tr.OptionError) as caught:
        ranker("xendcg", engine="catboost").fit(TRAIN)
    assert str(caught.value) == (
        "engine: found catboost for the loss xendcg, but CatBoost trains only its own objectives here; expected "
        "lightgbm, xgboost, torch, or a loss such as 'catboost:YetiRank'"
    )


@pytest.fixture
def text(tmp_path):
    tr.data.write_letor(VALID, tmp_path / "data.txt")
    return tmp_path / "data.txt"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    "command",
    [
        ["train", "-o", "toy.taut"],
        ["compare", "--test", "data.txt", "--losses", "mse", "--repeats", 1, "--json"],
        ["tune", "--valid", "data.txt", "--loss", "mse", "--trials", 1, "-o", "toy.taut"],
    ],
    ids=lambda command: command[0],
)
def test_the_commands_take_an_engine(command, text, capsys, monkeypatch):
    if command[0] == "tune":
        pytest.importorskip("optuna")
    monkeypatch.chdir(text.parent)
    code, out, err = run(
        capsys, command[0], "data.txt", *command[1:], "--engine", "toy", "--trees", 3, "--jobs", 1
    )
    assert (code, "error" in err) == (0, False), err
    if command[0] == "compare":
        assert any(b"toy" in file.read_bytes() for file in text.parent.rglob("*") if file.is_file())
    else:
        assert Ranker.load("toy.taut").model_.tool == "toy"
    assert ("--engine toy" in out) == (command[0] == "tune"), (
        "the command that trains the best model again"
    )


def test_an_engine_that_cannot_be_used_is_said_before_the_data_is_read(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    for engine, loss, sentence in (
        ("lightbgm", "mse", "unknown engine 'lightbgm'; did you mean 'lightgbm'?"),
        (
            "catboost",
            "mse",
            "engine: found catboost for the loss mse, but CatBoost trains only its own objectives here",
        ),
        ("xgboost", "mse", "engine 'xgboost' needs XGBoost; install it with: pip install"),
        (
            "lightgbm",
            "xgboost:rank:ndcg",
            "engine 'xgboost' needs XGBoost; install it with: pip install",
        ),
    ):
        code, out, err = run(
            capsys, "train", "absent.txt", "-o", "m.taut", "--engine", engine, "--loss", loss
        )
        assert (code, out) == (2, "")
        assert err.startswith(f"error: {sentence}")
