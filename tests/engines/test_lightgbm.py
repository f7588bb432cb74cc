"""Losses of this library on LightGBM: what is learnt, how often it is judged, and that bits do not
depend on chance.
"""

from __future__ import annotations

import io
import pickle
import sys
from dataclasses import dataclass

import lightgbm
import numpy as np
import pytest
from scipy import sparse

import tautrank as tr
from tautrank.compat import LGBMRanker
from tautrank.engines.gradients import Gradients, round_to_grid
from tautrank.errors import DataError
from tautrank.losses.base import Loss, Objective
from tautrank.ranker.estimator import Ranker
from tests.ranker_examples import TRAIN, VALID, ranker, synthetic

LOSSES = (
    "mse",
    "ranknet",
    "lambdarank",
    "ndcg-loss2++(k=5)",
    "listnet",
    "xendcg",
    "lambdarank(noise=gumbel)",
)
LANGEVIN = tr.Langevin(temperature=1e4, shrink_rate=0.5)
PLAIN_AND_LANGEVIN = pytest.mark.parametrize(
    "langevin", [None, LANGEVIN], ids=["plain", "langevin"]
)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss):
    random = np.random.default_rng(0).normal(size=VALID.n_documents)
    by_chance = tr.metric("ndcg@10").mean(random, VALID.labels, VALID.offsets)
    assert ranker(loss).fit(TRAIN).score(VALID) > by_chance + 0.2


@PLAIN_AND_LANGEVIN
@pytest.mark.parametrize("loss", LOSSES)
def test_same_bits_for_any_number_of_threads(loss, langevin):
    data = synthetic(queries=300)  # enough for LightGBM and the kernels to share the work
    one, two = (ranker(loss, n_jobs=jobs, langevin=langevin).fit(data) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(data), two.predict(data))


def test_same_bits_for_any_layout_of_histograms():
    data = synthetic(queries=300)
    models = [
        ranker(n_jobs=2, **{layout: True}).fit(data)
        for layout in ("force_row_wise", "force_col_wise")
    ]
    np.testing.assert_array_equal(models[0].predict(data), models[1].predict(data))


SAMPLED = {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5}


