"""``speed="fast"``: coarser bins and quantised gradients, and still the same trees for any number
of threads.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import tautrank as tr
from tautrank import Ranker, RankingData
from tautrank.engines.choosing import read_loss
from tautrank.engines.committee import CommitteeEngine, SeatedMember
from tautrank.engines.lightgbm import parameters
from tautrank.engines.task import Settings, Task
from tautrank.errors import OptionError


@pytest.fixture(scope="module")
def data() -> RankingData:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((3000, 8)).astype(np.float32)
    labels = np.clip(np.rint(X[:, 0] + X[:, 1] * X[:, 2] + draw.standard_normal(3000)), 0, 4)
    return RankingData.from_arrays(X, labels, group=[20] * 150)


def test_it_sets_what_the_user_does_not(data: RankingData) -> None:
    task = Task(train=data, loss=tr.loss("lambdarank"), metric=tr.metric("ndcg@10"))
    fast = parameters(task, Settings(speed="fast", extra={"max_bins": 15}))
    assert (fast["max_bin"], fast["use_quantized_grad"], fast["num_grad_quant_bins"]) == (
        15,
        True,
        16,
    )
    assert fast["bin_construct_sample_cnt"] == 20_000
    assert not {"max_bin", "use_quantized_grad"} & parameters(task, Settings()).keys()


@pytest.mark.parametrize("loss", ["lambdarank", "xendcg", "ranknet"])
def test_it_learns_as_well_and_the_same_for_any_number_of_threads(
    loss: str, data: RankingData
) -> None:
    scores = {}
    for speed, n_jobs in (("exact", 1), ("fast", 1), ("fast", 2), ("fast", 3)):
        ranker = Ranker(loss, n_estimators=30, learning_rate=0.1, speed=speed, n_jobs=n_jobs).fit(
            data
        )
        scores[speed, n_jobs] = ranker.predict(data)
        last = ranker.score(data)
        if speed == "exact":
            exact = last
        assert last > exact - 0.02
    assert np.array_equal(scores["fast", 1], scores["fast", 2])
    assert np.array_equal(scores["fast", 1], scores["fast", 3])
    assert not np.array_equal(scores["fast", 1], scores["exact", 1])


@pytest.mark.parametrize("how", [
    {"loss": "lightgbm:lambdarank"}, {"extra_trees": True}, {"force_col_wise": True}, {"boosting": "goss"},
    {"colsample_bynode": 0.5}, {"bagging_by_query": True, "bagging_fraction": 0.7, "bagging_freq": 1},
])  # fmt: skip
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_trees_do_not_depend_on_threads(
    how: dict[str, object], kind: str, data: RankingData
) -> None:
    """Nor does a model that continues another one."""
    X = csr_matrix(np.where(np.abs(data.X) < 1, 0, data.X)) if kind == "sparse" else data.X
    some = dataclasses.replace(data, X=X)
    found = []
    for n_jobs in (1, 2, 2, 3):
        fixed = {"speed": "fast", "n_jobs": n_jobs, "early_stopping_rounds": None, **how}
        ranker = Ranker(n_estimators=8, **fixed).fit(some, some)
        more = Ranker(n_estimators=5, **fixed).fit(some, some, init_model=ranker)
        assert more.n_trees_ == ranker.n_trees_ + 5
        assert more.score(some) > ranker.score(some)
        found.append((ranker.predict(some), more.predict(some)))
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.parametrize("loss", ["mse", "lambdarank", "lightgbm:lambdarank"])
def test_very_sparse_data(loss: str, data: RankingData) -> None:
    sparse = dataclasses.replace(data, X=csr_matrix(np.where(np.abs(data.X) < 1.7, 0, data.X)))
    fixed = {"n_estimators": 8, "speed": "fast", "early_stopping_rounds": None}
    one, *others = (
        Ranker(loss, n_jobs=n_jobs, **fixed).fit(sparse).predict(sparse) for n_jobs in (1, 1, 2, 2)
    )
    for other in others:
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("columns", [20, 100])
def test_columns_that_lightgbm_would_bundle(columns: int, data: RankingData) -> None:
    """A dense array with a category as columns of 0 and 1, which LightGBM would put into one."""
    codes = np.random.default_rng(1).integers(0, columns, data.n_documents)
    some = dataclasses.replace(
        data, X=np.column_stack((data.X, np.eye(columns, dtype=np.float32)[codes]))
    )
    fixed = {"loss": "ndcg-loss2++", "n_estimators": 20, "speed": "fast"}
    one = Ranker(n_jobs=1, **fixed).fit(some).predict(some)
    for how in ({"n_jobs": 2}, {"n_jobs": 3}, {"force_col_wise": True}):
        np.testing.assert_array_equal(Ranker(**fixed, **how).fit(some).predict(some), one)


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ({"colsample_bytree": 0.5}, {"colsample_bynode": 0.5}),
        ({"colsample_bytree": 0.5, "colsample_bynode": 0.6}, {"colsample_bynode": 0.3}),
        (
            {"subsample": 0.7, "subsample_freq": 2},
            {"bagging_by_query": True, "subsample": 0.7, "subsample_freq": 2},
        ),
    ],
)
def test_samples_that_leave_its_sums_right(
    given: dict[str, float], instead: dict[str, float], data: RankingData
) -> None:
    """LightGBM's sums of integers are wrong for features by tree and for documents
    (LightGBM#7397).
    """
    one, other = (
        Ranker("lambdarank", n_estimators=20, speed="fast", **how).fit(data)
        for how in (given, instead)
    )
    np.testing.assert_array_equal(one.predict(data), other.predict(data))
    for share in (0, 2, "half"):
        with pytest.raises(
            OptionError, match=f"feature_fraction: found {share!r}; expected a number above 0"
        ):
            Ranker(feature_fraction=share, speed="fast").fit(data)


def test_committees_and_tuned_rates_train_fast_too(data: RankingData) -> None:
    committee = Ranker(
        ["lambdarank", "xendcg"], n_estimators=10, learning_rate=0.1, speed="fast"
    ).fit(data)
    assert committee.score(data) > 0.6
    again = Ranker(
        ["lambdarank", "xendcg"], n_estimators=10, learning_rate=0.1, speed="fast", n_jobs=2
    ).fit(data)
    assert np.array_equal(committee.predict(data), again.predict(data))


def test_members_with_an_objective_of_lightgbm_learn_from_all_documents(data: RankingData) -> None:
    # Their documents would be sampled by LightGBM, whose sum is then wrong (LightGBM#7397).
    for speed, sampled in (("exact", True), ("fast", False)):
        member = SeatedMember(1, read_loss("lightgbm:lambdarank"))
        settings = CommitteeEngine().member_settings(member, Settings(speed=speed), 3000)
        assert ("subsample" in settings.extra) == sampled
    losses = ["lambdarank", "lightgbm:lambdarank", "lightgbm:rank_xendcg"]
    committee = Ranker(losses, n_estimators=20, learning_rate=0.1, speed="fast").fit(data)
    assert committee.score(data) > 0.6


def test_lists_without_gradients_are_no_trouble() -> None:
    data = RankingData.from_arrays(np.arange(40.0)[:, np.newaxis], np.zeros(40), group=[10] * 4)
    with pytest.warns(tr.TautrankWarning, match="no tree could be split"):
        assert not Ranker(n_estimators=3, speed="fast").fit(data).predict(data).any()


def test_what_it_cannot_do_is_refused(data: RankingData) -> None:
    with pytest.raises(OptionError, match="unknown speed 'fats'; did you mean 'fast'"):
        Ranker(speed="fats").fit(data)
    with pytest.raises(
        OptionError, match="speed: found 'fast' with langevin; expected 'exact', or LightGBM"
    ):
        Ranker(speed="fast", langevin=tr.Langevin()).fit(data)
    with pytest.raises(OptionError, match="speed: found 'fast' with XGBoost"):
        Ranker(speed="fast", engine="xgboost").fit(data)
