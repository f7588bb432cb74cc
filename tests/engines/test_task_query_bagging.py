"""Sampling of whole queries: which are drawn, that documents stay together, and that bits do not
depend on chance.
"""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.gradients import Gradients
from tautrank.engines.task import QueryBagging
from tests.ranker_examples import TRAIN, VALID, ranker, synthetic

BY_QUERY = {"bagging_by_query": True, "bagging_fraction": 0.5, "bagging_freq": 1}


def test_draws_have_the_share_and_differ_from_period_to_period():
    bagging = QueryBagging(0.3, 3, seed=5)
    draws = np.array([bagging.drawn(50, step) for step in range(600)])
    assert (draws.sum(axis=1) == 15).all()
    np.testing.assert_array_equal(draws[::3], draws[1::3])
    np.testing.assert_array_equal(draws[::3], draws[2::3])
    rates = draws[::3].mean(axis=0)  # every query is drawn about as often
    assert (np.abs(rates - 0.3) < 5 * np.sqrt(0.21 / 200)).all()
    assert not np.array_equal(draws[0], draws[3])
    assert not np.array_equal(draws[0], QueryBagging(0.3, 3, seed=6).drawn(50, 0))
    assert QueryBagging(0.01, 1, seed=0).drawn(3, 0).sum() == 1


def test_documents_of_a_query_are_in_or_out_together(monkeypatch):
    seen = []
    given = Gradients.__call__

    def watched(self, *args, **kwargs):
        grad, hess = given(self, *args, **kwargs)
        seen.append((grad.copy(), hess.copy()))
        return grad, hess

    monkeypatch.setattr(Gradients, "__call__", watched)
    ranker("mse", **BY_QUERY).fit(TRAIN)
    for step, (grad, hess) in enumerate(seen):
        drawn = QueryBagging(0.5, 1, seed=0).drawn(TRAIN.n_queries, step)
        np.testing.assert_array_equal(hess.reshape(-1, 20), np.repeat(drawn[:, None], 20, axis=1))
        assert not grad.reshape(-1, 20)[~drawn].any()
    assert len(seen) == 12


def test_a_tree_is_that_of_the_drawn_queries_alone():
    one = {"n_estimators": 1, "random_state": 7}
    bagged = ranker("ndcg-loss2++", **one, **BY_QUERY).fit(TRAIN)
    drawn = QueryBagging(0.5, 1, seed=7).drawn(TRAIN.n_queries, 0)
    np.testing.assert_array_equal(
        bagged.predict(VALID),
        ranker("ndcg-loss2++", **one).fit(TRAIN, weights=drawn).predict(VALID),
    )


@pytest.mark.parametrize("langevin", [None, tr.Langevin(1e4, 0.5)], ids=["plain", "langevin"])
def test_same_bits_for_any_number_of_threads_and_after_continuing(langevin):
    data, more = synthetic(queries=300), {**BY_QUERY, "bagging_freq": 3, "langevin": langevin}
    one, two = (ranker(n_jobs=jobs, **more).fit(data) for jobs in (1, 2))
    np.testing.assert_array_equal(one.predict(data), two.predict(data))
    start = ranker(n_estimators=5, **more).fit(data)
    np.testing.assert_array_equal(
        ranker(n_estimators=7, **more).fit(data, init_model=start).predict(data), one.predict(data)
    )
    assert not np.array_equal(
        one.predict(data), ranker(random_state=1, **more).fit(data).predict(data)
    )
    assert one.score(data) > ranker(n_estimators=1).fit(data).score(data)


def test_where_nothing_is_sampled_the_trees_are_those_without_it():
    plain = ranker().fit(TRAIN).predict(VALID)
    for more in (
        {},
        {"bagging_fraction": 0.5},
        {"bagging_freq": 1},
        {"subsample": 1, "subsample_freq": 5},
    ):
        np.testing.assert_array_equal(
            ranker(bagging_by_query=True, **more).fit(TRAIN).predict(VALID), plain
        )
    by_document = ranker(bagging_fraction=0.5, bagging_freq=1).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(
        ranker(**{**BY_QUERY, "bagging_by_query": False}).fit(TRAIN).predict(VALID), by_document
    )


def test_lightgbm_samples_queries_of_its_own_objectives():
    fitted = ranker("lightgbm:lambdarank", **BY_QUERY).fit(TRAIN)
    assert fitted.score(VALID) > 0.5


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        (
            {"bagging_fraction": 7},
            "bagging_fraction: found 7; expected a number above 0 and at most 1",
        ),
        (
            {"bagging_fraction": 0},
            "bagging_fraction: found 0; expected a number above 0 and at most 1",
        ),
        ({"bagging_freq": -1}, "bagging_freq: found -1; expected a whole number of at least 0"),
        ({"bagging_seed": -1}, "bagging_seed: found -1; expected a whole number of at least 0"),
        (
            {"boosting": "goss"},
            "bagging_by_query: goss samples documents by their gradients; expected one of the two",
        ),
    ],
)
def test_bad_parameters_are_one_sentence(parameters, sentence):
    with pytest.raises(tr.OptionError) as caught:
        ranker(**{**BY_QUERY, **parameters}).fit(TRAIN)
    assert str(caught.value) == sentence
