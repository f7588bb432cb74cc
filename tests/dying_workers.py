"""Worker processes that end badly. This module imports nothing heavy: every process that dies has to import it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def dies_of_the_second_trial(connection):
    connection.send("ready")
    while True:
        key, spec, *_ = connection.recv()
        if spec["trial"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        from tautrank.studies.trial import Outcome

        connection.send(Outcome(key, "done", result="{}"))


def dies_once_of_the_second_trial_while_others_are_idle(connection):
    connection.send("ready")
    while True:
        key, spec, *_ = connection.recv()
        from tautrank.studies.trial import Outcome

        mark = Path(os.environ["DIED_ONCE"])
        if spec["trial"] == 1 and not mark.exists():
            mark.touch()
            time.sleep(1)  # the other process has long had nothing to do
            os.kill(os.getpid(), signal.SIGKILL)
        connection.send(Outcome(key, "done", result="{}"))


def is_stillborn(connection):
    sys.exit(3)