@pytest.mark.parametrize(
    "more", [{}, SAMPLED, {"langevin": LANGEVIN}], ids=["plain", "sampled", "langevin"]
)
def test_same_bits_again_and_other_bits_for_another_seed(more):
    first, again, other = (
        ranker("xendcg", random_state=s, **more).fit(TRAIN).predict(VALID) for s in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@PLAIN_AND_LANGEVIN
@pytest.mark.parametrize("loss", LOSSES)
def test_continued_training_equals_training_in_one_go(loss, langevin, tmp_path):
    whole = ranker(loss, n_estimators=12, langevin=langevin).fit(TRAIN)
    half = ranker(loss, n_estimators=5, langevin=langevin).fit(TRAIN)
    before = half.predict(VALID)
    half.save(tmp_path / "half.taut")
    for start in (half, tmp_path / "half.taut", pickle.loads(pickle.dumps(half))):
        rest = ranker(loss, n_estimators=7, langevin=langevin).fit(TRAIN, VALID, init_model=start)
        assert rest.n_trees_ == 12
        assert len(rest.evals_result_["valid"]["ndcg@10"]) == 7
        np.testing.assert_array_equal(rest.predict(VALID), whole.predict(VALID))
    assert half.n_trees_ == 5
    np.testing.assert_array_equal(half.predict(VALID), before)


def test_continuing_draws_other_samples_than_the_start_did():
    sampled = {"bagging_fraction": 0.3, "bagging_freq": 1}
    start = ranker("mse", n_estimators=1, learning_rate=1e-9, **sampled).fit(TRAIN)
    more = ranker("mse", n_estimators=1, learning_rate=1e-9, **sampled).fit(TRAIN, init_model=start)
    first, second = start.predict(VALID), more.predict(VALID) - start.predict(VALID)
    assert not np.allclose(first, second, rtol=1e-3, atol=0)


@pytest.mark.parametrize("langevin", [None, tr.Langevin(1e6, 2.0)], ids=str)
def test_history_is_the_metric_of_the_trees_so_far(langevin):
    seen, settings = [], {"metric": "ndcg@5", "langevin": langevin}
    fitted = ranker(eval_train=True, **settings).fit(TRAIN, VALID, callbacks=[seen.append])
    for trees in (1, 4, 12):
        short = ranker(n_estimators=trees, **settings).fit(TRAIN)
        for part, data in (("train", TRAIN), ("valid", VALID)):
            values = fitted.evals_result_[part]["ndcg@5"]
            assert values[trees - 1] == getattr(seen[trees - 1], part) == short.score(data)
            assert len(values) == 12
    assert fitted.best_score_ == max(fitted.evals_result_["valid"]["ndcg@5"])
    assert fitted.n_trees_ == 12, "without early stopping all trees are kept"
    assert "train" not in ranker().fit(TRAIN, VALID).evals_result_


SHRINKING = {"langevin": tr.Langevin(1e6, 5.0), "num_leaves": 7, "learning_rate": 0.1}


@pytest.mark.parametrize(
    ("metric", "rounds", "more"),
    [
        ("ndcg@5", 5, {}),
        ("arp", 5, {}),
        ("ndcg@5", 5, {"langevin": LANGEVIN}),
        ("ndcg@5", 40, SHRINKING),
    ],
    ids=str,
)
def test_early_stopping_keeps_the_best_and_continues_from_there(metric, rounds, more):
    settings = {"metric": metric, "learning_rate": 0.5, **more}
    fitted = ranker(n_estimators=250, early_stopping_rounds=rounds, **settings).fit(TRAIN, VALID)
    values = np.array(fitted.evals_result_["valid"][metric])
    best = int(values.argmin() if metric == "arp" else values.argmax())
    assert fitted.best_iteration_ == fitted.n_trees_ == best + 1
    assert len(values) == best + 1 + rounds, "it stopped"
    assert fitted.best_score_ == values[best]
    assert fitted.score(VALID) == (-values[best] if metric == "arp" else values[best])
    again = ranker(n_estimators=best + 1, **settings).fit(TRAIN)
    np.testing.assert_array_equal(again.predict(VALID), fitted.predict(VALID))
    more_trees = ranker(n_estimators=3, **settings).fit(TRAIN, init_model=fitted)
    straight = ranker(n_estimators=best + 4, **settings).fit(TRAIN)
    np.testing.assert_array_equal(more_trees.predict(VALID), straight.predict(VALID))


def test_early_stopping_keeps_the_best_when_the_trees_run_out_first():
    fitted = ranker(n_estimators=10, learning_rate=0.9, early_stopping_rounds=10).fit(TRAIN, VALID)
    values = fitted.evals_result_["valid"]["ndcg@10"]
    assert len(values) == 10
    assert fitted.n_trees_ == int(np.argmax(values)) + 1 < 10


def test_a_callback_may_stop_the_training_and_its_errors_reach_the_caller():
    assert ranker().fit(TRAIN, callbacks=[lambda step: np.bool_(step.step == 3)]).n_trees_ == 4
    with pytest.raises(ZeroDivisionError):
        ranker().fit(TRAIN, callbacks=[lambda step: 1 / 0])


def test_weights_scale_the_loss():
    plain = ranker().fit(TRAIN)
    ones = ranker().fit(TRAIN, weights=np.ones(TRAIN.n_queries))
    np.testing.assert_array_equal(plain.predict(VALID), ones.predict(VALID))
    half = (np.arange(TRAIN.n_queries) < 30).astype(float)
    weighed = ranker(min_data_in_leaf=1, min_sum_hessian_in_leaf=1e-3).fit(TRAIN, weights=half)
    by_document = ranker(min_data_in_leaf=1, min_sum_hessian_in_leaf=1e-3).fit(
        TRAIN, weights=np.repeat(half, TRAIN.sizes)
    )
    np.testing.assert_array_equal(weighed.predict(VALID), by_document.predict(VALID))
    assert not np.array_equal(weighed.predict(VALID), plain.predict(VALID))


def test_propensities_reach_the_loss():
    p = np.random.default_rng(0).uniform(0.2, 1, TRAIN.n_documents)
    plain, seen = ranker("listnet").fit(TRAIN), ranker("listnet").fit(TRAIN, propensities=p)
    assert not np.array_equal(plain.predict(VALID), seen.predict(VALID))
    with pytest.raises(
        tr.OptionError, match=r"propensities: the loss lambdarank has no use for them; expected"
    ):
        ranker().fit(TRAIN, propensities=p)
    with pytest.raises(
        tr.DataError, match=r"propensities: found length 2; expected 1200, one per document"
    ):
        ranker("listnet").fit(TRAIN, propensities=[0.5, 0.5])


def test_sparse_features_give_the_same_model():
    X = np.where(TRAIN.X > 0.5, TRAIN.X, 0)
    dense = tr.RankingData.from_arrays(X, TRAIN.labels, group=TRAIN.sizes)
    stored = tr.RankingData.from_arrays(sparse.csr_matrix(X), TRAIN.labels, group=TRAIN.sizes)
    expected = ranker().fit(dense).predict(dense)
    np.testing.assert_array_equal(ranker().fit(stored).predict(stored), expected)
    np.testing.assert_array_equal(ranker().fit(stored).predict(X), expected)


def test_missing_values_are_their_own_kind():
    X = TRAIN.X.copy()
    X[TRAIN.labels > 0, 5] = np.nan  # what is missing tells the label
    fitted = ranker().fit(X, TRAIN.labels, group=TRAIN.sizes)
    assert fitted.feature_importances_.argmax() == 5
    assert fitted.predict(X)[TRAIN.labels > 0].min() > fitted.predict(X)[TRAIN.labels == 0].max()
    assert np.isfinite(fitted.predict(X)).all()


@pytest.mark.parametrize("column", [3, "kind", ["kind"], [3]])
def test_categories_are_not_ordered(column):
    rng = np.random.default_rng(0)
    kinds = rng.permutation(32)
    codes = rng.integers(32, size=1200)
    X = np.column_stack([rng.normal(size=(1200, 3)), codes])
    y = (kinds[codes] % 2).astype(float)
    data = tr.RankingData.from_arrays(X, y, group=[20] * 60, feature_names=["a", "b", "c", "kind"])
    small = {"n_estimators": 3, "num_leaves": 2, "min_data_per_group": 1, "cat_smooth": 0}
    as_number = ranker(**small).fit(data).score(data)
    as_category = ranker(categorical_feature=column, **small).fit(data)
    assert as_category.score(data) > 0.999 > as_number
    assert as_category.get_params()["categorical_feature"] == column


def test_wrong_category_columns():
    named = tr.RankingData.from_arrays(
        TRAIN.X, TRAIN.labels, group=TRAIN.sizes, feature_names=list("abcdef")
    )
    with pytest.raises(
        tr.OptionError, match="categorical_feature: found the name 'a', but the data has no names"
    ):
        ranker(categorical_feature="a").fit(TRAIN)
    with pytest.raises(tr.OptionError, match="unknown column of categorical_feature 'g'"):
        ranker(categorical_feature=["g"]).fit(named)
    with pytest.raises(
        tr.OptionError, match="categorical_feature: found 6; expected a whole number"
    ):
        ranker(categorical_feature=[6]).fit(TRAIN)


@dataclass(frozen=True, kw_only=True, repr=False)
class Broken(Loss):
    """A loss whose gradient is not a number for one document, from the third tree on."""

    name = "broken"
    value: str = "nan"
    kind: str = "gradient"

    def _bind(self, lists, seed, threads):
        return BrokenObjective(self, lists, seed, threads, lists.sizes.astype(float))


class BrokenObjective(Objective):
    def _gradients(self, scores, step):
        grad, hess = (scores - self.lists.labels).astype(np.float32), np.ones_like(scores)
        if step >= 2:
            (grad if self.loss.kind == "gradient" else hess)[45] = float(self.loss.value)
        return (grad[:-1], hess) if self.loss.kind == "shape" else (grad, hess)

    def _values(self, scores, held, step):
        return np.zeros(self.lists.sizes.size)


@PLAIN_AND_LANGEVIN
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_a_gradient_that_is_no_number_stops_training_and_names_the_query(value, kind, langevin):
    data = tr.RankingData.from_arrays(
        TRAIN.X, TRAIN.labels, qid=np.repeat([f"q{i}" for i in range(60)], 20)
    )
    expected = rf"the {kind} of query q2 is {value} at its document 5, before tree 2; expected finite numbers"
    with pytest.raises(tr.DataError, match=expected):
        ranker(Broken(value=value, kind=kind), langevin=langevin).fit(data)


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(
        tr.DataError,
        match=r"the gradient has the shape \(1199,\); expected \(1200,\), one per docu",
    ):
        ranker(Broken(kind="shape")).fit(TRAIN)


def test_labels_alike_give_a_model_and_a_warning():
    with pytest.warns(
        tr.TautrankWarning, match="no tree could be split, so every document gets the same score"
    ):
        fitted = ranker().fit(TRAIN.X, np.ones(TRAIN.n_documents), group=TRAIN.sizes)
    assert np.unique(fitted.predict(VALID)).size == 1
    assert fitted.feature_importances_.tolist() == [0.0] * 6


def test_features_that_never_vary():
    with pytest.raises(
        tr.DataError,
        match=r"LightGBM cannot train on this \(no feature varies enough to be split\)",
    ):
        ranker().fit(np.ones((12_000, 2)), np.arange(12_000) % 2, group=[20] * 600)
    with pytest.warns(tr.TautrankWarning, match="no tree could be split"):
        ranker().fit(np.ones((1_200, 2)), np.arange(1_200) % 2, group=[20] * 60)


def test_a_list_of_one_document_and_few_documents():
    with pytest.warns(tr.TautrankWarning, match="no tree could be split"):
        fitted = ranker().fit([[1.0]], [1], qid=[1])
    assert fitted.predict([[1.0], [2.0]]).shape == (2,)


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_sums_on_the_grid_do_not_depend_on_their_order(size):
    rng = np.random.default_rng(size)
    values = (rng.normal(size=size) * 10 ** rng.uniform(-12, 3, size)).astype(np.float32)
    out = np.empty_like(values)
    round_to_grid(values, float(np.abs(values).max()), out)
    sums = {float(np.cumsum(out[rng.permutation(size)], dtype=np.float64)[-1]) for _ in range(5)}
    assert len(sums) == 1
    largest = np.abs(values).max()
    assert np.abs(out - values).max() <= largest * 2.0 ** -(52 - 20 - 1)


@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-20, 1e20, 3e38])
def test_the_grid_spans_the_range_of_floats(scale):
    values = np.array([1.0, -0.5, 0.25], np.float32) * np.float32(scale)
    out = np.empty_like(values)
    round_to_grid(values, float(np.abs(values).max()), out)
    assert np.isfinite(out).all()
    if scale > 1e-25:
        np.testing.assert_array_equal(out, values)


