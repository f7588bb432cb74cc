"""The process that compiles a kernel computes the same bits as every later one, which loads it from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, sys
import numpy as np
import tautrank as tr
rng = np.random.default_rng(0)
labels, scores, offsets = rng.integers(0, 5, 2000), rng.normal(size=2000), np.arange(51) * 40
objective = tr.loss(sys.argv[1]).bind(labels, offsets, n_jobs=1)
for array in (*objective.gradients(scores), *objective.gradients(scores.astype(np.float32)), objective.values(scores)):
    print(hashlib.sha256(array.tobytes()).hexdigest())
"""


# A helper that is compiled on its own and again inside a kernel comes out in two versions, whose sums are ordered
# differently; which one a process meets depends on who compiled. These three showed it.
@pytest.mark.parametrize("loss", ["xendcg", "ndcg-loss1", "arp-loss1"])
def test_compiling_and_loading_give_the_same_bits(loss: str, tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", PROGRAM, loss], capture_output=True, text=True, env=environment)
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert any(tmp_path.rglob("*.nbc"))
    assert first.stdout == second.stdout
