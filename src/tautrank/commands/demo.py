"""The demonstration: losses side by side on made-up web search, and what ties do to a number."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from tautrank.arguments import job_count
from tautrank.data import RankingData
from tautrank.experiments.compare import DEFAULT_LOSSES, compare
from tautrank.experiments.fit_best import Progress
from tautrank.metrics import metric
from tautrank.report.terminal import summary_table
from tautrank.simulate import simulate_web_search

_QUERIES, _FEATURES, _TREES, _REPEATS = 500, 100, 100, 3


def run_demo(console: Console, seed: int = 0, progress: Progress | None = None) -> None:
    """Print a data set's summary, a comparison of losses on it, and what to type next."""
    console.print(f"A made-up web search engine in the manner of MSLR: {_QUERIES} queries, {_FEATURES} features.")
    data = simulate_web_search(_QUERIES, n_features=_FEATURES, mean_length=80, seed=seed)
    console.print(summary_table(["simulated"], [data.describe()]))
    console.print(f"Training {len(DEFAULT_LOSSES)} losses on it, {_REPEATS} times each; about a minute on 2 cores.")
    train, valid, test = data.split([0.5, 0.2, 0.3], seed=seed)
    result = compare(
        train,
        valid,
        test,
        metrics=["ndcg@10", "map"],
        repeats=_REPEATS,
        seed=seed,
        workers=job_count(None),
        progress=progress,
        n_estimators=_TREES,
        learning_rate=0.1,
        num_leaves=15,
        early_stopping_rounds=20,
    )
    console.print(result.table())
    console.print(result.note(), markup=False)
    console.print()
    console.print(_ties(test))
    console.print(
        "'input' is the rule of LightGBM and XGBoost. Here the rows of a query are\n"
        "sorted by label, as judged files often are, and one score for all documents\n"
        "looks perfect. "
        "tautrank's default, 'worst', gives nothing for a tie.\n\n"
        "Next, on your own files:\n"
        "  tautrank data info train.txt\n"
        "  tautrank compare train.txt --test test.txt\n"
        "  tautrank train train.txt --valid vali.txt --loss xendcg --model model.taut\n"
        "  tautrank evaluate --model model.taut test.txt --metrics ndcg@10,err@10,map",
        markup=False,
    )


def _ties(data: RankingData) -> Table:
    """NDCG@10 of one score for all documents, by tie policy, rows sorted by label inside each query."""
    labels = data.labels[np.lexsort((-data.labels, np.repeat(np.arange(data.n_queries), data.sizes)))]
    table = Table(box=box.SIMPLE_HEAD, title="NDCG@10 of one score for all documents", title_justify="left")
    policies = ("worst", "expected", "best", "input")
    for policy in policies:
        table.add_column(policy, justify="right")
    scores = np.zeros(labels.size)
    table.add_row(*(f"{metric('ndcg@10', ties=policy).mean(scores, labels, data.offsets):.4f}" for policy in policies))
    return table