def test_gradients_leave_the_objectives_arrays_alone():
    from tautrank.engines import Settings, Task

    task = Task(TRAIN, tr.losses.MSE(), tr.metric("ndcg@10"))
    take = Gradients(task, Settings(n_jobs=1))
    first = take(np.zeros(TRAIN.n_documents), 0)[0].copy()
    take(np.ones(TRAIN.n_documents), 1)
    np.testing.assert_array_equal(take(np.zeros(TRAIN.n_documents), 0)[0], first)
    np.testing.assert_allclose(
        first,
        -TRAIN.labels * (np.repeat(np.add.reduceat(TRAIN.labels, TRAIN.offsets[:-1]), 20) > 0),
    )


def test_progress_is_silent_unless_asked_for(capfd):
    ranker(verbose=None).fit(TRAIN, VALID)
    ranker(verbose=0).fit(TRAIN, VALID)
    assert capfd.readouterr() == ("", "")
    ranker(verbose=1, n_estimators=20).fit(TRAIN, VALID)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("lambdarank: 2/20 trees, ndcg@10 0.")
    assert ", about 0 s left" in lines[4]
    assert lines[-1].startswith("lambdarank: 20/20 trees, ndcg@10 0.")


def test_progress_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    ranker(verbose=None, n_estimators=300).fit(TRAIN, VALID)
    assert "lambdarank" in screen.getvalue()
    assert "ndcg@10 0." in screen.getvalue()


