"""NDCG@10 compared with ranx and scikit-learn: 6,000 queries of 120 documents."""

from __future__ import annotations

import numpy as np

import tautrank as tr
from bench.side_by_side import Claims, interleaved, speedup
from tautrank.commands.output import ERR

QUERIES, DOCUMENTS, ROUNDS = 6000, 120, 9


def claims() -> Claims:
    from ranx import Qrels, Run
    from ranx import evaluate as ranx_evaluate
    from sklearn.metrics import ndcg_score

    rng = np.random.default_rng(0)
    labels = rng.choice(5, (QUERIES, DOCUMENTS), p=tr.simulate.shapes.LABEL_SHARES).astype(
        np.float32
    )
    scores = rng.standard_normal((QUERIES, DOCUMENTS))
    offsets = np.arange(QUERIES + 1) * DOCUMENTS
    flat_scores, flat_labels = scores.ravel(), labels.ravel()

    ERR.print("building ranx's Qrels and Run (not timed) ...", style="dim")
    names = [f"d{i}" for i in range(DOCUMENTS)]
    judged = {
        f"q{q}": dict(zip(names, labels[q].astype(int).tolist(), strict=True))
        for q in range(QUERIES)
    }
    ranked = {f"q{q}": dict(zip(names, scores[q].tolist(), strict=True)) for q in range(QUERIES)}
    qrels, run = Qrels(judged), Run(ranked)
    ranx_evaluate(qrels, run, "ndcg_burges@10")  # compiles, and sorts both once and for all

    metric = tr.metric("ndcg@10", empty="zero")
    ours = metric.mean(flat_scores, flat_labels, offsets)
    theirs = ranx_evaluate(qrels, run, "ndcg_burges@10")
    assert abs(ours - theirs) < 1e-9, (ours, theirs)
    fresh = iter([Run(ranked) for _ in range(ROUNDS)])
    times = interleaved(
        {
            "tautrank": lambda: metric.mean(flat_scores, flat_labels, offsets),
            # A run that ranx has not sorted yet, as every new model's is; and one it has.
            "ranx": lambda: ranx_evaluate(qrels, next(fresh), "ndcg_burges@10"),
            "ranx, sorted before": lambda: ranx_evaluate(qrels, run, "ndcg_burges@10"),
        },
        ROUNDS,
    )
    for peer, asked in (("ranx", 5), ("ranx, sorted before", None)):
        yield speedup(
            f"NDCG@10, 6,000 x 120 compared with {peer}", times["tautrank"], times[peer], asked
        )

    expected = tr.metric("ndcg@10", ties="expected", gain="linear", empty="zero")
    coarse = np.round(scores, 1)  # many ties, as trees give
    for name, matrix in (("untied", scores), ("tied", coarse)):
        flat = matrix.ravel()
        ours = expected.mean(flat, flat_labels, offsets)
        assert abs(ours - ndcg_score(labels, matrix, k=10)) < 1e-9
        times = interleaved(
            {
                "tautrank": lambda flat=flat: expected.mean(flat, flat_labels, offsets),
                "sklearn": lambda matrix=matrix: ndcg_score(labels, matrix, k=10),
            },
            5,
        )
        what = f"ties=expected, {name} scores compared with scikit-learn"
        yield speedup(what, times["tautrank"], times["sklearn"], 2)
