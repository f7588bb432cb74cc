"""Langevin boosting: the noise on the gradients, and the model that shrinks by its scale."""

from __future__ import annotations

import math

import lightgbm
import numpy as np
import pytest
from scipy import stats

import tautrank as tr
from tautrank.engines import Settings, Task
from tautrank.engines.boosting import Gradients
from tautrank.engines.langevin import with_noise
from tautrank.experiments.plan import System
from tautrank.ranker.estimator import Ranker
from tests.command_line import run
from tests.ranker_examples import TRAIN, VALID, ranker, synthetic

STRONG = tr.Langevin(temperature=1e4, shrink_rate=0.5)
SILENT = 1e300  # a temperature whose noise no gradient feels
LOSSES = ("mse", "lambdarank", "ndcg-loss2++(k=5)", "xendcg", "listnet", "lambdarank(noise=gumbel)")


# The noise.


def noise(offsets, step=0, seed=0, threads=1, temperature=1e3, learning_rate=0.1):
    deviation, zeros = tr.Langevin(temperature).deviation(learning_rate), np.zeros(offsets[-1], np.float32)
    return with_noise(zeros, np.asarray(offsets), deviation, seed, step, threads).astype(np.float64)


@pytest.mark.parametrize(("temperature", "learning_rate"), [(1e3, 0.1), (1e8, 0.05), (0.5, 1.0)])
def test_noise_is_normal_with_variance_two_by_rate_and_temperature(temperature, learning_rate):
    n = 200_000
    drawn = noise(np.arange(0, n + 1, 100), temperature=temperature, learning_rate=learning_rate)
    variance = 2 / (learning_rate * temperature)
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / n)
    assert abs(drawn.var() / variance - 1) < 5 * math.sqrt(2 / n)
    assert stats.kstest(drawn / math.sqrt(variance), "norm").pvalue > 1e-3


def test_noise_of_other_steps_seeds_queries_and_documents_is_independent():
    n = 100_000
    offsets = np.arange(0, n + 1, 50)
    base = noise(offsets)
    neighbours = [noise(offsets, step=1), noise(offsets, seed=1), np.roll(base, 50), np.roll(base, 1), np.roll(base, 2)]
    for other in neighbours:
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / math.sqrt(n)
        assert abs(np.corrcoef(base**2, other**2)[0, 1]) < 5 / math.sqrt(n)


def test_noise_is_that_of_its_query_and_its_place_alone():
    both, alone = noise([0, 7, 12]), noise([0, 7])
    np.testing.assert_array_equal(both[:7], alone)
    np.testing.assert_array_equal(both[7:], noise([0, 1, 6])[1:])
    np.testing.assert_array_equal(noise([0, 7], step=2**32 - 1, seed=2**31 - 1).shape, (7,))
    offsets = np.cumsum([0, *np.random.default_rng(0).integers(1, 400, 1000)])
    np.testing.assert_array_equal(noise(offsets, threads=1), noise(offsets, threads=2))


def test_noise_differs_from_the_noise_inside_losses():
    from tautrank.kernels.randomness import RANKING_STREAM, fill_normal

    other = np.empty(50)
    fill_normal(other, np.uint64(0), 0, 0, RANKING_STREAM)
    assert not np.isclose(noise([0, 50]) / math.sqrt(2 / 100), other).any()


def gradients_of(data, langevin, loss="lambdarank", step=0, **settings):
    task = Task(data, tr.loss(loss), tr.metric("ndcg@10"))
    take = Gradients(task, Settings(n_jobs=1, langevin=langevin, **settings))
    grad, hess = take(np.zeros(data.n_documents), step)
    return grad.astype(np.float64), hess.astype(np.float64)


