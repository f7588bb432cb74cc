"""Langevin boosting: the noise on the gradients, and the model that shrinks by its scale."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import lightgbm
import numpy as np
import pytest
from scipy import stats

import tautrank as tr
from tautrank.engines import Settings, Task
from tautrank.engines.gradients import Gradients
from tautrank.engines.langevin import leaf_values, with_noise
from tautrank.engines.packages import TOOLS, Tool
from tautrank.engines.registry import engine_named
from tautrank.engines.training import fit
from tautrank.experiments.plan import System
from tautrank.kernels.randomness import fill_normal
from tautrank.kernels.streams import LANGEVIN_LEAF_STREAM, RANKING_STREAM
from tautrank.losses import Loss
from tautrank.ranker.estimator import Ranker
from tests.command_line import run
from tests.ranker_examples import TRAIN, VALID, ranker, synthetic

STRONG = tr.Langevin(temperature=1e4, shrink_rate=0.5)
SILENT = 1e300  # a temperature whose noise no gradient feels
LOSSES = ("mse", "lambdarank", "ndcg-loss2++(k=5)", "xendcg", "listnet", "lambdarank(noise=gumbel)")


# The noise.


def noise(offsets, step=0, seed=0, threads=1, temperature=1e3, learning_rate=0.1):
    deviation = tr.Langevin(temperature).deviation(learning_rate)
    zeros, ones = np.zeros(offsets[-1], np.float32), np.ones(offsets[-1], np.float32)
    return with_noise(zeros, ones, np.asarray(offsets), deviation, seed, step, threads).astype(
        np.float64
    )


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
    neighbours = [
        noise(offsets, step=1),
        noise(offsets, seed=1),
        np.roll(base, 50),
        np.roll(base, 1),
        np.roll(base, 2),
    ]
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
    other = np.empty(50)
    fill_normal(other, np.uint64(0), 0, 0, RANKING_STREAM)
    assert not np.isclose(noise([0, 50]) / math.sqrt(2 / 100), other).any()


def gradients_of(data, langevin, loss="lambdarank", step=0, **settings):
    task = Task(data, tr.loss(loss), tr.metric("ndcg@10"))
    take = Gradients(task, Settings(n_jobs=1, langevin=langevin, **settings))
    grad, hess = take(np.zeros(data.n_documents), step)
    return grad.astype(np.float64), hess.astype(np.float64)


def test_the_variance_of_the_noise_is_in_proportion_to_the_hessian():
    labels = np.where(
        np.arange(40_000) < 10_000, 0, np.arange(40_000) % 3
    )  # the first quarter has no relevant document
    data = tr.RankingData.from_arrays(np.zeros((40_000, 1)), labels, group=[20] * 2000)
    plain, plain_hess = gradients_of(data, None)
    noisy, noisy_hess = gradients_of(data, tr.Langevin(1e3), learning_rate=0.2)
    np.testing.assert_array_equal(noisy_hess, plain_hess)
    told = plain_hess > 0
    np.testing.assert_array_equal(told, np.arange(40_000) >= 10_000)
    assert not noisy[~told].any(), "no noise where the loss says nothing"
    drawn = (noisy - plain)[told] / np.sqrt(2 * plain_hess[told] / (0.2 * 1e3))
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(drawn**2, plain_hess[told])[0, 1]) < 5 / math.sqrt(drawn.size)


def test_leaves_have_noise_of_their_own():
    n = 100_000
    leaves, ones = np.arange(n), np.ones(n, np.float32)
    drawn = {
        key: leaf_values(leaves, 0 * ones, hess, l2, 2.0, *key)
        for key, hess, l2 in [((0, 0), ones, 0.0), ((0, 1), ones, 3.0), ((1, 0), ones / 4, 0.0)]
    }
    for values, mass in zip(drawn.values(), (1.0, 4.0, 0.25), strict=True):
        assert stats.kstest(values * math.sqrt(mass) / 2, "norm").pvalue > 1e-3
        assert (
            abs(np.corrcoef(values, drawn[0, 0])[0, 1]) < 5 / math.sqrt(n) or values is drawn[0, 0]
        )
    for structure in (noise([0, n]), noise(np.arange(n + 1))):
        assert abs(np.corrcoef(structure, drawn[0, 0])[0, 1]) < 5 / math.sqrt(n)
    np.testing.assert_array_equal(leaf_values(leaves, ones, 0 * ones, 0.0, 2.0, 0, 0), 0)


def test_sums_of_noisy_gradients_do_not_depend_on_their_order():
    grad, _ = gradients_of(synthetic(queries=500), tr.Langevin(1e3))
    rng = np.random.default_rng(0)
    assert len({float(np.cumsum(grad[rng.permutation(grad.size)])[-1]) for _ in range(5)}) == 1


# What a tree makes of it.


@dataclass(frozen=True, kw_only=True, repr=False)
class Bowl(Loss):
    """``slope / 2 (s - label)^2`` for each document, reported with hessians that may be anything;
    keeps the scores.
    """

    slope: float = 0.0
    hessians: np.ndarray = field(default_factory=lambda: np.ones(1))
    seen: list = field(default_factory=list)

    def _bind(self, lists, seed, threads):
        def gradients(scores, step):
            self.seen.append(scores.astype(np.float64))
            return self.slope * (scores - lists.labels), np.broadcast_to(
                self.hessians, scores.shape
            )

        return SimpleNamespace(gradients=gradients)

    def __str__(self):
        return "bowl"

    def path(self, X, langevin, *, engine="lightgbm", labels=None, **parameters):
        """Return the scores before each tree; ``parameters`` are those of `Settings` and of the
        engine.
        """
        data = tr.RankingData.from_arrays(
            X, np.zeros(len(X)) if labels is None else labels, group=[len(X)]
        )
        settings = {"n_estimators": 10, "seed": 0, "n_jobs": 1, "verbose": 0, **parameters}
        extra = {
            name: settings.pop(name)
            for name in list(settings)
            if name not in Settings.__dataclass_fields__
        }
        self.seen.clear()
        fit(
            engine_named(engine),
            Task(data, self, tr.metric("ndcg")),
            Settings(langevin=langevin, extra=extra, **settings),
        )
        return np.array(self.seen)


HESSIANS = {
    "ones": np.ones(2000),
    "hundredths": np.full(2000, 0.01),
    "a fifth is 0": np.where(np.arange(2000) % 5, 1.0, 0.0),
    "of all sizes": np.exp(np.random.default_rng(2).normal(size=2000)),
}


@pytest.mark.parametrize(
    ("leaves", "kind"),
    [(2, "ones"), (8, "ones"), (31, "ones"), *((8, kind) for kind in list(HESSIANS)[1:])],
)
def test_the_energy_of_the_noise_in_the_leaves_is_what_the_theory_prescribes(leaves, kind):
    """``sum_i h_i tree_i^2`` is the variance times chi^2 with as many degrees of freedom as the
    tree has leaves.
    """
    X, trees, hess = (
        np.random.default_rng(1).normal(size=(2000, 50)),
        1200 // leaves,
        HESSIANS[kind],
    )
    langevin = tr.Langevin(temperature=1e3, shrink_rate=0)
    path = Bowl(hessians=hess).path(
        X, langevin, n_estimators=trees + 1, learning_rate=0.1, num_leaves=leaves
    )
    energies = (hess * (np.diff(path, axis=0) / 0.1) ** 2).sum(axis=1) / (2 / (0.1 * 1e3))
    assert energies.mean() == pytest.approx(leaves, rel=0.1)
    assert energies.var() == pytest.approx(2 * leaves, rel=0.35)


def test_any_engine_gets_the_same_energy(monkeypatch):
    monkeypatch.setitem(TOOLS, "toy", Tool("tests.engines.toy_engine:Toy", "sklearn", "Toy"))
    X, langevin = (
        np.random.default_rng(1).normal(size=(300, 5)).astype(np.float32),
        tr.Langevin(1e3, 0.0),
    )
    path = Bowl().path(X, langevin, engine="toy", n_estimators=101, learning_rate=0.1, num_leaves=8)
    assert ((np.diff(path, axis=0) / 0.1) ** 2).sum(axis=1).mean() / (
        2 / (0.1 * 1e3)
    ) == pytest.approx(8, rel=0.15)


KINDS = np.repeat(np.arange(100.0), 2)[
    :, None
]  # two documents of each of a hundred kinds, and a leaf for each
ALONE = {
    "num_leaves": 100,
    "min_data_in_leaf": 1,
    "min_data_in_bin": 1,
    "min_sum_hessian_in_leaf": 0.0,
}


@pytest.mark.parametrize(("hessian", "l2"), [(1.0, 0.0), (0.01, 0.0), (0.01, 0.03)])
def test_smaller_hessians_end_in_the_same_distribution_at_the_same_temperature(hessian, l2):
    """Each score is ``F <- rho F + noise``; ``exp(-temperature loss)`` has the variance
    ``1 / (2 temperature slope)``.

    It is reached from 0 as ``1 - rho^(2 t)``; steps that are not small make it larger by
    ``2 / (1 + rho)``.
    """
    slope, rate, temperature = 0.02, 0.1, 1e3
    bowl, langevin = Bowl(slope=slope, hessians=np.array([hessian])), tr.Langevin(temperature, 0.0)
    path = bowl.path(KINDS, langevin, n_estimators=400, learning_rate=rate, lambda_l2=l2, **ALONE)
    rho = 1 - rate * 2 * slope / (2 * hessian + l2)
    steps = np.arange(100, 400)
    expected = (1 - rho ** (2 * steps)) * 2 / (1 + rho) / (2 * temperature * slope)
    assert np.mean(path[steps, ::2].var(axis=1) / expected) == pytest.approx(1, rel=0.2)


def test_hessians_and_learning_rate_in_proportion_take_the_same_steps():
    """Hessians are the units of time of the Langevin equation: the noise and the steps are equal to
    the bit.
    """
    X, labels = np.random.default_rng(1).normal(size=(500, 5)), np.arange(500) % 3
    given = {"n_estimators": 20, "labels": labels, "num_leaves": 8, "min_sum_hessian_in_leaf": 0.0}
    large = Bowl(slope=1.0).path(X, tr.Langevin(10.0, 0.5), learning_rate=0.5, **given)
    small = Bowl(slope=1.0, hessians=np.full(1, 1 / 128)).path(
        X, tr.Langevin(10.0, 64.0), learning_rate=1 / 256, **given
    )
    np.testing.assert_allclose(small, large, rtol=1e-9)
    assert np.ptp(large[-1]) > 0.1


# The shrinking model.


@pytest.mark.parametrize(("shrink_rate", "trees"), [(0.0, 50), (1e-3, 50), (1.0, 50), (5.0, 800)])
def test_two_kinds_of_documents_follow_the_closed_form(shrink_rate, trees):
    """Each tree fits the mean residual of each kind: ``F <- s F + r (y - F)``, a geometric
    series.
    """
    rate = 0.1
    data = tr.RankingData.from_arrays([[0.0], [1.0]] * 20, [1, 3] * 20, group=[2] * 20)
    langevin = tr.Langevin(SILENT, shrink_rate)
    fitted = ranker(
        "mse", n_estimators=trees, learning_rate=rate, num_leaves=2, langevin=langevin, max_bin=3
    ).fit(data)
    ratio = 1 - rate * shrink_rate - rate
    expected = rate * np.array([1.0, 3.0]) * (1 - ratio**trees) / (1 - ratio)
    np.testing.assert_allclose(fitted.predict([[0.0], [1.0]]), expected, rtol=1e-5)
    assert fitted.n_trees_ == trees


def simulated(loss, langevin, trees, rate=0.1, l2=0.0):
    """F by definition: one tree at a time, each of a LightGBM that knows no other tree, and leaves
    filled by hand.
    """
    task = Task(TRAIN, tr.loss(loss), tr.metric("ndcg@10"))
    noisy, plain = (
        Gradients(task, Settings(n_jobs=1, langevin=given, learning_rate=rate))
        for given in (langevin, None)
    )
    train, valid = np.zeros(TRAIN.n_documents), np.zeros(VALID.n_documents)
    params = {
        "learning_rate": rate,
        "num_leaves": 15,
        "num_threads": 1,
        "verbosity": -1,
        "feature_pre_filter": False,
    }
    for step in range(trees):
        scores = train.copy()
        tree = lightgbm.train(
            {**params, "objective": lambda _, __, s=scores, t=step: noisy(s, t), "lambda_l2": l2},
            lightgbm.Dataset(TRAIN.X, label=TRAIN.labels, params=params),
            num_boost_round=1,
        )
        grad, hess = plain(scores, step)
        normal = np.empty(16)
        fill_normal(normal, np.uint64(0), step, 0, LANGEVIN_LEAF_STREAM)
        leaves = {part: tree.predict(part.X, pred_leaf=True).ravel() for part in (TRAIN, VALID)}
        values = np.empty(15)
        for leaf in range(15):
            inside = leaves[TRAIN] == leaf
            mass = hess[inside].sum(dtype=np.float64) + l2
            added = math.sqrt(2 * mass / (rate * langevin.temperature)) * normal[leaf]
            values[leaf] = -rate * (grad[inside].sum(dtype=np.float64) + added) / mass
        train = (1 - rate * langevin.shrink_rate) * train + values[leaves[TRAIN]]
        valid = (1 - rate * langevin.shrink_rate) * valid + values[leaves[VALID]]
    return valid


@pytest.mark.parametrize("loss", ["mse", "lambdarank", "xendcg"])
@pytest.mark.parametrize(
    "langevin", [STRONG, tr.Langevin(1e2, 0.01), tr.Langevin(1e3, 9.9)], ids=str
)
def test_the_model_is_what_two_draws_and_shrinking_by_hand_give(loss, langevin):
    for l2 in (0.0, 2.0):
        fitted = ranker(loss, langevin=langevin, reg_lambda=l2).fit(TRAIN)
        expected = simulated(loss, langevin, 12, l2=l2)
        np.testing.assert_allclose(fitted.predict(VALID), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_and_shrinking_it_is_the_plain_fit(loss):
    plain = ranker(loss).fit(TRAIN, VALID)
    quiet = ranker(loss, langevin=tr.Langevin(temperature=SILENT, shrink_rate=0)).fit(TRAIN, VALID)
    np.testing.assert_allclose(quiet.predict(VALID), plain.predict(VALID), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        quiet.evals_result_["valid"]["ndcg@10"], plain.evals_result_["valid"]["ndcg@10"]
    )
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
    assert (on.n_trees_, on.model_.scale) == (10, other.model_.scale), (
        "without shrinkage the scale stays"
    )
    plain_steps = ranker("mse", n_estimators=4, learning_rate=1e-9).fit(TRAIN, init_model=other)
    np.testing.assert_allclose(plain_steps.predict(VALID), other.predict(VALID), atol=1e-7)


def test_a_tools_own_objective_continues_the_shrunk_model():
    start = ranker("mse", n_estimators=6, langevin=STRONG).fit(TRAIN)
    more = ranker("lightgbm:regression", n_estimators=4, learning_rate=1e-9).fit(
        TRAIN, init_model=start
    )
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
    np.testing.assert_allclose(
        contributions.sum(axis=1), fitted.predict(VALID), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    "more",
    [
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
    fitted = ranker(langevin=tr.Langevin(1e6, 5.0), n_estimators=200, num_leaves=4, **more).fit(
        data, data
    )
    assert fitted.score(data) == pytest.approx(
        fitted.evals_result_["valid"]["ndcg@10"][-1], abs=1e-12
    )
    assert fitted.score(data) > 0.7
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(
        Ranker.load(tmp_path / "model.taut").predict(data), fitted.predict(data)
    )
    booster = fitted.model_.booster
    np.testing.assert_allclose(
        booster.predict(data.X, raw_score=True), fitted.predict(data), rtol=1e-9, atol=1e-12
    )


def test_steps_without_a_tree_shrink_the_model_too():
    start = ranker("mse", n_estimators=5).fit(TRAIN)
    stuck = ranker(
        "mse",
        n_estimators=4,
        min_data_in_leaf=2000,
        learning_rate=0.5,
        langevin=tr.Langevin(1e8, 1.0),
    )
    after = stuck.fit(TRAIN, init_model=start)
    assert after.n_trees_ == 5
    np.testing.assert_allclose(after.predict(VALID), start.predict(VALID) / 16, rtol=1e-12)


# What is refused, and with which words.


def test_an_engine_that_cannot_fill_leaves_again(monkeypatch):
    from tests.engines import toy_engine

    monkeypatch.setitem(TOOLS, "toy", Tool("tests.engines.toy_engine:Toy", "sklearn", "Toy"))

    class PlainLearner:
        """The toy's learner, without the members that Langevin boosting needs."""

        def __init__(self, task, settings):
            learner = toy_engine.Learner(task, settings)
            self.grow, self.scores, self.model = learner.grow, learner.scores, learner.model
            self._learner = learner

        @property
        def rounds(self):
            return self._learner.rounds

    monkeypatch.setattr(toy_engine.Toy, "start", staticmethod(PlainLearner))
    assert ranker("mse", engine="toy").fit(TRAIN).n_trees_ == 12
    with pytest.raises(
        tr.OptionError,
        match="langevin: Toy cannot fill the leaves of a tree again; expected another",
    ):
        ranker("mse", engine="toy", langevin=STRONG).fit(TRAIN)


