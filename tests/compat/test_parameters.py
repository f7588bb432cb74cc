"""Dictionaries of LightGBM's parameters as rankers."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

import tautrank as tr
from tautrank.compat import LGBMRanker
from tautrank.errors import OptionError
from tests.compat.examples import GROUP, QID, X, Y

FIFTEEN = {
    "objective": "lambdarank",
    "metric": "ndcg",
    "eval_at": [10],
    "num_boost_round": 15,
    "eta": 0.2,
    "max_leaf": 7,
    "min_child_samples": 5,
    "reg_lambda": 1.0,
    "feature_fraction": 0.9,
    "max_bin": 63,
    "lambdarank_truncation_level": 12,
    "label_gain": [0, 1, 5],
    "seed": 4,
    "num_threads": 1,
    "verbosity": -1,
}
# What this library sets so that the same data gives the same model.
REPEATABLE = {
    "deterministic": True,
    "force_row_wise": True,
    "data_random_seed": 4,
    "feature_pre_filter": False,
}


def test_a_dictionary_of_fifteen_names_is_ported_in_one_go():
    booster = lgb.train({**FIFTEEN, **REPEATABLE}, lgb.Dataset(X, Y, group=GROUP))

    ranker = LGBMRanker.from_lightgbm(FIFTEEN).fit(X, Y, qid=QID)

    assert np.array_equal(ranker.predict(X), booster.predict(X))
    assert ranker.get_params()["lambdarank_truncation_level"] == 12


def test_an_estimator_is_ported():
    theirs = lgb.LGBMRanker(num_leaves=5, subsample=0.5)

    ranker = LGBMRanker.from_lightgbm(theirs)

    assert ranker.num_leaves == 5
    assert ranker.get_params()["bagging_fraction"] == 0.5


def test_a_loss_of_this_library_gets_the_parameters_of_the_objective():
    ranker = LGBMRanker.from_lightgbm(FIFTEEN, loss="lambdarank", sigmoid=2.0, lambdarank_norm=True)

    assert str(ranker.loss) == "lambdarank(k=12,sigma=2,norm=lightgbm,gain=0/1/5)"
    ranker.fit(X, Y, qid=QID)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(None, None), (0, None), (-1, None), (5, 5)], ids=str
)
def test_no_or_zero_rounds_turn_early_stopping_off(rounds, expected):
    ranker = LGBMRanker.from_lightgbm({"early_stopping_round": rounds})

    assert ranker.early_stopping_rounds == expected


def test_all_wrong_names_are_told_at_once():
    ranker = tr.Ranker(
        objective="lambdarank", eval_at=[5], seed=1, num_thread=2, label_gain=[0, 1], typo=1
    )

    with pytest.raises(OptionError) as caught:
        ranker.fit(X, Y, qid=QID)

    names = [sentence.split(":")[0].split(" '")[0] for sentence in str(caught.value).split(". ")]
    assert names == [
        "objective",
        "eval_at",
        "seed",
        "num_thread",
        "label_gain",
        "unknown parameter of lightgbm",
    ]
    with pytest.raises(OptionError, match=r"'typo'.* task: is for LightGBM's command line"):
        LGBMRanker.from_lightgbm({"typo": 1, "task": "train"})
