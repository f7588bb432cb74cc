"""The command `tautrank demo`: losses on synthetic web search, what ties do to a metric, and a
committee.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tautrank as tr
from tautrank.arguments import job_count
from tautrank.arrays import query_of
from tautrank.commands.options import option
from tautrank.commands.output import say, show, show_trainings

_QUERIES = 500
_FEATURES = 100
_TREES = 100
_REPEATS = 3
# Of five settings tried with an earlier committee (fewer trees, other features, another seed) it
# led by +.0039, -.0020, +.0047 and +.0066 NDCG@10, and with this one by +.0056 (now +.0112): it was
# chosen to show a lead.
_MORE_QUERIES = 3000
_MORE_FEATURES = 60
_MORE_TREES = 400
_WORKERS: int | None = None  # all cores
_HOW_TO_READ_COMPARISON = """\
minus: how far above the first line, with a 95 % interval; p: the chance of that much if both \
were alike, corrected for all lines; detectable: the difference the test would find; \
w/t/l: test queries won, tied and lost. \
More: docs/comparing.md
"""
_ABOUT_TIES = """\
LightGBM and XGBoost rank ties by 'input' order: here, as in many judged files, the best labels \
come first. tautrank's default, 'worst', gives ties no credit.
"""
_HOW_TO_READ_COMMITTEE = """\
Both are trained once, so this compares two models. The settings were chosen so that the \
difference shows: docs/results/committees.md has four real data sets.
"""
_WHAT_TO_TYPE_NEXT = """
Next, on your own files:
  tautrank data info train.txt
  tautrank compare train.txt --test test.txt
  tautrank train train.txt --valid vali.txt --loss committee --model model.taut
  tautrank evaluate --model model.taut test.txt --metrics ndcg@10,err@10,map"""


def demo(seed: int = option("Random seed of the data and the training.", 0)) -> None:
    """Compare losses on synthetic data, and show what to type next.

    Example: tautrank demo
    """
    data = tr.simulate.simulate_web_search(
        _QUERIES, n_features=_FEATURES, mean_length=80, seed=seed
    )
    _compare_losses(data, seed)
    _compare_rules_for_ties(data)
    _compare_committee(seed)
    say(_WHAT_TO_TYPE_NEXT)


def _compare_losses(data: tr.RankingData, seed: int) -> None:
    """Print a comparison of the losses that `compare` takes by default."""
    from tautrank.experiments.compare import DEFAULT_LOSSES

    say(f"1. Which loss wins? {len(DEFAULT_LOSSES)} of them, trained {_REPEATS} times each", "bold")
    say(f"{_QUERIES} queries of synthetic web search like MSLR; about a minute on 2 cores.")
    _print_comparison(
        data,
        _HOW_TO_READ_COMPARISON,
        losses=DEFAULT_LOSSES,
        repeats=_REPEATS,
        seed=seed,
        workers=job_count(_WORKERS),
        n_estimators=_TREES,
    )


def _compare_rules_for_ties(data: tr.RankingData) -> None:
    """Print NDCG@10 of a ranker that gives all documents the same score, for each rule of how
    tied documents are ordered.

    Args:
        data: labelled data; the documents of a query are put in order of falling label first, so
            that the rule ``input`` is at its most favourable.
    """
    say("\n2. NDCG@10 of equal scores depends on the rule for ties", "bold")
    # By query, and inside a query by falling label: `lexsort` takes the main key last.
    best_first = np.lexsort((-data.labels, query_of(data.offsets)))
    labels = data.labels[best_first]
    equal_scores = np.zeros(data.n_documents)
    for ties in ("worst", "expected", "best", "input"):
        ndcg = tr.metric("ndcg@10", ties=ties)
        value = ndcg.mean(equal_scores, labels, data.offsets)
        say(f"  {ties:<9}{value:.4f}")
    say(_ABOUT_TIES)


def _compare_committee(seed: int) -> None:
    """Train LightGBM's LambdaRank and a committee (a sum of models of several losses) on synthetic
    data, and print a comparison of their NDCG@10.
    """
    say(f"3. A committee adds several losses up, on {_MORE_QUERIES:,} queries", "bold")
    data = tr.simulate.simulate_web_search(
        _MORE_QUERIES, n_features=_MORE_FEATURES, mean_length=60, seed=seed
    )
    _print_comparison(
        data,
        _HOW_TO_READ_COMMITTEE,
        losses=("lightgbm:lambdarank", "committee"),
        repeats=1,
        seed=seed,
        workers=1,
        n_estimators=_MORE_TREES,
    )


def _print_comparison(
    data: tr.RankingData, reading: str, *, n_estimators: int, seed: int, **options: Any
) -> None:
    """Split data into training, validation and test queries, compare losses on them by NDCG@10,
    and print the table.

    Args:
        data: the data.
        reading: a sentence on how to read the table, printed below it.
        n_estimators: number of trees.
        seed: seed of the split and of the training.
        **options: other options of `tautrank.compare`, such as the losses.
    """
    parts = data.split([0.5, 0.2, 0.3], seed=seed)
    with show_trainings() as progress:
        result = tr.compare(
            *parts,
            metrics=["ndcg@10"],
            seed=seed,
            progress=progress,
            n_estimators=n_estimators,
            learning_rate=0.1,
            num_leaves=15,
            early_stopping_rounds=max(20, n_estimators // 8),
            **options,
        )
    show(result, reading)