@pytest.mark.parametrize(
    ("name", "value"),
    [("reg_alpha", 0.1), ("max_delta_step", 1), ("path_smooth", 1.0), ("linear_tree", True)],
)
def test_leaves_that_are_more_than_a_step_are_refused(name, value):
    main = {"reg_alpha": "lambda_l1"}.get(name, name)
    with pytest.raises(
        tr.OptionError, match=f"^{main}: found {value} with langevin, whose leaves are sums"
    ):
        ranker("mse", langevin=STRONG, **{name: value}).fit(TRAIN)
    assert (
        ranker("mse", langevin=STRONG, **{name: type(value)(0)}, n_estimators=1).fit(TRAIN).n_trees_
        == 1
    )


@pytest.mark.parametrize("value", [-1e-9, -1, math.nan, math.inf, "hot", None, True])
def test_wrong_temperatures_and_shrink_rates(value):
    with pytest.raises(tr.OptionError, match=r"temperature: found .*; expected a number above 0"):
        tr.Langevin(temperature=value)
    with pytest.raises(
        tr.OptionError, match=r"shrink_rate: found .*; expected a number of at least 0"
    ):
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
    tr.data.write_letor(VALID, tmp_path / "train.txt")
    code, _, err = run(
        capsys, "train", tmp_path / "train.txt", "-o", tmp_path / "m.taut", "--trees", 3, *options
    )
    assert (code, err) == (0, "")
    assert Ranker.load(tmp_path / "m.taut").langevin == expected
    code, _, err = run(capsys, "train", "nowhere.txt", "-o", tmp_path / "m.taut", options[0], -1)
    assert code == 2
    assert err.startswith(
        f"error: {options[0].removeprefix('--langevin-').replace('-', '_')}: found -1.0; expected"
    )


