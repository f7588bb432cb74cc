"""What several test files share."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run side by side, each with as many OpenMP threads as there are cores: a thread that waits by spinning takes the
# time of another test's, and a training that takes a second alone takes a minute. Read when the first library loads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The same examples in every run: what passes here passes there. `--hypothesis-profile default` looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# A job that a script starts in the background ignores Ctrl-C, and so would every command the tests start and interrupt.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

_BESIDE_THE_PROJECT = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; not part of the repository."""
    folder = Path(os.environ.get("TAUTRANK_DATA", _BESIDE_THE_PROJECT))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set TAUTRANK_DATA to a folder with mq2008/, clueweb09/, ...")
    return folder
