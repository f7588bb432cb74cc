"""Trials in other processes: what they ask, give and raise, and that nothing is left of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from tautrank.experiments.data_source import MEMORY
from tautrank.experiments.store import IMPOSSIBLE, Trial
from tautrank.experiments.trial import Surroundings
from tautrank.experiments.workers import ignoring_ctrl_c, run_trials
from tests import dying_workers

AROUND = Surroundings(held={"nothing": None})


def trials(n):
    data = {"given": [MEMORY], "fold": 1, "fingerprint": "nothing"}
    return [Trial(number, f"key {number}", {"data": data, "number": number}) for number in range(1, n + 1)]


def test_trials_are_answered_and_come_back_with_what_they_give():
    jobs, answer = iter(trials(5)), lambda trial, told: 9 * trial.number + told
    found = run_trials(2, dying_workers.asks_and_divides, jobs, AROUND, answer=answer)
    results = sorted((trial.number, outcome.result) for trial, outcome in found)
    assert results == [(number, f'{{"found":{60 / (10 * number)}}}') for number in range(1, 6)]
    assert multiprocessing.active_children() == []


def test_without_trials_there_are_no_processes():
    assert list(run_trials(2, dying_workers.IsStillborn(), [], AROUND)) == []


def test_what_is_under_way_at_the_deadline_is_given_up():
    start = time.monotonic()
    assert list(run_trials(2, dying_workers.never_ends, trials(2), AROUND, deadline=start + 1)) == []
    assert 1 <= time.monotonic() - start < 60
    assert multiprocessing.active_children() == []


def test_a_trial_that_may_lose_its_process_once_is_lost_at_once():
    ((trial, outcome),) = run_trials(2, dying_workers.dies, trials(1), AROUND, most_losses=1, lost=IMPOSSIBLE)
    assert (trial.number, outcome.status) == (1, IMPOSSIBLE)
    assert outcome.error == "its worker died once (signal SIGKILL); perhaps there is not enough memory"


def test_workers_that_are_starting_do_not_hear_ctrl_c():
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=signal.pthread_sigmask, args=(signal.SIG_BLOCK, set()), daemon=True)

    def start_and_interrupt():
        with ignoring_ctrl_c():
            process.start()
            os.kill(process.pid, signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start_and_interrupt()
    process.join()
    assert process.exitcode == 0
