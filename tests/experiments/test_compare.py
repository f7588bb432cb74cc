"""Comparing losses: the table, its honesty about repeats, stopping and going on."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tautrank as tr
from tautrank.data import Splits
from tautrank.errors import DataError, OptionError
from tautrank.experiments import workers as workers_module
from tautrank.experiments.compare import compare_splits, comparison
from tautrank.experiments.plan import Budget, System
from tautrank.experiments.protocols import Draw, GivenSplits
from tautrank.experiments.space import random_configurations
from tautrank.papers.run import run_study
from tautrank.significance.paired import holm
from tautrank.significance.systems import systems_test
from tautrank.tables import difference_text
from tests import dying_workers
from tests.recorded_progress import RecordedProgress
from tests.study_examples import DATA, TINY, comparison_of, content, finished

SMALL = {"n_estimators": 8, "num_leaves": 7, "min_child_samples": 5}


@pytest.fixture(scope="module")
def parts():
    return tr.simulate.simulate_web_search(90, n_features=16, mean_length=15, seed=3).split(
        [0.5, 0.2, 0.3]
    )


@pytest.fixture(scope="module")
def result(parts):
    return tr.compare(
        *parts,
        losses=["lightgbm:lambdarank", "lambdarank", "mse"],
        metrics=["ndcg@5", "arp"],
        repeats=3,
        **SMALL,
    )


def test_values_are_what_training_by_hand_gives(parts, result):
    train, valid, test = parts
    ranker = tr.Ranker(loss="mse", metric="ndcg@5", **SMALL).fit(train, valid)
    expected = tr.metric("ndcg@5").per_query(ranker.predict(test), test.labels, test.offsets)
    np.testing.assert_array_equal(
        result.systems[2].values["ndcg@5"][0], expected
    )  # the first repeat: as given
    assert not np.array_equal(result.systems[2].values["ndcg@5"][1], expected)


@pytest.mark.parametrize("name", ["ndcg@5", "arp"])
def test_tables_show_what_systems_test_says(parts, result, name):
    values = np.array([system.values[name] for system in result.systems])
    overlap = parts[1].n_queries / parts[0].n_queries
    assert result.overlap == pytest.approx(overlap)
    expected = systems_test(values, overlap, baseline=0)
    found, sign = result.tests(name), 1 if name == "ndcg@5" else -1
    assert [{test.better, test.worse} for test in found] == [
        {0, 1},
        {0, 2},
    ]  # each system with the first
    np.testing.assert_allclose([t.p_value for t in found], expected.p_values[1:, 0])
    np.testing.assert_allclose([t.adjusted for t in found], holm(expected.p_values[1:, 0]))
    for i, test in enumerate(found, 1):
        cell = result.cell("plain", result.systems[i].name, name)
        assert cell.difference == pytest.approx(np.nanmean(values[i]) - np.nanmean(values[0]))
        assert test.better == (i if sign * cell.difference > 0 else 0)
        assert test.difference == pytest.approx(abs(cell.difference))
        assert (cell.tested.low, cell.tested.high) == pytest.approx(
            (expected.low[i, 0], expected.high[i, 0])
        )
        ends = sorted(np.sign(cell.difference) * np.array([cell.tested.low, cell.tested.high]))
        assert [test.low, test.high] == pytest.approx(ends)
        assert test.low < test.difference < test.high
        assert cell.tested.adjusted == test.adjusted
        shown = " [".join(difference_text(x) for x in (cell.difference, cell.tested.low))
        latex = result.to_latex().replace("$-$", "-")
        for text in (str(result), latex, result.to_html(), result.to_markdown()):
            assert f"{shown}, {difference_text(cell.tested.high)}]" in text
    cells = [result.cell("plain", system.name, name).tested for system in result.systems[1:]]
    assert max(cell.detectable for cell in cells) == pytest.approx(expected.detectable)
    alone, first = (
        difference_text(x)[1:] for x in (expected.detectable, expected.detectable_adjusted)
    )
    sentence = f" true difference of {alone} would be found with 80 % power, and one of {first} at the first step"
    assert sentence in result.to_markdown()
    of_all, at_first = (
        " ".join(str(result).split()).partition("True differences of ")[2].split("and those of ")
    )
    assert f"{alone} on {name}" in of_all
    assert first in at_first.split(" at the first step")[0].split(", ")


def test_one_loss_and_one_metric_need_no_list_and_a_list_is_a_committee(parts):
    result = tr.compare(*parts, losses="mse", metrics="ndcg@5", repeats=1, **SMALL)
    assert [system.name for system in result.systems] == ["mse"]
    assert list(result.systems[0].values) == ["ndcg@5"]
    assert comparison([["mse", "xendcg"], tr.loss("ndcg-loss2++", k=5)], ["map"]).system_names == (
        "committee(of=mse|xendcg)", "ndcg-loss2++(k=5)",
    )  # fmt: skip
    assert tr.evaluate("ndcg@5", [1.0, 0.0], [1, 0]).mean("ndcg@5") == 1.0
    runs = {"a": [1.0, 0.0, 3.0], "b": [0.0, 1.0, 2.0]}
    judged = tr.RankingData.from_arrays([[0.0]] * 3, [1, 0, 1], qid=[1, 1, 2])
    assert list(tr.compare_runs(runs, judged, metrics="mrr").systems[0].values) == ["mrr"]


def test_what_is_no_data_is_refused_before_anything_is_trained(parts):
    train, valid, test = parts
    for given, name in (
        (("train.txt", None, test), "train"),
        ((train, (1, 2), test), "valid"),
        ((train, valid, 3), "test"),
    ):
        with pytest.raises(
            DataError, match=f"^{name}: found (str|tuple|int); expected RankingData"
        ):
            tr.compare(*given)


def test_all_pairs_and_another_baseline_are_options(parts, result):
    names = [system.name for system in result.systems]
    options = {
        "losses": names,
        "metrics": ["ndcg@5"],
        "repeats": 3,
        "pairs": "all",
        "baseline": "mse",
        **SMALL,
    }
    again = tr.compare(*parts, **options)
    values = np.array([system.values["ndcg@5"] for system in result.systems])
    expected = systems_test(values, result.overlap)
    assert [{t.better, t.worse} for t in again.tests("ndcg@5")] == [{0, 1}, {0, 2}, {1, 2}]
    np.testing.assert_allclose(
        [t.adjusted for t in again.tests("ndcg@5")], expected.adjusted[[0, 0, 1], [1, 2, 2]]
    )
    assert [cell.tested is None for cell in again.cells] == [False, False, True]
    assert again.cells[0].tested.adjusted == pytest.approx(expected.adjusted[0, 2])
    assert len(again.to_dict()["pairs"]["ndcg@5"]) == len(again.tables()[-1].rows) == 3
    first = difference_text(expected.detectable_adjusted)[1:]
    assert f"{first} at the first step of Holm's method" in again.note()
    for wrong, sentence in (
        ({"pairs": "some"}, "unknown pairs 'some'"),
        ({"baseline": "ms"}, "unknown system 'ms'"),
    ):
        with pytest.raises(OptionError, match=sentence):
            tr.compare(*parts, **{**options, **wrong})


def test_one_repeat_compares_models_and_few_repeats_say_so():
    rng = np.random.default_rng(0)
    values = rng.random((2, 3, 40))
    one = comparison_of(values[:, :1])
    assert one.tests("ndcg@5")[0].p_value == pytest.approx(
        tr.significance.paired_t_test(values[0, 0], values[1, 0]).p_value
    )
    for text in (str(one), one.to_markdown(), one.to_latex(), one.to_html()):
        assert "one run each: this compares two models, not two methods" in " ".join(text.split())
    assert "compare at least 5 runs" in comparison_of(values).note()
    assert "Note:" not in comparison_of(rng.random((3, 3, 40))).note()


def test_a_clear_winner_is_marked():
    rng = np.random.default_rng(0)
    base = rng.random((3, 60)) * 0.3
    result = comparison_of([base, base + 0.3 + 0.01 * rng.random((3, 60)), base])
    assert [cell.tested and cell.tested.verdict for cell in result.cells] == [
        None,
        "holds",
        "undecided",
    ]
    for text in (str(result), result.to_latex(), result.to_html(), result.to_markdown()):
        assert "60/0/0" in text
        assert "0/60/0" in text
        assert re.search(r"\+\.30\d\d \[\+\.\d+, \+\.\d+\](\*|\$\^\{\*\}\$|<sup>\*</sup>)", text)


def test_for_a_cost_the_lower_value_wins():
    rng = np.random.default_rng(0)
    base = rng.random((3, 60))
    result = comparison_of([base + 5, base + 0.01 * rng.random((3, 60))], metrics=("arp",))
    assert [(test.better, test.adjusted < 1e-9) for test in result.tests("arp")] == [(1, True)]
    assert "60/0/0" in str(result)
    assert result.cell("plain", "b", "arp").difference < -4


def test_every_form_holds_the_same_numbers(result):
    plain = result.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    for system, entry in zip(result.systems, plain["cells"][::2], strict=True):
        mean = system.means("ndcg@5").mean()
        assert entry["mean"] == pytest.approx(mean)
        for text in (str(result), result.to_latex(), result.to_html(), result.to_markdown()):
            assert f"{mean:.4f}" in text
    assert "lower is better" in str(result)
    page = result.to_html()
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page


@pytest.mark.parametrize("form", ["to_csv", "to_latex", "to_markdown", "to_html"])
def test_a_path_gets_what_is_returned(result, tmp_path, form):
    text = getattr(result, form)(tmp_path / "out")
    assert (tmp_path / "out").read_text() == text == getattr(result, form)()
    with pytest.raises(DataError, match="cannot be written"):
        getattr(result, form)(tmp_path / "nowhere" / "out")


def test_each_repeat_after_the_first_divides_anew(parts):
    seen = [GivenSplits().divide(Splits(*parts), Draw(repeat)) for repeat in range(3)]
    assert len({tuple(part.train.qids.tolist()) for part in seen}) == 3
    np.testing.assert_array_equal(seen[0].train.qids, parts[0].qids)
    again = GivenSplits("seeds").divide(Splits(*parts), Draw(2))
    np.testing.assert_array_equal(again.train.qids, parts[0].qids)


def test_without_validation_data_a_fifth_is_held_out(parts):
    train, valid, _ = GivenSplits().divide(Splits(parts[0], None, parts[2]), Draw())
    assert valid.n_queries == round(0.2 * parts[0].n_queries)
    assert train.n_queries + valid.n_queries == parts[0].n_queries


def test_tuning_picks_by_validation_and_reports_all_it_tried(parts):
    result = tr.compare(
        *parts, losses=["mse"], metrics=["ndcg@5"], repeats=1, tune=3, n_estimators=5
    )
    system = result.systems[0]
    train, valid, test = parts
    scores, tests = [], []
    for configuration in random_configurations(3, (0, 0, 0, 0)):
        ranker = tr.Ranker(
            loss="mse", metric="ndcg@5", n_estimators=5, subsample_freq=1, **configuration
        ).fit(train, valid)
        scores.append(ranker.score(valid))
        tests.append(ranker.score(test))
    assert system.valid == [pytest.approx(max(scores))]
    assert system.means("ndcg@5")[0] == pytest.approx(tests[int(np.argmax(scores))])
    assert system.untuned["ndcg@5"][0] == pytest.approx(np.mean(tests))
    assert "all tried" in str(result)


def test_folds_count_every_query_once(parts):
    train, valid, test = parts
    declared = comparison(["mse"], ["ndcg@5"], repeats=2, parameters=SMALL)
    result = compare_splits(declared, [Splits(train, valid, test), Splits(train, test, valid)])
    assert result.systems[0].values["ndcg@5"].shape == (2, test.n_queries + valid.n_queries)


def test_side_by_side_gives_the_same_numbers_although_a_worker_is_killed(parts, result):
    def kill_one(done, total, what):
        if done == 4:  # by then both processes have started
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

    names = [system.name for system in result.systems]
    again = tr.compare(
        *parts,
        losses=names,
        metrics=["ndcg@5", "arp"],
        repeats=3,
        workers=2,
        progress=RecordedProgress(kill_one),
        **SMALL,
    )
    for a, b in zip(result.systems, again.systems, strict=True):
        np.testing.assert_array_equal(a.values["ndcg@5"], b.values["ndcg@5"])


def test_a_training_that_kills_every_worker_is_one_sentence(parts, monkeypatch):
    monkeypatch.setattr(workers_module, "run_trial", dying_workers.dies)
    with pytest.raises(
        DataError,
        match=r"^repeat \d, mse: its worker died 3 times \(signal SIGKILL\); perhaps there",
    ):
        tr.compare(*parts, losses=["mse"], metrics=["ndcg@5"], repeats=2, workers=2, **SMALL)
    assert multiprocessing.active_children() == []


def test_a_rerun_trains_only_what_is_missing(parts, tmp_path):
    options = {"metrics": ["ndcg@5"], "repeats": 2, "store": tmp_path / "kept.db", **SMALL}
    train, valid, test = parts

    def trained(*parts, **changed):
        progress = RecordedProgress()
        result = tr.compare(*parts, **{**options, **changed}, progress=progress)
        return result, progress.done[-1] - progress.done[0]

    first, n = trained(*parts, losses=["mse", "xendcg"])
    assert n == 4
    again, n = trained(*parts, losses=["mse", "xendcg", "listnet"], n_jobs=1)
    assert n == 2
    np.testing.assert_array_equal(
        first.systems[1].values["ndcg@5"], again.systems[1].values["ndcg@5"]
    )
    # Other parameters and other data are not taken for finished.
    assert trained(*parts, losses=["mse"], n_estimators=9)[1] == 2
    assert trained(train, valid, test.subset(np.arange(test.n_queries - 1)), losses=["mse"])[1] == 2


def test_what_is_no_store_of_comparisons_is_refused(parts, tmp_path):
    options = {"losses": ["mse"], "metrics": ["ndcg@5"], "repeats": 1, **SMALL}
    with pytest.raises(
        DataError,
        match="found a folder, as earlier versions kept finished trainings in; expected a",
    ):
        tr.compare(*parts, store=tmp_path, **options)
    run_study(TINY, DATA, store=tmp_path / "study.db", budget=Budget(repeats=1, trees=1))
    with pytest.raises(DataError, match="is the store of a study; expected one of a comparison"):
        tr.compare(*parts, store=tmp_path / "study.db", **options)


def test_an_error_of_a_training_is_one_sentence_and_is_not_kept(parts, tmp_path):
    for name, said in (
        ("num_leaves", "num_leaves: found 1"),
        ("num_leavs", "unknown parameter of lightgbm"),
    ):
        with pytest.raises(OptionError, match=f"^repeat 1, mse: {said}"):
            tr.compare(*parts, losses=["mse"], store=tmp_path / "kept.db", **{name: 1})
    assert content(tmp_path / "kept.db") == []


def test_a_killed_comparison_leaves_readable_results_and_goes_on(tmp_path):
    data = tr.simulate.simulate_web_search(60, n_features=16, mean_length=15, seed=3)
    train, test = data.split([0.7, 0.3])
    tr.data.write_letor(train, tmp_path / "train.txt")
    tr.data.write_letor(test, tmp_path / "test.txt")
    options = "train.txt --test test.txt -l mse,listnet,xendcg -m ndcg@5 --repeats 4 --trees 100 --early-stopping 0"
    command = [sys.executable, "-m", "tautrank.commands.main", "compare", *options.split()]
    command += ["--workers", "1", "--store", "out", "--json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out = tmp_path / "out"
    while process.poll() is None and finished(out) < 3:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = content(out)
    assert 3 <= len(kept) < 12
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["cells"]) == 3
    after = content(out)
    assert len(after) == 12
    assert all(row in after for row in kept)
    assert f"{len(kept)}/12" in done.stderr


def test_wrong_plans_are_refused_before_training(parts):
    for options, sentence in (
        ({"losses": ["lamdarank"]}, "unknown loss 'lamdarank'; did you mean 'lambdarank'?"),
        ({"losses": [System("msee")]}, "unknown loss 'msee'"),
        ({"losses": []}, "losses: found none; expected at least one, such as 'lambdarank'"),
        (
            {"losses": ["mse"], "metrics": []},
            "metrics: found none; expected at least one, such as 'ndcg@10'",
        ),
        (
            {"losses": ["mse"], "repeats": 0},
            "repeats: found 0; expected a whole number of at least 1",
        ),
        ({"losses": ["mse"], "vary": "split"}, "unknown vary 'split'; did you mean 'splits'?"),
        ({"losses": ["mse"], "metrics": ["ndgc"]}, "unknown metric 'ndgc'; did you mean 'ndcg'?"),
    ):
        with pytest.raises(OptionError) as caught:
            tr.compare(*parts, **options)
        assert str(caught.value).startswith(sentence)


def test_a_system_brings_parameters_of_its_own(parts, tmp_path):
    systems = ["mse", System("mse", "mse, stumps", {"num_leaves": 2}), "mse"]
    few = {
        "repeats": 1,
        "n_estimators": 5,
        "early_stopping_rounds": None,
        "store": tmp_path / "kept.db",
    }
    result = tr.compare(*parts, losses=systems, metrics=["ndcg@5"], **few)
    assert [system.name for system in result.systems] == ["mse", "mse, stumps", "mse #2"]
    train, _, test = parts
    stumps = (
        tr.Ranker(loss="mse", metric="ndcg@5", n_estimators=5, num_leaves=2)
        .fit(train)
        .predict(test)
    )
    expected = tr.metric("ndcg@5").per_query(stumps, test.labels, test.offsets)
    np.testing.assert_array_equal(result.systems[1].values["ndcg@5"][0], expected)
    again = tr.compare(*parts, losses=systems, metrics=["ndcg@5"], **few)
    assert again.to_dict() == result.to_dict()


def test_a_system_may_have_list_features(parts):
    chosen = tr.ListFeatures([0, 3], difference=True)
    systems = [
        System("mse", "lists", {"list_features": chosen}),
        System("mse", "auto", {"list_features": "auto"}),
    ]
    few = {"repeats": 1, "n_estimators": 5, "workers": 1}
    result = tr.compare(*parts, losses=systems, metrics=["ndcg@5"], **few)
    train, valid, test = parts
    scores = (
        tr.Ranker(loss="mse", metric="ndcg@5", n_estimators=5, list_features=chosen)
        .fit(train, valid)
        .predict(test)
    )
    expected = tr.metric("ndcg@5").per_query(scores, test.labels, test.offsets)
    np.testing.assert_array_equal(result.systems[0].values["ndcg@5"][0], expected)


def test_the_function_is_not_hidden_by_a_module():
    # A module of the same name would take its place in the package as soon as anything imports it.
    modules = "tautrank.experiments.compare, tautrank.experiments.tune"
    code = f"import {modules}, tautrank as tr; print(callable(tr.compare), callable(tr.tune))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "True True\n"
    )
