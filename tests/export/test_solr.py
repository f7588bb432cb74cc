"""Solr adds 1e-6 to every threshold, in float32."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tautrank as tr
from tautrank.engines.trees import greatest_float32
from tautrank.errors import TautrankWarning
from tautrank.export.solr import SOLR_SLACK, solr_thresholds
from tests.export.examples import (
    exported,
    lightgbm_ranker,
)
from tests.export.interpreters import (
    f32,
    solr_scores,
)


def test_solr_thresholds_are_the_best_there_are():
    rng = np.random.default_rng(0)
    edges = [
        side * 2.0**e * (1 - d)
        for side in (1, -1)
        for e in range(-30, 3)
        for d in (0, 2.0**-24, 2.0**-22)
    ]
    usual = rng.normal(size=1500) * 10.0 ** rng.integers(-9, 9, 1500)
    thresholds = np.concatenate([usual, edges, [0.0, 1e-35, -1e-35, 1e300, -1e300]])
    written, reached = solr_thresholds(thresholds)
    wanted = greatest_float32(thresholds)
    np.testing.assert_array_equal(written + SOLR_SLACK, reached)
    assert (reached <= wanted).all()
    # Brute force: every float32 around what was written.
    steps = np.arange(-60, 61)
    finite = np.isfinite(written) & (np.abs(written) > 1e-30)
    around = (written[finite].view(np.int32)[:, None] + steps).view(f32)
    with np.errstate(invalid="ignore"):
        sums = around + SOLR_SLACK
    best = np.where(sums <= wanted[finite][:, None], sums, -np.inf).max(axis=1)
    np.testing.assert_array_equal(best, reached[finite])
    # Away from 0 and from powers of two they are exact, and 0 never changes sides.
    ordinary = np.abs(thresholds) > 1e-3
    assert (reached == wanted)[ordinary & (thresholds > 0)].all()
    np.testing.assert_array_equal(reached >= 0, thresholds >= 0)


def test_solr_says_which_thresholds_it_moves(tmp_path):
    X = np.linspace(-5e-7, -1e-7, 400, dtype=f32)[:, None]
    y = (np.arange(400) // 7) % 3
    ranker = tr.Ranker("mse", n_estimators=3, min_data_in_leaf=2).fit(X, y, group=[10] * 40)
    with pytest.warns(
        TautrankWarning,
        match=r"^solr: adds 1e-6 to thresholds in float32, so \d+ of \d+ come out lower",
    ):
        content = exported(ranker, tmp_path, "solr")
    assert np.corrcoef(solr_scores(content, X, ["f1"]), ranker.predict(X))[0, 1] > 0.99


def test_solr_needs_nothing_of_pytorch(tmp_path):
    ranker, _ = lightgbm_ranker()
    ranker.save(tmp_path / "model.taut")
    code = f"""
import sys, tautrank
ranker = tautrank.Ranker.load({str(tmp_path / "model.taut")!r})
tautrank.export_model(ranker, {str(tmp_path / "model.json")!r}, "solr")
print(*[name for name in sys.modules if "torch" in name])
"""

    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )

    assert printed.stdout.split() == []
