"""Comparing losses: the table, its honesty about repeats, stopping and going on."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import stats

import tautrank as tr
from tautrank.data import Splits
from tautrank.errors import DataError, OptionError
from tautrank.experiments import comparison as study
from tautrank.experiments.space import random_configurations
from tautrank.significance.paired import holm
from tautrank.significance.repeated import repeated_runs_test
from tests import dying_workers

SMALL = {"n_estimators": 8, "num_leaves": 7, "min_child_samples": 5}


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(90, n_features=16, mean_length=15, seed=3).split([0.5, 0.2, 0.3])


@pytest.fixture(scope="module")
def result(parts):
    return tr.compare(
        *parts, losses=["lightgbm:lambdarank", "lambdarank", "mse"], metrics=["ndcg@5", "arp"], repeats=3, **SMALL
    )


def test_values_are_what_training_by_hand_gives(parts, result):
    train, valid, test = parts
    ranker = tr.Ranker(loss="mse", metric="ndcg@5", **SMALL).fit(train, valid)
    expected = tr.metric("ndcg@5").per_query(ranker.predict(test), test.labels, test.offsets)
    np.testing.assert_array_equal(result.systems[2].values["ndcg@5"][0], expected)  # the first repeat: as given
    assert not np.array_equal(result.systems[2].values["ndcg@5"][1], expected)


def test_letters_come_from_the_repeated_runs_test_and_holm(parts, result):
    m = tr.metric("ndcg@5")
    values = [system.values["ndcg@5"] for system in result.systems]
    overlap = parts[1].n_queries / parts[0].n_queries
    assert result.overlap == pytest.approx(overlap)
    pairs = [(0, 1), (0, 2), (1, 2)]
    p = [repeated_runs_test(values[i], values[j], overlap=overlap).p_value for i, j in pairs]
    got = result.tests(m)
    np.testing.assert_allclose([t.p_value for t in got], p)
    np.testing.assert_allclose([t.adjusted for t in got], holm(p))
    means = [np.nanmean(v) for v in values]
    for (i, j), test in zip(pairs, got, strict=True):
        assert (test.better, test.worse) == ((i, j) if means[i] > means[j] else (j, i))


def made_up(values, metrics=("ndcg@5",), **options):
    """A comparison of made-up per-query values, one system each."""
    from tautrank.report.comparison import Comparison

    plan = study.Plan(
        tuple("abcdef"[: len(values)]), tuple(tr.metric(m) for m in metrics), repeats=len(values[0]), **options
    )
    systems = tuple(
        study.SystemResult(name, {metrics[0]: np.asarray(v, float)}, [1], [1.0], [0.5], None)
        for name, v in zip(plan.names(), values, strict=True)
    )
    return Comparison(plan, systems, 0.0)


def test_a_clear_winner_gets_the_letters_of_the_others():
    rng = np.random.default_rng(0)
    base = rng.random((3, 60)) * 0.3
    result = made_up([base, base + 0.3 + 0.01 * rng.random((3, 60)), base])
    m = result.plan.metrics[0]
    assert result.wins(m) == [[], [0, 2], []]
    assert "ᵃᶜ" in str(result)
    assert "$^{ac}$" in result.to_latex()
    assert "<sup>ac</sup>" in result.to_html()
    assert result.win_tie_loss(m, 1) == (60, 0, 0)
    assert result.win_tie_loss(m, 2) == (0, 60, 0)


def test_for_a_cost_the_lower_value_wins():
    rng = np.random.default_rng(0)
    base = rng.random((3, 60))
    result = made_up([base + 5, base + 0.01 * rng.random((3, 60))], metrics=("arp",))
    assert result.wins(result.plan.metrics[0]) == [[], [0]]
    assert result.win_tie_loss(result.plan.metrics[0], 1) == (60, 0, 0)


def test_every_form_holds_the_same_numbers(result):
    plain = result.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    for system, entry in zip(result.systems, plain["systems"], strict=True):
        mean = system.means("ndcg@5").mean()
        assert entry["metrics"]["ndcg@5"]["mean"] == pytest.approx(mean)
        for text in (str(result), result.to_latex(), result.to_html(), result.to_markdown()):
            assert f"{mean:.4f}" in text
    assert "lower is better" in str(result)


@pytest.mark.parametrize("form", ["to_csv", "to_latex", "to_markdown", "to_html"])
def test_a_path_gets_what_is_returned(result, tmp_path, form):
    text = getattr(result, form)(tmp_path / "out")
    assert (tmp_path / "out").read_text() == text == getattr(result, form)()
    with pytest.raises(DataError, match="cannot be written"):
        getattr(result, form)(tmp_path / "nowhere" / "out")


def test_all_systems_of_a_repeat_see_the_same_split(parts):
    plan = study.Plan(("mse", "xendcg"), (tr.metric("ndcg@5"),), repeats=3)
    splits = Splits(*parts)
    seen = {}
    for repeat in range(3):
        trains = [study.divided(plan, splits, study.Unit(0, repeat, system))[0] for system in (0, 1)]
        np.testing.assert_array_equal(trains[0].qids, trains[1].qids)
        seen[repeat] = tuple(trains[0].qids.tolist())
    assert len(set(seen.values())) == 3
    assert seen[0] == tuple(parts[0].qids.tolist())


def test_without_validation_data_a_fifth_is_held_out(parts):
    plan = study.Plan(("mse",), (tr.metric("ndcg@5"),))
    train, valid = study.divided(plan, Splits(parts[0], None, parts[2]), study.Unit(0, 0, 0))
    assert valid.n_queries == round(0.2 * parts[0].n_queries)
    assert train.n_queries + valid.n_queries == parts[0].n_queries


def test_tuning_picks_by_validation_and_reports_all_it_tried(parts):
    result = tr.compare(*parts, losses=["mse"], metrics=["ndcg@5"], repeats=1, tune=3, n_estimators=5)
    system = result.systems[0]
    train, valid, test = parts
    scores, tests = [], []
    for configuration in random_configurations(3, (0, 0, 0, 0)):
        ranker = tr.Ranker(loss="mse", metric="ndcg@5", n_estimators=5, subsample_freq=1, **configuration).fit(
            train, valid
        )
        scores.append(ranker.score(valid))
        tests.append(ranker.score(test))
    assert system.valid == [pytest.approx(max(scores))]
    assert system.means("ndcg@5")[0] == pytest.approx(tests[int(np.argmax(scores))])
    assert system.untuned["ndcg@5"][0] == pytest.approx(np.mean(tests))
    assert "all tried" in str(result)


def test_folds_count_every_query_once(parts):
    from tautrank.experiments.compare import compare_splits

    train, valid, test = parts
    result = compare_splits(
        [Splits(train, valid, test), Splits(train, test, valid)], ["mse"], ["ndcg@5"], repeats=2, parameters=SMALL
    )
    assert result.systems[0].values["ndcg@5"].shape == (2, test.n_queries + valid.n_queries)


def test_side_by_side_gives_the_same_numbers(parts, result):
    again = tr.compare(
        *parts,
        losses=["lightgbm:lambdarank", "lambdarank", "mse"],
        metrics=["ndcg@5", "arp"],
        repeats=3,
        workers=2,
        **SMALL,
    )
    for a, b in zip(result.systems, again.systems, strict=True):
        np.testing.assert_array_equal(a.values["ndcg@5"], b.values["ndcg@5"])


def test_a_training_whose_worker_is_killed_is_done_again_by_another(parts, result):
    def kill_one(done, total, what):
        if done == 1:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    names = [system.name for system in result.systems]
    again = tr.compare(
        *parts, losses=names, metrics=["ndcg@5", "arp"], repeats=3, workers=2, progress=kill_one, **SMALL
    )
    for a, b in zip(result.systems, again.systems, strict=True):
        np.testing.assert_array_equal(a.values["ndcg@5"], b.values["ndcg@5"])


def test_a_training_that_kills_every_worker_is_one_sentence(parts, monkeypatch):
    monkeypatch.setattr(study, "_run_in_process", dying_workers.dies)
    with pytest.raises(DataError, match=r"^mse repeat \d: its worker died 3 times \(signal SIGKILL\); perhaps there"):
        tr.compare(*parts, losses=["mse"], metrics=["ndcg@5"], repeats=2, workers=2, **SMALL)
    assert multiprocessing.active_children() == []


def test_a_rerun_trains_only_what_is_missing(parts, tmp_path, monkeypatch):
    trained = []
    original = study.run_unit
    monkeypatch.setattr(study, "run_unit", lambda *a: trained.append(a[2]) or original(*a))
    options = {"metrics": ["ndcg@5"], "repeats": 2, "store": tmp_path, **SMALL}
    first = tr.compare(*parts, losses=["mse", "xendcg"], **options)
    assert len(trained) == 4
    again = tr.compare(*parts, losses=["mse", "xendcg", "listnet"], **options)
    assert len(trained) == 6
    np.testing.assert_array_equal(first.systems[1].values["ndcg@5"], again.systems[1].values["ndcg@5"])
    # A damaged file, other parameters and other data are not taken for finished.
    damaged = next(tmp_path.glob("mse_repeat_1*"))
    damaged.write_text(damaged.read_text()[:50])
    tr.compare(*parts, losses=["mse", "xendcg"], **options)
    assert len(trained) == 7
    tr.compare(*parts, losses=["mse"], **{**options, "n_estimators": 9})
    assert len(trained) == 9
    train, valid, test = parts
    tr.compare(train, valid, test.subset(np.arange(test.n_queries - 1)), losses=["mse"], **options)
    assert len(trained) == 11


def test_a_killed_comparison_leaves_readable_results_and_goes_on(tmp_path):
    data = tr.simulate.simulate_web_search(60, n_features=16, mean_length=15, seed=3)
    train, test = data.split([0.7, 0.3])
    tr.write_letor(train, tmp_path / "train.txt")
    tr.write_letor(test, tmp_path / "test.txt")
    command = [
        sys.executable,
        "-m",
        "tautrank.commands.main",
        "compare",
        "train.txt",
        "--test",
        "test.txt",
        "-l",
        "mse,listnet,xendcg",
    ]
    command += ["-m", "ndcg@5", "--repeats", "4", "--trees", "100", "--workers", "1", "--results", "out", "--json"]
    command += ["--early-stopping", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out = tmp_path / "out"
    while process.poll() is None and not (out.is_dir() and len(list(out.glob("*.json"))) >= 3):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {file: file.stat().st_mtime_ns for file in out.glob("*.json")}
    assert 3 <= len(finished) < 12
    for file in finished:
        assert json.loads(file.read_text())["result"]["trees"] > 0
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["systems"]) == 3
    assert len(list(out.glob("*.json"))) == 12
    assert all(file.stat().st_mtime_ns == stamp for file, stamp in finished.items())
    assert f"{len(finished)}/12" in done.stderr


def test_a_system_against_itself_is_significant_no_more_often_than_the_level():
    """Real trainings: the same loss under other seeds, many times."""
    data = tr.simulate.simulate_web_search(80, n_features=16, mean_length=12, seed=5)
    train, test = data.split([0.3, 0.7], seed=0)
    m = tr.metric("ndcg@5").bind(test.labels, test.offsets)
    settings = {
        "n_estimators": 12,
        "learning_rate": 0.2,
        "num_leaves": 7,
        "min_child_samples": 5,
        "n_jobs": 1,
        "verbose": 0,
    }
    settings |= {"subsample": 0.5, "subsample_freq": 1, "colsample_bytree": 0.4}
    runs, trials, level = 3, 200, 0.05
    values = np.array(
        [
            m.per_query(tr.Ranker(loss="lambdarank", random_state=seed, **settings).fit(train).predict(test))
            for seed in range(2 * runs * trials)
        ]
    ).reshape(trials, 2, runs, -1)
    rejected = sum(repeated_runs_test(a, b).p_value < level for a, b in values)
    assert rejected <= stats.binom.ppf(0.99, trials, level)


def test_wrong_plans_are_refused_before_training(parts):
    for options, sentence in (
        ({"losses": ["lamdarank"]}, "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
        ({"losses": []}, "losses: found none; expected at least one, such as 'lambdarank'"),
        ({"losses": ["mse"], "metrics": []}, "metrics: found none; expected at least one, such as 'ndcg@10'"),
        ({"losses": ["mse"], "repeats": 0}, "repeats: found 0; expected a whole number of at least 1"),
        ({"losses": ["mse"], "vary": "split"}, "unknown vary 'split'; did you mean 'splits'?"),
        ({"losses": ["mse"], "metrics": ["ndgc"]}, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
    ):
        with pytest.raises(OptionError) as caught:
            tr.compare(*parts, **options)
        assert str(caught.value).startswith(sentence)


def test_page_is_one_self_contained_file(result):
    page = result.to_html()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


def test_a_system_brings_parameters_of_its_own(parts, tmp_path):
    systems = ["mse", study.System("mse", "mse, stumps", {"num_leaves": 2}), "mse"]
    few = {"repeats": 1, "n_estimators": 5, "early_stopping_rounds": None, "store": tmp_path}
    result = tr.compare(*parts, losses=systems, metrics=["ndcg@5"], **few)
    assert [system.name for system in result.systems] == ["mse", "mse, stumps", "mse #2"]
    train, _, test = parts
    stumps = tr.Ranker(loss="mse", metric="ndcg@5", n_estimators=5, num_leaves=2).fit(train).predict(test)
    expected = tr.metric("ndcg@5").per_query(stumps, test.labels, test.offsets)
    np.testing.assert_array_equal(result.systems[1].values["ndcg@5"][0], expected)
    again = tr.compare(*parts, losses=systems, metrics=["ndcg@5"], **few)
    assert again.to_dict() == result.to_dict()


def test_an_unknown_loss_of_a_system_is_said_at_once(parts):
    with pytest.raises(OptionError, match="unknown loss 'msee'"):
        tr.compare(*parts, losses=[study.System("msee")], metrics=["ndcg@5"])


def test_the_function_is_not_hidden_by_a_module():
    # A module of the same name would take its place in the package as soon as anything imports it.
    modules = "tautrank.experiments.compare, tautrank.experiments.tune"
    code = f"import {modules}, tautrank as tr; print(callable(tr.compare), callable(tr.tune))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True True\n"
