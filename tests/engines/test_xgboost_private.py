"""The private names of XGBoost that this library uses are there, and do what it expects."""

from __future__ import annotations

import subprocess
import sys

import pytest

xgboost = pytest.importorskip("xgboost")

TESTED_VERSIONS = ((2, 1), (4, 0))


def test_the_installed_version_is_in_the_range_that_is_tested():
    first, end = TESTED_VERSIONS
    major, minor = xgboost.__version__.split(".")[:2]
    assert first <= (int(major), int(minor)) < end


def test_nothing_is_printed_once_the_log_is_silent():
    """In a process of its own, since the log stays silent."""
    code = (
        "import numpy as np, xgboost; from tautrank.engines import xgboost_private;"
        "xgboost_private.silence_log();"
        "data = xgboost.DMatrix(np.zeros((4, 1)), label=[0, 1, 0, 1]);"
        "xgboost.train({'verbosity': 3, 'no_such_parameter': 1, 'nthread': 1}, data, 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
