"""PyTorch as an engine: networks for every loss."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.committee import SeveralModels
from tautrank.engines.torch import TorchModel, network
from tautrank.errors import DataError, OptionError
from tests.ranker_examples import TRAIN, VALID, ranker

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tautrank[torch]'")


def on_torch(loss: object = "lambdarank", **parameters: object) -> tr.Ranker:
    return ranker(loss, engine="torch", **{"hidden": (16,), "learning_rate": 0.5, "device": "cpu", **parameters})


@pytest.fixture(scope="module")
def fitted() -> tr.Ranker:
    return on_torch(n_estimators=15, early_stopping_rounds=5).fit(TRAIN, VALID)


@pytest.mark.parametrize("loss", ["lambdarank", "xendcg", "mse", "stochasticrank", "softrank"])
def test_a_network_learns(loss: str) -> None:
    chance = tr.metric("ndcg@10", ties="expected").mean(np.zeros(VALID.n_documents), VALID.labels, VALID.offsets)
    assert on_torch(loss, n_estimators=8).fit(TRAIN).score(VALID) > chance + 0.15


def test_the_best_epoch_is_kept(fitted: tr.Ranker) -> None:
    course = fitted.evals_result_["valid"]["ndcg@10"]
    assert fitted.best_iteration_ == int(np.argmax(course)) + 1
    assert fitted.score(VALID) == pytest.approx(max(course), abs=1e-6)


def test_the_same_seed_gives_the_same_bits_and_so_does_a_file(fitted: tr.Ranker, tmp_path) -> None:
    again = on_torch(n_estimators=15, early_stopping_rounds=5).fit(TRAIN, VALID)
    np.testing.assert_array_equal(again.predict(VALID), fitted.predict(VALID))
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(tr.Ranker.load(tmp_path / "model.taut").predict(VALID), fitted.predict(VALID))
    other = on_torch(n_estimators=15, early_stopping_rounds=5, random_state=1).fit(TRAIN, VALID)
    assert not np.array_equal(other.predict(VALID), fitted.predict(VALID))


def test_the_scores_are_those_of_the_formula() -> None:
    """Log transform, standardised, one linear layer: by hand."""
    net = network(2, ())
    x = np.array([[3.0, -1.0], [0.0, np.nan]], np.float32)
    weights = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    weights |= {"mean": np.array([0.5, 0.0], np.float32), "spread": np.array([2.0, 1.0], np.float32)}
    model = TorchModel(weights, ())
    z = (np.sign(x) * np.log1p(np.abs(x)) - weights["mean"]) / weights["spread"]
    expected = np.nan_to_num(z) @ weights["layers.0.weight"][0] + weights["layers.0.bias"][0]
    np.testing.assert_allclose(model.predict(x), expected, rtol=1e-5)


def test_missing_values_and_weights() -> None:
    X = TRAIN.X.copy()
    X[::5, 2] = np.nan
    weights = np.linspace(0, 1, TRAIN.n_queries)
    assert np.isfinite(
        on_torch(n_estimators=2).fit(X, TRAIN.labels, group=TRAIN.sizes, weights=weights).predict(X)
    ).all()


def test_a_network_and_trees_in_one_committee(fitted: tr.Ranker) -> None:
    trees = ranker("lambdarank").fit(TRAIN).model_
    total = SeveralModels([trees, fitted.model_], [1.0, 0.5])
    again = SeveralModels.from_bytes(total.to_bytes(), total.n_features)
    np.testing.assert_array_equal(again.predict(VALID.X), trees.predict(VALID.X) + 0.5 * fitted.model_.predict(VALID.X))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hiden": (3,)}, "unknown parameter of torch 'hiden'; did you mean 'hidden'"),
        ({"hidden": (0,)}, "hidden: found 0"),
        ({"dropout": 1.5}, "dropout"),
        ({"device": "tpu"}, "device"),
        ({"langevin": tr.Langevin()}, "langevin: a network has no use for it"),
        ({"categorical_feature": [0]}, "categorical_feature: a network has no use for it"),
    ],
)
def test_bad_parameters_are_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        on_torch(**given).fit(TRAIN)


def test_cuda_that_is_not_there_and_formats_of_trees_are_one_sentence(fitted: tr.Ranker, tmp_path) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="PyTorch sees no CUDA device"):
            on_torch(device="cuda").fit(TRAIN)
    with pytest.raises(OptionError, match="trained by torch, which can only be saved"):
        tr.export_model(fitted, tmp_path / "model.json", "vespa")
    with pytest.raises(DataError, match="weights of a network"):
        TorchModel.from_bytes(b"nothing", 3)
