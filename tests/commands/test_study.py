"""`tautrank study` as a user types it."""

from __future__ import annotations

import csv
import json
import os

import pytest

from tautrank.commands.main import main
from tautrank.papers.catalogue import CATALOGUE
from tests.command_line import interrupt, run
from tests.study_examples import content

DATA = "simulated:mslr:30,mean_length=10"
SMALL = "--repeats 2 --trees 2 --workers 1"
RUN = f"study run xe-table1 --data {DATA} {SMALL} --store"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "study.db"
    with pytest.raises(SystemExit) as stopped:
        main([*RUN.split(), str(path)])
    assert not stopped.value.code
    return path


def test_list_names_every_study(capsys):
    code, out, _ = run(capsys, "study list --json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)] == list(CATALOGUE)
    assert "xe-table1" in run(capsys, "study list")[1]


def test_run_status_and_report(capsys, finished, tmp_path):
    code, out, err = run(capsys, RUN, finished)
    assert (code, err) == (0, "6/6\n")
    assert "Ranking quality of ListNet, LambdaMART and XE-NDCG" in out
    assert "finished: 6 of 6 trainings" in out
    assert f"All trainings: {finished}" in out
    assert (
        "6 of 6 trainings are done, 0 failed, 0 waiting\nnot running\n"
        in run(capsys, "study status", finished)[1]
    )
    state = json.loads(run(capsys, "study status --json", finished)[1])
    assert (state["done"], state["waiting"], state["running"], state["study"]) == (
        6,
        0,
        None,
        "xe-table1",
    )
    reported = json.loads(run(capsys, "study report --json", finished)[1])
    assert reported["trials"] == {"planned": 6, "done": 6, "failed": 0, "constant": 0}
    for ending in ("md", "tex", "csv", "json"):
        file = tmp_path / f"report.{ending}"
        code, out, _ = run(capsys, "study report", finished, "-o", file)
        assert (code, out.split(":")[0]) == (0, str(file).split(":")[0])
    with (tmp_path / "report.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean"]) for row in rows] == [cell["mean"] for cell in reported["cells"]]
    assert json.loads((tmp_path / "report.json").read_text()) == reported
    assert "0.4823" in (tmp_path / "report.md").read_text()  # what the paper printed


def test_the_store_is_named_after_the_study(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, RUN.removesuffix(" --store"))
    assert code == 0
    assert (tmp_path / "xe-table1.db").is_file()
    lines = err.splitlines()
    assert lines[0] == "0/6"
    assert lines[1].startswith("1/6 trial 1, lambdamart, about ")
    assert lines[-1] == "6/6 trial 2, xendcg"


def test_the_store_of_another_study_is_refused(capsys, finished):
    before = finished.read_bytes()
    for arguments, found in (
        ("xe-figure3-labels", "holds the study 'xe-table1', not 'xe-figure3-labels'"),
        ("xe-table1 --seed 1", "holds a plan with seed = 0, not 1"),
    ):
        code, _, err = run(capsys, f"study run {arguments} --data {DATA} {SMALL} --store", finished)
        assert code == 2
        assert err.startswith(f"error: {finished}: {found}; expected a store of this run")
    assert finished.read_bytes() == before


def test_a_study_that_changed_since_is_not_resumed(capsys, finished, monkeypatch):
    from dataclasses import replace

    version = CATALOGUE["xe-table1"].version
    monkeypatch.setitem(CATALOGUE, "xe-table1", replace(CATALOGUE["xe-table1"], version=7))
    code, _, err = run(capsys, "study resume --workers 1", finished)
    assert code == 2
    assert (
        f"{finished}: holds version {version} of 'xe-table1', this tautrank has 7; expected the same"
        in err
    )


def test_ctrl_c_says_how_to_go_on_and_resume_does(finished, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    last = interrupt(f"{RUN} s.db --workers 2", "2/6 ").splitlines()[-1]
    kept = len(content(tmp_path / "s.db"))
    assert 2 <= kept < 6
    assert last.startswith("stopped: ")
    assert last.endswith(" of 6 trainings are kept; continue with: tautrank study resume s.db")
    code, _, err = run(capsys, "study resume s.db --workers 1")
    assert code == 0
    assert f"{kept}/6\n" in err
    assert content(tmp_path / "s.db") == content(finished)


def test_status_says_who_runs_it(capsys, finished):
    from tautrank.papers.store import StudyStore

    with StudyStore(finished) as store, store.running():
        _, out, _ = run(capsys, "study status", finished)
        assert f"running: process {os.getpid()} on " in out
        code, _, err = run(capsys, "study resume --workers 1", finished)
        assert code == 2
        assert "found another run of it (process" in err
    assert "not running" in run(capsys, "study status", finished)[1]


def test_failures_are_shown_and_tried_again_when_asked(capsys, tmp_path, monkeypatch):
    path = tmp_path / "s.db"

    def broken(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("tautrank.ranker.estimator.Ranker.fit", broken)
        code, out, _ = run(capsys, RUN, path)
    assert code == 0
    assert "finished: 0 of 6 trainings; 6 failed" in out
    assert "failed: trial 1, lambdamart: MemoryError\n" in out
    assert "... and 1 more that failed" in out
    assert "0 of 6 trainings" in run(capsys, "study resume --workers 1", path)[1]
    assert (
        "finished: 6 of 6 trainings"
        in run(capsys, "study resume --workers 1 --retry-failed", path)[1]
    )


def test_a_full_disk_says_how_to_go_on(capsys, tmp_path, monkeypatch):
    import sqlite3

    from tautrank.papers.store import StudyStore

    path, record = tmp_path / "s.db", StudyStore.record

    def full(self, trial, outcome):
        if trial.number == 3:
            pages = self._connection.execute("PRAGMA page_count").fetchone()[0]
            self._connection.execute(f"PRAGMA max_page_count = {pages}")
            self._connection.execute("PRAGMA wal_checkpoint")
            outcome = type(outcome)(outcome.status, "x" * 10**6)
        return record(self, trial, outcome)

    monkeypatch.setattr(StudyStore, "record", full)
    code, _, err = run(capsys, RUN, path)
    assert code == 2
    last = err.splitlines()[-1]
    assert last.startswith(f"error: {path}: the disk is full; expected room for one more trial")
    assert last.endswith(f"continue with: tautrank study resume {path})")
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT COUNT(*) FROM trials").fetchone() == (3,)
