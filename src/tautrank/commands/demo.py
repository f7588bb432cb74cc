"""The command `tautrank demo`: losses on synthetic web search, what ties do to a metric, and a committee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tautrank as tr
from tautrank.arguments import job_count
from tautrank.commands.options import option
from tautrank.commands.output import OUT, trainings_bar
from tautrank.report.terminal import summary_table

_QUERIES, _FEATURES, _TREES, _REPEATS = 500, 100, 100, 3
# Of five settings tried (fewer trees, other features, another seed) a committee whose members stop by themselves led by
# +.0039, -.0020, +.0047 and +.0066 NDCG@10, and with this one by +.0056: it was chosen to show a lead.
_MORE_QUERIES, _MORE_FEATURES, _MORE_TREES = 3000, 60, 400
_WORKERS: int | None = None  # all cores
_TIES = """\
LightGBM and XGBoost rank tied documents by 'input' order. Here the rows of a
query are sorted by label, as in many judged files, so giving every document
the same score looks perfect. tautrank's default, 'worst', gives ties no credit.
"""
_COMMITTEE = f"""\
The losses are close together; a committee adds several of them up. LightGBM's
own model and a committee on {_MORE_QUERIES:,} queries, with settings chosen so that the
difference shows (docs/results/committees.md has it on four real data sets):"""
_NEXT = """\
Next, on your own files:
  tautrank data info train.txt
  tautrank compare train.txt --test test.txt
  tautrank train train.txt --valid vali.txt --loss committee --model model.taut
  tautrank evaluate --model model.taut test.txt --metrics ndcg@10,err@10,map"""


def demo(seed: int = option("Random seed of the data and the training.", 0)) -> None:
    """Compare losses with LightGBM's own LambdaRank on synthetic web search data, and show what to type next.

    Example: tautrank demo
    """
    from tautrank.experiments.compare import DEFAULT_LOSSES

    OUT.print(f"A synthetic web search data set that resembles MSLR: {_QUERIES} queries, {_FEATURES} features.")
    data = tr.simulate.simulate_web_search(_QUERIES, n_features=_FEATURES, mean_length=80, seed=seed)
    OUT.print(summary_table(["simulated"], [data.describe()]))
    OUT.print(f"Training {len(DEFAULT_LOSSES)} losses on it, {_REPEATS} times each; about a minute on 2 cores.")
    test = _compare(data, DEFAULT_LOSSES, _REPEATS, seed, job_count(_WORKERS), _TREES)
    sorted_labels = test.labels[np.lexsort((-test.labels, np.repeat(np.arange(test.n_queries), test.sizes)))]
    OUT.print("\nNDCG@10 of the same score for every document, by the rule for ties:")
    for ties in ("worst", "expected", "best", "input"):
        value = tr.metric("ndcg@10", ties=ties).mean(np.zeros(sorted_labels.size), sorted_labels, test.offsets)
        OUT.print(f"  {ties:<9}{value:.4f}")
    OUT.print(_TIES, markup=False)
    OUT.print(_COMMITTEE, markup=False)
    more = tr.simulate.simulate_web_search(_MORE_QUERIES, n_features=_MORE_FEATURES, mean_length=60, seed=seed)
    _compare(more, ("lightgbm:lambdarank", "committee"), 1, seed, 1, _MORE_TREES)
    OUT.print(_NEXT, markup=False)


def _compare(
    data: tr.RankingData, losses: Sequence[str], repeats: int, seed: int, workers: int, trees: int
) -> tr.RankingData:
    """Print a comparison on half of the queries and return those it was tested on."""
    train, valid, test = data.split([0.5, 0.2, 0.3], seed=seed)
    how: dict[str, Any] = {"losses": losses, "metrics": ["ndcg@10", "map"], "repeats": repeats, "seed": seed}
    how |= {"n_estimators": trees, "learning_rate": 0.1, "num_leaves": 15, "early_stopping_rounds": max(20, trees // 8)}
    with trainings_bar() as progress:
        result = tr.compare(train, valid, test, workers=workers, progress=progress, **how)
    OUT.print(*result.tables(), result.note(), markup=False)
    return test
