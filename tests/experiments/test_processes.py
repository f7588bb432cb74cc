"""Jobs in other processes: what they ask, give and raise, and that nothing is left of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from tautrank.experiments.workers import Lost, ignoring_ctrl_c, run_jobs
from tests import dying_workers


def test_jobs_are_answered_and_come_back_with_what_they_give():
    jobs = iter(range(1, 6))
    found = run_jobs(2, dying_workers.asks_and_divides, jobs, answer=lambda job, told: 9 * job + told)
    assert sorted(found) == [(job, 60 / (10 * job)) for job in range(1, 6)]
    assert multiprocessing.active_children() == []


def test_without_jobs_there_are_no_processes():
    assert list(run_jobs(0, dying_workers.IsStillborn(), [])) == []


def test_what_is_under_way_at_the_deadline_is_given_up():
    start = time.monotonic()
    assert list(run_jobs(2, dying_workers.never_ends, [1, 2], deadline=start + 1)) == []
    assert 1 <= time.monotonic() - start < 60
    assert multiprocessing.active_children() == []


def test_a_job_that_may_lose_its_process_once_is_lost_at_once():
    assert list(run_jobs(1, dying_workers.dies, ["a"], most_losses=1)) == [("a", Lost(1, "signal SIGKILL"))]


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