def strong(shrink_rate, **more):
    return {"langevin": tr.Langevin(shrink_rate=shrink_rate), **more}


WRONG = [
    ({"engine": "lightbgm"}, "unknown engine 'lightbgm'; did you mean 'lightgbm'"),
    ({"loss": "lamdarank"}, "unknown loss 'lamdarank'; did you mean 'lambdarank'"),
    (
        {"loss": "lightgbm:lamdarank"},
        "unknown loss 'lightgbm:lamdarank'; did you mean 'lightgbm:lambdarank'",
    ),
    (
        {"loss": "lightbm:lambdarank"},
        "unknown loss 'lightbm:lambdarank'; did you mean 'lightgbm:lambdarank'",
    ),
    (
        {"loss": "catboost:yetirnk"},
        "unknown loss 'catboost:yetirnk'; did you mean 'catboost:YetiRank'",
    ),
    ({"loss": 3}, "loss: found 3; expected a name such as 'lambdarank'"),
    ({"loss": "lambdarank(k=0)"}, "k: found 0; expected a whole number of at least 1"),
    ({"metric": "ndgc@5"}, "unknown metric 'ndgc'; did you mean 'ndcg'"),
    ({"n_estimators": 0}, "n_estimators: found 0; expected a whole number of at least 1"),
    ({"learning_rate": -1}, "learning_rate: found -1; expected a number above 0"),
    ({"num_leaves": 1}, "num_leaves: found 1; expected a whole number of at least 2"),
    (
        {"early_stopping_rounds": 0},
        "early_stopping_rounds: found 0; expected a whole number of at least 1",
    ),
    ({"n_jobs": 0}, "n_jobs: found 0; expected a whole number of at least 1, or -1 for all cores"),
    ({"random_state": -1}, "random_state: found -1; expected a whole number of at least 0"),
    ({"num_leafs": 3}, "unknown parameter of lightgbm 'num_leafs'; did you mean 'num_leaf"),
    ({"eta": 0.1}, "eta: is called learning_rate here; expected that name"),
    ({"seed": 1}, "seed: is called random_state here"),
    ({"objective": "binary"}, "objective: is called loss here"),
    (
        {"min_child_samples": 3, "min_data_in_leaf": 3},
        "min_data_in_leaf: given twice, under two of LightGBM's names",
    ),
    ({"input_model": "x"}, "input_model: is called init_model here"),
    ({"output_model": "x"}, "output_model: is for LightGBM's command line"),
    ({"bagging_fraction": 7}, "loss lambdarank: LightGBM cannot train on this"),
    (
        {"early_stopping_rounds": 3, "boosting": "dart"},
        "early_stopping_rounds: dart rescales the trees it has",
    ),
    (
        {"langevin": 3},
        "langevin: found 3; expected None or tautrank.Langevin(temperature=..., shrink_rate=...)",
    ),
    ({"langevin": True}, "langevin: found True; expected None or tautrank.Langevin"),
    (
        {"langevin": {"temperature": 1.0}},
        "langevin: found {'temperature': 1.0}; expected None or tautrank.Langevin",
    ),
    (strong(10), "langevin: shrink_rate=10 times learning_rate=0.1 is 1; expected less than 1"),
    (
        strong(3, learning_rate=0.5),
        "langevin: shrink_rate=3 times learning_rate=0.5 is 1.5; expected less than 1",
    ),
    (
        {"langevin": tr.Langevin(1e-80)},
        "langevin: temperature=1e-80 with learning_rate=0.1 is noise of the deviation",
    ),
    (
        strong(0.1, boosting="dart"),
        "langevin: LightGBM's boosting=dart weights trees differently; expected gbdt or",
    ),
    (
        strong(0.1, boosting_type="rf"),
        "langevin: LightGBM's boosting=rf weights trees differently; expected gbdt or",
    ),
    (
        strong(0.1, loss="lightgbm:lambdarank"),
        "langevin: the gradients of lightgbm:lambdarank are out of reach; exp",
    ),
    (
        strong(5.0, n_estimators=801),
        "langevin: Langevin(temperature=1e+08, shrink_rate=5) with learning_rate=0.1 shrinks a tree to nothing in 801 "
        "trees; expected fewer trees, or a smaller shrink_rate",
    ),
]