def test_every_document_gets_noise_also_where_the_gradient_is_nothing():
    labels = np.where(np.arange(20_000) < 10_000, 0, np.arange(20_000) % 3)  # the first half has no relevant document
    data = tr.RankingData.from_arrays(np.zeros((20_000, 1)), labels, group=[20] * 1000)
    plain, plain_hess = gradients_of(data, None)
    noisy, noisy_hess = gradients_of(data, tr.Langevin(1e3), learning_rate=0.2)
    np.testing.assert_array_equal(noisy_hess, plain_hess)
    assert not plain[:10_000].any()
    for half in (slice(None, 10_000), slice(10_000, None)):
        added = (noisy - plain)[half]
        assert (added != 0).all()
        assert abs(added.var() / (2 / (0.2 * 1e3)) - 1) < 5 * math.sqrt(2 / 10_000)


def test_sums_of_noisy_gradients_do_not_depend_on_their_order():
    grad, _ = gradients_of(synthetic(queries=500), tr.Langevin(1e3))
    rng = np.random.default_rng(0)
    assert len({float(np.cumsum(grad[rng.permutation(grad.size)])[-1]) for _ in range(5)}) == 1


# The shrinking model.


@pytest.mark.parametrize(("shrink_rate", "trees"), [(0.0, 50), (1e-3, 50), (1.0, 50), (5.0, 800)])
def test_two_kinds_of_documents_follow_the_closed_form(shrink_rate, trees):
    """Each tree fits the mean residual of each kind: ``F <- s F + r (y - F)``, a geometric series."""
    rate = 0.1
    data = tr.RankingData.from_arrays([[0.0], [1.0]] * 20, [1, 3] * 20, group=[2] * 20)
    langevin = tr.Langevin(SILENT, shrink_rate)
    fitted = ranker("mse", n_estimators=trees, learning_rate=rate, num_leaves=2, langevin=langevin, max_bin=3).fit(data)
    ratio = 1 - rate * shrink_rate - rate
    expected = rate * np.array([1.0, 3.0]) * (1 - ratio**trees) / (1 - ratio)
    np.testing.assert_allclose(fitted.predict([[0.0], [1.0]]), expected, rtol=1e-5)
    assert fitted.n_trees_ == trees


def simulated(loss, langevin, trees, rate=0.1, **more):
    """F by definition: one tree at a time, each of a LightGBM that knows of no other tree."""
    task = Task(TRAIN, tr.loss(loss), tr.metric("ndcg@10"))
    gradients = Gradients(task, Settings(n_jobs=1, langevin=langevin, learning_rate=rate))
    train, valid = np.zeros(TRAIN.n_documents), np.zeros(VALID.n_documents)
    params = {"learning_rate": rate, "num_leaves": 15, "num_threads": 1, "verbosity": -1, "feature_pre_filter": False}
    for step in range(trees):
        scores = train.copy()
        tree = lightgbm.train(
            {**params, "objective": lambda _, __, s=scores, t=step: gradients(s, t), **more},
            lightgbm.Dataset(TRAIN.X, label=TRAIN.labels, params=params),
            num_boost_round=1,
        )
        train = (1 - rate * langevin.shrink_rate) * train + tree.predict(TRAIN.X)
        valid = (1 - rate * langevin.shrink_rate) * valid + tree.predict(VALID.X)
    return valid


