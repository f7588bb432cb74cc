"""Committees: the members, what they share, and the one model they add up to."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from sklearn.base import clone

import tautrank as tr
from tautrank.engines import Settings, Step, Task, read_loss
from tautrank.engines.committee import CommitteeEngine, SeatedMember
from tautrank.engines.lightgbm import LightGBMModel
from tautrank.engines.member_factors import member_factors
from tautrank.engines.registry import engine_named
from tautrank.engines.sum_model import SumModel, exact_in_float32, weighted_sum
from tautrank.engines.training import train_model
from tautrank.errors import OptionError, TautrankWarning
from tests.ranker_examples import synthetic

FEW = {"n_estimators": 6, "num_leaves": 7, "min_data_in_leaf": 5, "metric": "ndcg@5"}


@pytest.fixture(scope="module")
def train() -> tr.RankingData:
    return synthetic(60, seed=1)


@pytest.fixture(scope="module")
def valid() -> tr.RankingData:
    return synthetic(40, seed=2)


@pytest.fixture(scope="module")
def committee(train: tr.RankingData, valid: tr.RankingData) -> tr.Ranker:
    return tr.Ranker(["lambdarank", "xendcg", "mse"], **FEW).fit(train, valid)


def test_names_are_read_and_printed() -> None:
    for text in (
        "committee",
        "committee(members=2)",
        "committee(of=lambdarank|ndcg-loss2++(k=5,mu=1),weights=fitted)",
    ):
        ranker = tr.Ranker(text)
        assert str(read_loss(ranker.loss)) == text
    given = read_loss(["lambdarank", tr.loss("xendcg", gamma=1.0), "catboost:yetirank"])
    assert str(given) == "committee(of=lambdarank|xendcg(gamma=1)|catboost:YetiRank)"
    assert [str(loss) for loss in read_loss("committee(of=mse|listnet,members=2)").all_members] == [
        "mse",
        "listnet",
    ] * 2


def test_a_sum_of_models_is_one_booster_with_scaled_leaves(train: tr.RankingData) -> None:
    models = [tr.Ranker(loss, **FEW).fit(train).model_ for loss in ("lambdarank", "xendcg")]
    total = weighted_sum(models, [0.5, 3.0])
    assert isinstance(total, LightGBMModel)
    assert total.n_trees == total.booster.num_trees() == 12
    expected = 0.5 * models[0].predict(train.X) + 3.0 * models[1].predict(train.X)
    np.testing.assert_allclose(total.predict(train.X), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        total.booster.predict(train.X, raw_score=True), total.predict(train.X)
    )


def test_float32_adds_the_leaves_of_a_committee_exactly_in_any_order(train: tr.RankingData) -> None:
    committee = tr.Ranker("committee", n_estimators=60, min_data_in_leaf=5).fit(train)
    leaves = committee.model_.leaves(train.X)
    terms = np.array(
        [tree.leaf[leaves[:, number]] for number, tree in enumerate(committee.model_.trees())]
    )
    for order in (np.arange(360), np.arange(360)[::-1], np.random.default_rng(0).permutation(360)):
        total = np.zeros(train.n_documents, np.float32)
        for number in order:
            total += terms[number].astype(np.float32)
        np.testing.assert_array_equal(total, committee.predict(train))


def test_rounding_changes_next_to_nothing_or_is_left_out(train: tr.RankingData) -> None:
    models = [tr.Ranker(loss, **FEW).fit(train).model_ for loss in ("lambdarank", "xendcg")]
    total = weighted_sum(models, [0.5, 3.0])
    rounded = exact_in_float32(total)
    assert (
        np.abs(rounded.predict(train.X) - total.predict(train.X)).max() < total.n_trees * 2.0**-17
    )
    assert not np.array_equal(rounded.predict(train.X), total.predict(train.X))
    large = weighted_sum(models, [1e5, 3.0])
    assert exact_in_float32(large) is large


def test_every_member_has_the_same_spread_within_queries(train: tr.RankingData) -> None:
    models = [tr.Ranker(loss, **FEW).fit(train).model_ for loss in ("mse", "stochasticrank")]
    task = Task(train, tr.loss("mse"), tr.metric("ndcg"))
    for model, factor in zip(models, member_factors(models, task), strict=True):
        scores = factor * model.predict(train.X)
        variances = [
            np.sum((part - part.mean()) ** 2) for part in np.split(scores, train.offsets[1:-1])
        ]
        assert np.sqrt(np.sum(variances) / scores.size) == pytest.approx(1 / 2)


def test_a_committee_is_one_model_of_trees(committee: tr.Ranker, valid: tr.RankingData) -> None:
    assert isinstance(committee.model_, LightGBMModel)
    assert committee.n_trees_ == committee.model_.booster.num_trees() <= 18
    assert committee.best_score_ == pytest.approx(committee.score(valid))
    assert committee.feature_importances_.sum() == pytest.approx(1)


def test_the_same_bits_for_any_number_of_threads(
    train: tr.RankingData, valid: tr.RankingData
) -> None:
    losses = ["lambdarank", "xendcg", "stochasticrank"]
    one, two = (
        tr.Ranker(losses, **FEW, n_jobs=jobs).fit(train, valid).predict(valid) for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.fixture(scope="module")
def stopped(train: tr.RankingData, valid: tr.RankingData) -> dict[int, tr.Ranker]:
    parameters = {**FEW, "n_estimators": 60, "early_stopping_rounds": 4}
    losses = ["lambdarank", "xendcg", "ranknet"]
    return {jobs: tr.Ranker(losses, **parameters, n_jobs=jobs).fit(train, valid) for jobs in (1, 2)}


def test_members_stop_together_when_their_sum_stops_improving(
    stopped: dict[int, tr.Ranker], train: tr.RankingData, valid: tr.RankingData
) -> None:
    ranker = stopped[1]
    rounds, rest = divmod(ranker.n_trees_, 3)
    assert rest == 0
    assert 4 < rounds < 60
    # Each member is the same trained alone for as many rounds, without stopping.
    engine, settings = (
        CommitteeEngine(),
        Settings(rounds, num_leaves=7, extra={"min_data_in_leaf": 5}),
    )
    values = []
    models = []
    for number, loss in enumerate(["lambdarank", "xendcg", "ranknet"]):
        task = Task(train, tr.loss(loss), tr.metric("ndcg@5"), bin_seed=0)
        member = SeatedMember(number, task.loss)
        quiet = dataclasses.replace(settings, n_jobs=1, verbose=0)
        member_settings = engine.member_settings(member, quiet, 100)
        models.append(train_model(engine_named("lightgbm"), task, member_settings)[0])
    for trees in range(1, rounds + 1):
        total = 0.0
        for model in models:
            scores = model.truncated(trees).predict(valid.X)
            variances = [
                np.sum((part - part.mean()) ** 2) for part in np.split(scores, valid.offsets[1:-1])
            ]
            total = total + scores / np.sqrt(np.sum(variances))
        values.append(tr.metric("ndcg@5").mean(total, valid.labels, valid.offsets))
    assert rounds - 1 - int(np.argmax(values)) == 4
    np.testing.assert_allclose(
        ranker.evals_result_["valid"]["ndcg@5"], [*values, ranker.best_score_], rtol=1e-12
    )
    task = Task(train, tr.loss("mse"), tr.metric("ndcg@5"))
    expected = exact_in_float32(weighted_sum(models, member_factors(models, task))).predict(valid.X)
    np.testing.assert_array_equal(ranker.predict(valid), expected)


def test_members_stop_at_the_same_tree_for_any_number_of_threads(
    stopped: dict[int, tr.Ranker], valid: tr.RankingData
) -> None:
    np.testing.assert_array_equal(stopped[1].predict(valid), stopped[2].predict(valid))


def test_the_others_go_on_when_one_member_has_stopped(
    train: tr.RankingData, valid: tr.RankingData
) -> None:
    seen: list[int] = []

    def after_tree(step: Step) -> bool:
        seen.append(step.step)
        return len(seen) == 5

    ranker = tr.Ranker(["lambdarank", "xendcg"], **FEW, n_jobs=1).fit(
        train, valid, callbacks=[after_tree]
    )
    assert ranker.n_trees_ == 3 + 6


def test_a_member_that_fails_ends_the_training(
    train: tr.RankingData, valid: tr.RankingData
) -> None:
    def after_tree(step: Step) -> bool:
        if step.step == 2:
            raise ValueError("a callback of the user")
        return False

    with pytest.raises(ValueError, match="a callback of the user"):
        tr.Ranker(["lambdarank", "xendcg"], **FEW).fit(train, valid, callbacks=[after_tree])


@pytest.mark.parametrize("engine", ["xgboost", "torch"])
def test_other_engines_share_their_data_and_take_turns(
    engine: str, train: tr.RankingData, valid: tr.RankingData
) -> None:
    pytest.importorskip(engine)
    few = {"n_estimators": 3, "num_leaves": 7, "engine": engine}
    one, *others = (
        tr.Ranker(["xendcg", "mse", "listnet"], n_jobs=jobs, **few).fit(train, valid).predict(valid)
        for jobs in (1, 2, 2)
    )
    for found in others:
        np.testing.assert_allclose(found, one, rtol=0, atol=1e-5 if engine == "torch" else 0)


def test_the_user_may_say_how_rows_features_and_thresholds_are_sampled() -> None:
    def own(engine: str, **extra: float) -> Settings:
        member = SeatedMember(1, tr.loss("mse"))
        return CommitteeEngine(engine).member_settings(member, Settings(extra=extra), 100)

    plain = own("lightgbm")
    assert (plain.extra, plain.bagging.share) == (
        {"colsample_bytree": 0.8, "extra_trees": True},
        0.8,
    )
    assert own("lightgbm", sub_feature=0.5).extra == {"sub_feature": 0.5, "extra_trees": True}
    assert own("lightgbm", extra_tree=False).extra == {"extra_tree": False, "colsample_bytree": 0.8}
    assert own("lightgbm", sub_row=0.5).bagging is None
    assert own("xgboost", colsample_bylevel=0.5).extra == {"colsample_bylevel": 0.5}
    assert own("xgboost", subsample=0.5).bagging is None
    assert own("torch", dropout=0.1).extra == {"dropout": 0.1}


def test_trees_of_random_thresholds_have_more_leaves_where_there_are_more_documents() -> None:
    def leaves(documents: int, sees_lists: bool = False, **extra: object) -> int:
        settings = Settings(num_leaves=31, extra=extra)
        member = SeatedMember(0, tr.loss("mse"), sees_lists)
        return CommitteeEngine().member_settings(member, settings, documents).num_leaves

    assert [leaves(n) for n in (0, 62_000, 64_000, 200_000, 248_000, 10**7)] == [
        31,
        31,
        32,
        100,
        124,
        124,
    ]
    assert leaves(10**7, sees_lists=True) == leaves(10**7, extra_trees=False) == 31


@pytest.mark.parametrize(
    "losses", [["lambdarank", "xendcg", "mse"], ["catboost:YetiRank", "mse"], ["mse", "torch:mse"]]
)
def test_every_second_member_sees_the_list_features(
    losses: list[str], train: tr.RankingData, valid: tr.RankingData, tmp_path: object
) -> None:
    if any(loss.startswith(("catboost:", "torch:")) for loss in losses):
        pytest.importorskip(losses[losses[0] == "mse"].partition(":")[0])
    ranker = tr.Ranker(losses, list_features=True, **FEW).fit(train, valid)
    wide, narrow = 3 * train.n_features, train.n_features
    model = ranker.model_
    assert model.n_features == model.importances().size == wide
    if isinstance(model, SumModel):
        assert [each.n_features for each in model.models] == [wide, narrow]
    else:
        seen = [bool((tree.feature >= narrow).any()) for tree in model.trees()]
        assert [any(seen[start : start + 6]) for start in (0, 6, 12)] == [True, False, True]
        options = re.findall(r"\[extra_trees: (\d)\]", model.to_text())
        assert options == ["0"]  # the parameters that are kept are those of the first member
    ranker.save(f"{tmp_path}/model.taut")
    np.testing.assert_array_equal(
        tr.Ranker.load(f"{tmp_path}/model.taut").predict(valid), ranker.predict(valid)
    )
    if not any(loss.startswith("torch:") for loss in losses):
        parts = model.contributions(ranker.list_features_.transform(valid.X, valid.offsets))
        np.testing.assert_allclose(parts.sum(axis=1), ranker.predict(valid), atol=1e-6)


@pytest.mark.parametrize("loss", ["lambdarank", "lightgbm:lambdarank"])
def test_members_of_one_loss_differ_by_their_seeds(loss: str, train: tr.RankingData) -> None:
    single = tr.Ranker(loss, members=1, **FEW).fit(train)
    double = tr.Ranker(loss, members=2, **FEW).fit(train)
    assert double.n_trees_ == 2 * single.n_trees_
    correlation = np.corrcoef(single.predict(train), double.predict(train))[0, 1]
    assert 0.5 < correlation < 1 - 1e-6


def test_saved_and_loaded_it_predicts_the_same_bits(
    committee: tr.Ranker, valid: tr.RankingData, tmp_path: object
) -> None:
    committee.save(f"{tmp_path}/model.taut")
    loaded = tr.Ranker.load(f"{tmp_path}/model.taut")
    np.testing.assert_array_equal(loaded.predict(valid), committee.predict(valid))
    assert loaded.loss == "committee(of=lambdarank|xendcg|mse)"
    assert clone(loaded).fit(valid).n_trees_ > 0


def test_one_loss_can_go_on_from_a_committee(committee: tr.Ranker, train: tr.RankingData) -> None:
    more = tr.Ranker("lambdarank", **FEW).fit(train, init_model=committee)
    assert more.n_trees_ == committee.n_trees_ + 6
    with pytest.raises(OptionError, match="init_model: found a committee, which cannot continue"):
        tr.Ranker("committee", **FEW).fit(train, init_model=committee)


def test_members_of_several_tools_are_kept_side_by_side(
    train: tr.RankingData, valid: tr.RankingData, tmp_path: object
) -> None:
    mixed = tr.Ranker(["lambdarank", "xgboost:rank:ndcg"], n_estimators=6, num_leaves=7).fit(
        train, valid
    )
    assert isinstance(mixed.model_, SumModel)
    mixed.save(f"{tmp_path}/model.taut")
    np.testing.assert_array_equal(
        tr.Ranker.load(f"{tmp_path}/model.taut").predict(valid), mixed.predict(valid)
    )
    assert len(mixed.model_.trees()) >= mixed.n_trees_
    with pytest.raises(tr.DataError, match="members of a committee"):
        SumModel.from_bytes(b"nothing\n", 3)


def test_fitted_weights_are_at_least_as_good_on_the_validation_data(train: tr.RankingData) -> None:
    many = synthetic(500, seed=3)
    equal, fitted = (
        tr.Ranker(f"committee(of=lambdarank|mse,weights={weights})", **FEW)
        .fit(train, many)
        .best_score_
        for weights in ("equal", "fitted")
    )
    assert fitted >= equal


def test_a_member_that_learns_nothing_adds_nothing(train: tr.RankingData) -> None:
    alike = tr.RankingData.from_arrays(train.X, np.ones(train.n_documents), group=train.sizes)
    with pytest.warns(TautrankWarning, match="no tree could be split"):
        ranker = tr.Ranker(["ranknet", "lambdarank"], **FEW).fit(alike)
    assert not ranker.predict(alike).any()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"loss": []}, "expected at least one loss"),
        ({"loss": ["mse", "committee"]}, "a committee in a committee"),
        ({"loss": "committee(of=mze)"}, "unknown loss 'mze'"),
        ({"loss": "committee(member=2)"}, "did you mean 'members'"),
        ({"loss": "committee", "members": 0}, "members: found 0"),
        (
            {"loss": "committee(weights=fitted)"},
            "found 40 validation queries; expected at least 500",
        ),
        ({"loss": "committee(weights=best)"}, "weights"),
    ],
)
def test_bad_committees_are_one_sentence(
    given: dict[str, object], sentence: str, train: tr.RankingData, valid: tr.RankingData
) -> None:
    with pytest.raises(OptionError, match=sentence):
        tr.Ranker(**{**FEW, **given}).fit(train, valid)


def test_a_committee_is_a_system_to_compare(train: tr.RankingData, valid: tr.RankingData) -> None:
    losses = ["lambdarank", "committee(of=mse|xendcg)"]
    result = tr.compare(
        train, valid, valid, losses=losses, metrics=["ndcg@5"], n_estimators=6, num_leaves=7
    )
    assert "committee(of=mse|xendcg)" in str(result)