@pytest.mark.parametrize(("parameters", "sentence"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_parameters(parameters, sentence):
    with pytest.raises(tr.TautrankError) as caught:
        ranker(**parameters).fit(TRAIN, VALID)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_dart_and_goss_train():
    for boosting in ({"boosting": "dart"}, {"data_sample_strategy": "goss"}):
        assert ranker(**boosting).fit(TRAIN, VALID).score(VALID) > 0.6


@pytest.mark.parametrize(
    ("ours", "theirs"), [("lambdarank", "lightgbm:lambdarank"), ("xendcg", "lightgbm:rank_xendcg")]
)
def test_ours_reaches_lightgbms_own_on_real_data(shared_data, ours, theirs):
    per_query = {ours: [], theirs: []}
    metric = tr.metric("ndcg@10")
    for fold in range(1, 6):
        data = tr.data.read_folder(shared_data / "mq2008", fold=fold)
        for loss, values in per_query.items():
            fitted = Ranker(loss, n_estimators=60, num_leaves=7, n_jobs=1, verbose=0).fit(
                data.train
            )
            test = data.test
            values.append(metric.per_query(fitted.predict(test), test.labels, test.offsets))
    a, b = (np.concatenate(values) for values in per_query.values())
    kept = ~np.isnan(a)
    assert a[kept].mean() > b[kept].mean() - 0.01
    assert (
        tr.significance.paired_t_test(a[kept], b[kept]).p_value > 0.05
        or a[kept].mean() > b[kept].mean()
    )


@pytest.mark.parametrize("valid", [None, VALID], ids=["training", "validation"])
def test_a_training_that_diverges_says_so(valid):
    with pytest.raises(tr.DataError) as caught:
        ranker("lambdarank", learning_rate=1e38, n_estimators=50).fit(TRAIN, eval_set=valid)
    assert str(caught.value).startswith(
        "loss lambdarank: the training diverges, scores have grown to infinity; expected"
    )


@pytest.mark.parametrize("how", ["rates", "langevin"])
def test_random_thresholds_are_others_for_every_tree_if_the_rate_changes(how):
    X = np.random.default_rng(0).random((2000, 1), np.float32)
    data = tr.RankingData.from_arrays(X, np.rint(4 * X[:, 0]), group=[20] * 100)
    rates = [lightgbm.reset_parameter(learning_rate=[0.1 - 0.001 * tree for tree in range(12)])]
    langevin = tr.Langevin(temperature=1e9, shrink_rate=1e-3) if how == "langevin" else None
    fitted = LGBMRanker(
        "mse", n_estimators=12, num_leaves=2, extra_trees=True, langevin=langevin, verbose=0
    )
    fitted.fit(data, callbacks=rates if how == "rates" else None)
    drawn = np.concatenate([tree.threshold for tree in fitted.model_.trees()])
    assert np.unique(drawn).size > 8
    assert abs(np.diff(drawn, n=2)).max() > 0.1  # not one after the other


def test_what_lightgbm_requires_is_said_in_plain_terms():
    for given, sentence in (
        ({"max_bin": 1}, "(expected max_bin > 1)"),
        (
            {"boosting": "rf"},
            "(expected (bagging_freq > 0 && bagging_fraction < 1.0 && bagging_fraction > 0.0) ||",
        ),
    ):
        with pytest.raises(DataError) as error:
            tr.Ranker(n_estimators=2, **given).fit(
                np.arange(40.0)[:, None], np.arange(40) % 2, group=[40]
            )
        assert f"LightGBM cannot train on this {sentence}" in str(error.value)
