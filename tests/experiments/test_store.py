"""The store and the runner: nothing finished is lost, nothing is run twice, nothing foreign is
touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from dataclasses import replace

import numpy as np
import pytest

import tautrank as tr
from tautrank.errors import DataError
from tautrank.experiments.plan import Budget
from tautrank.experiments.workers import choose_workers, unfinished
from tautrank.papers.plan import make_plan
from tautrank.papers.results import collect, read_results
from tautrank.papers.run import run_study
from tautrank.papers.store import StudyStore
from tests.recorded_progress import RecordedProgress
from tests.study_examples import DATA, SMALL, TINY, WITH_A_FAILURE, content, finished

MANY = Budget(repeats=8, trees=2)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    path = tmp_path_factory.mktemp("clean") / "study.db"
    run_study(TINY, DATA, store=path, budget=MANY)
    return path


def test_a_finished_store_is_one_file_that_knows_what_it_holds(clean):
    assert [p.name for p in clean.parent.iterdir()] == ["study.db"]
    rows = content(clean)
    assert [row[1] for row in rows] == list(range(32))
    assert len({row[0] for row in rows}) == 32
    assert {row[3] for row in rows} == {"done"}
    with StudyStore(clean) as store:
        meta = store.meta
        assert store.plan.study == TINY
        assert store.plan.budget == Budget(repeats=8, configurations=0, trees=2)
    assert meta["study"] == "tiny"
    assert meta["tautrank"] == tr.__version__
    assert meta["data"] == DATA


def test_more_trials_go_on_with_those_that_are_there(clean, tmp_path):
    path = tmp_path / "study.db"
    run_study(TINY, DATA, store=path, budget=SMALL)
    began, progress = content(path), RecordedProgress()
    result = run_study(TINY, DATA, store=path, budget=MANY, progress=progress)
    assert progress.updates[0][:2] == (len(began), 32)  # nothing is trained again
    progress = RecordedProgress()
    run_study(TINY, DATA, store=path, budget=MANY, progress=progress)
    assert progress.updates == [(32, 32, "")]
    assert content(path) == content(clean)
    assert result.plan.budget.repeats == 8
    assert [row for row in content(path) if row in began] == began
    assert read_results(path).to_dict()["cells"] == read_results(clean).to_dict()["cells"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")
def test_killed_ten_times_and_resumed_gives_what_a_clean_run_gives(clean, tmp_path):
    path = tmp_path / "killed.db"
    rng = np.random.default_rng(11)
    kept = []
    for kill in range(10):
        before = finished(path)
        child = os.fork()
        if child == 0:
            try:
                run_study(TINY, DATA, store=path, budget=MANY)
            finally:
                os._exit(0)
        if kill % 3:  # else at any moment, such as while the store is being made
            for _ in range(2000):
                if finished(path) > before:
                    break
                time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kept.append(finished(path))
        if kept[-1] == 32:
            break
    assert kept == sorted(kept)
    assert kept[0] < 32
    run_study(TINY, DATA, store=path, budget=MANY)
    assert content(path) == content(clean)
    assert read_results(path).to_csv() == read_results(clean).to_csv()


def test_a_stopped_run_keeps_what_is_finished(tmp_path, clean):
    path = tmp_path / "stopped.db"

    def stop(done, total, what):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(TINY, DATA, store=path, budget=MANY, progress=RecordedProgress(stop))
    assert len(content(path)) == 5
    assert [p.name for p in tmp_path.iterdir()] == ["stopped.db"]
    partial = read_results(path)
    assert partial.n_done == 5
    assert partial.cell("clean", "mse", "ndcg@5").means.size == 2
    run_study(TINY, DATA, store=path, budget=MANY)
    assert content(path) == content(clean)


def test_a_second_runner_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "study.db"
    plan = make_plan(TINY, DATA, budget=SMALL)
    with StudyStore(path, plan) as first, StudyStore(path, plan) as second:
        with first.running():
            with pytest.raises(DataError) as caught:
                second.run(choose_workers(1))
            assert str(caught.value).startswith(
                f"{path}: found another run of it (process {os.getpid()} on "
            )
            assert str(caught.value).endswith("; expected one at a time")
            assert collect(second).n_done == 0  # reading goes on
        second.run(choose_workers(1))
    assert len(content(path)) == 8


def test_a_lock_whose_owner_is_dead_is_taken_over(tmp_path):
    path = tmp_path / "study.db"
    (tmp_path / "study.db.lock").write_text('{"pid": 1, "host": "elsewhere", "since": "long ago"}')
    run_study(TINY, DATA, store=path, budget=SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["study.db"]


def test_a_trial_that_raises_is_recorded_and_the_others_go_on(tmp_path):
    path = tmp_path / "study.db"
    result = run_study(WITH_A_FAILURE, DATA, store=path, budget=SMALL)
    assert result.n_done == 4
    assert [failure.title for failure in result.failures] == [
        f"trial {trial}, {condition}, listnet"
        for trial in (1, 2)
        for condition in ("clean", "noisy")
    ]
    assert {f.error for f in result.failures} == {
        "num_leaves: found 1; expected a whole number of at least 2"
    }
    assert "4 of 8 trainings; 4 failed" in result.to_markdown()
    assert "trial 1, clean, listnet: num_leaves: found 1" in result.to_markdown()
    assert {v.own.verdict for v in result.verdicts} == {"undecided"}
    before = content(path)
    run_study(WITH_A_FAILURE, DATA, store=path, budget=SMALL)
    assert content(path) == before
    with StudyStore(path) as store:
        assert len(unfinished(store.plan, store)) == 0
        assert len(unfinished(store.plan, store, retry=True)) == 4


def test_an_error_of_another_library_is_recorded_too(tmp_path, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("by zero\nsecond line")

    monkeypatch.setattr("tautrank.experiments.workers.run_trial", broken)
    result = run_study(TINY, DATA, budget=SMALL)
    assert {failure.error for failure in result.failures} == {"ZeroDivisionError: by zero"}


def test_what_is_done_stays_even_if_it_is_run_again(tmp_path):
    from tautrank.experiments.store import TrialOutcome

    with StudyStore(tmp_path / "study.db", make_plan(TINY, DATA, budget=SMALL)) as store:
        trial = unfinished(store.plan, store)[0]
        assert store.record(trial, TrialOutcome("failed", error="no"))
        assert store.record(trial, TrialOutcome("done", result="{}"))
        assert not store.record(trial, TrialOutcome("done", result='{"other": 1}'))
        assert store.counts() == {"done": 1, "failed": 0, "planned": 8}


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, clean):
    path = tmp_path / "study.db"
    plan = make_plan(TINY, DATA, budget=MANY)
    with StudyStore(path, plan) as store:
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 10}")
        with pytest.raises(DataError, match="the disk is full; expected room for one more trial"):
            store.run(choose_workers(1))
    kept = content(path)
    assert 0 < len(kept) < 32
    run_study(TINY, DATA, store=path, budget=MANY)
    assert content(path) == content(clean)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"study": replace(TINY, name="other")}, "holds the study 'tiny', not 'other'"),
        ({"study": replace(TINY, version=2)}, "holds version 1 of 'tiny', not 2"),
        ({"study": replace(TINY, metrics=("ndcg@5",))}, "holds 'tiny' declared otherwise"),
        ({"data": DATA.replace("seed=3", "seed=4")}, "holds trials on other data"),
        ({"budget": SMALL}, "holds a plan with repeats = 8, not 2"),
        ({"seed": 1}, "holds a plan with seed = 0, not 1"),
        ({"n_jobs": 2}, "holds a plan with n_jobs = 1, not 2"),
    ],
)
def test_the_store_of_another_plan_is_refused(clean, change, sentence):
    given = {"study": TINY, "data": DATA, "budget": MANY, **change}
    before = clean.read_bytes()
    with pytest.raises(DataError) as caught:
        run_study(given.pop("study"), given.pop("data"), store=clean, **given)
    assert str(caught.value).startswith(f"{clean}: {sentence}; expected a store of this run")
    assert clean.read_bytes() == before


def test_a_store_goes_on_after_the_texts_of_its_study_have_changed(clean, tmp_path):
    path = tmp_path / "study.db"
    shutil.copy(clean, path)
    said = replace(
        TINY, title="A better title", claim="said better", note="a longer note", axis="noise"
    )
    result = run_study(said, DATA, store=path, budget=MANY)
    assert result.n_done == 32
    assert result.plan.study.title == "A better title"
    assert content(path) == content(clean)


def test_files_that_are_no_stores_are_refused_and_not_touched(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to look at " * 100)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE trials (key TEXT)")
    for path, sentence in (
        (text, "is not a whole SQLite file"),
        (foreign, "is not a store of trials; expected one that tautrank made"),
    ):
        before = path.read_bytes()
        with pytest.raises(DataError, match=f"{path.name}: {sentence}"):
            run_study(TINY, DATA, store=path, budget=SMALL)
        assert path.read_bytes() == before
    with pytest.raises(DataError, match="found no such file; expected a store of trials"):
        read_results(tmp_path / "nothing.db")
    with pytest.raises(DataError, match="its folder does not exist"):
        run_study(TINY, DATA, store=tmp_path / "no" / "such" / "study.db", budget=SMALL)


def test_another_version_of_tautrank_does_not_go_on(clean, tmp_path, monkeypatch):
    path = tmp_path / "study.db"
    shutil.copy(clean, path)
    monkeypatch.setattr(tr, "__version__", "99.0")
    with pytest.raises(
        DataError, match=r"was begun by tautrank .*, this is 99\.0; expected the same version"
    ):
        run_study(TINY, DATA, store=path, budget=MANY)
    assert read_results(path).n_done == 32  # reading is always possible


def test_changed_data_stops_the_run_and_is_no_failure_of_a_trial(tmp_path):
    file, path = tmp_path / "data.txt", tmp_path / "study.db"
    data = tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=3)
    tr.data.write_letor(data, file)
    plan = make_plan(TINY, str(file), budget=SMALL)
    tr.data.write_letor(data.subset(np.arange(39)), file)
    with StudyStore(path, plan) as store:
        with pytest.raises(DataError, match="found other data than the study was planned with"):
            store.run(choose_workers(1))
        assert store.counts()["failed"] == 0


def test_data_may_move(tmp_path):
    """What is in the data decides, not where it lies."""
    from tautrank.experiments.data_source import read_source

    first, second, path = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "study.db"
    tr.data.write_letor(
        tr.simulate.simulate_web_search(40, n_features=16, mean_length=8, seed=3), first
    )
    shutil.copy(first, second)
    plan = make_plan(TINY, str(first), budget=SMALL)
    assert plan.key == make_plan(TINY, str(second), budget=SMALL).key
    with StudyStore(path, plan) as store:
        store.run(some)
    first.unlink()
    with StudyStore(path, data=read_source(str(second))) as store:
        assert len(unfinished(store.plan, store)) == 5
        store.run(choose_workers(1))
        assert store.counts()["done"] == 8


def some(trials, context):
    """Gives up after three trials."""
    return choose_workers(1)(trials[:3], context)


def test_progress_counts_what_was_there_before(tmp_path):
    progress = RecordedProgress()
    with StudyStore(tmp_path / "s.db", make_plan(TINY, DATA, budget=SMALL)) as store:
        store.run(choose_workers(1), progress)
    assert progress.updates[0] == (0, 8, "")
    assert progress.updates[-1] == (8, 8, "trial 2, noisy, listnet")
    assert progress.done == list(range(9))
