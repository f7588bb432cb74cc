"""PyTorch as an engine: networks for every loss."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.torch import NetworkShape, TorchModel, network, self_attention
from tautrank.errors import DataError, OptionError
from tests.ranker_examples import TRAIN, VALID, ranker

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install 'tautrank[torch]'"
)


def on_torch(loss: object = "lambdarank", **parameters: object) -> tr.Ranker:
    return ranker(
        loss,
        engine="torch",
        **{"hidden": (16,), "learning_rate": 0.5, "device": "cpu", **parameters},
    )


@pytest.fixture(scope="module")
def fitted() -> tr.Ranker:
    return on_torch(n_estimators=15, early_stopping_rounds=5).fit(TRAIN, VALID)


@pytest.mark.parametrize("loss", ["lambdarank", "xendcg", "mse", "stochasticrank", "softrank"])
def test_a_network_learns(loss: str) -> None:
    chance = tr.metric("ndcg@10", ties="expected").mean(
        np.zeros(VALID.n_documents), VALID.labels, VALID.offsets
    )
    assert on_torch(loss, n_estimators=8).fit(TRAIN).score(VALID) > chance + 0.15


def test_the_best_epoch_is_kept(fitted: tr.Ranker) -> None:
    course = fitted.evals_result_["valid"]["ndcg@10"]
    assert fitted.best_iteration_ == int(np.argmax(course)) + 1
    assert fitted.score(VALID) == pytest.approx(max(course), abs=1e-6)


def test_the_same_seed_gives_the_same_bits_and_so_does_a_file(fitted: tr.Ranker, tmp_path) -> None:
    again = on_torch(n_estimators=15, early_stopping_rounds=5).fit(TRAIN, VALID)
    np.testing.assert_array_equal(again.predict(VALID), fitted.predict(VALID))
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(
        tr.Ranker.load(tmp_path / "model.taut").predict(VALID), fitted.predict(VALID)
    )
    other = on_torch(n_estimators=15, early_stopping_rounds=5, random_state=1).fit(TRAIN, VALID)
    assert not np.array_equal(other.predict(VALID), fitted.predict(VALID))


def test_the_scores_are_those_of_the_formula() -> None:
    """Log transform, standardised, one linear layer: by hand."""
    net = network(2, NetworkShape(hidden=()))
    x = np.array([[3.0, -1.0], [0.0, np.nan]], np.float32)
    weights = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    weights |= {
        "mean": np.array([0.5, 0.0], np.float32),
        "spread": np.array([2.0, 1.0], np.float32),
    }
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


@pytest.fixture(scope="module")
def attentive() -> tr.Ranker:
    return on_torch(n_estimators=6, attention=4).fit(TRAIN, VALID)


def test_attention_is_the_formula() -> None:
    """Softmax of the products of queries and keys, head by head and list by list: by hand, padding
    nowhere.
    """
    rng = np.random.default_rng(0)
    sizes, heads, units = np.array([3, 1, 4]), 2, 4
    mixed = rng.normal(size=(8, 3 * units))
    expected = np.empty((8, units))
    for start, stop in ((0, 3), (3, 4), (4, 8)):
        q, k, v = mixed[start:stop].reshape(-1, 3, heads, units // heads).transpose(1, 2, 0, 3)
        for head in range(heads):
            chances = np.exp(q[head] @ k[head].T / np.sqrt(units / heads))
            found = chances / chances.sum(1, keepdims=True) @ v[head]
            expected[start:stop, head * 2 : head * 2 + 2] = found
    found = self_attention(torch.tensor(mixed), torch.tensor(sizes), heads)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_attention_sees_the_list_and_only_the_list(attentive: tr.Ranker, tmp_path) -> None:
    scores = attentive.predict(VALID)
    assert attentive.score(VALID) > 0.6
    one = VALID.X[: VALID.offsets[1]]
    np.testing.assert_allclose(attentive.predict(one), scores[: len(one)], rtol=1e-4, atol=1e-5)
    assert abs(attentive.predict(one[:2])[0] - scores[0]) > 1e-4
    attentive.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(tr.Ranker.load(tmp_path / "model.taut").predict(VALID), scores)
    assert len({attentive.model_.to_bytes() for _ in range(8)}) == 1


@pytest.mark.parametrize("which", ["fitted", "attentive"])
def test_onnx_gives_the_scores(which: str, request: pytest.FixtureRequest, tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    trained = request.getfixturevalue(which)
    tr.export_model(trained, tmp_path / "model.onnx", "onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    X = VALID.X[: VALID.offsets[1]].astype(np.float32)
    X[0, 1] = np.nan
    scores = session.run(None, {"features": X})[0][:, 0]
    np.testing.assert_allclose(scores, trained.predict(X), rtol=1e-4, atol=1e-5)


def test_networks_and_trees_in_one_committee_by_name(tmp_path) -> None:
    small = "hidden=[8],epochs=3,device=cpu"
    committee = ranker(
        ["lambdarank", f"torch:xendcg({small})", f"torch:listnet({small},attention=2)"]
    )
    committee.fit(TRAIN, VALID)
    models = committee.model_.models
    assert [model.tool for model in models] == ["lightgbm", "torch", "torch"]
    expected = sum(
        factor * model.predict(VALID.X, offsets=VALID.offsets)
        for model, factor in zip(models, committee.model_.factors, strict=True)
    )
    np.testing.assert_array_equal(committee.predict(VALID), expected)
    committee.save(tmp_path / "model.taut")
    again = tr.Ranker.load(tmp_path / "model.taut")
    np.testing.assert_array_equal(again.predict(VALID), expected)
    assert "torch:xendcg(hidden=8/,epochs=3,device=cpu)" in str(again.loss)
    with pytest.raises(OptionError, match="unknown loss 'lamdarank'; did you mean 'lambdarank'"):
        ranker(["torch:lamdarank"]).fit(TRAIN)


def test_a_committee_of_networks() -> None:
    assert on_torch(["lambdarank", "xendcg"], n_estimators=4).fit(TRAIN, VALID).score(VALID) > 0.4


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"hiden": (3,)}, "unknown parameter of torch 'hiden'; did you mean 'hidden'"),
        ({"hidden": (0,)}, "hidden: found 0"),
        ({"dropout": 1.5}, "dropout"),
        (
            {"attention": 3},
            r"attention: found 3 heads with the hidden layers \(16,\); expected a divisor",
        ),
        ({"epochs": 0}, "epochs: found 0"),
        ({"device": "tpu"}, "device"),
        ({"langevin": tr.Langevin()}, "langevin: a network has no use for it"),
        ({"categorical_feature": [0]}, "categorical_feature: a network has no use for it"),
    ],
)
def test_bad_parameters_are_one_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        on_torch(**given).fit(TRAIN)


def test_propensities_are_refused() -> None:
    with pytest.raises(
        OptionError, match="propensities: a network has no use for it; expected none, or the engine"
    ):
        on_torch("xendcg").fit(TRAIN, propensities=np.ones(TRAIN.n_documents))


def test_cuda_that_is_not_there_and_formats_of_trees_are_one_sentence(
    fitted: tr.Ranker, tmp_path
) -> None:
    if not torch.cuda.is_available():
        with pytest.raises(OptionError, match="PyTorch sees no CUDA device"):
            on_torch(device="cuda").fit(TRAIN)
    with pytest.raises(OptionError, match=r"format: found 'vespa' for a network, .* expected onnx"):
        tr.export_model(fitted, tmp_path / "model.json", "vespa")
    assert not (tmp_path / "model.json").exists()
    with pytest.raises(DataError, match="weights of a network"):
        TorchModel.from_bytes(b"nothing", 3)
