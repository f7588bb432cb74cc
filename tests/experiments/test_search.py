"""The plan of a search: what is refused before anything is trained."""

from __future__ import annotations

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError, TautrankError
from tautrank.experiments.search import (
    SearchOptions,
    check_data,
    declare_search,
    range_names,
)
from tautrank.experiments.space import parameters_of

BAD = [
    ({"space": {"min_dat_in_leaf": ("int", 1, 9)}}, "unknown parameter of lightgbm 'min_dat_in_leaf'; did you mean 'min_data_in_leaf'?"),
    ({"space": {"loss.kk": ("int", 1, 9)}}, "unknown parameter of lambdarank: 'loss.kk'; did you mean 'loss.k'?"),
    ({"space": {"los.k": ("int", 1, 9)}}, "unknown parameter of lambdarank: 'los.k'; did you mean 'loss.k'?"),
    ({"space": {"langevin.temprature": ("float", 1, 9)}}, "unknown parameter of lambdarank: 'langevin.temprature'; did you mean 'langevin.temperature'?"),
    ({"space": {"num_leaves": ("int", 9, 9)}}, "num_leaves: found a range from 9 to itself"),
    ({"space": {"num_leaves": ("int", 1, 9)}}, "num_leaves: found 1; expected a whole number of at least 2"),
    ({"space": {"num_leaves": ("float", 2, 9)}}, "num_leaves: found 4.57"),
    ({"space": {"num_leaves": ("int", 2.5, 9)}}, "num_leaves: found 2.5 as an end of the range; expected whole numbers"),
    ({"space": {"learning_rate": ("float", 0, float("nan"))}}, "learning_rate: found nan as an end of the range; expected finite numbers"),
    ({"space": {"learning_rate": ("float", 0, 1, "log")}}, "learning_rate: found a logarithmic range from 0; expected it to start above 0"),
    ({"space": {"learning_rate": ("flaot", 0, 1)}}, "unknown kind of range for learning_rate, 'flaot'; did you mean 'float'?"),
    ({"space": {"learning_rate": 0.1}}, "learning_rate: found 0.1; expected ('float', low, high)"),
    ({"space": {"learning_rate": ("choice",)}}, "learning_rate: found a choice of nothing"),
    ({"space": {"learning_rate": ("choice", 1, 1.0)}}, "learning_rate: found 1.0 twice to choose from"),
    ({"space": {"loss.k": ("float", 1, 9)}}, "loss.k: found 3.94"),
    ({"space": {"loss.sigma": ("float", 0, 9)}}, "loss.sigma: found 0; expected a number above 0"),
    ({"space": {"loss": ("choice", "mse")}}, "loss: found in the space; expected a list of losses as loss"),
    ({"space": {"n_jobs": ("int", 1, 2)}}, "n_jobs: found in the space"),
    ({"space": {"num_leaves": ("int", 2, 9)}, "fixed": {"num_leaves": 5}}, "num_leaves: found in the space and as a fixed parameter"),
    ({"loss": "lambdarank(k=5)", "space": {"loss.k": ("int", 1, 9)}}, "loss.k: found in the space and in lambdarank(k=5); expected it once"),
    ({"loss": "lightgbm:lambdarank", "space": {"loss.k": ("int", 1, 9)}}, "unknown parameter of lightgbm:lambdarank: 'loss.k'"),
    ({"loss": "lightgbm:lambdarank", "space": {"langevin.temperature": ("float", 1, 9)}}, "unknown parameter of lightgbm:lambdarank: 'langevin.temperature'"),
    ({"space": {}}, "space: found nothing in it"),
    ({"space": 3}, "space: found 3; expected a name, or ranges by name"),
    ({"loss": []}, "loss: found none"),
    ({"loss": ["mse", "mse"]}, "loss: found mse twice"),
    ({"sampler": "grid"}, "unknown sampler 'grid' (known: random, tpe)"),
    ({"prune": "median"}, "prune: found 'median'; expected True or False"),
    ({"final_fit": "all"}, "unknown final_fit 'all' (known: train, train+valid)"),
    ({"workers": 0}, "workers: found 0; expected a whole number of at least 1"),
    ({"timeout": 0}, "timeout: found 0; expected a number above 0"),
    ({"seed": -1}, "seed: found -1; expected a whole number of at least 0"),
    ({"fixed": {"min_dat_in_leaf": 3}}, "unknown parameter of lightgbm 'min_dat_in_leaf'"),
    ({"fixed": {"n_estimators": 0}}, "n_estimators: found 0; expected a whole number of at least 1"),
    ({"store": "/no/such/folder/x.db"}, "store: /no/such/folder/x.db: cannot be written (No such file or directory); expected a file"),
]  # fmt: skip


def refuse(loss="lambdarank", space=None, fixed=None, **options):
    """Declare a search with one mistake."""
    SearchOptions(**options)
    declare_search(loss, "ndcg@10", space, fixed)


@pytest.mark.parametrize(("options", "said"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_what_is_wrong_is_one_sentence(options, said):
    with pytest.raises(TautrankError) as error:
        refuse(**options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_data_that_does_not_fit_is_refused():
    train, valid = tr.simulate.simulate_web_search(20, n_features=16, mean_length=5).split(
        [0.6, 0.4]
    )
    nothing = tr.RankingData.from_arrays(np.zeros((4, 16)), np.zeros(4), group=[4])
    search = declare_search()
    for given, said in (
        (valid.with_n_features(20), "valid: found 20 features; expected 16, as in train"),
        (nothing, "valid: ndcg@10 skips every one of its 1 queries"),
        (np.zeros(3), "valid: found ndarray; expected RankingData"),
    ):
        with pytest.raises(DataError, match=said):
            check_data(search, train, given)


def test_ranges_of_one_name_may_differ_by_loss():
    search = declare_search(["lambdarank", "listnet", "xendcg"])
    assert {range_names(search, "lambdarank")[name] for name in ("num_leaves", "loss.k")} == {
        "num_leaves",
        "loss.k",
    }
    assert range_names(search, "xendcg")["loss.hessian"] == "loss.hessian of xendcg"
    assert range_names(search, "listnet")["loss.hessian"] == "loss.hessian of listnet"


def test_how_often_rows_are_sampled_is_set_unless_the_user_sets_it():
    tried = {"loss": "mse", "subsample": 0.5}
    assert parameters_of(tried, {})["subsample_freq"] == 1
    assert "subsample_freq" not in parameters_of(tried, {"bagging_freq": 3})
    assert parameters_of({**tried, "subsample_freq": 4}, {})["subsample_freq"] == 4