def test_comparisons_train_with_it_and_keep_results_apart(tmp_path):
    few = {
        "metrics": ["ndcg@5"],
        "repeats": 1,
        "n_estimators": 4,
        "store": tmp_path / "trainings.db",
    }
    both = [System("mse", "still"), System("mse", "shaken", {"langevin": STRONG})]
    still, shaken = (
        s.values["ndcg@5"] for s in tr.compare(TRAIN, VALID, VALID, losses=both, **few).systems
    )
    assert not np.array_equal(still, shaken)
    other = tr.compare(
        TRAIN, VALID, VALID, losses=["mse"], langevin=tr.Langevin(10), **few
    ).systems[0]
    assert not np.array_equal(other.values["ndcg@5"], shaken)


CATBOOST = ("catboost:YetiRank", "catboost:QueryRMSE", "catboost:RMSE")


@pytest.mark.parametrize("loss", CATBOOST)
def test_catboosts_own_langevin_boosting(loss, tmp_path):
    pytest.importorskip("catboost")
    langevin = tr.Langevin(1e3, 1.7)
    few = {"langevin": langevin, "metric": "ndcg@5", "learning_rate": 0.3, "num_leaves": 8}
    fitted = ranker(loss, n_estimators=40, early_stopping_rounds=4, eval_train=True, **few).fit(
        TRAIN, VALID
    )
    assert fitted.n_trees_ < len(fitted.evals_result_["valid"]["ndcg@5"])
    # CatBoost with its own names for it, for as many trees as were kept.
    theirs = ranker(loss, n_estimators=fitted.n_trees_, **few).fit(TRAIN)
    told = theirs.model_.model.get_all_params()
    assert {
        name: told[name] for name in ("langevin", "diffusion_temperature", "model_shrink_mode")
    } == {
        "langevin": True,
        "diffusion_temperature": 1e3,
        "model_shrink_mode": "Constant",
    }
    assert told["model_shrink_rate"] == pytest.approx(1.7)
    np.testing.assert_allclose(fitted.predict(VALID), theirs.predict(VALID), rtol=1e-9)
    assert fitted.score(VALID) == fitted.best_score_
    fitted.save(tmp_path / "model.taut")
    np.testing.assert_array_equal(
        Ranker.load(tmp_path / "model.taut").predict(VALID), fitted.predict(VALID)
    )
    other = ranker(
        loss, n_estimators=fitted.n_trees_, **{**few, "langevin": tr.Langevin(10, 1.7)}
    ).fit(TRAIN)
    assert not np.allclose(other.predict(VALID), theirs.predict(VALID), rtol=1e-3)


def test_catboost_shrinks_by_the_same_factor():
    """It takes gradients after shrinking, ``F <- s F + r (y - s F)``; the authors' algorithm takes
    them before.
    """
    pytest.importorskip("catboost")
    quiet = {
        "bootstrap_type": "No",
        "random_strength": 0,
        "l2_leaf_reg": 0,
        "leaf_estimation_method": "Gradient",
    }
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
    with pytest.raises(
        tr.OptionError, match="init_model: CatBoost does not shrink a model that it continues; exp"
    ):
        ranker(loss, langevin=STRONG).fit(TRAIN, init_model=start)
    for parameters, sentence in (
        (
            {"langevin": STRONG, "model_shrink_rate": 0.1},
            "model_shrink_rate: found beside langevin, which has a shrin",
        ),
        ({"diffusion_temperature": 1e3}, "diffusion_temperature: is called langevin"),
        (
            {"langevin": tr.Langevin(1, 5.0), "early_stopping_rounds": 999},
            "early_stopping_rounds: CatBoost shrinks the best trees to nothing in 999",
        ),
    ):
        with pytest.raises(tr.OptionError, match=sentence):
            ranker(loss, **parameters).fit(TRAIN, VALID)
