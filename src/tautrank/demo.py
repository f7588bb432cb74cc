"""The demonstration: what ties and empty queries do to a number, on made-up web search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from tautrank.metrics import metric
from tautrank.report.terminal import summary_table
from tautrank.simulate import simulate_web_search

_COARSE_STEPS = 3


def run_demo(console: Console, seed: int = 0) -> None:
    """Print a data set's summary, then NDCG@10 of three scorers under every tie and empty-query policy."""
    console.print("A made-up web search engine in the manner of MSLR: 500 queries, 136 features.")
    data = simulate_web_search(500, seed=seed)
    console.print(summary_table(["simulated"], [data.describe()]))

    # Rows sorted by label inside each query: the order in which judged files are often written.
    order = np.lexsort((-data.labels, np.repeat(np.arange(data.n_queries), data.sizes)))
    labels, X = data.labels[order], data.X[order]
    best = int(np.argmax([_correlation(column, labels) for column in X.T]))
    scorers = {
        "one score for all": np.zeros(labels.size),
        f"feature {best + 1}, in {_COARSE_STEPS + 1} steps": np.digitize(
            X[:, best], np.quantile(X[:, best], np.linspace(0, 1, _COARSE_STEPS + 2)[1:-1])
        ).astype(float),
        f"feature {best + 1}": X[:, best],
    }
    table = Table(box=box.SIMPLE_HEAD, title="NDCG@10 of the same scores, by tie policy", title_justify="left")
    table.add_column("scores")
    policies = ("worst", "expected", "best", "input")
    for policy in policies:
        table.add_column(policy, justify="right")
    table.add_column("worst, empty = 1", justify="right")
    for name, scores in scorers.items():
        values = [metric("ndcg@10", ties=policy).mean(scores, labels, data.offsets) for policy in policies]
        values.append(metric("ndcg@10", empty="one").mean(scores, labels, data.offsets))
        table.add_row(name, *(f"{value:.4f}" for value in values))
    console.print(table)
    console.print(
        "'input' is the rule of LightGBM and XGBoost. Here the rows of a query are sorted by\n"
        "label, as judged files often are, and one score for all documents looks perfect.\n"
        "tautrank's default, 'worst', gives nothing for a tie.\n\n"
        "Next, on your own files:\n"
        "  tautrank data info train.txt\n"
        "  tautrank evaluate --scores scores.txt test.txt --metrics ndcg@10,err@10,map",
        markup=False,
    )


def _correlation(values: npt.NDArray[np.float32], labels: npt.NDArray[np.float32]) -> float:
    spread = float(values.std())
    return float(np.mean((values - values.mean()) * (labels - labels.mean())) / spread) if spread else 0.0