@pytest.mark.parametrize("loss", ["mse", "lambdarank", "xendcg"])
@pytest.mark.parametrize("langevin", [STRONG, tr.Langevin(1e2, 0.01), tr.Langevin(1e3, 9.9)], ids=str)
def test_the_model_is_what_shrinking_by_hand_gives(loss, langevin):
    fitted = ranker(loss, langevin=langevin).fit(TRAIN)
    np.testing.assert_allclose(fitted.predict(VALID), simulated(loss, langevin, 12), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_and_shrinking_it_is_the_plain_fit(loss):
    plain = ranker(loss).fit(TRAIN, VALID)
    quiet = ranker(loss, langevin=tr.Langevin(temperature=SILENT, shrink_rate=0)).fit(TRAIN, VALID)
    np.testing.assert_array_equal(quiet.predict(VALID), plain.predict(VALID))
    assert quiet.evals_result_ == plain.evals_result_
    assert quiet.model_.to_text() == plain.model_.to_text()
    noisy = ranker(loss, langevin=tr.Langevin(temperature=1e4, shrink_rate=0)).fit(TRAIN)
    assert not np.array_equal(noisy.predict(VALID), plain.predict(VALID))
    assert noisy.score(VALID) > plain.score(VALID) - 0.1


# Going on, and files.


def test_the_start_shrinks_whatever_it_was_trained_with():
    plain = ranker("mse", n_estimators=6).fit(TRAIN)
    other = ranker("mse", n_estimators=6, langevin=tr.Langevin(SILENT, 0.3)).fit(TRAIN)
    for start in (plain, other):
        # Steps that are too small to matter leave the shrinking alone to be seen.
        more = ranker("mse", n_estimators=4, learning_rate=1e-9, langevin=tr.Langevin(1e20, 5e8))
        more.fit(TRAIN, init_model=start)
        np.testing.assert_allclose(more.predict(VALID), start.predict(VALID) / 16, atol=1e-7)
    on = ranker("mse", n_estimators=4).fit(TRAIN, init_model=other)
    assert (on.n_trees_, on.model_.scale) == (10, other.model_.scale), "without shrinkage the scale stays"
    plain_steps = ranker("mse", n_estimators=4, learning_rate=1e-9).fit(TRAIN, init_model=other)
    np.testing.assert_allclose(plain_steps.predict(VALID), other.predict(VALID), atol=1e-7)


def test_a_tools_own_objective_continues_the_shrunk_model():
    start = ranker("mse", n_estimators=6, langevin=STRONG).fit(TRAIN)
    more = ranker("lightgbm:regression", n_estimators=4, learning_rate=1e-9).fit(TRAIN, init_model=start)
    assert (more.n_trees_, more.model_.scale) == (10, 1.0)
    np.testing.assert_allclose(more.predict(VALID), start.predict(VALID), atol=1e-7)


def test_a_plain_start_and_two_shrinking_parts_are_one_go():
    start = ranker("mse", n_estimators=3).fit(TRAIN)
    once = ranker("mse", n_estimators=9, langevin=STRONG).fit(TRAIN, init_model=start)
    first = ranker("mse", n_estimators=4, langevin=STRONG).fit(TRAIN, init_model=start)
    second = ranker("mse", n_estimators=5, langevin=STRONG).fit(TRAIN, init_model=first)
    np.testing.assert_array_equal(second.predict(VALID), once.predict(VALID))


def test_lightgbms_own_text_is_the_shrunk_model():
    fitted = ranker(langevin=STRONG).fit(TRAIN)
    assert 0 < fitted.model_.scale < 1
    own = lightgbm.Booster(model_str=fitted.model_.to_text())
    np.testing.assert_array_equal(own.predict(VALID.X), fitted.model_.booster.predict(VALID.X))
    np.testing.assert_allclose(own.predict(VALID.X), fitted.predict(VALID), rtol=1e-13, atol=1e-15)
    sums = sum(tree.leaf.sum() for tree in fitted.model_.trees())
    unscaled = sum(own.get_leaf_output(t, leaf) for t in range(12) for leaf in range(15))
    assert sums == pytest.approx(unscaled, rel=1e-12)
    trees = own.dump_model()["tree_info"]
    expected = 0.1 * 0.95 ** np.arange(11, -1, -1)
    np.testing.assert_allclose([tree["shrinkage"] for tree in trees], expected, rtol=1e-5)
    assert "[learning_rate: 0.1]" in fitted.model_.to_text()
    contributions = own.predict(VALID.X, pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), fitted.predict(VALID), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "more",
    [
        {"linear_tree": True},
        {"categorical_feature": [5]},
        {"data_sample_strategy": "goss"},
        {"bagging_fraction": 0.5, "bagging_freq": 3},
        {"boosting": "gbdt"},
    ],
    ids=str,
)
def test_other_kinds_of_trees_shrink_as_well(more, tmp_path):
    X = np.column_stack([TRAIN.X[:, :5], np.arange(TRAIN.n_documents) % 7])
    data = tr.RankingData.from_arrays(X, TRAIN.labels, group=TRAIN.sizes)
    fitted = ranker(langevin=tr.Langevin(1e6, 5.0), n_estimators=200, num_leaves=4, **more).fit(data, data)
    assert fitted.score(data) == pytest.approx(fitted.evals_result_["valid"]["ndcg@10"][-1], abs=1e-12)
    assert fitted.score(data) > 0.7
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(Ranker.load(tmp_path / "model.taut").predict(data), fitted.predict(data))
    booster = fitted.model_.booster
    np.testing.assert_allclose(booster.predict(data.X, raw_score=True), fitted.predict(data), rtol=1e-9, atol=1e-12)


