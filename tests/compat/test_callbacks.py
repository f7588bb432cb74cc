"""LightGBM's callbacks."""

from __future__ import annotations

import lightgbm as lgb
import pytest

from tautrank.compat import LGBMRanker
from tautrank.errors import OptionError
from tests.compat.examples import DEV, QID, X, Y

EVAL_SET = (X[DEV], Y[DEV], QID[DEV])


def test_early_stopping_is_the_parameter():
    parameter = LGBMRanker(n_estimators=200, early_stopping_rounds=2)
    expected = parameter.fit(X, Y, qid=QID, eval_set=EVAL_SET)

    ranker = LGBMRanker(n_estimators=200).fit(
        X, Y, qid=QID, eval_set=EVAL_SET, callbacks=[lgb.early_stopping(2, verbose=False)]
    )

    assert ranker.n_trees_ == expected.n_trees_ < 200


def test_record_evaluation_has_the_history():
    history = {}

    ranker = LGBMRanker(n_estimators=3).fit(
        X, Y, qid=QID, eval_set=EVAL_SET, callbacks=[lgb.record_evaluation(history)]
    )

    assert history == ranker.evals_result_


def test_functions_of_a_step_are_called_too():
    values = []

    ranker = LGBMRanker(n_estimators=3).fit(
        X,
        Y,
        qid=QID,
        eval_set=EVAL_SET,
        callbacks=[lgb.log_evaluation(0), lambda step: values.append(step.valid)],
    )

    assert values == ranker.evals_result_["valid"]["ndcg@10"]


WRONG = {
    "a least improvement": (
        lgb.early_stopping(5, min_delta=0.1),
        "callbacks: found EarlyStoppingCallback of lightgbm",
    ),
    "a rate for one tree of 500": (
        lgb.reset_parameter(learning_rate=[0.1]),
        "learning_rate: found 1 of them; expected 500, one per tree",
    ),
    "another parameter": (
        lgb.reset_parameter(max_depth=[1]),
        "with options that have no counterpart",
    ),
}


@pytest.mark.parametrize(("callback", "sentence"), WRONG.values(), ids=WRONG)
def test_what_a_callback_cannot_do_here_is_one_sentence(callback, sentence):
    with pytest.raises(OptionError) as caught:
        LGBMRanker(verbose=0).fit(X, Y, qid=QID, callbacks=[callback])

    assert sentence in str(caught.value)
