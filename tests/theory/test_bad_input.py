"""Losses that a theorem is not about, options out of range and broken arrays get one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from tautrank.errors import DataError, OptionError
from tautrank.losses import loss
from tautrank.theory import (
    consistent_smoothing,
    directness_among,
    generalisation_error,
    jensen_clouds,
    lambdaloss_bound,
    lipschitz,
    majorise_minimise,
    ndcg_cost_bound,
    optimal_gamma,
    smoothed_metric,
    smoothing_limit,
    softmax_mrr_bound,
    softrank_bound,
    softrank_ndcg_bound,
    softrank_sigma_limit,
    spectral_gap,
    surrogate,
    xe_ndcg_bound,
)
from tautrank.theory.gamma import cross_entropy

ONE = ([0.0], [1])
TWO = ([0.0, 1.0], [1, 0])
late = loss("ndcg-loss1", discount=(0.5,))
APPLIES = "expected one that the theorem applies to: it is about"
Case = tuple[Callable[[], object], str]

OPTIONS: list[Case] = [
    (
        lambda: xe_ndcg_bound(*ONE, "listnet"),
        f"loss: found listnet; {APPLIES} xendcg without noise",
    ),
    (
        lambda: softmax_mrr_bound(*ONE, "mse"),
        f"loss: found mse; {APPLIES} listnet without noise",
    ),
    (
        lambda: lambdaloss_bound(*ONE, "mse"),
        f"loss: found mse; {APPLIES} ranknet, arp-loss1...",
    ),
    (
        lambda: lambdaloss_bound(*ONE, "lambdarank(norm=lightgbm)"),
        f"loss: found lambdarank(norm=lightgbm); {APPLIES} losses without norm",
    ),
    (
        lambda: lambdaloss_bound(*ONE, "lambdarank(assignment=soft)"),
        f"loss: found lambdarank(assignment=soft); {APPLIES} the hard assignment",
    ),
    (
        lambda: lambdaloss_bound(*TWO, "ndcg-loss2(k=1)"),
        f"loss: found ndcg-loss2(k=1); {APPLIES} full lists: k is 1, the longest list has 2 documents",
    ),
    (
        lambda: lambdaloss_bound(*ONE, late),
        f"loss: found ndcg-loss1(discount=0.5/); {APPLIES} discounts that start at 1",
    ),
    (
        lambda: ndcg_cost_bound(*ONE, "ranknet"),
        f"loss: found ranknet; {APPLIES} ndcg-loss1...",
    ),
    (
        lambda: surrogate("ranknet"),
        "loss: found ranknet; expected one whose value has the scale of a metric...",
    ),
    (lambda: softrank_bound(0.0, 1.0, 5, 1), "sigma: found 0.0; expected a number above 0"),
    (lambda: softrank_bound(0.1, -1.0, 5, 1), "delta: found -1.0; expected a number above 0"),
    (lambda: softrank_bound("a", 1.0, 5, 1), "sigma: found 'a'; expected a number above 0"),
    (lambda: softrank_sigma_limit(1.0, 0), "documents: found 0; expected a number of at least 1"),
    (
        lambda: softrank_ndcg_bound(*ONE, version="new"),
        "unknown version 'new' (known: contests, proof, stated)",
    ),
    (
        lambda: softrank_ndcg_bound(*TWO, "softrank(k=1)"),
        f"loss: found softrank(k=1); {APPLIES} full lists: k is 1...",
    ),
    (
        lambda: softrank_ndcg_bound(*ONE, "softrank(discount=reciprocal)"),
        f"loss: found softrank(discount=reciprocal); {APPLIES} the logarithmic discount",
    ),
    (
        lambda: softrank_ndcg_bound(*ONE, "softrank(estimator=ccs)"),
        f"loss: found softrank(estimator=ccs); {APPLIES} softrank with its exact...",
    ),
    (lambda: smoothing_limit(*ONE, "mrr", mu=0.1), "metric: found mrr; expected dcg or..."),
    (lambda: smoothing_limit(*ONE, mu=-1), "mu: found -1; expected a number of at least 0"),
    (
        lambda: smoothed_metric(*ONE, "dcg-rr", sigma=1.0, mu=0.0),
        "metric: found dcg-rr, which has no ties...",
    ),
    (
        lambda: smoothed_metric(*ONE, sigma=1.0, mu=0.0, draws=1),
        "draws: found 1; expected a whole number of at least 2",
    ),
    (
        lambda: consistent_smoothing(*ONE, 2.0),
        "precision: found 2.0; expected a number above 0 and at most 1",
    ),
    (
        lambda: generalisation_error(9, 2.0, lambda r: 0.0, difference=0),
        "difference: found 0; expected a number...",
    ),
    (
        lambda: generalisation_error(9, 2.0, lambda r: 0.0, 1.0),
        "confidence: found 1; expected a number above 0 and...",
    ),
    (
        lambda: generalisation_error(9, 2.0, lambda r: math.inf),
        "log_covering: found inf; expected a number of at...",
    ),
    (
        lambda: generalisation_error(9, 2.0, lambda r: 1e9 * r * r),
        "log_covering: found a number that grows with...",
    ),
    (
        lambda: lipschitz("listnet", [1], draws=0),
        "draws: found 0; expected a whole number of at least 1",
    ),
    (
        lambda: majorise_minimise("lambdarank", *ONE, steps=0),
        "steps: found 0; expected a whole number of at least 1",
    ),
    (lambda: spectral_gap([0.0], [0, 1], 0), "epsilon: found 0; expected a number above 0"),
    (lambda: jensen_clouds(draws=0), "draws: found 0; expected a whole number of at least 1"),
]
ARRAYS: list[Case] = [
    (
        lambda: cross_entropy(*TWO, [0.5, 1.5]),
        "gamma[1] (query 0, document 1): found 1.5; expected a number from 0 to 1",
    ),
    (lambda: cross_entropy(*TWO, [0.5]), "gamma: found length 1; expected 2, one per document"),
    (
        lambda: optimal_gamma([0.0], [1, 0]),
        "scores: found length 1; expected 2, one per document",
    ),
    (
        lambda: optimal_gamma([0.0, math.inf], [1, 0]),
        "scores[1] (query 0, document 1): found inf; expected a finite number",
    ),
    (
        lambda: smoothing_limit([math.nan], [1], mu=0.1),
        "scores[0] (query 0, document 0): found nan...",
    ),
    (
        lambda: consistent_smoothing([0.0, 0.0], [1e-13, 0.0], 0.1),
        "labels: found two that differ too little for any mu...",
    ),
    (lambda: directness_among("softrank", [], [1]), "scorings: found none..."),
]


@pytest.mark.parametrize(
    ("kind", "call", "sentence"),
    [
        (kind, *case)
        for kind, cases in ((OptionError, OPTIONS), (DataError, ARRAYS))
        for case in cases
    ],
    ids=lambda value: value.split(";")[0] if isinstance(value, str) else "",
)
def test_bad_input_gets_one_sentence(
    kind: type[Exception], call: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert re.fullmatch(re.escape(sentence).replace(re.escape("..."), ".*"), str(caught.value))