def test_steps_without_a_tree_shrink_the_model_too():
    start = ranker("mse", n_estimators=5).fit(TRAIN)
    stuck = ranker("mse", n_estimators=4, min_data_in_leaf=2000, learning_rate=0.5, langevin=tr.Langevin(1e8, 1.0))
    after = stuck.fit(TRAIN, init_model=start)
    assert after.n_trees_ == 5
    np.testing.assert_allclose(after.predict(VALID), start.predict(VALID) / 16, rtol=1e-12)


# What is refused, and with which words.


@pytest.mark.parametrize("value", [-1e-9, -1, math.nan, math.inf, "hot", None, True])
def test_wrong_temperatures_and_shrink_rates(value):
    with pytest.raises(tr.OptionError, match=r"temperature: found .*; expected a number above 0"):
        tr.Langevin(temperature=value)
    with pytest.raises(tr.OptionError, match=r"shrink_rate: found .*; expected a number of at least 0"):
        tr.Langevin(shrink_rate=value)
    with pytest.raises(tr.OptionError, match=r"temperature: found 0; expected a number above 0"):
        tr.Langevin(temperature=0)


@pytest.mark.parametrize(
    "given", [tr.Langevin(), tr.Langevin(1e3, 0), tr.Langevin(1 / 3, 1e-7), tr.Langevin(123456789)]
)
def test_it_prints_as_typed(given):
    assert eval(repr(given), {"Langevin": tr.Langevin}) == given
    assert str(tr.Langevin(1e3, 1e-3)) == "Langevin(temperature=1000, shrink_rate=0.001)"
    assert {given: 1}[tr.Langevin(given.temperature, given.shrink_rate)] == 1
    with pytest.raises(AttributeError):
        given.temperature = 1.0


# The tools around it.


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--langevin-temperature", "1e3"], tr.Langevin(temperature=1e3)),
        (["--langevin-shrink-rate", "0.1"], tr.Langevin(shrink_rate=0.1)),
    ],
)
def test_command_line(options, expected, tmp_path, capsys):
    tr.write_letor(VALID, tmp_path / "train.txt")
    code, _, err = run(capsys, "train", tmp_path / "train.txt", "-o", tmp_path / "m.taut", "--trees", 3, *options)
    assert (code, err) == (0, "")
    assert Ranker.load(tmp_path / "m.taut").langevin == expected
    code, _, err = run(capsys, "train", "nowhere.txt", "-o", tmp_path / "m.taut", options[0], -1)
    assert code == 2
    assert err.startswith(f"error: {options[0].removeprefix('--langevin-').replace('-', '_')}: found -1.0; expected")


def test_comparisons_train_with_it_and_keep_results_apart(tmp_path):
    few = {"metrics": ["ndcg@5"], "repeats": 1, "n_estimators": 4, "store": tmp_path / "trainings.db"}
    both = [System("mse", "still"), System("mse", "shaken", {"langevin": STRONG})]
    still, shaken = (s.values["ndcg@5"] for s in tr.compare(TRAIN, VALID, VALID, losses=both, **few).systems)
    assert not np.array_equal(still, shaken)
    other = tr.compare(TRAIN, VALID, VALID, losses=["mse"], langevin=tr.Langevin(10), **few).systems[0]
    assert not np.array_equal(other.values["ndcg@5"], shaken)


