"""What a study declares, and what a trial of it computes: the same as by hand, the same everywhere."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tautrank as tr
from tautrank.data import Splits
from tautrank.errors import DataError, OptionError
from tautrank.experiments.data_source import read_source
from tautrank.experiments.divide import Change, FixedParts, OnItself, OwnFolds, Resampling, changed, divide, folds_of
from tautrank.experiments.plan import Budget, Condition, Measurement, System
from tautrank.experiments.space import Choice, Search, Uniform
from tautrank.experiments.trial import run_trial
from tautrank.json_values import canonical, from_json, to_json
from tautrank.papers.catalogue import CATALOGUE
from tautrank.papers.claims import Better
from tautrank.papers.run import StudyPlan, make_plan, recognise, run_study
from tautrank.papers.study import Recipe, Study
from tests.study_examples import DATA, SMALL, TINY


def trial_of(study, number=0, **options):
    return make_plan(study, options.pop("data", DATA), budget=options.pop("budget", SMALL), **options).trials()[number]


def pool():
    return tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=3)


# Declarations


@pytest.mark.parametrize("study", [TINY, *CATALOGUE.values()], ids=lambda study: study.name)
def test_a_study_survives_being_written_down(study):
    assert from_json(json.loads(canonical(to_json(study, "plan")))) == study


def test_a_plan_survives_being_written_down():
    study = replace(TINY, systems=(System("mse", parameters={"langevin": tr.Langevin(1e3)}), System("listnet")))
    plan = make_plan(study, DATA, budget=Budget(trials=1), recipe="web30k")
    again = StudyPlan.from_plain(json.loads(canonical(plan.to_plain())))
    assert again == plan
    assert [t.key for t in again.trials()] == [t.key for t in plan.trials()]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "My Study"}, "name: found 'My Study'; expected small letters, digits and hyphens"),
        ({"systems": ()}, "systems: found none; expected at least one"),
        ({"systems": (System("mse"), System("mse"))}, "systems: found 'mse' twice; expected different names"),
        ({"systems": (System("mse"), System("listnt"))}, "unknown loss 'listnt'; did you mean 'listnet'?"),
        ({"metrics": ("ndcg@5", "arpp")}, "unknown metric 'arpp'"),
        ({"baseline": "ms"}, "unknown system 'ms'; did you mean 'mse'?"),
        ({"claims": (Better(better="mse", worse="listnet", metric="ndcg@3"),)}, "unknown metric of a claim 'ndcg@3'"),
        ({"claims": (Better(better="mse", worse="x", metric="ndcg@5"),)}, "unknown system 'x'"),
        ({"conditions": (Condition("a"), Condition("a"))}, "conditions: found 'a' twice; expected different names"),
        ({"recipes": (Recipe("a", "A", systems={"msee": {}}),)}, "unknown system 'msee'; did you mean 'mse'?"),
        ({"trials": 0}, "trials: found 0; expected a whole number of at least 1"),
        ({"judged": ("train",)}, "judged: found ['train']; expected 'test'"),
        ({"curves": ("test",)}, "curves: found ['test']; expected 'train' or 'valid'"),
        ({"systems": (Measurement("jensen"), System("listnet"))}, "unknown "),
    ],
)
def test_what_is_misdeclared_is_said_at_once(change, sentence):
    with pytest.raises(OptionError) as caught:
        replace(TINY, **{"claims": (), "recipes": (), "baseline": "", **change})
    assert str(caught.value).startswith(sentence)


def test_what_cannot_be_written_down_is_refused():
    with pytest.raises(OptionError, match=r"plan\.x: found <object"):
        to_json({"x": object()}, "plan")
    with pytest.raises(DataError, match="found the declaration 'Suprise'"):
        from_json({"=": "Suprise"})


# Parameters


def test_parameters_come_in_layers():
    study = replace(
        TINY,
        parameters={"a": 0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0},
        systems=(System("mse", parameters={"d": 3, "e": 3, "f": 3}), System("listnet")),
        conditions=(Condition("clean", parameters={"c": 2, "d": 2, "e": 2, "f": 2}, systems={"mse": {"f": 5}}),),
        recipes=(Recipe("web30k", "W", {"b": 1, "c": 1, "d": 1, "e": 1, "f": 1}, systems={"mse": {"e": 4, "f": 4}}),),
        claims=(),
    )
    given = trial_of(study).spec["parameters"]
    assert given == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "n_estimators": 2}


def test_a_condition_sets_parameters_of_the_losses_that_have_them():
    study = replace(
        TINY,
        systems=(System("ndcg-loss2++(k=5)", "a"), System("lightgbm:lambdarank", "b")),
        conditions=(Condition("10", 10, loss={"mu": 10.0}, metrics=("ndcg@3",)),),
        claims=(),
        recipes=(),
        baseline="a",
    )
    a, b = (trial_of(study, number).spec for number in (0, 1))
    assert (a["loss"], b["loss"], a["metrics"]) == ("ndcg-loss2++(k=5,mu=10)", "lightgbm:lambdarank", ["ndcg@3"])


def test_recipes_are_found_by_what_the_data_looks_like():
    assert [recognise(136, n)[0] for n in (200, 9000, 31000)] == ["web30k", "web10k", "web30k"]
    assert recognise(700, 6000) == ("yahoo2", False)
    study = replace(TINY, recipes=(Recipe("web30k", "W"), Recipe("yahoo1", "Y", {"num_leaves": 9})), claims=())
    assert make_plan(study, "simulated:yahoo:10", budget=SMALL).recipe == "yahoo1"
    assert make_plan(study, DATA, budget=SMALL).recipe == "web30k"  # like none of them: the first
    assert make_plan(study, DATA, budget=SMALL, recipe="yahoo1").trials()[0].spec["parameters"]["num_leaves"] == 9
    with pytest.raises(OptionError, match="unknown recipe 'yahoo'; did you mean 'yahoo1'"):
        make_plan(study, DATA, budget=SMALL, recipe="yahoo")


# Trials


def test_a_trial_is_the_training_one_would_do_by_hand():
    trial = trial_of(TINY, 3)  # the first repetition, noisy, listnet
    spec = trial.spec
    assert (spec["trial"], spec["condition"], spec["system"]) == (0, "noisy", "listnet")
    found = run_trial(spec)
    splits = Splits(*pool().split([0.6, 0.2, 0.2], seed=spec["seed"]))
    noisy = changed(splits, (Change("perturb-labels", {"probability": 0.4}),), spec["seed"])
    assert noisy.test is splits.test
    ranker = tr.Ranker("listnet", "ndcg@5", n_estimators=2, num_leaves=3, min_data_in_leaf=5, n_jobs=1,
                       early_stopping_rounds=2, random_state=spec["seed"])  # fmt: skip
    scores = ranker.fit(noisy.train, noisy.valid).predict(noisy.test)
    for name in ("ndcg@5", "arp"):
        expected = tr.metric(name).per_query(scores, splits.test.labels, splits.test.offsets)
        np.testing.assert_array_equal(np.array(found["test"][name], float), expected)
        assert found["means"]["test"][name] == pytest.approx(np.nanmean(expected), rel=1e-15)
    assert found["queries"] == {"train": 24, "valid": 8, "test": 8}
    assert found["trees"] == ranker.n_trees_
    assert found == json.loads(canonical(found))


def test_a_trial_gives_the_same_bits_for_any_number_of_threads():
    one, two = (trial_of(TINY, n_jobs=n) for n in (1, 2))
    assert one.key != two.key
    assert canonical(run_trial(one.spec)) == canonical(run_trial(two.spec))


def test_all_systems_and_conditions_of_a_trial_share_seed_and_queries():
    plan = make_plan(TINY, DATA, budget=Budget(trials=3))
    seeds = {}
    for trial in plan.trials():
        seeds.setdefault(trial.spec["trial"], set()).add(trial.spec["seed"])
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 3
    other = make_plan(TINY, DATA, budget=Budget(trials=3), seed=1)
    assert not {t.key for t in plan.trials()} & {t.key for t in other.trials()}


def test_more_trials_begin_with_the_fewer():
    few, many = (make_plan(TINY, DATA, budget=Budget(trials=n)).trials() for n in (2, 4))
    assert [t.key for t in few] == [t.key for t in many[: len(few)]]


def test_search_takes_the_best_by_validation():
    search = Search(
        {"num_leaves": Choice((2, 3, 5)), "learning_rate": Uniform(0.01, 0.5, log=True)},
        {"listnet": {"langevin.temperature": Uniform(1e5, 1e6), "loss.target": Choice(("softmax",))}},
    )
    study = replace(TINY, search=search, parameters={"min_data_in_leaf": 5}, systems=(System("mse"), System("listnet")))
    budget = Budget(trials=1, configurations=4, trees=4)
    for number, name in ((0, "mse"), (1, "listnet")):
        spec = trial_of(study, number, budget=budget).spec
        found = run_trial(spec)
        tried = found["tried"]
        assert [attempt["configuration"] for attempt in tried] == search.draw(name, 4, (0, 0))
        best = max(tried, key=lambda attempt: attempt["valid"])
        assert (found["configuration"], found["valid"]) == (best["configuration"], best["valid"])
        assert found["means"]["test"] == best["test"]
    splits = Splits(*pool().split([0.6, 0.2, 0.2], seed=spec["seed"]))
    chosen = found["configuration"]
    ranker = tr.Ranker("listnet(target=softmax)", "ndcg@5", n_estimators=4, min_data_in_leaf=5, n_jobs=1,
                       num_leaves=chosen["num_leaves"], learning_rate=chosen["learning_rate"],
                       langevin=tr.Langevin(chosen["langevin.temperature"]), random_state=spec["seed"])  # fmt: skip
    ranker.fit(splits.train, splits.valid)
    assert ranker.score(splits.test) == pytest.approx(found["means"]["test"]["ndcg@5"], rel=1e-12)


def test_other_parts_and_curves_are_recorded():
    study = replace(
        TINY, judged=("test", "train", "valid"), curves=("valid", "train"), parameters={"min_data_in_leaf": 5}
    )
    found = run_trial(trial_of(study, budget=Budget(trials=1, trees=7)).spec)
    assert set(found["means"]) == {"test", "train", "valid"}
    assert len(found["curves"]["valid"]) == len(found["curves"]["train"]) == found["trees"] == 7
    assert found["curves"]["valid"][-1] == pytest.approx(found["valid"])
    assert found["curves"]["train"][-1] == pytest.approx(found["means"]["train"]["ndcg@5"])


def test_a_model_that_ranks_nothing_is_counted():
    result = run_study(replace(TINY, parameters={"min_data_in_leaf": 10_000}), DATA, budget=SMALL)
    assert result.n_constant == 8
    assert "8 models found no split and rank nothing" in result.to_markdown()


def test_a_measurement_needs_no_data():
    measured = Measurement("jensen-clouds", "m", {"examples": 4, "draws": 5})
    metrics = ("smallest-gap", "mean-gap")
    study = Study(name="clouds", title="Clouds", paper="p", claim="c", systems=(measured,), metrics=metrics, trials=2)
    result = run_study(study)
    from tautrank.theory.gamma import jensen_clouds

    seed = make_plan(study).trials()[1].spec["seed"]
    expected = jensen_clouds(4, draws=5, seed=seed).gaps.mean()
    assert result.cell("plain", "m", "mean-gap").means[1] == pytest.approx(expected)
    assert np.shape(result.points["plain", "m"]["gaps"]) == (4, 5)
    wrong = replace(study, metrics=("smallest",))
    assert run_study(wrong).failures[0].error.startswith("metrics: found 'smallest'; expected what is measured")


# Dividing


def test_resampling_divides_every_trial_anew():
    data = pool()
    first, second = (divide(data, Resampling(), t, 0, seed) for t, seed in ((0, 5), (1, 6)))
    for splits in (first, second):
        ids = np.concatenate([part.qids for part in splits])
        assert sorted(ids.tolist()) == sorted(data.qids.tolist())
    assert set(first.test.qids) != set(second.test.qids)


@settings(max_examples=20, deadline=None)
@given(st.integers(5, 30), st.integers(0, 99))
def test_folds_of_undivided_data_test_every_query_once(n, seed):
    data = tr.RankingData.from_arrays([[0.0]] * n, [1] * n, group=[1] * n)
    splits = [divide(data, OwnFolds(), trial, seed, trial) for trial in range(5)]
    assert sorted(q for s in splits for q in s.test.qids.tolist()) == list(range(n))
    for s in splits:
        assert sorted(np.concatenate([part.qids for part in s]).tolist()) == list(range(n))


def test_fixed_parts_keep_the_test_queries():
    data = pool()
    fixed = [divide(data, FixedParts(), t, 0, 100 + t) for t in range(2)]
    redivided = [divide(data, FixedParts(redivide=True), t, 0, 100 + t) for t in range(3)]
    for splits in (*fixed, *redivided):
        np.testing.assert_array_equal(splits.test.qids, fixed[0].test.qids)
    np.testing.assert_array_equal(fixed[0].train.qids, fixed[1].train.qids)
    assert set(redivided[1].train.qids) != set(redivided[2].train.qids)
    without = divide(Splits(fixed[0].train, None, fixed[0].test), FixedParts(), 0, 0, 1)
    assert without.valid.n_queries == round(0.2 * fixed[0].train.n_queries)
    itself = divide(data, OnItself(), 0, 0, 1)
    assert itself.train is itself.test is data


def test_folds_of_a_folder_are_the_trials(tmp_path):
    parts = pool().split([0.2] * 5, seed=0)
    for i, part in enumerate(parts, 1):
        tr.write_letor(part, tmp_path / f"S{i}.txt")
    plan = make_plan(replace(TINY, protocol=OwnFolds()), str(tmp_path), budget=Budget(trials=6, trees=1))
    assert [fold for fold, _ in plan.fingerprints] == [1, 2, 3, 4, 5]
    assert [t.spec["data"]["fold"] for t in plan.trials()[::4]] == [1, 2, 3, 4, 5, 1]
    one = make_plan(replace(TINY, protocol=OwnFolds()), str(tmp_path), budget=SMALL, fold=4)
    assert {t.spec["data"]["fold"] for t in one.trials()} == {4}
    assert run_trial(one.trials()[0].spec)["queries"] == {"train": 24, "valid": 8, "test": 8}
    pooled = make_plan(TINY, str(tmp_path), budget=SMALL)
    assert run_trial(pooled.trials()[0].spec)["queries"] == {"train": 24, "valid": 8, "test": 8}
    assert folds_of(FixedParts(fold=3), 7, [1, 2, 3, 4, 5]) == [3]


def test_three_files_are_the_three_parts(tmp_path):
    files = []
    for name, part in zip(("train", "valid", "test"), pool().split([0.5, 0.25, 0.25], seed=0), strict=True):
        tr.write_letor(part, tmp_path / f"{name}.txt")
        files.append(str(tmp_path / f"{name}.txt"))
    plan = make_plan(replace(TINY, protocol=FixedParts()), files, budget=SMALL)
    assert run_trial(plan.trials()[0].spec)["queries"] == {"train": 20, "valid": 10, "test": 10}
    assert plan.n_queries == 40


# Data and noise


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("simulated:mlsr:200", "unknown shape of simulated data 'mlsr'; did you mean 'mslr'?"),
        ("simulated:mslr", "--data: found 'simulated:mslr'; expected simulated:SHAPE:QUERIES"),
        ("simulated:mslr:many", "--data: found 'simulated:mslr:many'; expected simulated:SHAPE:QUERIES"),
        ("simulated:mslr:9,sed=1", "unknown parameter of simulated data 'sed'; did you mean 'seed'?"),
        ("simulated:mslr:9,seed=x", "--data: found 'simulated:mslr:9,seed=x'; expected"),
        ("simulted:mslr:9", "--data: found no file or folder 'simulted:mslr:9'; did you mean 'simulated:mslr:9'?"),
        ("five-document", "--data: found no file or folder 'five-document'; did you mean 'five-documents'?"),
        ((), "--data: found 0 names"),
    ],
)
def test_data_that_is_misspelt(given, sentence):
    with pytest.raises((OptionError, DataError)) as caught:
        read_source(given)
    assert str(caught.value).startswith(sentence)


def test_a_misspelt_path_is_told_from_its_neighbours(tmp_path):
    (tmp_path / "MSLR-WEB10K").mkdir()
    with pytest.raises(DataError, match=r"did you mean '.*MSLR-WEB10K'"):
        read_source(str(tmp_path / "MSLR-WEB1OK"))
    with pytest.raises(DataError, match="is a directory; expected a file"):
        read_source([str(tmp_path), str(tmp_path)]).read()


def test_training_needs_data():
    with pytest.raises(OptionError, match="--data: found none; expected a folder"):
        make_plan(TINY)
    with pytest.raises(OptionError, match=r"--data: found none; expected a folder, .*, since tiny trains models"):
        make_plan(TINY, "none")


def test_more_noise_keeps_what_less_noise_changed():
    splits = Splits(pool(), pool(), pool())
    levels = [changed(splits, (Change("perturb-labels", {"probability": p}),), 7).train.labels for p in (0.2, 0.6)]
    moved = [labels != splits.train.labels for labels in levels]
    assert moved[0].sum() < moved[1].sum()
    np.testing.assert_array_equal(levels[1][moved[0]], levels[0][moved[0]])


def test_parts_have_noise_of_their_own():
    splits = Splits(pool(), pool(), pool())
    both = changed(splits, (Change("perturb-labels", {"probability": 0.5}, ("train", "valid")),), 7)
    assert not np.array_equal(both.train.labels, both.valid.labels)
    assert both.test is splits.test
