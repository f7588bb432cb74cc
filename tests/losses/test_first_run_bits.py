"""The process that compiles a kernel computes the same bits as every later one, which loads it from
the cache.
"""

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
for loss in sys.argv[1:]:
    bound = tr.loss(loss).bind(labels, offsets, n_jobs=1)
    for array in (*bound.gradients(scores), *bound.gradients(scores.astype(np.float32)), bound.values(scores)):
        print(hashlib.sha256(array.tobytes()).hexdigest())
"""


# A helper that is compiled on its own and again inside a kernel comes out in two versions, whose
# sums are ordered differently; which one a process meets depends on who compiled. These three
# showed it; the last two share kernels.
@pytest.mark.parametrize("losses", [["xendcg"], ["ndcg-loss1", "arp-loss1"]], ids=" ".join)
def test_compiling_and_loading_give_the_same_bits(losses: list[str], tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *losses],
            capture_output=True,
            text=True,
            env=environment,
        )
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert any(tmp_path.rglob("*.nbc"))
    assert first.stdout == second.stdout
