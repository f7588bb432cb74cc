"""What ends worker processes badly. This module imports nothing heavy: every process that dies has to import it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_of_the_second_trial(around, trial, ask):
    if trial.spec["trial"] == 1:
        dies()
    return done()


def dies_once_of_the_second_trial_while_others_are_idle(around, trial, ask):
    mark = Path(os.environ["DIED_ONCE"])
    if trial.spec["trial"] == 1 and not mark.exists():
        mark.touch()
        time.sleep(1)  # the other process has long had nothing to do
        dies()
    return done()


def dies_of_the_second_tuning_trial(trial, ask, **more):
    from tautrank.experiments.tune import run_search_trial

    def dying(told):
        if trial.number == 1 and told[0] == 5:
            dies()
        return ask(told)

    return run_search_trial(trial, dying, **more)


def done():
    from tautrank.experiments.store import Outcome

    return Outcome("done", result="{}")


def asks_and_divides(job, ask):
    return 60 / ask(job)


def never_ends(job, ask):
    time.sleep(600)


class IsStillborn:
    """Work that ends the process that receives it."""

    def __reduce__(self):
        return sys.exit, (3,)

    def __call__(self, *_):
        raise AssertionError