CATBOOST = ("catboost:YetiRank", "catboost:QueryRMSE", "catboost:RMSE")


@pytest.mark.parametrize("loss", CATBOOST)
def test_catboosts_own_langevin_boosting(loss, tmp_path):
    pytest.importorskip("catboost")
    langevin = tr.Langevin(1e3, 1.7)
    few = {"langevin": langevin, "metric": "ndcg@5", "learning_rate": 0.3, "num_leaves": 8}
    fitted = ranker(loss, n_estimators=40, early_stopping_rounds=4, eval_train=True, **few).fit(TRAIN, VALID)
    assert fitted.n_trees_ < len(fitted.evals_result_["valid"]["ndcg@5"])
    # CatBoost with its own names for it, for as many trees as were kept.
    theirs = ranker(loss, n_estimators=fitted.n_trees_, **few).fit(TRAIN)
    told = theirs.model_.model.get_all_params()
    assert {name: told[name] for name in ("langevin", "diffusion_temperature", "model_shrink_mode")} == {
        "langevin": True,
        "diffusion_temperature": 1e3,
        "model_shrink_mode": "Constant",
    }
    assert told["model_shrink_rate"] == pytest.approx(1.7)
    np.testing.assert_allclose(fitted.predict(VALID), theirs.predict(VALID), rtol=1e-9)
    assert fitted.score(VALID) == fitted.best_score_
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(Ranker.load(tmp_path / "model.taut").predict(VALID), fitted.predict(VALID))
    other = ranker(loss, n_estimators=fitted.n_trees_, **{**few, "langevin": tr.Langevin(10, 1.7)}).fit(TRAIN)
    assert not np.allclose(other.predict(VALID), theirs.predict(VALID), rtol=1e-3)


def test_catboost_shrinks_by_the_same_factor():
    """It takes gradients after shrinking, ``F <- s F + r (y - s F)``; the authors' algorithm takes them before."""
    pytest.importorskip("catboost")
    quiet = {"bootstrap_type": "No", "random_strength": 0, "l2_leaf_reg": 0, "leaf_estimation_method": "Gradient"}
    data = tr.RankingData.from_arrays([[0.0], [1.0]] * 20, [1, 3] * 20, group=[2] * 20)
    langevin = tr.Langevin(1e30, 2.0)
    fitted = ranker("catboost:QueryRMSE", num_leaves=2, langevin=langevin, **quiet).fit(data)
    ratio = (1 - 0.1 * 2.0) * (1 - 0.1)
    expected = 0.1 * np.array([-1.0, 1.0]) * (1 - ratio**12) / (1 - ratio)
    np.testing.assert_allclose(fitted.predict([[0.0], [1.0]]), expected, rtol=1e-5)


def test_what_catboost_cannot_do_is_said():
    pytest.importorskip("catboost")
    loss = "catboost:QueryRMSE"
    start = ranker(loss, n_estimators=2).fit(TRAIN)
    assert ranker(loss, langevin=tr.Langevin(1e3, 0)).fit(TRAIN, init_model=start).n_trees_ == 14
    with pytest.raises(tr.OptionError, match="init_model: CatBoost does not shrink a model that it continues; exp"):
        ranker(loss, langevin=STRONG).fit(TRAIN, init_model=start)
    for parameters, sentence in (
        ({"langevin": STRONG, "model_shrink_rate": 0.1}, "model_shrink_rate: found beside langevin, which has a shrin"),
        ({"diffusion_temperature": 1e3}, "diffusion_temperature: is called langevin"),
        (
            {"langevin": tr.Langevin(1, 5.0), "early_stopping_rounds": 999},
            "early_stopping_rounds: CatBoost shrinks the best trees to nothing in 999",
        ),
    ):
        with pytest.raises(tr.OptionError, match=sentence):
            ranker(loss, **parameters).fit(TRAIN, VALID)
