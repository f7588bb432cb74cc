"""Kernels compute the same as plain Python, in which an index out of range is an error, as when
compiled.

Numba reads an array past its end without a word. What Python makes of the same code is an
independent interpreter.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tautrank as tr
from tautrank.losses import ScaleFreeMetric


class OwnReciprocalRank(ScaleFreeMetric):
    """MRR as a user would write it: the first place with a value counts."""

    def sums(self, values, scores, k):
        return np.flatnonzero(values > 0)

    def moved(self, values, sums, document, place, k):
        other_sums = sums[sums != document]
        # Whoever stood behind the document moves up, whoever is behind its new place moves down.
        ranks = other_sums - (other_sums > document)
        ranks = ranks + (ranks >= place)
        if values[document] > 0:
            ranks = np.append(ranks, place)
        return 1.0 / (1.0 + ranks.min()) if ranks.size else 0.0

    def __str__(self):
        return "own-mrr"


LOSSES = [
    *(name for name in tr.losses.REGISTRY if name != "stochasticrank"),
    "lambdarank(noise=gumbel)",
    "lambdarank(assignment=soft,samples=2)",
    "ndcg-loss1(assignment=soft,samples=2,norm=lightgbm)",
    "lambdarank(k=3,norm=xgboost)",
    "ndcg-loss2++(k=5,extend=random)",
    "lambdarank(k=3,norm=lightgbm,extend=all)",
    "yetiloss(metric=map,distribution=normal,samples=2)",
    "yetiloss(metric=err@4,distribution=gumbel,samples=2)",
    "plrank(metric=dcg@4,samples=2)",
    "xendcg(gamma=tight,hessian=exact)",
    "xendcg(gamma=0.5,hessian=diagonal)",
    "softrank(k=3,sigma=0.3)",
    "softrank(k=12,sigma=3)",
    "softrank(estimator=ccs)",
    *(
        f"stochasticrank(metric={m})"
        for m in ("ndcg@3", "dcg", "err@5", "mrr", "dcg-rr", "dcg-rr@2")
    ),
    "stochasticrank(metric=ndcg@4,sfa=true,samples=2)",
    *(f"reinforce(metric={m})" for m in ("err@5", "dcg-rr")),
]


def lists(dtype):
    """Lists of no, one, some and many documents: short enough to count, long enough for segments;
    ties, a long lead.
    """
    sizes = np.array([0, 1, 6, 2, 70, 3])
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rng = np.random.default_rng(5)
    labels = rng.choice(5, offsets[-1], p=[0.6, 0.2, 0.1, 0.05, 0.05]).astype(float)
    labels[-3:] = [4, 4, 0]  # two that stop every reader of err with max_label 4 almost surely
    scores = np.round(rng.normal(size=labels.size), 1)
    scores[offsets[3]] = 700.0
    return scores.astype(dtype), labels, offsets


def results(name: str) -> dict[str, np.ndarray]:
    """What a loss gives in both precisions."""
    results_by_name = {}
    subject = (
        tr.loss("stochasticrank", metric=OwnReciprocalRank()) if name == "own" else tr.loss(name)
    )
    for dtype in (np.float32, np.float64):
        scores, labels, offsets = lists(dtype)
        objective = subject.bind(labels, offsets, n_jobs=1)
        grad, hess = objective.gradients(scores, step=2)
        results_by_name[f"grad {dtype.__name__}"], results_by_name[f"hess {dtype.__name__}"] = (
            grad,
            hess,
        )
        results_by_name[f"values {dtype.__name__}"] = objective.values(scores, step=2)
    return results_by_name


CASES = {name: lambda name=name: results(name) for name in [*LOSSES, "own"]}


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory):
    """The same numbers from a process in which Numba compiles nothing."""
    file = tmp_path_factory.mktemp("uncompiled") / "numbers.npz"
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, __file__, str(file)], env=environment, check=True)
    with np.load(file) as numbers:
        return dict(numbers)


@pytest.mark.uncompiled
@pytest.mark.parametrize("case", CASES)
def test_compiled_kernels_compute_what_python_does(case, uncompiled):
    for name, numbers in CASES[case]().items():
        expected = uncompiled[f"{case}: {name}"]
        precision = (
            2e-5
            if "float32" in name and "values" not in name
            else 1e-7
            if "softrank" in case
            else 1e-11
        )
        scale = 1.0 + np.abs(expected).max(initial=0.0)
        np.testing.assert_allclose(
            numbers, expected, rtol=precision, atol=precision * scale, err_msg=name
        )


if __name__ == "__main__":
    np.savez(
        sys.argv[1],
        **{f"{case}: {what}": n for case, make in CASES.items() for what, n in make().items()},
    )
