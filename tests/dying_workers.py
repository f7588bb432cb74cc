"""What ends worker processes badly. This module imports nothing heavy: every process that dies has
to import it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path


def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def dies_of_the_second_trial(spec, context):
    if spec["trial"] == 1:
        dies()
    return {}


def dies_once_of_the_second_trial_while_others_are_idle(spec, context):
    mark = Path(os.environ["DIED_ONCE"])
    if spec["trial"] == 1 and not mark.exists():
        mark.touch()
        time.sleep(1)  # the other process has long had nothing to do
        dies()
    return {}


def dies_of_the_second_tuning_trial(spec, context):
    from tautrank.experiments.trial import run_trial

    def dying(told):
        if spec["number"] == 1 and told[0] == 5:
            dies()
        return context.ask(told)

    return run_trial(spec, replace(context, ask=dying))


def asks_and_divides(spec, context):
    return {"found": 60 / context.ask(spec["number"])}


def never_ends(spec, context):
    time.sleep(600)


class IsStillborn:
    """Work that ends the process that receives it."""

    def __reduce__(self):
        return sys.exit, (3,)

    def __call__(self, *_):
        raise AssertionError
