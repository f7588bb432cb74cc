"""The estimator itself: what it takes, what it gives, and the sentence for each thing that can be
wrong.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from scipy import sparse

import tautrank as tr
from tautrank.ranker.estimator import Ranker, Ranking
from tests.ranker_examples import ranker as quick_ranker


def arrays(queries=40, documents=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * documents, 4)).astype(np.float32)
    y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=X.shape[0])), 0, 4)
    return X, y, np.repeat(np.arange(queries) + 100, documents)


X, Y, QID = arrays()
XV, YV, QV = arrays(seed=1)
TRAIN, VALID = tr.RankingData.from_arrays(X, Y, QID), tr.RankingData.from_arrays(XV, YV, QV)
NAMES = ["a", "b", "c", "d"]


ranker = partial(quick_ranker, n_estimators=6, num_leaves=7)


def test_the_ways_to_give_data_are_one():
    expected = ranker().fit(TRAIN, VALID)
    frame = pd.DataFrame(X, columns=NAMES)
    ways = [
        ranker().fit(X, Y, QID, eval_set=(XV, YV, QV)),
        ranker().fit(X, Y, qid=QID, eval_set=[XV, YV, QV]),
        ranker().fit(X.astype(float), Y.astype(int), group=[15] * 40, eval_set=VALID),
        ranker().fit(X.tolist(), Y.tolist(), [f"q{i}" for i in QID], eval_set={"valid": VALID}),
        ranker().fit(TRAIN, eval_set=(XV, YV, QV)),
        ranker().fit(frame, pd.Series(Y), pd.Series(QID), eval_set=(XV, YV, QV)),
        ranker().fit(pl.DataFrame(X, schema=NAMES), Y, QID, eval_set=(XV, YV, QV)),
        ranker().fit(pa.table(frame), pa.array(Y), pa.array(QID), eval_set=VALID),
        ranker().fit(sparse.csr_matrix(X), Y, QID, eval_set=(sparse.csr_matrix(XV), YV, QV)),
    ]
    for way in ways:
        assert way.evals_result_ == expected.evals_result_
        for rows in (XV, XV.tolist(), VALID, sparse.csr_matrix(XV)):
            np.testing.assert_array_equal(way.predict(rows), expected.predict(VALID))
    np.testing.assert_array_equal(
        ways[5].predict(pd.DataFrame(XV, columns=NAMES)), expected.predict(VALID)
    )


def test_scattered_rows_are_gathered_and_scores_stay_in_row_order():
    order = np.random.default_rng(0).permutation(X.shape[0])
    with pytest.warns(tr.TautrankWarning, match="scattered"):
        fitted = ranker().fit(
            X[order], Y[order], QID[order], weights=np.where(QID[order] < 110, 2.0, 1.0)
        )
    assert fitted.predict(X).shape == Y.shape
    np.testing.assert_array_equal(fitted.predict(X)[order], fitted.predict(X[order]))


def test_what_a_fitted_ranker_knows():
    fitted = ranker(metric="ndcg@5").fit(pd.DataFrame(X, columns=NAMES), Y, QID, eval_set=VALID)
    assert fitted.n_features_in_ == 4
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.feature_importances_.argmax() == 0
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert fitted.n_trees_ == 6
    assert list(fitted.evals_result_) == ["valid"]
    assert fitted.best_score_ == max(fitted.evals_result_["valid"]["ndcg@5"])
    alone = fitted.fit(X, Y, QID)
    assert not hasattr(alone, "feature_names_in_"), "names of an earlier fit are gone"
    assert (alone.best_iteration_, alone.best_score_, alone.evals_result_) == (6, None, {})


def test_score_is_the_metric_and_greater_is_better():
    fitted = ranker(metric="ndcg@3").fit(TRAIN)
    expected = tr.metric("ndcg@3").mean(fitted.predict(VALID), VALID.labels, VALID.offsets)
    assert (
        fitted.score(VALID)
        == fitted.score(XV, YV, QV)
        == fitted.score(XV, YV, group=[15] * 40)
        == expected
    )
    half = (np.arange(40) < 20).astype(float)
    weighed = tr.metric("ndcg@3").mean(fitted.predict(VALID), VALID.labels, VALID.offsets, half)
    assert fitted.score(VALID, sample_weight=half) == weighed
    assert fitted.score(XV, YV, QV, sample_weight=np.repeat(half, 15)) == weighed
    cost = ranker(metric="arp").fit(TRAIN)
    assert cost.score(VALID) == -tr.metric("arp").mean(
        cost.predict(VALID), VALID.labels, VALID.offsets
    )


def test_loss_and_metric_as_text_or_object():
    expected = ranker("ndcg-loss2++(k=5,mu=10)", metric="ndcg(ties=expected)@3").fit(TRAIN, VALID)
    given = ranker(
        tr.losses.NDCGLoss2PP(k=5, mu=10), metric=tr.metric("ndcg@3", ties="expected")
    ).fit(TRAIN, VALID)
    np.testing.assert_array_equal(given.predict(VALID), expected.predict(VALID))
    assert given.evals_result_ == expected.evals_result_
    assert list(given.evals_result_["valid"]) == ["ndcg(ties=expected)@3"]


def test_rank_orders_documents_and_keeps_row_order_among_equals():
    fitted = ranker().fit(TRAIN)
    order = np.random.default_rng(0).permutation(XV.shape[0])
    for ranking in (fitted.rank(XV[order], QV[order]), fitted.rank(XV, QV), fitted.rank(VALID)):
        assert isinstance(ranking, Ranking)
        assert len(ranking) == XV.shape[0]
        for query in np.unique(QV):
            mine = ranking.qid == query
            assert ranking.rank[mine].tolist() == list(range(1, 16))
            assert (np.diff(ranking.score[mine]) <= 0).all()
            equal = np.diff(ranking.score[mine]) == 0
            assert (np.diff(ranking.document[mine])[equal] > 0).all()
    ranking = fitted.rank(XV[order], QV[order])
    np.testing.assert_array_equal(QV[order][ranking.document], ranking.qid)
    np.testing.assert_array_equal(fitted.predict(XV[order])[ranking.document], ranking.score)
    assert sorted(ranking.document) == list(range(XV.shape[0]))
    assert (ranking.top(3).rank <= 3).all()
    assert len(ranking.top(3)) == 120
    alone = fitted.rank(XV[:7])
    assert set(alone.qid) == {0}
    assert alone.rank.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert len(fitted.rank(np.zeros((0, 4)))) == 0
    assert fitted.rank(np.ones((3, 4)), group=[1, 2]).document.tolist() == [0, 1, 2]


def test_predict_on_no_rows():
    assert ranker().fit(TRAIN).predict(np.zeros((0, 4))).shape == (0,)


def test_random_state_may_be_a_generator_or_none():
    for state in (np.random.RandomState(0), np.random.default_rng(0), None):
        fitted = ranker("xendcg", random_state=state)
        first, second = fitted.fit(TRAIN).predict(VALID), fitted.fit(TRAIN).predict(VALID)
        assert not np.array_equal(first, second)
    big = ranker("xendcg", random_state=2**32 - 1).fit(TRAIN)
    assert np.isfinite(big.predict(VALID)).all()


TWICE = "eval_set: validation data is given twice; expected it once"
FORMS = "(X, y, qid), RankingData, or a dictionary of them by name"
WIDE = np.hstack([X, X[:, :1]])


def wrong(sentence, *arguments, **options):
    return pytest.param(arguments, options, sentence, id=sentence[:40])


WRONG_FIT = [
    wrong(
        "qid, group: found neither; expected one of them, to say which documents belong together",
        X,
        Y,
    ),
    wrong("qid, group: found both; expected one, to say", X, Y, QID, group=[15] * 40),
    wrong("y: found none; expected one label per document", X, None, QID),
    wrong("y: found 599 labels, but X has 600 rows; expected one label per row", X, Y[:-1], QID),
    wrong("qid: found 599 ids, but X has 600 rows; expected one id per row", X, Y, QID[:-1]),
    wrong(
        "group: the sizes sum to 585, but X has 600 rows; expected the same number",
        X,
        Y,
        group=[15] * 39,
    ),
    wrong("y[0]: found ", X, -Y - 1, QID),
    wrong(
        "X: row 0, column 0 has the value inf; expected a finite number",
        np.full_like(X, np.inf),
        Y,
        QID,
    ),
    wrong("X: found 1 dimension; expected 2, documents by features", X[0], Y, QID),
    wrong("X: found no documents; expected at least one", np.zeros((0, 4)), [], []),
    wrong(
        "X: is RankingData, which has labels and queries; expected no y, qid or group with it",
        TRAIN,
        Y,
    ),
    wrong(TWICE, TRAIN, VALID, eval_set=VALID),
    wrong(
        "eval_set: found 5 features; expected 4, as in the training data",
        TRAIN,
        eval_set=(WIDE, Y, QID),
    ),
    wrong("eval_set: y: found 599 labels, but X has 600 rows", TRAIN, eval_set=(XV, YV[:-1], QV)),
    wrong(
        "callbacks: found EarlyStopping of xgboost.callback; expected functions of one argument, a Step "
        "(Ranker itself has early_stopping_rounds, verbose and evals_result_)",
        TRAIN,
        callbacks=[xgboost.callback.EarlyStopping(5)],
    ),
    wrong(f"eval_set: found something else; expected {FORMS}", TRAIN, eval_set=5),
    wrong(f"eval_set: found something else; expected {FORMS}", TRAIN, eval_set=(XV, YV)),
    wrong(f"eval_set: found an empty dictionary; expected {FORMS}", TRAIN, eval_set={}),
    wrong(
        f"eval_set: found a list of sets; expected {FORMS} (tautrank.compat.LGBMRanker takes lists",
        TRAIN,
        eval_set=[VALID, VALID],
    ),
    wrong(
        "eval_set: found a set called 'train'; expected names that are text, none of them 'train'",
        TRAIN,
        eval_set={"train": VALID},
    ),
    wrong(
        "eval_set: found 5 features; expected 4, as in the training data",
        TRAIN,
        eval_set={"first": VALID, "second": (WIDE, Y, QID)},
    ),
    wrong(
        "eval_set: X: found no documents; expected at least one",
        TRAIN,
        eval_set=(XV[:0], YV[:0], QV[:0]),
    ),
    wrong(
        "weights: found length 1; expected 40, one per query, or 600, one per document",
        TRAIN,
        weights=[1.0],
    ),
    wrong(
        "weights: found values of type <U1; expected numbers, one per query",
        TRAIN,
        weights=["a"] * 40,
    ),
    wrong(
        "weights[0]: found -1; expected a finite number of at least 0", TRAIN, weights=[-1.0] * 40
    ),
    wrong(
        "weights: documents of query 100 have different weights; expected one",
        TRAIN,
        weights=np.arange(600),
    ),
    wrong("callbacks: found 3; expected functions of one argument, a Step", TRAIN, callbacks=[3]),
    wrong(
        "init_model: this Ranker is not fitted; expected a call of fit before",
        TRAIN,
        init_model=ranker(),
    ),
    wrong(
        "nowhere.taut: cannot be read (No such file or directory)", TRAIN, init_model="nowhere.taut"
    ),
    wrong(
        "init_model, X: found 4 features; expected 5, as in fit",
        TRAIN,
        init_model=ranker().fit(WIDE, Y, QID),
    ),
    wrong(
        "eval_set: ndcg@10 skips every one of its 40 queries, so training cannot stop by it",
        TRAIN,
        eval_set=(XV, YV * 0, QV),
    ),
    wrong(
        "eval_set: column 2 is 'd'; expected 'c', as in the training data",
        pd.DataFrame(X, columns=NAMES),
        Y,
        QID,
        eval_set=(pd.DataFrame(X, columns=[*"abdc"]), Y, QID),
    ),
]


@pytest.mark.parametrize(("arguments", "options", "sentence"), WRONG_FIT)
def test_wrong_data_for_fit(arguments, options, sentence):
    with pytest.raises(tr.TautrankError) as caught:
        ranker(early_stopping_rounds=3).fit(*arguments, **options)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_wrong_data_for_predict():
    fitted = ranker().fit(pd.DataFrame(X, columns=NAMES), Y, QID)
    padding = "X: found 3 features; expected 4, as in fit (RankingData.with_n_features adds columns of zeros)"
    for given, sentence in (
        (WIDE, "X: found 5 features; expected 4, as in fit"),
        (X[:, :3], padding),
        (
            pd.DataFrame(X, columns=["b", "a", "c", "d"]),
            "X: column 0 is 'b'; expected 'a', as in fit",
        ),
        (pd.DataFrame(X, columns=[*"abce"]), "X: column 3 is 'e'; expected 'd', as in fit"),
        (X[0], "X: found 1 dimension; expected 2, documents by features"),
    ):
        for call in (fitted.predict, lambda given: fitted.score(given, Y, QID), fitted.rank):
            with pytest.raises(tr.DataError, match=f"^{re.escape(sentence)}"):
                call(given)
    with pytest.raises(tr.DataError, match="qid, group: found neither"):
        fitted.score(X, Y)


def test_not_fitted():
    from sklearn.exceptions import NotFittedError

    for call in (
        lambda r: r.predict(X),
        lambda r: r.score(X, Y, QID),
        lambda r: r.rank(X, QID),
        lambda r: r.save("model.taut"),
        lambda r: r.feature_importances_,
    ):
        with pytest.raises(
            tr.TautrankError,
            match=r"^\w+: this Ranker is not fitted; expected a call of fit before$",
        ):
            call(ranker())
        with pytest.raises(NotFittedError):
            call(ranker())
    assert not hasattr(ranker(), "feature_importances_")


def test_a_failed_fit_leaves_the_ranker_as_it_was():
    fitted = ranker().fit(TRAIN)
    before = fitted.predict(VALID)
    with pytest.raises(tr.TautrankError):
        fitted.fit(X, Y[:-1], QID)
    np.testing.assert_array_equal(fitted.predict(VALID), before)


def test_several_validation_sets_by_name():
    fitted = ranker(early_stopping_rounds=2).fit(
        TRAIN, eval_set={"near": VALID, "far": (X, Y, QID)}
    )
    alone = ranker(early_stopping_rounds=2).fit(TRAIN, VALID)
    assert [*fitted.evals_result_] == ["near", "far"]
    assert fitted.evals_result_["near"] == alone.evals_result_["valid"]
    assert fitted.best_score_ == alone.best_score_
    np.testing.assert_array_equal(fitted.predict(VALID), alone.predict(VALID))


def test_fit_has_nine_parameters():
    names = [*inspect.signature(Ranker.fit).parameters]
    assert names == ["self", "X", "y", "qid", "group", "eval_set", "weights", "propensities",
                     "init_model", "callbacks"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "where"),
    [
        ("label_gain", list(range(9)), "the loss's gain, as loss='lambdarank(gain=linear)'"),
        ("lambdarank_truncation_level", 10, "the loss's k, as loss='lambdarank(k=10)'"),
        ("lambdarank_norm", False, "the loss's norm, as loss='lambdarank(norm=lightgbm)'"),
        ("sigmoid", 2.0, "the loss's sigma, as loss='lambdarank(sigma=2)'"),
    ],
)
def test_what_only_lightgbms_objectives_look_at_is_refused(name, value, where):
    with pytest.raises(tr.OptionError) as caught:
        ranker(**{name: value}).fit(TRAIN)
    assert str(caught.value) == f"{name}: is for LightGBM's own objectives; expected {where}"
    ranker("lightgbm:lambdarank", **{name: value}).fit(TRAIN)


def test_several_scores_per_document_are_refused():
    with pytest.raises(
        tr.OptionError, match="num_class: is for LightGBM's own objectives; expected one score"
    ):
        ranker(num_class=3).fit(TRAIN)


def test_on_real_data(shared_data):
    data = tr.data.read_folder(shared_data / "mq2008", fold=1)
    fitted = Ranker(
        "lambdarank",
        metric="ndcg@5",
        n_estimators=200,
        early_stopping_rounds=20,
        n_jobs=1,
        verbose=0,
    )
    fitted.fit(data.train, data.valid)
    assert fitted.n_trees_ < 200
    assert fitted.score(data.test) > 0.55


def test_values_of_another_kind_are_one_sentence(tmp_path):
    for given, sentence in (
        ({"verbose": "loud"}, "verbose: found 'loud'; expected a whole number, or None"),
        ({"eval_train": "yes"}, "eval_train: found 'yes'; expected True or False"),
    ):
        with pytest.raises(tr.OptionError, match=sentence):
            ranker(**given).fit(TRAIN)
    with pytest.raises(
        tr.OptionError, match="callbacks: found 3; expected functions of one argument, a Step"
    ):
        ranker().fit(TRAIN, callbacks=3)
    ranker(n_estimators=2, verbose=False).fit(TRAIN, callbacks=lambda step: False)
    with pytest.raises(tr.DataError, match="path: found 3; expected the path of a file"):
        ranker(n_estimators=1).fit(TRAIN).save(3)


def test_constraints_of_another_length_are_one_sentence(capfd):
    for constraints in ([1], 1, np.array([1])):
        with pytest.raises(
            tr.OptionError, match="monotone_constraints: found 1; expected 4, one per feature"
        ):
            ranker(monotone_constraints=constraints).fit(TRAIN)
    assert "Fatal" not in "".join(capfd.readouterr())


def test_a_loss_without_hessians_is_one_sentence():
    @tr.losses.register("flat")
    @dataclass(frozen=True)
    class Flat(tr.losses.ListLoss):
        @staticmethod
        def one_list(scores, labels, grad, hess):
            for i in range(scores.size):
                grad[i] = scores[i] - labels[i]
            return 0.0

    try:
        with pytest.raises(
            tr.DataError, match="loss flat: all hessians are 0, so no leaf has a value"
        ):
            ranker("flat", n_estimators=1).fit(TRAIN)
    finally:
        del tr.losses.REGISTRY["flat"]
