"""ir_measures: the share of judged documents, the one metric that only it has; the others are
trec_eval's.
"""

from __future__ import annotations

import numpy as np
import pytest

import tautrank.metrics as M

from .lists import agree, random_lists

ir_measures = pytest.importorskip("ir_measures", reason="ir-measures is not installed")


@pytest.mark.parametrize("k", [1, 3, 100])
def test_judged_share(k):
    lists = random_lists(44, shortest=2)
    judged = np.random.default_rng(0).random(lists.scores.size) < 0.6
    judged[lists.offsets[:-1]] = True
    qrels, run = {}, {}
    for q, (start, stop) in enumerate(zip(lists.offsets, lists.offsets[1:], strict=False)):
        qrels[f"{q:03d}"] = {f"d{i}": int(lists.labels[i]) for i in range(start, stop) if judged[i]}
        run[f"{q:03d}"] = {f"d{i}": float(lists.scores[i]) for i in range(start, stop)}
    theirs = {
        m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.Judged @ k], qrels, run)
    }
    ours = M.metric("Judged", k=k).per_query(
        lists.scores, lists.labels, lists.offsets, judged=judged
    )
    agree(ours, [theirs[q] for q in sorted(qrels)])
