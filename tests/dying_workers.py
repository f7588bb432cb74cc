"""Worker processes that end badly. This module imports nothing heavy: every process that dies has to import it."""

from __future__ import annotations

import os
import signal
import sys


def dies_of_the_second_trial(connection):
    connection.send("ready")
    while True:
        key, spec, *_ = connection.recv()
        if spec["trial"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        from tautrank.studies.trial import Outcome

        connection.send(Outcome(key, "done", result="{}"))


def is_stillborn(connection):
    sys.exit(3)
