"""The command `tautrank demo`: losses compared on synthetic web search, and what ties do to a metric."""

from __future__ import annotations

from typing import Any

import numpy as np

import tautrank as tr
from tautrank.arguments import job_count
from tautrank.commands.options import option
from tautrank.commands.output import OUT, trainings_bar
from tautrank.report.terminal import summary_table

_QUERIES, _FEATURES, _TREES, _REPEATS = 500, 100, 100, 3
_WORKERS: int | None = None  # all cores
_NEXT = """\
LightGBM and XGBoost rank tied documents by 'input' order. Here the rows of a
query are sorted by label, as in many judged files, so giving every document
the same score looks perfect. tautrank's default, 'worst', gives ties no credit.

Next, on your own files:
  tautrank data info train.txt
  tautrank compare train.txt --test test.txt
  tautrank train train.txt --valid vali.txt --loss xendcg --model model.taut
  tautrank evaluate --model model.taut test.txt --metrics ndcg@10,err@10,map"""


def demo(seed: int = option(0, "Random seed of the data and the training.")) -> None:
    """Compare losses with LightGBM's own LambdaRank on synthetic web search data, and show what to type next.

    Example: tautrank demo
    """
    from tautrank.experiments.compare import DEFAULT_LOSSES

    OUT.print(f"A synthetic web search data set that resembles MSLR: {_QUERIES} queries, {_FEATURES} features.")
    data = tr.simulate.simulate_web_search(_QUERIES, n_features=_FEATURES, mean_length=80, seed=seed)
    OUT.print(summary_table(["simulated"], [data.describe()]))
    OUT.print(f"Training {len(DEFAULT_LOSSES)} losses on it, {_REPEATS} times each; about a minute on 2 cores.")
    train, valid, test = data.split([0.5, 0.2, 0.3], seed=seed)
    how: dict[str, Any] = {"metrics": ["ndcg@10", "map"], "repeats": _REPEATS, "seed": seed}
    how |= {"n_estimators": _TREES, "learning_rate": 0.1, "num_leaves": 15, "early_stopping_rounds": 20}
    with trainings_bar() as progress:
        result = tr.compare(train, valid, test, workers=job_count(_WORKERS), progress=progress, **how)
    OUT.print(*result.tables(), result.note(), markup=False)
    sorted_labels = test.labels[np.lexsort((-test.labels, np.repeat(np.arange(test.n_queries), test.sizes)))]
    OUT.print("\nNDCG@10 of the same score for every document, by the rule for ties:")
    for ties in ("worst", "expected", "best", "input"):
        value = tr.metric("ndcg@10", ties=ties).mean(np.zeros(sorted_labels.size), sorted_labels, test.offsets)
        OUT.print(f"  {ties:<9}{value:.4f}")
    OUT.print(_NEXT, markup=False)
