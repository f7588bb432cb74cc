"""Trials side by side and on a cluster: a worker may die at any moment, and the store does not
notice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tautrank.data import Splits
from tautrank.errors import MissingDependencyError, OptionError
from tautrank.experiments import workers
from tautrank.experiments.compare import comparison
from tautrank.experiments.data_source import MEMORY, DataSource
from tautrank.experiments.plan import Budget, Plan
from tautrank.experiments.store import DONE, FAILED, IMPOSSIBLE, Store, Trial
from tautrank.experiments.trial import TrialContext, attempt
from tautrank.experiments.workers import (
    RunOptions,
    choose_workers,
    ignoring_ctrl_c,
    run_trials,
    run_waiting,
)
from tautrank.papers.plan import make_plan
from tautrank.papers.run import run_study
from tautrank.simulate import simulate_web_search
from tests import dying_workers
from tests.recorded_progress import RecordedProgress
from tests.study_examples import DATA, TINY, content

BUDGET = Budget(repeats=3, trees=2)
TRAININGS = 12


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    path = tmp_path_factory.mktemp("clean") / "study.db"
    run_study(TINY, DATA, store=path, budget=BUDGET)
    return path


def trials():
    return make_plan(TINY, DATA, budget=BUDGET).trials()


def test_processes_give_the_same_store_although_they_are_stopped_and_killed(clean, tmp_path):
    path = tmp_path / "study.db"

    def stop(done, total, what):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(TINY, DATA, store=path, budget=BUDGET, workers=2, progress=RecordedProgress(stop))
    assert multiprocessing.active_children() == []
    assert len(content(path)) == 2
    killed = []

    def kill_one(done, total, what):
        if done == 4:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    run_study(TINY, DATA, store=path, budget=BUDGET, workers=2, progress=RecordedProgress(kill_one))
    assert len(killed) == 1
    assert content(path) == content(clean)
    assert multiprocessing.active_children() == []


def test_a_trial_that_kills_every_worker_is_given_up_and_the_others_are_not(monkeypatch):
    monkeypatch.setattr(workers, "run_trial", dying_workers.dies_of_the_second_trial)
    planned = [
        trial for trial in trials() if trial.title in ("trial 1, clean, mse", "trial 2, clean, mse")
    ]
    found = {trial.key: outcome for trial, outcome in choose_workers(2)(planned, TrialContext())}
    good, deadly = (found[trial.key] for trial in planned)
    assert (good.status, deadly.status) == (DONE, FAILED)
    assert (
        deadly.error
        == "its worker died 3 times (signal SIGKILL); perhaps there is not enough memory"
    )
    assert multiprocessing.active_children() == []


def test_a_process_with_nothing_to_do_takes_over_what_another_died_of(monkeypatch, tmp_path):
    monkeypatch.setattr(
        workers, "run_trial", dying_workers.dies_once_of_the_second_trial_while_others_are_idle
    )
    monkeypatch.setenv("DIED_ONCE", str(tmp_path / "mark"))
    planned = [
        trial for trial in trials() if trial.title in ("trial 1, clean, mse", "trial 2, clean, mse")
    ]
    found = {
        trial.key: outcome.status for trial, outcome in choose_workers(2)(planned, TrialContext())
    }
    assert found == {trial.key: DONE for trial in planned}
    assert (tmp_path / "mark").exists()


def test_processes_that_cannot_start_are_no_failures_of_trials(monkeypatch):
    monkeypatch.setattr(workers, "run_trial", dying_workers.IsStillborn())
    with pytest.raises(
        OptionError, match=r"a new process ended before it was ready \(exit code 3\)"
    ):
        list(choose_workers(2)(trials(), TrialContext()))


def test_workers_die_with_a_killed_runner_and_the_store_goes_on(clean, tmp_path):
    """The real thing: a process that runs a study on two others is killed without a chance to tidy
    up.
    """
    path = tmp_path / "study.db"
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, os\n"
        "from study_examples import DATA, TINY\n"
        "from tautrank.papers.run import run_study\n"
        "from tautrank.experiments.plan import Budget\n"
        "class Killing:\n"
        "    def update(self, done, total, text):\n"
        "        if done == 3:\n"
        "            print(*(child.pid for child in multiprocessing.active_children()), flush=True)\n"
        "            os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        f"    run_study(TINY, DATA, store={str(path)!r}, budget=Budget(repeats=3, trees=2), workers=2, progress=Killing())\n"
    )
    places = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    ended = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) == 2
    for _ in range(200):
        if not any(map(alive, pids)):
            break
        time.sleep(0.05)
    assert not any(map(alive, pids))
    assert 3 <= len(content(path)) < TRAININGS
    run_study(TINY, DATA, store=path, budget=BUDGET)
    assert content(path) == content(clean)


def alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def test_dask_gives_the_same_store_although_a_worker_is_killed(clean, tmp_path):
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "study.db"
    seen = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:

        def kill_one(done, total, what):
            seen.append(what)
            if done == 2:
                with distributed.Client(cluster, set_as_default=False) as client:
                    pids = list(client.run(os.getpid).values())
                os.kill(pids[0], signal.SIGKILL)

        run_study(
            TINY,
            DATA,
            store=path,
            budget=BUDGET,
            dask=cluster.scheduler_address,
            progress=RecordedProgress(kill_one),
        )
    assert content(path) == content(clean)
    assert sorted(seen[1:]) == sorted(trial.title for trial in trials())


def test_dask_gets_data_in_memory():
    pytest.importorskip("distributed")
    parts = simulate_web_search(40, n_features=16, mean_length=8, seed=3).split([0.5, 0.2, 0.3])
    declared = comparison(["mse"], ["ndcg@5"], repeats=1, parameters={"n_estimators": 2})
    plan = Plan.of(declared, DataSource((MEMORY,), held=(Splits(*parts),)))
    found = []
    for pool in (choose_workers(1, "local"), choose_workers(1)):
        store = Store(None)
        run_waiting(plan, store, pool)
        found += [outcome.result for _, outcome in store.finished()]
    assert len(found) == 2
    assert found[0] == found[1]


def test_no_scheduler_is_one_sentence(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("tautrank.data.distributed._TIMEOUT", "1s")
    cluster = choose_workers(1, "tcp://127.0.0.1:1")
    with pytest.raises(OptionError, match=r"--dask: found no scheduler at 'tcp://127\.0\.0\.1:1'"):
        list(cluster(trials(), TrialContext()))


def test_without_dask_the_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'tautrank\[distributed\]'"):
        choose_workers(2, "local")


def test_dask_is_not_imported_until_it_is_asked_for():
    modules = "tautrank.commands.main, tautrank.papers.run, tautrank.papers.results, tautrank.experiments.workers"
    code = f"import sys, {modules}; print('distributed' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_worker_of_another_version_or_without_the_data_runs_nothing(tmp_path):
    trial = trials()[0]
    outcome = attempt(trial.spec, TrialContext("99.0"))
    assert outcome.status == IMPOSSIBLE
    assert outcome.error.endswith("; expected 99.0, as in the study")
    elsewhere = {
        **trial.spec,
        "data": {**trial.spec["data"], "given": [str(tmp_path / "not-here.txt")]},
    }
    assert attempt(elsewhere, TrialContext()).status == IMPOSSIBLE


def test_wrong_numbers_of_workers_are_refused():
    for wrong in (0, -1, True):
        with pytest.raises(OptionError, match="workers: found"):
            choose_workers(wrong)


CONTEXT = TrialContext(data={"nothing": None})


def jobs(n):
    data = {"given": [MEMORY], "fold": 1, "fingerprint": "nothing"}
    return [
        Trial(number, f"key {number}", {"data": data, "number": number})
        for number in range(1, n + 1)
    ]


def test_trials_are_answered_and_come_back_with_what_they_give():
    options = RunOptions(answer=lambda trial, number: 9 * trial.number + number)

    ended = run_trials(2, dying_workers.asks_and_divides, iter(jobs(5)), CONTEXT, options)

    results = sorted((trial.number, json.loads(outcome.result)) for trial, outcome in ended)
    assert results == [(number, {"found": 60 / (10 * number)}) for number in range(1, 6)]
    assert multiprocessing.active_children() == []


def test_without_trials_there_are_no_processes():
    assert list(run_trials(2, dying_workers.IsStillborn(), [], CONTEXT)) == []


def test_what_is_under_way_at_the_deadline_is_given_up():
    start = time.monotonic()
    options = RunOptions(deadline=start + 1)

    ended = list(run_trials(2, dying_workers.never_ends, jobs(2), CONTEXT, options))

    assert ended == []
    assert 1 <= time.monotonic() - start < 60
    assert multiprocessing.active_children() == []


def test_a_trial_whose_process_may_die_once_is_given_up_at_once():
    options = RunOptions(most_deaths=1, status_if_lost=IMPOSSIBLE)

    ((trial, outcome),) = run_trials(2, dying_workers.dies, jobs(1), CONTEXT, options)

    assert (trial.number, outcome.status) == (1, IMPOSSIBLE)
    sentence = "its worker died once (signal SIGKILL); perhaps there is not enough memory"
    assert outcome.error == sentence


def test_workers_that_are_starting_do_not_hear_ctrl_c():
    context = multiprocessing.get_context("spawn")
    process = context.Process(
        target=signal.pthread_sigmask, args=(signal.SIG_BLOCK, set()), daemon=True
    )

    def start_and_interrupt():
        with ignoring_ctrl_c():
            process.start()
            os.kill(process.pid, signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()
    process.join()
    assert process.exitcode == 0
