"""Threads by the size of the work: a small training has one, and the model does not depend on
them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tautrank import Ranker, RankingData
from tautrank.engines import packages, training
from tautrank.engines.lightgbm import LightGBM


def _data(documents: int, features: int) -> RankingData:
    draw = np.random.default_rng(0)
    X = draw.standard_normal((documents, features)).astype(np.float32)
    return RankingData.from_arrays(
        X, draw.integers(0, 3, documents), group=[10] * (documents // 10)
    )


def _threads_of(
    monkeypatch: pytest.MonkeyPatch, data: RankingData, n_jobs: int | None
) -> tuple[int, bytes]:
    seen = []
    start = LightGBM.start

    def noting(self: LightGBM, task: Any, settings: Any) -> Any:
        seen.append(settings.threads)
        return start(self, task, settings)

    monkeypatch.setattr(LightGBM, "start", noting)
    ranker = Ranker(n_estimators=3, min_data_in_leaf=5, n_jobs=n_jobs).fit(data)
    monkeypatch.undo()
    return seen[0], ranker.predict(data).tobytes()


def test_the_size_of_the_data_decides_and_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for documents, n_jobs, per_thread in (
        (500, None, 1_000_000),
        (500, None, 2_000),
        (500, -1, 10**9),
        (500, 2, 10**9),
    ):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)  # a user's choice would decide instead
        monkeypatch.setattr(training, "_VALUES_PER_THREAD", per_thread)
        monkeypatch.setattr(packages, "job_count", lambda n: n if n and n > 0 else 4)
        found[n_jobs, per_thread] = _threads_of(monkeypatch, _data(documents, 12), n_jobs)
    assert [threads for threads, _ in found.values()] == [1, 3, 4, 2]
    assert len({scores for _, scores in found.values()}) == 1


def _policy(**given: str) -> str:
    """What GNU OpenMP says that its waiting threads do, and what the environment says
    afterwards.
    """
    program = (
        "import os; from tautrank.engines.packages import package; package('lightgbm');"
        "print(os.environ.get('OMP_WAIT_POLICY'))"
    )
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "OMP_DISPLAY_ENV": "verbose", **given},
        capture_output=True,
        text=True,
        check=True,
    )
    # libgomp may be loaded more than once; LightGBM's copy comes last.
    shown = [line.split("'")[1] for line in ran.stderr.splitlines() if "OMP_WAIT_POLICY" in line]
    if not shown:
        pytest.skip("OpenMP does not say its settings here")
    return f"{shown[-1]} {ran.stdout.strip()}"


def test_idle_threads_of_openmp_sleep_unless_the_user_says_otherwise() -> None:
    assert _policy() == "PASSIVE None"
    assert _policy(OMP_WAIT_POLICY="active") == "ACTIVE active"
